"""Percentiles with intervals: order statistics, Harrell-Davis, BCa; from samples and from histograms.

References:
    Le Boudec, J.-Y. (2010). Performance Evaluation of Computer and Communication Systems, section 2.2 and appendix A.
    Harrell, F. E. and Davis, C. E. (1982). A new distribution-free quantile estimator. Biometrika 69.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import LEVEL, RESAMPLES, SEED
from citus_analysis.errors import InsufficientDataError, UsageError, require_known
from citus_analysis.stats._validate import Seed, as_sample, check_level, check_percentile
from citus_analysis.stats.estimate._student import binomial_at_most, binomial_quantile, normal_quantile
from citus_analysis.stats.estimate.bootstrap import bca_interval
from citus_analysis.stats.results import Interval

PercentileMethod = Literal["order", "harrell-davis", "bca"]
_METHODS = ("order", "harrell-davis", "bca")


def values_needed(q: float, level: float = LEVEL) -> int:
    """Smallest number of independent values that supports a two-sided interval of the q-th percentile.

    Both ends exist if all values lie on one side of the percentile with a probability of at most (1 - level) / 2.

    Example:
        >>> values_needed(50), values_needed(99), values_needed(99.9)
        (6, 368, 3688)
    """
    p = check_percentile(q)
    return math.ceil(math.log((1 - check_level(level)) / 2) / math.log(max(p, 1 - p)))


def supporting(q: float) -> int:
    """Smallest number of values of which at least one is expected beyond the q-th percentile.

    Example:
        >>> supporting(50), supporting(95), supporting(99)
        (2, 20, 100)
    """
    p = check_percentile(q)
    return math.ceil(round(1 / min(p, 1 - p), 6))


def check_supports(n: int, q: float) -> None:
    """Refuse to estimate a percentile beyond which fewer than one value is expected.

    Raises:
        InsufficientDataError: there are too few values; the estimate would be the largest (or smallest) of them.
    """
    if n < (needed := supporting(q)):
        raise InsufficientDataError(
            f"a run of {n:,} values has no {q:g}th percentile", way_out=f"at least {needed:,} values are needed"
        )


def percentile_ranks(n: int, q: float, level: float = LEVEL) -> tuple[int, int]:
    """Ranks (from 1) of the two order statistics that enclose the q-th percentile at least at the level.

    Raises:
        InsufficientDataError: there are too few values for the interval; the message names the n needed.

    Example:
        The median of 10 values lies between the 2nd and the 9th.

        >>> percentile_ranks(10, 50)
        (2, 9)
    """
    needed = values_needed(q, level)
    if n < needed:
        raise InsufficientDataError(
            f"too few values ({n:,}) for a {level * 100:g} % interval of the {q:g}th percentile",
            way_out=f"at least {needed} are needed",
        )
    tail, p = (1 - level) / 2, check_percentile(q)
    low = binomial_quantile(tail, n, p)
    # This is the smallest rank whose probability reaches the tail; at equality, the next one is allowed.
    low += int(binomial_at_most(low, n, p) <= tail)
    high = binomial_quantile(1 - tail, n, p) + 1
    return max(low, 1), min(high, n)


def percentile_interval(
    values: ArrayLike,
    q: float,
    method: PercentileMethod = "order",
    level: float = LEVEL,
    *,
    resamples: int = RESAMPLES,
    seed: Seed = SEED,
) -> Interval:
    """Interval of the q-th percentile (in per cent: 99 for the 99th) of independent values.

    Args:
        values: independent values; a sequence in time must be thinned to its effective sample size first.
        q: percentile in per cent, from 1 up to below 100.
        method: ``order`` (distribution-free, conservative), ``harrell-davis`` (a smooth estimate with its
            Maritz-Jarrett standard error; shorter for small samples) or ``bca`` (bootstrap).
        level: confidence level.
        resamples: bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        InsufficientDataError: there are too few values for the percentile; the message names the n needed.

    Example:
        >>> interval = percentile_interval(range(1, 1001), 99)
        >>> interval.low, interval.high
        (983.0, 997.0)
    """
    require_known("percentile method", method, _METHODS)
    sample = np.sort(as_sample(values, 1))
    low, high = percentile_ranks(sample.size, q, level)
    p = check_percentile(q)
    if method == "order":
        estimate = float(np.quantile(sample, p))
        ends = float(sample[low - 1]), float(sample[high - 1])
        return Interval(estimate, *ends, level, sample.size, "order statistics")
    if method == "harrell-davis":
        return _harrell_davis(sample, p, level)

    def quantile(x: Floats, axis: int = -1) -> Floats:
        return np.asarray(np.quantile(x, p, axis=axis))

    return bca_interval([sample], quantile, level=level, resamples=resamples, seed=seed)


def _harrell_davis(ordered: Floats, p: float, level: float) -> Interval:
    """Scipy's estimate, with the interval of its Maritz-Jarrett standard error."""
    from scipy.stats import mstats

    (estimate,), (variance,) = mstats.hdquantiles(ordered, [p], var=True).tolist()
    half = normal_quantile((1 + level) / 2) * math.sqrt(max(variance, 0.0))
    return Interval(estimate, estimate - half, estimate + half, level, ordered.size, "Harrell-Davis")


def histogram_percentile_interval(
    bucket_low: ArrayLike, bucket_high: ArrayLike, counts: ArrayLike, q: float, level: float = LEVEL
) -> Interval:
    """Order-statistic interval of a percentile of values that are known only by their buckets (HdrHistogram).

    The ends are the outer edges of the buckets that contain the two order statistics, so the interval is never shorter
    than that of the raw values. The estimate is the middle of its bucket (the lower edge of an unbounded bucket).

    Args:
        bucket_low: inclusive lower edges, ascending.
        bucket_high: exclusive upper edges; may be infinite for an overflow bucket.
        counts: values per bucket; buckets of several clients are merged by adding them first.
        q: percentile in per cent.
        level: confidence level.

    Raises:
        UsageError: the arrays differ in length, or the edges do not ascend.
        InsufficientDataError: too few values for the percentile.

    Example:
        >>> interval = histogram_percentile_interval([0, 10, 20], [10, 20, 30], [500, 400, 100], 50)
        >>> interval.low, interval.high, interval.n
        (0.0, 20.0, 1000)
    """
    lows, highs = np.asarray(bucket_low, float), np.asarray(bucket_high, float)
    cumulative = np.cumsum(np.asarray(counts, np.int64))
    if not lows.shape == highs.shape == cumulative.shape or lows.ndim != 1 or (np.diff(lows) < 0).any():
        raise UsageError("bucket edges and counts need the same length, and edges that ascend")
    n = int(cumulative[-1]) if cumulative.size else 0
    ranks = percentile_ranks(n, q, level)
    # 0.95 * 100 is 95.00000000000001 in floating point; unrounded, its ceiling would be 96.
    middle = max(1, math.ceil(round(check_percentile(q) * n, 6)))
    first, at, last = np.searchsorted(cumulative, [ranks[0], middle, ranks[1]])
    notes = () if np.isfinite(highs[last]) else ("the upper end lies in the overflow bucket and is unbounded",)
    estimate = (lows[at] + highs[at]) / 2 if np.isfinite(highs[at]) else lows[at]
    method = "order statistics on buckets"
    return Interval(float(estimate), float(lows[first]), float(highs[last]), level, n, method, notes)
