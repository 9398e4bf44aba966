"""Percentiles with intervals: order statistics, Harrell-Davis, BCa; from samples and from histograms.

References:
    Le Boudec, J.-Y. (2010). Performance Evaluation of Computer and Communication Systems, section 2.2 and appendix A.
    Harrell, F. E. and Davis, C. E. (1982). A new distribution-free quantile estimator. Biometrika 69.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, RESAMPLES, SEED
from citus_analysis.errors import InsufficientDataError, UsageError, require_known
from citus_analysis.stats._validate import Seed, check_level, check_percentile, validate_sample
from citus_analysis.stats.bootstrap import estimate_bca_interval
from citus_analysis.stats.distributions import compute_binomial_cdf, compute_binomial_quantile, compute_normal_quantile
from citus_analysis.stats.results import Interval

PercentileMethod = Literal["order", "harrell-davis", "bca"]
_METHODS = ("order", "harrell-davis", "bca")


def compute_values_needed(q: float, level: float = LEVEL) -> int:
    """Smallest number of independent values that supports a two-sided interval of the q-th percentile.

    Both ends exist if all values lie on one side of the percentile with a probability of at most (1 - level) / 2.

    Example:
        >>> compute_values_needed(50), compute_values_needed(99), compute_values_needed(99.9)
        (6, 368, 3688)
    """
    p = check_percentile(q)
    return math.ceil(math.log((1 - check_level(level)) / 2) / math.log(max(p, 1 - p)))


def count_supporting_values(q: float) -> int:
    """Smallest number of values of which at least one is expected beyond the q-th percentile.

    Example:
        >>> count_supporting_values(50), count_supporting_values(95), count_supporting_values(99)
        (2, 20, 100)
    """
    p = check_percentile(q)
    return math.ceil(round(1 / min(p, 1 - p), 6))


def check_supports(n: int, q: float) -> None:
    """Refuse to estimate a percentile beyond which fewer than one value is expected.

    Raises:
        InsufficientDataError: there are too few values; the estimate would be the largest (or smallest) of them.
    """
    if n < (needed := count_supporting_values(q)):
        raise InsufficientDataError(
            f"a run of {n:,} values has no {q:g}th percentile", hint=f"at least {needed:,} values are needed"
        )


def compute_percentile_ranks(n: int, q: float, level: float = LEVEL) -> tuple[int, int]:
    """Ranks (from 1) of the two order statistics that enclose the q-th percentile at least at the level.

    Raises:
        InsufficientDataError: there are too few values for the interval; the message names the n needed.

    Example:
        The median of 10 values lies between the 2nd and the 9th.

        >>> compute_percentile_ranks(10, 50)
        (2, 9)
    """
    needed = compute_values_needed(q, level)
    if n < needed:
        raise InsufficientDataError(
            f"too few values ({n:,}) for a {level * 100:g} % interval of the {q:g}th percentile",
            hint=f"at least {needed} are needed",
        )
    tail, p = (1 - level) / 2, check_percentile(q)
    low = compute_binomial_quantile(tail, n, p)
    # This is the smallest rank whose probability reaches the tail; at equality, the next one is allowed.
    low += int(compute_binomial_cdf(low, n, p) <= tail)
    high = compute_binomial_quantile(1 - tail, n, p) + 1
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
    sample = np.sort(validate_sample(values, 1))
    low, high = compute_percentile_ranks(sample.size, q, level)
    p = check_percentile(q)
    if method == "order":
        estimate = float(np.quantile(sample, p))
        ends = float(sample[low - 1]), float(sample[high - 1])
        return Interval(estimate, *ends, level, sample.size, "order statistics")
    if method == "harrell-davis":
        return _estimate_harrell_davis(sample, p, level)

    def quantile(x: Floats, axis: int = -1) -> Floats:
        return np.asarray(np.quantile(x, p, axis=axis))

    return estimate_bca_interval([sample], quantile, level=level, resamples=resamples, seed=seed)


def _estimate_harrell_davis(ordered: Floats, p: float, level: float) -> Interval:
    """Scipy's estimate, with the interval of its Maritz-Jarrett standard error."""
    from scipy.stats import mstats

    (estimate,), (variance,) = mstats.hdquantiles(ordered, [p], var=True).tolist()
    half = compute_normal_quantile((1 + level) / 2) * math.sqrt(max(variance, 0.0))
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
    ranks = compute_percentile_ranks(n, q, level)
    # 0.95 * 100 is 95.00000000000001 in floating point; unrounded, its ceiling would be 96.
    middle = max(1, math.ceil(round(check_percentile(q) * n, 6)))
    first, at, last = np.searchsorted(cumulative, [ranks[0], middle, ranks[1]])
    notes = () if np.isfinite(highs[last]) else ("the upper end lies in the overflow bucket and is unbounded",)
    estimate = (lows[at] + highs[at]) / 2 if np.isfinite(highs[at]) else lows[at]
    method = "order statistics on buckets"
    return Interval(float(estimate), float(lows[first]), float(highs[last]), level, n, method, notes)


