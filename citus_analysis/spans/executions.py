"""Statement executions, tasks and shard executions, from the log records of one iteration.

A backend writes its records in order, numbered by `session_line`. In the order of its session, every record is one of
a few *events*; its statement follows from the events before it:

- an *opener* names a statement (`execute S_1: ...`, `statement: ...`);
- the first duration after an opener closes the statement; an error closes any open statement;
- a duration whose predecessor is not an opener may be a phase (parse, bind) of the statement to come, or of a
  statement of which nothing else was logged. Unless transactions (`%v`) differ, it is the bind phase of the execution
  directly after it if the session logs all statements, if the transaction is the same, or if it ended when the
  execution began. It is the parse phase of the unnamed statement likewise, of a named one only at its first
  execution, if the session has no other duration without an owner. Simple statements, fetches and fastpath calls have
  no such phases. What remains open belongs to no statement;
- `statement:` on a shard inside a client's session of a cluster is a local execution, not an opener; so is what the
  local executor of Citus 13.2 and later says of a plan that it was handed, and `executing the command locally`. A
  plan that the planner made for a shard on the own node is one if nothing else tells where a statement on data was
  executed;
- a record of a connection says how long it took to make it; Citus repeats it where a later statement takes it over;
- a task record reports a remote execution of the open statement, and opens a statement if the statement line is
  missing because the log begins, or has a gap, in the middle of a statement;
- a bind that names its statement and is followed by another statement is an execution of which nothing else took long
  enough to be logged; a parse that is followed by another statement belongs to no execution.

Where a record does not tell its session (a prefix without `%p` and `%c`), only a record that is whole by itself is a
statement: one that names its statement, with the duration of this phase if it has one.

These rules apply to both protocols, and to parents as to children (sessions with a gpid). The meaning of each kind of
record is defined here; the pass over the records is compiled (`native/sessions.c`). It reads them in the order of
their logs, with backends alternating, as long as each backend's own records are in order. Records of logs that
overlap, were duplicated or concatenated in another order are sorted by session first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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
)
from citus_analysis.formats.pglog.layout import RECORD_EVENTS, RECORD_NUMBERS
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, SEVERITIES, STATEMENT_KINDS, TABLES
from citus_analysis.spans.ordered_arrays import Flags, Indices
from citus_analysis.spans.record_order import GPID_NODE_FACTOR, list_numbered_nodes

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


# Convert columns of `log_events` to the arguments of the compiled assembly, and the arrays it returns to frames.


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
        columns: :data:`~citus_analysis.spans.record_order.USED`; categories as dictionaries.
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
