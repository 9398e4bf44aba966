"""Structures divided into groups, which are laid aside block by block, so that not all need to be in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from math import isqrt
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.assembly import chosen_items, joined_items, place_items
from citus_analysis.spans.read.ordered_arrays import Integers

#: Arrays by name: structures, or numbers.
Arrays = Mapping[str, np.ndarray]

#: Most bytes in memory before they are laid aside.
BLOCK_BYTES: Final = 32 * 2**20


class Bring(Protocol):
    """Brings arrays back that were laid aside."""

    def __call__(self, *, again: bool = False) -> Arrays:
        """The arrays; they can be brought back once, and further times after calls with `again`."""


#: Lays arrays aside.
Keep = Callable[[Arrays], Bring]


def held(arrays: Arrays) -> Bring:
    """Keep arrays in memory.

    Example:
        >>> held({"numbers": np.arange(2)})()["numbers"].tolist()
        [0, 1]
    """

    def bring(*, again: bool = False) -> Arrays:  # noqa: ARG001 - of the protocol; they stay
        return arrays

    return bring


@dataclass
class Divided:
    """Arrays of one length, whose items belong to groups.

    Args:
        keep: lays blocks aside.
        groups: number of groups; a single group stays in memory.

    Example:
        >>> halves = Divided(held, groups=2)
        >>> halves.add(np.array([0, 1, 0]), {"numbers": np.arange(3)})
        >>> halves.finish()
        >>> halves.joined([0])["numbers"].tolist(), halves.joined([1])["numbers"].tolist()
        ([0, 2], [1])
    """

    keep: Keep
    groups: int
    waiting_bytes: int = 0
    _waiting: list[tuple[Integers, Arrays]] = field(default_factory=list)
    _blocks: defaultdict[int, list[tuple[int, Bring]]] = field(default_factory=lambda: defaultdict(list))
    _none: Arrays = field(default_factory=dict)

    def add(self, numbers: Integers, arrays: Arrays) -> None:
        """Add items, each to the group of its number."""
        self._none = {name: items[:0] for name, items in arrays.items()}
        self._waiting.append((numbers.astype(np.uint16), arrays))
        self.waiting_bytes += sum(items.nbytes for items in arrays.values())
        if self.groups > 1 and self.waiting_bytes >= BLOCK_BYTES:
            self.finish()

    def finish(self) -> None:
        """Lay the last items aside, after all were added."""
        if not self._waiting:
            return
        numbers = np.concatenate([some for some, _ in self._waiting])
        block = {name: joined_items([arrays[name] for _, arrays in self._waiting]) for name in self._none}
        # Released before as much is ordered.
        self._waiting, self.waiting_bytes = [], 0
        if self.groups == 1:
            self._blocks[0].append((len(numbers), held(block)))
            return
        order = np.argsort(numbers, kind="stable")
        ordered = {name: chosen_items(items, order) for name, items in block.items()}
        ends = np.cumsum(np.bincount(numbers, minlength=self.groups)).tolist()
        for group, (begin, end) in enumerate(pairwise([0, *ends])):
            if end > begin:
                kept = self.keep({name: items[begin:end] for name, items in ordered.items()})
                self._blocks[group].append((end - begin, kept))

    def joined(self, groups: Iterable[int], *, again: bool = False) -> Arrays:
        """The items of some groups, group by group, in the order in which they were added.

        Args:
            groups: numbers of the groups.
            again: keep the items for a further call.
        """
        laid = [self._blocks.get(group, []) if again else self._blocks.pop(group, []) for group in groups]
        joined = {
            name: np.empty(sum(count for blocks in laid for count, _ in blocks), items.dtype)
            for name, items in self._none.items()
        }
        begin = 0
        # One block after the other, because all of them and the result would be in memory twice.
        for count, bring in chain.from_iterable(laid):
            for name, items in bring(again=again).items():
                place_items(joined[name], begin, items)
            begin += count
        return joined


def in_order_of(numbers: Integers, arrays: Arrays) -> Arrays:
    """The same items sorted by their numbers; items of equal numbers stay in order.

    Example:
        >>> in_order_of(np.array([2, 1]), {"numbers": np.array([2, 1])})["numbers"].tolist()
        [1, 2]
    """
    order = np.argsort(numbers, kind="stable")
    return {name: chosen_items(items, order) for name, items in arrays.items()}


@dataclass(frozen=True)
class Cells:
    """Groups of sessions (by their gpids), each of which is divided by shards.

    Shards divide further because a few sessions of many hours would form only a few groups. The tasks of a session on
    different shards do not depend on each other.
    """

    gpids: int
    shards: int

    @classmethod
    def of(cls, count: int) -> Self:
        """At least `count` cells.

        Example:
            >>> Cells.of(5), Cells.of(1).count
            (Cells(gpids=3, shards=2), 1)
        """
        gpids = isqrt(count - 1) + 1
        return cls(gpids, -(-count // gpids))

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.gpids * self.shards

    def numbers(self, gpid: NDArray[np.int64], shard: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each item; cells of one group of sessions are neighbours."""
        # Mixed, because successive process numbers may share a divisor with the number of groups.
        mixed = (gpid.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
        of_gpid = (mixed % np.uint64(self.gpids)).astype(np.int64)
        return of_gpid * self.shards + shard % self.shards
