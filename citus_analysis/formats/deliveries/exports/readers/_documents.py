"""Records of an export that is one JSON document, or several: elements of an array somewhere in it.

The document is never in memory as a whole. Its brackets are found in columns, and those down to the records are
followed one by one; each record is then decoded as a line of JSON would be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.exports._rows import Rows
from citus_analysis.formats.deliveries.exports._shape import ANY, OUTER, Path, Shape
from citus_analysis.formats.deliveries.exports.readers._brackets import Brackets
from citus_analysis.formats.deliveries.exports.readers._json_tables import Decoder, parsed_json, value_at
from citus_analysis.formats.deliveries.exports.readers._places import Stretch
from citus_analysis.formats.deliveries.placed_lines import Lines

#: A longer record is taken for damage: what began with it is handed on as it stands.
RECORD_CAP: Final = 64 * 2**20
_BETWEEN: Final = b" \t\r\n,"
_KEY: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*$')
#: What may stand in an object or array beside other objects and arrays.
_TOKENS: Final = re.compile(rb'(?:[\s,:]|"(?:[^"\\]|\\.)*+"|true|false|null|[-+.0-9eE])*+')
_KEY_BYTES: Final = 1024
_MARK: Final = b"\xef\xbb\xbf"


def of_documents(rows: Rows, texts: Iterator[Lines]) -> Iterator[pl.DataFrame]:
    """The records, stretch by stretch."""
    decoder = Decoder(rows.shape)
    first = next(texts, None)
    if first is None:
        return
    walk = _Walk(*_shape_of_text(rows.shape, first.data))
    for lines in chain([first], texts, [None]):
        if lines is None:
            walk.finish()
        else:
            walk.add(lines)
        for found in walk.complete():
            yield _rows(rows, decoder, found)


def _shape_of_text(shape: Shape, data: bytes) -> tuple[Path, bool]:
    """The path to the records of a text, which may be a single record, and whether there is an object around them."""
    outer = any(path[0] == OUTER for _, path in shape.naming)
    return ((), False) if shape.records and _is_record(shape, data) else (shape.records, outer)


def _is_record(shape: Shape, data: bytes) -> bool:
    text = data.removeprefix(_MARK).strip(_BETWEEN)
    if shape.form == "fields" and shape.records[0] == ANY:
        return re.match(rb"\[\s*\{", text) is not None
    if shape.form != "object":
        return text.startswith(b"[")
    if shape.records[0] == ANY:
        return text.startswith(b"{")
    return len(text) <= RECORD_CAP and value_at(parsed_json(text), shape.text) is not None


@dataclass
class _Found:
    """Records with the same object around them."""

    outer: Mapping[str, object] | None = None
    pieces: list[bytes] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def _rows(rows: Rows, decoder: Decoder, found: _Found) -> pl.DataFrame:
    data = b"\n".join(found.pieces)
    starts = np.cumsum([0, *(len(piece) + 1 for piece in found.pieces)])
    starts[-1] -= 1
    plain = np.array([piece.startswith(b"{") and piece.endswith(b"}") for piece in found.pieces])
    records = decoder.records(data, starts, plain).with_columns(
        begin=pl.Series(found.begins, dtype=pl.Int64), end=pl.Series(found.ends, dtype=pl.Int64)
    )
    paths = [path for _, path in rows.shape.naming if path[0] == OUTER]
    around = found.outer
    return rows.of(records, None if around is None else {path: value_at(around, path[1:]) or b"" for path in paths})


@dataclass
class _Open:
    """A bracket on the way to the records, at a position of the text that is held."""

    char: int
    at: int
    on_path: bool


class _Walk:
    """Follows the brackets of a text down to its records."""

    def __init__(self, path: Path, has_outer: bool) -> None:
        self._path, self._has_outer = path, has_outer
        self._text = Stretch()
        self._brackets = Brackets()
        self._read = 0
        self._opened: list[_Open] = []
        #: Where the last bracket stood that is looked at; None where none is.
        self._gap: int | None = 0
        self._lost = False
        #: Whether the array of records was seen in what was opened first.
        self._reached = True
        self._outer: Mapping[str, object] | None = None
        self._found: list[_Found] = []

    def add(self, lines: Lines) -> None:
        """Read the next stretch."""
        if not len(self._text.data) and lines.data.startswith(_MARK) and not self._opened:
            self._gap = len(_MARK)
        self._text.add(lines)
        if self._lost:
            self._give_up()
            return
        data = self._text.data[self._read :]
        whole = data.rstrip(b"\\")
        places, opens, depths = self._brackets.read(whole)
        level = np.where(opens, depths - 1, depths)
        near = level <= len(self._path)
        base, self._read = self._read, self._read + len(whole)
        if self._followed(places[near] + base, opens[near], level[near]):
            self._forget()
        else:
            self._give_up()

    def _followed(self, places: Integers, opens: Bools, level: Integers) -> bool:
        """Follow brackets; False from the first on that may not stand where it does."""
        depth = len(self._path)
        leaves = np.append(np.flatnonzero(level != depth), len(level))
        at = 0
        while at < len(places):
            # Whole records one after the other are added at once.
            pairs = (int(leaves[np.searchsorted(leaves, at)]) - at) // 2
            if pairs and opens[at] and self._between_records() and self._add_whole_records(places[at : at + 2 * pairs]):
                at += 2 * pairs
                continue
            place = int(places[at])
            if not (self._opening(place) if opens[at] else self._closing(place)):
                return False
            at += 1
        return True

    def _between_records(self) -> bool:
        depth = len(self._opened)
        return depth == len(self._path) and (depth == 0 or self._opened[-1].on_path)

    def _add_whole_records(self, places: Integers) -> bool:
        """Add the records with these brackets; False if something is wrong with one, which has to be looked at."""
        data = self._text.data
        begins, ends = places[::2], places[1::2] + 1
        text = np.frombuffer(data, np.uint8)
        if not (text[begins] + 2 == text[ends - 1]).all():
            return False
        first, last = begins.tolist(), ends.tolist()
        if any(data[end:begin].strip(_BETWEEN) for end, begin in zip(last[:-1], first[1:], strict=True)):
            return False
        self._between(first[0])
        self._keep(first, last)
        self._gap = last[-1]
        return True

    def finish(self) -> None:
        """Hand on what was left open at the end of the text."""
        if self._opened and len(self._opened) > len(self._path) and self._opened[-1].on_path:
            self._gap = self._opened[-1].at
        elif self._opened and not self._reached:
            self._gap = self._opened[0].at
        elif self._is_sound(len(self._text.data)):
            self._gap = None
        self._between(len(self._text.data))

    def complete(self) -> list[_Found]:
        """The records since the last call."""
        found, self._found = self._found, []
        return found

    def _opening(self, place: int) -> bool:
        """Whether a bracket may open here; in an object, only after a key."""
        if not self._is_sound(place):
            return False
        depth = len(self._opened)
        above = self._opened[-1] if depth else None
        key = _KEY.search(self._text.data[max(place - _KEY_BYTES, 0) : place]) if 0 < depth <= len(self._path) else None
        if above is not None and above.char == ord("{") and key is None:
            self._gap = place
            return False
        on_path = above is None or (above.on_path and self._fits(self._path[depth - 1], above, key))
        # Inside a record, and in what does not lead to records, nothing is looked at.
        self._gap = place + 1 if on_path and depth < len(self._path) else None
        if depth == 0:
            self._reached = not self._path
        if on_path and depth + 1 == len(self._path):
            self._reached = True
            self._outer = self._around(place) if self._has_outer else None
        self._opened.append(_Open(self._text.data[place], place, on_path))
        return True

    def _is_sound(self, place: int) -> bool:
        """Whether what stands between brackets may stand there; between records, it is handed on if it may not."""
        if self._gap is None:
            return True
        if len(self._opened) in (0, len(self._path)):
            self._between(place)
            return True
        return _TOKENS.fullmatch(self._text.data, self._gap, place) is not None

    @staticmethod
    def _fits(step: str, above: _Open, key: re.Match[bytes] | None) -> bool:
        if step == ANY:
            return above.char == ord("[")
        return above.char == ord("{") and key is not None and key[1] == step.encode()

    def _closing(self, place: int) -> bool:
        """Whether the bracket closes what was opened last; if not, nothing after it has a certain meaning."""
        if not self._opened:
            return True
        if not self._is_sound(place):
            return False
        last = self._opened.pop()
        depth = len(self._opened)
        is_record = last.on_path and depth == len(self._path)
        if self._text.data[place] != last.char + 2:
            self._gap = last.at if is_record else place
            return False
        if is_record or (depth == 0 and not self._reached):
            self._keep([last.at], [place + 1])
        self._gap = place + 1 if depth == 0 or self._opened[-1].on_path else None
        return True

    def _between(self, end: int) -> None:
        """Hand on what stands between records and is neither blank nor a comma."""
        if self._gap is None:
            return
        text = self._text.data[self._gap : end]
        bare = text.strip(_BETWEEN)
        if bare:
            begin = self._gap + text.find(bare)
            self._keep([begin], [begin + len(bare)])

    def _keep(self, begins: list[int], ends: list[int]) -> None:
        if not self._found or self._found[-1].outer is not self._outer:
            self._found.append(_Found(self._outer))
        found = self._found[-1]
        data = self._text.data
        found.pieces += [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
        found.begins += self._text.begins_of(np.array(begins)).tolist()
        found.ends += self._text.ends_of(np.array(ends)).tolist()

    def _give_up(self) -> None:
        """Hand on all lines from the damaged place on."""
        self._lost = True
        self._gap = self._gap or 0
        place = self._gap
        for line in self._text.data[place:].splitlines(keepends=True):
            self._gap = place
            self._between(place + len(line))
            place += len(line)
        self._text.drop(len(self._text.data))
        self._gap = self._read = 0

    def _around(self, place: int) -> Mapping[str, object]:
        """The object that holds the array that opens here, as far as it was read."""
        held = next(one for one in reversed(self._opened) if one.char == ord("{"))
        closing = b"]" * (self._text.data[place] == ord("[")) + b"}"
        found = parsed_json(self._text.data[held.at : place + 1] + closing)
        return found if isinstance(found, dict) else {}

    def _forget(self) -> None:
        """Keep only what is still needed: an open record, what may name it, the last key."""
        needed = [max(self._read - _KEY_BYTES, 0)]
        if self._gap is not None:
            needed.append(self._gap)
        depth = len(self._opened) - len(self._path)
        if self._opened and (self._opened[-1].on_path if depth > 0 else self._has_outer and depth < 0):
            needed.append(self._opened[-1].at)
        if not self._reached and self._opened:
            needed.append(self._opened[0].at)
        first = min(needed)
        if self._read - first > RECORD_CAP:
            if depth <= 0 and self._gap is None:
                problem = f"more than {RECORD_CAP >> 20} MiB before the array of records"
                raise FormatError(problem, way_out="split the file")
            self._gap = self._opened[-1].at if depth > 0 else self._gap
            self._give_up()
            return
        self._text.drop(first)
        self._read -= first
        self._gap = None if self._gap is None else self._gap - first
        for one in self._opened:
            one.at -= first
