"""Lines of a text that are openings of outputs."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.api.format import Format
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.registry import SURE_ENOUGH, formats

#: Bytes at the beginning of a line that are compared in columns.
_KEY_BYTES: Final = 8
_RETURN: Final = 13
#: An opening of one format so soon after one that several formats share decides between them.
_NEAR_BYTES: Final = 200
#: Bytes by which it is decided otherwise.
_LOOK_BYTES: Final = 4096

Owners = tuple[Format, ...]
Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]


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
    fitting = [(at, opening) for at, opening in _candidates(text) if opening.pattern.match(text, at)]
    owned = ((at, opening, _owners_of(text, fitting, place)) for place, (at, opening) in enumerate(fitting))
    return [Mark(at, opening, own[0]) for at, opening, own in owned if own]


def _candidates(text: bytes) -> list[tuple[int, Opening]]:
    """Beginnings of lines with the first bytes of an opening."""
    starts, keys = _line_keys(text)
    found: list[tuple[int, int, Opening]] = []
    for mask, (firsts, openings) in _by_first_bytes().items():
        masked = keys & mask
        places = np.minimum(np.searchsorted(firsts, masked), len(firsts) - 1)
        for row in np.flatnonzero(firsts[places] == masked).tolist():
            found += [(int(starts[row]), *one) for one in openings[places[row]]]
    return [(offset, opening) for offset, _, opening in sorted(found, key=lambda one: one[:2])]


@cache
def _by_first_bytes() -> Mapping[np.uint64, tuple[Keys, Sequence[Sequence[tuple[int, Opening]]]]]:
    """Mask of the number of first bytes -> these as ascending numbers, and the openings of each with their ranks."""
    grouped: dict[int, dict[int, list[tuple[int, Opening]]]] = {}
    for rank, opening in enumerate(declared()):
        first = opening.begins[:_KEY_BYTES]
        grouped.setdefault(len(first), {}).setdefault(int.from_bytes(first, "little"), []).append((rank, opening))
    return {
        np.uint64(2 ** (8 * size) - 1): (np.array(sorted(own), np.uint64), [own[first] for first in sorted(own)])
        for size, own in grouped.items()
    }


def _line_keys(text: bytes) -> tuple[Integers, Keys]:
    """Where each line begins, without the carriage return that consoles print there, and its first bytes as a number.

    Bytes after a short line belong to the next one, which no opening contains.
    """
    padded = np.frombuffer(text + bytes(_KEY_BYTES + 1), np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(padded[: len(text)] == ord("\n")) + 1]).astype(np.int64)
    starts[0] += len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    starts += padded[starts] == _RETURN
    keys = np.zeros(len(starts), np.uint64)
    for place in range(_KEY_BYTES):
        # Indexes beyond the end meet the padding.
        keys |= padded[np.minimum(starts + place, len(padded) - 1)].astype(np.uint64) << np.uint64(8 * place)
    return starts, keys


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
