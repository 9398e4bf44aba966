"""The argument that names a dataset: a folder, or a URL of an object store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["dataset_place", "is_url"]

#: A scheme, as in `s3://bucket/key`.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(text: str) -> bool:
    """Whether a text names a place by a URL.

    Example:
        >>> is_url("s3://bucket/out"), is_url("out/s3")
        (True, False)
    """
    return _URL.match(text) is not None


def dataset_place(text: str) -> Path | str:
    """Type of a click parameter: a folder as a path; a URL as it is typed, for a path would lose one of its slashes.

    Example:
        >>> dataset_place("s3://bucket/out")
        's3://bucket/out'
    """
    return text if is_url(text) else Path(text)
