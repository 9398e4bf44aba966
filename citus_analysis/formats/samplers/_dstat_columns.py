"""Columns of dstat and dool: group and name -> table, item and column.

Sizes are bytes, rates are per second. The total of network interfaces is left out if single interfaces are printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_KB: Final = 1 / 1024


@dataclass(frozen=True)
class Place:
    """Where a printed column belongs: `item` is a device, interface or CPU; empty for tables without items."""

    table: str
    item: str
    column: str
    factor: float = 1.0


_CPU: Final = {
    "usr": "user_percent",
    "sys": "sys",
    "idl": "idle_percent",
    "wai": "iowait_percent",
    "stl": "steal_percent",
    "hiq": "irq_percent",
    "siq": "softirq_percent",
}
#: Groups of vm_samples -> their columns.
_VM: Final[Mapping[str, Mapping[str, tuple[str, float]]]] = {
    "memory usage": {
        "used": ("used_kb", _KB),
        "free": ("free_kb", _KB),
        "buff": ("buffer_kb", _KB),
        "cach": ("cache_kb", _KB),
        "avai": ("available_kb", _KB),
    },
    "swap": {"used": ("swapped_kb", _KB)},
    "paging": {"in": ("swap_in_kb_s", _KB), "out": ("swap_out_kb_s", _KB)},
    "system": {"int": ("interrupts_per_s", 1.0), "csw": ("context_switches_per_s", 1.0)},
    "procs": {"run": ("runnable", 1.0), "blk": ("blocked", 1.0), "new": ("forks_per_s", 1.0)},
    "load avg": {"1m": ("load_1", 1.0), "5m": ("load_5", 1.0), "15m": ("load_15", 1.0)},
    "virtual memory": {"majpf": ("major_faults_per_s", 1.0), "minpf": ("faults_per_s", 1.0)},
}
#: Beginning of a group's name -> table and columns of its items.
_ITEMS: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, float]]]]] = {
    "dsk": ("device_samples", {"read": ("read_kb_s", _KB), "writ": ("write_kb_s", _KB)}),
    "io": ("device_samples", {"read": ("reads_per_s", 1.0), "writ": ("writes_per_s", 1.0)}),
    "net": ("net_samples", {"recv": ("receive_kb_s", _KB), "send": ("transmit_kb_s", _KB)}),
}
_ONE_CPU: Final = re.compile(r"cpu([0-9]{1,9}) usage")


def places_of(groups: Sequence[str], names: Sequence[str]) -> dict[int, Place]:
    """The place of each column that has one.

    Example:
        >>> places_of(["dsk/vda", ""], ["dsk/vda:read", "dsk/vda:writ"])[1]
        Place(table='device_samples', item='vda', column='write_kb_s', factor=0.0009765625)
    """
    group, found = "", {}
    for index, name in enumerate(names):
        group = (groups[index] if index < len(groups) else "") or group
        place = _place(group, name.rpartition(":")[2])
        if place is not None:
            found[index] = place
    single = any(place.table == "net_samples" and place.item != "total" for place in found.values())
    return {
        index: place
        for index, place in found.items()
        if not (single and place.table == "net_samples" and place.item == "total")
    }


def _place(group: str, name: str) -> Place | None:
    if group == "total cpu usage" and name in _CPU:
        return Place("cpu_samples", "all", _CPU[name])
    one = _ONE_CPU.fullmatch(group)
    if one and name in _CPU:
        return Place("cpu_samples", one[1], _CPU[name])
    if name in _VM.get(group, {}):
        return Place("vm_samples", "", *_VM[group][name])
    kind, _, item = group.partition("/")
    if kind in _ITEMS and item and name in _ITEMS[kind][1]:
        table, columns = _ITEMS[kind]
        return Place(table, item, *columns[name])
    return None
