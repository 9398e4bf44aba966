"""64-bit identifiers as text: JSON readers round integers beyond 2^53."""

from __future__ import annotations

import polars as pl


def hexadecimal(column: str) -> pl.Expr:
    """A UInt64 column as 16 hexadecimal digits; null stays null.

    Example:
        >>> pl.DataFrame({"id": [255, None]}, schema={"id": pl.UInt64}).select(hexadecimal("id"))["id"].to_list()
        ['00000000000000ff', None]
    """
    known = pl.col(column).is_not_null()
    return pl.when(known).then(pl.col(column).fill_null(0).map_batches(_digits, return_dtype=pl.String))


def _digits(numbers: pl.Series) -> pl.Series:
    digits = numbers.to_numpy().astype(">u8").tobytes().hex()
    return pl.Series(numbers.name, [digits]).str.extract_all("[0-9a-f]{16}").explode().drop_nulls()
