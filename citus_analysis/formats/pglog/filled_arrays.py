"""Columns that the compiled scanner filled, as Arrow arrays over the same memory."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.pglog.compiled import gather
from citus_analysis.formats.pglog.filled_columns import FilledColumn
from citus_analysis.formats.pglog.string_views import Bytes
from citus_analysis.schema import TABLES

_EVENTS: Final = TABLES["log_events"]
_NUMBER_COLUMNS: Final = {
    np.int64: pa.int64(),
    np.uint64: pa.uint64(),
    np.int32: pa.int32(),
    np.float64: pa.float64(),
    np.uint8: pa.bool_(),  # one bit a row
}
#: Types of the codes -> dictionary types.
_CATEGORIES: Final = {np.int32: _EVENTS["application"].type.arrow, np.uint8: _EVENTS["kind"].type.arrow}


def number_array(column: FilledColumn, rows: int) -> pa.Array:
    """Numbers, or flags of one bit."""
    kind = _NUMBER_COLUMNS[column.values.dtype.type]
    return pa.Array.from_buffers(kind, rows, _list_column_buffers(column, rows), rows - column.count)


def make_category_array(column: FilledColumn, rows: int, texts: pa.Array) -> pa.Array:
    """A column of numbers of texts as a dictionary array; `texts` is not empty if there are rows."""
    kind = _CATEGORIES[column.values.dtype.type]
    return pa.DictionaryArray.from_buffers(kind, rows, _list_column_buffers(column, rows), texts, rows - column.count)


def gather_text_array(buffer: Bytes, places: Integers) -> pa.Array:
    """Slices of UTF-8 (begin and end of each) as texts in memory of their own."""
    bounds, data = gather(buffer, places)
    return pa.Array.from_buffers(pa.large_string(), len(places), [None, pa.py_buffer(bounds), pa.py_buffer(data)], 0)


def spread_texts(texts: pa.Array, column: FilledColumn, rows: int) -> pa.Array:
    """A column with the given texts, one per valid row, in order; other rows are null."""
    _, bounds, data = texts.buffers()
    places = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    there = np.flatnonzero(np.unpackbits(column.valid, count=rows, bitorder="little"))
    # A null row begins and ends where the text before it ends.
    ends = np.repeat(places, np.diff(there, prepend=-1, append=rows))
    return pa.Array.from_buffers(
        pa.large_string(), rows, [_make_validity_buffer(column, rows), pa.py_buffer(ends), data]
    )


def join_row_numbers(row: Integers, number: Integers, rows: int) -> pa.Array:
    """The numbers of each row as one text, separated by spaces; null for rows without numbers.

    Args:
        row: the row of each number, ascending.
        number: the numbers.
        rows: number of rows of the result.

    Example:
        >>> join_row_numbers(np.array([1, 1]), np.array([102012, 102016]), 3).to_pylist()
        [None, '102012 102016', None]
    """
    # Imported here, because few logs have statements that name several shards.
    import pyarrow.compute as pc

    own, first = np.unique(row, return_index=True)
    texts = pa.ListArray.from_arrays(np.append(first, len(row)).astype(np.int32), pa.array(number).cast(pa.string()))
    place = np.searchsorted(own, np.arange(rows))
    absent = np.isin(np.arange(rows), own, invert=True)
    return pc.binary_join(texts, " ").cast(pa.large_string()).take(pa.array(place, mask=absent))


def _list_column_buffers(column: FilledColumn, rows: int) -> list[pa.Buffer | None]:
    return [_make_validity_buffer(column, rows), pa.py_buffer(column.values)]


def _make_validity_buffer(column: FilledColumn, rows: int) -> pa.Buffer | None:
    return None if column.count == rows else pa.py_buffer(column.valid)
