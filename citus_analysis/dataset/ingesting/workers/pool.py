"""Workers of an ingest that end promptly when it is stopped: threads, processes beside them, or those of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from queue import Empty, SimpleQueue
from threading import Event
from time import monotonic
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from citus_analysis.dataset.ingesting.workers.early_helpers import HELPED_ITEMS, taken
from citus_analysis.dataset.ingesting.workers.helper_process import Helper, NoAnswerError
from citus_analysis.dataset.objects.object_place import SilentStoreError

__all__ = ["HELPED_ITEMS", "Pool", "Stopped", "batches", "grouped"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Bytes of the files of one task: less is grouped, so that a task takes longer than handing it out.
_TASK_BYTES: Final = 32 * 2**20
_LEAST_BYTES: Final = 2**20
_MOST_ITEMS: Final = 100
#: Tasks per worker, so that none waits long for the last.
_SHARES: Final = 4


class Stopped(Exception):  # noqa: N818 - not an error: the ingest is being stopped
    """The ingest is being stopped; staged parts must be discarded."""


class _Cancellable(Protocol):
    """Work that was handed out, with a result of any type."""

    def cancel(self) -> bool:
        """Give it up, unless it is running."""


def _one(_item: object) -> int:
    return 1


@dataclass
class Pool:
    """A bounded number of workers; all threads but one can have a helper process that works for them.

    Attributes:
        jobs: number of workers.
        cluster: takes the tasks of :meth:`spread`; None: threads of this process do.
        is_here: the cluster's workers are processes of this machine.
        stop: set when the results of running work are no longer needed.
    """

    jobs: int
    cluster: Executor | None = None
    is_here: bool = False
    stop: Event = field(default_factory=Event)
    _pending: set[_Cancellable] = field(default_factory=set)
    _helpers: list[Helper] = field(default_factory=list)
    _idle: SimpleQueue[Helper] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ingest")
        for helper in taken():
            self._add(helper)

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item], at_once: int = 1
    ) -> Iterator[tuple[Item, Result]]:
        """Results in order of completion, each with its item, computed by threads.

        Args:
            function: for an item.
            items: what to work on.
            at_once: how many a thread takes at a time; handing over costs as much as looking at a small file.
        """
        futures = {self._executor.submit(all_of, function, group): group for group in _groups(items, at_once)}
        for future in as_completed(futures):
            yield from zip(futures[future], future.result(), strict=True)

    def spread(
        self, function: Callable[[Item], Result], items: Iterable[Item], size: Callable[[Item], int] = _one
    ) -> Iterator[tuple[Item, Result]]:
        """Like :meth:`each`, by the cluster where there is one; small items are then grouped.

        Args:
            function: can be sent to another process, with its arguments and results.
            items: what it is applied to.
            size: bytes to be read for an item.
        """
        if self.cluster is None:
            yield from self.each(function, items)
            return
        groups = {
            self.cluster.submit(all_or_silence, function, group): group
            for group in grouped(list(items), size, self.jobs)
        }
        self._pending.update(groups)
        for future in as_completed(groups):
            self._pending.discard(future)
            yield from zip(groups[future], _unless_silent(future.result()), strict=True)

    def start_helpers(self, items: int) -> None:
        """Start the helper processes if there are enough items for them; they get ready meanwhile."""
        if items < HELPED_ITEMS or self._helpers:
            return
        with suppress(NoAnswerError):
            for _ in range(self.jobs - 1):
                self._add(Helper())

    def _add(self, helper: Helper) -> None:
        self._helpers.append(helper)
        self._idle.put(helper)

    def each_helped(
        self,
        here: Callable[[Item], Result],
        there: Callable[[Item], Result],
        items: Sequence[Item],
        at_once: int,
    ) -> Iterator[tuple[Item, Result]]:
        """Like :meth:`each`, with the help of other processes.

        Args:
            here: function for an item, in a thread.
            there: the same as a function of a module, for a helper, with the same results.
            items: what to work on; a helper gets several at once.
            at_once: how many.
        """
        self.start_helpers(len(items))
        if not self._helpers:
            yield from self.each(here, items)
            return
        for group, results in self.each(lambda group: self._helped(here, there, group), _groups(items, at_once)):
            yield from zip(group, results, strict=True)

    def _helped(
        self, here: Callable[[Item], Result], there: Callable[[Item], Result], group: list[Item]
    ) -> list[Result]:
        try:
            helper = self._idle.get_nowait()
        except Empty:
            return [here(item) for item in group]
        if not helper.is_ready():
            self._idle.put(helper)
            return [here(item) for item in group]
        try:
            results = _unless_silent(helper.call(all_or_silence, there, group))
        except NoAnswerError:
            if self.stop.is_set():
                raise Stopped from None
            # Where the process ended, each further call fails at once and is done here.
            results = [here(item) for item in group]
        finally:
            self._idle.put(helper)
        return results

    def halt(self) -> None:
        """Cancel work that has not begun, and wait for running work to end; a cluster's may go on for a moment."""
        self.stop.set()
        for future in self._pending:
            future.cancel()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.stop.set()
        self._end()

    def _end(self) -> None:
        if self.stop.is_set():
            self._end_helpers()
        self._executor.shutdown(cancel_futures=True)
        self._end_helpers()

    def _end_helpers(self) -> None:
        for helper in self._helpers:
            helper.end()
        self._helpers.clear()


def _groups(items: Iterable[Item], at_once: int) -> Iterator[list[Item]]:
    left = iter(items)
    return iter(lambda: list(islice(left, at_once)), [])


def all_of(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results for all items; what a helper is asked for.

    Example:
        >>> all_of(abs, [-1, 2])
        [1, 2]
    """
    return [function(item) for item in items]


def all_or_silence(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result] | SilentStoreError:
    """The results for all items, or that a store is silent, which nobody is to ask again.

    What raises an error is tried again: by a cluster, and by the process that asked a helper.

    Example:
        >>> all_or_silence(abs, [-1, 2])
        [1, 2]
    """
    try:
        return all_of(function, items)
    except SilentStoreError as error:
        return error


def _unless_silent(results: list[Result] | SilentStoreError) -> list[Result]:
    if isinstance(results, SilentStoreError):
        raise results
    return results


def grouped(items: Sequence[Item], size: Callable[[Item], int], workers: int) -> Iterator[list[Item]]:
    """Items in groups worth a task each: large ones alone and first, small ones together.

    Example:
        >>> [len(group) for group in grouped([100, 200, 2**22], lambda size: size, workers=1)]
        [1, 2]
    """
    ordered = sorted(items, key=size, reverse=True)
    most = min(_TASK_BYTES, max(_LEAST_BYTES, sum(map(size, items)) // (_SHARES * workers)))
    group, held, number, numbers = 0, 0, 0, []
    for item in ordered:
        if number and (held + size(item) > most or number >= _MOST_ITEMS):
            group, held, number = group + 1, 0, 0
        held, number = held + size(item), number + 1
        numbers.append(group)
    for _, pairs in groupby(zip(numbers, ordered, strict=True), key=lambda pair: pair[0]):
        yield [item for _, item in pairs]


def batches(results: Iterable[Item], seconds: float) -> Iterator[list[Item]]:
    """Results in lists, one about every so many seconds.

    Example:
        >>> list(batches("abc", seconds=60))
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
