"""Verify that the files of a dataset are unchanged since they were written.

The manifest records the length of each part, a hash of its footer and a hash of all its bytes. Opening a dataset
compares lengths and footers, which costs some 15 µs per file. The first read of a table compares all of its bytes, at
4 GB/s, which is a small part of the time to decode them. Thus no row is ever read from bytes that changed; zstd and
Parquet alone yield wrong values for one damage in ten. Pages also carry Parquet's own checksums, for other tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from blake3 import blake3

from citus_analysis.dataset.storage.encoding import location
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.errors import DatasetError

_MISSING: Final = "a file of the dataset is missing"
#: A Parquet file ends with its footer, the footer's length in 4 bytes, and 4 bytes that identify the format.
_TRAILER_BYTES: Final = 8
#: Footers of most parts are shorter, so that one read suffices.
_GUESSED_FOOTER_BYTES: Final = 2**14
_OTHER_FOOTER: Final = "is damaged: its footer is not the one that was written"
_FOOTER_HASH_BYTES: Final = 8
_HASH_BYTES: Final = 16
_CHUNK_BYTES: Final = 2**20


def fingerprints(data: memoryview) -> tuple[int, str, str]:
    """Length, hash of the footer and hash of all bytes of a Parquet file, as the manifest records them."""
    footer = data[-_footer_bytes(data) :]
    return (
        len(data),
        blake3(footer).hexdigest(length=_FOOTER_HASH_BYTES),
        blake3(data).hexdigest(length=_HASH_BYTES),
    )


def check_footer(folder: Path, parts: Iterable[Part]) -> None:
    """Compare length and footer of files with the manifest.

    Raises:
        DatasetError: a file is missing or damaged; the message names it.
    """
    for part in parts:
        path = location(folder, part)
        problem = _footer_problem(path, part)
        if problem:
            raise _error(path, problem)


def check_content(folder: Path, parts: Iterable[Part]) -> None:
    """Compare all bytes of files with the manifest; a file that did not change since the last check is not read again.

    Raises:
        DatasetError: a file is missing or damaged; the message names it.
    """
    for part in parts:
        problem = content_problem(folder, part)
        if problem:
            raise _error(location(folder, part), problem)


def content_problem(folder: Path, part: Part) -> str | None:
    """The defect of a file; None if the file is intact, or if nothing was recorded of it."""
    path = location(folder, part)
    try:
        status = os.stat(path)  # noqa: PTH116 - see `location`
        if part.hash is None:
            return None
        if status.st_size != part.bytes:
            return _length_problem(status.st_size, part)
        changed = _hash(path, status.st_ino, status.st_size, status.st_mtime_ns) != part.hash
    except OSError as error:
        return _unreadable(error)
    return "is damaged: its bytes are not those that were written" if changed else None


def _footer_problem(path: str, part: Part) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            if part.footer_hash is None:
                return None
            if size != part.bytes:
                return _length_problem(size, part)
            tail = _tail(descriptor, size, _GUESSED_FOOTER_BYTES)
            wanted = _footer_bytes(tail)
            if len(tail) < wanted <= size:
                tail = _tail(descriptor, size, wanted)
        finally:
            os.close(descriptor)
    except OSError as error:
        return _unreadable(error)
    return footer_problem(tail, part)[0]


def footer_problem(tail: memoryview, part: Part) -> tuple[str | None, int]:
    """The defect of a file's footer, from the end of the file, and how many bytes at the end the footer takes."""
    wanted = _footer_bytes(tail)
    if wanted > len(tail):
        return _OTHER_FOOTER, min(wanted, part.bytes or 0)
    same = part.footer_hash in (None, blake3(tail[-wanted:]).hexdigest(length=_FOOTER_HASH_BYTES))
    return None if same else _OTHER_FOOTER, wanted


def _tail(descriptor: int, size: int, length: int) -> memoryview:
    return memoryview(os.pread(descriptor, length, max(0, size - length)))


def _footer_bytes(tail: memoryview) -> int:
    length = int.from_bytes(tail[-_TRAILER_BYTES : -_TRAILER_BYTES // 2], "little")
    return length + _TRAILER_BYTES


def _length_problem(size: int, part: Part) -> str:
    return f"is damaged: it has {size} bytes where {part.bytes} were written"


def _unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return _MISSING
    return f"cannot be read: {error.strerror}"


def _error(path: str, problem: str) -> DatasetError:
    repair = "ingest the sources again: it repairs the file"
    way_out = f"open the dataset again; where that does not help, {repair}" if problem == _MISSING else repair
    return DatasetError(problem, path=path, way_out=way_out)


@lru_cache(maxsize=2**16)
def _hash(path: str, inode: int, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - part of the cache key
    digest, chunk = blake3(), memoryview(bytearray(min(size, _CHUNK_BYTES) or 1))
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - see `location`
        while length := file.readinto(chunk):
            digest.update(chunk[:length])
    return digest.hexdigest(length=_HASH_BYTES)
