"""Types of columns, and what each is in polars and in Arrow.

Naming a type imports neither: polars takes a quarter of a second, which is most of the time of reading a small log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = [
    "CATEGORY",
    "FLAG",
    "HASH",
    "INT32",
    "INT64",
    "REAL",
    "TEXT",
    "TIME",
    "ColumnType",
    "one_of",
]

#: As many words as have numbers of one byte in Arrow.
_BYTE_OF_WORDS: Final = 255


@dataclass(frozen=True)
class ColumnType:
    """The type of a column.

    Attributes:
        name: what it is called.
        words: the values there can be, in their order; none where there can be any.

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
        """The type as polars has it."""
        return _polars(self)

    @property
    def arrow(self) -> pa.DataType:
        """The type as Arrow has it, and as polars hands it over: a category is a dictionary of texts."""
        return _arrow(self)

    @property
    def is_category(self) -> bool:
        """Texts of which few differ."""
        return self.name == CATEGORY.name

    @property
    def is_time(self) -> bool:
        """Points in time."""
        return self == TIME

    @property
    def is_integer(self) -> bool:
        """Whole numbers that count or number something."""
        return self in {INT32, INT64}


TEXT: Final = ColumnType("text")
FLAG: Final = ColumnType("flag")
INT32: Final = ColumnType("int32")
INT64: Final = ColumnType("int64")
#: Numbers that only tell whether two things are the same.
HASH: Final = ColumnType("hash")
REAL: Final = ColumnType("real")
#: UTC, in microseconds whatever was printed: spans need them, and polars joins no times of two units.
TIME: Final = ColumnType("time, µs")
CATEGORY: Final = ColumnType("category")


def one_of(words: Sequence[str]) -> ColumnType:
    """Texts of which there are only these."""
    return ColumnType(CATEGORY.name, tuple(words))


@cache
def _polars(kind: ColumnType) -> pl.DataType:
    import polars as pl

    if kind.words:
        return pl.Enum(kind.words)
    types: dict[ColumnType, pl.DataType] = {
        TEXT: pl.String(),
        FLAG: pl.Boolean(),
        INT32: pl.Int32(),
        INT64: pl.Int64(),
        HASH: pl.UInt64(),
        REAL: pl.Float64(),
        TIME: pl.Datetime("us", "UTC"),
        CATEGORY: pl.Categorical(),
    }
    return types[kind]


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
