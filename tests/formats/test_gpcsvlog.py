"""Greenplum's and Cloudberry's CSV log: csvlog's columns from the error code on, behind 16 others."""

from __future__ import annotations

import csv
import io
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.gpcsvlog import FORMAT
from tests.formats.sampling import ROOT, read, read_bytes

LOG: Final = ROOT / "tests" / "data" / "servers" / "greenplum" / "gpdb-2026-01-30_060000.csv"


def test_the_documented_columns() -> None:
    assert detect_format(Content(LOG)) is FORMAT
    found = read(FORMAT, LOG)
    events = found["log_events"]
    records = events.filter(pl.col("record_byte_offset").is_null())
    assert records.select("pid", "user", "severity", "sqlstate", "kind", "duration_us").rows() == [
        (12117, None, "LOG", "00000", "other", None),
        (12200, "gpadmin", "LOG", "00000", "duration", 5500.0),
        (12200, "gpadmin", "LOG", "00000", "duration", 7250.0),
        (12200, "gpadmin", "ERROR", "22012", "error", None),
    ]
    assert records["log_time"].to_list()[:2] == [
        datetime(2026, 1, 30, 6, 4, 27, 427_000, UTC),
        datetime(2026, 1, 30, 6, 5, 0, 100_000, UTC),
    ]
    assert records["client_host"].to_list() == [None, "10.0.0.9", "[local]", "10.0.0.9"]
    assert events.filter(pl.col("kind") == "detail")["severity"].to_list() == ["DETAIL", "CONTEXT", "STATEMENT"]
    assert found.rejects.is_empty()


@pytest.mark.parametrize("cut", [10, 100, 300, 520, 900])
def test_a_cut_row_is_rejected(tmp_path: Path, cut: int) -> None:
    data = LOG.read_bytes()
    found = read_bytes(FORMAT, tmp_path, data + data[:cut])
    assert found.rejects["byte_length"].sum() > 0
    assert found["log_events"].height >= 7


def test_a_csvlog_of_postgresql_is_none() -> None:
    other = LOG.parents[1] / "debian.csv"
    assert FORMAT.detect(other.name, other.read_bytes()) == 0
    assert detect_format(Content(other)) is not FORMAT


@pytest.mark.parametrize("seed", range(12))
def test_generated_rows(tmp_path: Path, seed: int) -> None:
    rng, expected, text = random.Random(seed), [], io.StringIO()
    writer = csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]))
    time = datetime(2026, 5, 1, tzinfo=UTC)
    for _ in range(rng.randint(1, 40)):
        time += timedelta(microseconds=rng.randrange(10**9))
        severity, pid, duration = rng.choice(["LOG", "ERROR", "WARNING", "FATAL"]), rng.randrange(1, 99999), 0.0
        said = rng.choice(['relation "t" does not exist', "a,b", "line\nbreak", "ä"])
        if severity == "LOG":
            duration = rng.randrange(1, 10**6) / 1000
            literal = rng.choice(["x", "a,b", 'q"q'])
            said = f"duration: {duration:.3f} ms  statement: SELECT '{literal}'"
        stamp = time.strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        where = [
            stamp,
            "u",
            "d",
            f"p{pid}",
            "th1",
            "10.0.0.1",
            "5",
            stamp,
            "7",
            "con3",
            "cmd9",
            f"seg{rng.randint(-1, 4)}",
        ]
        writer.writerow([*where, "", "dx1", "x1", "sx1", severity, "00000", said, *[""] * 6, "0", "f", "f.c", "10", ""])
        expected.append((time.replace(microsecond=time.microsecond // 1000 * 1000), pid, severity, duration * 1000))
    found = read_bytes(FORMAT, tmp_path, text.getvalue().encode())
    records = found["log_events"].select("log_time", "pid", "severity", pl.col("duration_us").fill_null(0).round(3))
    assert records.rows() == [(*row[:3], round(row[3], 3)) for row in expected]
    assert found.rejects.is_empty()
