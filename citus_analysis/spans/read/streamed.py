"""Sessions of an iteration in pieces: records are read in the order of their logs, and each is looked at once.

Executions of a piece ended in the logs at about the same time. The facts that pair tasks and children, a small part,
are collected over all pieces; the rest is laid aside until the pairs are known.
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
from citus_analysis.spans.read.assembling import TextNumbers, new_assembly, record_columns
from citus_analysis.spans.read.divided import Arrays, Bring, Cells, Divided, Keep, in_order_of
from citus_analysis.spans.read.ordered_arrays import Indices
from citus_analysis.spans.read.sessions import (
    Sessions,
    Texts,
    begins_of,
    coverage_of,
    executions_of,
    gaps_of,
    held_by,
    tasks_of,
)

__all__ = ["PIECE_EXECUTIONS", "NotInOrder", "Pass", "Piece"]

#: Executions of a piece, at least.
PIECE_EXECUTIONS: Final = 2**15

#: Columns of the records of one source, by name, in the order of the source.
Columns = Mapping[str, pa.Array]

#: Columns of executions that are not needed to link them.
_UNLINKED: Final = (
    *("session", "anchored", "fatal", "in_transaction", "phases", "statement_kind", "statement_fingerprint"),
    *("local_xid", "closing_xid"),
)
_LAID_ASIDE: Final = ("executions", "phases", "locals")


class NotInOrder(Exception):  # noqa: N818 - no error: the records are sorted by session instead
    """Records of a backend are not in order, or tasks are sent on behalf of others."""


@dataclass(frozen=True)
class Piece:
    """Some executions, with what belongs to them but their tasks.

    Attributes:
        first: number of the first execution; `count` is how many there are.
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
        keep: lays arrays aside and gives what brings them back.
        groups: in how many parts tasks and children are paired, at least; of several, memory holds those that are
            worked on.
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

    def __post_init__(self) -> None:
        self._assembly = new_assembly(self.files, self.nodes, distributed=self.distributed)
        self._texts = Texts(TextNumbers(), TextNumbers())
        self._cells = Cells.of(self.groups)
        self._linked, self._tasks = (Divided(self.keep, self._cells.count) for _ in range(2))

    def take_in(self, batches: Iterable[tuple[int, Columns]]) -> None:
        """Read all records, and lay executions that ended in them aside while the next ones are put together.

        Args:
            batches: number of the source and records of it, in order.

        Raises:
            NotInOrder: they must be sorted by session, or children sent tasks of their own.
        """
        with closing(work_ahead(self._assembled(batches), "sessions")) as pieces:
            for done in pieces:
                self._lay_aside(done)
        self._linked.lay_aside()
        self._tasks.lay_aside()
        # A statement that names several shards may go by another one than the first.
        self.groups = self._cells.gpids if self._texts.shards.texts else self._cells.count

    def _assembled(self, batches: Iterable[tuple[int, Columns]]) -> Iterator[Assembled]:
        """The executions that ended, piece by piece; the last piece holds the rest, which may be empty."""
        assembly = self._assembly
        for source, columns in batches:
            if not assembly.add(record_columns(columns, self._texts.hosts, self._texts.shards), source):
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
        tasks = done["tasks"]
        owners = chosen_items(executions, tasks["execution"] - np.uint32(self._first))
        if owners["is_child"].any():
            raise NotInOrder
        numbers = self._cells.numbers(owners["gpid"], tasks["shard_id"])
        self._tasks.add(numbers, {"tasks": tasks, "owners": owners})
        for name in ("sessions", "missing"):
            self._small.setdefault(name, []).append(done[name])
        kept = self.keep({name: done[name] for name in _LAID_ASIDE})
        self.pieces.append(Piece(self._first, len(executions), kept))
        self._first += len(executions)

    def group(self, number: int, known: Sessions, *, again: bool = False) -> Sessions:
        """What pairs tasks and children of a group: tasks, children on shards, executions that failed.

        Args:
            number: of the group.
            known: result of :meth:`failed`.
            again: it is asked for once more later.
        """
        together = self._cells.count // self.groups
        cells = range(number * together, (number + 1) * together)
        linked, sent = self._linked.joined(cells, again=again), self._tasks.joined(cells, again=again)
        if together > 1:
            linked = in_order_of(linked["numbers"], linked)
            sent = in_order_of(sent["tasks"]["execution"], sent)
        tasks = tasks_of(sent["tasks"], sent["owners"], self.files, self.nodes, self._texts)
        return replace(known, tasks=tasks, executions=self._facts(linked))

    def _facts(self, linked: Arrays) -> pl.DataFrame:
        return executions_of(linked["executions"], linked["numbers"], self.files, self._texts).drop(_UNLINKED)

    def failed(self) -> Sessions:
        """The executions that failed, and the facts about all sessions."""
        small = {name: joined_items(items) for name, items in self._small.items()}
        failed = {name: joined_items([one[name] for one in self._failed]) for name in self._failed[0]}
        none = pl.DataFrame()
        return Sessions(
            sources=self.files,
            executions=self._facts(failed),
            tasks=none,
            locals=none,
            phases=none,
            gaps=gaps_of(small, self.files),
            coverage=coverage_of(small, self._assembly.times, self.files, pl.Series([], dtype=pl.UInt32)),
            begins=begins_of(small),
        )

    def sessions(self, piece: Piece) -> Sessions:
        """The content of a piece without its tasks."""
        done = piece.bring()
        none = pl.DataFrame()
        numbers = np.arange(piece.first, piece.first + piece.count)
        frames = held_by(done, numbers, self.files, self._texts)
        return Sessions(sources=self.files, **frames, tasks=none, gaps=none, coverage=none, begins=none)


def _numbered(executions: NDArray[np.void], chosen: Indices, first: int) -> Arrays:
    """Some executions with their numbers, given that of the first of all."""
    return {"executions": chosen_items(executions, chosen), "numbers": (first + chosen).astype(np.uint32)}
