"""Strings as views into a buffer of UTF-8: columns of text without a copy and without Python per row.

Arrow's string view has, per value, its length and either the value itself (up to 12 bytes) or its place in a shared
buffer. All values here share one buffer, the block that was read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from citus_analysis.core.type_aliases import Integers

if TYPE_CHECKING:
    import polars as pl

_INLINE: Final = 12
_INVALID: Final = re.compile("[\udc80-\udcff]")
Bytes = npt.NDArray[np.uint8]


def make_string_views(buffer: Bytes, starts: Integers, lengths: Integers) -> pl.Series:
    """A String column of the slices `buffer[start:start + length]`; a negative length gives null.

    The slices must be valid UTF-8 (see :func:`cut_to_characters`).

    Example:
        >>> text = np.frombuffer(b"one two", np.uint8)
        >>> make_string_views(text, np.array([0, 4, 0]), np.array([3, 3, -1])).to_list()
        ['one', 'two', None]
    """
    count = len(starts)
    present = lengths >= 0
    sizes = np.where(present, lengths, 0)
    views = np.zeros((count, 4), np.int32)
    views[:, 0] = sizes
    followed = np.concatenate([buffer, np.zeros(_INLINE, np.uint8)])
    inline = np.lib.stride_tricks.sliding_window_view(followed, _INLINE)[starts]
    inline[np.arange(_INLINE) >= sizes[:, None]] = 0
    views.view(np.uint8).reshape(count, 16)[:, 4:] = inline
    long = sizes > _INLINE
    views[long, 2] = 0
    views[long, 3] = starts[long]
    nulls = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    array = pa.Array.from_buffers(pa.string_view(), count, [nulls, pa.py_buffer(views), pa.py_buffer(buffer)])
    return convert_array_to_series("", array)


def convert_array_to_series(name: str, array: pa.Array) -> pl.Series:
    """An Arrow array as a column, converted as a frame: `pl.Series` would import `pyarrow.compute`, which is slow."""
    import polars as pl

    return pl.DataFrame(pa.Table.from_arrays([array], names=[name])).to_series()


def cut_to_characters(buffer: Bytes, starts: Integers, lengths: Integers, limit: int) -> Integers:
    """Lengths of at most `limit` bytes that do not end within a UTF-8 character.

    Example:
        >>> text = np.frombuffer("aé".encode(), np.uint8)
        >>> cut_to_characters(text, np.array([0]), np.array([3]), 2).tolist()
        [1]
    """
    cut = np.minimum(lengths, limit)
    for _ in range(3):
        inside = np.flatnonzero(cut < lengths)
        inside = inside[(buffer[starts[inside] + cut[inside]] & 0xC0) == 0x80]
        if not len(inside):
            break
        cut[inside] -= 1
    return cut


def replace_invalid_utf8(data: bytes) -> bytes:
    r"""The bytes with every invalid byte replaced by a question mark, so that offsets do not change.

    Example:
        >>> replace_invalid_utf8(b"caf\xe9 \xc3\xa9")
        b'caf? \xc3\xa9'
    """
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return _INVALID.sub("?", data.decode("utf-8", "surrogateescape")).encode()
    return data
