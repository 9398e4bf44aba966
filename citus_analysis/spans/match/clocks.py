"""Offsets between the clocks of two nodes, bounded by causality.

A child begins after its task began and ends before its task ended. Both nodes print times of 1 ms resolution
(truncated), so a pair of a task (end E on the parent's clock, length W) and a child (begin b, end e on the child's
clock) bounds the offset o = child clock - parent clock at that time:

    e - E - 1 ms  <  o  <  b - (E - W) + 1 ms

Over a run the offset is modelled as a line a + r t. All lines that satisfy every bound form a polygon; its
corners give the extent of the offset and of the drift r (Duda, Harrus, Haddad, Bernard: Estimating global time in
distributed systems, 1987, bound offsets from messages in the same way).

A backend that is preempted between the end of a task and its log record prints a task that seems to begin too late:
its upper bound is too low. Upper bounds that contradict others are found as the violations of the line with the least
weighted sum of violations; of the others, the tightest 1 % are ignored, too.

The estimate between the bounds assumes that the delays to and from the child are equal, as NTP does (Mills, RFC 5905).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.spans.match.linear_programme import least_cost
from citus_analysis.spans.read.ordered_arrays import Integers, firsts, stable_order

#: Times in server logs are truncated to milliseconds.
RESOLUTION_US: Final = 1000.0

#: Delay of a record's time on a loaded machine, because records are stamped when they are written.
TOLERANCE_US: Final = 5000.0

#: Largest drift between two clocks that are not broken (NTP slews by at most 500 ppm).
MAX_DRIFT: Final = 1e-3

#: Share of upper bounds that a delayed record may have made too tight without contradicting another bound.
DELAYED_SHARE: Final = 0.01

#: Pairs that are processed together.
_AT_ONCE: Final = 2**16


@dataclass(frozen=True)
class Bounds:
    """Bounds on an offset from pairs: one element per pair, times in microseconds of the parent's clock."""

    time: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def joined(cls, parts: Sequence[Bounds]) -> Bounds:
        """All bounds of several parts (at least one)."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("time", "low", "high")))

    def beyond(self, line: ClockLine) -> Bounds:
        """Bounds on the offset to a third clock, given the line from the child's clock to it."""
        further = line.at(self.time + (self.low + self.high) / 2)
        low, high = line.offset_low - line.offset, line.offset_high - line.offset
        return Bounds(self.time, self.low + further + low, self.high + further + high)

    def take(self, chosen: NDArray[np.bool_] | Integers | slice) -> Bounds:
        """The bounds of some pairs."""
        return Bounds(self.time[chosen], self.low[chosen], self.high[chosen])

    def parts(self) -> Iterator[Bounds]:
        """The bounds in parts that fit into the processor's cache."""
        for begin in range(0, len(self), _AT_ONCE):
            yield self.take(slice(begin, begin + _AT_ONCE))

    def where(self, chosen: NDArray[np.bool_]) -> Bounds:
        """The bounds of some pairs; not copied if all are chosen."""
        return self if chosen.all() else self.take(chosen)


