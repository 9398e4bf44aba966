"""The text before a severity as literals and slots.

A slot is a stretch that can be the value of a field: a time, a number, a word. Words before `=` are literals. Between
delimiters with nothing between them, and after a `=` that nothing follows, there is an empty slot.
"""

from __future__ import annotations

import re
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import (
    ADDRESS_PATTERN,
    BACKEND_TYPES,
    SECOND_PATTERN,
    STAMP_PATTERN,
    TAG_PATTERN,
    ZONE_PATTERN,
)

#: Kind (`literal`, or a kind of slot) and text.
Token = tuple[str, str]
EMPTY: Final = "empty"

_ALONE = r"(?<![\w.])"
_ENDS = r"(?![\w.])"
#: Citus names its own connections so; the whole is the application's name.
_OF_CITUS = r"[\w$.-]+ gpid=[0-9]+(?![\w.])"
_KINDS: Final = {
    "iso": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?",
    "ms": STAMP_PATTERN,
    "second": rf"{SECOND_PATTERN} {ZONE_PATTERN}",
    "epoch": rf"{_ALONE}[0-9]{{10}}\.[0-9]{{3}}{_ENDS}",
    "session": rf"{_ALONE}[0-9a-f]{{8}}\.[0-9a-f]{{1,7}}{_ENDS}",
    "literal": r"(?<!\w)[A-Za-z_]\w*=",
    "remote": rf"(?:\[local\]|{ADDRESS_PATTERN}|(?<![\w.-])[A-Za-z0-9][\w.-]*)\([0-9]{{1,5}}\)",
    "unset": r"\[unknown\]",
    "host": rf"\[local\]|(?<![\w.:]){ADDRESS_PATTERN}(?![\w.])",
    "vxid": r"(?<![\w./])(?:-1|[0-9]+)/[0-9]+(?![\w./]|-[0-9]{2}-)",
    "backend": rf"(?<!\w)(?:{'|'.join(map(re.escape, BACKEND_TYPES))})(?!\w)",
    "tag": rf"(?<!\w){TAG_PATTERN}(?!\w)",
    "number": r"(?<![\w.])(?:-(?![0-9]{4}-[0-9]{2}-|[0-9]{10}\.))?[0-9]+(?![\w.])",
}
_WORD: Final = {True: r"[\w$](?:(?:[\w$.]|-(?!\w+=))*[\w$])?", False: r"[\w$.]+"}
_PATTERNS: Final = {
    dashed: re.compile(
        "|".join(f"(?P<{kind}>{text})" for kind, text in {"citus": _OF_CITUS, **_KINDS, "word": word}.items())
    )
    for dashed, word in _WORD.items()
}
#: Between two of these, or a pair of brackets, a field is empty; so is one after `=`, but not after ` = `.
_BETWEEN: Final = re.compile(r"(?<=[,|;])(?=[,|;])|(?<=\[)(?=\])|(?<=\()(?=\))|(?<=[^ ]=)(?![\[({<\"'])")


def tokens(head: str, *, dashed: bool = True) -> list[Token]:
    """The literals and slots of a text, in order.

    Args:
        head: the text before a severity.
        dashed: whether `-` may be part of a word.

    Example:
        >>> [text for kind, text in tokens("[7] user=a,db= ") if kind == "literal"]
        ['[', '] user=', ',db=', ' ']
        >>> [kind for kind, _ in tokens("[7] user=a,db= ") if kind != "literal"]
        ['number', 'word', 'empty']
    """
    found: list[Token] = []
    literal, place = "", 0
    for match in _PATTERNS[dashed].finditer(head):
        literal += head[place : match.start()]
        place = match.end()
        if match.lastgroup == "literal":
            literal += match[0]
            continue
        _add_literal(found, literal, last=False)
        found.append((match.lastgroup or "word", match[0]))
        literal = ""
    _add_literal(found, literal + head[place:], last=True)
    return found


def _add_literal(found: list[Token], literal: str, *, last: bool) -> None:
    parts = _BETWEEN.split(literal) if literal else []
    for number, part in enumerate(parts):
        # A `=` directly before a slot has its value there.
        if number and (part or last):
            found.append((EMPTY, ""))
        if part:
            found.append(("literal", part))


def skeleton(found: list[Token]) -> tuple[str, ...]:
    """The literals, with an empty text for each slot: equal for texts of which only the values differ."""
    return tuple(text if kind == "literal" else "" for kind, text in found)