# Merged latency histograms of several load generators, and their percentiles with the bounds of the bucket.
#
# Percentiles of several clients cannot be averaged: the 99th percentile of two clients is not a function of their two
# 99th percentiles. The numbers of operations in each bucket can be added if the buckets have the same edges. A
# percentile of the sum is known up to the width of its bucket, so it is given as an interval.
#
# A histogram is a frame with `bucket_low_us` (inclusive), `bucket_high_us` (exclusive, infinity for the overflow
# bucket) and `count`, and one or more columns that identify the histogram of each bucket. Empty buckets may be absent.

_EDGES: Final = ("bucket_low_us", "bucket_high_us")


def merge_histograms(buckets: Frame, by: Sequence[str] = ("section",)) -> pl.DataFrame:
    """Histograms with the same `by` values added up, bucket by bucket.

    Args:
        buckets: rows of `client_histogram` of one or several clients, as a polars, pandas or Arrow table.
        by: columns that identify a histogram; rows with equal values are merged.

    Returns:
        The `by` columns, `bucket_low_us`, `bucket_high_us` and `count`, sorted by these.

    Raises:
        InsufficientDataError: buckets overlap without having the same edges, so counts cannot be added.
    """
    merged = _sum_bucket_counts(convert_to_polars(buckets), by)
    overlapping = _select_bucket_overlaps(merged, by)
    if not overlapping.is_empty():
        first = overlapping.row(0, named=True)
        where = ", ".join(f"{name} {first[name]!r}" for name in by) or "the histogram"
        raise InsufficientDataError(
            f"buckets [{first['bucket_low_us']:g}, {first['bucket_high_us']:g}) µs and the one from "
            f"{first['next_low_us']:g} µs overlap, so the clients' counts cannot be added",
            place=where,
            hint="let all clients record with the same measurement type and the same number of buckets",
        )
    return merged


def find_overlapping_buckets(buckets: Frame, by: Sequence[str] = ("section",)) -> pl.DataFrame:
    """The `by` values of histograms that :func:`merge_histograms` would refuse, one row each."""
    return (
        _select_bucket_overlaps(_sum_bucket_counts(convert_to_polars(buckets), by), by)
        .select(by)
        .unique(maintain_order=True)
    )


def compute_histogram_percentiles(
    buckets: Frame, quantiles: Sequence[float], by: Sequence[str] = ("section",)
) -> pl.DataFrame:
    """Percentiles of merged histograms, by nearest rank, with the bucket's edges as bounds.

    The q-quantile of n operations is the ceil(q n)-th smallest latency, whose bucket is known. No assumption is made
    about the distribution inside the bucket.

    Args:
        buckets: rows of `client_histogram` of one or several clients, as a polars, pandas or Arrow table.
        quantiles: fractions above 0 and up to 1, such as 0.99.
        by: columns that identify a histogram; rows with equal values are merged.

    Returns:
        One row per histogram and quantile: the `by` columns, `quantile`, `low_us` (inclusive), `high_us`
        (exclusive), `value_us` (the middle; null in the overflow bucket, which has no upper edge) and
        `operations` (n).

    Raises:
        UsageError: a quantile is not above 0 and up to 1.
        InsufficientDataError: see :func:`merge_histograms`.
    """
    wrong = [q for q in quantiles if not 0 < q <= 1]
    if wrong:
        raise UsageError(f"{wrong[0]:g} is not a quantile", hint="pass fractions above 0 and up to 1, such as 0.99")
    running, operations = _make_window_expr(pl.col("count").cum_sum(), by), _make_window_expr(pl.col("count").sum(), by)
    # 0.95 * 100 is 95.00000000000001 in floating point; without rounding its ceiling would be 96.
    rank = (pl.col("quantile") * pl.col("operations")).round(6).ceil().clip(lower_bound=1)
    low, high = (pl.col(edge) for edge in _EDGES)
    return (
        merge_histograms(buckets, by)
        .with_columns(running=running, operations=operations)
        .join(pl.DataFrame({"quantile": list(quantiles)}, schema={"quantile": pl.Float64}), how="cross")
        .filter(rank.is_between(pl.col("running") - pl.col("count"), pl.col("running"), closed="right"))
        .select(
            *by,
            "quantile",
            low.alias("low_us"),
            high.alias("high_us"),
            pl.when(high.is_finite()).then((low + high) / 2).alias("value_us"),
            "operations",
        )
        .sort(*by, "quantile")
    )


