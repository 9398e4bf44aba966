"""Separated values with a header, each line with its place, and the style in which their numbers are printed."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Reject
from citus_analysis.texts.stated_numbers import numbers_in

#: Cells without a value.
MISSING: Final = frozenset({"", "-", "–", "—", "n/a", "na", "nan", "null", "none", "\\n"})
_MOST_COLUMNS: Final = 200
_LONGEST: Final = 100
_SEPARATORS: Final = ("\t", ";", ",")
#: The line in which spreadsheets state the separator.
_STATED: Final = re.compile(r'"?sep=.{1,3}"?')
_COMMENT: Final = "# "
#: A number with a mark in it.
_NUMBER: Final = re.compile(r"\d*[.,]\d[\d.,]*")
_GROUP: Final = 3


@dataclass(frozen=True)
class Line:
    """One line below the header.

    Attributes:
        number: its number in the file, from 1.
        offset: of its first byte in the source.
        length: its bytes, line end included.
        cells: its cells without blanks around them.
    """

    number: int
    offset: int
    length: int
    cells: Sequence[str]


@dataclass(frozen=True)
class Sheet:
    """A table of text cells.

    Attributes:
        header: names of the columns.
        separator: mark between cells.
        lines: the lines with as many cells as the header.
        rejects: the other ones.
        noise_bytes: bytes of the header, of empty lines and of comments above the header.
    """

    header: Sequence[str]
    separator: str
    lines: Sequence[Line]
    rejects: Sequence[Reject]
    noise_bytes: int

    def column(self, at: int) -> list[str]:
        """The cells of a column."""
        return [line.cells[at] for line in self.lines]


def read_sheet(data: bytes) -> Sheet | None:
    r"""The table of a text; None if its first line is no header of at least two distinct names.

    Example:
        >>> sheet = read_sheet(b"clients;tps\n8;1234,5\n")
        >>> sheet.header, sheet.separator, sheet.column(1)
        (['clients', 'tps'], ';', ['1234,5'])
    """
    lines = _lines(data)
    noise = 0
    for _, _, length, text in lines:
        noise += length
        if text and not text.startswith(_COMMENT) and not _STATED.fullmatch(text):
            break
    else:
        return None
    separator = next((mark for mark in _SEPARATORS if mark in text), ",")
    header = _cells(text.rstrip(f"{separator} "), separator)
    names = {name.lower() for name in header or () if 0 < len(name) <= _LONGEST}
    if header is None or not 2 <= len(names) == len(header) <= _MOST_COLUMNS:
        return None
    found: list[Line] = []
    rejects: list[Reject] = []
    for number, offset, length, text in lines:
        cells = _cells(text, separator)
        if cells is not None and not any(cells):
            noise += length
            continue
        # Spreadsheets and scripts end lines with separators.
        if cells is not None and len(cells) > len(header) and not any(cells[len(header) :]):
            cells = cells[: len(header)]
        if cells is not None and len(cells) == len(header):
            found.append(Line(number, offset, length, cells))
        else:
            rejects.append(Reject(offset, length, f"the header announces {len(header)} cells", text))
    return Sheet(header, separator, found, rejects, noise)


def _lines(data: bytes) -> Iterator[tuple[int, int, int, str]]:
    """Number, offset, length with the line end, and text of each line."""
    offset = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        length = min(len(line) + 1, len(data) - offset)
        if length:
            yield number, offset, length, _text(line).removeprefix("\ufeff").strip(" \r\v\f\0")
        offset += length


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        # Spreadsheets write the code page of western Windows.
        return line.decode("cp1252", "replace")


def _cells(text: str, separator: str) -> list[str] | None:
    try:
        return [cell.strip() for cell in next(csv.reader([text], strict=True, delimiter=separator), [])]
    except csv.Error:
        return None


def numbers_of(sheet: Sheet, at: int, mark: str) -> list[tuple[float, ...]]:
    """The numbers of each cell of a column: none, one, or two (`12.3 ± 0.4`)."""
    swapped = {ord("."): ",", ord(","): "."} if mark == "," else {}
    return [numbers_in(cell.translate(swapped)) for cell in sheet.column(at)]


def decimal_mark(cells: Iterable[str], separator: str) -> str:
    """The one decimal mark of a file, inferred from all numbers: `1.234,5`, `4,1` and `1.234.567` have one reading.

    Args:
        cells: cells of columns of numbers.
        separator: mark between cells.

    Raises:
        FormatError: numbers contradict each other, or each has two readings (`1,234` and `12,345` where cells are
            separated by semicolons).

    Example:
        >>> decimal_mark(["1.234", "4,1"], ";"), decimal_mark(["12.345"], ",")
        (',', '.')
    """
    #: A mark, and whether it is proven, -> the first cell that shows it.
    examples: dict[tuple[str, bool], str] = {}
    for cell in cells:
        if number := _NUMBER.search(cell):
            examples.setdefault(_mark(number[0]), cell)
    proven = [mark for mark, is_proven in examples if is_proven]
    if len(proven) > 1:
        both = f"both {examples['.', True]!r} and {examples[',', True]!r} are numbers"
        raise FormatError(both, way_out=_WAY_OUT)
    if proven:
        return proven[0]
    # In values that are separated by commas, a point is the decimal mark: 12.345 ms has three digits after it.
    if examples and (separator == ";" or (separator != "," and (",", False) in examples)):
        example = next(iter(examples.values()))
        raise FormatError(f"{example!r} may have a decimal mark or one of thousands", way_out=_WAY_OUT)
    return "."


_WAY_OUT: Final = "write all numbers with a decimal point and without marks of thousands"


def _mark(number: str) -> tuple[str, bool]:
    """A decimal mark, and whether the number proves it: else it may be one of thousands."""
    marks = re.findall("[.,]", number)
    last = marks[-1]
    if len(set(marks)) > 1:
        return last, True
    if len(marks) > 1:
        return "," if last == "." else ".", True
    before, _, after = number.partition(last)
    return last, not (len(after) == _GROUP and 1 <= len(before) <= _GROUP and before != "0")
