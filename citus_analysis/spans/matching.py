"""Parent tasks and the child statements that ran them.

A pair is `exact` if its order or its content proves it.

Pairing by order (:mod:`citus_analysis.spans.pairing`) needs no clock, but both sequences must be complete from
their beginning. A stream is *proven* when

- the parent's session and all child sessions of that gpid are in the logs from their first line without a gap;
- a child log that begins while sessions are under way began before the parent's session did;
- no pair contradicts the clocks, no task is shorter than its child, none has the values of another statement of the
  stream (:mod:`citus_analysis.spans.pairing`), and pairs in the other direction between the two nodes do not
  show another offset;
- records that only one side has lie after the end of the other's log;
- contents, pairs in the other direction, or the child's log before the session show that the order is not shifted. Both
  logs may lack statements, the child's at its begin, the parent's at its end: of a workload that repeats itself,
  neither order nor clocks show this.

Up to the first gap the order is still valid. The rest is aligned (:mod:`citus_analysis.spans.pairing`). A pair
of the alignment whose values are the same, while neither fits another that has them, is proven by its content, if the
offset of the clocks is proven, too; the others are `inferred`. The offset is that of the exact pairs of the two nodes
or of both with a third node, else the one that most tasks and children of these nodes agree on, those with the same
values first. If two offsets are about equally likely, tasks are paired by order only; these pairs are `inferred` and
`ambiguous`.

Clock offsets depend on all sessions. All other steps concern only sessions that work for one another, so they are done
for one group of such sessions at a time: collect the facts about the candidate pairs of all groups, classify all pairs
together, then match each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.arrow_arrays import make_number_array
from citus_analysis.core.type_aliases import Floats
from citus_analysis.schema import TABLES
from citus_analysis.spans.clocks import SAME_CLOCK, TOLERANCE_US, ClockLine, OffsetBounds, fit_steps
from citus_analysis.spans.executions import Sessions, make_position_expr
from citus_analysis.spans.ordered_arrays import (
    AnyIntegers,
    Flags,
    Indices,
    changes,
    find_group_starts,
    number_groups,
    pick,
)
from citus_analysis.spans.pairing import (
    NO_VALUES,
    UNREPORTED,
    CandidatePairs,
    NodePair,
    PairFacts,
    StreamFacts,
    UnmatchedItems,
    is_unique_in_stream,
    make_microseconds_expr,
)
from citus_analysis.spans.record_order import GPID_NODE_FACTOR, list_numbered_nodes
from citus_analysis.texts.words import choose_noun_form, pluralize

if TYPE_CHECKING:
    from citus_analysis.spans.pairing import Streams

_MATCH: Final = TABLES["spans"]["match"].dtype
_EXACT, _INFERRED, _UNMATCHED = range(3)
_PROOF: Final = TABLES["spans"]["proof"].dtype
_BY_ORDER, _BY_CONTENT, _BY_BOTH, _UNPROVEN = range(4)

_OF_CHILD: Final = ("child_duration_us", "child_pid", "child_extended", "child_connects")

_NO_ROWS: Final = np.zeros(0, np.uint32)

_NO_PAIRS: Final = pl.DataFrame(
    schema={"task": pl.UInt32, "child": pl.UInt32, "proven": pl.Boolean, "ambiguous": pl.Boolean}
)

#: Pairs with values that occur once in their stream, which suffice to show that the order of two nodes is not shifted.
_LEAST_UNIQUE: Final = 3
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

    def get_line(self, nodes: NodePair) -> ClockLine | None:
        """The offset between two nodes that share a stream."""
        return _find_clock_line(nodes, self.exact) or self.guessed.get(nodes)

    def is_proven(self, nodes: NodePair) -> bool:
        """Whether the offset between two nodes that share a stream is proven."""
        return _find_clock_line(nodes, self.exact) is not None or nodes in self.by_content


@dataclass(frozen=True)
class PairClasses:
    """What the candidate pairs of a group of sessions are.

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


