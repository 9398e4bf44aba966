"""Times of the reports in the JSON of mpstat and pidstat, which states one date and the time of day of each report."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self

import polars as pl

from citus_analysis.formats.api.format import Hints
from citus_analysis.formats.reading.json_reports import JsonReport
from citus_analysis.formats.reading.sampler_lines import clock_options
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.sysstat._json._reports import Moment, moments_of
from citus_analysis.formats.times.sampler_clock import parse_times
from citus_analysis.formats.times.snapshot_times import in_utc

_DATE: Final = re.compile(r'"date"\s*:\s*"([^"]*)"')
_SET_BACK: Final = timedelta(hours=2)


@dataclass
class JsonDays:
    """Adds the date to times of day, report by report."""

    date: str
    order: str
    zone: str
    first_report: bool | None
    day: int = 0
    last: pl.Series = field(default_factory=lambda: pl.Series([None], dtype=pl.Datetime("us")))

    @classmethod
    def of(cls, content: Content, hints: Hints) -> Self:
        """From the date at the beginning of a file and the options."""
        dates = _DATE.findall(content.head.decode("latin-1"))
        return cls(dates[0] if dates else "", *clock_options(dates, hints.options))

    def moments(self, reports: list[JsonReport]) -> list[Moment]:
        """The reports of a block with their times."""
        texts = [f"{self.date} {report.content.get('timestamp')}" for report in reports]
        local = parse_times(pl.Series(texts, dtype=pl.String), self.order).dt.replace_time_zone(None)
        known = pl.concat([self.last, local]).fill_null(strategy="forward")
        days = (known.diff() < -_SET_BACK).fill_null(value=False).cum_sum().cast(pl.Int64) + self.day
        self.last, self.day = known.tail(1), int(days[-1])
        times = local.to_frame("local").select(in_utc(pl.col("local") + pl.duration(days=pl.lit(days[1:])), self.zone))
        alone = len(reports) == 1 and reports[0].sample == 0
        first = alone if self.first_report is None else self.first_report
        return moments_of(reports, times.to_series(), since_boot=first)
