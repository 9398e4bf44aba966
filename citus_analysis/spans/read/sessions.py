"""Log records of one iteration become statement executions, tasks and shard executions.

Which record belongs to which execution: :mod:`citus_analysis.spans.read.records`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.spans.read.ordered_arrays import Flags, Indices, changes, firsts, places
from citus_analysis.spans.read.records import (
    ERROR,
    EXTENDED,
    FILE_ROOM,
    LOCAL,
    OPENER,
    PARSES,
    PREPARE,
    TASK,
    TIMED,
    WHOLE,
    Records,
    read_records,
)

__all__ = ["GPID_NODE_FACTOR", "Sessions", "are_distributed", "place", "read_sessions"]

#: gpid = nodeid * GPID_NODE_FACTOR + pid of the parent backend (Citus, GLOBAL_PID_NODE_ID_MULTIPLIER).
GPID_NODE_FACTOR: Final = 10_000_000_000


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
        coverage: per node the first and last record's time, whether sessions were `under_way` at its beginning, and how
            many records stand in its logs once more (`copies`).
    """

    sources: pl.DataFrame
    executions: pl.DataFrame
    tasks: pl.DataFrame
    locals: pl.DataFrame
    phases: pl.DataFrame
    gaps: pl.DataFrame
    coverage: pl.DataFrame


def are_distributed(events: pl.DataFrame | pl.LazyFrame, nodes: pl.DataFrame) -> bool:
    """Whether servers form a Citus cluster: its nodes are known, or records report tasks or global pids.

    A shard's name tells nothing: a partition `public.events_202401` looks like one.

    Args:
        events: `log_events` of all its servers.
        nodes: `nodes` of the resource.

    Example:
        >>> nothing = pl.DataFrame({"gpid": [None], "task_us": [None], "nodeid": [None]})
        >>> are_distributed(nothing, nothing), are_distributed(nothing, nothing.with_columns(nodeid=1))
        (False, True)
    """
    if nodes["nodeid"].is_not_null().any():
        return True
    reported = pl.any_horizontal(pl.col("gpid", "task_us").is_not_null().any())
    return bool(events.lazy().select(reported).collect().item())


def read_sessions(events: pl.DataFrame, nodes: pl.DataFrame, *, distributed: bool | None = None) -> Sessions:
    """Assemble the statement executions of one iteration.

    Args:
        events: `log_events` of one resource and iteration.
        nodes: `nodes` of the resource; gives gpids of parents and names the nodes of tasks.
        distributed: see :func:`are_distributed`; these records tell where it is None.
    """
    is_cluster = are_distributed(events, nodes) if distributed is None else distributed
    records = read_records(events, distributed=is_cluster)
    timed = _timed(records)
    executions, known = _executions(records, timed, nodes)
    return Sessions(
        sources=records.files.table,
        executions=executions,
        tasks=_tasks(records, executions, known, nodes),
        locals=_locals(records, executions, known),
        phases=_phases(records, timed, known),
        gaps=records.gaps,
        coverage=_coverage(records, executions),
    )


_US: Final = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class _Timed:
    """The records that report a duration.

    Attributes:
        at: which records they are.
        execution: the execution of each.
        first: where those of an execution begin.
        duration: what they report, microseconds.
    """

    at: Indices
    execution: NDArray[np.uint32]
    first: Indices
    duration: pl.Series


def _timed(records: Records) -> _Timed:
    at = np.flatnonzero(records.event <= TIMED)
    execution = records.execution[at]
    return _Timed(at, execution, firsts(execution), records.pick(at, "duration_us").to_series())


def _executions(records: Records, timed: _Timed, nodes: pl.DataFrame) -> tuple[pl.DataFrame, Indices]:
    """The executions, and at which row of them each numbered execution is (-1: it is none)."""
    first, event = records.first, records.event
    count = len(first)
    openers = np.flatnonzero((event == OPENER) | (event == WHOLE))
    opener = _one_each(records, openers, count)
    closer = _one_each(records, np.flatnonzero(records.closes), count)
    errors = np.flatnonzero(event == ERROR)
    fatal = errors[(records.pick(errors, "severity").to_series() != "ERROR").to_numpy()]
    extended = np.zeros(count, np.bool_)
    extended[records.execution[openers] - 1] = records.says(openers, EXTENDED)
    frame = pl.DataFrame(
        {
            "execution": np.arange(1, count + 1, dtype=np.uint32),
            "source": records.source(first),
            "node": records.node(first),
            "session": records.session[first],
            "segment": records.segment[first],
            "anchored": records.anchored[first],
            "extended": extended,
            "fatal": _any_each(records, fatal, count),
            "has_tasks": _any_each(records, np.flatnonzero(event == TASK), count),
            "failed": _any_each(records, errors, count),
            "opened": opener >= 0,
            "closed": closer >= 0,
            **_durations(records, timed, count),
            **records.pick(first, "pid", "gpid").to_dict(),
            **_of_opener(records, opener).to_dict(),
            **_of_closer(records, closer).to_dict(),
            "last_offset": records.pick(np.append(first[1:], len(event))[:count] - 1, "byte_offset").to_series(),
        }
    ).with_columns(extended=pl.when("opened").then("extended"))
    return _with_parents(frame, nodes, records)


