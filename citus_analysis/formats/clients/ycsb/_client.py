"""Facts of one YCSB client: its launch options, and the totals of its summary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

import polars as pl

from citus_analysis.formats.clients._report_lines import MAX_COUNT
from citus_analysis.formats.clients.ycsb._summary_totals import OPERATIONS, summary_contradictions
from citus_analysis.operations import COMPOUND, FAILED, is_counted_once

_OPTION_WITH_VALUE: Final = frozenset({"-threads", "-target", "-db", "-P", "-p", "-l"})
#: Codes of operations that succeeded; clients print an empty code for a status without a name.
_PLAIN_RETURN: Final = ("Return=OK", "Return=BATCHED_OK", "Return=0", "Return=")
#: Limit of values that count operations, so that a malformed summary cannot fill the memory.
_MAX_VALUES: Final = 10_000
#: The rows of `client_metrics` from which a client's totals are computed.
TOTALS: Final = pl.col("value").is_between(0, MAX_COUNT) & (
    pl.col("metric").str.starts_with("Return=") | pl.col("metric").is_in(OPERATIONS) | (pl.col("section") == "OVERALL")
)


@dataclass
class Client:
    """Facts of a client, gathered block by block.

    Attributes:
        arguments: the text after `Command line:`, or after the class name in the launch line.
        measured: measurement types found in the output, strongest evidence first.
        values: (section, metric) -> value of the summary's metrics, the first of each.
        clock_start: when it began to count seconds, on its own clock.
    """

    tool_version: str | None = None
    arguments: str | None = None
    launched: str | None = None
    measured: list[str] = field(default_factory=list)
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    time_limit_s: float | None = None
    start_time: datetime | None = None
    clock_start: datetime | None = None
    end_time: datetime | None = None
    last_total: int | None = None
    failed_so_far: int = 0

    def add_banner(self, kind: str, text: str) -> None:
        """Read the launch options from a line of the client's banner or from its launch line."""
        if kind == "command" and self.arguments is None:
            self.arguments = text.removeprefix("Command line: ")
        elif kind == "launch" and self.launched is None:
            self.launched = re.split(r"\s(?:site|com\.yahoo)\.ycsb\.\w*Client\b\s*", text, maxsplit=1)[-1]
        elif kind == "version" and self.tool_version is None:
            self.tool_version = text.removeprefix("YCSB Client ")
        elif kind == "limit":
            self.time_limit_s = float(text.split()[-2])

    def add_totals(self, values: Iterable[tuple[str, str, float]]) -> None:
        """Keep values of :data:`TOTALS`, a few per operation."""
        for section, metric, value in islice(values, _MAX_VALUES - len(self.values)):
            self.values.setdefault((section, metric), value)

    def add_status(
        self, first_time: datetime | None, seconds: int, last_time: datetime | None, last_total: int
    ) -> None:
        """Keep what status lines tell (:data:`STATUS_FACTS`): the first and last time, and the operations done."""
        if self.clock_start is None and first_time is not None:
            self.start_time = first_time
            self.clock_start = first_time - timedelta(seconds=seconds)
        if last_time is not None:
            self.end_time = last_time
        self.last_total = last_total

    def add_series(self, failed: int, measured: int) -> None:
        """Keep what the rows of status lines tell (:data:`SERIES_FACTS`)."""
        self.failed_so_far += failed
        if measured:
            self.saw(["hdrhistogram"])

    def saw(self, measurement_types: Iterable[str]) -> None:
        """Record the measurement types found in the output."""
        self.measured += [kind for kind in measurement_types if kind not in self.measured]

    def facts(self) -> dict[str, object]:
        """The columns of the client's row of the table `clients`."""
        options, properties = _parsed_arguments(self.command_line or "")
        done, failed = self._totals(loading="-load" in options)
        target = _number(options.get("-target", properties.get("target"))) or None
        return {
            "tool": "ycsb",
            "tool_version": self.tool_version,
            "throughput_ops_s": self.values.get(("OVERALL", "Throughput")),
            "runtime_ms": self.values.get(("OVERALL", "RunTime")),
            "threads": _number(options.get("-threads", properties.get("threadcount")), digits=9),
            "connected_threads": self._connected_threads,
            "target_ops_s": target,
            "rate_limited": target is not None,
            "operations_planned": _planned(properties, loading="-load" in options),
            "time_limit_s": self.time_limit_s or _number(properties.get("maxexecutiontime")) or None,
            "operations_done": done,
            "failed_operations": failed,
            "notes": summary_contradictions(self.values, done, failed) if self._completed else None,
            "measurement_type": properties.get("measurementtype") or next(iter(self.measured), None),
            "start_time": self.start_time,
            "end_time": self.end_time,
            "completed": self._completed,
            "command_line": self.command_line,
        }

    @property
    def command_line(self) -> str | None:
        """Arguments of the client, from the line that it prints, or else from the launcher's line."""
        return self.arguments if self.arguments is not None else self.launched

    @property
    def label(self) -> str | None:
        """Text that the client prints before the time of each status line (`-l`)."""
        return _parsed_arguments(self.command_line or "")[0].get("-l")

    @property
    def _completed(self) -> bool:
        overall = {("OVERALL", "RunTime"), ("OVERALL", "Throughput")} <= self.values.keys()
        return overall and any(section != "OVERALL" for section, _ in self.values)

    @property
    def _connected_threads(self) -> float | None:
        """Threads that closed their connection at the end; threads that could not connect do not."""
        if not self._completed:
            return None
        return next((n for name in OPERATIONS if (n := self.values.get(("CLEANUP", name))) is not None), None)

    def _totals(self, *, loading: bool) -> tuple[int | None, int | None]:
        """Numbers of successful and failed operations; from the last status line if no summary was printed."""
        returns = {key: n for key, n in self.values.items() if key[1].startswith("Return=") and key[0] != "VERIFY"}
        if returns:
            succeeded = sum(n for (_, metric), n in returns.items() if metric in _PLAIN_RETURN)
            return self._without_compound(succeeded, sum(returns.values()) - succeeded)
        counts = {section: n for (section, metric), n in self.values.items() if metric in OPERATIONS}
        if counts and self._completed:
            return self._without_compound(*_split_failed(counts))
        if self.last_total is None:
            return None, None
        # A failed insert ends its thread before it is counted; a failed read or update is counted.
        return max(self.last_total - (0 if loading else self.failed_so_far), 0), self.failed_so_far

    def _without_compound(self, succeeded: float, failed: float) -> tuple[int, int]:
        twice = sum(
            n
            for (section, metric), n in self.values.items()
            if section.removesuffix(FAILED) == COMPOUND and metric in OPERATIONS
        )
        attempted = max(int(succeeded + failed - twice), 0)
        failures = min(int(failed), attempted)
        return attempted - failures, failures


def _split_failed(counts: dict[str, float]) -> tuple[float, float]:
    own = {section: n for section, n in counts.items() if not section.startswith(("Intended-", "TOTAL_GC"))}
    failed = sum(n for section, n in own.items() if section.endswith(FAILED))
    succeeded = sum(n for section, n in own.items() if is_counted_once(section))
    return succeeded, failed


def _parsed_arguments(command_line: str) -> tuple[dict[str, str], dict[str, str]]:
    """Options with their values (`-load` and `-t` have none) and the `-p` properties; the last value wins."""
    options: dict[str, str] = {}
    properties: dict[str, str] = {}
    words = iter(command_line.split())
    for word in words:
        value = next(words, "") if word in _OPTION_WITH_VALUE else ""
        if word == "-p":
            name, _, setting = value.partition("=")
            properties[name] = setting
        else:
            options[word] = value
    return options, properties


def _planned(properties: dict[str, str], *, loading: bool) -> int | None:
    if not loading:
        return _number(properties.get("operationcount"))
    return _number(properties.get("insertcount")) or _number(properties.get("recordcount"))


def _number(text: str | None, digits: int = 15) -> int | None:
    return int(text) if text is not None and re.fullmatch(rf"[0-9]{{1,{digits}}}", text) else None
