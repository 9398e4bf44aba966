"""Hashes of large files that a command begins before it imports what it needs.

Hashing does not need the interpreter, and imports leave all processors but one idle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from citus_analysis.dataset.discover.walk import size_and_time
from citus_analysis.dataset.ingesting.workers.early_helpers import HELPED_ITEMS
from citus_analysis.dataset.storage.digests import content_hash

__all__ = ["BIG_BYTES", "hash_of", "hashes_ahead"]

#: A file of at least this size on disk is hashed ahead, and read alone, with all threads.
BIG_BYTES: Final = 32 * 2**20


class _Begun(NamedTuple):
    """The hash of a file, and the size and time of the file when that was begun."""

    size_and_time: tuple[int, int]
    hash: Future[str]


_begun: dict[Path, _Begun] = {}


@contextmanager
def hashes_ahead(files: Sequence[str], jobs: int) -> Iterator[None]:
    """Hash the large ones of a few files in other threads, if there are several jobs.

    Args:
        files: the first files of an ingest; where these are not all, they are small for the most part.
        jobs: threads.
    """
    if jobs == 1 or len(files) >= HELPED_ITEMS:
        yield
        return
    with ThreadPoolExecutor(jobs, thread_name_prefix="hash") as threads:
        try:
            for path, found in _big(files):
                _begun[path] = _Begun(found, threads.submit(content_hash, path))
            yield
        finally:
            _begun.clear()
            threads.shutdown(wait=False, cancel_futures=True)


def _big(files: Sequence[str]) -> Iterator[tuple[Path, tuple[int, int]]]:
    for file in files:
        # As the walk of an ingest names it.
        path = Path(os.path.abspath(file))  # noqa: PTH100 - pathlib only resolves
        found = size_and_time(path)
        if found is not None and found[0] >= BIG_BYTES:
            yield path, found


def hash_of(path: Path) -> str:
    """The :func:`content_hash` of a file: the one begun ahead, unless the file changed since then.

    Raises:
        OSError: the file cannot be read.
    """
    begun = _begun.pop(path, None)
    if begun is None or begun.size_and_time != size_and_time(path):
        return content_hash(path)
    return begun.hash.result()
