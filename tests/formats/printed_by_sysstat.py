"""What sysstat prints at the end of its texts: averages, read line by line and held against the mean of the rows.

sysstat weighs samples by the hundredths of a second of each CPU between them, which it does not print: of intervals of
one second, each may weigh 6 % more or less. A weighted mean is then off by at most 6 % of the mean distance between
values and their mean, besides the rounding of the values and of the mean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tests.formats.printed import Printed, Rows, decimal, half_a_unit

_AVERAGE: Final = re.compile(r"^[^\s0-9:]+\s?:\s")
_UNEVEN: Final = 0.06
#: Name of the column of items ("" where a report has none) -> column as printed -> column of the table.
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "CPU": {
        "%idle": "idle_percent",
        "%steal": "steal_percent",
        "%iowait": "iowait_percent",
        "%soft": "softirq_percent",
    },
    "DEV": {"tps": "transfers_per_s", "rkB/s": "read_kb_s", "wkB/s": "write_kb_s"},
    "IFACE": {
        "rxpck/s": "receive_packets_per_s",
        "txpck/s": "transmit_packets_per_s",
        "rxkB/s": "receive_kb_s",
        "txkB/s": "transmit_kb_s",
        "rxerr/s": "receive_errors_per_s",
    },
    "PID": {
        "%usr": "user_percent",
        "%system": "system_percent",
        "%CPU": "cpu_percent",
        "RSS": "resident_kb",
        "minflt/s": "minor_faults_per_s",
        "kB_rd/s": "read_kb_s",
        "kB_wr/s": "write_kb_s",
        "%MEM": "memory_percent",
        "cswch/s": "voluntary_switches_per_s",
        "nvcswch/s": "involuntary_switches_per_s",
    },
    "TGID": {"%CPU": "cpu_percent", "%wait": "wait_percent"},
    "": {
        "kbmemfree": "free_kb",
        "kbavail": "available_kb",
        "kbdirty": "dirty_kb",
        "plist-sz": "tasks",
        "pgpgin/s": "blocks_in_per_s",
        "pgpgout/s": "blocks_out_per_s",
        "fault/s": "faults_per_s",
        "proc/s": "forks_per_s",
        "cswch/s": "context_switches_per_s",
        "ldavg-1": "load_1",
        "ldavg-15": "load_15",
        "pswpin/s": "swap_in_pages_per_s",
        "pswpout/s": "swap_out_pages_per_s",
        "runq-sz": "runnable",
    },
}
_KEYS: Final = {"DEV": ("device_samples", "device"), "IFACE": ("net_samples", "interface")}


@dataclass(frozen=True)
class _Average:
    """The averages of an item, of its samples from one number on."""

    key: str
    item: str
    values: Mapping[str, str]
    first: int
    samples: int


def _averages(text: str) -> Iterator[_Average]:
    names: list[str] = []
    lines: Counter[tuple[str, ...]] = Counter()
    averaged: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        average = _AVERAGE.match(line)
        words = (_AVERAGE.sub("", line) if average else re.sub(r"^\S+(?: [AP]M)?", "", line)).split()
        if words and not re.search(r"\s-?[0-9]+(?:[.,][0-9]+)?(?:\s|$)", line):
            names = words
        elif words and len(words) >= len(names):
            row = dict(zip(names, words, strict=False))
            key = next((name for name in ("TGID", "PID", "CPU", "DEV", "IFACE") if name in row), "")
            item = (*names, row.get(key, ""))
            if row.get(key) == "-":
                continue  # a thread of the process above
            if average and lines[item]:
                yield _Average(key, item[-1], row, averaged[item], lines[item] - averaged[item])
                averaged[item] = lines[item]
            else:
                lines[item] += 1


def _rows(average: _Average, rows: Rows) -> pl.DataFrame:
    if average.key == "CPU":
        alone = average.item not in ("all", "-1")
        return rows["core_samples"].filter(cpu=int(average.item)) if alone else rows["cpu_samples"]
    if average.key in _KEYS:
        table, column = _KEYS[average.key]
        return rows[table].filter(pl.col(column) == average.item)
    processes = average.key in ("PID", "TGID")
    return rows["process_samples"].filter(pid=int(average.item)) if processes else rows["vm_samples"]


def averages(format_name: str, text: str, rows: Rows) -> Iterator[Printed]:
    """The averages that sar, mpstat or pidstat printed, beside the mean of the rows that they are of."""
    if format_name not in ("sar", "mpstat", "pidstat"):
        return
    for average in _averages(text):
        own = _rows(average, rows)
        for name, column in _COLUMNS[average.key].items():
            if name in average.values:
                told = own[column].drop_nulls()[average.first :][: average.samples].to_numpy()
                mean = float(told.mean()) if len(told) else float("nan")
                printed = average.values[name]
                uneven = _UNEVEN * float(np.abs(told - mean).sum()) / max(len(told), 1)
                yield Printed(f"{average.item} {name}", decimal(printed), mean, 2 * half_a_unit(printed) + uneven)
