r"""Plans of `EXPLAIN`: text, JSON, YAML or XML, alone or in the frames of psql.

Tables: `plans`, `plan_nodes`. Example::

    Custom Scan (Citus Adaptive)  (cost=0.00..0.00 rows=0 width=0) (actual time=8.732..8.734 rows=0 loops=1)
      Task Count: 4
      Tasks Shown: One of 4
      ->  Task
            Node: host=worker1 port=5432 dbname=ycsb
            ->  Index Scan using usertable_pkey_102008 on usertable_102008 usertable  (cost=0.28..8.30 rows=1 ...
                  Buffers: shared hit=3
                Execution Time: 1.105 ms
    Planning Time: 1.361 ms
    Execution Time: 8.876 ms

- A file may contain several plans, with text around them: psql's heading `QUERY PLAN`, rules, borders, the marks of
  continued cells, and the number of rows are noise; any other text outside a plan is rejected. JSON and YAML may be
  printed by psql or written by a program, and so may XML.
- The times of all versions are read: `Planning time` and `Execution time` up to PostgreSQL 10, `Total runtime` before
  9.4. A motion of Greenplum is a node without the number of its slice.
- `plan_nodes` has a row per node, and one per task, distributed subplan and job of Citus. Rows of nodes below a task
  have its shard and worker. The shard is that of the first relation whose name ends in a shard's number.
- Text, JSON, YAML and XML of one plan give equal rows. Counters that the text omits and JSON prints as 0 (blocks, WAL,
  times of reading and writing) are 0 if another node of the plan has more than 0, otherwise null in all formats.
- `actual_rows`, `startup_us` and `total_us` are means of one execution, as PostgreSQL prints them; multiply them by
  `loops` for the node's total. A node that was never executed has `loops` = 0 and no times.
- By default Citus shows one task of many, with ANALYZE the slowest. `plans.unknown` then names the unknown facts.

Not kept: output columns, keys of sorts and groups, times of single parallel workers, JIT, triggers, settings, blocks
of planning, slices and memory of Greenplum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, islice, pairwise
from typing import ClassVar, Final
from xml.etree import ElementTree

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import build_parsed_lines, line_frame
from citus_analysis.schema import TABLES
from citus_analysis.texts.documents import parse_json, parse_yaml
from citus_analysis.units import US_PER_MS

# A plan as it is read: a tree of nodes, tasks, subplans and jobs, from any of EXPLAIN's formats.
#
# Facts have the names of the columns of `plan_nodes`. Counters that one of EXPLAIN's formats omits and another prints
# as 0 are made equal here.

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
class PlanItem:
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
    children: list[PlanItem] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[PlanItem, int | None, int]]:
        """This item and all below it, parents first, each with the number of its parent in this order and its depth."""
        open_: list[tuple[PlanItem, int | None, int]] = [(self, None, 0)]
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

    root: PlanItem
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


def _complete(items: Sequence[PlanItem], names: Sequence[str]) -> None:
    """Set missing counters to 0 if a node of the plan has more than 0; otherwise, remove them: they are unknown."""
    known = any(item.facts.get(name) for item in items for name in names)
    for item in items:
        for name in names:
            if not known:
                item.facts.pop(name, None)
            elif item.kind == "node":
                item.facts.setdefault(name, 0)


def _finish(item: PlanItem) -> None:
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
    if item.kind == "task" and (shard := _find_task_shard(item)) is not None:
        facts["shard_id"] = shard


def _find_task_shard(task: PlanItem) -> int | None:
    """The first shard that the task's plan reads or changes, otherwise the first that its query names."""
    relations = (str(item.facts.get("relation", "")) for item, _, _ in task.walk() if item.kind == "node")
    found = filter(None, map(_SHARD.search, [*relations, str(task.facts.get("query", ""))]))
    return next((int(one[1]) for one in found), None)


def convert_to_real(value: object) -> float:
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


def convert_ms_to_us(value: object) -> float:
    """A time of a plan in microseconds."""
    return convert_to_real(value) * US_PER_MS


def convert_to_whole_number(value: object) -> int:
    """A whole number of a plan.

    Raises:
        ValueError: it is not a whole number, or is too large.
    """
    number = convert_to_real(value)
    if number != int(number):
        raise ValueError(f"not a whole number: {str(value)[:40]!r}")
    return int(str(value)) if _NUMBER.fullmatch(str(value)) and "." not in str(value) else int(number)


def convert_printed_fact(column: str, printed: object) -> Fact:
    """What is printed as a value of a column: times in milliseconds, rows and costs as real numbers.

    Example:
        >>> (
        ...     convert_printed_fact("total_us", "0.5"),
        ...     convert_printed_fact("loops", 3),
        ...     convert_printed_fact("actual_rows", 3),
        ... )
        (500.0, 3, 3.0)
    """
    if column in _TEXTS:
        return str(printed)
    return (
        convert_ms_to_us(printed)
        if column.endswith("_us")
        else convert_to_whole_number(printed)
        if column in _WHOLE
        else convert_to_real(printed)
    )


