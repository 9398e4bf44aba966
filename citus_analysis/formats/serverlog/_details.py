"""Details of records, which are columns of csvlog and jsonlog, as separate rows, as in the stderr log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.formats.api.name_pairs import name_pairs

DETAIL_SEVERITIES: Final = ("DETAIL", "HINT", "QUERY", "CONTEXT", "STATEMENT", "LOCATION", "BACKTRACE")

#: Name of a text in csvlog and jsonlog -> severity of the row it becomes.
DETAILS: Final = name_pairs("detail=DETAIL hint=HINT internal_query=QUERY context=CONTEXT statement=STATEMENT")


def with_details(rows: pl.DataFrame, details: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Rows of records, each followed by one row per detail it has.

    Args:
        rows: records with `severity` and `text`.
        details: severity of the detail's row -> its text per record; null or empty if it has none.
    """
    frames = [rows.with_columns(pl.lit(None, pl.Int64).alias("record_byte_offset"))]
    for severity, text in details.items():
        if text.null_count() == len(text):
            continue
        present = rows.with_columns(text.alias("text"), pl.lit(severity).alias("severity")).filter(
            pl.col("text").is_not_null() & (pl.col("text") != "")
        )
        frames.append(present.with_columns(record_byte_offset="byte_offset"))
    return pl.concat(frames).sort("byte_offset", maintain_order=True)
