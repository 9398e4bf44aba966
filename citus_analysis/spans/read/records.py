"""Records of server logs in the order of their sessions, each with the execution it belongs to.

A backend writes its records in order, numbered by `session_line`. Sorted by backend and position, every record
of a session is one of a few *events*; which statement it belongs to follows from the events before it:

- an *opener* names a statement (`execute S_1: ...`, `statement: ...`);
- the first duration after an opener closes the statement; an error closes whatever is open;
- a duration whose predecessor is not an opener belongs to a phase (parse, bind) of the statement to come;
- `statement:` on a shard inside a client's session of a cluster is a local execution, not an opener;
- a task record reports a remote execution of the open statement.

This holds for both protocols, for parents and for children (sessions with a gpid). All steps are operations on
arrays over the sorted records; there is no loop over records or statements. The records are sorted once, by row
numbers; their columns stay where they are until someone picks from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.schema import KINDS, PROTOCOL_PHASES
from citus_analysis.spans.read.ordered_arrays import Flags, Indices, changes, counted, firsts, pick, stable_order
from citus_analysis.spans.read.stitching import stitch

__all__ = [
    "ERROR",
    "EXTENDED",
    "FILE_ROOM",
    "LOCAL",
    "OPENER",
    "PARSES",
    "PREPARE",
    "TASK",
    "TIMED",
    "TRACED_COLUMNS",
    "WHOLE",
    "LogFiles",
    "Records",
    "read_records",
]

#: What a record is to its session: a duration that names its phase (parse, bind), one that names its statement as
#: well, a bare duration, a local execution, a statement line, a task, an error, nothing.
PREPARE, WHOLE, DURATION, LOCAL, OPENER, TASK, ERROR, NOTHING = range(8)

#: Events that report a duration: all up to this one.
TIMED: Final = DURATION

#: No file is larger than this many bytes.
FILE_ROOM: Final = 1 << 44

_NEVER: Final = np.iinfo(np.int64).max

_KINDS: Final = (*KINDS, None)
_PHASES: Final = (*PROTOCOL_PHASES, None)


def _naming(*names: str) -> Flags:
    """Which pairs of a kind and a phase name one of these."""
    return np.array([kind in names or phase in names for kind in _KINDS for phase in _PHASES])


def _of_kind(*names: str) -> Flags:
    return np.array([kind in names for kind in _KINDS for _ in _PHASES])


#: Kinds and phases of a parse phase, and of a statement over the extended protocol.
PARSES: Final = _naming("parse")
EXTENDED: Final = _naming("execute")


@dataclass(frozen=True)
class LogFiles:
    """The log files of an iteration; those of one node follow each other in time.

    Attributes:
        table: `source` (0, 1, 2 ...), `source_id`, `node`, `resource`, `run_id`, `iteration`, and the `first_time` of
            its records, milliseconds since 1970.
        of_record: the source of each record.
    """

    table: pl.DataFrame
    of_record: NDArray[np.uint32]


@dataclass(frozen=True)
class Records:
    """The records that shape executions, by node, backend and position. Arrays have one element per record.

    Attributes:
        events: all records, as they came.
        files: the log files they stand in.
        row: row in `events`.
        event: what it is to its session.
        session: number of its session.
        segment: number of the unbroken piece of a session.
        anchored: the segment holds the session's first record: nothing of it is missing before.
        closes: it ends its execution.
        execution: number of its execution, from 1, in order.
        gaps: where records of child sessions are missing: `gpid`, `node`, and the `place` of the last record before.
        copies: rows of records that stand in the logs once more; they count once.
        words: kind and phase of each row of `events`, as one number.
    """

    events: pl.DataFrame
    files: LogFiles
    row: Indices
    event: NDArray[np.uint8]
    session: NDArray[np.uint32]
    segment: NDArray[np.uint32]
    anchored: Flags
    closes: Flags
    execution: NDArray[np.uint32]
    gaps: pl.DataFrame
    copies: Indices
    words: NDArray[np.uint8]

    @cached_property
    def first(self) -> Indices:
        """Where the records of each execution begin."""
        return firsts(self.execution)

    def pick(self, at: Indices, *columns: str) -> pl.DataFrame:
        """Columns at some records; a negative number gives null."""
        return pick(self.events[list(columns)], np.where(at >= 0, self.row[at], -1) if len(self.row) else at)

    def source(self, at: Indices) -> pl.Series:
        """The source of some records."""
        return pl.Series(self.files.of_record[self.row[at]])

    def node(self, at: Indices) -> pl.Series:
        """The node of some records."""
        return self.files.table["node"].cast(pl.Categorical).gather(self.source(at))

    def says(self, at: Indices, what: Flags) -> Flags:
        """Whether kind or phase of some records say one thing (:data:`PARSES`, :data:`EXTENDED`)."""
        return what[self.words[self.row[at]]]


def read_records(events: pl.DataFrame, *, distributed: bool) -> Records:
    """Sort the records of one iteration and number their executions; only a cluster has executions on shards."""
    files = _number_files(events)
    # Gathering from one chunk is much faster than from many.
    events = events.select(_USED).rechunk()
    by_place, starts = _sorted(events, files)
    order, starts, copies = stitch(events, by_place, starts)
    restarted, broken = _breaks(events["session_line"], order, starts)
    moved = np.zeros(len(order), np.bool_) if order is by_place else _moved(events, files, order, restarted)
    broken |= moved
    begins, restarts = np.flatnonzero(broken), np.flatnonzero(restarted)
    anchored = restarted[begins] & (events["session_line"].gather(order[begins]) == 1).fill_null(value=False).to_numpy()
    gaps = _gaps(events, files, order, restarted | moved, begins[~anchored])
    words = _words(events)
    event = _classify(events, words, distributed=distributed)[order]
    shaping = np.flatnonzero(event != NOTHING)
    event, row = event[shaping], order[shaping]
    session, segment = _numbers(restarts, shaping), _numbers(begins, shaping)
    whole = anchored[segment - 1] if len(anchored) else np.zeros(0, np.bool_)
    closes, execution = _number_executions(events, row, event, segment, whole)
    return Records(events, files, row, event, session, segment, whole, closes, execution, gaps, copies, words)


_IDENTITY: Final = ("source_id", "node", "resource", "run_id", "iteration")
_USED: Final = (
    "pid",
    "byte_offset",
    "log_time",
    "session_line",
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
    "other_shards",
)
#: Columns of `log_events` that traces are built from.
TRACED_COLUMNS: Final = (*_IDENTITY, *_USED)


def _number_files(events: pl.DataFrame) -> LogFiles:
    identity = _IDENTITY[1:]
    # Files follow each other: their names are compared with the one before, not hashed.
    begin = firsts(events["source_id"].rle_id().to_numpy())
    times = events["log_time"].to_physical().fill_null(_NEVER).to_numpy()
    runs = events.select(_IDENTITY)[begin].with_columns(
        pl.col(pl.Categorical).cast(pl.String),
        first_time=np.minimum.reduceat(times, begin) if len(begin) else pl.Series([], dtype=pl.Int64),
    )
    table = (
        runs.group_by("source_id")
        .agg(pl.col(identity).first(), pl.col("first_time").min())
        .with_columns(first_time=pl.when(pl.col("first_time") != _NEVER).then("first_time"))
        .sort("node", "first_time", "source_id")
        .with_row_index("source")
        .select("source", "source_id", pl.col("node").fill_null(pl.col("source_id")), *identity[1:], "first_time")
    )
    number = runs.join(table, on="source_id", how="left", maintain_order="left")["source"].to_numpy()
    return LogFiles(table, np.repeat(number, np.diff(begin, append=events.height)).astype(np.uint32))


def _sorted(events: pl.DataFrame, files: LogFiles) -> tuple[Indices, Indices]:
    """Rows with a backend by node, backend and position, and where in them the rows of a backend begin."""
    rows = _by_position(events, files)
    pids = events["pid"]
    if pids.null_count():
        rows = rows[pids.is_not_null().to_numpy()[rows]]
    pid = pids.fill_null(0).to_numpy()
    # Files are few, and so are nodes; the rows of one stand together.
    node = files.table["node"].rank("dense").to_numpy()
    begins = firsts(node[files.of_record][rows]) if files.table.height > 1 else np.zeros(min(len(rows), 1), np.intp)
    of_node = [stable_order(pid, part) for part in np.split(rows, begins[1:])]
    starts = [begin + firsts(pid[part]) for begin, part in zip(begins, of_node, strict=False)]
    return np.concatenate(of_node), np.concatenate([np.zeros(0, np.intp), *starts])


def _by_position(events: pl.DataFrame, files: LogFiles) -> Indices:
    """Rows by source and offset. A parser yields them so, and a sort of millions of rows is worth avoiding."""
    source, offset = files.of_record, events["byte_offset"].to_numpy()
    begins = firsts(source)
    backwards = np.flatnonzero(offset[1:] <= offset[:-1]) + 1
    if len(begins) > files.table.height or not np.isin(backwards, begins).all():
        return np.lexsort((offset, source))
    # Sources are unsigned: the difference of two would never be negative.
    if np.all(source[begins][1:] > source[begins][:-1]):
        return np.arange(len(source))
    ends = np.append(begins[1:], len(source))
    return np.concatenate([np.arange(begins[at], ends[at]) for at in np.argsort(source[begins])])


def _breaks(lines: pl.Series, order: Indices, starts: Indices) -> tuple[Flags, Flags]:
    """Where sessions begin, and where the unbroken pieces of sessions do."""
    restarted = np.zeros(len(order), np.bool_)
    restarted[starts] = True
    line = lines.fill_null(0).to_numpy()[order]
    step = line[1:] - line[:-1]
    back, ahead = step <= 0, step > 1
    if lines.null_count():
        known = lines.is_not_null().to_numpy()[order]
        unknown = ~(known[1:] & known[:-1])
        back[unknown], ahead[unknown] = False, False
    restarted[1:] |= back
    broken = restarted.copy()
    broken[1:] |= ahead
    return restarted, broken


def _moved(events: pl.DataFrame, files: LogFiles, order: Indices, restarted: Flags) -> Flags:
    """Records of a session that stand before their predecessor: a copy filled a hole of unknown size."""
    place = files.of_record[order].astype(np.int64) * FILE_ROOM + events["byte_offset"].to_numpy()[order]
    moved = np.zeros(len(order), np.bool_)
    moved[1:] = (place[1:] < place[:-1]) & ~restarted[1:]
    return moved


def _numbers(begins: Indices, chosen: Indices) -> NDArray[np.uint32]:
    """The number (from 1) of the group of each chosen record, given where groups begin."""
    counts = np.diff(np.searchsorted(chosen, begins), append=len(chosen))
    return np.repeat(np.arange(1, len(begins) + 1, dtype=np.uint32), counts)


def _gaps(events: pl.DataFrame, files: LogFiles, order: Indices, restarted: Flags, begins: Indices) -> pl.DataFrame:
    row = order[begins]
    before = order[begins - 1]
    place = files.of_record[before].astype(np.int64) * FILE_ROOM + events["byte_offset"].gather(before).to_numpy()
    return pl.DataFrame(
        {
            "gpid": events["gpid"].gather(row),
            "node": files.table["node"].cast(pl.Categorical).gather(files.of_record[row]),
            "place": np.where(restarted[begins], -1, place),
        }
    ).filter(pl.col("gpid").is_not_null())


def _words(events: pl.DataFrame) -> NDArray[np.uint8]:
    """Kind and phase of each record as one number."""
    kind = events["kind"].to_physical().cast(pl.UInt8).fill_null(len(_KINDS) - 1).to_numpy()
    phase = events["phase"].to_physical().cast(pl.UInt8).fill_null(len(_PHASES) - 1).to_numpy()
    return np.asarray(kind * np.uint8(len(_PHASES)) + phase)


def _timed_events() -> NDArray[np.uint8]:
    """What a record with a duration is, by its words."""
    timed = _of_kind("duration", "parse", "bind", "execute", "statement")
    prepares, runs = _naming("parse", "bind"), _naming("execute", "statement")
    named = np.where(prepares, PREPARE, np.where(runs, WHOLE, DURATION))
    return np.where(timed, named, _untimed_events()).astype(np.uint8)


def _untimed_events() -> NDArray[np.uint8]:
    """What a record without a duration is, by its words."""
    opener = np.where(_of_kind("execute", "statement"), OPENER, NOTHING)
    return np.where(_of_kind("task"), TASK, opener).astype(np.uint8)


def _classify(events: pl.DataFrame, words: NDArray[np.uint8], *, distributed: bool) -> NDArray[np.uint8]:
    """What each record is to its session."""
    timed = events["duration_us"].is_not_null().to_numpy()
    event = np.where(timed, _timed_events()[words], _untimed_events()[words])
    if distributed:
        on_shard = (events["shard_id"].is_not_null() & events["gpid"].is_null()).to_numpy()
        event[(event == OPENER) & on_shard & _of_kind("statement")[words]] = LOCAL
    other = np.flatnonzero(event == NOTHING)
    severity = events["severity"].gather(other)
    event[other[severity.is_in(["ERROR", "FATAL", "PANIC"]).fill_null(value=False).to_numpy()]] = ERROR
    return event


def _number_executions(
    events: pl.DataFrame, row: Indices, event: NDArray[np.uint8], segment: NDArray[np.uint32], anchored: Flags
) -> tuple[Flags, NDArray[np.uint32]]:
    """Which records close their execution, and the execution of each."""
    # A task opens where its statement line is missing: the log begins, or has a gap, in the middle of a statement.
    opens = (event == OPENER) | (event == TASK)
    after_opener = np.zeros(len(event), np.bool_)
    shaping = np.flatnonzero(event != LOCAL)
    after_opener[shaping[1:]] = opens[shaping[:-1]] & (segment[shaping[1:]] == segment[shaping[:-1]])
    closes = (event == ERROR) | (event == WHOLE) | ((event == DURATION) & after_opener)
    never_closed = ((event == OPENER) | (event == WHOLE) | (event == PREPARE)) & after_opener
    begins = changes(segment) | never_closed
    begins[1:] |= closes[:-1]
    if not anchored.all():
        begins |= _fragments(events["local_xid"], row, opens, segment) & ~anchored
    return closes, counted(begins)


def _fragments(xids: pl.Series, row: Indices, opens: Flags, segment: NDArray[np.uint32]) -> Flags:
    """Where the next statement begins, told by its xid, in a segment that begins in the middle of a statement."""
    xid = xids.fill_null(-1).to_numpy()[row]
    other = np.zeros(len(row), np.bool_)
    other[1:] = (xid[1:] != xid[:-1]) & (xid[1:] >= 0) & (xid[:-1] >= 0)
    opened: Indices = np.cumsum(opens) - opens
    first = firsts(segment)
    before: Indices = np.repeat(opened[first], np.diff(first, append=len(segment)))
    return np.asarray(other & (opened == before))
