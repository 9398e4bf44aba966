"""Plans of `EXPLAIN` in its text format, as trees of items: the indentation shows the parent of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from citus_analysis.formats.explain._items import (
    COUNTERS,
    PLAN_FACTS,
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
from citus_analysis.formats.explain._labels import split_label

_N: Final = r"-?[0-9]{1,19}(?:\.[0-9]{1,12})?"
_COST: Final = (
    rf"\(cost=(?P<startup_cost>{_N})\.\.(?P<total_cost>{_N}) rows=(?P<estimated_rows>{_N}) "
    rf"width=(?P<width_bytes>{_N})\)"
)
_ACTUAL: Final = (
    rf"\(actual (?:time=(?P<startup_us>{_N})\.\.(?P<total_us>{_N}) )?rows=(?P<actual_rows>{_N}) loops=(?P<loops>{_N})\)"
)
_TAIL: Final = re.compile(rf"(?:  {_COST})?(?: (?:{_ACTUAL}|(?P<never>\(never executed\))))?$")
_ARROW: Final = re.compile(r" *->  (.*)$")
_ARROW_WIDTH: Final = len("->  ")
#: First words of PostgreSQL's nodes, by which plans without costs are recognised.
_NODE: Final = re.compile(
    r"(?:Async )?(?:Parallel )?(?:Partial |Finalize )?(?:Result|ProjectSet|Insert|Update|Delete|Merge|Append|Recursive "
    r"Union|BitmapAnd|BitmapOr|Nested Loop|Hash|Gather|(?:Seq|Sample|Index|Index Only|Bitmap Index|Bitmap Heap|Tid|Tid "
    r"Range|Subquery|Function|Table Function|Values|CTE|Named Tuplestore|WorkTable|Foreign|Custom) Scan|Foreign |"
    r"Materialize|Memoize|Sort|Incremental Sort|Group|Aggregate|GroupAggregate|HashAggregate|MixedAggregate|WindowAgg|"
    r"Unique|SetOp|HashSetOp|LockRows|Limit)\b"
)
#: A node in the first column, with costs or times.
WITH_NUMBERS: Final = re.compile(r"[A-Z].{0,500}(?:  \(cost=[0-9]| \(actual (?:time|rows)=[0-9])")
_BELOW: Final = re.compile(r" {2,}(?:->  [A-Z]|[A-Z][A-Za-z/ -]*: )")
#: A line that is not indented and belongs to the plan above it.
SUMMARY: Final = re.compile(
    r"(?:Planning|Execution|Serialization|Total runtime|Planning [Tt]ime|Execution [Tt]ime|Trigger\b.*|Settings|JIT|"
    r"Query Identifier|Memory|Buffers|Query Text|Memory used|Optimizer|Slice statistics|Statement statistics)(?::|$)"
)
#: What auto_explain prints before the query, and before its parameters.
QUERY_TEXT: Final = "Query Text: "
_BESIDE_QUERY: Final = ("Query Parameters: ", "Query Identifier: ")
#: Column of a time of the whole plan, by its key in all versions; before 9.4 it was `Total runtime`.
_TIMES: Final = {
    **dict.fromkeys(("Planning Time", "Planning time"), PLAN_FACTS[0]),
    **dict.fromkeys(("Execution Time", "Execution time", "Total runtime"), PLAN_FACTS[1]),
}
#: Greenplum: the part of a plan that several segments execute, after the name of a motion.
_SLICE: Final = re.compile(r"  \(slice[0-9]+(?:; [^()]*)?\)$")
_KEY: Final = re.compile(r"([A-Z][A-Za-z/ -]{0,40}): (.*)$")
_SECTION: Final = re.compile(r"(?:Planning|JIT|Worker [0-9]+|Serialization):")
_SUBPLAN: Final = re.compile(r"(?:SubPlan|InitPlan|CTE) [^:]+$")
_MS: Final = re.compile(rf"({_N}) ms")
_PAIR: Final = re.compile(r"([a-z]+)=([0-9]+(?:\.[0-9]+)?)")


def begins_plan(text: str, following: str = "") -> bool:
    """Whether a line is the topmost node of a plan: it has costs or times, or is a node's name with details below.

    psql puts a blank before its cells, also without a heading.

    Example:
        >>> begins_plan("Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)")
        True
        >>> begins_plan("Sort", "  Sort Key: a"), begins_plan("Sort", "3")
        (True, False)
    """
    if text.startswith(" "):
        text, following = text[1:], following.removeprefix(" ")
    return bool(WITH_NUMBERS.match(text) or (_NODE.match(text) and _BELOW.match(following)))


@dataclass
class _Reader:
    """A plan and the state of reading its lines; `stack` holds the open items with the columns of their names."""

    base: int
    plan: Plan | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    stack: list[tuple[Item, int]] = field(default_factory=list)
    section: int | None = None
    named: tuple[int, str] | None = None

    def add(self, line: str) -> None:
        """Read a line.

        Raises:
            ValueError: a number cannot be read.
        """
        text = line[self.base :] if not line[: self.base].strip() else line.lstrip()
        indent = len(text) - len(text.lstrip(" "))
        arrow = _ARROW.match(text)
        if arrow and self.stack:
            self._open(_item_of(arrow[1]), arrow.start(1))
        elif not self.stack and not SUMMARY.match(text):
            self._open(_item_of(text.strip()), 0)
        else:
            self._detail(text.strip(), indent)

    def _open(self, item: Item, column: int) -> None:
        self.section = None
        while self.stack and self.stack[-1][1] >= column:
            self.stack.pop()
        if self.stack:
            self.stack[-1][0].children.append(item)
        else:
            self.plan = Plan(item, self.facts)
        if self.named and self.named[0] < column - _ARROW_WIDTH:
            item.facts["subplan_name"] = self.named[1]
        self.named = None
        self.stack.append((item, column))

    def _detail(self, text: str, indent: int) -> None:
        if self.section is not None and indent > self.section:
            return
        self.section = indent if _SECTION.match(text) else None
        key = _KEY.match(text)
        if key and key[1] in _TIMES:
            # Of the whole plan, or of the task or subplan that the line belongs to.
            owners = [item.facts for item, column in self.stack if item.kind != "node" and column < indent]
            if found := _MS.fullmatch(key[2]):
                [self.facts, *owners][-1][_TIMES[key[1]]] = ms_in_us(found[1])
        elif not self.section and key and self.stack:
            owner = next((item for item, column in reversed(self.stack) if column < indent), None)
            if owner is not None:
                _add_detail(owner, key[1], key[2])
        elif _SUBPLAN.fullmatch(text):
            self.named = (indent, text)


def plan_of_text(lines: Sequence[str]) -> Plan:
    """The plan in lines that begin with its topmost node, or with the query that auto_explain prints before it.

    Raises:
        ValueError: there is no node, or a number cannot be read.
    """
    query, root = None, 0
    if lines and lines[0].startswith(QUERY_TEXT):
        root = _root_of_logged(lines)
        said = (line for line in lines[:root] if not line.startswith(_BESIDE_QUERY))
        query = "\n".join(said).removeprefix(QUERY_TEXT)
    text = next((line for line in lines[root:] if line.strip()), "")
    reader = _Reader(len(text) - len(text.lstrip(" ")))
    if query is not None:
        reader.facts["query"] = query
    for line in lines[root:]:
        if line.strip():
            reader.add(line)
    if reader.plan is None:
        raise ValueError("it contains no node of a plan")
    return reader.plan


def _root_of_logged(lines: Sequence[str]) -> int:
    """Number of the topmost node's line in a plan that auto_explain printed below its query.

    A query may have any lines, and all lines below the node are indented or lines of the summary: the last line with
    costs that begins in the first column is the node's.

    Raises:
        ValueError: no line has costs.
    """
    rooted = [number for number, line in enumerate(lines) if WITH_NUMBERS.match(line)]
    if not rooted:
        raise ValueError("no node with costs follows the query")
    return rooted[-1]


def _item_of(label: str) -> Item:
    """A node, task, subplan or job, from the text after its arrow."""
    if label == "Task":
        return Item("task", "Task")
    if label.startswith("Distributed Subplan"):
        return Item("subplan", "Distributed Subplan")
    if label in ("MapMergeJob", "MergeJob"):
        return Item("job", "MapMergeJob")
    tail = _TAIL.search(label)
    numbers = tail.groupdict() if tail else {}
    name, where = split_label(_SLICE.sub("", label[: tail.start()] if tail else label))
    if "  (cost=" in name or " (actual " in name:
        raise ValueError(f"costs or times that are not numbers: {name[-60:]!r}")
    facts: dict[str, Fact] = {"loops": 0} if numbers.pop("never", None) else {}
    facts |= {column: fact_of(column, number) for column, number in numbers.items() if number is not None}
    return Item("node", name, {**facts, **where})


_COUNTS: Final = ("Workers Planned", "Workers Launched", "Task Count")
_SIZES: Final = ("Tuple data received from nodes", "Tuple data received from node", "Intermediate Data Size")


def _add_detail(item: Item, key: str, value: str) -> None:
    """Add a line below a node that is not itself a node."""
    facts = item.facts
    if key in _COUNTS:
        facts[key.replace(" ", "_").lower()] = whole(value)
    elif key.startswith("Rows Removed by ") and key.endswith("Filter"):
        facts["removed_rows"] = float(str(facts.get("removed_rows", 0))) + real(value)
    elif key.endswith(("Cond", "Filter")):
        item.conditions.append(f"{key}: {value}")
    elif key in COUNTERS:
        facts.update(_counters(key, value))
    elif key in ("Sort Method", "Batches", "Buckets"):
        _add_memory(facts, key, value)
    else:
        facts.update(_of_citus(item, key, value))


def _of_citus(item: Item, key: str, value: str) -> dict[str, Fact]:
    """Citus's facts about a distributed query, a subplan, a job or a task; empty for facts that are not kept."""
    size, time = bytes_of(value), _MS.fullmatch(value)
    if key in _SIZES and size is not None:
        return {"received_bytes": size}
    if key == "Subplan Duration" and time:
        return {"total_us": ms_in_us(time[1])}
    if key == "Tasks Shown":
        return {"tasks_shown": value}
    if item.kind == "task" and key == "Query":
        return {"query": value}
    if item.kind == "task" and key == "Node":
        return read_worker(value)
    if item.kind == "job" and key in ("Map Task Count", "Merge Task Count"):
        return {"task_count": int(item.facts.get("task_count", 0)) + whole(value)}
    return {}


