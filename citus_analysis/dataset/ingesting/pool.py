"""Worker threads that end promptly when the ingest is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Event
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar

__all__ = ["Pool", "batches"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Pool:
    """A bounded number of threads.

    Attributes:
        jobs: number of threads.
        stop: set when the results of running work are no longer needed.
    """

    jobs: int
    stop: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ingest")

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Results in order of completion, each with its item."""
        futures = {self._executor.submit(function, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def halt(self) -> None:
        """Cancel work that has not begun, and wait for running work to end."""
        self.stop.set()
        self._executor.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.stop.set()
        self._executor.shutdown(cancel_futures=True)


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
