"""Counters of a server between snapshots: exact where they can be, and a word where they cannot."""

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, server_views
from citus_analysis.formats.deliveries.content import Block
from citus_analysis.formats.parsing import csv_records as _csv_records
from citus_analysis.formats.parsing.lines import split_into_blocks
from tests.formats.sampling import ROOT, Read, read, read_bytes

DATA = ROOT / "tests" / "data" / "snapshots"
STATEMENTS = "sample_time,dealloc,stats_reset,userid,dbid,queryid,calls,rows,mean_exec_time,query"
WAL = "sample_time,wal_records,wal_fpi,wal_bytes,stats_reset"
RESET, LATER = "2026-03-01 11:00:00+00", "2026-03-01 12:00:05+00"


def of(name: str) -> pl.DataFrame:
    return read(server_views.FORMAT, DATA / name)["server_counters"]


def from_lines(folder: Path, *lines: str) -> Read:
    return read_bytes(server_views.FORMAT, folder, "".join(f"{line}\n" for line in lines).encode())


def notes(found: Read, counter: str = "calls") -> list[tuple[str, float | None, float | None, str | None]]:
    rows = found["server_counters"].filter(pl.col("counter") == counter)
    return rows.select("key", "value", "total", "note").rows()


def entry(second: int, queryid: int, calls: int, *, dealloc: int | str = 0, reset: str = RESET) -> str:
    return f"2026-03-01 12:00:{second:02}+00,{dealloc},{reset},10,5,{queryid},{calls},{2 * calls},0.5,"


@pytest.mark.parametrize(
    ("name", "view", "counters"),
    [
        ("pg_stat_wal-pg15.csv", "pg_stat_wal", {"wal_records": 6488.0, "wal_bytes": 2595908.0, "wal_sync": 1802.0}),
        ("pg_stat_bgwriter-pg15.csv", "pg_stat_bgwriter", {"checkpoints_timed": 0.0}),
        ("pg_stat_checkpointer-pg18.csv", "pg_stat_checkpointer", {"num_requested": 0.0}),
    ],
)
def test_recordings_of_views_of_one_row(name: str, view: str, counters: dict[str, float]) -> None:
    rows = of(name)
    assert rows["view"].unique().to_list() == [view]
    assert rows["note"].null_count() == rows.height
    assert (rows["sample_time"] > rows["from_time"]).all()
    grown = dict(rows.select(pl.col("counter").cast(pl.String), "value").iter_rows())
    assert {name: grown[name] for name in counters} == counters


def test_recordings_of_views_of_many_rows() -> None:
    calls = of("pg_stat_statements-pg15.csv").filter(pl.col("counter") == "calls")
    assert sorted(calls["value"].to_list()) == [126.0, 140.0, 144.0, 162.0, 163.0, 752.0]
    written = of("pg_stat_io-pg18.csv").filter(
        pl.col("key") == "client backend/wal/normal", pl.col("counter") == "writes"
    )
    assert written["value"].to_list() == [3003.0]
    databases = of("pg_stat_database-pg15.csv").filter(pl.col("counter") == "xact_commit")
    assert databases["key"].cast(pl.String).to_list() == ["", "postgres", "template0", "template1", "ycsb"]
    assert of("citus_stat_statements-12.1.csv")["note"].cast(pl.String).unique().to_list() == ["first"]


def test_connections_of_citus_are_counted() -> None:
    """Two clients made a connection each, and took it over for the other statements on that node."""
    found = of("citus_stat_counters-15.csv").filter(pl.col("key") == "postgres")
    assert dict(found.select(pl.col("counter").cast(pl.String), "value").rows()) == {
        "connection_establishment_succeeded": 2.0,
        "connection_establishment_failed": 0.0,
        "connection_reused": 100.0,
        "query_execution_single_shard": 200.0,
        "query_execution_multi_shard": 0.0,
    }


def test_means_and_texts_are_no_counters(tmp_path: Path) -> None:
    found = from_lines(tmp_path, STATEMENTS, entry(0, 1, 5), entry(9, 1, 8) + "\"SELECT 'secret-of-mine'\"")
    assert set(found["server_counters"]["counter"].cast(pl.String)) == {"calls", "rows"}
    assert "secret-of-mine" not in str(found["server_counters"].rows())


def test_an_entry_that_is_new_counts_from_nothing_where_nothing_was_evicted(tmp_path: Path) -> None:
    found = from_lines(tmp_path, STATEMENTS, entry(0, 1, 5), entry(9, 1, 8), entry(9, 2, 3))
    assert notes(found) == [("10/5/1", 3.0, 8.0, None), ("10/5/2", 3.0, 3.0, None)]


