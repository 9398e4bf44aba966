"""Change points of a sequence of runs: whether its level changed, and where.

The test is a self-normalised CUSUM of the ranks. Its denominator is computed from the sequence itself, on both sides of
each place, so no model of outliers or dependent runs is needed. The place is that of the largest energy distance
(E-divisive). A sequence with a change is divided there, and both parts are tested again.

Several changes may hide each other from a test for a single change, and a long sequence may hide the newest change.
Sequences of 45 values and more are therefore also tested in windows: the whole, its first, middle and last two thirds,
and the newest 36 values; each window at its share of three quarters of the level (Bonferroni, and a quarter less,
because in short windows dependent runs resemble a change more).

The distribution of the statistic for independent runs without ties depends only on their number, so it is simulated for
each number, with a seed; ties are broken at random, with the same seed.

References:
    Shao, X. and Zhang, X. (2010). Testing for change points in time series. JASA 105.
    Matteson, D. S. and James, N. A. (2014). A nonparametric approach for multiple change point analysis. JASA 109.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.defaults import CHANGE_ALPHA, SEED
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import as_sample
from citus_analysis.texts.counted_words import counted

#: With fewer runs hardly any change is found.
FEWEST_TO_TRACK: Final = 12
#: From this many runs on, runs with an autocorrelation of 0.6 raise a false alarm in at most 5 % of sequences.
CALIBRATED_FROM: Final = 30
#: Simulated sequences for a p-value, and the length from which the statistic has its limiting distribution.
_REPEATS: Final = 20_000
_LIMIT: Final = 200
#: Share of the level that all windows of a long sequence have together. With all of it, and with the rule for the two
#: newest runs, 5.3 % of 70,000 sequences of 45 with an autocorrelation of 0.6 raised a false alarm.
_WINDOWS_SHARE: Final = 0.75
#: Values of the window at the end of a long sequence.
_NEWEST: Final = 36
#: Smallest number of runs on either side for E-divisive.
_BESIDE: Final = 2


@dataclass(frozen=True)
class ChangePoint:
    """One change of level.

    Attributes:
        index: place of the first value after the change, from 0.
        p_value: p-value of the part of the sequence that it divides, adjusted for the windows that were tested.
        statistic: self-normalised CUSUM of the window with the smallest p-value.
        n: number of values in that window.
    """

    index: int
    p_value: float
    statistic: float
    n: int


@dataclass(frozen=True, repr=False)
class ChangePoints(Shown):
    """The changes of level of a sequence.

    Attributes:
        points: the changes, in their order.
        p_value: p-value of the whole sequence for no change; nan if it is too short.
        n: number of values.
        alpha: level of each test.
        warnings: caveats.
    """

    points: tuple[ChangePoint, ...]
    p_value: float
    n: int
    alpha: float
    warnings: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there were enough values for a test."""
        return math.isfinite(self.p_value)

    @property
    def places(self) -> tuple[int, ...]:
        """The first place after each change."""
        return tuple(point.index for point in self.points)

    def segments(self) -> list[tuple[int, int]]:
        """First place of each part without a change, and the place after its last one."""
        ends = [0, *self.places, self.n]
        return list(pairwise(ends))

    def summary_lines(self) -> list[str]:
        """The changes in words, with the warnings."""
        found = [f"  from value {one.index + 1} on (p = {one.p_value:.2g}, n = {one.n})" for one in self.points]
        first = f"{counted(len(found), 'change')} in {counted(self.n, 'value')} (level {self.alpha:g})"
        return [first, *found, *(f"  note: {note}" for note in self.warnings)]


def find_changes(values: ArrayLike, alpha: float = CHANGE_ALPHA) -> ChangePoints:
    """The places at which the level of a sequence changes.

    A large change is found in seven of ten cases or more with twelve values after it, and in nearly nine of ten or more
    with fourteen, for any number of values before it.

    Args:
        values: values in the order of time.
        alpha: probability of a false alarm in a sequence of independent values without a change.

    Raises:
        UsageError: an alpha that is not between 0 and 1.

    Example:
        >>> quiet = [100.2, 99.8, 100.1, 99.7, 100.4, 99.9, 100.3, 99.6, 100.0, 100.5]
        >>> find_changes(quiet + [0.95 * value for value in quiet]).places
        (10,)
        >>> find_changes(quiet + quiet[::-1]).places
        ()
    """
    sample = as_sample(values, 0, "the sequence")
    if not 0 < alpha < 1:
        raise UsageError(f"a level of {alpha:g} is not between 0 and 1", way_out="pass 0.002 for 0.2 %")
    if sample.size < FEWEST_TO_TRACK:
        note = f"{counted(sample.size, 'run')}: too few to see a change (at least {FEWEST_TO_TRACK})"
        return ChangePoints((), float("nan"), sample.size, alpha, (note,))
    points = tuple(sorted(_divided(sample, 0, alpha), key=lambda point: point.index))
    few = f"{counted(sample.size, 'run')}: below {CALIBRATED_FROM}, dependent runs raise more false alarms than stated"
    notes = (few,) if sample.size < CALIBRATED_FROM else ()
    return ChangePoints(points, _clearest(sample).p_value, sample.size, alpha, notes)


