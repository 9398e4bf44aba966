"""Columns that the compiled scanner fills: their memory and their values.

The system zeroes and maps each new page of memory at its first use, which takes a tenth of the time of reading a log.
Used memory is therefore kept until the log is read.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.pglog.layout import (
    CODE_COLUMNS,
    MAX_SHARDS,
    NUMBER_COLUMNS,
    OUT_OF_MEMORY,
    TEXT_COLUMNS,
    build_ctypes_structure,
)
from citus_analysis.formats.pglog.string_views import Bytes

#: Memory that is this many times too large is not reused: small requests would occupy large blocks.
_MOST_TIMES: Final = 4


class ReusedBuffers:
    """Blocks of memory of about the same size; a new one is allocated only if all others are in use.

    Example:
        >>> buffers = ReusedBuffers()
        >>> memory = buffers.buffer(100)
        >>> address = memory.ctypes.data
        >>> part = memory[:10].view(np.int16)
        >>> del memory
        >>> buffers.buffer(100).ctypes.data == address
        False
        >>> del part
        >>> buffers.buffer(100).ctypes.data == address
        True
    """

    def __init__(self) -> None:
        self._free: list[Bytes] = []

    def buffer(self, size: int) -> Bytes:
        """Uninitialised memory; it is reused once nothing refers to it or to a part of it."""
        memory = self._free_memory(size)
        # Each use needs its own object: arrays refer to the object that owns the memory, not to intermediate arrays.
        use = (ctypes.c_uint8 * len(memory)).from_buffer(memory.data)
        weakref.finalize(use, self._free.append, memory).atexit = False
        return np.frombuffer(memoryview(use), np.uint8, size)

    def _free_memory(self, size: int) -> Bytes:
        while True:
            try:
                memory = self._free.pop()
            except IndexError:
                # Somewhat more, because the next request may be larger.
                return np.empty(size + size // 8, np.uint8)
            if size <= len(memory) <= _MOST_TIMES * size:
                return memory


_ALIGNMENT: Final = 64

#: Every column, with the type of its values.
_COLUMNS: Final[dict[str, type]] = {
    **NUMBER_COLUMNS,
    **dict.fromkeys(TEXT_COLUMNS, np.int32),
    **dict.fromkeys(CODE_COLUMNS, np.uint8),
}
#: Codes into lists kept elsewhere. Rows without a value have 0, which is also a valid code; use the validity mask.
_CODED: Final = frozenset({*CODE_COLUMNS, *TEXT_COLUMNS})
_OUTPUT, _COLUMN = map(build_ctypes_structure, ("output_t", "column_t"))

#: Columns that have a value in every row, so the scanner does not mark them.
_EVERYWHERE: Final = frozenset({"byte_offset", "byte_length", "severity", "kind", "capped"})
#: Lists, with the largest number of elements that a record can add.
_LISTS: Final = {"messages": 1, "strays": 1, "shards": MAX_SHARDS - 1}


@dataclass
class FilledColumn:
    """Values of a column and their validity.

    Attributes:
        values: one per row; arbitrary for invalid rows, but numbers of texts are always valid numbers.
        valid: one bit per row, the lowest first.
        count: number of valid rows.
    """

    values: npt.NDArray[np.generic]
    valid: Bytes
    count: int = 0

    @classmethod
    def of(cls, values: npt.NDArray[np.generic], rows: int) -> Self:
        """An empty column with space for the rows."""
        return cls(values, make_validity_bits(rows))

    def marked(self) -> int:
        """The number of rows marked as valid."""
        return int(np.bitwise_count(self.valid).sum())


class ScanOutput:
    """Output of a scan: columns, distinct texts, messages, stray lines, further shards.

    Attributes:
        columns: by name; texts and messages are indices into the lists below.
        texts: begin and end of each distinct text in the chunk, by column.
        messages: begin and end of each message.
        strays: begin and end of each run of stray lines.
        shards: row and number of each shard that a statement names after its first.
        rows: number of records.
        blank_bytes: bytes of the blank lines at the source's beginning.
        record_bytes: bytes of the records.
    """

    def __init__(self, rows: int, buffers: ReusedBuffers) -> None:
        self.columns = {name: FilledColumn.of(values, rows) for name, values in _allocate_columns(rows, buffers)}
        self.columns["capped"] = FilledColumn.of(make_validity_bits(rows), rows)
        # Most of these stay short, so reused memory would be mostly unused.
        self._texts: list[Integers] = [np.empty((rows, 2), np.int64) for _ in TEXT_COLUMNS]
        self._lists: dict[str, Integers] = {
            name: np.empty((most * rows + 1, 2), np.int64) for name, most in _LISTS.items()
        }
        self._structure = _OUTPUT()
        for name, column in self.columns.items():
            field = _COLUMN(column.values.ctypes.data, column.valid.ctypes.data)
            if name in TEXT_COLUMNS:
                self._structure.texts[TEXT_COLUMNS.index(name)] = field
            else:
                setattr(self._structure, name, field)
        self._structure.distinct_texts[:] = [array.ctypes.data for array in self._texts]
        for name, array in self._lists.items():
            setattr(self._structure, name, array.ctypes.data)

    def fill(self, scan: Callable[..., int], *source: object) -> int:
        """Fill the columns by a function of the scanner and return its answer.

        Raises:
            MemoryError: the memory does not suffice.
        """
        structure = self._structure
        answer = scan(*source, ctypes.byref(structure))
        if answer == OUT_OF_MEMORY:
            raise MemoryError
        if answer:
            return answer
        self.rows = int(structure.rows)
        for name, column in self.columns.items():
            column.count = self.rows if name in _EVERYWHERE else column.marked()
        self.texts = {
            name: places[:count]
            for name, places, count in zip(TEXT_COLUMNS, self._texts, structure.text_counts, strict=True)
        }
        self.messages = self._lists["messages"][: structure.message_count]
        self.strays = self._lists["strays"][: structure.stray_count]
        self.shards = self._lists["shards"][: structure.shard_count]
        self.blank_bytes = int(structure.blank_bytes)
        self.record_bytes = int(structure.record_bytes)
        return 0


def make_validity_bits(rows: int) -> Bytes:
    """Zeros: at least one bit per row."""
    return np.zeros(rows // 8 + 1, np.uint8)


def _allocate_columns(rows: int, buffers: ReusedBuffers) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """The columns in reused memory; columns of codes are filled with zeros."""
    names = sorted(_COLUMNS, key=lambda name: name not in _CODED)
    sizes = [-(-rows * np.dtype(_COLUMNS[name]).itemsize // _ALIGNMENT) * _ALIGNMENT for name in names]
    memory, begin = buffers.buffer(sum(sizes)), 0
    memory[: sum(sizes[: len(_CODED)])] = 0
    for name, size in zip(names, sizes, strict=True):
        yield name, memory[begin : begin + size].view(_COLUMNS[name])
        begin += size
