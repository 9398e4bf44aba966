"""Clocks that were set while their node wrote its log.

Between two settings, an offset is a line (:mod:`citus_analysis.spans.match.clocks`); a setting (a step of `ntpd`, a
virtual machine that was paused) moves all later offsets. If many pairs contradict a single line, the pairs are divided
at the time at which two lines fit them best, and each part is divided again.

A step is accepted if each part agrees with its own line and at least two sessions run across it: a lost statement looks
like a step, too, but in its own session only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.spans.match.clocks import TOLERANCE_US, Bounds, ClockLine, fit_clock

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

Integers = NDArray[np.integer]


def fit_steps(bounds: Bounds, session: Integers) -> ClockLine:
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
        if parts := _parts(bounds.take(order), session[order], _MOST_PARTS):
            return replace(parts[0], later=tuple(parts[1:]))
    return line


def _leaves_many(line: ClockLine, bounds: Bounds) -> bool:
    beside = int((line.violation(bounds) > TOLERANCE_US).sum())
    return beside > max(_FEW, _SHARE * len(bounds))


def _parts(bounds: Bounds, session: Integers, most: int) -> list[ClockLine]:
    """The pieces of a line over pairs in order of time; an empty list if pieces do not explain the pairs."""
    line = fit_clock(bounds)
    if not _leaves_many(line, bounds):
        return [line]
    if most < 2 or len(bounds) < 2 * _LEAST:
        return []
    at = _refined(bounds, _best_split(bounds))
    if not _LEAST <= at <= len(bounds) - _LEAST:
        return []
    if len(np.intersect1d(session[:at], session[at:])) < _WITNESSES:
        return []
    before = _parts(bounds.take(np.arange(at)), session[:at], most - 1)
    after = _parts(bounds.take(np.arange(at, len(bounds))), session[at:], most - len(before))
    if not before or not after:
        return []
    begins = float((bounds.time[at - 1] + bounds.time[at]) / 2)
    return [*before, replace(after[0], since=begins), *after[1:]]


def _best_split(bounds: Bounds) -> int:
    """The index at which two straight lines fit the middles of the narrower half of the bounds best."""
    width = bounds.high - bounds.low
    near = np.flatnonzero(width <= np.median(width))
    time, middle = bounds.time[near] - bounds.time.mean(), ((bounds.low + bounds.high) / 2)[near]
    time, middle = time / max(float(np.abs(time).max()), 1.0), middle - np.median(middle)
    left = _squares(time, middle)
    right = _squares(time[::-1], middle[::-1])[::-1]
    edge = min(_LEAST // 2, (len(near) - 1) // 2)
    cost = (left[:-1] + right[1:])[edge : len(near) - 1 - edge]
    return int(near[edge + int(np.argmin(cost)) + 1]) if len(cost) else 0


def _squares(time: Floats, value: Floats) -> Floats:
    """The residual sum of squares of a straight line through the first 1, 2, 3 ... points."""
    count = np.arange(1, len(time) + 1)
    t, v, tt, tv, vv = (np.cumsum(part) for part in (time, value, time * time, time * value, value * value))
    of_time, both, of_value = tt - t * t / count, tv - t * v / count, vv - v * v / count
    explained = np.divide(both * both, of_time, out=np.zeros(len(time)), where=of_time > 1e-12)
    return np.maximum(of_value - explained, 0.0)


def _refined(bounds: Bounds, at: int) -> int:
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
