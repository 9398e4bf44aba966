"""Tests by ranks whose null distributions are counted: Kendall's rank correlation and the signed-rank test.

`scipy.stats` has both, and its import takes as long as a whole comparison of some hundred runs. Tests hold these to it.

References:
    Kendall, M. G. (1938). A new measure of rank correlation. Biometrika 30.
    Kendall, M. G. (1970). Rank correlation methods, 4th edition, chapter 4 (the variance with ties).
    Wilcoxon, F. (1945). Individual comparisons by ranking methods. Biometrics Bulletin 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.stats._validate import validate_sample
from citus_analysis.stats.distributions import compute_normal_tail

#: Up to this many values the null distribution of Kendall's score is counted.
_COUNTED_ORDERS: Final = 33


@dataclass(frozen=True)
class RankCorrelation:
    """Kendall's tau-b and its two-sided p-value; both are nan where one side has a single value."""

    tau: float
    p_value: float


def correlate_ranks(a: ArrayLike, b: ArrayLike) -> RankCorrelation:
    """Kendall's rank correlation of two sequences: exact for up to 33 values without ties, else by the normal.

    Example:
        >>> correlate_ranks([1, 2, 3, 4, 5], [10, 20, 30, 50, 40])
        RankCorrelation(tau=0.8, p_value=0.08333333333333333)
    """
    x, y = validate_sample(a, 1), validate_sample(b, 1)
    n = x.size
    first, second = np.triu_indices(n, 1)
    score = int((np.sign(x[second] - x[first]) * np.sign(y[second] - y[first])).sum())
    ties_x, ties_y = (np.unique(side, return_counts=True)[1].astype(np.float64) for side in (x, y))
    pairs = n * (n - 1) / 2
    untied_x, untied_y = (pairs - float((ties * (ties - 1)).sum()) / 2 for ties in (ties_x, ties_y))
    if not untied_x or not untied_y:
        return RankCorrelation(math.nan, math.nan)
    tau = score / math.sqrt(untied_x * untied_y)
    if n <= _COUNTED_ORDERS and untied_x == untied_y == pairs:
        return RankCorrelation(tau, _count_orders(n, int(pairs - abs(score)) // 2))
    return RankCorrelation(tau, min(1.0, 2 * compute_normal_tail(abs(score) / _score_deviation(n, ties_x, ties_y))))


def _count_orders(n: int, inversions: int) -> float:
    """Twice the share of the orders of n values with at most so many inversions; at most 1."""
    ways = [1]
    for size in range(2, n + 1):
        sums = [0]
        for number in ways:
            sums.append(sums[-1] + number)
        # The value at place `size` adds 0 to `size` - 1 inversions.
        longest = len(ways) + size - 1
        ways = [sums[min(at + 1, len(ways))] - sums[max(0, at + 1 - size)] for at in range(longest)]
    return min(1.0, 2 * sum(ways[: inversions + 1]) / math.factorial(n))


def _score_deviation(n: int, ties_x: Floats, ties_y: Floats) -> float:
    """Standard deviation of Kendall's score in random orders; ties: number of occurrences of each value."""
    pairs = n * (n - 1)
    variance = float(pairs * (2 * n + 5))
    product_2, product_3 = 1.0, 1.0
    for ties in (ties_x, ties_y):
        variance -= float((ties * (ties - 1) * (2 * ties + 5)).sum())
        product_2 *= float((ties * (ties - 1)).sum())
        product_3 *= float((ties * (ties - 1) * (ties - 2)).sum())
    third = product_3 / (9 * pairs * (n - 2)) if n > 2 else 0.0
    return math.sqrt(variance / 18 + product_2 / (2 * pairs) + third)


def compute_signed_rank_p_value(differences: ArrayLike) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test, counted over all signs of the ranks; zeros are left out.

    With ties, the distribution is that of the mid-ranks.

    Example:
        >>> compute_signed_rank_p_value([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == 2 / 2**6
        True
    """
    sample = validate_sample(differences, 1)
    sample = sample[sample != 0]
    if not sample.size:
        return 1.0
    _, places, ties = np.unique(np.abs(sample), return_inverse=True, return_counts=True)
    # Twice the mid-ranks are whole numbers, by which sums are counted.
    ranks: Integers = (2 * np.cumsum(ties) - ties + 1)[places]
    share = np.zeros(int(ranks.sum()) + 1)
    share[0] = 1.0
    for rank in ranks.tolist():
        moved = share / 2
        share = moved.copy()
        share[rank:] += moved[:-rank]
    observed = int(ranks[sample > 0].sum())
    return min(1.0, 2 * float(min(share[: observed + 1].sum(), share[observed:].sum())))
