"""Pair tasks and children by order: the n-th task of a stream with its n-th child.

A child's gpid names the parent's session, not its statement. Within one *stream* (gpid, child node, anchor shard) a
session runs one statement after the other, so its n-th task belongs to the n-th statement that the node logged for it.
A function that runs on a child may send tasks of its own, under the gpid of the session that called it. If the tasks
of a stream come from several backends in this way, no log shows their order: the stream is *shared*, and no task of it
is paired by order.

:mod:`citus_analysis.spans.match.matching` decides which of these pairs are valid.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.spans.match.anchors import name_anchors
from citus_analysis.spans.match.clocks import RESOLUTION_US, Bounds
from citus_analysis.spans.match.contents import NO_VALUES, are_other, repeat_elsewhere
from citus_analysis.spans.match.unreported import with_unreported
from citus_analysis.spans.read.ordered_arrays import (
    Flags,
    Indices,
    Integers,
    changes,
    firsts,
    numbers_of,
    places,
    stable_order,
)
from citus_analysis.spans.read.sessions import Sessions, place

_STREAM: Final = ("gpid", "child_node", "stream_shard")


#: Parent node and child node.
NodePair = tuple[str, str]


@dataclass(frozen=True)
class Side:
    """Tasks, or children, by stream and by order within it.

    Attributes:
        frame: their columns.
        row: the row of `frame` of each.
        stream: number of the stream of each.
        first: indices at which streams begin.
        complete: whether no record is missing before it in its stream.
        begins: begin of each, microseconds.
        ends: end of each.
        length: reported duration of each, microseconds; NaN if it is unknown.
        values: hash of the values of each statement.
        shared: whether its stream is shared by several parents.
    """

    frame: pl.DataFrame
    row: Indices
    stream: NDArray[np.int64]
    complete: Flags
    begins: Floats
    ends: Floats
    length: Floats
    values: NDArray[np.int32]
    first: Indices
    shared: Flags

    @property
    def counts(self) -> Indices:
        """Number of elements of each stream."""
        return np.diff(self.first, append=len(self.row))

    def complete_counts(self) -> Indices:
        """Number of complete elements of each stream."""
        return np.add.reduceat(self.complete, self.first, dtype=np.intp) if len(self.first) else self.first

    def left(self, rest: Flags) -> pl.DataFrame:
        """Some elements, with the columns that their alignment needs."""
        row = self.row[rest]
        numbers = self.frame["child"].to_numpy()[row] if "child" in self.frame else row
        own = {name: getattr(self, name)[rest] for name in ("stream", "begins", "ends", "length", "values", "shared")}
        return pl.DataFrame(
            own | {"child_node": self.frame["child_node"].gather(row), "number": numbers.astype(np.uint32)}
        )


@dataclass(frozen=True)
class StreamFacts:
    """Facts about streams that have pairs, microseconds.

    Attributes:
        gpid: the session of the parent.
        shard: the shard.
        session_begins: begin of the session; NaN if it is unknown.
        surplus_task: end of the first task without a partner after the last child; NaN if there is none.
        surplus_child: end of the first child without a partner after the last task; NaN if there is none.
    """

    gpid: NDArray[np.int64]
    shard: NDArray[np.int64]
    session_begins: Floats
    surplus_task: Floats
    surplus_child: Floats


@dataclass(frozen=True)
class Claims:
    """The facts of pairs that their judgement needs: a twentieth of the memory of their records.

    Attributes:
        by_nodes: the pairs of each pair of nodes.
        bounds: the bounds of the clocks' offset from each pair (see :mod:`citus_analysis.spans.match.clocks`).
        shorter: whether each task is shorter than its child.
        contradicted: whether the values of the task, or of the child, are those of another statement of the other side.
        values: hash of the values of each pair that has the same on both sides.
        first: indices at which the pairs of each stream begin.
        streams: facts about each stream.
        shared: pairs of nodes with a stream that has tasks and children.
    """

    by_nodes: dict[NodePair, Integers]
    bounds: Bounds
    shorter: Flags
    contradicted: Flags
    values: NDArray[np.int32]
    first: Indices
    streams: StreamFacts
    shared: frozenset[NodePair]

    def stream_of(self, rows: Integers) -> Indices:
        """The row of `streams` of each of some pairs."""
        return np.searchsorted(self.first, rows, side="right") - 1


@dataclass(frozen=True)
class Rest:
    """Tasks and children without a proven partner, in the streams that have both.

    Columns are those of :class:`~citus_analysis.spans.match.streams.Streams`, `parent_node`, `child_node` and
    `shared`. The parent of a child in a shared stream is not known: its `parent_node` is that of any of the parents.
    """

    tasks: pl.DataFrame
    children: pl.DataFrame


@dataclass(frozen=True)
class Ordered:
    """Pairs of the n-th task of each stream with its n-th child, as long as both sequences are complete.

    Attributes:
        tasks: all tasks.
        children: all children.
        of_task: the stream of `tasks` for each stream that has pairs; `of_child` that of `children`.
        stream: the stream of each pair; `task` and `child` are its places in `tasks` and `children`.
    """

    tasks: Side
    children: Side
    of_task: Indices
    of_child: Indices
    stream: Indices
    task: Indices
    child: Indices

    def claims(self, sessions: Sessions) -> Claims:
        """The facts of the pairs that their judgement needs."""
        task, child = self.tasks, self.children
        first = firsts(self.stream)
        heads = task.row[self.task[first]]
        gpid, shard, session = (task.frame[name].to_numpy()[heads] for name in ("gpid", "stream_shard", "session"))
        begins = sessions.begins.sort("session")
        session_begins = begins["session_begins"].to_numpy()[np.searchsorted(begins["session"].to_numpy(), session)]
        surplus = _first_surplus(self, task, child), _first_surplus(self, child, task)
        streams = StreamFacts(gpid, shard, session_begins, *surplus)
        shorter = child.length[self.child] > task.length[self.task] + 1
        contradicted, values = self._contents()
        # Of millions of pairs, these numbers are in memory until all clocks are known.
        by_nodes: dict[NodePair, Integers] = {key: rows.astype(np.uint32) for key, rows in self._by_nodes().items()}
        return Claims(by_nodes, self._bounds(), shorter, contradicted, values, first, streams, self._shared())

    def _contents(self) -> tuple[Flags, NDArray[np.int32]]:
        """`contradicted` and `values` of :class:`Claims`."""
        asked, ran = self.tasks.values[self.task], self.children.values[self.child]
        alike = asked == ran
        contradicted = np.zeros(len(alike), np.bool_)
        unlike = np.flatnonzero(are_other(asked, ran))
        if len(unlike):
            tasks, children = self.tasks, self.children
            stream = tasks.stream[self.task[unlike]]
            contradicted[unlike] = repeat_elsewhere(stream, ran[unlike], tasks.stream, tasks.values)
            contradicted[unlike] |= repeat_elsewhere(stream, asked[unlike], children.stream, children.values)
        return contradicted, np.where(alike, asked, np.int32(NO_VALUES))

    def rest(self, exact: Flags) -> Rest:
        """Tasks and children without a proven partner; `exact` marks the proven pairs."""
        tasks, children = self.tasks, self.children
        task, child = np.ones(len(tasks.row), np.bool_), np.ones(len(children.row), np.bool_)
        task[self.task[exact]], child[self.child[exact]] = False, False
        task &= np.isin(tasks.stream, children.stream[child])
        child &= np.isin(children.stream, tasks.stream[task])
        left = tasks.left(task).with_columns(parent_node=tasks.frame["parent_node"].gather(tasks.row[task]))
        nodes = left.select("stream", "parent_node").unique("stream")
        return Rest(left, children.left(child).join(nodes, on="stream", how="inner", maintain_order="left"))

    def between(self, nodes: Collection[NodePair], chosen: Flags) -> Indices:
        """Indices of the chosen pairs that are between given pairs of nodes."""
        if not nodes or not chosen.any():
            return np.zeros(0, np.intp)
        own: Indices = np.concatenate(
            [rows for key, rows in self._by_nodes().items() if key in nodes] or [np.zeros(0, np.intp)]
        )
        return own[np.flatnonzero(chosen[own])]

    def _bounds(self) -> Bounds:
        ends = self.tasks.ends[self.task]
        low = self.children.ends[self.child] - ends - RESOLUTION_US
        high = self.children.begins[self.child] - self.tasks.begins[self.task] + RESOLUTION_US
        return Bounds(ends, low, high)

    def _by_nodes(self) -> dict[NodePair, Indices]:
        row = self.tasks.row[self.task]
        number = self._node_pairs[row]
        order = stable_order(number, np.arange(len(row)))
        groups = np.split(order, firsts(number[order])[1:])
        return {self._names(int(row[group[0]])): group for group in groups if len(group)}

    def _shared(self) -> frozenset[NodePair]:
        heads = self.tasks.shared.copy()
        heads[self.tasks.first] = True
        first = np.flatnonzero(heads)
        row = self.tasks.row[first[np.isin(self.tasks.stream[first], self.children.stream)]]
        _, one = np.unique(self._node_pairs[row], return_index=True)
        return frozenset(map(self._names, row[one].tolist()))

    @cached_property
    def _node_pairs(self) -> NDArray[np.int64]:
        """A number for the pair of nodes of each row of tasks."""
        frame = self.tasks.frame
        (parent,), (child,) = numbers_of(frame["parent_node"]), numbers_of(frame["child_node"])
        return np.asarray(parent * (child.max(initial=0) + 1) + child)

    def _names(self, row: int) -> NodePair:
        frame = self.tasks.frame
        return str(frame["parent_node"][row]), str(frame["child_node"][row])


def pair_by_order(sessions: Sessions) -> Ordered:
    """Pair the n-th task of each stream with its n-th child."""
    sessions, numbered = name_anchors(sessions, _children(sessions))
    sent = with_unreported(sessions.tasks, numbered, sessions.executions)
    task_stream, child_stream = _streams(sent, numbered)
    shared = _shared(sent, task_stream)
    row = stable_order(task_stream, np.arange(sent.height))
    ends = sent.select(microseconds("end_time")).to_series().to_numpy()[row]
    length = sent["task_us"].cast(pl.Float64).to_numpy()[row]
    begins = ends - length
    if "start_time" in sent.columns:
        unreported = np.isnan(length)
        starts = sent.select(microseconds("start_time")).to_series().to_numpy()[row]
        begins[unreported] = starts[unreported]
    tasks = _side(sent, row, task_stream, begins, ends, length, sent["anchored"].to_numpy()[row], shared)
    return _in_order(tasks, _without_failed(numbered, child_stream, sessions, shared))


def _children(sessions: Sessions) -> pl.DataFrame:
    """The statements that children ran on shards, in the order of their backends."""
    return sessions.executions.filter(pl.col("is_child") & pl.col("opened") & pl.col("shard_id").is_not_null()).select(
        *("gpid", "shard_id", "other_shards", "failed", "closed", "values_hash"),
        child="execution",
        child_node="node",
        place=place("opener_offset"),
        child_us=pl.when("closed").then("duration_us"),
        child_duration_us="duration_us",
        child_pid="pid",
        child_extended="extended",
        child_connects="first_on_shard",
        child_begins=pl.min_horizontal(microseconds("start_time"), microseconds("opener_time")),
        child_ends=pl.coalesce(microseconds("end_time"), microseconds("opener_time")),
    )


def _streams(tasks: pl.DataFrame, children: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of the stream of each task and each child."""
    task_stream, child_stream = np.zeros(tasks.height, np.int64), np.zeros(children.height, np.int64)
    for name in _STREAM:
        of_task, of_child = numbers_of(tasks[name], children[name])
        size = 1 + max(of_task.max(initial=0), of_child.max(initial=0))
        task_stream, child_stream = task_stream * size + of_task, child_stream * size + of_child
    return task_stream, child_stream