def classify_pairs(
    facts: Sequence[PairFacts], coverage: pl.DataFrame, unmatched: Callable[[list[Flags]], Iterable[UnmatchedItems]]
) -> tuple[list[PairClasses], Clocks]:
    """Decide which pairs are proven, and estimate the offsets of the clocks.

    Args:
        facts: facts about the candidate pairs of all groups of sessions.
        coverage: as in :attr:`Sessions.coverage`, of all sessions.
        unmatched: returns the tasks and children without the proven pairs, by group; called only if the offset of some
            nodes does not follow from pairs.
    """
    lines = _fit_clock_lines(facts, [~one.contradicted for one in facts])
    times = (coverage[name].to_physical().cast(pl.Float64).fill_null(np.nan) for name in ("first_time", "last_time"))
    extents = zip(*times, coverage["under_way"], strict=True)
    logs = {node: _LogExtent(*extent) for node, extent in zip(coverage["node"], extents, strict=True)}
    classes = _drop_doubtful_pairs(facts, lines, logs, [_find_proven_pairs(one, lines, logs) for one in facts])
    proven = [one.exact for one in classes]
    exact = lines if all(flags.all() for flags in proven) else _fit_clock_lines(facts, proven)
    shared = sorted({key for one in facts for key in one.shared})
    guessed = {key: line for key in shared if key not in exact and (line := _find_clock_line(key, exact))}
    unknown = [key for key in shared if key not in exact and key not in guessed]
    found = _guess_clocks(unknown, _join_unmatched(unmatched(proven)), exact) if unknown else {}
    guessed |= {key: line for key, (line, _) in found.items()}
    by_content = frozenset(key for key, (_, alike) in found.items() if alike)
    doubts = [(one.by_nodes, own_classes.doubtful) for one, own_classes in zip(facts, classes, strict=True)]
    doubtful = {key for by_nodes, own in doubts for key, rows in by_nodes.items() if own[rows].any()}
    return classes, Clocks(exact, guessed, by_content, frozenset(unknown) - guessed.keys(), frozenset(doubtful))


def _fit_clock_lines(facts: Sequence[PairFacts], chosen: Sequence[Flags]) -> _Lines:
    """The offsets of clocks that follow from chosen pairs."""
    fitted = {}
    order = StreamOrder.of(facts)
    # One pair of nodes after the other, so that the bounds of one pair of nodes are in memory at a time.
    for key in dict.fromkeys(key for one in facts for key in one.by_nodes):
        rows = [one.by_nodes.get(key, _NO_ROWS) for one in facts]
        rows = [own[flags[own]] for own, flags in zip(rows, chosen, strict=True)]
        if any(map(len, rows)):
            fitted[key] = SAME_CLOCK if key[0] == key[1] else fit_steps(*_collect_session_bounds(facts, order, rows))
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
    def of(cls, facts: Sequence[PairFacts]) -> StreamOrder:
        """The order of the streams of some facts."""
        gpid = np.concatenate([one.streams.gpid for one in facts])
        order = np.lexsort((np.concatenate([one.streams.shard for one in facts]), gpid))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        begins = np.cumsum([0, *(len(one.streams.gpid) for one in facts)]).tolist()
        return cls(begins, place, (number_groups(changes(gpid[order])) - 1).astype(np.int32))


def _collect_session_bounds(
    facts: Sequence[PairFacts], streams: StreamOrder, rows: list[AnyIntegers]
) -> tuple[OffsetBounds, NDArray[np.int32]]:
    """The bounds of some pairs and the number of the session of each, in the same order as without groups.

    The order matters because some of several equal bounds are considered late. The list `rows` is emptied.
    """
    places = [
        streams.place[begin + one.get_stream(own)] for one, own, begin in zip(facts, rows, streams.begins, strict=False)
    ]
    placed = np.concatenate(places)
    del places
    order = np.argsort(placed, kind="stable")
    # One array after the other: each takes tens of megabytes.
    arrays = (
        np.concatenate([getattr(one.bounds, name)[own] for one, own in zip(facts, rows, strict=True)])[order]
        for name in ("time", "low", "high")
    )
    bounds = OffsetBounds(*arrays)
    rows.clear()
    return bounds, streams.session[placed[order]]


