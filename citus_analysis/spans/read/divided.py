"""Structures divided into groups, of which memory need not hold all: they are laid aside block by block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.assembly import (
    NOTHING_THERE,
    chosen_items,
    joined_items,
)
from citus_analysis.spans.read.ordered_arrays import Integers

__all__ = ["BLOCK_BYTES", "Arrays", "Bring", "Divided", "Keep", "held"]

#: Arrays by name: structures, or numbers.
Arrays = Mapping[str, NDArray[Any]]

#: Bytes that wait in memory until they are laid aside.
BLOCK_BYTES: Final = 32 * 2**20


class Bring(Protocol):
    """Brings arrays back that were laid aside."""

    def __call__(self, *, again: bool = False) -> Arrays:
        """The arrays; unless they are brought `again` later, this is the only time."""


#: Lays arrays aside.
Keep = Callable[[Arrays], Bring]


def held(arrays: Arrays) -> Bring:
    """Keep arrays in memory.

    Example:
        >>> held({"numbers": np.arange(2)})()["numbers"].tolist()
        [0, 1]
    """

    def bring(*, again: bool = False) -> Arrays:  # noqa: ARG001 - they stay anyway
        return arrays

    return bring


@dataclass
class Divided:
    """Arrays of one length, whose items belong to groups.

    Args:
        keep: lays blocks aside.
        groups: how many there are; a single one stays in memory.

    Example:
        >>> halves = Divided(held, groups=2)
        >>> halves.add(np.array([4, 7, 8]), {"numbers": np.arange(3)})
        >>> halves.lay_aside()
        >>> halves.group(0)["numbers"].tolist(), halves.group(1)["numbers"].tolist()
        ([0, 2], [1])
    """

    keep: Keep
    groups: int
    waiting_bytes: int = 0
    _waiting: list[tuple[Integers, Arrays]] = field(default_factory=list)
    _blocks: defaultdict[int, list[Bring]] = field(default_factory=lambda: defaultdict(list))
    _none: Arrays = field(default_factory=dict)

    def add(self, keys: Integers, arrays: Arrays) -> None:
        """Add items to the groups of their keys (:data:`NOTHING_THERE` counts as 0)."""
        numbers = np.where(keys == NOTHING_THERE, 0, keys) % self.groups
        self._none = {name: items[:0] for name, items in arrays.items()}
        self._waiting.append((numbers.astype(np.uint16), arrays))
        self.waiting_bytes += sum(items.nbytes for items in arrays.values())
        if self.groups > 1 and self.waiting_bytes >= BLOCK_BYTES:
            self.lay_aside()

    def lay_aside(self) -> None:
        """Lay aside what waits; once all items were added, that is to be done."""
        if not self._waiting:
            return
        numbers = np.concatenate([some for some, _ in self._waiting])
        block = {name: joined_items([arrays[name] for _, arrays in self._waiting]) for name in self._none}
        self._waiting, self.waiting_bytes = [], 0
        if self.groups == 1:
            self._blocks[0].append(held(block))
            return
        order = np.argsort(numbers, kind="stable")
        ordered = {name: chosen_items(items, order) for name, items in block.items()}
        ends = np.cumsum(np.bincount(numbers, minlength=self.groups)).tolist()
        for group, (begin, end) in enumerate(pairwise([0, *ends])):
            if end > begin:
                self._blocks[group].append(self.keep({name: items[begin:end] for name, items in ordered.items()}))

    def group(self, number: int, *, again: bool = False) -> Arrays:
        """What was laid aside of a group, in the order in which it was added; `again`: it is asked for once more."""
        blocks = self._blocks.get(number, []) if again else self._blocks.pop(number, [])
        parts = [self._none, *(bring(again=again) for bring in blocks)]
        return {name: joined_items([part[name] for part in parts]) for name in self._none}
