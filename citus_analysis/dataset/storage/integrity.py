"""Verify that the files of a dataset are unchanged since they were written.

The manifest records the length of each part, a hash of its footer and a hash of all its bytes. Opening a dataset
compares lengths and footers, which costs some 15 µs per file. The first read of a table compares all of its bytes, at
4 GB/s, which is a small part of the time to decode them. Thus no row is ever read from bytes that changed; zstd and
Parquet alone yield wrong values for one damage in ten. Pages also carry Parquet's own checksums, for other tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from blake3 import blake3

from citus_analysis.dataset.storage.digests import content_hash
from citus_analysis.dataset.storage.encoding import location
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.errors import DatasetError

MISSING: Final = "a file of the dataset is missing"
#: A Parquet file ends with its footer, the footer's length in 4 bytes, and 4 bytes that identify the format.
_TRAILER_BYTES: Final = 8
#: Footers of most parts are shorter, so that one read suffices.
_GUESSED_FOOTER_BYTES: Final = 2**14
_OTHER_FOOTER: Final = "is damaged: its footer is not the one that was written"
_FOOTER_HASH_BYTES: Final = 8
_HASH_BYTES: Final = 16
OTHER_BYTES: Final = "is damaged: its bytes are not those that were written"


def fingerprints(data: memoryview) -> tuple[int, str, str]:
    """Length, hash of the footer and hash of all bytes of a Parquet file, as the manifest records them."""
    footer = data[-_footer_bytes(data) :]
    return (len(data), blake3(footer).hexdigest(length=_FOOTER_HASH_BYTES), blake3(data).hexdigest(length=_HASH_BYTES))


def check_footer(folder: Path, parts: Iterable[Part]) -> None:
    """Compare length and footer of files with the manifest.

    Raises:
        DatasetError: a file is missing or damaged; the message names it.
    """
    _require_intact(folder, parts, _footer_problem)


def check_content(folder: Path, parts: Iterable[Part]) -> None:
    """Compare all bytes of files with the manifest; a file that did not change since the last check is not read again.

    Raises:
        DatasetError: a file is missing or damaged; the message names it.
    """
    _require_intact(folder, parts, content_problem)


def _require_intact(folder: Path, parts: Iterable[Part], problem_of: Callable[[Path, Part], str | None]) -> None:
    for part in parts:
        if problem := problem_of(folder, part):
            raise defective(location(folder, part), problem)


def content_problem(folder: Path, part: Part) -> str | None:
    """The defect of a file; None if the file is intact, or if nothing was recorded of it."""
    path = location(folder, part)
    try:
        status = os.stat(path)  # noqa: PTH116 - see `location`
        if part.hash is None:
            return None
        if problem := length_problem(status.st_size, part):
            return problem
        return None if _hash(path, status.st_ino, status.st_size, status.st_mtime_ns) == part.hash else OTHER_BYTES
    except OSError as error:
        return _unreadable(error)


def _footer_problem(folder: Path, part: Part) -> str | None:
    try:
        with open(location(folder, part), "rb", buffering=0) as file:  # noqa: PTH123 - see `location`
            size = os.fstat(file.fileno()).st_size
            if part.footer_hash is None:
                return None
            if problem := length_problem(size, part):
                return problem
            tail = _tail(file.fileno(), size, _GUESSED_FOOTER_BYTES)
            wanted = _footer_bytes(tail)
            if len(tail) < wanted <= size:
                tail = _tail(file.fileno(), size, wanted)
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
    return int.from_bytes(tail[-_TRAILER_BYTES : -_TRAILER_BYTES // 2], "little") + _TRAILER_BYTES


def length_problem(size: int | None, part: Part) -> str | None:
    """The defect of a file of some length; None as the length: it is not there."""
    if size is None:
        return MISSING
    return None if size == part.bytes else f"is damaged: it has {size} bytes where {part.bytes} were written"


def _unreadable(error: OSError) -> str:
    return MISSING if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def defective(path: str, problem: str) -> DatasetError:
    """The error for a file with a defect, with the way out."""
    repair = "ingest the sources again: it repairs the file"
    way_out = f"open the dataset again; where that does not help, {repair}" if problem == MISSING else repair
    return DatasetError(problem, path=path, way_out=way_out)


@lru_cache(maxsize=2**16)
def _hash(path: str, inode: int, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - part of the cache key
    return content_hash(Path(path))
