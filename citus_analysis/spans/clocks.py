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

from citus_analysis.core.type_aliases import Floats
from citus_analysis.spans.ordered_arrays import AnyIntegers, find_group_starts, sort_rows_stably

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
class OffsetBounds:
    """Bounds on an offset from pairs: one element per pair, times in microseconds of the parent's clock."""

    time: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def joined(cls, parts: Sequence[OffsetBounds]) -> OffsetBounds:
        """All bounds of several parts (at least one)."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("time", "low", "high")))

    def beyond(self, line: ClockLine) -> OffsetBounds:
        """Bounds on the offset to a third clock, given the line from the child's clock to it."""
        further = line.at(self.time + (self.low + self.high) / 2)
        low, high = line.offset_low - line.offset, line.offset_high - line.offset
        return OffsetBounds(self.time, self.low + further + low, self.high + further + high)

    def take(self, chosen: NDArray[np.bool_] | AnyIntegers | slice) -> OffsetBounds:
        """The bounds of some pairs."""
        return OffsetBounds(self.time[chosen], self.low[chosen], self.high[chosen])

    def parts(self) -> Iterator[OffsetBounds]:
        """The bounds in parts that fit into the processor's cache."""
        for begin in range(0, len(self), _AT_ONCE):
            yield self.take(slice(begin, begin + _AT_ONCE))

    def where(self, chosen: NDArray[np.bool_]) -> OffsetBounds:
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

    def violation(self, bounds: OffsetBounds) -> Floats:
        """The time by which each pair contradicts the line, microseconds; 0 if it agrees.

        Around a step either piece may be valid, because a clock that is set back shows some times twice.
        """
        return np.concatenate([self._violation(part) for part in bounds.parts()] or [np.zeros(0)])

    def _violation(self, bounds: OffsetBounds) -> Floats:
        least = _compute_bound_violations(self, bounds)
        for before, after in zip(self.pieces, self.later, strict=False):
            step = abs(2 * (before.middle(after) - before.at(np.array([after.since]))[0]))
            own, room = _compute_bound_violations(after, bounds), step + TOLERANCE_US
            near = np.abs(bounds.time - after.since) <= room
            least = np.where(near, np.minimum(least, own), np.where(bounds.time > after.since, own, least))
        return least


def _compute_bound_violations(piece: ClockLine, bounds: OffsetBounds) -> Floats:
    offset = piece.offset + piece.drift * (bounds.time - piece.reference)
    return np.maximum(0.0, np.maximum(bounds.low - offset, offset - bounds.high))


#: A node compared with itself.
SAME_CLOCK: Final = ClockLine(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)


def find_most_agreed_offset(bounds: OffsetBounds) -> tuple[float, int, int]:
    """The constant offset that satisfies the most bounds.

    Returns:
        The offset, the number of bounds that it satisfies, and the number that the best offset elsewhere satisfies; if
        the two numbers are nearly equal, so are the likelihoods of the two offsets.
    """
    return _find_most_agreed_in_place(bounds.low.copy(), bounds.high.copy())


def _find_most_agreed_in_place(low: Floats, high: Floats) -> tuple[float, int, int]:
    """As :func:`find_most_agreed_offset`; the bounds are sorted in place."""
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
    second = [_find_largest_depth(depth, low, offset, apart)]
    depth = np.searchsorted(low, high, side="right").astype(np.int32)
    depth -= np.arange(1, len(high) + 1, dtype=np.int32)
    second.append(_find_largest_depth(depth, high, offset, apart))
    return offset, most, max(second)


def _find_largest_depth(depth: NDArray[np.int32], edges: Floats, offset: float, apart: float) -> int:
    """The largest depth at edges that are further from an offset than `apart`."""
    # In place: of millions of pairs, each array takes tens of megabytes.
    away = edges - offset
    np.abs(away, out=away)
    return int(depth.max(where=away > apart, initial=0))


