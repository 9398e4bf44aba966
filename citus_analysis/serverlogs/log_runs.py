"""Server logs without a benchmark as runs: the whole log, an interval of time, or equal windows of it.

Analyses of runs need only the name and the time of each run. If no runs were measured, windows of the logs take their
place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, Protocol, TypeVar

import polars as pl

from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.schema import TABLES
from citus_analysis.serverlogs.statements import INTERVALS
from citus_analysis.serverlogs.windows import LogWindow
from citus_analysis.units import US_PER_S

#: Tables whose rows belong to a window, and the column of their time. A statement belongs to the window of its end.
_PLACED: Final = {"statements": "end_time", "checkpoints": "end_time", "log_events": "log_time"}
#: Small tables that replace those of the dataset.
_OWN: Final = ("runs", "match_quality")
_WHOLE: Final = "whole log"


class _WindowTables(Protocol):
    """The part of a dataset's interface that windows need."""

    @property
    def content_hash(self) -> str:
        """Hash of the content of the dataset."""

    def table(self, name: str, /) -> pl.DataFrame:
        """A table."""

    def scan(self, name: str, /) -> pl.LazyFrame:
        """A table as a lazy frame."""


T = TypeVar("T", bound=_WindowTables)


@dataclass(frozen=True)
class LogRuns:
    """A dataset whose runs are windows of its server logs.

    Attributes:
        dataset: the dataset.
        runs: one run per resource and window that has statements, as the table `runs`.
        window_s: length of a window in seconds; 0: one window.
    """

    dataset: _WindowTables
    runs: pl.DataFrame
    window_s: int

    @property
    def content_hash(self) -> str:
        """The hash of the dataset."""
        return self.dataset.content_hash

    @property
    def path(self) -> object:
        """The path of the dataset; None if it has none."""
        return getattr(self.dataset, "path", None)

    @property
    def outdated(self) -> str:
        """Why tables of the dataset are not up to date; empty where they are."""
        return getattr(self.dataset, "outdated", "")

    def table(self, name: str, /) -> pl.DataFrame:
        """A table. Rows of statements, checkpoints and records have the run of their window; others are left out.

        Match rates are known for whole logs only: they are assigned to the first window.
        """
        if name == "runs":
            return self.runs
        if name in _PLACED:
            return self.scan(name).collect()
        found = self.dataset.table(name)
        if name not in _OWN:
            return found
        first = self.runs.sort("start_time").unique("resource", keep="first").select("resource", "run_id")
        return found.drop("run_id").join(first, on="resource").select(found.columns)

    def scan(self, name: str, /) -> pl.LazyFrame:
        """The same table as a lazy frame."""
        if name in _OWN:
            return self.table(name).lazy()
        if name not in _PLACED:
            return self.dataset.scan(name)
        rows, time = self.dataset.scan(name), pl.col(_PLACED[name])
        columns = rows.collect_schema().names()
        # Records are many and only counted, so keeping their order is not worth the memory.
        order: Literal["none", "left"] = "none" if name == "log_events" else "left"
        windows = self.runs.lazy().select("resource", "run_id", begin="start_time", until="end_time")
        plain = rows.drop("run_id").with_columns(pl.col("resource").cast(pl.String))
        if self.window_s:
            begin = time.cast(pl.Datetime("us", "UTC")).dt.truncate(INTERVALS[self.window_s])
            placed = plain.join(
                windows.with_columns(pl.col("begin").cast(pl.Datetime("us", "UTC"))),
                left_on=["resource", begin],
                right_on=["resource", "begin"],
                maintain_order=order,
            )
            return placed.select(columns)
        inside = (time >= pl.col("begin")) & (time <= pl.col("until"))
        return plain.join(windows, on="resource", maintain_order=order).filter(inside).select(columns)


