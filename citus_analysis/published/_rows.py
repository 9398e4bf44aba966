"""Published numbers as the audit sees them: tables of rows, each number with the range its digits allow."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from citus_analysis.published._metrics import COUNTS, Metric, metric_of, percentile_of
from citus_analysis.published._numbers import APPROXIMATE, Range, resolution, show, stated_range

__all__ = ["Number", "ResultTable", "Row", "result_tables"]

_WHOLE: Final = re.compile(r"[\d,]+%?")
#: Unit that a finding prints where the table leaves it to the metric's name.
_UNITS: Final = {
    ("rate", 1.0): "operations/s",
    ("time", 1.0): "s",
    ("time", 1e-3): "ms",
    ("time", 1e-6): "µs",
    ("percent", 1.0): "%",
    ("data_rate", 1e6): "MB/s",
}
#: Stems whose spread a sigma or an interval may describe, in order of preference.
_MEANS: Final = ("throughput", "nopm", "latency", "client_latency", "server_latency", "mean")


@dataclass(frozen=True)
class Number:
    """One stated number in base units (seconds, 1/s, bytes/s).

    Attributes:
        metric: what it is.
        value: its value in the base unit.
        range: what its digits allow, in the base unit.
        stated: its text as printed.
        unit: printed unit.
        note: remark of whoever transcribed it.
        transcribed: it has a place in a publication, as against a user's own table.
    """

    metric: Metric
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
        """Another value of the same quantity, in the unit this one is printed in."""
        return f"{show(value / self.metric.factor)} {self.unit}".strip()


@dataclass(frozen=True)
class Row:
    """All numbers that one row of a table, or one sentence, states of one subject."""

    source: str
    table: str
    label: str
    workload: str | None
    n: int | None
    numbers: Mapping[str, list[Number]]

    def get(self, stem: str) -> Number | None:
        """The number of that stem with the most digits, or None."""
        return min(self.numbers.get(stem, ()), key=lambda number: number.range.high - number.range.low, default=None)

    def __getitem__(self, stem: str) -> Number:
        """The number of that stem with the most digits.

        Raises:
            KeyError: the row states none.
        """
        number = self.get(stem)
        if number is None:
            raise KeyError(stem)
        return number

    def states(self, *stems: str) -> bool:
        """The row states a number for each of the stems."""
        return all(stem in self.numbers for stem in stems)

    @property
    def concurrency(self) -> Number | None:
        """Requests that the client can have under way: its connections, or where it names none its threads."""
        return self.get("connections") or self.get("threads")

    def mean_for(self, spread: Number) -> Number | None:
        """The mean whose spread a sigma or an interval's end describes: the one of the same dimension."""
        present = [self[stem] for stem in _MEANS if self.states(stem)]
        same = [number for number in present if number.metric.dimension == spread.metric.dimension]
        candidates = same or ([] if spread.metric.dimension else present)
        return candidates[0] if candidates else None

    def percentiles(self) -> dict[str, dict[float, Number]]:
        """Quantity -> percentage -> number; 0 stands for the minimum, 100 for the maximum."""
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
    numbers = [row for row in frame.iter_rows(named=True) if row["value"] is not None]
    steps = _column_steps(numbers)
    tables: dict[tuple[str, str], ResultTable] = {}
    grouped: dict[tuple[str, str, str, str | None], list[Mapping[str, Any]]] = defaultdict(list)
    for cells in numbers:
        grouped[cells["source"], cells["table"], cells["row"], cells["system"]].append(cells)
    for (source, name, _, _), members in grouped.items():
        tables.setdefault((source, name), ResultTable(source, name)).rows.append(_row(members, steps))
    return list(tables.values())


def _row(members: Sequence[Mapping[str, Any]], steps: Mapping[tuple[str, str, str], float]) -> Row:
    held: dict[str, list[Number]] = defaultdict(list)
    for cells in members:
        number = _number(cells, steps)
        held[number.metric.stem].append(number)
    first = members[0]
    n = next((cells["n"] for cells in members if cells["n"] is not None), None)
    return Row(first["source"], first["table"], first["row"], first["workload"], n, dict(held))


def _number(cells: Mapping[str, Any], steps: Mapping[tuple[str, str, str], float]) -> Number:
    metric = metric_of(cells["metric"], cells["unit"])
    value, stated = cells["value"], cells["stated"] or f"{cells['value']:.15g}"
    if metric.stem in COUNTS:
        allowed = Range.exact(value)
    else:
        own = resolution(value, stated)
        column = steps.get((cells["source"], cells["table"], metric.stem), own)
        allowed = stated_range(value, stated, min(own, column) if _is_whole(stated) else own)
    return Number(
        metric,
        value * metric.factor,
        allowed.scaled(metric.factor),
        stated,
        cells["unit"] or _UNITS.get((metric.dimension, metric.factor), ""),
        cells["note"] or "",
        cells["seed"] is not None,
    )


def _is_whole(stated: str) -> bool:
    return _WHOLE.fullmatch(stated) is not None


def _column_steps(numbers: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], float]:
    """Printed precision of each column of whole numbers: the finest digit of any of them, but not finer than 1.

    2,500 beside 5,568 is not rounded to hundreds.
    """
    steps: dict[tuple[str, str, str], float] = {}
    for key, value, stated in _whole_numbers(numbers):
        steps[key] = min(steps.get(key, float("inf")), resolution(value, stated))
    return steps


def _whole_numbers(numbers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str, str], float, str]]:
    for cells in numbers:
        stated = cells["stated"] or f"{cells['value']:.15g}"
        if _is_whole(stated):
            stem = metric_of(cells["metric"], cells["unit"]).stem
            yield (cells["source"], cells["table"], stem), cells["value"], stated
