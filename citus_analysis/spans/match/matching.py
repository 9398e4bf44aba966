"""Parent tasks and the child statements that ran them.

A pair is `exact` if its order or its content proves it.

Pairing by order (:mod:`citus_analysis.spans.match.pairing`) needs no clock, but both sequences must be complete from
their beginning. A stream is *proven* when

- the parent's session and all child sessions of that gpid are in the logs from their first line without a gap;
- a child log that begins while sessions are under way began before the parent's session did;
- no pair contradicts the clocks, no task is shorter than its child, none has the values of another statement of the
  stream (:mod:`citus_analysis.spans.match.contents`), and pairs in the other direction between the two nodes do not
  show another offset;
- records that only one side has lie after the end of the other's log;
- contents, pairs in the other direction, or the child's log before the session show that the order is not shifted. Both
  logs may lack statements, the child's at its begin, the parent's at its end: of a workload that repeats itself,
  neither order nor clocks show this.

Up to the first gap the order is still valid. The rest is aligned (:mod:`citus_analysis.spans.match.alignment`). A pair
of the alignment whose values are the same, while neither fits another that has them, is proven by its content, if the
offset of the clocks is proven, too; the others are `inferred`. The offset is that of the exact pairs of the two nodes
or of both with a third node, else the one that most tasks and children of these nodes agree on, those with the same
values first. If two offsets are about equally likely, tasks are paired by order only; these pairs are `inferred` and
`ambiguous`.

Clock offsets depend on all sessions. All other steps concern only sessions that work for one another, so they are done
for one group of such sessions at a time: collect the claims of all groups, judge them together, then match each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.core.arrow_arrays import arrow_numbers
from citus_analysis.schema import TABLES
from citus_analysis.spans.match.clock_steps import fit_steps
from citus_analysis.spans.match.clocks import SAME_CLOCK, TOLERANCE_US, Bounds, ClockLine
from citus_analysis.spans.match.contents import NO_VALUES, occur_once
from citus_analysis.spans.match.pairing import Claims, NodePair, Ordered, Rest, StreamFacts
from citus_analysis.spans.match.unreported import UNREPORTED
from citus_analysis.spans.read.ordered_arrays import Flags, Indices, Integers, changes, counted, firsts, pick

if TYPE_CHECKING:
    from citus_analysis.spans.match.streams import Streams

_MATCH: Final = TABLES["spans"]["match"].dtype
_EXACT, _INFERRED, _UNMATCHED = range(3)
_PROOF: Final = TABLES["spans"]["proof"].dtype
_BY_ORDER, _BY_CONTENT, _BY_BOTH, _UNPROVEN = range(4)

_OF_CHILD: Final = ("child_duration_us", "child_pid", "child_extended", "child_connects")

_NO_ROWS: Final = np.zeros(0, np.uint32)

_NONE: Final = pl.DataFrame(
    schema={"task": pl.UInt32, "child": pl.UInt32, "proven": pl.Boolean, "ambiguous": pl.Boolean}
)

#: Pairs with values that occur once in their stream, which suffice to show that the order of two nodes is not shifted.
_WITNESSES: Final = 3
#: Fewest pairs between two nodes that are doubted, because a handful of statements is regular by chance.
_LEAST_DOUBTED: Final = 20
#: Most statements in a row that a child's log may have lost at its begin without a trace.
_MOST_LOST: Final = 32

_Lines = Mapping[NodePair, ClockLine]


@dataclass(frozen=True)
class Clocks:
    """The offsets between the clocks of pairs of nodes.

    Attributes:
        exact: (parent node, child node) -> offset, from the exact pairs.
        guessed: offset that most tasks and children of two nodes agree on, if no pair is exact.
        by_content: those of the guessed offsets on which statements with the same values agree.
        undecided: pairs of nodes whose offset remained unknown.
        doubtful: pairs of nodes whose order may be shifted.
    """

    exact: _Lines
    guessed: _Lines
    by_content: frozenset[NodePair]
    undecided: frozenset[NodePair]
    doubtful: frozenset[NodePair]

    def line(self, nodes: NodePair) -> ClockLine | None:
        """The offset between two nodes that share a stream."""
        return _known_line(nodes, self.exact) or self.guessed.get(nodes)

    def is_proven(self, nodes: NodePair) -> bool:
        """Whether the offset between two nodes that share a stream is proven."""
        return _known_line(nodes, self.exact) is not None or nodes in self.by_content


@dataclass(frozen=True)
class Verdict:
    """The judgement of the pairs of a group of sessions.

    Attributes:
        exact: the pairs that are proven by order.
        doubtful: pairs that are not proven only because the order may be shifted.
        alike: pairs whose values are the same.
        contradicted: pairs that their contents refute.
    """

    exact: Flags
    doubtful: Flags
    alike: Flags
    contradicted: Flags


@dataclass(frozen=True)
class Matching:
    """Tasks with their children.

    Attributes:
        pairs: one row per task: the columns of :attr:`Sessions.tasks`, `task` (row number), `child` (execution of
            the child, null without a child), `match`, `proof` and `ambiguous` (other alignments are equally good); of
            the child `child_duration_us`, `child_pid`, `child_extended` and `child_connects` (it is the first statement
            of its session on a shard).
        unreported: the same of tasks that no record reports, which have a child.
        contradicted: parent and child node of pairs by order that their contents refute.
        children: the child statements that could be paired.
        clocks: the offsets of the clocks.
    """

    pairs: pl.DataFrame
    unreported: pl.DataFrame
    contradicted: pl.DataFrame
    children: pl.DataFrame
    clocks: Clocks


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
    lines = _fitted(claims, [~one.contradicted for one in claims])
    times = (coverage[name].to_physical().cast(pl.Float64).fill_null(np.nan) for name in ("first_time", "last_time"))
    extents = zip(*times, coverage["under_way"], strict=True)
    logs = {node: _Log(*extent) for node, extent in zip(coverage["node"], extents, strict=True)}
    verdicts = _without_doubt(claims, lines, logs, [_proven(one, lines, logs) for one in claims])
    proven = [one.exact for one in verdicts]
    exact = lines if all(flags.all() for flags in proven) else _fitted(claims, proven)
    shared = sorted({key for one in claims for key in one.shared})
    guessed = {key: line for key in shared if key not in exact and (line := _known_line(key, exact))}
    unknown = [key for key in shared if key not in exact and key not in guessed]
    found = _guessed(unknown, _joined(rests(proven)), exact) if unknown else {}
    guessed |= {key: line for key, (line, _) in found.items()}
    by_content = frozenset(key for key, (_, alike) in found.items() if alike)
    doubts = [(one.by_nodes, verdict.doubtful) for one, verdict in zip(claims, verdicts, strict=True)]
    doubtful = {key for by_nodes, own in doubts for key, rows in by_nodes.items() if own[rows].any()}
    return verdicts, Clocks(exact, guessed, by_content, frozenset(unknown) - guessed.keys(), frozenset(doubtful))


def _fitted(claims: Sequence[Claims], chosen: Sequence[Flags]) -> _Lines:
    """The offsets of clocks that follow from chosen pairs."""
    fitted = {}
    order = StreamOrder.of(claims)
    # One pair of nodes after the other, so that the bounds of one pair of nodes are in memory at a time.
    for key in dict.fromkeys(key for one in claims for key in one.by_nodes):
        rows = [one.by_nodes.get(key, _NO_ROWS) for one in claims]
        rows = [own[flags[own]] for own, flags in zip(rows, chosen, strict=True)]
        if any(map(len, rows)):
            fitted[key] = SAME_CLOCK if key[0] == key[1] else fit_steps(*_by_session(claims, order, rows))
    return fitted


class StreamOrder(NamedTuple):
    """The order of the streams of all groups by session and shard, as without groups.

    Attributes:
        begins: the number of the first stream of each group.
        place: the place of each stream.
        session: the number of the session of the stream at each place.
    """

    begins: list[int]
    place: NDArray[np.int32]
    session: NDArray[np.int32]

    @classmethod
    def of(cls, claims: Sequence[Claims]) -> StreamOrder:
        """The order of the streams of some claims."""
        gpid = np.concatenate([one.streams.gpid for one in claims])
        order = np.lexsort((np.concatenate([one.streams.shard for one in claims]), gpid))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        begins = np.cumsum([0, *(len(one.streams.gpid) for one in claims)]).tolist()
        return cls(begins, place, (counted(changes(gpid[order])) - 1).astype(np.int32))


def _by_session(
    claims: Sequence[Claims], streams: StreamOrder, rows: list[Integers]
) -> tuple[Bounds, NDArray[np.int32]]:
    """The bounds of some pairs and the number of the session of each, in the same order as without groups.

    The order matters because some of several equal bounds are considered late. The list `rows` is emptied.
    """
    of_pair = [
        streams.place[begin + one.stream_of(own)] for one, own, begin in zip(claims, rows, streams.begins, strict=False)
    ]
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
    return bounds, streams.session[placed[order]]


class _Log(NamedTuple):
    """The extent of a node's logs, microseconds; NaN if it is unknown."""

    begins: float
    ends: float
    under_way: bool


