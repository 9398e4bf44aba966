"""Records of server logs assembled into executions by session, as by `native/sessions.c`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from types import SimpleNamespace
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.formats.pglog.assembly import (
    NO_CODE,
    NO_NUMBER,
    NO_PROCESS,
    NOTHING_THERE,
    UNNAMED,
    Assembled,
    RecordColumns,
    Rules,
)
from citus_analysis.formats.pglog.layout import ASSEMBLED_ITEMS, RECORD_EVENTS, RECORD_NUMBERS, build_ctypes_structure
from citus_analysis.formats.pglog.records import FIRST_DETAIL
from citus_analysis.schema import DATA_STATEMENTS, SEVERITIES, STATEMENT_KINDS
from tests.formats.pglog.oracle.records import convert_to_signed_32_bits

# The state of a backend and its statements while records are assembled.
#
# Their members are those of the structures in `native/layout.h`.

_FILLER: Final = "unused"
#: Members that are not 0 and not :data:`NOTHING_THERE` at first, as their types would have them.
_AT_FIRST: Final = {"other_shards": NO_NUMBER, "statement_kind": NO_CODE, "executions": 0}


class AssemblyItem(SimpleNamespace):
    """A structure that is being filled, with members beside it that only the assembly uses."""

    @classmethod
    def of(cls, kind: str, **known: object) -> Self:
        """A structure of which this is known so far.

        Example:
            >>> phase = AssemblyItem.of("phase_t", byte_offset=10, parses=True)
            >>> phase.byte_offset, phase.log_time == NOTHING_THERE, phase.duration_us, phase.parses
            (10, True, 0, True)
        """
        return cls(**{**_make_unknown_members(kind), **known})


@cache
def _make_unknown_members(kind: str) -> Mapping[str, int]:
    row = np.zeros(1, np.dtype(build_ctypes_structure(kind)))
    return {
        name: _AT_FIRST.get(name, NOTHING_THERE if row[name].dtype == np.int64 else 0) for name in row.dtype.names or ()
    }


class Execution(AssemblyItem):
    """An execution of a statement.

    Attributes:
        timed: its records with a duration.
        tasks: the tasks that it sent to workers.
        locals: its executions on shards by the parent itself.
        last_local: shard of the last record, if this is a local execution.
        planned: what the planner said of a plan for the own node's shard.
        prepared: fingerprint of the statement that a parse or bind phase names.
        bind: the record of its bind phase, if that names the statement.
        bind_values: hash of the values of its bind phase.
        crowded: whether more durations preceded those of `timed`.
        timed_before: whether durations preceded its failure that are not known to be its own.
        values_of: the member with the hash of the values that the last record named: the parameters that follow are
            its own.
    """

    @classmethod
    def begun(cls, **known: object) -> Self:
        """An execution without records."""
        beside = dict.fromkeys(("last_local", "planned", "prepared", "bind", "values_of"))
        flags = dict.fromkeys(("crowded", "timed_before"), False)
        return cls.of("execution_t", timed=[], tasks=[], locals=[], bind_values=0, **beside, **flags, **known)

    @property
    def only_prepared(self) -> bool:
        """Whether only phases before the execution itself were logged, as far as is known."""
        return self.prepared is not None and not (self.opened or self.failed or self.has_tasks)

    @property
    def shows_no_place(self) -> bool:
        """Whether it ended well, and no record says where it was executed."""
        return bool(self.closed) and not (self.failed or self.tasks or self.locals)

    @property
    def counts_surely(self) -> bool:
        """Whether it counts as a statement regardless of later records."""
        logged = self.timed_before and not self.fatal
        return bool(
            self.opened or self.has_tasks or (self.failed and (logged or self.phases > 0 or self.has_fingerprint))
        )


@dataclass(slots=True)
class Backend:
    """A process of a node, and the session that it serves.

    Attributes:
        line: number of the last record.
        place: place of the last record; None before the first one.
        newest: latest time of all records.
        floor: latest time of the records before the last restart.
        anchored: whether no record is missing since the session began.
        opened: number of statements that began since records were missing.
        xid: transaction of the last record.
        current: the execution to which records are added.
        held: the complete execution before `current`, kept until `current` is complete.
        undecided: executions of a session without a logged statement so far.
        logs_all: whether all statements are logged (`log_statement = all`).
        strays: number of durations before statements that were no phase of theirs, as far as is known.
        names: numbers of the prepared statements that were executed.
        failing: execution that the last record reported as failed: a detail may name its statement.
        connections: time, host and port of the connections that the session made.
    """

    node: int
    pid: int
    session: AssemblyItem
    line: int = NOTHING_THERE
    place: int | None = None
    newest: int = NOTHING_THERE
    floor: int = NOTHING_THERE
    timeless: bool = False
    anchored: bool = False
    sampled: bool = False
    on_shard_seen: bool = False
    opens: bool = False
    closes: bool = False
    opened: int = 0
    xid: int = NOTHING_THERE
    kept: int = 0
    logs_all: bool = False
    strays: int = 0
    names: set[int] = field(default_factory=set)
    failing: Execution | None = None
    current: Execution | None = None
    held: Execution | None = None
    undecided: list[Execution] = field(default_factory=list)
    connections: set[tuple[int, int, int | None]] = field(default_factory=set)


def pack_structures(rows: Sequence[AssemblyItem], kind: str) -> NDArray[np.void]:
    """Objects as an array of a structure with the same members.

    Example:
        >>> missing = AssemblyItem.of("missing_t", gpid=7, place=-1, node=2)
        >>> pack_structures([missing], "missing_t")[["gpid", "node"]].tolist()
        [(7, 2)]
    """
    found = np.zeros(len(rows), np.dtype(build_ctypes_structure(kind)))
    for name in found.dtype.names or ():
        if name != _FILLER:
            found[name] = [getattr(row, name) for row in rows]
    return found


_PREPARE, _WHOLE, _DURATION, _LOCAL, _OPENER, _TASK, _ERROR, _PLANNED, _CONNECT, _BARRIER, _NOTHING = range(
    len(RECORD_EVENTS)
)
_INSIDE: Final = (_LOCAL, _PLANNED, _CONNECT)
#: Times of the log have a resolution of 1 ms.
_RESOLUTION_US: Final = 2_000
_SECOND_US: Final = 1_000_000
_ERRORS: Final = frozenset(SEVERITIES.index(word) for word in ("ERROR", "FATAL", "PANIC"))
_STATEMENT: Final = SEVERITIES.index("STATEMENT")
_PLAIN_ERROR: Final = SEVERITIES.index("ERROR")
_NO_PORT: Final = np.iinfo(np.int32).min
#: Members of an execution by which its tasks are paired.
_PAIRED_BY: Final = ("gpid", "session", "pid", "failed", "is_child", "anchored", "values_hash")
#: Columns of :class:`RecordColumns` beside the numbers.
_CODED: Final = ("words", "severity", "statement_kind", "worker_host", "other_shards", "statement_name")
#: Durations kept of a statement that is not yet known, and names kept of a session.
_MOST_WAITING: Final = 4
_MOST_NAMES: Final = 64
#: Kinds of statements that are logged only where all are.
_SHOWS_ALL: Final = frozenset(map(STATEMENT_KINDS.index, ("select", "begin", "commit", "rollback", "set")))
#: Codes of phases in `phase_t`.
_PARSE, _BIND, _EXECUTE = range(3)


class PythonAssembly:
    """Assembles records into executions, like :class:`~...compiled.assembly.Assembly`.

    Args:
        rules: the meaning of the records.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._words = {name: values.tolist() for name, values in rules.words.items()}
        self._nodes, self._nodeids = rules.nodes.tolist(), rules.nodeids.tolist()
        #: First and last time of the records of each source; :data:`NOTHING_THERE` if none has a time.
        self.times = np.full((len(rules.nodes), 2), NOTHING_THERE, np.int64)
        self._backends: dict[tuple[int, int], Backend] = {}
        self._sessions = self._executions = 0
        #: The items assembled since the last :meth:`take`, by the names of :data:`ASSEMBLED_ITEMS`.
        self._done: dict[str, list[AssemblyItem]] = defaultdict(list)

    @property
    def waiting(self) -> int:
        """The number of executions assembled since the last :meth:`take`."""
        return len(self._done["executions"])

    def add(self, columns: RecordColumns, source: int) -> bool:
        """Add the next records of one source; false if records must be sorted by session first."""
        sources = np.full(len(columns.words), source, np.uint32)
        return all(self._take(record, in_order=True) for record in _iterate_ordered_records(columns, sources, None))

    def add_sorted(self, columns: RecordColumns, order: NDArray[np.int64], sources: NDArray[np.uint32]) -> None:
        """Add records in the order of their sessions, given the source of each."""
        for record in _iterate_ordered_records(columns, sources, order):
            self._take(record, in_order=False)

    def end(self) -> None:
        """Complete all sessions: no more records follow."""
        for backend in self._backends.values():
            self._finish_session(backend)

    def take(self) -> Assembled:
        """The executions assembled since the last call."""
        done, self._done = self._done, defaultdict(list)
        return {name: pack_structures(done[name], kind) for name, kind in ASSEMBLED_ITEMS.items()}

    def _take(self, record: SimpleNamespace, *, in_order: bool) -> bool:
        self._see_time(record)
        node = self._nodes[record.source]
        if record.pid is None:
            self._add_alone(record, node)
            return True
        place = record.source * self._rules.file_room + record.byte_offset
        backend = self._backends.get((node, record.pid))
        if backend is None:
            backend = self._backends[node, record.pid] = Backend(node, record.pid, _make_session_item(node, 0))
        line = _fill_missing_number(record.session_line)
        if _is_same_log_row(backend, record, line):
            _add_parameters(backend, record)
            self._name_failed(backend, record)
            return True
        if in_order and not _comes_after(backend, record, place, line):
            return False
        self._place_record(backend, record, place, line)
        event = self._make_event(record)
        if event == _NOTHING:
            _add_parameters(backend, record)
            self._name_failed(backend, record)
            if record.severity < FIRST_DETAIL:
                backend.failing = None
        else:
            self._add_event(backend, record, event)
        return True

    def _add_alone(self, record: SimpleNamespace, node: int) -> None:
        """Add a record of an unknown session: if it is whole by itself, it is a statement of its own."""
        event = self._make_event(record)
        if event not in (_WHOLE, _OPENER) and not self._binds(record, event):
            return
        backend = self._backends.setdefault((node, NO_PROCESS), Backend(node, NO_PROCESS, _make_session_item(node, 0)))
        backend.closes, backend.opens = True, False
        # Sessions have equal numbers of transactions.
        record.local_xid = None
        self._add_event(backend, record, event)

    def _binds(self, record: SimpleNamespace, event: int) -> bool:
        """Whether a record reports a bind phase and names its statement."""
        return (
            event == _PREPARE and not self._words["parses"][record.words] and record.statement_fingerprint is not None
        )

    def _see_time(self, record: SimpleNamespace) -> None:
        if record.log_time is not None:
            first, last = self.times[record.source].tolist()
            first = record.log_time if first == NOTHING_THERE else min(first, record.log_time)
            # The value for no time is the smallest integer.
            self.times[record.source] = first, max(last, record.log_time)

    def _place_record(self, backend: Backend, record: SimpleNamespace, place: int, line: int) -> None:
        """Set the place of the backend's last record; begin a segment where records are missing before it."""
        step = 1 if NOTHING_THERE in (line, backend.line) else line - backend.line
        restarted = backend.place is None or step <= 0
        moved = not restarted and backend.place is not None and place < backend.place
        if restarted or moved or step > 1:
            self._begin_segment(backend, record, line, restarted=restarted, moved=moved)
        backend.line, backend.place = line, place

    def _begin_segment(
        self, backend: Backend, record: SimpleNamespace, line: int, *, restarted: bool, moved: bool
    ) -> None:
        """Begin a segment: a piece of a session in which no record is missing."""
        if restarted:
            self._finish_session(backend)
        else:
            self._finish_execution(backend, torn=True)
        backend.anchored = restarted and line == 1
        backend.opens = backend.closes = False
        backend.opened, backend.xid = 0, NOTHING_THERE
        if not backend.anchored and record.gpid is not None:
            before = NO_NUMBER if restarted or moved or backend.place is None else backend.place
            self._done["missing"].append(
                AssemblyItem.of("missing_t", gpid=record.gpid, place=before, node=backend.node)
            )

    def _make_event(self, record: SimpleNamespace) -> int:
        word = record.words
        event: int = self._words["untimed" if record.duration_us is None else "timed"][word]
        if event in _INSIDE and record.gpid is not None:
            return _NOTHING
        own_shard = record.gpid is None and record.shard_id is not None
        if event == _OPENER and self._rules.distributed and self._words["statements"][word] and own_shard:
            return _LOCAL
        return _ERROR if event == _NOTHING and record.severity in _ERRORS else event

    def _add_event(self, backend: Backend, record: SimpleNamespace, event: int) -> None:
        if event == _BARRIER:
            self._finish_execution(backend)
            backend.opens = backend.closes = False
            return
        opens = event in (_OPENER, _TASK)
        xid = _fill_missing_number(record.local_xid)
        after_opener = event not in _INSIDE and backend.opens
        closes = event in (_ERROR, _WHOLE) or (event == _DURATION and after_opener)
        never_closed = after_opener and event in (_OPENER, _WHOLE, _PREPARE)
        # In a segment that begins in the middle of a statement, a new xid shows that the next statement begins.
        midway = not backend.anchored and not backend.opened
        fragment = midway and xid >= 0 and backend.xid >= 0 and xid != backend.xid
        one = backend.current
        passed = one is not None and one.only_prepared and self._passes_over(one, record, event)
        if one is None or backend.closes or never_closed or fragment or passed:
            one = self._begin_execution(backend, record)
        if event == _OPENER and record.statement_kind in _SHOWS_ALL:
            backend.logs_all = True
        if event in (_OPENER, _WHOLE):
            self._choose_phases(backend, one, record, event)
            if self._words["extended"][record.words]:
                _add_name(backend, record.statement_name)
        runs = event == _DURATION and not closes and _is_bound_execution(one, record)
        if runs:
            _keep_bound(backend, one)
            self._close_at_bind(one)
            closes = True
        if event == _ERROR and not one.opened and not one.has_tasks and one.timed:
            one.timed_before = True
            _keep_phases(backend, one, ())
        self._add_record(backend, one, record, event, closes=closes)
        backend.failing = one if event == _ERROR else None
        if event == _CONNECT:
            _add_connection(backend, one, record)
        if event not in _INSIDE:
            backend.opens = opens
        backend.closes, backend.xid = closes, xid
        backend.opened += opens

    def _passes_over(self, one: Execution, record: SimpleNamespace, event: int) -> bool:
        """Whether a record shows that nothing more was logged of the prepared statement: another one follows."""
        if event not in (_PREPARE, _OPENER, _WHOLE):
            return False
        again = event == _PREPARE and (one.bind is not None or self._words["parses"][record.words])
        return again or record.statement_fingerprint not in (None, one.prepared)

    def _begin_execution(self, backend: Backend, record: SimpleNamespace) -> Execution:
        self._finish_execution(backend)
        nodeid = self._nodeids[record.source]
        unknown = nodeid == NOTHING_THERE or backend.pid == NO_PROCESS
        own = NOTHING_THERE if unknown else nodeid * self._rules.gpid_factor + backend.pid
        backend.current = Execution.begun(
            source=record.source,
            session=backend.session.session,
            pid=backend.pid,
            gpid=own if record.gpid is None else record.gpid,
            is_child=record.gpid is not None,
            anchored=backend.anchored,
        )
        return backend.current

    def _choose_phases(self, backend: Backend, one: Execution, record: SimpleNamespace, event: int) -> None:
        """Keep, of the durations before a record that names a statement, those that are proven to be its phases."""
        waiting = list(one.timed)
        if not waiting:
            return
        kept: list[AssemblyItem] = []
        if self._words["binds"][record.words]:
            # Where all statements are logged, no other one ended in between.
            complete = event == _OPENER and backend.logs_all
            following = _Next.after(record, record.duration_us if event == _WHOLE else 0.0)
            before = waiting[-1]
            own = complete or (not before.named and following.is_in_same(before)) or following.meets(before)
            if not before.parses and not following.is_in_other(before) and own:
                following = _Next.from_phase(before)
                kept.append(waiting.pop())
            may_parse = waiting and (kept or waiting[-1].parses)
            if may_parse and _is_parse(backend, one, waiting[-1], following, record.statement_name, complete=complete):
                kept.append(waiting[-1])
        _keep_phases(backend, one, kept)

    def _name_failed(self, backend: Backend, record: SimpleNamespace) -> None:
        """Name the statement of an execution that failed, as the detail of its error does."""
        one, fingerprint = backend.failing, record.statement_fingerprint
        if one is None or record.severity != _STATEMENT or fingerprint is None:
            return
        backend.failing = None
        if one.has_fingerprint and one.statement_fingerprint == fingerprint:
            return
        if one.opened:
            # The statement that was logged before ended without a record; another one failed.
            if one.has_tasks or one.is_child or one.locals or not one.has_fingerprint:
                return
            names = ("fatal", "byte_offset", "end_time", "closing_xid")
            error = {name: getattr(one, name) for name in names}
            one.failed = one.fatal = one.closed = False
            one.byte_offset = one.end_time = one.closing_xid = NOTHING_THERE
            one.last_offset = one.opener_offset
            one = self._begin_execution(backend, record)
            one.__dict__.update(error, failed=True, closed=True, last_offset=error["byte_offset"])
        one.has_fingerprint, one.statement_fingerprint = True, fingerprint
        one.statement_kind = record.statement_kind

    def _add_record(
        self, backend: Backend, one: Execution, record: SimpleNamespace, event: int, *, closes: bool
    ) -> None:
        one.last_offset, one.values_of = record.byte_offset, None
        if event == _PREPARE and record.statement_fingerprint is not None:
            one.prepared = record.statement_fingerprint
            if self._binds(record, event):
                one.bind, one.bind_values, one.values_of = record, record.values_hash or 0, "bind_values"
        if event in (_OPENER, _WHOLE):
            self._add_opener(one, record)
            one.values_of = "values_hash"
        if event <= _DURATION:
            _add_timed(backend, one, record, event, closes=closes, parses=bool(self._words["parses"][record.words]))
        if event == _TASK:
            _add_task(one, record)
        if event == _LOCAL:
            _add_local(one, record)
        if event == _PLANNED:
            one.planned = _make_local_item(record)
        if event == _ERROR:
            one.failed = True
            one.fatal |= record.severity != _PLAIN_ERROR
        if closes:
            _close_at(one, record)
        one.last_local = _fill_missing_number(record.shard_id) if event == _LOCAL else None

    def _add_opener(self, one: Execution, record: SimpleNamespace) -> None:
        one.opened = True
        one.extended = bool(self._words["extended"][record.words])
        one.opener_offset, one.opener_time = record.byte_offset, _fill_missing_number(record.log_time)
        one.local_xid, one.shard_id = _fill_missing_number(record.local_xid), _fill_missing_number(record.shard_id)
        one.statement_kind, one.other_shards = record.statement_kind, record.other_shards
        one.values_hash = record.values_hash or 0
        one.has_fingerprint = record.statement_fingerprint is not None
        one.statement_fingerprint = record.statement_fingerprint or 0

    def _finish_execution(self, backend: Backend, *, torn: bool = False) -> None:
        """Complete the current execution; `torn`: records are missing after it."""
        one, backend.current = backend.current, None
        backend.failing = None
        if one is None:
            return
        if one.bind is not None and one.only_prepared and not torn:
            # The execution itself took less than the limit of what is logged.
            _keep_bound(backend, one)
            self._close_at_bind(one)
        if one.opened and not backend.sampled:
            backend.sampled = True
            self._decide(backend)
        if not one.counts_surely and (not one.failed or one.fatal):
            backend.strays += len(one.timed)
            return
        backend.undecided.append(one)
        if backend.sampled:
            self._decide(backend)

    def _close_at_bind(self, one: Execution) -> None:
        self._add_opener(one, one.bind)
        one.values_hash = one.bind_values
        _close_at(one, one.bind)
        one.extended = True

    def _decide(self, backend: Backend) -> None:
        """Keep undecided executions that count: an error without a statement does if its session logs statements."""
        for one in backend.undecided:
            if one.counts_surely or (backend.sampled and one.failed and not one.fatal):
                self._keep(backend, one)
        backend.undecided.clear()

    def _keep(self, backend: Backend, one: Execution) -> None:
        """Hold an execution that counts until the next one of its session, which may be of the same transaction."""
        one.session_seq = backend.kept
        backend.kept += 1
        session = backend.session
        if session.executions == 0:
            session.anchored = one.anchored
        session.executions += 1
        if one.start_time != NOTHING_THERE and (session.begins == NOTHING_THERE or one.start_time < session.begins):
            session.begins = one.start_time
        if one.is_child and one.opened and one.shard_id != NOTHING_THERE and not backend.on_shard_seen:
            backend.on_shard_seen = True
            one.first_on_shard = one.anchored
        before = backend.held
        if before is not None and one.local_xid > 0 and before.local_xid == one.local_xid:
            before.in_transaction = one.in_transaction = True
        self._put_out(before)
        backend.held = one

    def _finish_session(self, backend: Backend) -> None:
        self._finish_execution(backend)
        self._decide(backend)
        self._put_out(backend.held)
        if backend.session.executions and backend.pid != NO_PROCESS:
            self._done["sessions"].append(backend.session)
        self._sessions += 1
        backend.session = _make_session_item(backend.node, self._sessions)
        backend.held, backend.kept = None, 0
        backend.connections.clear()
        backend.names.clear()
        backend.strays = 0
        backend.sampled = backend.on_shard_seen = backend.logs_all = False

    def _put_out(self, one: Execution | None) -> None:
        if one is None:
            return
        _name_phases(one.timed)
        if one.planned is not None and one.shows_no_place and one.statement_kind < len(DATA_STATEMENTS):
            one.locals.append(one.planned)
        kept = [local for local in one.locals if not _is_logged_again(one, local)]
        one.has_locals = bool(kept)
        for item in (*one.timed, *one.tasks, *kept):
            item.execution = self._executions
        for local in kept:
            local.statement_kind = one.statement_kind if local.statement_kind == NO_CODE else local.statement_kind
        for task in one.tasks:
            task.statement_offset = one.byte_offset if one.closed else one.last_offset
            task.statement_seq, task.statement_source = one.session_seq, one.source
            task.__dict__.update((name, getattr(one, name)) for name in _PAIRED_BY)
        self._executions += 1
        self._done["phases"] += one.timed
        self._done["tasks"] += one.tasks
        self._done["locals"] += kept
        self._done["executions"].append(one)


