"""Columns of dstat and dool: group and name -> table, item and column.

Sizes are bytes, rates are per second. The total of network interfaces is left out if single interfaces are printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from citus_analysis.formats.samplers._columns import Places, places

_KB: Final = 1 / 1024


@dataclass(frozen=True)
class Place:
    """Where a printed column belongs: `item` is a device, interface or CPU; empty for tables without items."""

    table: str
    item: str
    column: str
    factor: float = 1.0


_CPU: Final[Places] = places(
    "usr=user_percent sys=sys idl=idle_percent wai=iowait_percent stl=steal_percent hiq=irq_percent siq=softirq_percent"
)
#: Groups of vm_samples -> their columns.
_VM: Final[Mapping[str, Places]] = {
    "memory usage": places("used=used_kb free=free_kb buff=buffer_kb cach=cache_kb avai=available_kb", _KB),
    "swap": places("used=swapped_kb", _KB),
    "paging": places("in=swap_in_kb_s out=swap_out_kb_s", _KB),
    "system": places("int=interrupts_per_s csw=context_switches_per_s"),
    "procs": places("run=runnable blk=blocked new=forks_per_s"),
    "load avg": places("1m=load_1 5m=load_5 15m=load_15"),
    "virtual memory": places("majpf=major_faults_per_s minpf=faults_per_s"),
}
#: Beginning of a group's name -> table and columns of its items.
_ITEMS: Final[Mapping[str, tuple[str, Places]]] = {
    "dsk": ("device_samples", places("read=read_kb_s writ=write_kb_s", _KB)),
    "io": ("device_samples", places("read=reads_per_s writ=writes_per_s")),
    "net": ("net_samples", places("recv=receive_kb_s send=transmit_kb_s", _KB)),
}
_CPU_GROUP: Final = re.compile(r"(?:total cpu|cpu([0-9]{1,9})) usage")


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
    interfaces = {place.item for place in found.values() if place.table == "net_samples"}
    left_out = ("net_samples", "total") if interfaces - {"total"} else None
    return {index: place for index, place in found.items() if (place.table, place.item) != left_out}


def _place(group: str, name: str) -> Place | None:
    cpu = _CPU_GROUP.fullmatch(group)
    kind, _, item = group.partition("/")
    if cpu:
        table, item, columns = "core_samples" if cpu[1] else "cpu_samples", cpu[1] or "", _CPU
    elif item:
        table, columns = _ITEMS.get(kind, ("", {}))
    else:
        table, columns = "vm_samples", _VM.get(group, {})
    return Place(table, item, *columns[name]) if name in columns else None
