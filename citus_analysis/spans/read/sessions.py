"""Assemble the log records of one iteration into statement executions, tasks and shard executions.

:mod:`citus_analysis.spans.read.records` defines the execution that a record belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.assembly import (
    NO_CODE,
    NOTHING_THERE,
    Assembled,
    chosen_items,
)
from citus_analysis.schema import TABLES
from citus_analysis.spans.read.assembling import (
    GPID_NODE_FACTOR,
    TextNumbers,
    frame_of,
    new_assembly,
    record_columns,
)
from citus_analysis.spans.read.ordered_arrays import Indices
from citus_analysis.spans.read.records import FILE_ROOM, USED, number_files, sorted_rows
from citus_analysis.spans.read.stitching import stitch

__all__ = [
    "GPID_NODE_FACTOR",
    "Sessions",
    "Texts",
    "are_distributed",
    "begins_of",
    "coverage_of",
    "executions_of",
    "gaps_of",
    "held_by",
    "place",
    "read_sessions",
    "tasks_of",
]


@dataclass(frozen=True)
class Sessions:
    """Executions, tasks and phases of the sessions of one iteration.

    Attributes:
        sources: one row per log file; `source` is its number in the other frames.
        executions: one row per statement execution; `is_child` marks executions on behalf of another session.
        tasks: one row per task record of a parent; `execution` is its statement, which ends at `statement_offset` of
            `statement_source`.
        locals: one row per execution on a shard by the parent itself.
        phases: one row per protocol phase of an execution.
        gaps: missing records of child sessions: `gpid`, `node`, and the `place` of the last record before the gap.
        coverage: per node the first and last record's time, whether sessions were `under_way` at its beginning, and
            the number of repeated records in its logs (`copies`).
        begins: begin of each session: `session` and `session_begins` (microseconds).
    """

    sources: pl.DataFrame
    executions: pl.DataFrame
    tasks: pl.DataFrame
    locals: pl.DataFrame
    phases: pl.DataFrame
    gaps: pl.DataFrame
    coverage: pl.DataFrame
    begins: pl.DataFrame


def are_distributed(events: pl.DataFrame | pl.LazyFrame, nodes: pl.DataFrame) -> bool:
    """Whether servers form a Citus cluster: its nodes are known, or records report tasks or global pids.

    A shard's name proves nothing: a partition `public.events_202401` looks like one.

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
        distributed: see :func:`are_distributed`; None: these records decide.
    """
    is_cluster = are_distributed(events, nodes) if distributed is None else distributed
    files = number_files(events)
    order, starts = sorted_rows(events, files)
    order, _, copies = stitch(events, order, starts)
    assembly = new_assembly(files.table, nodes, distributed=is_cluster)
    texts = Texts(TextNumbers(), TextNumbers())
    # Compiled code reads the memory of the columns, so they must have the types of the schema.
    typed = events.select(pl.col(name).cast(TABLES["log_events"][name].dtype) for name in USED).rechunk()
    arrays = {name: typed[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in USED}
    assembly.add_sorted(record_columns(arrays, texts.hosts, texts.shards), order, files.of_record)
    assembly.end()
    done = assembly.take()
    owners = chosen_items(done["executions"], done["tasks"]["execution"])
    return Sessions(
        sources=files.table,
        **held_by(done, np.arange(len(done["executions"])), files.table, texts),
        tasks=tasks_of(done["tasks"], owners, files.table, nodes, texts),
        gaps=gaps_of(done, files.table),
        coverage=coverage_of(done, assembly.times, files.table, pl.Series(files.of_record[copies])),
        begins=begins_of(done),
    )


_US: Final = pl.Datetime("us", "UTC")
_PHASES: Final = pl.Enum(["parse", "bind", "execute"])
_STATEMENT_KIND: Final = TABLES["log_events"]["statement_kind"].dtype
_NODE: Final = pl.Categorical


@dataclass(frozen=True)
class Texts:
    """Texts that records name by number: hosts of workers, and further shards of statements."""

    hosts: TextNumbers
    shards: TextNumbers


def held_by(done: Assembled, numbers: Indices, files: pl.DataFrame, texts: Texts) -> dict[str, pl.DataFrame]:
    """`executions`, `locals` and `phases` of :class:`Sessions`, for executions with these numbers."""
    return {
        "executions": executions_of(done["executions"], numbers, files, texts),
        "locals": _locals(done["locals"]),
        "phases": _phases(done["phases"]),
    }


# Members of structures by which executions are linked, and those that only their own spans need.
_LINKED: Final = ("source", "pid", "phases", "duration_us", "last_offset", "session_seq", "other_shards")
_FLAGS: Final = ("has_tasks", "has_locals", "failed", "opened", "closed", "is_child", "first_on_shard", "extended")
_FURTHER: Final = ("session", "statement_kind", "statement_fingerprint")
_FURTHER_FLAGS: Final = ("anchored", "fatal", "in_transaction", "has_fingerprint")
_TIMES: Final = ("opener_time", "end_time", "start_time")
_OPTIONAL: Final = ("opener_offset", "byte_offset", "gpid", "shard_id", *_TIMES)
_TRANSACTIONS: Final = ("local_xid", "closing_xid")


def executions_of(items: NDArray[np.void], numbers: Indices, files: pl.DataFrame, texts: Texts) -> pl.DataFrame:
    """Executions with these numbers, as in :class:`Sessions`."""
    facts = frame_of(items, (*_LINKED, *_FLAGS, *_FURTHER, *_FURTHER_FLAGS), (*_OPTIONAL, *_TRANSACTIONS))
    return (
        _named(facts.with_columns(*_TYPED, _FURTHER_TYPED), numbers, files, texts)
        .with_columns(_KNOWN_FINGERPRINT, statement_kind=_kinds(facts["statement_kind"]))
        .drop("has_fingerprint")
    )


def linked_executions_of(items: NDArray[np.void], numbers: Indices, files: pl.DataFrame, texts: Texts) -> pl.DataFrame:
    """The columns of :func:`executions_of` by which executions are linked: of millions, each column takes memory."""
    facts = frame_of(items, (*_LINKED, *_FLAGS), _OPTIONAL)
    return _named(facts.with_columns(*_TYPED), numbers, files, texts).drop("phases")


def _named(facts: pl.DataFrame, numbers: Indices, files: pl.DataFrame, texts: Texts) -> pl.DataFrame:
    """The executions with their numbers, nodes and further shards."""
    return facts.with_columns(
        *_WHERE_KNOWN,
        execution=pl.Series(numbers.astype(np.uint32)),
        node=files["node"].cast(_NODE).gather(facts["source"]),
        other_shards=texts.shards.named(facts["other_shards"], pl.String),
    )


# Expressions are made once: a small iteration takes as long to make them as to evaluate them.
_TYPED: Final = (pl.col(_FLAGS).cast(pl.Boolean), pl.col(_TIMES).cast(_US))
_FURTHER_TYPED: Final = pl.col(_FURTHER_FLAGS).cast(pl.Boolean)
_WHERE_KNOWN: Final = (
    pl.when("opened").then("extended").alias("extended"),
    pl.when(pl.col("phases") > 0).then("duration_us").alias("duration_us"),
)
_KNOWN_FINGERPRINT: Final = pl.when("has_fingerprint").then("statement_fingerprint").alias("statement_fingerprint")
# The values under nulls must be valid codes, too, or sessions that were laid aside could not be read back.
_KNOWN_CODE: Final = pl.when(pl.col("code") != NO_CODE).then(pl.col("code") % NO_CODE)


def _kinds(codes: pl.Series) -> pl.Series:
    return codes.to_frame("code").select(_KNOWN_CODE).to_series().cat.to(_STATEMENT_KIND)


def tasks_of(
    items: NDArray[np.void], owners: NDArray[np.void], files: pl.DataFrame, nodes: pl.DataFrame, texts: Texts
) -> pl.DataFrame:
    """Tasks of executions, as in :class:`Sessions`.

    Args:
        items: the tasks.
        owners: the execution of each task.
        files: the log files.
        nodes: rows of table `nodes` of the resource.
        texts: the texts that the records name.
    """
    facts = frame_of(items, ("execution", "source", "host", "port"), ("byte_offset", "shard_id", "task_us", "end_time"))
    owner = frame_of(owners, ("anchored", "session", "failed", "pid", "is_child"), ("gpid",)).with_columns(
        _FLAGS_OF_OWNERS,
        statement_source=pl.Series(owners["source"]),
        statement_offset=pl.Series(np.where(owners["closed"] == 1, owners["byte_offset"], owners["last_offset"])),
        statement_seq=pl.Series(owners["session_seq"]),
    )
    tasks = facts.hstack(owner).with_columns(
        *_OF_TASKS,
        parent_node=files["node"].cast(_NODE).gather(facts["source"]),
        host=texts.hosts.named(facts["host"], pl.Categorical),
    )
    hosts = nodes.select(_HOSTS).drop_nulls("host").unique(["host", "port"], keep="first")
    return tasks.join(hosts, on=["host", "port"], how="left", maintain_order="left")


_FLAGS_OF_OWNERS: Final = pl.col("anchored", "failed", "is_child").cast(pl.Boolean)
_OF_TASKS: Final = (
    pl.col("end_time").cast(_US),
    pl.when(pl.col("port") != np.iinfo(np.int32).min).then("port").alias("port"),
)
_HOSTS: Final = (pl.col("host").cast(pl.Categorical), pl.col("port"), pl.col("node").cast(_NODE).alias("child_node"))
_LOGGED: Final = pl.col("log_time").cast(_US)
_CLOSES: Final = pl.col("closes").cast(pl.Boolean)


def _locals(items: NDArray[np.void]) -> pl.DataFrame:
    """Executions on the parent's own shards."""
    facts = frame_of(items, ("execution", "source", "statement_kind", "byte_offset"), ("shard_id", "log_time"))
    return facts.with_columns(_LOGGED, statement_kind=_kinds(facts["statement_kind"]))


