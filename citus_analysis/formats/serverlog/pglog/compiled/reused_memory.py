"""Memory that is used again and again.

The system gives memory page by page, each zeroed and mapped when it is first touched: a tenth of the time of reading a
log. What was touched once is therefore kept until the log is read.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Final

import numpy as np

from citus_analysis.formats.serverlog.pglog.compiled.byte_views import Bytes

__all__ = ["Rooms"]

#: A room that is so many times too large is not used: what needs little would keep much.
_MOST_TIMES: Final = 4


class Rooms:
    """Rooms of about the same size, as many as are in use at the same time.

    Example:
        >>> rooms = Rooms()
        >>> room = rooms.room(100)
        >>> address = room.ctypes.data
        >>> part = room[:10].view(np.int16)
        >>> del room
        >>> rooms.room(100).ctypes.data == address
        False
        >>> del part
        >>> rooms.room(100).ctypes.data == address
        True
    """

    def __init__(self) -> None:
        self._free: list[Bytes] = []

    def room(self, size: int) -> Bytes:
        """Memory with anything in it; once neither it nor a part of it is referred to, it may be given out again."""
        memory = self._free_memory(size)
        # Its own object for each use: arrays refer to the object whose memory they show, not to arrays in between.
        use = (ctypes.c_uint8 * len(memory)).from_buffer(memory.data)
        weakref.finalize(use, self._free.append, memory).atexit = False
        return np.frombuffer(memoryview(use), np.uint8, size)

    def _free_memory(self, size: int) -> Bytes:
        while True:
            try:
                memory = self._free.pop()
            except IndexError:
                # Somewhat more, for the next one may want more.
                return np.empty(size + size // 8, np.uint8)
            if size <= len(memory) <= _MOST_TIMES * size:
                return memory
