"""Align tasks with child statements if one of the two sequences has gaps.

Both sequences of a stream are in order, and tasks of one session on one shard do not overlap. A task and a child are
*compatible* when the task waited at least as long as the child ran, the child's interval lies inside the task's, given
the offset of the clocks and its tolerance, and their contents do not exclude it: in a stream in which children have the
values of tasks, they have equally many others. An alignment is an order-preserving set of compatible pairs. The best
alignment has the most pairs and, among alignments of the same size, the least total contradiction in time. It is a
heaviest increasing subsequence of the compatible pairs, which dynamic programming over the best ends of chains finds
in O(n log n) (Hunt and Szymanski, 1977: A fast algorithm for computing longest common subsequences).

A pair belongs to every largest alignment if no other compatible pair has the same rank in one; otherwise its task is
*ambiguous*.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats, Integers
from citus_analysis.spans.match.clocks import RESOLUTION_US
from citus_analysis.spans.match.contents import are_alike, are_other, repeat_elsewhere
from citus_analysis.spans.read.ordered_arrays import Flags


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
        """Those in a frame of :class:`~citus_analysis.spans.match.pairing.Rest`."""
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


def compatible_pairs(tasks: Intervals, children: Intervals, tolerance: float) -> tuple[Integers, Integers, Floats]:
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
    kept = (contradiction <= tolerance + RESOLUTION_US) & ~shorter & ~_excluded(tasks, children, task, child)
    return task[kept], child[kept], contradiction[kept]


#: Least share of the tasks of a stream whose values some child has, where different values exclude a pair.
_COMPARABLE: Final = 0.1


def _excluded(tasks: Intervals, children: Intervals, task: Integers, child: Integers) -> Flags:
    """Whether the contents of tasks and children of a stream exclude that they belong together.

    A task that no record reports has nothing but its content to show for it.
    """
    asked, ran = tasks.values[task], children.values[child]
    unreported = np.isnan(tasks.length[task])
    unlike = np.where(unreported, asked != ran, are_other(asked, ran))
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
    task, child, contradiction = compatible_pairs(tasks, children, tolerance)
    partner = np.full(len(tasks.end), -1, np.int64)
    ambiguous, only = np.zeros(len(tasks.end), np.bool_), np.full(len(tasks.end), -2, np.int64)
    if len(task):
        same = are_alike(tasks.values[task], children.values[child])
        alone = np.flatnonzero(same)[are_alone(task[same], child[same])]
        only[task[alone]] = child[alone]
        _align(task, child, contradiction / (tolerance + RESOLUTION_US + 1.0), partner, ambiguous)
        _fill(tasks, children, partner)
    return Alignment(partner, ambiguous, partner == only)


def are_alone(task: Integers, child: Integers) -> Flags:
    """Whether neither the task nor the child of each compatible pair is in another."""
    return np.asarray((np.bincount(task)[task] == 1) & (np.bincount(child)[child] == 1))


def _heaviest(child: list[int], task: list[int], weight: list[float]) -> tuple[Integers, list[float], list[int]]:
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


def _align(task: Integers, child: Integers, contradiction: Floats, partner: Integers, ambiguous: Flags) -> None:
    """Choose the alignment and mark ambiguous tasks. The numbers of different streams are disjoint on both sides."""
    # More pairs always weigh more than less contradiction.
    weight = 1.0 - contradiction / (len(task) + 1.0)
    rank, total, before = _heaviest(child.tolist(), task.tolist(), weight.tolist())
    reverse_rank, _, _ = _heaviest((-child[::-1]).tolist(), (-task[::-1]).tolist(), weight[::-1].tolist())
    last = int(np.argmax(total))
    rivals = np.bincount(rank[rank + reverse_rank[::-1] - 1 == rank[last]])
    chain = [last]
    while (pair := before[chain[-1]]) >= 0:
        chain.append(pair)
    partner[task[chain]] = child[chain]
    ambiguous[task[chain]] = rivals[rank[chain]] > 1


def _fill(tasks: Intervals, children: Intervals, partner: Integers) -> None:
    """Pair tasks and children in order between neighbouring pairs if they are equally many there."""
    paired = np.flatnonzero(partner >= 0)
    gap, stream = np.diff(paired), np.searchsorted(tasks.first, paired, side="right")
    alike = (gap > 1) & (np.diff(partner[paired]) == gap) & (np.diff(stream) == 0)
    length = gap[alike] - 1
    step = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1
    task = np.repeat(paired[:-1][alike], length) + step
    child = np.repeat(partner[paired[:-1]][alike], length) + step
    fits = ~(children.length[child] > tasks.length[task] + 1.0) & ~_excluded(tasks, children, task, child)
    partner[task[fits]] = child[fits]
