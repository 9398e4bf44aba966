"""PostgreSQL server logs (stderr, any `log_line_prefix`) to `log_events` and `checkpoints`.

A record is a line that begins with the prefix and a severity, and the lines behind it up to the next such line.
PostgreSQL begins those with a tab (spaces, too, are taken for one); lines that begin otherwise are other programs' or
damaged and become rejects, and so do lines with zero bytes and those in which a second record begins.
Text is not copied: a row has the record's place in the source, a fingerprint and the kind of its statement, and a
message only where the record carries no statement.

Technique. The limit is the walk over the bytes. Regular expressions (polars, DuckDB) need several walks and a string
per field. One walk in C fills numeric columns in place and numbers the distinct texts, so that Python sees no row; it
reads some 1,400 MB/s on one thread, and a process can begin at once, for polars, which takes longest to import, is left
out where nothing needs it. What it filled goes as Arrow arrays over the same memory to the Parquet writer, which then
takes longest. numba got as far in the walk, but costs half a second in each process and most of a minute of compilation
on each machine. The C code is built when the package is installed, by the machine's compiler or by one that pip fetches
for the build, and called through ctypes, so that it depends on no version of Python. What it
must give is defined in Python, with regular expressions: `tests/formats/pglog/oracle`, to whose rows tests hold it.

- `_prefix`: `log_line_prefix` to elements, a regular expression, and (`_program`) numbers for the compiled scanner;
- `_chunks`: whole records, bounded memory; `_read`: threads, results in order;
- `_records`, `_messages`: what a scanner is given and gives; messages, redacted and cut;
- `_scan`, `_details`: lines and records of csvlog, in regular expressions; details that are columns as rows;
- `native/`, `_layout`, `_native`, `_fast`, `_arrays`: the compiled scanner, its structures, its interface, its columns
  as Arrow arrays, and (`_rooms`) the memory that they stand in;
- `_pieces`, `_ties`, `_times`, `_checkpoints`: what needs the order of the source.

Limits: a shard's number is read off the first name that is qualified with a schema and ends in six or more digits,
which a user's own partition `public.events_202401` does too (traces believe it in a cluster only); syslog lines have
no year, so their time is null; a second record in a line is not noticed where the prefix does not begin with a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.options import LOG_LINE_PREFIX, TIMEZONE, Option
from citus_analysis.formats.serverlog.pglog._detect import best_prefix, find_prefix, is_server_log, looks_like_log
from citus_analysis.formats.serverlog.pglog._pieces import pieces
from citus_analysis.formats.serverlog.pglog._prefix import STUDY_PREFIX
from citus_analysis.formats.serverlog.pglog._read import prepared_chunks
from citus_analysis.formats.serverlog.pglog.compiled.library import compiled_scanner
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import LocalTime

__all__ = ["FORMAT", "STUDY_PREFIX", "PgLog", "compiled_scanner"]

_NAME: Final = re.compile(r"PGLOG-[0-9]+-[0-9]+\.log|postgresql.*\.log", re.IGNORECASE)


class PgLog(Format):
    """PostgreSQL server log written to stderr, with any `log_line_prefix`."""

    name: ClassVar[str] = "pglog"
    version: ClassVar[int] = 3
    tables: ClassVar[tuple[str, ...]] = ("log_events", "checkpoints")
    noise: ClassVar[str] = "blank lines at the beginning"
    options: ClassVar[tuple[Option, ...]] = (LOG_LINE_PREFIX, TIMEZONE)

    def detect(self, name: str, head: bytes) -> float:
        """Sure where a common prefix fits; fairly sure where lines at least carry severities."""
        named = _NAME.match(name) is not None
        if not head.strip():
            return 0.6 if named else 0.0
        prefix = best_prefix(head)
        if prefix is not None and named:
            return 0.95
        if prefix is not None and is_server_log(head, prefix):
            return 0.9
        return 0.6 if looks_like_log(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per chunk.

        Raises:
            FormatError: neither the given `log_line_prefix` nor a common one fits any line of the first megabyte.
            UsageError: the options `log_line_prefix` or `timezone` are malformed.
        """
        prefix = find_prefix(content, LOG_LINE_PREFIX.value(hints.options))
        local = LocalTime.of(content.path, hints.options)
        yield from pieces(prepared_chunks(content, prefix, local, hints.jobs))


FORMAT = PgLog()
