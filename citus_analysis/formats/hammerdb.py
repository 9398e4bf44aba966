"""Files that HammerDB (2 to 6) writes about a run: console or log, counter, time profile, `hammer.DB` and JSON.

Tables: `clients` (one row, of a source with a result), `client_metrics`, `client_series` (the transaction
counter), `client_errors`. For example::

    Vuser 1:Beginning rampup time of 2 minutes
    Vuser 1:Timing test period of 5 in minutes
    Vuser 1:8 Active Virtual Users configured
    Vuser 1:TEST RESULT : System achieved 12014 NOPM from 27661 PostgreSQL TPM
    27540 PostgreSQL tpm @ Thu Jun 30 22:43:41 UTC 2022

and in the time profile, after the lines `>>>>> SUMMARY OF 8 ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : 904548ms` and
`>>>>> PROC: NEWORD`::

    CALLS: 322104	MIN: 2.269ms	AVG: 9.236ms	MAX: 36.366ms	TOTAL: 2975206.250ms
    P99: 14.197ms	P95: 12.399ms	P50: 9.087ms	SD: 1808.882	RATIO: 41.115%

The same values, in the same tables, come from

- the JSON of the command `jobs JOBID timing|tcount|result` (the default of versions 4 and 5), also within a console;
- the report of a job as JSON, which version 6 writes (`jobs JOBID save`): `hdb_JOBID.json`;
- `hammer.DB`, the SQLite database of the jobs. A source is one run: `--meta hammerdb_job=` names its job if several
  ran a test. Settings and passwords in it (`JOBMAIN.jobdict`) are not stored.

Conversion:

- NOPM (new orders a minute) and TPM (transactions a minute, as the database counts them) are metrics of `OVERALL`
  under their own names, also where version 3 and earlier print `27661 PostgreSQL TPM at 12014 NOPM`;
  `throughput_ops_s` is TPM / 60. TPM of different databases count different things: compare
  their NOPM;
- the run time is the timed minutes, without the ramp-up; HammerDB prints no number of transactions: `operations_done`
  is null;
- the time profile's summary gives the latencies of each procedure (section `NEWORD` and so on), and each user gives
  metrics of `OVERALL`, such as `virtual user 2: NEWORD P99`. **The profile includes the ramp-up** (HammerDB issue 233):
  `OVERALL` then has the metric `time profile includes ramp-up`;
- `CALLS` is the sum over the users; if HammerDB's own summary states another number (in 4.12, twice the sum), or its
  shares of the time add up to more than 100 %, HammerDB's number is `CALLS as summed by HammerDB`;
- before version 6 (2026), SD is in clicks of the clock, which are microseconds (HammerDB issue 831): its unit is us.
  If a profile has P75 (HammerDB 6), SD is in ms, and percentiles come from a reservoir of at most 10,000 calls of a
  user and procedure, not from all: the procedure then has the metric `percentiles from a reservoir`, and
  `operation_latencies.percentile_source` says so;
- the transaction counter becomes the series; without a time (`tcset timestamps`), `elapsed_s` is null. Times in JSON
  and `hammer.DB` are the host's local ones: state its zone with `--meta timezone=`;
- errors of virtual users are counted by class, and `reported_errors` is their number; users other than the first, which
  only measures, that end with `FINISHED FAILED` are missing from `connected_threads`;
- the points of the counter that a job report marks as its shutdown are not in the series; their number is the metric
  `points of the shutdown`;
- the warehouses (TPROC-H: the scale factor) that a job report states are `scale_factor`;
- for TPROC-H, each `query N completed in S seconds` is a metric of `OVERALL`. A job report of it is a run without a
  throughput: its run time is the time of all queries (`total query time`), its operations are the queries of all sets.

Settings that the console repeats (`Changed tpcc:pg_pass ...`) contain passwords and are not stored. CPU, IOPS and
charts, which HammerDB's agent adds to a job, are not stored either: record them with a sampler.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import ClassVar, Final, NamedTuple

import polars as pl

from citus_analysis.core.table_definition import TIME
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    MAX_CLIENTS,
    NUMBER,
    ReportParser,
    build_parsed_report,
    convert_to_count,
    make_metric_frame,
)
from citus_analysis.formats.parsing.format import HAMMERDB_JOB, TIMEZONE, Format, Hints, Parsed, Signature, StartMarker
from citus_analysis.formats.parsing.json_records import convert_to_finite_number, parse_json_document
from citus_analysis.formats.parsing.lines import line_frame
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import time_expr
from citus_analysis.operations import OVERALL, SAMPLED_PERCENTILES

# Lines of HammerDB by kind: consoles, logs, counters, time profiles and the JSON of its command `jobs`.

_USER: Final = r"^(?:Vuser [0-9]+: ?)?"
#: Like `_USER`, or a text in a list of JSON.
_TEXT: Final = r'^(?: *"|Vuser [0-9]+: ?)?'
_DATE: Final = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [A-Z]{3,4} [0-9]{4}"
_ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
#: Kind of a line with a result in a form that is not known.
STRANGE: Final = "strange"
#: Kind -> pattern; the first that matches decides.
KINDS: Final = {
    "version": r"^HammerDB CLI v(?P<version>[0-9][0-9.]{0,9})$",
    # Version 3 and earlier print the two numbers in the other order.
    "result": rf"{_TEXT}TEST RESULT : System achieved "
    r"(?:(?P<nopm>[0-9]{1,15}) NOPM from (?P<tpm>[0-9]{1,15}) .+? TPM"
    rf"|(?P<old_tpm>[0-9]{{1,15}}) .+? TPM at (?P<old_nopm>[0-9]{{1,15}}) NOPM)"
    r'(?:",?)?$',
    STRANGE: r"TEST RESULT :",
    "setting": rf"{_USER}(?:Beginning rampup time of (?P<ramp_up>[0-9]{{1,9}})"
    r"|Timing test period of (?P<timed>[0-9]{1,9})) (?:in )?minutes?$",
    "users": rf'{_TEXT}(?P<users>[0-9]{{1,9}}) Active (?:Virtual Users|Sessions) configured(?:",?)?$',
    # Version 2 counts the monitor, too.
    "all_users": rf"{_USER}([0-9]{{1,9}}) Virtual Users configured$",
    "query": rf"{_USER}query ([0-9]{{1,3}}) completed in ({NUMBER}) seconds$",
    "queries": rf"{_USER}(?:Completed ([0-9]{{1,9}}) query set\(s\) in ({NUMBER}) seconds"
    rf"|Geometric mean .* is ({NUMBER}))$",
    "counter": rf"^([0-9]{{1,15}}) ([A-Z][A-Za-z0-9]*(?: [A-Z][A-Za-z0-9]*)?) (?:tpm|qph)(?: @ ({_DATE}))?$",
    "listed": rf'^ *"(?P<time>{_ISO})": "(?P<per_minute>[0-9]{{1,15}})",?$',
    "user": rf"^>>>>> VIRTUAL USER ([0-9]{{1,9}}) : ELAPSED TIME : {NUMBER}ms$",
    "summary": rf"^>>>>> SUMMARY OF ([0-9]{{1,9}}) ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : {NUMBER}ms$",
    "procedure": r"^>>>>> PROC: ([A-Z_0-9]+)$",
    "values": rf"^(?:CALLS|P99): {NUMBER}.*[A-Z]: {NUMBER}(?:ms|%)?$",
    "timed": r'^ *\{?"([A-Z_0-9]{2,30})": \{$',
    "timing": rf'^ *"(elapsed_ms|calls|(?:min|avg|max|total|p[0-9]{{2}})_ms|sd|ratio_pct)": "({NUMBER})",?$',
    "error": rf"{_USER}(?:Error in Virtual User |.*Procedure Error|FINISHED FAILED|.*\b(?:ERROR|FATAL):)|^Error",
    "noise": r"^$|^Vuser [0-9]+(?::| created)"
    r"|^(?:HammerDB|Hammerdb|Copyright|Type|Initiali[sz]ed|Database set|Benchmark set)"
    r"|^(?:Value|Changed|Script|Logging|to|Transaction Counter|TX Logging|Clearing|Closed|Building|Ready to|in host)\b"
    r"|^[0-9]+ Virtual Users? Created|^(?:Virtual User|vu|tcount|All|ALL|Enter|No Virtual|Timer:|=====)"
    rf"|^[+-]+(?:[+-]+)*$|^.* Hammerdb Time Profile Report @ {_DATE}$|^The xml|^ (?:load|delay) |^TPROC|^TPC"
    r"|^(?:SETTING|SEQUENCE|RUN SEQUENCE|Stopping|Setting jobs|Jobs|second time|Benchmark Run|vudestroy|Gathering"
    r"|Calculating|Writing|Destroying|Connection) ?"
    # Headings and brackets around the JSON of `jobs`, and other texts in it.
    r"|^TRANSACTION (?:RESPONSE TIMES|COUNT)$|^HAMMERDB RESULT$|^ *[\[\]{}]+,?$"
    r'|^ *\{?"[^"]{0,1000}"(?:: (?:\{|"[^"]{0,1000}"))?,?$',
}
#: The number of a virtual user that ended with an error.
FAILED_USER: Final = r"^Vuser ([0-9]{1,9}): ?FINISHED FAILED"
SIGNS: Final = Signature(
    re.compile(
        rb"TEST RESULT : System achieved [0-9]+ (?:NOPM from [0-9]+|[^\n]{1,40} TPM at [0-9]+ NOPM)"
        rb"|^Hammerdb (?:Transaction Counter )?Log @ |^[A-Za-z0-9]+ Hammerdb Time Profile Report @ "
        rb"|^HammerDB CLI v[0-9]|^Vuser 1:Beginning rampup time of [0-9]+ min"
        rb"|^Vuser 1:(?:RUNNING|Executing Query [0-9]+)\r?$",
        re.MULTILINE,
    ),
    (b"TEST RESULT : ", b"Hammerdb ", b"HammerDB CLI v", b"Vuser 1:"),
)
#: Kinds of lines with values.
RESULTS: Final = [kind for kind in KINDS if kind not in (STRANGE, "error", "noise")]
UNKNOWN_RESULT: Final = "a result of HammerDB in a form that is not known"

# Latencies of HammerDB's procedures, from its time profile, its job database or its JSON.

#: Section, metric, unit and value.
Row = tuple[str, str, str | None, float]
#: Fields of JOBTIMING and of the JSON -> names of the profile, if these differ in more than case and the suffix `_ms`.
_NAMES: Final = {"ratio_pct": "RATIO", "elapsed_ms": "ELAPSED"}
#: Factor above 100 % from which a sum of shares is wrong, and above its stated share from which a total time is wrong.
_TOLERANCE: Final = 1.1
_TWICE: Final = " as summed by HammerDB"
_SUMS: Final = ("CALLS", "TOTAL")


def map_timing_fields(fields: Mapping[str, float]) -> dict[str, float]:
    """Values by the names of the time profile.

    Example:
        >>> map_timing_fields({"calls": 3.0, "p99_ms": 0.5, "ratio_pct": 40.0})
        {'CALLS': 3.0, 'P99': 0.5, 'RATIO': 40.0}
    """
    return {_NAMES.get(name, name.removesuffix("_ms").upper()): value for name, value in fields.items()}


@dataclass
class Timings:
    """Values of each procedure, of single users and of all."""

    _users: list[Row] = field(default_factory=list)
    _calls: dict[str, float] = field(default_factory=dict)
    _all: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, procedure: str, values: Mapping[str, float], user: str | None = None) -> None:
        """Add values by the names of the time profile, of one user or of all."""
        if user is None:
            self._all.setdefault(procedure, {}).update(values)
            return
        sampled = "P75" in values
        self._users += [
            (OVERALL, f"virtual user {user}: {procedure} {name}", _choose_timing_unit(name, sampled=sampled), value)
            for name, value in values.items()
        ]
        self._calls[procedure] = self._calls.get(procedure, 0.0) + values.get("CALLS", 0.0)

    def rows(self, users: float | None = None) -> list[Row]:
        """All values; wrong sums of HammerDB are named `... as summed by HammerDB`.

        Args:
            users: number of virtual users that ran procedures; None if unknown.
        """
        sampled = any("P75" in values for values in self._all.values())
        doubled = sum(values.get("RATIO", 0.0) for values in self._all.values()) > 100 * _TOLERANCE
        rows: list[Row] = [(OVERALL, "time profile includes ramp-up", None, 1.0)] if self._all else []
        for procedure, values in self._all.items():
            summed = self._calls.get(procedure)
            wrong = doubled or _is_doubled(values, users) if summed is None else summed != values.get("CALLS")
            rows += [(procedure, SAMPLED_PERCENTILES, None, 1.0)] if sampled else []
            for name, value in values.items():
                shown = f"{name}{_TWICE}" if wrong and name in _SUMS else name
                rows += (
                    [(procedure, shown, _choose_timing_unit(name, sampled=sampled), value)] if name != "ELAPSED" else []
                )
            rows += [(procedure, "CALLS", None, summed)] if wrong and summed is not None else []
        return [*self._users, *rows]


def _is_doubled(values: Mapping[str, float], users: float | None) -> bool:
    """Whether the total time exceeds the share of the users' time that the summary states."""
    if not users or not values.get("ELAPSED") or "TOTAL" not in values or "RATIO" not in values:
        return False
    return 100 * values["TOTAL"] / values["ELAPSED"] / users > values["RATIO"] * _TOLERANCE


