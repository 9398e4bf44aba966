"""Counts of single latencies to the microsecond, for load generators that log each operation.

Example:
    >>> counts = LatencyCounts()
    >>> counts.add(pl.DataFrame({"section": ["READ", "READ"], "latency_us": [70.0, 90.0]}))
    >>> counts.histogram().select("section", "bucket_low_us", "bucket_high_us", "count").rows()
    [('READ', 70.0, 71.0, 1), ('READ', 90.0, 91.0, 1)]
    >>> counts.summary(("Count", "Mean", "Least", "Most")).select("metric", "value").rows()
    [('Count', 2.0), ('Least', 70.0), ('Mean', 80.0), ('Most', 90.0)]
"""

from __future__ import annotations

import polars as pl

from citus_analysis.schema import TABLES


class LatencyCounts:
    """How often each latency of each section occurred so far; bounded by the number of distinct latencies."""

    def __init__(self) -> None:
        self._counted = pl.DataFrame(schema={"section": pl.String, "bucket_low_us": pl.Float64, "count": pl.Int64})

    def add(self, rows: pl.DataFrame) -> None:
        """Count more operations, rows with `section` and `latency_us`."""
        fresh = rows.group_by("section", bucket_low_us=pl.col("latency_us").cast(pl.Float64)).agg(
            count=pl.len().cast(pl.Int64)
        )
        both = pl.concat([self._counted, fresh])
        summed = both.group_by("section", "bucket_low_us").agg(pl.col("count").sum())
        self._counted = summed.sort("section", "bucket_low_us")

    def histogram(self) -> pl.DataFrame:
        """Rows of `client_histogram`."""
        whole = self._counted.with_columns(bucket_high_us=pl.col("bucket_low_us") + 1)
        return TABLES["client_histogram"].parsed().conform(whole)

    def summary(self, names: tuple[str, str, str, str]) -> pl.DataFrame:
        """Rows of `client_metrics`: number, mean and extremes of each section's latencies, under the given names."""
        low, weight = pl.col("bucket_low_us"), pl.col("count")
        number, mean, least, most = names
        values = {
            (number, None): weight.sum().cast(pl.Float64),
            (mean, "us"): (low * weight).sum() / weight.sum(),
            (least, "us"): low.min(),
            (most, "us"): low.max(),
        }
        parts = [
            self._counted.group_by("section").agg(metric=pl.lit(name), unit=pl.lit(unit, pl.String), value=value)
            for (name, unit), value in values.items()
        ]
        return TABLES["client_metrics"].parsed().conform(pl.concat(parts).sort("section", "metric"))
