"""Errors of each resource in each run: from server logs, and from the load generators' own reports."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.evidence.measurements import measured
from citus_analysis.runs.concurrency import concurrency

_RUN: Final = ("resource", "run_id")
_NODE: Final = (*_RUN, "node")
#: Part -> metric, SQLSTATEs, and English words of the message for logs without SQLSTATE.
_ERRORS: Final = {
    "connections": (
        "refused connections",
        ("53300",),
        r"too many clients already|remaining connection slots are reserved|too many connections for",
    ),
    "locks": (
        "deadlocks",
        ("40P01",),
        r"^(?:canceling the transaction since it was involved in a distributed )?deadlock",
    ),
    "memory": ("out of memory", ("53200",), r"^out of (?:shared )?memory"),
    "device": (
        "failed reads and writes",
        ("58030", "53100"),
        r"^could not (?:read|write|fsync|extend|open) .*|No space left on device",
    ),
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
    what = (
        pl.when(kind == "lock_wait")
        .then(pl.lit("lock waits"))
        .when((kind == "checkpoint") & text.str.contains(_FREQUENT))
        .then(pl.lit("frequent checkpoints"))
    )
    for part, (_, codes, words) in _ERRORS.items():
        said = code.is_in(codes) | (code.is_null() & text.str.contains(words))
        what = what.when(severe & said.fill_null(value=False)).then(pl.lit(part))
    what = what.when(kind == AUTOVACUUM).then(pl.lit(AUTOVACUUM))
    return (
        events.group_by(*_NODE, what=what.otherwise(pl.lit(None, pl.String)), maintain_order=True)
        .agg(n=pl.len(), source_id=pl.col("source_id").first())
        .collect(engine="streaming")
        .with_columns(pl.col("node").cast(pl.String))
    )


def log_errors_measured(counts: pl.DataFrame) -> list[pl.DataFrame]:
    """Errors per run and node from :func:`log_errors`; 0 if a log of the run contains none."""
    logs = counts.group_by(_NODE, maintain_order=True).agg(
        samples=pl.col("n").sum(), source_id=pl.col("source_id").first()
    )
    places = {part: (part, "errors", metric, "errors") for part, (metric, _, _) in _ERRORS.items()}
    places["lock waits"] = ("locks", "saturation", "lock waits longer than deadlock_timeout", "records")
    places["frequent checkpoints"] = ("WAL and checkpoints", "errors", "warnings of frequent checkpoints", "records")
    found = []
    for what, (part, aspect, metric, unit) in places.items():
        seen = counts.filter(pl.col("what") == what).select(*_NODE, value="n")
        counted = logs.join(seen, on=_NODE, how="left", nulls_equal=True).with_columns(pl.col("value").fill_null(0))
        found.append(measured(counted, part, aspect, metric, unit))
    return found


def clients_measured(
    runs: pl.DataFrame, clients: pl.DataFrame, latencies: pl.DataFrame, errors: pl.DataFrame
) -> list[pl.DataFrame]:
    """The load generator: threads outside the measured operations (Little's law), failed operations and errors.

    N - X R threads are outside operations on average: they do not wait for the result of an operation.
    """
    outside = concurrency(runs, latencies).select(*_RUN, outside=(1 - pl.col("share_in_system")).clip(0.0) * 100)
    main = pl.col("role").cast(pl.String) == "main"
    said = errors.filter(main).group_by(_RUN, maintain_order=True).agg(said=pl.col("count").sum())
    first = clients.filter(main).group_by(_RUN, maintain_order=True).agg(pl.col("source_id").sort_by("part").first())
    rows = (
        runs.join(outside, on=_RUN, how="left")
        .join(said, on=_RUN, how="left")
        .join(first, on=_RUN, how="left")
        .with_columns(node=pl.lit(None, pl.String), samples=pl.lit(1))
    )
    part = "load generator"
    return [
        measured(rows.with_columns(value="outside"), part, "saturation", "threads outside operations (Little)", "%"),
        measured(rows.with_columns(value="failed_operations"), part, "errors", "failed operations", "operations"),
        measured(rows.with_columns(value=pl.col("said").fill_null(0)), part, "errors", "error messages", "messages"),
    ]
