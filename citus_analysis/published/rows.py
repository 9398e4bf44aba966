"""Published numbers for the audit: tables of rows, each number with the range that its digits allow."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypedDict, cast

import polars as pl

from citus_analysis.texts.metric_names import COUNTS, Metric, parse_metric, parse_percentile
from citus_analysis.texts.numbers import format_number

# The range of values that a printed number can represent.
#
# A printed 2.3 means a value between 2.25 and 2.4 (rounded or truncated). All checks of the audit compute with such
# ranges, so that rounding is never reported as an error.

#: Mark in front of a stated number that the publication itself calls an approximation.
APPROXIMATE: Final = "~"

_DIGITS: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")
#: Leading digits that count even if they are zeros: 800 is not printed as 1000.
_SURE_DIGITS: Final = 2


@dataclass(frozen=True)
class Range:
    """An interval of positive values that a statement allows; arithmetic widens it.

    Attributes:
        low: the smallest value.
        high: the largest value.
        printed: what the numbers give as they are printed. It is not the middle of the ends, because a number may be
            cut off as well as rounded.

    Example:
        >>> two, one = compute_stated_range(275_000, "~275000"), compute_stated_range(250_000, "~250000")
        >>> round((two / one).printed, 6), round((two / one).low, 3), round((two / one).high, 3)
        (1.1, 1.056, 1.127)
    """

    low: float
    high: float
    printed: float = field(default=math.nan, repr=False, compare=False)

    def __post_init__(self) -> None:
        if math.isnan(self.printed):
            object.__setattr__(self, "printed", (self.low + self.high) / 2)

    @classmethod
    def exact(cls, value: float) -> Range:
        """The range of a counted number."""
        return cls(value, value, value)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high, self.printed + other.printed)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low, self.printed - other.printed)

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(min(ends), max(ends), self.printed * other.printed)

    def __truediv__(self, other: Range) -> Range:
        if other.low <= 0 <= other.high:
            return Range(-math.inf, math.inf)
        return self * Range(1 / other.high, 1 / other.low, 1 / other.printed)

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low, -self.printed)

    def scaled(self, factor: float) -> Range:
        """The range in another unit."""
        return self * Range.exact(factor)

    def overlaps(self, other: Range) -> bool:
        """Whether a value satisfies both statements."""
        slack = 1e-9 * max(abs(self.high), abs(other.high))
        return self.low <= other.high + slack and other.low <= self.high + slack


def count_significant_digits(stated: str) -> int:
    """Digits of a printed number, from the first to the last that is not zero.

    Example:
        >>> count_significant_digits("12,300"), count_significant_digits("0.0450"), count_significant_digits("12300.0")
        (3, 2, 3)
    """
    found = _DIGITS.search(stated)
    if found is None:
        return 0
    mantissa = re.split("[eE]", found[0])[0]
    return len(re.sub(r"[,.]", "", mantissa).strip("0"))


def compute_column_resolution(values: Sequence[float], stated: Sequence[str]) -> list[float]:
    """The step of the last printed digit of each number of a column.

    Numbers of a column are rounded to the same step (2,500 beside 5,568 is not rounded to hundreds), or to the same
    number of significant digits (12,300 beside 456 may be). Zeros at the end count as rounding if both rules allow it.

    Args:
        values: the numbers.
        stated: their texts.

    Example:
        >>> compute_column_resolution([2_500, 5_568], ["2,500", "5,568"])
        [1.0, 1.0]
        >>> compute_column_resolution([12_300, 9_870, 456], ["12300", "9870", "456"])
        [100.0, 10.0, 1.0]
    """
    most = max(_SURE_DIGITS, *(count_significant_digits(text) for text in stated), 0)
    padded = _has_printed_zeros(stated)
    texts = [text if padded else _TRAILING.sub("", text) for text in stated]
    own = [compute_resolution(value, text) for value, text in zip(values, texts, strict=True)]
    finest = min((step for step in own if step), default=0.0)
    # A number printed with an exponent lacks the zeros at its end, which may have been significant.
    last = [
        0.0 if "e" in text.lower() else compute_resolution(value, text, zeros=True)
        for value, text in zip(values, texts, strict=True)
    ]
    return [
        step if APPROXIMATE in text else min(step, max(finest, _step_at(value, most), digit))
        for value, text, step, digit in zip(values, texts, own, last, strict=True)
    ]


def _step_at(value: float, digits: int) -> float:
    """The step of the last of `digits` significant digits of a number."""
    return 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits) if value else 0.0


#: `.0` at the end, as in whole numbers of floating-point columns; `.00` is printed with two decimals.
_TRAILING: Final = re.compile(r"(?<=\d)[.]0(?![\deE])")


def _has_printed_zeros(stated: Sequence[str]) -> bool:
    """Whether zeros after the point are significant: all numbers of the column have the same number of decimals."""
    decimals = {len(text.partition(".")[2]) for text in stated}
    return len(decimals) == 1 and not all(_TRAILING.search(text) for text in stated)


def compute_resolution(value: float, stated: str, *, zeros: bool = False) -> float:
    """The step between two neighbouring numbers of the printed precision, in the unit of `value`.

    Zeros at the end of a whole number count as rounding, but two digits are always significant. An approximation
    (``~`` in front) has only the digits before its zeros.

    Args:
        value: the number.
        stated: its text.
        zeros: whether zeros at the end are significant.

    Example:
        >>> (
        ...     compute_resolution(16_600, "16,600"),
        ...     compute_resolution(9_000, "9,000"),
        ...     compute_resolution(9_000, "~9,000"),
        ... )
        (100.0, 100.0, 1000.0)
        >>> compute_resolution(93_519, "93.519")
        1.0
    """
    found = _DIGITS.search(stated)
    if found is None:
        return 10.0 ** math.floor(math.log10(abs(value))) if value and APPROXIMATE in stated else 0.0
    text = found[0].replace(",", "").lower()
    mantissa, _, exponent = text.partition("e")
    whole, _, decimals = mantissa.partition(".")
    if not float(text) or not value:
        return 10.0 ** -len(decimals)
    scale = float(f"{abs(value) / float(text):.9g}") * 10.0 ** int(exponent or 0)
    if decimals or zeros:
        return scale * 10.0 ** -len(decimals)
    rounded = len(whole) - len(whole.rstrip("0"))
    if APPROXIMATE not in stated:
        rounded = min(rounded, max(len(whole) - _SURE_DIGITS, 0))
    return scale * 10.0**rounded


def compute_stated_range(value: float, stated: str, step: float | None = None) -> Range:
    """The values that print as `stated`, by rounding or truncation.

    Args:
        value: the number.
        stated: its text.
        step: printed precision, if the number's column shows it better than this text alone.
    """
    step = compute_resolution(value, stated) if step is None else step
    away = math.copysign(1, value)
    ends = value - away * step / 2, value + away * step
    return Range(min(ends), max(ends), value)


class PublishedCells(TypedDict):
    """One line of ``schema.TABLES["published"]``, with `step`: that of the last printed digit of its number."""

    source: str
    table: str
    row: str
    system: str | None
    workload: str | None
    metric: str
    unit: str | None
    value: float
    stated: str
    note: str | None
    seed: int | None
    n: int | None
    step: float


#: The suffix that distinguishes lines with the same words.
_LINE: Final = re.compile(r" \(line \d+\)$")
_NUMERALS: Final = re.compile(r"[-+\d.,eE~\s]")
_DIGITS_AND_PLURALS: Final = re.compile(r"\d[\d.,]*|s\b")
#: Dimension and factor -> unit in findings, if the table has it only in the metric's name.
_UNITS: Final = {
    ("rate", 1.0): "operations/s",
    ("time", 1.0): "s",
    ("time", 1e-3): "ms",
    ("time", 1e-6): "µs",
    ("percent", 1.0): "%",
    ("data_rate", 1e6): "MB/s",
}
#: Stems of means that a sigma or an interval may belong to, in order of preference.
MEANS: Final = ("throughput", "nopm", "latency", "client_latency", "server_latency", "mean")


@dataclass(frozen=True)
class StatedNumber:
    """One stated number in base units (seconds, 1/s, bytes/s).

    Attributes:
        metric: its quantity.
        name: its name in the table.
        value: its value in the base unit.
        range: the values that its digits allow, in the base unit.
        stated: its text as printed.
        unit: printed unit.
        note: remark of the transcriber.
        transcribed: whether it comes from a publication, and not from a user's table.
    """

    metric: Metric
    name: str
    value: float
    range: Range
    stated: str
    unit: str
    note: str
    transcribed: bool

    def __str__(self) -> str:
        text = self.stated.removeprefix(APPROXIMATE)
        bare = text.replace(",", "").replace(".", "").isdigit()
        return f"{text} {self.unit}".strip() if bare else text

    def printed(self, value: float) -> str:
        """Another value of the same quantity, in the printed unit of this one."""
        return f"{format_number(value / self.metric.factor)} {self.unit}".strip()


@dataclass(frozen=True)
class Row:
    """All numbers of one subject in one row of a table, or in one sentence."""

    source: str
    table: str
    label: str
    system: str | None
    workload: str | None
    n: int | None
    numbers: Mapping[str, list[StatedNumber]]

    def get(self, stem: str) -> StatedNumber | None:
        """The number of that stem with the most digits, or None."""
        return self[stem] if self.states(stem) else None

    def __getitem__(self, stem: str) -> StatedNumber:
        """The number of that stem with the most digits.

        Raises:
            KeyError: the row states none.
        """
        return min(self.numbers[stem], key=lambda number: number.range.high - number.range.low)

    def states(self, *stems: str) -> bool:
        """Whether the row states a number for each of the stems."""
        return all(stem in self.numbers for stem in stems)

    @property
    def group(self) -> tuple[str, str, str]:
        """The subject of the row without its size: rows of one group are points of one series."""
        label = _LINE.sub("", self.label)
        words = re.sub(r"\W+", " ", _DIGITS_AND_PLURALS.sub("", label)).strip().lower()
        return self.system or "", self.workload or "", words

    @property
    def concurrency(self) -> StatedNumber | None:
        """The client's largest number of simultaneous requests: its connections, or else its threads."""
        return self.get("connections") or self.get("threads")

    def mean_for(self, spread: StatedNumber) -> StatedNumber | None:
        """The mean that a sigma or an interval's end belongs to: the one of the same dimension."""
        present = [self[stem] for stem in MEANS if self.states(stem)]
        same = [number for number in present if number.metric.dimension == spread.metric.dimension]
        return next(iter(same or ([] if spread.metric.dimension else present)), None)

    @property
    def sigma_and_mean(self) -> tuple[StatedNumber | None, StatedNumber | None]:
        """The standard deviation, and the mean that it belongs to."""
        sigma = self.get("sigma")
        return sigma, sigma and self.mean_for(sigma)

    @property
    def place(self) -> tuple[str, str, str]:
        """Publication, table and row, as findings name them."""
        return self.source, self.table, self.label

    def percentiles(self) -> dict[str, dict[float, StatedNumber]]:
        """Quantity -> percentage -> number; 0 is the minimum, 100 the maximum."""
        found: dict[str, dict[float, StatedNumber]] = defaultdict(dict)
        for stem in self.numbers:
            of = parse_percentile(stem)
            if stem.endswith(("_min", "_max")):
                of = stem[:-4], 0.0 if stem.endswith("_min") else 100.0
            if of:
                found[of[0]][of[1]] = self[stem]
        return found