class _LogExtent(NamedTuple):
    """The extent of a node's logs, microseconds; NaN if it is unknown."""

    begins: float
    ends: float
    under_way: bool


_NO_LOG: Final = _LogExtent(np.nan, np.nan, under_way=True)


def _find_proven_pairs(facts: PairFacts, lines: _Lines, logs: Mapping[str, _LogExtent]) -> Flags:
    """The pairs of streams whose order proves them (see the module's docstring)."""
    count = len(facts.shorter)
    proven = np.zeros(len(facts.first), np.bool_)
    heads = np.zeros(count, np.bool_)
    heads[facts.first] = True
    for key, rows in facts.by_nodes.items():
        if key in lines and not _is_contradicted(key, lines):
            bounds = facts.bounds.take(rows)
            contradicts = (lines[key].violation(bounds) > TOLERANCE_US) | facts.shorter[rows] | facts.contradicted[rows]
            # The pairs of a stream are between the same nodes, and adjacent.
            at = np.flatnonzero(heads[rows])
            own, offset = facts.get_stream(rows[at]), lines[key].at(bounds.time[at])
            alike = ~np.logical_or.reduceat(contradicts, at)
            proven[own] = alike & _is_fully_logged(facts.streams, own, offset, *(logs.get(one, _NO_LOG) for one in key))
    return np.repeat(proven, np.diff(facts.first, append=count))


def _drop_doubtful_pairs(
    facts: Sequence[PairFacts], lines: _Lines, logs: Mapping[str, _LogExtent], proven: Sequence[Flags]
) -> list[PairClasses]:
    """The proven pairs, without those whose order may be shifted."""
    doubtful = [np.zeros(len(flags), np.bool_) for flags in proven]
    for key, line in lines.items():
        if key[0] == key[1] or key[::-1] in lines:
            continue
        chosen = [one.by_nodes.get(key, _NO_ROWS) for one in facts]
        chosen = [rows[flags[rows]] for rows, flags in zip(chosen, proven, strict=True)]
        # Contents may show that the order is not shifted.
        own = zip(facts, chosen, strict=True)
        once = sum(int(is_unique_in_stream(one.get_stream(rows), one.values[rows]).sum()) for one, rows in own)
        if sum(map(len, chosen)) < _LEAST_DOUBTED or once >= _LEAST_UNIQUE:
            continue
        for one, rows, flags in zip(facts, chosen, doubtful, strict=True):
            flags[rows] = _may_be_shifted(one, rows, line, logs[key[1]].begins)
    known = zip(facts, proven, doubtful, strict=True)
    return [PairClasses(own & ~doubts, doubts, one.values != NO_VALUES, one.contradicted) for one, own, doubts in known]


