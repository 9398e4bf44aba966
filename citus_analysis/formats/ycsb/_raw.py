"""Single latencies of measurementtype=raw: `READ,1795210352805,15906`."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.schema import TABLES

__all__ = ["latency_rows"]

_COLUMNS: Final = ("section", "time_ms", "latency_us")


def latency_rows(lines: pl.Series, first_ms: int | None) -> tuple[pl.DataFrame, int]:
    """Rows of `client_latencies`, and the time (ms since 1970) from which `elapsed_s` counts.

    YCSB prints operation by operation, each in the order of time. `elapsed_s` counts from the first line of
    the file, so another operation that began a moment earlier has a small negative value.

    Args:
        lines: lines of kind raw.
        first_ms: where an earlier block of the file began, None in the first.
    """
    parts = lines.to_frame("text").select(pl.col("text").str.split_exact(",", 2).struct.rename_fields(_COLUMNS))
    fields = parts.unnest("text").with_columns(pl.col("time_ms", "latency_us").cast(pl.Int64))
    start = int(fields["time_ms"][0]) if first_ms is None else first_ms
    rows = fields.select(
        "section",
        "latency_us",
        time=pl.from_epoch("time_ms", "ms").dt.replace_time_zone("UTC"),
        elapsed_s=((pl.col("time_ms") - start) / 1000).round(3),
        failed=pl.col("section").str.ends_with("-FAILED"),
    )
    return TABLES["client_latencies"].parsed().conform(rows), start