def _add_memory(facts: dict[str, Fact], key: str, value: str) -> None:
    """Add the sizes in `quicksort  Memory: 25kB` or `1  Memory Usage: 48kB  Disk Usage: 16kB`."""
    if key == "Sort Method":
        facts["sort_method"] = value.partition("  ")[0]
    for column, word in (("memory_bytes", "Memory"), ("disk_bytes", "Disk")):
        found = re.search(rf"  {word}(?: Usage)?: ([0-9]+kB)", value)
        if found and (size := bytes_of(found[1])) is None:
            raise ValueError(f"too large a size: {found[1][:40]}")
        if found and size is not None:
            facts[column] = size


def _counters(key: str, value: str) -> dict[str, Fact]:
    """Facts in `shared hit=3 read=1, temp read=5`, `records=1 fpi=1 bytes=8206`, `shared/local read=0.1 write=0.2`."""
    found: dict[str, Fact] = {}
    for part in value.split(", "):
        place = part.partition(" ")[0]
        for name, number in _PAIR.findall(part):
            if key == "Buffers":
                column = f"{place}_{name}_blocks"
            elif key == "WAL":
                column = f"wal_{name}"
            else:
                # Times of temporary files are separate, as in JSON.
                column = f"io_{name}_us" if place != "temp" else ""
            if column in COUNTERS[key]:
                found[column] = ms_in_us(number) if key == "I/O Timings" else whole(number)
    return found
