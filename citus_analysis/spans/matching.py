"""Parent tasks and the child statements that ran them.

A child's gpid names the parent's session, not its statement. Within one *stream* (gpid, child node, shard) a
session runs one statement after the other, so its n-th task belongs to the n-th statement that the child node
logged for it. That needs no clock, but both sequences must be complete from their beginning: only then is a pair
`exact`. A stream is *proven* when

- the parent's session and all child sessions of that gpid stand in the logs from their first line without a gap;
- a child log that begins while sessions are under way began before the parent's session did;
- no pair contradicts the clocks, no task is shorter than its child, and pairs in the other direction between the two
  nodes do not tell another offset;
- what one side has more than the other lies after the end of the other's log.

Up to the first gap the order still holds. Whatever is left is aligned (:mod:`citus_analysis.spans.alignment`); those
pairs are `inferred`. The clock offset that this takes comes from the exact pairs of the two nodes or of both with a
third, else from the one offset that most tasks and children of these nodes agree on; when two offsets are about as
likely, nothing is paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.schema import TABLES
from citus_analysis.spans.clocks import RESOLUTION_US, SAME_CLOCK, TOLERANCE_US, Bounds, ClockLine, fit_clock
from citus_analysis.spans.ordered import Flags, Indices, changes, firsts, numbers_of, places, stable_order
from citus_analysis.spans.sessions import Sessions, place

__all__ = ["Matching", "match_tasks"]

_STREAM: Final = ("gpid", "child_node", "shard_id")
_MATCH: Final = TABLES["spans"]["match"].dtype
_EXACT, _INFERRED, _UNMATCHED = range(3)

_Floats = NDArray[np.float64]

NodePair = tuple[str, str]

_NONE: Final = pl.DataFrame(schema={"task": pl.UInt32, "child": pl.UInt32, "ambiguous": pl.Boolean})


@dataclass(frozen=True)
class Matching:
    """Tasks with their children, and the clocks that the pairs imply.

    Attributes:
        pairs: one row per task: the columns of :attr:`Sessions.tasks`, `task` (row number), `child` (execution of
            the child, null without one), `match` and `ambiguous` (other alignments are as good).
        children: the child statements that could be paired.
        clocks: per (parent node, child node) the offset of the clocks, from the exact pairs.
        guessed: the offset that tasks and children of two nodes agree on, where no pair is exact.
        undecided: pairs of nodes whose clock offset could not be told.
    """

    pairs: pl.DataFrame
    children: pl.DataFrame
    clocks: Mapping[NodePair, ClockLine]
    guessed: Mapping[NodePair, ClockLine]
    undecided: frozenset[NodePair]


def match_tasks(sessions: Sessions) -> Matching:
    """Pair the tasks of one iteration with child statements."""
    numbered = _children(sessions)
    task_stream, child_stream = _streams(sessions.tasks, numbered)
    tasks = _tasks(sessions.tasks, task_stream)
    children = _without_failed(numbered, child_stream, sessions)
    ordered = _pair_by_order(tasks, children)
    by_nodes = ordered.by_nodes()
    lines = {key: _line(key, ordered.bounds(rows)) for key, rows in by_nodes.items()}
    proven = _proven_streams(ordered, by_nodes, lines, sessions)
    exact = proven[ordered.stream]
    clocks = {
        # Where all pairs are exact the line is known already.
        key: lines[key] if exact[rows].all() else _line(key, ordered.bounds(rows[exact[rows]]))
        for key, rows in by_nodes.items()
        if exact[rows].any()
    }
    return _aligned(ordered, exact, clocks)


@dataclass(frozen=True)
class _Side:
    """Tasks, or children, by stream and by order within it.

    Attributes:
        frame: their columns.
        row: the row of `frame` of each.
        stream: a number for its stream.
        first: where streams begin.
        complete: nothing of its stream is missing before.
        begins: when each began, microseconds.
        ends: when each ended.
        length: what it reported, microseconds; NaN where it is unknown.
    """

    frame: pl.DataFrame
    row: Indices
    stream: NDArray[np.int64]
    complete: Flags
    begins: _Floats
    ends: _Floats
    length: _Floats
    first: Indices

    @property
    def counts(self) -> Indices:
        """How many there are in each stream."""
        return np.diff(self.first, append=len(self.row))

    def complete_counts(self) -> Indices:
        """How many of each stream are complete."""
        return np.add.reduceat(self.complete, self.first, dtype=np.intp) if len(self.first) else self.first

    def left(self, rest: Flags, name: str) -> pl.DataFrame:
        """Some of them, with what their alignment needs."""
        row = self.row[rest]
        numbers = self.frame[name].to_numpy()[row] if name in self.frame else row
        return pl.DataFrame(
            {
                "stream": self.stream[rest],
                "child_node": self.frame["child_node"].gather(row),
                name: numbers.astype(np.uint32),
                f"{name}_us": self.length[rest],
                f"{name}_begins": self.begins[rest],
                f"{name}_ends": self.ends[rest],
            }
        )


@dataclass(frozen=True)
class _Ordered:
    """The n-th task of each stream with its n-th child, as long as both sequences are complete.

    Attributes:
        tasks: all tasks.
        children: all children.
        of_task: the stream of `tasks` for each stream that has pairs; `of_child` that of `children`.
        stream: per pair its stream; `task` and `child` its place in `tasks` and `children`.
    """

    tasks: _Side
    children: _Side
    of_task: Indices
    of_child: Indices
    stream: Indices
    task: Indices
    child: Indices

    def bounds(self, pairs: Indices) -> Bounds:
        """What some pairs say about the offset of the clocks (see :mod:`citus_analysis.spans.clocks`)."""
        task, child = self.task[pairs], self.child[pairs]
        ends = self.tasks.ends[task]
        low = self.children.ends[child] - ends - RESOLUTION_US
        high = self.children.begins[child] - self.tasks.begins[task] + RESOLUTION_US
        return Bounds(ends, low, high)

    def by_nodes(self) -> dict[NodePair, Indices]:
        """The pairs of each pair of nodes."""
        row = self.tasks.row[self.task]
        (parent,), (child,) = (numbers_of(self.tasks.frame[name].gather(row)) for name in ("parent_node", "child_node"))
        number = parent * (child.max(initial=0) + 1) + child
        order = stable_order(number, np.arange(len(row)))
        nodes = self.tasks.frame.select("parent_node", "child_node")
        groups = np.split(order, firsts(number[order])[1:])
        return {_names(nodes.row(int(row[group[0]]))): group for group in groups if len(group)}


def _names(nodes: tuple[str, ...]) -> NodePair:
    return str(nodes[0]), str(nodes[1])


def _children(sessions: Sessions) -> pl.DataFrame:
    """The statements that children ran on shards, in the order of their backends."""
    return sessions.executions.filter(pl.col("is_child") & pl.col("opened") & pl.col("shard_id").is_not_null()).select(
        "gpid",
        "shard_id",
        "failed",
        "closed",
        child="execution",
        child_node="node",
        place=place("opener_offset"),
        child_us=pl.when("closed").then("duration_us"),
        child_begins=pl.min_horizontal(_microseconds("start_time"), _microseconds("opener_time")),
        child_ends=pl.coalesce(_microseconds("end_time"), _microseconds("opener_time")),
    )


def _streams(tasks: pl.DataFrame, children: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each task's and each child's stream; no child lacks a part of it."""
    task_stream, child_stream = np.zeros(tasks.height, np.int64), np.zeros(children.height, np.int64)
    for name in _STREAM:
        of_task, of_child = numbers_of(tasks[name], children[name])
        size = 1 + max(of_task.max(initial=0), of_child.max(initial=0))
        task_stream, child_stream = task_stream * size + of_task, child_stream * size + of_child
    return task_stream, child_stream


