"""Text of `mpstat` (sysstat 10 to 12), in any locale.

Tables: `cpu_samples` (all CPUs together), `core_samples` (`-P`, `-T`), `vm_samples` (the sum of `-I SUM`). Shares of
NUMA nodes and single interrupts have no table; the averages at the end are not samples. Times follow the rules of
:mod:`citus_analysis.formats.sysstat.sar`.

`since_boot`: without an interval, mpstat prints one report that averages since boot; its header has the report's own
time, whereas the header of an interval has the time at which the interval began. The option `first_report` overrides
this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import DATE_ORDER, FIRST_REPORT, TIMEZONE, Option
from citus_analysis.formats.reading.sampler_lines import SYSSTAT_BANNER
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.sysstat._text import NOISE, parse_text, reports_in


class Mpstat(Format):
    """Text of `mpstat` (sysstat)."""

    name: ClassVar[str] = "mpstat"
    version: ClassVar[int] = 3
    tables: ClassVar[tuple[str, ...]] = ("cpu_samples", "core_samples", "vm_samples")
    noise: ClassVar[str] = NOISE
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    openings: ClassVar[tuple[Opening, ...]] = (SYSSTAT_BANNER,)

    def detect(self, name: str, head: bytes) -> float:
        """By its headers: `%irq` before `%steal`, which sar prints first, or interrupts of CPUs."""
        if b" CPU " not in head and b" NODE " not in head:
            return 0.0
        headers = reports_in(head)
        return 0.95 if headers and all(_own(names) for names in headers) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the text."""
        yield from parse_text(content, hints, "mpstat", self.tables)


def _own(names: list[str]) -> bool:
    if names[0] not in {"CPU", "NODE"}:
        return False
    if "%usr" in names and "%irq" in names:
        return names.index("%irq") < (names.index("%steal") if "%steal" in names else len(names))
    # Interrupts by name or number; in sar, the packets of each CPU have total/s first.
    return all(name.endswith("/s") for name in names[1:]) and names[1:2] != ["total/s"]


FORMAT: Final = Mpstat()