@dataclass
class ResultTable:
    """The rows of one table of one publication."""

    source: str
    name: str
    rows: list[Row] = field(default_factory=list)


def group_result_tables(frame: pl.DataFrame) -> list[ResultTable]:
    """Group a frame of ``schema.TABLES["published"]`` into tables and rows, in the order of the frame."""
    known = frame.drop_nulls("value").iter_rows(named=True)
    numbers = cast("list[PublishedCells]", [row | {"stated": row["stated"] or f"{row['value']:.15g}"} for row in known])
    _add_steps(numbers)
    tables: dict[tuple[str, str], ResultTable] = {}
    grouped: dict[tuple[str | None, ...], list[PublishedCells]] = defaultdict(list)
    for cells in numbers:
        grouped[cells["source"], cells["table"], cells["row"], cells["system"], cells["workload"]].append(cells)
    for members in grouped.values():
        source, name = members[0]["source"], members[0]["table"]
        tables.setdefault((source, name), ResultTable(source, name)).rows.append(_build_result_row(members))
    return list(tables.values())


def _build_result_row(members: Sequence[PublishedCells]) -> Row:
    held: dict[str, list[StatedNumber]] = defaultdict(list)
    for cells in members:
        number = _number(cells)
        stem = number.metric.stem
        beside = held.get(stem)
        if beside and not _is_same_quantity(beside[0], number):
            # Another quantity with the same name, such as MB/s and operations/s, or queries/s and transactions/s.
            stem = f"{stem} ({number.name})"
        held[stem].append(number)
    n = next((cells["n"] for cells in members if cells["n"] is not None), None)
    first = members[0]
    return Row(first["source"], first["table"], first["row"], first["system"], first["workload"], n, dict(held))


