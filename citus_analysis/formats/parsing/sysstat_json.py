"""Objects of the JSON of sadf and mpstat, as fields that :mod:`citus_analysis.formats.parsing.sysstat` makes rows of.

The names are those of the text without `/s` and `%`; those of memory also lack `kb`. sadf writes sizes of devices
twice, in sectors as old versions did and in kB; the sizes in kB are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

import polars as pl

from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Hints
from citus_analysis.formats.parsing.json_records import JsonReport, convert_latin1_to_utf8
from citus_analysis.formats.parsing.sampler_lines import PrintedColumns, choose_clock_options, map_printed_columns
from citus_analysis.formats.parsing.sysstat import (
    PLACE,
    PRESSURE,
    ReportTable,
    build_table_rows,
    combine_table_rows,
    map_report_columns,
    null_out_of_range_fields,
)
from citus_analysis.formats.parsing.times import convert_local_to_utc, parse_times

_PSI: Final = {"psi-cpu": "cpu", "psi-io": "io", "psi-mem": "mem"}


#: The content of a report, and its values of `offset`, `sample`, `sample_time` and `since_boot`.
Moment = tuple[Mapping[str, object], Mapping[str, object]]


def build_moments(reports: Iterable[JsonReport], times: Iterable[datetime | None], *, since_boot: bool) -> list[Moment]:
    """The reports with their times; the first sample of the source may average since boot."""
    return [
        (one.content, dict(zip(PLACE, (one.offset, one.sample, time, since_boot and one.sample == 0), strict=True)))
        for one, time in zip(reports, times, strict=True)
    ]


def _map_plain_names(table: str, key: str | None) -> dict[str, tuple[str, float]]:
    return {re.sub("^(?:%|kb)|/s$", "", name): place for name, place in map_report_columns(table, key).items()}


_VM: Final = _map_plain_names("vm_samples", None) | map_printed_columns({"inactive": "inactive_kb"})
_USED: Final = map_printed_columns({"util-percent": "utilization_percent", "ifutil-percent": "utilization_percent"})
#: Name of an object -> table, name of the item, and its columns.
_OBJECTS: Final[Mapping[str, tuple[str, str | None, PrintedColumns]]] = {
    "cpu-load": ("cpu_samples", "cpu", _map_plain_names("cpu_samples", "CPU")),
    "cpu-load-all": ("cpu_samples", "cpu", _map_plain_names("cpu_samples", "CPU")),
    "sum-interrupts": ("vm_samples", "cpu", map_printed_columns({"intr": "interrupts_per_s"})),
    "interrupts": ("vm_samples", "intr", map_printed_columns({"value": "interrupts_per_s", "all": "interrupts_per_s"})),
    "process-and-context-switch": ("vm_samples", None, _VM),
    "swap-pages": ("vm_samples", None, _VM),
    "paging": ("vm_samples", None, _VM),
    "queue": ("vm_samples", None, _VM),
    "memory": ("vm_samples", None, _VM),
    "io": ("device_samples", None, _map_plain_names("device_samples", None)),
    "disk": ("device_samples", "disk-device", _map_plain_names("device_samples", "DEV") | _USED),
    "net-dev": ("net_samples", "iface", _map_plain_names("net_samples", "IFACE") | _USED),
    "net-edev": ("net_samples", "iface", _map_plain_names("net_samples", "IFACE")),
}  # fmt: skip
#: Columns that are no numbers.
_TEXTS: Final = ("item", "user", "command")
_OLD_SIZES: Final = frozenset({"rd_sec", "wr_sec", "dc_sec", "avgrq-sz", "avgqu-sz"})


def build_tables(moments: Sequence[Moment], sampler: str) -> dict[str, pl.DataFrame]:
    """Table -> rows of all moments."""
    found = [
        build_rows_of_objects(
            [row for moment in moments for row in _iterate_object_rows(moment, name, key, columns)], table, key, sampler
        )
        for name, (table, key, columns) in _OBJECTS.items()
    ]
    pressures = [row for moment in moments for row in _iterate_pressure_rows(moment)]
    return combine_table_rows([*found, build_rows_of_objects(pressures, "pressure_samples", None, sampler)])


def build_rows_of_objects(
    rows: Sequence[Mapping[str, object]], table: str, key: str | None, sampler: str
) -> dict[str, pl.DataFrame]:
    """Table -> rows, from the named values of a report's objects."""
    if not rows:
        return {}
    fields = pl.DataFrame(rows, infer_schema_length=None)
    numbers = [name for name in fields.columns if name not in {*PLACE, *_TEXTS}]
    report = ReportTable(table, key, {index: (name, 1.0) for index, name in enumerate(numbers)})
    return build_table_rows(
        null_out_of_range_fields(fields.with_columns(pl.col(numbers).cast(pl.Float64)), report), report, sampler
    )


