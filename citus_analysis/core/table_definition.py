"""Definitions of tables and columns (types, units, possible values, meanings), and the conversion of rows to them.

The tables themselves are defined in :mod:`citus_analysis.schema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from citus_analysis.core.arrow_arrays import make_null_array
from citus_analysis.units import SUFFIX_UNITS, get_unit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa

# Values that a column can have at all: bounds by unit, and relations between the columns of a row.
#
# Samplers print differences of counters, and a counter that went back becomes a number that no machine reaches (10^19
# requests/s, -70 MB/s), or zero in every column. A value outside its bounds, or in a relation that does not hold, is
# kept as printed, and the column `doubtful` of its row names it. Whatever averages, adds up or ranks samples leaves it
# out (:func:`citus_analysis.bottleneck.samples.null_out_of_range_values`).
#
# The bounds are wide: they exclude what cannot be, not what is rare.


class ValueBounds(NamedTuple):
    """Smallest and largest value, both possible.

    Attributes:
        low: smallest value.
        high: largest value.
        slack: excess over the largest value that rounding explains, as where an interval is timed in whole ticks.
    """

    low: float = 0.0
    high: float = float("inf")
    slack: float = 0.0

    def holds(self, value: float) -> bool:
        """Whether a value is possible."""
        return self.low <= value <= self.high + self.slack

    def __str__(self) -> str:
        """In words."""
        return f"from {self.low:g}" if self.high == float("inf") else f"{self.low:g} to {self.high:,.0f}"


UNBOUNDED: Final = ValueBounds(float("-inf"))
#: Shares of one processor, added over processors: Linux supports 8192 on x86-64 (CONFIG_NR_CPUS).
CPU_TIME: Final = ValueBounds(0.0, 8192 * 100.0)
#: Numbers of processes and of requests that wait: at most PID_MAX_LIMIT of Linux.
LOADS: Final = ValueBounds(0.0, 2.0**22)

#: Unit -> bounds. Devices and interfaces are below 1 TB/s, and events of a host below 2^31 in a second, where a counter
#: of 32 bits wraps; no request waits for 11 days; addresses of 57 bits limit memory to 128 PiB.
_OF_UNIT: Final[dict[str, ValueBounds]] = {
    SUFFIX_UNITS["_percent"]: ValueBounds(0.0, 100.0, slack=5.0),
    SUFFIX_UNITS["_per_s"]: ValueBounds(0.0, 2.0e9),
    SUFFIX_UNITS["_kb_s"]: ValueBounds(0.0, 1.0e9),
    SUFFIX_UNITS["_ms"]: ValueBounds(0.0, 1.0e9),
    SUFFIX_UNITS["_kb"]: ValueBounds(0.0, 2.0**47),
}


def get_unit_bounds(column: str) -> ValueBounds:
    """The bounds of a column by the suffix of its name.

    Example:
        >>> get_unit_bounds("idle_percent").high, get_unit_bounds("sample") == UNBOUNDED
        (100.0, True)
    """
    return _OF_UNIT.get(get_unit(column) or "", UNBOUNDED)


class Numbers(Protocol):
    """The columns of some rows as arrays of numbers, NaN where a value is unknown."""

    def of(self, name: str, /) -> npt.NDArray[np.float64]:
        """One column."""

    def sums(self, names: Sequence[str], /) -> npt.NDArray[np.float64]:
        """The sums of the known values of columns; NaN where none is known."""


class Relation(Protocol):
    """A relation between the columns of a row."""

    @property
    def members(self) -> tuple[str, ...]:
        """The columns."""

    @property
    def inseparable(self) -> bool:
        """One impossible member makes all of them doubtful; otherwise the relation then says nothing."""

    def broken(self, numbers: Numbers, /) -> npt.NDArray[np.bool_]:
        """The rows in which it does not hold; it holds where a value that it needs is unknown (NaN)."""


@dataclass(frozen=True)
class Whole:
    """Parts that add up to a whole if one decisive part is known; other unknown parts count as 0.

    Attributes:
        members: columns of the parts.
        decisive: part without which nothing is known.
        total: the whole.
        slack: deviation that the rounding of the parts explains: `mpstat --dec=0` prints ten whole percents.
    """

    members: tuple[str, ...]
    decisive: str
    total: float = 100.0
    slack: float = 5.0
    inseparable: ClassVar[bool] = True

    def __str__(self) -> str:
        """In words."""
        return f"{self.total:g} as the sum of the parts"

    def broken(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """The rows whose parts have another sum."""
        # NaN if the decisive part is unknown.
        deviation = numbers.sums(self.members) + 0 * numbers.of(self.decisive) - self.total
        return abs(deviation) > self.slack


@dataclass(frozen=True)
class Product:
    """An amount that is a number times the mean size of one, such as data that is requests times their size.

    Both factors are rounded, so only a deviation by a factor of nearly 2 is judged: that of sectors of 512 bytes taken
    for kB.

    Attributes:
        amount: columns whose sum is the amount.
        number: columns whose sum is the number.
        size: column of the size.
        factor: deviation from which on the relation is broken.
        least: amount below which rounding may explain any deviation: `iostat -m --dec=0` prints whole MB.
    """

    amount: tuple[str, ...]
    number: tuple[str, ...]
    size: str
    factor: float = 1.9
    least: float = 600.0
    inseparable: ClassVar[bool] = False

    def __str__(self) -> str:
        """In words."""
        return f"{' + '.join(self.amount)} = ({' + '.join(self.number)}) × {self.size}"

    @property
    def members(self) -> tuple[str, ...]:
        """The columns of amount, number and size."""
        return (*self.amount, *self.number, self.size)

    def broken(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """The rows whose amount deviates by more than the factor."""
        stated, number, size = numbers.sums(self.amount), numbers.sums(self.number), numbers.of(self.size)
        # Half a unit of numbers without decimals.
        low: npt.NDArray[np.float64] = (number - 0.5).clip(0.0) * (size - 0.5).clip(0.0)
        high = (number + 0.5) * (size + 0.5)
        broken: npt.NDArray[np.bool_] = stated > self.factor * high + self.least
        return broken | (low > self.factor * stated + self.least)


@dataclass(frozen=True)
class ShareRelation:
    """A percentage that a part has of itself and a rest, such as merged requests among all.

    Attributes:
        percent: column of the percentage.
        part: column of the part.
        rest: column of the rest.
        slack: deviation in percentage points that rounding explains.
        least: sum of part and rest below which rounding may explain any deviation.
    """

    percent: str
    part: str
    rest: str
    slack: float = 10.0
    least: float = 20.0
    inseparable: ClassVar[bool] = False

    def __str__(self) -> str:
        """In words."""
        return f"{self.percent} = 100 × {self.part} / ({self.part} + {self.rest})"

    @property
    def members(self) -> tuple[str, ...]:
        """The columns of percentage, part and rest."""
        return (self.percent, self.part, self.rest)

    def broken(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """The rows whose percentage deviates by more than the slack."""
        part = numbers.of(self.part)
        whole = part + numbers.of(self.rest)
        deviation = numbers.of(self.percent) * whole - 100 * part
        return (abs(deviation) > self.slack * whole) & (whole > self.least)


#: Name of the column, and what stands between the names in it.
DOUBTFUL: Final = "doubtful"
DOUBTFUL_SEPARATOR: Final = ", "


def list_out_of_range_names(
    batch: pa.RecordBatch, ranges: Mapping[str, ValueBounds], relations: Sequence[Relation] = ()
) -> pa.Array:
    """For each row the names of its doubtful values, separated by commas; null for a row without any.

    Args:
        batch: rows of a table; names that their format gave in `doubtful` are kept.
        ranges: columns that have bounds.
        relations: relations between columns.

    Example:
        >>> import pyarrow as pa
        >>> rows = pa.record_batch({"reads_per_s": [2.0, 9.2e18], "utilization_percent": [100.4, 214748364.7]})
        >>> list_out_of_range_names(rows, {name: get_unit_bounds(name) for name in rows.schema.names}).to_pylist()
        [None, 'reads_per_s, utilization_percent']
    """
    import numpy as np

    numbers = _BatchColumns(batch)
    found = {name: numbers.outside(name, *bounds) for name, bounds in ranges.items()}
    impossible = {name: outside for name, outside in found.items() if outside is not None}
    marked = dict(impossible)
    for relation in relations:
        members = [name for name in relation.members if numbers.has(name)]
        with np.errstate(all="ignore"):
            broken = relation.broken(numbers)
        for outside in (impossible[name] for name in members if name in impossible):
            broken = broken | outside if relation.inseparable else broken & ~outside
        if broken.any():
            marked |= {name: marked.get(name, False) | broken for name in members}
    names = _join_marked_names({name: marked[name] for name in batch.schema.names if name in marked}, len(batch))
    return _join_name_lists(batch.column(DOUBTFUL), names) if DOUBTFUL in batch.schema.names else names


def _join_name_lists(given: pa.Array, names: pa.Array) -> pa.Array:
    """Names that a format gave, for values that no column holds, and those found."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if given.null_count == len(given):
        return names
    if names.null_count == len(names):
        return given
    both = pc.binary_join_element_wise(
        given, names, pa.scalar(DOUBTFUL_SEPARATOR, pa.large_string()), null_handling="skip"
    )
    return pc.if_else(pc.equal(both, pa.scalar("", pa.large_string())), pa.scalar(None, pa.large_string()), both)


