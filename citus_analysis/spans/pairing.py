"""Pair tasks and children by order: the n-th task of a stream with its n-th child.

A child's gpid names the parent's session, not its statement. Within one *stream* (gpid, child node, anchor shard) a
session runs one statement after the other, so its n-th task belongs to the n-th statement that the node logged for it.
A function that runs on a child may send tasks of its own, under the gpid of the session that called it. If the tasks
of a stream come from several backends in this way, no log shows their order: the stream is *shared*, and no task of it
is paired by order.

:mod:`citus_analysis.spans.matching` decides which of these pairs are valid.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.spans.clocks import (
    RESOLUTION_US,
    TOLERANCE_US,
    ClockLine,
    OffsetBounds,
    find_most_agreed_offset,
    fit_clock,
)
from citus_analysis.spans.executions import Sessions, make_position_expr
from citus_analysis.spans.ordered_arrays import (
    AnyIntegers,
    Flags,
    Indices,
    changes,
    find_group_starts,
    is_single_value,
    number_group_places,
    number_series_values,
    sort_rows_stably,
)

# What the contents of statements prove: a task and its child have the same values.
#
# The constants and parameters of a parent's statement are those of the statement that its child runs, so their hashes
# are equal (`values_hash`; 0: unknown). Constants that the parent computes itself (`now()`), or that it divides among
# several children (rows of an INSERT), differ, so different values alone prove nothing. They do if the values of one
# side are those of another statement of the other side. The lowest five bits of a hash are the number of values.

#: The hash of the values of a statement without constants, or of which they are unknown.
NO_VALUES: Final = 0


_NUMBER: Final = 31


def has_same_values(some: NDArray[np.int32], others: NDArray[np.int32]) -> Flags:
    """Whether statements have the same values."""
    return np.asarray((some == others) & (some != NO_VALUES))


def has_other_values(some: NDArray[np.int32], others: NDArray[np.int32]) -> Flags:
    """Whether statements have equally many values, but not the same."""
    return np.asarray((some != others) & (some != NO_VALUES) & (others != NO_VALUES) & ((some ^ others) & _NUMBER == 0))


def number_contents(stream: AnyIntegers, values: NDArray[np.int32]) -> NDArray[np.int64]:
    """One number for the stream (less than 2**31) and the values of each statement."""
    return np.asarray(stream.astype(np.int64) << 32 | values.astype(np.int64) & 0xFFFFFFFF)


def is_occurring_in(contents: NDArray[np.int64], others: NDArray[np.int64]) -> Flags:
    """Whether each content occurs among others; a content without values does not.

    Example:
        >>> contents = number_contents(np.array([1, 1]), np.array([7, 0], np.int32))
        >>> is_occurring_in(contents, np.array([0, 2**32, 2**32 + 7])).tolist()
        [True, False]
    """
    return np.asarray(np.isin(contents, others) & (contents & 0xFFFFFFFF != NO_VALUES))


def is_unique_in_stream(stream: AnyIntegers, values: NDArray[np.int32]) -> Flags:
    """Whether each statement has values that no other statement of its stream has."""
    return np.asarray(is_single_value(number_contents(stream, values)) & (values != NO_VALUES))


def repeat_elsewhere(
    stream: AnyIntegers, values: NDArray[np.int32], other_stream: AnyIntegers, other_values: NDArray[np.int32]
) -> Flags:
    """Whether the values of each statement occur among those of the other side in its stream."""
    return is_occurring_in(number_contents(stream, values), number_contents(other_stream, other_values))


# Tasks that no record reports, from the contents of statements and children.
#
# Citus reports tasks only where `log_min_messages` is low enough, and executors to come may not report all of them. A
# child of which no task is reported belongs to a statement of its session that has the same values, reports neither
# tasks nor local executions, and was running at the time: such a statement is given one *unreported* task for each
# shard that a child with its values used. Its begin and end bound the task's, whose duration is unknown.

_STREAM: Final = ("gpid", "child_node", "stream_shard")

#: Whether a row of tasks is not reported by a record.
UNREPORTED: Final = pl.col("task_us").is_null()


def is_silent() -> pl.Expr:
    """Whether an execution of a parent does not say where its statement was executed."""
    says = pl.col("has_tasks") | pl.col("has_locals") | pl.col("failed") | pl.col("is_child")
    return pl.col("opened") & pl.col("closed") & ~says & (pl.col("values_hash") != NO_VALUES)


def add_unreported_tasks(tasks: pl.DataFrame, children: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Tasks with the possible tasks of statements that report none, in the order of the executions.

    Args:
        tasks: with `stream_shard`.
        children: `gpid`, `child_node`, `stream_shard`, `values_hash` and `failed`.
        executions: as in :class:`~citus_analysis.spans.executions.Sessions`.

    Returns:
        The tasks; those that no record reports have no `task_us`, `shard_id` and `byte_offset`, and the begin of their
        statement in `start_time`.
    """
    silent = executions.filter(is_silent() & pl.col("gpid").is_not_null())
    if silent.is_empty():
        return tasks
    ran = children.filter(~pl.col("failed")).group_by(_STREAM).len("ran")
    more = ran.join(tasks.group_by(_STREAM).len("sent"), on=_STREAM, how="left", nulls_equal=True)
    more = more.filter(pl.col("ran") > pl.col("sent").fill_null(0))
    alone = children.join(more, on=_STREAM, how="semi").filter(pl.col("values_hash") != NO_VALUES)
    wanted = alone.select(*_STREAM, "values_hash").unique()
    found = silent.join(wanted, on=["gpid", "values_hash"], how="inner").select(
        *("execution", "source", "pid", "values_hash", "gpid", "child_node", "stream_shard", "failed", "is_child"),
        "end_time",
        parent_node="node",
        start_time=pl.coalesce("start_time", "opener_time"),
        statement_source="source",
        statement_offset=pl.coalesce("byte_offset", "last_offset"),
        statement_seq="session_seq",
        session=pl.lit(0, tasks.schema["session"]),
        anchored=pl.lit(value=False),
    )
    return pl.concat([tasks, found.cast({"statement_seq": tasks.schema["statement_seq"]})], how="diagonal").sort(
        "execution", maintain_order=True
    )


