"""Errors of each resource in each run: from server logs, and from the load generators' own reports."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.evidence.measurements import measured
from citus_analysis.bottleneck.samples_in_runs import NODE, RUN, first_true
from citus_analysis.runs.concurrency import concurrency

_REFUSED: Final = r"too many clients already|remaining connection slots are reserved|too many connections for"
_DEADLOCK: Final = r"^(?:canceling the transaction since it was involved in a distributed )?deadlock"
_FAILED_IO: Final = r"^could not (?:read|write|fsync|extend|open) .*|No space left on device"
#: Part -> metric, SQLSTATEs, and English words of the message for logs without SQLSTATE.
_ERRORS: Final = {
    "connections": ("refused connections", ("53300",), _REFUSED),
    "locks": ("deadlocks", ("40P01",), _DEADLOCK),
    "memory": ("out of memory", ("53200",), r"^out of (?:shared )?memory"),
    "device": ("failed reads and writes", ("58030", "53100"), _FAILED_IO),
}
_FREQUENT: Final = r"^checkpoints are occurring too frequently"
#: Kind of the records that autovacuum writes.
AUTOVACUUM: Final = "autovacuum"
_SEVERE: Final = ("ERROR", "FATAL", "PANIC")


def log_errors(events: pl.LazyFrame) -> pl.DataFrame:
    """Number of errors, lock waits and records of autovacuum in the logs, by kind.

    Args:
        events: the table `log_events` as a lazy frame, because only a few columns are read.

    Returns:
        `resource`, `run_id` (null if the records are of no run), `node`, `what` (the part that has the error,
        `lock waits`, `frequent checkpoints`, :data:`AUTOVACUUM`, or null for all other records), `n`, `source_id`.
    """
    text, code = pl.col("message"), pl.col("sqlstate").cast(pl.String)
    severe = pl.col("severity").cast(pl.String).is_in(_SEVERE)
    kind = pl.col("kind").cast(pl.String)
    said = {
        part: (code.is_in(codes) | (code.is_null() & text.str.contains(words))).fill_null(value=False)
        for part, (_, codes, words) in _ERRORS.items()
    }
    cases = [
        (kind == "lock_wait", "lock waits"),
        ((kind == "checkpoint") & text.str.contains(_FREQUENT), "frequent checkpoints"),
        *((severe & error, part) for part, error in said.items()),
        (kind == AUTOVACUUM, AUTOVACUUM),
    ]
    groups = events.group_by(*NODE, what=first_true(cases, None), maintain_order=True)
    counts = groups.agg(n=pl.len(), source_id=pl.col("source_id").first()).collect(engine="streaming")
    return counts.with_columns(pl.col("node").cast(pl.String))


def log_errors_measured(counts: pl.DataFrame) -> list[pl.DataFrame]:
    """Errors per run and node from :func:`log_errors`; 0 if a log of the run contains none."""
    sums = {"samples": pl.col("n").sum(), "source_id": pl.col("source_id").first()}
    logs = counts.group_by(NODE, maintain_order=True).agg(**sums)
    places = {part: (part, "errors", metric, "errors") for part, (metric, _, _) in _ERRORS.items()}
    places["lock waits"] = ("locks", "saturation", "lock waits longer than deadlock_timeout", "records")
    places["frequent checkpoints"] = ("WAL and checkpoints", "errors", "warnings of frequent checkpoints", "records")
    found = []
    for what, (part, aspect, metric, unit) in places.items():
        seen = counts.filter(pl.col("what") == what).select(*NODE, value="n")
        counted = logs.join(seen, on=NODE, how="left", nulls_equal=True).with_columns(pl.col("value").fill_null(0))
        found.append(measured(counted, part, aspect, metric, unit))
    return found


def clients_measured(
    runs: pl.DataFrame, clients: pl.DataFrame, latencies: pl.DataFrame, errors: pl.DataFrame
) -> list[pl.DataFrame]:
    """The load generator: threads outside the measured operations (Little's law), failed operations and errors.

    N - X R threads are outside operations on average: they do not wait for the result of an operation.
    """
    outside = concurrency(runs, latencies).select(*RUN, outside=(1 - pl.col("share_in_system")).clip(0.0) * 100)
    main = pl.col("role").cast(pl.String) == "main"
    said = errors.filter(main).group_by(RUN, maintain_order=True).agg(said=pl.col("count").sum())
    first = clients.filter(main).group_by(RUN, maintain_order=True).agg(pl.col("source_id").sort_by("part").first())
    rows = runs.with_columns(node=pl.lit(None, pl.String), samples=pl.lit(1))
    for facts in (outside, said, first):
        rows = rows.join(facts, on=RUN, how="left")
    part = "load generator"
    return [
        measured(rows.with_columns(value="outside"), part, "saturation", "threads outside operations (Little)", "%"),
        measured(rows.with_columns(value="failed_operations"), part, "errors", "failed operations", "operations"),
        measured(rows.with_columns(value=pl.col("said").fill_null(0)), part, "errors", "error messages", "messages"),
    ]