def _close_at(one: Execution, record: SimpleNamespace) -> None:
    one.closed, one.byte_offset = True, record.byte_offset
    one.end_time, one.closing_xid = _fill_missing_number(record.log_time), _fill_missing_number(record.local_xid)


def _fill_missing_number(number: int | None) -> int:
    return NOTHING_THERE if number is None else number


def _make_record_members(record: SimpleNamespace) -> dict[str, int]:
    return {
        "byte_offset": record.byte_offset,
        "log_time": _fill_missing_number(record.log_time),
        "source": record.source,
    }


def _make_session_item(node: int, number: int) -> AssemblyItem:
    return AssemblyItem.of("session_t", node=node, session=number)


def _is_same_log_row(backend: Backend, record: SimpleNamespace, line: int) -> bool:
    """Whether a record is a detail from the same row of csvlog or jsonlog as the record before, with its number."""
    return line != NOTHING_THERE and line == backend.line and FIRST_DETAIL <= record.severity < len(SEVERITIES)


def _comes_after(backend: Backend, record: SimpleNamespace, place: int, line: int) -> bool:
    """Whether a record follows all others of its backend; the number 1 after higher ones begins a later session."""
    if backend.place is not None and place <= backend.place:
        return False
    if line > 0 and backend.line != NOTHING_THERE and line <= backend.line:
        if line != 1 or backend.timeless:
            return False
        backend.floor = backend.newest
    time = record.log_time
    if time is None:
        backend.timeless = True
    if backend.floor != NOTHING_THERE and (time is None or time <= backend.floor):
        return False
    if time is not None:
        backend.newest = max(time, backend.newest)
    return True


