"""Passes over the records of large logs, begun while these logs are read.

The records of a log are in memory when they have been scanned. Assembling them into executions then, and not when
traces are derived, saves reading them back from Parquet files. A thread takes the records in, file by file as they are
written, in the order in which `log_records.take_in` would read them. A pass is used only if it has seen exactly the
parts from which the traces are derived, in their order; otherwise these parts are read, so that the rows of a dataset
do not depend on how its sources were read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, groupby
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from citus_analysis.core.arrow_arrays import table_of
from citus_analysis.dataset.ingesting.read_source import Outcome, compression_of
from citus_analysis.dataset.ingesting.records.room import Room, room_for
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.storage.manifest import Part, SourceState
from citus_analysis.dataset.storage.parts import STAGING
from citus_analysis.formats import Content

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from citus_analysis.dataset.ingesting.derive import ResourceTables
    from citus_analysis.dataset.ingesting.records.log_records import Log
    from citus_analysis.spans.read.records import FileRecords
    from citus_analysis.spans.read.streamed import Columns, Pass

__all__ = ["LogPasses", "in_reading_order"]

_TABLE: Final = "log_events"
#: Bytes of a record, on average: the number of groups follows from this estimate, and changes no row.
_RECORD_BYTES: Final = 220
#: Bytes of a log for each byte of its compressed file.
_UNPACKED: Final = 15
#: Records of all passes together: what they lay aside takes some 90 bytes of disk for each until it is used.
MOST_RECORDS: Final = 25_000_000
#: The records of files that wait, at most: memory of the scanner stays in use as long as they do.
_WAITING: Final = 1

#: Resource and iteration.
_Key = tuple[str, int | None]
#: A source and rows of it.
_Handed = tuple[str, "pa.RecordBatch"]


def in_reading_order(tasks: Sequence[Task]) -> list[Task]:
    """Tasks with those of each resource and iteration in a row, in the order in which their records are taken in.

    Rotated logs of a node are expected to have names in the order of their times.
    """
    return sorted(tasks, key=lambda task: (*map(_nulls_first, (*_key(task), task.file.identity.node)), _place(task)))


def _key(task: Task) -> _Key:
    return task.file.identity.resource, task.file.identity.iteration


def _place(task: Task) -> bytes:
    return os.fsencode(task.file.location)


def _nulls_first(value: str | int | None) -> tuple[str | int, ...]:
    return () if value is None else (value,)


class LogPasses:
    """The passes that an ingest has begun, each over the logs of one resource and iteration.

    Args:
        folder: the dataset.
        jobs: parts of small logs that are read at the same time.
    """

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder, self._jobs = folder, jobs
        self._begun: dict[_Key, _Begun] = {}

    def begin(self, tasks: Sequence[Task], resources: Sequence[ResourceTables]) -> None:
        """Begin a pass for the logs of each resource and iteration among the tasks, as long as there is room.

        Args:
            tasks: large sources, in the order of :func:`in_reading_order`.
            resources: the resources of the dataset; all other sources of theirs that are read now must be in it.
        """
        known = {tables.resource: tables for tables in resources}
        chosen: list[_Beginning] = []
        for key, group in groupby((task for task in tasks if _has_records(task)), key=_key):
            own = list(group)
            read = {task.file.source_id for task in own}
            sources = known[key[0]].sources if key[0] in known else ()
            others = tuple(source for source in sources if source.source_id not in read)
            one = _Beginning(key, own, others, sum(map(_estimated_records, own)), self._folder, self._jobs)
            if not chosen or sum(each.records for each in (*chosen, one)) <= MOST_RECORDS:
                chosen.append(one)
        room = room_for(sum(one.records for one in chosen))
        self._begun |= {one.key: _Begun(one, room) for one in chosen}

    def of_resource(self, resource: str) -> bool:
        """Whether a pass over logs of a resource was begun."""
        return any(key[0] == resource for key in self._begun)

    def watcher(self, task: Task) -> Callable[[str, Sequence[pa.RecordBatch]], None] | None:
        """What is to be called with the rows of each file that is written of a source; None: nothing."""
        begun = self._begun.get(_key(task))
        if begun is None or task not in begun.tasks:
            return None
        begun.start()
        return lambda table, rows: begun.hand(task, rows) if table == _TABLE else None

    def read(self, task: Task, outcome: Outcome) -> None:
        """A source was read; the records of a pass are complete when its last source was."""
        begun = self._begun.get(_key(task))
        if begun is not None and task in begun.tasks:
            begun.read(task, {item.part.path for item in outcome.staged if item.part.table == _TABLE})

    @contextmanager
    def taken(self, tables: ResourceTables, iteration: int | None, *, distributed: bool) -> Iterator[Pass | None]:
        """The pass over an iteration, if it was begun and its records are those of the resource's parts.

        Args:
            tables: the resource.
            iteration: the iteration.
            distributed: whether the servers form a cluster.
        """
        begun = self._begun.pop((tables.resource, iteration), None)
        if begun is None:
            yield None
            return
        with closing(begun):
            taken = begun.finished()
            is_it = taken is not None and taken.is_of(tables, iteration, distributed=distributed)
            yield taken.records if taken is not None and is_it else None

    def close(self) -> None:
        """Give up all passes that were not used."""
        while self._begun:
            self._begun.popitem()[1].close()


def _has_records(task: Task) -> bool:
    """Whether a source is a log all of whose records are of one iteration, known before it is read."""
    tables = () if task.file.format is None else task.file.format.tables
    by_time = bool(task.tagger.windows) and task.file.identity.iteration is None
    return _TABLE in tables and not by_time


def _estimated_records(task: Task) -> int:
    unpacked = 1 if compression_of(Content(task.file.path)) == "none" else _UNPACKED
    return task.bytes * unpacked // _RECORD_BYTES


class _GivenUp(Exception):  # noqa: N818 - no error: the parts are read instead
    """The records cannot be taken in while they are read."""


class _Begun:
    """A pass in progress: a thread of its own takes the records in."""

    def __init__(self, beginning: _Beginning, room: Room) -> None:
        self._beginning, self._room, self.tasks = beginning, room, beginning.tasks
        self._unread = {task.file.source_id for task in self.tasks}
        self._paths: set[str] = set()
        self._queue: Queue[_Handed | None] = Queue(_WAITING)
        self._ended = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pass")
        self._result: Future[_Taken | None] | None = None

    def start(self) -> None:
        """Start the thread, before rows are handed over."""
        if self._result is None:
            self._result = self._thread.submit(self._take_in)

    def _take_in(self) -> _Taken | None:
        from citus_analysis.spans.read.streamed import NotInOrder

        handed = iter(self._queue.get, None)
        try:
            return self._beginning.take_in(handed, self._room)
        except (_GivenUp, NotInOrder, OSError, MemoryError):
            # A full disk or memory, too: reading the parts tells it, if it is still full then.
            return None
        finally:
            # Whoever hands records over must not wait.
            for _ in handed:
                pass

    def hand(self, task: Task, rows: Sequence[pa.RecordBatch]) -> None:
        """Rows of a file of a source."""
        self._queue.put((task.file.source_id, _used(rows)))

    def read(self, task: Task, paths: set[str]) -> None:
        """A source was read into these parts of `log_events`."""
        self._paths |= paths
        self._unread.discard(task.file.source_id)
        if not self._unread:
            self._end()

    def finished(self) -> _Taken | None:
        """The complete pass; None if it was given up."""
        if self._result is None:
            return None
        self._end()
        taken = self._result.result()
        _give_back()
        return None if taken is None or self._unread else replace(taken, parts=taken.parts | self._paths)

    def close(self) -> None:
        """Remove what was laid aside."""
        if self._result is not None:
            self._end()
            taken = None if self._result.exception() else self._result.result()
            if taken is not None:
                taken.aside.cleanup()
        self._thread.shutdown()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._queue.put(None)


def _give_back() -> None:
    # Reading logs left free memory in the allocators, as much as is needed now in other sizes.
    from citus_analysis.spans.read.freed_memory import give_back

    give_back()


def _used(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of a file, with the columns that a pass needs."""
    from citus_analysis.dataset.ingesting.records.log_records import NAMED, one_batch
    from citus_analysis.spans.read.records import USED

    names = list(dict.fromkeys([*NAMED, *USED]))
    if len(batches) == 1:
        return batches[0].select(names)
    return one_batch(table_of([rows.select(names) for rows in batches]))


