"""Lines of a text that are openings of outputs."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from citus_analysis.formats.api.format import Format
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.registry import SURE_ENOUGH, formats

#: An opening of one format so soon after one that several formats share decides between them.
_NEAR_BYTES: Final = 200
#: Bytes by which it is decided otherwise.
_LOOK_BYTES: Final = 4096

Owners = tuple[Format, ...]


@dataclass(frozen=True)
class Mark:
    """An opening in a text.

    Attributes:
        offset: where its line begins.
        opening: the opening.
        format: the format whose opening it is.
    """

    offset: int
    opening: Opening
    format: Format


@cache
def declared() -> Mapping[Opening, Owners]:
    """The openings of all formats, and the formats that declare each: tools of one package share a banner."""
    owners: dict[Opening, Owners] = {}
    for one in formats().values():
        for opening in one.openings:
            owners[opening] = (*owners.get(opening, ()), one)
    return owners


def marks_of(text: bytes) -> list[Mark]:
    r"""The openings in a text, in its order.

    Example:
        >>> marks = marks_of(b"$ sysbench cpu run\nsysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n")
        >>> [(mark.offset, mark.format.name) for mark in marks]
        [(19, 'sysbench')]
    """
    first, later, openings = _beginnings()
    begins = [found.end() for found in (first.match(text), *later.finditer(text)) if found]
    fitting = [(at, one) for at in begins for one in openings[text[at]] if one.pattern.match(text, at)]
    owned = ((at, opening, _owners_of(text, fitting, place)) for place, (at, opening) in enumerate(fitting))
    return [Mark(at, opening, own[0]) for at, opening, own in owned if own]


@cache
def _beginnings() -> tuple[re.Pattern[bytes], re.Pattern[bytes], Mapping[int, Sequence[Opening]]]:
    """What stands before openings in the first line of a text, and in later ones; and openings by their first byte.

    Consoles print a carriage return at the beginning of a line.
    """
    opens = rb"\r?(?=" + rb"|".join(re.escape(one.begins) for one in declared()) + rb")"
    first, later = re.compile(rb"(?:%b)?%b" % (re.escape(codecs.BOM_UTF8), opens)), re.compile(rb"\n" + opens)
    initials = {one.begins[0] for one in declared()}
    return first, later, {byte: [one for one in declared() if one.begins[0] == byte] for byte in initials}


def _owners_of(text: bytes, found: Sequence[tuple[int, Opening]], place: int) -> Owners:
    """The format of an opening; one that several formats share belongs to the one that reads what follows, if any."""
    owners = declared()
    offset, opening = found[place]
    own, stop = owners[opening], min(offset + _LOOK_BYTES, len(text))
    if len(own) == 1:
        return own
    for number in range(place + 1, len(found)):
        at, other = found[number]
        theirs = owners[other]
        if at >= stop:
            break
        if len(theirs) == 1 and theirs[0] in own and at - offset <= _NEAR_BYTES:
            return theirs
        if other == opening or not set(theirs) & set(own):
            stop = at
            break
    sure = {one.detect("", text[offset:stop]): one for one in reversed(own)}
    return (sure[max(sure)],) if max(sure) >= SURE_ENOUGH else ()
