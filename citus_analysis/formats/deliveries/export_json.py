"""Records of exports in JSON: one object per line, or elements of an array in a document.

Arrow decodes a whole chunk of objects at once, but fails at the first one that it cannot read; then the chunk is
halved until that one stands alone and Python decodes it. An object is decoded the same whatever stands beside it.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.core.type_aliases import Bools, Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.export_rows import (
    ANY,
    OUTER,
    ExportShape,
    GrowingText,
    Path,
    Rows,
    decode_by_bisection,
)
from citus_analysis.formats.deliveries.placed_lines import PlacedLines, slice_byte_texts
from citus_analysis.texts.words import replace_lone_surrogates

_TYPES: Final = {"text": pa.binary(), "integer": pa.int64(), "number": pa.float64()}
_BLANKS: Final = b" \t\r\n"


class JsonNumber(str):
    """A number of a JSON text, as it is written there."""

    __slots__ = ()


def parse_json_record(text: bytes) -> object:
    """The value that a JSON text stands for; numbers as :class:`JsonNumber`, bytes that are not UTF-8 as surrogates.

    None for what is not JSON, or nested too deeply.
    """
    bare = text.strip(_BLANKS).removeprefix(BOM_UTF8)
    # Looking for the halves of characters takes longer than all else where there are no such escapes.
    whole = (replace_lone_surrogates(bare) if b"\\u" in bare else bare).decode("utf-8", "surrogateescape")
    try:
        return json.loads(  # noqa: TID251 - RecursionError ends it, and numbers stay as printed
            whole,
            parse_int=JsonNumber,
            parse_float=JsonNumber,
            parse_constant=JsonNumber,
            object_pairs_hook=_merge_json_members,
        )
    except (ValueError, RecursionError):
        return None


def _merge_json_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object of these members; what is said twice and differently counts as not said."""
    found: dict[str, object] = {}
    for key, value in pairs:
        found[key] = value if key not in found or found[key] == value else None
    return found


def get_record_fields(record: object, form: str) -> Mapping[str, object] | None:
    """A record as an object; None if it does not have that form."""
    if form == "object":
        return record if isinstance(record, dict) else None
    if not isinstance(record, list):
        return None
    if form == "pair":
        return {"0": record[0], "1": record[1]} if len(record) >= 2 else None
    named = [one for one in record if isinstance(one, dict) and isinstance(one.get("field"), str)]
    return {str(one["field"]): one.get("value") for one in named} if len(named) == len(record) else None


def get_value_bytes(record: object, path: Path) -> bytes | None:
    """The value at the end of a path, as bytes; arrays of numbers below 256 are bytes (journald's JSON)."""
    record = get_member_value(record, path)
    if isinstance(record, str):
        return record.encode("utf-8", "surrogateescape")
    if not isinstance(record, list):
        return None
    if all(isinstance(one, JsonNumber) and one.isdecimal() and len(one) <= 3 and int(one) < 256 for one in record):
        return bytes(int(one) for one in record)
    return b"\n".join(one.encode("utf-8", "surrogateescape") for one in record if isinstance(one, str)) or None


def get_member_value(record: object, path: Path) -> object:
    """The value at the end of a path; None if there is none."""
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record


@dataclass
class Decoder:
    """Decodes records of a shape."""

    shape: ExportShape
    _schema: pa.Schema | None = field(init=False)

    def __post_init__(self) -> None:
        tree: dict[str, object] = {}
        for path in self.shape.wanted():
            node = tree
            for key in path[:-1]:
                inner = node.setdefault(key, {})
                node = inner if isinstance(inner, dict) else {}
            kind = self._kind(path)
            node[path[-1]] = pa.string() if kind == pa.binary() else kind
        self._schema = None if self.shape.form != "object" else pa.schema(_build_arrow_fields(tree))

    def records(self, data: bytes, starts: Integers, plain: Bools) -> pl.DataFrame:
        """The records, without their places.

        Args:
            data: the records.
            starts: where each begins, and the end of the last one.
            plain: records that begin and end with braces, and may be decoded with others.
        """
        self._buffer, self._starts = pa.py_buffer(data), starts
        plain = np.zeros(len(plain), np.bool_) if self._schema is None else plain
        edges = np.flatnonzero(np.diff(plain)) + 1
        found: list[pl.DataFrame] = []
        for first, end in pairwise([0, *edges.tolist(), len(plain)]):
            if plain[first]:
                found += decode_by_bisection(self._decode, lambda row: self._each(row, row + 1), first, end)
            else:
                found.append(self._each(first, end))
        return pl.concat(found).with_columns(raw=slice_byte_texts(data, starts))

    def _decode(self, first: int, end: int) -> pl.DataFrame | None:
        from pyarrow import json as arrow_json

        begin, size = int(self._starts[first]), int(self._starts[end] - self._starts[first])
        options = arrow_json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")
        reading = arrow_json.ReadOptions(use_threads=False, block_size=size + 1)
        try:
            table = arrow_json.read_json(pa.BufferReader(self._buffer.slice(begin, size)), reading, options)
        except pa.ArrowInvalid:
            return None
        if len(table) != end - first:
            # Records that begin and end with braces hold at least one object each: as many rows are one of each.
            return None
        return pl.DataFrame(
            {str(path): _get_binary_column(table, path) for path in self.shape.wanted()} | {"parsed": True}
        )

    def _each(self, first: int, end: int) -> pl.DataFrame:
        """These records, decoded one by one by Python."""
        records = [self._record(row) for row in range(first, end)]
        columns = {
            str(path): pa.array([self._value(record, path) for record in records], self._kind(path))
            for path in self.shape.wanted()
        }
        return pl.DataFrame(columns | {"parsed": [record is not None for record in records]})

    def _record(self, row: int) -> Mapping[str, object] | None:
        begin, end = int(self._starts[row]), int(self._starts[row + 1])
        return get_record_fields(
            parse_json_record(self._buffer.slice(begin, end - begin).to_pybytes()), self.shape.form
        )

    def _kind(self, path: Path) -> pa.DataType:
        return _TYPES[self.shape.time_kind if path == self.shape.time else "text"]

    def _value(self, record: object, path: Path) -> bytes | int | float | None:
        value, kind = get_value_bytes(record, path), self._kind(path)
        if value is None or (path == self.shape.text and isinstance(get_member_value(record, path), JsonNumber)):
            return None
        try:
            return (
                value if kind == pa.binary() else float(value) if kind == pa.float64() else _convert_to_integer(value)
            )
        except ValueError:
            return None


