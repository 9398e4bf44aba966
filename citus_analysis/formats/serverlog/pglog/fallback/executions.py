"""The state of a backend and its statements while records are assembled: `python_assembly.py`.

Each class has the members of the structure of the same name in `compiled/layout.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.assembly import NO_CODE, NO_NUMBER, NOTHING_THERE
from citus_analysis.formats.serverlog.pglog.compiled.layout import structure
from citus_analysis.formats.serverlog.pglog.fallback.single_records import Record

_FILLER: Final = "unused"


@dataclass(slots=True)
class Phase:
    """A record with a duration; `event`, `parses` and its place decide its name."""

    byte_offset: int
    log_time: int
    duration_us: float
    source: int
    closes: bool
    event: int
    parses: bool
    execution: int = 0
    name: int = 0


@dataclass(slots=True)
class SentTask:
    """A task that an execution sent to a worker."""

    byte_offset: int
    end_time: int
    shard_id: int
    task_us: int
    source: int
    host: int
    port: int
    execution: int = 0
    gpid: int = NOTHING_THERE
    statement_offset: int = 0
    statement_seq: int = 0
    statement_source: int = 0
    session: int = 0
    pid: int = 0
    failed: bool = False
    is_child: bool = False
    anchored: bool = False
    values_hash: int = 0

    def tell_execution(self, one: Execution) -> None:
        """Take over the facts about its execution by which it is paired."""
        self.statement_offset = one.byte_offset if one.closed else one.last_offset
        self.statement_seq, self.statement_source = one.session_seq, one.source
        self.gpid, self.session, self.pid = one.gpid, one.session, one.pid
        self.failed, self.is_child, self.anchored = one.failed, one.is_child, one.anchored
        self.values_hash = one.values_hash


@dataclass(slots=True)
class LocalExecution:
    """An execution on a shard by the parent itself."""

    byte_offset: int
    log_time: int
    shard_id: int
    source: int
    statement_kind: int
    execution: int = 0


@dataclass(slots=True)
class Session:
    """A session of a backend."""

    node: int
    session: int = 0
    begins: int = NOTHING_THERE
    executions: int = 0
    anchored: bool = False


@dataclass(slots=True)
class Missing:
    """A place at which records of a child session are missing."""

    gpid: int
    place: int
    node: int


@dataclass(slots=True)
class Execution:
    """An execution of a statement.

    Attributes:
        last_local: shard of the last record, if this is a local execution.
        planned: what the planner said of a plan for the own node's shard.
        prepared: fingerprint of the statement that a parse or bind phase names.
        bind: the record of its bind phase, if that names the statement.
        bind_values: hash of the values of its bind phase.
        values_of: the member with the hash of the values that the last record named: the parameters that follow are
            its own.
    """

    source: int
    session: int
    pid: int
    gpid: int
    is_child: bool
    anchored: bool
    opener_offset: int = NOTHING_THERE
    opener_time: int = NOTHING_THERE
    byte_offset: int = NOTHING_THERE
    end_time: int = NOTHING_THERE
    last_offset: int = 0
    start_time: int = NOTHING_THERE
    shard_id: int = NOTHING_THERE
    local_xid: int = NOTHING_THERE
    closing_xid: int = NOTHING_THERE
    connect_us: int = NOTHING_THERE
    session_seq: int = 0
    statement_fingerprint: int = 0
    duration_us: float = 0.0
    phases: int = 0
    other_shards: int = NO_NUMBER
    values_hash: int = 0
    opened: bool = False
    closed: bool = False
    extended: bool = False
    failed: bool = False
    fatal: bool = False
    has_tasks: bool = False
    has_locals: bool = False
    in_transaction: bool = False
    first_on_shard: bool = False
    has_fingerprint: bool = False
    statement_kind: int = NO_CODE
    timed: list[Phase] = field(default_factory=list)
    tasks: list[SentTask] = field(default_factory=list)
    locals: list[LocalExecution] = field(default_factory=list)
    last_local: int | None = None
    planned: LocalExecution | None = None
    prepared: int | None = None
    bind: Record | None = None
    bind_values: int = 0
    values_of: str | None = None

    @property
    def only_prepared(self) -> bool:
        """Whether only phases before the execution itself were logged, as far as is known."""
        return self.prepared is not None and not (self.opened or self.failed or self.has_tasks)

    @property
    def shows_no_place(self) -> bool:
        """Whether it ended well, and no record says where it was executed."""
        return self.closed and not (self.failed or self.tasks or self.locals)

    @property
    def counts_surely(self) -> bool:
        """Whether it counts as a statement regardless of later records."""
        return self.opened or self.has_tasks or (self.phases > 0 and self.failed)


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
        connections: time, host and port of the connections that the session made.
    """

    node: int
    pid: int
    session: Session
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
    current: Execution | None = None
    held: Execution | None = None
    undecided: list[Execution] = field(default_factory=list)
    connections: set[tuple[int, int, int | None]] = field(default_factory=set)


def packed(rows: Sequence[object], kind: str) -> NDArray[np.void]:
    """Objects as an array of a structure with the same members.

    Example:
        >>> packed([Missing(gpid=7, place=-1, node=2)], "missing_t")[["gpid", "node"]].tolist()
        [(7, 2)]
    """
    found = np.zeros(len(rows), np.dtype(structure(kind)))
    for name in found.dtype.names or ():
        if name != _FILLER:
            found[name] = [getattr(row, name) for row in rows]
    return found
