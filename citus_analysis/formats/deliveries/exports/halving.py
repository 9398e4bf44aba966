"""Rows of which a decoder refuses all for one that it cannot read: halved until that one stands alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def decoded_in_halves(
    decoded: Callable[[int, int], pl.DataFrame | None], alone: Callable[[int], pl.DataFrame], first: int, end: int
) -> Iterator[pl.DataFrame]:
    """The rows from one number up to another, piece by piece.

    Args:
        decoded: rows between two numbers; None if it cannot read one of them.
        alone: what stands for the row with a number that cannot be read.
        first: number of the first row.
        end: number after the last row.

    Example:
        >>> import polars as pl
        >>> even = lambda first, end: None if 3 in range(first, end) else pl.DataFrame({"n": range(first, end)})
        >>> [rows["n"].to_list() for rows in decoded_in_halves(even, lambda n: pl.DataFrame({"n": [-n]}), 0, 4)]
        [[0, 1], [2], [-3]]
    """
    rows = decoded(first, end)
    if rows is not None:
        yield rows
    elif end - first == 1:
        yield alone(first)
    else:
        middle = (first + end) // 2
        yield from decoded_in_halves(decoded, alone, first, middle)
        yield from decoded_in_halves(decoded, alone, middle, end)
