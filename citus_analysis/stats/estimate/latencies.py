"""Percentiles of latency histograms with intervals, merged over load generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats.estimate.histograms import merge_histograms
from citus_analysis.stats.estimate.percentiles import histogram_percentile_interval

_CORRELATED: Final = "operations of one run are correlated: the real interval is wider"


@in_callers_kind
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
    merged = merge_histograms(as_polars(buckets), by)
    rows = [
        {**dict(zip(by, key, strict=True)), "percentile": float(q), **_one(part, q, level)}
        for key, part in merged.group_by(by, maintain_order=True)
        for q in percentiles
    ]
    numbers = dict.fromkeys(("percentile", "estimate_us", "low_us", "high_us"), pl.Float64())
    kinds = {name: merged.schema[name] for name in by} | numbers
    return pl.DataFrame(rows, schema={**kinds, "n": pl.Int64(), "warnings": pl.String()})


def _one(part: pl.DataFrame, q: float, level: float) -> dict[str, object]:
    edges = (part["bucket_low_us"].to_numpy(), part["bucket_high_us"].to_numpy(), part["count"].to_numpy())
    try:
        interval = histogram_percentile_interval(*edges, q, level)
    except InsufficientDataError as refusal:
        return {"n": int(part["count"].sum()), "warnings": str(refusal)}
    ends = {"estimate_us": interval.estimate, "low_us": interval.low, "high_us": interval.high, "n": interval.n}
    return {**ends, "warnings": "; ".join((*interval.warnings, _CORRELATED))}
