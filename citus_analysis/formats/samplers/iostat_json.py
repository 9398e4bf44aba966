"""`iostat -o JSON` (sysstat 11.5 and later), complete or cut while it was being written.

Tables: `cpu_samples`, `device_samples`. Each object of `statistics` is one sample; objects are decoded one by
one as the file is read, so a file that ends in the middle of a report yields all reports before it, and the
rest is rejected. Names, units and options are those of the text output (:mod:`.iostat`).

`since_boot`: as in the text, sysstat up to 12.7.6 leaves an empty line behind `"statistics": [` under `-y`, and
only then. A file that was reformatted by another tool lacks that sign; its first report counts as since
boot unless the option `first_report` is `interval`.

`is_group`: sysstat writes a blank before the name of a group (`-g`). The column is true there and null elsewhere,
because not every version may do so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.formats.api.options import DATE_ORDER, FIRST_REPORT, TIMEZONE, Option
from citus_analysis.formats.reading.sampler_lines import first_report_option
from citus_analysis.formats.samplers._columns import CPU, DEVICE, with_derived_await
from citus_analysis.formats.sources.content import LINE_CAP, Block, Content
from citus_analysis.formats.times.sampler_clock import date_order, parse_times
from citus_analysis.formats.times.zones import timezone_of

__all__ = ["FORMAT", "IostatJson"]

_REPORTS: Final = re.compile(r'"statistics"\s*:\s*\[')
_DATES: Final = re.compile(r'"(?:date|timestamp)"\s*:\s*"([^"]*)"')
_SEPARATOR: Final = re.compile(r"[\s,]*")
_BETWEEN: Final = " \t\r\n,"
_BROKEN: Final = "not JSON from here on"
_NO_NUMBER: Final = "a number in this report is too large to be one"
_BLOCK_BYTES: Final = 2**20
#: Python refuses to read integers with very many digits; as real numbers they are infinite.
_DECODER: Final = json.JSONDecoder(parse_int=float)
#: An error this close to the end of the data read so far is attributed to the missing rest.
_TAIL: Final = 64


@dataclass(frozen=True)
class _Report:
    """One decoded object of `statistics`."""

    content: Mapping[str, Any]
    sample: int
    since_boot: bool


@dataclass
class _Reader:
    """Cuts reports out of a growing text. The text is Latin-1, so that a position in it is a byte offset."""

    first_report: bool | None
    text: str = ""
    offset: int = 0
    samples: int = 0
    parsed_bytes: int = 0
    noise_bytes: int = 0
    inside: bool = False
    first: bool = False
    broken: bool = False
    rejects: list[Reject] = field(default_factory=list)

    def feed(self, block: Block) -> list[_Report]:
        """The reports that a block completes; the rest stays in `text`, which begins at `offset`."""
        self.text += block.data.decode("latin-1")
        self.parsed_bytes = position = 0
        self.rejects = []
        reports: list[_Report] = []
        while not self.broken:
            found = self._decode(position, reports) if self.inside else self._enter(position)
            if found is None:
                break
            position = found
        self.text, self.offset = self.text[position:], self.offset + position
        self.noise_bytes = position - self.parsed_bytes - sum(reject.byte_length for reject in self.rejects)
        return reports

    def skip_text(self) -> None:
        """Discard the rest of the text."""
        self.offset, self.text = self.offset + len(self.text), ""

    def _enter(self, position: int) -> int | None:
        """The position after the next opening of `statistics`, or before which none can begin; None if unchanged."""
        opening = _REPORTS.search(self.text, position)
        if opening is None:
            seen = max(position, len(self.text) - _TAIL)
            return seen if seen > position else None
        self.inside = self.first = True
        return opening.end()

    def _decode(self, position: int, reports: list[_Report]) -> int | None:
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
        reports.append(_Report(content, self.samples, self.first and averages))
        self.first = False
        self.samples += 1
        self.parsed_bytes += end - start
        return end

    def _skip(self, position: int) -> int:
        gap = _SEPARATOR.match(self.text, position)
        return gap.end() if gap else position

    def _may_go_on(self, error: Exception) -> bool:
        """Whether a report that does not decode may be merely incomplete at the end of the text."""
        position = getattr(error, "pos", 0)
        cut = str(error).startswith("Unterminated string") or position > len(self.text) - _TAIL
        return cut and len(self.text) < LINE_CAP


class IostatJson(Format):
    """Output of `iostat -o JSON`."""

    name: ClassVar[str] = "iostat_json"
    version: ClassVar[int] = 2
    tables: ClassVar[tuple[str, ...]] = ("cpu_samples", "device_samples")
    noise: ClassVar[str] = "the text around the reports"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)

    def detect(self, name: str, head: bytes) -> float:
        """Detects the keys that only iostat writes under `sysstat` (mpstat and sadf write others)."""
        start = head[:4096].lstrip()
        if not start.startswith(b"{") or b'"sysstat"' not in start:
            return 0.0
        return 0.95 if b'"avg-cpu"' in head or b'"disk_device"' in head else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Reports in order; the text after a report that does not decode is rejected."""
        dates = _DATES.findall(content.head.decode("latin-1"))
        order = date_order(dates, hints.options)
        zone = timezone_of(hints.options)
        reader = _Reader(first_report_option(hints.options))
        for block in content.blocks(_BLOCK_BYTES):
            if block.oversized:
                yield _lost(block.offset, block.length, "line longer than a report")
                continue
            reports = reader.feed(block)
            tables = _tables(reports, order, zone)
            yield Parsed(tables, reader.parsed_bytes, reader.noise_bytes, reject_rows(reader.rejects))
            if reader.broken:
                yield _lost(reader.offset, len(reader.text), _BROKEN, reader.text)
                reader.skip_text()
        if reader.text:
            yield _rest(reader)


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _lost(offset: int, length: int, reason: str, excerpt: str = "") -> Parsed:
    return Parsed({}, 0, rejects=reject_rows([Reject(offset, length, reason, excerpt)]))


