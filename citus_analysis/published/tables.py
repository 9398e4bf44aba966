"""Read tables of published numbers: those that ship with the library, and those of users."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.errors import PublishedDataError, UnknownNameError
from citus_analysis.schema import TABLES
from citus_analysis.texts.metric_names import is_understood, parse_metric
from citus_analysis.texts.numbers import parse_stated_numbers

# Files of separated values, tables in Markdown, and frames as named lines of text cells.

Line = tuple[int, Mapping[str, str]]

_MAX_BYTES: Final = 64 * 2**20
_SEPARATORS: Final = (",", "\t", ";")
_RULE: Final = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?\s*)?")


@dataclass(frozen=True)
class PublishedSheet:
    """A table of text cells that records the place of each cell, for error messages.

    Attributes:
        name: name of the file or the frame.
        header: names of its columns.
        lines: number in the file and cells of each line below the header.
        path: the file; None for a frame.
    """

    name: str
    header: Sequence[str]
    lines: Sequence[Line]
    path: Path | None = None

    def fault(self, problem: str, line: int, column: str | None = None, hint: str | None = None) -> PublishedDataError:
        """An error that names the place."""
        return _make_sheet_error(problem, self.path, line, column, hint)


def convert_frame_to_sheet(frame: pl.DataFrame, name: str) -> PublishedSheet:
    """A frame as a sheet; numbers are written with all their digits, and the first line below the header is line 2."""
    columns = {column: [_format_cell_text(value) for value in frame[column].to_list()] for column in frame.columns}
    rows = zip(*columns.values(), strict=True)
    lines = [(number, dict(zip(columns, cells, strict=True))) for number, cells in enumerate(rows, start=2)]
    return PublishedSheet(name, list(columns), lines)


def _format_cell_text(value: object) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value).strip()


def read_sheet(path: Path) -> PublishedSheet:
    """A file of values separated by commas, tabs or semicolons, or a table in Markdown; blank lines are skipped.

    Raises:
        PublishedDataError: it cannot be read, or its lines are not of one length.
    """
    cells_of_lines = iter(_split(_read_sheet_text(path), path))
    _, first = next(cells_of_lines, (1, []))
    header = _check_header(first, path)
    lines = []
    for number, cells in cells_of_lines:
        if len(cells) != len(header):
            raise _make_sheet_error(f"has {len(cells)} cells, the header {len(header)}", path, number)
        lines.append((number, dict(zip(header, cells, strict=True))))
    return PublishedSheet(path.stem, header, lines, path)


def _split(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    if text.lstrip().startswith("|"):
        yield from _parse_markdown_table(text.splitlines())
        return
    first = text.partition("\n")[0]
    separator = next((mark for mark in _SEPARATORS if mark in first), ",")
    reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=separator)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) or reader.line_num == 1:
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise _make_sheet_error(f"is not CSV: {error}", path, reader.line_num) from error


def _parse_markdown_table(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        if line.strip() and not _RULE.fullmatch(line.strip()):
            yield number, [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _read_sheet_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise PublishedDataError(f"cannot be read: {error.strerror or error}", path=path) from error
    if len(data) > _MAX_BYTES:
        raise PublishedDataError("is longer than 64 MiB", path=path, hint="a table of results is small")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _make_sheet_error("is not UTF-8 text", path, line, hint="save the table as UTF-8 CSV") from error


def _check_header(names: Sequence[str], path: Path) -> Sequence[str]:
    if not any(names):
        raise _make_sheet_error("has no header", path, 1, hint="name the columns in the first line")
    for name in names:
        if not name or names.count(name) > 1:
            raise _make_sheet_error("the header has an empty or repeated name", path, 1, name)
    return names


def _make_sheet_error(
    problem: str, path: Path | None, line: int, column: str | None = None, hint: str | None = None
) -> PublishedDataError:
    place = f"line {line}" if column is None else f"line {line}, column {column!r}"
    return PublishedDataError(problem, path=path, place=place, hint=hint)


# Sheets of results in several shapes, as records of the table `published`.
#
# *Long*: one number per line, with the columns `metric` and `value`. *Wide*: one line per row of the original table, a
# header that names metrics. *Transposed*: one line per metric, named in the column `metric`, and one column per row.
#
# Nothing is left out: a cell that looks like a number but cannot be read becomes a record without a value.

Record = dict[str, str | float | int | None]

#: Metric of a number after ± of unknown meaning.
UNSAID_SPREAD: Final = "±"

_TABLE: Final = TABLES["published"]
_WORDS: Final = ("source", "table", "row", "system", "workload", "unit", "stated", "seed", "location", "note")
#: Columns of a wide table that describe a row; all others are metrics.
_LABELS: Final = ("source", "table", "row", "system", "workload", "note")
_N_NAMES: Final = frozenset({"n", "repeats", "repetitions", "iterations", "reps", "runs", "n_runs", "num_runs"})
#: Columns of a wide table that number its rows.
_NUMBERING: Final = frozenset({"iteration", "repeat", "repetition", "rep", "run", "trial", "round", "driver", "part"})
MISSING: Final = frozenset({"", "-", "–", "—", "n/a", "na", "nan", "null", "none"})
_DESCRIBING: Final = re.compile(
    r"set-?_?\s?up|config|name|label|case|variant|cluster|instance|machine|version|date|id$"
)
#: A number followed by a unit or mark that cannot be read.
_NUMBER_LIKE: Final = re.compile(r"[~<>≈]?\s*[+-]?\d[\d.,]*\s*\S{0,12}|[~<>≈]?\s*[+-]?\d[\d.,]*\s*(?:±|\+/-).*")
_SPREAD_IN_NAME: Final = re.compile(r"\s*(?:±|\+/-|\+-)\s*(?P<spread>[^()\[\]]*)")


def parse_sheet_records(sheet: PublishedSheet) -> Iterator[Record]:
    """The records of a sheet, in its order.

    Raises:
        PublishedDataError: a column is missing, or a cell is no number in a column of numbers.
    """
    if "value" in sheet.header or ("metric" in sheet.header and not _is_transposed(sheet)):
        return _parse_long_sheet(sheet)
    return _parse_transposed_sheet(sheet) if "metric" in sheet.header else _parse_wide_sheet(sheet)


def _is_transposed(sheet: PublishedSheet) -> bool:
    others = [name for name in sheet.header if name not in _TABLE]
    return bool(others) and any(parse_stated_numbers(cells[name]) for name in others for _, cells in sheet.lines)


def _parse_long_sheet(sheet: PublishedSheet) -> Iterator[Record]:
    for needed in ("metric", "value"):
        if needed not in sheet.header:
            raise sheet.fault("the column is missing", 1, needed, f"a long table has {', '.join(_TABLE.names())}")
    unknown = [name for name in sheet.header if name not in _TABLE]
    if unknown:
        raise sheet.fault("there is no such column", 1, unknown[0], f"known: {', '.join(_TABLE.names())}")
    for line, cells in sheet.lines:
        if not cells["metric"]:
            raise sheet.fault("is empty", line, "metric")
        record: Record = {name: cells.get(name) or None for name in _WORDS}
        record["n"] = _count(sheet, line, "n", cells["n"]) if cells.get("n") else None
        if cells.get("stated") and not cells["value"]:
            yield _complete_record({**record, "metric": cells["metric"]}, sheet, line, "value", "")
        else:
            yield from _parse_cell_numbers(record, sheet, line, "value", cells["metric"], cells["value"])


def _parse_transposed_sheet(sheet: PublishedSheet) -> Iterator[Record]:
    rows = [name for name in sheet.header if name not in _TABLE]
    repeats = next((each for _, each in sheet.lines if each["metric"].lower() in _N_NAMES), None)
    for line, cells in sheet.lines:
        if not cells["metric"]:
            raise sheet.fault("is empty", line, "metric")
        for row in rows if cells["metric"].lower() not in _N_NAMES else ():
            record: Record = {**{name: cells.get(name) or None for name in _WORDS}, "row": row}
            record["n"] = _count(sheet, line, row, repeats[row]) if repeats and repeats[row] else None
            yield from _parse_number_cell(record, sheet, line, row, cells["metric"], cells[row])


def _parse_wide_sheet(sheet: PublishedSheet) -> Iterator[Record]:
    numbering = [name for name in sheet.header if name.lower() in _NUMBERING]
    others = [name for name in sheet.header if name not in _LABELS and name not in numbering]
    metrics = [name for name in others if name.lower() not in _N_NAMES]
    numbers = [m for m in metrics if any(parse_stated_numbers(cells[m]) for _, cells in sheet.lines)]
    unread = [m for m in metrics if m not in numbers and _is_intended_numeric(m, sheet)]
    if not numbers:
        hint = "separate cells by commas and name metrics, such as tps, in the header"
        raise sheet.fault("no column contains numbers", 1, hint=hint)
    repeats = next((name for name in sheet.header if name.lower() in _N_NAMES), None)
    words = [name for name in metrics if name not in numbers and name not in unread]
    seen: set[tuple[str | None, ...]] = set()
    for line, cells in sheet.lines:
        shared: Record = {name: cells.get(name) or None for name in _LABELS}
        said = ", ".join(cells[name] for name in words if cells[name])
        first = cells.get("row") or said or f"{numbers[0]} {cells[numbers[0]]}"
        label = ", ".join([first, *(f"{name} {cells[name]}" for name in numbering if cells[name])])
        # Lines with the same words are repetitions, not one row stated twice.
        subject = (label, cells.get("system"), cells.get("workload"), cells.get("table"), cells.get("source"))
        shared["row"] = f"{label} (line {line})" if subject in seen else label
        seen.add(subject)
        shared["n"] = _count(sheet, line, repeats, cells[repeats]) if repeats and cells[repeats] else None
        for name in (*numbers, *unread):
            yield from _parse_number_cell(shared, sheet, line, name, name, cells[name])


def _is_intended_numeric(name: str, sheet: PublishedSheet) -> bool:
    """Whether a column without a readable number should contain numbers, judging by its name and its cells."""
    filled = [cells[name] for _, cells in sheet.lines if cells[name].lower() not in MISSING]
    if not filled or _DESCRIBING.search(name.lower()):
        return False
    named = is_understood(parse_metric(name)) and any(re.search(r"\d", cell) for cell in filled)
    return named or all(_NUMBER_LIKE.fullmatch(cell) for cell in filled)


def _parse_number_cell(
    shared: Record, sheet: PublishedSheet, line: int, column: str, metric: str, text: str
) -> Iterator[Record]:
    """The records of a cell in a column of numbers; none if it is empty."""
    if text.lower() in MISSING:
        return
    if parse_stated_numbers(text) or not _NUMBER_LIKE.fullmatch(text):
        yield from _parse_cell_numbers(shared, sheet, line, column, metric, text)
    else:
        yield _complete_record({**shared, "metric": metric, "value": None}, sheet, line, column, text)


def _parse_cell_numbers(
    shared: Record, sheet: PublishedSheet, line: int, column: str, metric: str, text: str
) -> Iterator[Record]:
    """The number of a cell, and the number after ± if there is one."""
    values = parse_stated_numbers(text)
    if not values:
        raise sheet.fault(f"{text[:40]!r} is not a number", line, column, "write 16600, 16,600 or 16.6k")
    spread = _SPREAD_IN_NAME.search(metric)
    name = _SPREAD_IN_NAME.sub("", metric).strip() or metric
    texts = re.split(r"±|\+/-|\+-", text)
    yield _complete_record({**shared, "metric": name, "value": values[0]}, sheet, line, column, texts[0].strip())
    if len(values) > 1:
        of = spread["spread"].strip() if spread else ""
        said = f"{of} {name}" if of else f"{name} {UNSAID_SPREAD}"
        stated = texts[1].strip()
        facts = {"metric": said, "value": values[1], "stated": stated}
        yield _complete_record({**shared, **facts}, sheet, line, column, stated)


def _complete_record(record: Record, sheet: PublishedSheet, line: int, column: str, stated: str) -> Record:
    defaults = {
        "source": sheet.name,
        "table": sheet.name,
        "row": f"line {line}",
        "stated": stated,
        "location": f"line {line}, column {column}",
    }
    return {name: record.get(name) if record.get(name) is not None else defaults.get(name) for name in _TABLE.names()}


def _count(sheet: PublishedSheet, line: int, column: str, text: str) -> int:
    values = parse_stated_numbers(text)
    if len(values) != 1 or values[0] != int(values[0]) or not 0 < values[0] < 2**31:
        raise sheet.fault(f"{text[:40]!r} is not a number of repetitions", line, column, "write 5")
    return int(values[0])


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
    files = {path.stem: path for path in sorted(find_shipped_folder("published").glob("*.csv"))}
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


def single_runs(name: str) -> pl.DataFrame:
    """Single runs behind a published table, as their author published them.

    Args:
        name: publication and table (`thesis_5.6`).

    Raises:
        UnknownNameError: no runs of this table are known.

    Example:
        >>> single_runs("thesis_5.6").height
        20
    """
    files = {path.stem: path for path in (find_shipped_folder("published") / "single_runs").glob("*.csv")}
    if name not in files:
        raise UnknownNameError("table with single runs", name, files)
    return pl.read_csv(files[name], infer_schema=False)


def read_published(path: str | PathLike[str]) -> pl.DataFrame:
    """A table of results from a file: long, wide or transposed (docs/published.md describes them).

    Args:
        path: UTF-8 text with a header, separated by commas, tabs or semicolons, or a table in Markdown.

    Returns:
        Frame with the columns of ``schema.TABLES["published"]``. `source` and `table` default to the file's name. A
        cell that looks like a number and cannot be read has no `value`; :func:`audit` names it.

    Raises:
        PublishedDataError: the file lacks a column, repeats one, or has a value that is no number; the message
            names file, line and column.
    """
    return _make_records_frame(read_sheet(Path(path)))


def parse_published_frame(frame: Frame, name: str) -> pl.DataFrame:
    """A table of results in memory, in any shape that :func:`read_published` reads.

    Args:
        frame: polars, pandas (an index with a name is a column) or Arrow table.
        name: default of `source` and `table`.

    Raises:
        PublishedDataError: as in :func:`read_published`; lines are counted as in a file, and the header is line 1.
        UsageError: the object is no frame.

    Example:
        >>> published = parse_published_frame(pl.DataFrame({"system": ["a"], "tps": [9043.0]}), "mine")
        >>> published.select("row", "value").row(0)
        ('tps 9043', 9043.0)
    """
    table = convert_to_polars(frame)
    if {"metric", "value", "stated"} <= set(table.columns):
        own = [pl.lit(name).alias(column) for column in ("source", "table", "row") if column not in table.columns]
        return _TABLE.conform(table.with_columns(own))
    return _make_records_frame(convert_frame_to_sheet(table, name))


def _make_records_frame(sheet: PublishedSheet) -> pl.DataFrame:
    return pl.DataFrame(list(parse_sheet_records(sheet)), schema=_TABLE.polars_schema())
