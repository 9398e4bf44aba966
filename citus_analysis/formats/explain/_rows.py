"""Rows of `plans` and `plan_nodes` from trees of items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from citus_analysis.formats.explain._items import Fact, Item, Plan
from citus_analysis.schema import TABLES

_Row = dict[str, Fact | None]


def plan_frames(plans: Sequence[tuple[str, Plan]], first: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `plans` and of `plan_nodes`.

    Args:
        plans: form (`text`, `json`, `yaml`) and plan, in order of the source.
        first: number of the first plan.
    """
    found = [(form, plan, list(_node_rows(number, plan))) for number, (form, plan) in enumerate(plans, first)]
    heads = [_plan_row(number, form, plan, rows) for number, (form, plan, rows) in enumerate(found, first)]
    return _frame("plans", heads), _frame("plan_nodes", [row for _, _, rows in found for row in rows])


def _frame(table: str, rows: Sequence[_Row]) -> pl.DataFrame:
    parsed = TABLES[table].parsed()
    return parsed.conform(pl.DataFrame(rows, schema=parsed.polars_schema()))


def _node_rows(number: int, plan: Plan) -> Iterator[_Row]:
    numbers: dict[int, int] = {}
    rows: dict[int, _Row] = {}
    for count, (item, parent) in enumerate(plan.root.walk()):
        numbers[id(item)] = count
        above = rows[id(parent)] if parent is not None else None
        row: _Row = {"plan": number, "plan_node": count, "kind": item.kind, "node_type": item.name, **item.facts}
        row |= {"conditions": "; ".join(item.conditions) or None}
        row["parent"] = None if parent is None else numbers[id(parent)]
        row["depth"] = 0 if above is None else _depth(above) + 1
        rows[id(item)] = row | _of_task(item, count, above)
        yield rows[id(item)]


def _depth(row: Mapping[str, Fact | None]) -> int:
    return int(row["depth"] or 0)


def _of_task(item: Item, number: int, above: _Row | None) -> _Row:
    """The columns that nodes take from their task; null for nodes outside tasks."""
    if item.kind == "task":
        return {"task": number}
    names = ("task", "shard_id", "worker_host", "worker_port")
    return {} if above is None else {name: above.get(name) for name in names}


def _plan_row(number: int, form: str, plan: Plan, rows: Sequence[_Row]) -> _Row:
    top = rows[0]
    tasks = [int(row["task_count"] or 0) for row in rows if row["kind"] == "node" and row.get("task_count") is not None]
    shown = sum(row["kind"] == "task" for row in rows)
    return {
        "plan": number,
        "byte_offset": plan.offset,
        "byte_length": plan.length,
        "form": form,
        "analyzed": "loops" in top,
        "timed": any("total_us" in row for row in rows if row["kind"] == "node"),
        "nodes": sum(row["kind"] == "node" for row in rows),
        "total_cost": top.get("total_cost"),
        "estimated_rows": top.get("estimated_rows"),
        "actual_rows": top.get("actual_rows"),
        "task_count": sum(tasks),
        "tasks_shown": shown,
        "unknown": "; ".join(_unknown(rows)) or None,
        **plan.facts,
    }


def _unknown(rows: Sequence[_Row]) -> Iterator[str]:
    """The facts that are unknown because tasks are not shown, per distributed query."""
    for row in rows:
        count = row.get("task_count")
        if row["kind"] != "node" or count is None:
            continue
        shown = sum(one["kind"] == "task" and one["parent"] == row["plan_node"] for one in rows)
        hidden = int(count) - shown
        if hidden > 0:
            yield (
                f"node {row['plan_node']}: {hidden} of {count} tasks are not shown, so that their workers, times and "
                "rows are unknown" + ("" if shown == 0 else "; citus.explain_all_tasks = on shows all")
            )