def _rest(reader: _Reader) -> Parsed:
    """The text after the last complete report: the end of the document, or an incomplete report."""
    if reader.inside and reader.text.strip(_BETWEEN):
        return _lost(reader.offset, len(reader.text), "the file ends inside this report", reader.text)
    return Parsed({}, 0, len(reader.text))


def _tables(reports: list[_Report], order: str, zone: str) -> dict[str, pl.DataFrame]:
    """Sample frames of decoded reports."""
    times = [report.content.get("timestamp") for report in reports]
    samples = pl.DataFrame(
        {
            "sample": [report.sample for report in reports],
            "sample_time": parse_times(pl.Series(times, dtype=pl.String, strict=False), order, zone),
            "since_boot": [report.since_boot for report in reports],
        }
    )
    cpus = [(report.sample, report.content.get("avg-cpu")) for report in reports]
    cpu = [{"sample": sample, "sampler": "iostat", **_cpu(load)} for sample, load in cpus if isinstance(load, dict)]
    disks = [(report.sample, disk) for report in reports for disk in report.content.get("disk") or ()]
    device = [{"sample": sample, **_device(disk)} for sample, disk in disks if isinstance(disk, dict)]
    frames = {"cpu_samples": _frame(cpu), "device_samples": with_derived_await(_frame(device))}
    return {
        name: frame.join(samples, on="sample", maintain_order="left") for name, frame in frames.items() if frame.height
    }


def _frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _cpu(load: Mapping[str, object]) -> dict[str, float]:
    return {CPU[name]: value for name, value in load.items() if name in CPU and isinstance(value, int | float)}


def _device(disk: Mapping[str, object]) -> dict[str, object]:
    name = disk.get("disk_device")
    numbers = {
        DEVICE[key][0]: float(value) * DEVICE[key][1]
        for key, value in disk.items()
        if key in DEVICE and isinstance(value, int | float)
    }
    if not isinstance(name, str):
        return {"device": None, **numbers}
    # The document was decoded as Latin-1; only names can contain other characters than ASCII.
    name = name.encode("latin-1", "replace").decode("utf-8", "replace")
    return {"device": name.strip(), "is_group": True if name.startswith(" ") else None, **numbers}


FORMAT = IostatJson()