@dataclass(frozen=True)
class _Taken:
    """A complete pass, and all that its result depends on.

    Attributes:
        records: the pass.
        aside: the folder of what it laid aside.
        nodes: paths of the parts of table `nodes`.
        parts: paths of the parts of `log_events`.
    """

    records: Pass
    aside: TemporaryDirectory[str]
    nodes: frozenset[str]
    parts: frozenset[str]

    def is_of(self, tables: ResourceTables, iteration: int | None, *, distributed: bool) -> bool:
        """Whether the traces of an iteration are derived from the same parts, by the same rules."""
        return (
            self.records.distributed == distributed
            and self.nodes == _paths(tables.parts("nodes"))
            and self.parts == _paths(tables.log_parts(iteration))
        )


def _paths(parts: Iterable[Part]) -> frozenset[str]:
    return frozenset(part.path for part in parts)


@dataclass(frozen=True)
class _Beginning:
    """What a pass is begun with.

    Attributes:
        key: resource and iteration.
        tasks: the large logs.
        others: all other sources of the resource.
        records: about how many there are.
        folder: the dataset.
        jobs: parts of other logs that are read at the same time.
    """

    key: _Key
    tasks: Sequence[Task]
    others: tuple[SourceState, ...]
    records: int
    folder: Path
    jobs: int

    def take_in(self, handed: Iterator[_Handed], room: Room) -> _Taken:
        """Take in all records of the iteration.

        Args:
            handed: the rows of the large logs.
            room: for arrays that are laid aside; further ones go to files.

        Raises:
            _GivenUp: the records are not those that were expected.
            NotInOrder: the records must be sorted by session.
        """
        # Imported here, in a thread of its own, because records are not scanned sooner.
        from citus_analysis.dataset.ingesting.derive import ResourceTables
        from citus_analysis.dataset.ingesting.records.log_records import PAIRED_RECORDS, known_logs, laid_aside
        from citus_analysis.spans.read.streamed import Pass

        others = ResourceTables(self.folder, self.key[0], self.others)
        parts, nodes = others.log_parts(self.key[1]), others.scan("nodes").collect()
        distributed = bool(nodes["nodeid"].is_not_null().any())
        expected = _Expected(self, known_logs(parts, self.folder, self.key), distributed)
        aside = TemporaryDirectory(prefix="pieces-", dir=self.folder / STAGING)
        try:
            keep = room.keeping(partial(laid_aside, Path(aside.name), count()))
            # At least two: a single one would stay in memory, of each pass.
            groups = 2 + self.records // PAIRED_RECORDS
            records = Pass(expected.files, nodes, distributed, keep, groups)
            records.take_in(expected.batches(handed))
            records.files = expected.found()
        except BaseException:
            aside.cleanup()
            raise
        return _Taken(records, aside, _paths(others.parts("nodes")), _paths(parts))