def _tasks(tasks: pl.DataFrame, stream: NDArray[np.int64]) -> _Side:
    row = stable_order(stream, np.arange(tasks.height))
    ends = tasks.select(_microseconds("end_time")).to_series().to_numpy()[row]
    length = tasks["task_us"].cast(pl.Float64).to_numpy()[row]
    return _side(tasks, row, stream, ends - length, ends, length, tasks["anchored"].to_numpy()[row])


def _without_failed(children: pl.DataFrame, stream: NDArray[np.int64], sessions: Sessions) -> _Side:
    """Children that can have a task, in the order in which their node logged them.

    A statement that failed has no task record. One that never ended has none either if its connection broke, so
    it stays only as the last of its stream.
    """
    where = children["place"].to_numpy()
    row = stable_order(stream, np.arange(children.height))
    if not np.all((where[row[1:]] > where[row[:-1]]) | changes(stream[row])[1:]):
        row = np.lexsort((where, stream))
    last = changes(stream[row][::-1])[::-1]
    failed, closed = children["failed"].to_numpy()[row], children["closed"].to_numpy()[row]
    row = row[~failed & (closed | last)]
    complete = np.ones(len(row), np.bool_)
    if sessions.gaps.height:
        gaps = sessions.gaps.group_by("gpid", child_node="node").agg(gap=pl.col("place").min())
        gap = children.join(gaps, on=["gpid", "child_node"], how="left", maintain_order="left")["gap"]
        complete = (children["place"] <= gap).fill_null(value=True).to_numpy()[row]
    begins, ends, length = (children[f"child_{name}"].to_numpy()[row] for name in ("begins", "ends", "us"))
    return _side(children, row, stream, begins, ends, length, complete)


