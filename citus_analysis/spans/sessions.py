"""The sessions of an iteration: its records, read in one pass, as executions in chunks and as groups to be paired.

Records are read in the order of their logs if each session is in order there, else sorted by session. The executions
of a chunk ended at about the same place in the logs, or belong to some of the sessions. The few facts by which tasks
and children are paired are collected over all chunks; the rest is spilled until pairs are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Final, Self

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.core.parallel import prefetch_in_thread
from citus_analysis.formats.pglog.assembly import NOTHING_THERE, Assembled, concatenate_items, copy_items, select_items
from citus_analysis.schema import TABLES
from citus_analysis.spans.executions import (
    AssemblyTexts,
    Sessions,
    build_execution_frames,
    build_executions,
    build_log_coverage,
    build_record_gaps,
    build_session_begins,
    build_session_tasks,
    make_assembly,
    record_columns,
)
from citus_analysis.spans.ordered_arrays import AnyIntegers, Indices
from citus_analysis.spans.pairing import is_silent
from citus_analysis.spans.record_order import USED, number_record_files, sort_record_rows, stitch_records
from citus_analysis.spans.spilling import Arrays, Restore, Spill, SpilledGroups


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
        silent = _number_executions(executions, _find_silent_executions(executions), self._first)
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


def _find_silent_executions(executions: NDArray[np.void]) -> Indices:
    """Places of the silent ones (:func:`~citus_analysis.spans.pairing.is_silent`) whose session is known to others."""
    rule = is_silent()
    columns = [pl.Series(name, np.ascontiguousarray(executions[name])) for name in rule.meta.root_names()]
    frame = pl.DataFrame([one if one.name == "values_hash" else one == 1 for one in columns])
    silent = frame.select(rule).to_series().to_numpy()
    return np.flatnonzero(silent & (executions["gpid"] != NOTHING_THERE))


def _number_executions(executions: NDArray[np.void], chosen: Indices, first: int) -> Arrays:
    """Chosen executions with their numbers; `first` is the number of the first of all executions."""
    return {"executions": select_items(executions, chosen), "numbers": (first + chosen).astype(np.uint32)}