def _may_be_shifted(facts: PairFacts, rows: AnyIntegers, line: ClockLine, child_begins: float) -> Flags:
    """Whether a child's log may have lost statements at its begin: it does not reach far back before a stream."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    first = find_group_starts(facts.get_stream(rows))
    time = facts.bounds.time[rows]
    count = np.diff(first, append=len(rows))
    begins, ends = time[first], time[first + count - 1]
    lost = _MOST_LOST * (ends - begins) / np.maximum(count - 1, 1)
    return np.repeat(begins + line.at(begins) - lost - TOLERANCE_US < child_begins, count)


def _is_contradicted(key: NodePair, lines: _Lines) -> bool:
    """Whether the pairs in the other direction show another offset between the same two clocks."""
    other = lines.get(key[::-1])
    if other is None:
        return False
    # Each direction estimates the times of steps from its own pairs, so pieces are compared, not single times.
    back = other.reversed()
    both = [(piece, back.piece_at(piece.reference)) for piece in lines[key].pieces]
    apart = [max(one.offset_low - two.offset_high, two.offset_low - one.offset_high) for one, two in both]
    return max(apart) > 2 * TOLERANCE_US


def _is_fully_logged(
    streams: StreamFacts, chosen: Indices, offset: Floats, parent: _LogExtent, child: _LogExtent
) -> Flags:
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


def _guess_clocks(
    unknown: Sequence[NodePair], unmatched: UnmatchedItems, exact: _Lines
) -> dict[NodePair, tuple[ClockLine, bool]]:
    """The result of :func:`~...streams.guess_clock` for pairs of nodes without an exact pair."""
    # Imported late, because complete logs do not need it.
    from citus_analysis.spans.pairing import guess_clock

    streams = _build_stream_pairs(_select_unshared(unmatched))
    found: dict[NodePair, tuple[ClockLine, bool]] = {}
    # Pairs of nodes that have only shared streams give no offset.
    for key in (one for one in unknown if one in streams):
        others = [
            (streams[other], between)
            for other in streams
            if other[0] == key[0] and other != key and (between := _find_clock_line((other[1], key[1]), exact))
        ]
        if guess := guess_clock(streams[key], others):
            found[key] = guess
    return found


def _join_unmatched(groups: Iterable[UnmatchedItems]) -> UnmatchedItems:
    """The items of several groups of sessions, with distinct numbers of streams."""
    tasks, children, begin = [], [], 0
    for own in groups:
        tasks.append(own.tasks.with_columns(pl.col("stream") + begin))
        children.append(own.children.with_columns(pl.col("stream") + begin))
        begin += int(own.tasks["stream"].to_numpy().max(initial=0)) + 1
    return UnmatchedItems(pl.concat(tasks), pl.concat(children))


def _select_unshared(unmatched: UnmatchedItems) -> UnmatchedItems:
    """Streams with tasks of one backend."""
    return UnmatchedItems(*(side.filter(~pl.col("shared")) for side in (unmatched.tasks, unmatched.children)))


def _convert_to_child_clock(unmatched: UnmatchedItems, clocks: Clocks) -> UnmatchedItems:
    """Shared streams, with the tasks of all their parents in order of time, on the clock of the children's node."""
    parts = [
        part.with_columns(pl.col("begins", "ends") + pl.Series(line.at(part["ends"].to_numpy())))
        for key, part in _iterate_node_pairs(unmatched.tasks.filter("shared"))
        if (line := clocks.get_line(key))
    ]
    if not parts:
        return UnmatchedItems(unmatched.tasks.clear(), unmatched.children.clear())
    tasks = pl.concat(parts).sort("stream", "ends", "number").with_columns(parent_node="child_node")
    children = unmatched.children.join(tasks, on="stream", how="semi", maintain_order="left")
    return UnmatchedItems(tasks, children.with_columns(parent_node="child_node"))


def _build_stream_pairs(unmatched: UnmatchedItems) -> dict[NodePair, Streams]:
    from citus_analysis.spans.pairing import Streams

    children = dict(_iterate_node_pairs(unmatched.children))
    return {key: Streams(part, children[key]) for key, part in _iterate_node_pairs(unmatched.tasks)}


def _iterate_node_pairs(frame: pl.DataFrame) -> Iterator[tuple[NodePair, pl.DataFrame]]:
    parts = frame.partition_by("parent_node", "child_node", as_dict=True)
    return (((str(parent), str(child)), part) for (parent, child), part in parts.items())


