"""Libraries that were compiled when the package was installed."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Final

LIBRARY_SUFFIX: Final = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def load_library(path: Path, numbered_by: str, number: int) -> ctypes.CDLL:
    """Load a library and check the number of its structures, which this version of the package expects.

    Args:
        path: the library.
        numbered_by: name of its function that returns the number.
        number: the expected number.

    Raises:
        ImportError: the library cannot be loaded, or was built for another version.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{path.name} cannot be loaded ({error}); install citus-analysis again") from error
    numbered = getattr(library, numbered_by, None)
    # A library that was built before the function existed is of another version too.
    if numbered is not None:
        numbered.restype = ctypes.c_int64
    if numbered is None or numbered() != number:
        raise ImportError(f"{path.name} was built for another version; install citus-analysis again")
    return library