def _choose_timing_unit(name: str, *, sampled: bool) -> str | None:
    """Unit of a value; clicks, in which older versions give SD, are microseconds."""
    if name == "SD":
        return "ms" if sampled else "us"
    return {"CALLS": None, "RATIO": "%"}.get(name, "ms")


# The facts about a HammerDB run: from the lines of its output, and from its job's tables.

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
class HammerdbFacts:
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
        return make_metric_frame([*own, *self.others, *timings.rows(self.stated.get("users"))])

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
            "threads": convert_to_count(users, MAX_CLIENTS),
            "scale_factor": convert_to_count(stated("warehouses")),
            # HammerDB does not state a throughput of TPROC-H.
            "throughput_ops_s": None if tpm is None else tpm / _S_PER_MIN,
            "runtime_ms": runtime_ms if seconds is None else seconds * _MS_PER_S,
            "operations_done": convert_to_count(stated("queries")),
            "connected_threads": convert_to_count((users or 0) - ended, MAX_CLIENTS) if ended and users else None,
            "new_orders_per_min": stated("nopm"),
            "reported_errors": self.errors,
            "time_limit_s": None if timed is None else timed * _S_PER_MIN,
            "script": "TPROC-C" if seconds is None else "TPROC-H",
            "completed": tpm is not None or seconds is not None,
        }
        return pl.DataFrame([facts])


