"""A server's log is told from what a client shows of the server's messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.pglog import FORMAT

from .logs import line, read, written

SHARED = Path(__file__).parents[3].parent / "shared"
CLIENTS = [
    *sorted((SHARED / "corpus" / "w2-multishard" / "truth").glob("psql-*.out")),
    *sorted((SHARED / "corpus" / "w2-explain" / "explain").glob("*")),
    *sorted((SHARED / "realworld" / "explain").glob("*")),
]
PSQL = [
    'ERROR:  relation "t" does not exist\nLINE 1: SELECT * FROM t\n                      ^\n',
    'NOTICE:  table "t" does not exist, skipping\nDROP TABLE\n',
    " count \n-------\n    20\n(1 row)\n\nERROR:  duplicate key\nDETAIL:  Key (k)=(1) already exists.\n",
    'psql:setup.sql:12: ERROR:  syntax error at or near "x"\nLINE 1: x\n        ^\n',
    'ERROR:  date/time field value out of range: "2026-11-20 25:00:00"\nLINE 1: SELECT ...\n',
    "SET\nLOG:  statement: SELECT 1;\n ?column? \n----------\n        1\n(1 row)\n",
    "WARNING:  there is no transaction in progress\nCOMMIT\nHINT:  none\n",
    "FATAL:  the database system is starting up\n",
]
SERVER = [
    "LOG:  database system was shut down\nLOG:  database system is ready to accept connections\n",
    "LOG:  duration: 0.067 ms\nERROR:  duplicate key\nDETAIL:  Key.\nSTATEMENT:  INSERT INTO t\n\tVALUES (1)\n",
    line("NOTICE:  only this").decode(),
    "some@prefix 2026-11-20 21:03:47 of nobody else's LOG:  duration: 0.067 ms\n",
]


@pytest.mark.parametrize("text", PSQL)
def test_what_psql_prints_is_no_log(tmp_path: Path, text: str) -> None:
    assert detect_format(Content(written(tmp_path, text.encode(), "psql.out"))) is None


@pytest.mark.parametrize("text", SERVER)
def test_what_a_server_writes_is_one(tmp_path: Path, text: str) -> None:
    assert detect_format(Content(written(tmp_path, text.encode(), "server.out"))) is FORMAT


def test_a_name_that_says_so_is_believed(tmp_path: Path) -> None:
    path = written(tmp_path, b"ERROR:  oops\nLINE 1: oops\n", "PGLOG-0-1.log")
    assert detect_format(Content(path)) is FORMAT
    log = read(path)
    assert log.column("severity") == ["ERROR"]
    assert log.accounted == path.stat().st_size


@pytest.mark.realworld
@pytest.mark.skipif(not CLIENTS, reason="the folders of recordings made by others are absent")
@pytest.mark.parametrize("path", CLIENTS, ids=[path.name for path in CLIENTS])
def test_what_clients_recorded_is_no_log(path: Path) -> None:
    found = detect_format(Content(path))
    assert found is None or "log_events" not in found.tables


def test_one_line_that_looks_like_syslogs_does_not_make_the_log_one(tmp_path: Path) -> None:
    said = b"Nov  1 21:03:47 a.b pg-1[1234567890]: [12-2] LOG:  x\n"
    got = read(written(tmp_path, 4 * line("LOG:  duration: 0.067 ms") + said))
    assert got.events.height == 4
    assert got.rejects.get_column("byte_length").to_list() == [len(said)]