def parse_size_bytes(text: object) -> int | None:
    """Bytes of a size as PostgreSQL prints it, `24 kB`; None for other texts.

    Example:
        >>> parse_size_bytes("24 kB"), parse_size_bytes("1561kB"), parse_size_bytes("much")
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


# The names of plan nodes: as the text prints them, and composed from the keys of JSON and YAML.
#
# The rules are those of PostgreSQL's `explain.c` (`ExplainNode`, `ExplainTargetRel`).

_IDENTIFIER: Final = r'(?:"(?:[^"]|"")*"|[^\s".]+)'
#: `Index Scan using t_pkey on public.t_102009 t`; the group `name` is lazy.
_TARGET: Final = re.compile(
    rf"(?P<name>[A-Z][A-Za-z ()_]*?)(?: using (?P<index_name>{_IDENTIFIER}))?"
    rf"(?: on (?:(?P<schema_name>{_IDENTIFIER})\.)?(?P<relation>{_IDENTIFIER})(?: (?P<alias>{_IDENTIFIER}))?)?"
)
#: Nodes whose `on` names something other than a relation -> its column.
_NO_RELATION: Final = {"Values Scan": "alias", "Subquery Scan": "alias", "Bitmap Index Scan": "index_name"}
_RELATIONS: Final = ("Relation Name", "Function Name", "Table Function Name", "CTE Name", "Tuplestore Name")
_STRATEGIES: Final = {
    ("Aggregate", "Sorted"): "GroupAggregate",
    ("Aggregate", "Hashed"): "HashAggregate",
    ("Aggregate", "Mixed"): "MixedAggregate",
    ("SetOp", "Hashed"): "HashSetOp",
}
_JOINS: Final = {"Nested Loop": "Nested Loop", "Merge Join": "Merge", "Hash Join": "Hash"}


def split_label(label: str) -> tuple[str, dict[str, str]]:
    """Name of a node and of the object it works on, from its line in the text.

    Example:
        >>> split_label("Index Scan using t_pkey_102009 on public.t_102009 t")[0]
        'Index Scan'
        >>> split_label("Seq Scan on orders")
        ('Seq Scan', {'relation': 'orders', 'alias': 'orders'})
    """
    found = _TARGET.fullmatch(label)
    if found is None:
        return label, {}
    parts = {
        key: _unquote_name(value) for key, value in found.groupdict().items() if value is not None and key != "name"
    }
    name = found["name"]
    bare = name.removeprefix("Async ").removeprefix("Parallel ")
    if "relation" not in parts:
        return name, parts
    if bare in _NO_RELATION:
        return name, {_NO_RELATION[bare]: parts["relation"]}
    # The text leaves out an alias that is the relation's own name.
    return name, parts | {"alias": parts.get("alias", parts["relation"])}


def _unquote_name(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def build_node_label(node: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Name of a node and of the object it works on, as the text prints them, from the keys of JSON and YAML.

    Example:
        >>> build_node_label({"Node Type": "Hash Join", "Join Type": "Left", "Parallel Aware": True})
        ('Parallel Hash Left Join', {})
    """
    mode = node.get("Partial Mode")
    said = (
        ("Async", node.get("Async Capable") is True),
        ("Parallel", node.get("Parallel Aware") is True),
        (str(mode), mode in ("Partial", "Finalize")),
        (_build_node_name(node), True),
    )
    keys = {"Index Name": "index_name", "Schema": "schema_name", "Alias": "alias"}
    facts = {column: str(node[key]) for key, column in keys.items() if node.get(key) is not None}
    relation = next((str(node[key]) for key in _RELATIONS if node.get(key) is not None), None)
    name = " ".join(word for word, holds in said if holds)
    return name, facts if relation is None else facts | {"relation": relation}


def _build_node_name(node: Mapping[str, object]) -> str:
    kind = str(node["Node Type"])
    if kind in _JOINS:
        join = str(node.get("Join Type", "Inner"))
        return kind if join == "Inner" else f"{_JOINS[kind]} {join} Join"
    if kind == "ModifyTable" or (kind == "Foreign Scan" and node.get("Operation") not in (None, "Select")):
        operation = str(node.get("Operation", kind))
        return operation if kind == "ModifyTable" else f"Foreign {operation}"
    if kind == "Custom Scan" and "Custom Plan Provider" in node:
        return f"Custom Scan ({node['Custom Plan Provider']})"
    if node.get("Scan Direction") == "Backward":
        kind = f"{kind} Backward"
    kind = _STRATEGIES.get((kind, str(node.get("Strategy"))), kind)
    return f"{kind} {node['Command']}" if "Command" in node else kind


# Plans of `EXPLAIN` in its text format, as trees of items: the indentation shows the parent of each.

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
class _TextPlanReader:
    """A plan and the state of reading its lines; `stack` holds the open items with the columns of their names."""

    base: int
    plan: Plan | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    stack: list[tuple[PlanItem, int]] = field(default_factory=list)
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
            self._open(_parse_item_label(arrow[1]), arrow.start(1))
        elif not self.stack and not SUMMARY.match(text):
            self._open(_parse_item_label(text.strip()), 0)
        else:
            self._detail(text.strip(), indent)

    def _open(self, item: PlanItem, column: int) -> None:
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
                [self.facts, *owners][-1][_TIMES[key[1]]] = convert_ms_to_us(found[1])
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
    reader = _TextPlanReader(len(text) - len(text.lstrip(" ")))
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


