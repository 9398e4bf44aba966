r"""Lines in the order of their times, where a file lists them in another one.

Example:
    >>> late = Lines(b"two\none\n", np.array([0, 4, 8]), np.array([0, 9]), np.array([9, 18]), np.array([7, 5]))
    >>> [text.data for text in sorted_by_time(iter([late]), newest_first=False)]
    [b'one\ntwo\n']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Lines

#: Text that may be held in memory to be sorted.
_HELD_BYTES: Final = 2**30


class OutOfOrderError(InputError):
    """Lines whose order was believed are not in the order of their times."""


@dataclass
class Order:
    """Whether times are in order.

    Attributes:
        rises: a time was later than the one before it.
        last: the last time.
        latest: the latest time so far.
        late: how much earlier than the latest before it a time was, at most.
    """

    rises: bool = False
    last: int = NO_TIME
    latest: int = NO_TIME
    late: int = 0

    def add(self, times: Integers | None) -> None:
        """Take in the next times."""
        known = np.zeros(0, np.int64) if times is None else times[times != NO_TIME]
        if len(known):
            steps = np.diff(known, prepend=known[0] if self.last == NO_TIME else self.last)
            latest = np.maximum(np.maximum.accumulate(known), self.latest)
            self.rises, self.late = self.rises or bool((steps > 0).any()), max(self.late, int((latest - known).max()))
            self.latest, self.last = int(latest[-1]), int(known[-1])

    @property
    def is_broken(self) -> bool:
        """A time is earlier than the one before it."""
        return self.late > 0

    @property
    def is_descending(self) -> bool:
        """The newest comes first."""
        return self.is_broken and not self.rises

    def believe(self, times: Integers | None) -> None:
        """Take in the times of the next lines, which must be in order.

        Raises:
            OutOfOrderError: they are not.
        """
        self.add(times)
        if self.is_broken:
            raise OutOfOrderError("the lines are not in the order of their times", way_out="ingest again")


def seen_in_order(texts: Iterator[Lines], *, timed: bool) -> Iterator[Lines]:
    """Lines that are believed to be in the order of their times, while they are.

    Args:
        texts: the lines.
        timed: they keep the times.

    Raises:
        OutOfOrderError: a line is earlier than the one before it.
    """
    order = Order()
    for text in texts:
        order.believe(text.times)
        yield text if timed else replace(text, times=None)


def sorted_by_time(texts: Iterator[Lines], *, newest_first: bool) -> Iterator[Lines]:
    """All lines sorted by time; those of one time stay in the order of the file (from its end if newest first).

    A line without a time stays after the one before it.

    Raises:
        InputError: there are more than 1 GiB of them.
    """
    held: list[Lines] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text.data)
        if size > _HELD_BYTES:
            raise InputError(
                f"the lines are not in the order of their stamps, and more than {_HELD_BYTES >> 30} GiB",
                way_out="sort the file by its stamps, or divide it",
            )
    if held:
        whole = joined_lines(held)
        times = np.full(len(whole), NO_TIME) if whole.times is None else whole.times
        yield _picked(whole, rows_by_time(carried_on(times), newest_first=newest_first))


def carried_on(times: Integers, last: int = NO_TIME) -> Integers:
    """The times, and the one before where one is missing; `last` precedes the first."""
    times = np.concatenate([[last], times])
    known = np.maximum.accumulate(np.where(times != NO_TIME, np.arange(len(times)), 0))
    return times[known][1:]


def rows_by_time(times: Integers, *, newest_first: bool) -> Integers:
    """Places of the times in their order; equal ones stay in theirs, from the end if the newest comes first."""
    rows = np.arange(len(times))[:: -1 if newest_first else 1]
    return rows[np.argsort(times[rows], kind="stable")]


def _picked(text: Lines, rows: Integers) -> Lines:
    """Lines of a text, in the order of their numbers."""
    data = b"".join(text.data[text.starts[row] : text.starts[row + 1]] for row in rows.tolist())
    starts = np.concatenate([[0], np.cumsum(text.starts[rows + 1] - text.starts[rows])])
    return Lines(data, starts, text.begins[rows], text.ends[rows], None if text.times is None else text.times[rows])


def joined_lines(texts: Sequence[Lines]) -> Lines:
    """The lines of several texts, one after the other."""
    if len(texts) == 1:
        return texts[0]
    offsets = np.cumsum([0, *(len(text.data) for text in texts)])
    starts = [offset + text.starts[:-1] for offset, text in zip(offsets, texts, strict=False)]
    times = [np.full(len(text), NO_TIME) if text.times is None else text.times for text in texts]
    return Lines(
        b"".join(text.data for text in texts),
        np.concatenate([*starts, offsets[-1:]]),
        np.concatenate([text.begins for text in texts]),
        np.concatenate([text.ends for text in texts]),
        None if all(text.times is None for text in texts) else np.concatenate(times),
    )