def _add_parameters(backend: Backend, record: SimpleNamespace) -> None:
    """Add the values of parameters to those of the statement that the record before names."""
    one = backend.current
    if one is not None and one.values_of and record.severity == FIRST_DETAIL and record.values_hash is not None:
        setattr(one, one.values_of, convert_to_signed_32_bits(getattr(one, one.values_of) + record.values_hash))
        one.values_of = None


@dataclass(frozen=True)
class _Next:
    """What is known to follow a phase: when it began, when it was logged, its transaction."""

    begun: int
    logged: int
    xid: int

    @classmethod
    def after(cls, record: SimpleNamespace, duration_us: float) -> Self:
        """What a record with this duration reports."""
        logged = _fill_missing_number(record.log_time)
        begun = logged if logged == NOTHING_THERE else logged - int(duration_us)
        return cls(begun, logged, _fill_missing_number(record.local_xid))

    @classmethod
    def from_phase(cls, phase: AssemblyItem) -> Self:
        """A phase that follows another."""
        begun = phase.log_time if phase.log_time == NOTHING_THERE else phase.log_time - int(phase.duration_us)
        return cls(begun, phase.log_time, phase.xid)

    def meets(self, phase: AssemblyItem) -> bool:
        """Whether a phase ended when this began, as far as times tell; logs of whole seconds cut the rest off.

        A client sends the messages of one execution together. If times overlap, nothing else was executed in between.
        """
        ended = phase.log_time
        if NOTHING_THERE in (ended, self.logged):
            return True
        whole = ended % _SECOND_US == 0 and self.logged % _SECOND_US == 0
        room = _RESOLUTION_US + (_SECOND_US if whole else 0)
        return bool(self.begun - ended <= room and (phase.named or ended - self.begun <= room))

    def is_in_same(self, phase: AssemblyItem) -> bool:
        """Whether both are known to be of one transaction."""
        return bool(phase.xid > 0 and phase.xid == self.xid)

    def is_in_other(self, phase: AssemblyItem) -> bool:
        """Whether they are known not to be; a phase is logged within a transaction."""
        return bool(phase.xid == 0 or (phase.xid > 0 and self.xid > 0 and phase.xid != self.xid))


