"""Read tables of published numbers: the ones that ship with the library, and anybody's own.

Two shapes are read. *Long*: one number per line, with the columns `metric` and `value` (and any other column of
`schema.TABLES["published"]`). *Wide*: one line per row of the original table, a header that names metrics.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import PublishedDataError, UnknownNameError
from citus_analysis.schema import TABLES
from citus_analysis.shipped import shipped

__all__ = ["published", "read_published"]

_TABLE: Final = TABLES["published"]
_WORDS: Final = ("source", "table", "row", "system", "workload", "unit", "stated", "seed", "location", "note")
#: Columns of a wide table that describe a row; all others are metrics.
_LABELS: Final = ("source", "table", "row", "system", "workload", "note")
_N_NAMES: Final = frozenset({"n", "repeats", "repetitions", "iterations"})
_NUMBER: Final = re.compile(r"[~<>]?\s*([+-]?(?:\d+(?:,\d{3})+|\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*%?\+?")
_MAX_BYTES: Final = 64 * 2**20

Record = dict[str, str | float | int | None]


def published(source: str | None = None, table: str | None = None) -> pl.DataFrame:
    """Numbers that others published, as the library ships them.

    Args:
        source: key of one publication (`thesis`, `postgres_xc`, `citus_docs`, `hammerdb_talk`, `sigmod`).
        table: one of its tables, as the publication numbers it (`5.7`); needs no `source`.

    Returns:
        Frame with the columns of ``schema.TABLES["published"]``, one stated number per row.

    Raises:
        UnknownNameError: there is no such publication or table.

    Example:
        >>> rows = published("thesis", "5.7")
        >>> rows.filter(pl.col("metric") == "throughput_ops_s")["value"].head(2).to_list()
        [62479.0, 111322.0]
    """
    files = {path.stem: path for path in sorted(shipped("published").glob("*.csv"))}
    if source is not None and source not in files:
        raise UnknownNameError("publication", source, files)
    chosen = list(files.values()) if source is None else [files[source]]
    frame = pl.concat([read_published(path) for path in chosen]) if chosen else _TABLE.empty()
    if table is None:
        return frame
    known = frame["table"].unique().to_list()
    if table not in known:
        raise UnknownNameError("published table", table, known)
    return frame.filter(pl.col("table") == table)


def read_published(path: str | PathLike[str]) -> pl.DataFrame:
    """A table of results from a CSV file, long or wide (docs/published.md describes both).

    Args:
        path: UTF-8 text, comma-separated, with a header.

    Returns:
        Frame with the columns of ``schema.TABLES["published"]``. `source` and `table` default to the file's name.

    Raises:
        PublishedDataError: the file lacks a column, repeats one, or holds a value that is no number; the message
            names file, line and column.
    """
    file = _File(Path(path))
    lines = list(file.lines())
    header = file.header
    long = "metric" in header or "value" in header
    records = _long(file, lines) if long else _wide(file, lines)
    return pl.DataFrame(list(records), schema=_TABLE.polars_schema())


@dataclass
class _File:
    """A CSV file that can say where in it something is wrong."""

    path: Path
    header: Sequence[str] = ()

    def fault(
        self, problem: str, line: int, column: str | None = None, way_out: str | None = None
    ) -> PublishedDataError:
        place = f"line {line}" if column is None else f"line {line}, column {column!r}"
        return PublishedDataError(problem, path=self.path, place=place, way_out=way_out)

    def lines(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        """Number and cells of each line below the header; blank lines are skipped."""
        reader = csv.reader(StringIO(self._text(), newline=""), strict=True)
        try:
            self.header = self._checked_header(next(reader, []))
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(self.header):
                    raise self.fault(f"has {len(cells)} cells, the header {len(self.header)}", reader.line_num)
                yield reader.line_num, dict(zip(self.header, (cell.strip() for cell in cells), strict=True))
        except csv.Error as error:
            raise self.fault(f"is not CSV: {error}", reader.line_num) from error

    def _text(self) -> str:
        try:
            with self.path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise PublishedDataError(f"cannot be read: {error.strerror or error}", path=self.path) from error
        if len(data) > _MAX_BYTES:
            raise PublishedDataError("is longer than 64 MiB", path=self.path, way_out="a table of results is small")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise self.fault("is not UTF-8 text", line, way_out="save the table as UTF-8 CSV") from error

    def _checked_header(self, cells: Sequence[str]) -> Sequence[str]:
        names = [cell.strip() for cell in cells]
        if not any(names):
            raise self.fault("has no header", 1, way_out="name the columns in the first line")
        for name in names:
            if not name or names.count(name) > 1:
                raise self.fault("the header has an empty or repeated name", 1, name)
        return names


def _long(file: _File, lines: Sequence[tuple[int, Mapping[str, str]]]) -> Iterator[Record]:
    for needed in ("metric", "value"):
        if needed not in file.header:
            raise file.fault("the column is missing", 1, needed, f"a long table has {', '.join(_TABLE.names())}")
    unknown = [name for name in file.header if name not in _TABLE]
    if unknown:
        raise file.fault("there is no such column", 1, unknown[0], f"known: {', '.join(_TABLE.names())}")
    for line, cells in lines:
        record: Record = {name: cells.get(name) or None for name in _WORDS}
        if not cells["metric"]:
            raise file.fault("is empty", line, "metric")
        record["metric"] = cells["metric"]
        record["value"] = None if cells.get("stated") and not cells["value"] else _number(file, line, "value", cells)
        record["n"] = _count(file, line, "n", cells) if cells.get("n") else None
        yield _completed(record, file, line, "value", cells["value"])


def _wide(file: _File, lines: Sequence[tuple[int, Mapping[str, str]]]) -> Iterator[Record]:
    metrics = [name for name in file.header if name not in _LABELS and name.lower() not in _N_NAMES]
    numbers = [m for m in metrics if any(_parsed(cells[m]) is not None for _, cells in lines)]
    texts = [m for m in metrics if m not in numbers]
    if not numbers:
        raise file.fault(
            "no column holds numbers",
            1,
            way_out="separate cells by commas and name metrics, such as tps, in the header",
        )
    repeats = next((name for name in file.header if name.lower() in _N_NAMES), None)
    seen: set[str] = set()
    for line, cells in lines:
        shared: Record = {name: cells.get(name) or None for name in _LABELS}
        words = ", ".join(cells[name] for name in texts if cells[name])
        label = cells.get("row") or words or f"{numbers[0]} {cells[numbers[0]]}"
        # Two lines with the same words are two rows (repetitions), not one row stated twice.
        shared["row"] = f"{label} (line {line})" if label in seen else label
        seen.add(label)
        shared["n"] = _count(file, line, repeats, cells) if repeats and cells[repeats] else None
        for name in numbers:
            if cells[name]:
                record = {**shared, "metric": name, "value": _number(file, line, name, cells)}
                yield _completed(record, file, line, name, cells[name])


def _completed(record: Record, file: _File, line: int, column: str, stated: str) -> Record:
    defaults = {
        "source": file.path.stem,
        "table": file.path.stem,
        "row": f"line {line}",
        "stated": stated,
        "location": f"line {line}, column {column}",
    }
    return {name: record.get(name) if record.get(name) is not None else defaults.get(name) for name in _TABLE.names()}


def _parsed(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    if found is None or not found[1].strip("+-"):
        return None
    value = float(found[1].replace(",", ""))
    return value if math.isfinite(value) else None


def _number(file: _File, line: int, column: str, cells: Mapping[str, str]) -> float:
    value = _parsed(cells[column])
    if value is None:
        raise file.fault(f"{cells[column][:40]!r} is not a number", line, column, "write 16600 or 16,600")
    return value


def _count(file: _File, line: int, column: str, cells: Mapping[str, str]) -> int:
    value = _parsed(cells[column])
    if value is None or value != int(value) or not 0 < value < 2**31:
        raise file.fault(f"{cells[column][:40]!r} is not a number of repetitions", line, column, "write 5")
    return int(value)
