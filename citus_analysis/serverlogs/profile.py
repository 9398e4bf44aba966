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

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.formats.parsing.log_coverage import ENGLISH, FOREIGN, LogCoverage
from citus_analysis.schema import SEVERE_KINDS
from citus_analysis.serverlogs.statements import (
    CLIENT,
    INTERVALS,
    choose_time_interval,
    count_statements_over_time,
    estimate_percentile_intervals,
    find_failed_records,
    find_naming_records,
    find_opening_records,
    read_statements,
    read_texts,
    select_slowest_statements,
    summarise_statements,
)
from citus_analysis.serverlogs.windows import LogSource, LogWindow, WindowedLogs
from citus_analysis.spans.coarse import coarse_profile
from citus_analysis.spans.tail import make_autovacuum_seconds_expr
from citus_analysis.spans.unplaced_statements import describe_unplaced_statements
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

# Lock waits, autovacuum and temporary files, from the messages of server logs.

#: `process 12 still waiting for ShareLock on transaction 9 after 1000.1 ms`, `process 12 acquired ShareLock on ...`
_LOCK: Final = r"^process \d+ .*?(?P<mode>\w+Lock) on (?P<target>[a-z][a-z ]*[a-z])(?: [0-9(\[]|\b)"


def read_lock_waits(logs: WindowedLogs) -> pl.DataFrame:
    """One row per record of `log_lock_waits`.

    Returns:
        `source_id`, `byte_offset`, `node`, `log_time`, `pid`, `user`, `database`, `application`, `event` (waiting,
        acquired, deadlock), `lock_mode`, `target` (transaction, relation, tuple ...), `waited_s` and `message`.
    """
    message = pl.col("message")
    groups = message.str.extract_groups(_LOCK)
    event = pl.coalesce(
        pl.when(message.str.contains(r"^process \d+ acquired ")).then(pl.lit("acquired")),
        pl.when(message.str.contains("deadlock")).then(pl.lit("deadlock")),
        pl.lit("waiting"),
    )
    rows = logs.scan("log_events", "log_time").filter(pl.col("kind") == "lock_wait")
    return rows.select(
        *("source_id", "byte_offset", "node", "log_time", "pid"),
        pl.col("user", "database", "application").cast(pl.String),
        event=event,
        lock_mode=groups.struct.field("mode"),
        target=groups.struct.field("target"),
        waited_s=pl.col("duration_us") / US_PER_S,
        message="message",
    ).collect(engine="streaming")


def summarise_lock_waits(waits: pl.DataFrame) -> pl.DataFrame:
    """Lock waits by mode and target.

    A wait is logged once after `deadlock_timeout` (`waiting`), and again when the lock is acquired, with the whole time
    waited. A wait that was given up has only the first record, so its time is not known.

    Args:
        waits: result of :func:`read_lock_waits`.

    Returns:
        `lock_mode`, `target`, `waits`, `acquired`, `deadlocks`, and `total_s`, `mean_s` and `max_s` of the waits for
        acquired locks.
    """
    acquired = pl.col("event") == "acquired"
    time = pl.col("waited_s").filter(acquired)
    table = waits.group_by("lock_mode", "target", maintain_order=True).agg(
        (pl.col("event") == "waiting").sum().alias("waits"),
        acquired.sum().alias("acquired"),
        (pl.col("event") == "deadlock").sum().alias("deadlocks"),
        time.sum().alias("total_s"),
        time.mean().alias("mean_s"),
        time.max().alias("max_s"),
    )
    return table.sort("total_s", "waits", "lock_mode", "target", descending=[True, True, False, False])


def read_autovacuum(logs: WindowedLogs) -> pl.DataFrame:
    """Autovacuum's work by table.

    Returns:
        `relation`, `vacuums`, `analyzes`, `elapsed_s` (null if no record states it within its first 500 characters),
        `longest_s`, `tuples_removed` and `pages_removed`, the most work first.
    """
    message = pl.col("message")
    number = {
        "elapsed_s": make_autovacuum_seconds_expr(),
        "tuples_removed": message.str.extract(r"tuples: (\d+) removed", 1).cast(pl.Int64),
        "pages_removed": message.str.extract(r"pages: (\d+) removed", 1).cast(pl.Int64),
    }
    rows = (
        logs.scan("log_events", "log_time")
        .filter(pl.col("kind") == "autovacuum")
        .select(
            relation=message.str.extract(r'(?:of table|for table) "([^"]+)"', 1),
            vacuum=message.str.contains(r"^automatic (?:aggressive )?vacuum "),
            analyze=message.str.starts_with("automatic analyze "),
            **number,
        )
        .collect(engine="streaming")
    )
    return (
        rows.group_by("relation", maintain_order=True)
        .agg(
            pl.col("vacuum").sum().alias("vacuums"),
            pl.col("analyze").sum().alias("analyzes"),
            pl.when(pl.col("elapsed_s").count() > 0).then(pl.col("elapsed_s").sum()).alias("elapsed_s"),
            pl.col("elapsed_s").max().alias("longest_s"),
            pl.col("tuples_removed", "pages_removed").sum(),
        )
        .sort("elapsed_s", "vacuums", "relation", descending=[True, True, False], nulls_last=True)
    )


