"""Work ahead: the next piece is made while the last one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["work_ahead"]

Piece = TypeVar("Piece")


def work_ahead(pieces: Iterator[Piece], name: str) -> Iterator[Piece]:
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
                yield from made
    finally:
        if isinstance(pieces, Generator):
            pieces.close()
