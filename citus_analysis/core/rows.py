"""Rows between file and Parquet: polars frames, or Arrow record batches if a parser builds them directly.

Both hold columns of a table of :mod:`citus_analysis.schema`. As Arrow, a category is a dictionary of texts. Batches
need no polars, which takes longer to import than a small log takes to read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from citus_analysis.schema import Column, Table

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = [
    "Rows",
    "frame_of",
    "has_column",
    "no_rows",
    "nulls",
    "record_batch",
    "repeated_text",
    "text_array",
    "texts_of",
]

#: Nulls for which memory is kept: many columns are entirely null, and new memory costs as much as values do.
_MOST_NULLS: Final = 2**18
Rows: TypeAlias = "pl.DataFrame | pa.RecordBatch"


def has_column(rows: Rows, name: str) -> bool:
    """Whether the rows have a column of this name.

    Example:
        >>> import polars as pl
        >>> has_column(pl.DataFrame({"pid": [7, 8]}), "gpid")
        False
    """
    import pyarrow as pa

    return name in (rows.schema.names if isinstance(rows, pa.RecordBatch) else rows.columns)


def frame_of(table: Table, rows: Rows) -> pl.DataFrame:
    """The rows as a frame of the table's columns and dtypes; absent columns become null.

    Raises:
        ValueError: there is a column that the table does not define.

    Example:
        >>> import polars as pl
        >>> from citus_analysis.schema import TABLES
        >>> frame_of(TABLES["rejects"].parsed(), pl.DataFrame({"byte_offset": [7]})).row(0)
        (7, None, None, None)
    """
    import polars as pl

    return table.conform(rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows))


@cache
def no_rows(table: Table) -> pa.RecordBatch:
    """No rows of a table.

    Example:
        >>> from citus_analysis.schema import TABLES
        >>> no_rows(TABLES["rejects"].parsed()).shape
        (0, 4)
    """
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([nulls(c.type.arrow, 0) for c in table], names=table.names())


def record_batch(table: Table, rows: Rows) -> pa.RecordBatch:
    """The rows as Arrow arrays of the table's columns, in its order; absent columns become null.

    Raises:
        ValueError: there is a column that the table does not define.

    Example:
        >>> import polars as pl
        >>> from citus_analysis.schema import TABLES
        >>> record_batch(TABLES["rejects"].parsed(), pl.DataFrame({"byte_offset": [7]})).num_columns
        4
    """
    import pyarrow as pa

    if isinstance(rows, pa.RecordBatch):
        table.require_known(rows.schema.names)
        arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    else:
        table.require_known(rows.columns)
        arrays = {name: _array(rows.get_column(name), table[name]) for name in rows.columns}
    return pa.RecordBatch.from_arrays(
        [arrays[c.name] if c.name in arrays else nulls(c.type.arrow, len(rows)) for c in table],
        names=table.names(),
    )


def text_array(texts: pl.Series) -> pa.Array:
    """Texts as plain Arrow texts in separate memory: views would keep the whole buffer alive.

    Example:
        >>> import polars as pl
        >>> text_array(pl.Series(["one", None])).to_pylist()
        ['one', None]
    """
    import polars as pl

    return texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def texts_of(words: Iterable[str]) -> pa.Array:
    """Words as Arrow texts, built from buffers: `pyarrow.array` would import pandas.

    Example:
        >>> texts_of(["one", "two"]).to_pylist()
        ['one', 'two']
    """
    import pyarrow as pa

    data = [word.encode() for word in words]
    ends = array("q", accumulate(map(len, data), initial=0))
    return pa.Array.from_buffers(
        pa.large_string(), len(data), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))], 0
    )


def repeated_text(text: str, rows: int) -> pa.DictionaryArray:
    """The same text in every row as a category, which is neither laid out nor hashed row by row.

    Example:
        >>> repeated_text("UTC", 2).to_pylist()
        ['UTC', 'UTC']
    """
    import pyarrow as pa

    values = texts_of([text])
    numbers = pa.py_buffer(bytes(rows))
    return pa.DictionaryArray.from_buffers(pa.dictionary(pa.uint8(), values.type), rows, [None, numbers], values, 0)


def nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """Nulls of a type.

    Example:
        >>> from citus_analysis.core.column_types import INT32
        >>> nulls(INT32.arrow, 2).null_count
        2
    """
    import pyarrow as pa

    if rows > _MOST_NULLS:
        return pa.nulls(rows, kind)
    # One shared buffer serves all types: it is never written to, so it takes no memory.
    zeros = [_zeros()] * kind.num_buffers
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_buffers(kind, rows, zeros, pa.nulls(0, kind.value_type), rows)
    return pa.Array.from_buffers(kind, rows, zeros, rows)


@cache
def _zeros() -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(bytes(8 * (_MOST_NULLS + 1)))


def _array(values: pl.Series, column: Column) -> pa.Array:
    if values.null_count() == len(values):
        return nulls(column.type.arrow, len(values))
    # Cast through the category, so that an invalid value fails here and not when the dataset is read.
    typed = values if values.dtype == column.dtype else values.cast(column.dtype)
    return typed.rechunk().to_arrow()
