"""Definitions of tables and columns: names, types, units and meanings, and the conversion of rows to them.

The tables themselves are defined in :mod:`citus_analysis.schema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from citus_analysis.core.arrow_arrays import make_null_array
from citus_analysis.core.possible_values import (
    DOUBTFUL,
    UNBOUNDED,
    Relation,
    ValueBounds,
    get_unit_bounds,
    list_out_of_range_names,
)
from citus_analysis.units import get_unit

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

# Types of columns, with the corresponding types of polars and Arrow.
#
# The schema uses these types; those of polars and Arrow are derived from them on first use. A `pyarrow.Schema` would
# import pyarrow wherever a column is named: 0.1 s, more than `--help` takes altogether (0.08 s). polars takes 0.25 s,
# longer than reading a small log. Enumerations also need their words in order, which Arrow's types do not contain.

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
        >>> make_enum_type(["load", "run"]).polars
        Enum(categories=['load', 'run'])
    """

    name: str
    words: tuple[str, ...] = ()

    @property
    def polars(self) -> pl.DataType:
        """The corresponding type of polars."""
        return _convert_to_polars_type(self)

    @property
    def arrow(self) -> pa.DataType:
        """The corresponding type of Arrow, as polars exports it: a category is a dictionary of texts."""
        return _get_arrow_type(self)

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


def make_enum_type(words: Sequence[str]) -> ColumnType:
    """The type of texts from a fixed list."""
    return ColumnType(CATEGORY.name, tuple(words))


