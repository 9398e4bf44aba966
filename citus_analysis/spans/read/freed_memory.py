"""Memory that was freed, back to the system: allocators keep it for what is asked for next, in other sizes."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

__all__ = ["give_back"]


def give_back() -> None:
    """Give back what the allocators of the C library and of Arrow hold without need.

    It takes some milliseconds. Where the C library has no such call (`malloc_trim` of glibc), it keeps its part.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
