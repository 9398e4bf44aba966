"""The final summary of a YCSB client: metrics, histogram buckets and time series.

All three are printed as `[SECTION], name, value`. A numeric name is a bucket or a point in time, depending on
the measurement type that printed the section:

- `histogram`: percentiles are printed, counts are whole numbers; the name is a latency in ms, `>1000` the rest;
- `hdrhistogram`: percentiles are printed, counts have a decimal point; the name is the largest latency in us
  that falls into the bucket;
- `timeseries`: no percentiles; the name is a time in ms since the start, the value a mean latency.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.api.redacted_columns import redact_series
from citus_analysis.formats.clients.ycsb._lines import SUMMARY
from citus_analysis.formats.reading.lines import first_true
from citus_analysis.operations import INTENDED
from citus_analysis.units import US_PER_MS

#: Whether a value is of a bucket or a point in time, whose names are numeric, and is no metric.
IS_POINT: Final = pl.col("name").str.contains(r"^>?[0-9]{1,15}$")
_MAX_COUNT: Final = 1e15
#: Part of the name of a percentile, which a time series does not print.
PERCENTILE: Final = "PercentileLatency("

#: HdrHistogram with three significant digits, as YCSB records: exact up to 2^11 us.
_HDR_DIGIT_BITS: Final = 11

#: Metrics of measurementtype=raw, whose unit is printed in a separate line.
_RAW_SUMMARY: Final = r"^(?:Average|Min|Max|p[0-9.]+)$"
_METRIC: Final = (
    pl.col("section"),
    pl.col("name").str.replace(r"\([^()]*\)$", "").alias("metric"),
    pl.coalesce(
        pl.col("name").str.extract(r"\(([^()]*)\)$"),
        pl.when(pl.col("name").str.contains(_RAW_SUMMARY)).then(pl.lit("us")),
    ).alias("unit"),
    pl.col("value").cast(pl.Float64),
)


def named_values(lines: pl.DataFrame) -> pl.DataFrame:
    """Summary lines as `offset`, `length`, `section`, `name` (with its unit) and `value` (text)."""
    return lines.select("offset", "length", pl.col("text").str.extract_groups(SUMMARY)).unnest("text")


def metric_rows(values: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_metrics` for values without a numeric name."""
    # Redact before the unit is split off: apparent units may be the end of a secret.
    return values.with_columns(redact_series(values["name"])).select(_METRIC)


def with_kinds(points: pl.DataFrame, with_percentiles: set[str]) -> pl.DataFrame:
    """Values with numeric names, with their `kind`: the measurement type that printed them.

    Args:
        points: values of :data:`IS_POINT`.
        with_percentiles: sections that print percentiles.

    Returns:
        The kind of a bucket that no histogram of YCSB has is null.
    """
    count = pl.col("value").cast(pl.Float64)
    is_count = count.is_between(0, _MAX_COUNT) & (count % 1 == 0)
    highest = pl.col("name").cast(pl.Int64, strict=False)
    width = _hdr_width(highest)
    percentiles = pl.col("section").is_in(list(with_percentiles))
    overflow = pl.col("name").str.starts_with(">")
    whole = overflow | ~pl.col("value").str.contains(".", literal=True)
    bucket = first_true({"histogram": whole, "hdrhistogram": (highest + 1) % width == 0})
    timed = pl.when(~percentiles & ~overflow).then(pl.lit("timeseries"))
    return points.with_columns(kind=timed.when(is_count).then(bucket))


def _hdr_width(value: pl.Expr) -> pl.Expr:
    """Width of the bucket a value falls into: 1 us below 2048, doubling with each power of two from there."""
    bits = 64 - value.cast(pl.UInt64, strict=False).bitwise_leading_zeros().cast(pl.Int64)
    return pl.lit(2, pl.Int64).pow((bits - _HDR_DIGIT_BITS).clip(lower_bound=0))


def histogram_rows(points: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_histogram` for points of the kinds histogram and hdrhistogram (column `kind`)."""
    number = pl.col("name").str.strip_prefix(">").cast(pl.Float64)
    coarse = pl.col("kind") == "histogram"
    width = pl.when(coarse).then(float(US_PER_MS)).otherwise(_hdr_width(number.cast(pl.Int64)).cast(pl.Float64))
    low = pl.when(coarse).then(number * US_PER_MS).otherwise(number + 1 - width)
    overflow = pl.col("name").str.starts_with(">")
    return points.filter(pl.col("kind").is_in(["histogram", "hdrhistogram"])).select(
        "section",
        corrected=pl.col("section").str.starts_with(INTENDED),
        bucket_low_us=low,
        bucket_high_us=pl.when(overflow).then(float("inf")).otherwise(low + width),
        count=pl.col("value").cast(pl.Float64).cast(pl.Int64),
    )


def series_rows(points: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_series` for points of the kind timeseries (column `kind`)."""
    return points.filter(pl.col("kind") == "timeseries").select(
        "section",
        corrected=pl.col("section").str.starts_with(INTENDED),
        elapsed_s=(pl.col("name").cast(pl.Float64) / 1000).round(3),
        mean_us=pl.col("value").cast(pl.Float64).fill_nan(None),
    )
