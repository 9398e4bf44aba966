"""Distributions of times: histograms, binned before they are drawn."""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.errors import UsageError
from citus_analysis.spans.composition import COMPONENTS, compose
from citus_analysis.texts.words import make_natural_expr
from citus_analysis.units import US_PER_MS, US_PER_S

#: Widths of bins, to be multiplied by a power of ten.
_ROUND: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
#: Columns of a histogram, and the columns of whole numbers.
_COLUMNS: Final = ("low_ms", "high_ms", "count", "share_percent", "n", "beyond", "largest_ms")
_COUNTS: Final = frozenset({"count", "n", "beyond"})


@return_callers_frame_kind
def time_histogram(
    times: Frame, *, by: str = "series", column: str = "total_us", bins: int = 50, until_percentile: float = 95.0
) -> pl.DataFrame:
    """Histograms of times with common bins of a round width, cut off where few statements are left.

    Times have long tails: a histogram that reached to the slowest statement would show a single bar. The bins end where
    at most 5 % of the statements of every group are beyond; every row has their number and the largest time.

    Args:
        times: columns `by` and `column`; one row per statement.
        by: column with the name of the histogram a row belongs to.
        column: the time, in microseconds.
        bins: about this many bins.
        until_percentile: percentile of a group's times up to which it must be shown.

    Returns:
        Per group, in order of appearance, and bin: `low_ms`, `high_ms`, `count`, `share_percent` (of the group's
        rows), and of the group: `n`, `beyond` (rows to the right of the last bin), `largest_ms`.

    Raises:
        UsageError: there are fewer than 2 bins.

    Example:
        >>> frame = pl.DataFrame({"series": ["a"] * 100, "total_us": [float(1000 * i) for i in range(100)]})
        >>> time_histogram(frame, bins=10).select("low_ms", "high_ms", "count", "beyond").row(0)
        (0.0, 10.0, 10, 0)
    """
    if bins < 2:
        raise UsageError(f"bins is {bins}", hint="ask for at least 2")
    frame = convert_to_polars(times).select(by, pl.col(column).cast(pl.Float64) / 1000).drop_nulls()
    if frame.is_empty():
        empty = {name: pl.Series(dtype=pl.UInt32 if name in _COUNTS else pl.Float64) for name in _COLUMNS}
        return frame.clear().select(by).with_columns(**empty)
    end: float = (
        frame.group_by(by).agg(pl.col(column).quantile(until_percentile / 100, "higher"))[column].to_numpy().max()
    )
    # The next larger width that reads well on an axis.
    power = 10.0 ** math.floor(math.log10(max(end / bins, 1e-6)))
    width = next(factor * power for factor in _ROUND if factor * power >= end / bins)
    last = int(end // width) + 1
    number = (pl.col(column) / width).floor().cast(pl.Int64)
    whole = frame.group_by(by, maintain_order=True).agg(
        n=pl.len(), beyond=(number >= last).sum(), largest_ms=pl.col(column).max()
    )
    counts = frame.filter(number < last).group_by(by, number.alias("bin")).agg(count=pl.len())
    grid = whole.join(pl.DataFrame({"bin": range(last)}), how="cross")
    return (
        grid.join(counts, on=[by, "bin"], how="left", maintain_order="left")
        .with_columns(pl.col("count").fill_null(0))
        .with_columns(low_ms=pl.col("bin") * width, high_ms=(pl.col("bin") + 1) * width)
        .with_columns(share_percent=100 * pl.col("count") / pl.col("n"))
        .select(by, *_COLUMNS)
    )


# The cells of flame graphs and heat maps of statements: one row for each drawn cell.


@return_callers_frame_kind
def sum_statement_times(statements: Frame) -> pl.DataFrame:
    """Total time of all statements and of its parts: a row per kind of statement and place of execution.

    Args:
        statements: rows of the table `statements`; those whose T cannot be divided are left out.

    Returns:
        `statement_kind`, `executed`, `n`, and sums in microseconds: `total_us` and the parts of T.

    Example:
        >>> times = {"total_us": [900.0], "parse_us": [0.0], "bind_us": [100.0], "execute_us": [800.0]}
        >>> remote = {"wait_us": [500.0], "child_us": [300.0], "between_us": [200.0], "failed": [False]}
        >>> frame = pl.DataFrame({"statement_kind": ["insert"], "executed": ["remote"], **times, **remote})
        >>> sum_statement_times(frame).select("n", "total_us", "child_us", "parent_execute_us").row(0)
        (1, 900.0, 300.0, 300.0)
    """
    return (
        compose(convert_to_polars(statements), ["statement_kind", "executed"])
        .group_by("statement_kind", "executed")
        .agg(pl.len().alias("n"), pl.col("total_us", *COMPONENTS).sum())
        .sort("statement_kind", "executed")
    )


@return_callers_frame_kind
def compute_percentiles_over_time(statements: Frame, *, percentile: float = 95.0, bins: int = 60) -> pl.DataFrame:
    """A percentile of T by node and interval of time.

    Args:
        statements: rows of the table `statements` of one run, because the times of several would stretch the axis.
        percentile: the percentile, between 0 and 100.
        bins: number of intervals of time.

    Returns:
        `node` (in natural order), `bin` (from 0), `elapsed_s` (the middle of the interval, since the first statement
        ended), `value_ms`, and `n`, the number of statements; intervals without a statement have no row.
    """
    known = pl.col("executed").is_not_null() & pl.col("total_us").is_not_null()
    shown = convert_to_polars(statements).lazy().filter(known).select("node", "end_time", "total_us").collect()
    since = (pl.col("end_time") - pl.col("end_time").min()).dt.total_microseconds()
    width = shown.select((since.max() // bins + 1).cast(pl.Int64))["end_time"][0]
    cells = shown.select("node", "total_us", bin=since // width).group_by("node", "bin")
    middle = (pl.col("bin").first() + 0.5) * width / US_PER_S
    value = pl.col("total_us").quantile(percentile / 100, "linear") / US_PER_MS
    found = cells.agg(elapsed_s=middle.round(3), value_ms=value, n=pl.len())
    return found.sort(make_natural_expr("node"), "bin", nulls_last=True)
