"""Files of separated values, tables in Markdown, and frames as named lines of text cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import PublishedDataError

Line = tuple[int, Mapping[str, str]]

_MAX_BYTES: Final = 64 * 2**20
_SEPARATORS: Final = (",", "\t", ";")
_RULE: Final = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?\s*)?")


@dataclass(frozen=True)
class Sheet:
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

    def fault(
        self, problem: str, line: int, column: str | None = None, way_out: str | None = None
    ) -> PublishedDataError:
        """An error that names the place."""
        return _fault(problem, self.path, line, column, way_out)


def sheet_of(frame: pl.DataFrame, name: str) -> Sheet:
    """A frame as a sheet; numbers are written with all their digits, and the first line below the header is line 2."""
    columns = {column: [_text(value) for value in frame[column].to_list()] for column in frame.columns}
    rows = zip(*columns.values(), strict=True)
    lines = [(number, dict(zip(columns, cells, strict=True))) for number, cells in enumerate(rows, start=2)]
    return Sheet(name, list(columns), lines)


def _text(value: object) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value).strip()


def read_sheet(path: Path) -> Sheet:
    """A file of values separated by commas, tabs or semicolons, or a table in Markdown; blank lines are skipped.

    Raises:
        PublishedDataError: it cannot be read, or its lines are not of one length.
    """
    cells_of_lines = iter(_split(_content(path), path))
    _, first = next(cells_of_lines, (1, []))
    header = _checked_header(first, path)
    lines = []
    for number, cells in cells_of_lines:
        if len(cells) != len(header):
            raise _fault(f"has {len(cells)} cells, the header {len(header)}", path, number)
        lines.append((number, dict(zip(header, cells, strict=True))))
    return Sheet(path.stem, header, lines, path)


def _split(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    if text.lstrip().startswith("|"):
        yield from _markdown(text.splitlines())
        return
    first = text.partition("\n")[0]
    separator = next((mark for mark in _SEPARATORS if mark in first), ",")
    reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=separator)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) or reader.line_num == 1:
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise _fault(f"is not CSV: {error}", path, reader.line_num) from error


def _markdown(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        if line.strip() and not _RULE.fullmatch(line.strip()):
            yield number, [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise PublishedDataError(f"cannot be read: {error.strerror or error}", path=path) from error
    if len(data) > _MAX_BYTES:
        raise PublishedDataError("is longer than 64 MiB", path=path, way_out="a table of results is small")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _fault("is not UTF-8 text", path, line, way_out="save the table as UTF-8 CSV") from error


def _checked_header(names: Sequence[str], path: Path) -> Sequence[str]:
    if not any(names):
        raise _fault("has no header", path, 1, way_out="name the columns in the first line")
    for name in names:
        if not name or names.count(name) > 1:
            raise _fault("the header has an empty or repeated name", path, 1, name)
    return names


def _fault(
    problem: str, path: Path | None, line: int, column: str | None = None, way_out: str | None = None
) -> PublishedDataError:
    place = f"line {line}" if column is None else f"line {line}, column {column!r}"
    return PublishedDataError(problem, path=path, place=place, way_out=way_out)
