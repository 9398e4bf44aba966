"""Outputs of two tools that wrote to one text at the same time: lines within one that the other would print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from citus_analysis.formats.api.format import Format
from citus_analysis.formats.outputs.bounds import Bounds
from citus_analysis.formats.outputs.stretches import mingled
from citus_analysis.formats.outputs.trial import trial_of

#: Lines of a tool alternate with another's if they stand in at least this many places.
_FEWEST: Final = 2


def check_apart(text: bytes, found: Sequence[Bounds]) -> None:
    """Refuse a text in which lines that are rejected within one output belong to another.

    The times of two runs of one tool that alternate go back again and again.

    Args:
        text: the text.
        found: the place of each output, and how its format reads it.

    Raises:
        FormatError: they do.
    """
    several = {name for name, count in Counter(own.stretch.format.name for own in found).items() if count > 1}
    for own in found:
        one = own.stretch
        if one.format.name in several and own.trial.returns >= _FEWEST:
            raise mingled(text, one.format, one)
        inner = [(begin, end) for begin, end in own.trial.spans if own.begin < begin and end < own.end]
        if len(inner) < _FEWEST:
            continue
        strange = b"".join(text[begin:end] for begin, end in inner)
        for its in found:
            other = its.stretch
            if other.format is not one.format and _reads(other.format, text[its.place], strange):
                raise mingled(text, *((one.format, other) if one.begin < other.begin else (other.format, one)))


def _reads(other: Format, output: bytes, strange: bytes) -> bool:
    """Whether a format makes rows of most of the lines if they follow an output of it."""
    alone, more = trial_of(other, output), trial_of(other, output + strange)
    if alone is None or more is None or more.rows - alone.rows < _FEWEST:
        return False
    return 2 * (more.parsed_bytes - alone.parsed_bytes) > len(strange)
