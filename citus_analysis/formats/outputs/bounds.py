"""Where outputs begin and end within their stretches, by what their formats reject."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from citus_analysis.formats.api.format import Format
from citus_analysis.formats.outputs.stretches import Stretch
from citus_analysis.formats.outputs.transcripts import (
    is_foreign,
    is_title,
    last_line,
    split_begin,
    split_end,
)
from citus_analysis.formats.outputs.trial import Trial, document_end, trial_of

_BRACE: Final = b"{"
#: The line before an opening is looked for in these bytes.
_NEAR_BYTES: Final = 4096


@dataclass(frozen=True)
class Bounds:
    """The place of an output without the transcripts around it.

    Attributes:
        stretch: the stretch that it is in.
        begin: where it begins in the text.
        end: where it ends.
        trial: how its format reads its stretch; offsets are those of the text.
    """

    stretch: Stretch
    begin: int
    end: int
    trial: Trial

    @property
    def place(self) -> slice:
        """The output's place in the text."""
        return slice(self.begin, self.end)


def parted(text: bytes, one: Stretch) -> list[Stretch]:
    """A stretch of a tool that repeats its opening, parted where something else stands before the opening."""
    before = [(offset, *_line_before(text, one, offset)) for offset in one.repeated]
    strange = any(is_foreign(begin, line, lambda _: True) for _, begin, line in before)
    trial = trial_of(one.format, text[one.begin : one.end]) if strange else None
    if trial is None:
        return [one]
    cuts = [offset for offset, begin, line in before if is_foreign(begin, line, trial.rejects)]
    offsets = [mark.offset for mark in one.marks]
    places = [bisect_left(offsets, cut) for cut in (one.begin, *cuts)]
    marks = [one.marks[first:last] for first, last in pairwise([*places, len(offsets)])]
    bounds = pairwise([one.begin, *cuts, one.end])
    return [replace(one, begin=begin, end=end, marks=own) for (begin, end), own in zip(bounds, marks, strict=True)]


def _line_before(text: bytes, one: Stretch, offset: int) -> tuple[int, bytes]:
    """The last line before an offset that is not blank, and where it begins in the stretch."""
    near = max(one.begin, offset - _NEAR_BYTES)
    begin, line = last_line(text[near:offset])
    return near + begin - one.begin, line


def bounds_of(text: bytes, found: Sequence[Stretch], *, framed: bool, limited: bool) -> list[Bounds]:
    """The place of each output; a transcript before an output begins where the output before it ends.

    Args:
        text: the text.
        found: the stretches.
        framed: the text is known to stand in a frame.
        limited: many unknown lines are no transcript.
    """
    bounds: list[Bounds] = []
    for one in found:
        bounds.append(_bounds(text, bounds[-1].end if bounds else 0, one, framed=framed, limited=limited))
    return bounds


def _bounds(text: bytes, begin: int, one: Stretch, *, framed: bool, limited: bool) -> Bounds:
    trial = None if one.whole else trial_of(one.format, text[begin : one.end])
    own = one.begin
    if trial is not None:
        own = begin + split_begin(text[begin : one.begin], trial.rejects, framed=framed, limited=limited)
        trial = trial.moved(begin)
    else:
        # Its format reads nothing that does not begin with the opening.
        alone = trial_of(one.format, text[one.begin : one.end])
        trial = Trial() if alone is None else alone.moved(one.begin)
    data = text[one.begin : one.end]
    end = document_end(data) if one.whole and data.startswith(_BRACE) else 0
    end = end or _own_bytes(data, trial.moved(-one.begin), one.format, limited=limited, followed=one.end < len(text))
    return Bounds(one, own, one.begin + end, trial)


def _own_bytes(data: bytes, trial: Trial, own: Format, *, limited: bool, followed: bool) -> int:
    """Length of an output without the transcript after it, and without titles from which its format takes nothing."""
    end = split_end(data, trial.rejects, limited=limited, followed=followed)
    begin, line = last_line(data[:end])
    while begin and is_title(line):
        whole, less = trial_of(own, data[:end]), trial_of(own, data[:begin])
        if whole is None or less is None or whole.parsed_bytes != less.parsed_bytes:
            break
        end = min(begin, split_end(data[:begin], trial.rejects, limited=limited))
        begin, line = last_line(data[:end])
    return end
