"""Profiles: parts add up, both ways to the means agree, and what cannot be compared is said."""

from typing import Any

import polars as pl
import pytest

from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.spans import coarse_profile, critical_path, log_line_profile, tail_profile
from citus_analysis.spans.composition import COMPONENTS, compute_fan_out_profile, compute_percentile_profile
from citus_analysis.spans.profile import SelectedStatements, find_first_of_connections, mark_states, profile_percentiles
from citus_analysis.spans.tail import find_autovacuum_intervals
from citus_analysis.stats import mean_interval
from citus_analysis.stats.run_percentiles import run_percentile
from tests.spans.recordings import load, traces_of

#: Recordings where every statement has at most one task, so that lines and statements count the same things.
SINGLE_SHARD = [
    "stock-debug4-w2-t8-insert",
    "w1-t4-insert",
    "w1-local-t16-select",
    "w2-t4-insert",
    "w2-t4-select",
    "w2-binary-t16-insert",
    "w2-binary-t16-select",
    "w2-all-f",
    "w2-txn-update",
    "w2-checkpoint-insert",
    "w4-t4-insert",
]


def means(profile: pl.DataFrame, quantities: tuple[str, ...]) -> dict[tuple[str, str], tuple[int, float]]:
    rows = (
        profile.filter(pl.col("n") > 0)
        .select(pl.col("statement_kind", "quantity").cast(pl.String), "n", "mean_us")
        .rows()
    )
    return {(kind, quantity): (n, mean) for kind, quantity, n, mean in rows if quantity in quantities}


@pytest.mark.parametrize("resource", SINGLE_SHARD)
def test_means_of_statements_and_of_lines_agree(resource: str) -> None:
    """T, W and C are means over the same durations whether lines are paired or not."""
    paired = means(coarse_profile(traces_of(resource).statements, by=["statement_kind"]), ("T", "W", "C"))
    lines = means(log_line_profile(load(resource).log_events), ("T", "W", "C"))
    assert paired.keys() == lines.keys()
    for key, (n, mean) in paired.items():
        assert lines[key][0] == n
        assert lines[key][1] == pytest.approx(mean)


def test_where_all_statements_are_remote_the_differences_agree_too() -> None:
    paired = means(coarse_profile(traces_of("w1-t4-insert").statements, by=["statement_kind"]), ("P", "L"))
    lines = means(log_line_profile(load("w1-t4-insert").log_events), ("P", "L"))
    assert lines.keys() == paired.keys()
    assert [value for pair in lines.values() for value in pair] == pytest.approx(
        [value for key in lines for value in paired[key]]
    )


def test_with_local_statements_only_pairs_tell_what_the_parent_computed() -> None:
    """T over all statements minus W over the remote ones is no time at all: it is negative here."""
    lines = means(log_line_profile(load("w2-t4-insert").log_events), ("P",))
    paired = means(coarse_profile(traces_of("w2-t4-insert").statements, by=["statement_kind"]), ("P",))
    assert lines["insert", "P"][1] < 0 < paired["insert", "P"][1]


def test_first_statements_of_each_session_are_skipped() -> None:
    statements = traces_of("w2-t4-insert").statements
    counts = {
        skipped: int(coarse_profile(statements, skip_first=skipped).filter(pl.col("quantity") == "T")["n"].sum())
        for skipped in (0, 1, 50)
    }
    assert counts == {0: 2000, 1: 1992, 50: 1600}, "four client threads, a session on each of two nodes"


def test_the_childs_log_and_the_parents_log_name_the_same_openers() -> None:
    """At debug4 the parent says which statements opened a connection; the child's first statements are theirs."""
    traces = traces_of("stock-debug4-w2-t8-insert")
    said = traces.statements.filter(pl.col("connect_us") > 0)["trace_id"]
    assert said.len() == 4
    assert set(find_first_of_connections(traces.spans.lazy())) == set(said)


def test_states_of_sessions_are_apart() -> None:
    traces = traces_of("stock-debug4-w2-t8-insert")
    group = ["statement_kind", "executed"]
    marked = mark_states(traces.statements, skip_first=2, by=group)
    counts = dict(marked["state"].drop_nulls().cast(pl.String).value_counts().iter_rows())
    assert counts == {"session start": 8, "opens a connection": 1, "first execution": 11, "steady": 130}
    always = traces.statements.with_columns(connect_us=pl.lit(500.0))
    usual = mark_states(always, by=group).filter(pl.col("executed") == "remote")["state"].cast(pl.String).unique()
    assert usual.to_list() == ["steady"], "where each statement opens a connection, that is the steady state"