@dataclass(frozen=True)
class ClockLine:
    """An offset that changes linearly with time.

    Attributes:
        reference: time (microseconds of the parent's clock) of `offset`.
        offset: child clock - parent clock, microseconds; `offset_low` and `offset_high` bound it.
        drift: its change per microsecond; `drift_low` and `drift_high` bound it.
        pairs: pairs the line was fitted to; `contradicting` of them were left out.
        since: time (parent's clock) from which it is valid, if it is one of several pieces.
        later: the pieces that are valid after this one, if a clock was set meanwhile.
    """

    reference: float
    offset: float
    offset_low: float
    offset_high: float
    drift: float
    drift_low: float
    drift_high: float
    pairs: int
    contradicting: int
    since: float = -np.inf
    later: tuple[ClockLine, ...] = ()

    def at(self, time: Floats) -> Floats:
        """The offset at some times."""
        offset = self.offset + self.drift * (time - self.reference)
        for piece in self.later:
            offset = np.where(time >= piece.since, piece.at(time), offset)
        return offset

    @property
    def pieces(self) -> tuple[ClockLine, ...]:
        """Its pieces in order of time, each without the others."""
        return replace(self, later=()), *self.later

    def piece_at(self, time: float) -> ClockLine:
        """The piece that is valid at a time."""
        return [piece for piece in self.pieces if piece.since <= time][-1]

    def reversed(self) -> ClockLine:
        """The same line seen from the other node."""
        steps = zip(self.pieces, self.later, strict=False)
        # The step is placed half way between the times that the child's clock showed before and after it was set.
        begins = [after.since + float(before.middle(after)) for before, after in steps]
        return ClockLine(
            self.reference + self.offset,
            *(-self.offset, -self.offset_high, -self.offset_low),
            *(-self.drift, -self.drift_high, -self.drift_low),
            self.pairs,
            self.contradicting,
            later=tuple(replace(piece.reversed(), since=time) for piece, time in zip(self.later, begins, strict=True)),
        )

    def middle(self, after: ClockLine) -> float:
        """The offset half way from this piece to the next, at the time of the step."""
        time = np.array([after.since])
        return float((self.at(time) + after.at(time))[0] / 2)

    def then(self, other: ClockLine) -> ClockLine:
        """The line from this line's parent to the child of another whose parent is this line's child."""
        further = [(piece.since - self.piece_at(piece.since).offset, piece) for piece in other.later]
        begins = sorted({-np.inf, *(piece.since for piece in self.later), *(time for time, _ in further)})
        joined = []
        for time in begins:
            one = self.piece_at(time)
            second = [other.pieces[0], *(piece for since, piece in further if since <= time)][-1]
            joined.append(replace(one.straight_then(second), since=time))
        return replace(joined[0], later=tuple(joined[1:]))

    def straight_then(self, other: ClockLine) -> ClockLine:
        """The same as :meth:`then` for two pieces."""
        middle = other.offset + other.drift * (self.reference + self.offset - other.reference)
        low = self.offset_low + middle - (other.offset - other.offset_low)
        high = self.offset_high + middle + (other.offset_high - other.offset)
        drifts = self.drift + other.drift, self.drift_low + other.drift_low, self.drift_high + other.drift_high
        return ClockLine(self.reference, self.offset + middle, low, high, *drifts, 0, 0)

    def violation(self, bounds: Bounds) -> Floats:
        """The time by which each pair contradicts the line, microseconds; 0 if it agrees.

        Around a step either piece may be valid, because a clock that is set back shows some times twice.
        """
        return np.concatenate([self._violation(part) for part in bounds.parts()] or [np.zeros(0)])

    def _violation(self, bounds: Bounds) -> Floats:
        least = _beside(self, bounds)
        for before, after in zip(self.pieces, self.later, strict=False):
            step = abs(2 * (before.middle(after) - before.at(np.array([after.since]))[0]))
            own, room = _beside(after, bounds), step + TOLERANCE_US
            near = np.abs(bounds.time - after.since) <= room
            least = np.where(near, np.minimum(least, own), np.where(bounds.time > after.since, own, least))
        return least


def _beside(piece: ClockLine, bounds: Bounds) -> Floats:
    offset = piece.offset + piece.drift * (bounds.time - piece.reference)
    return np.maximum(0.0, np.maximum(bounds.low - offset, offset - bounds.high))


#: A node compared with itself.
SAME_CLOCK: Final = ClockLine(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)


def most_agreed_offset(bounds: Bounds) -> tuple[float, int, int]:
    """The constant offset that satisfies the most bounds.

    Returns:
        The offset, the number of bounds that it satisfies, and the number that the best offset elsewhere satisfies; if
        the two numbers are nearly equal, so are the likelihoods of the two offsets.
    """
    return _most_agreed(bounds.low.copy(), bounds.high.copy())


def _most_agreed(low: Floats, high: Floats) -> tuple[float, int, int]:
    """As :func:`most_agreed_offset`; the bounds are sorted in place."""
    width = float(np.median(high - low))
    # Sorting them separately takes less memory and time. Of equal edges, the lower bounds come first.
    low.sort()
    high.sort()
    ended = np.searchsorted(high, low, side="left")
    depth = np.arange(1, len(low) + 1, dtype=np.int32)
    depth -= ended
    best = int(np.argmax(depth))
    most = int(depth[best])
    following = [edges[at] for edges, at in ((low, best + 1), (high, int(ended[best]))) if at < len(edges)]
    del ended
    offset = float((low[best] + min(following, default=low[best])) / 2)
    apart = max(2 * width, 5 * RESOLUTION_US)
    second = [_deepest(depth, low, offset, apart)]
    depth = np.searchsorted(low, high, side="right").astype(np.int32)
    depth -= np.arange(1, len(high) + 1, dtype=np.int32)
    second.append(_deepest(depth, high, offset, apart))
    return offset, most, max(second)


