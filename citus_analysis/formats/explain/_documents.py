"""Plans of `EXPLAIN (FORMAT JSON)` and `EXPLAIN (FORMAT YAML)`, as trees of items."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from citus_analysis.errors import FormatError
from citus_analysis.formats.explain._items import (
    COUNTERS,
    Fact,
    Item,
    Plan,
    bytes_of,
    fact_of,
    ms_in_us,
    read_worker,
    real,
    whole,
)
from citus_analysis.formats.explain._labels import label_of
from citus_analysis.texts.yaml_text import parse_yaml

_DEEPEST: Final = 100
#: Each level of a plan is two levels of YAML.
_DEEPEST_YAML: Final = 2 * _DEEPEST + 10
_CONDITION: Final = re.compile(r"(?!Rows Removed).*(?:Cond|Filter)$")

#: Key of a node -> its column.
_KEYS: Final = {
    "Plan Rows": "estimated_rows",
    "Plan Width": "width_bytes",
    "Actual Startup Time": "startup_us",
    "Actual Total Time": "total_us",
    "Actual Rows": "actual_rows",
    "Actual Loops": "loops",
    **{f"{of}I/O {what} Time": f"io_{what.lower()}_us" for of in ("", "Shared ") for what in ("Read", "Write")},
    **{f"WAL {what}": f"wal_{what.lower()}" for what in ("Records", "FPI", "Bytes")},
    **{
        column.replace("_", " ").title(): column
        for column in (
            *("subplan_name", "startup_cost", "total_cost", "workers_planned", "workers_launched", "sort_method"),
            *COUNTERS["Buffers"],
        )
    },
}
_KILOBYTES: Final = {"Peak Memory Usage": "memory_bytes", "Disk Usage": "disk_bytes"}


def plans_of_json(text: str) -> list[Plan]:
    """The plans of one JSON document.

    Raises:
        ValueError: it is not JSON, or contains no plan.
    """
    try:
        return plans_of_document(json.loads(text))
    except RecursionError as error:
        raise ValueError("nested too deeply for a plan") from error


def plans_of_yaml(text: str) -> list[Plan]:
    """The plans of one YAML document.

    Raises:
        ValueError: it is not YAML, or contains no plan.
    """
    try:
        return plans_of_document(parse_yaml(text.encode(), deepest=_DEEPEST_YAML))
    except FormatError as error:
        raise ValueError(str(error)) from error


def plans_of_document(document: object) -> list[Plan]:
    """The plans of a document of lists, mappings, texts and numbers under EXPLAIN's names in JSON.

    Raises:
        ValueError: it contains no plan.
    """
    entries = document if isinstance(document, list) else [document]
    plans = [_plan(entry) for entry in entries]
    if not plans:
        raise ValueError("it contains no plan")
    return plans


def _plan(entry: object) -> Plan:
    outer = _mapping(entry, "plan")
    facts = _summary(outer)
    if "Query Text" in outer:
        facts["query"] = str(outer["Query Text"])
    return Plan(_node(_mapping(outer.get("Plan"), "plan"), 0), facts)


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"the {what} is missing or is not a mapping")  # noqa: TRY004 - the file is at fault
    return value


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _summary(entry: Mapping[str, object]) -> dict[str, Fact]:
    keys = {"Planning Time": "planning_us", "Execution Time": "execution_us"}
    return {column: ms_in_us(entry[key]) for key, column in keys.items() if key in entry}


def _node(node: Mapping[str, object], depth: int) -> Item:
    if depth > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    if "Node Type" not in node:
        raise ValueError("a node without a type")
    name, where = label_of(node)
    facts: dict[str, Fact] = {**where}
    facts |= {column: fact_of(column, node[key]) for key, column in _KEYS.items() if node.get(key) is not None}
    facts |= {column: whole(node[key]) * 1024 for key, column in _KILOBYTES.items() if node.get(key) is not None}
    if "Sort Space Used" in node:
        column = "disk_bytes" if node.get("Sort Space Type") == "Disk" else "memory_bytes"
        facts[column] = whole(node["Sort Space Used"]) * 1024
    removed = [real(node[key]) for key in ("Rows Removed by Filter", "Rows Removed by Join Filter") if key in node]
    if removed:
        facts["removed_rows"] = sum(removed)
    conditions = [f"{key}: {value}" for key, value in node.items() if _CONDITION.fullmatch(key) and value is not None]
    item = Item("node", name, facts, conditions)
    item.children += _distributed(node.get("Distributed Query"), facts, depth + 1)
    item.children += [_node(_mapping(child, "node"), depth + 1) for child in _items(node.get("Plans"))]
    return item


def _distributed(query: object, facts: dict[str, Fact], depth: int) -> Iterator[Item]:
    """The subplans, jobs and tasks of a distributed query; its own facts are added to those of its node."""
    if query is None:
        return
    distributed = _mapping(query, "distributed query")
    for subplan in _items(distributed.get("Subplans")):
        yield _subplan(_mapping(subplan, "subplan"), depth)
    job = _mapping(distributed.get("Job", {}), "job")
    if "Task Count" in job:
        facts["task_count"] = whole(job["Task Count"])
    if "Tasks Shown" in job:
        facts["tasks_shown"] = str(job["Tasks Shown"])
    _add_received(facts, job.get("Tuple data received from nodes"))
    yield from _jobs(job, depth)
    for task in _items(job.get("Tasks")):
        yield _task(_mapping(task, "task"), depth)


def _jobs(job: Mapping[str, object], depth: int) -> Iterator[Item]:
    if depth > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    # Citus 11 and earlier: "Depended Jobs".
    for below in [*_items(job.get("Dependent Jobs")), *_items(job.get("Depended Jobs"))]:
        found = _mapping(below, "job")
        counts = [whole(found[key]) for key in ("Map Task Count", "Merge Task Count") if key in found]
        item = Item("job", "MapMergeJob", {"task_count": sum(counts)} if counts else {})
        item.children += _jobs(found, depth + 1)
        yield item


def _subplan(subplan: Mapping[str, object], depth: int) -> Item:
    facts: dict[str, Fact] = {}
    if "Subplan Duration" in subplan:
        facts["total_us"] = ms_in_us(subplan["Subplan Duration"])
    _add_received(facts, subplan.get("Intermediate Data Size"))
    item = Item("subplan", "Distributed Subplan", facts)
    for planned in _items(subplan.get("PlannedStmt")):
        _add_plan(item, planned, depth)
    return item


def _task(task: Mapping[str, object], depth: int) -> Item:
    facts = read_worker(str(task.get("Node", "")))
    if "Query" in task:
        facts["query"] = str(task["Query"])
    _add_received(facts, task.get("Tuple data received from node"))
    item = Item("task", "Task", facts)
    for remote in _items(task.get("Remote Plan")):
        # EXPLAIN ANALYZE puts the remote plan into a list of its own.
        for planned in remote if isinstance(remote, list) else [remote]:
            _add_plan(item, planned, depth)
    return item


def _add_plan(item: Item, planned: object, depth: int) -> None:
    entry = _mapping(planned, "remote plan")
    item.facts.update(_summary(entry))
    item.children.append(_node(_mapping(entry.get("Plan"), "plan"), depth + 1))


def _add_received(facts: dict[str, Fact], size: object) -> None:
    if (received := bytes_of(size)) is not None:
        facts["received_bytes"] = received
