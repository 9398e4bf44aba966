"""Pieces of work done by threads, always handed on in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import TypeVar

__all__ = ["in_order", "work_ahead"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def work_ahead(pieces: Iterator[Piece], name: str, ahead: int = 1) -> Generator[Piece, None, None]:
    """The same pieces in the same order; while one is used, a thread of its own makes the next.

    What fails fails where its piece would have come. Whoever stops early waits for the piece that is being made.

    Args:
        pieces: makes them.
        name: of the thread.
        ahead: how many pieces may be made before they are asked for.

    Example:
        >>> list(work_ahead((number * number for number in range(4)), "squares"))
        [0, 1, 4, 9]
    """

    def make() -> list[Piece]:
        return list(islice(pieces, 1))

    maker = ThreadPoolExecutor(1, thread_name_prefix=name)
    try:
        following = deque(maker.submit(make) for _ in range(ahead))
        while made := following.popleft().result():
            following.append(maker.submit(make))
            # Nothing but the caller holds it from now on.
            yield made.pop()
    finally:
        maker.shutdown(cancel_futures=True)
        _close(pieces)


def in_order(
    pieces: Iterator[Piece], work: Callable[[Piece], Result], jobs: int, name: str
) -> Generator[Result, None, None]:
    """What becomes of each piece, worked on by up to `jobs` threads; one job needs no thread.

    The pieces are made by a thread of their own; at most `jobs` are made, worked on or wait to be taken.

    Args:
        pieces: makes them.
        work: what is done with each; an exception of it comes where its result would have.
        jobs: threads that work.
        name: of the threads.

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