def _parse_item_label(label: str) -> PlanItem:
    """A node, task, subplan or job, from the text after its arrow."""
    if label == "Task":
        return PlanItem("task", "Task")
    if label.startswith("Distributed Subplan"):
        return PlanItem("subplan", "Distributed Subplan")
    if label in ("MapMergeJob", "MergeJob"):
        return PlanItem("job", "MapMergeJob")
    tail = _TAIL.search(label)
    numbers = tail.groupdict() if tail else {}
    name, where = split_label(_SLICE.sub("", label[: tail.start()] if tail else label))
    if "  (cost=" in name or " (actual " in name:
        raise ValueError(f"costs or times that are not numbers: {name[-60:]!r}")
    facts: dict[str, Fact] = {"loops": 0} if numbers.pop("never", None) else {}
    facts |= {column: convert_printed_fact(column, number) for column, number in numbers.items() if number is not None}
    return PlanItem("node", name, {**facts, **where})


_TEXT_COUNTS: Final = ("Workers Planned", "Workers Launched", "Task Count")
_SIZES: Final = ("Tuple data received from nodes", "Tuple data received from node", "Intermediate Data Size")


def _add_detail(item: PlanItem, key: str, value: str) -> None:
    """Add a line below a node that is not itself a node."""
    facts = item.facts
    if key in _TEXT_COUNTS:
        facts[key.replace(" ", "_").lower()] = convert_to_whole_number(value)
    elif key.startswith("Rows Removed by ") and key.endswith("Filter"):
        facts["removed_rows"] = float(str(facts.get("removed_rows", 0))) + convert_to_real(value)
    elif key.endswith(("Cond", "Filter")):
        item.conditions.append(f"{key}: {value}")
    elif key in COUNTERS:
        facts.update(_parse_counters(key, value))
    elif key in ("Sort Method", "Batches", "Buckets"):
        _add_memory(facts, key, value)
    else:
        facts.update(_parse_citus_facts(item, key, value))


def _parse_citus_facts(item: PlanItem, key: str, value: str) -> dict[str, Fact]:
    """Citus's facts about a distributed query, a subplan, a job or a task; empty for facts that are not kept."""
    size, time = parse_size_bytes(value), _MS.fullmatch(value)
    if key in _SIZES and size is not None:
        return {"received_bytes": size}
    if key == "Subplan Duration" and time:
        return {"total_us": convert_ms_to_us(time[1])}
    if key == "Tasks Shown":
        return {"tasks_shown": value}
    if item.kind == "task" and key == "Query":
        return {"query": value}
    if item.kind == "task" and key == "Node":
        return read_worker(value)
    if item.kind == "job" and key in ("Map Task Count", "Merge Task Count"):
        return {"task_count": int(item.facts.get("task_count", 0)) + convert_to_whole_number(value)}
    return {}


def _add_memory(facts: dict[str, Fact], key: str, value: str) -> None:
    """Add the sizes in `quicksort  Memory: 25kB` or `1  Memory Usage: 48kB  Disk Usage: 16kB`."""
    if key == "Sort Method":
        facts["sort_method"] = value.partition("  ")[0]
    for column, word in (("memory_bytes", "Memory"), ("disk_bytes", "Disk")):
        found = re.search(rf"  {word}(?: Usage)?: ([0-9]+kB)", value)
        if found and (size := parse_size_bytes(found[1])) is None:
            raise ValueError(f"too large a size: {found[1][:40]}")
        if found and size is not None:
            facts[column] = size


def _parse_counters(key: str, value: str) -> dict[str, Fact]:
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
                found[column] = convert_ms_to_us(number) if key == "I/O Timings" else convert_to_whole_number(number)
    return found


# Plans of `EXPLAIN (FORMAT JSON)` and `EXPLAIN (FORMAT YAML)`, as trees of items.

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


def parse_json_plans(text: str) -> list[Plan]:
    """The plans of one JSON document.

    Raises:
        ValueError: it is not JSON, or contains no plan.
    """
    try:
        return parse_document_plans(parse_json(text))
    except FormatError as error:
        raise ValueError(error.problem) from error


def parse_yaml_plans(text: str) -> list[Plan]:
    """The plans of one YAML document.

    Raises:
        ValueError: it is not YAML, or contains no plan.
    """
    try:
        return parse_document_plans(parse_yaml(text.encode(), deepest=_DEEPEST_YAML))
    except FormatError as error:
        raise ValueError(str(error)) from error


def parse_document_plans(document: object) -> list[Plan]:
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
    outer = _check_mapping(entry, "plan")
    facts = _parse_plan_summary(outer)
    if "Query Text" in outer:
        facts["query"] = str(outer["Query Text"])
    return Plan(_parse_document_node(_check_mapping(outer.get("Plan"), "plan"), 0), facts)


def _check_mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"the {what} is missing or is not a mapping")  # noqa: TRY004 - the file is at fault
    return value


def _get_list_items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _parse_plan_summary(entry: Mapping[str, object]) -> dict[str, Fact]:
    keys = {"Planning Time": "planning_us", "Execution Time": "execution_us"}
    return {column: convert_ms_to_us(entry[key]) for key, column in keys.items() if key in entry}


