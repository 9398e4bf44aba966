"""Arrays in groups that are spilled: taken out of memory block by block, so that not all need to be in memory.

What spills them is given by the caller: memory (:func:`keep_in_memory`) or files of the dataset's staging folder.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from citus_analysis.formats.pglog.assembly import concatenate_items, place_items, select_items
from citus_analysis.spans.ordered_arrays import AnyIntegers

#: Arrays by name: structures, or numbers.
Arrays = Mapping[str, np.ndarray]

#: Most bytes in memory before they are spilled.
BLOCK_BYTES: Final = 32 * 2**20


class Restore(Protocol):
    """Restores arrays that were spilled."""

    def __call__(self, *, again: bool = False) -> Arrays:
        """The arrays; they can be restored once, and further times after calls with `again`."""


#: Spills arrays: takes them out of memory, and returns what restores them.
Spill = Callable[[Arrays], Restore]


def keep_in_memory(arrays: Arrays) -> Restore:
    """Spill arrays in memory.

    Example:
        >>> keep_in_memory({"numbers": np.arange(2)})()["numbers"].tolist()
        [0, 1]
    """

    def restore(*, again: bool = False) -> Arrays:  # noqa: ARG001 - of the protocol; they stay
        return arrays

    return restore


@dataclass
class SpilledGroups:
    """Arrays of one length, whose items belong to groups.

    Args:
        spill: takes blocks out of memory.
        groups: number of groups; a single group stays in memory.

    Example:
        >>> halves = SpilledGroups(keep_in_memory, groups=2)
        >>> halves.add(np.array([0, 1, 0]), {"numbers": np.arange(3)})
        >>> halves.finish()
        >>> halves.restore([0])["numbers"].tolist(), halves.restore([1])["numbers"].tolist()
        ([0, 2], [1])
    """

    spill: Spill
    groups: int
    waiting_bytes: int = 0
    _waiting: list[tuple[AnyIntegers, Arrays]] = field(default_factory=list)
    _blocks: defaultdict[int, list[tuple[int, Restore]]] = field(default_factory=lambda: defaultdict(list))
    _none: Arrays = field(default_factory=dict)

    def add(self, numbers: AnyIntegers, arrays: Arrays) -> None:
        """Add items, each to the group of its number."""
        self._none = {name: items[:0] for name, items in arrays.items()}
        self._waiting.append((numbers.astype(np.uint16), arrays))
        self.waiting_bytes += sum(items.nbytes for items in arrays.values())
        if self.groups > 1 and self.waiting_bytes >= BLOCK_BYTES:
            self.finish()

    def finish(self) -> None:
        """Spill the last items, after all were added."""
        if not self._waiting:
            return
        numbers = np.concatenate([some for some, _ in self._waiting])
        block = {name: concatenate_items([arrays[name] for _, arrays in self._waiting]) for name in self._none}
        # Released before as much is ordered.
        self._waiting, self.waiting_bytes = [], 0
        if self.groups == 1:
            self._blocks[0].append((len(numbers), keep_in_memory(block)))
            return
        order = np.argsort(numbers, kind="stable")
        ordered = {name: select_items(items, order) for name, items in block.items()}
        ends = np.cumsum(np.bincount(numbers, minlength=self.groups)).tolist()
        for group, (begin, end) in enumerate(pairwise([0, *ends])):
            if end > begin:
                restore = self.spill({name: items[begin:end] for name, items in ordered.items()})
                self._blocks[group].append((end - begin, restore))

    def restore(self, groups: Iterable[int], *, again: bool = False) -> Arrays:
        """The items of some groups, group by group, in the order in which they were added.

        Args:
            groups: numbers of the groups.
            again: keep the items for a further call.
        """
        blocks = [self._blocks.get(group, []) if again else self._blocks.pop(group, []) for group in groups]
        joined = {
            name: np.empty(sum(count for own in blocks for count, _ in own), items.dtype)
            for name, items in self._none.items()
        }
        begin = 0
        # One block after the other, because all of them and the result would be in memory twice.
        for count, restore in chain.from_iterable(blocks):
            for name, items in restore(again=again).items():
                place_items(joined[name], begin, items)
            begin += count
        return joined


def release_free_memory() -> None:
    """Return the free memory of the allocators of the C library and of Arrow to the system.

    This takes some milliseconds. A C library without `malloc_trim` (that is, other than glibc) keeps its free memory.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    pa.default_memory_pool().release_unused()
