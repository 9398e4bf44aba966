"""Chunks to scanned chunks, by several threads, always in the order of the source.

The compiled scanner reads every log but those under syslog's header, which the scanner of regular expressions reads.
Both give the same rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from citus_analysis.formats._content import Content
from citus_analysis.formats.pglog._chunks import chunks
from citus_analysis.formats.pglog._fast import scan_fast
from citus_analysis.formats.pglog._native import is_readable
from citus_analysis.formats.pglog._prefix import Prefix
from citus_analysis.formats.pglog._scan import Scanned, scan

__all__ = ["CHUNK_BYTES", "scanned_chunks"]

CHUNK_BYTES: Final = 8 * 2**20
#: Regular expressions need several times a chunk in memory, so they get smaller ones.
_SMALL_CHUNK_BYTES: Final = 4 * 2**20


def scanned_chunks(content: Content, prefix: Prefix, jobs: int, chunk_bytes: int | None = None) -> Iterator[Scanned]:
    """The chunks of a source, scanned by up to `jobs` threads, in the order of the source."""
    scanner = scan_fast if is_readable(prefix) else scan
    size = chunk_bytes or (_SMALL_CHUNK_BYTES if scanner is scan else CHUNK_BYTES)
    pieces = chunks(content, prefix, size)
    if jobs <= 1:
        yield from (scanner(chunk, prefix) for chunk in pieces)
        return
    with ThreadPoolExecutor(jobs, thread_name_prefix="pglog") as pool:
        waiting: deque[Future[Scanned]] = deque()
        for chunk in pieces:
            waiting.append(pool.submit(scanner, chunk, prefix))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
