"""Imports of papermill without optional libraries that reports do not use.

papermill imports clients of object stores, a cluster's file system and GitHub as soon as they are installed, and
`nbformat` checks notebooks with `jsonschema`, which compiles the grammar of international addresses (RFC 3987) where
the package `rfc3987_syntax` is installed: together seconds of CPU that notebooks in a folder do not need. Each of them
is optional for the library that imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OPTIONAL: Final = ("rfc3987_syntax", "boto3", "azure", "gcsfs", "pyarrow.fs", "github")


@contextmanager
def without_optional_libraries() -> Iterator[None]:
    """While this is active, the optional libraries cannot be imported unless they already have been.

    Example:
        >>> with without_optional_libraries():
        ...     import jsonschema
        >>> "rfc3987_syntax" in sys.modules and sys.modules["rfc3987_syntax"] is None
        False
    """
    absent = [name for name in _OPTIONAL if name not in sys.modules]
    # The import system raises ImportError for a name that is None.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type] # documented, but not in the type
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)