def _is_parse(
    backend: Backend, one: Execution, phase: AssemblyItem, following: _Next, name: int, *, complete: bool
) -> bool:
    """Whether a duration is the parse phase of the statement whose next phase is known."""
    if phase.xid == 0 or (phase.event == _PREPARE and not phase.parses):
        return False
    near, same = following.meets(phase), following.is_in_same(phase)
    if phase.named:
        return complete or near
    # Nothing but its parse phase can precede the bind phase of the unnamed statement directly.
    if name == UNNAMED:
        return complete or near or same
    # The parse phase of a statement that was not executed before, if the session has no other duration that may be it.
    alone = len(one.timed) == 2 and not one.crowded and not backend.strays
    return alone and not _was_executed(backend, name) and (backend.anchored or (complete and (near or same)))


def _was_executed(backend: Backend, name: int) -> bool:
    return len(backend.names) >= _MOST_NAMES or name in backend.names


def _add_name(backend: Backend, name: int) -> None:
    if name > UNNAMED and not _was_executed(backend, name):
        backend.names.add(name)


def _keep_phases(backend: Backend, one: Execution, kept: Sequence[AssemblyItem]) -> None:
    """Keep some of the durations of an execution, and count the others as strays."""
    backend.strays += len(one.timed) - len(kept)
    one.timed = [phase for phase in one.timed if any(phase is other for other in kept)]
    one.phases, one.duration_us, one.start_time = 0, 0.0, NOTHING_THERE
    for phase in one.timed:
        _count_phase(one, phase)


