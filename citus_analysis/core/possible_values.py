"""The column `doubtful`: names of the columns of a row whose values cannot be, and how readers leave them out.

A row is kept as its tool printed it. Whatever averages, adds up or ranks samples uses
:func:`null_out_of_range_values`, which makes the values that are named null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

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
# kept as printed, and the column `doubtful` of its row names it (:mod:`citus_analysis.core.possible_values`).
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


#: Name of the column.
DOUBTFUL: Final = "doubtful"
_SEPARATOR: Final = ", "


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
    both = pc.binary_join_element_wise(given, names, pa.scalar(_SEPARATOR, pa.large_string()), null_handling="skip")
    return pc.if_else(pc.equal(both, pa.scalar("", pa.large_string())), pa.scalar(None, pa.large_string()), both)


def null_out_of_range_values(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples whose doubtful values are null; frames without the column `doubtful` are returned as they are.

    Example:
        >>> import polars as pl
        >>> samples = pl.DataFrame({"idle_percent": [0.0, 97.0], "doubtful": ["idle_percent", None]})
        >>> null_out_of_range_values(samples)["idle_percent"].to_list()
        [None, 97.0]
    """
    import polars as pl

    if DOUBTFUL not in samples.columns or samples[DOUBTFUL].null_count() == samples.height:
        return samples
    named = pl.col(DOUBTFUL).cast(pl.String).str.split(_SEPARATOR)
    names = samples.select(named.explode().drop_nulls().unique()).to_series().to_list()
    kept = {name: ~named.list.contains(name).fill_null(value=False) for name in names if name in samples.columns}
    return samples.with_columns(pl.when(sound).then(pl.col(name)).alias(name) for name, sound in kept.items())


def has_out_of_range_values(samples: pl.DataFrame, *names: str) -> pl.Series:
    """Whether one of some values of a row is doubtful, and with it what is computed from all of them.

    Example:
        >>> import polars as pl
        >>> samples = pl.DataFrame({"doubtful": ["reads_per_s, read_kb_s", "read_kb_s", None]})
        >>> has_out_of_range_values(samples, "reads_per_s", "writes_per_s").to_list()
        [True, False, False]
    """
    import polars as pl

    if DOUBTFUL not in samples.columns or samples[DOUBTFUL].null_count() == samples.height:
        return pl.repeat(False, samples.height, dtype=pl.Boolean, eager=True)
    named = samples[DOUBTFUL].cast(pl.String).str.split(_SEPARATOR)
    return named.list.set_intersection(list(names)).list.len().fill_null(0) > 0


def select_in_range_samples(samples: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The rows of samples in which none of some values is doubtful, for sums over the rows of a sample.

    Example:
        >>> import polars as pl
        >>> rows = {"source_id": "s", "sample": [0, 0, 1], "doubtful": [None, "read_kb_s", None]}
        >>> select_in_range_samples(pl.DataFrame(rows), ["read_kb_s"])["sample"].to_list()
        [1]
    """
    lost = has_out_of_range_values(samples, *names)
    if not lost.any():
        return samples
    return samples.join(samples.filter(lost), on=["source_id", "sample"], how="anti", maintain_order="left")


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
        _SEPARATOR.join(name for place, name in enumerate(marked) if kind >> place & 1) or None
        for kind in kinds.tolist()
    ]
    return pa.array(names, pa.large_string()).take(pa.array(kind_of))
