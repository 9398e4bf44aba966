"""Values of the fields of records, to rows of texts: texts are completed, times read, names numbered.

Readers give records as a frame: `raw` is the record as it stands in the file, `begin` and `end` are its place there,
`parsed` tells whether it could be parsed, and a column of the name `str(path)` has the values of each field
that a shape wants, null where a record has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.formats.deliveries.exports._shape import OUTER, Path, Shape
from citus_analysis.formats.deliveries.exports._value_times import nanoseconds
from citus_analysis.formats.deliveries.placed_lines import NO_TIME

#: In place of a part of a name that stands around a record and was not read.
UNSEEN: Final = b"\xff"

#: What stands before the message of a server log, up to its severity.
SEVERITY: Final = re.compile(rb"^([^\n]*?)\b(?:DEBUG[1-5]?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):  ")
#: Values of a field that says whether the text continues, where it does.
_CONTINUES: Final = (b"P", b"false")


@dataclass
class Vocabulary:
    """Combinations of values in order of their first appearance."""

    numbers: dict[tuple[bytes, ...], int] = field(default_factory=dict)

    def codes(self, values: pl.DataFrame) -> pl.Series:
        """For each row the number of its values."""
        distinct = values.unique(maintain_order=True)
        numbers = [self.numbers.setdefault(words, len(self.numbers)) for words in distinct.iter_rows()]
        coded = distinct.with_columns(number=pl.Series(numbers, dtype=pl.Int64))
        return values.join(coded, on=values.columns, how="left", maintain_order="left")["number"]


@dataclass
class Rows:
    """What turns records into rows of texts; it numbers names over a whole file."""

    shape: Shape
    names: Vocabulary = field(default_factory=Vocabulary)
    parts: Vocabulary = field(default_factory=Vocabulary)

    def of(self, records: pl.DataFrame, outer: Mapping[Path, bytes] | None = None) -> pl.DataFrame:
        """The rows of records: of one without a text, the record as it stands in the file.

        `name` is the number of a record's name, -1 for what could not be parsed, `part` the number of the stream of
        which its text may be a piece, and `open` tells that the text continues in the next one of both.

        Args:
            records: records of this shape.
            outer: path -> value of the object around all of them; None if that was not read.
        """
        shape = self.shape
        text = self._texts(records)
        times = nanoseconds(records[str(shape.time)].to_arrow()) if shape.time else NO_TIME
        names = np.where(records["parsed"].to_numpy(), 0, -1)
        if shape.naming:
            # What could not be parsed has no name, not even an empty one.
            labels = records.filter("parsed").select(_label(path, outer) for _, path in shape.naming)
            names[names == 0] = self.names.codes(labels).to_numpy()
        parts = self.parts.codes(records.select(_label(shape.stream, None))) if shape.stream else 0
        return records.select("begin", "end").with_columns(
            text=text.zip_with(text.is_not_null(), records["raw"]),
            time=times,
            name=names,
            part=parts,
            open=self._open(records, text),
        )

    def _texts(self, records: pl.DataFrame) -> pl.Series:
        """The texts, null where a record has none."""
        shape = self.shape
        text = records[str(shape.text)]
        if shape.prefix:
            text = records[str(shape.prefix)].fill_null(b"") + text
        details = [(word.encode(), records[str(path)]) for word, path in shape.details]
        return _with_details(text, details) if any(said.bin.size().sum() for _, said in details) else text

    def _open(self, records: pl.DataFrame, text: pl.Series) -> pl.Series | bool:
        if self.shape.part:
            return (text.is_not_null() & records[str(self.shape.part)].is_in(_CONTINUES)).fill_null(value=False)
        return (~text.bin.ends_with(b"\n")).fill_null(value=False) if self.shape.newline else False


def _label(path: Path, outer: Mapping[Path, bytes] | None) -> pl.Expr:
    if path[0] == OUTER:
        return pl.lit(UNSEEN if outer is None else outer.get(path, b"")).alias(str(path))
    return pl.col(str(path)).fill_null(b"")


def _with_details(texts: pl.Series, details: Sequence[tuple[bytes, pl.Series]]) -> pl.Series:
    """Details as the lines that a server log prints after the message, with the same prefix."""
    rows = zip(texts, *(column for _, column in details), strict=True)
    return pl.Series([_with_detail(text, [word for word, _ in details], said) for text, *said in rows], dtype=pl.Binary)


def _with_detail(text: bytes | None, words: Sequence[bytes], said: Sequence[bytes | None]) -> bytes | None:
    if text is None or not any(said):
        return text
    head = SEVERITY.match(text)
    prefix = head[1] if head else b""
    lines = [prefix + word + b":  " + value for word, value in zip(words, said, strict=True) if value]
    return b"\n".join([text.removesuffix(b"\n"), *lines]) + (b"\n" if text.endswith(b"\n") else b"")
