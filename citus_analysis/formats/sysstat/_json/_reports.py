"""Objects of the JSON of sadf and mpstat, as fields that :mod:`citus_analysis.formats.sysstat._tables` makes rows of.

The names are those of the text without `/s` and `%`; those of memory also lack `kb`. sadf writes sizes of devices
twice, in sectors as old versions did and in kB; the sizes in kB are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.formats.reading.json_reports import JsonReport, in_utf8
from citus_analysis.formats.samplers._columns import Places, places
from citus_analysis.formats.sysstat._reports import PRESSURE, Report, places_of
from citus_analysis.formats.sysstat._tables import PLACE, rows_of, together, with_misfits

_PSI: Final = {"psi-cpu": "cpu", "psi-io": "io", "psi-mem": "mem"}


#: The content of a report, and its values of `offset`, `sample`, `sample_time` and `since_boot`.
Moment = tuple[Mapping[str, object], Mapping[str, object]]


def moments_of(reports: Iterable[JsonReport], times: Iterable[datetime | None], *, since_boot: bool) -> list[Moment]:
    """The reports with their times; the first sample of the source may average since boot."""
    return [
        (one.content, dict(zip(PLACE, (one.offset, one.sample, time, since_boot and one.sample == 0), strict=True)))
        for one, time in zip(reports, times, strict=True)
    ]


def _plain(table: str, key: str | None) -> dict[str, tuple[str, float]]:
    return {re.sub("^(?:%|kb)|/s$", "", name): place for name, place in places_of(table, key).items()}


_VM: Final = _plain("vm_samples", None) | places("inactive=inactive_kb")
_USED: Final = places("util-percent=utilization_percent ifutil-percent=utilization_percent")
#: Name of an object -> table, name of the item, and its columns.
_OBJECTS: Final[Mapping[str, tuple[str, str | None, Places]]] = {
    "cpu-load": ("cpu_samples", "cpu", _plain("cpu_samples", "CPU")),
    "cpu-load-all": ("cpu_samples", "cpu", _plain("cpu_samples", "CPU")),
    "sum-interrupts": ("vm_samples", "cpu", places("intr=interrupts_per_s")),
    "interrupts": ("vm_samples", "intr", places("value=interrupts_per_s all=interrupts_per_s")),
    "process-and-context-switch": ("vm_samples", None, _VM),
    "swap-pages": ("vm_samples", None, _VM),
    "paging": ("vm_samples", None, _VM),
    "queue": ("vm_samples", None, _VM),
    "memory": ("vm_samples", None, _VM),
    "io": ("device_samples", None, _plain("device_samples", None)),
    "disk": ("device_samples", "disk-device", _plain("device_samples", "DEV") | _USED),
    "net-dev": ("net_samples", "iface", _plain("net_samples", "IFACE") | _USED),
    "net-edev": ("net_samples", "iface", _plain("net_samples", "IFACE")),
}  # fmt: skip
#: Columns that are no numbers.
_TEXTS: Final = ("item", "user", "command")
_OLD_SIZES: Final = frozenset({"rd_sec", "wr_sec", "dc_sec", "avgrq-sz", "avgqu-sz"})


def tables_of(moments: Sequence[Moment], sampler: str) -> dict[str, pl.DataFrame]:
    """Table -> rows of all moments."""
    found = [
        rows_of_objects([row for moment in moments for row in _rows(moment, name, key, columns)], table, key, sampler)
        for name, (table, key, columns) in _OBJECTS.items()
    ]
    pressures = [row for moment in moments for row in _pressures(moment)]
    return together([*found, rows_of_objects(pressures, "pressure_samples", None, sampler)])


def rows_of_objects(
    rows: Sequence[Mapping[str, object]], table: str, key: str | None, sampler: str
) -> dict[str, pl.DataFrame]:
    """Table -> rows, from the named values of a report's objects."""
    if not rows:
        return {}
    fields = pl.DataFrame(rows, infer_schema_length=None)
    numbers = [name for name in fields.columns if name not in {*PLACE, *_TEXTS}]
    report = Report(table, key, {index: (name, 1.0) for index, name in enumerate(numbers)})
    return rows_of(with_misfits(fields.with_columns(pl.col(numbers).cast(pl.Float64)), report), report, sampler)


def _rows(moment: Moment, name: str, key: str | None, columns: Places) -> Iterator[dict[str, object]]:
    content, place = moment
    for thing in _objects(content, name):
        item = thing.get(key) if key else None
        if key and not isinstance(item, str):
            continue
        flat = dict(_flat(thing))
        names = sorted(flat, key=lambda one: one not in _OLD_SIZES)
        values = {columns[one][0]: flat[one] * columns[one][1] for one in names if one in columns}
        if values:
            text = {"item": in_utf8(item)} if isinstance(item, str) else {}
            yield {**place, **text, **values}


def _objects(content: Mapping[str, object], name: str) -> Iterator[Mapping[str, object]]:
    network = content.get("network")
    found = content.get(name, network.get(name) if isinstance(network, dict) else None)
    for thing in found if isinstance(found, list) else [found]:
        if isinstance(thing, dict):
            yield thing


def _flat(thing: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Numbers of an object and of the objects in it."""
    for name, value in thing.items():
        if isinstance(value, dict):
            yield from ((inner, float(one)) for inner, one in value.items() if isinstance(one, int | float))
        elif isinstance(value, int | float):
            yield name, float(value)


def _pressures(moment: Moment) -> Iterator[dict[str, object]]:
    content, place = moment
    things = content.get("psi")
    if not isinstance(things, dict):
        return
    values: dict[str, float] = {}
    for name, short in _PSI.items():
        thing = things.get(name)
        for inner, value in _flat(thing) if isinstance(thing, dict) else ():
            scope, _, mean = inner.partition("_avg")
            printed = f"%{scope[:1]}{short}{f'-{mean}' if mean else ''}"
            if printed in PRESSURE:
                values[printed] = value
    if values:
        yield {**place, **values}
