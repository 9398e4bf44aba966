"""Chunks of a source scanned by several threads and returned in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from citus_analysis.core.threads import in_order
from citus_analysis.formats.serverlog.pglog._chunks import chunks
from citus_analysis.formats.serverlog.pglog._ordered_tables import ChunkTables, tables_of_chunk
from citus_analysis.formats.serverlog.pglog._plans import said_in_syslog, said_in_text
from citus_analysis.formats.serverlog.pglog._prefix import Prefix
from citus_analysis.formats.serverlog.pglog._records import Chunk
from citus_analysis.formats.serverlog.pglog._syslog import BEYOND_BYTES
from citus_analysis.formats.serverlog.pglog.fallback.chosen_reader import scanner
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import LocalTime

#: Large, because each chunk has a fixed cost of some milliseconds; larger ones need more memory without much gain.
CHUNK_BYTES: Final = 28 * 2**20


def scanned_chunks(content: Content, prefix: Prefix, local: LocalTime, jobs: int) -> Iterator[ChunkTables]:
    """The chunks of a source, scanned by up to `jobs` threads, in the order of the source.

    Args:
        content: the log.
        prefix: its prefix.
        local: rules for its times.
        jobs: number of scanning threads.
    """
    scan = scanner(prefix)
    said, beyond = (said_in_syslog, BEYOND_BYTES) if prefix.syslog else (said_in_text, 0)

    def work(chunk: Chunk) -> ChunkTables:
        return tables_of_chunk(scan(chunk), local, chunk.offset, chunk.data, said, beyond)

    return in_order(chunks(content, prefix, CHUNK_BYTES), work, jobs, "pglog")