def test_statements_of_a_page_are_selected_by_one_function() -> None:
    statements = traces_of("w2-t4-insert").statements
    with pytest.raises(UsageError, match="come from select_statements"):
        SelectedStatements(statements, statements.clear(), 0, 5, 1, 0, window=None)  # type: ignore[arg-type] # it is refused before


def test_local_and_remote_say_that_they_differ_in_the_commit() -> None:
    profile = coarse_profile(traces_of("w2-binary-t16-insert").statements)
    warned = {
        (executed, quantity): warning is not None
        for executed, quantity, warning in profile.select(
            pl.col("executed", "quantity").cast(pl.String), "warning"
        ).iter_rows()
    }
    assert warned == {
        ("local", "T"): True,
        ("local", "P"): True,
        ("remote", "T"): False,
        ("remote", "P"): False,
        ("remote", "W"): False,
        ("remote", "C"): True,
        ("remote", "L"): True,
    }


def test_text_children_contain_their_commit_and_selects_have_none() -> None:
    assert coarse_profile(traces_of("w2-t4-select").statements)["warning"].null_count() == 7
    spans = traces_of("w2-t4-insert").spans
    included = spans.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("includes_commit").drop_nulls().unique())
    assert dict(included.rows())["remote"] == [True]
    assert dict(included.rows())["local"] == [False]


def test_percentiles_that_n_does_not_support_are_null() -> None:
    few = traces_of("w2-t4-insert").statements.filter(pl.col("executed") == "remote").head(50)
    profile = coarse_profile(few).filter(pl.col("quantity") == "T")
    assert profile.select("n", "p99_us").row(0) == (50, None)
    assert profile["p95_us"][0] is not None


def test_percentiles_of_several_runs_have_an_interval_over_the_runs() -> None:
    statements = traces_of("w2-t4-insert").statements
    runs = pl.concat(
        [statements.with_columns(pl.col("total_us") * scale, run_id=pl.lit(f"r{scale}")) for scale in (1, 2, 4)]
    )
    found = profile_percentiles(runs, by=["statement_kind", "executed"])
    (one,) = found.filter(executed="remote", quantity="T", percentile=50).rows(named=True)
    times = statements.filter(pl.col("executed") == "remote", ~pl.col("failed"))["total_us"].drop_nulls()
    expected = mean_interval([run_percentile(times.to_numpy() * scale, 50) for scale in (1, 2, 4)], method="log-t")
    assert (one["estimate_us"], one["low_us"], one["high_us"]) == pytest.approx(
        (expected.estimate, expected.low, expected.high)
    )
    assert (one["runs"], one["n"]) == (3, 3 * times.len())
    assert one["method"] == "95 %, Student t on the log scale over runs"


def test_percentiles_of_one_run_are_those_of_the_profile_and_say_what_they_lack() -> None:
    statements = traces_of("w2-t4-insert").statements
    few = statements.filter(pl.col("executed") == "remote").with_columns(run_id=pl.lit("one")).head(150)
    found = profile_percentiles(few).filter(pl.col("quantity") == "T")
    half, tail = (found.row(by_predicate=pl.col("percentile") == q, named=True) for q in (50, 99))
    assert half["low_us"] < half["estimate_us"] < half["high_us"]
    assert half["method"].startswith("95 %, order statistics of one run (worth n = ")
    assert (tail["low_us"], tail["high_us"]) == (None, None)
    assert "an interval of the 99th percentile at 95 % needs 368, or a second run" in tail["warnings"]
    refused = profile_percentiles(few.head(60)).row(
        by_predicate=(pl.col("percentile") == 99) & (pl.col("quantity") == "T"), named=True
    )
    assert refused["estimate_us"] is None
    assert "a run of 60 values has no 99th percentile" in refused["warnings"]
    assert "at least 100" in refused["warnings"]


