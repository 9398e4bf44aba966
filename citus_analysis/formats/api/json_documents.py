"""Documents of JSON that are read as a whole, and the numbers in them."""

from __future__ import annotations

import json
import math
from pathlib import Path

from citus_analysis.errors import FormatError


def document_of(data: bytes, what: str, path: Path | None) -> object:
    """The document in a text of JSON.

    Raises:
        FormatError: the text is no JSON.
    """
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not {what}: {error}", path=path) from error
    return document


def number_of(value: object, *, quoted: bool = False) -> float | None:
    """A finite number of a document; None for anything else.

    Args:
        value: a value of the document.
        quoted: whether a number may be written as a text.

    Example:
        >>> number_of(3), number_of("3"), number_of("3", quoted=True), number_of(True), number_of(float("nan"))
        (3.0, None, 3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int | float | str) if quoted else (int | float)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