def _side(
    frame: pl.DataFrame,
    row: Indices,
    stream: NDArray[np.int64],
    begins: _Floats,
    ends: _Floats,
    length: _Floats,
    complete: Flags,
) -> _Side:
    """Sorted tasks or children; up to the first that is not complete, a stream is."""
    stream = stream[row]
    first = firsts(stream)
    if not complete.all():
        lacking = np.cumsum(~complete)
        before: Indices = lacking[first] - ~complete[first]
        complete = lacking == np.repeat(before, np.diff(first, append=len(row)))
    return _Side(frame, row, stream, complete, begins, ends, length, first)


def _microseconds(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Datetime("us", "UTC")).to_physical().cast(pl.Float64)


def _pair_by_order(tasks: _Side, children: _Side) -> _Ordered:
    _, of_task, of_child = np.intersect1d(
        tasks.stream[tasks.first], children.stream[children.first], assume_unique=True, return_indices=True
    )
    pairs = np.minimum(tasks.complete_counts()[of_task], children.complete_counts()[of_child])
    of_task, of_child, pairs = of_task[pairs > 0], of_child[pairs > 0], pairs[pairs > 0]
    stream = np.repeat(np.arange(len(pairs)), pairs)
    position = places(changes(stream))
    return _Ordered(
        tasks,
        children,
        of_task,
        of_child,
        stream,
        tasks.first[of_task][stream] + position,
        children.first[of_child][stream] + position,
    )


def _line(key: NodePair, bounds: Bounds) -> ClockLine:
    return SAME_CLOCK if key[0] == key[1] else fit_clock(bounds)


