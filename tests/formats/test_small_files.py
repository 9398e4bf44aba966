"""What a file of a few lines costs is the queries that are made for it: their number is held here, not their time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from citus_analysis.formats import Content, Hints, detect_format, format_named
from citus_analysis.schema import TABLES

VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 812332  20480 193412    0    0     3    17   51   88  2  1 97  0  0
 3  0      0 811020  20480 193440    0    0     0   120  612 1201 44 12 43  1  0
"""
IOSTAT = """\
Linux 6.1.0 (node-1) \t11/20/2026 \t_x86_64_\t(2 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           2.10    0.00    1.00    0.30    0.00   96.60

Device            r/s     w/s     rkB/s     wkB/s  %util
vda              1.20    3.40     10.00     20.00   1.50

"""
SERVER_LOG = "2026-11-20 21:32:36.884 UTC [123] LOG:  statement: SELECT 1\n" * 3
YCSB = """\
YCSB Client 0.17.0
2026-11-20 21:32:36:884 2 sec: 100 operations; 50 current ops/sec; est completion in 1 second
[OVERALL], RunTime(ms), 2000
[OVERALL], Throughput(ops/sec), 50.0
"""


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many queries polars has made since the last call."""
    made = 0
    collect = pl.LazyFrame.collect

    def counted(frame: pl.LazyFrame, *arguments: Any, **options: Any) -> Any:
        nonlocal made
        made += 1
        return collect(frame, *arguments, **options)

    def since() -> int:
        nonlocal made
        count, made = made, 0
        return count

    monkeypatch.setattr(pl.LazyFrame, "collect", counted)
    # What a frame of data makes of its own operations.
    monkeypatch.setattr(pl.LazyFrame, "_collect_eager", counted, raising=False)
    return since


@pytest.mark.parametrize(
    ("name", "text", "to_detect", "to_parse"),
    [
        ("vmstat", VMSTAT, 8, 37),
        ("iostat", IOSTAT, 10, 82),
        ("ycsb", YCSB, 10, 110),
        ("pglog", SERVER_LOG, 12, 5),
    ],
)
def test_a_small_file_takes_few_queries(
    name: str, text: str, to_detect: int, to_parse: int, tmp_path: Path, queries: Callable[[], int]
) -> None:
    path = tmp_path / "file.out"
    path.write_text(text)
    found = detect_format(Content(path))
    assert found is not None
    assert found.name == name
    assert queries() <= to_detect
    assert all(not len(piece.rejects) for piece in found.parse(Content(path), Hints(path.name)))
    assert queries() <= to_parse


def test_a_frame_that_has_the_columns_is_not_made_anew() -> None:
    frame = TABLES["vm_samples"].parsed().empty()
    assert TABLES["vm_samples"].parsed().conform(frame) is frame


def test_an_empty_frame_is_everybodys_own() -> None:
    first = TABLES["rejects"].empty()
    first.insert_column(0, pl.Series("other", [], pl.Int64))
    assert "other" not in TABLES["rejects"].empty().columns


@pytest.mark.parametrize(
    ("head", "sure"),
    [
        (b"", 0.0),
        (b"# a comment\n\n \xc2\xa0 \nsh 12 1.5: 7 cycles:\n\tff00 main (/bin/sh)\n", 0.9),
        (b"sh 12 1.5: 7 cycles: ff00 main (/bin/sh)\n", 0.9),
        (b"some text\nsh 12 1.5: 7 cycles:\n\tff00 main (/bin/sh)\n", 0.0),
        (b"1 2 3\n" * 9, 0.0),
    ],
)
def test_a_profile_is_recognised_by_its_first_lines(head: bytes, sure: float) -> None:
    assert format_named("perf_script").detect("file", head) == sure


def test_a_human_readable_number_is_read_where_only_one_line_has_it(tmp_path: Path) -> None:
    path = tmp_path / "file.out"
    path.write_text(IOSTAT.rstrip("\n") + "\nvdb              1.20    3.40     1.5M     20.00   1.50\n\n")
    rows = pl.concat(
        piece.frame("device_samples") for piece in format_named("iostat").parse(Content(path), Hints(path.name))
    )
    assert rows["read_kb_s"].to_list() == [10.0, 1536.0]