def build_client_series(points: pl.DataFrame, timezone: str) -> pl.DataFrame:
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
class HammerdbReport(ReportParser):
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
    facts: HammerdbFacts = field(default_factory=HammerdbFacts)
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
        return build_parsed_report(lines, {"client_series": self._series(good.filter(pl.col("kind") == "counter"))})

    def finish(self) -> Parsed:
        """The client, the values and the errors; also the counter from JSON, if no line had it."""
        tables = self.tables()
        if self._start is None:
            points = (
                pl.concat(self.kept).filter(kind="listed").select(pl.col("text").str.extract_groups(KINDS["listed"]))
            )
            tables["client_series"] = build_client_series(points.unnest("text"), self.timezone)
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
                self.timings.add(self._procedure, map_timing_fields({found[1]: float(found[2])}))

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


# The report of a job in JSON, written by HammerDB 6 (`jobs JOBID save`).

JOB_REPORT: Final = re.compile(rb'\A\s*\{\s*"schema"\s*:\s*"hammerdb-job-report-v1"')
_LIMIT_BYTES: Final = 64 * 2**20
#: Times of a TPROC-H result -> metric.
_ANALYTIC: Final = {"geomean_seconds": "geometric mean", "total_query_time_seconds": "total query time"}


class JobFacts(NamedTuple):
    """What a report states about its job as a whole.

    Attributes:
        system: database and its release.
        benchmark: TPROC-C or TPROC-H.
        settings: its size, users and minutes, as `name value`.
        machine: processor, their number and memory; `machine not stated` without them.
        time: when the job began.
        nopm: new orders a minute; None if the job measured none.
        geometric_mean_s: geometric mean of the times of the queries in seconds; None without queries.
    """

    system: str
    benchmark: str
    settings: str
    machine: str
    time: str
    nopm: float | None
    geometric_mean_s: float | None


