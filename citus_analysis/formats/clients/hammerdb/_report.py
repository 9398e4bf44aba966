"""The facts about a HammerDB run: from the lines of its output, and from its job's tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from citus_analysis.core.column_types import TIME
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.api.metric_rows import metric_frame
from citus_analysis.formats.clients._report_lines import MAX_CLIENTS, NUMBER, Report, accounted, count_of
from citus_analysis.formats.clients.hammerdb._lines import (
    FAILED_USER,
    KINDS,
    RESULTS,
    STRANGE,
    UNKNOWN_RESULT,
)
from citus_analysis.formats.clients.hammerdb._timings import Row, Timings, named
from citus_analysis.formats.reading.lines import line_frame
from citus_analysis.formats.sources.content import Block
from citus_analysis.formats.times.snapshot_times import time_expr
from citus_analysis.operations import OVERALL

_MS_PER_MIN: Final = 60_000
_S_PER_MIN: Final = 60
_MS_PER_S: Final = 1_000
#: A name begins where no letter or digit precedes it: a search from each of thousands of digits would take seconds.
_VALUE: Final = re.compile(rf"(?<![A-Z0-9])([A-Z0-9]+): ({NUMBER})(?:ms|%)?")
#: Facts that are metrics of `OVERALL` -> name and unit.
_METRICS: Final = {
    "ramp_up": ("ramp-up", "min"),
    "timed": ("timed test", "min"),
    "nopm": ("NOPM", "1/min"),
    "tpm": ("TPM", "1/min"),
}


@dataclass
class Facts:
    """Facts about the run as a whole.

    Attributes:
        version: version of HammerDB.
        stated: name of a fact -> its value: `nopm` (new orders a minute), `tpm` (transactions a minute, as the database
            counts them), `users` (active virtual users), `warehouses` (of TPROC-H: the scale factor), `ramp_up`
            and `timed` (minutes), and of TPROC-H `query_seconds` (of all queries) and `queries` (of all sets).
        others: further values of `OVERALL`.
        errors: errors of virtual users that were printed; None if the source does not contain such lines.
        failed_users: virtual users that ended with an error, the monitor (user 1) among them.
    """

    version: str | None = None
    stated: dict[str, float] = field(default_factory=dict)
    others: list[Row] = field(default_factory=list)
    errors: int | None = None
    failed_users: set[int] = field(default_factory=set)

    def metrics(self, timings: Timings) -> pl.DataFrame:
        """The table `client_metrics` (as parsed)."""
        own = [(OVERALL, *named, self.stated[fact]) for fact, named in _METRICS.items() if fact in self.stated]
        return metric_frame([*own, *self.others, *timings.rows(self.stated.get("users"))])

    def client(self) -> pl.DataFrame:
        """The table `clients` (as parsed): a row, if there was a timed test or a set of queries with its total time."""
        stated = self.stated.get
        users, tpm, timed, seconds = (stated(name) for name in ("users", "tpm", "timed", "query_seconds"))
        if seconds is None and tpm is None and timed is None:
            return pl.DataFrame()
        runtime_ms = timed * _MS_PER_MIN if tpm is not None and timed else None
        # The first user is the monitor.
        ended = len(self.failed_users - {1})
        facts = {
            "tool": "HammerDB",
            "tool_version": self.version,
            "threads": count_of(users, MAX_CLIENTS),
            "scale_factor": count_of(stated("warehouses")),
            # HammerDB does not state a throughput of TPROC-H.
            "throughput_ops_s": None if tpm is None else tpm / _S_PER_MIN,
            "runtime_ms": runtime_ms if seconds is None else seconds * _MS_PER_S,
            "operations_done": count_of(stated("queries")),
            "connected_threads": count_of((users or 0) - ended, MAX_CLIENTS) if ended and users else None,
            "new_orders_per_min": stated("nopm"),
            "reported_errors": self.errors,
            "time_limit_s": None if timed is None else timed * _S_PER_MIN,
            "script": "TPROC-C" if seconds is None else "TPROC-H",
            "completed": tpm is not None or seconds is not None,
        }
        return pl.DataFrame([facts])


def counted(points: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """The table `client_series` (as parsed) from transactions a minute.

    Args:
        points: `time` (the host's local time, ISO) and `per_minute`.
        timezone: IANA name of the host's zone.
    """
    time = time_expr(pl.col("time"), timezone)
    rows = points.select(throughput_ops_s=pl.col("per_minute").cast(pl.Float64) / _S_PER_MIN, log_time=time)
    since = (pl.col("log_time") - pl.col("log_time").drop_nulls().first()).dt.total_milliseconds() / 1000
    return rows.with_columns(elapsed_s=since)


@dataclass
class HammerdbReport(Report):
    """The state of parsing one file of lines.

    Attributes:
        timezone: zone of times that are printed without one.
        facts: facts about the run, so far.
        timings: latencies of procedures, so far.
    """

    tool = "HammerDB"
    kinds = KINDS
    telling = RESULTS
    unknown = "not a line of HammerDB"
    exact = ("values",)
    keep = tuple(kind for kind in RESULTS if kind != "counter")
    timezone: str = ""
    facts: Facts = field(default_factory=Facts)
    timings: Timings = field(default_factory=Timings)
    _user: str | None = None
    _procedure: str | None = None
    _start: float | None = None
    _printed: int = 0
    _ended: int = 0

    def block(self, block: Block) -> Parsed:
        """The series of one block; other values are kept for the end."""
        # The console begins its lines with a carriage return.
        text = line_frame(block.data, block.offset).with_columns(pl.col("text").str.strip_chars_start("\r"))
        strange = pl.when(pl.col("kind") == STRANGE).then(pl.lit(UNKNOWN_RESULT))
        lines = self.judged(text).with_columns(reason=pl.coalesce("reason", strange))
        good = self.accepted(lines)
        return accounted(lines, {"client_series": self._series(good.filter(pl.col("kind") == "counter"))})

    def finish(self) -> Parsed:
        """The client, the values and the errors; also the counter from JSON, if no line had it."""
        tables = self.tables()
        if self._start is None:
            points = (
                pl.concat(self.kept).filter(kind="listed").select(pl.col("text").str.extract_groups(KINDS["listed"]))
            )
            tables["client_series"] = counted(points.unnest("text"), self.timezone)
        return Parsed(tables, 0)

    def tables(self) -> dict[str, pl.DataFrame]:
        """The client, the values and the errors of the lines taken."""
        # Few lines of a report are not of the counter, so this loop is short.
        for kind, text in pl.concat(self.kept).select("kind", "text").iter_rows():
            if found := re.search(KINDS[kind], text):
                self._take(kind, found)
        return {
            "clients": self.facts.client(),
            "client_metrics": self.facts.metrics(self.timings),
            "client_errors": self.errors,
        }

    def accepted(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The lines that are not rejected, among which users that failed are counted."""
        good = super().accepted(lines)
        errors = good.filter(kind="error")
        ended = errors["text"].str.extract(FAILED_USER).cast(pl.Int64)
        self.facts.failed_users |= set(ended.drop_nulls())
        # The line that a user failed follows that of its error.
        self._ended += errors.height - ended.null_count()
        self._printed += ended.null_count()
        self.facts.errors = self._printed or self._ended
        return good

    def _take(self, kind: str, found: re.Match[str]) -> None:
        """Take the values of a line."""
        facts = self.facts
        match kind:
            case "version":
                facts.version = found[1]
            case "result" | "setting" | "users":
                known = ((name.removeprefix("old_"), value) for name, value in found.groupdict().items() if value)
                facts.stated |= {name: float(value) for name, value in known}
            case "all_users":
                facts.stated["users"] = max(float(found[1]) - 1, 0.0)
            case "query":
                facts.others.append((OVERALL, f"query {found[1]}", "s", float(found[2])))
            case "queries":
                name = "geometric mean" if found[3] else f"{found[1]} query sets"
                facts.others.append((OVERALL, name, "s", float(found[3] or found[2])))
            case _:
                self._take_of_profile(kind, found)

    def _take_of_profile(self, kind: str, found: re.Match[str]) -> None:
        match kind:
            case "user" | "summary":
                self._user = found[1] if kind == "user" else None
            case "procedure" | "timed":
                self._procedure = found[1]
            case "values" if self._procedure is not None:
                values = {name: float(number) for name, number in _VALUE.findall(found.string)}
                self.timings.add(self._procedure, values, self._user)
            case "timing" if self._procedure is not None:
                self.timings.add(self._procedure, named({found[1]: float(found[2])}))

    def _series(self, counter: pl.DataFrame) -> pl.DataFrame:
        rows = counter.select(part=pl.col("text").str.extract_groups(KINDS["counter"])).unnest("part")
        # Only the abbreviation of UTC is unambiguous.
        utc = pl.col("3").str.extract(r"^... (... .. [0-9:]{8}) (?:UTC|GMT) [0-9]{4}$")
        stamp = pl.concat_str(utc, pl.col("3").str.extract(r"([0-9]{4})$"), separator=" ")
        time = stamp.str.to_datetime("%b %e %H:%M:%S %Y", time_unit="ms", strict=False).dt.replace_time_zone("UTC")
        timed = rows.select(throughput_ops_s=pl.col("1").cast(pl.Float64) / _S_PER_MIN, log_time=time.cast(TIME.polars))
        seconds = timed["log_time"].dt.epoch("ms") / 1000
        known = seconds.drop_nulls()
        if self._start is None and known.len():
            self._start = float(known[0])
        return timed.with_columns(elapsed_s=seconds - (self._start or 0.0))