def _iterate_object_rows(
    moment: Moment, name: str, key: str | None, columns: PrintedColumns
) -> Iterator[dict[str, object]]:
    content, place = moment
    for thing in _iterate_objects(content, name):
        item = thing.get(key) if key else None
        if key and not isinstance(item, str):
            continue
        flat = dict(_flatten_numbers(thing))
        names = sorted(flat, key=lambda one: one not in _OLD_SIZES)
        values = {columns[one][0]: flat[one] * columns[one][1] for one in names if one in columns}
        if values:
            text = {"item": convert_latin1_to_utf8(item)} if isinstance(item, str) else {}
            yield {**place, **text, **values}


def _iterate_objects(content: Mapping[str, object], name: str) -> Iterator[Mapping[str, object]]:
    network = content.get("network")
    found = content.get(name, network.get(name) if isinstance(network, dict) else None)
    for thing in found if isinstance(found, list) else [found]:
        if isinstance(thing, dict):
            yield thing


def _flatten_numbers(thing: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Numbers of an object and of the objects in it."""
    for name, value in thing.items():
        if isinstance(value, dict):
            yield from ((inner, float(one)) for inner, one in value.items() if isinstance(one, int | float))
        elif isinstance(value, int | float):
            yield name, float(value)


def _iterate_pressure_rows(moment: Moment) -> Iterator[dict[str, object]]:
    content, place = moment
    things = content.get("psi")
    if not isinstance(things, dict):
        return
    values: dict[str, float] = {}
    for name, short in _PSI.items():
        thing = things.get(name)
        for inner, value in _flatten_numbers(thing) if isinstance(thing, dict) else ():
            scope, _, mean = inner.partition("_avg")
            printed = f"%{scope[:1]}{short}{f'-{mean}' if mean else ''}"
            if printed in PRESSURE:
                values[printed] = value
    if values:
        yield {**place, **values}


# Times of the reports in the JSON of mpstat and pidstat, which states one date and the time of day of each report.

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
        return cls(dates[0] if dates else "", *choose_clock_options(dates, hints.options))

    def moments(self, reports: list[JsonReport]) -> list[Moment]:
        """The reports of a block with their times."""
        texts = [f"{self.date} {report.content.get('timestamp')}" for report in reports]
        local = parse_times(pl.Series(texts, dtype=pl.String), self.order).dt.replace_time_zone(None)
        known = pl.concat([self.last, local]).fill_null(strategy="forward")
        days = (known.diff() < -_SET_BACK).fill_null(value=False).cum_sum().cast(pl.Int64) + self.day
        self.last, self.day = known.tail(1), int(days[-1])
        times = local.to_frame("local").select(
            convert_local_to_utc(pl.col("local") + pl.duration(days=pl.lit(days[1:])), self.zone)
        )
        alone = len(reports) == 1 and reports[0].sample == 0
        first = alone if self.first_report is None else self.first_report
        return build_moments(reports, times.to_series(), since_boot=first)
