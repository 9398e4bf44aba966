"""PostgreSQL server logs (stderr, any `log_line_prefix`) to `log_events` and `checkpoints`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from citus_analysis.formats._base import Format, Hints, Parsed
from citus_analysis.formats._content import Content
from citus_analysis.formats.pglog._detect import best_prefix, find_prefix, looks_like_log
from citus_analysis.formats.pglog._pieces import pieces
from citus_analysis.formats.pglog._read import scanned_chunks

__all__ = ["FORMAT", "PgLog"]

_NAME: Final = re.compile(r"PGLOG-[0-9]+-[0-9]+\.log|postgresql.*\.log", re.IGNORECASE)


class PgLog(Format):
    """PostgreSQL server log written to stderr."""

    name: ClassVar[str] = "pglog"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("log_events", "checkpoints")

    def detect(self, name: str, head: bytes) -> float:
        """Sure where a common prefix fits; fairly sure where lines at least carry severities."""
        named = _NAME.match(name) is not None
        if not head.strip():
            return 0.6 if named else 0.0
        if best_prefix(head) is not None:
            return 0.95 if named else 0.9
        return 0.6 if looks_like_log(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per chunk.

        Raises:
            FormatError: neither the given `log_line_prefix` nor a common one fits any line of the first megabyte.
            UsageError: the options `log_line_prefix` or `timezone` are malformed.
        """
        prefix = find_prefix(content, hints.options.get("log_line_prefix"))
        yield from pieces(scanned_chunks(content, prefix, hints.jobs), hints)


FORMAT = PgLog()
