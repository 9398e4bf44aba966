r"""Messages in lines of syslog, without its headers.

PostgreSQL passes a message to syslog in pieces (`syslog_split_messages`): one per line, several for a long line. Syslog
writes its header before each piece, escapes control characters (`#011` is a tab), and may put lines of other processes
between the pieces. All pieces of a message have its process and its number.
"""

from __future__ import annotations

import re
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import DETAIL_WORDS, SYSLOG_HEADER

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
