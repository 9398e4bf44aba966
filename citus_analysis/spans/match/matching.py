"""Parent tasks and the child statements that ran them.

Tasks and children are paired by order (:mod:`citus_analysis.spans.match.pairing`). That needs no clock, but both
sequences must be complete from their beginning: only then is a pair `exact`. A stream is *proven* when

- the parent's session and all child sessions of that gpid are in the logs from their first line without a gap;
- a child log that begins while sessions are under way began before the parent's session did;
- no pair contradicts the clocks, no task is shorter than its child, and pairs in the other direction between the two
  nodes do not show another offset;
- records that only one side has lie after the end of the other's log;
- no other offset of the clocks would pair it otherwise and fit as well
  (:mod:`citus_analysis.spans.match.alternatives`), unless pairs in the other direction show the offset.

Up to the first gap the order is still valid. The rest is aligned (:mod:`citus_analysis.spans.match.alignment`);
those pairs are `inferred`. The alignment needs the clock offset, from the exact pairs of the two nodes or of both with
a third node, else the offset that most tasks and children of these nodes agree on. If two offsets are about equally
likely, tasks are paired by order only; these pairs are `inferred` and `ambiguous`.

Clock offsets depend on all sessions. All other steps concern only sessions that work for one another, so they are done
for one group of such sessions at a time: collect the claims of all groups, judge them together, then match each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.schema import TABLES
from citus_analysis.spans.match.alternatives import LogSpan, doubtful_streams
from citus_analysis.spans.match.clock_steps import fit_steps
from citus_analysis.spans.match.clocks import SAME_CLOCK, TOLERANCE_US, Bounds, ClockLine
from citus_analysis.spans.match.pairing import Claims, NodePair, Ordered, Rest, microseconds, pair_by_order
from citus_analysis.spans.read.ordered_arrays import Flags, Integers, changes, counted, pick
from citus_analysis.spans.read.sessions import Sessions

if TYPE_CHECKING:
    from citus_analysis.spans.match.streams import Streams

__all__ = ["Clocks", "Matching", "Verdict", "judge", "match_tasks", "matched"]

_MATCH: Final = TABLES["spans"]["match"].dtype
_EXACT, _INFERRED, _UNMATCHED = range(3)

_OF_CHILD: Final = ("child_duration_us", "child_pid", "child_extended", "child_connects")

_NO_ROWS: Final = np.zeros(0, np.uint32)

_NONE: Final = pl.DataFrame(schema={"task": pl.UInt32, "child": pl.UInt32, "ambiguous": pl.Boolean})

_Lines = Mapping[NodePair, ClockLine]


@dataclass(frozen=True)
class Clocks:
    """The offsets between the clocks of pairs of nodes.

    Attributes:
        exact: (parent node, child node) -> offset, from the exact pairs.
        guessed: offset that most tasks and children of two nodes agree on, if no pair is exact.
        undecided: pairs of nodes whose offset remained unknown.
        doubtful: pairs of nodes for which another offset fits as well as the offset from pairing by order.
    """

    exact: _Lines
    guessed: _Lines
    undecided: frozenset[NodePair]
    doubtful: frozenset[NodePair]

    def line(self, nodes: NodePair) -> ClockLine | None:
        """The offset between two nodes that share a stream."""
        return _known_line(nodes, self.exact) or self.guessed.get(nodes)


@dataclass(frozen=True)
class Verdict:
    """The judgement of the pairs of a group of sessions.

    Attributes:
        exact: the pairs that are proven.
        doubtful: pairs that are not proven only because another offset fits as well.
    """

    exact: Flags
    doubtful: Flags


@dataclass(frozen=True)
class Matching:
    """Tasks with their children.

    Attributes:
        pairs: one row per task: the columns of :attr:`Sessions.tasks`, `task` (row number), `child` (execution of
            the child, null without a child), `match` and `ambiguous` (other alignments are equally good); of the child
            `child_duration_us`, `child_pid`, `child_extended` and `child_connects` (it is the first statement of its
            session on a shard).
        children: the child statements that could be paired.
        clocks: the offsets of the clocks.
    """

    pairs: pl.DataFrame
    children: pl.DataFrame
    clocks: Clocks


def match_tasks(sessions: Sessions) -> Matching:
    """Pair the tasks of one iteration with child statements."""
    ordered = pair_by_order(sessions)
    (verdict,), clocks = judge([ordered.claims(sessions)], sessions.coverage, lambda exact: [ordered.rest(exact[0])])
    return matched(ordered, verdict, clocks)


def judge(
    claims: Sequence[Claims], coverage: pl.DataFrame, rests: Callable[[list[Flags]], Iterable[Rest]]
) -> tuple[list[Verdict], Clocks]:
    """Decide which pairs are proven, and estimate the offsets of the clocks.

    Args:
        claims: claims of all groups of sessions.
        coverage: as in :attr:`Sessions.coverage`, of all sessions.
        rests: returns the tasks and children without the proven pairs, by group; called only if the offset of some
            nodes does not follow from pairs.
    """
    lines = _fitted(claims, [np.ones(len(one.shorter), np.bool_) for one in claims])
    verdicts = _without_doubt(claims, lines, coverage, [_proven(one, lines, coverage) for one in claims])
    proven = [one.exact for one in verdicts]
    exact = lines if all(flags.all() for flags in proven) else _fitted(claims, proven)
    shared = sorted({key for one in claims for key in one.shared})
    guessed = {key: line for key in shared if key not in exact and (line := _known_line(key, exact))}
    unknown = [key for key in shared if key not in exact and key not in guessed]
    if unknown:
        guessed |= _guessed(unknown, _joined(rests(proven)), exact)
    doubtful = {key for one, verdict in zip(claims, verdicts, strict=True) for key in one.nodes_of(verdict.doubtful)}
    return verdicts, Clocks(exact, guessed, frozenset(unknown) - guessed.keys(), frozenset(doubtful))


def _fitted(claims: Sequence[Claims], chosen: Sequence[Flags]) -> _Lines:
    """The offsets of clocks that follow from chosen pairs."""
    fitted = {}
    # One pair of nodes after the other, so that the bounds of one pair of nodes are in memory at a time.
    for key in dict.fromkeys(key for one in claims for key in one.by_nodes):
        rows = [one.by_nodes.get(key, _NO_ROWS) for one in claims]
        rows = [own[flags[own]] for own, flags in zip(rows, chosen, strict=True)]
        if any(map(len, rows)):
            fitted[key] = SAME_CLOCK if key[0] == key[1] else fit_steps(*_by_session(claims, rows))
    return fitted


def _by_session(claims: Sequence[Claims], rows: list[Integers]) -> tuple[Bounds, NDArray[np.int32]]:
    """The bounds of some pairs and the number of the session of each, in the same order as without groups.

    The order matters because some of several equal bounds are considered late. The list `rows` is emptied.
    """
    streams = [one.streams.select("gpid", "stream_shard") for one in claims]
    known = pl.concat(streams).with_row_index("stream").sort("gpid", "stream_shard", maintain_order=True)
    place = np.empty(known.height, np.int32)
    place[known["stream"].to_numpy()] = np.arange(known.height, dtype=np.int32)
    begins = np.cumsum([0, *(one.streams.height for one in claims)]).tolist()
    of_pair = [place[begin + one.stream_of(own)] for one, own, begin in zip(claims, rows, begins, strict=False)]
    placed = np.concatenate(of_pair)
    del of_pair
    order = np.argsort(placed, kind="stable")
    # One array after the other: each takes tens of megabytes.
    arrays = (
        np.concatenate([getattr(one.bounds, name)[own] for one, own in zip(claims, rows, strict=True)])[order]
        for name in ("time", "low", "high")
    )
    bounds = Bounds(*arrays)
    rows.clear()
    session = (counted(changes(known["gpid"].to_numpy())) - 1).astype(np.int32)
    return bounds, session[placed[order]]


def _proven(claims: Claims, lines: _Lines, coverage: pl.DataFrame) -> Flags:
    """The pairs of streams whose order proves them (see the module's docstring)."""
    count = len(claims.shorter)
    contradicts, offset = np.ones(count, np.bool_), np.zeros(count)
    for key, rows in claims.by_nodes.items():
        if not _contradicted(key, lines):
            bounds = claims.bounds.take(rows)
            contradicts[rows] = (lines[key].violation(bounds) > TOLERANCE_US) | claims.shorter[rows]
            offset[rows] = lines[key].at(bounds.time)
    if not count:
        return np.zeros(0, np.bool_)
    alike = ~np.logical_or.reduceat(contradicts, claims.first)
    streams = claims.streams.with_columns(offset=pl.Series(offset[claims.first]))
    proven = alike & _seen_whole(streams, coverage).to_numpy()
    return np.repeat(proven, np.diff(claims.first, append=count))


def _without_doubt(
    claims: Sequence[Claims], lines: _Lines, coverage: pl.DataFrame, proven: Sequence[Flags]
) -> list[Verdict]:
    """The proven pairs, without those that another possible offset would pair differently."""
    logs = coverage.select("node", begins=microseconds("first_time"), ends=microseconds("last_time"))
    times = {str(node): (begins, ends) for node, begins, ends in logs.rows()}
    doubtful = [np.zeros(len(flags), np.bool_) for flags in proven]
    for key, line in lines.items():
        if key[0] == key[1] or key[::-1] in lines:
            continue
        chosen = [one.by_nodes.get(key, _NO_ROWS) for one in claims]
        chosen = [rows[flags[rows]] for rows, flags in zip(chosen, proven, strict=True)]
        parts = [one.paired(rows) for one, rows in zip(claims, chosen, strict=True)]
        span = LogSpan(times[key[1]][0], times[key[0]][1])
        for rows, part, streams, flags in zip(
            chosen, parts, doubtful_streams(parts, line, span), doubtful, strict=True
        ):
            flags[rows] = np.repeat(streams, np.diff(part.first(), append=len(rows)))
    return [Verdict(flags & ~doubts, doubts) for flags, doubts in zip(proven, doubtful, strict=True)]


def _contradicted(key: NodePair, lines: _Lines) -> bool:
    """Whether the pairs in the other direction show another offset between the same two clocks."""
    other = lines.get(key[::-1])
    if other is None:
        return False
    back = other.reversed()
    # Each direction estimates the times of steps from its own pairs, so pieces are compared, not single times.
    both = [(piece, back.piece_at(piece.reference)) for piece in lines[key].pieces]
    apart = [max(one.offset_low - two.offset_high, two.offset_low - one.offset_high) for one, two in both]
    return max(apart) > 2 * TOLERANCE_US


def _seen_whole(streams: pl.DataFrame, coverage: pl.DataFrame) -> pl.Series:
    """Whether the begin of no log cut off children of a stream, and records are missing only after the end of a log."""
    logs = coverage.select(
        "node", "under_way", log_begins=microseconds("first_time"), log_ends=microseconds("last_time")
    )
    judged = streams.join(logs, left_on="child_node", right_on="node", how="left", maintain_order="left").join(
        logs.select("node", parent_log_ends="log_ends"),
        left_on="parent_node",
        right_on="node",
        how="left",
        maintain_order="left",
    )
    # Records that only one side has must lie beyond the end of the other's log.
    lost_children = pl.col("surplus_task") + pl.col("offset") < pl.col("log_ends") - TOLERANCE_US
    lost_tasks = pl.col("surplus_child") - pl.col("offset") < pl.col("parent_log_ends") - TOLERANCE_US
    # If sessions were under way when a log began, only sessions that began later are complete.
    seen = pl.col("session_begins") + pl.col("offset") - TOLERANCE_US > pl.col("log_begins")
    whole = ~pl.col("under_way") | seen.fill_null(value=False)
    return judged.select(
        ~lost_children.fill_null(value=False) & ~lost_tasks.fill_null(value=False) & whole.fill_null(value=False)
    ).to_series()


def _guessed(unknown: Sequence[NodePair], rest: Rest, exact: _Lines) -> dict[NodePair, ClockLine]:
    """The offset that most tasks and children agree on, for pairs of nodes without an exact pair."""
    # Imported late, because complete logs do not need it.
    from citus_analysis.spans.match.streams import guess_clock

    streams = _streams(_own(rest))
    found = {}
    # Pairs of nodes that have only shared streams give no offset.
    for key in (one for one in unknown if one in streams):
        witnesses = [
            (streams[other], between)
            for other in streams
            if other[0] == key[0] and other != key and (between := _known_line((other[1], key[1]), exact))
        ]
        if line := guess_clock(streams[key], witnesses):
            found[key] = line
    return found


def _joined(rests: Iterable[Rest]) -> Rest:
    """The rests of several groups of sessions, with distinct numbers of streams."""
    tasks, children, begin = [], [], 0
    for rest in rests:
        tasks.append(rest.tasks.with_columns(pl.col("stream") + begin))
        children.append(rest.children.with_columns(pl.col("stream") + begin))
        begin += int(rest.tasks["stream"].to_numpy().max(initial=0)) + 1
    return Rest(pl.concat(tasks), pl.concat(children))


def _own(rest: Rest) -> Rest:
    """Streams with tasks of one backend."""
    return Rest(*(side.filter(~pl.col("shared")) for side in (rest.tasks, rest.children)))


def _on_clock_of_children(rest: Rest, clocks: Clocks) -> Rest:
    """Shared streams, with the tasks of all their parents in order of time, on the clock of the children's node."""
    parts = [
        part.with_columns(pl.col("task_begins", "task_ends") + pl.Series(line.at(part["task_ends"].to_numpy())))
        for key, part in _by_nodes(rest.tasks.filter("shared"))
        if (line := clocks.line(key))
    ]
    if not parts:
        return Rest(rest.tasks.clear(), rest.children.clear())
    tasks = pl.concat(parts).sort("stream", "task_ends", "task").with_columns(parent_node="child_node")
    children = rest.children.join(tasks, on="stream", how="semi", maintain_order="left")
    return Rest(tasks, children.with_columns(parent_node="child_node"))


def _streams(rest: Rest) -> dict[NodePair, Streams]:
    from citus_analysis.spans.match.streams import Streams

    children = dict(_by_nodes(rest.children))
    return {key: Streams(part, children[key]) for key, part in _by_nodes(rest.tasks)}


def _by_nodes(frame: pl.DataFrame) -> Iterator[tuple[NodePair, pl.DataFrame]]:
    parts = frame.partition_by("parent_node", "child_node", as_dict=True)
    return (((str(parent), str(child)), part) for (parent, child), part in parts.items())


def matched(ordered: Ordered, verdict: Verdict, clocks: Clocks) -> Matching:
    """The proven pairs of a group of sessions, and the pairs from an alignment of the rest."""
    exact = verdict.exact
    tasks, children = ordered.tasks, ordered.children
    count = tasks.frame.height
    child, match, ambiguous = np.zeros(count, np.uint32), np.full(count, _UNMATCHED, np.uint8), np.zeros(count, bool)
    executions = children.frame["child"].to_numpy()
    rows = tasks.row[ordered.task[exact]]
    child[rows] = executions[children.row[ordered.child[exact]]]
    match[rows] = _EXACT
    inferred = _NONE if len(rows) == count else _aligned(ordered.rest(exact), clocks)
    rows = inferred["task"].to_numpy()
    child[rows], match[rows], ambiguous[rows] = inferred["child"], _INFERRED, inferred["ambiguous"]
    only = ordered.between(clocks.doubtful & clocks.undecided, verdict.doubtful)
    rows = tasks.row[ordered.task[only]]
    child[rows], match[rows], ambiguous[rows] = executions[children.row[ordered.child[only]]], _INFERRED, True
    # Executions are numbered in the order of the frame.
    of_child = np.where(match != _UNMATCHED, np.searchsorted(executions, child), -1)
    pairs = tasks.frame.with_row_index("task").with_columns(
        *pick(children.frame.select(_OF_CHILD), of_child),
        child=pl.when(pl.Series(match != _UNMATCHED)).then(pl.Series(child)),
        match=pl.Series(match).cat.to(_MATCH),
        ambiguous=pl.Series(ambiguous),
    )
    return Matching(pairs, children.frame.select("gpid", "child_node", "child")[children.row], clocks)


def _aligned(rest: Rest, clocks: Clocks) -> pl.DataFrame:
    """Align tasks and children without a proven partner, one pair of nodes after the other."""
    if rest.tasks.is_empty():
        return _NONE
    found = [
        streams.align(line)
        for part in (_own(rest), _on_clock_of_children(rest, clocks))
        for key, streams in _streams(part).items()
        if (line := clocks.line(key))
    ]
    return pl.concat([_NONE, *found])


def _known_line(key: NodePair, clocks: Mapping[NodePair, ClockLine]) -> ClockLine | None:
    """The line between two nodes from their exact pairs, else from those with a third node (the surest of these)."""
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
