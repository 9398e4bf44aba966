"""Merged latency histograms of several load generators, and their percentiles with the bounds of the bucket.

Percentiles of several clients cannot be averaged: the 99th percentile of two clients is not a function of their two
99th percentiles. The numbers of operations in each bucket can be added if the buckets have the same edges. A percentile
of the sum is known up to the width of its bucket, so it is given as an interval.

A histogram is a frame with `bucket_low_us` (inclusive), `bucket_high_us` (exclusive, infinity for the overflow bucket)
and `count`, and one or more columns that identify the histogram of each bucket. Empty buckets may be absent.

Example:
    >>> import polars as pl
    >>> buckets = pl.DataFrame({
    ...     "section": ["READ"] * 4,
    ...     "bucket_low_us": [0.0, 1000.0, 0.0, 1000.0],
    ...     "bucket_high_us": [1000.0, 2000.0, 1000.0, 2000.0],
    ...     "count": [90, 10, 50, 50],
    ... })
    >>> merge_histograms(buckets)["count"].to_list()
    [140, 60]
    >>> histogram_percentiles(buckets, [0.5, 0.95]).select("quantile", "low_us", "high_us").rows()
    [(0.5, 0.0, 1000.0), (0.95, 1000.0, 2000.0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.errors import InsufficientDataError, UsageError

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
    merged = _added(as_polars(buckets), by)
    overlapping = _overlaps(merged, by)
    if not overlapping.is_empty():
        first = overlapping.row(0, named=True)
        where = ", ".join(f"{name} {first[name]!r}" for name in by) or "the histogram"
        raise InsufficientDataError(
            f"buckets [{first['bucket_low_us']:g}, {first['bucket_high_us']:g}) µs and the one from "
            f"{first['next_low_us']:g} µs overlap, so the clients' counts cannot be added",
            place=where,
            way_out="let all clients record with the same measurement type and the same number of buckets",
        )
    return merged


def overlapping_buckets(buckets: Frame, by: Sequence[str] = ("section",)) -> pl.DataFrame:
    """The `by` values of histograms that :func:`merge_histograms` would refuse, one row each."""
    return _overlaps(_added(as_polars(buckets), by), by).select(by).unique(maintain_order=True)


def histogram_percentiles(buckets: Frame, quantiles: Sequence[float], by: Sequence[str] = ("section",)) -> pl.DataFrame:
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
        raise UsageError(f"{wrong[0]:g} is not a quantile", way_out="pass fractions above 0 and up to 1, such as 0.99")
    running, operations = _over(pl.col("count").cum_sum(), by), _over(pl.col("count").sum(), by)
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


def _added(buckets: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    keys = [*by, *_EDGES]
    return buckets.group_by(keys).agg(pl.col("count").sum()).sort(keys)


def _overlaps(merged: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    next_low = pl.col("bucket_low_us").shift(-1)
    return merged.with_columns(next_low_us=_over(next_low, by)).filter(pl.col("next_low_us") < pl.col("bucket_high_us"))


def _over(expression: pl.Expr, by: Sequence[str]) -> pl.Expr:
    return expression.over(by) if by else expression
