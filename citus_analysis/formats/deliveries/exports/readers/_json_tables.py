r"""Fields of JSON objects as columns.

Arrow decodes a whole stretch of objects at once, but fails at the first one that it cannot read; then the stretch is
halved until that one stands alone and Python decodes it. An object is decoded the same whatever stands beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.exports._shape import Path, Shape
from citus_analysis.formats.deliveries.exports.halving import decoded_in_halves
from citus_analysis.formats.deliveries.line_rows import texts_between
from citus_analysis.texts.lone_surrogates import without_lone_surrogates

_TYPES: Final = {"text": pa.binary(), "integer": pa.int64(), "number": pa.float64()}
_BLANKS: Final = b" \t\r\n"
_MARK: Final = b"\xef\xbb\xbf"


class Number(str):
    """A number of a JSON text, as it is written there."""

    __slots__ = ()


def parsed_json(text: bytes) -> object:
    """The value that a JSON text stands for; numbers as :class:`Number`, bytes that are not UTF-8 as surrogates.

    None for what is not JSON, or nested too deeply.
    """
    bare = text.strip(_BLANKS).removeprefix(_MARK)
    # Looking for the halves of characters takes longer than all else where there are no such escapes.
    whole = (without_lone_surrogates(bare) if b"\\u" in bare else bare).decode("utf-8", "surrogateescape")
    try:
        return json.loads(whole, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object of these members; what is said twice and differently counts as not said."""
    found: dict[str, object] = {}
    for key, value in pairs:
        found[key] = value if key not in found or found[key] == value else None
    return found


def fields_of(record: object, form: str) -> Mapping[str, object] | None:
    """A record as an object; None if it does not have that form."""
    if form == "object":
        return record if isinstance(record, dict) else None
    if not isinstance(record, list):
        return None
    if form == "pair":
        return {"0": record[0], "1": record[1]} if len(record) >= 2 else None
    named = [one for one in record if isinstance(one, dict) and isinstance(one.get("field"), str)]
    return {str(one["field"]): one.get("value") for one in named} if len(named) == len(record) else None


def value_at(record: object, path: Path) -> bytes | None:
    """The value at the end of a path, as bytes; arrays of numbers below 256 are bytes (journald's JSON)."""
    record = member(record, path)
    if isinstance(record, str):
        return record.encode("utf-8", "surrogateescape")
    if not isinstance(record, list):
        return None
    if all(isinstance(one, Number) and one.isdecimal() and len(one) <= 3 and int(one) < 256 for one in record):
        return bytes(int(one) for one in record)
    return b"\n".join(one.encode("utf-8", "surrogateescape") for one in record if isinstance(one, str)) or None


def member(record: object, path: Path) -> object:
    """The value at the end of a path; None if there is none."""
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record


@dataclass
class Decoder:
    """Decodes records of a shape."""

    shape: Shape
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
        self._schema = None if self.shape.form != "object" else pa.schema(_fields(tree))

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
                found += decoded_in_halves(self._decoded, lambda row: self._each(row, row + 1), first, end)
            else:
                found.append(self._each(first, end))
        return pl.concat(found).with_columns(raw=texts_between(data, starts))

    def _decoded(self, first: int, end: int) -> pl.DataFrame | None:
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
        return pl.DataFrame({str(path): _column(table, path) for path in self.shape.wanted()} | {"parsed": True})

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
        return fields_of(parsed_json(self._buffer.slice(begin, end - begin).to_pybytes()), self.shape.form)

    def _kind(self, path: Path) -> pa.DataType:
        return _TYPES[self.shape.time_kind if path == self.shape.time else "text"]

    def _value(self, record: object, path: Path) -> bytes | int | float | None:
        value, kind = value_at(record, path), self._kind(path)
        if value is None or (path == self.shape.text and isinstance(member(record, path), Number)):
            return None
        try:
            return value if kind == pa.binary() else float(value) if kind == pa.float64() else _integer(value)
        except ValueError:
            return None


def _integer(value: bytes) -> int | None:
    found = int(value)
    return found if abs(found) < 2**63 else None


def _fields(tree: Mapping[str, object]) -> Sequence[pa.Field]:
    return [pa.field(key, pa.struct(_fields(own)) if isinstance(own, dict) else own) for key, own in tree.items()]


def _column(table: pa.Table, path: Path) -> pa.Array:
    column = table.column(path[0]).combine_chunks()
    for key in path[1:]:
        column = pc.struct_field(column, key)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column
