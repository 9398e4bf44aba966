"""Workers of an ingest, threads of this process or a cluster's, that end promptly when the ingest is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Event
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from citus_analysis.dataset.ingesting.grouping import grouped

__all__ = ["Pool", "batches"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def _one(_item: object) -> int:
    return 1


@dataclass
class Pool:
    """A bounded number of workers.

    Attributes:
        jobs: number of workers.
        cluster: takes the tasks of :meth:`spread`; None: threads of this process do.
        stop: set when the results of running work are no longer needed.
    """

    jobs: int
    cluster: Executor | None = None
    stop: Event = field(default_factory=Event)
    _pending: set[Future[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ingest")

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Results in order of completion, each with its item, computed by threads."""
        futures = {self._executor.submit(function, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def spread(
        self, function: Callable[[Item], Result], items: Iterable[Item], size: Callable[[Item], int] = _one
    ) -> Iterator[tuple[Item, Result]]:
        """Like :meth:`each`, by the cluster where there is one; small items are then grouped.

        Args:
            function: can be sent to another process, with its arguments and results.
            items: what it is applied to.
            size: bytes that an item stands for.
        """
        if self.cluster is None:
            yield from self.each(function, items)
            return
        groups = {self.cluster.submit(_all, function, group): group for group in grouped(list(items), size, self.jobs)}
        self._pending.update(groups)
        for future in as_completed(groups):
            self._pending.discard(future)
            yield from zip(groups[future], future.result(), strict=True)

    def halt(self) -> None:
        """Cancel work that has not begun, and wait for running work to end; a cluster's may go on for a moment."""
        self.stop.set()
        for future in self._pending:
            future.cancel()
        self._executor.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.stop.set()
        self._executor.shutdown(cancel_futures=True)


def _all(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
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