class _BatchColumns:
    """Columns of a batch as arrays of numbers, each converted once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._numbers: dict[str, npt.NDArray[np.float64]] = {}

    def has(self, name: str) -> bool:
        """Whether the column has a value."""
        column = self._batch.column(name)
        return bool(column.null_count < len(column))

    def of(self, name: str) -> npt.NDArray[np.float64]:
        """The values, NaN where they are null."""
        import pyarrow as pa

        if name not in self._numbers:
            column = self._batch.column(name).cast(pa.float64(), safe=False)
            self._numbers[name] = column.to_numpy(zero_copy_only=False)
        return self._numbers[name]

    def sums(self, names: Sequence[str]) -> npt.NDArray[np.float64]:
        """The sums of the values that are known; NaN where none is known."""
        import numpy as np

        present = [self.of(name) for name in names if self.has(name)]
        if not present:
            return np.full(len(self._batch), np.nan)
        unknown = np.logical_and.reduce([np.isnan(values) for values in present])
        return np.where(unknown, np.nan, np.nansum(present, axis=0))

    def outside(self, name: str, low: float, high: float, slack: float) -> npt.NDArray[np.bool_] | None:
        """Which values are outside of bounds; None if none is, as in nearly all files."""
        import pyarrow.compute as pc

        if not self.has(name):
            return None
        ends = pc.min_max(self._batch.column(name)).as_py()
        if low <= ends["min"] and ends["max"] <= high + slack:
            return None
        values = self.of(name)
        return (values < low) | (values > high + slack)


def _join_marked_names(marked: Mapping[str, npt.NDArray[np.bool_]], rows: int) -> pa.Array:
    """The names of the marked columns of each row."""
    import numpy as np
    import pyarrow as pa

    if not marked:
        return pa.nulls(rows, pa.large_string())
    bits = np.zeros(rows, np.int64)
    for place, mask in enumerate(marked.values()):
        bits |= mask.astype(np.int64) << place
    kinds, kind_of = np.unique(bits, return_inverse=True)
    names = [
        DOUBTFUL_SEPARATOR.join(name for place, name in enumerate(marked) if kind >> place & 1) or None
        for kind in kinds.tolist()
    ]
    return pa.array(names, pa.large_string()).take(pa.array(kind_of))


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
