"""Operations on arrays whose equal keys are adjacent, so that neither hashing nor sorting is needed."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.arrow_arrays import make_number_array

Flags = NDArray[np.bool_]
AnyIntegers = NDArray[np.integer]
Indices = NDArray[np.intp]

_DIGIT: Final = 16


def changes(values: NDArray[np.generic]) -> Flags:
    """Whether each value differs from the one before it; true for the first.

    Example:
        >>> changes(np.array([4, 4, 7])).tolist()
        [True, False, True]
    """
    changed = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def find_group_starts(values: NDArray[np.generic]) -> Indices:
    """The index at which each run of equal values begins.

    Example:
        >>> find_group_starts(np.array([4, 4, 7])).tolist()
        [0, 2]
    """
    return np.flatnonzero(changes(values))


def is_single_value(values: AnyIntegers) -> Flags:
    """Whether each value occurs only once; the values may have any order.

    Example:
        >>> is_single_value(np.array([4, 4, 7])).tolist(), is_single_value(np.array([7, 4, 7])).tolist()
        ([False, False, True], [False, True, False])
    """
    if bool(np.any(np.less(values[1:], values[:-1]))):
        _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
        return np.asarray(counts[number] == 1)
    changed = changes(values)
    last: Flags = np.append(changed[1:], values=True)[: len(values)]
    return changed & last


def number_groups(begins: Flags) -> NDArray[np.uint32]:
    """The number (from 1) of the group of each element; `begins` marks the first element of each group."""
    return np.cumsum(begins, dtype=np.uint32)


def number_group_places(begins: Flags) -> Indices:
    """The place (from 0) of each element in its group; `begins` marks the first element of each group.

    Example:
        >>> number_group_places(np.array([True, False, False, True])).tolist()
        [0, 1, 2, 0]
    """
    first = np.flatnonzero(begins)
    return np.arange(len(begins)) - np.repeat(first, np.diff(first, append=len(begins)))


def sort_rows_stably(key: AnyIntegers, rows: Indices) -> Indices:
    """Rows sorted by the key (not negative) that they point to; rows with equal keys stay in order.

    A radix sort, 16 bits at a time: digits that are equal in all keys, or already in order, are only compared.

    Example:
        >>> sort_rows_stably(np.array([70_000, 5, 70_000, 3]), np.arange(4)).tolist()
        [3, 1, 0, 2]
    """
    top = int(key.max()) if len(rows) else 0
    for shift in range(0, top.bit_length(), _DIGIT):
        digit = (key >> shift).astype(np.uint16)[rows]
        if np.any(digit[1:] < digit[:-1]):
            rows = rows[np.argsort(digit, kind="stable")]
    return rows


def number_series_values(*parts: pl.Series) -> list[NDArray[np.int64]]:
    """Small numbers for the values of series, equal for equal values in all series; null is a value.

    Example:
        >>> number_series_values(pl.Series([30, 10]), pl.Series([10]))[1].tolist()
        [0]
    """
    values = [part.to_physical().cast(pl.Int64) for part in parts]
    arrays = [(v.fill_null(np.iinfo(np.int64).min) if v.null_count() else v).to_numpy() for v in values]
    # Neighbours are often equal, so few values are left to look up.
    begins = [find_group_starts(array) for array in arrays]
    heads = [array[begin] for array, begin in zip(arrays, begins, strict=True)]
    known = np.unique(np.concatenate(heads))
    return [
        np.repeat(np.searchsorted(known, head), np.diff(begin, append=len(array)))
        for array, begin, head in zip(arrays, begins, heads, strict=True)
    ]


def pick(frame: pl.DataFrame, rows: Indices) -> pl.DataFrame:
    """Some rows of a frame; a negative row gives nulls.

    Example:
        >>> pick(pl.DataFrame({"a": [5, 6]}), np.array([1, -1]))["a"].to_list()
        [6, None]
    """
    # Column by column, because a query takes a small frame ten times as long.
    there = rows >= 0
    at = pl.Series(make_number_array(rows.astype(np.uint32), None if there.all() else there))
    return pl.DataFrame([column[at] for column in frame.iter_columns()])


def join_executions(rows: pl.DataFrame, facts: pl.DataFrame, *, known_only: bool = False) -> pl.DataFrame:
    """Rows with the facts of their executions, in the order of the rows.

    Args:
        rows: with `execution`.
        facts: `execution` and further columns, which `rows` does not have.
        known_only: leave out rows of executions without facts; otherwise their facts are null.

    Example:
        >>> rows, facts = pl.DataFrame({"execution": [7, 9, 7]}), pl.DataFrame({"execution": [7], "a": ["x"]})
        >>> join_executions(rows, facts)["a"].to_list(), join_executions(rows, facts, known_only=True).height
        (['x', None, 'x'], 2)
    """
    how: Literal["inner", "left"] = "inner" if known_only else "left"
    return rows.join(facts, on="execution", how=how, maintain_order="left")
