"""Reports in the JSON of sysstat's tools, read block by block from a text that may be incomplete.

Each object of `statistics` is a report and is decoded by itself, so a file that ends inside a report yields all reports
before it, and the rest is rejected.

Example:
    >>> reader = JsonReports()
    >>> block = Block(0, b'{"sysstat": {"statistics": [ {"a": 1}, {"a": 2}, {"a"', 53)
    >>> [report.content for report in reader.feed(block)]
    [{'a': 1.0}, {'a': 2.0}]
    >>> reader.rest().frame("rejects")["reason"].to_list()
    ['the file ends inside this report']
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from citus_analysis.formats.api.format import Format, Parsed, Reject, reject_rows
from citus_analysis.formats.api.options import DATE_ORDER, FIRST_REPORT, TIMEZONE, Option
from citus_analysis.formats.reading.sampler_lines import SYSSTAT_DOCUMENT
from citus_analysis.formats.sources.content import LINE_CAP, Block, Content
from citus_analysis.schema import Rows

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
        signs: sets of keys, of each of which the document of no other tool has one.
    """

    noise = "the text around the reports"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    openings = (SYSSTAT_DOCUMENT,)
    of_sadf: ClassVar[bool] = False
    signs: ClassVar[tuple[tuple[bytes, ...], ...]] = ()

    def detect(self, name: str, head: bytes) -> float:
        """By the beginning of the document, and keys that no other tool writes."""
        start = head[:_HEAD_BYTES].lstrip()
        own = start.startswith(b"{") and b'"sysstat"' in start and (b'"file-date"' in start) == self.of_sadf
        return 0.95 if own and all(any(key in head for key in keys) for keys in self.signs) else 0.0


def in_utf8(text: str) -> str:
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
            return _lost(self.offset, len(self.text), "the file ends inside this report", self.text)
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
            yield _lost(block.offset, block.length, "line longer than a report")
            continue
        found = tables(reader.feed(block))
        yield Parsed(found, reader.parsed_bytes, reader.noise_bytes, reject_rows(reader.rejects))
        if reader.broken:
            yield _lost(reader.offset, len(reader.text), _BROKEN, reader.text)
            reader.offset, reader.text = reader.offset + len(reader.text), ""
    if reader.text:
        yield reader.rest()


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _lost(offset: int, length: int, reason: str, excerpt: str = "") -> Parsed:
    return Parsed({}, 0, rejects=reject_rows([Reject(offset, length, reason, excerpt)]))