def _parse_document_node(node: Mapping[str, object], depth: int) -> PlanItem:
    if depth > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    if "Node Type" not in node:
        raise ValueError("a node without a type")
    name, where = build_node_label(node)
    facts: dict[str, Fact] = {**where}
    facts |= {
        column: convert_printed_fact(column, node[key]) for key, column in _KEYS.items() if node.get(key) is not None
    }
    facts |= {
        column: convert_to_whole_number(node[key]) * 1024
        for key, column in _KILOBYTES.items()
        if node.get(key) is not None
    }
    if "Sort Space Used" in node:
        column = "disk_bytes" if node.get("Sort Space Type") == "Disk" else "memory_bytes"
        facts[column] = convert_to_whole_number(node["Sort Space Used"]) * 1024
    removed = [
        convert_to_real(node[key]) for key in ("Rows Removed by Filter", "Rows Removed by Join Filter") if key in node
    ]
    if removed:
        facts["removed_rows"] = sum(removed)
    conditions = [f"{key}: {value}" for key, value in node.items() if _CONDITION.fullmatch(key) and value is not None]
    item = PlanItem("node", name, facts, conditions)
    item.children += _parse_distributed_query(node.get("Distributed Query"), facts, depth + 1)
    item.children += [
        _parse_document_node(_check_mapping(child, "node"), depth + 1) for child in _get_list_items(node.get("Plans"))
    ]
    return item


def _parse_distributed_query(query: object, facts: dict[str, Fact], depth: int) -> Iterator[PlanItem]:
    """The subplans, jobs and tasks of a distributed query; its own facts are added to those of its node."""
    if query is None:
        return
    distributed = _check_mapping(query, "distributed query")
    for subplan in _get_list_items(distributed.get("Subplans")):
        yield _parse_document_subplan(_check_mapping(subplan, "subplan"), depth)
    job = _check_mapping(distributed.get("Job", {}), "job")
    if "Task Count" in job:
        facts["task_count"] = convert_to_whole_number(job["Task Count"])
    if "Tasks Shown" in job:
        facts["tasks_shown"] = str(job["Tasks Shown"])
    _add_received(facts, job.get("Tuple data received from nodes"))
    yield from _parse_dependent_jobs(job, depth)
    for task in _get_list_items(job.get("Tasks")):
        yield _parse_document_task(_check_mapping(task, "task"), depth)


def _parse_dependent_jobs(job: Mapping[str, object], depth: int) -> Iterator[PlanItem]:
    if depth > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    # Citus 11 and earlier: "Depended Jobs".
    for below in [*_get_list_items(job.get("Dependent Jobs")), *_get_list_items(job.get("Depended Jobs"))]:
        found = _check_mapping(below, "job")
        counts = [convert_to_whole_number(found[key]) for key in ("Map Task Count", "Merge Task Count") if key in found]
        item = PlanItem("job", "MapMergeJob", {"task_count": sum(counts)} if counts else {})
        item.children += _parse_dependent_jobs(found, depth + 1)
        yield item


def _parse_document_subplan(subplan: Mapping[str, object], depth: int) -> PlanItem:
    facts: dict[str, Fact] = {}
    if "Subplan Duration" in subplan:
        facts["total_us"] = convert_ms_to_us(subplan["Subplan Duration"])
    _add_received(facts, subplan.get("Intermediate Data Size"))
    item = PlanItem("subplan", "Distributed Subplan", facts)
    for planned in _get_list_items(subplan.get("PlannedStmt")):
        _add_plan(item, planned, depth)
    return item


def _parse_document_task(task: Mapping[str, object], depth: int) -> PlanItem:
    facts = read_worker(str(task.get("Node", "")))
    if "Query" in task:
        facts["query"] = str(task["Query"])
    _add_received(facts, task.get("Tuple data received from node"))
    item = PlanItem("task", "Task", facts)
    for remote in _get_list_items(task.get("Remote Plan")):
        # EXPLAIN ANALYZE puts the remote plan into a list of its own.
        for planned in remote if isinstance(remote, list) else [remote]:
            _add_plan(item, planned, depth)
    return item


def _add_plan(item: PlanItem, planned: object, depth: int) -> None:
    entry = _check_mapping(planned, "remote plan")
    item.facts.update(_parse_plan_summary(entry))
    item.children.append(_parse_document_node(_check_mapping(entry.get("Plan"), "plan"), depth + 1))


def _add_received(facts: dict[str, Fact], size: object) -> None:
    if (received := parse_size_bytes(size)) is not None:
        facts["received_bytes"] = received


# Plans of `EXPLAIN (FORMAT XML)`, by way of the document that JSON would be.
#
# The names of elements are those of JSON with `-` for blanks and slashes; an element of a list is named after its kind
# (`explain.c`, `ExplainOpenGroup`, `ExplainXMLTag`).

XML_BEGINS: Final = "<explain"
XML_ENDS: Final = "</explain>"
#: Elements that are lists, whatever their number of children; Citus puts the document of a task into `Remote-Plan`.
_LISTS: Final = frozenset(
    {
        *("Plans", "Workers", "Triggers", "Tasks", "Subplans", "PlannedStmt", "Remote-Plan"),
        *("Dependent-Jobs", "Depended-Jobs"),
    }
)
_WORDS: Final = {"true": True, "false": False}
_DEEPEST_ELEMENT: Final = 250


def parse_xml_plans(text: str) -> list[Plan]:
    """The plans of one XML document.

    Raises:
        ValueError: it is not XML, or contains no plan.
    """
    if "<!" in text:
        # PostgreSQL prints none, and the expansion of entities may take any memory.
        raise ValueError("declarations of XML")
    try:
        document = ElementTree.fromstring(text)  # noqa: S314 - without declarations nothing can be expanded
    except ElementTree.ParseError as error:
        raise ValueError(f"no XML: {error}") from error
    return parse_document_plans(_convert_xml_element(document, 0))


