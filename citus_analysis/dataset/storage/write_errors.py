"""Errors for a dataset that cannot be written: a full disk, a quota, a read-only folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from citus_analysis.errors import DatasetError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def unwritable(error: OSError, path: Path, place: str | None = None) -> DatasetError:
    """The error for a file that cannot be written, with the way out.

    Example:
        >>> str(unwritable(OSError(errno.ENOSPC, "Detail: ..."), Path("out"), "runs of V3"))
        'out: runs of V3: cannot be written: No space left on device (make room and ingest again; the rest is kept)'
    """
    # Arrow keeps the operating system's error number, but replaces the message.
    reason = os.strerror(error.errno) if error.errno else str(error)
    way_out = "make room and ingest again; the rest is kept" if error.errno in _NO_ROOM else "check permissions"
    where = error.filename if isinstance(error.filename, str | bytes) else path
    return DatasetError(f"cannot be written: {reason}", path=os.fsdecode(where), place=place, way_out=way_out)


@contextmanager
def writing(path: Path, place: str) -> Iterator[None]:
    """Turns a failure to write into a :class:`DatasetError`.

    Args:
        path: file or folder that is written.
        place: part of it.
    """
    try:
        yield
    except OSError as error:
        raise unwritable(error, path, place) from error