def _divided(sample: Floats, start: int, alpha: float) -> Iterator[ChangePoint]:
    if sample.size < FEWEST_TO_TRACK:
        return
    clearest = _clearest(sample)
    if clearest.p_value > alpha:
        return
    place = clearest.index
    yield replace(clearest, index=start + place)
    yield from _divided(sample[:place], start, alpha)
    yield from _divided(sample[place:], start + place, alpha)


def _clearest(sample: Floats) -> ChangePoint:
    """The change of the window with the smallest p-value, significant or not."""
    windows = _windows(sample.size)
    parts = [sample[slice(*window)] for window in windows]
    statistics = [rank_cusum(part) for part in parts]
    p_values = [cusum_p_value(one, part.size) for one, part in zip(statistics, parts, strict=True)]
    best = int(np.argmin(p_values))
    place = windows[best][0] + _energy_place(parts[best])
    charged = len(windows) / _WINDOWS_SHARE if len(windows) > 1 else 1
    return ChangePoint(place, min(1.0, p_values[best] * charged), statistics[best], parts[best].size)


def _windows(n: int) -> list[tuple[int, int]]:
    """The windows in which a sequence of n values is tested.

    Example:
        >>> _windows(44), _windows(60)
        ([(0, 44)], [(0, 60), (0, 40), (10, 50), (20, 60), (24, 60)])
    """
    length = round(n * 2 / 3)
    if length < CALIBRATED_FROM:
        return [(0, n)]
    middle = (n - length) // 2
    thirds = [(0, n), (0, length), (middle, middle + length), (n - length, n)]
    return [*thirds, (n - _NEWEST, n)] if length > _NEWEST else thirds


def rank_cusum(values: ArrayLike) -> float:
    """Largest self-normalised CUSUM of the ranks of a sequence (G_n of Shao and Zhang).

    Raises:
        InsufficientDataError: fewer than 3 values.

    Example:
        >>> round(rank_cusum([2, 1, 3, 12, 11, 13]), 1), round(rank_cusum([2, 12, 1, 13, 3, 11]), 1)
        (60.8, 6.1)
    """
    sample = as_sample(values, 3, "the sequence")
    return float(_statistics(_ranks(sample)[np.newaxis])[0])


def cusum_p_value(statistic: float, n: int) -> float:
    """Share of sequences of n independent values without a change whose statistic is at least as large.

    Example:
        >>> cusum_p_value(0.0, 30)
        1.0
        >>> 0.04 < cusum_p_value(41.4, 200) < 0.06
        True
    """
    simulated = _simulated(min(n, _LIMIT))
    as_large = simulated.size - int(np.searchsorted(simulated, statistic, side="left"))
    return (as_large + 1) / (simulated.size + 1)


@lru_cache(maxsize=256)
def _simulated(n: int) -> Floats:
    """Statistics of sequences without a change, in rising order."""
    rng = np.random.default_rng([SEED, n])
    halves = [_statistics(rng.random((_REPEATS // 4, n)).argsort(axis=1).astype(np.float64)) for _ in range(4)]
    return np.sort(np.concatenate(halves))


def _ranks(sample: Floats) -> Floats:
    """Ranks from 0; equal values are ranked at random."""
    ties = np.random.default_rng(SEED).permutation(sample.size)
    ranks = np.empty(sample.size)
    ranks[np.lexsort((ties, sample))] = np.arange(sample.size)
    return ranks


def _statistics(ranks: Floats) -> Floats:
    """The largest statistic of each row."""
    n = ranks.shape[1]
    centred = ranks - (n - 1) / 2
    sums = np.cumsum(centred, axis=1)[:, :-1]
    noise = _noise(centred) + _noise(centred[:, ::-1])[:, ::-1]
    with np.errstate(divide="ignore"):
        return np.asarray((sums**2 * n / noise).max(axis=1))


def _noise(rows: Floats) -> Floats:
    """For each place, the squared distances of the sums up to it from a straight line to its end."""
    places = np.arange(1.0, rows.shape[1] + 1)
    sums = np.cumsum(rows, axis=1)
    slope = (sums / places)[:, :-1]
    squares = np.cumsum(sums**2, axis=1)[:, :-1]
    products = np.cumsum(sums * places, axis=1)[:, :-1]
    # Sums of squares can fall below 0 in their last digits.
    return np.asarray(np.maximum(squares - 2 * slope * products + slope**2 * np.cumsum(places**2)[:-1], 0.0))


def _energy_place(sample: Floats) -> int:
    """The division with the largest energy distance between its sides, weighted by their sizes (E-divisive).

    It uses values, not ranks, which near a large change do not show the side that a value belongs to.
    """
    n = sample.size
    whole = np.abs(sample[:, np.newaxis] - sample).cumsum(axis=0).cumsum(axis=1)
    first = np.arange(_BESIDE, n - _BESIDE + 1)
    second = n - first
    within_first, to_all = whole[first - 1, first - 1], whole[first - 1, -1]
    between = to_all - within_first
    within_second = whole[-1, -1] - 2 * to_all + within_first
    distance = 2 * between / (first * second) - within_first / first**2 - within_second / second**2
    return int(first[int(np.argmax(first * second / n * distance))])
