"""Rows on their way from a file to Parquet: polars frames, or Arrow record batches where a parser makes them directly.

Both hold columns of a table of :mod:`citus_analysis.schema`. As Arrow, a category is a dictionary of texts.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from citus_analysis.schema import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Rows", "arrow_type", "frame_of", "has_column", "nulls", "record_batch", "repeated_text", "text_array"]

#: Nulls for which memory is kept: many columns are nothing else, and making them anew costs as much as values do.
_MOST_NULLS: Final = 2**18
Rows: TypeAlias = "pl.DataFrame | pa.RecordBatch"


def has_column(rows: Rows, name: str) -> bool:
    """Whether the rows have a column of this name.

    Example:
        >>> has_column(pl.DataFrame({"pid": [7, 8]}), "gpid")
        False
    """
    return name in (rows.columns if isinstance(rows, pl.DataFrame) else rows.schema.names)


def frame_of(table: Table, rows: Rows) -> pl.DataFrame:
    """The rows as a frame of the table's columns and dtypes; absent columns become null.

    Raises:
        ValueError: there is a column that the table does not define.

    Example:
        >>> from citus_analysis.schema import TABLES
        >>> frame_of(TABLES["rejects"].parsed(), pl.DataFrame({"byte_offset": [7]})).row(0)
        (7, None, None, None)
    """
    return table.conform(rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows))


def record_batch(table: Table, rows: Rows) -> pa.RecordBatch:
    """The rows as Arrow arrays of the table's columns, in its order; absent columns become null.

    Raises:
        ValueError: there is a column that the table does not define.

    Example:
        >>> from citus_analysis.schema import TABLES
        >>> record_batch(TABLES["rejects"].parsed(), pl.DataFrame({"byte_offset": [7]})).num_columns
        4
    """
    import pyarrow as pa

    if isinstance(rows, pl.DataFrame):
        table.require_known(rows.columns)
        arrays = {name: _array(rows.get_column(name), table[name]) for name in rows.columns}
    else:
        table.require_known(rows.schema.names)
        arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    return pa.RecordBatch.from_arrays(
        [arrays[c.name] if c.name in arrays else nulls(arrow_type(c), len(rows)) for c in table],
        names=table.names(),
    )


def text_array(texts: pl.Series) -> pa.Array:
    """Texts as Arrow's plain ones, in memory of their own: views into a buffer would keep all of it.

    Example:
        >>> text_array(pl.Series(["one", None])).to_pylist()
        ['one', None]
    """
    return texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def repeated_text(text: str, rows: int) -> pa.DictionaryArray:
    """The same text in every row as a category, which is neither laid out nor hashed row by row.

    Example:
        >>> repeated_text("UTC", 2).to_pylist()
        ['UTC', 'UTC']
    """
    import pyarrow as pa

    values = text_array(pl.Series([text]))
    # By way of the buffer: `pyarrow.array` would import pandas.
    numbers = pa.py_buffer(bytes(rows))
    return pa.DictionaryArray.from_buffers(pa.dictionary(pa.uint8(), values.type), rows, [None, numbers], values, 0)


def nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """Nulls of a type.

    Example:
        >>> nulls(arrow_type(Column("pid", pl.Int32(), "process")), 2).null_count
        2
    """
    import pyarrow as pa

    if rows > _MOST_NULLS:
        return pa.nulls(rows, kind)
    # By way of the buffer: it is the same for all types, and never written to, so it takes no memory.
    zeros = [_zeros()] * kind.num_buffers
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_buffers(kind, rows, zeros, pa.nulls(0, kind.value_type), rows)
    return pa.Array.from_buffers(kind, rows, zeros, rows)


@cache
def _zeros() -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(bytes(8 * (_MOST_NULLS + 1)))


@cache
def arrow_type(column: Column) -> pa.DataType:
    """The type of a column's values as Arrow has them."""
    return pl.Series([], dtype=column.dtype).to_arrow().type


def _array(values: pl.Series, column: Column) -> pa.Array:
    if values.null_count() == len(values):
        return nulls(arrow_type(column), len(values))
    # By way of the category, so that a value that is none fails here and not when the dataset is read.
    typed = values if values.dtype == column.dtype else values.cast(column.dtype)
    return typed.rechunk().to_arrow()
