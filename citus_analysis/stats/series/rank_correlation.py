"""Kendall's rank correlation and the median slope, without `scipy.stats`, whose import takes longer than both.

References:
    Kendall, M. G. (1970). Rank Correlation Methods, 4th edition: the exact distribution, and the variance with ties.
    Sen, P. K. (1968). Estimates of the regression coefficient based on Kendall's tau. JASA 63.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.stats.estimate._student import normal_tail

__all__ = ["kendall", "median_slope"]

#: Largest n of the exact distribution. It is also used for larger n if at most one pair is out of order.
_EXACT_UP_TO: Final = 33


def kendall(order: Floats, values: Floats) -> tuple[float, float]:
    """Kendall's tau-b and its two-sided p-value: exact for few values without ties, otherwise by the normal curve.

    Args:
        order: numbers that are not all equal.
        values: as many numbers that are not all equal.

    Example:
        >>> tau, p_value = kendall(np.arange(5.0), np.array([1.0, 2.0, 3.0, 5.0, 4.0]))
        >>> tau, round(p_value, 4)
        (0.8, 0.0833)
    """
    n = len(order)
    first, second = np.triu_indices(n, 1)
    agreement = np.sign(order[second] - order[first]) * np.sign(values[second] - values[first])
    pairs, score, discordant = len(first), int(agreement.sum()), int((agreement < 0).sum())
    ties = [np.unique(one, return_counts=True)[1].astype(np.float64) for one in (order, values)]
    tied = [int((counts * (counts - 1)).sum()) // 2 for counts in ties]
    tau = score / math.sqrt(pairs - tied[0]) / math.sqrt(pairs - tied[1])
    fewest = min(discordant, pairs - discordant)
    if not any(tied) and (n <= _EXACT_UP_TO or fewest <= 1):
        return max(-1.0, min(1.0, tau)), _exact_p(n, fewest)
    return max(-1.0, min(1.0, tau)), 2 * normal_tail(abs(score) / math.sqrt(_variance(n, ties)))


@lru_cache(maxsize=256)
def _exact_p(n: int, inversions: int) -> float:
    """Twice the share of the orders of n values with at most that many inversions."""
    ways = np.zeros(inversions + 1, dtype=object)
    ways[0] = 1
    for size in range(2, n + 1):
        ways = np.cumsum(ways)
        ways[size:] = ways[size:] - ways[: max(0, inversions + 1 - size)]
    return min(1.0, 2 * int(ways.sum()) / math.factorial(n))


def _variance(n: int, ties: list[Floats]) -> float:
    """Variance of concordant less discordant pairs of n values, given the sizes of the groups of equal values."""
    scaled, pairs, triples = (
        [float(terms.sum()) for terms in each]
        for each in (
            [t * (t - 1) * (2 * t + 5) for t in ties],
            [t * (t - 1) for t in ties],
            [t * (t - 1) * (t - 2) for t in ties],
        )
    )
    whole = n * (n - 1.0)
    untied = (whole * (2 * n + 5) - sum(scaled)) / 18
    return untied + pairs[0] * pairs[1] / (2 * whole) + triples[0] * triples[1] / (9 * whole * (n - 2))


def median_slope(order: Floats, values: Floats) -> float:
    """The median of the slopes between all pairs of values at different places (Theil-Sen).

    Example:
        >>> median_slope(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 6.0, 0.0]))
        0.0
    """
    apart = np.subtract.outer(order, order)
    later = apart > 0
    return float(np.median(np.subtract.outer(values, values)[later] / apart[later]))