def _is_same_quantity(a: StatedNumber, b: StatedNumber) -> bool:
    return a.metric.dimension == b.metric.dimension and _is_of_queries(a.name) == _is_of_queries(b.name)


def _is_of_queries(name: str) -> bool:
    return name.lower().startswith(("q/s", "qps", "quer"))


def _number(cells: PublishedCells) -> StatedNumber:
    metric = parse_metric(cells["metric"], cells["unit"])
    value, stated = cells["value"], cells["stated"]
    allowed = Range.exact(value) if metric.stem in COUNTS else compute_stated_range(value, stated, cells["step"])
    return StatedNumber(
        metric,
        cells["metric"],
        value * metric.factor,
        allowed.scaled(metric.factor),
        stated,
        cells["unit"] or _UNITS.get((metric.dimension, metric.factor), ""),
        cells["note"] or "",
        cells["seed"] is not None,
    )


def _add_steps(numbers: Sequence[PublishedCells]) -> None:
    """Add the printed precision, from the numbers of a column in the same style (240k and 246,396 differ)."""
    columns: dict[tuple[str, ...], list[PublishedCells]] = defaultdict(list)
    for cells in numbers:
        style = _NUMERALS.sub("", cells["stated"])
        columns[cells["source"], cells["table"], cells["metric"], cells["unit"] or "", style].append(cells)
    for column in columns.values():
        steps = compute_column_resolution([cells["value"] for cells in column], [cells["stated"] for cells in column])
        for cells, step in zip(column, steps, strict=True):
            cells["step"] = step


