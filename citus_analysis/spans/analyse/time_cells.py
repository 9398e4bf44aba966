"""The cells of flame graphs and heat maps of statements: one row for each drawn cell."""

from __future__ import annotations

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.spans.analyse.composition import COMPONENTS, compose
from citus_analysis.texts.natural_order import natural_expr
from citus_analysis.units import US_PER_MS, US_PER_S


@in_callers_kind
def summed_time(statements: Frame) -> pl.DataFrame:
    """Total time of all statements and of its parts: a row per kind of statement and place of execution.

    Args:
        statements: rows of the table `statements`; those whose T cannot be divided are left out.

    Returns:
        `statement_kind`, `executed`, `n`, and sums in microseconds: `total_us` and the parts of T.

    Example:
        >>> times = {"total_us": [900.0], "parse_us": [0.0], "bind_us": [100.0], "execute_us": [800.0]}
        >>> remote = {"wait_us": [500.0], "child_us": [300.0], "latency_us": [200.0], "failed": [False]}
        >>> frame = pl.DataFrame({"statement_kind": ["insert"], "executed": ["remote"], **times, **remote})
        >>> summed_time(frame).select("n", "total_us", "child_us", "parent_execute_us").row(0)
        (1, 900.0, 300.0, 300.0)
    """
    return (
        compose(as_polars(statements), ["statement_kind", "executed"])
        .group_by("statement_kind", "executed")
        .agg(pl.len().alias("n"), pl.col("total_us", *COMPONENTS).sum())
        .sort("statement_kind", "executed")
    )


@in_callers_kind
def percentiles_over_time(statements: Frame, *, percentile: float = 95.0, bins: int = 60) -> pl.DataFrame:
    """A percentile of T by node and stretch of time.

    Args:
        statements: rows of the table `statements` of one run, because the times of several would stretch the axis.
        percentile: the percentile, between 0 and 100.
        bins: number of stretches of time.

    Returns:
        `node` (in natural order), `bin` (from 0), `elapsed_s` (the middle of the stretch, since the first statement
        ended), `value_ms`, and `n`, the number of statements; stretches without a statement have no row.
    """
    known = pl.col("executed").is_not_null() & pl.col("total_us").is_not_null()
    shown = as_polars(statements).lazy().filter(known).select("node", "end_time", "total_us").collect()
    since = (pl.col("end_time") - pl.col("end_time").min()).dt.total_microseconds()
    width = shown.select((since.max() // bins + 1).cast(pl.Int64))["end_time"][0]
    cells = shown.select("node", "total_us", bin=since // width).group_by("node", "bin")
    middle = (pl.col("bin").first() + 0.5) * width / US_PER_S
    value = pl.col("total_us").quantile(percentile / 100, "linear") / US_PER_MS
    found = cells.agg(elapsed_s=middle.round(3), value_ms=value, n=pl.len())
    return found.sort(natural_expr("node"), "bin", nulls_last=True)
