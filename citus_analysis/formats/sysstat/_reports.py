"""The table that a report of sysstat belongs to, by the names of its columns, and the meaning of each column.

The names are the same in the texts of sar, mpstat and pidstat and in the CSV of `sadf -d`, in all versions; a column
that is not listed is left out, so that versions with more columns need no change. JSON names are those without `/s`
and `%` (:mod:`._json._reports`).

Example:
    >>> report_of(("DEV", "tps", "rkB/s", "new/s")).numbers
    {1: ('transfers_per_s', 1.0), 2: ('read_kb_s', 1.0)}
    >>> report_of(("call/s", "retrans/s")) is None
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from citus_analysis.formats.samplers._columns import DEVICE, KB_PER_SECTOR, Places, places

_CPU: Final = places(
    "%usr=usr %user=user_percent %nice=nice_percent %sys=sys %system=system_percent %iowait=iowait_percent "
    "%steal=steal_percent %irq=irq_percent %soft=softirq_percent %guest=guest %gnice=guest_nice %idle=idle_percent"
)
_DEVICE: Final[Places] = {
    **DEVICE,
    "%util": DEVICE["util"],
    **places("rd_sec/s=read_kb_s wr_sec/s=write_kb_s dc_sec/s=discard_kb_s", KB_PER_SECTOR),
}
#: `sar -b`: all devices together.
_TRANSFERS: Final[Places] = {
    **places("tps=transfers_per_s rtps=reads_per_s wtps=writes_per_s dtps=discards_per_s"),
    **places("bread/s=read_kb_s bwrtn/s=write_kb_s bdscd/s=discard_kb_s", KB_PER_SECTOR),
}
_NET: Final[Places] = {
    **places(
        "rxpck/s=receive_packets_per_s txpck/s=transmit_packets_per_s rxkB/s=receive_kb_s txkB/s=transmit_kb_s "
        "rxerr/s=receive_errors_per_s txerr/s=transmit_errors_per_s rxdrop/s=receive_drops_per_s "
        "txdrop/s=transmit_drops_per_s %ifutil=utilization_percent"
    ),
    **places("rxbyt/s=receive_kb_s txbyt/s=transmit_kb_s", 1 / 1024),
}
#: Memory, paging, swapping, tasks and the queue: a report has columns of one of them.
_VM: Final = places(
    "kbmemfree=free_kb kbavail=available_kb kbmemused=used_kb kbbuffers=buffer_kb kbcached=cache_kb kbactive=active_kb "
    "kbinact=inactive_kb kbdirty=dirty_kb kbswpused=swapped_kb pgpgin/s=blocks_in_per_s pgpgout/s=blocks_out_per_s "
    "fault/s=faults_per_s majflt/s=major_faults_per_s pswpin/s=swap_in_pages_per_s pswpout/s=swap_out_pages_per_s "
    "proc/s=forks_per_s cswch/s=context_switches_per_s runq-sz=runnable plist-sz=tasks ldavg-1=load_1 ldavg-5=load_5 "
    "ldavg-15=load_15 blocked=blocked"
)
_PROCESS: Final = places(
    "PID=pid TGID=pid TID=thread %usr=user_percent %system=system_percent %guest=guest_percent %wait=wait_percent "
    "%CPU=cpu_percent CPU=cpu minflt/s=minor_faults_per_s majflt/s=major_faults_per_s VSZ=virtual_kb RSS=resident_kb "
    "%MEM=memory_percent kB_rd/s=read_kb_s kB_wr/s=write_kb_s kB_ccwr/s=cancelled_write_kb_s iodelay=io_delay_ticks "
    "cswch/s=voluntary_switches_per_s nvcswch/s=involuntary_switches_per_s"
)


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
        names: names of all columns as printed.
    """

    table: str
    key: str | None
    numbers: Mapping[int, tuple[str, float]]
    names: tuple[str, ...] = ()


#: Table, key and columns; the first entry decides whose key and at least one of whose columns are in the report.
_REPORTS: Final[tuple[tuple[str, str | None, Places], ...]] = (
    ("process_samples", "PID", _PROCESS),
    ("process_samples", "TGID", _PROCESS),
    ("cpu_samples", "CPU", _CPU),
    ("vm_samples", "CPU", places("intr/s=interrupts_per_s")),
    ("vm_samples", "INTR", places("intr/s=interrupts_per_s all=interrupts_per_s")),
    ("device_samples", "DEV", _DEVICE),
    ("net_samples", "IFACE", _NET),
    ("device_samples", None, _TRANSFERS),
    ("vm_samples", None, _VM),
    ("pressure_samples", None, {name: (name, 1.0) for name in PRESSURE}),
)
#: Columns that name items; a report with one of these as its key, but without an entry above, has no table.
_KEYS: Final = frozenset({"PID", "TGID", "CPU", "NODE", "INTR", "DEV", "IFACE", "TTY", "BUS", "DEVICE", "FILESYSTEM"})


@cache
def report_of(names: tuple[str, ...]) -> Report | None:
    """The place of a report, from the names of its columns in order; None if it has no table."""
    for table, key, columns in _REPORTS:
        numbers = {index: columns[name] for index, name in enumerate(names) if name in columns and name != key}
        if numbers and (key in names if key else not _KEYS.intersection(names)):
            if table == "process_samples":
                numbers |= {index: columns[name] for index, name in enumerate(names) if name in {"PID", "TGID"}}
            return Report(table, key, numbers, names)
    return None


def places_of(table: str, key: str | None) -> Places:
    """The columns of a table in reports with this key, and their factors."""
    columns = (columns for one, named, columns in _REPORTS if (one, named) == (table, key))
    return next(columns)
