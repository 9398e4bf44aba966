"""Text of `mpstat` (sysstat 10 to 12), in any locale.

Tables: `cpu_samples` (all CPUs together), `core_samples` (`-P`, `-T`), `vm_samples` (the sum of `-I SUM`). Shares of
NUMA nodes and single interrupts have no table; the averages at the end are not samples. Times follow the rules of
:mod:`citus_analysis.formats.sar`.

`since_boot`: without an interval, mpstat prints one report that averages since boot; its header has the report's own
time, whereas the header of an interval has the time at which the interval began. The option `first_report` overrides
this.
"""

from __future__ import annotations

from typing import ClassVar, Final

from citus_analysis.formats.parsing.sysstat import SysstatText, find_report_headers


class Mpstat(SysstatText):
    """Text of `mpstat` (sysstat)."""

    name: ClassVar[str] = "mpstat"
    version: ClassVar[int] = 3
    tables = ("cpu_samples", "core_samples", "vm_samples")

    def detect(self, name: str, head: bytes) -> float:
        """By its headers: `%irq` before `%steal`, which sar prints first, or interrupts of CPUs."""
        if b" CPU " not in head and b" NODE " not in head:
            return 0.0
        headers = find_report_headers(head)
        return 0.95 if headers and all(_own(names) for names in headers) else 0.0


def _own(names: list[str]) -> bool:
    if names[0] not in {"CPU", "NODE"}:
        return False
    if "%usr" in names and "%irq" in names:
        return names.index("%irq") < (names.index("%steal") if "%steal" in names else len(names))
    # Interrupts by name or number; in sar, the packets of each CPU have total/s first.
    return all(name.endswith("/s") for name in names[1:]) and names[1:2] != ["total/s"]


FORMAT: Final = Mpstat()
