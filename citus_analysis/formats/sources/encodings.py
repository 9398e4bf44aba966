"""Detection of UTF-16 and UTF-32, which Windows shells and editors write."""

from __future__ import annotations

import codecs
from typing import Final

#: UTF-32 first, because its little-endian mark begins with that of UTF-16.
MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
#: Number of bytes examined, and the minimum for a decision.
_LOOKED_AT: Final = 1024
_LEAST: Final = 16
_TEXT: Final = frozenset({*range(0x20, 0x7F), *b"\t\r\n"})
#: Minimum share of ASCII text in the output of tools.
_MOST: Final = 0.9


def wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, as `iconv` names it, if a text is in one of these encodings; None for other encodings.

    Without a byte order mark, a text is UTF-16 if every other byte is NUL and the bytes between them are ASCII text,
    and UTF-32 if three of four bytes are NUL.

    Args:
        head: the first bytes of the file.

    Example:
        >>> wide_encoding("LOG:  duration".encode("utf-16-le")), wide_encoding(b"LOG:  duration: 1.0 ms")
        ('UTF-16LE', None)
    """
    marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    if marked is not None:
        return marked
    even, odd = head[:_LOOKED_AT:2], head[1:_LOOKED_AT:2]
    if len(odd) * 2 < _LEAST or b"\0" not in head[:_LOOKED_AT]:
        return None
    if _is_wide(head[:_LOOKED_AT:4], odd + head[2:_LOOKED_AT:4]):
        return "UTF-32LE"
    if _is_wide(head[3:_LOOKED_AT:4], even + head[1:_LOOKED_AT:4]):
        return "UTF-32BE"
    return "UTF-16LE" if _is_wide(even, odd) else "UTF-16BE" if _is_wide(odd, even) else None


def _is_wide(letters: bytes, zeros: bytes) -> bool:
    share = sum(letter in _TEXT for letter in letters) / len(letters)
    return share > _MOST and zeros.count(0) > _MOST * len(zeros)
