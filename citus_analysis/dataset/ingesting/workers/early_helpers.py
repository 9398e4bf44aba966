"""Helpers that a command starts before it imports what it needs itself, so that both import at the same time.

A pool starts its helpers when it knows the number of files. Before that, the command imports the library and looks for
the files, which takes as long as the helper's own imports do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from citus_analysis.dataset.ingesting.workers.helper_process import Helper, NoAnswerError

__all__ = ["HELPED_ITEMS", "first_files", "helpers_ahead", "taken"]

#: A helper takes half a second of processor time to start, as much as reading about this many small files.
HELPED_ITEMS: Final = 64

_waiting: list[Helper] = []


@contextmanager
def helpers_ahead(files: Sequence[str], jobs: int) -> Iterator[None]:
    """Start helpers for an ingest of new files, if it has several jobs and enough files; end those that nobody took.

    Args:
        files: its first files (:func:`first_files`).
        jobs: threads.
    """
    if len(files) == HELPED_ITEMS:
        with suppress(NoAnswerError):
            _waiting.extend(Helper() for _ in range(jobs - 1))
    try:
        yield
    finally:
        for helper in taken():
            helper.end()


def first_files(sources: Iterable[Path | str]) -> list[str]:
    """Paths of the first files, at most :data:`HELPED_ITEMS`, of files and folders; URLs are not looked at.

    Example:
        >>> first_files(["s3://bucket/logs", Path("no-such-folder")])
        []
    """
    return list(islice(_files(sources), HELPED_ITEMS))


def _files(sources: Iterable[Path | str]) -> Iterator[str]:
    for source in sources:
        if isinstance(source, Path):
            yield from [str(source)] if source.is_file() else ()
            yield from (os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names)  # noqa: PTH118


def taken() -> list[Helper]:
    """The helpers that were started; they belong to the caller from now on.

    Example:
        >>> taken()
        []
    """
    found = _waiting.copy()
    _waiting.clear()
    return found