def read_temp_files(logs: WindowedLogs) -> pl.DataFrame:
    """One row per temporary file.

    Returns:
        `source_id`, `byte_offset`, `node`, `log_time`, `user`, `database`, `application`, `size_bytes`, and the
        `fingerprint` of the statement, if the log names it (`STATEMENT:`).
    """
    events = logs.scan("log_events", "log_time")
    named = events.filter(pl.col("kind") == "detail", pl.col("statement_fingerprint").is_not_null()).select(
        "source_id", byte_offset="record_byte_offset", fingerprint="statement_fingerprint"
    )
    files = events.filter(pl.col("kind") == "temp_file").select(
        *("source_id", "byte_offset", "node", "log_time"),
        pl.col("user", "database", "application").cast(pl.String),
        size_bytes=pl.col("message").str.extract(r"size (\d+)", 1).cast(pl.Int64),
    )
    known = files.join(named, on=["source_id", "byte_offset"], how="left").collect(engine="streaming")
    return known.unique(["source_id", "byte_offset"], keep="first").sort("log_time", "byte_offset")


# Warnings, errors and deadlocks of server logs, by severity, SQLSTATE and message.

#: Severities that count as an error or a warning, the worst first.
SEVERITIES_SHOWN: Final = ("PANIC", "FATAL", "ERROR", "WARNING")
#: SQLSTATE, or message, of a transaction that was cancelled to resolve a deadlock; Citus has a message of its own.
_DEADLOCK: Final = r"^(?:40P01: )?deadlock detected|distributed deadlock"
#: The SQLSTATE that `log_error_verbosity = verbose` writes before a message.
_STATE: Final = r"^([0-9A-Z]{5}): "
#: Parts in which messages of the same cause differ: texts in quotes, numbers.
_VARYING: Final = ((r'"[^"]*"', '"?"'), (r"'[^']*'", "'?'"), (r"\b\d+(?:[.:/-]\d+)*\b", "?"), (r"\s+", " "))


def read_errors(logs: WindowedLogs) -> pl.DataFrame:
    """One row per record of severity WARNING or worse.

    Returns:
        `source_id`, `byte_offset`, `byte_length`, `node`, `log_time`, `severity`, `sqlstate`, `user`, `database`,
        `application`, `message` (redacted, at most 500 characters), `normalised` (without values) and `deadlock`.
    """
    message = pl.col("message")
    normalised = message.str.replace(_STATE, "")
    state = pl.coalesce(pl.col("sqlstate").cast(pl.String), message.str.extract(_STATE, 1))
    for pattern, replacement in _VARYING:
        normalised = normalised.str.replace_all(pattern, replacement)
    rows = logs.scan("log_events", "log_time").filter(pl.col("severity").cast(pl.String).is_in(SEVERITIES_SHOWN))
    return rows.select(
        *("source_id", "byte_offset", "byte_length", "node", "log_time"),
        pl.col("severity", "user", "database", "application").cast(pl.String),
        "message",
        sqlstate=state,
        normalised=normalised.str.strip_chars(),
        deadlock=(state == "40P01").fill_null(value=False) | message.str.contains(_DEADLOCK).fill_null(value=False),
    ).collect(engine="streaming")


