"""The brackets of a JSON text that stand outside of strings, found in columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from citus_analysis.core.array_types import Bools, Integers

_QUOTE, _BACKSLASH, _NEWLINE = ord('"'), ord("\\"), ord("\n")
_IS_BRACKET: Final = np.zeros(256, np.bool_)
_IS_BRACKET[list(b"[]{}")] = True
_OPENS: Final = np.zeros(256, np.bool_)
_OPENS[list(b"[{")] = True


@dataclass
class Brackets:
    """Reads a text piece by piece.

    Attributes:
        depth: brackets that are open.
    """

    depth: int = 0
    _quoted: bool = False

    def read(self, data: bytes) -> tuple[Integers, Bools, Integers]:
        """Positions of brackets, whether they open, and how many are open after each.

        A string ends at the latest at the end of its line, as JSON has it, so that a damaged one does not change the
        meaning of everything after it.

        Args:
            data: the next piece, which does not end with a backslash.
        """
        text = np.frombuffer(data, np.uint8)
        quotes = _unescaped(text, np.flatnonzero(text == _QUOTE))
        newlines = np.flatnonzero(text == _NEWLINE)
        places = np.flatnonzero(_IS_BRACKET[text])
        quoted = self._within(quotes, newlines, np.append(places, len(text)))
        self._quoted = bool(quoted[-1])
        places = places[~quoted[:-1]]
        opens = _OPENS[text[places]]
        depths = self.depth + np.cumsum(np.where(opens, 1, -1))
        # A bracket that closes nothing changes nothing.
        depths -= np.minimum(np.minimum.accumulate(depths), 0) if len(depths) else 0
        if len(depths):
            self.depth = int(depths[-1])
        return places, opens, depths

    def _within(self, quotes: Integers, newlines: Integers, places: Integers) -> Bools:
        """Whether places are inside strings."""
        line = np.searchsorted(newlines, places) - 1
        before = np.searchsorted(quotes, places)
        first = newlines[line] if len(newlines) else np.zeros(len(places), np.int64)
        at_begin = np.where(line >= 0, np.searchsorted(quotes, first), -int(self._quoted))
        within: Bools = (before - at_begin) % 2 == 1
        return within


def _unescaped(text: npt.NDArray[np.uint8], quotes: Integers) -> Integers:
    """Quotes without those after an odd number of backslashes."""
    after = np.flatnonzero(text[np.maximum(quotes - 1, 0)] == _BACKSLASH)
    if not len(after):
        return quotes
    slashes = np.flatnonzero(text == _BACKSLASH)
    new = np.diff(slashes, prepend=-2) != 1
    run_begins = np.maximum.accumulate(np.where(new, slashes, 0))
    last = np.searchsorted(slashes, quotes[after]) - 1
    odd = (quotes[after] - run_begins[last]) % 2 == 1
    return np.delete(quotes, after[odd])
