"""csvlog and jsonlog give the rows that the stderr log of the same records gives."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from polars.testing import assert_frame_equal

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, detect_format, format_named, pgcsvlog
from citus_analysis.formats.pgcsvlog import FORMAT

from .pglog.logs import gathered, written

CSV = (
    '2026-11-20 21:03:47.877 UTC,"bench","ycsb",1580,"10.0.0.1:5432",65a1.62c,7,"INSERT",'
    '2026-11-20 21:00:00 UTC,3/4,0,ERROR,23505,"duplicate key ""k""","Key (k)=(1)\nexists.",,,,"line 1",'
    '"INSERT INTO public.t_102008\nVALUES (1)",12,,"citus_internal gpid=20000030999","client backend",,0\n'
    "2026-11-20 21:03:48.000 UTC,,,99,,65a1.63,1,,2026-11-20 21:00:00 UTC,,0,LOG,00000,"
    '"checkpoint starting: time",,,,,,,,,"","checkpointer",,0\n'
)
OBJECTS = [
    {
        "timestamp": "2026-11-20 21:03:47.877 UTC",
        "user": "bench",
        "dbname": "ycsb",
        "pid": 1580,
        "remote_host": "10.0.0.1",
        "line_num": 7,
        "vxid": "3/4",
        "error_severity": "ERROR",
        "state_code": "23505",
        "message": 'duplicate key "k"',
        "detail": "Key (k)=(1)\nexists.",
        "context": "line 1",
        "statement": "INSERT INTO public.t_102008\nVALUES (1)",
        "application_name": "citus_internal gpid=20000030999",
    },
    {
        "timestamp": "2026-11-20 21:03:48.000 UTC",
        "pid": 99,
        "error_severity": "LOG",
        "message": "checkpoint starting: time",
    },
]
JSON = "".join(json.dumps(item) + "\n" for item in OBJECTS)
COLUMNS = ("severity", "kind", "message", "shard_id", "pid", "session_line", "user", "client_host", "sqlstate", "gpid")
EXPECTED = [
    ("ERROR", "error", 'duplicate key "k"', None, 1580, 7, "bench", "10.0.0.1", "23505", 20000030999),
    ("DETAIL", "detail", "Key (k)=(1)\nexists.", None, 1580, 7, "bench", "10.0.0.1", "23505", 20000030999),
    ("CONTEXT", "detail", "line 1", None, 1580, 7, "bench", "10.0.0.1", "23505", 20000030999),
    ("STATEMENT", "detail", None, 102008, 1580, 7, "bench", "10.0.0.1", "23505", 20000030999),
    ("LOG", "checkpoint", "checkpoint starting: time", None, 99, None, None, None, None, None),
]


@pytest.mark.parametrize(("name", "text"), [("pgcsvlog", CSV), ("pgjsonlog", JSON)])
def test_rows(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path, text.encode(), "postgresql.log")
    found = detect_format(Content(path))
    assert found is format_named(name)
    log = gathered(list(format_named(name).parse(Content(path), Hints(path.name))))
    rows = log.events.select(COLUMNS).rows()
    if name == "pgcsvlog":
        assert rows[-1][5:9] == (1, None, None, "00000")
        rows[-1] = (*rows[-1][:5], None, None, None, None, None)
    assert rows == EXPECTED
    assert log.column("record_byte_offset") == [None, 0, 0, 0, None]
    assert log.events.get_column("log_time").dt.strftime("%H:%M:%S%.3f")[0] == "21:03:47.877"
    assert log.accounted == len(text.encode())


def test_lines_that_are_no_record_are_rejected(tmp_path: Path) -> None:
    data = (JSON + '{"message": "cut').encode()
    log = gathered(list(format_named("pgjsonlog").parse(Content(written(tmp_path, data, "a.json")), Hints())))
    assert log.events.height == len(EXPECTED)
    assert log.rejects.get_column("byte_length").to_list() == [len('{"message": "cut')]
    assert log.accounted == len(data)


def test_a_row_cut_off_is_rejected(tmp_path: Path) -> None:
    data = (CSV + "2026-11-20 21:03:4").encode()
    log = gathered(list(format_named("pgcsvlog").parse(Content(written(tmp_path, data, "a.csv")), Hints())))
    assert log.events.height == len(EXPECTED)
    assert log.rejects.height == 1
    assert log.accounted == len(data)


@pytest.mark.parametrize("name", ["pgcsvlog", "pgjsonlog"])
def test_other_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="line 1"):
        list(format_named(name).parse(Content(written(tmp_path, b"hello\n")), Hints()))
    assert list(format_named(name).parse(Content(written(tmp_path, b"")), Hints())) == []