def read_severe(logs: WindowedLogs) -> pl.DataFrame:
    """Records that say that a server is in danger or refuses its service, the worst kind first.

    Returns:
        `kind` (of :data:`citus_analysis.schema.SEVERE_KINDS`), `sqlstate` of the kind, `records`, `first_time`,
        `last_time` and `example`, a message as logged.
    """
    order = pl.Enum(list(SEVERE_KINDS))
    rows = logs.scan("log_events", "log_time").filter(pl.col("kind").cast(pl.String).is_in(list(SEVERE_KINDS)))
    found = rows.select(
        pl.col("kind").cast(pl.String).cast(order), *("log_time", "source_id", "byte_offset", "message")
    ).sort("source_id", "byte_offset")
    table = found.group_by("kind", maintain_order=True).agg(
        records=pl.len().cast(pl.Int64),
        first_time=pl.col("log_time").min(),
        last_time=pl.col("log_time").max(),
        example=pl.col("message").first(),
    )
    state = pl.col("kind").cast(pl.String).replace_strict(dict(SEVERE_KINDS), return_dtype=pl.String)
    columns = ("kind", "sqlstate", "records", "first_time", "last_time", "example")
    return table.sort("kind").with_columns(sqlstate=state).select(columns).collect()


def summarise_errors(errors: pl.DataFrame) -> pl.DataFrame:
    """Errors by severity, SQLSTATE and message without values, the most frequent first.

    Args:
        errors: result of :func:`read_errors`.

    Returns:
        `severity`, `sqlstate`, `normalised`, `count`, `users`, `databases`, `first_time`, `last_time`, `example` (a
        message as logged) and its `source_id` and `byte_offset`.

    Example:
        >>> row = {"source_id": "a", "severity": "ERROR", "sqlstate": "42P01", "user": "u", "database": "d"}
        >>> words = [f'relation "{name}" does not exist' for name in ("x", "y")]
        >>> same = {"normalised": 'relation "?" does not exist', "log_time": None}
        >>> rows = [row | same | {"message": text, "byte_offset": 10} for text in words]
        >>> summarise_errors(pl.DataFrame(rows)).select("sqlstate", "normalised", "count").rows()
        [('42P01', 'relation "?" does not exist', 2)]
    """
    table = errors.group_by("severity", "sqlstate", "normalised", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("user").n_unique().alias("users"),
        pl.col("database").n_unique().alias("databases"),
        pl.col("log_time").min().alias("first_time"),
        pl.col("log_time").max().alias("last_time"),
        pl.col("message").first().alias("example"),
        pl.col("source_id", "byte_offset").first(),
    )
    worst = pl.col("severity").cast(pl.Enum(SEVERITIES_SHOWN))
    return table.sort("count", worst, "normalised", descending=[True, False, False], nulls_last=True)


def count_errors_over_time(errors: pl.DataFrame, interval: str) -> pl.DataFrame:
    """Errors per interval of time: `time`, `severity`, `errors`.

    Args:
        errors: result of :func:`read_errors`.
        interval: length of an interval, as polars writes it.
    """
    parts = errors.drop_nulls("log_time").with_columns(time=pl.col("log_time").dt.truncate(interval))
    return parts.group_by("time", "severity", maintain_order=True).agg(errors=pl.len()).sort("time", "severity")


# Connections and sessions, from the messages of `log_connections` and `log_disconnections`.

#: Value of `what` -> beginning of its message.
_STEPS: Final = {
    "received": r"^connection received: ",
    "authenticated": r"^connection authenticated: ",
    "authorized": r"^(?:replication )?connection authorized: ",
    "ready": r"^connection ready: ",
    "ended": r"^disconnection: ",
}
_SESSION_TIME: Final = r"session time: (\d+):(\d+):(\d+(?:\.\d+)?)"


def read_connections(logs: WindowedLogs) -> pl.DataFrame:
    """One row per record about a connection.

    Returns:
        `log_time`, `node`, `what` (received, authenticated, authorized, ready, ended), `user`, `database`,
        `application`, `client_host` (from the message, else from the prefix) and `session_s`, the length of an ended
        session.
    """
    message = pl.col("message")
    what = pl.coalesce(
        pl.when(message.str.contains(pattern)).then(pl.lit(name)) for name, pattern in _STEPS.items()
    ).cast(pl.Enum(list(_STEPS)))
    hours, minutes, seconds = (message.str.extract(_SESSION_TIME, group).cast(pl.Float64) for group in (1, 2, 3))
    rows = logs.scan("log_events", "log_time").filter(pl.col("kind") == "connection")
    return (
        rows.select(
            "log_time",
            "node",
            what=what,
            user=_make_named_value_expr("user", r"\buser=(.*?)(?: database=| application_name=| host=| SSL | \(|$)"),
            database=_make_named_value_expr("database", r"\bdatabase=(.*?)(?: application_name=| host=| SSL | \(|$)"),
            application=_make_named_value_expr("application", r"\bapplication_name=(.*?)(?: SSL | \(|$)"),
            client_host=_make_named_value_expr("client_host", r"\bhost=(\S+)"),
            session_s=3600 * hours + 60 * minutes + seconds,
        )
        .collect(engine="streaming")
        .sort("log_time")
    )