_NO_LOG: Final = _Log(np.nan, np.nan, under_way=True)


def _proven(claims: Claims, lines: _Lines, logs: Mapping[str, _Log]) -> Flags:
    """The pairs of streams whose order proves them (see the module's docstring)."""
    count = len(claims.shorter)
    proven = np.zeros(len(claims.first), np.bool_)
    heads = np.zeros(count, np.bool_)
    heads[claims.first] = True
    for key, rows in claims.by_nodes.items():
        if key in lines and not _contradicted(key, lines):
            bounds = claims.bounds.take(rows)
            contradicts = (
                (lines[key].violation(bounds) > TOLERANCE_US) | claims.shorter[rows] | claims.contradicted[rows]
            )
            # The pairs of a stream are between the same nodes, and adjacent.
            at = np.flatnonzero(heads[rows])
            own, offset = claims.stream_of(rows[at]), lines[key].at(bounds.time[at])
            alike = ~np.logical_or.reduceat(contradicts, at)
            proven[own] = alike & _seen_whole(claims.streams, own, offset, *(logs.get(one, _NO_LOG) for one in key))
    return np.repeat(proven, np.diff(claims.first, append=count))


def _without_doubt(
    claims: Sequence[Claims], lines: _Lines, logs: Mapping[str, _Log], proven: Sequence[Flags]
) -> list[Verdict]:
    """The proven pairs, without those whose order may be shifted."""
    doubtful = [np.zeros(len(flags), np.bool_) for flags in proven]
    for key, line in lines.items():
        if key[0] == key[1] or key[::-1] in lines:
            continue
        chosen = [one.by_nodes.get(key, _NO_ROWS) for one in claims]
        chosen = [rows[flags[rows]] for rows, flags in zip(chosen, proven, strict=True)]
        # Contents may show that the order is not shifted.
        own = zip(claims, chosen, strict=True)
        once = sum(int(occur_once(one.stream_of(rows), one.values[rows]).sum()) for one, rows in own)
        if sum(map(len, chosen)) < _LEAST_DOUBTED or once >= _WITNESSES:
            continue
        for one, rows, flags in zip(claims, chosen, doubtful, strict=True):
            flags[rows] = _may_be_shifted(one, rows, line, logs[key[1]].begins)
    known = zip(claims, proven, doubtful, strict=True)
    return [Verdict(own & ~doubts, doubts, one.values != NO_VALUES, one.contradicted) for one, own, doubts in known]


