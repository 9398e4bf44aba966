"""Texts for display: on one line, without control characters and marks that change the direction of writing."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    r"""The text with unprintable characters replaced by their escapes.

    Example:
        >>> print(printable("a\x1b[2Jb"))
        a\x1b[2Jb
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    # Python counts the narrow space of numbers such as 12\u202f068 as not printable.
    shows = character.isprintable() or unicodedata.category(character) == "Zs"
    return character if shows else character.encode("unicode_escape").decode("ascii")
