"""Facts of one YCSB client: its launch options, and the totals of its summary."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from citus_analysis.formats.clients._report_lines import MAX_COUNT, whole_of
from citus_analysis.formats.clients.ycsb._summary_totals import OPERATIONS, summary_contradictions
from citus_analysis.operations import COMPOUND, FAILED, is_counted_once

_OPTION_WITH_VALUE: Final = frozenset({"-threads", "-target", "-db", "-P", "-p", "-l"})
#: Codes of operations that succeeded; clients print an empty code for a status without a name.
_PLAIN_RETURN: Final = ("Return=OK", "Return=BATCHED_OK", "Return=0", "Return=")
#: Limit of values that count operations, so that a malformed summary cannot fill the memory.
_MAX_VALUES: Final = 10_000
#: The rows of `client_metrics` from which a client's totals are computed.
_TOTALS: Final = pl.col("value").is_between(0, MAX_COUNT) & (
    pl.col("metric").str.starts_with("Return=") | pl.col("metric").is_in(OPERATIONS) | (pl.col("section") == "OVERALL")
)
#: Sections of failures of operations; these are no operations of the workload.
_FAILURES: Final = re.compile(rf"(?!Intended-|TOTAL_GC).*{FAILED}")
_MOST_THREADS: Final = 10**9 - 1
_LAUNCHER: Final = re.compile(r"\s(?:site|com\.yahoo)\.ycsb\.\w*Client\b\s*")


@dataclass
class Client:
    """Facts of a client, gathered block by block.

    Attributes:
        banner: kind of a line of the client's banner, or of its launch line, -> the line.
        measured: the measurement type that the output shows, by its first evidence.
        values: (section, metric) -> value of the summary's metrics, the first of each.
        clock_start: when it began to count seconds, on its own clock.
    """

    banner: dict[str, str] = field(default_factory=dict)
    measured: str | None = None
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    start_time: datetime | None = None
    clock_start: datetime | None = None
    end_time: datetime | None = None
    last_total: int | None = None
    failed_so_far: int = 0

    def add_banner(self, kind: str, text: str) -> None:
        """Keep a line with launch options: the first of its kind, of time limits the last."""
        if kind == "limit" or kind not in self.banner:
            self.banner[kind] = text

    def add_metrics(self, metrics: pl.DataFrame) -> None:
        """Keep the values from which totals are computed, a few per operation."""
        kept = metrics.filter(_TOTALS).head(_MAX_VALUES - len(self.values))
        for section, metric, value in kept.select("section", "metric", "value").iter_rows():
            self.values.setdefault((section, metric), value)
        if (metrics["metric"] == "LatencyVariance").any():
            self.saw("histogram")

    def add_status(self, status: pl.DataFrame) -> None:
        """Keep what status lines tell: the first and last time, and the operations done."""
        first_time, seconds = status.select("log_time", "seconds").row(0)
        if self.clock_start is None and first_time is not None:
            self.start_time = first_time
            self.clock_start = first_time - timedelta(seconds=seconds)
        for time in status["log_time"].drop_nulls().tail(1):
            self.end_time = time
        self.last_total = status["operations_total"][-1]

    def add_series(self, series: pl.DataFrame) -> None:
        """Keep what the rows of status lines tell: operations that failed, and how latencies are measured."""
        self.failed_so_far += int(series.filter(pl.col("section").str.ends_with(FAILED))["operations"].sum())
        if series["max_us"].count():
            self.saw("hdrhistogram")

    def saw(self, measurement_type: str | None) -> None:
        """Record a measurement type found in the output."""
        self.measured = self.measured or measurement_type

    def facts(self) -> dict[str, object]:
        """The columns of the client's row of the table `clients`."""
        options, properties = _parsed_arguments(self.command_line or "")
        done, failed = self._totals(loading="-load" in options)
        target = whole_of(options.get("-target", properties.get("target")), MAX_COUNT) or None
        planned = ("insertcount", "recordcount") if "-load" in options else ("operationcount",)
        counts = [whole_of(properties.get(name), MAX_COUNT) for name in planned]
        limit_s = float(self.banner["limit"].split()[-2]) if "limit" in self.banner else None
        return {
            "tool": "ycsb",
            "tool_version": self.banner["version"].removeprefix("YCSB Client ") if "version" in self.banner else None,
            "throughput_ops_s": self.values.get(("OVERALL", "Throughput")),
            "runtime_ms": self.values.get(("OVERALL", "RunTime")),
            "threads": whole_of(options.get("-threads", properties.get("threadcount")), _MOST_THREADS),
            "connected_threads": self._connected_threads,
            "target_ops_s": target,
            "rate_limited": target is not None,
            "operations_planned": counts[0] or counts[-1],
            "time_limit_s": limit_s or whole_of(properties.get("maxexecutiontime"), MAX_COUNT) or None,
            "operations_done": done,
            "failed_operations": failed,
            "notes": summary_contradictions(self.values, done, failed) if self._completed else None,
            "measurement_type": properties.get("measurementtype") or self.measured,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "completed": self._completed,
            "command_line": self.command_line,
        }

    @property
    def command_line(self) -> str | None:
        """Arguments of the client, from the line that it prints, or else from the launcher's line."""
        printed, launched = self.banner.get("command"), self.banner.get("launch")
        if printed is None:
            return None if launched is None else _LAUNCHER.split(launched, maxsplit=1)[-1]
        return printed.removeprefix("Command line: ")

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
        counts = {section: n for (section, metric), n in self.values.items() if metric in OPERATIONS}
        if returns:
            succeeded = sum(n for (_, metric), n in returns.items() if metric in _PLAIN_RETURN)
            failed = sum(returns.values()) - succeeded
        elif counts and self._completed:
            succeeded = sum(n for section, n in counts.items() if is_counted_once(section))
            failed = sum(n for section, n in counts.items() if _FAILURES.fullmatch(section))
        elif self.last_total is None:
            return None, None
        else:
            # A failed insert ends its thread before it is counted; a failed read or update is counted.
            return max(self.last_total - (0 if loading else self.failed_so_far), 0), self.failed_so_far
        twice = sum(n for section, n in counts.items() if section.removesuffix(FAILED) == COMPOUND)
        attempted = max(int(succeeded + failed - twice), 0)
        failures = min(int(failed), attempted)
        return attempted - failures, failures


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
