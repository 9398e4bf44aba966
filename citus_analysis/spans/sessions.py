"""Log records of one iteration become statement executions, tasks and shard executions.

A backend writes its records in order, numbered by `session_line`. Sorted by backend and position, every record
of a session is one of a few *events*; which statement it belongs to follows from the events before it:

- an *opener* names a statement (`execute S_1: ...`, `statement: ...`);
- the first duration after an opener closes the statement; an error closes whatever is open;
- a duration whose predecessor is not an opener belongs to a phase (parse, bind) of the statement to come;
- `statement:` on a shard inside a client's session is a local execution, not an opener;
- a task record reports a remote execution of the open statement.

This holds for both protocols, for parents and for children (sessions with a gpid). All steps are column
operations over the sorted records; there is no loop over records or statements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

__all__ = ["GPID_NODE_FACTOR", "WRITING_KINDS", "Sessions", "place", "read_sessions"]

#: No file is larger than this many bytes.
_FILE_ROOM: Final = 1 << 44

#: gpid = nodeid * GPID_NODE_FACTOR + pid of the parent backend (Citus, GLOBAL_PID_NODE_ID_MULTIPLIER).
GPID_NODE_FACTOR: Final = 10_000_000_000

#: Statement kinds whose transaction writes WAL that its commit has to flush.
WRITING_KINDS: Final = ("insert", "update", "delete", "merge", "copy", "ddl")

#: Events that report a duration.
_TIMED: Final = ("prepare", "duration", "whole")

_PLACE: Final = ("source_id", "pid", "byte_offset", "log_time", "session_line")
_PAYLOAD: Final = (
    "local_xid",
    "gpid",
    "severity",
    "kind",
    "phase",
    "duration_us",
    "shard_id",
    "task_us",
    "worker_host",
    "worker_port",
    "statement_kind",
    "statement_fingerprint",
)


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
    sources = _sources(events)
    records = _order(events, sources)
    significant = _classify(records)
    rows = _number_executions(significant)
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


def _sources(events: pl.DataFrame) -> pl.DataFrame:
    """Number the log files; those of one node follow each other in time."""
    return (
        events.group_by("source_id")
        .agg(pl.col("node", "resource", "run_id", "iteration").first(), first_time=pl.col("log_time").min())
        .sort("node", "first_time", "source_id")
        .with_row_index("source")
        .select("source", "source_id", pl.col("node").fill_null(pl.col("source_id")), "resource", "run_id", "iteration")
    )


def _order(events: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """Records by node, backend and position, with the session and the unbroken segment each belongs to."""
    numbers = sources.select("source_id", "source", pl.col("node").cast(pl.Categorical))
    ordered = (
        events.lazy()
        .select(*_PLACE, *_PAYLOAD)
        .filter(pl.col("pid").is_not_null())
        .join(numbers.lazy(), on="source_id", how="left")
        .drop("source_id")
        .sort("node", "pid", "source", "byte_offset")
        .collect()
    )
    line = pl.col("session_line")
    other_backend = (pl.col("pid") != pl.col("pid").shift(1)) | (pl.col("node") != pl.col("node").shift(1))
    restarted = other_backend.fill_null(value=True) | (line <= line.shift(1)).fill_null(value=False)
    broken = restarted | (line != line.shift(1) + 1).fill_null(value=False)
    return ordered.with_columns(
        session=restarted.cast(pl.UInt32).cum_sum(),
        segment=broken.cast(pl.UInt32).cum_sum(),
        # A segment is anchored when it holds the session's first record: nothing of it is missing before.
        starts=restarted & (line == 1).fill_null(value=False),
    )


def _classify(records: pl.DataFrame) -> pl.DataFrame:
    """Keep the records that shape executions and say what each is."""
    kind = pl.col("kind").cast(pl.String)
    phase = pl.coalesce(
        pl.col("phase").cast(pl.String), pl.when(kind.is_in(["parse", "bind", "execute", "statement"])).then(kind)
    )
    timed = pl.col("duration_us").is_not_null() & kind.is_in(["duration", "parse", "bind", "execute", "statement"])
    names_statement = kind.is_in(["execute", "statement"]) & ~timed
    on_shard = pl.col("shard_id").is_not_null()
    event = (
        pl.when(timed & phase.is_in(["parse", "bind"]))
        .then(pl.lit("prepare"))
        .when(timed & phase.is_in(["execute", "statement"]))
        .then(pl.lit("whole"))
        .when(timed)
        .then(pl.lit("duration"))
        .when(names_statement & (kind == "statement") & on_shard & pl.col("gpid").is_null())
        .then(pl.lit("local"))
        .when(names_statement)
        .then(pl.lit("opener"))
        .when(kind == "task")
        .then(pl.lit("task"))
        .when(pl.col("severity").cast(pl.String).is_in(["ERROR", "FATAL", "PANIC"]))
        .then(pl.lit("error"))
        .cast(pl.Enum(["prepare", "whole", "duration", "local", "opener", "task", "error"]))
    )
    anchored = pl.col("starts").max().over("segment")
    return (
        records.with_columns(event=event, anchored=anchored, phase=phase)
        .filter(pl.col("event").is_not_null())
        .drop("starts")
    )


def _number_executions(rows: pl.DataFrame) -> pl.DataFrame:
    """Number the executions: see the module's docstring for the rule."""
    event, segment = pl.col("event"), pl.col("segment")
    same_segment = (segment == segment.shift(1)).fill_null(value=False)
    before, before_segment = (
        pl.when(event != "local").then(column).forward_fill().shift(1) for column in (event, segment)
    )
    # A task whose statement line is missing: the log begins, or has a gap, in the middle of a statement.
    opens = event.is_in(["opener", "task"])
    after_opener = ((before_segment == segment) & before.is_in(["opener", "task"])).fill_null(value=False)
    closes = event.is_in(["error", "whole"]) | ((event == "duration") & after_opener)
    never_closed = event.is_in(["opener", "whole", "prepare"]) & after_opener
    # Where a segment begins in the middle of a statement, its last durations are told from the next one's by xid.
    opened = (pl.when(opens).then(segment).forward_fill().shift(1) == segment).fill_null(value=False)
    other_xid = (pl.col("local_xid") != pl.col("local_xid").shift(1)).fill_null(value=False)
    fragment = ~pl.col("anchored") & ~opened & same_segment & other_xid
    begins = ~same_segment | never_closed | fragment | closes.shift(1, fill_value=True)
    return rows.with_columns(closes=closes, execution=begins.cast(pl.UInt32).cum_sum())