def _shared(tasks: pl.DataFrame, stream: NDArray[np.int64]) -> NDArray[np.int64]:
    """The streams whose tasks come from several backends."""
    (backend,) = numbers_of(tasks["pid"])
    (node,) = numbers_of(tasks["parent_node"])
    backend = backend * (node.max(initial=0) + 1) + node
    # A gpid names one backend, unless a child sends tasks.
    if len(np.unique(backend)) <= tasks["gpid"].n_unique():
        return stream[:0]
    several = pl.DataFrame({"stream": stream, "backend": backend}).unique()["stream"].to_numpy()
    streams, backends = np.unique(several, return_counts=True)
    return np.asarray(streams[backends > 1], np.int64)


def _without_failed(
    children: pl.DataFrame, stream: NDArray[np.int64], sessions: Sessions, shared: NDArray[np.int64]
) -> Side:
    """Children that can have a task, in the order in which their node logged them.

    A statement that failed has no task record. A statement that never ended may lack one, too, because its connection
    broke, so it is kept only as the last of its stream.
    """
    where = children["place"].to_numpy()
    row = stable_order(stream, np.arange(children.height))
    if not np.all((where[row[1:]] > where[row[:-1]]) | changes(stream[row])[1:]):
        row = np.lexsort((where, stream))
    last = changes(stream[row][::-1])[::-1]
    failed, closed = children["failed"].to_numpy()[row], children["closed"].to_numpy()[row]
    row = row[~failed & (closed | last)]
    complete = ~children["doubtful"].to_numpy()[row]
    if sessions.gaps.height:
        gaps = sessions.gaps.group_by("gpid", child_node="node").agg(gap=pl.col("place").min())
        gap = children.join(gaps, on=["gpid", "child_node"], how="left", maintain_order="left")["gap"]
        complete &= (children["place"] <= gap).fill_null(value=True).to_numpy()[row]
    begins, ends, length = (children[f"child_{name}"].to_numpy()[row] for name in ("begins", "ends", "us"))
    return _side(children, row, stream, begins, ends, length, complete, shared)