def read_job_facts(content: Content) -> JobFacts:
    """The facts of one job.

    Raises:
        FormatError: the content is not such a report.
    """
    report = _parse_job_document(content, content.read(_LIMIT_BYTES))
    job, config, machine, result = (
        _get_child_object(report, name) for name in ("job", "benchmark_config", "system", "result")
    )
    settings = [f"{name.replace('_', ' ')} {value:g}" for name, value in _select_numbers(config).items()]
    return JobFacts(
        system=_join_text_facts(job, "database_display", "release") or "a database that is not named",
        benchmark=_join_text_facts(job, "benchmark") or "benchmark not stated",
        settings=", ".join(settings) or "settings not stated",
        machine=_join_text_facts(machine, "cpumodel", "cpucount", "memory") or "machine not stated",
        time=_join_text_facts(job, "timestamp") or content.path.stem,
        nopm=_number(result.get("nopm")),
        geometric_mean_s=_number(result.get("geomean_seconds")),
    )


def _join_text_facts(facts: Mapping[str, object], *names: str) -> str:
    return " ".join(str(facts[name]).strip() for name in names if isinstance(facts.get(name), str | int))


def read_job_report(content: Content, options: Mapping[str, str]) -> Parsed:
    """The run of one job.

    Raises:
        FormatError: the content is not such a report.
    """
    data = content.read(_LIMIT_BYTES)
    report = _parse_job_document(content, data)
    facts, timings = _parse_job_facts(report), Timings()
    for row in _list_child_objects(_get_child_object(report, "response_times"), "rows"):
        if isinstance(name := row.get("name"), str):
            timings.add(name, map_timing_fields(_select_numbers(row)))
    points = [
        (str(point.get("timestamp")), _number(point.get("value")))
        for series in _list_child_objects(_get_child_object(report, "transaction_count"), "series")
        for point in _list_child_objects(series, "points")
    ]
    tail = _count_shutdown_points(report, [value for _, value in points])
    if tail:
        facts.others.append((OVERALL, "points of the shutdown", None, float(tail)))
    kept = points[: len(points) - tail]
    frame = pl.DataFrame(kept, schema={"time": pl.String, "per_minute": pl.Float64}, orient="row")
    tables = {
        "clients": facts.client(),
        "client_metrics": facts.metrics(timings),
        "client_series": build_client_series(frame, get_timezone(options)),
    }
    return Parsed(tables, len(data))