ROW = (
    b'2026-11-20 21:03:47.877 UTC,"u","d",1580,"[local]",65a1.62c,1,"SELECT",2026-11-20 21:00:00 UTC,3/4,0,LOG,'
    b'00000,"duration: 1.500 ms  statement: SELECT ""a"", \'b\'\n FROM t\n\nWHERE c",,,,,,,,,"psql",'
    b'"client backend",,0\n'
)
BEFORE, BEHIND = ROW.replace(b"1.500", b"1.000"), ROW.replace(b"1.500", b"2.000")
DAMAGES = {
    "time": ROW.replace(b"21:03:47", b"21:0x:47"),
    "date": ROW.replace(b"2026-11-20 21:03", b"2026/11/20 21:03"),
    "pid": ROW.replace(b"1580", b"15\xff0"),
    "line number": ROW.replace(b"65a1.62c,1,", b"65a1.62c,x,"),
    "severity": ROW.replace(b"LOG", b"LXG"),
    "session": ROW.replace(b"65a1.62c", b"65a1?62c"),
    "quote lost": ROW.replace(b',"duration', b",duration"),
    "last quote lost": ROW.replace(b'WHERE c"', b"WHERE c"),
    "cut in the head": ROW[:40] + b"\n",
    "cut in the message": ROW[:170] + b"\n",
    "cut in the last columns": ROW[:-12] + b"\n",
    "its end": ROW[200:],
    "column lost": ROW.replace(b',"client backend",,0', b',"client backend",0'),
    "column more": ROW.replace(b',"client backend",,0', b',"client backend",,0,'),
    "joined": ROW[:-1] + ROW,
    "joined and cut": ROW[:150] + ROW,
    "zeros": b"\x00" * 512 + b"\n",
    "zeros within": ROW.replace(b"FROM", b"\x00\x00\x00\x00"),
    "zeros before": b"\x00" * 512 + ROW,
    "garbage": b"\xfe\x01 not of this file\n",
    "other program": b"cp: cannot stat 'pg_wal/000000010000000000000001': No such file or directory\n",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_no_whole_row_is_rejected(tmp_path: Path, damage: bytes) -> None:
    log = gathered(list(FORMAT.parse(Content(written(tmp_path, BEFORE + damage + BEHIND, "a.csv")), Hints("a.csv"))))
    assert log.column("duration_us") == [1000.0, 2000.0]
    assert log.column("byte_length") == [len(BEFORE), len(BEHIND)]
    assert log.rejects.select("byte_offset", "byte_length").rows() == [(len(BEFORE), len(damage))]
    assert log.accounted == len(BEFORE + damage + BEHIND)


@pytest.mark.sharded(4)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("chunk", [64, 1000, 5000])
def test_chunks_do_not_matter_for_damaged_rows(tmp_path: Path, damage: bytes, chunk: int) -> None:
    data = (BEFORE + damage + BEHIND) * 10
    path = written(tmp_path, data, "a.csv")
    whole = gathered(list(FORMAT.parse(Content(path), Hints("a.csv"))))
    with patch.object(pgcsvlog, "_CHUNK", chunk):
        cut = gathered(list(FORMAT.parse(Content(path), Hints("a.csv", jobs=2))))
    assert whole.events.height == 20
    assert_frame_equal(cut.events, whole.events, categorical_as_str=True)
    assert (
        cut.rejects.select("byte_offset", "byte_length").rows()
        == whole.rejects.select("byte_offset", "byte_length").rows()
    )


@pytest.mark.parametrize("columns", [b"", b',"client backend"', b',"client backend",1579,-12'])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_rows_of_every_version_are_whole(tmp_path: Path, columns: bytes, end: bytes) -> None:
    row = ROW.replace(b',"client backend",,0\n', columns)
    log = gathered(list(FORMAT.parse(Content(written(tmp_path, row + b"\n" + row + end, "a.csv")), Hints("a.csv"))))
    assert log.column("duration_us") == [1500.0, 1500.0]
    assert log.column("application") == ["psql", "psql"]
    assert log.rejects.is_empty()


def test_exports_that_leave_a_column_out_are_read(tmp_path: Path) -> None:
    data = ROW.replace(b',"client backend",,0', b',"client backend",0') * 2
    log = gathered(list(FORMAT.parse(Content(written(tmp_path, data, "a.csv")), Hints("a.csv"))))
    assert log.column("duration_us") == [1500.0, 1500.0]
    assert log.rejects.is_empty()
