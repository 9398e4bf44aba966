"""Published numbers for the audit: tables of rows, each number with the range that its digits allow."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict, cast

import polars as pl

from citus_analysis.published._numbers import APPROXIMATE, Range, column_resolution, stated_range
from citus_analysis.texts.metric_names import COUNTS, Metric, metric_of, percentile_of
from citus_analysis.texts.number_text import readable


class Cells(TypedDict):
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
class Number:
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
        return f"{readable(value / self.metric.factor)} {self.unit}".strip()


@dataclass(frozen=True)
class Row:
    """All numbers of one subject in one row of a table, or in one sentence."""

    source: str
    table: str
    label: str
    system: str | None
    workload: str | None
    n: int | None
    numbers: Mapping[str, list[Number]]

    def get(self, stem: str) -> Number | None:
        """The number of that stem with the most digits, or None."""
        return self[stem] if self.states(stem) else None

    def __getitem__(self, stem: str) -> Number:
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
    def concurrency(self) -> Number | None:
        """The client's largest number of simultaneous requests: its connections, or else its threads."""
        return self.get("connections") or self.get("threads")

    def mean_for(self, spread: Number) -> Number | None:
        """The mean that a sigma or an interval's end belongs to: the one of the same dimension."""
        present = [self[stem] for stem in MEANS if self.states(stem)]
        same = [number for number in present if number.metric.dimension == spread.metric.dimension]
        return next(iter(same or ([] if spread.metric.dimension else present)), None)

    @property
    def sigma_and_mean(self) -> tuple[Number | None, Number | None]:
        """The standard deviation, and the mean that it belongs to."""
        sigma = self.get("sigma")
        return sigma, sigma and self.mean_for(sigma)

    @property
    def place(self) -> tuple[str, str, str]:
        """Publication, table and row, as findings name them."""
        return self.source, self.table, self.label

    def percentiles(self) -> dict[str, dict[float, Number]]:
        """Quantity -> percentage -> number; 0 is the minimum, 100 the maximum."""
        found: dict[str, dict[float, Number]] = defaultdict(dict)
        for stem in self.numbers:
            of = percentile_of(stem)
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


def result_tables(frame: pl.DataFrame) -> list[ResultTable]:
    """Group a frame of ``schema.TABLES["published"]`` into tables and rows, in the order of the frame."""
    known = frame.drop_nulls("value").iter_rows(named=True)
    numbers = cast("list[Cells]", [row | {"stated": row["stated"] or f"{row['value']:.15g}"} for row in known])
    _add_steps(numbers)
    tables: dict[tuple[str, str], ResultTable] = {}
    grouped: dict[tuple[str | None, ...], list[Cells]] = defaultdict(list)
    for cells in numbers:
        grouped[cells["source"], cells["table"], cells["row"], cells["system"], cells["workload"]].append(cells)
    for members in grouped.values():
        source, name = members[0]["source"], members[0]["table"]
        tables.setdefault((source, name), ResultTable(source, name)).rows.append(_row(members))
    return list(tables.values())


def _row(members: Sequence[Cells]) -> Row:
    held: dict[str, list[Number]] = defaultdict(list)
    for cells in members:
        number = _number(cells)
        stem = number.metric.stem
        beside = held.get(stem)
        if beside and not _same_quantity(beside[0], number):
            # Another quantity with the same name, such as MB/s and operations/s, or queries/s and transactions/s.
            stem = f"{stem} ({number.name})"
        held[stem].append(number)
    n = next((cells["n"] for cells in members if cells["n"] is not None), None)
    first = members[0]
    return Row(first["source"], first["table"], first["row"], first["system"], first["workload"], n, dict(held))


def _same_quantity(a: Number, b: Number) -> bool:
    return a.metric.dimension == b.metric.dimension and _is_of_queries(a.name) == _is_of_queries(b.name)


def _is_of_queries(name: str) -> bool:
    return name.lower().startswith(("q/s", "qps", "quer"))


def _number(cells: Cells) -> Number:
    metric = metric_of(cells["metric"], cells["unit"])
    value, stated = cells["value"], cells["stated"]
    allowed = Range.exact(value) if metric.stem in COUNTS else stated_range(value, stated, cells["step"])
    return Number(
        metric,
        cells["metric"],
        value * metric.factor,
        allowed.scaled(metric.factor),
        stated,
        cells["unit"] or _UNITS.get((metric.dimension, metric.factor), ""),
        cells["note"] or "",
        cells["seed"] is not None,
    )


def _add_steps(numbers: Sequence[Cells]) -> None:
    """Add the printed precision, from the numbers of a column in the same style (240k and 246,396 differ)."""
    columns: dict[tuple[str, ...], list[Cells]] = defaultdict(list)
    for cells in numbers:
        style = _NUMERALS.sub("", cells["stated"])
        columns[cells["source"], cells["table"], cells["metric"], cells["unit"] or "", style].append(cells)
    for column in columns.values():
        steps = column_resolution([cells["value"] for cells in column], [cells["stated"] for cells in column])
        for cells, step in zip(column, steps, strict=True):
            cells["step"] = step