def summarise_sessions(connections: pl.DataFrame) -> pl.DataFrame:
    """Connections and sessions by user, database and client.

    Args:
        connections: result of :func:`read_connections`.

    Returns:
        `user`, `database`, `client_host`, `authorized` (connections that began), `sessions` (that ended), and the
        `total_s`, `mean_s` and `max_s` of sessions; the most connections first. Connections that were only received
        are not counted, because their user is not known.
    """
    group = ["user", "database", "client_host"]
    known = connections.filter(pl.col("what").cast(pl.String).is_in(["authorized", "ended"]))
    table = known.group_by(group, maintain_order=True).agg(
        (pl.col("what") == "authorized").sum().alias("authorized"),
        (pl.col("what") == "ended").sum().alias("sessions"),
        pl.col("session_s").sum().alias("total_s"),
        pl.col("session_s").mean().alias("mean_s"),
        pl.col("session_s").max().alias("max_s"),
    )
    order = ["authorized", "sessions", *group]
    return table.sort(order, descending=[True, True, False, False, False], nulls_last=True)


def count_connections_over_time(connections: pl.DataFrame, interval: str) -> pl.DataFrame:
    """Connections per interval of time: `time`, `what`, `connections`.

    Args:
        connections: result of :func:`read_connections`.
        interval: length of an interval, as polars writes it.
    """
    parts = connections.drop_nulls(["log_time", "what"]).with_columns(time=pl.col("log_time").dt.truncate(interval))
    return parts.group_by("time", pl.col("what").cast(pl.String)).agg(connections=pl.len()).sort("time", "what")


def _make_named_value_expr(column: str, pattern: str) -> pl.Expr:
    """A value from the message, else from the prefix, which has `[unknown]` while a session begins."""
    prefix = pl.col(column).cast(pl.String)
    return pl.coalesce(pl.col("message").str.extract(pattern, 1), pl.when(prefix != "[unknown]").then(prefix))


# How much of each server log a profile rests on: what was not understood must be said, not assumed to be absent.

#: Most logs with a warning of their own.
_NAMED_LOGS: Final = 3
#: A duration of a statement about which a server says what is not known is of kind `other`.
_TIMED: Final = ("duration", "parse", "bind", "other")
_LOG_PLACE: Final = ("source_id", "byte_offset")
#: Columns of statements whose presence is shown -> columns of the result.
_FACTS: Final = {"end_time": "with_time", "user": "with_user", "client_host": "with_client"}
_COUNTS: Final = (
    *("records", "logged", "unknown", "durations", "placed", "alone", "rejected", "statements"),
    *_FACTS.values(),
)


def log_coverage(logs: WindowedLogs, statements: pl.DataFrame) -> pl.DataFrame:
    """What was understood of each log.

    Args:
        logs: the logs.
        statements: their statements, as of :func:`citus_analysis.serverlogs.read_statements`.

    Returns:
        Per log `path`; numbers of `records`, of those of severity LOG (`logged`), of those among them that are
        `unknown` and the `first_unknown`; of `durations`, of those that are `placed` in a statement, and of those that
        are `alone`, without a session; of parts that were `rejected`; of `statements`, and of those `with_time`,
        `with_user` and `with_client`.
    """
    events = logs.scan("log_events", "log_time")
    unknown = pl.col("message").str.contains(FOREIGN) | ~pl.col("message").str.contains(ENGLISH)
    is_log = pl.col("severity") == "LOG"
    others = events.filter(is_log & (pl.col("kind") == "other")).select(*_LOG_PLACE, "message").filter(unknown)
    timed = pl.col("kind").cast(pl.String).is_in(_TIMED) & pl.col("duration_us").is_not_null()
    durations = events.filter(timed).select(*_LOG_PLACE, "pid")
    spans = logs.dataset.scan("spans").select(_LOG_PLACE)
    counts = (
        _count_records_per_log(events, records=pl.len(), logged=is_log.sum()),
        _count_records_per_log(others.sort("byte_offset"), unknown=pl.len(), first_unknown=pl.col("message").first()),
        _count_records_per_log(durations, durations=pl.len(), alone=pl.col("pid").null_count()),
        _count_records_per_log(
            _convert_ids_to_text(durations).join(_convert_ids_to_text(spans), on=_LOG_PLACE, how="semi"),
            placed=pl.len(),
        ),
        _count_records_per_log(logs.dataset.scan("rejects"), rejected=pl.len()),
        _count_records_per_log(
            statements.lazy(), statements=pl.len(), **{new: pl.col(old).count() for old, new in _FACTS.items()}
        ),
    )
    found = logs.sources.select("source_id", "path")
    for table in counts:
        found = found.join(table, on="source_id", how="left", maintain_order="left")
    return found.drop("source_id").with_columns(pl.col(_COUNTS).fill_null(0).cast(pl.Int64))


