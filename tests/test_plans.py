"""What plans say of nodes and tasks, against values worked out by hand from the files."""

import polars as pl
import pytest

from citus_analysis.plans.study import (
    compare_tasks_with_traces,
    compute_task_skew,
    measure_nodes,
    measure_tasks,
    plan_study,
)
from citus_analysis.plots.profile_figures import plot_plan, plot_tasks
from citus_analysis.schema import TABLES
from tests.formats.plan_files import PLANS, parsed, table_of

ALL_TASKS = "multi-shard-aggregate-all-tasks.psql.txt"


def test_rows_and_times_of_all_executions() -> None:
    nodes = measure_nodes(table_of("cte-subplan.psql.txt"))
    scan = nodes.row(by_predicate=pl.col("node_type") == "Index Only Scan", named=True)
    assert (scan["loops"], scan["expected_rows"], scan["given_rows"]) == (50, 50, 0)
    # PostgreSQL 15 rounds 8 rows of 50 executions to 0 of each: at least one row on either side.
    assert scan["q_error"] == 50
    loop = nodes.row(by_predicate=pl.col("node_type") == "Nested Loop", named=True)
    below = nodes.filter((pl.col("parent") == loop["plan_node"]) & (pl.col("kind") == "node"))
    assert loop["self_ms"] == pytest.approx(max(loop["time_ms"] - below["time_ms"].sum(), 0))


def test_expectations_that_rest_on_the_constant_of_citus_are_not_judged() -> None:
    nodes = measure_nodes(table_of("scan.txt"))
    above = nodes.filter(pl.col("task").is_null())
    assert above["node_type"].to_list() == ["Limit", "Sort", "Custom Scan (Citus Adaptive)"]
    assert above["q_error"].null_count() == 3
    in_task = nodes.filter((pl.col("shard_id") == 102008) & (pl.col("node_type") == "Index Scan"))
    assert in_task["q_error"].to_list() == pytest.approx([1515.5])


def test_skew_between_tasks() -> None:
    skew = compute_task_skew(table_of(ALL_TASKS)).row(0, named=True)
    times = measure_tasks(table_of(ALL_TASKS))["execution_ms"].to_list()
    assert len(times) == 4
    assert skew["slowest_ms"] == pytest.approx(21.264)
    assert skew["skew"] == pytest.approx(21.264 / (sum(times) / 4))
    assert (skew["slowest_shard_id"], skew["slowest_worker"], skew["note"]) == (102008, "worker1", None)


def test_no_skew_where_tasks_are_not_shown() -> None:
    table = table_of("cte-subplan.psql.txt", "repartition-join.txt", "scan.txt")
    skew = compute_task_skew(table).sort("source_id", "parent")
    assert skew["skew"].is_null().to_list() == [True, True, True, False]
    assert skew["note"].to_list() == [
        "3 of 4 tasks are not shown: their times are unknown",
        "3 of 4 tasks are not shown: their times are unknown",
        "12 of 12 tasks are not shown: their times are unknown",
        None,
    ]


def test_tasks_meet_the_traces_of_their_shards() -> None:
    spans = pl.DataFrame(
        {
            "resource": ["w2", "w2", "w2", "w2", "w2", "other"],
            "kind": ["remote", "remote", "remote", "task", "local", "remote"],
            "match": ["exact", "exact", "inferred", "exact", "exact", "exact"],
            "shard_id": [102009, 102009, 102009, 102008, 102008, 102008],
            "duration_us": [100.0, 300.0, 9000.0, 5.0, None, 5.0],
        }
    )
    beside = compare_tasks_with_traces(table_of("scan.txt"), spans)
    found = {shard: cells for shard, *cells in beside.select("shard_id", "^traced.*$").iter_rows()}
    assert found[102009] == [2, pytest.approx(0.2), 0]
    assert found[102008] == [0, None, 1]


