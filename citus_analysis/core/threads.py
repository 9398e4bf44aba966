"""Iterators whose items are computed by threads and returned in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def work_ahead(pieces: Iterator[Piece], name: str, ahead: int = 1) -> Generator[Piece, None, None]:
    """The same items in the same order; while one is used, a separate thread computes the next.

    Exceptions are raised in order, at the failing item. Closing the iterator early waits for the item in progress.

    Args:
        pieces: computes the items.
        name: name of the thread.
        ahead: largest number of items that are computed in advance; 0: no thread is started.

    Example:
        >>> list(work_ahead((number * number for number in range(4)), "squares"))
        [0, 1, 4, 9]
    """
    if not ahead:
        yield from pieces
        return

    def make() -> list[Piece]:
        return list(islice(pieces, 1))

    maker = ThreadPoolExecutor(1, thread_name_prefix=name)
    try:
        following = deque(maker.submit(make) for _ in range(ahead))
        while made := following.popleft().result():
            following.append(maker.submit(make))
            # From here on, only the caller refers to the item.
            yield made.pop()
    finally:
        maker.shutdown(cancel_futures=True)
        _close(pieces)


def in_order(
    pieces: Iterator[Piece], work: Callable[[Piece], Result], jobs: int, name: str
) -> Generator[Result, None, None]:
    """Results of `work` for each item, computed by up to `jobs` threads; with one job, no thread is started.

    A separate thread computes the items; at most `jobs` items are in progress or waiting at a time.

    Args:
        pieces: computes the items.
        work: function applied to each item; its exceptions are raised in order, at the failing item.
        jobs: number of working threads.
        name: name of the threads.

    Example:
        >>> list(in_order(iter(range(4)), lambda number: number * number, 2, "squares"))
        [0, 1, 4, 9]
    """
    if jobs <= 1:
        yield from map(work, pieces)
        return
    workers = ThreadPoolExecutor(jobs, thread_name_prefix=name)

    def begin(piece: Piece) -> Future[Result]:
        return workers.submit(work, piece)

    try:
        with closing(work_ahead(map(begin, pieces), f"{name}-made", jobs - 1)) as working:
            yield from map(Future.result, working)
    finally:
        workers.shutdown(cancel_futures=True)
        _close(pieces)


def _close(pieces: Iterator[Piece]) -> None:
    if isinstance(pieces, Generator):
        pieces.close()
