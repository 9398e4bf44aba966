"""A pool of memory that is reused while a log is read.

The system zeroes and maps each new page of memory at its first use, which takes a tenth of the time of reading a log.
Used memory is therefore kept until the log is read.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Final

import numpy as np

from citus_analysis.formats.serverlog.pglog.compiled.byte_views import Bytes

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
