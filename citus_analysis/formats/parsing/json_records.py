"""Documents of JSON that are read as a whole, and the numbers in them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import ComputeError, SchemaError

from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import LINE_CAP, Block, Content
from citus_analysis.formats.deliveries.export_rows import decode_by_bisection
from citus_analysis.formats.parsing.format import (
    DATE_ORDER,
    FIRST_REPORT,
    TIMEZONE,
    Format,
    Option,
    Parsed,
    Reject,
    reject_rows,
)
from citus_analysis.formats.parsing.sampler_lines import SYSSTAT_DOCUMENT
from citus_analysis.schema import Rows
from citus_analysis.texts.documents import parse_json


def parse_json_document(data: bytes, what: str, path: Path | None) -> object:
    """The document in a text of JSON.

    Raises:
        FormatError: the text is no JSON, or exceeds the limits of documents.
    """
    try:
        return parse_json(data)
    except FormatError as error:
        raise FormatError(f"is not {what}: {error.problem}", path=path) from error


def convert_to_finite_number(value: object, *, quoted: bool = False) -> float | None:
    """A finite number of a document; None for anything else.

    Args:
        value: a value of the document.
        quoted: whether a number may be written as a text.

    Example:
        >>> (
        ...     convert_to_finite_number(3),
        ...     convert_to_finite_number("3"),
        ...     convert_to_finite_number("3", quoted=True),
        ...     convert_to_finite_number(True),
        ...     convert_to_finite_number(float("nan")),
        ... )
        (3.0, None, 3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int | float | str) if quoted else (int | float)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# Lines of JSON objects as columns; other lines may come between them.
#
# polars decodes a whole block of lines at once, but fails at the first line that is not an object. Python's own
# decoder, about a hundred times slower, then finds those lines. The result for a line never depends on its neighbours:
# Python reads every line that polars reads.

#: Column with the number of the line, besides those of the names that were asked for.
_LINE: Final = "line number"
_BLANKS: Final = b" \t\r\n"
#: polars reads integers of up to 128 bits.
_LEAST, _MOST = -(2**127), 2**128 - 1