def _phases(items: NDArray[np.void]) -> pl.DataFrame:
    facts = frame_of(items, ("execution", "source", "byte_offset", "duration_us", "closes", "name"), ("log_time",))
    return facts.with_columns(_LOGGED, _CLOSES, name=facts["name"].cat.to(_PHASES))


def place(offset: str) -> pl.Expr:
    """One number that orders the records of a node over all of its files."""
    return pl.col("source").cast(pl.Int64) * FILE_ROOM + pl.col(offset)


def begins_of(done: Assembled) -> pl.DataFrame:
    """Begins of sessions, as in :class:`Sessions`."""
    facts = frame_of(done["sessions"], ("session",), ("begins",))
    return facts.select("session", session_begins=pl.col("begins").cast(pl.Float64))


def gaps_of(done: Assembled, files: pl.DataFrame) -> pl.DataFrame:
    """Missing records of child sessions, as in :class:`Sessions`."""
    missing = done["missing"]
    names = files["node"].unique().sort().cast(_NODE)
    return frame_of(missing, ("gpid", "place")).with_columns(node=names.gather(missing["node"]))


def coverage_of(done: Assembled, times: NDArray[np.int64], files: pl.DataFrame, copied: pl.Series) -> pl.DataFrame:
    """The extent of each node's logs, as in :class:`Sessions`.

    Args:
        done: all sessions.
        times: times of the first and the last record of each log file.
        files: the log files.
        copied: the log file of each repeated record.
    """
    node = files["node"].cast(_NODE)
    names = files["node"].unique().sort().cast(_NODE)
    sessions = done["sessions"]
    under_way = pl.DataFrame({"node": names.gather(sessions["node"]), "under_way": sessions["anchored"] == 0})
    seen = pl.DataFrame({"node": node, "first_time": times[:, 0], "last_time": times[:, 1]})
    known = seen.with_columns(
        pl.when(pl.col(name) != NOTHING_THERE).then(name).cast(_US).alias(name) for name in ("first_time", "last_time")
    )
    copies = pl.DataFrame({"node": node.gather(copied)})
    return (
        known.group_by("node")
        .agg(pl.col("first_time").min(), pl.col("last_time").max())
        .join(under_way.group_by("node").agg(pl.col("under_way").any()), on="node", how="left")
        .join(copies.group_by("node").agg(copies=pl.len()), on="node", how="left")
        .with_columns(pl.col("under_way").fill_null(value=False), pl.col("copies").fill_null(0))
    )