# Find the shard by which a parent's task records name a child's statement.
#
# A task record names one shard, the anchor; the child's statement may name several, those of all tables that it joins,
# with the anchor at any place. Only tasks that the same session sent to the same node are considered. If one shard of
# the text is the anchor of such tasks, the statement belongs to this shard. If several are, the statement and the tasks
# of these shards share one stream, whose order proves nothing, because the tasks of a statement on several shards run
# at the same time.

_PLACE: Final = ("gpid", "child_node")
_SHARD: Final = (*_PLACE, "shard_id")


def name_anchors(sessions: Sessions, children: pl.DataFrame) -> tuple[Sessions, pl.DataFrame]:
    """Assign children, and tasks where needed, the shard that identifies their stream.

    Args:
        sessions: with the tasks.
        children: `gpid`, `child_node`, `shard_id`, `other_shards`, `child` and more.

    Returns:
        The sessions, whose tasks have the shard of their stream in `stream_shard`, and the children, with the same
        column and with `doubtful`: the order of their stream proves nothing.
    """
    tasks = sessions.tasks.with_columns(stream_shard="shard_id")
    children = children.with_columns(stream_shard="shard_id", doubtful=pl.lit(value=False))
    if children["other_shards"].null_count() == children.height:
        return replace(sessions, tasks=tasks), children
    anchors = sessions.tasks.select(_SHARD).unique()
    named = _list_candidate_shards(children).join(anchors, on=_SHARD, how="semi", maintain_order="left")
    together = _link_shared_shards(named)
    own = named.group_by("child", maintain_order=True).agg(anchor=pl.col("shard_id").first())
    children = (
        children.join(own, on="child", how="left", maintain_order="left")
        .with_columns(stream_shard=pl.coalesce("anchor", "shard_id"))
        .drop("anchor")
    )
    return replace(sessions, tasks=_merge_shared_streams(tasks, together).drop("doubtful")), _merge_shared_streams(
        children, together
    )


def _list_candidate_shards(children: pl.DataFrame) -> pl.DataFrame:
    """The shards that each statement names, in their order."""
    others = pl.col("other_shards").str.split(" ").cast(pl.List(pl.Int64))
    several = children.filter(pl.col("other_shards").is_not_null())
    every = pl.concat_list(pl.concat_list("shard_id"), others)
    return several.select(*_PLACE, "child", shard_id=every).explode("shard_id")


def _link_shared_shards(named: pl.DataFrame) -> pl.DataFrame:
    """Shards that share a text with other anchors, and `stream`: the smallest shard that is linked to each."""
    labels = named.filter(pl.len().over("child") > 1).with_columns(stream="shard_id")
    while True:
        smaller = labels.with_columns(pl.col("stream").min().over("child")).with_columns(
            pl.col("stream").min().over(_SHARD)
        )
        if smaller["stream"].equals(labels["stream"]):
            return labels.select(*_SHARD, "stream").unique()
        labels = smaller


def _merge_shared_streams(frame: pl.DataFrame, together: pl.DataFrame) -> pl.DataFrame:
    """Rows with the stream that their shard shares with others; rows in such a stream are doubtful."""
    named, keys = together.rename({"shard_id": "stream_shard"}), [*_PLACE, "stream_shard"]
    merged = frame.join(named, on=keys, how="left", maintain_order="left", nulls_equal=True)
    shared = pl.col("stream").is_not_null()
    return merged.with_columns(stream_shard=pl.coalesce("stream", "stream_shard"), doubtful=shared).drop("stream")


#: Parent node and child node.
NodePair = tuple[str, str]


