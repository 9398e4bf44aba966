"""Libraries that were compiled when the package was installed."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Final

from citus_analysis.errors import CompiledCodeError

_HINT: Final = "install citus-analysis again: pip compiles it with the machine's C compiler, or one that it fetches"
LIBRARY_SUFFIX: Final = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def load_library(path: Path, numbered_by: str, number: int) -> ctypes.CDLL:
    """Load a library and check the number of its structures, which this version of the package expects.

    Args:
        path: the library.
        numbered_by: name of its function that returns the number.
        number: the expected number.

    Raises:
        CompiledCodeError: the library is missing, cannot be loaded, or was built for another version.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        problem = f"it cannot be loaded ({error})" if path.is_file() else "this installation has no compiled code"
        raise CompiledCodeError(problem, path=path, hint=_HINT) from error
    numbered = getattr(library, numbered_by, None)
    # A library that was built before the function existed is of another version too.
    if numbered is not None:
        numbered.restype = ctypes.c_int64
    if numbered is None or numbered() != number:
        raise CompiledCodeError("it was built for another version", path=path, hint=_HINT)
    return library
