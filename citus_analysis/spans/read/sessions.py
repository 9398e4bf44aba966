"""Assemble the log records of one iteration into statement executions, tasks and shard executions.

:mod:`citus_analysis.spans.read.records` defines the execution that a record belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.core.arrow_arrays import arrow_flags, arrow_numbers, arrow_times
from citus_analysis.formats.serverlog.pglog.compiled.assembly import NO_CODE, NO_PROCESS, NOTHING_THERE, Assembled
from citus_analysis.schema import TABLES
from citus_analysis.spans.read.assembling import Texts, columns_of, frame_of, new_assembly, record_columns
from citus_analysis.spans.read.ordered_arrays import Indices
from citus_analysis.spans.read.records import FILE_ROOM, USED, number_files, sorted_rows
from citus_analysis.spans.read.stitching import stitch


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
    tasks: pl.DataFrame = field(default_factory=pl.DataFrame)
    locals: pl.DataFrame = field(default_factory=pl.DataFrame)
    phases: pl.DataFrame = field(default_factory=pl.DataFrame)
    gaps: pl.DataFrame = field(default_factory=pl.DataFrame)
    coverage: pl.DataFrame = field(default_factory=pl.DataFrame)
    begins: pl.DataFrame = field(default_factory=pl.DataFrame)


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
    files, of_record = number_files(events)
    order, copies = stitch(events, *sorted_rows(events, files, of_record))
    assembly = new_assembly(files, nodes, distributed=is_cluster)
    texts = Texts()
    # Compiled code reads the memory of the columns, so they must have the types of the schema.
    typed = events.select(pl.col(name).cast(TABLES["log_events"][name].dtype) for name in USED).rechunk()
    arrays = {name: typed[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in USED}
    assembly.add_sorted(record_columns(arrays, texts), order, of_record)
    assembly.end()
    done = assembly.take()
    return Sessions(
        sources=files,
        **held_by(done, np.arange(len(done["executions"])), files, texts),
        tasks=tasks_of(done["tasks"], files, nodes, texts),
        gaps=gaps_of(done, files),
        coverage=coverage_of(done, assembly.times, files, of_record[copies].astype(np.intp)),
        begins=begins_of(done),
    )


#: Names of the phases of an execution.
PHASES: Final = ("parse", "bind", "execute")
_STATEMENT_KIND: Final = TABLES["log_events"]["statement_kind"].dtype
_NODE: Final = pl.Categorical


def held_by(done: Assembled, numbers: Indices, files: pl.DataFrame, texts: Texts) -> dict[str, pl.DataFrame]:
    """`executions`, `locals` and `phases` of :class:`Sessions`, for executions with these numbers."""
    names = ("execution", "source", "byte_offset")
    local = columns_of(done["locals"], names, ("shard_id",), times=("log_time",))
    phases = columns_of(done["phases"], (*names, "duration_us", "name"), times=("log_time",), flags=("closes",))
    return {
        "executions": executions_of(done["executions"], numbers, files, texts),
        "locals": frame_of(local | {"statement_kind": _kinds(done["locals"])}).with_columns(_KIND),
        "phases": frame_of(phases).with_columns(_PHASE),
    }


_OF_TASK: Final = (
    *("execution", "source", "session", "pid"),
    *("statement_source", "statement_offset", "statement_seq", "values_hash"),
)
# Members of structures by which executions are linked, and those that only their own spans need.
_LINKED: Final = ("source", "pid", "last_offset", "session_seq", "values_hash")
_FLAGS: Final = ("has_tasks", "has_locals", "failed", "opened", "closed", "is_child", "first_on_shard")
_OPTIONAL: Final = ("opener_offset", "byte_offset", "gpid", "shard_id", "connect_us")
_TIMES: Final = ("opener_time", "end_time", "start_time")
_FURTHER: Final = ("phases", "session")
_FURTHER_FLAGS: Final = ("anchored", "fatal", "in_transaction")
_TRANSACTIONS: Final = ("local_xid", "closing_xid")


def executions_of(
    items: NDArray[np.void], numbers: Indices, files: pl.DataFrame, texts: Texts, *, only_linked: bool = False
) -> pl.DataFrame:
    """Executions with these numbers, as in :class:`Sessions`.

    Args:
        items: the executions.
        numbers: their numbers.
        files: the log files.
        texts: texts that they name.
        only_linked: only the columns by which executions are linked: of millions, each column takes memory.
    """
    columns: dict[str, pa.Array | pl.Series] = {**columns_of(items, _LINKED, _OPTIONAL, flags=_FLAGS, times=_TIMES)}
    known = items["pid"] != NO_PROCESS
    if not known.all():
        columns |= {name: arrow_numbers(items[name].copy(), known) for name in ("pid", "session_seq")}
    columns |= {
        "extended": arrow_flags(items["extended"] == 1, items["opened"] == 1),
        "duration_us": arrow_numbers(items["duration_us"].copy(), items["phases"] > 0),
        "execution": arrow_numbers(numbers.astype(np.uint32)),
        "node": _nodes(files)[items["source"].copy()],
        "other_shards": texts.shards.named(items["other_shards"].copy()),
    }
    if only_linked:
        return frame_of(columns)
    columns |= columns_of(items, _FURTHER, _TRANSACTIONS, flags=_FURTHER_FLAGS)
    fingerprints = arrow_numbers(items["statement_fingerprint"].copy(), items["has_fingerprint"] == 1)
    columns |= {"statement_fingerprint": fingerprints, "statement_kind": _kinds(items)}
    return frame_of(columns).with_columns(_KIND)


def _nodes(files: pl.DataFrame) -> pl.Series:
    """The node of each log file."""
    return files["node"].cast(_NODE)


def _kinds(items: NDArray[np.void]) -> pa.Array:
    # The values under nulls must be valid codes, too, or sessions that were laid aside could not be read back.
    codes = items["statement_kind"].copy()
    return arrow_numbers(codes % NO_CODE, codes != NO_CODE)


# Expressions are made once: a small iteration takes as long to make them as to evaluate them.
_KIND: Final = pl.col("statement_kind").cat.to(_STATEMENT_KIND)
_PHASE: Final = pl.col("name").cat.to(pl.Enum(PHASES))


def tasks_of(items: NDArray[np.void], files: pl.DataFrame, nodes: pl.DataFrame, texts: Texts) -> pl.DataFrame:
    """Tasks of executions, as in :class:`Sessions`.

    Args:
        items: the tasks.
        files: the log files.
        nodes: rows of table `nodes` of the resource.
        texts: the texts that the records name.
    """
    optional, flags = ("byte_offset", "shard_id", "task_us", "gpid"), ("anchored", "failed", "is_child")
    columns = columns_of(items, _OF_TASK, optional, times=("end_time",), flags=flags)
    parent, child = _nodes(files)[items["source"].copy()], _node_of_host(items, nodes, texts.hosts.texts)
    return frame_of(columns | {"parent_node": parent, "child_node": child})


def _node_of_host(items: NDArray[np.void], nodes: pl.DataFrame, hosts: Sequence[str]) -> pl.Series:
    """The node on whose host and port each task ran."""
    known = list(zip(nodes["node"], nodes["host"], nodes["port"], strict=True))
    host, port = items["host"].copy(), items["port"].copy()
    # The last of the names is the one at index -1.
    names = pl.Series([*(node for node, _, _ in known), None], dtype=pl.String).cast(_NODE)
    number = np.full(len(items), -1, np.int32)
    # Of several nodes at one place, the first counts. Nodes are few.
    for at, (_, own_host, own_port) in reversed(list(enumerate(known))):
        if own_host in hosts and own_port is not None:
            number[(host == hosts.index(own_host)) & (port == own_port)] = at
    return names[number]


def place(offset: str) -> pl.Expr:
    """One number that orders the records of a node over all of its files."""
    return pl.col("source").cast(pl.Int64) * FILE_ROOM + pl.col(offset)


def begins_of(done: Assembled) -> pl.DataFrame:
    """Begins of sessions, as in :class:`Sessions`."""
    begins = done["sessions"]["begins"].copy()
    known = arrow_numbers(begins.astype(np.float64), begins != NOTHING_THERE)
    return frame_of({"session": arrow_numbers(done["sessions"]["session"].copy()), "session_begins": known})


def gaps_of(done: Assembled, files: pl.DataFrame) -> pl.DataFrame:
    """Missing records of child sessions, as in :class:`Sessions`."""
    missing = done["missing"]
    node = pl.Series(sorted(set(files["node"])), dtype=pl.String).cast(_NODE)[missing["node"].copy()]
    return frame_of(columns_of(missing, ("gpid", "place")) | {"node": node})


def coverage_of(done: Assembled, times: NDArray[np.int64], files: pl.DataFrame, copied: Indices) -> pl.DataFrame:
    """The extent of each node's logs, as in :class:`Sessions`.

    Args:
        done: all sessions.
        times: times of the first and the last record of each log file.
        files: the log files.
        copied: the log file of each repeated record.
    """
    names = sorted(set(files["node"]))
    of_file = np.array([names.index(name) for name in files["node"]], np.intp)
    sessions = done["sessions"]
    never = np.iinfo(np.int64).max
    first, last = np.full(len(names), never), np.full(len(names), NOTHING_THERE)
    np.minimum.at(first, of_file, np.where(times[:, 0] != NOTHING_THERE, times[:, 0], never))
    np.maximum.at(last, of_file, times[:, 1])
    under_way = np.zeros(len(names), np.bool_)
    under_way[sessions["node"][sessions["anchored"] == 0]] = True
    copies = np.bincount(of_file[copied], minlength=len(names)).astype(np.uint32)
    columns: dict[str, pa.Array | pl.Series] = {
        "first_time": arrow_times(first, first != never),
        "last_time": arrow_times(last, last != NOTHING_THERE),
        "under_way": arrow_flags(under_way),
        "copies": arrow_numbers(copies),
        "node": pl.Series(names, dtype=pl.String).cast(_NODE),
    }
    return frame_of(columns)
