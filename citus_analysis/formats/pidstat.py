"""Text of `pidstat` (sysstat 10 to 12), in blocks or in one line for each process (`-h`), in any locale.

Table: `process_samples`. In blocks, the reports of a process (`-u`, `-r`, `-d`, `-w`) are rows of their own with the
same `sample`; with `-h` they are one row. Threads (`-t`) have `thread`. Stacks (`-s`), priorities (`-R`) and kernel
tables (`-v`) have no columns. Averages are not samples. Times follow the rules of
:mod:`citus_analysis.formats.sar`; seconds since 1970 (`-H`, and `-h` of older versions) are UTC.

`since_boot`: without an interval, pidstat prints one report that averages since each process began; its header has the
report's own time. With `-h`, headers have no time, and a file with only one header counts as such a report. The option
`first_report` overrides both rules.

Command lines (`-l`) are redacted like all texts.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from citus_analysis.formats.parsing.sysstat import SysstatText, find_report_headers

_FIRST: Final = frozenset({"UID", "USER", "PID", "TGID"})
#: A line that ends with the name of the last column; other files that contain the word are not split into lines.
_MAY_BE_HEADER: Final = re.compile(rb"Command[ \t\r]*$", re.MULTILINE)


class Pidstat(SysstatText):
    """Text of `pidstat` (sysstat)."""

    name: ClassVar[str] = "pidstat"
    version: ClassVar[int] = 3
    tables = ("process_samples",)
    dropped = "stacks, priorities, and numbers of threads and of open files"

    def detect(self, name: str, head: bytes) -> float:
        """By its headers, which begin with the user and end with the command."""
        if not _MAY_BE_HEADER.search(head):
            return 0.0
        headers = find_report_headers(head)
        own = headers and all(names[0] in _FIRST and names[-1] == "Command" for names in headers)
        return 0.95 if own else 0.0


FORMAT: Final = Pidstat()
