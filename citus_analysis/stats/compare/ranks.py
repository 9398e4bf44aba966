"""Rank statistics of two samples: Mann-Whitney, the Hodges-Lehmann shift and Cliff's delta.

Without ties, the test is scipy's. The null distributions of a test with ties and of the interval of the shift are
counted here, because scipy has no public function for them.

References:
    Hollander, M. and Wolfe, D. A. (1999). Nonparametric Statistical Methods, 2nd edition, chapter 4.
    Cliff, N. (1993). Dominance statistics: ordinal analyses to answer ordinal questions. Psychological Bulletin 114.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats, Integers
from citus_analysis.defaults import LEVEL
from citus_analysis.stats._validate import as_sample, check_level
from citus_analysis.stats.estimate._student import normal_quantile, normal_tail
from citus_analysis.stats.results import Interval
from citus_analysis.texts.counted_words import counted

#: Up to this many values per sample the null distribution of U is counted exactly.
_EXACT_UP_TO: Final = 30


def mann_whitney_p(a: ArrayLike, b: ArrayLike) -> float:
    """Two-sided p-value of the Mann-Whitney test: exact for samples of up to 30 values, also with ties.

    With ties, the distribution is that of the mid-ranks over all divisions of the values into two samples of these
    sizes, and the p-value is twice the smaller tail.

    Example:
        >>> mann_whitney_p([1.1, 2.2, 3.3, 4.4], [5.5, 6.6, 7.7, 8.8]) == 2 / 70
        True
        >>> mann_whitney_p([1.0, 1.0, 1.0], [1.1, 1.1, 1.1])
        0.1
    """
    x, y = as_sample(a, 1), as_sample(b, 1)
    pooled = np.concatenate([x, y])
    if np.ptp(pooled) == 0:
        return 1.0
    _, places, ties = np.unique(pooled, return_inverse=True, return_counts=True)
    if max(x.size, y.size) > _EXACT_UP_TO:
        return _asymptotic(x.size, places, ties)
    if ties.size < pooled.size:
        return _exact_with_ties(x.size, places, ties)
    from scipy import stats

    return float(stats.mannwhitneyu(x, y, method="exact").pvalue)


def _exact_with_ties(first: int, places: Integers, ties: Integers) -> float:
    """The p-value by counting all divisions of the mid-ranks; the arguments are those of :func:`_asymptotic`."""
    # Twice the mid-ranks are whole numbers, by which sums are counted.
    doubled = 2 * np.cumsum(ties) - ties + 1
    ways = np.zeros((first + 1, int((doubled * ties).sum()) + 1))
    ways[0, 0] = 1
    for score in doubled[places]:
        ways[1:, score:] += ways[:-1, :-score]
    of_size = ways[first]
    observed = int(doubled[places[:first]].sum())
    total = math.comb(len(places), first)
    return min(1.0, 2 * float(min(of_size[: observed + 1].sum(), of_size[observed:].sum())) / total)


def _asymptotic(first: int, places: Integers, ties: Integers) -> float:
    """The p-value by the normal distribution, with the corrections for ties and for continuity.

    Args:
        first: size of the first sample.
        places: index of each value among the distinct values.
        ties: number of occurrences of each distinct value.
    """
    n, second = len(places), len(places) - first
    ranks = np.cumsum(ties) - (ties - 1) / 2
    u = float(ranks[places[:first]].sum()) - first * (first + 1) / 2
    tied = float((ties.astype(np.float64) ** 3 - ties).sum()) / (n * (n - 1))
    deviation = math.sqrt(first * second / 12 * (n + 1 - tied))
    return min(1.0, 2 * normal_tail((max(u, first * second - u) - first * second / 2 - 0.5) / deviation))


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Probability that a value of `a` exceeds one of `b`, minus the probability of the reverse: from -1 to 1.

    Example:
        >>> cliffs_delta([3, 4, 5], [1, 2, 3])
        0.8888888888888888
    """
    x, y = as_sample(a, 1), np.sort(as_sample(b, 1))
    below = np.searchsorted(y, x, side="left").sum()
    above = y.size * x.size - np.searchsorted(y, x, side="right").sum()
    return float(below - above) / (x.size * y.size)


def hodges_lehmann(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> Interval:
    """Shift of `a` against `b`: median of all differences, with the interval that Mann-Whitney's test implies.

    Samples that are too small for the level have no interval, such as 3 against 3 runs at 95 %.

    Example:
        >>> shift = hodges_lehmann([10, 11, 12, 13], [1, 2, 3, 4])
        >>> shift.estimate, shift.low, shift.high
        (9.0, 6.0, 12.0)
    """
    check_level(level)
    x, y = as_sample(a, 1), as_sample(b, 1)
    differences = np.sort(np.subtract.outer(x, y), axis=None)
    rank = _shift_rank(x.size, y.size, (1 - level) / 2)
    estimate, n = float(np.median(differences)), min(x.size, y.size)
    if rank == 0:
        note = f"{x.size} against {counted(y.size, 'value')} cannot bound a shift at {level * 100:g} %"
        return Interval.absent(estimate, level, n, "Hodges-Lehmann", note)
    ends = float(differences[rank - 1]), float(differences[-rank])
    return Interval(estimate, *ends, level, n, "Hodges-Lehmann")


def _shift_rank(m: int, n: int, tail: float) -> int:
    """Largest r with P(U <= r - 1) <= tail under no shift; the r-th smallest difference is the lower end."""
    if max(m, n) <= _EXACT_UP_TO:
        return int(np.searchsorted(_u_distribution(min(m, n), max(m, n)), tail, side="right"))
    spread = math.sqrt(m * n * (m + n + 1) / 12)
    return max(0, math.floor(m * n / 2 + normal_quantile(tail) * spread))


@lru_cache(maxsize=256)
def _u_distribution(m: int, n: int) -> Floats:
    """P(U <= u) for u = 0 .. mn: cumulated coefficients of the Gaussian binomial (m+n choose m)."""
    size = m * n + 1
    ways = np.zeros(size, dtype=object)
    ways[0] = 1
    for i in range(1, m + 1):
        ways[n + i :] = ways[n + i :] - ways[: max(0, size - n - i)]
        for start in range(i):
            ways[start::i] = np.cumsum(ways[start::i])
    total = math.comb(m + n, m)
    return np.array([float(count) / total for count in np.cumsum(ways)])
