"""Output of the YCSB load generator (standard output and standard error together, or one of them).

Tables: `clients` (one row), `client_metrics` (the final summary), `client_series` (status lines, time series),
`client_histogram` (verbose histograms), `client_latencies` (measurementtype=raw), `client_errors`.

The format covers the text exporter and both JSON exporters, of versions 0.1 to 0.18 and of forks that keep
their line forms, for example::

    Command line: -load -db site.ycsb.db.JdbcDBClient -s -threads 8 -p recordcount=20000 -p db.passwd=***
    2026-11-20 21:32:36:884 2 sec: 100 operations; 37.02 current ops/sec; [READ: Count=100, Max=13287, ...]
    [OVERALL], Throughput(ops/sec), 5217.845030002609
    [INSERT], Return=OK, 20000

Conversion of the lines:

- a status line on both standard output and standard error counts once;
- messages of two threads without a line end between them are split;
- exceptions and error messages are counted by class; their stack traces and details belong to them;
- a last line of the right form is accepted without a line end, although its last number may have been cut.

Text that the client did not print itself is rejected, except :attr:`Ycsb.noise`; so is the output of a second client
after the first, because the numbers of both would be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import TIMEZONE
from citus_analysis.formats.clients._report_lines import MEASURES
from citus_analysis.formats.clients.ycsb._parser import Parser
from citus_analysis.formats.reading.signs import Signs
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import timezone_of

__all__ = ["FORMAT", "Ycsb"]

_SIGNS: Final = Signs(
    re.compile(
        rb"^YCSB Client \d"
        rb"|^\[OVERALL\], ?(?:RunTime|Throughput)\("
        rb"|^\[[A-Za-z_-]+\], (?:Operations|AverageLatency\(us\)|Return=\w+), "
        rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3} -?\d+ sec: \d+ operations; "
        rb"|^ ?\d+ sec: \d+ operations; \d[\d.,]* current ops/sec"
        rb"|^[A-Z-]+ latency raw data: op, timestamp\(ms\), latency\(us\)"
        rb'|"metric"\s*:\s*"OVERALL",\s*"measurement"\s*:'
        rb"|^Command line: .*-db (?:site|com\.yahoo)\.ycsb\."
        rb"|^[\w/.~-]*java\s[^\n]*\s(?:site|com\.yahoo)\.ycsb\.\w*Client\s",
        re.MULTILINE,
    ),
    (
        *(b"YCSB Client ", b"[OVERALL],", b"], Operations, ", b"], AverageLatency(us), ", b"], Return="),
        *(b" operations; ", b" latency raw data: op, timestamp(ms), latency(us)", b'"metric"', b".ycsb."),
    ),
)
#: The launcher's line before the client's own; it may also come late, on standard error.
_LAUNCHED: Final = (
    rb"[^\n]*(?:site|com\.yahoo)\.ycsb\.\w*Client\s[^\n]*\n(?:[^\n]*\n){0,5}?"
    rb"(?:Command line: |YCSB Client |Loading workload|Starting test\.)"
)
#: Printed instead of a run when the arguments are wrong.
_USAGE: Final = Signs(re.compile(rb"^Usage: java \S*ycsb\.\w*Client \[options\]", re.MULTILINE), (b"Usage: java ",))


class Ycsb(Format):
    """Output of YCSB clients, versions 0.1 to 0.18."""

    name: ClassVar[str] = "ycsb"
    version: ClassVar[int] = 6
    tables = ("clients", "client_metrics", "client_series", "client_histogram", "client_latencies", "client_errors")
    noise = (
        "blank lines, `Loading workload...`, `Starting test.`, `Adding shard node URL`, `Using shards`, "
        "`DBWrapper: report latency ...`, announcements of stops, headings of raw data, and messages of the bindings' "
        "loggers below warning level"
    )
    options = (TIMEZONE,)
    measures: ClassVar[Mapping[str, str]] = MEASURES
    openings = (
        Opening(b"/", rb"\S*java\s" + _LAUNCHED),
        Opening(b"java ", _LAUNCHED),
        Opening(b"Command line: ", rb"[^\n]*-db (?:site|com\.yahoo)\.ycsb\."),
        Opening(b"YCSB Client ", rb"[0-9]"),
        Opening(b"Loading workload...", rb"\r?$"),
        Opening(b"Starting test.", rb"\r?$", stage=1),
        Opening(b"[OVERALL], RunTime(ms), ", stage=2, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has a line that only YCSB prints."""
        return 0.95 if _SIGNS.within(head) and not _USAGE.within(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client, a piece per block; the client itself and its errors come last."""
        return Parser(timezone=timezone_of(hints.options)).pieces(content)


FORMAT: Final = Ycsb()