def _convert_xml_element(element: ElementTree.Element, depth: int) -> object:
    """An element as JSON would be: a list, a mapping, a text or a truth value."""
    if depth > _DEEPEST_ELEMENT:
        raise ValueError("nested too deeply for a plan")
    name, children = _name(element), list(element)
    if name in _LISTS or (children and all(_name(child) in ("Query", "Item") for child in children)):
        return [_convert_xml_element(child, depth + 1) for child in children]
    if children:
        return {_convert_xml_key(_name(child)): _convert_xml_element(child, depth + 1) for child in children}
    text = element.text or ""
    return _WORDS.get(text, text)


def _name(element: ElementTree.Element) -> str:
    """The name without its namespace."""
    return element.tag.rpartition("}")[2]


def _convert_xml_key(name: str) -> str:
    return name.replace("-", " ").replace("I O ", "I/O ")


# Places of plans in a file, as EXPLAIN printed them or in the frames of psql and other clients.

_BORDERS: Final = "|\u2502\u2551"
#: The heading of EXPLAIN's only column, in any of psql's borders.
HEADER: Final = re.compile(rf"[\s{_BORDERS}]*QUERY PLAN[\s{_BORDERS}]*$")
_RULE: Final = re.compile(r"\s*[-+|\u2500-\u257f]{3,}\s*$")
#: In any language that psql speaks.
_FOOTER: Final = re.compile(r"\([0-9]+ [^\W\d]+\)$|[^\W\d]+ ?: [0-9.,]+ ms(?: \(.*\))?$")
#: What psql prints before a statement, and says about itself.
_PROMPT: Final = re.compile(
    r"[\w.]+[=\-*!^'\"($][*!?]?[#>](?: .*)?$|Timing is o(?:n|ff)\.$|Expanded display is o(?:n|ff)\.$"
)
#: psql's expanded output: the heading of a record, and a cell of its only column.
EXPANDED: Final = re.compile(r"-\[ RECORD [0-9]+ \]|\* Record [0-9]+")
_EXPANDED_CELL: Final = re.compile(r"(?:QUERY PLAN| {10}) ?[|\u2502] ?(.*)")
#: Marks of a cell that continues in the next line.
_CONTINUES: Final = re.compile(r"[ \t]*[+\u21b5]$")
YAML_BEGINS: Final = re.compile(r"\s*- (?:Plan|Query Text|Query Identifier):")
#: Lines of a YAML plan that auto_explain logged: keys of one plan, not a list of plans.
_LOGGED_YAML: Final = re.compile(r"\s|(?!Query Text: )[A-Z][A-Za-z ]*:(?: |$)")
#: Lines with the query, its parameters and its identifier precede the plan.
_LINES_BEFORE_PLAN: Final = 3
_OPENS: Final = {"[": "]", "{": "}"}
#: A prompt may begin with a bracket, too.
_OPENS_JSON: Final = re.compile(r"\[\s*(?:[{\]]|$)|\{\s*(?:[\"}]|$)")
#: Costs or times that go on in the next line, and a line that cannot continue one.
_OPEN_NUMBERS: Final = re.compile(r"\((?:cost|actual)\b[^()]*$")
_OWN_LINE: Final = re.compile(r"\s*(?:->  |[A-Z][A-Za-z/ -]{0,40}: |(?:SubPlan|InitPlan|CTE) |Worker [0-9])")
#: A number with its name, which a blank or a bracket precedes.
_NAMED_NUMBER: Final = re.compile(r"(?:rows|width|time|loops)=")
#: No number has two points; it is looked for so far from where lines were joined.
_TWO_POINTS: Final = re.compile(r"[0-9]\.[0-9]+\.[0-9]")
_AROUND: Final = 16
#: The narrowest terminal that divides lines.
_NARROWEST: Final = 40
#: What clients put around each line that they copy.
_QUOTES: Final = "\"'"


@dataclass(frozen=True)
class Segment:
    """Neighbouring lines that are a plan, noise, or cannot be understood.

    Attributes:
        first: number of the first line.
        end: number of the line after the last.
        form: `text`, `json`, `yaml`, `xml`, `noise`, or empty for lines that are outside a plan.
        plans: the plans in it.
        reason: reason to reject the segment; empty if it is not rejected.
    """

    first: int
    end: int
    form: str
    plans: Sequence[Plan] = ()
    reason: str = ""


def split_into_segments(lines: Sequence[str]) -> Iterator[Segment]:
    """All lines in order, cut into segments."""
    at = 0
    while at < len(lines):
        if EXPANDED.match(lines[at]) and _EXPANDED_CELL.match("".join(lines[at + 1 : at + 2])):
            found = _parse_expanded_segment(lines, at)
            yield found
            at = found.end
            continue
        if HEADER.match(lines[at]):
            yield from (frame := list(_parse_framed_segments(lines, at)))
            at = frame[-1].end
            continue
        found = _parse_unframed_segment(lines, at)
        yield found
        at = found.end


def parse_logged_plan(lines: Sequence[str]) -> list[tuple[str, Plan]]:
    """Form and plan in the message of auto_explain, without its first line.

    Raises:
        ValueError: the plan cannot be read.
    """
    if lines and lines[0].startswith(QUERY_TEXT) and not _is_logged_yaml(lines, 0):
        return [("text", plan_of_text(lines).finish())]
    found = list(split_into_segments(lines))
    plans = [(one.form, plan) for one in found for plan in one.plans]
    if not plans:
        raise ValueError(next((one.reason for one in found if one.reason), "it contains no plan"))
    return plans


