"""The forms in which secrets are written. Each function yields the beginning and end of each secret of its form.

All take time proportional to the text for any content: a text may be a hostile line of a megabyte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from citus_analysis.redaction._names import STEM, names_secret
from citus_analysis.redaction._values import (
    AT_BLANK,
    AT_JSON,
    AT_LINE_END,
    AT_NEXT_ITEM,
    AT_NEXT_OPTION,
    AT_TAG,
    LITERAL,
    Span,
    value_span,
)

#: Number of characters before the stem of a name that are examined.
_LOOK_BACK: Final = 120
_COMPARED: Final = r"=>|:=|[!<>=]?={1,2}|<>|!?~~?\*?|:(?!:)|%3[dD]"
_NAMED: Final = re.compile(
    rf"(?i){STEM}(?P<rest>[\w.\-\[]{{0,100}})(?P<quote>\\*[\"'`])?"
    rf"(?:(?P<closer>[\])]{{0,2}})\s*(?P<sign>{_COMPARED})\s*"
    rf"|\s*(?P<comma>,)\s*(?={LITERAL})"
    r"|\s+(?P<word>to|like|ilike|in)\s+"
    rf"|\s+(?P<literal>)(?={LITERAL})"
    r"|(?P<tag>>)"
    r"|(?P<blank>[ \t]+))"
)
_NAME_BEFORE: Final = re.compile(r"[\w.\-]*$")
#: Before a name that begins a line, as in property files and environments.
_LINE_BEGIN: Final = re.compile(r"(?:^|[\r\n])[ \t]*(?:(?:export|set|[#;{\"'\-])[ \t]*)*$")
_OPTION_BEFORE: Final = re.compile(r"(?:^|\s)--?\w[\w\-]*[ \t]+[\"']?$")
_ITEM_BEFORE: Final = re.compile(r"[{\[(][ \t]*$|,[ \t]+$")


def named_values(text: str) -> Iterator[Span]:
    """`name=value`, `"name": "value"`, `PASSWORD 'value'`, `--name value`, `<name>value</name>` and the like."""
    quotes = _OpenQuotes(text)
    place = 0
    while match := _NAMED.search(text, place):
        place = match.end()
        context = text[max(0, match.start() - _LOOK_BACK) : match.start()]
        name = _NAME_BEFORE.search(context)
        begin = name.start() if name else len(context)
        stop = _stop(match, context[:begin], context[begin:])
        if stop is None or not names_secret(context[begin:] + text[match.start() : match.end("rest")]):
            continue
        enclosing = quotes.before(match.start())
        block = _BLOCK_SCALAR.match(text, place) if stop is AT_LINE_END else None
        span = _indented(text, match.start(), block) if block else value_span(text, place, stop, enclosing)
        place = max(place, span[1])
        yield from _shown(span)


#: `password: |` or `>-` of YAML, whose value is in the lines below.
_BLOCK_SCALAR: Final = re.compile(r"[|>][+\-0-9]{0,2}[ \t]*(?:#[^\r\n]*)?\r?\n")
#: A line: its indentation, and the rest.
_LINE: Final = re.compile(r"(?!\Z)([ \t]*)(.*)\n?")


def _indented(text: str, name: int, heading: re.Match[str]) -> Span:
    """The lines below a heading that are indented more than the line with a name, and blank ones between them."""
    before = text[text.rfind("\n", 0, name) + 1 : name]
    depth, end = len(before) - len(before.lstrip(" \t")), heading.end()
    for line in _LINE.finditer(text, end):
        if line[2].strip() and len(line[1]) <= depth:
            break
        end = line.end(2)
    return heading.end(), end


def _stop(match: re.Match[str], before: str, name: str) -> re.Pattern[str] | None:
    """The pattern that ends the value, derived from the characters around its name; None if no value follows."""
    if match["tag"]:
        return AT_TAG if before.endswith("<") else None
    if name.startswith("-") or _OPTION_BEFORE.search(before):
        return AT_NEXT_OPTION
    if match["blank"]:
        return None
    if match["comma"]:
        return AT_JSON if match["quote"] else None
    if match["sign"] == ":":
        return AT_JSON if match["quote"] else AT_LINE_END
    if match["sign"] and _LINE_BEGIN.search(before):
        return AT_LINE_END
    is_item = match["sign"] and not match["closer"] and _ITEM_BEFORE.search(before)
    return AT_NEXT_ITEM if is_item else AT_BLANK


class _OpenQuotes:
    """The quotes that are open at places of a text, which are given in ascending order."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self._open = dict.fromkeys("'\"", False)

    def before(self, place: int) -> str:
        """The quotes that occur an odd number of times before a place."""
        for quote in self._open:
            self._open[quote] ^= bool(self._text.count(quote, self._place, place) % 2)
        self._place = place
        return "".join(quote for quote, is_open in self._open.items() if is_open)