def decode_lines(
    data: bytes,
    starts: Integers,
    sizes: Integers,
    names: Iterable[str],
    within: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> tuple[pl.DataFrame, Integers]:
    r"""The objects among the lines of `data`, which must be valid UTF-8.

    Args:
        data: whole lines.
        starts: offsets of the lines.
        sizes: lengths of the lines with their ends.
        names: keys to read; other keys are left out, absent ones are null. Of repeated keys, the first counts.
        within: keys to read of nested objects, by the key of each object; they become columns of structures.

    Returns:
        One row per object, every value as text; and the line number of each object.

    Example:
        >>> from citus_analysis.formats.parsing.lines import find_line_bounds
        >>> data = b'{"a": 1}\ncut {"a\n\n{"b": "x", "a": "y"}\n'
        >>> frame, numbers = decode_lines(data, *find_line_bounds(data), ["a", "b"])
        >>> frame.rows(), numbers.tolist()
        ([('1', None), ('y', 'x')], [0, 3])
    """
    schema = pl.Schema(dict.fromkeys(names, pl.String))
    schema.update((name, pl.Struct(dict.fromkeys(keys, pl.String))) for name, keys in within.items())
    frame = _decode_objects(data, len(starts), schema)
    if frame is not None:
        return frame, np.arange(len(starts))
    lines = [data[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    objects = [number for number, line in enumerate(lines) if _is_object(line)]
    none = schema.to_frame().with_columns(pl.lit(0, pl.Int64).alias(_LINE))

    def decode(first: int, end: int) -> pl.DataFrame | None:
        numbers = objects[first:end]
        found = _decode_objects(b"\n".join(lines[number].rstrip(_BLANKS) for number in numbers), len(numbers), schema)
        return None if found is None else found.with_columns(pl.Series(_LINE, numbers))

    read = decode_by_bisection(decode, lambda _: none, 0, len(objects)) if objects else ()
    frame = pl.concat([none, *read])
    return frame.drop(_LINE), frame[_LINE].to_numpy()


def find_blank_lines(data: bytes, starts: Integers, sizes: Integers, among: npt.NDArray[np.bool_]) -> Integers:
    """Numbers of the blank lines among the given ones."""
    numbers = np.flatnonzero(among)
    blank = [not data[starts[number] : starts[number] + sizes[number]].strip(_BLANKS) for number in numbers]
    return numbers[np.array(blank, np.bool_)]


def find_selected_chunks(wanted: npt.NDArray[np.bool_], starts: Integers, sizes: Integers) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of selected lines."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    ends = starts + sizes
    for first, end in edges.reshape(-1, 2).tolist():
        yield int(starts[first]), int(ends[end - 1])


def _decode_objects(data: bytes, count: int, schema: pl.Schema) -> pl.DataFrame | None:
    """The objects, if there are as many."""
    try:
        frame = pl.read_ndjson(data, schema=schema)
    except (ComputeError, SchemaError):
        return None
    return frame if frame.height == count else None


def _is_object(line: bytes) -> bool:
    if not line.lstrip(_BLANKS).startswith(b"{"):
        return False
    try:
        # Only whether the line is JSON is asked: nothing of it is kept, and RecursionError is an answer.
        json.loads(  # noqa: TID251 - numbers are checked as printed
            line.decode(), parse_constant=_refuse, parse_float=_check_float, parse_int=_check_integer
        )
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _check_float(text: str) -> None:
    if math.isinf(float(text)):
        _refuse(text)


def _check_integer(text: str) -> None:
    if not _LEAST <= int(text) <= _MOST:
        _refuse(text)


def _refuse(text: str) -> None:
    raise ValueError(f"not a number that polars can read: {text}")


# Reports in the JSON of sysstat's tools, read block by block from a text that may be incomplete.
#
# Each object of `statistics` is a report and is decoded by itself, so a file that ends inside a report yields all
# reports before it, and the rest is rejected.

_REPORTS: Final = re.compile(r'"statistics"\s*:\s*\[')
_SEPARATOR: Final = re.compile(r"[\s,]*")
_BETWEEN: Final = " \t\r\n,"
_BROKEN: Final = "not JSON from here on"
_NO_NUMBER: Final = "a number in this report is too large"
_BLOCK_BYTES: Final = 2**20
#: Python refuses to read integers with very many digits; as real numbers they are infinite.
_DECODER: Final = json.JSONDecoder(parse_int=float)
#: Bytes at the beginning of a file by which the tool is recognised.
_HEAD_BYTES: Final = 4096
#: An error this close to the end of the data read so far is attributed to the missing rest.
_TAIL: Final = 64


class SysstatJson(Format):
    """A JSON document of a tool of sysstat.

    Attributes:
        of_sadf: only sadf prints the date of a file of sadc.
        signature: sets of keys, of each of which the document of no other tool has one.
    """

    noise = "the text around the reports"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    start_markers = (SYSSTAT_DOCUMENT,)
    of_sadf: ClassVar[bool] = False
    signature: ClassVar[tuple[tuple[bytes, ...], ...]] = ()

    def detect(self, name: str, head: bytes) -> float:
        """By the beginning of the document, and keys that no other tool writes."""
        start = head[:_HEAD_BYTES].lstrip()
        own = start.startswith(b"{") and b'"sysstat"' in start and (b'"file-date"' in start) == self.of_sadf
        return 0.95 if own and all(any(key in head for key in keys) for keys in self.signature) else 0.0


def convert_latin1_to_utf8(text: str) -> str:
    """A text of a document that was decoded as Latin-1."""
    return text.encode("latin-1", "replace").decode("utf-8", "replace")


@dataclass(frozen=True)
class JsonReport:
    """One decoded object of `statistics`, which begins at `offset`."""

    content: Mapping[str, object]
    sample: int
    since_boot: bool
    offset: int


@dataclass
class JsonReports:
    """Cuts reports out of a growing text. The text is Latin-1, so that a position in it is a byte offset."""

    first_report: bool | None = None
    text: str = ""
    offset: int = 0
    samples: int = 0
    parsed_bytes: int = 0
    noise_bytes: int = 0
    inside: bool = False
    first: bool = False
    broken: bool = False
    rejects: list[Reject] = field(default_factory=list)

    def feed(self, block: Block) -> list[JsonReport]:
        """The reports that a block completes; the rest stays in `text`, which begins at `offset`."""
        self.text += block.data.decode("latin-1")
        self.parsed_bytes = position = 0
        self.rejects = []
        reports: list[JsonReport] = []
        while not self.broken:
            found = self._decode(position, reports) if self.inside else self._enter(position)
            if found is None:
                break
            position = found
        self.text, self.offset = self.text[position:], self.offset + position
        self.noise_bytes = position - self.parsed_bytes - sum(reject.byte_length for reject in self.rejects)
        return reports

    def _enter(self, position: int) -> int | None:
        """The position after the next opening of `statistics`, or up to which none begins; None if unchanged."""
        opening = _REPORTS.search(self.text, position)
        if opening is None:
            seen = max(position, len(self.text) - _TAIL)
            return seen if seen > position else None
        self.inside = self.first = True
        return opening.end()

    def _decode(self, position: int, reports: list[JsonReport]) -> int | None:
        """The position after the next report or after the array's end; None if more text is needed."""
        start = self._skip(position)
        if start == len(self.text):
            return None
        if self.text[start] != "{":
            self.inside = False
            return start
        try:
            content, end = _DECODER.raw_decode(self.text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            self.broken = not self._may_go_on(error)
            return None
        if not _is_finite(content):
            self.rejects.append(Reject(self.offset + start, end - start, _NO_NUMBER, self.text[start:end]))
            self.first = False
            return end
        omitted = self.text.count("\n", position, start) > 1
        averages = not omitted if self.first_report is None else self.first_report
        reports.append(JsonReport(content, self.samples, self.first and averages, self.offset + start))
        self.first = False
        self.samples += 1
        self.parsed_bytes += end - start
        return end

    def _skip(self, position: int) -> int:
        gap = _SEPARATOR.match(self.text, position)
        return gap.end() if gap else position

    def _may_go_on(self, error: Exception) -> bool:
        """Whether a report cannot be decoded perhaps only because the text read so far ends inside it."""
        position = getattr(error, "pos", 0)
        cut = str(error).startswith("Unterminated string") or position > len(self.text) - _TAIL
        return cut and len(self.text) < LINE_CAP

    def rest(self) -> Parsed:
        """The text after the last complete report: the end of the document, or an incomplete report."""
        if self.inside and self.text.strip(_BETWEEN):
            return _reject_excerpt(self.offset, len(self.text), "the file ends inside this report", self.text)
        return Parsed({}, 0, len(self.text))


def read_reports(
    content: Content,
    first_report: bool | None,
    tables: Callable[[list[JsonReport]], Mapping[str, Rows]],
) -> Iterator[Parsed]:
    """The pieces of a source, with the tables that a function makes of the reports of each block.

    Args:
        content: the source.
        first_report: the option of that name.
        tables: makes the tables.
    """
    reader = JsonReports(first_report)
    for block in content.blocks(_BLOCK_BYTES):
        if block.oversized:
            yield _reject_excerpt(block.offset, block.length, "line longer than a report")
            continue
        found = tables(reader.feed(block))
        yield Parsed(found, reader.parsed_bytes, reader.noise_bytes, reject_rows(reader.rejects))
        if reader.broken:
            yield _reject_excerpt(reader.offset, len(reader.text), _BROKEN, reader.text)
            reader.offset, reader.text = reader.offset + len(reader.text), ""
    if reader.text:
        yield reader.rest()


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _reject_excerpt(offset: int, length: int, reason: str, excerpt: str = "") -> Parsed:
    return Parsed({}, 0, rejects=reject_rows([Reject(offset, length, reason, excerpt)]))