def build_matching(candidates: CandidatePairs, own_classes: PairClasses, clocks: Clocks) -> Matching:
    """The proven pairs of a group of sessions, and the pairs from an alignment of the rest."""
    exact = own_classes.exact
    tasks, children = candidates.tasks, candidates.children
    count = tasks.frame.height
    child, match, ambiguous = np.zeros(count, np.uint32), np.full(count, _UNMATCHED, np.uint8), np.zeros(count, bool)
    proof = np.full(count, _UNPROVEN, np.uint8)
    executions = children.frame["child"].to_numpy()
    rows = tasks.row[candidates.task[exact]]
    child[rows] = executions[children.row[candidates.child[exact]]]
    match[rows] = _EXACT
    proof[rows] = np.where(own_classes.alike[exact], _BY_BOTH, _BY_ORDER)
    aligned = _NO_PAIRS if len(rows) == count else _align_remaining_pairs(candidates.select_unmatched(exact), clocks)
    rows, proven = aligned["task"].to_numpy(), aligned["proven"].to_numpy()
    child[rows], ambiguous[rows] = aligned["child"], aligned["ambiguous"]
    match[rows], proof[rows] = np.where(proven, _EXACT, _INFERRED), np.where(proven, _BY_CONTENT, _UNPROVEN)
    only = candidates.find_between(clocks.doubtful & clocks.undecided, own_classes.doubtful)
    rows = tasks.row[candidates.task[only]]
    child[rows], match[rows], ambiguous[rows] = executions[children.row[candidates.child[only]]], _INFERRED, True
    # Executions are numbered in the order of the frame.
    of_child = np.where(match != _UNMATCHED, np.searchsorted(executions, child), -1)
    found = tasks.frame.with_row_index("task").with_columns(
        *pick(pl.DataFrame([children.frame[name] for name in _OF_CHILD]), of_child),
        child=pl.when(pl.Series(match != _UNMATCHED)).then(pl.Series(child)),
        match=pl.Series(match).cat.to(_MATCH),
        proof=pl.Series(make_number_array(proof % _UNPROVEN, proof != _UNPROVEN)).cat.to(_PROOF),
        ambiguous=pl.Series(ambiguous),
    )
    pairs, unreported = found, found.clear()
    if found["task_us"].null_count():
        pairs = found.filter(~UNREPORTED)
        unreported = found.filter(UNREPORTED & pl.col("child").is_not_null())
    contradicted = tasks.frame.select("parent_node", "child_node")[tasks.row[candidates.task[own_classes.contradicted]]]
    known = children.frame.select("gpid", "child_node", "child")[children.row]
    return Matching(pairs, unreported, contradicted, known, clocks)


def _align_remaining_pairs(unmatched: UnmatchedItems, clocks: Clocks) -> pl.DataFrame:
    """Align tasks and children without a proven partner, one pair of nodes after the other."""
    if unmatched.tasks.is_empty():
        return _NO_PAIRS
    found = [
        streams.align(line)
        for part in (_select_unshared(unmatched), _convert_to_child_clock(unmatched, clocks))
        for key, streams in _build_stream_pairs(part).items()
        if (line := clocks.get_line(key))
    ]
    nodes = unmatched.tasks.select("number", "parent_node", "child_node").unique("number")
    sure = {key for key in nodes.select("parent_node", "child_node").unique().iter_rows() if clocks.is_proven(key)}
    known = pl.DataFrame(sorted(sure), schema=["parent_node", "child_node"], orient="row").cast(pl.Categorical)
    tasks = nodes.join(known, on=["parent_node", "child_node"], how="semi")["number"]
    proven = pl.col("alike") & pl.col("task").is_in(tasks.implode())
    return pl.concat([_NO_PAIRS, *(one.select("task", "child", proven.alias("proven"), "ambiguous") for one in found)])


def _find_clock_line(key: NodePair, clocks: Mapping[NodePair, ClockLine]) -> ClockLine | None:
    """The line between two nodes from their exact pairs, else from those with a third node (the surest of these)."""
    direct = _find_direct_line(key, clocks)
    if direct is not None:
        return direct
    ways = [
        one.then(other)
        for node in sorted({name for pair in clocks for name in pair} - set(key))
        if (one := _find_direct_line((key[0], node), clocks)) and (other := _find_direct_line((node, key[1]), clocks))
    ]
    return min(ways, key=lambda line: line.offset_high - line.offset_low, default=None)


