"""Pieces of work done by threads, always handed on in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["in_order", "work_ahead"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def work_ahead(pieces: Iterator[Piece], name: str) -> Generator[Piece, None, None]:
    """The same pieces in the same order; while one is used, a thread of its own makes the next.

    What fails fails where its piece would have come. Whoever stops early waits for the piece that is being made.

    Args:
        pieces: makes them.
        name: of the thread.

    Example:
        >>> list(work_ahead((number * number for number in range(4)), "squares"))
        [0, 1, 4, 9]
    """

    def make() -> list[Piece]:
        return list(islice(pieces, 1))

    try:
        with ThreadPoolExecutor(1, thread_name_prefix=name) as maker:
            following = maker.submit(make)
            while made := following.result():
                following = maker.submit(make)
                # Nothing but the caller holds it from now on.
                yield made.pop()
    finally:
        if isinstance(pieces, Generator):
            pieces.close()


def in_order(pieces: Iterator[Piece], work: Callable[[Piece], Result], jobs: int, name: str) -> Iterator[Result]:
    """What becomes of each piece, worked on by up to `jobs` threads; one job needs no thread.

    The pieces are made by a thread of their own, one ahead; at most `jobs` results wait to be taken.

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
    with ThreadPoolExecutor(jobs, thread_name_prefix=name) as pool:
        waiting: deque[Future[Result]] = deque()
        for piece in work_ahead(pieces, f"{name}-made"):
            waiting.append(pool.submit(work, piece))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