def fit_clock(bounds: OffsetBounds) -> ClockLine:
    """The line of offsets that pairs (at least one) allow, with the extent of all lines that they allow."""
    reference = float((bounds.time.min() + bounds.time.max()) / 2)
    near = _select_agreeing_pairs(bounds, reference)
    first = _fit_least_violation_line(_select_tightest_pairs(near), reference)
    agreeing = near.where(first.violation(near) <= 1e-6)
    offset_low, offset_high, drift_low, drift_high = _compute_feasible_extent(
        _select_tightest_pairs(_drop_delayed_bounds(agreeing, first)), first
    )
    drift = (drift_low + drift_high) / 2
    # The offset if delays were equal both ways, from the quarter of pairs with the least delay.
    width = agreeing.high - agreeing.low
    quick = agreeing.take(width <= np.quantile(width, 0.25))
    symmetric = float(((quick.low + quick.high) / 2 - drift * (quick.time - reference)).mean())
    offset, drifts = min(max(symmetric, offset_low), offset_high), (drift, drift_low, drift_high)
    return ClockLine(reference, offset, offset_low, offset_high, *drifts, len(bounds), len(bounds) - len(agreeing))


def _drop_delayed_bounds(bounds: OffsetBounds, line: ClockLine) -> OffsetBounds:
    room = bounds.high - line.at(bounds.time)
    count = min(int(np.ceil(DELAYED_SHARE * len(bounds))), len(bounds) - 1)
    limit = np.partition(room, count - 1)[count - 1] if count else -np.inf
    delayed = room < limit
    delayed[np.flatnonzero(room == limit)[: count - int(delayed.sum())]] = True
    return OffsetBounds(bounds.time, bounds.low, np.where(delayed, np.inf, bounds.high))


def _select_agreeing_pairs(bounds: OffsetBounds, reference: float) -> OffsetBounds:
    """Pairs near the offset that most of them allow; wrong pairs may show any offset."""
    wide = _widen_by_drift(bounds, reference)
    offset, _, _ = _find_most_agreed_in_place(wide.low, wide.high)
    del wide
    reach = 50 * RESOLUTION_US
    parts = (_widen_by_drift(part, reference) for part in bounds.parts())
    return bounds.where(np.concatenate([(p.low <= offset + reach) & (p.high >= offset - reach) for p in parts]))


def _widen_by_drift(bounds: OffsetBounds, reference: float) -> OffsetBounds:
    """Bounds on the offset at a reference time for any possible drift."""
    spread = MAX_DRIFT * np.abs(bounds.time - reference)
    return OffsetBounds(bounds.time, bounds.low - spread, bounds.high + spread)


def _select_tightest_pairs(bounds: OffsetBounds, bins: int = 200) -> OffsetBounds:
    """The pairs with the tightest bounds per interval of time; the others hardly affect the polygon of lines."""
    if len(bounds) <= 2 * bins:
        return bounds
    begin, end = bounds.time.min(), bounds.time.max()
    per_us = (bins - 1) / max(end - begin, 1.0)
    # The tightest of all are among the tightest of each part; parts take less memory.
    parts = [part.take(_find_tightest_indices(part, begin, per_us)) for part in bounds.parts()]
    joined = OffsetBounds.joined(parts)
    return joined if len(parts) == 1 else joined.take(_find_tightest_indices(joined, begin, per_us))


def _find_tightest_indices(bounds: OffsetBounds, begin: float, per_us: float) -> NDArray[np.intp]:
    """Indices of the tightest pairs of each interval of time."""
    place = ((bounds.time - begin) * per_us).astype(np.intp)
    order = sort_rows_stably(place, np.arange(len(place)))
    first = find_group_starts(place[order])
    chosen = (_find_first_minima(values[order], first) for values in (-bounds.low, bounds.high))
    return np.unique(order[np.concatenate(list(chosen))])


