"""Tasks and children of two nodes, stream by stream, and the clock offset that most of them agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.spans.match.alignment import Intervals, align_streams, are_alone, compatible_pairs
from citus_analysis.spans.match.clocks import (
    RESOLUTION_US,
    TOLERANCE_US,
    Bounds,
    ClockLine,
    fit_clock,
    most_agreed_offset,
)
from citus_analysis.spans.match.contents import are_alike, occur_once
from citus_analysis.spans.read.ordered_arrays import Flags, firsts

Wanted = Literal["once", "alike", "all"]
_WANTED: Final[tuple[Wanted, ...]] = ("once", "alike", "all")

#: Fewest votes of an accepted offset, and the least ratio of its votes to those of any other offset.
_VOTES: Final = 3
_LEAD: Final = 2.0

#: Children that vote on an offset, and pairs of them with tasks; bounds memory and time.
_VOTERS: Final = 400
_BALLOTS: Final = 2_000_000


class Streams:
    """The tasks and children of one pair of nodes in the streams that have both.

    Args:
        tasks: `stream`, `number`, `length`, `begins`, `ends`, `values`, by stream and order within it.
        children: the same of the children, in the same way; of the same streams.
    """

    def __init__(self, tasks: pl.DataFrame, children: pl.DataFrame) -> None:
        self._numbers = tasks["number"].to_numpy(), children["number"].to_numpy()
        stream = tasks["stream"].to_numpy()
        first = firsts(stream)
        of_child = np.searchsorted(stream[first], children["stream"].to_numpy())
        self._tasks = Intervals.of(tasks, np.append(first, len(stream)))
        self.children = Intervals.of(children, np.searchsorted(of_child, np.arange(len(first) + 1)))

    def align(self, line: ClockLine) -> pl.DataFrame:
        """The alignment of all streams; `alike`: both have the same values, and neither fits another that has them."""
        tolerance = TOLERANCE_US + (line.offset_high - line.offset_low) / 2
        alignment = align_streams(self._tasks, self._children_by(line), tolerance)
        task = np.flatnonzero(alignment.child >= 0)
        child = alignment.child[task]
        numbers = {"task": self._numbers[0][task], "child": self._numbers[1][child]}
        return pl.DataFrame(numbers | {"ambiguous": alignment.ambiguous[task], "alike": alignment.alike[task]})

    def votes(self, centre: float, wanted: Wanted) -> Bounds:
        """The offsets that all pairs of a task with a child near a time permit.

        Args:
            centre: the time, microseconds of the child's clock.
            wanted: all pairs, those with the same values, or those with values that no other of their stream has.
        """
        near = np.argsort(np.abs(self.children.begin - centre), kind="stable")
        stream = self.children.stream
        sizes = np.diff(self._tasks.first)[stream]
        chosen = near[:_VOTERS][np.cumsum(sizes[near[:_VOTERS]]) <= _BALLOTS]
        child = np.repeat(chosen, sizes[chosen])
        within = np.arange(len(child)) - np.repeat(np.cumsum(sizes[chosen]) - sizes[chosen], sizes[chosen])
        task = self._tasks.first[stream[child]] + within
        if wanted != "all":
            alike = are_alike(self._tasks.values[task], self.children.values[child])
            if wanted == "once":
                alike &= self._once[0][task] & self._once[1][child]
            task, child = task[alike], child[alike]
        return self._bounds(task, child)

    @cached_property
    def _once(self) -> tuple[Flags, Flags]:
        """Whether each task, and each child, has values that no other of its stream has."""
        tasks, children = self._tasks, self.children
        return occur_once(tasks.stream, tasks.values), occur_once(children.stream, children.values)

    def agreeing(self, line: ClockLine, centre: float, reach: float) -> Bounds:
        """Bounds from pairs near a time of which neither task nor child is compatible with another, given a line."""
        task, child, _ = compatible_pairs(self._tasks, self._children_by(line), TOLERANCE_US)
        alone = are_alone(task, child)
        near = np.abs(self.children.begin[child] - centre) <= reach
        return self._bounds(task[alone & near], child[alone & near])

    def _bounds(self, task: NDArray[np.intp], child: NDArray[np.intp]) -> Bounds:
        tasks, children = self._tasks, self.children
        long_enough = ~(children.length[child] > tasks.length[task] + 1)
        task, child = task[long_enough], child[long_enough]
        low = children.end[child] - tasks.end[task] - RESOLUTION_US
        high = children.begin[child] - tasks.begin[task] + RESOLUTION_US
        return Bounds(tasks.end[task], low, high)

    def _children_by(self, line: ClockLine) -> Intervals:
        """The children on the clock of the tasks."""
        offset = line.at(self.children.begin - line.offset)
        return replace(self.children, begin=self.children.begin - offset, end=self.children.end - offset)


def guess_clock(streams: Streams, witnesses: Sequence[tuple[Streams, ClockLine]] = ()) -> tuple[ClockLine, bool] | None:
    """The offset that most tasks and children agree on, followed from there over the whole log.

    Tasks and children with the same values are asked first: only they prove it.

    Args:
        streams: tasks and children of two nodes.
        witnesses: the statements that tasks of the same parent ran on other nodes, with the known lines from those
            nodes' clocks to the child's: they vote on the same offset.

    Returns:
        The offset, and whether contents prove it; None when no offset has a clear lead: a periodic workload agrees on
        several.
    """
    for wanted, share in product(_WANTED, (0.5, 0.25, 0.75)):
        centre = float(np.quantile(streams.children.begin, share))
        ballots = streams.votes(centre, wanted)
        # Values that most pairs have in common distinguish nothing.
        if len(ballots) == 0 or (wanted == "alike" and 2 * len(ballots) > len(streams.votes(centre, "all"))):
            continue
        further = [other.votes(centre - line.offset, wanted).beyond(line) for other, line in witnesses]
        offset, votes, others = most_agreed_offset(Bounds.joined([ballots, *further]))
        if votes >= _VOTES and votes >= _LEAD * others:
            return _follow(streams, offset, centre), wanted != "all"
    return None


def _follow(streams: Streams, offset: float, centre: float) -> ClockLine:
    line = ClockLine(centre - offset, offset, offset, offset, 0.0, 0.0, 0.0, 0, 0)
    distances = np.sort(np.abs(streams.children.begin - centre))
    reach = distances[min(_VOTERS, len(distances)) - 1]
    while (agreeing := streams.agreeing(line, centre, reach)) and reach < distances[-1]:
        line = fit_clock(agreeing)
        reach *= 3
    # If statements follow each other within the tolerance, no pair is unique: the offset of the votes remains.
    return fit_clock(agreeing) if agreeing else line
