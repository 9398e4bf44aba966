"""A plan as it is read: a tree of nodes, tasks, subplans and jobs, from any of EXPLAIN's formats.

Facts have the names of the columns of `plan_nodes`. Counters that one of EXPLAIN's formats omits and another prints as
0 are made equal here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from citus_analysis.units import US_PER_MS

Fact = int | float | str

#: Counters that the text omits if they are 0, by the word that begins their line.
COUNTERS: Final = {
    "Buffers": tuple(
        f"{place}_{what}_blocks"
        for place in ("shared", "local", "temp")
        for what in ("hit", "read", "dirtied", "written")
        if place != "temp" or what in ("read", "written")
    ),
    "WAL": ("wal_records", "wal_fpi", "wal_bytes"),
    "I/O Timings": ("io_read_us", "io_write_us"),
}
#: Facts of a plan, or of a task's plan.
_COUNTS: Final = ("width_bytes", "loops", "workers_planned", "workers_launched", "task_count")
_WHOLE: Final = frozenset((*_COUNTS, *COUNTERS["Buffers"], *COUNTERS["WAL"]))
_TEXTS: Final = frozenset({"subplan_name", "sort_method"})
PLAN_FACTS: Final = ("planning_us", "execution_us")
_LARGEST: Final = 2**63
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,12})?")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?(bytes|kB|MB|GB|TB)")
#: A number of bytes with as many digits is no size of a plan.
_LONGEST_SIZE: Final = 16
_POWERS: Final = {"bytes": 0, "kB": 1, "MB": 2, "GB": 3, "TB": 4}
_WORKER: Final = re.compile(r"host=(\S+)(?: port=([0-9]{1,5})(?: |$))?")
#: A shard's relation ends in the shard's number, which Citus counts from 102008.
_SHARD: Final = re.compile(r"_([0-9]{6,18})(?![A-Za-z0-9_])")


@dataclass
class Item:
    """A node of a plan, a task, a distributed subplan, or a job of a repartition join.

    Attributes:
        kind: `node`, `task`, `subplan` or `job`.
        name: its name in the text, without the relation.
        facts: column of `plan_nodes` -> value.
        conditions: its conditions and filters as printed, `Filter: (a > 1)`.
        children: the nodes that feed it, in the order in which EXPLAIN prints them.
    """

    kind: str
    name: str
    facts: dict[str, Fact] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    children: list[Item] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[Item, int | None, int]]:
        """This item and all below it, parents first, each with the number of its parent in this order and its depth."""
        open_: list[tuple[Item, int | None, int]] = [(self, None, 0)]
        for number in count():
            if not open_:
                return
            item, parent, depth = open_.pop()
            yield item, parent, depth
            open_ += [(child, number, depth + 1) for child in reversed(item.children)]


@dataclass
class Plan:
    """A plan with its place in the file.

    Attributes:
        root: its topmost node.
        facts: `query`, `planning_us`, `execution_us`.
        offset: where it begins in the source.
        length: number of bytes of the source.
    """

    root: Item
    facts: dict[str, Fact] = field(default_factory=dict)
    offset: int = 0
    length: int = 0

    def finish(self) -> Plan:
        """Unify facts that EXPLAIN's formats print differently, and name the shards of tasks."""
        items = [item for item, _, _ in self.root.walk()]
        for names in COUNTERS.values():
            _complete(items, names)
        for item in items:
            _finish(item)
        return self


def _complete(items: Sequence[Item], names: Sequence[str]) -> None:
    """Set missing counters to 0 if a node of the plan has more than 0; otherwise, remove them: they are unknown."""
    known = any(item.facts.get(name) for item in items for name in names)
    for item in items:
        for name in names:
            if not known:
                item.facts.pop(name, None)
            elif item.kind == "node":
                item.facts.setdefault(name, 0)


def _finish(item: Item) -> None:
    facts = item.facts
    if facts.get("loops") == 0:
        facts["actual_rows"] = 0.0
        facts.pop("startup_us", None)
        facts.pop("total_us", None)
    filtered = any(one.startswith(("Filter: ", "Join Filter: ")) for one in item.conditions)
    if filtered and "loops" in facts:
        facts.setdefault("removed_rows", 0.0)
    else:
        facts.pop("removed_rows", None)
    if not facts.get("disk_bytes"):
        facts.pop("disk_bytes", None)
    if item.kind == "task" and (shard := _shard_of(item)) is not None:
        facts["shard_id"] = shard


def _shard_of(task: Item) -> int | None:
    """The first shard that the task's plan reads or changes, otherwise the first that its query names."""
    relations = (str(item.facts.get("relation", "")) for item, _, _ in task.walk() if item.kind == "node")
    found = filter(None, map(_SHARD.search, [*relations, str(task.facts.get("query", ""))]))
    return next((int(one[1]) for one in found), None)


def real(value: object) -> float:
    """A number of a plan, which is a number in JSON and a string of digits in the text.

    Raises:
        ValueError: it is not a number, or is too large.
    """
    text = str(value)
    if isinstance(value, bool) or not (isinstance(value, int | float) or _NUMBER.fullmatch(text)):
        raise ValueError(f"not a number: {text[:40]!r}")
    number = float(value if isinstance(value, int | float) else text)
    if not abs(number) < _LARGEST:
        raise ValueError(f"too large a number: {text[:40]}")
    return number


def ms_in_us(value: object) -> float:
    """A time of a plan in microseconds."""
    return real(value) * US_PER_MS


def whole(value: object) -> int:
    """A whole number of a plan.

    Raises:
        ValueError: it is not a whole number, or is too large.
    """
    number = real(value)
    if number != int(number):
        raise ValueError(f"not a whole number: {str(value)[:40]!r}")
    return int(str(value)) if _NUMBER.fullmatch(str(value)) and "." not in str(value) else int(number)


def fact_of(column: str, printed: object) -> Fact:
    """What is printed as a value of a column: times in milliseconds, rows and costs as real numbers.

    Example:
        >>> fact_of("total_us", "0.5"), fact_of("loops", 3), fact_of("actual_rows", 3)
        (500.0, 3, 3.0)
    """
    if column in _TEXTS:
        return str(printed)
    return ms_in_us(printed) if column.endswith("_us") else whole(printed) if column in _WHOLE else real(printed)


def bytes_of(text: object) -> int | None:
    """Bytes of a size as PostgreSQL prints it, `24 kB`; None for other texts.

    Example:
        >>> bytes_of("24 kB"), bytes_of("1561kB"), bytes_of("much")
        (24576, 1598464, None)
    """
    found = _SIZE.fullmatch(str(text).strip())
    power = _POWERS[found[2]] if found else 0
    return int(found[1]) * 1024**power if found and len(found[1]) < _LONGEST_SIZE - 3 * power else None


def read_worker(text: str) -> dict[str, Fact]:
    """Host and port of a task's node.

    Example:
        >>> read_worker("host=worker1 port=5432 dbname=ycsb")
        {'worker_host': 'worker1', 'worker_port': 5432}
    """
    found = _WORKER.match(text)
    if found is None:
        return {}
    return {"worker_host": found[1], **({"worker_port": int(found[2])} if found[2] else {})}
