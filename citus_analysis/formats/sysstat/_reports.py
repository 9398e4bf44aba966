"""The table that a report of sysstat belongs to, by the names of its columns, and the meaning of each column.

The names are the same in the texts of sar, mpstat and pidstat and in the CSV of `sadf -d`, in all versions; a column
that is not listed is left out, so that versions with more columns need no change. JSON names are those without `/s`
and `%` (:mod:`._json._reports`).

Example:
    >>> report_of(["DEV", "tps", "rkB/s", "new/s"])
    Report(table='device_samples', key='DEV', numbers={1: ('transfers_per_s', 1.0), 2: ('read_kb_s', 1.0)})
    >>> report_of(["call/s", "retrans/s"]) is None
    True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from citus_analysis.formats.samplers._columns import DEVICE

Places = Mapping[str, tuple[str, float]]

_KB_PER_SECTOR: Final = 0.5

_CPU: Final[Places] = {
    "%usr": ("usr", 1.0),
    "%user": ("user_percent", 1.0),
    "%nice": ("nice_percent", 1.0),
    "%sys": ("sys", 1.0),
    "%system": ("system_percent", 1.0),
    "%iowait": ("iowait_percent", 1.0),
    "%steal": ("steal_percent", 1.0),
    "%irq": ("irq_percent", 1.0),
    "%soft": ("softirq_percent", 1.0),
    "%guest": ("guest", 1.0),
    "%gnice": ("guest_nice", 1.0),
    "%idle": ("idle_percent", 1.0),
}
_DEVICE: Final[Places] = {
    **DEVICE,
    "%util": DEVICE["util"],
    "rd_sec/s": ("read_kb_s", _KB_PER_SECTOR),
    "wr_sec/s": ("write_kb_s", _KB_PER_SECTOR),
    "dc_sec/s": ("discard_kb_s", _KB_PER_SECTOR),
}
#: `sar -b`: all devices together.
_TRANSFERS: Final[Places] = {
    "tps": ("transfers_per_s", 1.0),
    "rtps": ("reads_per_s", 1.0),
    "wtps": ("writes_per_s", 1.0),
    "dtps": ("discards_per_s", 1.0),
    "bread/s": ("read_kb_s", _KB_PER_SECTOR),
    "bwrtn/s": ("write_kb_s", _KB_PER_SECTOR),
    "bdscd/s": ("discard_kb_s", _KB_PER_SECTOR),
}
_MEMORY: Final[Places] = {
    "kbmemfree": ("free_kb", 1.0),
    "kbavail": ("available_kb", 1.0),
    "kbmemused": ("used_kb", 1.0),
    "kbbuffers": ("buffer_kb", 1.0),
    "kbcached": ("cache_kb", 1.0),
    "kbactive": ("active_kb", 1.0),
    "kbinact": ("inactive_kb", 1.0),
    "kbdirty": ("dirty_kb", 1.0),
    "kbswpused": ("swapped_kb", 1.0),
}
_PAGING: Final[Places] = {
    "pgpgin/s": ("blocks_in_per_s", 1.0),
    "pgpgout/s": ("blocks_out_per_s", 1.0),
    "fault/s": ("faults_per_s", 1.0),
    "majflt/s": ("major_faults_per_s", 1.0),
}
_SWAPPING: Final[Places] = {"pswpin/s": ("swap_in_pages_per_s", 1.0), "pswpout/s": ("swap_out_pages_per_s", 1.0)}
_TASKS: Final[Places] = {"proc/s": ("forks_per_s", 1.0), "cswch/s": ("context_switches_per_s", 1.0)}
_QUEUE: Final[Places] = {
    "runq-sz": ("runnable", 1.0),
    "plist-sz": ("tasks", 1.0),
    "ldavg-1": ("load_1", 1.0),
    "ldavg-5": ("load_5", 1.0),
    "ldavg-15": ("load_15", 1.0),
    "blocked": ("blocked", 1.0),
}
_INTERRUPTS: Final[Places] = {"intr/s": ("interrupts_per_s", 1.0), "all": ("interrupts_per_s", 1.0)}
_NET: Final[Places] = {
    "rxpck/s": ("receive_packets_per_s", 1.0),
    "txpck/s": ("transmit_packets_per_s", 1.0),
    "rxkB/s": ("receive_kb_s", 1.0),
    "txkB/s": ("transmit_kb_s", 1.0),
    "rxbyt/s": ("receive_kb_s", 1 / 1024),
    "txbyt/s": ("transmit_kb_s", 1 / 1024),
    "%ifutil": ("utilization_percent", 1.0),
    "rxerr/s": ("receive_errors_per_s", 1.0),
    "txerr/s": ("transmit_errors_per_s", 1.0),
    "rxdrop/s": ("receive_drops_per_s", 1.0),
    "txdrop/s": ("transmit_drops_per_s", 1.0),
}
_PROCESS: Final[Places] = {
    "PID": ("pid", 1.0),
    "TGID": ("pid", 1.0),
    "TID": ("thread", 1.0),
    "%usr": ("user_percent", 1.0),
    "%system": ("system_percent", 1.0),
    "%guest": ("guest_percent", 1.0),
    "%wait": ("wait_percent", 1.0),
    "%CPU": ("cpu_percent", 1.0),
    "CPU": ("cpu", 1.0),
    "minflt/s": ("minor_faults_per_s", 1.0),
    "majflt/s": ("major_faults_per_s", 1.0),
    "VSZ": ("virtual_kb", 1.0),
    "RSS": ("resident_kb", 1.0),
    "%MEM": ("memory_percent", 1.0),
    "kB_rd/s": ("read_kb_s", 1.0),
    "kB_wr/s": ("write_kb_s", 1.0),
    "kB_ccwr/s": ("cancelled_write_kb_s", 1.0),
    "iodelay": ("io_delay_ticks", 1.0),
    "cswch/s": ("voluntary_switches_per_s", 1.0),
    "nvcswch/s": ("involuntary_switches_per_s", 1.0),
}


def _pressure_columns() -> dict[str, tuple[str, str, str]]:
    means = {"-10": "avg10_percent", "-60": "avg60_percent", "-300": "avg300_percent", "": "stalled_percent"}
    return {
        f"%{scope[0]}{short}{suffix}": (pressure, scope, column)
        for scope in ("some", "full")
        for short, pressure in {"cpu": "cpu", "io": "io", "mem": "memory"}.items()
        for suffix, column in means.items()
    }


#: Column of `sar -q PSI` -> pressure, scope and column of pressure_samples.
PRESSURE: Final[Mapping[str, tuple[str, str, str]]] = _pressure_columns()


@dataclass(frozen=True)
class Report:
    """Place of a report's columns.

    Attributes:
        table: the table; `pressure_samples` has several rows for each row of the report.
        key: name of the column that names the item of a row (CPU, device, interface, interrupt); None without items.
        numbers: position of a column -> column of the table and factor that converts its unit. Shares of CPU time
            are added up later, so their names may not be in the table.
    """

    table: str
    key: str | None
    numbers: Mapping[int, tuple[str, float]] = field(default_factory=dict)


#: Table, key and columns; the first entry decides whose key and at least one of whose columns are in the report.
_REPORTS: Final[tuple[tuple[str, str | None, Places], ...]] = (
    ("process_samples", "PID", _PROCESS),
    ("process_samples", "TGID", _PROCESS),
    ("cpu_samples", "CPU", _CPU),
    ("vm_samples", "CPU", {"intr/s": _INTERRUPTS["intr/s"]}),
    ("vm_samples", "INTR", _INTERRUPTS),
    ("device_samples", "DEV", _DEVICE),
    ("net_samples", "IFACE", _NET),
    ("device_samples", None, _TRANSFERS),
    ("vm_samples", None, _MEMORY),
    ("vm_samples", None, _PAGING),
    ("vm_samples", None, _SWAPPING),
    ("vm_samples", None, _TASKS),
    ("vm_samples", None, _QUEUE),
    ("pressure_samples", None, {name: (name, 1.0) for name in PRESSURE}),
)
#: Columns that name items; a report with one of these as its key, but without an entry above, has no table.
_KEYS: Final = frozenset({"PID", "TGID", "CPU", "NODE", "INTR", "DEV", "IFACE", "TTY", "BUS", "DEVICE", "FILESYSTEM"})


@cache
def _report_of(names: tuple[str, ...]) -> Report | None:
    for table, key, places in _REPORTS:
        numbers = {index: places[name] for index, name in enumerate(names) if name in places and name != key}
        if table == "process_samples":
            numbers |= {index: places[name] for index, name in enumerate(names) if name in {"PID", "TGID"}}
        fits = key in names if key else not _KEYS.intersection(names)
        if fits and numbers and not (table == "process_samples" and set(numbers) <= {names.index(str(key))}):
            return Report(table, key, numbers)
    return None


def report_of(names: Sequence[str]) -> Report | None:
    """The place of a report, from the names of its columns in order; None if it has no table."""
    return _report_of(tuple(names))


def places_of(table: str, key: str | None) -> Places:
    """All columns of a table in reports with this key, and their factors."""
    return {
        name: place for one, named, places in _REPORTS if (one, named) == (table, key) for name, place in places.items()
    }