def _parse_job_document(content: Content, data: bytes) -> Mapping[str, object]:
    document = parse_json_document(data, "a job report of HammerDB", content.path)
    if not isinstance(document, dict):
        raise FormatError("is not a job report of HammerDB: not an object", path=content.path)
    return document


def _parse_job_facts(report: Mapping[str, object]) -> HammerdbFacts:
    config, result, job = (_get_child_object(report, name) for name in ("benchmark_config", "result", "job"))
    size, measured, version = _select_numbers(config), _select_numbers(result), job.get("hdb_version")
    stated = {
        "nopm": measured.get("nopm"),
        "tpm": measured.get("tpm"),
        "users": measured.get("active_virtual_users"),
        "warehouses": size.get("warehouses") or size.get("scale_factor"),
    }
    if result.get("type") == "tproc_c_result" or job.get("benchmark") == "TPROC-C":
        stated |= {"ramp_up": size.get("rampup_minutes"), "timed": size.get("duration_minutes")}
    if result.get("type") == "tproc_h_result":
        stated["query_seconds"] = measured.get("total_query_time_seconds")
        if {"queries", "query_sets"} <= measured.keys():
            stated["queries"] = measured["queries"] * measured["query_sets"]
    analytic = [(OVERALL, metric, "s", measured[name]) for name, metric in _ANALYTIC.items() if name in measured]
    of_queries = [
        (OVERALL, f"query {row.get('name')}", "s", value)
        for row in _list_child_objects(_get_child_object(report, "query_times"), "rows")
        if (value := _number(row.get("seconds"))) is not None
    ]
    return HammerdbFacts(
        version=version.removeprefix("v") if isinstance(version, str) else None,
        stated={name: value for name, value in stated.items() if value is not None},
        others=[*analytic, *of_queries],
    )


