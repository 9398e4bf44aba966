"""Files that a person names for results: whole or as they were before, whatever the name stands for.

A file appears under its name only when it is complete. A link is followed, so that the file it leads to changes and
the link stays. What is no regular file (a device, a named pipe) and what is our own output (`/dev/stdout`) is written
into and never replaced.

Example:
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "trace.json"
    >>> with open_output(path) as out:
    ...     _ = out.write(b"{}")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'{}'
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

__all__ = ["is_replaced", "naming", "open_output", "put_in_place"]

_STANDARD_STREAMS = (1, 2)


def is_replaced(path: str | PathLike[str]) -> bool:
    """Whether a result goes into a file of its own, and not into a device, a pipe or our own output.

    Example:
        >>> is_replaced("/dev/null"), is_replaced("trace.json")
        (False, True)
    """
    try:
        there = Path(path).stat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(there.st_mode) and _own_stream(there) is None


@contextmanager
def open_output(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream of bytes that becomes the file when the block ends well; after an error the file is as it was.

    Raises:
        OSError: the file cannot be written.
    """
    if is_replaced(path):
        with _replacing(Path(os.path.realpath(path))) as out:
            yield out
        return
    stream = _own_stream(Path(path).stat())
    # A stream of our own is shared, not opened again: that would write over what it holds already.
    with Path(path).open("wb") if stream is None else os.fdopen(os.dup(stream), "wb") as out:
        yield out


@contextmanager
def naming(path: str | PathLike[str]) -> Iterator[None]:
    """Errors of writing a file name it: the system names a file that cannot be opened, not one that has no room left.

    Example:
        >>> with naming("runs/journal.jsonl"):
        ...     raise OSError(errno.ENOSPC, "No space left on device")
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: 'runs/journal.jsonl'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def put_in_place(finished: Path, path: str | PathLike[str]) -> None:
    """Give a finished file its final name; the same rules as for :func:`open_output` hold.

    Raises:
        OSError: the file cannot be written.
    """
    if is_replaced(path):
        try:
            finished.replace(os.path.realpath(path))
        except OSError as error:
            # A link may lead to another file system.
            if error.errno != errno.EXDEV:
                raise
        else:
            return
    with finished.open("rb") as source, open_output(path) as out:
        shutil.copyfileobj(source, out)
    finished.unlink()


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    unfinished = target.with_name(f".unfinished-{target.name}")
    try:
        with unfinished.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _own_stream(file: os.stat_result) -> int | None:
    for number in _STANDARD_STREAMS:
        with suppress(OSError):
            if os.path.samestat(file, os.fstat(number)):
                return number
    return None
