"""Values that a column can have at all: bounds by unit, and relations between the columns of a row.

Samplers print differences of counters, and a counter that went back becomes a number that no machine reaches (10^19
requests/s, -70 MB/s), or zero in every column. A value outside its bounds, or in a relation that does not hold, is kept
as printed, and the column `doubtful` of its row names it (:mod:`citus_analysis.core.possible_values.doubtful_values`).

The bounds are wide: they exclude what cannot be, not what is rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

from citus_analysis.units import SUFFIX_UNITS, unit_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Bounds(NamedTuple):
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


UNBOUNDED: Final = Bounds(float("-inf"))
#: Shares of one processor, added over processors: Linux supports 8192 on x86-64 (CONFIG_NR_CPUS).
CPU_TIME: Final = Bounds(0.0, 8192 * 100.0)
#: Numbers of processes and of requests that wait: at most PID_MAX_LIMIT of Linux.
LOADS: Final = Bounds(0.0, 2.0**22)

#: Unit -> bounds. Devices and interfaces are below 1 TB/s, and events of a host below 2^31 in a second, where a counter
#: of 32 bits wraps; no request waits for 11 days; addresses of 57 bits limit memory to 128 PiB.
_OF_UNIT: Final[dict[str, Bounds]] = {
    SUFFIX_UNITS["_percent"]: Bounds(0.0, 100.0, slack=5.0),
    SUFFIX_UNITS["_per_s"]: Bounds(0.0, 2.0e9),
    SUFFIX_UNITS["_kb_s"]: Bounds(0.0, 1.0e9),
    SUFFIX_UNITS["_ms"]: Bounds(0.0, 1.0e9),
    SUFFIX_UNITS["_kb"]: Bounds(0.0, 2.0**47),
}


def bounds_of_unit(column: str) -> Bounds:
    """The bounds of a column by the suffix of its name.

    Example:
        >>> bounds_of_unit("idle_percent").high, bounds_of_unit("sample") == UNBOUNDED
        (100.0, True)
    """
    return _OF_UNIT.get(unit_of(column) or "", UNBOUNDED)


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
class Share:
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
