"""Return freed memory to the system, because allocators keep it in blocks of sizes that may not be needed again."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa


def give_back() -> None:
    """Return the free memory of the allocators of the C library and of Arrow to the system.

    This takes some milliseconds. A C library without `malloc_trim` (that is, other than glibc) keeps its free memory.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    pa.default_memory_pool().release_unused()
