"""Single latencies of measurementtype=raw: `READ,1795210352805,15906`."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from citus_analysis.formats.clients.ycsb._lines import RAW
from citus_analysis.formats.reading.delimited import read_uniform
from citus_analysis.units import US_PER_MS

_COLUMNS: Final = pl.Schema({"section": pl.String(), "began_ms": pl.Int64(), "latency_us": pl.Int64()})
_LAST_MS: Final = 10**13 - 1


def raw_fields(lines: pl.Series) -> pl.DataFrame:
    """Fields of lines of kind raw."""
    fields = lines.to_frame("text").select(pl.col("text").str.extract_groups(RAW)).unnest("text")
    return _timed(fields.cast(_COLUMNS))


def uniform_fields(data: bytes) -> pl.DataFrame | None:
    """The fields of a block that consists of raw lines only, as most of a raw log does; else None."""
    first, last = data.partition(b"\n")[0], data[data.rfind(b"\n", 0, -1) + 1 : -1]
    if not all(re.match(RAW.encode(), line) for line in (first, last)):
        return None
    fields = read_uniform(data, ",", _COLUMNS)
    if fields is None or not fields["began_ms"].is_between(0, _LAST_MS).all():
        return None
    sections = fields["section"].unique().to_list()
    return _timed(fields) if all(re.match(RAW, f"{section},0,0") for section in sections) else None


def _timed(fields: pl.DataFrame) -> pl.DataFrame:
    return fields.select("section", "latency_us", began_us=pl.col("began_ms") * US_PER_MS)
