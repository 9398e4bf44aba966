"""What HammerDB (4 to 6) writes of a run: its console or log, `hdbtcount.log` and `hdbxtprofile.log`.

Tables: `clients` (one row, of a console or log with a result), `client_metrics`, `client_series` (the transaction
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

Conversion of the lines:

- NOPM (new orders a minute) and TPM (transactions a minute, as the database counts them) are metrics of `OVERALL`
  under their own names; `throughput_ops_s` is TPM / 60. TPM of different databases count different things: compare
  NOPM there;
- the run took the timed minutes, without the ramp-up; HammerDB prints no number of transactions: `operations_done` is
  null;
- the time profile's summary gives the latencies of each procedure (section `NEWORD` and so on), its users the metrics
  `virtual user 2: NEWORD P99` of `OVERALL`. **The profile includes the ramp-up** (HammerDB issue 233): `OVERALL`
  then has the metric `time profile includes ramp-up`;
- `CALLS` is the sum over the users; where HammerDB's own summary states another number (seen in
  4.12: twice as many), that one is `CALLS as summed by HammerDB`;
- SD is printed in clicks of the clock, which are microseconds (HammerDB issue 831): its unit is us. Where a profile
  prints P75 (HammerDB 6), SD is in ms, and percentiles come from a reservoir of calls, not from all: `OVERALL` then has
  the metric `percentiles from a reservoir`;
- the transaction counter becomes the series; without a time (`tcset timestamps`), `elapsed_s` is null;
- of TPROC-H, each `query N completed in S seconds` is a metric of `OVERALL`.

Settings that the console repeats (`Changed tpcc:pg_pass ...`) hold passwords and are not stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

import polars as pl

from citus_analysis.core.column_types import TIME
from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.clients._messages import add_messages, count_messages, no_messages
from citus_analysis.formats.clients._report_lines import MAX_CLIENTS, count_of, judged, pieces_of
from citus_analysis.formats.reading.lines import line_frame, reject_runs
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.operations import OVERALL
from citus_analysis.schema import TABLES

__all__ = ["FORMAT", "Hammerdb"]

_N: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_USER: Final = r"^(?:Vuser [0-9]+: ?)?"
_DATE: Final = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [A-Z]{3,4} [0-9]{4}"
#: Kind -> pattern; the first that matches decides.
_KINDS: Final = {
    "result": rf"{_USER}TEST RESULT : System achieved ([0-9]{{1,15}}) NOPM from ([0-9]{{1,15}}) (.+) TPM$",
    "setting": rf"{_USER}(Beginning rampup time of|Timing test period of) ([0-9]{{1,9}}) (?:in )?minutes?$",
    "users": rf"{_USER}([0-9]{{1,9}}) Active (?:Virtual Users|Sessions) configured$",
    "query": rf"{_USER}query ([0-9]{{1,3}}) completed in ({_N}) seconds$",
    "queries": rf"{_USER}(?:Completed ([0-9]{{1,9}}) query set\(s\) in ({_N}) seconds|Geometric mean .* is ({_N}))$",
    "counter": rf"^([0-9]{{1,15}}) ([A-Z][A-Za-z0-9 ]*) (?:tpm|qph)(?: @ ({_DATE}))?$",
    "user": rf"^>>>>> VIRTUAL USER ([0-9]{{1,9}}) : ELAPSED TIME : {_N}ms$",
    "summary": rf"^>>>>> SUMMARY OF ([0-9]{{1,9}}) ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : {_N}ms$",
    "procedure": r"^>>>>> PROC: ([A-Z_0-9]+)$",
    "values": rf"^(?:CALLS|P99): {_N}.*[A-Z]: {_N}(?:ms|%)?$",
    "error": rf"{_USER}(?:Error in Virtual User |.*Procedure Error|FINISHED FAILED|.*\b(?:ERROR|FATAL):)|^Error",
    "noise": r"^$|^Vuser [0-9]+(?::| created)"
    r"|^(?:HammerDB|Hammerdb|Copyright|Type|Initiali[sz]ed|Database set|Benchmark set)"
    r"|^(?:Value|Changed|Script|Logging|to|Transaction Counter|TX Logging|Clearing|Closed|Building|Ready to|in host)\b"
    r"|^[0-9]+ Virtual Users? Created|^(?:Virtual User|vu|tcount|All|ALL|Enter|No Virtual|Timer:|=====)"
    rf"|^[+-]+(?:[+-]+)*$|^.* Hammerdb Time Profile Report @ {_DATE}$|^The xml|^ (?:load|delay) |^TPROC|^TPC"
    r"|^(?:SETTING|SEQUENCE|RUN SEQUENCE|Stopping|Setting jobs|Jobs|second time|Benchmark Run|vudestroy|Gathering"
    r"|Calculating|Writing|Destroying|Connection) ?",
}
_SIGN: Final = re.compile(
    rb"TEST RESULT : System achieved [0-9]+ NOPM from [0-9]+ |^Hammerdb (?:Transaction Counter )?Log @ "
    rb"|^[A-Za-z0-9]+ Hammerdb Time Profile Report @ |^HammerDB CLI v[0-9]|^Vuser 1:Beginning rampup time of [0-9]+ min"
    rb"|^Vuser 1:(?:RUNNING|Executing Query [0-9]+)\r?$",
    re.MULTILINE,
)
_RESULTS: Final = (
    "result",
    "setting",
    "users",
    "query",
    "queries",
    "counter",
    "user",
    "summary",
    "procedure",
    "values",
)
_UNKNOWN: Final = "no line of HammerDB"
_MS_PER_MIN: Final = 60_000
_S_PER_MIN: Final = 60
_METRIC_SCHEMA: Final = pl.Schema(
    {"section": pl.String(), "metric": pl.String(), "unit": pl.String(), "value": pl.Float64()}
)
_VALUE: Final = re.compile(rf"([A-Z0-9]+): ({_N})(ms|%)?")


class Hammerdb(Format):
    """Console, log, transaction counter log and time profile of HammerDB."""

    name: ClassVar[str] = "hammerdb"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("clients", "client_metrics", "client_series", "client_errors")
    noise: ClassVar[str] = "other lines of virtual users, settings that the console repeats, headings"
    measures: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "CALLS": "operations",
            "AVG": "mean_us",
            "MIN": "min_us",
            "MAX": "max_us",
            "P50": "p50_us",
            "P95": "p95_us",
            "P99": "p99_us",
        }
    )

    def detect(self, name: str, head: bytes) -> float:
        """By lines that only HammerDB prints."""
        return 0.95 if _SIGN.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """The series in a piece per block; the client, its values and its errors come last."""
        return pieces_of(_Report(recognised=bool(_SIGN.search(content.head))), content, "HammerDB")


@dataclass
class _Report:
    """The state of one file's parse."""

    recognised: bool = False
    _results: list[tuple[float, float, str]] = field(default_factory=list)
    _facts: dict[str, float] = field(default_factory=dict)
    _user: str | None = None
    _procedure: str | None = None
    _start: float | None = None
    _metrics: list[tuple[str, str, str | None, float]] = field(default_factory=list)
    _calls: dict[str, float] = field(default_factory=dict)
    _errors: pl.DataFrame = field(default_factory=no_messages)

    def block(self, block: Block) -> Parsed:
        """The series of one block; all else is kept for the end."""
        # The console begins its lines with a carriage return.
        text = line_frame(block.data, block.offset).with_columns(pl.col("text").str.strip_chars_start("\r"))
        lines = judged(text, _KINDS, _UNKNOWN)
        good = lines.filter(pl.col("reason").is_null())
        told = good.filter(pl.col("kind").is_in(_RESULTS))
        self.recognised |= not told.is_empty()
        self._errors = add_messages(self._errors, count_messages(good.filter(pl.col("kind") == "error")))
        # A report has few lines that are no status: a loop over them is short.
        for kind, text in told.filter(pl.col("kind") != "counter").select("kind", "text").iter_rows():
            self._take(kind, text)
        noise = int(good.filter(pl.col("kind") == "noise")["length"].sum())
        tables = {"client_series": self._series(told.filter(pl.col("kind") == "counter"))}
        return Parsed(tables, int(good["length"].sum()) - noise, noise, reject_runs(lines))

    def finish(self) -> Parsed:
        """The client, the values and the errors."""
        metrics = pl.DataFrame([*self._metrics, *self._summed()], schema=_METRIC_SCHEMA, orient="row")
        tables = {"client_metrics": TABLES["client_metrics"].parsed().conform(metrics), "client_errors": self._errors}
        if self._results or "Timing test period of" in self._facts:
            tables["clients"] = self._client()
        return Parsed(tables, 0)

    def _take(self, kind: str, text: str) -> None:
        found = re.search(_KINDS[kind], text)
        groups = found.groups() if found else ()
        match kind:
            case "result":
                nopm, tpm = float(groups[0]), float(groups[1])
                self._results.append((nopm, tpm, groups[2]))
                self._metrics += [(OVERALL, "NOPM", "1/min", nopm), (OVERALL, "TPM", "1/min", tpm)]
            case "setting":
                self._facts[groups[0]] = float(groups[1])
                name = "ramp-up" if groups[0].startswith("Beginning") else "timed test"
                self._metrics.append((OVERALL, name, "min", float(groups[1])))
            case "users":
                self._facts[kind] = float(groups[0])
            case "query":
                self._metrics.append((OVERALL, f"query {groups[0]}", "s", float(groups[1])))
            case "queries":
                name = "geometric mean" if groups[2] else f"{groups[0]} query sets"
                self._metrics.append((OVERALL, name, "s", float(groups[2] or groups[1])))
            case "user" | "summary":
                self._user = groups[0] if kind == "user" else None
                if kind == "summary":
                    self._metrics.append((OVERALL, "time profile includes ramp-up", None, 1.0))
            case "procedure":
                self._procedure = groups[0]
            case "values" if self._procedure is not None:
                self._profile(text, self._procedure)

    def _profile(self, text: str, procedure: str) -> None:
        values = _VALUE.findall(text)
        reservoir = any(name == "P75" for name, _, _ in values)
        if reservoir and (OVERALL, "percentiles from a reservoir", None, 1.0) not in self._metrics:
            self._metrics.append((OVERALL, "percentiles from a reservoir", None, 1.0))
        for name, number, unit in values:
            value = float(number)
            shown = unit or (("ms" if reservoir else "us") if name == "SD" else None)
            if self._user is not None:
                self._metrics.append((OVERALL, f"virtual user {self._user}: {procedure} {name}", shown, value))
                if name == "CALLS":
                    self._calls[procedure] = self._calls.get(procedure, 0.0) + value
            elif name == "CALLS" and self._calls.get(procedure, value) != value:
                self._metrics.append((procedure, "CALLS as summed by HammerDB", None, value))
            elif name != "CALLS" or procedure not in self._calls:
                self._metrics.append((procedure, name, shown, value))

    def _summed(self) -> list[tuple[str, str, str | None, float]]:
        return [(procedure, "CALLS", None, calls) for procedure, calls in self._calls.items()]

    def _series(self, counter: pl.DataFrame) -> pl.DataFrame:
        table = TABLES["client_series"].parsed()
        if counter.is_empty():
            return table.empty()
        rows = counter.select(part=pl.col("text").str.extract_groups(_KINDS["counter"])).unnest("part")
        # Only UTC is a zone whose abbreviation means one thing.
        utc = pl.col("3").str.extract(r"^... (... .. [0-9:]{8}) (?:UTC|GMT) [0-9]{4}$")
        stamp = pl.concat_str(utc, pl.col("3").str.extract(r"([0-9]{4})$"), separator=" ")
        time = stamp.str.to_datetime("%b %e %H:%M:%S %Y", time_unit="ms", strict=False).dt.replace_time_zone("UTC")
        timed = rows.select(throughput_ops_s=pl.col("1").cast(pl.Float64) / _S_PER_MIN, log_time=time.cast(TIME.polars))
        seconds = timed["log_time"].dt.epoch("ms") / 1000
        if self._start is None and seconds.drop_nulls().len():
            self._start = float(seconds.drop_nulls()[0])
        since = seconds - (self._start or 0.0)
        return table.conform(timed.with_columns(elapsed_s=since))

    def _client(self) -> pl.DataFrame:
        nopm_tpm = self._results[-1] if self._results else None
        minutes = self._facts.get("Timing test period of")
        facts = {
            "tool": "HammerDB",
            "throughput_ops_s": None if nopm_tpm is None else nopm_tpm[1] / _S_PER_MIN,
            "runtime_ms": minutes * _MS_PER_MIN if nopm_tpm is not None and minutes else None,
            "threads": count_of(self._facts.get("users"), MAX_CLIENTS),
            "time_limit_s": None if minutes is None else minutes * _S_PER_MIN,
            "script": "TPROC-C",
            "completed": nopm_tpm is not None,
        }
        return TABLES["clients"].parsed().conform(pl.DataFrame({name: [fact] for name, fact in facts.items()}))


FORMAT: Final = Hammerdb()
