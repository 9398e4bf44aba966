"""Sessions of an iteration in pieces: records are read in the order of their logs, in a single pass.

The executions of a piece ended at about the same place in the logs. The few facts by which tasks and children are
paired are collected over all pieces; the rest is laid aside until the pairs are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.core.threads import work_ahead
from citus_analysis.formats.serverlog.pglog.compiled.assembly import (
    NOTHING_THERE,
    Assembled,
    chosen_items,
    copied_items,
    joined_items,
)
from citus_analysis.spans.read.assembling import Texts, new_assembly, record_columns
from citus_analysis.spans.read.divided import Arrays, Bring, Cells, Divided, Keep, in_order_of
from citus_analysis.spans.read.ordered_arrays import Indices
from citus_analysis.spans.read.sessions import (
    Sessions,
    begins_of,
    coverage_of,
    executions_of,
    gaps_of,
    held_by,
    tasks_of,
)

#: Fewest executions of a piece.
PIECE_EXECUTIONS: Final = 2**15

#: Columns of the records of one source, by name, in the order of the source.
Columns = Mapping[str, pa.Array]

_LAID_ASIDE: Final = ("executions", "phases", "locals")


class NotInOrder(Exception):  # noqa: N818 - no error: the records are sorted by session instead
    """Records of a backend are not in order, or tasks are sent on behalf of others."""


@dataclass(frozen=True)
class Piece:
    """Some executions with their phases and local executions, but without their tasks.

    Attributes:
        first: number of the first execution.
        count: number of executions.
        bring: returns the arrays that were laid aside.
    """

    first: int
    count: int
    bring: Bring


@dataclass
class Pass:
    """One pass over the records of an iteration.

    Args:
        files: the log files, as in :class:`Sessions`, in the order in which their records come.
        nodes: rows of table `nodes` of the resource.
        distributed: the servers form a cluster.
        keep: lays arrays aside and returns a function that brings them back.
        groups: fewest groups in which tasks and children are paired; only groups in progress are in memory.
    """

    files: pl.DataFrame
    nodes: pl.DataFrame
    distributed: bool
    keep: Keep
    groups: int = 1
    pieces: list[Piece] = field(default_factory=list)
    _failed: list[Arrays] = field(default_factory=list)
    _small: dict[str, list[NDArray[np.void]]] = field(default_factory=dict)
    _first: int = 0
    _surplus: int = 0

    def __post_init__(self) -> None:
        self._assembly = new_assembly(self.files, self.nodes, distributed=self.distributed)
        self._texts = Texts()
        self._cells = Cells.of(self.groups)
        self._linked, self._silent, self._tasks = (Divided(self.keep, self._cells.count) for _ in range(3))

    def take_in(self, batches: Iterable[tuple[int, Columns]], ahead: int = 1) -> None:
        """Read all records; lay the executions of a piece aside while the next piece is assembled.

        Args:
            batches: number of the source and records of it, in order.
            ahead: most pieces that are assembled meanwhile; 0: no thread is started.

        Raises:
            NotInOrder: they must be sorted by session, or children sent tasks of their own.
        """
        with closing(work_ahead(self._assembled(batches), "sessions", ahead)) as pieces:
            for done in pieces:
                self._lay_aside(done)
        for one in (self._linked, self._silent, self._tasks):
            one.finish()
        # If statements name several shards, the anchor may be in another cell; statements that do not say where they
        # were executed have no shard. Cells are then joined by gpid.
        several = bool(self._texts.shards.texts) or self._are_unreported
        self.groups = self._cells.gpids if several else self._cells.count

    @property
    def _are_unreported(self) -> bool:
        """Whether there are more children than tasks."""
        return self._surplus > 0

    def _assembled(self, batches: Iterable[tuple[int, Columns]]) -> Iterator[Assembled]:
        """The executions that ended, piece by piece; the last piece contains the rest and may be empty."""
        assembly = self._assembly
        for source, columns in batches:
            if not assembly.add(record_columns(columns, self._texts), source):
                raise NotInOrder
            if assembly.waiting >= PIECE_EXECUTIONS:
                yield {name: copied_items(items) for name, items in assembly.take().items()}
        assembly.end()
        yield {name: copied_items(items) for name, items in assembly.take().items()}

    def _lay_aside(self, done: Assembled) -> None:
        executions = done["executions"]
        of_child = (
            (executions["is_child"] == 1) & (executions["opened"] == 1) & (executions["shard_id"] != NOTHING_THERE)
        )
        failed = executions["failed"] == 1
        linked = _numbered(executions, np.flatnonzero(of_child | failed), self._first)
        self._linked.add(self._cells.numbers(linked["executions"]["gpid"], linked["executions"]["shard_id"]), linked)
        self._failed.append(_numbered(executions, np.flatnonzero(failed), self._first))
        silent = _numbered(executions, np.flatnonzero(_are_silent(executions)), self._first)
        self._silent.add(self._cells.numbers(silent["executions"]["gpid"], np.zeros(1, np.int64)), silent)
        tasks = done["tasks"]
        self._surplus += int((of_child & ~failed).sum()) - len(tasks)
        if tasks["is_child"].any():
            raise NotInOrder
        self._tasks.add(self._cells.numbers(tasks["gpid"], tasks["shard_id"]), {"tasks": tasks})
        for name in ("sessions", "missing"):
            self._small.setdefault(name, []).append(done[name])
        kept = self.keep({name: done[name] for name in _LAID_ASIDE})
        self.pieces.append(Piece(self._first, len(executions), kept))
        self._first += len(executions)

    def group(self, number: int, known: Sessions, *, again: bool = False) -> Sessions:
        """The facts by which a group is paired: tasks, children on shards, executions that failed.

        Args:
            number: number of the group.
            known: result of :meth:`failed`.
            again: keep the facts for a further call.
        """
        together = self._cells.count // self.groups
        cells = range(number * together, (number + 1) * together)
        linked = self._linked.joined(cells, again=again)
        if self._are_unreported:
            silent = self._silent.joined(cells, again=again)
            linked = {name: joined_items([items, silent[name]]) for name, items in linked.items()}
        ordered = in_order_of(linked["numbers"], linked) if together > 1 or self._are_unreported else linked
        executions = self._facts(ordered)
        # Released before as much is read again.
        del linked, ordered
        sent = self._tasks.joined(cells, again=again)
        if together > 1:
            sent = in_order_of(sent["tasks"]["execution"], sent)
        tasks = tasks_of(sent["tasks"], self.files, self.nodes, self._texts)
        return replace(known, tasks=tasks, executions=executions)

    def _facts(self, linked: Arrays) -> pl.DataFrame:
        executions, numbers = linked["executions"], linked["numbers"]
        return executions_of(executions, numbers, self.files, self._texts, only_linked=True)

    def failed(self) -> Sessions:
        """The executions that failed, and the facts about all sessions."""
        small = {name: joined_items(items) for name, items in self._small.items()}
        failed = {name: joined_items([one[name] for one in self._failed]) for name in self._failed[0]}
        return Sessions(
            sources=self.files,
            executions=self._facts(failed),
            gaps=gaps_of(small, self.files),
            coverage=coverage_of(small, self._assembly.times, self.files, np.zeros(0, np.intp)),
            begins=begins_of(small),
        )

    def sessions(self, piece: Piece) -> Sessions:
        """The content of a piece without its tasks."""
        numbers = np.arange(piece.first, piece.first + piece.count)
        return Sessions(self.files, **held_by(piece.bring(), numbers, self.files, self._texts))


def _are_silent(executions: NDArray[np.void]) -> NDArray[np.bool_]:
    """As :func:`~citus_analysis.spans.match.unreported.is_silent`, for those whose session is known to others."""
    says = np.zeros(len(executions), np.bool_)
    for name in ("has_tasks", "has_locals", "failed", "is_child"):
        says |= executions[name] == 1
    whole = (executions["opened"] == 1) & (executions["closed"] == 1)
    valued = (executions["values_hash"] != 0) & (executions["gpid"] != NOTHING_THERE)
    return np.asarray(whole & ~says & valued)


def _numbered(executions: NDArray[np.void], chosen: Indices, first: int) -> Arrays:
    """Chosen executions with their numbers; `first` is the number of the first of all executions."""
    return {"executions": chosen_items(executions, chosen), "numbers": (first + chosen).astype(np.uint32)}
