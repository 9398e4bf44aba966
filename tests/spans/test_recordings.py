"""On recordings of a real cluster every remote execution is paired, and none wrongly.

The keys of YCSB stand in the parent's parameters and in the child's statement, so the text shows which belong
together. The matcher does not see them.
"""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.spans import build_traces
from tests.recordings import RECORDED
from tests.spans.recordings import CORPUS, ROOT, load, pairs_with_keys, traces_of

TRUTH = pl.read_csv(ROOT / "tests" / "data" / "recorded_truth.csv")

#: Resource -> tasks. Grid, both protocols, one to four workers, scans, transactions, failures, stock Citus.
COMPLETE = {
    "stock-debug4-w2-t8-insert": 83,
    "w1-t4-insert": 600,
    "w2-t4-insert": 988,
    "w2-t4-select": 988,
    "w2-t128-insert": 521,
    "w2-binary-t16-insert": 521,
    "w2-binary-t16-select": 521,
    "w2-drivers2-insert": 514,
    "w2-checkpoint-insert": 752,
    "w2-all-e": 387,
    "w2-all-f": 301,
    "w2-txn-update": 152,
    "w2-lock-update": 27,
    "w2-fail-stop-insert": 155,
    "w4-t4-insert": 742,
}


@pytest.mark.parametrize(("resource", "tasks"), COMPLETE.items())
def test_every_task_has_the_child_with_its_key(resource: str, tasks: int) -> None:
    pairs = pairs_with_keys(traces_of(resource), load(resource))
    assert pairs.height == tasks
    assert pairs.filter(pl.col("parent_key") == pl.col("child_key")).height == tasks
    assert set(pairs["match"]) == {"exact"}


@pytest.mark.parametrize(
    "resource",
    ["w1-local-t16-select", "w1-t4-insert", "w2-t4-insert", "w2-t4-select", "w2-t64-select", "w4-t4-insert"],
)
def test_executions_are_as_many_as_keys(resource: str) -> None:
    truth = TRUTH.filter(pl.col("resource") == resource, pl.col("iteration") == 1).row(0, named=True)
    data = traces_of(resource).statements.filter(pl.col("executed").is_not_null())
    executed = data["executed"].cast(pl.String)
    counted = (data.height, (executed == "local").sum(), (executed == "remote").sum())
    assert counted == (truth["parent_executions"], truth["local"], truth["remote"])


def test_every_iteration_is_complete() -> None:
    quality = traces_of("w2-t16-insert").match_quality
    assert quality.group_by("iteration").agg(pl.col("exact").sum()).sort("iteration").rows() == [
        (1, 988),
        (2, 988),
        (3, 988),
    ]
    assert quality["warning"].null_count() == quality.height


def test_multi_shard_statements_and_transactions() -> None:
    """Statements of a psql script, one session on worker 1: what ran, where, and with how many tasks."""
    statements = traces_of("w2-multishard").statements.filter(pl.col("node") == "1").sort("byte_offset")
    ran = statements.select(
        pl.col("statement_kind").cast(pl.String), pl.col("executed").cast(pl.String), "tasks", "failed"
    ).rows()
    assert ran[:13] == [
        ("select", "multi_shard", 4, False),
        ("select", "multi_shard", 4, False),
        ("begin", None, 0, False),
        ("update", "local", 1, False),
        ("update", "remote", 1, False),
        ("select", "local", 1, False),
        ("commit", None, 0, False),
        ("begin", None, 0, False),
        ("update", "remote", 1, False),
        ("rollback", None, 0, False),
        ("select", "multi_shard", 8, False),  # a CTE on all shards, then the query that reads it
        ("insert", "multi_shard", 3, False),
        ("delete", "multi_shard", 4, False),
    ]
    assert statements.filter("failed").height == 2


def test_failed_statements_are_marked_and_not_profiled() -> None:
    failed = traces_of("w2-fail-dup-insert").statements.filter("failed")
    sampled = pl.col("protocol").is_not_null()
    assert failed.filter(sampled).height == 12, "four client threads, three attempts each"
    assert failed.filter(~sampled).height == 12, "of the client that only its errors are logged of"
    assert failed["includes_commit"].null_count() == failed.height


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the full recordings are not beside the repository")
@pytest.mark.parametrize("resource", sorted(path.parent.name for path in CORPUS.glob("*/pglogs")))
def test_full_recordings(resource: str) -> None:
    recording = load(resource, root=CORPUS)
    traces = build_traces(recording.log_events, recording.nodes)
    pairs = pairs_with_keys(traces, recording)
    assert pairs.height == traces.match_quality["tasks"].sum()
    assert set(pairs["match"]) <= {"exact"}
    assert pairs.filter(pl.col("parent_key") != pl.col("child_key")).height == 0
    outside = ~pl.lit(0.0).is_between("offset_low_us", "offset_high_us")
    assert traces.clock_offsets.filter(outside).height == 0, "all nodes had one clock"


def test_data_folder_is_where_the_tests_look() -> None:
    assert Path(RECORDED).is_dir()
