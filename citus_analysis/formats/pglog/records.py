"""Input and output of a scanner: a chunk of whole records, the roles of its lines, and rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import Unread
from citus_analysis.formats.parsing.format import EXCERPT_CHARS, Reject
from citus_analysis.formats.pglog.prefix import DETAIL_WORDS, SYSLOG_HEADER
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
class ScannedChunk:
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


def build_stray_rejects(chunk: Chunk, text: memoryview, starts: Integers, sizes: Integers) -> list[Reject]:
    """One reject per run of stray lines."""
    rejects = []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        broken_off = start + size == len(text) and b"\n" not in bytes(text[start:])
        reason = _BROKEN_OFF if broken_off and not chunk.tail else _NO_PREFIX
        excerpt = bytes(text[start : start + min(size, 4 * EXCERPT_CHARS)])
        rejects.append(Reject(chunk.offset + start, size, reason, excerpt))
    return rejects


# Details of records, which are columns of csvlog and jsonlog, as separate rows, as in the stderr log.

DETAIL_SEVERITIES: Final = ("DETAIL", "HINT", "QUERY", "CONTEXT", "STATEMENT", "LOCATION", "BACKTRACE")

#: Name of a text in csvlog and jsonlog -> severity of the row it becomes.
DETAILS: Final = {
    "detail": "DETAIL",
    "hint": "HINT",
    "internal_query": "QUERY",
    "context": "CONTEXT",
    "statement": "STATEMENT",
}

# Messages in lines of syslog, without its headers.
#
# PostgreSQL passes a message to syslog in pieces (`syslog_split_messages`): one per line, several for a long line.
# Syslog writes its header before each piece, escapes control characters (`#011` is a tab), and may put lines of other
# processes between the pieces. All pieces of a message have its process and its number.

#: Syslog's escapes of control characters.
CONTROLS: Final = {"#011": "\t", "#012": "\n", "#015": "\r"}
#: PostgreSQL writes a tab before each further line of a message, but not before the rest of a long line that it cut.
BREAK: Final = r"^(?:#011|\t)"
#: Bytes after a record that are searched for the rest of its message.
BEYOND_BYTES: Final = 64 * 2**10

_HEADER: Final = re.compile(SYSLOG_HEADER)
_BREAK: Final = re.compile(BREAK)
_CONTROL: Final = re.compile("|".join(CONTROLS))
_DETAIL: Final = re.compile(rf"(?:{DETAIL_WORDS}):  ")


def is_syslog(record: str) -> bool:
    """Whether a record begins with syslog's header."""
    return _HEADER.match(record) is not None


def whole_message(lines: str) -> str:
    r"""The message that begins in the first of these lines of syslog, as PostgreSQL wrote it; other text unchanged.

    Args:
        lines: the record and the text after it, which may contain the rest of its message.

    Example:
        >>> one, other = (f"Feb 11 13:15:40 host postgres[{pid}]: " for pid in (7, 8))
        >>> lines = f"{one}[3-1] LOG:  statement: SELECT\n{one}[3-2] #011 1 +\n{other}[5-1] LOG:  x\n{one}[3-3]  2"
        >>> whole_message(lines)[-14:]
        'SELECT\n\t 1 + 2'
    """
    head = _HEADER.match(lines)
    if head is None:
        return lines
    first, *further = lines.split("\n")
    pieces = [first]
    for line in further:
        found = _HEADER.match(line)
        if found is None or found["p"] != head["p"]:
            continue
        piece = line[found.end() :]
        broken = _BREAK.match(piece) is not None
        if found["l"] != head["l"] or line[: found.end()].endswith("[1] ") or (not broken and _DETAIL.search(piece)):
            break
        pieces.append("\n" + piece if broken else piece)
    return _CONTROL.sub(lambda spelled: CONTROLS[spelled[0]], "".join(piece.rstrip("\r") for piece in pieces))