def _is_logged_yaml(lines: Sequence[str], at: int) -> bool:
    following = lines[at + 1 : at + 1 + _LINES_BEFORE_PLAN]
    return lines[at].startswith(f'{QUERY_TEXT}"') and any(line.startswith("Plan:") for line in following)


def _parse_unframed_segment(lines: Sequence[str], at: int) -> Segment:
    """The segment that begins in a line outside any frame."""
    text = lines[at]
    if not text.strip() or _RULE.match(text) or _FOOTER.match(text.strip()) or _PROMPT.match(text):
        return Segment(at, at + 1, "noise")
    if _OPENS_JSON.match(text):
        return _parse_document_segment(lines, at, "json", _find_json_end(lines, at))
    if text.startswith(XML_BEGINS):
        return _parse_document_segment(lines, at, "xml", _find_xml_end(lines, at))
    if YAML_BEGINS.match(text):
        return _parse_document_segment(lines, at, "yaml", _find_yaml_end(lines, at))
    if _is_logged_yaml(lines, at):
        return _parse_document_segment(lines, at, "yaml", _find_logged_yaml_end(lines, at))
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if text.startswith(QUERY_TEXT) or begins_plan(text, following):
        return _parse_document_segment(lines, at, "text", _find_text_plan_end(lines, at))
    return Segment(at, at + 1, "", reason="outside a plan")


def _parse_framed_segments(lines: Sequence[str], header: int) -> Iterator[Segment]:
    """A heading with the plan below it."""
    at = header + 1
    while at < len(lines) and _RULE.match(lines[at]):
        at += 1
    is_ruled = at > header + 1
    yield Segment(header, at, "noise")
    end = at
    while end < len(lines) and lines[end].strip() and not _ends_frame(lines[end]):
        end += 1
    if end == at:
        return
    bordered = any(border in lines[header] for border in _BORDERS)
    inside = [_strip_frame(line, bordered) for line in lines[at:end]]
    if is_ruled and not bordered and inside[0].startswith(" "):
        inside = _join_wrapped_lines(inside)
    yield replace(_parse_cells(inside), first=at, end=end)


def _parse_cells(inside: Sequence[str]) -> Segment:
    """The plan in the cells of psql's only column."""
    start = inside[0].lstrip()
    form = "json" if start[:1] in _OPENS else "xml" if start.startswith(XML_BEGINS) else "yaml"
    if form != "yaml" or YAML_BEGINS.match(start):
        marked = [_CONTINUES.sub("", line) for line in inside]
        return _parse_document_segment(marked, 0, form, len(marked))
    return _parse_document_segment(inside, 0, "text", len(inside))


def _join_wrapped_lines(lines: Sequence[str]) -> list[str]:
    """Lines that a terminal's width divided: psql begins each with a blank, and marks its own divisions with points.

    Example:
        >>> _join_wrapped_lines([" Seq Scan on t  (cost=0.00..1.", "00 rows=1 width=4)", " Planning Ti.", ".me: 1 ms"])
        [' Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)', ' Planning Time: 1 ms']
    """
    joined: list[str] = []
    for line in lines:
        if joined and line.startswith(".") and joined[-1].endswith("."):
            without = joined[-1][:-1] + line[1:]
            # Between two points of its own, a pair of numbers may be divided without marks.
            place = len(joined[-1]) - _AROUND
            own = _OPEN_NUMBERS.search(joined[-1]) and _TWO_POINTS.search(without[max(place, 0) : place + 2 * _AROUND])
            joined[-1] = joined[-1] + line if own else without
        elif joined and not line.startswith((" ", "\t")):
            lost = _NAMED_NUMBER.match(line) and not joined[-1].endswith((" ", "("))
            joined[-1] += f" {line}" if lost else line
        else:
            joined.append(line)
    return joined


def _join_divided_lines(lines: Sequence[str]) -> Sequence[str]:
    """Lines of a cell of psql's, which begin with a blank, with those that a terminal divided."""
    return _join_wrapped_lines(lines) if lines and re.match(" [^ ]", lines[0]) else lines


def _continues(previous: str, line: str) -> bool:
    """Whether a line continues the one before it, of which brackets are open: a client divided it, or a condition.

    Example:
        >>> _continues("Sort  (cost=1.00..2.00 rows=1 width=4) (actual time=0.1", "..0.2 rows=1 loops=1)")
        True
        >>> _continues("  Join Filter: (t1.c1 >", "t2.c2)"), _continues("  Filter: (a > 1)", "  ->  Seq Scan on t")
        (True, False)
    """
    if _OPEN_NUMBERS.search(previous):
        return True
    bare = re.sub("'[^']*'", "", previous)
    return bare.count("(") > bare.count(")") and not _OWN_LINE.match(line) and not SUMMARY.match(line.strip())


def _join_open_lines(lines: Sequence[str]) -> list[str]:
    """Lines with those that continue them."""
    joined: list[str] = []
    for line in lines:
        if joined and line.strip() and _continues(joined[-1], line):
            # Blanks at ends of lines get lost.
            lost = _NAMED_NUMBER.match(line) and not joined[-1].endswith((" ", "("))
            joined[-1] += f" {line}" if lost else line
        else:
            joined.append(line)
    return joined


def _drop_quotes(lines: list[str]) -> list[str]:
    """Lines without the quotes in which pgAdmin and others copy each of them."""
    filled = [line.rstrip() for line in lines if line.strip()]
    quote = filled[0][-1] if filled else ""
    if not quote or quote not in _QUOTES or not all(line.endswith(quote) for line in filled):
        return lines
    bare = [line.rstrip().removesuffix(quote).removeprefix(quote).replace(2 * quote, quote) for line in lines]
    return bare if any(WITH_NUMBERS.match(line.strip()) for line in bare) else lines


