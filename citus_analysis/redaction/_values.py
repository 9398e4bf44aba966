"""Recognition of the end of a secret's value.

A value is a sequence of parts: literals of SQL, JSON and shells, balanced brackets, escaped and single characters, up
to the stop of its form. A literal or bracket that never closes was cut: the rest of the text is hidden.
"""

from __future__ import annotations

import re
from typing import Final

#: Replacement of a secret.
MASK: Final = "***"

Span = tuple[int, int]

#: Beginning of a literal: a quote, optionally with a prefix of SQL or Python, optionally escaped; or a dollar tag.
LITERAL: Final = r"(?:[EeBbXxNnRrFf]|[Uu]&)?\\*[\"'`]|\$(?:[A-Za-z_\x80-\U0010ffff]\w*)?\$"

AT_BLANK: Final = re.compile(r"\s")
AT_JSON: Final = re.compile(r"[\s,}\]]")
AT_LINE_END: Final = re.compile(r"[\r\n]")
AT_NEXT_ITEM: Final = re.compile(r"[\r\n]|[,;]\s*[\w.\-]+\s*[=:]|\}(?![^\s,;)\]}])")
AT_NEXT_OPTION: Final = re.compile(r"[\r\n]|\s+--?[A-Za-z]")
AT_TAG: Final = re.compile(r"<")

_LITERAL: Final = re.compile(LITERAL)
#: A value that is already redacted.
_MASKED: Final = re.compile(r"\*{3}(?=[\s/:;)\]}\"'`<]|,\s|$)")
_QUOTE: Final = re.compile(r"[\"'`]")
_BODIES: Final = {quote: re.compile(rf"(?s)(?:[^{quote}\\]|\\.|{quote}{quote})*+") for quote in "\"'`"}
#: A literal of standard SQL, in which a backslash is a character like any other.
_STANDARD: Final = re.compile(r"(?:[^']|'')*+")
#: Text after which the next literal belongs to the same value: an operator, or in SQL a line end.
_JOINT: Final = re.compile(rf"\s*\|\|\s*(?={LITERAL})|[ \t]*\r?\n\s*(?=')")
#: Text that may follow a value after the quote that was opened before its name.
_CLOSED: Final = re.compile(r"[\s,;:.)\]}\"']|$")
#: Text adjacent to a literal, as shells allow, belongs to the same value.
_GLUED: Final = re.compile(r"[\w\"'`\\$]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@&=+%*?!#^~|-]+(?<![:;,])")
_BRACKETED: Final = re.compile(r"[()\[\]{}\"'`\\]")


def value_span(text: str, place: int, stop: re.Pattern[str], enclosing: str = "") -> Span:
    """The value that begins at a place, without the quotes of a literal.

    Args:
        text: the whole text.
        place: beginning of the value.
        stop: pattern that ends a value outside of literals.
        enclosing: quotes that are open at this place, which also end the value.
    """
    if masked := _MASKED.match(text, place):
        return masked.span()
    opening = _LITERAL.match(text, place)
    if opening is None:
        end = _run_end(text, place, stop, enclosing)
        if stop is AT_JSON and text.startswith(("[", "{"), place):
            # Lists and objects of JSON hold several secrets.
            end = max(end, _bracket_end(text, place))
        return place, end
    end = _literal_end(text, opening)
    while joint := _JOINT.match(text, end) or _GLUED.match(text, end):
        following = _LITERAL.match(text, joint.end() if joint.re is _JOINT else end)
        end = _literal_end(text, following) if following else _run_end(text, end, AT_JSON, enclosing)
    closing = _closing(opening)
    inside = end - len(closing) if text.endswith(closing, opening.end(), end) else end
    return opening.end(), inside


def _closing(opening: re.Match[str]) -> str:
    return opening[0] if opening[0].startswith("$") else opening[0].lstrip("EeBbXxNnRrFfUu&")


def _literal_end(text: str, opening: re.Match[str]) -> int:
    closing = _closing(opening)
    if len(closing) == 1:
        body = _BODIES[closing].match(text, opening.end())
        # A backslash at the end of the text lost the character that it escapes.
        end = body.end() if body else len(text)
        if closing == "'" and opening[0][0] not in "Ee" and text.find("\\'", opening.end(), end) >= 0:
            # Its backslashes may escape, or stand for themselves: what ends later hides both.
            standard = _STANDARD.match(text, opening.end())
            end = max(end, standard.end() if standard else end)
        return end + 1 if text.startswith(closing, end) else len(text)
    end = text.find(closing, opening.end())
    # Inside a literal that is escaped itself, a quote has more backslashes.
    while end > opening.end() and closing[0] == "\\" and text[end - 1] == "\\":
        end = text.find(closing, end + 1)
    return len(text) if end < 0 else end + len(closing)


def _run_end(text: str, place: int, stop: re.Pattern[str], enclosing: str) -> int:
    while place < len(text) and not stop.match(text, place):
        character = text[place]
        if character in enclosing and _CLOSED.match(text, place + 1):
            return place
        if character == "\\":
            place += 2
        elif character in "\"'`" and character not in enclosing and (quote := _QUOTE.match(text, place)):
            place = _literal_end(text, quote)
        elif character == "(":
            place = _bracket_end(text, place)
        else:
            plain = None if stop is AT_JSON else _PLAIN.match(text, place)
            place = plain.end() if plain else place + 1
    return min(place, len(text))


def _bracket_end(text: str, place: int) -> int:
    """The end of the brackets that open at a place."""
    depth = 0
    while match := _BRACKETED.search(text, place):
        place = match.end()
        if match[0] in "()[]{}":
            depth += 1 if match[0] in "([{" else -1
            if depth == 0:
                return place
        elif match[0] == "\\":
            place += 1
        else:
            place = _literal_end(text, match)
    return len(text)
