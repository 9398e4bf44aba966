"""Workers of an ingest that end promptly when it is stopped: the one place that decides what runs where.

Large work and few items are for threads of this process; many small items, whose parsers spend their time in the
interpreter, for other processes of this machine; with `--cluster`, everything that can be is for the workers of Dask.
All of them are executors of :mod:`concurrent.futures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import Event
from time import monotonic
from types import TracebackType
from typing import Final, Self, TypeVar

from citus_analysis.core.parallel import start_worker_processes
from citus_analysis.dataset.object_place import SilentStoreError

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Starting a process takes half a second of processor time, as much as reading about this many small files.
MANY_ITEMS: Final = 64
#: Bytes of the files of one task of a cluster: less is grouped, so that a task takes longer than handing it out.
_TASK_BYTES: Final = 32 * 2**20
_LEAST_BYTES: Final = 2**20
_MOST_ITEMS: Final = 100
#: Tasks per worker, so that none waits long for the last.
_SHARES: Final = 4


class Stopped(Exception):  # noqa: N818 - not an error: the ingest is being stopped
    """The ingest is being stopped; staged parts must be discarded."""


@dataclass
class Pool:
    """A bounded number of workers.

    Attributes:
        jobs: number of workers.
        cluster: takes the tasks of :meth:`spread`; None: threads of this process do.
        many: number of items from which on other processes are started; less than that takes no longer here.
        stop: set when the results of running work are no longer needed.
    """

    jobs: int
    cluster: Executor | None = None
    many: int = MANY_ITEMS
    stop: Event = field(default_factory=Event)
    _cancels: list[Callable[[], bool]] = field(default_factory=list)
    _started: ExitStack = field(default_factory=ExitStack)
    _processes: Executor | None = None

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="ingest")

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item], at_once: int = 1
    ) -> Iterator[tuple[Item, Result]]:
        """Results in order of completion, each with its item, computed by threads.

        Args:
            function: for an item.
            items: what to work on.
            at_once: how many a worker takes at a time; handing over costs as much as looking at a small file.
        """
        groups = {
            self._threads.submit(apply_to_all, function, group): group for group in _split_into_groups(items, at_once)
        }
        for future in as_completed(groups):
            yield from zip(groups[future], future.result(), strict=True)

    def each_of_many(
        self, function: Callable[[Item], Result], items: Sequence[Item], at_once: int
    ) -> Iterator[tuple[Item, Result]]:
        """Like :meth:`each`, by other processes if there are many items.

        Args:
            function: of a module, so that it can be sent to another process, with its arguments and results.
            items: what to work on.
            at_once: how many a worker takes at a time.
        """
        self.start_processes(len(items))
        if self._processes is None:
            yield from self.each(function, items, at_once)
            return
        again: list[Item] = []
        groups = {
            _submit_group(self._processes, function, group): group for group in _split_into_groups(items, at_once)
        }
        for future in as_completed(groups):
            try:
                results = future.result()
            except RuntimeError as error:
                if self.stop.is_set():
                    raise Stopped from None
                if not isinstance(error, BrokenExecutor):
                    raise
                # A process ended, for lack of memory most likely.
                again += groups[future]
            else:
                yield from zip(groups[future], results, strict=True)
        yield from self.each(function, again, at_once)

    def start_processes(self, items: int) -> None:
        """Start the processes if there are enough items for them; they get ready meanwhile."""
        if self._processes is None and self.cluster is None and self.jobs > 1 and items >= self.many:
            # Where no process can be started, threads do the work.
            with suppress(OSError):
                self._processes = self._started.enter_context(start_worker_processes(self.jobs, prepare=_prepare))

    def spread(
        self, function: Callable[[Item], Result], items: Iterable[Item], size: Callable[[Item], int]
    ) -> Iterator[tuple[Item, Result]]:
        """Like :meth:`each`, by the cluster where there is one; small items are then grouped.

        Args:
            function: can be sent to another process, with its arguments and results.
            items: what it is applied to.
            size: bytes to be read for an item.
        """
        assert self.cluster is not None  # noqa: S101 - others use `each`
        groups = group_by_size(list(items), size, self.jobs)
        handed = {self.cluster.submit(apply_to_all_or_catch_silence, function, group): group for group in groups}
        self._cancels = [future.cancel for future in handed]
        for future in as_completed(handed):
            if isinstance(results := future.result(), SilentStoreError):
                raise results
            yield from zip(handed[future], results, strict=True)

    def halt(self) -> None:
        """Cancel work that has not begun, and wait for running work to end; a cluster's may go on for a moment."""
        self.stop.set()
        for cancel in self._cancels:
            cancel()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.stop.set()
        self._end()

    def _end(self) -> None:
        self._started.close()
        self._threads.shutdown(cancel_futures=True)


def _prepare() -> None:
    """Import what the first items need in another process, while this one still looks for files."""
    import pyarrow.parquet  # noqa: F401

    import citus_analysis.dataset.derive
    import citus_analysis.formats

    citus_analysis.formats.formats()


def _submit_group(
    executor: Executor, function: Callable[[Item], Result], group: Sequence[Item]
) -> Future[list[Result]]:
    """The results of a group; an executor whose process ended before says so at once."""
    try:
        return executor.submit(apply_to_all, function, group)
    except BrokenExecutor as error:
        refused: Future[list[Result]] = Future()
        refused.set_exception(error)
        return refused


def _split_into_groups(items: Iterable[Item], at_once: int) -> Iterator[list[Item]]:
    left = iter(items)
    return iter(lambda: list(islice(left, at_once)), [])


def apply_to_all(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results for all items.

    Example:
        >>> apply_to_all(abs, [-1, 2])
        [1, 2]
    """
    return [function(item) for item in items]


def apply_to_all_or_catch_silence(
    function: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result] | SilentStoreError:
    """The results for all items, or that a store is silent, which nobody is to ask again.

    A cluster tries again what raises an error.

    Example:
        >>> apply_to_all_or_catch_silence(abs, [-1, 2])
        [1, 2]
    """
    try:
        return apply_to_all(function, items)
    except SilentStoreError as error:
        return error


def group_by_size(items: Sequence[Item], size: Callable[[Item], int], workers: int) -> Iterator[list[Item]]:
    """Items in groups worth a task each: large ones alone and first, small ones together.

    Example:
        >>> [len(group) for group in group_by_size([100, 200, 2**22], lambda size: size, workers=1)]
        [1, 2]
    """
    ordered = sorted(items, key=size, reverse=True)
    most = min(_TASK_BYTES, max(_LEAST_BYTES, sum(map(size, items)) // (_SHARES * workers)))
    group: list[Item] = []
    held = 0
    for item in ordered:
        if group and (held + size(item) > most or len(group) >= _MOST_ITEMS):
            yield group
            group, held = [], 0
        group.append(item)
        held += size(item)
    if group:
        yield group


def batch_by_time(results: Iterable[Item], seconds: float) -> Iterator[list[Item]]:
    """Results in lists, one about every so many seconds.

    Example:
        >>> list(batch_by_time("abc", seconds=60))
        [['a', 'b', 'c']]
    """
    batch: list[Item] = []
    began = monotonic()
    for result in results:
        batch.append(result)
        if monotonic() - began >= seconds:
            yield batch
            batch, began = [], monotonic()
    if batch:
        yield batch
