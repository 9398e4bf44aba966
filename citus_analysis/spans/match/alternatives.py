"""Determine whether another pairing of two nodes' tasks and children would fit as well.

Pairing by order assigns the n-th child of a stream to its n-th task. This is wrong by k statements if the child's log
lost its first k children, although the remaining sessions seem complete (the lost children ran on connections of their
own), and the parent's log lost its last k tasks. The clocks then show an offset that is wrong by the time of k
statements, which no record contradicts as long as statements follow each other regularly.

This module searches for such an offset: children are later by the time that some statements of a stream take, so that

- tasks before the begin of the child's log have no children, and all others pair in order within the clocks' bounds;
- children that are left over come after the end of the parent's log.

If there is such an offset, order proves nothing for the streams that it would pair differently. Sessions in the other
direction exclude it, because the same loss would change their offset in the opposite direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.spans.match.clocks import RESOLUTION_US, TOLERANCE_US, Bounds, ClockLine, most_agreed_offset
from citus_analysis.spans.read.ordered_arrays import Flags, Indices, firsts, places

__all__ = ["LogSpan", "Paired", "doubtful_streams"]

#: Most statements in a row whose loss is examined; of a strict period, the loss of one is enough.
_MOST_LOST: Final = 32
#: Number of streams that are examined, those with the earliest first children, and of pairs of each stream.
_STREAMS: Final = 4
_SAMPLE: Final = 64
#: Fewest pairs between two nodes that are examined, because a handful of statements is regular by chance.
_LEAST: Final = 20
#: Share of the pairs that may contradict a possible offset, because records are sometimes late.
_LATE: Final = 0.02


@dataclass(frozen=True)
class LogSpan:
    """Begin of the child's log and end of the parent's log, microseconds of each node's own clock."""

    child_begins: float
    parent_ends: float


@dataclass(frozen=True)
class Paired:
    """Tasks and children of two nodes, paired by order, stream by stream.

    Attributes:
        stream: a number for the stream of each pair; pairs of one stream are neighbours.
        bounds: bounds of the offset from each pair.
        length: duration of each task, microseconds.
        more_tasks: whether each stream has tasks after its last pair.
    """

    stream: Indices
    bounds: Bounds
    length: Floats
    more_tasks: Flags

    def first(self) -> Indices:
        """Indices at which streams begin."""
        return firsts(self.stream)


def doubtful_streams(parts: Sequence[Paired], line: ClockLine, logs: LogSpan) -> list[Flags]:
    """Find the streams that another possible offset would pair differently.

    Args:
        parts: the pairs of two nodes, by groups of sessions.
        line: the offset from these pairs.
        logs: extent of the two logs.

    Returns:
        One flag for each stream of each part.
    """
    found = [np.zeros(len(part.first()), np.bool_) for part in parts]
    if sum(len(part.stream) for part in parts) < _LEAST:
        return found
    for shift in _candidates(parts, line, logs):
        lost = [_lost(part, shift) for part in parts]
        if all(_is_possible(part, line, shift, own, logs) for part, own in zip(parts, lost, strict=True)):
            for flags, own in zip(found, lost, strict=True):
                flags |= own > 0
    return found


def _candidates(parts: Sequence[Paired], line: ClockLine, logs: LogSpan) -> Iterator[float]:
    """Times by which children may be later, µs: those that some statements of an early stream take."""
    for part, begin, end in _early(parts, logs):
        ends = part.bounds.time[begin:end]
        for lost in range(1, min(_MOST_LOST, (end - begin) // 2) + 1):
            sample = np.unique(np.linspace(0, len(ends) - lost - 1, _SAMPLE).astype(np.intp))
            taken = np.sort(ends[sample + lost] - ends[sample])
            room = 2 * RESOLUTION_US + TOLERANCE_US + part.length[begin + sample].max()
            late = min(int(np.ceil(_LATE * len(taken))), len(taken) - 1)  # a stream of two has a single time
            if taken[-1 - late] - taken[late if len(taken) > 2 * late else 0] > room:
                continue
            offset, _, _ = most_agreed_offset(_shifted(part, line, begin + sample + lost, begin + sample))
            # Two offsets that differ by less than the lateness of records cannot be distinguished in any log.
            if -offset > TOLERANCE_US:
                yield -offset


def _early(parts: Sequence[Paired], logs: LogSpan) -> list[tuple[Paired, int, int]]:
    """Streams whose first child is nearest to the beginning of the child's log: part, begin and end."""
    found = []
    for part in parts:
        first = part.first()
        end = np.append(first[1:], len(part.stream))
        several = np.flatnonzero(end - first > 1)
        since = part.bounds.low[first[several]] + part.bounds.time[first[several]] - logs.child_begins
        for at in several[np.argsort(since, kind="stable")[:_STREAMS]]:
            begins = float(part.bounds.low[first[at]] + part.bounds.time[first[at]])
            found.append((begins, part, int(first[at]), int(end[at])))
    found.sort(key=lambda one: one[0])
    return [(part, begin, end) for _, part, begin, end in found[:_STREAMS]]


def _shifted(part: Paired, line: ClockLine, task: Indices, child: Indices) -> Bounds:
    """Bounds of the offset, relative to the line, if tasks are paired with other children."""
    ends, length, own = part.bounds.time, part.length, part.bounds
    base = line.at(ends[task])
    child_ends = own.low[child] + ends[child]
    child_begins = own.high[child] + ends[child] - length[child]
    return Bounds(ends[task], child_ends - ends[task] - base, child_begins - ends[task] + length[task] - base)


def _lost(part: Paired, shift: float) -> Indices:
    """Per stream, the number of tasks before the task of its first child, if children are later by `shift`."""
    first, ends = part.first(), part.bounds.time
    if not len(first):
        return first
    wanted = ends[first] + shift
    count = np.diff(first, append=len(ends))
    before = np.add.reduceat(ends < np.repeat(wanted, count), first, dtype=np.intp)
    # The task of the child ended nearest to the time wanted, before or after it; after the last task there is none.
    below, above = wanted - ends[first + before - 1], ends[first + np.minimum(before, count - 1)] - wanted
    beyond = before == count
    nearer = np.where(beyond, below < shift / 2, below < above)
    return np.asarray(before - nearer)


def _is_possible(part: Paired, line: ClockLine, shift: float, lost: Indices, logs: LogSpan) -> bool:
    first, ends = part.first(), part.bounds.time
    if not len(first):
        return True
    count = np.diff(first, append=len(ends))
    some = np.flatnonzero(lost)
    last_lost = first[some] + lost[some] - 1
    if np.any(ends[last_lost] + line.at(ends[last_lost]) - shift > logs.child_begins + TOLERANCE_US):
        return False
    # The last children of such a stream have no tasks any more.
    bare = some[~part.more_tasks[some]]
    child = first[bare] + np.maximum(count[bare] - lost[bare], 0)
    child_ends = part.bounds.low[child] + RESOLUTION_US + ends[child] - line.at(ends[child]) + shift
    if np.any(child_ends < logs.parent_ends - TOLERANCE_US):
        return False
    child = np.flatnonzero(_places(part.stream) < np.repeat(count - lost, count))
    task = child + np.repeat(lost, count)[child]
    bounds = _shifted(part, line, task, child)
    # No delay can falsify a lower bound.
    beside = (bounds.low > -shift) | (bounds.high < -shift - TOLERANCE_US)
    return bool(beside.sum() <= _LATE * len(child))


def _places(stream: Indices) -> Indices:
    """The place of each pair within its stream."""
    begins = np.zeros(len(stream), np.bool_)
    begins[firsts(stream)] = True
    return places(begins)