def _convert_to_integer(value: bytes) -> int | None:
    found = int(value)
    return found if abs(found) < 2**63 else None


def _build_arrow_fields(tree: Mapping[str, object]) -> Sequence[pa.Field]:
    return [
        pa.field(key, pa.struct(_build_arrow_fields(own)) if isinstance(own, dict) else own)
        for key, own in tree.items()
    ]


def _get_binary_column(table: pa.Table, path: Path) -> pa.Array:
    import pyarrow.compute as pc

    column = table.column(path[0]).combine_chunks()
    for key in path[1:]:
        column = pc.struct_field(column, key)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column


# Records of an export with one JSON object per line.

#: Larger chunks do not fit into the caches, smaller ones take more calls.
_CHUNK: Final = 4 * 2**20


def read_json_line_records(rows: Rows, texts: Iterator[PlacedLines]) -> Iterator[pl.DataFrame]:
    """The records, in chunks of bounded size."""
    decoder = Decoder(rows.shape)
    for lines in texts:
        goals = np.arange(_CHUNK, len(lines.data), _CHUNK)
        bounds = np.unique([0, *np.searchsorted(lines.starts, goals).tolist(), len(lines)])
        for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            records = _decode_json_lines(decoder, lines, first, end)
            if records.height:
                yield rows.of(records)


def _decode_json_lines(decoder: Decoder, lines: PlacedLines, first: int, end: int) -> pl.DataFrame:
    starts = lines.starts[first : end + 1]
    data = lines.data[starts[0] : starts[-1]]
    plain, blank = _classify_json_lines(data, starts - starts[0])
    records = decoder.records(data, starts - starts[0], plain)
    placed = records.with_columns(begin=lines.begins[first:end], end=lines.ends[first:end])
    return placed.filter(~blank) if blank.any() else placed


def _classify_json_lines(data: bytes, starts: Integers) -> tuple[Bools, Bools]:
    """Whether a line begins and ends with braces, and whether it is blank.

    Blanks around braces are rare and looked for one by one.
    """
    text = np.frombuffer(data, np.uint8)
    last = starts[1:] - 1
    last = last - (text[last] == ord("\n"))
    last = np.maximum(last - (text[np.maximum(last, 0)] == ord("\r")), 0)
    plain: Bools = (text[starts[:-1]] == ord("{")) & (text[last] == ord("}"))
    blank = np.zeros_like(plain)
    for row in np.flatnonzero(~plain).tolist():
        line = data[starts[row] : starts[row + 1]].strip(_BLANKS)
        plain[row], blank[row] = line.startswith(b"{") and line.endswith(b"}"), not line
    return plain, blank


# The brackets of a JSON text that stand outside of strings, found in columns.

_QUOTE_BYTE, _BACKSLASH, _NEWLINE_BYTE = ord('"'), ord("\\"), ord("\n")
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
        quotes = _find_unescaped_quotes(text, np.flatnonzero(text == _QUOTE_BYTE))
        newlines = np.flatnonzero(text == _NEWLINE_BYTE)
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


def _find_unescaped_quotes(text: npt.NDArray[np.uint8], quotes: Integers) -> Integers:
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


# Records of an export that is one JSON document, or several: elements of an array somewhere in it.
#
# The document is never in memory as a whole. Its brackets are found in columns, and those down to the records are
# followed one by one; each record is then decoded as a line of JSON would be.

