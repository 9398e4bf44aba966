r"""Rows in the order of their times, where a file lists them in another one.

Example:
    >>> import polars as pl
    >>> late = pl.DataFrame({"text": ["two\n", "one\n"], "time": [7, 5]})
    >>> sorted_rows = in_time_order(iter([late]), 9, InputError("out of order"), newest_first=False)
    >>> [rows["text"].to_list() for rows in sorted_rows]
    [['one\n', 'two\n']]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.placed_lines import NO_TIME

if TYPE_CHECKING:
    import polars as pl

#: Text that may be held in memory to be sorted.
HELD_BYTES: Final = 2**30


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

    def add(self, times: pl.Series) -> None:
        """Take in the next times."""
        known = times.filter(times != NO_TIME).to_numpy()
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


def orders_of_names(pieces: Iterable[pl.DataFrame]) -> dict[object, Order]:
    """The order of the rows of each name, in order of appearance; of rows with `name` and `time`."""
    order: dict[object, Order] = {}
    for piece in pieces:
        for (name,), rows in piece.group_by("name", maintain_order=True):
            order.setdefault(name, Order()).add(rows["time"])
    return order


def seen_in_order(pieces: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Rows that are believed to be in the order of their times, while they are.

    Raises:
        OutOfOrderError: a row is earlier than the one before it.
    """
    order = Order()
    for piece in pieces:
        order.add(piece["time"])
        if order.is_broken:
            raise OutOfOrderError("the lines are not in the order of their times", way_out="ingest again")
        yield piece


def in_time_order(
    pieces: Iterator[pl.DataFrame], late: int, refusal: InputError, *, newest_first: bool
) -> Iterator[pl.DataFrame]:
    """The rows sorted by time, those of one time in the order of the file (from its end if it is newest first).

    A row without a time stays after the one before it. A row is held until none can come that is earlier.

    Args:
        pieces: the rows in the order of the file.
        late: how much earlier than one before it a row is at most.
        refusal: raised if more than 1 GiB of text would have to be held.
        newest_first: the file lists the newest row first.

    Raises:
        InputError: more than 1 GiB of text would have to be held.
    """
    import polars as pl

    held: pl.DataFrame | None = None
    last = latest = NO_TIME
    for piece in pieces:
        keyed = piece.with_columns(key=pl.col("time").replace(NO_TIME, None).forward_fill().fill_null(last))
        last, latest = int(keyed["key"][-1]), max(latest, int(keyed["key"].max()))  # type: ignore[arg-type]
        held = keyed if held is None else pl.concat([held, keyed])
        done = 0 if newest_first else int((held["key"] <= max(latest - late, NO_TIME)).sum())
        if 2 * done >= held.height:
            held = _sorted(held, newest_first=newest_first)
            yield held.head(done)
            held = held[done:]
        if int(held["text"].cast(pl.Binary).bin.size().sum()) > HELD_BYTES:
            raise refusal
    if held is not None and held.height:
        yield _sorted(held, newest_first=newest_first)


def _sorted(rows: pl.DataFrame, *, newest_first: bool) -> pl.DataFrame:
    return (rows.reverse() if newest_first else rows).sort("key", maintain_order=True)