def test_evictions_are_said(tmp_path: Path) -> None:
    rows = [entry(0, 1, 5), entry(0, 2, 1), entry(9, 1, 8, dealloc=1), entry(9, 3, 3, dealloc=1)]
    assert notes(from_lines(tmp_path, STATEMENTS, *rows)) == [
        ("10/5/1", 3.0, 8.0, "evictions"),
        ("10/5/2", None, None, "gone"),
        ("10/5/3", None, 3.0, "new"),
    ]


def test_without_the_number_of_evictions_a_new_entry_is_not_known(tmp_path: Path) -> None:
    found = from_lines(
        tmp_path, STATEMENTS, entry(0, 1, 5, dealloc=""), entry(9, 1, 8, dealloc=""), entry(9, 2, 3, dealloc="")
    )
    assert notes(found) == [("10/5/1", 3.0, 8.0, None), ("10/5/2", None, 3.0, "new")]


def test_nothing_is_subtracted_across_a_reset(tmp_path: Path) -> None:
    rows = [entry(0, 1, 5), entry(9, 1, 8, reset=LATER), entry(9, 2, 4, reset=LATER)]
    assert notes(from_lines(tmp_path, STATEMENTS, *rows)) == [
        ("10/5/1", None, 8.0, "reset"),
        ("10/5/2", None, 4.0, "reset"),
    ]
    wal = [f"2026-03-01 12:00:00+00,10,3,100,{RESET}", f"2026-03-01 12:00:09+00,12,1,200,{RESET}"]
    # One counter went back, so the others began anew too.
    assert notes(from_lines(tmp_path, WAL, *wal), "wal_records") == [("", None, 12.0, "decreased")]


def test_an_only_snapshot_stands_for_itself(tmp_path: Path) -> None:
    assert notes(from_lines(tmp_path, STATEMENTS, entry(0, 1, 5))) == [("10/5/1", None, 5.0, "first")]


@pytest.mark.parametrize("cell", ["x", "1e999", "nan", " 12", "\t12", "12\t", '" 12"', "1_2"])
def test_a_counter_that_is_none_rejects_its_record(tmp_path: Path, cell: str) -> None:
    found = from_lines(tmp_path, WAL, f"2026-03-01 12:00:00+00,{cell},3,100,", "2026-03-01 12:00:09+00,12,1,200,")
    assert found.rejects["reason"].to_list() == ["wal_records is no number"]
    assert found["server_counters"]["sample"].unique().to_list() == [0]


@pytest.mark.parametrize("cell", ["12", "+12", "1.2e1", "12.0", '"12"', "00000000000000000012", "12.00000000000000"])
def test_a_counter_is_read_however_it_is_written(tmp_path: Path, cell: str) -> None:
    found = from_lines(
        tmp_path, WAL, f"2026-03-01 12:00:00+00,2,3,100,{RESET}", f"2026-03-01 12:00:09+00,{cell},5,,{RESET}"
    )
    assert found.rejects.is_empty()
    rows = found["server_counters"].select(pl.col("counter").cast(pl.String), "value", "total").rows()
    assert rows == [("wal_bytes", None, None), ("wal_fpi", 2.0, 5.0), ("wal_records", 10.0, 12.0)]


@given(steps=st.lists(st.integers(0, 10**6), min_size=2, max_size=30), cut=st.integers(40, 400))
def test_differences_add_up_whatever_the_size_of_blocks(
    steps: list[int], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    total, lines = 0, [WAL]
    for number, step in enumerate(steps):
        total += step
        lines.append(f"2026-03-01 12:{number:02}:00+00,{total},{total},{total},{RESET}")
    whole = from_lines(tmp_path_factory.mktemp("whole"), *lines)["server_counters"].filter(
        pl.col("counter") == "wal_bytes"
    )
    assert whole["value"].to_list() == steps[1:]
    assert whole["sample"].to_list() == list(range(1, len(steps)))
    with pytest.MonkeyPatch.context() as patch:
        small = split_into_blocks

        def cut_up(content: Content, complete: Callable[[bytes, int], int]) -> Iterator[Block]:
            for block in small(content, complete):
                begin = 0
                while begin < len(block.data):
                    end = begin + (complete(block.data[begin : begin + cut], 0) or len(block.data) - begin)
                    yield Block(block.offset + begin, block.data[begin:end], end - begin)
                    begin = end

        patch.setattr(_csv_records, "split_into_blocks", cut_up)
        pieces = from_lines(tmp_path_factory.mktemp("cut"), *lines)["server_counters"]
    assert pieces.filter(pl.col("counter") == "wal_bytes").drop("note").equals(whole.drop("note"))


def test_other_files_are_no_snapshots(tmp_path: Path) -> None:
    assert server_views.FORMAT.detect("x.csv", b"wal_records,wal_bytes\n1,2\n") == 0
    assert server_views.FORMAT.detect("x.csv", b"time,queryid\n") == 0
    with pytest.raises(FormatError, match="of no view"):
        from_lines(tmp_path, "a,b", "1,2")