def _find_direct_line(key: NodePair, clocks: Mapping[NodePair, ClockLine]) -> ClockLine | None:
    if key[0] == key[1]:
        return SAME_CLOCK
    other = clocks.get(key[::-1])
    return clocks.get(key) or (None if other is None else other.reversed())


# The failed statement that a failed child belongs to.
#
# A task that failed leaves no task record, so the stream cannot pair it. A failed child belongs to the failed statement
# of its gpid that was running at the time. If the clocks are not known, the n-th child belongs to the n-th statement,
# provided that there are equally many of both and all children ran on one node. Such links are `inferred`.
#
# A child whose task is not reported for another reason is linked in the same way by its content
# (:mod:`citus_analysis.spans.pairing`).

#: Columns of the links of statements with children without a task.
LINK: Final[dict[str, pl.DataType]] = {
    "execution": pl.UInt32(),
    "child": pl.UInt32(),
    "shard_id": pl.Int64(),
    "match": TABLES["spans"]["match"].dtype,
    "proof": TABLES["spans"]["proof"].dtype,
    "child_us": pl.Float64(),
    "child_extended": pl.Boolean(),
}


def link_failures(sessions: Sessions, clocks: Clocks) -> pl.DataFrame:
    """Failed statements without a task with failed children: the columns of :data:`LINK`, sorted."""
    failed = sessions.executions.filter(pl.col("failed") & pl.col("opened") & pl.col("gpid").is_not_null())
    without_task = failed.filter(~pl.col("is_child") & ~pl.col("has_tasks") & ~pl.col("has_locals"))
    statements = without_task.select(
        *("gpid", "execution"),
        parent_node="node",
        begin=make_microseconds_expr(pl.coalesce("start_time", "opener_time")),
        end=make_microseconds_expr("end_time"),
        number=pl.int_range(pl.len()).over("gpid"),
    )
    children = failed.filter(pl.col("is_child") & pl.col("shard_id").is_not_null()).select(
        *("gpid", "shard_id"),
        child="execution",
        child_node="node",
        place=make_position_expr("opener_offset"),
        child_begin=make_microseconds_expr("opener_time"),
        child_end=make_microseconds_expr("end_time"),
    )
    none = pl.DataFrame(schema=LINK)
    if statements.is_empty() or children.is_empty():
        return none
    by_time = _match_failures_by_time(statements, children, clocks)
    nodes = sorted({child for _, child in (*clocks.exact, *clocks.guessed)})
    known = pl.DataFrame({"child_node": nodes}, schema={"child_node": pl.Categorical})
    rest = children.join(by_time, on="child", how="anti").join(known, on="child_node", how="anti")
    # Without a known offset, statements and children of one node are paired in order if they are equally many.
    alone = rest.filter(pl.col("child_node").n_unique().over("gpid") == 1).sort("gpid", "place")
    numbered = alone.with_columns(number=pl.int_range(pl.len()).over("gpid"), count=pl.len().over("gpid"))
    by_order = statements.with_columns(count=pl.len().over("gpid")).join(numbered, on=["gpid", "number", "count"])
    links = pl.concat([by_time, by_order.select("execution", "child", "shard_id")])
    # A statement that two children claim is claimed by neither.
    sure = links.filter(pl.len().over("execution") == 1, pl.len().over("child") == 1).sort("execution")
    return pl.concat([none, sure.with_columns(match=pl.lit("inferred", LINK["match"]))], how="diagonal")


def link_unreported(matching: Matching) -> pl.DataFrame:
    """Statements that report no task with their children: the columns of :data:`LINK`, sorted."""
    found = matching.unreported
    return found.select(
        *("execution", "child", "match", "proof", "child_extended"),
        shard_id="stream_shard",
        child_us="child_duration_us",
    ).select(list(LINK))


