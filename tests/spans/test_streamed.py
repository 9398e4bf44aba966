"""Records that are taken in as they stand give what they give sorted by session; records out of order are refused."""

from collections.abc import Iterator

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces, sessions
from citus_analysis.spans.record_order import USED, list_log_files
from citus_analysis.spans.sessions import Columns, NotInOrder, SessionStore
from citus_analysis.spans.spilling import keep_in_memory
from citus_analysis.spans.traces import Traces, trace_iteration
from tests.spans.recordings import Cut, Recording, load, traces_of
from tests.spans.test_damaged_logs import DAMAGES, delegating, in_pieces


def batches(recording: Recording, files: pl.DataFrame, rows_at_once: int) -> Iterator[tuple[int, Columns]]:
    """The records of each file, some at a time."""
    for source, name in files.select("source", "source_id").iter_rows():
        rows = recording.log_events.filter(pl.col("source_id") == name).select(USED)
        for begin in range(0, rows.height, rows_at_once):
            part = rows[begin : begin + rows_at_once]
            yield source, {column.name: column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in part}


def taken_in(recording: Recording, rows_at_once: int, groups: int = 1) -> SessionStore:
    """The records of one iteration, some at a time."""
    files = list_log_files(recording.log_events)
    records = SessionStore(files, recording.nodes, distributed=True, spill=keep_in_memory, groups=groups)
    records.consume(batches(recording, files, rows_at_once))
    return records


def stacked(records: SessionStore) -> Traces:
    pieces = list(trace_iteration(records))
    return Traces(
        **{
            name: pl.concat([TABLES[name].conform(getattr(piece, name)) for piece in pieces])
            for name in vars(pieces[0])
        }
    )


@pytest.mark.sharded(3)
@pytest.mark.parametrize("resource", ["w2-t4-insert", "w2-multishard", "w2-txn-update", "w2-binary-t16-insert"])
@pytest.mark.parametrize("rows_at_once", [37, 1_000_000])
def test_pieces_do_not_matter(resource: str, rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CHUNK_EXECUTIONS", 100)
    records = taken_in(load(resource, (1,)), rows_at_once, groups=1 + 2 * (rows_at_once < 100))
    assert len(records.chunks) > (rows_at_once < 100)
    found, expected = stacked(records), traces_of(resource, (1,))
    order = ["start_time", "source_id", "byte_offset", "span_id"]
    assert_frame_equal(found.spans.sort(order), expected.spans.sort(order))
    assert_frame_equal(found.statements.sort(order[:3]), expected.statements.sort(order[:3]))
    assert_frame_equal(found.match_quality, expected.match_quality)
    assert_frame_equal(found.clock_offsets, expected.clock_offsets, rel_tol=1e-9)


@pytest.mark.parametrize("third", ["first", "last"])
def test_a_cut_log_is_in_order(third: str) -> None:
    found = stacked(taken_in(load("w2-t4-insert", (1,), Cut("1", third)), 1_000))
    expected = traces_of("w2-t4-insert", (1,), Cut("1", third))
    assert_frame_equal(found.match_quality, expected.match_quality)
    assert found.spans.height == expected.spans.height


@pytest.mark.parametrize("damage", ["overlapping copies", "older copy sorts later", "two copies", "lines twice"])
def test_copies_of_records_are_refused(damage: str) -> None:
    with pytest.raises(NotInOrder):
        taken_in(in_pieces("w2-t4-insert", DAMAGES[damage]), 1_000)


@pytest.mark.parametrize("damage", ["rotated", "older file sorts later"])
def test_rotated_files_are_in_order(damage: str) -> None:
    found = stacked(taken_in(in_pieces("w2-t4-insert", DAMAGES[damage]), 1_000))
    assert found.match_quality.select(pl.col("tasks", "exact", "children").sum()).row(0) == (988, 988, 988)


@pytest.mark.parametrize(("later_s", "refused"), [(3600, False), (0, True)])
def test_a_process_number_may_come_again_later(later_s: int, refused: bool) -> None:
    """Sessions of the same process numbers, an hour later; or at the same time, which no server logs."""
    recording = load("w2-t4-insert", (1,))
    size = (pl.col("byte_offset") + pl.col("byte_length")).max().over("source_id")
    again = recording.log_events.with_columns(
        pl.col("byte_offset") + size, pl.col("log_time") + pl.duration(seconds=later_s)
    )
    events = pl.concat([recording.log_events, again]).sort("source_id", "byte_offset", maintain_order=True)
    twice = Recording(TABLES["log_events"].conform(events), recording.checkpoints, recording.nodes, recording.logs)
    if refused:
        with pytest.raises(NotInOrder):
            taken_in(twice, 1_000)
    else:
        quality = stacked(taken_in(twice, 1_000)).match_quality
        assert quality.select(pl.col("tasks", "exact").sum()).row(0) == (2 * 988, 2 * 988)


@pytest.mark.parametrize("groups", [1, 5])
def test_tasks_that_children_send_need_no_order(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CHUNK_EXECUTIONS", 30)
    recording = delegating()
    found, expected = stacked(taken_in(recording, 25, groups)), build_traces(*recording.tables())
    order = ["start_time", "source_id", "byte_offset", "span_id"]
    assert_frame_equal(found.spans.sort(order), expected.spans.sort(order))
    assert_frame_equal(found.statements.sort(order[:3]), expected.statements.sort(order[:3]))
    assert found.spans["parent_span_id"].null_count() == found.statements.height


def test_groups_without_tasks_are_no_trouble() -> None:
    """A server alone, whose log is long enough to be paired in groups."""
    recording = load("w2-t4-insert", (1,))
    alone = recording.log_events.filter(pl.col("task_us").is_null() & pl.col("gpid").is_null())
    records = taken_in(Recording(alone, recording.checkpoints, recording.nodes, recording.logs), 1_000, groups=3)
    found = stacked(records)
    assert found.match_quality.is_empty()
    assert found.statements.height > 0