def _may_be_shifted(claims: Claims, rows: Integers, line: ClockLine, child_begins: float) -> Flags:
    """Whether a child's log may have lost statements at its begin: it does not reach far back before a stream."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    first = firsts(claims.stream_of(rows))
    time = claims.bounds.time[rows]
    count = np.diff(first, append=len(rows))
    begins, ends = time[first], time[first + count - 1]
    lost = _MOST_LOST * (ends - begins) / np.maximum(count - 1, 1)
    return np.repeat(begins + line.at(begins) - lost - TOLERANCE_US < child_begins, count)


def _contradicted(key: NodePair, lines: _Lines) -> bool:
    """Whether the pairs in the other direction show another offset between the same two clocks."""
    other = lines.get(key[::-1])
    if other is None:
        return False
    # Each direction estimates the times of steps from its own pairs, so pieces are compared, not single times.
    back = other.reversed()
    both = [(piece, back.piece_at(piece.reference)) for piece in lines[key].pieces]
    apart = [max(one.offset_low - two.offset_high, two.offset_low - one.offset_high) for one, two in both]
    return max(apart) > 2 * TOLERANCE_US


def _seen_whole(streams: StreamFacts, chosen: Indices, offset: Floats, parent: _Log, child: _Log) -> Flags:
    """Whether the begin of no log cut off children of a stream, and records are missing only after the end of a log.

    Args:
        streams: facts about streams.
        chosen: those of two nodes.
        offset: the offset of the nodes' clocks for each of them.
        parent: the log of the parent's node.
        child: the log of the child's node.
    """
    # Records that only one side has must lie beyond the end of the other's log. No comparison with NaN is true.
    lost_children = streams.surplus_task[chosen] + offset < child.ends - TOLERANCE_US
    lost_tasks = streams.surplus_child[chosen] - offset < parent.ends - TOLERANCE_US
    # If sessions were under way when a log began, only sessions that began later are complete.
    seen = streams.session_begins[chosen] + offset - TOLERANCE_US > child.begins
    return np.asarray(~lost_children & ~lost_tasks & (seen | (not child.under_way)))


def _guessed(unknown: Sequence[NodePair], rest: Rest, exact: _Lines) -> dict[NodePair, tuple[ClockLine, bool]]:
    """The result of :func:`~...streams.guess_clock` for pairs of nodes without an exact pair."""
    # Imported late, because complete logs do not need it.
    from citus_analysis.spans.match.streams import guess_clock

    streams = _streams(_own(rest))
    found: dict[NodePair, tuple[ClockLine, bool]] = {}
    # Pairs of nodes that have only shared streams give no offset.
    for key in (one for one in unknown if one in streams):
        witnesses = [
            (streams[other], between)
            for other in streams
            if other[0] == key[0] and other != key and (between := _known_line((other[1], key[1]), exact))
        ]
        if guess := guess_clock(streams[key], witnesses):
            found[key] = guess
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
        part.with_columns(pl.col("begins", "ends") + pl.Series(line.at(part["ends"].to_numpy())))
        for key, part in _by_nodes(rest.tasks.filter("shared"))
        if (line := clocks.line(key))
    ]
    if not parts:
        return Rest(rest.tasks.clear(), rest.children.clear())
    tasks = pl.concat(parts).sort("stream", "ends", "number").with_columns(parent_node="child_node")
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
    proof = np.full(count, _UNPROVEN, np.uint8)
    executions = children.frame["child"].to_numpy()
    rows = tasks.row[ordered.task[exact]]
    child[rows] = executions[children.row[ordered.child[exact]]]
    match[rows] = _EXACT
    proof[rows] = np.where(verdict.alike[exact], _BY_BOTH, _BY_ORDER)
    aligned = _NONE if len(rows) == count else _aligned(ordered.rest(exact), clocks)
    rows, proven = aligned["task"].to_numpy(), aligned["proven"].to_numpy()
    child[rows], ambiguous[rows] = aligned["child"], aligned["ambiguous"]
    match[rows], proof[rows] = np.where(proven, _EXACT, _INFERRED), np.where(proven, _BY_CONTENT, _UNPROVEN)
    only = ordered.between(clocks.doubtful & clocks.undecided, verdict.doubtful)
    rows = tasks.row[ordered.task[only]]
    child[rows], match[rows], ambiguous[rows] = executions[children.row[ordered.child[only]]], _INFERRED, True
    # Executions are numbered in the order of the frame.
    of_child = np.where(match != _UNMATCHED, np.searchsorted(executions, child), -1)
    found = tasks.frame.with_row_index("task").with_columns(
        *pick(pl.DataFrame([children.frame[name] for name in _OF_CHILD]), of_child),
        child=pl.when(pl.Series(match != _UNMATCHED)).then(pl.Series(child)),
        match=pl.Series(match).cat.to(_MATCH),
        proof=pl.Series(arrow_numbers(proof % _UNPROVEN, proof != _UNPROVEN)).cat.to(_PROOF),
        ambiguous=pl.Series(ambiguous),
    )
    pairs, unreported = found, found.clear()
    if found["task_us"].null_count():
        pairs = found.filter(~UNREPORTED)
        unreported = found.filter(UNREPORTED & pl.col("child").is_not_null())
    contradicted = tasks.frame.select("parent_node", "child_node")[tasks.row[ordered.task[verdict.contradicted]]]
    known = children.frame.select("gpid", "child_node", "child")[children.row]
    return Matching(pairs, unreported, contradicted, known, clocks)


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
    nodes = rest.tasks.select("number", "parent_node", "child_node").unique("number")
    sure = {key for key in nodes.select("parent_node", "child_node").unique().iter_rows() if clocks.is_proven(key)}
    known = pl.DataFrame(sorted(sure), schema=["parent_node", "child_node"], orient="row").cast(pl.Categorical)
    tasks = nodes.join(known, on=["parent_node", "child_node"], how="semi")["number"]
    proven = pl.col("alike") & pl.col("task").is_in(tasks.implode())
    return pl.concat([_NONE, *(one.select("task", "child", proven.alias("proven"), "ambiguous") for one in found)])


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