@dataclass(frozen=True)
class StreamItems:
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

    def count_complete(self) -> Indices:
        """Number of complete elements of each stream."""
        return np.add.reduceat(self.complete, self.first, dtype=np.intp) if len(self.first) else self.first

    def select_for_alignment(self, chosen: Flags) -> pl.DataFrame:
        """Some elements, with the columns that their alignment needs."""
        row = self.row[chosen]
        numbers = self.frame["child"].to_numpy()[row] if "child" in self.frame else row
        own = {name: getattr(self, name)[chosen] for name in ("stream", "begins", "ends", "length", "values", "shared")}
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
class PairFacts:
    """The facts of candidate pairs that their classification needs: a twentieth of the memory of their records.

    Attributes:
        by_nodes: the pairs of each pair of nodes.
        bounds: the bounds of the clocks' offset from each pair (see :mod:`citus_analysis.spans.clocks`).
        shorter: whether each task is shorter than its child.
        contradicted: whether the values of the task, or of the child, are those of another statement of the other side.
        values: hash of the values of each pair that has the same on both sides.
        first: indices at which the pairs of each stream begin.
        streams: facts about each stream.
        shared: pairs of nodes with a stream that has tasks and children.
    """

    by_nodes: dict[NodePair, AnyIntegers]
    bounds: OffsetBounds
    shorter: Flags
    contradicted: Flags
    values: NDArray[np.int32]
    first: Indices
    streams: StreamFacts
    shared: frozenset[NodePair]

    def get_stream(self, rows: AnyIntegers) -> Indices:
        """The row of `streams` of each of some pairs."""
        return np.searchsorted(self.first, rows, side="right") - 1


