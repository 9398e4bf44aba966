"""Plans compared by statement and shape: shards and constants do not count, mixed shapes are tested."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from citus_analysis.attribution.plan_differences import PlanChanges, compare_plans
from citus_analysis.attribution.sentences import state_plans

QUERY = "SELECT v FROM items_{shard} WHERE part = {value}"
#: Shape -> the nodes of a plan from the topmost down: name, relation, index, mean time (µs), rows.
SHAPES: dict[str, list[tuple[str, str | None, str | None, float, float]]] = {
    "scan": [("Sort", None, None, 900.0, 1.0), ("Seq Scan", "items_{shard}", None, 800.0, 5.0)],
    "index": [("Sort", None, None, 150.0, 1.0), ("Index Scan", "items_{shard}", "part_idx_{shard}", 50.0, 5.0)],
}


def draw_durations(side: int, number: int) -> list[float]:
    """Times of executions, in µs."""
    return [float(us) for us in np.random.default_rng(side).lognormal(9.2, 0.7, number)]


def source(
    side: int, shapes: list[str], queries: bool = True, tasks: int | None = None, threshold_us: float = 0.0
) -> Any:
    """A dataset with one plan for each shape, of runs in turn; auto_explain logs those of some time."""
    plans, nodes = [], []
    for i, shape in enumerate(shapes):
        shard = 102_000 + 7 * side + i
        key = {"resource": f"side{side}", "source_id": f"s{side}", "plan": i}
        query = QUERY.format(shard=shard, value=i) if queries else None
        plans.append({**key, "run_id": f"side{side}/run{i % 3}", "query": query, "byte_offset": i, "task_count": tasks})
        for number, (name, relation, index, time, rows) in enumerate(SHAPES[shape]):
            place = {"plan_node": number, "parent": number - 1 if number else None, "depth": number, "kind": "node"}
            named = {
                "node_type": name,
                "relation": relation and relation.format(shard=shard),
                "index_name": index and index.format(shard=shard),
                **dict.fromkeys(("alias", "subplan_name", "conditions")),
                "task_count": None if number else tasks,
            }
            measured = {"total_us": time + i, "loops": 1, "actual_rows": rows, "estimated_rows": 9.0}
            nodes.append({**key, **place, **named, **measured, "removed_rows": 995.0 if name == "Seq Scan" else None})
    durations = draw_durations(side, len(shapes))
    logged = [{"source_id": f"s{side}", "byte_offset": i, "duration_us": us} for i, us in enumerate(durations)]
    if threshold_us:
        kept = {i for i, us in enumerate(durations) if us >= threshold_us}
        plans, nodes = ([one for one in rows if one["plan"] in kept] for rows in (plans, nodes))
    tables = {
        "log_events": pl.DataFrame(logged).with_columns(kind=pl.lit("plan")),
        "plans": pl.DataFrame(plans, schema_overrides={"query": pl.String, "task_count": pl.Int32}),
        "plan_nodes": pl.DataFrame(nodes),
        "sources": pl.DataFrame({"source_id": [f"s{side}"], "path": ["x/explain/plans-0-1.json"]}),
    }
    return SimpleNamespace(table=tables.__getitem__)


def compared(
    before: list[str],
    after: list[str],
    queries: bool = True,
    tasks: tuple[int, int] | None = None,
    threshold_us: float = 0.0,
) -> PlanChanges:
    numbers = tasks or (None, None)
    sources = (source(0, before, queries, numbers[0]), source(1, after, queries, numbers[1], threshold_us))
    both = [
        SimpleNamespace(
            name=f"side{i}",
            table=pl.DataFrame({"run_id": [f"side{i}/run{n}" for n in range(3)], "resource": f"side{i}"}),
        )
        for i in (0, 1)
    ]
    found = compare_plans(SimpleNamespace(unit="run", sources=sources, both=both), level=0.95)  # type: ignore[arg-type] # what it uses of sides
    assert found is not None
    return found


@pytest.mark.parametrize("queries", [True, False])
def test_another_scan_is_another_plan(queries: bool) -> None:
    """Without their statements, plans are known by their file and number."""
    found = compared(["index"] * 6, ["scan"] * 6, queries)
    assert found.statements.height == (1 if queries else 6)
    row = found.statements.row(0, named=True)
    assert row["changed"]
    assert (row["before"], row["after"]) == ("Index Scan on items using part_idx", "Seq Scan on items")
    assert (row["base_rows"], row["other_rows"]) == (5, 1000)
    assert row["p"] is None
    top = found.nodes.filter(node="Sort").row(0, named=True)
    assert top["base_self_ms"] == pytest.approx(0.1)
    assert top["other_self_ms"] == pytest.approx(0.1)
    assert found.nodes["node"][0] == "Seq Scan on items"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (["index"] * 6, ["index"] * 6, False),
        (["index"] * 5 + ["scan"], ["index"] * 3 + ["scan"] * 3, False),
        (["index"] * 19 + ["scan"], ["scan"] * 19 + ["index"], True),
    ],
)
def test_a_share_of_shapes_must_differ_surely(before: list[str], after: list[str], changed: bool) -> None:
    assert compared(before, after).statements["changed"].to_list() == [changed]


def test_times_of_the_same_node_are_compared_over_runs() -> None:
    sources = source(0, ["index"] * 9), source(1, ["index"] * 9)
    slower = (
        sources[1].table("plan_nodes").with_columns(pl.col("total_us") * pl.col("depth").replace_strict({0: 5, 1: 14}))
    )
    tables = {name: sources[1].table(name) for name in ("plans", "sources", "log_events")} | {"plan_nodes": slower}
    both = [
        SimpleNamespace(
            name=f"side{i}",
            table=pl.DataFrame({"run_id": [f"side{i}/run{n}" for n in range(3)], "resource": f"side{i}"}),
        )
        for i in (0, 1)
    ]
    sides = SimpleNamespace(unit="run", sources=(sources[0], SimpleNamespace(table=tables.__getitem__)), both=both)
    found = compare_plans(sides, level=0.95)  # type: ignore[arg-type] # what it uses of sides
    assert found is not None
    row = found.nodes.filter(pl.col("node").str.starts_with("Index")).row(0, named=True)
    assert row["p"] < 0.01
    assert row["low"] < row["other_self_ms"] - row["base_self_ms"] < row["high"]
    assert not found.statements["changed"].any()


def test_more_tasks_are_another_plan() -> None:
    found = compared(["index"] * 3, ["index"] * 3, tasks=(8, 16))
    row = found.statements.row(0, named=True)
    assert (row["changed"], row["before"], row["after"]) == (True, "8 tasks", "16 tasks")
    assert (row["base_tasks"], row["other_tasks"]) == (8, 16)
    assert "8 tasks (3 plans) became 16 tasks (3 plans)" in state_plans(found, 0.95)[0].sentence


def test_plans_of_short_executions_that_one_side_left_out_count_on_neither() -> None:
    """Long executions scan, short ones use the index, on both sides: another threshold of auto_explain is no change."""
    shapes = [["scan" if us >= 10_000 else "index" for us in draw_durations(side, 400)] for side in (0, 1)]
    found = compared(shapes[0], shapes[1], threshold_us=10_000)
    assert found.unlike == (
        "plans: side1 logged only statements of at least 10 ms, side0 also shorter ones, which are left out"
    )
    assert not found.statements["changed"].any()
    assert found.statements["base_plans"][0] == shapes[0].count("scan")
    assert compared(shapes[0], shapes[1]).unlike == ""
