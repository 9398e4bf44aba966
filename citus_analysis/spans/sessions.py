"""Log records of one iteration become statement executions, tasks and shard executions.

Which record belongs to which execution: :mod:`citus_analysis.spans.records`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.spans.records import (
    ERROR,
    LOCAL,
    OPENER,
    PREPARE,
    TASK,
    TIMED,
    WHOLE,
    number_executions,
    order_records,
    sources_of,
)

__all__ = ["GPID_NODE_FACTOR", "WRITING_KINDS", "Sessions", "place", "read_sessions"]

#: No file is larger than this many bytes.
_FILE_ROOM: Final = 1 << 44

#: gpid = nodeid * GPID_NODE_FACTOR + pid of the parent backend (Citus, GLOBAL_PID_NODE_ID_MULTIPLIER).
GPID_NODE_FACTOR: Final = 10_000_000_000

#: Statement kinds whose transaction writes WAL that its commit has to flush.
WRITING_KINDS: Final = ("insert", "update", "delete", "merge", "copy", "ddl")


@dataclass(frozen=True)
class Sessions:
    """What the sessions of one iteration did.

    Attributes:
        sources: one row per log file; `source` is its number in the other frames.
        executions: one row per statement execution; `is_child` tells those on behalf of another session.
        tasks: one row per task record of a parent, `execution` is its statement.
        locals: one row per execution on a shard by the parent itself.
        phases: one row per protocol phase of an execution.
        gaps: where records of child sessions are missing: `gpid`, `node`, and the `place` of the last record before.
        coverage: per node the first and last record's time, and whether sessions were `under_way` at its beginning.
    """

    sources: pl.DataFrame
    executions: pl.DataFrame
    tasks: pl.DataFrame
    locals: pl.DataFrame
    phases: pl.DataFrame
    gaps: pl.DataFrame
    coverage: pl.DataFrame


def read_sessions(events: pl.DataFrame, nodes: pl.DataFrame) -> Sessions:
    """Assemble the statement executions of one iteration.

    Args:
        events: `log_events` of one resource and iteration.
        nodes: `nodes` of the resource; gives gpids of parents and names the nodes of tasks.
    """
    sources = sources_of(events)
    records = order_records(events, sources)
    rows = number_executions(records)
    executions = _executions(rows, nodes)
    return Sessions(
        sources=sources,
        executions=executions,
        tasks=_tasks(rows, executions, nodes),
        locals=_locals(rows, executions),
        phases=_phases(rows, executions),
        gaps=_gaps(records),
        coverage=_coverage(records, executions),
    )


def _executions(rows: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    event = pl.col("event")
    opener = (event == OPENER) | (event == WHOLE)
    begin = pl.col("log_time").cast(pl.Datetime("us", "UTC")) - pl.duration(microseconds=pl.col("duration_us"))
    timed = event.is_in(TIMED)
    # An execution has at most one opener and one closing record: the maximum picks it, columns at a time.
    masked = rows.with_columns(
        opener_offset=pl.when(opener).then("byte_offset"),
        opener_time=pl.when(opener).then("log_time"),
        opener_shard=pl.when(opener).then("shard_id"),
        opener_xid=pl.when(opener).then("local_xid"),
        extended=pl.when(opener).then("extended"),
        statement_kind=pl.when(opener).then("statement_kind"),
        statement_fingerprint=pl.when(opener).then("statement_fingerprint"),
        closing_offset=pl.when("closes").then("byte_offset"),
        closing_time=pl.when("closes").then("log_time"),
        closing_xid=pl.when("closes").then("local_xid"),
        begin=pl.when(timed).then(begin),
        duration_us=pl.when(timed).then("duration_us"),
        fatal=(event == ERROR) & ~(pl.col("severity") == "ERROR"),
        is_task=event == TASK,
        is_error=event == ERROR,
    )
    frame = masked.group_by("execution").agg(
        pl.col("source", "node", "pid", "session", "segment", "anchored", "gpid").first(),
        pl.col(
            "opener_offset", "opener_time", "extended", "statement_fingerprint", "statement_kind", "closing_xid"
        ).max(),
        pl.col("fatal").any(),
        has_tasks=pl.col("is_task").any(),
        failed=pl.col("is_error").any(),
        shard_id=pl.col("opener_shard").max(),
        local_xid=pl.col("opener_xid").max(),
        byte_offset=pl.col("closing_offset").max(),
        end_time=pl.col("closing_time").max(),
        start_time=pl.col("begin").min(),
        last_offset=pl.col("byte_offset").last(),
        duration_us=pl.col("duration_us").sum(),
        phases=pl.col("duration_us").count(),
    )
    frame = frame.with_columns(
        duration_us=pl.when(pl.col("phases") > 0).then("duration_us"),
        opened=pl.col("opener_offset").is_not_null(),
        closed=pl.col("byte_offset").is_not_null(),
    )
    return _with_parents(frame.sort("execution"), nodes)


def _with_parents(frame: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Drop what is no execution, add gpid, transaction membership and the number within the session."""
    sampled = pl.col("opened").any().over("session")
    known = (
        pl.col("opened")
        | pl.col("has_tasks")
        | ((pl.col("phases") > 0) & pl.col("failed"))
        | (sampled & pl.col("failed") & ~pl.col("fatal"))
    )
    nodeids = (
        nodes.select(pl.col("node").cast(pl.Categorical), nodeid=pl.col("nodeid").cast(pl.Int64))
        .drop_nulls()
        .unique("node", keep="first")
    )
    own_gpid = pl.col("nodeid") * GPID_NODE_FACTOR + pl.col("pid").cast(pl.Int64)
    xid = pl.col("local_xid")
    same_session = pl.col("session") == pl.col("session").shift(1)
    shares = (same_session & (xid == xid.shift(1)) & (xid > 0)).fill_null(value=False)
    return (
        frame.filter(known)
        .with_columns(is_child=pl.col("gpid").is_not_null())
        .join(nodeids, on="node", how="left", maintain_order="left")
        .with_columns(
            gpid=pl.coalesce("gpid", own_gpid),
            in_transaction=shares | shares.shift(-1, fill_value=False),
            session_seq=pl.int_range(pl.len(), dtype=pl.Int64).over("session"),
        )
        .drop("nodeid")
    )