def _executions(rows: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    event = pl.col("event")
    opener = event.is_in(["opener", "whole"])
    closing = pl.col("closes")
    timed = event.is_in(_TIMED)
    begin = pl.col("log_time").cast(pl.Datetime("us", "UTC")) - pl.duration(microseconds=pl.col("duration_us"))
    frame = rows.group_by("execution", maintain_order=True).agg(
        pl.col("source", "node", "pid", "session", "segment", "anchored").first(),
        gpid=pl.col("gpid").first(),
        opened=opener.any(),
        closed=closing.any(),
        has_tasks=(event == "task").any(),
        failed=(event == "error").any(),
        fatal=pl.col("severity").cast(pl.String).is_in(["FATAL", "PANIC"]).any(),
        byte_offset=pl.col("byte_offset").filter(closing).last(),
        opener_offset=pl.col("byte_offset").filter(opener).first(),
        opener_time=pl.col("log_time").filter(opener).first(),
        extended=(pl.col("phase").filter(opener).first() == "execute"),
        statement_kind=pl.col("statement_kind").filter(opener).first(),
        statement_fingerprint=pl.col("statement_fingerprint").filter(opener).first(),
        shard_id=pl.col("shard_id").filter(opener).first(),
        local_xid=pl.col("local_xid").filter(opener).first(),
        closing_xid=pl.col("local_xid").filter(closing).last(),
        start_time=begin.filter(timed).min(),
        end_time=pl.col("log_time").filter(closing).last(),
        last_offset=pl.col("byte_offset").last(),
        duration_us=pl.col("duration_us").filter(event.is_in(_TIMED)).sum(),
        phases=event.is_in(_TIMED).sum(),
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
        rows.filter(pl.col("event") == "task")
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
    repeated = (same & (pl.col("event").shift(1) == "local")).fill_null(value=False)
    lines = (
        rows.filter((pl.col("event") == "local") & ~repeated)
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
    timed = rows.filter(pl.col("event").is_in(_TIMED)).select(
        "execution", "source", "byte_offset", "log_time", "duration_us", "closes", "phase"
    )
    last_before = ~pl.col("closes") & (
        pl.col("closes").shift(-1, fill_value=True)
        | (pl.col("execution") != pl.col("execution").shift(-1)).fill_null(value=True)
    )
    name = (
        pl.when(pl.col("closes"))
        .then(pl.lit("execute"))
        .otherwise(pl.coalesce("phase", pl.when(last_before).then(pl.lit("bind")).otherwise(pl.lit("parse"))))
    )
    return timed.with_columns(name=name).join(
        executions.select("execution"), on="execution", how="semi", maintain_order="left"
    )


def _gaps(records: pl.DataFrame) -> pl.DataFrame:
    within = pl.col("session") == pl.col("session").shift(1)
    before = pl.when(within).then(place("byte_offset").shift(1)).fill_null(-1)
    begins = (pl.col("segment") != pl.col("segment").shift(1)).fill_null(value=True)
    return (
        records.with_columns(place=before)
        .filter(begins & ~pl.col("starts") & pl.col("gpid").is_not_null())
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