def _side(
    frame: pl.DataFrame,
    row: Indices,
    stream: NDArray[np.int64],
    begins: Floats,
    ends: Floats,
    length: Floats,
    complete: Flags,
    shared: NDArray[np.int64],
) -> Side:
    """Sorted tasks or children. A stream is complete up to its first incomplete element; a shared stream never is."""
    stream = stream[row]
    is_shared = np.isin(stream, shared) if len(shared) else np.zeros(len(row), np.bool_)
    complete = complete & ~is_shared
    values = frame["values_hash"].to_numpy()[row]
    if "statement_seq" in frame.columns and frame["is_child"].any():
        # A child sends tasks for the statements of a function, whose values are not those of its own statement.
        values = np.where(frame["is_child"].to_numpy()[row], np.int32(NO_VALUES), values)
    first = firsts(stream)
    if not complete.all():
        lacking = np.cumsum(~complete)
        before: Indices = lacking[first] - ~complete[first]
        complete = lacking == np.repeat(before, np.diff(first, append=len(row)))
    return Side(frame, row, stream, complete, begins, ends, length, values, first, is_shared)


def microseconds(time: pl.Expr | str) -> pl.Expr:
    """A time as a number, microseconds since 1970."""
    at = pl.col(time) if isinstance(time, str) else time
    return at.cast(pl.Datetime("us", "UTC")).to_physical().cast(pl.Float64)