def _find_first_minima(values: Floats, first: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first position of the least value of each group, given the positions at which groups begin.

    Example:
        >>> _find_first_minima(np.array([2.0, 1.0, 1.0, 0.0, 3.0]), np.array([0, 3])).tolist()
        [1, 3]
    """
    least = np.repeat(np.minimum.reduceat(values, first), np.diff(first, append=len(values)))
    at = np.flatnonzero(values == least)
    return np.asarray(at[find_group_starts(np.searchsorted(first, at, side="right"))])


def _fit_least_violation_line(bounds: OffsetBounds, reference: float) -> ClockLine:
    """The line with the least weighted sum of violations. Lower bounds weigh more: no delay can falsify them."""
    # Imported late: the import takes a third of a second.
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    count = len(bounds)
    time = bounds.time - reference
    low, high, shift = bounds.low, bounds.high, float(np.median(bounds.low))
    scale = max(float(np.abs(time).max()), 1.0)
    # Row k says that the line is not above (below) bound k by more than its slack.
    sign, row = np.repeat([-1.0, 1.0], count), np.arange(2 * count)
    starts = np.concatenate([[0, 2 * count], np.arange(4 * count, 6 * count + 1)])
    values = np.concatenate([sign, sign * np.tile(time / scale, 2), np.full(2 * count, -1.0)])
    rows = csc_array((values, np.tile(row, 3), starts), shape=(2 * count, 2 + 2 * count))
    cost = np.concatenate([[0.0, 0.0], np.full(count, 20.0), np.ones(count)])
    drift = MAX_DRIFT * scale
    least = np.concatenate([[-np.inf, -drift], np.zeros(2 * count)])
    most = np.concatenate([[np.inf, drift], np.full(2 * count, np.inf)])
    limits = np.concatenate([-(low - shift), high - shift])
    bounds_of_variables = np.column_stack([least, most])
    found = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds_of_variables)  # type: ignore[call-overload] # documented
    if found.x is None:
        raise ArithmeticError(f"linear programme: {found.message}")
    solution = found.x
    offset, slope = float(solution[0]) + shift, float(solution[1]) / scale
    return ClockLine(reference, offset, offset, offset, slope, slope, slope, count, 0)


def _compute_feasible_extent(bounds: OffsetBounds, inside: ClockLine) -> tuple[float, float, float, float]:
    """Smallest and largest offset (at the reference) and drift over all lines that satisfy every bound.

    `inside` is one of them; relative to it the numbers are small.
    """
    time, base = bounds.time - inside.reference, inside.at(bounds.time)
    low, high = np.minimum(bounds.low - base, 0.0), np.maximum(bounds.high - base, 0.0)
    least, most = _compute_slope_range(time, low, high)
    least, most = max(least, -MAX_DRIFT - inside.drift), min(most, MAX_DRIFT - inside.drift)
    bounded = np.isfinite(high)
    return (
        inside.offset + _find_smallest_offset(time, low, least, most),
        inside.offset - _find_smallest_offset(-time[bounded], -high[bounded], least, most),
        inside.drift + least,
        inside.drift + most,
    )


def _compute_slope_range(time: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """The smallest and the largest slope of lines above all lower and below all upper bounds, of which there are some.

    A line passes below an upper bound and above a lower one exactly if it is not steeper than the line through both.
    """
    apart = time[np.newaxis, :] - time[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (high[np.newaxis, :] - low[:, np.newaxis]) / apart
    return float(slope[apart < 0].max(initial=-np.inf)), float(slope[apart > 0].min(initial=np.inf))


def _find_smallest_offset(time: Floats, low: Floats, least: float, most: float) -> float:
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


# Clocks that were set while their node wrote its log.
#
# Between two settings, an offset is a line (:mod:`citus_analysis.spans.clocks`); a setting (a step of `ntpd`, a virtual
# machine that was paused) moves all later offsets. If many pairs contradict a single line, the pairs are divided at the
# time at which two lines fit them best, and each part is divided again.
#
# A step is accepted if each part agrees with its own line and at least two sessions run across it: a lost statement
# looks like a step, too, but in its own session only.

#: Number, or share, of pairs off the line up to which they are considered late records and not a sign of a step.
_FEW: Final = 5
_SHARE: Final = 0.005
#: Fewest pairs of a part between two steps, and most parts.
_LEAST: Final = 10
_MOST_PARTS: Final = 16
#: Pairs before and after a step that locate it, and the most pairs between it and a first guess.
_AROUND: Final = 100
_NEAR: Final = 5
#: Sessions that must run across a step.
_WITNESSES: Final = 2

IntegerArray = NDArray[np.integer]


def fit_steps(bounds: OffsetBounds, session: IntegerArray) -> ClockLine:
    """The line of offsets that pairs allow, in pieces where a clock was set.

    Args:
        bounds: of at least one pair.
        session: number of the parent's session of each pair.
    """
    line = fit_clock(bounds)
    if not _leaves_many(line, bounds):
        return line
    # A clock that is set back shows some times twice; by the other clock, the pairs are then in order.
    for time in (bounds.time, bounds.time + (bounds.low + bounds.high) / 2):
        order = np.argsort(time, kind="stable")
        if parts := _split_into_lines(bounds.take(order), session[order], _MOST_PARTS):
            return replace(parts[0], later=tuple(parts[1:]))
    return line


def _leaves_many(line: ClockLine, bounds: OffsetBounds) -> bool:
    beside = int((line.violation(bounds) > TOLERANCE_US).sum())
    return beside > max(_FEW, _SHARE * len(bounds))


def _split_into_lines(bounds: OffsetBounds, session: IntegerArray, most: int) -> list[ClockLine]:
    """The pieces of a line over pairs in order of time; an empty list if pieces do not explain the pairs."""
    line = fit_clock(bounds)
    if not _leaves_many(line, bounds):
        return [line]
    if most < 2 or len(bounds) < 2 * _LEAST:
        return []
    at = _refine_split(bounds, _find_best_line_split(bounds))
    if not _LEAST <= at <= len(bounds) - _LEAST:
        return []
    if len(np.intersect1d(session[:at], session[at:])) < _WITNESSES:
        return []
    before = _split_into_lines(bounds.take(np.arange(at)), session[:at], most - 1)
    after = _split_into_lines(bounds.take(np.arange(at, len(bounds))), session[at:], most - len(before))
    if not before or not after:
        return []
    begins = float((bounds.time[at - 1] + bounds.time[at]) / 2)
    return [*before, replace(after[0], since=begins), *after[1:]]


def _find_best_line_split(bounds: OffsetBounds) -> int:
    """The index at which two straight lines fit the middles of the narrower half of the bounds best."""
    width = bounds.high - bounds.low
    near = np.flatnonzero(width <= np.median(width))
    time, middle = bounds.time[near] - bounds.time.mean(), ((bounds.low + bounds.high) / 2)[near]
    time, middle = time / max(float(np.abs(time).max()), 1.0), middle - np.median(middle)
    left = _compute_residual_squares(time, middle)
    right = _compute_residual_squares(time[::-1], middle[::-1])[::-1]
    edge = min(_LEAST // 2, (len(near) - 1) // 2)
    cost = (left[:-1] + right[1:])[edge : len(near) - 1 - edge]
    return int(near[edge + int(np.argmin(cost)) + 1]) if len(cost) else 0


def _compute_residual_squares(time: Floats, value: Floats) -> Floats:
    """The residual sum of squares of a straight line through the first 1, 2, 3 ... points."""
    count = np.arange(1, len(time) + 1)
    t, v, tt, tv, vv = (np.cumsum(part) for part in (time, value, time * time, time * value, value * value))
    of_time, both, of_value = tt - t * t / count, tv - t * v / count, vv - v * v / count
    explained = np.divide(both * both, of_time, out=np.zeros(len(time)), where=of_time > 1e-12)
    return np.maximum(of_value - explained, 0.0)


def _refine_split(bounds: OffsetBounds, at: int) -> int:
    """The split near a first guess with the least violation of the lines through the pairs on both sides."""
    begin, end = max(at - _AROUND, 0), min(at + _AROUND, len(bounds))
    # The guess may be some pairs away from the step.
    sides = np.arange(begin, max(at - _NEAR, begin)), np.arange(min(at + _NEAR, end), end)
    if min(map(len, sides)) < _NEAR:
        return at
    near = bounds.take(np.arange(begin, end))
    # Late records weigh no more than pairs on the wrong side of the step.
    beside = [np.minimum(fit_clock(bounds.take(side)).violation(near), TOLERANCE_US) for side in sides]
    lost_before = np.concatenate([[0.0], np.cumsum(beside[0])])
    lost_after = np.concatenate([[0.0], np.cumsum(beside[1][::-1])])[::-1]
    return begin + int(np.argmin(lost_before + lost_after))