def _proven_streams(
    ordered: _Ordered, by_nodes: Mapping[NodePair, Indices], lines: Mapping[NodePair, ClockLine], sessions: Sessions
) -> Flags:
    """Which streams have an order that proves their pairs (see the module's docstring)."""
    first = firsts(ordered.stream)
    contradicts, offset = np.ones(len(ordered.stream), np.bool_), np.zeros(len(ordered.stream))
    shorter = ordered.children.length[ordered.child] > ordered.tasks.length[ordered.task] + 1
    for key, rows in by_nodes.items():
        if not _contradicted(key, lines):
            bounds = ordered.bounds(rows)
            contradicts[rows] = (lines[key].violation(bounds) > TOLERANCE_US) | shorter[rows]
            offset[rows] = lines[key].at(bounds.time)
    if not len(first):
        return np.zeros(0, np.bool_)
    streams = ordered.tasks.frame.select("parent_node", "child_node", "session")[
        ordered.tasks.row[ordered.task[first]]
    ].with_columns(
        offset=pl.Series(offset[first]),
        surplus_task=pl.Series(_first_surplus(ordered, ordered.tasks, ordered.children)),
        surplus_child=pl.Series(_first_surplus(ordered, ordered.children, ordered.tasks)),
    )
    alike = ~np.logical_or.reduceat(contradicts, first)
    return np.asarray(alike & _seen_whole(streams, sessions).to_numpy())


def _contradicted(key: NodePair, lines: Mapping[NodePair, ClockLine]) -> bool:
    """Whether the pairs in the other direction tell another offset between the same two clocks."""
    other = lines.get(key[::-1])
    if other is None:
        return False
    line, back = lines[key], other.reversed()
    return max(line.offset_low - back.offset_high, back.offset_low - line.offset_high) > 2 * TOLERANCE_US


def _first_surplus(ordered: _Ordered, side: _Side, other: _Side) -> _Floats:
    """When the first item of each stream ended that comes after the last of the other side; NaN without one.

    Where the other side goes on, but incompletely, items without a partner are expected: there is no surplus.
    """
    of_side, of_other = (
        (ordered.of_task, ordered.of_child) if side is ordered.tasks else (ordered.of_child, ordered.of_task)
    )
    paired = np.bincount(ordered.stream, minlength=len(of_side))
    surplus = np.flatnonzero((other.counts[of_other] == paired) & (side.counts[of_side] > paired))
    ends = np.full(len(of_side), np.nan)
    ends[surplus] = side.ends[side.first[of_side[surplus]] + paired[surplus]]
    return ends


def _seen_whole(streams: pl.DataFrame, sessions: Sessions) -> pl.Series:
    """Streams of which no child was lost with the beginning of a log, and nothing but with the end of one."""
    logs = sessions.coverage.select(
        "node", "under_way", log_begins=_microseconds("first_time"), log_ends=_microseconds("last_time")
    )
    sessions_begin = sessions.executions.group_by("session").agg(session_begins=_microseconds("start_time").min())
    judged = (
        streams.join(logs, left_on="child_node", right_on="node", how="left", maintain_order="left")
        .join(
            logs.select("node", parent_log_ends="log_ends"),
            left_on="parent_node",
            right_on="node",
            how="left",
            maintain_order="left",
        )
        .join(sessions_begin, on="session", how="left", maintain_order="left")
    )
    # What one side has more than the other must lie beyond the end of the other's log.
    lost_children = pl.col("surplus_task") + pl.col("offset") < pl.col("log_ends") - TOLERANCE_US
    lost_tasks = pl.col("surplus_child") - pl.col("offset") < pl.col("parent_log_ends") - TOLERANCE_US
    # Where sessions were under way when a log began, only a session that began later is whole.
    seen = pl.col("session_begins") + pl.col("offset") - TOLERANCE_US > pl.col("log_begins")
    whole = ~pl.col("under_way") | seen.fill_null(value=False)
    return judged.select(
        ~lost_children.fill_null(value=False) & ~lost_tasks.fill_null(value=False) & whole.fill_null(value=False)
    ).to_series()


