"""Align tasks with child statements where one of the two sequences has holes.

Both sequences of a stream are in order, and tasks of one session on one shard do not overlap. A task and a child are
*compatible* when the task waited at least as long as the child ran and the child's interval lies inside the task's,
given the offset of the clocks and its tolerance. An alignment is an order-preserving set of compatible pairs; wanted
is one with the most pairs and, among those, the least total contradiction in time. That is a heaviest increasing
subsequence over the compatible pairs, which a dynamic programme over a Fenwick tree finds in O(n log n) (Hunt and
Szymanski, 1977: A fast algorithm for computing longest common subsequences).

A pair stands in every largest alignment exactly when no other compatible pair takes the same rank in one; else the
task is *ambiguous*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from citus_analysis.spans.clocks import RESOLUTION_US

__all__ = ["Alignment", "Intervals", "align_streams", "compatible_pairs"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """Tasks or children, sorted by stream and by order within it.

    Attributes:
        first: where each stream begins; one more element than there are streams.
        begin: when each began, microseconds.
        end: when each ended.
        length: reported duration; NaN where it is unknown.
    """

    first: _Ints
    begin: _Floats
    end: _Floats
    length: _Floats


@dataclass(frozen=True)
class Alignment:
    """The child of each task (-1 without one), and whether other alignments are as large."""

    child: _Ints
    ambiguous: NDArray[np.bool_]


def compatible_pairs(tasks: Intervals, children: Intervals, tolerance: float) -> tuple[_Ints, _Ints, _Floats]:
    """All compatible pairs, by stream, task and then descending child.

    Args:
        tasks: tasks on the parent's clock.
        children: children of the same streams, moved to the parent's clock.
        tolerance: contradiction in time that is let pass, microseconds.

    Returns:
        Task, child, and by how much the child's interval reaches beyond the task's, resolution not taken off.
    """
    count = _scan(*_arrays(tasks, children), tolerance, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    task, child, contradiction = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    _scan(*_arrays(tasks, children), tolerance, task, child, contradiction)
    return task, child, contradiction


def align_streams(tasks: Intervals, children: Intervals, tolerance: float) -> Alignment:
    """The largest alignment of each stream.

    Tasks between two neighbouring pairs are paired in order with the children between them when there are as many
    of both: nothing is missing there, only a record was late.
    """
    task, child, contradiction = compatible_pairs(tasks, children, tolerance)
    partner = np.full(len(tasks.end), -1, np.int64)
    ambiguous = np.zeros(len(tasks.end), np.bool_)
    if len(task):
        _align(task, child, contradiction / (tolerance + RESOLUTION_US + 1.0), len(children.end), partner, ambiguous)
        _fill(tasks.first, tasks.length, children.length, partner)
    return Alignment(partner, ambiguous)


def _arrays(
    tasks: Intervals, children: Intervals
) -> tuple[_Ints, _Floats, _Floats, _Floats, _Ints, _Floats, _Floats, _Floats]:
    return (
        tasks.first, tasks.begin, tasks.end, tasks.length,
        children.first, children.begin, children.end, children.length,
    )  # fmt: skip


@njit(cache=True)
def _scan(
    first_task: _Ints, task_begin: _Floats, task_end: _Floats, task_length: _Floats,
    first_child: _Ints, child_begin: _Floats, child_end: _Floats, child_length: _Floats,
    tolerance: float, tasks: _Ints, children: _Ints, contradictions: _Floats,
) -> int:  # fmt: skip
    """Write the compatible pairs where the arrays have room; return how many there are."""
    resolution = 1000.0
    count = 0
    for stream in range(len(first_task) - 1):
        lowest = first_child[stream]
        stop = first_child[stream + 1]
        for task in range(first_task[stream], first_task[stream + 1]):
            earliest = task_begin[task] - resolution - tolerance
            latest = task_end[task] + resolution + tolerance
            while lowest < stop and child_end[lowest] + resolution < earliest:
                lowest += 1
            last = lowest
            while last < stop and child_begin[last] <= latest:
                last += 1
            for child in range(last - 1, lowest - 1, -1):
                late = child_end[child] - task_end[task]
                early = task_begin[task] - child_begin[child]
                contradiction = max(0.0, late, early)
                if contradiction <= tolerance + resolution and not child_length[child] > task_length[task] + 1.0:
                    if count < len(tasks):
                        tasks[count] = task
                        children[count] = child
                        contradictions[count] = contradiction
                    count += 1
    return count


@njit(cache=True)
def _heaviest(child: _Ints, task: _Ints, weight: _Floats, width: int, before: _Ints) -> tuple[_Ints, _Floats]:
    """Rank and total weight of the heaviest increasing chain that ends in each pair; `before` is its predecessor."""
    rank = np.zeros(len(child), np.int64)
    total = np.zeros(len(child))
    tree = np.full(width + 1, -1, np.int64)
    begin = 0
    while begin < len(child):
        end = begin
        while end < len(child) and task[end] == task[begin]:
            best = -1
            at = child[end]
            while at > 0:
                other = tree[at]
                if other >= 0 and (best < 0 or total[other] > total[best]):
                    best = other
                at -= at & -at
            before[end] = best
            rank[end] = 1 + (rank[best] if best >= 0 else 0)
            total[end] = weight[end] + (total[best] if best >= 0 else 0.0)
            end += 1
        for pair in range(begin, end):
            at = child[pair] + 1
            while at <= width:
                if tree[at] < 0 or total[pair] > total[tree[at]]:
                    tree[at] = pair
                at += at & -at
        begin = end
    return rank, total


@njit(cache=True)
def _align(
    task: _Ints, child: _Ints, contradiction: _Floats, width: int, partner: _Ints, ambiguous: NDArray[np.bool_]
) -> None:
    """Choose the alignment and mark what could be otherwise. Streams are disjoint in both numberings."""
    count = len(task)
    # More pairs always weigh more than less contradiction.
    weight = 1.0 - contradiction / (count + 1.0)
    before = np.full(count, -1, np.int64)
    rank, total = _heaviest(child, task, weight, width, before)
    back = np.full(count, -1, np.int64)
    reverse_rank, _ = _heaviest(width - 1 - child[::-1], -task[::-1], weight[::-1], width, back)
    last = 0
    for pair in range(count):
        if total[pair] > total[last]:
            last = pair
    largest = rank[last]
    rivals = np.zeros(largest + 1, np.int64)
    for pair in range(count):
        if rank[pair] + reverse_rank[count - 1 - pair] - 1 == largest:
            rivals[rank[pair]] += 1
    pair = last
    while pair >= 0:
        partner[task[pair]] = child[pair]
        ambiguous[task[pair]] = rivals[rank[pair]] > 1
        pair = before[pair]


@njit(cache=True)
def _fill(first_task: _Ints, task_length: _Floats, child_length: _Floats, partner: _Ints) -> None:
    """Pair in order between neighbouring pairs with as many tasks as children between them."""
    for stream in range(len(first_task) - 1):
        previous = -1
        for task in range(first_task[stream], first_task[stream + 1]):
            if partner[task] < 0:
                continue
            gap = task - previous
            if previous >= 0 and gap > 1 and partner[task] - partner[previous] == gap:
                for step in range(1, gap):
                    child = partner[previous] + step
                    if not child_length[child] > task_length[previous + step] + 1.0:
                        partner[previous + step] = child
            previous = task
