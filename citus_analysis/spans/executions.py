"""Assemble the log records of one iteration into statement executions, tasks and shard executions.

:mod:`citus_analysis.spans.executions` defines the execution that a record belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final, Self

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.core.arrow_arrays import (
    fill_null_integers,
    make_boolean_array,
    make_null_array,
    make_number_array,
    make_time_array,
)
from citus_analysis.core.parallel import prefetch_in_thread
from citus_analysis.formats.pglog.assembly import (
    NO_CODE,
    NO_NUMBER,
    NO_PROCESS,
    NOTHING_THERE,
    UNNAMED,
    Assembled,
    Assembly,
    RecordColumns,
    Rules,
    concatenate_items,
    copy_items,
    select_items,
)
from citus_analysis.formats.pglog.compiled import RECORD_EVENTS, RECORD_NUMBERS
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, SEVERITIES, STATEMENT_KINDS, TABLES
from citus_analysis.spans.ordered_arrays import AnyIntegers, Flags, Indices, changes, number_groups
from citus_analysis.spans.spilling import Arrays, Restore, Spill, SpilledGroups

# The rules by which records of server logs belong to statement executions, and the order of records by session.
#
# A backend writes its records in order, numbered by `session_line`. In the order of its session, every record is one of
# a few *events*; its statement follows from the events before it:
#
# - an *opener* names a statement (`execute S_1: ...`, `statement: ...`);
# - the first duration after an opener closes the statement; an error closes any open statement;
# - a duration whose predecessor is not an opener may be a phase (parse, bind) of the statement to come, or of a
#   statement of which nothing else was logged. Unless transactions (`%v`) differ, it is the bind phase of the execution
#   directly after it if the session logs all statements, if the transaction is the same, or if it ended when the
#   execution began. It is the parse phase of the unnamed statement likewise, of a named one only at its first
#   execution, if the session has no other duration without an owner. Simple statements, fetches and fastpath calls have
#   no such phases. What remains open belongs to no statement;
# - `statement:` on a shard inside a client's session of a cluster is a local execution, not an opener; so is what the
#   local executor of Citus 13.2 and later says of a plan that it was handed, and `executing the command locally`. A
#   plan that the planner made for a shard on the own node is one if nothing else tells where a statement on data was
#   executed;
# - a record of a connection says how long it took to make it; Citus repeats it where a later statement takes it over;
# - a task record reports a remote execution of the open statement, and opens a statement if the statement line is
#   missing because the log begins, or has a gap, in the middle of a statement.
#
# - a bind that names its statement and is followed by another statement is an execution of which nothing else took long
#   enough to be logged; a parse that is followed by another statement belongs to no execution.
#
# Where a record does not tell its session (a prefix without `%p` and `%c`), only a record that is whole by itself is a
# statement: one that names its statement, with the duration of this phase if it has one.
#
# These rules apply to both protocols, and to parents as to children (sessions with a gpid). The meaning of each kind of
# record is defined here; the pass over the records is compiled (`native/sessions.c`). It reads them in the order of
# their logs, with backends alternating, as long as each backend's own records are in order. Records of logs that
# overlap, were duplicated or concatenated in another order are sorted by session first.

#: No file is larger than this many bytes.
FILE_ROOM: Final = 1 << 44

_PREPARE, _WHOLE, _DURATION, _LOCAL, _OPENER, _TASK, _ERROR, _PLANNED, _CONNECT, _BARRIER, _NOTHING = range(
    len(RECORD_EVENTS)
)

_KINDS: Final = (*KINDS, None)
_PHASES: Final = (*PROTOCOL_PHASES, None)


def _has_record_name(*names: str) -> Flags:
    """Whether each pair of a kind and a phase has one of these names."""
    return np.array([kind in names or phase in names for kind in _KINDS for phase in _PHASES])


def _has_record_kind(*names: str) -> Flags:
    return np.array([kind in names for kind in _KINDS for _ in _PHASES])


def _list_untimed_events() -> NDArray[np.uint8]:
    """The event of a record without a duration."""
    opener = np.where(_has_record_kind("execute", "statement"), _OPENER, _NOTHING)
    inside = np.where(_has_record_kind("local"), np.where(_has_record_name("execute"), _LOCAL, _PLANNED), opener)
    tasks = np.where(_has_record_kind("task"), _TASK, inside)
    return np.where(_has_record_kind("connection"), _BARRIER, tasks).astype(np.uint8)


def _list_timed_events() -> NDArray[np.uint8]:
    """The event of a record with a duration, which may also name its phase (parse, bind) or its statement."""
    timed = _has_record_kind("duration", "parse", "bind", "execute", "statement")
    prepares, runs = _has_record_name("parse", "bind"), _has_record_name("execute", "statement", "fetch", "fastpath")
    named = np.where(prepares, _PREPARE, np.where(runs, _WHOLE, _DURATION))
    connecting = np.where(_has_record_kind("connect"), _CONNECT, _list_untimed_events())
    unknown = np.where(_has_record_kind("other"), _BARRIER, connecting)
    return np.where(timed, named, unknown).astype(np.uint8)


#: Tables indexed by :func:`encode_kind_and_phase`: the event of a record with a duration and without; whether it
#: reports a parse phase, belongs to the extended protocol, is a statement line, or is an execution after a bind phase.
WORDS: Final[Mapping[str, NDArray[np.uint8]]] = {
    "timed": _list_timed_events(),
    "untimed": _list_untimed_events(),
    "parses": _has_record_name("parse").astype(np.uint8),
    "extended": _has_record_name("parse", "bind", "execute", "fetch").astype(np.uint8),
    "statements": _has_record_kind("statement").astype(np.uint8),
    "binds": (_has_record_name("execute") & ~_has_record_name("fetch")).astype(np.uint8),
}


def encode_kind_and_phase(kind: NDArray[np.uint8], phase: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Kind and phase of each record as one number; the code of a missing kind or phase is the number of known codes."""
    return np.asarray(kind * np.uint8(len(_PHASES)) + phase)