def _of_opener(records: Records, opener: Indices) -> pl.DataFrame:
    """Columns from the record that opens each execution."""
    shards = ("shard_id", "other_shards")
    columns = ("byte_offset", "log_time", "statement_fingerprint", "statement_kind", *shards, "local_xid")
    return records.pick(opener, *columns).rename({"byte_offset": "opener_offset", "log_time": "opener_time"})


def _of_closer(records: Records, closer: Indices) -> pl.DataFrame:
    """Columns from the record that closes each execution."""
    names = {"local_xid": "closing_xid", "log_time": "end_time"}
    return records.pick(closer, "local_xid", "byte_offset", "log_time").rename(names)


def _one_each(records: Records, chosen: Indices, count: int) -> Indices:
    """The chosen record of each execution, which has at most one; -1 without one."""
    found = np.full(count, -1)
    found[records.execution[chosen] - 1] = chosen
    return found


def _any_each(records: Records, chosen: Indices, count: int) -> Flags:
    """Which executions have a chosen record."""
    found = np.zeros(count, np.bool_)
    found[records.execution[chosen] - 1] = True
    return found


def _durations(records: Records, timed: _Timed, count: int) -> dict[str, pl.Series]:
    """Per execution when it began, the sum of its durations and how many they are."""
    never = np.iinfo(np.int64).max
    end = records.pick(timed.at, "log_time").to_series().cast(_US).to_physical()
    begin = (end - timed.duration.cast(pl.Int64)).fill_null(never).to_numpy()
    where = timed.execution[timed.first] - 1
    start, total, phases = np.full(count, never), np.zeros(count), np.zeros(count, np.uint32)
    if len(where):
        start[where] = np.minimum.reduceat(begin, timed.first)
        total[where] = np.add.reduceat(timed.duration.to_numpy(), timed.first)
        phases[where] = np.diff(timed.first, append=len(timed.at))
    frame = pl.DataFrame({"start_time": start, "duration_us": total, "phases": phases})
    return frame.select(
        pl.when(pl.col("start_time") != never).then("start_time").cast(_US),
        pl.when(pl.col("phases") > 0).then("duration_us"),
        "phases",
    ).to_dict()


def _with_parents(frame: pl.DataFrame, nodes: pl.DataFrame, records: Records) -> tuple[pl.DataFrame, Indices]:
    """Drop what is no execution, add gpid, transaction membership and the number within the session."""
    session = frame["session"].to_numpy()
    sampled = np.zeros(int(session[-1]) + 1 if len(session) else 1, np.bool_)
    sampled[session[frame["opened"].to_numpy()]] = True
    known = frame.select(
        pl.col("opened")
        | pl.col("has_tasks")
        | ((pl.col("phases") > 0) & pl.col("failed"))
        | (pl.Series(sampled[session]) & pl.col("failed") & ~pl.col("fatal"))
    ).to_series()
    kept = frame if known.all() else frame.filter(known)
    row = np.where(known.to_numpy(), np.cumsum(known.to_numpy()) - 1, -1)
    nodeids = nodes.select("node", nodeid=pl.col("nodeid").cast(pl.Int64)).drop_nulls().unique("node", keep="first")
    nodeid = records.files.table.join(nodeids, on="node", how="left", maintain_order="left")["nodeid"]
    own_gpid = nodeid.gather(kept["source"]) * GPID_NODE_FACTOR + kept["pid"].cast(pl.Int64)
    xid = pl.col("local_xid")
    same_session = pl.col("session") == pl.col("session").shift(1)
    shares = (same_session & (xid == xid.shift(1)) & (xid > 0)).fill_null(value=False)
    with_parents = kept.with_columns(
        is_child=pl.col("gpid").is_not_null(),
        gpid=pl.coalesce("gpid", own_gpid),
        in_transaction=shares | shares.shift(-1, fill_value=False),
        session_seq=places(changes(kept["session"].to_numpy())),
    )
    return with_parents, row