#: A longer record is taken for damage: what began with it is handed on as it stands.
RECORD_CAP: Final = 64 * 2**20
_BETWEEN: Final = b" \t\r\n,"
_KEY: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*$')
#: What may stand in an object or array beside other objects and arrays.
_TOKENS: Final = re.compile(rb'(?:[\s,:]|"(?:[^"\\]|\\.)*+"|true|false|null|[-+.0-9eE])*+')
_KEY_BYTES: Final = 1024


def read_document_records(rows: Rows, texts: Iterator[PlacedLines]) -> Iterator[pl.DataFrame]:
    """The records, chunk by chunk."""
    decoder = Decoder(rows.shape)
    first = next(texts, None)
    if first is None:
        return
    walk = _BracketWalk(*_shape_of_text(rows.shape, first.data))
    for lines in chain([first], texts, [None]):
        if lines is None:
            walk.finish()
        else:
            walk.add(lines)
        for found in walk.complete():
            yield _build_document_rows(rows, decoder, found)


def _shape_of_text(shape: ExportShape, data: bytes) -> tuple[Path, bool]:
    """The path to the records of a text, which may be a single record, and whether there is an object around them."""
    outer = any(path[0] == OUTER for _, path in shape.naming)
    return ((), False) if shape.records and _is_record(shape, data) else (shape.records, outer)


def _is_record(shape: ExportShape, data: bytes) -> bool:
    text = data.removeprefix(BOM_UTF8).strip(_BETWEEN)
    if shape.form == "fields" and shape.records[0] == ANY:
        return re.match(rb"\[\s*\{", text) is not None
    if shape.form != "object":
        return text.startswith(b"[")
    if shape.records[0] == ANY:
        return text.startswith(b"{")
    return len(text) <= RECORD_CAP and get_value_bytes(parse_json_record(text), shape.text) is not None


@dataclass
class _RecordGroup:
    """Records with the same object around them."""

    outer: Mapping[str, object] | None = None
    pieces: list[bytes] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def _build_document_rows(rows: Rows, decoder: Decoder, found: _RecordGroup) -> pl.DataFrame:
    data = b"\n".join(found.pieces)
    starts = np.cumsum([0, *(len(piece) + 1 for piece in found.pieces)])
    starts[-1] -= 1
    plain = np.array([piece.startswith(b"{") and piece.endswith(b"}") for piece in found.pieces])
    records = decoder.records(data, starts, plain).with_columns(
        begin=pl.Series(found.begins, dtype=pl.Int64), end=pl.Series(found.ends, dtype=pl.Int64)
    )
    paths = [path for _, path in rows.shape.naming if path[0] == OUTER]
    around = found.outer
    return rows.of(
        records, None if around is None else {path: get_value_bytes(around, path[1:]) or b"" for path in paths}
    )


@dataclass
class _Open:
    """A bracket on the way to the records, at a position of the text that is held."""

    char: int
    at: int
    on_path: bool


class _BracketWalk:
    """Follows the brackets of a text down to its records."""

    def __init__(self, path: Path, has_outer: bool) -> None:
        self._path, self._has_outer = path, has_outer
        self._text = GrowingText()
        self._brackets = Brackets()
        self._read = 0
        self._opened: list[_Open] = []
        #: Where the last bracket stood that is looked at; None where none is.
        self._gap: int | None = 0
        self._lost = False
        #: Whether the array of records was seen in what was opened first.
        self._reached = True
        self._outer: Mapping[str, object] | None = None
        self._find_positions: list[_RecordGroup] = []

    def add(self, lines: PlacedLines) -> None:
        """Read the next chunk."""
        if not len(self._text.data) and lines.data.startswith(BOM_UTF8) and not self._opened:
            self._gap = len(BOM_UTF8)
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
        if self._follow_places(places[near] + base, opens[near], level[near]):
            self._forget()
        else:
            self._give_up()

    def _follow_places(self, places: Integers, opens: Bools, level: Integers) -> bool:
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
            if not (self._open(place) if opens[at] else self._close(place)):
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

    def complete(self) -> list[_RecordGroup]:
        """The records since the last call."""
        found, self._find_positions = self._find_positions, []
        return found

    def _open(self, place: int) -> bool:
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

    def _close(self, place: int) -> bool:
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
        if not self._find_positions or self._find_positions[-1].outer is not self._outer:
            self._find_positions.append(_RecordGroup(self._outer))
        found = self._find_positions[-1]
        data = self._text.data
        found.pieces += [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
        found.begins += self._text.get_begins(np.array(begins)).tolist()
        found.ends += self._text.get_ends(np.array(ends)).tolist()

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
        found = parse_json_record(self._text.data[held.at : place + 1] + closing)
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
                raise FormatError(problem, hint="split the file")
            self._gap = self._opened[-1].at if depth > 0 else self._gap
            self._give_up()
            return
        self._text.drop(first)
        self._read -= first
        self._gap = None if self._gap is None else self._gap - first
        for one in self._opened:
            one.at -= first
