"""`mpstat -o JSON` (sysstat 11.5 and later), complete or cut while it was being written.

Tables and columns are those of the text (`mpstat.py`). Each object of `statistics` is one sample. A sample has only
a time of day; the date is in the beginning of the output, and a time hours before the previous one is on the next day.
JSON does not show whether mpstat had an interval: if a file has only one report, it counts as an average since boot
unless the option `first_report` is `interval`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Hints, Parsed
from citus_analysis.formats.parsing.json_records import SysstatJson, read_reports
from citus_analysis.formats.parsing.sysstat_json import JsonDays, build_tables

_KEYS: Final = (b'"cpu-load"', b'"node-load"', b'"sum-interrupts"', b'"individual-interrupts"', b'"soft-interrupts"')


class MpstatJson(SysstatJson):
    """Output of `mpstat -o JSON`."""

    name: ClassVar[str] = "mpstat_json"
    version: ClassVar[int] = 2
    tables = ("cpu_samples", "core_samples", "vm_samples")
    signature = (_KEYS,)

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Reports in the order of the file."""
        days = JsonDays.of(content, hints)
        yield from read_reports(content, False, lambda reports: build_tables(days.moments(reports), "mpstat"))


FORMAT: Final = MpstatJson()
