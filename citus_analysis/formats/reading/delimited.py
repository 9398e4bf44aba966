"""Blocks of delimited numbers, read by a CSV reader if every line fits the schema."""

from __future__ import annotations

from io import BytesIO

import polars as pl


def read_uniform(data: bytes, separator: str, schema: pl.Schema) -> pl.DataFrame | None:
    r"""The block as columns; None if a line does not fit the schema or lacks its end.

    After None, the caller examines the lines one by one.

    Example:
        >>> schema = pl.Schema({"operation": pl.String(), "latency_us": pl.Int64()})
        >>> read_uniform(b"READ,5\nREAD,7\n", ",", schema)["latency_us"].to_list()
        [5, 7]
        >>> read_uniform(b"READ,5\nREAD\n", ",", schema) is None
        True
    """
    if not data.endswith(b"\n"):
        return None
    try:
        frame = pl.read_csv(BytesIO(data), separator=separator, has_header=False, quote_char=None, schema=schema)
    except pl.exceptions.PolarsError:
        return None
    complete = frame.height == data.count(b"\n") and not any(frame.null_count().row(0))
    return frame if complete else None
