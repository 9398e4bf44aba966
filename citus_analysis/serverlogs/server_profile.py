"""The profile of one or more PostgreSQL servers, from their logs alone.

Statements are executions: the parse, bind and execute records of one execution are one statement, whose duration is
their sum. A statement that a Citus node executed for another node is listed separately, because its time is part of the
sender's. docs/server-logs.md compares this with pgBadger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.serverlogs.activity_tables import read_autovacuum, read_lock_waits, read_temp_files
from citus_analysis.serverlogs.error_tables import SEVERITIES_SHOWN, read_errors, read_severe, summarise_errors
from citus_analysis.serverlogs.log_window import LogSource, LogWindow, WindowedLogs
from citus_analysis.serverlogs.session_tables import read_connections
from citus_analysis.serverlogs.statement_records import CLIENT, read_statements
from citus_analysis.serverlogs.statement_tables import (
    INTERVALS,
    interval_of,
    over_time,
    percentile_intervals,
    slowest,
    summarise_statements,
)
from citus_analysis.serverlogs.statement_texts import failed_records, naming_records, opening_records, read_texts
from citus_analysis.serverlogs.understood_logs import coverage_notes, log_coverage, unread_words
from citus_analysis.spans.analyse.coarse import coarse_profile
from citus_analysis.spans.analyse.unplaced_statements import unplaced_statements
from citus_analysis.texts.counted_words import counted
from citus_analysis.units import US_PER_MS, US_PER_S

#: Columns by which statements are summarised, besides their fingerprint.
GROUPS: Final = ("statement_kind", "database", "user", "application", "client_host", "node")
#: Columns that identify a group of equal statements, and the number of groups with intervals of percentiles.
_NAMED: Final = ("sent_by", "statement_kind", "fingerprint")
_WITH_INTERVALS: Final = 12
#: Units of the intervals over time, in seconds.
_LENGTHS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_PLACE: Final = ["source_id", "byte_offset"]


@dataclass(frozen=True, repr=False)
class ServerProfile(Shown):
    """The profile of server logs within a window.

    Attributes:
        window: the choice of logs and of time.
        sources: the logs: `path`, `resource`, `format`, `bytes`, `records`, `first_time`, `last_time`.
        records: number of records by `severity` and `kind`.
        coverage: what was understood of each log (see `citus_analysis.serverlogs.understood_logs`).
        statements: executions, one row each: see :func:`citus_analysis.serverlogs.read_statements`.
        by_fingerprint: per `sent_by`, `statement_kind` and `fingerprint`: count, times, share, percentiles (see
            :func:`citus_analysis.serverlogs.summarise_statements`) and `text`, the statement without constants; the
            largest total first. Only the number of rows that was asked for has a text.
        percentiles: percentiles of the first of these with intervals (see
            :func:`citus_analysis.serverlogs.percentile_intervals`), and `text`.
        by_group: column of :data:`GROUPS` -> the same for each of its values, for statements that clients sent (or, if
            the logs contain none, that other nodes sent).
        over_time: statements per interval.
        slowest: the longest single statements with `text` (as logged, secrets redacted) and the place of their record.
        connections: one row per record about a connection.
        severe: kinds of records that say that a server is in danger or refuses its service (see
            :func:`citus_analysis.serverlogs.read_severe`).
        errors: one row per record of severity WARNING or worse, and `error_groups` by message with an example.
        error_groups: see `errors`.
        lock_waits: one row per record of a lock wait.
        checkpoints: the table `checkpoints` of the window.
        autovacuum: vacuums and analyzes by table.
        temp_files: one row per temporary file.
        distributed: mean and percentiles of T, P, W, C and L of statements in which other nodes took part; empty if
            there are none (`citus_analysis.spans.coarse_profile`).
        interval_s: length of the intervals of `over_time`.
        method: the definition of a statement and of its duration.
        warnings: limitations that a reader must know.
    """

    window: LogWindow
    sources: pl.DataFrame
    records: pl.DataFrame
    coverage: pl.DataFrame
    statements: pl.DataFrame = field(repr=False)
    by_fingerprint: pl.DataFrame
    percentiles: pl.DataFrame = field(repr=False)
    by_group: dict[str, pl.DataFrame] = field(repr=False)
    over_time: pl.DataFrame = field(repr=False)
    slowest: pl.DataFrame = field(repr=False)
    connections: pl.DataFrame = field(repr=False)
    severe: pl.DataFrame = field(repr=False)
    errors: pl.DataFrame = field(repr=False)
    error_groups: pl.DataFrame = field(repr=False)
    lock_waits: pl.DataFrame = field(repr=False)
    checkpoints: pl.DataFrame = field(repr=False)
    autovacuum: pl.DataFrame = field(repr=False)
    temp_files: pl.DataFrame = field(repr=False)
    distributed: pl.DataFrame = field(repr=False)
    interval_s: int
    method: str
    warnings: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of log records."""
        return int(self.records["records"].sum())

    @property
    def interval(self) -> str:
        """Length of the intervals over time, as polars has it."""
        return INTERVALS[self.interval_s]

    @property
    def interval_words(self) -> str:
        """Length of the intervals over time in words, such as "10 minutes"."""
        length, unit = next((length, unit) for length, unit in _LENGTHS if not self.interval_s % length)
        return counted(self.interval_s // length, unit)

    @property
    def begin(self) -> datetime | None:
        """Time of the first record; None if no time is known."""
        first = self.sources["first_time"].min()
        return first if isinstance(first, datetime) else None

    @property
    def end(self) -> datetime | None:
        """Time of the last record; None if no time is known."""
        last = self.sources["last_time"].max()
        return last if isinstance(last, datetime) else None

    def of(self, *kinds: str) -> int:
        """Number of records of these kinds."""
        return int(self.records.filter(pl.col("kind").cast(pl.String).is_in(kinds))["records"].sum())

    def overview(self) -> pl.DataFrame:
        """Overall counts: `what`, `count`, `total_s` (null for counts without a time)."""
        return pl.DataFrame([*_log_counts(self), *_event_counts(self)], schema=_OVERVIEW, orient="row")

    def summary_lines(self) -> list[str]:
        """Counts, and the statements with the largest total time."""
        top = self.by_fingerprint.head(3).select("text", "statements", "total_s", "mean_ms").iter_rows()
        return [
            f"{counted(self.n, 'record')} of {counted(self.sources.height, 'server log')}, {self.window.label}",
            *(f"  {what}: {count}" for what, count, _ in self.overview().iter_rows()),
            *(f"  {n} times, {total:.3g} s, mean {mean or 0:.3g} ms: {text}" for text, n, total, mean in top),
        ]

    def summary_table(self) -> pl.DataFrame:
        """The overall counts."""
        return self.overview()


_OVERVIEW: Final = {"what": pl.String(), "count": pl.Int64(), "total_s": pl.Float64()}
_Counted = tuple[str, int, float | None]
_METHOD: Final = (
    "a statement is one execution; its duration is the sum of its parse, bind and execute phases, as logged; failed "
    "statements have no duration; percentiles are interpolated between order statistics, and left out where fewer than "
    "one value lies beyond them"
)


def server_profile(
    dataset: LogSource,
    *,
    since: str = "",
    until: str = "",
    resources: str = "*",
    logs: str = "*",
    interval_s: int = 0,
    texts: int = 50,
    longest: int = 20,
    level: float = LEVEL,
) -> ServerProfile:
    """Profile PostgreSQL servers from their logs.

    Args:
        dataset: a dataset with server logs of any format.
        since: ISO 8601, UTC if it names no zone; empty: from the beginning.
        until: likewise; empty: to the end.
        resources: glob patterns of resources, separated by commas.
        logs: glob patterns of the logs' paths in the dataset, separated by commas.
        interval_s: length of the intervals over time, one of 1, 10, 60, 600, 3600, 21600, 86400 ... s; 0: chosen by
            the time covered.
        texts: number of fingerprints whose text is read back from the raw files.
        longest: number of single statements listed.
        level: confidence level of the intervals of percentiles.

    Raises:
        InsufficientDataError: no server logs, or none of their records in the window.
        UnknownNameError: a pattern matches nothing.
        UsageError: a text is not a time.

    Example::

        profile = ca.server_profile(ds, since="2026-03-01 10:00", until="2026-03-01 11:00")
        profile.by_fingerprint.select("text", "statements", "total_s", "p95_ms")
    """
    window = LogWindow.between(since, until, resources=resources, logs=logs)
    chosen = WindowedLogs.of(dataset, window)
    return profile_logs(chosen, interval_s=interval_s, texts=texts, longest=longest, level=level)


def profile_logs(
    logs: WindowedLogs, *, interval_s: int = 0, texts: int = 50, longest: int = 20, level: float = LEVEL
) -> ServerProfile:
    """:func:`server_profile` of chosen logs.

    Raises:
        InsufficientDataError: no record in the window.
    """
    sources, records = _counts(logs)
    if not records["records"].sum():
        raise InsufficientDataError(f"no record of a server log is within {logs.window.label}")
    statements = read_statements(logs)
    errors = read_errors(logs)
    coverage = log_coverage(logs, statements)
    length = interval_s or interval_of(pl.concat([sources["first_time"], sources["last_time"]]).drop_nulls())
    by_fingerprint = summarise_statements(statements, _NAMED)
    found = ServerProfile(
        window=logs.window,
        sources=sources,
        records=records,
        coverage=coverage,
        statements=statements,
        by_fingerprint=by_fingerprint,
        percentiles=percentile_intervals(statements, by_fingerprint.select(_NAMED).head(_WITH_INTERVALS), level=level),
        by_group={name: summarise_statements(_main(statements), [name]) for name in GROUPS},
        over_time=over_time(statements, length),
        slowest=slowest(_main(statements), longest),
        connections=read_connections(logs),
        severe=read_severe(logs),
        errors=errors,
        error_groups=summarise_errors(errors),
        lock_waits=read_lock_waits(logs),
        checkpoints=logs.scan("checkpoints", "end_time").collect().sort("end_time"),
        autovacuum=read_autovacuum(logs),
        temp_files=read_temp_files(logs),
        distributed=_distributed(logs),
        interval_s=length,
        method=_METHOD,
        warnings=(*_warnings(sources, statements, coverage), *unplaced_statements(logs.scan("statements", "end_time"))),
    )
    return _with_texts(found, logs, texts)


def _log_counts(profile: ServerProfile) -> Iterator[_Counted]:
    yield "log records", profile.n, None
    for (sent_by,), part in profile.statements.group_by("sent_by", maintain_order=True):
        yield f"statements sent by {sent_by}", part.height, float(part["duration_us"].sum()) / US_PER_S
        yield f"statements sent by {sent_by} that failed", int(part["failed"].sum()), None
        untimed = int(part.select((pl.col("duration_us").is_null() & ~pl.col("failed")).sum()).item())
        yield f"statements sent by {sent_by} without a logged duration", untimed, None
    yield "distinct statements", profile.by_fingerprint["fingerprint"].n_unique(), None


def _event_counts(profile: ServerProfile) -> Iterator[_Counted]:
    steps, severities = profile.connections["what"].cast(pl.String), profile.errors["severity"]
    yield "connections received", int((steps == "received").sum()), None
    yield "connections authorized", int((steps == "authorized").sum()), None
    yield "sessions ended", int((steps == "ended").sum()), float(profile.connections["session_s"].sum())
    for severity in SEVERITIES_SHOWN:
        yield f"records of severity {severity}", int((severities == severity).sum()), None
    yield "deadlocks", int(profile.errors["deadlock"].sum()), None
    yield "lock waits", int((profile.lock_waits["event"] == "waiting").sum()), None
    yield "checkpoints completed", profile.checkpoints.height, float(profile.checkpoints["total_s"].sum())
    for what in ("vacuums", "analyzes"):
        yield f"automatic {what}", int(profile.autovacuum[what].sum()), None
    yield "temporary files", profile.temp_files.height, None


def _main(statements: pl.DataFrame) -> pl.DataFrame:
    """The statements of clients; if there are none, those of other nodes."""
    sent_by = statements["sent_by"]
    return statements.filter(sent_by == CLIENT) if (sent_by == CLIENT).any() else statements


def _counts(logs: WindowedLogs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The logs with the number and time of their records, and the records by severity and kind."""
    table = (
        logs.scan("log_events", "log_time")
        .group_by("source_id", "severity", "kind", maintain_order=True)
        .agg(
            records=pl.len().cast(pl.Int64),
            first_time=pl.col("log_time").min(),
            last_time=pl.col("log_time").max(),
            untimed=pl.col("log_time").null_count().cast(pl.Int64),
        )
        .collect(engine="streaming")
        .with_columns(pl.col("source_id").cast(pl.String))
    )
    per_source = table.group_by("source_id", maintain_order=True).agg(
        pl.col("records").sum(), pl.col("first_time").min(), pl.col("last_time").max(), pl.col("untimed").sum()
    )
    sources = logs.sources.join(per_source, on="source_id", how="left").with_columns(
        pl.col("records", "untimed").fill_null(0)
    )
    kinds = table.group_by("severity", "kind", maintain_order=True).agg(pl.col("records").sum())
    return sources.sort("resource", "path"), kinds.sort("records", "severity", "kind", descending=[True, False, False])


def _distributed(logs: WindowedLogs) -> pl.DataFrame:
    """The profile of statements in which other nodes took part, by kind and place."""
    remote = pl.col("executed").is_in(["remote", "multi_shard"])
    of_parents = logs.scan("statements", "end_time").filter(pl.col("executed").is_not_null())
    if not of_parents.select(remote.any()).collect(engine="streaming").item():
        of_parents = of_parents.limit(0)
    return coarse_profile(of_parents.collect(engine="streaming"))


def _with_texts(profile: ServerProfile, logs: WindowedLogs, most: int) -> ServerProfile:
    """The profile with the texts of its statements, each raw file read once."""
    top = pl.concat([profile.by_fingerprint["fingerprint"].head(most), profile.temp_files["fingerprint"].head(most)])
    openers, single = opening_records(logs, top.drop_nulls().unique()), naming_records(logs, profile.slowest)
    failed = failed_records(logs, profile.error_groups.head(most))
    records = pl.concat(frame.select(*_PLACE, "byte_length") for frame in (openers, single, failed))
    texts, paths = read_texts(logs, records), logs.sources.select("source_id", "path")

    def placed(table: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
        known = table.join(logged, on=_PLACE, how="left", maintain_order="left")
        return known.join(paths, on="source_id", how="left", maintain_order="left")

    named = texts.join(openers, "text", constants=False).select("fingerprint", "text")
    slowest_texts = texts.join(single, "text").select("source_id", "text", byte_offset="closes")
    failed_texts = texts.join(failed, "statement", constants=False).select(
        "source_id", "statement", byte_offset="error_offset"
    )
    return replace(
        profile,
        by_fingerprint=profile.by_fingerprint.join(named, on="fingerprint", how="left", maintain_order="left"),
        percentiles=profile.percentiles.join(named, on="fingerprint", how="left", maintain_order="left"),
        temp_files=profile.temp_files.join(named, on="fingerprint", how="left", maintain_order="left"),
        slowest=placed(profile.slowest, slowest_texts).with_columns(duration_ms=pl.col("duration_us") / US_PER_MS),
        error_groups=placed(profile.error_groups, failed_texts),
        warnings=(*profile.warnings, *texts.warnings),
    )


def _warnings(sources: pl.DataFrame, statements: pl.DataFrame, coverage: pl.DataFrame) -> list[str]:
    notes = coverage_notes(coverage)
    untimed = int(sources["untimed"].sum())
    if untimed:
        notes.append(f"The time of {counted(untimed, 'record')} is not known: they are in no window and in no figure.")
    if statements["pid"].null_count():
        alone = counted(statements["pid"].null_count(), "statement")
        notes.append(
            f"The session of {alone} is not known (log_line_prefix without %p and %c): each bind and each execution in "
            "these logs counts as a statement, and none has the time of its other phases."
        )
    timeless = statements.height and not statements["duration_us"].count()
    if timeless and unread_words(coverage, of_durations=True) is None:
        notes.append(
            "No duration is in these logs: set log_min_duration_statement, or log_duration with log_statement, on the "
            "servers."
        )
    return notes
