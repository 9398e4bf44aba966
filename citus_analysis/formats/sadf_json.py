"""`sadf -j`: samples of sar as JSON, complete or cut while it was being written.

Tables, columns and units are those of the text (`sar.py`). Each object of `statistics` is one sample. Its time is
UTC if marked so (`"utc": 1`), otherwise local (`sadf -t`, `-T`: option `timezone`). Comments and restarts, which follow
the samples, are noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import TIMEZONE, Hints, Parsed
from citus_analysis.formats.parsing.json_records import JsonReport, SysstatJson, read_reports
from citus_analysis.formats.parsing.sysstat_json import Moment, build_moments, build_tables
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import parse_times


class SadfJson(SysstatJson):
    """Samples of sar in JSON, as `sadf -j` writes them."""

    name: ClassVar[str] = "sadf_json"
    version: ClassVar[int] = 2
    tables = ("cpu_samples", "core_samples", "device_samples", "vm_samples", "net_samples", "pressure_samples")
    noise = "the text around the samples"
    options = (TIMEZONE,)
    of_sadf = True

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the file."""
        zone = get_timezone(hints.options)
        yield from read_reports(content, None, lambda reports: build_tables(_parse_json_moments(reports, zone), "sar"))


def _parse_json_moments(reports: list[JsonReport], zone: str) -> list[Moment]:
    stamps = [report.content.get("timestamp") for report in reports]
    printed = [f"{stamp.get('date')} {stamp.get('time')}" if isinstance(stamp, dict) else None for stamp in stamps]
    texts = pl.Series(printed, dtype=pl.String)
    local, utc = parse_times(texts, "ymd", zone), parse_times(texts, "ymd")
    marked = [isinstance(stamp, dict) and stamp.get("utc") == 1 for stamp in stamps]
    times = [one if is_utc else other for is_utc, one, other in zip(marked, utc, local, strict=True)]
    return build_moments(reports, times, since_boot=False)


FORMAT: Final = SadfJson()