@dataclass(frozen=True)
class UnmatchedItems:
    """Tasks and children without a proven partner, in the streams that have both.

    Columns are those of :class:`~citus_analysis.spans.pairing.Streams`, `parent_node`, `child_node` and
    `shared`. The parent of a child in a shared stream is not known: its `parent_node` is that of any of the parents.
    """

    tasks: pl.DataFrame
    children: pl.DataFrame


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of the n-th task of each stream with its n-th child, as long as both sequences are complete.

    Attributes:
        tasks: all tasks.
        children: all children.
        of_task: the stream of `tasks` for each stream that has pairs; `of_child` that of `children`.
        stream: the stream of each pair; `task` and `child` are its places in `tasks` and `children`.
    """

    tasks: StreamItems
    children: StreamItems
    of_task: Indices
    of_child: Indices
    stream: Indices
    task: Indices
    child: Indices

    def collect_facts(self, sessions: Sessions) -> PairFacts:
        """The facts of the pairs that their classification needs."""
        task, child = self.tasks, self.children
        first = find_group_starts(self.stream)
        heads = task.row[self.task[first]]
        gpid, shard, session = (task.frame[name].to_numpy()[heads] for name in ("gpid", "stream_shard", "session"))
        begins = sessions.begins.sort("session")
        session_begins = begins["session_begins"].to_numpy()[np.searchsorted(begins["session"].to_numpy(), session)]
        surplus = _find_first_surplus(self, task, child), _find_first_surplus(self, child, task)
        streams = StreamFacts(gpid, shard, session_begins, *surplus)
        shorter = child.length[self.child] > task.length[self.task] + 1
        contradicted, values = self._compare_contents()
        # Of millions of pairs, these numbers are in memory until all clocks are known.
        by_nodes: dict[NodePair, AnyIntegers] = {
            key: rows.astype(np.uint32) for key, rows in self._group_by_nodes().items()
        }
        return PairFacts(
            by_nodes, self._compute_bounds(), shorter, contradicted, values, first, streams, self._find_shared_nodes()
        )

    def _compare_contents(self) -> tuple[Flags, NDArray[np.int32]]:
        """`contradicted` and `values` of :class:`PairFacts`."""
        asked, ran = self.tasks.values[self.task], self.children.values[self.child]
        alike = asked == ran
        contradicted = np.zeros(len(alike), np.bool_)
        unlike = np.flatnonzero(has_other_values(asked, ran))
        if len(unlike):
            tasks, children = self.tasks, self.children
            stream = tasks.stream[self.task[unlike]]
            contradicted[unlike] = repeat_elsewhere(stream, ran[unlike], tasks.stream, tasks.values)
            contradicted[unlike] |= repeat_elsewhere(stream, asked[unlike], children.stream, children.values)
        return contradicted, np.where(alike, asked, np.int32(NO_VALUES))

    def select_unmatched(self, exact: Flags) -> UnmatchedItems:
        """Tasks and children without a proven partner; `exact` marks the proven pairs."""
        tasks, children = self.tasks, self.children
        task, child = np.ones(len(tasks.row), np.bool_), np.ones(len(children.row), np.bool_)
        task[self.task[exact]], child[self.child[exact]] = False, False
        task &= np.isin(tasks.stream, children.stream[child])
        child &= np.isin(children.stream, tasks.stream[task])
        unmatched = tasks.select_for_alignment(task).with_columns(
            parent_node=tasks.frame["parent_node"].gather(tasks.row[task])
        )
        nodes = unmatched.select("stream", "parent_node").unique("stream")
        return UnmatchedItems(
            unmatched, children.select_for_alignment(child).join(nodes, on="stream", how="inner", maintain_order="left")
        )

    def find_between(self, nodes: Collection[NodePair], chosen: Flags) -> Indices:
        """Indices of the chosen pairs that are between given pairs of nodes."""
        if not nodes or not chosen.any():
            return np.zeros(0, np.intp)
        own: Indices = np.concatenate(
            [rows for key, rows in self._group_by_nodes().items() if key in nodes] or [np.zeros(0, np.intp)]
        )
        return own[np.flatnonzero(chosen[own])]

    def _compute_bounds(self) -> OffsetBounds:
        ends = self.tasks.ends[self.task]
        low = self.children.ends[self.child] - ends - RESOLUTION_US
        high = self.children.begins[self.child] - self.tasks.begins[self.task] + RESOLUTION_US
        return OffsetBounds(ends, low, high)

    def _group_by_nodes(self) -> dict[NodePair, Indices]:
        row = self.tasks.row[self.task]
        number = self._node_pairs[row]
        order = sort_rows_stably(number, np.arange(len(row)))
        groups = np.split(order, find_group_starts(number[order])[1:])
        return {self._get_nodes(int(row[group[0]])): group for group in groups if len(group)}

    def _find_shared_nodes(self) -> frozenset[NodePair]:
        heads = self.tasks.shared.copy()
        heads[self.tasks.first] = True
        first = np.flatnonzero(heads)
        row = self.tasks.row[first[np.isin(self.tasks.stream[first], self.children.stream)]]
        _, one = np.unique(self._node_pairs[row], return_index=True)
        return frozenset(map(self._get_nodes, row[one].tolist()))

    @cached_property
    def _node_pairs(self) -> NDArray[np.int64]:
        """A number for the pair of nodes of each row of tasks."""
        frame = self.tasks.frame
        (parent,), (child,) = number_series_values(frame["parent_node"]), number_series_values(frame["child_node"])
        return np.asarray(parent * (child.max(initial=0) + 1) + child)

    def _get_nodes(self, row: int) -> NodePair:
        frame = self.tasks.frame
        return str(frame["parent_node"][row]), str(frame["child_node"][row])


def pair_by_order(sessions: Sessions) -> CandidatePairs:
    """Pair the n-th task of each stream with its n-th child."""
    sessions, numbered = name_anchors(sessions, _select_shard_children(sessions))
    sent = add_unreported_tasks(sessions.tasks, numbered, sessions.executions)
    task_stream, child_stream = _number_streams(sent, numbered)
    shared = _find_shared_streams(sent, task_stream)
    row = sort_rows_stably(task_stream, np.arange(sent.height))
    ends = sent.select(make_microseconds_expr("end_time")).to_series().to_numpy()[row]
    length = sent["task_us"].cast(pl.Float64).to_numpy()[row]
    begins = ends - length
    if "start_time" in sent.columns:
        unreported = np.isnan(length)
        starts = sent.select(make_microseconds_expr("start_time")).to_series().to_numpy()[row]
        begins[unreported] = starts[unreported]
    tasks = _build_stream_items(sent, row, task_stream, begins, ends, length, sent["anchored"].to_numpy()[row], shared)
    return _order_by_stream(tasks, _drop_failed_children(numbered, child_stream, sessions, shared))


def _select_shard_children(sessions: Sessions) -> pl.DataFrame:
    """The statements that children ran on shards, in the order of their backends."""
    return sessions.executions.filter(pl.col("is_child") & pl.col("opened") & pl.col("shard_id").is_not_null()).select(
        *("gpid", "shard_id", "other_shards", "failed", "closed", "values_hash"),
        child="execution",
        child_node="node",
        place=make_position_expr("opener_offset"),
        child_us=pl.when("closed").then("duration_us"),
        child_duration_us="duration_us",
        child_pid="pid",
        child_extended="extended",
        child_connects="first_on_shard",
        child_begins=pl.min_horizontal(make_microseconds_expr("start_time"), make_microseconds_expr("opener_time")),
        child_ends=pl.coalesce(make_microseconds_expr("end_time"), make_microseconds_expr("opener_time")),
    )


def _number_streams(tasks: pl.DataFrame, children: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of the stream of each task and each child."""
    task_stream, child_stream = np.zeros(tasks.height, np.int64), np.zeros(children.height, np.int64)
    for name in _STREAM:
        of_task, of_child = number_series_values(tasks[name], children[name])
        size = 1 + max(of_task.max(initial=0), of_child.max(initial=0))
        task_stream, child_stream = task_stream * size + of_task, child_stream * size + of_child
    return task_stream, child_stream