def test_composition_adds_up_to_t() -> None:
    profile = compute_percentile_profile(traces_of("w2-t4-insert").statements)
    assert profile.select(pl.sum_horizontal(COMPONENTS)).to_series().to_list() == pytest.approx(
        profile["total_us"].to_list()
    )
    remote = profile.filter(pl.col("executed") == "remote")
    assert remote["percentile"].to_list() == [50.0, 75.0, 90.0, 95.0, 99.0]
    assert remote["total_us"].is_sorted()


def test_fan_out_of_scans() -> None:
    row = compute_fan_out_profile(traces_of("w2-all-e").statements).row(0, named=True)
    assert (row["n"], row["tasks"]) == (96, 4.0)
    assert 1.0 < row["skew_p25"] < row["skew_p50"] < row["skew_p75"]


def test_critical_path_is_the_busiest_connection() -> None:
    """The first scan recorded: two connections to each worker, one task each; the longest took 16710 µs."""
    traces = traces_of("w2-all-e")
    scan = traces.statements.filter(pl.col("executed") == "multi_shard").sort("end_time")
    path = critical_path(traces.spans)
    ends = path.filter(pl.col("trace_id") == scan["trace_id"][1])
    assert ends["path_us"][0] == ends["duration_us"].sum()
    both = scan.join(path.group_by("trace_id").agg(pl.col("path_us").first(), pl.len()), on="trace_id")
    assert both.height == 96
    assert (both["path_us"] <= both["wait_us"] + 1).all()
    assert (both["wait_us"] <= both["execute_us"]).all()


def test_w_of_several_tasks_is_between_the_longest_and_the_sum() -> None:
    traces = traces_of("w2-all-e")
    tasks = traces.spans.filter(pl.col("kind") == "task").group_by("trace_id").agg(together=pl.col("duration_us").sum())
    scans = traces.statements.filter(pl.col("executed") == "multi_shard").join(tasks, on="trace_id")
    assert (scans["slowest_task_us"] <= scans["wait_us"]).all()
    assert (scans["wait_us"] <= scans["together"]).all()
    assert (scans["between_us"] >= 0).all()
    assert (scans["parent_us"] >= 0).all()


@pytest.fixture(scope="module")
def checkpointed() -> dict[str, Any]:
    recording = load("w2-checkpoint-insert")
    return {"checkpoints": recording.checkpoints, "autovacuums": find_autovacuum_intervals(recording.log_events)}


def test_tail_names_what_is_different(checkpointed: dict[str, Any]) -> None:
    traces = traces_of("w2-checkpoint-insert")
    profile = tail_profile(traces.statements, traces.spans, share=0.05, **checkpointed)
    assert (profile.n, profile.n_tail) == (1500, 75)
    factors = set(profile.factors["factor"]) - {"autovacuum"}  # none may have run within a statement
    assert factors == {"node", "shard", "executed", "longest part", "connection start", "checkpoint"}
    executed = profile.factors.filter(pl.col("factor") == "executed", pl.col("level") == "remote").row(0, named=True)
    assert executed["lift"] > 1.5
    assert executed["p_value"] < 0.001
    slowest = traces.statements.sort("total_us", descending=True)["trace_id"][0]
    assert slowest in profile.factors["exemplars"].explode().to_list()
    assert any("commit" in warning for warning in profile.warnings)


def test_tail_of_a_periodic_disturbance() -> None:
    """Statements made slow while a checkpoint ran: the factor comes out on top with every slow one in it."""
    traces = traces_of("w2-t4-insert")
    remote = traces.statements.filter(pl.col("executed") == "remote").sort("end_time")
    begin, end = remote["start_time"][500], remote["end_time"][540]
    slow = pl.col("start_time").is_between(begin, end)
    statements = remote.with_columns(total_us=pl.col("total_us") + pl.when(slow).then(1e6).otherwise(0.0))
    checkpoint = pl.DataFrame(
        {"resource": [remote["resource"][0]], "iteration": [1], "node": ["1"], "start_time": [begin], "end_time": [end]}
    ).with_columns(pl.col("iteration").cast(pl.Int32))
    profile = tail_profile(statements, traces.spans, checkpoints=checkpoint, share=0.03)
    top = profile.factors.row(0, named=True)
    assert (top["factor"], top["in_tail"]) == ("checkpoint", profile.n_tail)


def test_tail_needs_enough_statements() -> None:
    traces = traces_of("w2-all-e")
    with pytest.raises(InsufficientDataError, match="at least 500 statements"):
        tail_profile(traces.statements, traces.spans)
