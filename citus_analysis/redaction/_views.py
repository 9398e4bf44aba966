"""Views of a text without one layer of quoting or encoding after the other, with the places that they come from.

JSON within CSV doubles its quotes, a parameter of a URL encodes them, SQL within SQL doubles its apostrophes. Forms of
secrets are searched in every view, and what they find is hidden at its place in the text.

Example:
    >>> [view.text for view in inner_views('{%22%22token%22%22: 5}')]
    ['{""token"": 5}', '{"token": 5}']
    >>> next(inner_views("token%22%3A%22s3")).origins[8]
    14
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Final

#: Layers that are undone; each takes time proportional to the text.
_MOST_LAYERS: Final = 5
_URL: Final = re.compile(r"%(?P<url>0[AaDd]|[2-7][0-9A-Fa-f])|(?P<blank>\+)")
_IN_URL: Final = re.compile(r"%(?:0[AaDd]|[2-7][0-9A-Fa-f])")
_ENCODED: Final = re.compile(
    r"\\(?:u00|x)(?P<escape>[2-7][0-9A-Fa-f])"
    r"|(?P<entity>&(?:quot|apos|amp|lt|gt|#0{0,4}(?:3[249]|38|6[0-2])|#[xX]0{0,4}(?:2[0267]|3[c-eC-E]));)"
)
#: Two quotes at the end of a name, or before a word, are of a text whose quotes are doubled; else an empty text.
_IN_DOUBLED: Final = re.compile(
    r"\w\\*(?:\"\"|'')[\"']*\s*(?:=>|[:=,])|[=:,(\[{\s]\\*(?:\"\"|'')(?![\"'\s,;:)\]}&\\]|$)"
)
_DOUBLED: Final = re.compile(r"\"\"|''")
#: A name that ends in an escaped quote, and a value of YAML on several lines, are within a literal with backslashes.
_IN_ESCAPED: Final = re.compile(r"\w(?:\\+[\"'])+\s*(?:=>|[:=,])|:[ \t]*[|>][+\-0-9]{0,2}[ \t]*(?:\\r)?\\n")
_ESCAPED: Final = re.compile(r"\\(?P<escaped>[\\\"'/rn])")
_CONTROLS: Final = {"n": "\n", "r": "\r"}


@dataclass(frozen=True)
class View:
    """A text as it reads without some of its layers.

    Attributes:
        text: the text of the view.
        origins: place in the original text of each character of the view, and of its end.
    """

    text: str
    origins: array[int]


def inner_views(text: str) -> Iterator[View]:
    """The text without its outermost layer, without the two outermost ones and so on, as long as it has any."""
    view: View | None = None
    for _ in range(_MOST_LAYERS):
        layer = next((layer for layer, sign in _LAYERS if sign.search(text)), None)
        if layer is None:
            return
        view = _without(view or View(text, array("q", range(len(text) + 1))), layer)
        text = view.text
        yield view


#: What is replaced -> what shows that the layer is there.
_LAYERS: Final = ((_URL, _IN_URL), (_ENCODED, _ENCODED), (_DOUBLED, _IN_DOUBLED), (_ESCAPED, _IN_ESCAPED))


def _without(view: View, layer: re.Pattern[str]) -> View:
    pieces: list[str] = []
    origins = array("q")
    shown = 0
    for match in layer.finditer(view.text):
        pieces += [view.text[shown : match.start()], _character(match)]
        origins += view.origins[shown : match.start() + 1]
        shown = match.end()
    return View("".join((*pieces, view.text[shown:])), origins + view.origins[shown:])


def _character(match: re.Match[str]) -> str:
    """The character that a match stands for."""
    groups = match.groupdict()
    if code := groups.get("url") or groups.get("escape"):
        return chr(int(code, 16))
    if groups.get("blank"):
        return " "
    return unescape(match[0]) if groups.get("entity") else _CONTROLS.get(match[0][-1], match[0][-1])
