"""Single runs behind a table: read exactly, with the settings that lead to their row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Final, TypeAlias

import polars as pl

from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.errors import PublishedDataError
from citus_analysis.published._printed import decimal_of, unit_of
from citus_analysis.published._rows import MEANS, Row
from citus_analysis.published._shapes import MISSING
from citus_analysis.published.counts.counted_means import counted_quantity
from citus_analysis.texts.metric_names import COUNTS, metric_of

_NUMBERING: Final = frozenset({"run", "iteration", "repeat", "repetition", "rep", "trial", "round"})
_PART: Final = re.compile(r"(?:driver|client|generator|part|node)[_ ]?\d+[_ ]?|[_ ]\d+(?=[_ ]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        name: what the table calls it, or its number among those of its row.
        value: its measured value in base units (s, 1/s); of several load generators their sum.
        parts: the values as written, by column.
    """

    name: str
    value: Fraction
    parts: Mapping[str, Decimal]


Line: TypeAlias = tuple[dict[str, float], Mapping[str, Run]]


@dataclass(frozen=True)
class RunTable:
    """Single runs, by the settings that they were made with.

    Attributes:
        source: name of the file.
        keys: stems of the settings that tell rows apart (`connections`, `workers`).
        metrics: stems of the measured values.
        lines: for each line its settings and, by stem, its run.
        whole: stems of the values that are whole numbers in every line, and their unit in base units.
        empty: columns with empty cells, and the lines in which they are: these runs are in no row.
    """

    source: str
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]
    whole: Mapping[str, Fraction]
    empty: Mapping[str, tuple[int, ...]]

    def of(self, row: Row, stem: str) -> list[Run]:
        """The runs of a row of a published table: those whose settings the row states, and no other."""
        if self.keys and not any(row.states(key) for key in self.keys):
            return []
        return [runs[stem] for _, runs in self._lines_of(row) if stem in runs]

    def unsaid(self, row: Row) -> list[str]:
        """Settings in which the runs of a row differ although the row does not state them."""
        mine = self._lines_of(row)
        return [key for key in self.keys if not row.states(key) and len({settings[key] for settings, _ in mine}) > 1]

    def _lines_of(self, row: Row) -> Sequence[Line]:
        """The lines with the settings that a row states."""
        stated = {key: row[key].value for key in self.keys if row.states(key)}
        return [line for line in self.lines if stated.items() <= line[0].items()]

    def copies(self, most: int = 5) -> Iterator[tuple[Decimal, list[str]]]:
        """Values with many digits that occur more than once, and where."""
        places: dict[Decimal, list[str]] = defaultdict(list)
        for settings, runs in self.lines:
            where = ", ".join(f"{key} {value:g}" for key, value in settings.items())
            for run in runs.values():
                for column, value in run.parts.items():
                    places[value].append(f"{where}, run {run.name}, {column}" if where else f"run {run.name}, {column}")
        for value, at in places.items():
            if len(at) > 1 and len(str(value).replace(".", "").strip("0")) > most:
                yield value, at


def read_runs(runs: str | PathLike[str] | Frame) -> RunTable:
    """Read single runs: one line each, with settings (`connections`, `workers` ...) and measured values.

    Columns of several load generators (`driver_1_ops_s`, `driver_2_ops_s`) are summed, as they ran at the same time.

    Args:
        runs: a CSV file, or a polars, pandas or Arrow frame such as the table `runs` of a dataset.

    Raises:
        PublishedDataError: no column has measured values.
    """
    if isinstance(runs, str | PathLike):
        # The header of a file is in its first line.
        name, first, table = Path(runs).name, 2, pl.read_csv(Path(runs), infer_schema=False)
    else:
        name, first, table = "runs", 1, as_polars(runs).select(pl.all().cast(pl.String, strict=False))
    absent = pl.all().str.strip_chars().str.to_lowercase().is_in(list(MISSING))
    table = table.select(pl.when(~absent).then(pl.all()))
    keys, measured, numbering = _columns(table)
    if not measured:
        raise PublishedDataError(
            "no column has measured values", path=name, way_out="name one throughput_ops_s, latency_ms or tps"
        )
    lines = []
    seen: dict[tuple[float, ...], int] = defaultdict(int)
    for cells in table.iter_rows(named=True):
        settings = {
            stem: float(number) for stem, column in keys.items() if (number := decimal_of(cells[column])) is not None
        }
        if len(settings) < len(keys):
            continue
        place = tuple(settings.values())
        seen[place] += 1
        name_of_run = cells[numbering] if numbering and cells[numbering] else str(seen[place])
        found = dict(_measured(cells, measured, name_of_run))
        if found:
            lines.append((settings, found))
    whole = dict(_whole(table, measured))
    return RunTable(name, tuple(keys), tuple(measured), tuple(lines), whole, _empty_cells(table, keys, measured, first))


def _whole(table: pl.DataFrame, measured: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Fraction]]:
    """The stems of which every value is a whole number, and their unit."""
    for stem, columns in measured.items():
        values = [number for column in columns for text in table[column] if (number := decimal_of(text)) is not None]
        units = {unit_of(metric_of(column)) for column in columns}
        if len(units) == 1 and all(value == int(value) for value in values):
            yield stem, units.pop()


def _empty_cells(
    table: pl.DataFrame, keys: Mapping[str, str], measured: Mapping[str, Sequence[str]], first: int
) -> dict[str, tuple[int, ...]]:
    """Columns of settings and of measured values with empty cells, and the lines in which they are."""
    # Rows of a table state means of such values.
    of_rows = [names for stem, names in measured.items() if stem in MEANS or counted_quantity(stem) is not None]
    columns = [*keys.values(), *(one for names in of_rows for one in names)]
    blank = pl.all_horizontal(pl.col(table.columns).is_null())
    numbered = table.with_row_index("_line", offset=first).remove(blank)
    lines = {name: tuple(numbered.filter(pl.col(name).is_null())["_line"]) for name in columns}
    return {name: found for name, found in lines.items() if found}


def _columns(table: pl.DataFrame) -> tuple[dict[str, str], dict[str, list[str]], str | None]:
    keys: dict[str, str] = {}
    measured: dict[str, list[str]] = defaultdict(list)
    numbering = next((name for name in table.columns if name.lower() in _NUMBERING), None)
    for name in [one for one in table.columns if one != numbering]:
        texts = table[name].drop_nulls()
        if texts.is_empty() or any(decimal_of(text) is None for text in texts):
            continue
        metric = metric_of(name)
        whole = metric_of(_PART.sub("", name).strip("_ ") or name)
        if metric.stem in COUNTS:
            keys[metric.stem] = name
        elif counted := counted_quantity(_PART.sub("", name)):
            measured[counted[0]].append(name)
        elif whole.dimension in ("rate", "time", "data_rate"):
            measured[whole.stem].append(name)
    return keys, dict(measured), numbering


def _measured(
    cells: Mapping[str, str | None], measured: Mapping[str, Sequence[str]], name: str
) -> Iterator[tuple[str, Run]]:
    for stem, columns in measured.items():
        parts = {column: number for column in columns if (number := decimal_of(cells[column])) is not None}
        if len(parts) == len(columns):
            values = (Fraction(number) * unit_of(metric_of(column)) for column, number in parts.items())
            yield stem, Run(name, sum(values, Fraction(0)), parts)