def _count_shutdown_points(report: Mapping[str, object], values: Sequence[float | None]) -> int:
    """Points at the end of the counter that the report calls its shutdown tail, and the one in which that began.

    They are those below the report's threshold, and before them a point below half of the median: an interval whose
    users ended in it.
    """
    tail = _get_child_object(_get_child_object(report, "analysis_hints"), "shutdown_tail")
    threshold = _number(tail.get("threshold"))
    if tail.get("present") is not True or threshold is None:
        return 0
    active = [value for value in values if value is not None and value >= threshold]
    low = sum(1 for _ in takewhile(lambda value: (value or 0.0) < threshold, reversed(values)))
    if not low or not active or low == len(values):
        return 0
    return low + ((values[-1 - low] or 0.0) < median(active) / 2)


def _get_child_object(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    child = value.get(name)
    return child if isinstance(child, dict) else {}


def _list_child_objects(value: Mapping[str, object], name: str) -> Iterable[Mapping[str, object]]:
    found = value.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _select_numbers(row: Mapping[str, object]) -> dict[str, float]:
    found = {name: _number(value) for name, value in row.items() if name != "name"}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: object) -> float | None:
    """A number: HammerDB writes some in quotes."""
    return convert_to_finite_number(value, quoted=True)


# `hammer.DB`: the SQLite database in which HammerDB keeps its jobs.

MAGIC: Final = b"SQLite format 3\0"
_DATABASE_LIMIT_BYTES: Final = 256 * 2**20
#: Steps of SQLite's machine after which a query on a damaged or hostile database is ended.
_MOST_STEPS: Final = 50_000_000
_SHOWN_JOBS: Final = 5
#: Output of jobs with a result, and of all jobs that began a timed test.
_RESULT: Final = "TEST RESULT : System achieved %"
_TEST: Final = "Timing test period of %"


def is_job_database(head: bytes) -> bool:
    """Whether these are the first bytes of HammerDB's database of jobs."""
    return head.startswith(MAGIC) and b"CREATE TABLE JOBMAIN(" in head and b"CREATE TABLE JOBOUTPUT(" in head


def read_database(content: Content, options: Mapping[str, str]) -> Iterator[Parsed]:
    """One piece: the job that the options name, or the only one with a result.

    Raises:
        FormatError: there is no such job, several have a result, or SQLite cannot read the database.
    """
    data = content.read(_DATABASE_LIMIT_BYTES)
    report = HammerdbReport(timezone=get_timezone(options))
    with _open_job_database(data, content.path) as database:
        job = _find_job(database, HAMMERDB_JOB.value(options), content.path)
        _take_output(database, job, report)
        _take_timings(database, job, report)
        series = _read_job_series(database, job, report.timezone)
    errors = report.errors.with_columns(first_byte_offset=pl.lit(None, pl.Int64))
    yield Parsed({**report.tables(), "client_errors": errors, "client_series": series}, len(data))


