"""Columns that the compiled scanner filled, as Arrow arrays over the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.formats.pglog._native import Column
from citus_analysis.rows import arrow_type, text_array
from citus_analysis.schema import TABLES

__all__ = ["category_array", "number_array", "spread_texts", "texts_of"]

_EVENTS: Final = TABLES["log_events"]
_NUMBERS: Final = {
    np.int64: pa.int64(),
    np.uint64: pa.uint64(),
    np.int32: pa.int32(),
    np.float64: pa.float64(),
    np.uint8: pa.bool_(),  # one bit a row
}
#: By the width of the numbers of their values.
_CATEGORIES: Final = {np.int32: arrow_type(_EVENTS["application"]), np.uint8: arrow_type(_EVENTS["kind"])}


def number_array(column: Column, rows: int) -> pa.Array:
    """Numbers, or flags of one bit."""
    kind = _NUMBERS[column.values.dtype.type]
    return pa.Array.from_buffers(kind, rows, _buffers(column, rows), rows - column.count)


def category_array(column: Column, rows: int, texts: pa.Array) -> pa.Array:
    """Texts by their numbers; there is at least one text where there is a row."""
    kind = _CATEGORIES[column.values.dtype.type]
    return pa.DictionaryArray.from_buffers(kind, rows, _buffers(column, rows), texts, rows - column.count)


def spread_texts(texts: pl.Series, column: Column, rows: int) -> pa.Array:
    """Texts, one for each row that has one, in order, laid out over all rows."""
    packed = text_array(texts)
    _, bounds, data = packed.buffers()
    places = np.frombuffer(bounds, np.int64)[packed.offset : packed.offset + len(packed) + 1]
    there = np.flatnonzero(np.unpackbits(column.valid, count=rows, bitorder="little"))
    # A row begins where the last text before it ends.
    ends = np.repeat(places, np.diff(there, prepend=-1, append=rows))
    return pa.Array.from_buffers(pa.large_string(), rows, [_validity(column, rows), pa.py_buffer(ends), data])


@cache
def texts_of(words: Sequence[str]) -> pa.Array:
    """Words as values of a category, by way of polars: `pyarrow.array` would import pandas."""
    return text_array(pl.Series(words, dtype=pl.String))


def _buffers(column: Column, rows: int) -> list[pa.Buffer | None]:
    return [_validity(column, rows), pa.py_buffer(column.values)]


def _validity(column: Column, rows: int) -> pa.Buffer | None:
    return None if column.count == rows else pa.py_buffer(column.valid)