def _tasks(rows: pl.DataFrame, executions: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    places = (
        nodes.select(pl.col("host"), pl.col("port"), child_node=pl.col("node").cast(pl.Categorical))
        .drop_nulls("host")
        .unique(["host", "port"], keep="first")
    )
    return (
        rows.filter(pl.col("event") == TASK)
        .select(
            "execution",
            "source",
            "byte_offset",
            "segment",
            "anchored",
            "session",
            "shard_id",
            "task_us",
            pl.col("pid"),
            host=pl.col("worker_host").cast(pl.String),
            port=pl.col("worker_port"),
            end_time=pl.col("log_time"),
            parent_node=pl.col("node"),
        )
        .join(executions.select("execution", "gpid", "failed"), on="execution", how="inner", maintain_order="left")
        .join(places, on=["host", "port"], how="left", maintain_order="left")
    )


def _locals(rows: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Executions on the parent's own shards.

    The first cached plan for a shard is logged twice for one execution: twice in a row, or, where the plan is made
    during bind (SELECT), once before the statement line and once after it.
    """
    same = (pl.col("shard_id") == pl.col("shard_id").shift(1)) & (pl.col("execution") == pl.col("execution").shift(1))
    repeated = (same & (pl.col("event").shift(1) == LOCAL)).fill_null(value=False)
    lines = (
        rows.filter((pl.col("event") == LOCAL) & ~repeated)
        .select("execution", "source", "byte_offset", "shard_id", "log_time", "statement_kind")
        .join(executions.select("execution", "opener_offset"), on="execution", how="inner", maintain_order="left")
    )
    early = (pl.col("byte_offset") < pl.col("opener_offset")).fill_null(value=False)
    later = lines.filter(~early).select("execution", "shard_id", again=pl.lit(value=True)).unique()
    return (
        lines.join(later, on=["execution", "shard_id"], how="left", maintain_order="left")
        .filter(~(early & pl.col("again").fill_null(value=False)))
        .drop("again", "opener_offset")
    )


def _phases(rows: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Durations as phases: the closing one is execute, of those before the last is bind, the others are parse."""
    timed = rows.filter(pl.col("event").is_in(TIMED)).select(
        "execution", "source", "byte_offset", "log_time", "duration_us", "closes", "event", "phase", "kind"
    )
    other_execution = pl.col("execution") != pl.col("execution").shift(-1)
    last_before = pl.col("closes").shift(-1) | other_execution.fill_null(value=True)
    says_parse = (pl.col("phase") == "parse").fill_null(value=False) | (pl.col("kind") == "parse")
    is_parse = pl.when(pl.col("event") == PREPARE).then(says_parse).otherwise(~last_before)
    name = pl.when("closes").then(_phase("execute")).when(is_parse).then(_phase("parse")).otherwise(_phase("bind"))
    return (
        timed.with_columns(name=name)
        .drop("event", "phase", "kind")
        .join(executions.select("execution"), on="execution", how="semi", maintain_order="left")
    )


def _phase(name: str) -> pl.Expr:
    return pl.lit(name, pl.Enum(["parse", "bind", "execute"]))


def _gaps(records: pl.DataFrame) -> pl.DataFrame:
    within = pl.col("session") == pl.col("session").shift(1)
    before = pl.when(within).then(place("byte_offset").shift(1)).fill_null(-1)
    return (
        records.with_columns(place=before)
        .filter(pl.col("begins_segment") & ~pl.col("anchored") & pl.col("gpid").is_not_null())
        .select("gpid", "node", "place")
    )


def place(offset: str) -> pl.Expr:
    """One number that orders the records of a node over all of its files."""
    return pl.col("source").cast(pl.Int64) * _FILE_ROOM + pl.col(offset)


def _coverage(records: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    under_way = (
        executions.group_by("node", "session")
        .agg(cut=~pl.col("anchored").first())
        .group_by("node")
        .agg(under_way=pl.col("cut").any())
    )
    times = records.group_by("node").agg(first_time=pl.col("log_time").min(), last_time=pl.col("log_time").max())
    return times.join(under_way, on="node", how="left").with_columns(pl.col("under_way").fill_null(value=False))