def _keep_bound(backend: Backend, one: Execution) -> None:
    """Keep, of the durations before a bind phase that names its statement, the one of its parse phase."""
    bind = len(one.timed) - 1
    while bind > 0 and not (one.timed[bind].named and not one.timed[bind].parses):
        bind -= 1
    kept = [one.timed[bind]]
    before = one.timed[bind - 1] if bind else None
    if before is not None and before.named and before.parses and _Next.from_phase(kept[0]).meets(before):
        kept.append(before)
    _keep_phases(backend, one, kept)


def _is_bound_execution(one: Execution, record: SimpleNamespace) -> bool:
    """Whether a duration without a text is the execution whose bind phase the record before names."""
    if one.bind is None or not one.only_prepared or not one.timed:
        return False
    before, following = one.timed[-1], _Next.after(record, record.duration_us)
    follows = following.is_in_same(before) or following.meets(before)
    return bool(before.named and not before.parses and not following.is_in_other(before) and follows)


def _add_timed(
    backend: Backend, one: Execution, record: SimpleNamespace, event: int, *, closes: bool, parses: bool
) -> None:
    facts = {"duration_us": record.duration_us or 0.0, "closes": closes, "event": event, "parses": parses}
    named = event == _PREPARE and record.statement_fingerprint is not None
    phase = AssemblyItem.of(
        "phase_t", **_make_record_members(record), **facts, xid=_fill_missing_number(record.local_xid), named=named
    )
    if not one.opened and one.prepared is None and len(one.timed) == _MOST_WAITING:
        del one.timed[0]
        one.crowded = True
        backend.strays += 1
    one.timed.append(phase)
    _count_phase(one, phase)