@dataclass
class _Expected:
    """The logs of an iteration in the order in which their records are expected.

    Attributes:
        beginning: the large logs.
        logs: parts of the other logs.
        distributed: the catalogue shows that the servers form a cluster; otherwise no record may show it.
        files: the log files, in order; the times of large logs are not known yet.
    """

    beginning: _Beginning
    logs: Sequence[Log]
    distributed: bool
    files: pl.DataFrame = field(init=False)
    _large: list[FileRecords] = field(default_factory=list)

    def __post_init__(self) -> None:
        from citus_analysis.spans.read.records import FileRecords, files_in_order

        others = [log.of for log in self.logs]
        # Until its times are known, a large log of a node follows the other ones of that node.
        last = max((one.first_time or 0 for one in others), default=0)
        large = [
            FileRecords(one.source_id, one.identity.node, one.identity.resource, None, None, last + number)
            for number, one in enumerate((task.file for task in self.beginning.tasks), 1)
        ]
        self.files = files_in_order([*others, *large])

    def batches(self, handed: Iterator[_Handed]) -> Iterator[tuple[int, Columns]]:
        """Number of the source and columns of records, some at a time."""
        from citus_analysis.dataset.ingesting.records.log_records import columns_of_logs, slices

        begin = self.beginning
        known = {log.of.source_id for log in self.logs}
        following = next(handed, None)
        for source, name in self.files.select("source", "source_id").iter_rows():
            if name in known:
                own = [(source, log) for log in self.logs if log.of.source_id == name]
                yield from columns_of_logs(begin.folder, own, begin.key[1], begin.jobs)
            while following is not None and following[0] == name:
                self._note(following[1])
                yield from slices(source, following[1])
                following = next(handed, None)
        if following is not None:
            raise _GivenUp

    def _note(self, rows: pa.RecordBatch) -> None:
        """Note the times of records of a large log."""
        from citus_analysis.dataset.ingesting.records.log_records import file_records

        if not self.distributed and any(rows.column(name).null_count < len(rows) for name in ("gpid", "task_us")):
            raise _GivenUp
        self._large.append(file_records(rows, self.beginning.key[0]))

    def found(self) -> pl.DataFrame:
        """The log files, in order, with their times.

        Raises:
            _GivenUp: their order is not the one that was expected.
        """
        from citus_analysis.spans.read.records import files_in_order

        files = files_in_order([*(log.of for log in self.logs), *self._large])
        names = ("source_id", "node")
        if not files.select(names).equals(self.files.select(names)):
            raise _GivenUp
        return files
