r"""A few short texts, compared with patterns without a query.

To recognise a file, and to read a small one, a handful of lines is compared with patterns. polars starts a query for
each comparison and compiles the pattern again if it compared others meanwhile, which takes a millisecond. The regular
expressions of Python give the same answers for short ASCII texts, in which both have the same classes of characters
and no pattern takes long.

Example:
    >>> first_texts(b"\n Linux 6.1 \r\n\n10:00:01 CPU\nmore", 2)
    [' Linux 6.1', '10:00:01 CPU']
    >>> contains(["a1", "b"], r"[0-9]$")
    [True, False]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.formats.reading.lines import beginning

__all__ = ["contains", "first_texts"]

_SHORT: Final = 400
#: White space of ASCII, as polars strips it.
_BLANKS: Final = " \t\r\x0b\x0c"


def first_texts(head: bytes, count: int) -> list[str] | None:
    """The first lines that are not blank, without white space at their ends; None if they are not short ASCII texts."""
    data = beginning(head, count)
    if not data.isascii():
        return None
    lines = (line.rstrip(_BLANKS) for line in data.decode().split("\n"))
    texts = [line for line in lines if line][:count]
    return texts if all(len(text) <= _SHORT for text in texts) else None


def contains(texts: Sequence[str], pattern: str) -> list[bool]:
    """Whether each of a few lines contains a match of a pattern, as `polars.Series.str.contains` tells."""
    if all(len(text) <= _SHORT and text.isascii() for text in texts):
        return [re.search(pattern, text, re.ASCII) is not None for text in texts]
    return pl.Series(texts, dtype=pl.String).str.contains(pattern).to_list()
