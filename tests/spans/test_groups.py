"""An iteration worked on group by group gives what it gives as a whole."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from citus_analysis.dataset.records import spill_arrays
from citus_analysis.schema import TABLES
from citus_analysis.spans import sessions
from citus_analysis.spans.record_order import GPID_NODE_FACTOR, group_sessions, list_log_files
from citus_analysis.spans.sessions import SessionStore
from citus_analysis.spans.spilling import Spill
from citus_analysis.spans.traces import Traces
from tests.spans.recordings import Cut, Recording, load, traces_of, unchanged
from tests.spans.test_streamed import stacked


def backends_of(events: pl.DataFrame) -> pl.DataFrame:
    node = pl.col("node").fill_null(pl.col("source_id"))
    return events.filter(pl.col("pid").is_not_null()).group_by(node, "pid", "gpid").agg(records=pl.len())


def in_groups(recording: Recording, most_records: int, spill: Spill, pairing_groups: int) -> tuple[Traces, int]:
    """Traces by groups, and how many there are."""
    placed = group_sessions(backends_of(recording.log_events), recording.nodes, most_records)
    groups = placed.partition_by("group")
    files = list_log_files(recording.log_events)
    records = SessionStore(files, recording.nodes, distributed=True, spill=spill, groups=pairing_groups)
    records.consume_sorted(
        recording.log_events.join(group, on=["node", "pid"], how="semi", maintain_order="left") for group in groups
    )
    return stacked(records), len(groups)


@pytest.mark.sharded(4)
@pytest.mark.parametrize(
    ("resource", "change", "groups"),
    [
        ("w2-t4-insert", unchanged, 4),
        ("w2-t16-insert", unchanged, 8),
        ("w2-t16-insert", Cut("1", "first"), 8),
        ("w2-t16-insert", Cut("2", "last"), 8),
        ("w2-multishard", unchanged, 2),
        ("w2-multishard", Cut("1", "first"), 2),
        ("w2-multishard", Cut("2", "first"), 2),
        ("w2-multishard", Cut("2", "last"), 2),
    ],
)
@pytest.mark.parametrize("pairing_groups", [1, 5])
def test_groups_do_not_matter(
    resource: str,
    change: Callable[[str, bytes], bytes],
    groups: int,
    pairing_groups: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "CHUNK_EXECUTIONS", 100)
    recording = load(resource, (1,), change)
    expected = traces_of(resource, (1,), change)
    found, count = in_groups(recording, 100, partial(spill_arrays, tmp_path, itertools.count()), pairing_groups)
    assert count >= groups
    order = ["start_time", "source_id", "byte_offset", "span_id"]
    assert_frame_equal(found.spans.sort(order), expected.spans.sort(order))
    assert_frame_equal(found.statements.sort(order[:3]), expected.statements.sort(order[:3]))
    assert_frame_equal(found.match_quality, expected.match_quality)
    assert_frame_equal(found.clock_offsets, expected.clock_offsets, rel_tol=1e-9)


backend = st.tuples(st.sampled_from(["1", "2", "3"]), st.integers(1, 6))
session = st.tuples(backend, st.none() | st.tuples(st.integers(1, 4), st.integers(1, 6)), st.integers(1, 9))


@settings(deadline=None)
@given(sessions=st.lists(session, max_size=30), most=st.integers(1, 40))
def test_sessions_that_work_for_one_another_stay_together(
    sessions: list[tuple[tuple[str, int], tuple[int, int] | None, int]], most: int
) -> None:
    rows = [
        (node, pid, None if parent is None else parent[0] * GPID_NODE_FACTOR + parent[1], records)
        for (node, pid), parent, records in sessions
    ]
    names = {"node": pl.String, "pid": pl.Int32, "gpid": pl.Int64, "records": pl.UInt32}
    backends = pl.DataFrame(rows, schema=names, orient="row")
    # Node id 4 is unknown.
    nodes = TABLES["nodes"].conform(pl.DataFrame({"node": ["1", "2", "3"], "nodeid": [1, 2, 3]}))
    group = {(node, pid): number for node, pid, number in group_sessions(backends, nodes, most).iter_rows()}
    assert set(group) == {(node, pid) for node, pid, *_ in rows}
    assert set(group.values()) == set(range(len(set(group.values()))))
    for node, pid, gpid, _ in rows:
        if gpid is not None:
            parent = str(gpid // GPID_NODE_FACTOR), gpid % GPID_NODE_FACTOR
            assert group.get(parent, group[node, pid]) == group[node, pid]
            assert all(group[n, p] == group[node, pid] for n, p, other, _ in rows if other == gpid)


def test_groups_are_about_as_large_as_wanted() -> None:
    backends = pl.DataFrame(
        {"node": ["1"] * 100, "pid": range(100), "gpid": [None] * 100, "records": [10] * 100},
        schema_overrides={"gpid": pl.Int64},
    )
    nodes = TABLES["nodes"].empty()
    sizes = group_sessions(backends, nodes, 95).group_by("group").len().sort("group")["len"]
    assert sizes.sum() == 100
    assert sizes.max() == 10