@cache
def _convert_to_polars_type(kind: ColumnType) -> pl.DataType:
    import polars as pl

    if kind.words:
        return pl.Enum(kind.words)
    types = {
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
def _get_arrow_type(kind: ColumnType) -> pa.DataType:
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


PARTITION_KEY: Final = "resource"

#: Columns with the origin of a row, which the dataset layer fills in, not a format.
IDENTITY_COLUMNS: Final = ("source_id", "resource", "run_id", "iteration", "node", "role", "part")

#: Rows as a format may yield them; :meth:`Table.batch` converts both to one record batch.
Rows: TypeAlias = "pl.DataFrame | pa.RecordBatch"


@dataclass(frozen=True)
class Column:
    """One column: its name (with unit suffix), type and meaning.

    Attributes:
        source: source of its values; None: that of its table.
        bounds: values that it can have; None: those of its unit.
    """

    name: str
    type: ColumnType
    meaning: str
    source: str | None = None
    bounds: ValueBounds | None = None

    @property
    def range(self) -> ValueBounds:
        """The values that it can have; only tables with a column `doubtful` are compared with it."""
        return get_unit_bounds(self.name) if self.bounds is None else self.bounds

    @property
    def dtype(self) -> pl.DataType:
        """The corresponding type of polars."""
        return self.type.polars

    @property
    def unit(self) -> str | None:
        """Printable unit, from the name's suffix; None if it has none."""
        return get_unit(self.name)

    def arrow(self, source: str, *, stored: bool = False) -> pa.Field:
        """The column as a field of Arrow, with its `unit` (if it has one), `meaning` and `source` as metadata.

        Args:
            source: source of the table.
            stored: as in Parquet files: texts and categories are plain texts, and only a source other than that of the
                table is stated, because footers are read whenever a dataset is opened.
        """
        import pyarrow as pa

        own = self.source or (None if stored else source)
        facts = {"unit": self.unit, "meaning": self.meaning, "source": own}
        kind = self.type.stored if stored else self.type.arrow
        return pa.field(self.name, kind, metadata={name: fact for name, fact in facts.items() if fact})


@dataclass(frozen=True, eq=False)
class Table:
    """One table: name, meaning, source of its rows, and its columns in order. Each is defined once: none are equal."""

    name: str
    meaning: str
    source: str
    columns: tuple[Column, ...]
    #: Identity columns that the file itself states, so that its format yields them.
    stated: frozenset[str] = frozenset()
    #: Relations between columns, by which values are doubtful.
    relations: tuple[Relation, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def _dtypes(self) -> dict[str, pl.DataType]:
        return {column.name: column.dtype for column in self.columns}

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.columns]

    @cache  # noqa: B019 - a table lives as long as the program
    def parsed(self) -> Table:
        """The part of the table that a format module yields: all columns but the identity columns it does not state."""
        kept = tuple(c for c in self.columns if c.name not in IDENTITY_COLUMNS or c.name in self.stated)
        return Table(self.name, self.meaning, self.source, kept, self.stated, self.relations)

    @cache  # noqa: B019 - a table lives as long as the program
    def arrow(self) -> pa.Schema:
        """The table as a schema of Arrow.

        The metadata of the schema contain the table's `meaning` and `source`, those of a field the column's `meaning`,
        `source` and, if it has one, `unit`; all are bytes in UTF-8, as always in Arrow.

        Example:
            >>> from citus_analysis.schema import TABLES
            >>> metadata = TABLES["spans"].arrow().field("duration_us").metadata
            >>> {name.decode(): text.decode() for name, text in metadata.items()}
            {'unit': 'µs', 'meaning': 'as reported by the server', 'source': 'derived from log_events'}
        """
        return self._arrow_schema(self.columns, stored=False)

    @cache  # noqa: B019 - a table lives as long as the program
    def stored(self) -> pa.Schema:
        """The schema of the table's Parquet files: without the partition key, texts and categories as plain texts.

        Readers derive the same types from files without an Arrow schema, as older versions wrote them, so old and new
        files of a table can be read together.
        """
        return self._arrow_schema((c for c in self.columns if c.name != PARTITION_KEY), stored=True)

    def _arrow_schema(self, columns: Iterable[Column], *, stored: bool) -> pa.Schema:
        import pyarrow as pa

        facts = {"meaning": self.meaning, "source": self.source}
        return pa.schema([column.arrow(self.source, stored=stored) for column in columns], metadata=facts)

    def polars_schema(self) -> pl.Schema:
        """Column names and dtypes for polars."""
        import polars as pl

        return pl.Schema(self._dtypes)

    def empty(self) -> pl.DataFrame:
        """A frame of this table without rows."""
        import polars as pl

        return pl.DataFrame(schema=self.polars_schema())

    def require_known(self, names: Iterable[str]) -> None:
        """Check that every name is a column of this table.

        Raises:
            ValueError: a name is not a column.
        """
        unknown = [name for name in names if name not in self]
        if unknown:
            raise ValueError(f"{self.name} defines no column {', '.join(unknown)}")

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Bring a frame to this table's columns, order and dtypes; absent columns become null.

        Raises:
            ValueError: the frame has a column that the table does not define.
        """
        present = frame.schema
        if list(present.items()) == list(self._dtypes.items()):
            return frame
        self.require_known(present)
        import polars as pl

        return frame.select(
            (pl.col(name) if name in present else pl.lit(None)).cast(dtype).alias(name)
            for name, dtype in self._dtypes.items()
        )

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Rows as a record batch of this table's Arrow schema; absent columns become null, texts may stay categories.

        This is the only conversion of rows between formats and files: rows of this schema are returned as they are.

        Raises:
            ValueError: there is a column that the table does not define.
            polars.exceptions.InvalidOperationError: a value does not fit its column.

        Example:
            >>> import polars as pl
            >>> from citus_analysis.schema import TABLES
            >>> TABLES["rejects"].parsed().batch(pl.DataFrame({"byte_offset": [7]})).to_pylist()
            [{'byte_offset': 7, 'byte_length': None, 'reason': None, 'excerpt': None}]
        """
        import pyarrow as pa

        if isinstance(rows, pa.RecordBatch):
            if rows.schema.equals(self.arrow()):
                return rows
            given = dict(zip(rows.schema.names, rows.columns, strict=True))
        else:
            self.require_known(rows.columns)
            if rows.is_empty():
                return self.no_rows()
            given = {values.name: _convert_to_arrow_array(values, self[values.name]) for values in rows.iter_columns()}
        self.require_known(given)
        columns = [given[c.name] if c.name in given else make_null_array(c.type.arrow, len(rows)) for c in self.columns]
        # Arrays of another type are cast here.
        return pa.RecordBatch.from_arrays(columns, schema=self._with_categories(columns))

    def _with_categories(self, columns: list[pa.Array]) -> pa.Schema:
        """The schema, with texts as categories if the column is one."""
        import pyarrow as pa

        schema = self.arrow()
        for at, (column, values) in enumerate(zip(self.columns, columns, strict=True)):
            if column.type == TEXT and pa.types.is_dictionary(values.type):
                schema = schema.set(at, schema.field(at).with_type(values.type))
        return schema

    def judged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of this table with the names of their doubtful values, if it has the column `doubtful`.

        Example:
            >>> import polars as pl
            >>> from citus_analysis.schema import TABLES
            >>> table = TABLES["net_samples"].parsed()
            >>> table.judged(table.batch(pl.DataFrame({"receive_kb_s": [-5.0, 5.0]})))["doubtful"].to_pylist()
            ['receive_kb_s', None]
        """
        if DOUBTFUL not in self or not len(batch):
            return batch
        place = batch.schema.get_field_index(DOUBTFUL)
        ranges = {column.name: column.range for column in self.columns if column.range != UNBOUNDED}
        names = list_out_of_range_names(batch, ranges, self.relations)
        return batch.set_column(place, batch.schema.field(place), names)

    @cache  # noqa: B019 - a table lives as long as the program
    def no_rows(self) -> pa.RecordBatch:
        """No rows of this table.

        Example:
            >>> from citus_analysis.schema import TABLES
            >>> TABLES["rejects"].no_rows().shape
            (0, 6)
        """
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [make_null_array(field.type, 0) for field in self.arrow()], schema=self.arrow()
        )

    def frame(self, batch: pa.RecordBatch) -> pl.DataFrame:
        """A record batch of this table as a polars frame with its dtypes."""
        import polars as pl

        return self.conform(pl.DataFrame(batch))


def _convert_to_arrow_array(values: pl.Series, column: Column) -> pa.Array:
    import polars as pl

    if values.null_count() == len(values):
        return make_null_array(column.type.arrow, len(values))
    if column.type == TEXT and values.dtype == pl.Categorical:
        return values.rechunk().to_arrow()
    # Cast through the category, so that an invalid value fails here and not when the dataset is read.
    typed = values if values.dtype == column.dtype else values.cast(column.dtype)
    return typed.rechunk().to_arrow()