def _parse_expanded_segment(lines: Sequence[str], at: int) -> Segment:
    """Records of psql's expanded output, of which each has a cell."""
    end, inside = at, list[str]()
    while end < len(lines):
        cell = _EXPANDED_CELL.match(lines[end])
        if cell is not None:
            inside.append(cell[1])
        elif not EXPANDED.match(lines[end]):
            break
        end += 1
    return replace(_parse_cells(inside), first=at, end=end)


def _ends_frame(line: str) -> bool:
    return bool(_RULE.match(line) or _FOOTER.match(line.strip()) or HEADER.match(line))


def _strip_frame(line: str, bordered: bool) -> str:
    """The text of a cell, without borders."""
    if not bordered:
        return line
    inside = line.rstrip()
    inside = inside[:-1].rstrip() if inside[-1:] and inside[-1] in _BORDERS else inside
    return inside[1:] if inside[:1] and inside[0] in _BORDERS else inside


def _parse_document_segment(lines: Sequence[str], at: int, form: str, end: int) -> Segment:
    """The plan or plans of some lines, or the reason why there are none."""
    try:
        plans = _READ[form](lines[at:end])
    except ValueError as error:
        return Segment(at, end, form, reason=f"not a plan of EXPLAIN: {error}")
    return Segment(at, end, form, [plan.finish() for plan in plans])


def _parse_yaml_lines(lines: Sequence[str]) -> list[Plan]:
    base = len(lines[0]) - len(lines[0].lstrip())
    return parse_yaml_plans("\n".join(line[base:] for line in lines))


_READ: Final[dict[str, Callable[[Sequence[str]], list[Plan]]]] = {
    "json": lambda lines: parse_json_plans("\n".join(lines)),
    "yaml": _parse_yaml_lines,
    "xml": lambda lines: parse_xml_plans("\n".join(lines)),
    "text": lambda lines: [plan_of_text(_join_open_lines(_join_divided_lines(lines)))],
}


def _find_json_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after the closing bracket, which is in the column of the opening one or ends its line."""
    closing = _OPENS[lines[at][0]]
    if len(lines[at]) > 2 and lines[at].endswith(closing):
        return at + 1
    return next((line + 1 for line in range(at + 1, len(lines)) if lines[line].startswith(closing)), len(lines))


def _find_xml_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after the element; Citus puts the documents of tasks into it."""
    opened = accumulate(line.count(XML_BEGINS) - line.count(XML_ENDS) for line in lines[at:])
    return next((at + 1 + number for number, open_ in enumerate(opened) if open_ <= 0), len(lines))


def _find_yaml_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after the last indented line; Citus leaves an empty line below the plan of a task."""
    known = (" ", "- Plan:", "- Query")
    later = range(at + 1, len(lines))
    end = next((line for line in later if lines[line].strip() and not lines[line].startswith(known)), len(lines))
    while not lines[end - 1].strip():
        end -= 1
    return end


def _find_logged_yaml_end(lines: Sequence[str], at: int) -> int:
    return next((line for line in range(at + 1, len(lines)) if not _LOGGED_YAML.match(lines[line])), len(lines))


def _find_text_plan_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after a plan outside any frame, which ends at an empty line or one that is not indented."""
    root = _root(lines, at) if lines[at].startswith(QUERY_TEXT) else at
    base = " " * (len(lines[root]) - len(lines[root].lstrip(" ")))
    end, open_line = root + 1, lines[root]
    while end < len(lines) and lines[end].strip():
        line = lines[end]
        indented = line.startswith((base + " ", "\t"))
        own = indented or SUMMARY.match(line.removeprefix(base))
        # psql begins each line with a blank; a terminal divides those that fill it.
        width = max(map(len, lines[root:end]))
        divided = base == " " and len(lines[end - 1]) >= max(width - 1, _NARROWEST) and not _FOOTER.match(line)
        if line.startswith(QUERY_TEXT) or not (own or divided or _continues(open_line, line)):
            break
        open_line = line if own and not _continues(open_line, line) else open_line + line
        end += 1
    return end


def _root(lines: Sequence[str], at: int) -> int:
    """Number of the first line with costs below a query, which ends where the next begins; `at` if there is none."""
    end = next((line for line in range(at + 1, len(lines)) if lines[line].startswith(QUERY_TEXT)), len(lines))
    return next((line for line in range(at + 1, end) if WITH_NUMBERS.match(lines[line])), at)


# Rows of `plans` and `plan_nodes` from trees of items.

_Row = dict[str, Fact | None]
#: Columns that nodes take from their task; null for nodes outside tasks.
_OF_TASK: Final = ("task", "shard_id", "worker_host", "worker_port")


