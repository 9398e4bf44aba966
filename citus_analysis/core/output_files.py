"""Result files named by the user: after a write they are either complete or unchanged.

A file appears under its name only when it is complete. Links are followed: the target changes and the link remains.
Devices, named pipes and the process's own output (`/dev/stdout`) are written to directly and never replaced.

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

_STANDARD_STREAMS = (1, 2)


def is_replaced(path: str | PathLike[str]) -> bool:
    """Whether the result is a regular file, not a device, a pipe or the process's own output.

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
    """A stream of bytes that becomes the file when the block succeeds; after an error the file is unchanged.

    Raises:
        OSError: the file cannot be written.
    """
    if is_replaced(path):
        with _replace_atomically(Path(os.path.realpath(path))) as out:
            yield out
        return
    stream = _own_stream(Path(path).stat())
    # The process's own streams are shared: opening one again would overwrite its earlier output.
    with Path(path).open("wb") if stream is None else os.fdopen(os.dup(stream), "wb") as out:
        yield out


@contextmanager
def add_path_to_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Add the file's name to errors of writing; the system names it only in errors of opening.

    Example:
        >>> with add_path_to_errors("runs/journal.jsonl"):
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
    """Give a finished file its final name, by the rules of :func:`open_output`.

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
def _replace_atomically(target: Path) -> Iterator[IO[bytes]]:
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
