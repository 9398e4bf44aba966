"""Records of an export, as rows of texts: what an export looks like, and values of fields as texts.

Readers give records as a frame: `raw` is the record as it stands in the file, `begin` and `end` are its place there,
`parsed` tells whether it could be parsed, and a column of the name `str(path)` has the values of each field that a
shape wants, null where a record has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.export_times import convert_times_to_ns
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, PlacedLines

#: Keys from a record down to a value.
Path: TypeAlias = tuple[str, ...]
#: In a path to records: each element of an array.
ANY: Final = "*"
#: Before a path to a field of the object that holds the array of records.
OUTER: Final = ".."


@dataclass(frozen=True)
class ExportShape:
    """The structure of an export.

    Attributes:
        container: `lines` (of one object each), `document` (JSON over lines), `csv` or `journal` (journald's export).
        text: path of the tool's text in a record.
        time: path of its time; empty if it has none.
        time_kind: what it is in JSON: `text`, `integer` or `number`.
        utc: times state their zone, or are in UTC as such exports define it.
        naming: paths of the fields that say whose the record is, each after what it names (`host`, `pod` ...).
        stream: path of the field that says of which stream a piece of text is; empty if none.
        part: path of the field that says whether the text continues in the next record; empty if none.
        newline: texts contain their line ends, and a text without one continues in the next record.
        prefix: path of a field that stands before the text; empty if none.
        details: paths of fields that a server log would print as lines after the text, each after its word (`DETAIL`).
        records: path of the records in a document, `*` for the elements of an array.
        form: a record is an `object`, a `pair` of time and text, or `fields`: an array of pairs of name and value.
        header: names of the columns of CSV.
        separator: what stands between columns of CSV.
    """

    container: str
    text: Path = ()
    time: Path = ()
    time_kind: str = "text"
    utc: bool = False
    naming: tuple[tuple[str, Path], ...] = ()
    stream: Path = ()
    part: Path = ()
    newline: bool = False
    prefix: Path = ()
    details: tuple[tuple[str, Path], ...] = ()
    records: Path = ()
    form: str = "object"
    header: tuple[str, ...] = ()
    separator: str = ","

    def wanted(self) -> tuple[Path, ...]:
        """All paths to read in records; those of the object around them not."""
        named = (path for _, path in (*self.naming, *self.details))
        found = dict.fromkeys((self.text, self.time, self.stream, self.part, self.prefix, *named))
        return tuple(path for path in found if path and path[0] != OUTER)


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

    shape: ExportShape
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
        times = convert_times_to_ns(records[str(shape.time)].to_arrow()) if shape.time else NO_TIME
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
        return _append_details(text, details) if any(said.bin.size().sum() for _, said in details) else text

    def _open(self, records: pl.DataFrame, text: pl.Series) -> pl.Series | bool:
        if self.shape.part:
            return (text.is_not_null() & records[str(self.shape.part)].is_in(_CONTINUES)).fill_null(value=False)
        return (~text.bin.ends_with(b"\n")).fill_null(value=False) if self.shape.newline else False


def _label(path: Path, outer: Mapping[Path, bytes] | None) -> pl.Expr:
    if path[0] == OUTER:
        return pl.lit(UNSEEN if outer is None else outer.get(path, b"")).alias(str(path))
    return pl.col(str(path)).fill_null(b"")


def _append_details(texts: pl.Series, details: Sequence[tuple[bytes, pl.Series]]) -> pl.Series:
    """Details as the lines that a server log prints after the message, with the same prefix."""
    rows = zip(texts, *(column for _, column in details), strict=True)
    return pl.Series(
        [_append_detail(text, [word for word, _ in details], said) for text, *said in rows], dtype=pl.Binary
    )


def _append_detail(text: bytes | None, words: Sequence[bytes], said: Sequence[bytes | None]) -> bytes | None:
    if text is None or not any(said):
        return text
    head = SEVERITY.match(text)
    prefix = head[1] if head else b""
    lines = [prefix + word + b":  " + value for word, value in zip(words, said, strict=True) if value]
    return b"\n".join([text.removesuffix(b"\n"), *lines]) + (b"\n" if text.endswith(b"\n") else b"")


# Rows of which a decoder refuses all for one that it cannot read: halved until that one stands alone.


def decode_by_bisection(
    decoded: Callable[[int, int], pl.DataFrame | None], alone: Callable[[int], pl.DataFrame], first: int, end: int
) -> Iterator[pl.DataFrame]:
    """The rows from one number up to another, piece by piece.

    Args:
        decoded: rows between two numbers; None if it cannot read one of them.
        alone: what stands for the row with a number that cannot be read.
        first: number of the first row.
        end: number after the last row.

    Example:
        >>> import polars as pl
        >>> even = lambda first, end: None if 3 in range(first, end) else pl.DataFrame({"n": range(first, end)})
        >>> [rows["n"].to_list() for rows in decode_by_bisection(even, lambda n: pl.DataFrame({"n": [-n]}), 0, 4)]
        [[0, 1], [2], [-3]]
    """
    rows = decoded(first, end)
    if rows is not None:
        yield rows
    elif end - first == 1:
        yield alone(first)
    else:
        middle = (first + end) // 2
        yield from decode_by_bisection(decoded, alone, first, middle)
        yield from decode_by_bisection(decoded, alone, middle, end)


# Lines put one after the other, of which each position is known in the file.


class GrowingText:
    """A text that grows at its end and is taken away from its beginning.

    Attributes:
        data: the text.
    """

    def __init__(self) -> None:
        self.data = b""
        self._lines = PlacedLines.from_file(b"", 0)

    def add(self, lines: PlacedLines) -> None:
        """Append lines."""
        old, size = self._lines, len(self.data)
        starts = np.concatenate([old.starts[: len(old)], lines.starts + size])
        self.data += lines.data
        begins, ends = np.concatenate([old.begins, lines.begins]), np.concatenate([old.ends, lines.ends])
        self._lines = PlacedLines(b"", starts, begins, ends)

    def drop(self, count: int) -> None:
        """Take away the first `count` bytes."""
        old = self._lines
        first = int(np.searchsorted(old.starts, count, side="right")) - 1
        first = min(max(first, 0), len(old))
        self.data = self.data[count:]
        self._lines = PlacedLines(b"", old.starts[first:] - count, old.begins[first:], old.ends[first:])

    def get_begins(self, positions: Integers) -> Integers:
        """Where in the file the bytes at these positions are."""
        line, within, linear = self._find_positions(positions)
        return self._lines.begins[line] + np.where(linear, within, 0)

    def get_ends(self, positions: Integers) -> Integers:
        """Where in the file the bytes before these positions end."""
        line, within, linear = self._find_positions(positions - 1)
        return np.where(linear, self._lines.begins[line] + within + 1, self._lines.ends[line])

    def _find_positions(
        self, positions: Integers
    ) -> tuple[Integers, Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """The line of each position, the offset in it, and whether the line stands in the file as it is."""
        lines = self._lines
        line = np.clip(np.searchsorted(lines.starts, positions, side="right") - 1, 0, max(len(lines) - 1, 0))
        linear = lines.ends[line] - lines.begins[line] == lines.starts[line + 1] - lines.starts[line]
        return line, positions - lines.starts[line], linear