def plan_frames(plans: Sequence[tuple[str, Plan]], first: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `plans` and of `plan_nodes`.

    Args:
        plans: form (`text`, `json`, `yaml`) and plan, in order of the source.
        first: number of the first plan.
    """
    found = [(form, plan, _build_node_rows(number, plan)) for number, (form, plan) in enumerate(plans, first)]
    heads = [_plan_row(number, form, plan, rows) for number, (form, plan, rows) in enumerate(found, first)]
    return _make_table_frame("plans", heads), _make_table_frame(
        "plan_nodes", [row for _, _, rows in found for row in rows]
    )


def _make_table_frame(table: str, rows: Sequence[_Row]) -> pl.DataFrame:
    parsed = TABLES[table].parsed()
    return parsed.conform(pl.DataFrame(rows, schema=parsed.polars_schema()))


def _build_node_rows(number: int, plan: Plan) -> list[_Row]:
    rows: list[_Row] = []
    for place, (item, parent, depth) in enumerate(plan.root.walk()):
        row: _Row = {"plan": number, "plan_node": place, "parent": parent, "depth": depth, "kind": item.kind}
        row |= {"node_type": item.name, **item.facts, "conditions": "; ".join(item.conditions) or None}
        if item.kind == "task":
            row["task"] = place
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
        "unknown": "; ".join(_describe_unknown_facts(rows)) or None,
        **plan.facts,
    }


def _describe_unknown_facts(rows: Sequence[_Row]) -> Iterator[str]:
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


_LIMIT_BYTES: Final = 64 * 2**20
_JSON: Final = re.compile(r"\s*(?:\[\s*)?\{\s*\"(?:Plan|Query Text|Query Identifier)\"\s*:")
#: The end of auto_explain's message before a plan (`duration: 0.093 ms  plan:`), in any language of the server.
_RECORDED_PLAN: Final = re.compile(r"[0-9]+[.,][0-9]{3} \S{1,4} +\S+:\s*$")
#: Characters that it has at most: a line may have a gibibyte.
_MESSAGE_END: Final = 60
#: Lines among which a plan without psql's heading begins.
_FIRST_LINES: Final = 6
_NODE_TYPE: Final = re.compile(r"[\"\s]Node Type\"?: ?\"")


class Explain(Format):
    """Plans of `EXPLAIN` and `EXPLAIN ANALYZE`: text, JSON, YAML or XML, as a program or psql wrote them."""

    name: ClassVar[str] = "explain"
    version: ClassVar[int] = 4
    tables = ("plans", "plan_nodes")
    noise = "empty lines, psql's heading, rules, number of rows and `Time:`"
    dropped = "output columns, keys of sorts and groups, single workers, JIT, triggers, settings, slices"

    def detect(self, name: str, head: bytes) -> float:
        """By the first line that is not empty, or by psql's heading further on."""
        text = head.decode("utf-8", "replace")
        # A heading may come later; otherwise the first lines decide.
        wanted = 400 if "QUERY PLAN" in text else _FIRST_LINES
        lines = list(islice((line.rstrip() for line in text.splitlines() if line.strip()), wanted))
        if not lines:
            return 0.0
        document = _JSON.match(text) or YAML_BEGINS.match(lines[0])
        if (
            (document and _NODE_TYPE.search(text))
            or begins_plan(*lines[:2])
            or lines[0].startswith(XML_BEGINS)
            or (lines[0].startswith(QUERY_TEXT) and "(cost=" in text)
        ):
            return 0.95
        if EXPANDED.match(lines[0]) and len(lines) > 1 and lines[1].startswith("QUERY PLAN"):
            return 0.95
        headings = [number for number, line in enumerate(lines) if HEADER.match(line)]
        if not headings and _has_root_below(lines[:_FIRST_LINES]):
            return 0.9
        return 0.0 if not headings else 0.95 if headings[0] <= 1 else 0.6

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece.

        Raises:
            InputError: the file is longer than 64 MiB.
        """
        lines = line_frame(content.read(_LIMIT_BYTES))
        found = list(split_into_segments(_drop_quotes(lines["text"].to_list())))
        _place(found, lines["offset"].to_list(), lines["length"].to_list())
        form = [one.form for one in found for _ in range(one.first, one.end)]
        reason = [one.reason or None for one in found for _ in range(one.first, one.end)]
        lines = lines.with_columns(pl.Series("form", form, pl.String), pl.Series("reason", reason, pl.String))
        plans, nodes = plan_frames([(one.form, plan) for one in found for plan in one.plans])
        yield build_parsed_lines({"plans": plans, "plan_nodes": nodes}, lines, pl.col("form") == "noise")


def _has_root_below(lines: Sequence[str]) -> bool:
    """Whether a plan begins below a comment, or a heading of another name or that a terminal divided.

    Example:
        >>> plan = ["Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)", "  Filter: (a > 10)"]
        >>> _has_root_below(["-- before", *plan]), _has_root_below(["duration: 0.093 ms  plan:", *plan])
        (True, False)
    """
    if any(_RECORDED_PLAN.search(line[-_MESSAGE_END:]) for line in lines):
        return False
    return any(_is_root_with_numbers(*two) for two in pairwise([*lines[1:], ""]))


def _is_root_with_numbers(text: str, following: str) -> bool:
    """Whether a line is the topmost node of a plan with costs or times, judged by the next line as well."""
    if text.startswith(" "):
        text, following = text[1:], following.removeprefix(" ")
    below = not following or _BELOW.match(following) or SUMMARY.match(following) or _FOOTER.match(following)
    return bool(WITH_NUMBERS.match(text) and (below or _OPEN_NUMBERS.search(text)))


def _place(found: Sequence[Segment], offsets: Sequence[int], lengths: Sequence[int]) -> None:
    """Give each plan its place in the source."""
    for one in found:
        for plan in one.plans:
            plan.offset = offsets[one.first]
            plan.length = offsets[one.end - 1] + lengths[one.end - 1] - plan.offset


FORMAT: Final = Explain()
