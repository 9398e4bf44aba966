"""Traces of an iteration whose records are sorted by session, group by group, by way of files."""

from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.dataset import Dataset, ingest, open_dataset, records
from citus_analysis.errors import DatasetError
from citus_analysis.spans.sessions import NotInOrder
from tests.recordings import RECORDED

TABLES = {
    "statements": ["start_time", "source_id", "byte_offset"],
    "spans": ["start_time", "source_id", "byte_offset", "span_id"],
    "match_quality": ["parent_node", "child_node"],
    "clock_offsets": ["parent_node", "child_node"],
}


def refused() -> AbstractContextManager[object]:
    """As if no records stood in order."""
    return patch.object(records, "consume_records", side_effect=NotInOrder)


def ingested(source: Path, out: Path, most_records: int) -> Dataset:
    with (
        refused(),
        patch.object(records, "MOST_RECORDS", most_records),
        patch.object(records, "_BATCH", 100),
    ):
        assert ingest(source, out).exit_code == 0
    assert list((out / "_staging").iterdir()) == []
    return open_dataset(out)


@pytest.mark.sharded(2)
@pytest.mark.parametrize(("resource", "most"), [("w2-t16-insert", 500), ("w2-multishard", 50)])
def test_groups_give_what_the_whole_gives(tmp_path: Path, resource: str, most: int) -> None:
    whole = ingested(RECORDED / resource, tmp_path / "whole", 10**9)
    with patch.object(records, "_divide", wraps=records._divide) as divide:
        parts = ingested(RECORDED / resource, tmp_path / "parts", most)
    assert divide.call_count > 2
    for table, order in TABLES.items():
        expected, found = (dataset.table(table).sort(order) for dataset in (whole, parts))
        assert expected.height > 0
        # Sums of microseconds since 1970 in another order.
        assert_frame_equal(found, expected, abs_tol=0.01, categorical_as_str=True)


def test_large_derivations_give_what_small_ones_give(tmp_path: Path) -> None:
    small = ingested(RECORDED / "w2-t4-insert", tmp_path / "small", 10**9)
    with patch.object(records, "MOST_RECORDS", 10):
        large = ingested(RECORDED / "w2-t4-insert", tmp_path / "large", 500)
    assert large.tables() == small.tables()
    for table in ("runs", *TABLES):
        assert large.table(table).height == small.table(table).height > 0


def test_a_log_without_pids_has_no_sessions(tmp_path: Path) -> None:
    log = tmp_path / "src" / "postgresql.log"
    log.parent.mkdir()
    log.write_text("2026-11-20 21:03:47.877 UTC LOG:  duration: 1.000 ms\n" * 5_000, encoding="utf-8")
    with refused(), patch.object(records, "MOST_RECORDS", 500):
        summary = ingest(log.parent, tmp_path / "out", meta={"log_line_prefix": "%m "})
    assert summary.rows["log_events"] == 5_000
    assert open_dataset(tmp_path / "out").table("spans").height == 0


def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with (
        refused(),
        patch.object(records, "MOST_RECORDS", 500),
        patch.object(pl.DataFrame, "write_ipc_stream", side_effect=full),
        pytest.raises(DatasetError, match="No space left on device"),
    ):
        ingest(RECORDED / "w2-t16-insert", tmp_path / "out")
    assert list((tmp_path / "out" / "_staging").iterdir()) == []
    ingested(RECORDED / "w2-t16-insert", tmp_path / "out", 500)


def test_pieces_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with (
        patch.object(records, "IN_MEMORY", 0),
        patch.object(records, "spill_arrays", side_effect=full),
        pytest.raises(DatasetError, match="No space left on device"),
    ):
        ingest(RECORDED / "w2-t4-insert", tmp_path / "out")
    assert list((tmp_path / "out" / "_staging").iterdir()) == []


def test_what_a_killed_ingest_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "out" / "_staging" / "pieces-left" / "groups-left" / "0"
    left.mkdir(parents=True)
    (left / "000000-000000.arrows").write_bytes(b"half")
    ingested(RECORDED / "w2-multishard", tmp_path / "out", 10**9)