def _aligned(ordered: _Ordered, exact: Flags, clocks: Mapping[NodePair, ClockLine]) -> Matching:
    """The exact pairs, and those that an alignment of the rest finds."""
    tasks, children = ordered.tasks, ordered.children
    count = tasks.frame.height
    child, match, ambiguous = np.zeros(count, np.uint32), np.full(count, _UNMATCHED, np.uint8), np.zeros(count, bool)
    executions = children.frame["child"].to_numpy()
    rows = tasks.row[ordered.task[exact]]
    child[rows] = executions[children.row[ordered.child[exact]]]
    match[rows] = _EXACT
    inferred, guessed, undecided = _align(*_rest(ordered, exact), clocks)
    rows = inferred["task"].to_numpy()
    child[rows], match[rows], ambiguous[rows] = inferred["child"], _INFERRED, inferred["ambiguous"]
    pairs = tasks.frame.with_row_index("task").with_columns(
        child=pl.when(pl.Series(match != _UNMATCHED)).then(pl.Series(child)),
        match=pl.Series(match).cat.to(_MATCH),
        ambiguous=pl.Series(ambiguous),
    )
    found = children.frame.select("gpid", "child_node", "child")[children.row]
    return Matching(pairs, found, clocks, guessed, undecided)


def _rest(ordered: _Ordered, exact: Flags) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tasks and children without an exact partner, in the streams that have both."""
    tasks, children = ordered.tasks, ordered.children
    task, child = np.ones(len(tasks.row), np.bool_), np.ones(len(children.row), np.bool_)
    task[ordered.task[exact]], child[ordered.child[exact]] = False, False
    task &= np.isin(tasks.stream, children.stream[child])
    child &= np.isin(children.stream, tasks.stream[task])
    parents = tasks.frame["parent_node"].gather(tasks.row[task])
    left = tasks.left(task, "task").with_columns(parent_node=parents)
    nodes = left.select("stream", "parent_node").unique("stream")
    return left, children.left(child, "child").join(nodes, on="stream", how="inner", maintain_order="left")


def _by_nodes(frame: pl.DataFrame) -> dict[NodePair, pl.DataFrame]:
    parts = frame.partition_by("parent_node", "child_node", as_dict=True)
    return {(str(parent), str(child)): part for (parent, child), part in parts.items()}


def _known_line(key: NodePair, clocks: Mapping[NodePair, ClockLine]) -> ClockLine | None:
    """The line between two nodes from exact pairs: of their own, or with a third node (the surest of them)."""
    direct = _direct_line(key, clocks)
    if direct is not None:
        return direct
    ways = [
        one.then(other)
        for node in sorted({name for pair in clocks for name in pair} - set(key))
        if (one := _direct_line((key[0], node), clocks)) and (other := _direct_line((node, key[1]), clocks))
    ]
    return min(ways, key=lambda line: line.offset_high - line.offset_low, default=None)


def _direct_line(key: NodePair, clocks: Mapping[NodePair, ClockLine]) -> ClockLine | None:
    if key[0] == key[1]:
        return SAME_CLOCK
    other = clocks.get(key[::-1])
    return clocks.get(key) or (None if other is None else other.reversed())


def _align(
    tasks: pl.DataFrame, children: pl.DataFrame, clocks: Mapping[NodePair, ClockLine]
) -> tuple[pl.DataFrame, dict[NodePair, ClockLine], frozenset[NodePair]]:
    """Align what the order does not prove, one pair of nodes after the other."""
    if tasks.is_empty():
        return _NONE, {}, frozenset()
    # Complete logs leave nothing to align.
    from citus_analysis.spans.streams import Streams, guess_clock

    candidates = _by_nodes(children)
    streams = {key: Streams(part, candidates[key]) for key, part in _by_nodes(tasks).items()}
    found, guessed, undecided = [], {}, set()
    for key, of_key in streams.items():
        line = _known_line(key, clocks)
        if line is None:
            line = guess_clock(
                of_key,
                [
                    (streams[other], between)
                    for other in streams
                    if other[0] == key[0] and other != key and (between := _known_line((other[1], key[1]), clocks))
                ],
            )
        if line is None:
            undecided.add(key)
            continue
        if key not in clocks:
            guessed[key] = line
        found.append(of_key.align(line))
    return pl.concat([_NONE, *found]), guessed, frozenset(undecided)