# Numbers as they are printed, and the values that they may stand for, in exact arithmetic.

_PRINTED_DIGITS: Final = re.compile(r"-?\d+(?:[ ,]\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")


def parse_decimal(text: str | None) -> Decimal | None:
    """The first number of a text, with the digits that it has; None if there is none.

    Example:
        >>> parse_decimal("12,300.50 ops/s"), parse_decimal("none")
        (Decimal('12300.50'), None)
    """
    found = _PRINTED_DIGITS.search(text or "")
    return Decimal(re.sub("[ ,]", "", found[0])) if found else None


def get_unit(metric: Metric) -> Fraction:
    """The unit of a metric in base units, exactly.

    Example:
        >>> from citus_analysis.texts.metric_names import parse_metric
        >>> get_unit(parse_metric("latency_ms"))
        Fraction(1, 1000)
    """
    return Fraction(repr(metric.factor))


@dataclass(frozen=True)
class Printed:
    """A printed number.

    Attributes:
        text: as it is printed.
        value: the number.
        low: the smallest value that is printed so: rounded, half a unit of the last digit below.
        high: the largest: truncated, a whole unit above. A number may be rounded or truncated.
    """

    text: str
    value: Fraction
    low: Fraction
    high: Fraction

    @classmethod
    def of(cls, number: StatedNumber, mean: StatedNumber, *, is_decimal: bool = False) -> Printed:
        """A number of a table, in the unit of the mean.

        Trailing zeros of 270000 are no digits if its column is printed in thousands.

        Args:
            number: the number.
            mean: the mean that it belongs to, or the mean itself.
            is_decimal: whether the zero of `12.0` is a digit; a whole number of a floating-point column has one too.
        """
        written = parse_decimal(number.stated)
        # A zero is a number, too.
        written = Decimal(repr(number.value / number.metric.factor)) if written is None else written
        exponent = written.as_tuple().exponent
        unit = Fraction(10) ** (exponent if isinstance(exponent, int) else 0)
        width = Fraction(number.range.high - number.range.low) / Fraction(number.metric.factor) * Fraction(2, 3)
        # A multiple such as 1.6M, and zeros that are no digits, make the unit larger than the text's last digit.
        times = number.value / number.metric.factor / float(written) if written else 1.0
        # A power of ten, exactly: 0.38 is no sum of powers of two.
        scale = Fraction(f"{times:.9g}")
        own = unit * abs(scale)
        unit = own if is_decimal and unit < 1 else max(own, width.limit_denominator(10**9))
        value = Fraction(written) * scale
        # A deviation without a unit is printed in that of the mean.
        to_mean = get_unit(number.metric) / get_unit(mean.metric) if number.metric.dimension else Fraction(1)
        ends = (value, value - unit / 2, value + unit)
        return cls(number.stated, *(end * to_mean for end in ends))

    @property
    def width(self) -> float:
        """Width of the range of values."""
        return float(self.high - self.low)

    def allows(self, value: Fraction) -> bool:
        """Whether a value may be printed so.

        Example:
            >>> ten = Printed("10", Fraction(10), Fraction(19, 2), Fraction(11))
            >>> ten.allows(Fraction(19, 2)), ten.allows(Fraction(11))
            (True, False)
        """
        return self.low <= value < self.high

    def allows_root(self, square: Fraction) -> bool:
        """Whether the root of a value may be printed so."""
        return square >= 0 and max(self.low, Fraction(0)) ** 2 <= square < self.high**2