def _deepest(depth: NDArray[np.int32], edges: Floats, offset: float, apart: float) -> int:
    """The largest depth at edges that are further from an offset than `apart`."""
    # In place: of millions of pairs, each array takes tens of megabytes.
    away = edges - offset
    np.abs(away, out=away)
    return int(depth.max(where=away > apart, initial=0))


def fit_clock(bounds: Bounds) -> ClockLine:
    """The line of offsets that pairs (at least one) allow, with the extent of all lines that they allow."""
    reference = float((bounds.time.min() + bounds.time.max()) / 2)
    near = _agreeing(bounds, reference)
    first = _least_violation(_tightest(near), reference)
    agreeing = near.where(first.violation(near) <= 1e-6)
    offset_low, offset_high, drift_low, drift_high = _extent(_tightest(_without_delayed(agreeing, first)), first)
    drift = (drift_low + drift_high) / 2
    # The offset if delays were equal both ways, from the quarter of pairs with the least delay.
    width = agreeing.high - agreeing.low
    quick = agreeing.take(width <= np.quantile(width, 0.25))
    symmetric = float(((quick.low + quick.high) / 2 - drift * (quick.time - reference)).mean())
    offset, drifts = min(max(symmetric, offset_low), offset_high), (drift, drift_low, drift_high)
    return ClockLine(reference, offset, offset_low, offset_high, *drifts, len(bounds), len(bounds) - len(agreeing))


def _without_delayed(bounds: Bounds, line: ClockLine) -> Bounds:
    room = bounds.high - line.at(bounds.time)
    count = min(int(np.ceil(DELAYED_SHARE * len(bounds))), len(bounds) - 1)
    limit = np.partition(room, count - 1)[count - 1] if count else -np.inf
    delayed = room < limit
    delayed[np.flatnonzero(room == limit)[: count - int(delayed.sum())]] = True
    return Bounds(bounds.time, bounds.low, np.where(delayed, np.inf, bounds.high))


def _agreeing(bounds: Bounds, reference: float) -> Bounds:
    """Pairs near the offset that most of them allow; wrong pairs may show any offset."""
    wide = _widened(bounds, reference)
    offset, _, _ = _most_agreed(wide.low, wide.high)
    del wide
    reach = 50 * RESOLUTION_US
    parts = (_widened(part, reference) for part in bounds.parts())
    return bounds.where(np.concatenate([(p.low <= offset + reach) & (p.high >= offset - reach) for p in parts]))


def _widened(bounds: Bounds, reference: float) -> Bounds:
    """Bounds on the offset at a reference time for any possible drift."""
    spread = MAX_DRIFT * np.abs(bounds.time - reference)
    return Bounds(bounds.time, bounds.low - spread, bounds.high + spread)


def _tightest(bounds: Bounds, bins: int = 200) -> Bounds:
    """The pairs with the tightest bounds per stretch of time; the others hardly affect the polygon of lines."""
    if len(bounds) <= 2 * bins:
        return bounds
    begin, end = bounds.time.min(), bounds.time.max()
    per_us = (bins - 1) / max(end - begin, 1.0)
    # The tightest of all are among the tightest of each part; parts take less memory.
    parts = [part.take(_tightest_places(part, begin, per_us)) for part in bounds.parts()]
    joined = Bounds.joined(parts)
    return joined if len(parts) == 1 else joined.take(_tightest_places(joined, begin, per_us))


def _tightest_places(bounds: Bounds, begin: float, per_us: float) -> NDArray[np.intp]:
    """Indices of the tightest pairs of each stretch of time."""
    place = ((bounds.time - begin) * per_us).astype(np.intp)
    order = stable_order(place, np.arange(len(place)))
    first = firsts(place[order])
    chosen = (_firsts_of_least(values[order], first) for values in (-bounds.low, bounds.high))
    return np.unique(order[np.concatenate(list(chosen))])


