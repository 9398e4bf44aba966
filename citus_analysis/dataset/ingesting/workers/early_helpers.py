"""Helpers that a command starts before it imports what it needs itself, so that both import at the same time.

A pool starts its helpers when it knows the number of files. Before that, the command imports the library and looks for
the files, which takes as long as the helper's own imports do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from citus_analysis.dataset.ingesting.workers.helper_process import Helper, NoAnswerError

__all__ = ["HELPED_ITEMS", "helpers_ahead", "taken"]

#: A helper takes half a second of processor time to start, as much as reading about this many small files.
HELPED_ITEMS: Final = 64

_waiting: list[Helper] = []


@contextmanager
def helpers_ahead(sources: Iterable[Path | str], jobs: int | None) -> Iterator[None]:
    """Start helpers for an ingest of new files, if it has several jobs and enough files; end those that nobody took.

    Args:
        sources: files and folders; URLs are not looked at.
        jobs: threads; default: all cores that the process may use.
    """
    others = (jobs or len(os.sched_getaffinity(0))) - 1
    if others > 0 and len(list(islice(_files(sources), HELPED_ITEMS))) == HELPED_ITEMS:
        with suppress(NoAnswerError):
            _waiting.extend(Helper() for _ in range(others))
    try:
        yield
    finally:
        for helper in taken():
            helper.end()


def _files(sources: Iterable[Path | str]) -> Iterator[str]:
    for source in sources:
        if isinstance(source, Path):
            yield from [str(source)] if source.is_file() else ()
            yield from (name for _, _, names in os.walk(source) for name in names)


def taken() -> list[Helper]:
    """The helpers that were started; they belong to the caller from now on.

    Example:
        >>> taken()
        []
    """
    found = _waiting.copy()
    _waiting.clear()
    return found
