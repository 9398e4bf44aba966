"""Quantiles and tails of common distributions, without the overhead of frozen distributions.

`scipy.stats.t.ppf` takes about 0.2 ms per call for its argument handling; an experiment's report makes thousands. The
import of `scipy.stats` alone takes a quarter of a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def compute_t_quantile(probability: float, df: float) -> float:
    """Quantile of Student's t.

    Example:
        >>> round(compute_t_quantile(0.975, 4), 6)
        2.776445
    """
    from scipy import special

    return float(special.stdtrit(df, probability))


def compute_t_tail(value: float, df: float) -> float:
    """Probability that Student's t exceeds a value.

    Example:
        >>> round(compute_t_tail(2.776445, 4), 6)
        0.025
    """
    from scipy import special

    return float(special.stdtr(df, -value))


def compute_f_quantile(probability: float, df: float, df_denominator: float) -> float:
    """Quantile of F.

    Example:
        >>> round(compute_f_quantile(0.95, 3, 10), 4)
        3.7083
    """
    from scipy import special

    return float(special.fdtri(df, df_denominator, probability))


def compute_f_tail(value: float, df: float, df_denominator: float) -> float:
    """Probability that F exceeds a value.

    Example:
        >>> round(compute_f_tail(3.7083, 3, 10), 3)
        0.05
    """
    from scipy import special

    return float(special.fdtrc(df, df_denominator, value))


def compute_chi2_quantile(probability: float, df: float) -> float:
    """Quantile of the chi-squared distribution.

    Example:
        >>> round(compute_chi2_quantile(0.95, 4), 4)
        9.4877
    """
    from scipy import special

    return float(special.chdtri(df, 1 - probability))


def compute_chi2_tail(value: float, df: float) -> float:
    """Probability that a chi-squared value exceeds another.

    Example:
        >>> round(compute_chi2_tail(9.4877, 4), 4)
        0.05
    """
    from scipy import special

    return float(special.chdtrc(df, value))


def compute_binomial_cdf(count: int, n: int, success: float) -> float:
    """Probability of at most `count` successes in n trials.

    Example:
        >>> compute_binomial_cdf(1, 3, 0.5)
        0.5
    """
    from scipy import special

    return float(special.bdtr(count, n, success))


def compute_binomial_quantile(probability: float, n: int, success: float) -> int:
    """Smallest number of successes for which the probability of at most that many in n trials reaches `probability`.

    Example:
        >>> compute_binomial_quantile(0.025, 10, 0.5), compute_binomial_quantile(0.975, 10, 0.5)
        (2, 8)
    """
    from scipy import special

    near = special.bdtrik(probability, n, success)
    found = min(max(math.ceil(near), 0), n) if math.isfinite(near) else 0
    # bdtrik solves for a real number, to its tolerance.
    while found > 0 and compute_binomial_cdf(found - 1, n, success) >= probability:
        found -= 1
    while found < n and compute_binomial_cdf(found, n, success) < probability:
        found += 1
    return found


def compute_normal_tail(value: float) -> float:
    """Probability that a standard normal value exceeds another.

    Example:
        >>> round(compute_normal_tail(1.959964), 6)
        0.025
    """
    from scipy import special

    return float(special.ndtr(-value))


def compute_normal_quantile(probability: float) -> float:
    """Quantile of the standard normal distribution.

    Example:
        >>> round(compute_normal_quantile(0.975), 6)
        1.959964
    """
    from scipy import special

    return float(special.ndtri(probability))


def find_smallest_n(holds: Callable[[int], bool], start: int, limit: int) -> int | None:
    """Smallest n from `start` to `limit` for which a condition holds; it must hold for all larger n, too.

    Example:
        >>> find_smallest_n(lambda n: n * n >= 50, 2, 100), find_smallest_n(lambda n: n > 9, 2, 5)
        (8, None)
    """
    if not holds(limit):
        return None
    low, high = start, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
