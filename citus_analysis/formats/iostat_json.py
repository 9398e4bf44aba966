"""`iostat -o JSON` (sysstat 11.5 and later), complete or cut while it was being written.

Tables: `cpu_samples`, `device_samples`. Each object of `statistics` is one sample; objects are decoded one by
one as the file is read, so a file that ends inside a report yields all reports before it, and the
rest is rejected. Names, units and options are those of the text output (`iostat.py`).

`since_boot`: as in the text, sysstat up to 12.7.6 leaves an empty line after `"statistics": [` under `-y`, and
only then. A file that was reformatted by another tool lacks that sign; its first report counts as since
boot unless the option `first_report` is `interval`.

`is_group`: sysstat writes a blank before the name of a group (`-g`). The column is true there and null elsewhere,
because not every version may do so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Hints, Parsed
from citus_analysis.formats.parsing.json_records import JsonReport, SysstatJson, convert_latin1_to_utf8, read_reports
from citus_analysis.formats.parsing.sampler_lines import (
    CPU,
    DEVICE,
    PrintedColumns,
    choose_clock_options,
    fill_derived_await,
)
from citus_analysis.formats.parsing.times import parse_times

_DATES: Final = re.compile(r'"(?:date|timestamp)"\s*:\s*"([^"]*)"')


class IostatJson(SysstatJson):
    """Output of `iostat -o JSON`."""

    name: ClassVar[str] = "iostat_json"
    version: ClassVar[int] = 3
    tables = ("cpu_samples", "device_samples")
    signature = ((b'"avg-cpu"', b'"disk_device"'),)

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Reports in order; the text from a report that cannot be decoded is rejected."""
        dates = _DATES.findall(content.head.decode("latin-1"))
        order, zone, first_report = choose_clock_options(dates, hints.options)
        yield from read_reports(content, first_report, lambda reports: _build_iostat_tables(reports, order, zone))


def _build_iostat_tables(reports: list[JsonReport], order: str, zone: str) -> dict[str, pl.DataFrame]:
    """Frames of samples, from decoded reports."""
    printed = [report.content.get("timestamp") for report in reports]
    times = parse_times(pl.Series(printed, dtype=pl.String, strict=False), order, zone)
    cpu, device = [], []
    for report, time in zip(reports, times, strict=True):
        place = {"sample": report.sample, "sample_time": time, "since_boot": report.since_boot}
        place["byte_offset"] = report.offset
        load, disks = report.content.get("avg-cpu"), report.content.get("disk")
        if isinstance(load, dict):
            cpu.append({**place, "sampler": "iostat", **_convert_printed_numbers(load, CPU)})
        if isinstance(disks, list):
            device += [{**place, **_parse_device(disk)} for disk in disks if isinstance(disk, dict)]
    frames = {
        "cpu_samples": pl.DataFrame(cpu, infer_schema_length=None),
        "device_samples": fill_derived_await(pl.DataFrame(device, infer_schema_length=None)),
    }
    return {name: frame for name, frame in frames.items() if frame.height}


def _convert_printed_numbers(printed: Mapping[str, object], columns: PrintedColumns) -> dict[str, float]:
    known = ((columns[name], value) for name, value in printed.items() if name in columns)
    return {column: float(value) * factor for (column, factor), value in known if isinstance(value, int | float)}


def _parse_device(disk: Mapping[str, object]) -> dict[str, object]:
    name = disk.get("disk_device")
    numbers = _convert_printed_numbers(disk, DEVICE)
    if not isinstance(name, str):
        return {"device": None, **numbers}
    name = convert_latin1_to_utf8(name)
    return {"device": name.strip(), "is_group": True if name.startswith(" ") else None, **numbers}


FORMAT = IostatJson()
