r"""`log_line_prefix` compiled from its string.

A prefix is a sequence of :class:`Element`: literal bytes and escapes. Each element has a small pattern; joined, and
followed by the severity word, they match the beginning of a record. Every escape of PostgreSQL 12 to 18 is
supported, with padding (``%-10u``), and ``%q``: the elements after it are absent in lines of background processes.

Example:
    >>> prefix = compile_prefix("%m [%p] %q%u@%d ")
    >>> [element.escape or element.literal for element in prefix.elements]
    ['m', b' [', 'p', b'] ', 'u', b'@', 'd', b' ']
    >>> prefix.optional_from
    4
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Protocol

from citus_analysis.errors import UsageError
from citus_analysis.schema import SEVERITIES

__all__ = [
    "COMMON_PREFIXES",
    "DETAIL_WORDS",
    "HEAD_LIMIT",
    "HELD_BACK",
    "MARK_PATTERN",
    "MAX_ELEMENTS",
    "OLDER_STUDY_PREFIX",
    "SEVERITY_WORDS",
    "STUDY_PREFIX",
    "SYSLOG_HEADER",
    "Element",
    "Heads",
    "Prefix",
    "compile_prefix",
]

#: The prefix of the study; the space between `[%p]` and `[%v]` is absent in older extracts.
STUDY_PREFIX: Final = "%m [%p] [%v] : [%l-1] %q[app=%a] "
OLDER_STUDY_PREFIX: Final = "%m [%p][%v] : [%l-1] %q[app=%a] "

#: Prefix and severity must be within this many bytes of a line.
HEAD_LIMIT: Final = 1000

#: A chunk of syslog ends about this many bytes before the end of the block, because its messages may continue after it.
HELD_BACK: Final = 32 * 2**10

#: Limit of elements of the compiled scanner, syslog's header included.
MAX_ELEMENTS: Final = 64

#: Words as the server prints them; DEBUG is followed by a digit.
SEVERITY_WORDS: Final = SEVERITIES

#: Tried in this order; among prefixes that fit the same number of lines, the first is used, so specific ones are first.
COMMON_PREFIXES: Final = (
    STUDY_PREFIX,
    OLDER_STUDY_PREFIX,
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: db=%d,user=%u,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d,host=%h,app=%a ",
    "%t [%p]: [%l-1] [%x] usr=%u,db=%d,appli=%a ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%t [%p]: [%l-1] ",
    "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p] user=%u,db=%d ",
    "%m [%p] [queryid=%Q] %u@%d ",
    "%m [%p] %q%u@%d/%a ",
    "%m [%p] %q%u@%d ",
    "%m [%p] %u@%d ",
    "%t:%r:%u@%d:[%p]:",
    "%t:%r:%u@%d:[%p]: ",
    "%m|%u|%d|%c|",
    "%m [%p-%l] %q%u@%d ",
    "%t [%p-%l] %q%u@%d ",
    "%n [%p] %q%u@%d ",
    "[%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "[%p]: [%l-1] db=%d,user=%u ",
    "db=%d,user=%u,app=%a,client=%h ",
    "user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: ",
    "%t [%p]: ",
    "%m [%p] ",
    "%t [%p] ",
    "%n [%p] ",
    "%m ",
    "%t ",
    "",
)

_ZONE = r"(?:[A-Za-z]{1,10}|[+-][0-9]{2}(?::?[0-9]{2})?)"
_SECOND = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
_TEXT = r"[^\n]*?"

#: `2026-11-20 21:03:47.877 UTC`
STAMP_PATTERN: Final = rf"{_SECOND}\.[0-9]{{3}} {_ZONE}"

#: One small pattern per escape. Patterns of text are lazy: they match the shortest text with which the rest fits.
_PATTERNS: Final = {
    "a": _TEXT,
    "b": _TEXT,
    "c": r"[0-9a-f]{1,16}\.[0-9a-f]{1,7}",
    "d": _TEXT,
    "e": r"[0-9A-Z]{5}",
    "h": _TEXT,
    "i": _TEXT,
    "l": r"[0-9]{1,18}",
    "L": _TEXT,
    "m": STAMP_PATTERN,
    "n": r"[0-9]{1,12}\.[0-9]{3}",
    "p": r"[0-9]{1,9}",
    "P": r"[0-9]{0,9}",
    "Q": r"-?[0-9]{0,20}",
    "r": _TEXT,
    "s": rf"{_SECOND} {_ZONE}",
    "t": rf"{_SECOND} {_ZONE}",
    "u": _TEXT,
    "v": r"(?:-?[0-9]{1,9}/[0-9]{1,18})?",
    "x": r"[0-9]{0,18}",
}
_TIMES: Final = frozenset("mnst")
TEXT_ESCAPES: Final = frozenset(letter for letter, pattern in _PATTERNS.items() if pattern == _TEXT)
_ESCAPE: Final = re.compile(r"%(-?[0-9]*)(.)", re.DOTALL)

#: Severities of the details of a record, as alternatives.
DETAIL_WORDS: Final = "|".join(SEVERITY_WORDS[SEVERITY_WORDS.index("DETAIL") :])
_SEVERITY = rf"(?:{'|'.join(SEVERITY_WORDS)})[1-5]?"
SEVERITY_PATTERN: Final = rf"(?P<severity>{'|'.join(SEVERITY_WORDS)})[1-5]?: {{1,2}}"
#: The end of a record's head, anywhere in a line.
MARK_PATTERN: Final = rf"{_SEVERITY}: "

#: PostgreSQL writes a tab before each further line of a record; copies may have spaces instead.
CONTINUATION_PATTERN: Final = r"^(?:[ \t\r]|$)"
#: A line that begins with spaces and contains a severity is a record with another prefix.
STRAY_PATTERN: Final = rf"^[ \r](?:[^\n]*[^A-Za-z])?{_SEVERITY}:  "


_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
#: The time of syslog, `Nov 20 21:03:47` or in RFC 3339's form, the host, and the program.
_SYSLOG_SENDER = (
    rf"(?:[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}"
    rf"|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T{_CLOCK}(?:\.[0-9]{{1,6}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})) "
    r"[^ ]+ [^ \[]+"
)
#: Syslog writes its header before each line of a record. PostgreSQL's numbers of message and piece follow, or the
#: number of the piece alone (`syslog_sequence_numbers = off`).
_SYSLOG = rf"{_SYSLOG_SENDER}\[(?P<p>[0-9]{{1,9}})\]: \[(?:(?P<l>[0-9]{{1,18}})-[0-9]+|[0-9]{{1,18}})\] "
SYSLOG_HEADER: Final = rf"^(?P<head>{_SYSLOG})"
_SYSLOG_CONTINUATION: Final = rf"^{_SYSLOG_SENDER}\[[0-9]+\]: \[[0-9]+(?:-[0-9]+)?\] "


class Heads(Protocol):
    """Patterns of the beginning of records."""

    @property
    def pattern(self) -> str:
        """Regular expression of a record's beginning, with the groups `head`, the whole, and `severity`."""

    @property
    def continuation_pattern(self) -> str | None:
        """Regular expression of lines that may continue a record; None if all lines may."""

    @property
    def stray_pattern(self) -> str | None:
        """Regular expression of exceptions among these lines, which continue no record; None without exceptions."""

    @property
    def timed(self) -> bool:
        """Whether records begin with a time, which hardly any other text resembles."""