def _dataset(*names: str) -> dict[str, pl.DataFrame]:
    place = {"resource": pl.lit("w2")}
    plans = [parsed(PLANS / name).frame("plans").with_columns(**place, source_id=pl.lit(name)) for name in names]
    sources = pl.DataFrame({"source_id": names, "path": [f"w2/explain/{name}" for name in names]})
    spans = TABLES["spans"].empty()
    nodes = table_of(*names) if names else TABLES["plan_nodes"].empty()
    return {
        "plans": pl.concat(plans) if plans else TABLES["plans"].empty(),
        "plan_nodes": nodes,
        "sources": sources if names else TABLES["sources"].empty(),
        "spans": spans,
    }


def test_a_study_shows_the_longest_first() -> None:
    study = plan_study(_dataset("scan.txt", "repartition-join.txt", ALL_TASKS))
    assert [one.label for one in study.shown] == ["w2: repartition-join.txt", f"w2: {ALL_TASKS}", "w2: scan.txt"]
    assert len(study.warnings) == 1
    assert study.warnings[0].startswith("Of 3 plans, 1 do")
    worst = study.largest_errors
    assert worst["q_error"].is_sorted(descending=True)
    assert worst["q_error"][0] == pytest.approx(1544.6)


def test_a_plan_is_called_by_its_statement() -> None:
    found = _dataset("scan.txt", "spill.json", "repartition-join.txt")
    asked = ["SELECT 1", "SELECT\n  count(*)", "SELECT 1"]
    study = plan_study(found | {"plans": found["plans"].with_columns(query=pl.Series(asked))})
    names = {"w2: SELECT 1 in scan.txt", "w2: SELECT count(*)", "w2: SELECT 1 in repartition-join.txt"}
    assert {one.label for one in study.shown} == names


def test_a_dataset_without_plans_has_nothing_to_show() -> None:
    study = plan_study(_dataset())
    assert (list(study.shown), list(study.warnings), study.plans.height) == ([], [], 0)
    assert study.largest_errors.height == study.skew.height == study.tasks.height == 0


def test_a_plan_without_times_has_no_axis_for_them() -> None:
    figure = plot_plan(plan_study(_dataset("spill.json")).shown[0].nodes)
    assert [trace.name for trace in figure.data] == ["rows expected", "rows given"]
    assert [note.text for note in figure.layout.annotations] == ["Limit", "Sort", "Seq Scan on Order Lines"]


def test_names_of_a_deep_plan_leave_room_for_the_plot() -> None:
    nodes = plan_study(_dataset("scan.txt")).shown[0].nodes
    deep = nodes.with_columns(depth=3 * pl.int_range(pl.len()), relation=pl.lit("customer_order_line_positions"))
    figure = plot_plan(deep)
    first, *_, last = figure.layout.annotations
    assert figure.layout.margin.l <= 360
    assert last.xshift - first.xshift == pytest.approx(112)
    assert (last.text[-1], last.hovertext.endswith("customer_order_line_positions")) == ("\u2026", True)


def test_figures_of_a_plan_and_its_tasks() -> None:
    study = plan_study(_dataset("scan.txt"))
    figure = plot_plan(study.shown[0].nodes, most=5, title="scan")
    assert "first 5 of 15 nodes" in figure.layout.title.text
    expected, given, self_, _ = figure.data
    assert list(expected.x)[:2] == [10, 100_000]
    assert list(given.x)[:3] == [10, 10, 40]
    assert self_.x[0] == pytest.approx(0.004)
    first, second, *_ = figure.layout.annotations
    assert (first.text, second.text, second.xshift > first.xshift) == ("Limit", "Sort", True)
    tasks = plot_tasks(study.shown[0].tasks)
    assert {bar.name: list(bar.y) for bar in tasks.data} == {"worker1": [0, 3], "worker2": [1, 2]}
    assert tasks.data[0].x[0] == pytest.approx(0.294)
