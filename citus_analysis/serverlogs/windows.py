"""The choice of records of server logs for a profile: chosen logs, and an interval of time.

A window is closed at its beginning and open at its end, so that windows that follow each other share no record. A
statement belongs to the window in which it ended, because that is when the server logs it.

Example:
    >>> LogWindow.between("2026-03-01 10:00", "2026-03-01T12:00+01:00").label
    '2026-03-01 10:00:00 to 2026-03-01 11:00:00 UTC'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final, Protocol, runtime_checkable

import polars as pl

from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.schema import TABLES

_TIME: Final = TABLES["log_events"]["log_time"].dtype


@runtime_checkable
class LogSource(Protocol):
    """The part of a dataset's interface that a profile of server logs needs."""

    def scan(self, name: str, /) -> pl.LazyFrame:
        """A table as a lazy frame."""

    def log_text(self, rows: pl.DataFrame, /) -> pl.Series:
        """The text in the raw files of rows with `source_id` and `byte_offset`, secrets redacted."""


@dataclass(frozen=True)
class LogWindow:
    """A choice of logs and of time.

    Attributes:
        since: records before this time are left out; None: from the beginning.
        until: records at or after this time are left out; None: to the end.
        resources: glob patterns of resources, separated by commas.
        logs: glob patterns of the logs' paths in the dataset, separated by commas.
    """

    since: datetime | None = None
    until: datetime | None = None
    resources: str = "*"
    logs: str = "*"

    @classmethod
    def between(cls, since: str = "", until: str = "", *, resources: str = "*", logs: str = "*") -> LogWindow:
        """A window from texts.

        Args:
            since: ISO 8601 (`2026-03-01 10:00`); UTC if it names no zone; empty: from the beginning.
            until: likewise; empty: to the end.
            resources: glob patterns, separated by commas.
            logs: glob patterns, separated by commas.

        Raises:
            UsageError: a text is not a time.
        """
        return cls(_time(since, "since"), _time(until, "until"), resources or "*", logs or "*")

    @property
    def label(self) -> str:
        """The window in words."""
        parts = [f"resources {self.resources}"] * (self.resources != "*") + [f"logs {self.logs}"] * (self.logs != "*")
        if self.since and self.until:
            parts.append(f"{self.since:%Y-%m-%d %H:%M:%S} to {self.until:%Y-%m-%d %H:%M:%S} UTC")
        elif self.since or self.until:
            word, end = ("from", self.since) if self.since else ("until", self.until)
            parts.append(f"{word} {end:%Y-%m-%d %H:%M:%S} UTC")
        return ", ".join(parts) or "all logs"

    def within(self, column: str) -> pl.Expr:
        """Whether a time is in the window; an unknown time is only in the unlimited window."""
        inside = pl.lit(value=True)
        if self.since is not None:
            inside &= pl.col(column) >= pl.lit(self.since, _TIME)
        if self.until is not None:
            inside &= pl.col(column) < pl.lit(self.until, _TIME)
        return inside


@dataclass(frozen=True)
class WindowedLogs:
    """The server logs of a dataset within a window.

    Attributes:
        dataset: the dataset.
        window: the choice of logs and time.
        sources: the chosen logs: `source_id`, `path`, `resource`, `format`, `bytes`.
        limited: whether logs were left out.
    """

    dataset: LogSource
    window: LogWindow
    sources: pl.DataFrame
    limited: bool

    @classmethod
    def of(cls, dataset: LogSource, window: LogWindow) -> WindowedLogs:
        """The chosen logs.

        Raises:
            InsufficientDataError: the dataset has no server logs.
            UnknownNameError: a pattern matches none of them.
        """
        ids = dataset.scan("log_events").select(pl.col("source_id").unique()).collect(engine="streaming")
        columns = ("source_id", "path", "resource", "format", "bytes")
        logs = dataset.scan("sources").select(columns).collect().join(ids, on="source_id", how="semi")
        if logs.is_empty():
            raise InsufficientDataError("the dataset has no server logs", hint="citus-analysis ingest LOGS --out DIR")
        chosen = logs
        for column, patterns, kind in (("resource", window.resources, "resource"), ("path", window.logs, "server log")):
            chosen = chosen.filter(pl.col(column).is_in(_match_names(logs[column].unique().to_list(), patterns, kind)))
        if chosen.is_empty():
            raise InsufficientDataError(f"no server log is of {window.label}", hint="see the table sources")
        return cls(dataset, window, chosen.sort("resource", "path"), chosen.height < logs.height)

    def scan(self, table: str, time: str) -> pl.LazyFrame:
        """The rows of a table from these logs and this time.

        Args:
            table: `log_events`, `statements`, `spans` or `checkpoints`.
            time: its column by which a row belongs to a window.
        """
        rows = self.dataset.scan(table).filter(self.window.within(time))
        if not self.limited:
            return rows
        # Tables store the identifiers in different types, so they are compared as strings.
        return rows.filter(
            pl.col("source_id").cast(pl.String).is_in(self.sources["source_id"].cast(pl.String).to_list())
        )


def _time(text: str, name: str) -> datetime | None:
    if not text.strip():
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"parameter {name!r} is no time: {text!r}", hint="write it as 2026-03-01T10:00 (UTC)"
        ) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _match_names(names: Sequence[str], patterns: str, kind: str) -> list[str]:
    found: set[str] = set()
    for pattern in (part.strip() for part in patterns.split(",") if part.strip()):
        mine = {name for name in names if fnmatchcase(name, pattern)}
        if not mine and pattern != "*":
            raise UnknownNameError(kind, pattern, names)
        found |= mine
    return sorted(found)