def _find_shared_streams(tasks: pl.DataFrame, stream: NDArray[np.int64]) -> NDArray[np.int64]:
    """The streams whose tasks come from several backends."""
    (backend,) = number_series_values(tasks["pid"])
    (node,) = number_series_values(tasks["parent_node"])
    backend = backend * (node.max(initial=0) + 1) + node
    # A gpid names one backend, unless a child sends tasks.
    if len(np.unique(backend)) <= tasks["gpid"].n_unique():
        return stream[:0]
    several = pl.DataFrame({"stream": stream, "backend": backend}).unique()["stream"].to_numpy()
    streams, backends = np.unique(several, return_counts=True)
    return np.asarray(streams[backends > 1], np.int64)


def _drop_failed_children(
    children: pl.DataFrame, stream: NDArray[np.int64], sessions: Sessions, shared: NDArray[np.int64]
) -> StreamItems:
    """Children that can have a task, in the order in which their node logged them.

    A statement that failed has no task record. A statement that never ended may lack one, too, because its connection
    broke, so it is kept only as the last of its stream.
    """
    where = children["place"].to_numpy()
    row = sort_rows_stably(stream, np.arange(children.height))
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
    return _build_stream_items(children, row, stream, begins, ends, length, complete, shared)


def _build_stream_items(
    frame: pl.DataFrame,
    row: Indices,
    stream: NDArray[np.int64],
    begins: Floats,
    ends: Floats,
    length: Floats,
    complete: Flags,
    shared: NDArray[np.int64],
) -> StreamItems:
    """Sorted tasks or children. A stream is complete up to its first incomplete element; a shared stream never is."""
    stream = stream[row]
    is_shared = np.isin(stream, shared) if len(shared) else np.zeros(len(row), np.bool_)
    complete = complete & ~is_shared
    values = frame["values_hash"].to_numpy()[row]
    if "statement_seq" in frame.columns and frame["is_child"].any():
        # A child sends tasks for the statements of a function, whose values are not those of its own statement.
        values = np.where(frame["is_child"].to_numpy()[row], np.int32(NO_VALUES), values)
    first = find_group_starts(stream)
    if not complete.all():
        lacking = np.cumsum(~complete)
        before: Indices = lacking[first] - ~complete[first]
        complete = lacking == np.repeat(before, np.diff(first, append=len(row)))
    return StreamItems(frame, row, stream, complete, begins, ends, length, values, first, is_shared)


def make_microseconds_expr(time: pl.Expr | str) -> pl.Expr:
    """A time as a number, microseconds since 1970."""
    at = pl.col(time) if isinstance(time, str) else time
    return at.cast(pl.Datetime("us", "UTC")).to_physical().cast(pl.Float64)


def _order_by_stream(tasks: StreamItems, children: StreamItems) -> CandidatePairs:
    _, of_task, of_child = np.intersect1d(
        tasks.stream[tasks.first], children.stream[children.first], assume_unique=True, return_indices=True
    )
    pairs = np.minimum(tasks.count_complete()[of_task], children.count_complete()[of_child])
    of_task, of_child, pairs = of_task[pairs > 0], of_child[pairs > 0], pairs[pairs > 0]
    stream = np.repeat(np.arange(len(pairs)), pairs)
    position = number_group_places(changes(stream))
    task, child = tasks.first[of_task][stream] + position, children.first[of_child][stream] + position
    return CandidatePairs(tasks, children, of_task, of_child, stream, task, child)


def _find_first_surplus(pairs: CandidatePairs, side: StreamItems, other: StreamItems) -> Floats:
    """End of the first item of each stream that comes after the last item of the other side; NaN without one.

    If the other side continues, but is incomplete, items without a partner are expected and are no surplus.
    """
    of_side, of_other = (pairs.of_task, pairs.of_child) if side is pairs.tasks else (pairs.of_child, pairs.of_task)
    paired = np.bincount(pairs.stream, minlength=len(of_side))
    surplus = np.flatnonzero((other.counts[of_other] == paired) & (side.counts[of_side] > paired))
    ends = np.full(len(of_side), np.nan)
    ends[surplus] = side.ends[side.first[of_side[surplus]] + paired[surplus]]
    return ends


# Align tasks with child statements if one of the two sequences has gaps.
#
# Both sequences of a stream are in order, and tasks of one session on one shard do not overlap. A task and a child are
# *compatible* when the task waited at least as long as the child ran, the child's interval lies inside the task's,
# given the offset of the clocks and its tolerance, and their contents do not exclude it: in a stream in which children
# have the values of tasks, they have equally many others. An alignment is an order-preserving set of compatible pairs.
# The best alignment has the most pairs and, among alignments of the same size, the least total contradiction in time.
# It is a heaviest increasing subsequence of the compatible pairs, which dynamic programming over the best ends of
# chains finds in O(n log n) (Hunt and Szymanski, 1977: A fast algorithm for computing longest common subsequences).
#
# A pair belongs to every largest alignment if no other compatible pair has the same rank in one; otherwise its task is
# *ambiguous*.


