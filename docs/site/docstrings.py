"""Docstrings as the site shows them: for mkdocstrings, whose parser reads what Google's style names.

Our docstrings call a section of doctests `Example`, which the parser would take for a box of prose, and name objects by
roles such as :func:`name`, which it would show as they are.
"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

__all__ = ["SiteDocstrings"]

_ROLE: Final = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
_EXAMPLE: Final = re.compile(r"(?m)^( *)Example:$")
_PAGE: Final = re.compile(r"`*\bdocs/([\w-]+\.md)`*")
#: Code that follows `::` at the end of a paragraph.
_LITERAL: Final = re.compile(r"(?m)::\n\n(?P<code>(?:(?:    .*)?\n)+)")


class SiteDocstrings(griffe.Extension):
    """Rewrites each docstring when its object is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - griffe's own signature
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """A docstring as the site's parser takes it.

    Example:
        >>> rewritten("See :func:`~a.b.fit`.")
        'See `fit`.'
    """
    text = _ROLE.sub(r"`\1`", text).replace("``", "`")
    text = _PAGE.sub(r"[\1](\1)", text)
    text = _EXAMPLE.sub(r"\1Examples:", text)
    return _LITERAL.sub(lambda found: f":\n\n{found['code']}", text)
