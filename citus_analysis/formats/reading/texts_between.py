"""Lines of a text by their places, and stretches of a text as a column, without a copy of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.placed_lines import starts_of


def lines_of(data: bytes) -> tuple[Integers, Integers]:
    r"""Offset of each line of `data`, and its length with the line end.

    Example:
        >>> [numbers.tolist() for numbers in lines_of(b"ab\n\nc")]
        [[0, 3, 4], [3, 1, 1]]
    """
    bounds = starts_of(data)
    return bounds[:-1], np.diff(bounds)


def texts_between(data: bytes | npt.NDArray[np.uint8], bounds: npt.NDArray[np.integer]) -> pl.Series:
    """The stretches of UTF-8 that bounds divide a text into.

    Example:
        >>> texts_between(b"abc", np.array([0, 1, 3])).to_list()
        ['a', 'bc']
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(data)]
    return pl.Series("text", pa.Array.from_buffers(pa.large_string(), len(bounds) - 1, buffers), dtype=pl.String)
