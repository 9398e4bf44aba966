"""Chunks to scanned chunks: which scanner, how many threads, always in the order of the source.

The compiled scanner is some fifty times faster than the regular expressions, but costs a compilation of half a
minute once per installation (numba keeps the result beside the module, or in the user's cache folder where that
is read-only) and half a second to load in every process. So a small log is read with regular expressions, unless
the compiled scanner is loaded already; a log of medium size too, until the scanner has been compiled once. Both
give the same rows.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from citus_analysis.formats._content import Content
from citus_analysis.formats.pglog._chunks import chunks
from citus_analysis.formats.pglog._prefix import Prefix
from citus_analysis.formats.pglog._scan import Chunk, Scanned, scan

__all__ = ["CHUNK_BYTES", "scanned_chunks", "scanner_for", "warm_up"]

Scanner = Callable[[Chunk, Prefix], Scanned]

CHUNK_BYTES: Final = 8 * 2**20
#: Compressed logs of benchmarks shrink to about an eighth.
_EXPANSION: Final = 8
_WORTH_LOADING: Final = 4 * 2**20
_WORTH_COMPILING: Final = 128 * 2**20
_FAST: Final = "citus_analysis.formats.pglog._fast"
#: Regular expressions need several times a chunk in memory, so they get smaller ones.
_SMALL_CHUNK_BYTES: Final = 4 * 2**20


def scanned_chunks(content: Content, prefix: Prefix, jobs: int, chunk_bytes: int | None = None) -> Iterator[Scanned]:
    """The chunks of a source, scanned by up to `jobs` threads, in the order of the source."""
    # The compiled scanner knows no syslog header.
    scanner = scan if prefix.syslog else scanner_for(content)
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


def scanner_for(content: Content) -> Scanner:
    """The scanner that is done sooner."""
    size = content.path.stat().st_size * (1 if content.compression == "none" else _EXPANSION)
    loaded = _FAST in sys.modules
    worth = _WORTH_LOADING if _is_compiled() else _WORTH_COMPILING
    if not loaded and size < worth:
        return scan
    from citus_analysis.formats.pglog._fast import scan_fast

    return scan_fast


def warm_up() -> None:
    """Compile the scanner now, so that no ingest has to."""
    from citus_analysis.formats.pglog._fast import scan_fast
    from citus_analysis.formats.pglog._prefix import STUDY_PREFIX, compile_prefix

    scan_fast(Chunk(0, b"\n", fresh=True), compile_prefix(STUDY_PREFIX))


def _is_compiled() -> bool:
    """Whether numba has kept the scanner's machine code: its index file is beside the module."""
    return any((Path(__file__).parent / "__pycache__").glob("_kernel.scan_chunk-*.nbi"))
