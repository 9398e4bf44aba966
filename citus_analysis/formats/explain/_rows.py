"""Rows of `plans` and `plan_nodes` from trees of items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from citus_analysis.formats.explain._items import Fact, Plan
from citus_analysis.schema import TABLES

_Row = dict[str, Fact | None]
#: Columns that nodes take from their task; null for nodes outside tasks.
_OF_TASK: Final = ("task", "shard_id", "worker_host", "worker_port")


def plan_frames(plans: Sequence[tuple[str, Plan]], first: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `plans` and of `plan_nodes`.

    Args:
        plans: form (`text`, `json`, `yaml`) and plan, in order of the source.
        first: number of the first plan.
    """
    found = [(form, plan, _node_rows(number, plan)) for number, (form, plan) in enumerate(plans, first)]
    heads = [_plan_row(number, form, plan, rows) for number, (form, plan, rows) in enumerate(found, first)]
    return _frame("plans", heads), _frame("plan_nodes", [row for _, _, rows in found for row in rows])


def _frame(table: str, rows: Sequence[_Row]) -> pl.DataFrame:
    parsed = TABLES[table].parsed()
    return parsed.conform(pl.DataFrame(rows, schema=parsed.polars_schema()))


def _node_rows(number: int, plan: Plan) -> list[_Row]:
    rows: list[_Row] = []
    for count, (item, parent, depth) in enumerate(plan.root.walk()):
        row: _Row = {"plan": number, "plan_node": count, "parent": parent, "depth": depth, "kind": item.kind}
        row |= {"node_type": item.name, **item.facts, "conditions": "; ".join(item.conditions) or None}
        if item.kind == "task":
            row["task"] = count
        elif parent is not None:
            row |= {name: rows[parent].get(name) for name in _OF_TASK}
        rows.append(row)
    return rows


def _plan_row(number: int, form: str, plan: Plan, rows: Sequence[_Row]) -> _Row:
    top = rows[0]
    nodes = [row for row in rows if row["kind"] == "node"]
    return {
        "plan": number,
        "byte_offset": plan.offset,
        "byte_length": plan.length,
        "form": form,
        "analyzed": "loops" in top,
        "timed": any("total_us" in row for row in nodes),
        "nodes": len(nodes),
        **{name: top.get(name) for name in ("total_cost", "estimated_rows", "actual_rows")},
        "task_count": sum(int(row.get("task_count") or 0) for row in nodes),
        "tasks_shown": sum(row["kind"] == "task" for row in rows),
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
