"""Imports of Jupyter's libraries without a grammar that they do not use here.

`nbformat` checks notebooks with `jsonschema`, which compiles the grammar of international addresses (RFC 3987) as soon
as the package `rfc3987_syntax` is there: two seconds of CPU, for a format that no notebook has. `jsonschema` treats
that package as optional.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["without_grammar"]

_GRAMMAR: Final = "rfc3987_syntax"


@contextmanager
def without_grammar() -> Iterator[None]:
    """While this is active, `rfc3987_syntax` cannot be imported unless it already has been.

    Example:
        >>> with without_grammar():
        ...     import jsonschema
        >>> "rfc3987_syntax" in sys.modules and sys.modules["rfc3987_syntax"] is None
        False
    """
    if _GRAMMAR in sys.modules:
        yield
        return
    # The import system raises ImportError for a name that stands for None.
    sys.modules[_GRAMMAR] = None  # type: ignore[assignment] # documented, but not in the type
    try:
        yield
    finally:
        sys.modules.pop(_GRAMMAR, None)
