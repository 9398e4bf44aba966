"""An overview of published results: the systems, and the numbers with their places in the publications."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from citus_analysis.core.defaults import METRIC
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind

__all__ = ["published_numbers", "published_systems"]


@in_callers_kind
def published_systems(published: Frame) -> pl.DataFrame:
    """Per system in the publications: how much is known of it, and the range of its published throughputs."""
    throughput = pl.col("value").filter(pl.col("metric") == METRIC)
    return (
        as_polars(published)
        .with_columns(pl.col("system").fill_null("several"))
        .group_by("system")
        .agg(
            pl.len().alias("numbers"),
            pl.col("source").unique().sort().str.join(", ").alias("sources"),
            throughput.len().alias("throughputs"),
            throughput.min().alias("smallest_throughput_ops_s"),
            throughput.max().alias("largest_throughput_ops_s"),
        )
        .sort("system")
    )


@in_callers_kind
def published_numbers(published: Frame, metrics: Sequence[str] = (METRIC, "latency_ms", "nopm")) -> pl.DataFrame:
    """The published rates and latencies, with the place each was read from; never part of a computed number."""
    columns = ["system", "source", "table", "row", "metric", "value", "unit", "n", "note"]
    stated = as_polars(published).filter(pl.col("metric").is_in(list(metrics)))
    return stated.select(columns).sort("system", "source", "table", "row")