def _convert_ids_to_text(rows: pl.LazyFrame) -> pl.LazyFrame:
    # Tables store the identifiers in different types.
    return rows.with_columns(pl.col("source_id").cast(pl.String))


def _count_records_per_log(rows: pl.LazyFrame, **counts: pl.Expr) -> pl.DataFrame:
    return _convert_ids_to_text(rows).group_by("source_id").agg(**counts).collect(engine="streaming")


def write_coverage_notes(coverage: pl.DataFrame) -> list[str]:
    """A warning for each log of which much was not understood: share, first unknown record, reason and remedy.

    Several logs are named together, with the sums of their counts.
    """
    found: list[tuple[str, LogCoverage]] = []
    for row in coverage.iter_rows(named=True):
        counts = {name: row[name] for name in ("records", "logged", "unknown", "durations", "alone", "first_unknown")}
        known = LogCoverage(**counts, astray=row["durations"] - row["placed"])
        if known.notes():
            found.append((row["path"], known))
    if len(found) <= _NAMED_LOGS:
        return [f"{path}: {note}." for path, known in found for note in known.notes()]
    together = sum((known for _, known in found), start=LogCoverage())
    return [f"{pluralize(len(found), 'log')}, such as {found[0][0]}: {note}." for note in together.notes()]


def describe_unread_logs(coverage: pl.DataFrame, *, of_durations: bool = False) -> str | None:
    """What could not be read of the logs, in words; None if all was.

    Args:
        coverage: as of :func:`log_coverage`.
        of_durations: whether durations that belong to no statement count, too.
    """
    totals = {name: int(coverage[name].sum()) for name in ("unknown", "rejected", "durations", "placed")}
    lost = totals["durations"] - totals["placed"] if of_durations else 0
    parts = {
        f"{totals['unknown']:,} of the LOG records": totals["unknown"],
        pluralize(totals["rejected"], "rejected part"): totals["rejected"],
        f"{lost:,} of {pluralize(totals['durations'], 'duration')}": lost,
    }
    shown = [words for words, number in parts.items() if number]
    return join_words(shown) if shown else None


#: Columns by which statements are summarised, besides their fingerprint.
GROUPS: Final = ("statement_kind", "database", "user", "application", "client_host", "node")
#: Columns that identify a group of equal statements, and the number of groups with intervals of percentiles.
_NAMED: Final = ("sent_by", "statement_kind", "fingerprint")
_WITH_INTERVALS: Final = 12
#: Units of the intervals over time, in seconds.
_LENGTHS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_PLACE: Final = ["source_id", "byte_offset"]


