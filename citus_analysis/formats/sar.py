"""Text of `sar` (sysstat 9 to 12), live or from a file of sadc, in any locale.

Tables: `cpu_samples` (`-u`, also `ALL`), `core_samples` (`-P`), `device_samples` (`-d`; `-b` as the group `all`),
`vm_samples` (`-r`, `-S`, `-W`, `-B`, `-w`, `-q`, and the sum of `-I`), `net_samples` (`-n DEV,EDEV`),
`pressure_samples` (`-q PSI`). A line of the text is a row: memory and paging of one moment are two rows of
`vm_samples`, each with the columns of its report and the same `sample` and `sample_time`. The averages at the end are
not samples.

Times are in the zone of the machine that printed them (option `timezone`); the date is the banner's, and a new day
begins when the clock passes midnight. After `LINUX RESTART` a new part begins. 12-hour and 24-hour
clocks, decimal commas and the dates of locales that print numbers are read; the order of day and month follows
:mod:`citus_analysis.formats.parsing.times`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from citus_analysis.formats.parsing.format import DATE_ORDER, TIMEZONE, LineBegin
from citus_analysis.formats.parsing.sysstat import SysstatText, find_report_headers

#: First columns of reports that only sar prints.
_OWN: Final = frozenset(
    {
        *("DEV", "IFACE", "proc/s", "pswpin/s", "pgpgin/s", "tps", "kbmemfree", "kbswpfree", "runq-sz", "INTR", "TTY"),
        *("%scpu-10", "%sio-10", "%smem-10", "kbhugfree", "dentunusd", "totsck", "call/s", "scall/s", "frmpg/s"),
        *("active/s", "atmptf/s", "irec/s", "idgm/s", "imsg/s", "MBfsfree"),
    }
)

#: A time of day in any locale, followed by names: matches every header of sar, and few lines of other files.
_TIMED: Final = LineBegin(
    rb"(?:[\x80-\xff]{1,12} ?)?[0-9]{1,2}[^0-9\r\n]{1,4}[0-9]{2}[^0-9\r\n]{1,4}[0-9]{2}[^\r\n]*[A-Za-z%]"
)


class Sar(SysstatText):
    """Text of `sar` (sysstat)."""

    name: ClassVar[str] = "sar"
    version: ClassVar[int] = 3
    tables = ("cpu_samples", "core_samples", "device_samples", "vm_samples", "net_samples", "pressure_samples")
    options = (TIMEZONE, DATE_ORDER)

    def detect(self, name: str, head: bytes) -> float:
        """By its headers; the columns of the CPU report are in another order than mpstat's."""
        if not _TIMED.is_in(head):
            return 0.0
        for names in find_report_headers(head):
            if names[0] in _OWN:
                return 0.95
            if names[0] == "CPU":
                # mpstat prints %steal after %soft.
                return 0.95 if names[:2] in (["CPU", "%user"], ["CPU", "%usr"]) and _has_steal_first(names) else 0.0
            if names[0] in {"UID", "USER", "PID", "TGID"}:
                return 0.0
        return 0.9 if b"LINUX RESTART" in head and find_report_headers(head) else 0.0


def _has_steal_first(names: list[str]) -> bool:
    return "%irq" not in names or ("%steal" in names and names.index("%steal") < names.index("%irq"))


FORMAT: Final = Sar()