def _match_failures_by_time(statements: pl.DataFrame, children: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    lines = {**clocks.guessed, **clocks.exact}
    offsets = pl.DataFrame(
        [(parent, child, line.offset) for (parent, child), line in lines.items()],
        schema={"parent_node": pl.Categorical, "child_node": pl.Categorical, "offset": pl.Float64},
        orient="row",
    )
    both = statements.join(children, on="gpid", how="inner").join(
        offsets, on=["parent_node", "child_node"], how="inner"
    )
    inside = (pl.col("child_begin") - pl.col("offset") >= pl.col("begin") - TOLERANCE_US) & (
        pl.col("child_end") - pl.col("offset") <= pl.col("end") + TOLERANCE_US
    )
    return both.filter(inside).select("execution", "child", "shard_id")


# The quality of the pairing of tasks and child statements, and the offsets of the clocks, per pair of nodes.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: Columns that identify a pair of a parent and a child node; null: unknown.
_NODES: Final = ("parent_node", "child_node")
#: What is counted of each pair of nodes.
_COUNTED: Final = (
    *("tasks", "children", "exact", "by_order", "by_content", "inferred", "unreported", "contradicted"),
    *("unmatched_tasks", "unmatched_children", "ambiguous"),
)


def count_matches(nodes: pl.DataFrame, matching: Matching) -> pl.DataFrame:
    """Count the pairs of some sessions, and the records without a partner, per pair of nodes.

    Args:
        nodes: nodes of the resource.
        matching: their tasks with their children.

    Returns:
        Several rows per pair of nodes; what is counted is the sum over them.
    """
    pairs, unreported = matching.pairs, matching.unreported
    proof, matches = (
        pl.col("proof").cast(pl.String),
        {"exact": "exact", "inferred": "inferred", "unmatched_tasks": "unmatched"},
    )
    tasks = pairs.group_by(_NODES).agg(
        pl.len().alias("tasks"),
        pl.col("ambiguous").sum(),
        *((pl.col("match") == match).sum().alias(name) for name, match in matches.items()),
        *(proof.is_in([word, "both"]).sum().alias(f"by_{word}") for word in ("order", "content")),
    )
    owners = {nodeid: node for node, nodeid in reversed(list_numbered_nodes(nodes))}
    owner = (pl.col("gpid") // GPID_NODE_FACTOR).replace_strict(owners, default=None, return_dtype=pl.String)
    paired = pl.concat([pairs["child"], unreported["child"]]).drop_nulls()
    children = matching.children.group_by(owner.cast(pl.Categorical).alias("parent_node"), "child_node").agg(
        pl.len().alias("children"), (~pl.col("child").is_in(paired.implode())).sum().alias("unmatched_children")
    )
    others = {"unreported": unreported, "contradicted": matching.contradicted}
    counts = (rows.group_by(_NODES).agg(pl.len().alias(name)) for name, rows in others.items())
    return pl.concat([tasks, children, *counts], how="diagonal_relaxed")


def tabulate_match_quality(
    counts: Sequence[pl.DataFrame], clocks: Clocks, identity: Mapping[str, object], coverage: pl.DataFrame
) -> pl.DataFrame:
    """Table `match_quality` of an iteration.

    Args:
        counts: what :func:`count_matches` counts of all of its sessions.
        clocks: offsets of the clocks of its nodes.
        identity: `resource`, `run_id` and `iteration`.
        coverage: the extent of its logs; see :attr:`~citus_analysis.spans.executions.Sessions.coverage`.
    """
    sums = pl.concat(counts, how="diagonal_relaxed").group_by(_NODES).agg(pl.col(_COUNTED).sum())
    ordered = sums.with_columns(pl.col(_NODES).cast(pl.String)).sort(_NODES)
    of_nodes = sorted(zip(coverage["node"], coverage["copies"], strict=True))
    copies = [(node, number) for node, number in of_nodes if number]
    rows = [
        {
            **identity,
            **{name: value for name, value in own.items() if name != "contradicted"},
            "match_rate": (own["exact"] + own["inferred"]) / own["tasks"] if own["tasks"] else None,
            "warning": _describe_pair_warning((own["parent_node"], own["child_node"]), own, clocks, copies),
        }
        for own in ordered.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=TABLES["match_quality"].polars_schema())


def _describe_pair_warning(
    nodes: tuple[str | None, str | None], own: Mapping[str, int], clocks: Clocks, copies: Sequence[tuple[str, int]]
) -> str | None:
    """What is to be known about a pair of nodes; `copies`: the number of repeated records of each node with some."""
    parent, child = (name or "unknown" for name in nodes)
    nouns = {"unmatched_tasks": "task", "unmatched_children": "child", "inferred": "pair"}
    tasks, children, pairs = (f"{own[name]} {choose_noun_form(own[name], noun)}" for name, noun in nouns.items())
    refuted, found = (
        pluralize(own["contradicted"], "pair"),
        pluralize(own["unreported"], "child"),
    )
    texts = {
        "contradicted": f"{refuted} by order refuted by the values of their statements: not made",
        "unreported": f"{found} of which no record reports the task: found by content",
        "unmatched_tasks": f"{tasks} without a child in the log of node {child}",
        "unmatched_children": f"{children} without a task in the log of node {parent}",
        "inferred": f"{pairs} inferred: a log begins while sessions are under way or lacks records, or children sent "
        "tasks, and the values of their statements do not decide",
    }
    warnings = [text for name, text in texts.items() if own[name]]
    if nodes in clocks.doubtful:
        warnings.append("neither the values of statements nor earlier records show that both logs do not lack some")
    elif nodes in clocks.undecided:
        warnings.append("the offset of the clocks is unknown: nothing was aligned")
    warnings += [
        f"the logs of node {node} hold {pluralize(number, 'repeated record')}: left out"
        for node, number in copies
        if node in nodes
    ]
    return "; ".join(warnings) or None


def tabulate_clock_offsets(clocks: Clocks, identity: Mapping[str, object]) -> pl.DataFrame:
    """Table `clock_offsets` of an iteration: the offset of the clocks of each pair of nodes that has pairs.

    A pair of nodes has one row, or, if a clock was set meanwhile, one row per interval of time between two steps.

    Args:
        clocks: offsets of the clocks of its nodes.
        identity: `resource`, `run_id` and `iteration`.
    """
    found = (("exact", clocks.exact), ("inferred", clocks.guessed))
    lines = [(key, line, match) for match, known in found for key, line in known.items() if line.pairs]
    rows = [row for key, line, match in lines for row in _iterate_offset_rows(*key, line, match)]
    rows.sort(key=itemgetter("parent_node", "child_node", "reference_time"))
    return pl.DataFrame([{**identity, **row} for row in rows], schema=TABLES["clock_offsets"].polars_schema())


def _iterate_offset_rows(parent: str, child: str, line: ClockLine, match: str) -> Iterator[dict[str, object]]:
    count = len(line.pieces)
    for number, piece in enumerate(line.pieces, 1):
        left_out = f"; {piece.contradicting} contradicting pairs left out" if piece.contradicting else ""
        which = f"; between steps: {number} of {count}" if count > 1 else ""
        yield {
            "parent_node": parent,
            "child_node": child,
            "pairs": piece.pairs,
            **{f"{name}_us": getattr(piece, name) for name in ("offset", "offset_low", "offset_high")},
            **{f"{name}_ppm": getattr(piece, name) * 1e6 for name in ("drift", "drift_low", "drift_high")},
            "reference_time": _EPOCH + timedelta(microseconds=round(piece.reference)),
            "method": f"linear programme over causality bounds of {match} pairs{left_out}{which}",
        }
