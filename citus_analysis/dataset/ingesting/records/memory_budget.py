"""Memory for what passes over records lay aside until their tasks are paired.

Arrays in files are copied twice, and take as much memory of the system's cache as they would take here.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from citus_analysis.spans.read.divided import Arrays, Bring, Keep

#: Bytes of arrays in memory, unless the records are so many that their pairing needs it.
BUDGET_BYTES: Final = 256 * 2**20
BUDGET_UP_TO: Final = 25_000_000


class MemoryBudget:
    """Memory for arrays; those that exceed it are laid aside in another way.

    Args:
        most_bytes: bytes in memory, at most.

    Example:
        >>> import numpy as np
        >>> from citus_analysis.spans.read.divided import held
        >>> bring = MemoryBudget(most_bytes=1000).keeping(beyond=held)({"numbers": np.arange(2)})
        >>> bring(again=True)["numbers"].tolist(), bring()["numbers"].tolist()
        ([0, 1], [0, 1])
    """

    def __init__(self, most_bytes: int) -> None:
        self._left, self._lock = most_bytes, Lock()

    def keeping(self, beyond: Keep) -> Keep:
        """A way to lay arrays aside; several can share the budget.

        Args:
            beyond: lays aside the arrays that exceed the budget.
        """

        def keep(arrays: Arrays) -> Bring:
            size = sum(items.nbytes for items in arrays.values())
            return partial(self._bring, [arrays], size) if self._reserve(size) else beyond(arrays)

        return keep

    def _reserve(self, size: int) -> bool:
        with self._lock:
            fits = size <= self._left
            self._left -= size if fits else 0
        return fits

    def _bring(self, kept: list[Arrays], size: int, *, again: bool = False) -> Arrays:
        if again:
            return kept[0]
        with self._lock:
            self._left += size
        return kept.pop()


def budget_for(records: int) -> MemoryBudget:
    """The budget for passes over some records.

    Args:
        records: about how many there are.
    """
    return MemoryBudget(BUDGET_BYTES if records <= BUDGET_UP_TO else 0)
