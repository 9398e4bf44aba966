"""A prefix as numbers, which the compiled scanner interprets instead of a regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from citus_analysis.formats.pglog.layout import ELEMENTS, FIELDS
from citus_analysis.formats.pglog.prefix import (
    LISTS,
    SEVERITY_WORDS,
    TEXT_ESCAPES,
    Prefix,
)
from citus_analysis.formats.pglog.string_views import Bytes

LITERAL, TEXT, STAMP, DIGITS, VXID, SESSION, STATE, EPOCH, SYSLOG, HOST = range(len(ELEMENTS))
#: Field of each escape; the first element of an escape fills it, further ones are only matched.
FIELD_CODES: Final = {name: code for code, name in enumerate(FIELDS)}
_FIELD_OF: Final = {
    "m": "clock",
    "t": "clock",
    "n": "epoch",
    "p": "pid",
    "c": "hex_pid",
    "v": "vxid",
    "l": "line",
    "a": "app",
    "u": "user",
    "d": "database",
    "h": "host",
    "r": "remote",
    "e": "state",
}
#: Escape of digits -> fewest, most, and whether a minus may precede them.
_DIGITS: Final = {"p": (1, 9, 0), "P": (0, 9, 0), "l": (1, 18, 0), "x": (0, 18, 0), "Q": (0, 20, 1), "#": (1, 20, 1)}
_WIDTH: Final = max(len(word) for word in SEVERITY_WORDS)

#: One row per severity word: its length, then its bytes.
SEVERITY_TABLE: Final[Bytes] = np.array(
    [[len(word), *word.encode().ljust(_WIDTH, b"\0")] for word in SEVERITY_WORDS], np.uint8
)


@dataclass(frozen=True)
class Program:
    """The elements of a prefix, one row of `code` each, and the bytes of its literals.

    Columns of `code`: kind, field, padding (-1 after, 1 before), first argument, second, third. Arguments are
    begin and end in `literals` (of words that a text may be, each has its length before it); fewest and most digits
    and whether a minus may precede; or whether a stamp has milliseconds.
    """

    code: npt.NDArray[np.int32]
    literals: Bytes
    optional_from: int

    @property
    def epoch(self) -> bool:
        """Whether the time is seconds since 1970, which has no zone."""
        return FIELD_CODES["epoch"] in self.code[:, 1]


@lru_cache(maxsize=64)
def encode_prefix_program(prefix: Prefix) -> Program:
    """The prefix as a program. The first of `%m` and `%t` is used; both precede `%n`, and `%p` precedes `%c`."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    literals = b""
    filled: set[str] = set()
    escapes = prefix.escapes
    if prefix.syslog:
        # The header of syslog gives process and number of the record.
        rows.append((SYSLOG, FIELD_CODES["none"], 0, 0, 0, 0))
        filled |= {"p", "l"}
        escapes |= {"p", "l"}
    for element in prefix.elements:
        padding = (element.padding > 0) - (element.padding < 0)
        letter = element.escape
        if not letter:
            rows.append((LITERAL, 0, 0, len(literals), len(literals) + len(element.literal), 0))
            literals += element.literal
            continue
        shadowed = (
            letter in filled
            or (letter == "t" and "m" in escapes)
            or (letter == "n" and escapes & {"m", "t"})
            or (letter == "c" and "p" in escapes)
            or (letter == "r" and "h" in escapes)
        )
        field = FIELD_CODES["none" if shadowed else _FIELD_OF.get(letter, "none")]
        filled.add(letter)
        if element.address:
            rows.append((HOST, field, padding, 0, 0, 0))
        elif letter in LISTS:
            words = b"".join(bytes([len(word), *word.encode()]) for word in LISTS[letter])
            rows.append((TEXT, field, padding, len(literals), len(literals) + len(words), 0))
            literals += words
        else:
            rows.append((*_encode_field_kind(letter, field, padding),))
    code = np.array(rows, np.int32).reshape(len(rows), 6)
    return Program(code, np.frombuffer(literals or b"\0", np.uint8), prefix.optional_from + prefix.syslog)


def _encode_field_kind(letter: str, field: int, padding: int) -> tuple[int, int, int, int, int, int]:
    if letter in TEXT_ESCAPES:
        return TEXT, field, padding, 0, 0, 0
    if letter in _DIGITS:
        return DIGITS, field, padding, *_DIGITS[letter]
    kind = {"m": STAMP, "t": STAMP, "s": STAMP, "n": EPOCH, "v": VXID, "c": SESSION, "e": STATE}[letter]
    return kind, field, padding, int(letter == "m"), 0, 0
