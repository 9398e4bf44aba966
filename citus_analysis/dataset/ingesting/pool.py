"""Workers that end promptly when the ingest is stopped: threads, and processes beside them for many small items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Event
from time import monotonic
from types import TracebackType
from typing import Final, Self, TypeVar

from citus_analysis.dataset.ingesting.helper_process import Helper, NoAnswerError

__all__ = ["HELPED_ITEMS", "Pool", "Stopped", "batches"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: A helper takes half a second of processor time to start, as much as reading about this many small files.
HELPED_ITEMS: Final = 64
#: Items that are handed to a helper at once: threads wait for the interpreter before they can hand over more.
_AT_ONCE: Final = 6


class Stopped(Exception):  # noqa: N818 - not an error: the ingest is being stopped
    """The ingest is being stopped; staged parts must be discarded."""


@dataclass
class Pool:
    """A bounded number of threads; all but one can have a helper process that works for them.

    Attributes:
        jobs: number of threads.
        stop: set when the results of running work are no longer needed.
    """

    jobs: int
    stop: Event = field(default_factory=Event)
    _helpers: list[Helper] = field(default_factory=list)
    _idle: SimpleQueue[Helper] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ingest")

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Results in order of completion, each with its item."""
        futures = {self._executor.submit(function, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def start_helpers(self, items: int) -> None:
        """Start the helper processes if there are enough items for them; they get ready meanwhile."""
        if items < HELPED_ITEMS or self._helpers:
            return
        with suppress(NoAnswerError):
            for _ in range(self.jobs - 1):
                self._helpers.append(Helper())
                self._idle.put(self._helpers[-1])

    def each_helped(
        self,
        here: Callable[[Item], Result],
        there: Callable[[Item], Result],
        items: Sequence[Item],
        at_once: int = _AT_ONCE,
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
        left = iter(items)
        groups = iter(lambda: list(islice(left, at_once)), [])
        for group, results in self.each(lambda group: self._helped(here, there, group), groups):
            yield from zip(group, results, strict=True)

    def _helped(
        self, here: Callable[[Item], Result], there: Callable[[Item], Result], group: list[Item]
    ) -> list[Result]:
        try:
            helper = self._idle.get_nowait()
        except Empty:
            return [here(item) for item in group]
        try:
            results = helper.call(all_of, there, group)
        except NoAnswerError:
            if self.stop.is_set():
                raise Stopped from None
            # Where the process ended, each further call fails at once and is done here.
            results = [here(item) for item in group]
        finally:
            self._idle.put(helper)
        return results

    def halt(self) -> None:
        """Cancel work that has not begun, and wait for running work to end."""
        self.stop.set()
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


def all_of(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results for all items; what a helper is asked for.

    Example:
        >>> all_of(abs, [-1, 2])
        [1, 2]
    """
    return [function(item) for item in items]


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
