"""Names of places: URLs and paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

#: A scheme, as in `s3://bucket/key`.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether a place is named by a URL.

    Example:
        >>> is_url("s3://bucket/out"), is_url("out/s3"), is_url(Path("out"))
        (True, False, False)
    """
    return isinstance(place, str) and _URL.match(place) is not None


def place_of(text: str) -> Path | str:
    """A folder as a path; a URL as it is typed, because a path would lose one of its slashes.

    Example:
        >>> place_of("s3://bucket/out")
        's3://bucket/out'
    """
    return text if is_url(text) else Path(text)


def resolved_place(place: Path | str) -> Path | str:
    """The same result for all names of a folder or a URL.

    Example:
        >>> resolved_place("s3://bucket/out/"), resolved_place(Path("/tmp/../tmp")) == Path("/tmp").resolve()
        ('s3://bucket/out', True)
    """
    return place.resolve() if isinstance(place, Path) else place.rstrip("/")