@dataclass(frozen=True)
class Intervals:
    """Tasks or children, sorted by stream and by order within it.

    Attributes:
        first: index at which each stream begins, and the number of all.
        begin: begin of each, microseconds.
        end: end of each.
        length: reported duration; NaN if it is unknown.
        values: hash of the values of each statement.
    """

    first: Integers
    begin: Floats
    end: Floats
    length: Floats
    values: NDArray[np.int32]

    @classmethod
    def of(cls, frame: pl.DataFrame, first: Integers) -> Intervals:
        """Those in a frame of :class:`~citus_analysis.spans.pairing.UnmatchedItems`."""
        begin, end, length = (frame[name].cast(pl.Float64).to_numpy() for name in ("begins", "ends", "length"))
        return cls(first, begin, end, length, frame["values"].to_numpy())

    @property
    def stream(self) -> Integers:
        """The stream of each."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


@dataclass(frozen=True)
class Alignment:
    """The child of each task.

    Attributes:
        child: -1 without one.
        ambiguous: whether other alignments are as large.
        alike: whether both have the same values, and neither is compatible with another that has them.
    """

    child: Integers
    ambiguous: Flags
    alike: Flags


def find_compatible_pairs(tasks: Intervals, children: Intervals, tolerance: float) -> tuple[Integers, Integers, Floats]:
    """All compatible pairs, by stream, task and then descending child.

    Args:
        tasks: tasks on the parent's clock.
        children: children of the same streams, moved to the parent's clock.
        tolerance: contradiction in time that is tolerated, microseconds.

    Returns:
        Task, child, and the time by which the child's interval exceeds the task's, resolution included.
    """
    earliest = tasks.begin - RESOLUTION_US - tolerance
    latest = tasks.end + RESOLUTION_US + tolerance
    lowest, beyond = np.empty(len(tasks.end), np.int64), np.empty(len(tasks.end), np.int64)
    for stream in range(len(tasks.first) - 1):
        mine = slice(tasks.first[stream], tasks.first[stream + 1])
        theirs = slice(children.first[stream], children.first[stream + 1])
        # Children are in the order of their records, which may differ from the order of their begins.
        ended = np.maximum.accumulate(np.nan_to_num(children.end[theirs], nan=-np.inf)) + RESOLUTION_US
        begun = np.minimum.accumulate(np.nan_to_num(children.begin[theirs][::-1], nan=np.inf))[::-1]
        lowest[mine] = theirs.start + np.searchsorted(ended, earliest[mine])
        beyond[mine] = theirs.start + np.searchsorted(begun, latest[mine], side="right")
    counts = np.maximum(beyond - lowest, 0)
    task = np.repeat(np.arange(len(counts)), counts)
    child = np.repeat(beyond - 1 + np.cumsum(counts) - counts, counts) - np.arange(len(task))
    late, early = children.end[child] - tasks.end[task], tasks.begin[task] - children.begin[child]
    contradiction = np.maximum(np.maximum(late, early), 0.0)
    shorter = children.length[child] > tasks.length[task] + 1.0
    kept = (contradiction <= tolerance + RESOLUTION_US) & ~shorter & ~_is_excluded_pair(tasks, children, task, child)
    return task[kept], child[kept], contradiction[kept]


#: Least share of the tasks of a stream whose values some child has, where different values exclude a pair.
_COMPARABLE: Final = 0.1


def _is_excluded_pair(tasks: Intervals, children: Intervals, task: Integers, child: Integers) -> Flags:
    """Whether the contents of tasks and children of a stream exclude that they belong together.

    A task that no record reports has nothing but its content to show for it.
    """
    asked, ran = tasks.values[task], children.values[child]
    unreported = np.isnan(tasks.length[task])
    unlike = np.where(unreported, asked != ran, has_other_values(asked, ran))
    if not unlike.any():
        return unlike
    found = repeat_elsewhere(tasks.stream, tasks.values, children.stream, children.values)
    share = np.add.reduceat(found, tasks.first[:-1], dtype=np.intp) / np.diff(tasks.first)
    comparable = np.repeat(share >= _COMPARABLE, np.diff(tasks.first))[task]
    return unlike & (unreported | comparable)


def align_streams(tasks: Intervals, children: Intervals, tolerance: float) -> Alignment:
    """The largest alignment of each stream.

    If there are equally many tasks and children between two neighbouring pairs, they are paired in order: nothing is
    missing there, only a record was late.
    """
    task, child, contradiction = find_compatible_pairs(tasks, children, tolerance)
    partner = np.full(len(tasks.end), -1, np.int64)
    ambiguous, only = np.zeros(len(tasks.end), np.bool_), np.full(len(tasks.end), -2, np.int64)
    if len(task):
        same = has_same_values(tasks.values[task], children.values[child])
        alone = np.flatnonzero(same)[is_only_pair(task[same], child[same])]
        only[task[alone]] = child[alone]
        _choose_alignment(task, child, contradiction / (tolerance + RESOLUTION_US + 1.0), partner, ambiguous)
        _pair_equal_gaps(tasks, children, partner)
    return Alignment(partner, ambiguous, partner == only)


def is_only_pair(task: Integers, child: Integers) -> Flags:
    """Whether neither the task nor the child of each compatible pair is in another."""
    return np.asarray((np.bincount(task)[task] == 1) & (np.bincount(child)[child] == 1))


def _find_heaviest_chains(
    child: list[int], task: list[int], weight: list[float]
) -> tuple[Integers, list[float], list[int]]:
    """Rank and weight of the heaviest increasing chain that ends in each pair, and the pair before it (-1: none).

    `ends` contains the last children of those chains that no chain to a smaller child outweighs.
    """
    count = len(child)
    rank, total, before = [1] * count, weight.copy(), [-1] * count
    ends: list[int] = []
    heights: list[float] = []
    pairs: list[int] = []
    begin = 0
    while begin < count:
        end = begin
        while end < count and task[end] == task[begin]:
            place = bisect_left(ends, child[end]) - 1
            if place >= 0:
                best = pairs[place]
                before[end], rank[end], total[end] = best, rank[best] + 1, weight[end] + total[best]
            end += 1
        for pair in range(begin, end):
            height, place = total[pair], bisect_left(ends, child[pair])
            at_end = place < len(ends) and ends[place] == child[pair]
            if (place and heights[place - 1] >= height) or (at_end and heights[place] >= height):
                continue
            outweighed = place
            while outweighed < len(ends) and heights[outweighed] <= height:
                outweighed += 1
            ends[place:outweighed] = [child[pair]]
            heights[place:outweighed] = [height]
            pairs[place:outweighed] = [pair]
        begin = end
    return np.array(rank, np.int64), total, before


def _choose_alignment(
    task: Integers,
    child: Integers,
    contradiction: Floats,
    partner: Integers,
    ambiguous: Flags,
) -> None:
    """Choose the alignment and mark ambiguous tasks. The numbers of different streams are disjoint on both sides."""
    # More pairs always weigh more than less contradiction.
    weight = 1.0 - contradiction / (len(task) + 1.0)
    rank, total, before = _find_heaviest_chains(child.tolist(), task.tolist(), weight.tolist())
    reverse_rank, _, _ = _find_heaviest_chains((-child[::-1]).tolist(), (-task[::-1]).tolist(), weight[::-1].tolist())
    last = int(np.argmax(total))
    rivals = np.bincount(rank[rank + reverse_rank[::-1] - 1 == rank[last]])
    chain = [last]
    while (pair := before[chain[-1]]) >= 0:
        chain.append(pair)
    partner[task[chain]] = child[chain]
    ambiguous[task[chain]] = rivals[rank[chain]] > 1


def _pair_equal_gaps(tasks: Intervals, children: Intervals, partner: Integers) -> None:
    """Pair tasks and children in order between neighbouring pairs if they are equally many there."""
    paired = np.flatnonzero(partner >= 0)
    gap, stream = np.diff(paired), np.searchsorted(tasks.first, paired, side="right")
    alike = (gap > 1) & (np.diff(partner[paired]) == gap) & (np.diff(stream) == 0)
    length = gap[alike] - 1
    step = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1
    task = np.repeat(paired[:-1][alike], length) + step
    child = np.repeat(partner[paired[:-1]][alike], length) + step
    fits = ~(children.length[child] > tasks.length[task] + 1.0) & ~_is_excluded_pair(tasks, children, task, child)
    partner[task[fits]] = child[fits]


# Tasks and children of two nodes, stream by stream, and the clock offset that most of them agree on.

Wanted = Literal["once", "alike", "all"]
_WANTED: Final[tuple[Wanted, ...]] = ("once", "alike", "all")

#: Fewest votes of an accepted offset, and the least ratio of its votes to those of any other offset.
_VOTES: Final = 3
_LEAD: Final = 2.0

#: Children that vote on an offset, and pairs of them with tasks; bounds memory and time.
_VOTERS: Final = 400
_MOST_VOTES: Final = 2_000_000


class Streams:
    """The tasks and children of one pair of nodes in the streams that have both.

    Args:
        tasks: `stream`, `number`, `length`, `begins`, `ends`, `values`, by stream and order within it.
        children: the same of the children, in the same way; of the same streams.
    """

    def __init__(self, tasks: pl.DataFrame, children: pl.DataFrame) -> None:
        self._numbers = tasks["number"].to_numpy(), children["number"].to_numpy()
        stream = tasks["stream"].to_numpy()
        first = find_group_starts(stream)
        of_child = np.searchsorted(stream[first], children["stream"].to_numpy())
        self._tasks = Intervals.of(tasks, np.append(first, len(stream)))
        self.children = Intervals.of(children, np.searchsorted(of_child, np.arange(len(first) + 1)))

    def align(self, line: ClockLine) -> pl.DataFrame:
        """The alignment of all streams; `alike`: both have the same values, and neither fits another that has them."""
        tolerance = TOLERANCE_US + (line.offset_high - line.offset_low) / 2
        alignment = align_streams(self._tasks, self._move_children(line), tolerance)
        task = np.flatnonzero(alignment.child >= 0)
        child = alignment.child[task]
        numbers = {"task": self._numbers[0][task], "child": self._numbers[1][child]}
        return pl.DataFrame(numbers | {"ambiguous": alignment.ambiguous[task], "alike": alignment.alike[task]})

    def list_bounds(self, centre: float, wanted: Wanted) -> OffsetBounds:
        """The offsets that all pairs of a task with a child near a time permit.

        Args:
            centre: the time, microseconds of the child's clock.
            wanted: all pairs, those with the same values, or those with values that no other of their stream has.
        """
        near = np.argsort(np.abs(self.children.begin - centre), kind="stable")
        stream = self.children.stream
        sizes = np.diff(self._tasks.first)[stream]
        chosen = near[:_VOTERS][np.cumsum(sizes[near[:_VOTERS]]) <= _MOST_VOTES]
        child = np.repeat(chosen, sizes[chosen])
        within = np.arange(len(child)) - np.repeat(np.cumsum(sizes[chosen]) - sizes[chosen], sizes[chosen])
        task = self._tasks.first[stream[child]] + within
        if wanted != "all":
            alike = has_same_values(self._tasks.values[task], self.children.values[child])
            if wanted == "once":
                alike &= self._once[0][task] & self._once[1][child]
            task, child = task[alike], child[alike]
        return self._compute_bounds(task, child)

    @cached_property
    def _once(self) -> tuple[Flags, Flags]:
        """Whether each task, and each child, has values that no other of its stream has."""
        tasks, children = self._tasks, self.children
        return is_unique_in_stream(tasks.stream, tasks.values), is_unique_in_stream(children.stream, children.values)

    def list_unique_bounds(self, line: ClockLine, centre: float, reach: float) -> OffsetBounds:
        """Bounds from pairs near a time of which neither task nor child is compatible with another, given a line."""
        task, child, _ = find_compatible_pairs(self._tasks, self._move_children(line), TOLERANCE_US)
        alone = is_only_pair(task, child)
        near = np.abs(self.children.begin[child] - centre) <= reach
        return self._compute_bounds(task[alone & near], child[alone & near])

    def _compute_bounds(self, task: NDArray[np.intp], child: NDArray[np.intp]) -> OffsetBounds:
        tasks, children = self._tasks, self.children
        long_enough = ~(children.length[child] > tasks.length[task] + 1)
        task, child = task[long_enough], child[long_enough]
        low = children.end[child] - tasks.end[task] - RESOLUTION_US
        high = children.begin[child] - tasks.begin[task] + RESOLUTION_US
        return OffsetBounds(tasks.end[task], low, high)

    def _move_children(self, line: ClockLine) -> Intervals:
        """The children on the clock of the tasks."""
        offset = line.at(self.children.begin - line.offset)
        return replace(self.children, begin=self.children.begin - offset, end=self.children.end - offset)


def guess_clock(
    streams: Streams, other_streams: Sequence[tuple[Streams, ClockLine]] = ()
) -> tuple[ClockLine, bool] | None:
    """The offset that most tasks and children agree on, followed from there over the whole log.

    Tasks and children with the same values are considered first: only they prove it.

    Args:
        streams: tasks and children of two nodes.
        other_streams: the statements that tasks of the same parent ran on other nodes, with the known lines from those
            nodes' clocks to the child's: they vote on the same offset.

    Returns:
        The offset, and whether contents prove it; None when no offset has a clear lead: a periodic workload agrees on
        several.
    """
    for wanted, share in product(_WANTED, (0.5, 0.25, 0.75)):
        centre = float(np.quantile(streams.children.begin, share))
        bounds = streams.list_bounds(centre, wanted)
        # Values that most pairs have in common distinguish nothing.
        if len(bounds) == 0 or (wanted == "alike" and 2 * len(bounds) > len(streams.list_bounds(centre, "all"))):
            continue
        further = [other.list_bounds(centre - line.offset, wanted).beyond(line) for other, line in other_streams]
        offset, votes, others = find_most_agreed_offset(OffsetBounds.joined([bounds, *further]))
        if votes >= _VOTES and votes >= _LEAD * others:
            return _follow_offset(streams, offset, centre), wanted != "all"
    return None


def _follow_offset(streams: Streams, offset: float, centre: float) -> ClockLine:
    line = ClockLine(centre - offset, offset, offset, offset, 0.0, 0.0, 0.0, 0, 0)
    distances = np.sort(np.abs(streams.children.begin - centre))
    reach = distances[min(_VOTERS, len(distances)) - 1]
    while (agreeing := streams.list_unique_bounds(line, centre, reach)) and reach < distances[-1]:
        line = fit_clock(agreeing)
        reach *= 3
    # If statements follow each other within the tolerance, no pair is unique: the offset of the votes remains.
    return fit_clock(agreeing) if agreeing else line
