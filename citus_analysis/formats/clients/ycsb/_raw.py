"""Single latencies of measurementtype=raw: `READ,1795210352805,15906`."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from citus_analysis.formats.clients.ycsb._lines import RAW
from citus_analysis.formats.reading.delimited import read_uniform
from citus_analysis.operations import FAILED

_COLUMNS: Final = pl.Schema({"section": pl.String(), "time_ms": pl.Int64(), "latency_us": pl.Int64()})

_LAST_MS: Final = 10**13 - 1


def raw_fields(lines: pl.Series) -> pl.DataFrame:
    """Fields of lines of kind raw."""
    parts = pl.col("text").str.split_exact(",", len(_COLUMNS) - 1).struct.rename_fields(_COLUMNS.names())
    return lines.to_frame("text").select(parts).unnest("text").cast(_COLUMNS)


def uniform_fields(data: bytes) -> pl.DataFrame | None:
    """The fields of a block that consists of raw lines only, as most of a raw log does; else None."""
    first, last = data.partition(b"\n")[0], data[data.rfind(b"\n", 0, -1) + 1 : -1]
    if not all(re.match(RAW.encode(), line) for line in (first, last)):
        return None
    fields = read_uniform(data, ",", _COLUMNS)
    if fields is None or not fields["time_ms"].is_between(0, _LAST_MS).all():
        return None
    sections = fields["section"].unique().to_list()
    return fields if all(re.match(RAW, f"{section},0,0") for section in sections) else None


def latency_rows(fields: pl.DataFrame, first_ms: int | None) -> tuple[pl.DataFrame, int]:
    """Rows of `client_latencies`, and the time (ms since 1970) from which `elapsed_s` counts.

    YCSB prints latencies grouped by operation, each group in the order of time. `elapsed_s` counts from the first line
    of the file, so a line of another operation that began slightly earlier has a small negative value.

    Args:
        fields: a frame of :func:`raw_fields`.
        first_ms: the start of the first block, None in that block.
    """
    start = int(fields["time_ms"][0]) if first_ms is None else first_ms
    rows = fields.select(
        "section",
        "latency_us",
        time=pl.from_epoch("time_ms", "ms").dt.replace_time_zone("UTC"),
        elapsed_s=((pl.col("time_ms") - start) / 1000).round(3),
        failed=pl.col("section").str.ends_with(FAILED),
    )
    return rows, start