@dataclass(frozen=True)
class Element:
    """A literal, or an escape with its padding (positive: spaces before it, negative: after it)."""

    escape: str = ""
    padding: int = 0
    literal: bytes = b""

    def pattern(self, *, named: bool) -> str:
        """The regular expression of this element."""
        if not self.escape:
            return re.escape(self.literal.decode())
        value = f"(?P<{self.escape}>{_PATTERNS[self.escape]})" if named else f"(?:{_PATTERNS[self.escape]})"
        if self.padding == 0:
            return value
        return f" *{value}" if self.padding > 0 else f"{value} *"


@dataclass(frozen=True)
class Prefix:
    """A compiled `log_line_prefix`.

    Attributes:
        text: as in the server's configuration.
        elements: literals and escapes in order, `%q` left out.
        optional_from: index of the first element after `%q`; the number of elements if there is none.
        syslog: whether syslog's own header precedes the prefix. It has no year and therefore gives no time, but it
            gives process and line number.
    """

    text: str
    elements: tuple[Element, ...]
    optional_from: int
    syslog: bool = False

    @cached_property
    def escapes(self) -> frozenset[str]:
        """Letters of the escapes."""
        return frozenset(element.escape for element in self.elements if element.escape)

    @property
    def continuation_pattern(self) -> str:
        """Lines that begin with a blank; in syslog, lines of PostgreSQL."""
        return _SYSLOG_CONTINUATION if self.syslog else CONTINUATION_PATTERN

    @property
    def stray_pattern(self) -> str | None:
        """Lines of records under another prefix."""
        return None if self.syslog else STRAY_PATTERN

    @cached_property
    def timed(self) -> bool:
        """Whether records begin with a time."""
        first = self.elements[0] if self.elements and self.optional_from else Element()
        return self.syslog or (first.escape in _TIMES and not first.padding)

    @cached_property
    def pattern(self) -> str:
        """Regular expression of a record's beginning up to its text: prefix, severity, colon and spaces."""
        pieces, seen = [_SYSLOG] if self.syslog else [], set("pl") if self.syslog else set[str]()
        for element in self.elements:
            pieces.append(element.pattern(named=element.escape not in seen))
            seen.add(element.escape)
        always_count = self.optional_from + self.syslog
        always, optional = pieces[:always_count], pieces[always_count:]
        tail = f"(?:{''.join(optional)})?" if optional else ""
        return f"^(?P<head>{''.join(always)}{tail}{SEVERITY_PATTERN})"


@lru_cache(maxsize=256)
def compile_prefix(text: str) -> Prefix:
    """Compile a `log_line_prefix` string.

    Raises:
        UsageError: the string contains an escape unknown to PostgreSQL 12 to 18, or too many elements.
    """
    elements: list[Element] = []
    optional_from, literal, position = -1, "", 0

    def flush() -> None:
        nonlocal literal
        if literal:
            elements.append(Element(literal=literal.encode()))
            literal = ""

    while position < len(text):
        match = _ESCAPE.match(text, position)
        if text[position] != "%" or match is None:
            literal, position = literal + text[position], position + 1
            continue
        position, letter = match.end(), match[2]
        if letter == "%":
            literal += "%"
        elif letter == "q":
            flush()
            optional_from = len(elements) if optional_from < 0 else optional_from
        elif letter in _PATTERNS:
            flush()
            elements.append(Element(letter, _padding(match[1])))
        else:
            raise UsageError(
                f"log_line_prefix has an unknown escape %{letter}",
                place=repr(text),
                way_out=f"PostgreSQL knows {' '.join('%' + known for known in sorted(_PATTERNS))} %q %%",
            )
    flush()
    if len(elements) >= MAX_ELEMENTS:
        raise UsageError(
            f"log_line_prefix has {len(elements)} escapes and texts between them",
            place=repr(text),
            way_out=f"use a prefix with fewer than {MAX_ELEMENTS}",
        )
    return Prefix(text, tuple(elements), len(elements) if optional_from < 0 else optional_from)


def _padding(digits: str) -> int:
    return int(digits) if digits.strip("-") else 0
