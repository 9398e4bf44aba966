"""`mpstat -o JSON` (sysstat 11.5 and later), complete or cut while it was being written.

Tables and columns are those of the text (:mod:`.mpstat`). Each object of `statistics` is one sample. A sample has a
time of day only; the date is that of the beginning of the output, and a time hours before the previous one is on the
next day. JSON does not show whether mpstat had an interval: the only report of a file counts as an average since
boot unless the option `first_report` is `interval`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.options import DATE_ORDER, FIRST_REPORT, TIMEZONE, Option
from citus_analysis.formats.reading.json_reports import JsonReport, read_reports
from citus_analysis.formats.reading.sampler_lines import first_report_option
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.sysstat._json_reports import Moment, tables_of
from citus_analysis.formats.times.sampler_clock import date_order, parse_times
from citus_analysis.formats.times.zones import timezone_of

__all__ = ["FORMAT", "MpstatJson"]

_DATE: Final = re.compile(r'"date"\s*:\s*"([^"]*)"')
_KEYS: Final = (b'"cpu-load"', b'"node-load"', b'"sum-interrupts"', b'"individual-interrupts"', b'"soft-interrupts"')
_SET_BACK: Final = timedelta(hours=2)


class MpstatJson(Format):
    """Output of `mpstat -o JSON`."""

    name: ClassVar[str] = "mpstat_json"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("cpu_samples", "core_samples", "vm_samples")
    noise: ClassVar[str] = "the text around the reports"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)

    def detect(self, name: str, head: bytes) -> float:
        """By the keys under `sysstat` that neither iostat nor sadf writes there."""
        start = head[:4096].lstrip()
        if not start.startswith(b"{") or b'"sysstat"' not in start or b'"file-date"' in start:
            return 0.0
        return 0.95 if any(key in head for key in _KEYS) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Reports in the order of the file."""
        dates = _DATE.findall(content.head.decode("latin-1"))
        days = _Days(
            dates[0] if dates else "",
            date_order(dates, hints.options),
            timezone_of(hints.options),
            first_report_option(hints.options),
        )
        yield from read_reports(content, False, lambda reports: tables_of(days.moments(reports), "mpstat"))


@dataclass
class _Days:
    """Adds the date to times of day, report after report."""

    date: str
    order: str
    zone: str
    first_report: bool | None
    day: int = 0
    last: datetime | None = None

    def moments(self, reports: list[JsonReport]) -> list[Moment]:
        """The reports of a block with their times."""
        texts = [f"{self.date} {report.content.get('timestamp')}" for report in reports]
        local = parse_times(pl.Series(texts, dtype=pl.String), self.order)
        shifted = pl.Series([self._shifted(time) for time in local], dtype=pl.Datetime("us"))
        zoned = shifted.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")
        times = zoned.dt.convert_time_zone("UTC")
        alone = len(reports) == 1 and reports[0].sample == 0
        first = alone if self.first_report is None else self.first_report
        return [
            Moment(
                report.content,
                {"sample": report.sample, "sample_time": time, "since_boot": first and report.sample == 0},
            )
            for report, time in zip(reports, times, strict=True)
        ]

    def _shifted(self, time: datetime | None) -> datetime | None:
        if time is None:
            return None
        naive = time.replace(tzinfo=None)
        self.day += self.last is not None and naive < self.last - _SET_BACK
        self.last = naive
        return naive + timedelta(days=self.day)


FORMAT: Final = MpstatJson()
