"""Pairs that the values of statements prove, without the records of tasks or with damaged logs."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from citus_analysis.spans import build_traces
from citus_analysis.spans.traces import Traces
from tests.spans.recordings import Recording, key_of, load, pairs_with_keys
from tests.spans.test_damaged_logs import wrong
from tests.spans.writing import Node, insert, record

RESOURCES = (
    *("w1-t4-select", "w2-all-a", "w2-all-f", "w2-binary-t16-insert", "w2-coord-t16-insert", "w2-t4-insert"),
    *("w2-t128-select", "w2-txn-update", "w4-t16-select", "w4-t64-insert"),
)


IS_TASK = pl.col("kind") == "task"


def without_tasks(recording: Recording, gone: pl.Expr = IS_TASK) -> Recording:
    """The same with other records in place of tasks, as where `log_min_messages` is too high for them."""
    events = recording.log_events
    kind = pl.when(gone).then(pl.lit("other", events.schema["kind"])).otherwise("kind")
    known = (pl.when(~gone).then(name).alias(name) for name in ("task_us", "shard_id", "worker_host", "worker_port"))
    return replace(recording, log_events=events.with_columns(*known, kind=kind))


def keys_of_links(traces: Traces, recording: Recording) -> pl.DataFrame:
    """The keys of each statement and of its child, for children that are directly below a statement."""
    remote = traces.spans.filter(pl.col("kind") == "remote").select("source_id", "byte_offset", "trace_id", "proof")
    below = remote.join(traces.statements.select("trace_id", asked="source_id", at="byte_offset"), on="trace_id")
    return below.with_columns(
        child_key=_keys(below["source_id"], below["byte_offset"], recording),
        parent_key=_keys(below["asked"], below["at"], recording),
    )


def _keys(sources: pl.Series, offsets: pl.Series, recording: Recording) -> pl.Series:
    """The key in the records before those that end statements: the last of their backend that has one."""
    wanted = pl.DataFrame({"source_id": sources, "byte_offset": offsets}).with_row_index()
    pids = recording.log_events.select("source_id", "byte_offset", "pid")
    wanted = wanted.join(pids, on=["source_id", "byte_offset"], how="left")
    keys = [
        (source, offset, pid, key)
        for source, offset, pid, length in recording.log_events.filter(pl.col("values_hash").is_not_null())
        .select("source_id", "byte_offset", "pid", "byte_length")
        .iter_rows()
        if (key := key_of(recording.logs[source][offset : offset + length]))
    ]
    known = pl.DataFrame(keys, schema=["source_id", "byte_offset", "pid", "key"], orient="row")
    known = known.cast({"pid": pl.Int32}).sort("byte_offset")
    found = wanted.sort("byte_offset").join_asof(
        known, on="byte_offset", by=["source_id", "pid"], check_sortedness=False
    )
    return found.sort("index")["key"]


@pytest.mark.sharded(2)
@pytest.mark.parametrize("resource", RESOURCES)
def test_without_records_of_tasks(resource: str) -> None:
    """At least 99 % of the remote executions are found, none wrongly; what is left over is counted."""
    whole = load(resource)
    tasks = int(build_traces(*whole.tables()).match_quality["exact"].sum())
    recording = without_tasks(whole)
    traces = build_traces(*recording.tables())
    pairs = keys_of_links(traces, recording)
    assert 0.99 * tasks <= pairs.filter(pl.col("proof") == "content").height <= tasks
    assert (pairs["parent_key"] == pairs["child_key"]).all()
    quality = traces.match_quality
    assert quality.select(pl.sum("tasks", "exact")).row(0) == (0, 0)
    assert (quality["unreported"] + quality["unmatched_children"]).to_list() == quality["children"].to_list()


def test_statements_without_records_of_tasks_have_no_times_of_tasks() -> None:
    traces = build_traces(*without_tasks(load("w2-t4-insert")).tables())
    remote = traces.statements.filter(executed="remote")
    assert remote.height == 988
    assert set(remote["tasks"]) == {1}
    assert remote.select("wait_us", "between_us", "parent_us").null_count().row(0) == (988, 988, 988)
    assert remote["child_us"].null_count() == 0
    assert remote["shard_id"].null_count() == 0


def test_some_tasks_have_no_record() -> None:
    """As an executor that reports only statements with several tasks leaves them: every third is missing."""
    whole = load("w2-t4-insert")
    recording = without_tasks(whole, IS_TASK & (IS_TASK.cum_sum() % 3 == 0))
    traces = build_traces(*recording.tables())
    assert wrong(traces, recording) == 0
    pairs = keys_of_links(traces, recording)
    assert (pairs["parent_key"] == pairs["child_key"]).all()
    assert traces.match_quality.select(pl.col("exact") + pl.col("unreported")).to_series().sum() == 988


def test_equal_values_at_the_same_time_prove_nothing() -> None:
    """The same key again and again; the child lost one statement, the parent another."""
    one, two = Node("1", 2), Node("2", 3)
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid, first_line=5)
    for number in range(30):
        insert(parent, child, 40.0 * number, 1_000_000 + number)
    for number in range(30):
        insert(parent, child, 2_000.0 + 1.2 * number, 7_000_000)
    del two.lines[2 * 40 : 2 * 41], one.lines[5 * 50 : 5 * 51]
    recording = record(one, two)
    traces = build_traces(*recording.tables())
    pairs = pairs_with_keys(traces, recording)
    assert set(pairs.filter(parent_key="user7000000")["match"]) == {"inferred"}
    assert pairs.filter(pl.col("parent_key") != "user7000000")["match"].to_list() == ["exact"] * 30
    assert wrong(traces, recording) == 0


def test_whole_logs_are_proven_by_order_and_content() -> None:
    quality = build_traces(*load("w2-t4-insert").tables()).match_quality
    assert quality.select(pl.sum("exact", "by_order", "by_content")).row(0) == (988, 988, 988)