@contextmanager
def _open_job_database(data: bytes, path: Path) -> Iterator[sqlite3.Connection]:
    """The database in memory; code in its schema is not executed."""
    connection = sqlite3.connect(":memory:")
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    steps = iter(range(_MOST_STEPS // 1000))
    try:
        connection.deserialize(data)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.set_progress_handler(lambda: int(next(steps, None) is None), 1000)
        _check_tables(connection)
        yield connection
    except (sqlite3.Error, OverflowError, ValueError) as error:
        raise FormatError(f"is not a database of HammerDB's jobs: {error}", path=path) from error
    finally:
        connection.close()


def _check_tables(connection: sqlite3.Connection) -> None:
    known = connection.execute("SELECT name, type, sql FROM sqlite_master WHERE name LIKE 'JOB%'").fetchall()
    plain = {name for name, kind, sql in known if kind == "table" and str(sql).upper().startswith("CREATE TABLE")}
    if missing := {"JOBMAIN", "JOBOUTPUT", "JOBTIMING", "JOBTCOUNT"} - plain:
        raise ValueError(f"it lacks the table {min(missing)}")


def _find_job(database: sqlite3.Connection, stated: str | None, path: Path) -> str:
    """The job to read."""
    jobs = [str(job) for (job,) in database.execute("SELECT jobid FROM JOBMAIN ORDER BY timestamp, rowid")]
    if stated is not None:
        if stated in jobs:
            return stated
        raise FormatError(f"contains no job {stated[:_LONGEST_ID]}", path=path, hint=f"it contains {_list_jobs(jobs)}")
    for pattern in (_RESULT, _TEST):
        query = "SELECT DISTINCT jobid FROM JOBOUTPUT WHERE output LIKE ?"
        found = {str(job) for (job,) in database.execute(query, (pattern,))}
        tests = [job for job in jobs if job in found]
        if len(tests) == 1:
            return tests[0]
        if tests:
            raise FormatError(
                f"contains {len(tests)} jobs that ran a test: {_list_jobs(tests)}",
                path=path,
                hint=f"ingest a copy for each job and name its job: --meta {HAMMERDB_JOB.name}={tests[-1]}",
            )
    raise FormatError("contains no job that ran a timed test", path=path, hint="ingest the console's output or the log")


_LONGEST_ID: Final = 40


def _list_jobs(jobs: list[str]) -> str:
    shown = ", ".join(job[:_LONGEST_ID] for job in jobs[-_SHOWN_JOBS:])
    return f"{shown} and {len(jobs) - _SHOWN_JOBS} more" if len(jobs) > _SHOWN_JOBS else shown or "none"


def _take_output(database: sqlite3.Connection, job: str, report: HammerdbReport) -> None:
    """Read the output of the virtual users, which the console shows after `Vuser N:`."""
    query = "SELECT vu, output FROM JOBOUTPUT WHERE jobid = ? ORDER BY rowid"
    texts = [f"Vuser {user}:{output}".replace("\n", " ") for user, output in database.execute(query, (job,))]
    report.accepted(report.judged(line_frame("".join(f"{text}\n" for text in texts).encode())))


def _take_timings(database: sqlite3.Connection, job: str, report: HammerdbReport) -> None:
    """Read the time profile; rows with `summary` = 1 are of all users."""
    cursor = database.execute("SELECT * FROM JOBTIMING WHERE jobid = ? ORDER BY rowid", (job,))
    columns = [str(column[0]) for column in cursor.description]
    for values in cursor:
        row = dict(zip(columns, values, strict=True))
        user = None if row.get("summary") else str(row.get("vu"))
        known = {
            name: float(value)
            for name, value in row.items()
            if name in _MEASURES and convert_to_finite_number(value) is not None
        }
        report.timings.add(str(row.get("procname")), map_timing_fields(known), user)


_MEASURES: Final = (
    *("calls", "min_ms", "avg_ms", "max_ms", "total_ms", "p99_ms", "p95_ms", "p75_ms", "p50_ms", "p25_ms"),
    *("sd", "ratio_pct", "elapsed_ms"),
)


def _read_job_series(database: sqlite3.Connection, job: str, timezone: str) -> pl.DataFrame:
    query = "SELECT timestamp, counter FROM JOBTCOUNT WHERE jobid = ? ORDER BY rowid"
    points = [
        (str(time), value)
        for time, value in database.execute(query, (job,))
        if convert_to_finite_number(value) is not None
    ]
    frame = pl.DataFrame(points, schema={"time": pl.String, "per_minute": pl.Float64}, orient="row", strict=False)
    return build_client_series(frame, timezone)


__all__ = ["FORMAT", "Hammerdb"]

#: As HammerDB names them.
_DATABASES: Final = (b"PostgreSQL", b"MySQL", b"MariaDB", b"Oracle", b"MSSQLServer", b"Db2")


class Hammerdb(Format):
    """Console, log, transaction counter log, time profile, `hammer.DB` and JSON of HammerDB."""

    name: ClassVar[str] = "hammerdb"
    version: ClassVar[int] = 4
    tables = ("clients", "client_metrics", "client_series", "client_errors")
    noise = "other lines of virtual users, settings that the console repeats, headings"
    options = (TIMEZONE, HAMMERDB_JOB)
    measures: ClassVar[Mapping[str, str]] = {
        "CALLS": "operations",
        "AVG": "mean_us",
        "MIN": "min_us",
        "MAX": "max_us",
        "P50": "p50_us",
        "P95": "p95_us",
        "P99": "p99_us",
    }
    start_markers = (
        StartMarker(b"{", rb'\s*"schema"\s*:\s*"hammerdb-job-report-v1"', whole=True),
        *(StartMarker(name + b" Hammerdb Time Profile Report @ ", stage=5) for name in _DATABASES),
        StartMarker(b"Hammerdb ", rb"(?:Transaction Counter )?Log @ "),
        StartMarker(b"HammerDB CLI v", rb"[0-9]", stage=1),
        # Users are also created to build a schema, before the test.
        StartMarker(b"Vuser 1 created", stage=2, repeats=True),
        StartMarker(b"Vuser 1:RUNNING", stage=2, repeats=True),
        StartMarker(b"Vuser 1:Beginning rampup time of ", stage=3),
        StartMarker(b"Vuser 1:TEST RESULT : ", stage=4, repeats=True, continues=True),
        StartMarker(b"Vuser 1:FINISHED FAILED", stage=4, repeats=True, continues=True),
        StartMarker(b"Vuser 1:Completed ", rb"[0-9]+ query set", stage=4, repeats=True, continues=True),
        # The JSON of the command `jobs`.
        StartMarker(b"TRANSACTION RESPONSE TIMES", rb"\r?$", stage=5),
        StartMarker(b"TRANSACTION COUNT", rb"\r?$", stage=5),
        StartMarker(b"HAMMERDB RESULT", rb"\r?$", stage=5),
    )

    def detect(self, name: str, head: bytes) -> float:
        """By lines that only HammerDB prints, the tables of its jobs, or the schema that its JSON names."""
        return 0.95 if SIGNS.within(head) or is_job_database(head) or JOB_REPORT.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """For lines, the series in a piece per block, then the client, its values and errors; otherwise one piece."""
        if content.head.startswith(MAGIC):
            yield from read_database(content, hints.options)
        elif JOB_REPORT.search(content.head):
            yield read_job_report(content, hints.options)
        else:
            signed = SIGNS.within(content.head)
            yield from HammerdbReport(signed, timezone=get_timezone(hints.options)).pieces(content)


FORMAT: Final = Hammerdb()