def _sum_bucket_counts(buckets: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    keys = [*by, *_EDGES]
    return buckets.group_by(keys).agg(pl.col("count").sum()).sort(keys)


def _select_bucket_overlaps(merged: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    next_low = pl.col("bucket_low_us").shift(-1)
    return merged.with_columns(next_low_us=_make_window_expr(next_low, by)).filter(
        pl.col("next_low_us") < pl.col("bucket_high_us")
    )


def _make_window_expr(expression: pl.Expr, by: Sequence[str]) -> pl.Expr:
    return expression.over(by) if by else expression


# Percentiles of latency histograms with intervals, merged over load generators.

_CORRELATED: Final = "operations of one run are correlated: the real interval is wider"


@return_callers_frame_kind
def latency_percentiles(
    buckets: Frame,
    percentiles: Sequence[float] = (50, 95, 99),
    by: Sequence[str] = ("run_id", "section"),
    *,
    level: float = LEVEL,
) -> pl.DataFrame:
    """Percentiles with order-statistic intervals from histograms, merged by the `by` columns.

    Args:
        buckets: rows of `client_histogram`; the histograms of several load generators are added up first.
        percentiles: percentiles in per cent.
        by: columns that identify a histogram.
        level: confidence level.

    Returns:
        The `by` columns, percentile, estimate_us, low_us, high_us, n, warnings; one row per histogram and percentile.
        A percentile without enough operations is null, and its warning states the number needed.

    Raises:
        InsufficientDataError: the buckets of two load generators overlap without being equal.

    Example:
        >>> buckets = pl.DataFrame({
        ...     "section": ["READ"] * 2, "bucket_low_us": [0.0, 1000.0], "bucket_high_us": [1000.0, 2000.0],
        ...     "count": [900, 100],
        ... })
        >>> latency_percentiles(buckets, [50, 95], by=["section"]).select("estimate_us", "low_us", "high_us").rows()
        [(500.0, 0.0, 1000.0), (1500.0, 1000.0, 2000.0)]
    """
    merged = merge_histograms(convert_to_polars(buckets), by)
    rows = [
        {**dict(zip(by, key, strict=True)), "percentile": float(q), **_estimate_latency_percentile(part, q, level)}
        for key, part in merged.group_by(by, maintain_order=True)
        for q in percentiles
    ]
    numbers = dict.fromkeys(("percentile", "estimate_us", "low_us", "high_us"), pl.Float64())
    kinds = {name: merged.schema[name] for name in by} | numbers
    return pl.DataFrame(rows, schema={**kinds, "n": pl.Int64(), "warnings": pl.String()})


def _estimate_latency_percentile(part: pl.DataFrame, q: float, level: float) -> dict[str, object]:
    edges = (part["bucket_low_us"].to_numpy(), part["bucket_high_us"].to_numpy(), part["count"].to_numpy())
    try:
        interval = histogram_percentile_interval(*edges, q, level)
    except InsufficientDataError as refusal:
        return {"n": int(part["count"].sum()), "warnings": str(refusal)}
    ends = {"estimate_us": interval.estimate, "low_us": interval.low, "high_us": interval.high, "n": interval.n}
    return {**ends, "warnings": "; ".join((*interval.warnings, _CORRELATED))}