def _firsts_of_least(values: Floats, first: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first position of the least value of each group, given the positions at which groups begin.

    Example:
        >>> _firsts_of_least(np.array([2.0, 1.0, 1.0, 0.0, 3.0]), np.array([0, 3])).tolist()
        [1, 3]
    """
    least = np.repeat(np.minimum.reduceat(values, first), np.diff(first, append=len(values)))
    at = np.flatnonzero(values == least)
    return np.asarray(at[firsts(np.searchsorted(first, at, side="right"))])


def _least_violation(bounds: Bounds, reference: float) -> ClockLine:
    """The line with the least weighted sum of violations. Lower bounds weigh more: no delay can falsify them."""
    count = len(bounds)
    time = bounds.time - reference
    low, high, shift = bounds.low, bounds.high, float(np.median(bounds.low))
    scale = max(float(np.abs(time).max()), 1.0)
    # Row k says that the line is not above (below) bound k by more than its slack.
    sign, row = np.repeat([-1.0, 1.0], count), np.arange(2 * count)
    starts = np.concatenate([[0, 2 * count], np.arange(4 * count, 6 * count + 1)])
    values = np.concatenate([sign, sign * np.tile(time / scale, 2), np.full(2 * count, -1.0)])
    cost = np.concatenate([[0.0, 0.0], np.full(count, 20.0), np.ones(count)])
    drift = MAX_DRIFT * scale
    least = np.concatenate([[-np.inf, -drift], np.zeros(2 * count)])
    most = np.concatenate([[np.inf, drift], np.full(2 * count, np.inf)])
    solution = least_cost(
        cost, (starts, np.tile(row, 3), values), np.concatenate([-(low - shift), high - shift]), least, most
    )
    offset, slope = float(solution[0]) + shift, float(solution[1]) / scale
    return ClockLine(reference, offset, offset, offset, slope, slope, slope, count, 0)


def _extent(bounds: Bounds, inside: ClockLine) -> tuple[float, float, float, float]:
    """Smallest and largest offset (at the reference) and drift over all lines that satisfy every bound.

    `inside` is one of them; relative to it the numbers are small.
    """
    time, base = bounds.time - inside.reference, inside.at(bounds.time)
    low, high = np.minimum(bounds.low - base, 0.0), np.maximum(bounds.high - base, 0.0)
    least, most = _slopes(time, low, high)
    least, most = max(least, -MAX_DRIFT - inside.drift), min(most, MAX_DRIFT - inside.drift)
    bounded = np.isfinite(high)
    return (
        inside.offset + _lowest(time, low, least, most),
        inside.offset - _lowest(-time[bounded], -high[bounded], least, most),
        inside.drift + least,
        inside.drift + most,
    )


def _slopes(time: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """The smallest and the largest slope of lines above all lower and below all upper bounds, of which there are some.

    A line passes below an upper bound and above a lower one exactly if it is not steeper than the line through both.
    """
    apart = time[np.newaxis, :] - time[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (high[np.newaxis, :] - low[:, np.newaxis]) / apart
    return float(slope[apart < 0].max(initial=-np.inf)), float(slope[apart > 0].min(initial=np.inf))


def _lowest(time: Floats, low: Floats, least: float, most: float) -> float:
    """The smallest offset at time 0 of lines above all lower bounds, with a slope between `least` and `most`.

    For a slope r, the smallest offset is the maximum of `low - r time`, a convex function of r. At its minimum, either
    one bound is attained, with r at an end of its range, or two bounds, one before and one after time 0. The smallest
    offset under a single bound or pair never exceeds the smallest offset under all bounds, so the result is the largest
    of these offsets. This needs no iterative search, which rounding errors could prevent from ending.
    """
    alone = (low - np.where(time > 0, most, least) * time).max()
    after, before = time > 0, time < 0
    late, late_low, early, early_low = time[after][:, np.newaxis], low[after][:, np.newaxis], time[before], low[before]
    with np.errstate(over="ignore", under="ignore"):
        slope = np.clip((late_low - early_low) / (late - early), least, most)
        pair = np.maximum(late_low - slope * late, early_low - slope * early)
    return float(pair.max(initial=alone))
