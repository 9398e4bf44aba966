"""The rules by which records of server logs belong to statement executions, and the order of records by session.

A backend writes its records in order, numbered by `session_line`. In the order of its session, every record is one of a
few *events*; its statement follows from the events before it:

- an *opener* names a statement (`execute S_1: ...`, `statement: ...`);
- the first duration after an opener closes the statement; an error closes any open statement;
- a duration whose predecessor is not an opener may be a phase (parse, bind) of the statement to come, or of a statement
  of which nothing else was logged. Unless transactions (`%v`) differ, it is the bind phase of the execution directly
  after it if the session logs all statements, if the transaction is the same, or if it ended when the execution began.
  It is the parse phase of the unnamed statement likewise, of a named one only at its first execution, if the session
  has no other duration without an owner. Simple statements, fetches and fastpath calls have no such phases. What
  remains open belongs to no statement;
- `statement:` on a shard inside a client's session of a cluster is a local execution, not an opener; so is what the
  local executor of Citus 13.2 and later says of a plan that it was handed, and `executing the command locally`. A plan
  that the planner made for a shard on the own node is one if nothing else tells where a statement on data was executed;
- a record of a connection says how long it took to make it; Citus repeats it where a later statement takes it over;
- a task record reports a remote execution of the open statement, and opens a statement if the statement line is missing
  because the log begins, or has a gap, in the middle of a statement.

- a bind that names its statement and is followed by another statement is an execution of which nothing else took long
  enough to be logged; a parse that is followed by another statement belongs to no execution.

Where a record does not tell its session (a prefix without `%p` and `%c`), only a record that is whole by itself is a
statement: one that names its statement, with the duration of this phase if it has one.

These rules apply to both protocols, and to parents as to children (sessions with a gpid). The meaning of each kind of
record is defined here; the pass over the records is compiled (`native/sessions.c`). It reads them in the order of their
logs, with backends alternating, as long as each backend's own records are in order. Records of logs that overlap, were
duplicated or concatenated in another order are sorted by session first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.layout import RECORD_EVENTS
from citus_analysis.schema import KINDS, PROTOCOL_PHASES
from citus_analysis.spans.read.ordered_arrays import Flags, Indices, changes

#: No file is larger than this many bytes.
FILE_ROOM: Final = 1 << 44

_PREPARE, _WHOLE, _DURATION, _LOCAL, _OPENER, _TASK, _ERROR, _PLANNED, _CONNECT, _BARRIER, _NOTHING = range(
    len(RECORD_EVENTS)
)

_KINDS: Final = (*KINDS, None)
_PHASES: Final = (*PROTOCOL_PHASES, None)


def _naming(*names: str) -> Flags:
    """Whether each pair of a kind and a phase has one of these names."""
    return np.array([kind in names or phase in names for kind in _KINDS for phase in _PHASES])


def _of_kind(*names: str) -> Flags:
    return np.array([kind in names for kind in _KINDS for _ in _PHASES])


def _untimed_events() -> NDArray[np.uint8]:
    """The event of a record without a duration."""
    opener = np.where(_of_kind("execute", "statement"), _OPENER, _NOTHING)
    inside = np.where(_of_kind("local"), np.where(_naming("execute"), _LOCAL, _PLANNED), opener)
    tasks = np.where(_of_kind("task"), _TASK, inside)
    return np.where(_of_kind("connection"), _BARRIER, tasks).astype(np.uint8)


def _timed_events() -> NDArray[np.uint8]:
    """The event of a record with a duration, which may also name its phase (parse, bind) or its statement."""
    timed = _of_kind("duration", "parse", "bind", "execute", "statement")
    prepares, runs = _naming("parse", "bind"), _naming("execute", "statement", "fetch", "fastpath")
    named = np.where(prepares, _PREPARE, np.where(runs, _WHOLE, _DURATION))
    connecting = np.where(_of_kind("connect"), _CONNECT, _untimed_events())
    unknown = np.where(_of_kind("other"), _BARRIER, connecting)
    return np.where(timed, named, unknown).astype(np.uint8)


#: Tables indexed by :func:`word_of`: the event of a record with a duration and without; whether it reports a parse
#: phase, belongs to the extended protocol, is a statement line, or is an execution that a bind phase precedes.
WORDS: Final[Mapping[str, NDArray[np.uint8]]] = {
    "timed": _timed_events(),
    "untimed": _untimed_events(),
    "parses": _naming("parse").astype(np.uint8),
    "extended": _naming("parse", "bind", "execute", "fetch").astype(np.uint8),
    "statements": _of_kind("statement").astype(np.uint8),
    "binds": (_naming("execute") & ~_naming("fetch")).astype(np.uint8),
}


def word_of(kind: NDArray[np.uint8], phase: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Kind and phase of each record as one number; the code of a missing kind or phase is the number of known codes."""
    return np.asarray(kind * np.uint8(len(_PHASES)) + phase)


_IDENTITY: Final = ("source_id", "node", "resource", "run_id", "iteration")
#: Columns of what identifies the files of stretches of records, and of the first time in them, µs.
STRETCHES: Final = {**dict.fromkeys(_IDENTITY[:-1], pl.String), "iteration": pl.Int32, "first_time": pl.Int64}
USED: Final = (
    *("pid", "byte_offset", "log_time", "session_line", "local_xid", "gpid"),
    *("severity", "kind", "phase", "duration_us", "shard_id", "task_us"),
    *(
        "worker_host",
        "worker_port",
        "statement_kind",
        "statement_name",
        "statement_fingerprint",
        "values_hash",
        "other_shards",
    ),
)
#: Columns of `log_events` that name the file of a record, and its time.
FILE_COLUMNS: Final = (*_IDENTITY, "log_time")
#: Columns of `log_events` that traces are built from.
TRACED_COLUMNS: Final = (*_IDENTITY, *USED)


def files_in_order(stretches: pl.DataFrame) -> pl.DataFrame:
    """The log files of an iteration, numbered (`source`: 0, 1, 2 ...); those of one node follow each other in time.

    Args:
        stretches: columns of :data:`STRETCHES`; stretches of records of one file each.
    """
    files = stretches.group_by("source_id").agg(pl.col(_IDENTITY[1:]).first(), pl.col("first_time").min())
    named = files.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort("node", "first_time", "source_id")
    return named.with_columns(node=pl.coalesce("node", "source_id")).with_row_index("source")


def number_files(events: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.uint32]]:
    """The numbered files of records, and the number of the file of each record."""
    table = files_in_order(events.select(*_IDENTITY, first_time=pl.col("log_time").to_physical()))
    of_record = events.select(pl.col("source_id").cast(pl.String)).join(
        table, on="source_id", how="left", maintain_order="left"
    )
    return table, of_record["source"].to_numpy()


def sorted_rows(events: pl.DataFrame, files: pl.DataFrame, source: NDArray[np.uint32]) -> tuple[Indices, Indices]:
    """Rows sorted by node, backend and position, and the index at which each backend begins."""
    # No process has the number 0, so records of unknown sessions stand together.
    pid, node = events["pid"].fill_null(0).to_numpy(), files["node"].rank("dense").to_numpy()[source]
    rows = np.lexsort((events["byte_offset"].to_numpy(), source, pid, node))
    return rows, np.flatnonzero(changes(node[rows]) | changes(pid[rows]))
