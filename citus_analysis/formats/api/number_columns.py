"""Range checks of printed numbers: a number out of its column's range rejects the line, not the file.

Example:
    >>> frame = pl.DataFrame({"value": [1.0, 3e9, float("inf"), None]})
    >>> frame.select(fits(pl.col("value"), pl.Int32()))["value"].to_list()
    [True, False, False, None]
    >>> whole_number("42", pl.Int32())
    42
    >>> whole_number("3000000000", pl.Int32())
    Traceback (most recent call last):
    ...
    ValueError: not a whole number that fits: '3000000000'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import polars as pl

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_BITS: Final[Mapping[pl.DataType, int]] = {pl.Int32(): 32, pl.Int64(): 64}
_SHOWN_CHARS: Final = 40


def fits(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Whether a finite number is within a column's range; null for a null."""
    if dtype == pl.Float64():
        return value.is_finite()
    return value.is_finite() & (value.cast(dtype, strict=False).is_not_null() | value.is_null())


def whole_number(text: str, dtype: pl.DataType) -> int:
    """The value of a number in ASCII digits, for an integer column.

    Raises:
        ValueError: the text is not a whole number or is out of the column's range.
    """
    if _WHOLE.fullmatch(text.strip()):
        number = int(text)
        if -(2 ** (_BITS[dtype] - 1)) <= number < 2 ** (_BITS[dtype] - 1):
            return number
    raise ValueError(f"not a whole number that fits: {text[:_SHOWN_CHARS]!r}")