def _count_phase(one: Execution, phase: AssemblyItem) -> None:
    one.phases += 1
    one.duration_us += phase.duration_us
    if phase.log_time != NOTHING_THERE:
        begin = phase.log_time - int(phase.duration_us)
        one.start_time = begin if one.start_time == NOTHING_THERE else min(begin, one.start_time)


def _add_task(one: Execution, record: SimpleNamespace) -> None:
    one.has_tasks = True
    port = _NO_PORT if record.worker_port is None else record.worker_port
    facts = {
        "end_time": _fill_missing_number(record.log_time),
        "shard_id": _fill_missing_number(record.shard_id),
        "task_us": _fill_missing_number(record.task_us),
    }
    one.tasks.append(
        AssemblyItem.of("sent_task_t", **_make_record_members(record), **facts, host=record.worker_host, port=port)
    )


def _add_local(one: Execution, record: SimpleNamespace) -> None:
    """Add a local execution; the first cached plan for a shard is logged twice in a row for one execution."""
    if one.last_local != _fill_missing_number(record.shard_id):
        one.locals.append(_make_local_item(record))


def _make_local_item(record: SimpleNamespace) -> AssemblyItem:
    shard = _fill_missing_number(record.shard_id)
    return AssemblyItem.of(
        "local_t", **_make_record_members(record), shard_id=shard, statement_kind=record.statement_kind
    )


