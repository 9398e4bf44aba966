"""The state of a backend and its statements while records are assembled: `python_assembly.py`.

Their members are those of the structures in `native/layout.h`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.assembly import NO_CODE, NO_NUMBER, NOTHING_THERE
from citus_analysis.formats.serverlog.pglog.compiled.layout import structure

_FILLER: Final = "unused"
#: Members that are not 0 and not :data:`NOTHING_THERE` at first, as their types would have them.
_AT_FIRST: Final = {"other_shards": NO_NUMBER, "statement_kind": NO_CODE, "executions": 0}


class Item(SimpleNamespace):
    """A structure that is being filled, with members beside it that only the assembly uses."""

    @classmethod
    def of(cls, kind: str, **known: object) -> Self:
        """A structure of which this is known so far.

        Example:
            >>> phase = Item.of("phase_t", byte_offset=10, parses=True)
            >>> phase.byte_offset, phase.log_time == NOTHING_THERE, phase.duration_us, phase.parses
            (10, True, 0, True)
        """
        return cls(**{**_unknown(kind), **known})


@cache
def _unknown(kind: str) -> Mapping[str, int]:
    row = np.zeros(1, np.dtype(structure(kind)))
    return {
        name: _AT_FIRST.get(name, NOTHING_THERE if row[name].dtype == np.int64 else 0) for name in row.dtype.names or ()
    }


class Execution(Item):
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
    session: Item
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


def packed(rows: Sequence[Item], kind: str) -> NDArray[np.void]:
    """Objects as an array of a structure with the same members.

    Example:
        >>> packed([Item.of("missing_t", gpid=7, place=-1, node=2)], "missing_t")[["gpid", "node"]].tolist()
        [(7, 2)]
    """
    found = np.zeros(len(rows), np.dtype(structure(kind)))
    for name in found.dtype.names or ():
        if name != _FILLER:
            found[name] = [getattr(row, name) for row in rows]
    return found
