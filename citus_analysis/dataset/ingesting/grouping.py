"""Items in groups that are worth a task of a cluster each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

__all__ = ["grouped"]

Item = TypeVar("Item")

#: Bytes of the files of one task: less is grouped, so that a task takes longer than handing it out.
_TASK_BYTES: Final = 32 * 2**20
_LEAST_BYTES: Final = 2**20
_MOST_ITEMS: Final = 100
#: Tasks per worker, so that none waits long for the last.
_SHARES: Final = 4


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
