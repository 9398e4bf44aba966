r"""The decoration of a text: what its lines have in common before a text that a format knows.

Lines are taken apart into stamps, numbers, words, blanks and single signs. As long as nearly all lines have the same
kind of piece at the same place, it may be part of a decoration. The decoration is the shortest such beginning after
which a format knows the text; a text that a format knows as it is has none.

Example:
    >>> report = ["transaction type: x", "scaling factor: 1", "tps = 12"]
    >>> text = "".join(f"[10.0.0.{n}] out: {line}\n" for n, line in enumerate(report, 4)).encode()
    >>> found = find_decoration(text, lambda text: float(text.startswith(b"transaction type")))
    >>> found.kind, re.match(found.pattern, "[10.0.0.7] out: x")["name"]
    ('Fabric', '10.0.0.7')
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from citus_analysis.formats.deliveries.decoration import ANSI, Decoration
from citus_analysis.formats.deliveries.known_decorations import JOURNAL, KNOWN, Known, described, fits
from citus_analysis.formats.deliveries.placed_lines import Lines
from citus_analysis.formats.deliveries.stamps import STAMP_PATTERN
from citus_analysis.formats.deliveries.steps import Knows

#: Lines that are looked at.
_LINES: Final = 400
#: Pieces of a line that are looked at, and the bytes that they may take.
_PIECES: Final = 30
_BYTES: Final = 300
#: Share of the lines that must have the decoration; a few others are a heading, or come from another program.
_SHARE: Final = 0.8
#: Fewer lines have too much in common by chance.
_FEWEST: Final = 2
#: A format is less sure of a text without the heading that a decoration may have replaced.
_SURE: Final = 0.8
#: rsyslog's escape of a tab.
_ESCAPED_TAB: Final = b"#011"
#: Different names in the lines that are looked at, at most.
_NAMES: Final = 40

_WORDS = (
    rf"(?P<stamp>{STAMP_PATTERN})"
    r"|(?P<address>\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?![\w.-]))"
    r"|(?P<word>[A-Za-z0-9_](?:[\w./@-]*\w)?)"
    r"|(?P<blanks> +)"
    r"|(?P<sign>[^\n])"
)
_PIECE: Final = re.compile(_WORDS)
#: The same of lines with columns that end with tabs, which may contain blanks.
_PIECE_OR_FIELD: Final = re.compile(r"(?P<field>[A-Za-z_][^\t\n]{0,79}(?=\t))|" + _WORDS)
_PATTERNS: Final = {
    "stamp": STAMP_PATTERN,
    "address": r"[0-9.]+",
    "number": r"[0-9]+(?:\.[0-9]+)?",
    "field": r"[^\t\n]+",
    "word": r"[A-Za-z0-9_](?:[\w./@-]*\w)?",
}
_NAMING: Final = frozenset({"address", "field", "word"})
#: Words that vary from line to line without being a name of a host or a container.
_NO_NAMES: Final = re.compile(
    r"(?i)(?:std)?(?:out|err|in)|[FPOE]|[0-9]{2}[OE]|debug[0-9]?|trace|info|information|notice|warn|warning|error|fatal|critical"
)
_LETTER: Final = re.compile("[A-Za-z]")


class _Piece(NamedTuple):
    kind: str
    text: str


def find_decoration(
    head: bytes, knows: Knows, whole: Knows | None = None, *, only_known: bool = False
) -> Decoration | None:
    """The decoration of a text's lines after which a format knows the text; None if there is none.

    Args:
        head: the beginning of the text, which no format knows.
        knows: how sure a format is of a text.
        whole: the same, and that nothing of the text's own lines was taken away; asked where only the lines show what
            a decoration is.
        only_known: look only for decorations of known programs, which no tool's own lines resemble.
    """
    coloured = b"\x1b[" in head
    text = re.sub(ANSI.encode(), b"", head) if coloured else head
    if coloured and not only_known and knows(text) >= _SURE:
        return Decoration("", "ANSI colours", coloured=True)
    lines = text[: text.rfind(b"\n") + 1 or len(text)].decode("utf-8", "replace").split("\n")
    lines = [line.rstrip("\r") for line in lines if line.strip()][:_LINES]
    if len(lines) < _FEWEST:
        return None
    known = (known for known in KNOWN if fits(known, lines))
    for one in known if only_known else chain(known, _candidates(lines)):
        kind = f"{one.kind}, ANSI colours" if coloured else one.kind
        found = Decoration(one.pattern, kind, coloured=coloured, noise=one.noise)
        asked = whole if whole is not None and one not in KNOWN and one.kind != JOURNAL else knows
        for view in found.views(iter([Lines.of_file(head, 0)])):
            undone = view.undone_head(head)
            if _ESCAPED_TAB in undone and asked(undone.replace(_ESCAPED_TAB, b"\t")) >= _SURE:
                return replace(found, escaped=True)
            if asked(undone) >= _SURE:
                return found
    return None


def _candidates(lines: Sequence[str]) -> Iterator[Known]:
    """What nearly all lines begin with; the shortest first."""
    tabs = sum("\t" in line[:_BYTES] for line in lines) >= _SHARE * len(lines)
    alike = [list(_pieces(line, _PIECE_OR_FIELD if tabs else _PIECE)) for line in lines]
    least = max(_FEWEST, int(_SHARE * len(lines)))
    for place in range(_PIECES):
        # A line that ends with the decoration has no more pieces: a blank line of the tool.
        ended = [pieces for pieces in alike if len(pieces) <= place]
        kinds = Counter(pieces[place].kind for pieces in alike if len(pieces) > place)
        kind = max(kinds, key=kinds.__getitem__, default="")
        longer = [pieces for pieces in alike if len(pieces) > place and pieces[place].kind == kind]
        alike = [*longer, *ended]
        if len(alike) < least or len(longer) < _FEWEST:
            return
        # A blank that follows in all lines that go on belongs to the decoration.
        following = {pieces[place + 1].kind for pieces in longer if len(pieces) > place + 1}
        if following != {"blank"}:
            yield from _patterns(alike, place + 1)


def _pieces(line: str, pattern: re.Pattern[str]) -> Iterator[_Piece]:
    for found in pattern.finditer(line[:_BYTES]):
        kind = found.lastgroup or "sign"
        kind = found[0] if kind == "sign" else kind
        if kind == "blanks" and found.start():
            # The first blank ends a decoration; those after it may belong to the text.
            yield _Piece("blank", " ")
            yield from (_Piece("more blanks", found[0][1:]) for _ in found[0][1:2])
        else:
            yield _Piece(kind, found[0])


def _patterns(lines: Sequence[Sequence[_Piece]], length: int) -> Iterator[Known]:
    """The first pieces of lines as a decoration; none if their names are not together."""
    pieces = max(lines, key=len)[:length]
    kinds = [piece.kind for piece in pieces]
    known = described("".join(piece.text for piece in pieces))
    texts = [{line[place].text for line in lines if len(line) > place} for place in range(length)]
    patterns = [_piece_pattern(*piece) for piece in zip(kinds, texts, strict=True)]
    if "stamp" in kinds:
        patterns[kinds.index("stamp")] = f"(?P<stamp>{STAMP_PATTERN})"
    if kinds[0] == "blanks" and kinds[1:2] != ["number"]:
        # Numbers are aligned to the right; anything else is indented by what all lines have.
        patterns[0] = " " * min(map(len, texts[0]))
    varying = [place for place in range(length) if _is_name(kinds[place], texts[place])]
    if varying:
        if {"stamp", "number"} & set(kinds[varying[0] : varying[-1] + 1]):
            return
        patterns[varying[0]] = f"(?P<name>{patterns[varying[0]]}"
        patterns[varying[-1]] += ")"
    if kinds[-1] == "blank":
        # Blanks at the end of a line are often removed.
        patterns[-1] = r"(?: |\r?$)"
    yield known._replace(pattern="".join(patterns))


def _is_name(kind: str, texts: set[str]) -> bool:
    """Whether pieces of lines are names of hosts or containers: words that vary, but of which there are few."""
    words = kind == "address" or any(map(_LETTER.search, texts))
    return kind in _NAMING and 1 < len(texts) <= _NAMES and words and not all(map(_NO_NAMES.fullmatch, texts))


def _piece_pattern(kind: str, texts: set[str]) -> str:
    if kind in {"blanks", "more blanks"}:
        return " *"
    if kind == "blank":
        return " "
    if kind not in _PATTERNS:
        return re.escape(kind)
    if kind in {"stamp", "number"} or len(texts) > 1 or all(map(_NO_NAMES.fullmatch, texts)):
        return f"(?:{_PATTERNS[kind]})"
    return re.escape(next(iter(texts)))
