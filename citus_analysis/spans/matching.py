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
pairs are `inferred`. The clock offset that this takes comes from the exact pairs of the two nodes, else from the one
offset that most tasks and children of these nodes agree on; when two offsets are about as likely, nothing is paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.clocks import RESOLUTION_US, SAME_CLOCK, TOLERANCE_US, Bounds, ClockLine, fit_clock
from citus_analysis.spans.sessions import Sessions, place

__all__ = ["Matching", "match_tasks"]

_STREAM: Final = ("gpid", "child_node", "shard_id")
_MATCH: Final = TABLES["spans"]["match"].dtype

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
    children = _children(sessions)
    tasks = _tasks(sessions)
    ordered = _pair_by_order(tasks, children)
    exact = ordered.join(_proven_streams(ordered, tasks, children, sessions), on=_STREAM, how="semi")
    clocks = _fit(exact)
    rest = tasks.join(exact, on="task", how="anti")
    rest_children = children.join(exact, on="child", how="anti")
    rest = rest.join(rest_children, on=_STREAM, how="semi")
    inferred, guessed, undecided = _align(rest, rest_children, clocks) if rest.height else (_NONE, {}, frozenset())
    found = pl.concat(
        [
            exact.select("task", "child", ambiguous=pl.lit(value=False), match=pl.lit("exact", _MATCH)),
            inferred.select("task", "child", "ambiguous", match=pl.lit("inferred", _MATCH)),
        ]
    )
    pairs = (
        tasks.join(found, on="task", how="left")
        .with_columns(pl.col("match").fill_null("unmatched"), pl.col("ambiguous").fill_null(value=False))
        .sort("task")
    )
    return Matching(pairs, children, clocks, guessed, undecided)