def with_log_runs(dataset: T, since: str = "", until: str = "", window_s: int = 0) -> T | LogRuns:
    """Give a dataset windows of its logs as runs if it has statements but no runs, or if a window is requested.

    Other datasets are returned unchanged. Throughput is the number of statements that clients sent per second of the
    window. Logs do not contain the number of client threads: `threads` is 0. Workers are those of the table `nodes`,
    else the nodes other than 0 that sent or received statements.

    Args:
        dataset: a dataset.
        since: ISO 8601, UTC if it names no zone; empty: from the beginning.
        until: likewise; empty: to the end.
        window_s: length of the windows in seconds (1, 10, 60, 600, 3600 ...); 0: one window.

    Raises:
        InsufficientDataError: no statement is within the window.
        UsageError: a text is not a time, or the length is not an allowed one.

    Example::

        hours = ca.serverlogs.with_log_runs(ca.open_dataset("logs"), window_s=3600)
        study = ca.spans.study_profile(ca.runs.select_runs(hours), hours)
    """
    window = LogWindow.between(since, until)
    if window_s and window_s not in INTERVALS:
        raise UsageError(
            f"windows of {window_s} s", hint=f"pass 0 or one of {', '.join(str(one) for one in INTERVALS)}"
        )
    asked = window_s or window.since or window.until
    if not asked and (_has_rows(dataset, "runs") or not _has_rows(dataset, "statements")):
        return dataset
    return LogRuns(dataset, _build_log_runs(dataset, window, window_s), window_s)


def _has_rows(dataset: _WindowTables, table: str) -> bool:
    return not dataset.scan(table).limit(1).collect().is_empty()


def _build_log_runs(dataset: _WindowTables, window: LogWindow, window_s: int) -> pl.DataFrame:
    received = dataset.scan("statements").filter(window.within("end_time") & pl.col("executed").is_not_null())
    begin = pl.col("end_time").dt.truncate(INTERVALS[window_s]) if window_s else pl.lit(None, pl.Datetime("us", "UTC"))
    counts = (
        received.drop_nulls("end_time")
        .group_by(pl.col("resource").cast(pl.String), begin=begin, maintain_order=True)
        .agg(pl.len().alias("n"), first=pl.col("start_time").min(), last=pl.col("end_time").max())
        .collect(engine="streaming")
        .sort("resource", "begin")
    )
    if counts.is_empty():
        raise InsufficientDataError(
            f"no statement of a client is in the server logs of {window.label}",
            hint="log durations and statements of some sessions, or choose another window",
        )
    length = pl.duration(seconds=window_s)
    placed = counts.join(_count_workers(dataset), on="resource", how="left").with_columns(
        start_time=pl.coalesce("begin", "first"),
        end_time=pl.when(pl.col("begin").is_null()).then("last").otherwise(pl.col("begin") + length),
        name=pl.coalesce(pl.col("begin").dt.strftime("%Y-%m-%dT%H:%M:%S"), pl.lit(_name(window))),
    )
    seconds = (pl.col("end_time") - pl.col("start_time")).dt.total_microseconds() / US_PER_S
    return TABLES["runs"].conform(
        placed.select(
            *("resource", "workers", "start_time", "end_time"),
            run_id=pl.format("{}/{}", "resource", "name"),
            iteration=pl.col("start_time").rank("ordinal").over("resource"),
            threads=pl.lit(0),
            throughput_ops_s=pl.col("n") / pl.max_horizontal(seconds, pl.lit(1e-6)),
            operations_done="n",
            runtime_ms=1000 * seconds,
            status=pl.lit("ok"),
        )
    )


def _name(window: LogWindow) -> str:
    def at(time: datetime | None) -> str:
        return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"

    return f"{at(window.since)}..{at(window.until)}" if window.since or window.until else _WHOLE


def _count_workers(dataset: _WindowTables) -> pl.DataFrame:
    """Workers per resource: from the cluster's catalogue, else the nodes other than 0 that logged statements."""
    resource = pl.col("resource").cast(pl.String)
    workers, logged = pl.col("groupid") != 0, pl.col("node").cast(pl.String) != "0"
    stated = dataset.scan("nodes").filter(workers).group_by(resource).agg(stated=pl.len())
    seen = dataset.scan("statements").filter(logged).group_by(resource).agg(seen=pl.col("node").n_unique())
    both = stated.join(seen, on="resource", how="full", coalesce=True).collect(engine="streaming")
    return both.select("resource", workers=pl.coalesce("stated", "seen"))
