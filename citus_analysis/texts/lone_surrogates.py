"""Escapes in JSON of halves of a character, which are no text and which decoders refuse."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|[^\n])"
)
_LONE: Final = 6


def without_lone_surrogates(data: bytes) -> bytes:
    r"""JSON with each lone escaped surrogate replaced by `\ufffd`; offsets do not change.

    Example:
        >>> without_lone_surrogates(rb'"\ud83d\ude00 \ud83d \\ud83d"')
        b'"\\ud83d\\ude00 \\ufffd \\\\ud83d"'
    """
    text = np.frombuffer(data, np.uint8)
    escapes = np.flatnonzero(text[:-2] == ord("\\"))
    # Logs contain few escapes, and few of them are numeric.
    if not ((text[escapes + 1] == ord("u")) & (text[escapes + 2] | 32 == ord("d"))).any():
        return data
    return _ESCAPE.sub(lambda found: rb"\ufffd" if len(found[0]) == _LONE else found[0], data)
