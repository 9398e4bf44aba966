"""PostgreSQL server logs (stderr, any `log_line_prefix`) to `log_events`, `checkpoints`, `plans` and `plan_nodes`.

A record is a line that begins with the prefix and a severity, and the lines after it up to the next such line.
PostgreSQL begins continuation lines with a tab (spaces are accepted too). Other lines come from other programs or are
damaged; they become rejects, as do lines with zero bytes and lines in which a second record begins.
Text is not copied: a row has the record's place in the source, a fingerprint and the kind of its statement, and a
message only if the record has no statement.

Technique. The pass over the bytes limits the speed. Regular expressions (polars, DuckDB) need several passes and a
string per field. One pass in C fills numeric columns in place and numbers the distinct texts, without Python code per
row; it reads some 1,400 MB/s on one thread. A process starts quickly, because polars, the slowest import, is loaded
only if needed. The filled memory is passed as Arrow arrays to the Parquet writer, which is then the slowest part.
numba was as fast in the pass, but costs half a second in each process and most of a minute of compilation on each
machine. The C code is built when the package is installed, by the machine's compiler or by one that pip fetches for
the build, and called through ctypes, so that it depends on no version of Python. The tests compare its results with
those of another implementation, in Python with regular expressions (`tests/formats/pglog/oracle`).

- `prefix`, `inference`: a `log_line_prefix` as elements and as a regular expression, and how it is inferred from lines;
- `detection`: whether a text is a server log, and its prefix; `chunking`: whole records in bounded memory, of logs that
  several processes may read at once;
- `compiled`: the calls of the compiled scanner (`native/`), with what they take and give: `layout` (codes and
  structures), `prefix_program` (the prefix as numbers), `filled_columns`, `filled_arrays`, `string_views`;
- `scanned_chunks`: records of a chunk; `detail_links`: details of records; `assembly`: executions put together;
- `regular_expressions`: lines and heads of records for csvlog, and for lines longer than the cap;
- `languages`: logs in other languages, translated line by line before they are scanned;
- `records`, `tables`: input and output of a scanner; messages, plans and checkpoints in the order of the source.

Limits: a shard's number is taken from the first name that is qualified with a schema and ends in six or more digits,
which also matches a user's partition `public.events_202401` (traces use it in a cluster only); syslog lines have no
year, so their time is null; a second record in a line is detected only if the prefix begins with a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from citus_analysis.core.parallel import map_in_order
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import LOG_LINE_PREFIX, TIMEZONE, Hints
from citus_analysis.formats.parsing.time_zones import LocalTime
from citus_analysis.formats.pglog.chunking import ServerLog, split_into_record_chunks
from citus_analysis.formats.pglog.compiled import compiled_scanner
from citus_analysis.formats.pglog.detection import (
    explains,
    find_prefix,
    has_mark_signs,
    infer_best_prefix,
    is_explained,
    is_server_log,
    looks_like_log,
    may_be_log,
    translate_log_head,
)
from citus_analysis.formats.pglog.languages import find_severities
from citus_analysis.formats.pglog.prefix import STUDY_PREFIX, Prefix
from citus_analysis.formats.pglog.records import BEYOND_BYTES, Chunk, ScannedChunk, is_syslog, whole_message
from citus_analysis.formats.pglog.scanned_chunks import Memory, scan_fast
from citus_analysis.formats.pglog.tables import (
    ChunkTables,
    build_chunk_tables,
    extract_stderr_message,
    extract_syslog_message,
)

# Chunks of a source scanned by several threads and returned in the order of the source.

#: Large, because each chunk has a fixed cost of some milliseconds; larger ones need more memory without much gain.
CHUNK_BYTES: Final = 28 * 2**20


def choose_scanner(prefix: Prefix) -> Callable[[Chunk], ScannedChunk]:
    """The function that gives the records of the chunks of one log."""
    if prefix.language:
        from citus_analysis.formats.pglog.translation import scan_translated_chunk

        english = choose_scanner(replace(prefix, language=""))
        return partial(scan_translated_chunk, scan=english, language=prefix.language)
    return partial(scan_fast, prefix=prefix, memory=Memory())


def scanned_chunks(content: Content, prefix: Prefix, local: LocalTime, jobs: int) -> Iterator[ChunkTables]:
    """The chunks of a source, scanned by up to `jobs` threads, in the order of the source.

    Args:
        content: the log.
        prefix: its prefix.
        local: rules for its times.
        jobs: number of scanning threads.
    """
    scan = choose_scanner(prefix)
    said, beyond = (extract_syslog_message, BEYOND_BYTES) if prefix.syslog else (extract_stderr_message, 0)

    def work(chunk: Chunk) -> ChunkTables:
        return build_chunk_tables(scan(chunk), local, chunk.offset, chunk.data, said, beyond)

    return map_in_order(split_into_record_chunks(content, prefix, CHUNK_BYTES), work, jobs, "pglog")


__all__ = [
    "BEYOND_BYTES",
    "FORMAT",
    "STUDY_PREFIX",
    "PgLog",
    "compiled_scanner",
    "is_syslog",
    "whole_message",
]

_NAME: Final = re.compile(r"PGLOG-[0-9]+-[0-9]+\.log|postgresql.*\.log", re.IGNORECASE)


class PgLog(ServerLog):
    """PostgreSQL server log written to stderr, with any `log_line_prefix`."""

    name: ClassVar[str] = "pglog"
    version: ClassVar[int] = 11
    tables = ("log_events", "checkpoints", "plans", "plan_nodes")
    noise = "blank lines at the beginning"
    options = (LOG_LINE_PREFIX, TIMEZONE)
    looks_back: ClassVar[bool] = True

    def detect(self, name: str, head: bytes) -> float:
        """High if a prefix explains the lines; lower if lines only have severities, or another text precedes them."""
        named = _NAME.match(name) is not None
        if not head.strip():
            return 0.6 if named else 0.0
        if not has_mark_signs(head):
            return 0.0
        head = translate_log_head(head)
        if not may_be_log(head):
            return 0.0
        prefix = infer_best_prefix(head)
        if prefix is not None and (named or is_server_log(head, prefix)):
            if explains(head, prefix):
                return 0.95 if named else 0.9
            if not prefix.wrapped:
                return 0.6
        return 0.6 if looks_like_log(head) else 0.0

    def find_sign(self, text: bytes) -> int:
        """Where the first severity in any language ends."""
        return min(find_severities(text), default=-1)

    def is_explained(self, head: bytes, stated: str) -> bool:
        """Whether a stated `log_line_prefix` explains nearly all lines.

        Raises:
            UsageError: it is malformed.
        """
        return is_explained(head, stated)

    def heads(self, content: Content, hints: Hints) -> Prefix:
        """The prefix of the log.

        Raises:
            FormatError: the given `log_line_prefix` fits no line of the first megabyte, and none can be inferred.
            UsageError: the option `log_line_prefix` is malformed.
        """
        return find_prefix(content, LOG_LINE_PREFIX.value(hints.options))

    def source_facts(self, content: Content, hints: Hints) -> Mapping[str, str]:
        """The prefix, whether it was given or inferred, and what each field of it may be that is not decided.

        Raises:
            FormatError: no prefix fits.
            UsageError: the option `log_line_prefix` is malformed.
        """
        prefix, given = self.heads(content, hints), LOG_LINE_PREFIX.value(hints.options)
        if not prefix.inferred and given is None:
            return {}
        facts = {"log_line_prefix": prefix.text, "log_line_prefix_origin": "inferred" if prefix.inferred else "given"}
        return facts | ({"log_line_prefix_undecided": "; ".join(prefix.undecided)} if prefix.undecided else {})

    def is_cuttable(self, content: Content, hints: Hints) -> bool:
        """Not in syslog, where a message may continue after any record.

        Not in another language either, whose lines are translated one chunk after another.
        """
        prefix = self.heads(content, hints)
        return not (prefix.syslog or prefix.language)

    def chunk_tables(self, content: Content, hints: Hints) -> Iterator[ChunkTables]:
        """The chunks of the log, scanned by up to `jobs` threads.

        Raises:
            FormatError: no prefix fits.
            UsageError: the options `log_line_prefix` or `timezone` are malformed.
        """
        local = LocalTime.of(content.path, hints.options)
        yield from scanned_chunks(content, self.heads(content, hints), local, hints.jobs)


FORMAT = PgLog()