def _children(sessions: Sessions) -> pl.DataFrame:
    """The statements that children ran on shards, in the order in which their node logged them.

    A statement that failed has no task record. One that never ended has none either if its connection broke, so
    it stays only as the last of its stream.
    """
    gaps = sessions.gaps.group_by("gpid", child_node="node").agg(gap=pl.col("place").min())
    ordered = (
        sessions.executions.filter(pl.col("is_child") & pl.col("opened") & pl.col("shard_id").is_not_null())
        .select(
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
        .join(gaps, on=["gpid", "child_node"], how="left")
        .sort(*_STREAM, "place")
    )
    last = pl.int_range(pl.len()).reverse().over(_STREAM) == 0
    kept = ordered.filter(~pl.col("failed") & (pl.col("closed") | last))
    return kept.with_columns(
        position=pl.int_range(pl.len(), dtype=pl.UInt32).over(_STREAM),
        child_complete=(pl.col("place") <= pl.col("gap")).fill_null(value=True),
    ).drop("failed", "closed", "place", "gap")


def _tasks(sessions: Sessions) -> pl.DataFrame:
    ends = _microseconds("end_time")
    ordered = sessions.tasks.with_row_index("task").sort(*_STREAM, "task")
    return ordered.with_columns(
        task_begins=ends - pl.col("task_us"),
        task_ends=ends,
        position=pl.int_range(pl.len(), dtype=pl.UInt32).over(_STREAM),
        task_complete=pl.col("anchored").cast(pl.UInt8).cum_min().over(_STREAM) == 1,
    )


def _microseconds(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Datetime("us", "UTC")).to_physical().cast(pl.Float64)


def _pair_by_order(tasks: pl.DataFrame, children: pl.DataFrame) -> pl.DataFrame:
    """The n-th task of each stream with its n-th child, as long as both sequences are complete."""
    pairs = tasks.filter("task_complete").join(
        children.filter("child_complete"), on=[*_STREAM, "position"], how="inner"
    )
    return pairs.select(
        *_STREAM, "task", "child", "session", "parent_node", "task_us", "child_us",
        "task_begins", "task_ends", "child_begins", "child_ends",
    )  # fmt: skip


def _bounds(pairs: pl.DataFrame) -> Bounds:
    """What each pair says about the offset of the clocks (see :mod:`citus_analysis.spans.clocks`)."""
    begins, ends = pairs["task_begins"].to_numpy(), pairs["task_ends"].to_numpy()
    low = pairs["child_ends"].to_numpy() - ends - RESOLUTION_US
    high = pairs["child_begins"].to_numpy() - begins + RESOLUTION_US
    return Bounds(ends, low, high)


def _by_nodes(frame: pl.DataFrame) -> dict[NodePair, pl.DataFrame]:
    parts = frame.partition_by("parent_node", "child_node", as_dict=True)
    return {(str(parent), str(child)): part for (parent, child), part in parts.items() if child is not None}


def _fit(pairs: pl.DataFrame) -> dict[NodePair, ClockLine]:
    return {key: _line(key, _bounds(part)) for key, part in _by_nodes(pairs).items()}


def _line(key: NodePair, bounds: Bounds) -> ClockLine:
    return SAME_CLOCK if key[0] == key[1] else fit_clock(bounds)


def _proven_streams(
    ordered: pl.DataFrame, tasks: pl.DataFrame, children: pl.DataFrame, sessions: Sessions
) -> pl.DataFrame:
    """The streams whose order proves their pairs (see the module's docstring)."""
    by_nodes = _by_nodes(ordered)
    lines = {key: _line(key, _bounds(part)) for key, part in by_nodes.items()}
    parts = [_judged(part, lines[key]) for key, part in by_nodes.items() if not _contradicted(key, lines)]
    if not parts:
        return ordered.select(_STREAM).clear()
    streams = (
        pl.concat(parts)
        .group_by(_STREAM)
        .agg(
            pl.col("parent_node", "session", "offset").first(),
            contradicted=pl.col("contradicts").any(),
            paired=pl.len(),
        )
        .filter(~pl.col("contradicted"))
    )
    return _begun_in_the_log(_ended_with_the_log(streams, tasks, children, sessions), sessions).select(_STREAM)


def _judged(pairs: pl.DataFrame, line: ClockLine) -> pl.DataFrame:
    bounds = _bounds(pairs)
    late = pl.Series(line.violation(bounds) > TOLERANCE_US)
    shorter = (pl.col("child_us") > pl.col("task_us") + 1).fill_null(value=False)
    return pairs.with_columns(contradicts=late | shorter, offset=pl.Series(line.at(bounds.time)))


def _contradicted(key: NodePair, lines: Mapping[NodePair, ClockLine]) -> bool:
    """Whether the pairs in the other direction tell another offset between the same two clocks."""
    other = lines.get(key[::-1])
    if other is None:
        return False
    line, back = lines[key], other.reversed()
    return max(line.offset_low - back.offset_high, back.offset_low - line.offset_high) > 2 * TOLERANCE_US


def _ended_with_the_log(
    streams: pl.DataFrame, tasks: pl.DataFrame, children: pl.DataFrame, sessions: Sessions
) -> pl.DataFrame:
    """Streams where what one side has more than the other lies beyond the end of the other's log."""
    ends = sessions.coverage.select("node", last=_microseconds("last_time"))
    beyond_child = _first_surplus(streams, tasks, children, "task_ends")
    beyond_parent = _first_surplus(streams, children, tasks, "child_ends")
    judged = (
        streams.join(beyond_child.rename({"surplus": "surplus_task"}), on=_STREAM, how="left")
        .join(beyond_parent.rename({"surplus": "surplus_child"}), on=_STREAM, how="left")
        .join(ends.rename({"node": "child_node", "last": "child_last"}), on="child_node", how="left")
        .join(ends.rename({"node": "parent_node", "last": "parent_last"}), on="parent_node", how="left")
    )
    lost_children = pl.col("surplus_task") + pl.col("offset") < pl.col("child_last") - TOLERANCE_US
    lost_tasks = pl.col("surplus_child") - pl.col("offset") < pl.col("parent_last") - TOLERANCE_US
    return judged.filter(~lost_children.fill_null(value=False), ~lost_tasks.fill_null(value=False))


def _first_surplus(streams: pl.DataFrame, side: pl.DataFrame, other: pl.DataFrame, ends: str) -> pl.DataFrame:
    """When the first item of each stream ended that comes after the last of the other side.

    Where the other side goes on, but incompletely, items without a partner are expected: its stream is left out.
    """
    counts = other.group_by(_STREAM).agg(others=pl.len())
    exhausted = streams.join(counts, on=_STREAM, how="inner").filter(pl.col("others") == pl.col("paired"))
    beyond = side.join(exhausted.select(*_STREAM, "paired"), on=_STREAM, how="inner")
    return beyond.filter(pl.col("position") == pl.col("paired")).select(*_STREAM, surplus=ends)


def _begun_in_the_log(streams: pl.DataFrame, sessions: Sessions) -> pl.DataFrame:
    """Streams whose earlier children cannot have been lost with the beginning of the child node's log."""
    begins = sessions.executions.group_by("session").agg(session_begins=_microseconds("start_time").min())
    logs = sessions.coverage.select("under_way", child_node="node", child_first=_microseconds("first_time"))
    judged = streams.join(begins, on="session", how="left").join(logs, on="child_node", how="left")
    seen = pl.col("session_begins") + pl.col("offset") - TOLERANCE_US > pl.col("child_first")
    return judged.filter(~pl.col("under_way") | seen.fill_null(value=False))


def _known_line(key: NodePair, clocks: Mapping[NodePair, ClockLine]) -> ClockLine | None:
    if key[0] == key[1]:
        return SAME_CLOCK
    other = clocks.get(key[::-1])
    return clocks.get(key) or (None if other is None else other.reversed())


def _align(
    tasks: pl.DataFrame, children: pl.DataFrame, clocks: Mapping[NodePair, ClockLine]
) -> tuple[pl.DataFrame, dict[NodePair, ClockLine], frozenset[NodePair]]:
    """Align what the order does not prove, one pair of nodes after the other."""
    # Complete logs leave nothing to align, and the compiler behind it takes a second to import.
    from citus_analysis.spans.streams import Streams, guess_clock

    nodes = tasks.select(*_STREAM, "parent_node").unique(_STREAM)
    candidates = _by_nodes(children.join(nodes, on=_STREAM, how="inner"))
    remaining = _by_nodes(tasks)
    found, guessed, undecided = [], {}, set()
    for key, part in remaining.items():
        streams = Streams(part, candidates[key])
        line = _known_line(key, clocks) or guess_clock(streams)
        if line is None:
            undecided.add(key)
            continue
        if key not in clocks:
            guessed[key] = line
        found.append(streams.align(line))
    return pl.concat([_NONE, *found]), guessed, frozenset(undecided)