#: It begins after a blank: a search from each character of a long word would take seconds.
_TOKEN: Final = re.compile(r"(?<!\S)\S*://\S*")
_AUTHORITY: Final = re.compile(r"://[^\s:/\[]*:")
#: A port, also if the colon of a message follows: `tcp://host:8786: no worker`.
_PORT: Final = re.compile(r"\d{0,5}(?!(?!:$)[^/?#,;\s\"')\]}>])|/")


def uri_passwords(text: str) -> Iterator[Span]:
    """The text between the user and the last `@` of `scheme://user:password@host`, or up to the end if it was cut."""
    if "://" not in text:
        return
    for token in _TOKEN.finditer(text):
        authority = _AUTHORITY.search(text, *token.span())
        last = text.rfind("@", *token.span())
        if authority is None:
            continue
        if last >= authority.end():
            yield authority.end(), last
        elif not _PORT.match(text, authority.end(), token.end()):
            # Not a port, so it is the beginning of a password that was cut.
            yield authority.end(), token.end()


_BEARER: Final = re.compile(r"(?i)\bbearer(?:\s*[:=]\s*|\s+)")
_BLOCK: Final = re.compile(r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?P<block>.*?)(?:-----END|\Z)")
_SHAPES: Final = re.compile(
    r"SCRAM-SHA-256\$\S+|(?<!\w)md5[0-9a-f]{32}(?!\w)"
    r"|(?<![\w\-])eyJ[\w\-]++\.[\w\-]++(?:\.[\w\-]*+)?"
    r"|(?<!\w)(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)|(?<!\w)gh[pousr]_[A-Za-z0-9]{20,}"
)


def tokens(text: str) -> Iterator[Span]:
    """Bearer tokens, private keys, and secrets known by shape: PostgreSQL's stored passwords, JWT, keys of services."""
    quotes = _OpenQuotes(text)
    for match in _BEARER.finditer(text):
        yield from _shown(value_span(text, match.end(), AT_BLANK, quotes.before(match.start())))
    for match in _BLOCK.finditer(text):
        yield from _shown(match.span("block"))
    for match in _SHAPES.finditer(text):
        yield match.span()


def _shown(span: Span) -> Iterator[Span]:
    """The span, unless it is empty."""
    if span[0] < span[1]:
        yield span


_INSERT: Final = re.compile(
    r"(?i)\binsert\s+into\s[^()]{1,200}\((?P<columns>[^()]{0,2000})\)[^()']{0,60}\bvalues\b\s*(?P<values>\S)"
)
_KEY_DETAIL: Final = re.compile(r"(?i)\bkey \((?P<columns>[^()\n]{0,2000})\)=\(")


def row_values(text: str) -> Iterator[Span]:
    """Values of columns with secrets: `INSERT INTO t (id, passwd) VALUES (...)`, `Key (passwd)=(...) exists`."""
    for match in _INSERT.finditer(text):
        if names_secret(match["columns"]):
            yield match.start("values"), len(text)
            return
    for match in _KEY_DETAIL.finditer(text):
        if names_secret(match["columns"]):
            line_end = text.find("\n", match.end())
            line_end = len(text) if line_end < 0 else line_end
            closing = text.rfind(")", match.end(), line_end)
            yield match.end(), closing if closing >= 0 else line_end


#: The order does not matter: if forms overlap, the spans of all are hidden.
FORMS: Final[tuple[Callable[[str], Iterator[Span]], ...]] = (named_values, uri_passwords, tokens, row_values)