def _in_order(tasks: Side, children: Side) -> Ordered:
    _, of_task, of_child = np.intersect1d(
        tasks.stream[tasks.first], children.stream[children.first], assume_unique=True, return_indices=True
    )
    pairs = np.minimum(tasks.complete_counts()[of_task], children.complete_counts()[of_child])
    of_task, of_child, pairs = of_task[pairs > 0], of_child[pairs > 0], pairs[pairs > 0]
    stream = np.repeat(np.arange(len(pairs)), pairs)
    position = places(changes(stream))
    task, child = tasks.first[of_task][stream] + position, children.first[of_child][stream] + position
    return Ordered(tasks, children, of_task, of_child, stream, task, child)


def _first_surplus(ordered: Ordered, side: Side, other: Side) -> Floats:
    """End of the first item of each stream that comes after the last item of the other side; NaN without one.

    If the other side continues, but is incomplete, items without a partner are expected and are no surplus.
    """
    of_side, of_other = (
        (ordered.of_task, ordered.of_child) if side is ordered.tasks else (ordered.of_child, ordered.of_task)
    )
    paired = np.bincount(ordered.stream, minlength=len(of_side))
    surplus = np.flatnonzero((other.counts[of_other] == paired) & (side.counts[of_side] > paired))
    ends = np.full(len(of_side), np.nan)
    ends[surplus] = side.ends[side.first[of_side[surplus]] + paired[surplus]]
    return ends
