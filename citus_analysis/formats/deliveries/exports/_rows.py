"""Values of the fields of records, to records: texts are completed, times read, names numbered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.exports._columns import Records, Vocabulary, ended_by_newline
from citus_analysis.formats.deliveries.exports._shape import OUTER, Path, Shape
from citus_analysis.formats.deliveries.exports._value_times import nanoseconds
from citus_analysis.formats.deliveries.placed_lines import NO_TIME

#: In place of a part of a name that stands around a record and was not read.
UNSEEN: Final = b"\xff"

#: What stands before the message of a server log, up to its severity.
SEVERITY: Final = re.compile(rb"^([^\n]*?)\b(?:DEBUG[1-5]?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):  ")
#: Values of a field that says whether the text continues, where it does.
_CONTINUES: Final = (b"P", b"false")


@dataclass(frozen=True)
class Table:
    """Records before their fields are understood.

    Attributes:
        raws: each as it stands in the file.
        begins: where it begins in the file.
        ends: where it ends.
        fields: path -> values, null where a record has none.
        parsed: whether it could be parsed.
        outer: path -> value of the object around all of them; None if that was not read.
    """

    raws: pa.Array
    begins: Integers
    ends: Integers
    fields: Mapping[Path, pa.Array]
    parsed: Bools
    outer: Mapping[Path, bytes] | None = None


@dataclass
class Rows:
    """What turns fields into records; it numbers names over a whole file."""

    shape: Shape
    names: Vocabulary = field(default_factory=Vocabulary)
    parts: Vocabulary = field(default_factory=Vocabulary)

    def records(self, table: Table) -> Records:
        """The records of a table."""
        shape, count = self.shape, len(table.begins)
        texts, said = self._texts(table)
        absent = np.full(count, NO_TIME)
        times = nanoseconds(table.fields[shape.time]) if shape.time else absent
        names = np.where(table.parsed, 0, -1)
        if shape.naming:
            # What could not be parsed has no name, not even an empty one.
            rows = np.flatnonzero(table.parsed)
            labels = [self._label(table, path, count).take(pa.array(rows)) for _, path in shape.naming]
            names[rows] = self.names.codes(labels, len(rows))
        parts = self.parts.codes([table.fields[shape.stream]], count) if shape.stream else np.zeros(count, np.int64)
        return Records(texts, table.begins, table.ends, times, names, parts, said & self._open(table, texts))

    def _texts(self, table: Table) -> tuple[pa.Array, Bools]:
        """The texts, of records without one the record itself; and whether there was one."""
        shape = self.shape
        texts = table.fields[shape.text]
        if shape.prefix:
            before = pc.fill_null(table.fields[shape.prefix], b"")
            texts = pc.binary_join_element_wise(before, texts, b"")
        details = [(word.encode(), table.fields[path]) for word, path in shape.details]
        if any(pc.any(pc.greater(pc.binary_length(column), 0)).as_py() for _, column in details):
            texts = _with_details(texts, details)
        if not texts.null_count:
            return texts, np.ones(len(texts), np.bool_)
        said: Bools = texts.is_valid().to_numpy(zero_copy_only=False)
        return pc.coalesce(texts, table.raws), said

    def _open(self, table: Table, texts: pa.Array) -> Bools:
        if self.shape.part:
            values = pa.array(_CONTINUES, pa.binary())
            found: Bools = pc.is_in(table.fields[self.shape.part], value_set=values).to_numpy(zero_copy_only=False)
            return found
        if self.shape.newline:
            return ~ended_by_newline(texts)
        return np.zeros(len(texts), np.bool_)

    def _label(self, table: Table, path: Path, count: int) -> pa.Array:
        if path[0] == OUTER:
            value = UNSEEN if table.outer is None else table.outer.get(path, b"")
            return pa.repeat(pa.scalar(value, pa.binary()), count)
        return table.fields[path]


def _with_details(texts: pa.Array, details: Sequence[tuple[bytes, pa.Array]]) -> pa.Array:
    """Details as the lines that a server log prints after the message, with the same prefix."""
    rows = zip(texts.to_pylist(), *(column.to_pylist() for _, column in details), strict=True)
    return pa.array([_with_detail(text, [word for word, _ in details], said) for text, *said in rows], pa.binary())


def _with_detail(text: bytes | None, words: Sequence[bytes], said: Sequence[bytes | None]) -> bytes | None:
    if text is None or not any(said):
        return text
    head = SEVERITY.match(text)
    prefix = head[1] if head else b""
    lines = [prefix + word + b":  " + value for word, value in zip(words, said, strict=True) if value]
    return b"\n".join([text.removesuffix(b"\n"), *lines]) + (b"\n" if text.endswith(b"\n") else b"")
