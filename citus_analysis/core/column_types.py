"""Types of columns, with the corresponding types of polars and Arrow.

The schema uses these types; those of polars and Arrow are derived from them on first use. A `pyarrow.Schema` would
import pyarrow wherever a column is named: 0.1 s, more than `--help` takes altogether (0.08 s). polars takes 0.25 s,
longer than reading a small log. Enumerations also need their words in order, which Arrow's types do not contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

#: Largest number of words whose codes fit one byte in Arrow.
_BYTE_OF_WORDS: Final = 255


@dataclass(frozen=True)
class ColumnType:
    """The type of a column.

    Attributes:
        name: name of the type.
        words: the allowed values, in order; empty if every value is allowed.

    Example:
        >>> INT64.polars, INT64.arrow
        (Int64, DataType(int64))
        >>> one_of(["load", "run"]).polars
        Enum(categories=['load', 'run'])
    """

    name: str
    words: tuple[str, ...] = ()

    @property
    def polars(self) -> pl.DataType:
        """The corresponding type of polars."""
        return _polars(self)

    @property
    def arrow(self) -> pa.DataType:
        """The corresponding type of Arrow, as polars exports it: a category is a dictionary of texts."""
        return _arrow(self)

    @property
    def stored(self) -> pa.DataType:
        """The corresponding type of Arrow in Parquet files: texts and categories are plain texts."""
        import pyarrow as pa

        return pa.string() if self.is_category or self == TEXT else self.arrow

    @property
    def is_category(self) -> bool:
        """Whether the values are texts with few distinct values."""
        return self.name == CATEGORY.name

    @property
    def is_time(self) -> bool:
        """Whether the values are points in time."""
        return self == TIME

    @property
    def is_integer(self) -> bool:
        """Whether the values are counts or identifiers."""
        return self in {INT32, INT64}


TEXT: Final = ColumnType("text")
FLAG: Final = ColumnType("flag")
INT32: Final = ColumnType("int32")
INT64: Final = ColumnType("int64")
#: Hash values, which are only compared for equality.
HASH: Final = ColumnType("hash")
REAL: Final = ColumnType("real")
#: UTC, always in microseconds: spans need that resolution, and polars does not join times of different units.
TIME: Final = ColumnType("time, µs")
CATEGORY: Final = ColumnType("category")


def one_of(words: Sequence[str]) -> ColumnType:
    """The type of texts from a fixed list."""
    return ColumnType(CATEGORY.name, tuple(words))


@cache
def _polars(kind: ColumnType) -> pl.DataType:
    """What polars makes of Arrow's type; only an enumeration has to be told its words."""
    import polars as pl
    import pyarrow as pa

    return pl.Enum(kind.words) if kind.words else pl.Series(pa.nulls(0, kind.arrow)).dtype


@cache
def _arrow(kind: ColumnType) -> pa.DataType:
    import pyarrow as pa

    if kind.words:
        numbers = pa.uint8() if len(kind.words) <= _BYTE_OF_WORDS else pa.uint16()
        return pa.dictionary(numbers, pa.large_string(), ordered=True)
    types = {
        TEXT: pa.large_string(),
        FLAG: pa.bool_(),
        INT32: pa.int32(),
        INT64: pa.int64(),
        HASH: pa.uint64(),
        REAL: pa.float64(),
        TIME: pa.timestamp("us", "UTC"),
        CATEGORY: pa.dictionary(pa.uint32(), pa.large_string()),
    }
    return types[kind]
