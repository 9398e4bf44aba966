"""Options of formats: facts missing from a file, which users state with `--meta` or in files next to it.

A format lists the options that it reads in :attr:`Format.options`; the command line, the label files and the
documentation take them from there. Options that several formats share are defined here once. The module imports neither
polars nor a format, so that `--help` stays fast.

Example:
    >>> FIRST_REPORT.value({"first_report": "interval"}), FIRST_REPORT.value({})
    ('interval', None)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from citus_analysis.errors import UnknownNameError


@dataclass(frozen=True)
class Option:
    """An option that a format reads.

    Attributes:
        name: its name in `--meta`; options of the same name have the same meaning in all formats.
        meaning: the fact that it states, and the behaviour without it.
        choices: each possible value with its meaning; empty if the values cannot be listed.
        selects: whether the option names the part of a file that is read; copies of the file with different values are
            then different sources.
    """

    name: str
    meaning: str
    choices: tuple[tuple[str, str], ...] = ()
    selects: bool = False

    def value(self, options: Mapping[str, str]) -> str | None:
        """The value that was given; None if none was.

        Raises:
            UnknownNameError: the value is not one of the choices.
        """
        stated = options.get(self.name)
        if stated is not None:
            self.check(stated)
        return stated

    def check(self, stated: str) -> None:
        """Check that a value is one of the choices, if the option has any.

        Raises:
            UnknownNameError: the value is not one of the choices.
        """
        known = [value for value, _ in self.choices]
        if known and stated not in known:
            raise UnknownNameError(self.name, stated, known)


TIMEZONE: Final = Option(
    "timezone",
    "IANA name of the zone of times that are printed without one, or with an abbreviation that several zones use; "
    "without it, times without a zone are UTC and ambiguous abbreviations are refused",
)
LOG_LINE_PREFIX: Final = Option(
    "log_line_prefix", "the server's setting, as in `postgresql.conf`; without it, it is inferred from the log"
)
DATE_ORDER: Final = Option(
    "date_order",
    "order of day, month and year in dates; without it, the file's dates and numbers decide",
    (("mdy", "month first"), ("dmy", "day first"), ("ymd", "year first")),
)
FIRST_REPORT: Final = Option(
    "first_report",
    "period that the first report of a sampler averages; without it, the time since boot unless the file shows that "
    "`-y` left that report out",
    (("since_boot", "the time since boot"), ("interval", "an interval, as in all other reports")),
)
VMSTAT_UNIT: Final = Option(
    "vmstat_unit",
    "unit of the memory columns; `vmstat -S` changes it without a trace in the output; without it, `K`",
    (("k", "1000 bytes"), ("K", "1024 bytes"), ("m", "1000000 bytes"), ("M", "1048576 bytes")),
)
HDR_UNIT: Final = Option(
    "hdr_unit",
    "unit of the values of an HdrHistogram log, which does not name it; without it, us",
    (("ns", "nanoseconds"), ("us", "microseconds"), ("ms", "milliseconds")),
)
HDR_CORRECTION: Final = Option(
    "hdr_correction",
    "whether an HdrHistogram log is corrected for coordinated omission; without it, the name of its section decides",
    (("raw", "as measured"), ("corrected", "measured from the scheduled start, or corrected afterwards")),
)
HAMMERDB_JOB: Final = Option(
    "hammerdb_job",
    "id of the job to read from `hammer.DB`, HammerDB's database; without it, the only job that ran a test is read",
    selects=True,
)

#: Options of the formats of this package, in the order of the help; other packages add their own.
BUILT_IN_OPTIONS: Final = (
    *(LOG_LINE_PREFIX, TIMEZONE, DATE_ORDER, FIRST_REPORT, VMSTAT_UNIT),
    *(HDR_UNIT, HDR_CORRECTION, HAMMERDB_JOB),
)
