"""YCSB's keys, and their division among load generators.

YCSB names record number k ``user<hash>``, where the hash is the absolute value of the 64-bit FNV-1a hash of k's eight
bytes (least significant first) as a signed number (`site.ycsb.Utils.fnvhash64`). The runner's own load uses the same
names, so that tables filled by either tool are interchangeable.

Example:
    >>> key_names(60_000, 60_001)
    ['user2771187526451399223']
    >>> [(part.start, part.count) for part in partition(0, 10, parts=3)]
    [(0, 3), (3, 3), (6, 4)]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.errors import UsageError

_FNV_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = np.uint64(1099511628211)


@dataclass(frozen=True)
class KeyRange:
    """`count` consecutive record numbers from `start` (YCSB's insertstart and insertcount, in this order)."""

    start: int
    count: int

    @property
    def stop(self) -> int:
        """First record number after the range."""
        return self.start + self.count


def key_hashes(start: int, stop: int) -> NDArray[np.int64]:
    """The hashes of record numbers start..stop-1, shape (stop - start,)."""
    remaining = np.arange(start, stop, dtype=np.uint64)
    hashes = np.full(remaining.shape, _FNV_OFFSET)
    for _ in range(8):
        hashes ^= remaining & np.uint64(0xFF)
        hashes *= _FNV_PRIME
        remaining >>= np.uint64(8)
    return np.abs(hashes.view(np.int64))


def key_names(start: int, stop: int) -> list[str]:
    """The keys of record numbers start..stop-1."""
    return [f"user{value}" for value in key_hashes(start, stop).tolist()]


def partition(start: int, count: int, *, parts: int) -> list[KeyRange]:
    """Divide `count` records from `start` among `parts` load generators, without gap or overlap.

    Every part gets the same number of records; the remainder goes to the last.

    Raises:
        UsageError: there are fewer records than parts, or no part at all.
    """
    if parts < 1 or count < parts:
        way_out = "use at most one load generator per record, and at least one"
        raise UsageError(f"{count} records cannot be divided among {parts} load generators", way_out=way_out)
    size = count // parts
    ends = [*(start + index * size for index in range(parts)), start + count]
    return [KeyRange(begin, end - begin) for begin, end in pairwise(ends)]


def share_threads(threads: int, *, parts: int) -> list[int]:
    """Divide client threads among load generators; the remainder goes to the last.

    Raises:
        UsageError: there are fewer threads than parts.

    Example:
        >>> share_threads(10, parts=3)
        [3, 3, 4]
    """
    if parts < 1 or threads < parts:
        way_out = "give every load generator at least one thread"
        raise UsageError(f"{threads} threads cannot be divided among {parts} load generators", way_out=way_out)
    return [part.count for part in partition(0, threads, parts=parts)]