@dataclass(frozen=True, repr=False)
class ServerProfile(DisplayMixin):
    """The profile of server logs within a window.

    Attributes:
        window: the choice of logs and of time.
        sources: the logs: `path`, `resource`, `format`, `bytes`, `records`, `first_time`, `last_time`.
        records: number of records by `severity` and `kind`.
        coverage: what was understood of each log (see `citus_analysis.serverlogs.profile`).
        statements: executions, one row each: see :func:`citus_analysis.serverlogs.read_statements`.
        by_fingerprint: per `sent_by`, `statement_kind` and `fingerprint`: count, times, share, percentiles (see
            :func:`citus_analysis.serverlogs.summarise_statements`) and `text`, the statement without constants; the
            largest total first. Only the number of rows that was asked for has a text.
        percentiles: percentiles of the first of these with intervals (see
            :func:`citus_analysis.serverlogs.estimate_percentile_intervals`), and `text`.
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
        interval_s: length of the intervals of `count_statements_over_time`.
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
        return pluralize(self.interval_s // length, unit)

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
        return pl.DataFrame([*_log_counts(self), *_count_events(self)], schema=_OVERVIEW, orient="row")

    def summary_lines(self) -> list[str]:
        """Counts, and the statements with the largest total time."""
        top = self.by_fingerprint.head(3).select("text", "statements", "total_s", "mean_ms").iter_rows()
        return [
            f"{pluralize(self.n, 'record')} of {pluralize(self.sources.height, 'server log')}, {self.window.label}",
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
    length = interval_s or choose_time_interval(pl.concat([sources["first_time"], sources["last_time"]]).drop_nulls())
    by_fingerprint = summarise_statements(statements, _NAMED)
    found = ServerProfile(
        window=logs.window,
        sources=sources,
        records=records,
        coverage=coverage,
        statements=statements,
        by_fingerprint=by_fingerprint,
        percentiles=estimate_percentile_intervals(
            statements, by_fingerprint.select(_NAMED).head(_WITH_INTERVALS), level=level
        ),
        by_group={name: summarise_statements(_select_client_statements(statements), [name]) for name in GROUPS},
        over_time=count_statements_over_time(statements, length),
        slowest=select_slowest_statements(_select_client_statements(statements), longest),
        connections=read_connections(logs),
        severe=read_severe(logs),
        errors=errors,
        error_groups=summarise_errors(errors),
        lock_waits=read_lock_waits(logs),
        checkpoints=logs.scan("checkpoints", "end_time").collect().sort("end_time"),
        autovacuum=read_autovacuum(logs),
        temp_files=read_temp_files(logs),
        distributed=_profile_distributed_statements(logs),
        interval_s=length,
        method=_METHOD,
        warnings=(
            *_write_profile_warnings(sources, statements, coverage),
            *describe_unplaced_statements(logs.scan("statements", "end_time")),
        ),
    )
    return _add_statement_texts(found, logs, texts)


def _log_counts(profile: ServerProfile) -> Iterator[_Counted]:
    yield "log records", profile.n, None
    for (sent_by,), part in profile.statements.group_by("sent_by", maintain_order=True):
        yield f"statements sent by {sent_by}", part.height, float(part["duration_us"].sum()) / US_PER_S
        yield f"statements sent by {sent_by} that failed", int(part["failed"].sum()), None
        untimed = int(part.select((pl.col("duration_us").is_null() & ~pl.col("failed")).sum()).item())
        yield f"statements sent by {sent_by} without a logged duration", untimed, None
    yield "distinct statements", profile.by_fingerprint["fingerprint"].n_unique(), None


def _count_events(profile: ServerProfile) -> Iterator[_Counted]:
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


def _select_client_statements(statements: pl.DataFrame) -> pl.DataFrame:
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


def _profile_distributed_statements(logs: WindowedLogs) -> pl.DataFrame:
    """The profile of statements in which other nodes took part, by kind and place."""
    remote = pl.col("executed").is_in(["remote", "multi_shard"])
    of_parents = logs.scan("statements", "end_time").filter(pl.col("executed").is_not_null())
    if not of_parents.select(remote.any()).collect(engine="streaming").item():
        of_parents = of_parents.limit(0)
    return coarse_profile(of_parents.collect(engine="streaming"))


def _add_statement_texts(profile: ServerProfile, logs: WindowedLogs, most: int) -> ServerProfile:
    """The profile with the texts of its statements, each raw file read once."""
    top = pl.concat([profile.by_fingerprint["fingerprint"].head(most), profile.temp_files["fingerprint"].head(most)])
    openers, single = find_opening_records(logs, top.drop_nulls().unique()), find_naming_records(logs, profile.slowest)
    failed = find_failed_records(logs, profile.error_groups.head(most))
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


def _write_profile_warnings(sources: pl.DataFrame, statements: pl.DataFrame, coverage: pl.DataFrame) -> list[str]:
    notes = write_coverage_notes(coverage)
    untimed = int(sources["untimed"].sum())
    if untimed:
        notes.append(
            f"The time of {pluralize(untimed, 'record')} is not known: they are in no window and in no figure."
        )
    if statements["pid"].null_count():
        alone = pluralize(statements["pid"].null_count(), "statement")
        notes.append(
            f"The session of {alone} is not known (log_line_prefix without %p and %c): each bind and each execution in "
            "these logs counts as a statement, and none has the time of its other phases."
        )
    timeless = statements.height and not statements["duration_us"].count()
    if timeless and describe_unread_logs(coverage, of_durations=True) is None:
        notes.append(
            "No duration is in these logs: set log_min_duration_statement, or log_duration with log_statement, on the "
            "servers."
        )
    return notes