_IDENTITY: Final = ("source_id", "node", "resource", "run_id", "iteration")
#: Columns of what identifies the files of parts of logs, and of the first time in them, µs.
LOG_PARTS: Final = {**dict.fromkeys(_IDENTITY[:-1], pl.String), "iteration": pl.Int32, "first_time": pl.Int64}
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


def order_log_files(parts: pl.DataFrame) -> pl.DataFrame:
    """The log files of an iteration, numbered (`source`: 0, 1, 2 ...); those of one node follow each other in time.

    Args:
        parts: columns of :data:`LOG_PARTS`; parts of one file each.
    """
    files = parts.group_by("source_id").agg(pl.col(_IDENTITY[1:]).first(), pl.col("first_time").min())
    named = files.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort("node", "first_time", "source_id")
    return named.with_columns(node=pl.coalesce("node", "source_id")).with_row_index("source")


def list_log_files(*parts: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The numbered files (:func:`order_log_files`) of rows of table `log_events`, read part by part."""
    first_time = pl.col("log_time").to_physical().min().alias("first_time")
    firsts = (part.lazy().group_by("source_id").agg(pl.col(_IDENTITY[1:]).first(), first_time) for part in parts)
    return order_log_files(pl.concat([part.collect() for part in firsts]))


def number_record_files(events: pl.DataFrame, files: pl.DataFrame) -> NDArray[np.uint32]:
    """The number of the log file of each record."""
    names = events.select(pl.col("source_id").cast(pl.String))
    return names.join(files, on="source_id", how="left", maintain_order="left")["source"].to_numpy()


def sort_record_rows(events: pl.DataFrame, files: pl.DataFrame, source: NDArray[np.uint32]) -> tuple[Indices, Indices]:
    """Rows sorted by node, backend and position, and the index at which each backend begins."""
    # No process has the number 0, so records of unknown sessions stand together.
    pid, node = events["pid"].fill_null(0).to_numpy(), files["node"].rank("dense").to_numpy()[source]
    rows = np.lexsort((events["byte_offset"].to_numpy(), source, pid, node))
    return rows, np.flatnonzero(changes(node[rows]) | changes(pid[rows]))


# Convert columns of `log_events` to the arguments of the compiled assembly, and the arrays it returns to frames.

#: gpid = nodeid * GPID_NODE_FACTOR + pid of the parent backend (Citus, GLOBAL_PID_NODE_ID_MULTIPLIER).
GPID_NODE_FACTOR: Final = 10_000_000_000


class TextNumbers:
    """Numbers for texts, in the order in which they are met.

    Example:
        >>> numbers = TextNumbers()
        >>> numbers.get_number("worker1"), numbers.get_number("worker2"), numbers.get_number("worker1"), numbers.texts
        (0, 1, 0, ['worker1', 'worker2'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def get_number(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """All texts, by their numbers."""
        return list(self._numbers)

    def look_up(self, numbers: NDArray[np.int32]) -> pa.Array | pl.Series:
        """The texts of some numbers; null for :data:`NO_NUMBER`."""
        if not self._numbers:
            return make_null_array(pa.large_string(), len(numbers))
        # The last text is the one at index -1, which is :data:`NO_NUMBER`.
        return pl.Series([*self.texts, None], dtype=pl.String)[numbers]


def list_numbered_nodes(nodes: pl.DataFrame) -> list[tuple[str, int]]:
    """Name and nodeid of the rows of table `nodes` that state both; of several with one of them, the first counts.

    Example:
        >>> list_numbered_nodes(pl.DataFrame({"node": ["1", "1", None], "nodeid": [None, 7, 8]}))
        [('1', 7)]
    """
    return [pair for pair in zip(nodes["node"], nodes["nodeid"], strict=True) if None not in pair]


def make_assembly(files: pl.DataFrame, nodes: pl.DataFrame, *, distributed: bool) -> Assembly:
    """An assembly for the records of some log files.

    Args:
        files: `source` (0, 1, 2 ...) and `node`.
        nodes: rows of table `nodes` of the resource: their nodeids.
        distributed: the servers form a cluster.
    """
    names = files["node"].to_list()
    known = dict(reversed(list_numbered_nodes(nodes)))
    number = {name: at for at, name in enumerate(sorted(set(names)))}
    of_source = np.array([number[name] for name in names], np.int32)
    nodeids = np.array([known.get(name, NOTHING_THERE) for name in names], np.int64)
    return Assembly(Rules(WORDS, of_source, nodeids, GPID_NODE_FACTOR, FILE_ROOM, distributed=distributed))


@dataclass(frozen=True)
class AssemblyTexts:
    """Texts that records name by number: hosts of workers, further shards of statements, prepared statements."""

    hosts: TextNumbers = field(default_factory=TextNumbers)
    shards: TextNumbers = field(default_factory=TextNumbers)
    names: TextNumbers = field(default_factory=TextNumbers)

    def __post_init__(self) -> None:
        if self.names.get_number("<unnamed>") != UNNAMED:
            raise ValueError("names must be numbered from the unnamed statement")


def record_columns(columns: Mapping[str, pa.Array], texts: AssemblyTexts) -> RecordColumns:
    """Columns of `log_events` as arguments of the assembly.

    Args:
        columns: :data:`~citus_analysis.spans.executions.USED`; categories as dictionaries.
        texts: numbers for texts.
    """
    return RecordColumns(
        numbers={name: columns[name] for name in RECORD_NUMBERS},
        words=encode_kind_and_phase(
            _look_up_codes(columns["kind"], KINDS.index, len(KINDS)),
            _look_up_codes(columns["phase"], PROTOCOL_PHASES.index, len(PROTOCOL_PHASES)),
        ),
        severity=_look_up_codes(columns["severity"], SEVERITIES.index, NO_CODE),
        statement_kind=_look_up_codes(columns["statement_kind"], STATEMENT_KINDS.index, NO_CODE),
        worker_host=_look_up_text_numbers(columns["worker_host"], texts.hosts),
        other_shards=_look_up_text_numbers(columns["other_shards"], texts.shards),
        statement_name=_look_up_text_numbers(columns["statement_name"], texts.names),
    )


def _look_up_codes(array: pa.DictionaryArray, code: Callable[[str], int], missing: int) -> NDArray[np.uint8]:
    return _look_up_numbers(array, code, missing).astype(np.uint8)


def _look_up_text_numbers(array: pa.Array, numbers: TextNumbers) -> NDArray[np.int32] | None:
    return None if array.null_count == len(array) else _look_up_numbers(array, numbers.get_number, NO_NUMBER)


def _look_up_numbers(array: pa.Array, number: Callable[[str], int], missing: int) -> NDArray[np.int32]:
    """The number of the text of each row."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = coded.dictionary.to_pylist()
    table = np.array([*map(number, words), missing], np.int32)
    return np.asarray(table[fill_null_integers(coded.indices.cast(pa.int32()), len(words))], np.int32)


def extract_member_columns(
    items: NDArray[np.void],
    names: Sequence[str],
    optional: Sequence[str] = (),
    *,
    flags: Sequence[str] = (),
    times: Sequence[str] = (),
) -> dict[str, pa.Array]:
    """Some members of an array of structures as columns.

    Args:
        items: the structures.
        names: members that have a value everywhere.
        optional: numbers that may be missing.
        flags: members that are 0 or 1.
        times: microseconds since 1970, which may be missing.
    """
    # Copied in any case, because the array may be a view of memory that is used again.
    columns = {name: make_number_array(items[name].copy()) for name in names}
    for some, column in ((optional, make_number_array), (times, make_time_array)):
        for name in some:
            values = items[name].copy()
            there = values != NOTHING_THERE
            columns[name] = column(values, None if there.all() else there)
    return columns | {name: make_boolean_array(items[name] == 1) for name in flags}


def make_column_frame(columns: Mapping[str, pa.Array | pl.Series]) -> pl.DataFrame:
    """Columns as a frame."""
    arrays = {name: column for name, column in columns.items() if isinstance(column, pa.Array)}
    others = [column.alias(name) for name, column in columns.items() if isinstance(column, pl.Series)]
    return pl.DataFrame(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))).hstack(others)


# Restore the order of a backend's records over all files, and drop repeated records.
#
# Server logs are rotated, copied while they are rotated, and concatenated by hand: files overlap, lines occur in two
# files or twice in one, and a file may sort after a younger one. The text of a record, its time and its number in the
# session (`%l`) show that two lines are the same record, and `%l` shows where a session continues.

#: Columns that are equal in two copies of a record, besides the backend. The text is not among the columns that traces
#: are built from, and is not needed: a backend does not use a number twice within a millisecond.
SAME_RECORD: Final = (
    "session_line", "log_time", "local_xid", "gpid", "severity", "kind", "phase", "duration_us", "shard_id", "task_us",
    "worker_host", "worker_port", "statement_kind", "statement_fingerprint",
)  # fmt: skip
_DETAILS: Final = SEVERITIES[SEVERITIES.index("DETAIL") :]


def stitch_records(events: pl.DataFrame, order: Indices, starts: Indices) -> tuple[Indices, Indices]:
    """Sort the records of backends whose numbers go back, and leave out copies.

    Backends whose numbers only rise are not changed: for logs in order, this function only compares numbers.

    Args:
        events: the records.
        order: rows of `events`, by backend and position.
        starts: index in `order` at which each backend begins.

    Returns:
        The new `order`, and the rows of the copies that were left out.
    """
    backend = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    odd = _is_number_decreasing(events, order, backend)
    if not odd.any():
        return order, np.zeros(0, np.intp)
    at = np.flatnonzero(np.isin(backend, np.unique(backend[odd])))
    # The first copy of each record. Records without a number are all kept, because copies cannot be recognised.
    said = events[list(SAME_RECORD)][order[at]].with_columns(backend=pl.Series(backend[at]))
    first = said.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    kept = (first | said["session_line"].is_null()).to_numpy()
    sorted_rows = _sort_by_session(events, order[at][kept], backend[at][kept])
    stays = np.ones(len(order), np.bool_)
    stays[at[~kept]] = False
    stitched = order.copy()
    stitched[at[kept]] = sorted_rows
    return stitched[stays], order[at[~kept]]


def _is_number_decreasing(events: pl.DataFrame, order: Indices, backend: Indices) -> Flags:
    """Whether a record's number is not larger than the one before it in the same backend."""
    # Records of unknown sessions are in no order.
    known = pl.when(pl.col("pid").is_not_null()).then("session_line")
    line = events.select(known.fill_null(0)).to_series().to_numpy()[order]
    back = np.zeros(len(order), np.bool_)
    back[1:] = ~_is_next_number(line, _is_detail_row(events, order)) & (line[1:] > 0) & (backend[1:] == backend[:-1])
    return back


def _is_detail_row(events: pl.DataFrame, rows: Indices) -> Flags:
    found = events["severity"].cast(pl.String).is_in(_DETAILS).fill_null(value=False).to_numpy()
    return np.asarray(found[rows], dtype=np.bool_)


def _is_next_number(line: NDArray[np.int64], detail: Flags) -> Flags:
    """Whether a record's number follows the one before it; details of csvlog and jsonlog repeat their record's."""
    rises: Flags = (line[1:] > line[:-1]) | (detail[1:] & (line[1:] == line[:-1]))
    return rises


def _sort_by_session(events: pl.DataFrame, rows: Indices, backend: Indices) -> Indices:
    """Records by session and number. Times show which runs of rising numbers belong to one session."""
    line = events["session_line"].fill_null(0).to_numpy()[rows]
    if not line.all():
        return rows
    time = events["log_time"].to_physical().fill_null(0).to_numpy()[rows]
    begins = changes(backend)
    begins[1:] |= ~_is_next_number(line, _is_detail_row(events, rows))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1
    ends = np.maximum.reduceat(time, first)
    by_time = np.lexsort((line[first], time[first], backend[first]))
    session = np.empty(len(first), np.uint32)
    # A run continues the session before it if its numbers follow, or if it was written meanwhile and fills a gap.
    first_line = line[first][by_time]
    opens = changes(backend[first][by_time]) | (first_line == 1)
    follows = first_line[1:] > line[last][by_time][:-1]
    meanwhile = time[first][by_time][1:] < ends[by_time][:-1]
    opens[1:] |= ~(follows | meanwhile)
    session[by_time] = number_groups(opens)
    return rows[np.lexsort((line, session[number_groups(begins) - 1]))]


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


def is_distributed_cluster(events: pl.DataFrame | pl.LazyFrame, nodes: pl.DataFrame) -> bool:
    """Whether servers form a Citus cluster: its nodes are known, or records report tasks or global pids.

    A shard's name proves nothing: a partition `public.events_202401` looks like one.

    Args:
        events: `log_events` of all its servers.
        nodes: `nodes` of the resource.

    Example:
        >>> nothing = pl.DataFrame({"gpid": [None], "task_us": [None], "nodeid": [None]})
        >>> is_distributed_cluster(nothing, nothing), is_distributed_cluster(nothing, nothing.with_columns(nodeid=1))
        (False, True)
    """
    if nodes["nodeid"].is_not_null().any():
        return True
    reported = pl.any_horizontal(pl.col("gpid", "task_us").is_not_null().any())
    return bool(events.lazy().select(reported).collect().item())


#: Names of the phases of an execution.
PHASES: Final = ("parse", "bind", "execute")
_STATEMENT_KIND: Final = TABLES["log_events"]["statement_kind"].dtype
_NODE: Final = pl.Categorical


def build_execution_frames(
    done: Assembled, numbers: Indices, files: pl.DataFrame, texts: AssemblyTexts
) -> dict[str, pl.DataFrame]:
    """`executions`, `locals` and `phases` of :class:`Sessions`, for executions with these numbers."""
    names = ("execution", "source", "byte_offset")
    local = extract_member_columns(done["locals"], names, ("shard_id",), times=("log_time",))
    phases = extract_member_columns(
        done["phases"], (*names, "duration_us", "name"), times=("log_time",), flags=("closes",)
    )
    return {
        "executions": build_executions(done["executions"], numbers, files, texts),
        "locals": make_column_frame(local | {"statement_kind": _extract_statement_kinds(done["locals"])}).with_columns(
            _KIND
        ),
        "phases": make_column_frame(phases).with_columns(_PHASE),
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


def build_executions(
    items: NDArray[np.void], numbers: Indices, files: pl.DataFrame, texts: AssemblyTexts, *, only_linked: bool = False
) -> pl.DataFrame:
    """Executions with these numbers, as in :class:`Sessions`.

    Args:
        items: the executions.
        numbers: their numbers.
        files: the log files.
        texts: texts that they name.
        only_linked: only the columns by which executions are linked: of millions, each column takes memory.
    """
    columns: dict[str, pa.Array | pl.Series] = {
        **extract_member_columns(items, _LINKED, _OPTIONAL, flags=_FLAGS, times=_TIMES)
    }
    known = items["pid"] != NO_PROCESS
    if not known.all():
        columns |= {name: make_number_array(items[name].copy(), known) for name in ("pid", "session_seq")}
    columns |= {
        "extended": make_boolean_array(items["extended"] == 1, items["opened"] == 1),
        "duration_us": make_number_array(items["duration_us"].copy(), items["phases"] > 0),
        "execution": make_number_array(numbers.astype(np.uint32)),
        "node": _list_file_nodes(files)[items["source"].copy()],
        "other_shards": texts.shards.look_up(items["other_shards"].copy()),
    }
    if only_linked:
        return make_column_frame(columns)
    columns |= extract_member_columns(items, _FURTHER, _TRANSACTIONS, flags=_FURTHER_FLAGS)
    fingerprints = make_number_array(items["statement_fingerprint"].copy(), items["has_fingerprint"] == 1)
    columns |= {"statement_fingerprint": fingerprints, "statement_kind": _extract_statement_kinds(items)}
    return make_column_frame(columns).with_columns(_KIND)


def _list_file_nodes(files: pl.DataFrame) -> pl.Series:
    """The node of each log file."""
    return files["node"].cast(_NODE)


def _extract_statement_kinds(items: NDArray[np.void]) -> pa.Array:
    # The values under nulls must be valid codes, too, or sessions that were spilled could not be restored.
    codes = items["statement_kind"].copy()
    return make_number_array(codes % NO_CODE, codes != NO_CODE)


# Expressions are made once: a small iteration takes as long to make them as to evaluate them.
_KIND: Final = pl.col("statement_kind").cat.to(_STATEMENT_KIND)
_PHASE: Final = pl.col("name").cat.to(pl.Enum(PHASES))


def build_session_tasks(
    items: NDArray[np.void], files: pl.DataFrame, nodes: pl.DataFrame, texts: AssemblyTexts
) -> pl.DataFrame:
    """Tasks of executions, as in :class:`Sessions`.

    Args:
        items: the tasks.
        files: the log files.
        nodes: rows of table `nodes` of the resource.
        texts: the texts that the records name.
    """
    optional, flags = ("byte_offset", "shard_id", "task_us", "gpid"), ("anchored", "failed", "is_child")
    columns = extract_member_columns(items, _OF_TASK, optional, times=("end_time",), flags=flags)
    parent, child = _list_file_nodes(files)[items["source"].copy()], _find_host_nodes(items, nodes, texts.hosts.texts)
    return make_column_frame(columns | {"parent_node": parent, "child_node": child})


def _find_host_nodes(items: NDArray[np.void], nodes: pl.DataFrame, hosts: Sequence[str]) -> pl.Series:
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


def make_position_expr(offset: str) -> pl.Expr:
    """One number that orders the records of a node over all of its files."""
    return pl.col("source").cast(pl.Int64) * FILE_ROOM + pl.col(offset)


def build_session_begins(done: Assembled) -> pl.DataFrame:
    """Begins of sessions, as in :class:`Sessions`."""
    begins = done["sessions"]["begins"].copy()
    known = make_number_array(begins.astype(np.float64), begins != NOTHING_THERE)
    return make_column_frame(
        {"session": make_number_array(done["sessions"]["session"].copy()), "session_begins": known}
    )


def build_record_gaps(done: Assembled, files: pl.DataFrame) -> pl.DataFrame:
    """Missing records of child sessions, as in :class:`Sessions`."""
    missing = done["missing"]
    node = pl.Series(sorted(set(files["node"])), dtype=pl.String).cast(_NODE)[missing["node"].copy()]
    return make_column_frame(extract_member_columns(missing, ("gpid", "place")) | {"node": node})


def build_log_coverage(done: Assembled, times: NDArray[np.int64], files: pl.DataFrame, copied: Indices) -> pl.DataFrame:
    """The extent of each node's logs, as in :class:`Sessions`.

    Args:
        done: all sessions.
        times: times of the first and the last record of each log file.
        files: the log files.
        copied: the log file of each repeated record.
    """
    names = sorted(set(files["node"]))
    from_file = np.array([names.index(name) for name in files["node"]], np.intp)
    sessions = done["sessions"]
    never = np.iinfo(np.int64).max
    first, last = np.full(len(names), never), np.full(len(names), NOTHING_THERE)
    np.minimum.at(first, from_file, np.where(times[:, 0] != NOTHING_THERE, times[:, 0], never))
    np.maximum.at(last, from_file, times[:, 1])
    under_way = np.zeros(len(names), np.bool_)
    under_way[sessions["node"][sessions["anchored"] == 0]] = True
    copies = np.bincount(from_file[copied], minlength=len(names)).astype(np.uint32)
    columns: dict[str, pa.Array | pl.Series] = {
        "first_time": make_time_array(first, first != never),
        "last_time": make_time_array(last, last != NOTHING_THERE),
        "under_way": make_boolean_array(under_way),
        "copies": make_number_array(copies),
        "node": pl.Series(names, dtype=pl.String).cast(_NODE),
    }
    return make_column_frame(columns)


def sort_arrays_by_number(numbers: AnyIntegers, arrays: Arrays) -> Arrays:
    """The same items sorted by their numbers; items of equal numbers stay in order.

    Example:
        >>> sort_arrays_by_number(np.array([2, 1]), {"numbers": np.array([2, 1])})["numbers"].tolist()
        [1, 2]
    """
    order = np.argsort(numbers, kind="stable")
    return {name: select_items(items, order) for name, items in arrays.items()}


@dataclass(frozen=True)
class SessionCells:
    """Groups of sessions (by their gpids), each of which is divided by shards.

    Shards divide further because a few sessions of many hours would form only a few groups. The tasks of a session on
    different shards do not depend on each other.
    """

    gpids: int
    shards: int

    @classmethod
    def of(cls, count: int) -> Self:
        """At least `count` cells.

        Example:
            >>> SessionCells.of(5), SessionCells.of(1).count
            (SessionCells(gpids=3, shards=2), 1)
        """
        gpids = isqrt(count - 1) + 1
        return cls(gpids, -(-count // gpids))

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.gpids * self.shards

    def numbers(self, gpid: NDArray[np.int64], shard: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each item; cells of one group of sessions are neighbours."""
        # Mixed, because successive process numbers may share a divisor with the number of groups.
        mixed = (gpid.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
        of_gpid = (mixed % np.uint64(self.gpids)).astype(np.int64)
        return of_gpid * self.shards + shard % self.shards


# Sessions of an iteration in chunks: records are read in a single pass, in the order of their logs if each session is
# in order there, else sorted by session.
#
# The executions of a chunk ended at about the same place in the logs, or belong to some of the sessions. The few facts
# by which tasks and children are paired are collected over all pieces; the rest is spilled until pairs are known.

#: Fewest executions of a chunk.
CHUNK_EXECUTIONS: Final = 2**15

#: Columns of the records of one source, by name, in the order of the source.
Columns = Mapping[str, pa.Array]

_SPILLED: Final = ("executions", "phases", "locals")


class NotInOrder(Exception):  # noqa: N818 - no error: the records are sorted by session instead
    """Records of a backend are not in order."""


@dataclass(frozen=True)
class SessionChunk:
    """Some executions with their phases and local executions, but without their tasks.

    Attributes:
        first: number of the first execution.
        count: number of executions.
        restore: returns the arrays, which were spilled.
    """

    first: int
    count: int
    restore: Restore


@dataclass
class SessionStore:
    """The sessions of an iteration, from one pass over its records.

    Args:
        files: the log files, as in :class:`Sessions`.
        nodes: rows of table `nodes` of the resource.
        distributed: the servers form a cluster.
        spill: takes arrays out of memory and returns what restores them.
        groups: fewest groups in which tasks and children are paired; only groups in progress are in memory.
    """

    files: pl.DataFrame
    nodes: pl.DataFrame
    distributed: bool
    spill: Spill
    groups: int = 1
    chunks: list[SessionChunk] = field(default_factory=list)
    _failed: list[Arrays] = field(default_factory=list)
    _small: dict[str, list[NDArray[np.void]]] = field(default_factory=dict)
    _copied: list[Indices] = field(default_factory=list)
    _first: int = 0
    _surplus: int = 0
    _nested: bool = False

    def __post_init__(self) -> None:
        self._assembly = make_assembly(self.files, self.nodes, distributed=self.distributed)
        self._texts = AssemblyTexts()
        self._cells = SessionCells.of(self.groups)
        self._linked, self._silent, self._tasks = (SpilledGroups(self.spill, self._cells.count) for _ in range(3))

    def consume(self, batches: Iterable[tuple[int, Columns]], ahead: int = 1) -> None:
        """Read all records; spill the executions of a chunk while the next chunk is assembled.

        Args:
            batches: number of the source and records of it, in the order of the log files.
            ahead: most chunks that are assembled meanwhile; 0: no thread is started.

        Raises:
            NotInOrder: they must be sorted by session (:meth:`consume_sorted`).
        """
        self._consume(self._add_in_order(batches), ahead)

    def consume_sorted(self, groups: Iterable[pl.DataFrame], ahead: int = 0) -> None:
        """Read all records in any order, sorted by session and without copies, group by group.

        Args:
            groups: rows of table `log_events`. All records of a session must be in one group
                (:func:`group_sessions`).
            ahead: as for :meth:`consume`.
        """
        self._consume(self._add_by_session(groups), ahead)

    def _consume(self, added: Iterable[None], ahead: int) -> None:
        with closing(prefetch_in_thread(self._assemble(added), "sessions", ahead)) as chunks:
            for done in chunks:
                self._spill(done)
        for one in (self._linked, self._silent, self._tasks):
            one.finish()
        # If statements name several shards, or children sent tasks, what belongs together may be in another cell;
        # statements that do not say where they were executed have no shard. Cells are then joined by gpid.
        several = bool(self._texts.shards.texts) or self._are_unreported or self._nested
        self.groups = self._cells.gpids if several else self._cells.count

    @property
    def _are_unreported(self) -> bool:
        """Whether there are more children than tasks."""
        return self._surplus > 0

    def _add_in_order(self, batches: Iterable[tuple[int, Columns]]) -> Iterator[None]:
        for source, columns in batches:
            if not self._assembly.add(record_columns(columns, self._texts), source):
                raise NotInOrder
            yield

    def _add_by_session(self, groups: Iterable[pl.DataFrame]) -> Iterator[None]:
        for events in groups:
            of_record = number_record_files(events, self.files)
            order, copies = stitch_records(events, *sort_record_rows(events, self.files, of_record))
            self._copied.append(of_record[copies].astype(np.intp))
            # Compiled code reads the memory of the columns, so they must have the types of the schema.
            typed = events.select(pl.col(name).cast(TABLES["log_events"][name].dtype) for name in USED).rechunk()
            arrays = {name: typed[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in USED}
            self._assembly.add_sorted(record_columns(arrays, self._texts), order, of_record)
            yield

    def _assemble(self, added: Iterable[None]) -> Iterator[Assembled]:
        """The executions that ended, chunk by chunk; the last chunk contains the rest and may be empty."""
        assembly = self._assembly
        for _ in added:
            if assembly.waiting >= CHUNK_EXECUTIONS:
                yield {name: copy_items(items) for name, items in assembly.take().items()}
        assembly.end()
        yield {name: copy_items(items) for name, items in assembly.take().items()}

    def _spill(self, done: Assembled) -> None:
        executions = done["executions"]
        of_child = (
            (executions["is_child"] == 1) & (executions["opened"] == 1) & (executions["shard_id"] != NOTHING_THERE)
        )
        failed = executions["failed"] == 1
        linked = _number_executions(executions, np.flatnonzero(of_child | failed), self._first)
        self._linked.add(self._cells.numbers(linked["executions"]["gpid"], linked["executions"]["shard_id"]), linked)
        self._failed.append(_number_executions(executions, np.flatnonzero(failed), self._first))
        silent = _number_executions(executions, np.flatnonzero(_is_silent_execution(executions)), self._first)
        self._silent.add(self._cells.numbers(silent["executions"]["gpid"], np.zeros(1, np.int64)), silent)
        tasks = done["tasks"]
        self._surplus += int((of_child & ~failed).sum()) - len(tasks)
        self._nested = self._nested or bool(tasks["is_child"].any())
        self._tasks.add(self._cells.numbers(tasks["gpid"], tasks["shard_id"]), {"tasks": tasks})
        for name in ("sessions", "missing"):
            self._small.setdefault(name, []).append(done[name])
        restore = self.spill({name: done[name] for name in _SPILLED})
        self.chunks.append(SessionChunk(self._first, len(executions), restore))
        self._first += len(executions)

    def select_group(self, number: int, known: Sessions, *, again: bool = False) -> Sessions:
        """The facts by which a group is paired: tasks, children on shards, executions that failed.

        Args:
            number: number of the group.
            known: result of :meth:`find_failed`.
            again: keep the facts for a further call.
        """
        together = self._cells.count // self.groups
        cells = range(number * together, (number + 1) * together)
        linked = self._linked.restore(cells, again=again)
        if self._are_unreported:
            silent = self._silent.restore(cells, again=again)
            linked = {name: concatenate_items([items, silent[name]]) for name, items in linked.items()}
        ordered = sort_arrays_by_number(linked["numbers"], linked) if together > 1 or self._are_unreported else linked
        executions = self._build_linked_executions(ordered)
        # Released before as much is read again.
        del linked, ordered
        sent = self._tasks.restore(cells, again=again)
        if together > 1:
            sent = sort_arrays_by_number(sent["tasks"]["execution"], sent)
        tasks = build_session_tasks(sent["tasks"], self.files, self.nodes, self._texts)
        return replace(known, tasks=tasks, executions=executions)

    def _build_linked_executions(self, linked: Arrays) -> pl.DataFrame:
        executions, numbers = linked["executions"], linked["numbers"]
        return build_executions(executions, numbers, self.files, self._texts, only_linked=True)

    def find_failed(self) -> Sessions:
        """The executions that failed, and the facts about all sessions."""
        small = {name: concatenate_items(items) for name, items in self._small.items()}
        failed = {name: concatenate_items([one[name] for one in self._failed]) for name in self._failed[0]}
        return Sessions(
            sources=self.files,
            executions=self._build_linked_executions(failed),
            gaps=build_record_gaps(small, self.files),
            coverage=build_log_coverage(
                small, self._assembly.times, self.files, np.concatenate([np.zeros(0, np.intp), *self._copied])
            ),
            begins=build_session_begins(small),
        )

    def restore_chunk(self, chunk: SessionChunk) -> Sessions:
        """The content of a chunk without its tasks."""
        numbers = np.arange(chunk.first, chunk.first + chunk.count)
        return Sessions(self.files, **build_execution_frames(chunk.restore(), numbers, self.files, self._texts))


def _is_silent_execution(executions: NDArray[np.void]) -> NDArray[np.bool_]:
    """As :func:`~citus_analysis.spans.pairing.is_silent`, for those whose session is known to others."""
    says = np.zeros(len(executions), np.bool_)
    for name in ("has_tasks", "has_locals", "failed", "is_child"):
        says |= executions[name] == 1
    whole = (executions["opened"] == 1) & (executions["closed"] == 1)
    valued = (executions["values_hash"] != 0) & (executions["gpid"] != NOTHING_THERE)
    return np.asarray(whole & ~says & valued)


def _number_executions(executions: NDArray[np.void], chosen: Indices, first: int) -> Arrays:
    """Chosen executions with their numbers; `first` is the number of the first of all executions."""
    return {"executions": select_items(executions, chosen), "numbers": (first + chosen).astype(np.uint32)}


# Sessions divided into groups whose traces do not depend on each other.
#
# Only a parent's session and the sessions that Citus opens on its behalf, which have its gpid, must be processed
# together. So the backends of an iteration form connected components, which are packed into groups that fit into
# memory.


def group_sessions(backends: pl.DataFrame, nodes: pl.DataFrame, most_records: int) -> pl.DataFrame:
    """Divide the backends of one iteration into groups of about `most_records` records.

    Args:
        backends: one row per `node`, `pid` and `gpid` (null if a backend works for itself) with the number of its
            `records`, in any order.
        nodes: rows of table `nodes` of the resource, by which gpids name nodes.
        most_records: size of a group. A group is much larger only if a single component is.

    Returns:
        `node`, `pid` and `group` (0, 1, 2 ...), one row per backend.

    Example:
        >>> backends = pl.DataFrame({"node": ["1", "2", "2"], "pid": [7, 8, 9], "gpid": [None, 10_000_000_007, None],
        ...                          "records": [5, 5, 5]})
        >>> nodes = pl.DataFrame({"node": ["1"], "nodeid": [1]})
        >>> group_sessions(backends, nodes, 10)["group"].to_list()
        [0, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    own = backends.group_by("node", "pid").agg(pl.col("records").sum()).sort("node", "pid")
    own = own.with_row_index("backend")
    gpids = backends.select("gpid").drop_nulls().unique().sort("gpid").with_row_index("number", offset=own.height)
    children = (
        backends.drop_nulls("gpid")
        .join(own.drop("records"), on=["node", "pid"], nulls_equal=True)
        .join(gpids, on="gpid")
        .select("backend", "number")
    )
    named = [("node", nodes.schema["node"]), ("nodeid", pl.Int64())]
    owners = pl.DataFrame(list_numbered_nodes(nodes), schema=named, orient="row").unique("nodeid", keep="first")
    parents = (
        gpids.with_columns(nodeid=pl.col("gpid") // GPID_NODE_FACTOR, pid=pl.col("gpid") % GPID_NODE_FACTOR)
        .join(owners, on="nodeid")
        .join(own.select("backend", "node", pl.col("pid").cast(pl.Int64)), on=["node", "pid"])
        .select("backend", "number")
    )
    links = pl.concat([children, parents])
    count = own.height + gpids.height
    graph = coo_array((np.ones(links.height, np.int8), (links["backend"], links["number"])), shape=(count, count))
    _, component = connected_components(graph, directed=False)
    placed = own.with_columns(component=pl.Series(component[: own.height]))
    sizes = placed.group_by("component").agg(pl.col("records").sum(), pl.col("backend").min()).sort("backend")
    packed = sizes.select("component", group=(pl.col("records").cum_sum() - pl.col("records")) // most_records)
    numbered = packed.with_columns(group=pl.col("group").rank("dense").cast(pl.Int32) - 1)
    return placed.join(numbered, on="component", maintain_order="left").select("node", "pid", "group")
