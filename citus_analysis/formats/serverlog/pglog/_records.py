"""Input and output of a scanner: a chunk of whole records, the roles of its lines, and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.api.format import EXCERPT_CHARS, Reject
from citus_analysis.formats.sources.content import Unread
from citus_analysis.schema import SEVERITIES, Rows

#: Roles of a line: it continues a record, begins one, is blank before the first, or belongs to none.
CONTINUED, RECORD, BLANK, STRAY = range(4)
#: Severities from this one on are those of details of the record before.
FIRST_DETAIL: Final = SEVERITIES.index("DETAIL")
_BROKEN_OFF: Final = "the log ends within this line"
_NO_PREFIX: Final = "no log_line_prefix where a record should begin, or a damaged line"


@dataclass(frozen=True)
class Chunk:
    """Whole records.

    Attributes:
        offset: offset of its first byte in the source.
        text: its bytes, or the block from which they can be read.
        tail: number of bytes after the text that belong to its only record (or stray line), which is capped.
        fresh: only blank lines precede it in the source.
    """

    offset: int
    text: bytes | Unread
    tail: int = 0
    fresh: bool = False

    def data(self) -> bytes:
        """Its bytes.

        Raises:
            InputError: the file cannot be read.
        """
        return self.text.read().data if isinstance(self.text, Unread) else self.text


@dataclass(frozen=True)
class Scanned:
    """The content of a chunk.

    Attributes:
        rows: one per record: offsets within the source, `clock` and `zone` in place of `log_time`; columns without
            values may be absent.
        rejects: lines outside of records.
        parsed_bytes: bytes of the records.
        noise_bytes: blank lines before the first record.
    """

    rows: Rows
    rejects: list[Reject]
    parsed_bytes: int
    noise_bytes: int


def stray_rejects(chunk: Chunk, text: memoryview, starts: Integers, sizes: Integers) -> list[Reject]:
    """One reject per run of stray lines."""
    rejects = []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        broken_off = start + size == len(text) and b"\n" not in bytes(text[start:])
        reason = _BROKEN_OFF if broken_off and not chunk.tail else _NO_PREFIX
        excerpt = bytes(text[start : start + min(size, 4 * EXCERPT_CHARS)])
        rejects.append(Reject(chunk.offset + start, size, reason, excerpt))
    return rejects