def _tasks(records: Records, executions: pl.DataFrame, known: Indices, nodes: pl.DataFrame) -> pl.DataFrame:
    at = np.flatnonzero(records.event == TASK)
    owner = known[records.execution[at] - 1]
    hosts = (
        nodes.select(pl.col("host").cast(pl.Categorical), "port", child_node=pl.col("node").cast(pl.Categorical))
        .drop_nulls("host")
        .unique(["host", "port"], keep="first")
    )
    tasks = pl.DataFrame(
        {
            "execution": records.execution[at],
            "source": records.source(at),
            "segment": records.segment[at],
            "anchored": records.anchored[at],
            "session": records.session[at],
            "parent_node": records.node(at),
            "gpid": executions["gpid"].gather(owner),
            "failed": executions["failed"].gather(owner),
            **records.pick(at, "byte_offset", "shard_id", "task_us", "pid").to_dict(),
            **records.pick(at, "log_time", "worker_host", "worker_port")
            .rename({"log_time": "end_time", "worker_host": "host", "worker_port": "port"})
            .to_dict(),
        }
    )
    return tasks.join(hosts, on=["host", "port"], how="left", maintain_order="left")


def _locals(records: Records, executions: pl.DataFrame, known: Indices) -> pl.DataFrame:
    """Executions on the parent's own shards.

    The first cached plan for a shard is logged twice for one execution: twice in a row, or, where the plan is made
    during bind (SELECT), once before the statement line and once after it.
    """
    at = np.flatnonzero(records.event == LOCAL)
    shard = records.pick(at, "shard_id").to_series().to_numpy()
    repeated = np.zeros(len(at), np.bool_)
    repeated[1:] = (
        (at[1:] == at[:-1] + 1) & (shard[1:] == shard[:-1]) & (records.execution[at[1:]] == records.execution[at[:-1]])
    )
    at = at[~repeated & (known[records.execution[at] - 1] >= 0)]
    lines = pl.DataFrame(
        {
            "execution": records.execution[at],
            "source": records.source(at),
            **records.pick(at, "byte_offset", "shard_id", "log_time", "statement_kind").to_dict(),
        }
    )
    opener = executions["opener_offset"].gather(known[records.execution[at] - 1])
    early = (lines["byte_offset"] < opener).fill_null(value=False)
    if not early.any():
        return lines
    later = lines.filter(~early).select("execution", "shard_id", again=pl.lit(value=True)).unique()
    return (
        lines.with_columns(early=early)
        .join(later, on=["execution", "shard_id"], how="left", maintain_order="left")
        .filter(~(pl.col("early") & pl.col("again").fill_null(value=False)))
        .drop("early", "again")
    )


_PHASES: Final = pl.Enum(["parse", "bind", "execute"])


def _phases(records: Records, timed: _Timed, known: Indices) -> pl.DataFrame:
    """Durations as phases: the closing one is execute, of those before the last is bind, the others are parse."""
    at, execution = timed.at, timed.execution
    closes = records.closes[at]
    last_before = np.ones(len(at), np.bool_)
    last_before[:-1] = closes[1:] | (execution[1:] != execution[:-1])
    is_parse = np.where(records.event[at] == PREPARE, records.says(at, PARSES), ~last_before)
    name = np.where(closes, 2, np.where(is_parse, 0, 1)).astype(np.uint8)
    phases = pl.DataFrame(
        {
            "execution": execution,
            "source": records.source(at),
            **records.pick(at, "byte_offset", "log_time").to_dict(),
            "duration_us": timed.duration,
            "closes": closes,
            "name": pl.Series(name).cat.to(_PHASES),
        }
    )
    kept = known[execution - 1] >= 0
    return phases if kept.all() else phases.filter(kept)


def place(offset: str) -> pl.Expr:
    """One number that orders the records of a node over all of its files."""
    return pl.col("source").cast(pl.Int64) * FILE_ROOM + pl.col(offset)


def _coverage(records: Records, executions: pl.DataFrame) -> pl.DataFrame:
    copied = pl.Series(records.files.of_record[records.copies])
    first = executions.select("node", "session", "anchored").filter(
        pl.Series(changes(executions["session"].to_numpy()))
    )
    under_way = first.group_by("node").agg(under_way=(~pl.col("anchored")).any())
    times = (
        records.events.select("log_time", source=pl.Series(records.files.of_record))
        .filter(records.events["pid"].is_not_null())
        .group_by("source")
        .agg(first_time=pl.col("log_time").min(), last_time=pl.col("log_time").max())
        .join(records.files.table.select("source", pl.col("node").cast(pl.Categorical)), on="source")
        .group_by("node")
        .agg(pl.col("first_time").min(), pl.col("last_time").max())
    )
    copies = pl.DataFrame({"node": records.files.table["node"].cast(pl.Categorical).gather(copied)})
    return (
        times.join(under_way, on="node", how="left")
        .join(copies.group_by("node").agg(copies=pl.len()), on="node", how="left")
        .with_columns(pl.col("under_way").fill_null(value=False), pl.col("copies").fill_null(0))
    )
