"""Server logs in the shapes of distributions and cloud services: detected, and read as the server wrote them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.formats import Content, Hints, detect_format, format_named

from .pglog.logs import Read, gathered, written

DATA = Path(__file__).parents[1] / "data" / "servers"
SAME = ("severity", "kind", "pid", "session_line", "duration_us", "statement_kind", "statement_fingerprint", "message")


def detected(path: Path, expected: str) -> Read:
    content = Content(path)
    found = detect_format(content)
    assert found is not None
    assert found.name == expected
    log = gathered(list(found.parse(content, Hints(path.name))))
    assert log.accounted == path.stat().st_size
    return log


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("debian.log", "pglog"),
        ("rds.log", "pglog"),
        ("rds-single-space.log", "pglog"),
        ("debian.csv", "pgcsvlog"),
        ("debian.json", "pgjsonlog"),
        ("cloudnativepg.json", "pgjsonlog"),
    ],
)
def test_every_record_is_read(name: str, expected: str) -> None:
    log = detected(DATA / name, expected)
    assert log.rejects.is_empty()
    assert log.events.get_column("log_time").null_count() == 0
    durations = log.events.filter(pl.col("duration_us") > 0)
    assert durations.height == 7
    inserted = durations.filter(pl.col("statement_kind") == "insert")
    assert inserted.select("user", "database").rows() == [("bench", "postgres")]
    assert log.events.filter(pl.col("severity") == "ERROR").get_column("message").to_list() == [
        'duplicate key value violates unique constraint "t_pkey"'
    ]


@pytest.mark.parametrize("name", ["debian.csv", "debian.json", "cloudnativepg.json"])
def test_one_run_reads_the_same_in_every_shape(name: str) -> None:
    """What a record says; csvlog and jsonlog number records, stderr numbers details, too."""
    shapes = {"debian.csv": "pgcsvlog", "debian.json": "pgjsonlog", "cloudnativepg.json": "pgjsonlog"}
    mine = detected(DATA / name, shapes[name]).events
    theirs = detected(DATA / "debian.log", "pglog").events
    columns = [column for column in SAME if column != "session_line"]
    assert_frame_equal(
        mine.select(columns).sort("pid", maintain_order=True),
        theirs.select(columns).sort("pid", maintain_order=True),
        categorical_as_str=True,
    )


def test_a_copy_with_one_space_reads_as_the_log() -> None:
    one, two = (detected(DATA / name, "pglog").events for name in ("rds-single-space.log", "rds.log"))
    places = {"byte_offset", "byte_length", "record_byte_offset"}
    assert_frame_equal(one.drop(places), two.drop(places), categorical_as_str=True)


def test_what_an_operator_says_is_noise(tmp_path: Path) -> None:
    text = (DATA / "cloudnativepg.json").read_bytes()
    own = b"".join(line for line in text.splitlines(keepends=True) if b'"logger":"postgres"' not in line)
    log = detected(DATA / "cloudnativepg.json", "pgjsonlog")
    assert log.noise == len(own) > 0
    broken = text + b'{"level":"info","logger":"postgres","msg":"record","record":"cut"}\n' + b'{"no":"logger"}\n'
    log = gathered(list(format_named("pgjsonlog").parse(Content(written(tmp_path, broken, "a.json")), Hints("a.json"))))
    assert log.accounted == len(broken)
    assert log.rejected > 0