def _add_connection(backend: Backend, one: Execution, record: SimpleNamespace) -> None:
    """Take in a connection, whether it is made or taken over from an earlier statement.

    Citus repeats the time that it took to make it. Connections are made at the same time: the longest counts.
    """
    took = int(record.duration_us or 0.0)
    begun = None if record.log_time is None else record.log_time - took
    made = (took, record.worker_host, record.worker_port)
    early = begun is not None and one.opener_time != NOTHING_THERE and begun < one.opener_time - _RESOLUTION_US
    taken = early or made in backend.connections
    one.connect_us = max(0, one.connect_us, 0 if taken else took)
    if not taken:
        backend.connections.add(made)


def _name_phases(timed: Sequence[AssemblyItem]) -> None:
    """Name the closing phase execute, the last one before it bind, others parse; names in records take precedence."""
    for place, phase in enumerate(timed):
        last = place + 1 == len(timed) or timed[place + 1].closes
        parse = phase.parses if phase.event == _PREPARE else not last
        phase.name = _EXECUTE if phase.closes else _PARSE if parse else _BIND


def _is_logged_again(one: Execution, local: AssemblyItem) -> bool:
    """Whether another record tells more of a local execution.

    That is the one that names the shard, or the one after the statement line of an execution that was logged during
    bind.
    """
    if local.shard_id == NOTHING_THERE and any(other.shard_id != NOTHING_THERE for other in one.locals):
        return True
    opener = one.opener_offset
    if opener == NOTHING_THERE or local.byte_offset >= opener:
        return False
    return any(other.byte_offset >= opener and other.shard_id == local.shard_id for other in one.locals)


def _iterate_ordered_records(
    columns: RecordColumns, sources: NDArray[np.uint32], order: NDArray[np.int64] | None
) -> Iterator[SimpleNamespace]:
    """Records with numbers (None if null), codes and a source, in the given order, or as they are."""
    taken = slice(None) if order is None else order
    found = {name: _iterate_column_numbers(columns.numbers[name], taken) for name in RECORD_NUMBERS}
    for name in _CODED:
        values: NDArray[np.generic] | None = getattr(columns, name)
        found[name] = repeat(NO_NUMBER) if values is None else values[taken].tolist()
    found["source"] = sources[taken].tolist()
    return (SimpleNamespace(**dict(zip(found, one, strict=True))) for one in zip(*found.values(), strict=False))


def _iterate_column_numbers(array: pa.Array, taken: slice | NDArray[np.int64]) -> Iterable[object]:
    plain = array.view(pa.int64()) if pa.types.is_timestamp(array.type) else array
    numbers: list[object] = np.array(plain.to_pylist(), object)[taken].tolist()
    return numbers
