"""What an export looks like: where its records stand, and which of their fields are the text, its time and its name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.core.type_aliases import Bools, Floats, Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, PlacedLines, slice_byte_texts
from citus_analysis.texts.words import replace_lone_surrogates

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


# Times as exports state them, as numbers of nanoseconds: ISO 8601 in its variants, and numbers since 1970.

_ZONED: Final = "%Y-%m-%dT%H:%M:%S%.f%#z"
_LOCAL: Final = "%Y-%m-%dT%H:%M:%S%.f"
_CLOCK: Final = len("0000-00-00T00:00:00")
#: Kibana's tables state times so.
_KIBANA: Final = "%b %d, %Y @ %H:%M:%S.%f"
#: The least times after 2001 in s, ms, µs and ns, and what one of each is in ns; less is no time.
_LEAST: Final = 10 ** np.array([9, 12, 15, 18])
_NS: Final = np.array([0, 10**9, 10**6, 10**3, 1])
#: The last whole second in nanoseconds of 64 bits, in the year 2262; more is no time either.
_LAST: Final = np.iinfo(np.int64).max // 10**9 * 10**9
_TOO_LARGE: Final = 9.2e18
_STATED: Final = re.compile(rb"(?:Z| ?UTC| ?GMT|[0-9][+-][0-9]{2}(?::?[0-9]{2})?)$", re.IGNORECASE)


def states_zone(text: bytes) -> bool:
    """Whether a time says of which zone it is; numbers count from 1970 UTC.

    Example:
        >>> states_zone(b"2026-03-01T12:00:00.1Z"), states_zone(b"2026-03-01 12:00:00"), states_zone(b"1700000000")
        (True, False, True)
    """
    return text.replace(b".", b"", 1).isdigit() or bool(len(text) >= _CLOCK and _STATED.search(text))


def nanoseconds(values: pa.Array) -> Integers:
    """Nanoseconds since 1970-01-01 UTC, times without a zone read as UTC; `NO_TIME` for what is no time.

    Args:
        values: bytes, integers or floating-point numbers.
    """
    if pa.types.is_integer(values.type):
        return _convert_integer_times(values)
    if pa.types.is_floating(values.type):
        return _convert_number_times(values)
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([(value or b"").decode("ascii", "replace") for value in values.to_pylist()])
    with suppress(pa.ArrowInvalid):
        return _convert_integer_times(texts.cast(pa.int64()))
    times = _parse_time_stamps(texts)
    for row in np.flatnonzero(times == NO_TIME).tolist():
        times[row] = _parse_time_word(texts[row].as_py() or "")
    return times


def _convert_integer_times(values: pa.Array) -> Integers:
    return _convert_epoch_to_ns(values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))


def _convert_number_times(values: pa.Array) -> Integers:
    numbers = np.nan_to_num(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    numbers = np.where(numbers < _TOO_LARGE, numbers, 0.0)
    whole = np.floor(numbers)
    return _convert_epoch_to_ns(np.maximum(whole, 0).astype(np.int64), numbers - whole)


def _convert_epoch_to_ns(whole: Integers, fraction: Floats | float = 0.0) -> Integers:
    """Numbers as times; the whole part apart, because a product would lose what the fraction says."""
    unit = _NS[np.searchsorted(_LEAST, whole, side="right")]
    known = (unit > 0) & (whole < _LAST // np.maximum(unit, 1))
    return np.where(known, whole * unit + np.round(fraction * unit).astype(np.int64), NO_TIME)


def _parse_time_stamps(values: pa.StringArray) -> Integers:
    """Times with a date, of whose zone `Z`, ` UTC`, `+0100`, `+01:00` and `-03` tell; of other texts `NO_TIME`."""
    import polars as pl

    texts = pl.Series("text", values)
    stamps = texts.str.to_datetime(_ZONED, time_unit="ns", time_zone="UTC", strict=False)
    if stamps.null_count():
        text = pl.col("text").str.replace(r"(?i) ?(?:Z|UTC|GMT)$", "+00").str.replace("^(.{10}) ", "${1}T")
        text = text.str.replace(" ", "", literal=True).str.replace(",", ".", literal=True)
        zoned = text.str.to_datetime(_ZONED, time_unit="ns", time_zone="UTC", strict=False)
        local = text.str.to_datetime(_LOCAL, time_unit="ns", strict=False).dt.replace_time_zone("UTC")
        stamps = texts.to_frame().select(pl.coalesce(zoned, local)).to_series()
    times: Integers = stamps.cast(pl.Int64).fill_null(NO_TIME).to_numpy().copy()
    times[times < 0] = NO_TIME
    return times


def _parse_time_word(text: str) -> int:
    if found := re.fullmatch(r"([0-9]{10})(\.[0-9]{1,9})|([0-9]{10,19})", text):
        whole = min(int(found[1] or found[3]), np.iinfo(np.int64).max)
        return int(_convert_epoch_to_ns(np.array([whole]), float(found[2] or 0))[0])
    try:
        stamp = datetime.strptime(text, _KIBANA).replace(tzinfo=UTC)
    except ValueError:
        return NO_TIME
    return round(stamp.timestamp() * 10**6) * 1000


# Values of the fields of records, to rows of texts: texts are completed, times read, names numbered.
#
# Readers give records as a frame: `raw` is the record as it stands in the file, `begin` and `end` are its place there,
# `parsed` tells whether it could be parsed, and a column of the name `str(path)` has the values of each field that a
# shape wants, null where a record has none.

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


# Fields of JSON objects as columns.
#
# Arrow decodes a whole chunk of objects at once, but fails at the first one that it cannot read; then the chunk is
# halved until that one stands alone and Python decodes it. An object is decoded the same whatever stands beside it.

_TYPES: Final = {"text": pa.binary(), "integer": pa.int64(), "number": pa.float64()}
_BLANKS: Final = b" \t\r\n"
_MARK: Final = b"\xef\xbb\xbf"


class JsonNumber(str):
    """A number of a JSON text, as it is written there."""

    __slots__ = ()


def parse_json(text: bytes) -> object:
    """The value that a JSON text stands for; numbers as :class:`JsonNumber`, bytes that are not UTF-8 as surrogates.

    None for what is not JSON, or nested too deeply.
    """
    bare = text.strip(_BLANKS).removeprefix(_MARK)
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
        return get_record_fields(parse_json(self._buffer.slice(begin, end - begin).to_pybytes()), self.shape.form)

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


# Records of an export as CSV with a header; a quoted field may contain line ends.

_QUOTE, _NEWLINE = ord('"'), ord("\n")
#: A row that does not end within so many bytes is taken for damage.
_ROW_CAP: Final = 64 * 2**20


def read_csv_records(rows: Rows, texts: Iterator[PlacedLines]) -> Iterator[pl.DataFrame]:
    """The records, chunk by chunk."""
    text = GrowingText()
    for lines in texts:
        text.add(lines)
        bounds = _find_csv_rows(rows.shape, text.data)
        if len(bounds) == 1 and len(text.data) > _ROW_CAP:
            bounds = np.flatnonzero(np.frombuffer(text.data, np.uint8) == _NEWLINE) + 1
            bounds = np.concatenate([[0], bounds]).astype(np.int64)
        if len(bounds) > 1:
            yield rows.of(_decode_csv_records(rows.shape, text, bounds))
            text.drop(int(bounds[-1]))
    if text.data:
        yield rows.of(_decode_csv_records(rows.shape, text, np.array([0, len(text.data)], np.int64)))


def _find_csv_rows(shape: ExportShape, data: bytes) -> Integers:
    """Where rows begin, and where the last whole one ends: line ends after an even number of quotes.

    Where rows begin with their time, quotes are counted from each line that does, so that a quote that is lost changes
    the meaning of one row only.
    """
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    quotes = np.searchsorted(np.flatnonzero(text == _QUOTE), ends)
    even = quotes % 2 == 0
    if not even.all() and shape.time and shape.header[0] == shape.time[0]:
        begun = _starts_with_time(shape, data, ends)
        # Quotes before the last row that is known to begin.
        before = np.maximum.accumulate(np.where(begun, np.concatenate([[0], quotes[:-1]]), 0))
        even = (quotes - before) % 2 == 0
        even[:-1] |= begun[1:]
    return np.concatenate([[0], ends[even] + 1]).astype(np.int64)


def _starts_with_time(shape: ExportShape, data: bytes, ends: Integers) -> Bools:
    """Whether a line begins with a field that is a time."""
    first = re.compile(rb'(?:"([^"\n]{10,40})"|([^",\n]{10,40}))' + re.escape(shape.separator.encode()))
    begins = [0, *(ends[:-1] + 1).tolist()]
    found = [first.match(data, begin) for begin in begins]
    words = pa.array([match and (match[1] or match[2]) for match in found], pa.binary())
    begun: Bools = nanoseconds(words.fill_null(b"")) != NO_TIME
    return begun


def _decode_csv_records(shape: ExportShape, text: GrowingText, bounds: Integers) -> pl.DataFrame:
    """The records; Arrow refuses all for one that is none."""
    data, columns = text.data[: bounds[-1]], [str(path) for path in shape.wanted()]
    lost = pl.DataFrame(schema=dict.fromkeys(columns, pl.Binary)).clear(1).with_columns(parsed=False)

    def decoded(first: int, end: int) -> pl.DataFrame | None:
        return _decode_csv_text(shape, memoryview(data)[bounds[first] : bounds[end]], end - first)

    records = pl.concat(decode_by_bisection(decoded, lambda _: lost, 0, len(bounds) - 1)).with_columns(
        raw=slice_byte_texts(data, bounds), begin=text.get_begins(bounds[:-1]), end=text.get_ends(bounds[1:])
    )
    # Blank lines, and the header wherever it stands, are no records.
    blank = np.diff(bounds) <= len(b"\r\n")
    for row in np.flatnonzero(blank).tolist():
        blank[row] = not data[bounds[row] : bounds[row + 1]].strip()
    names = [(str(path), path[0].encode()) for path in shape.wanted()]
    header = pl.all_horizontal(pl.col(column).is_in([name, _MARK + name]) for column, name in names)
    return records.filter(~pl.Series(blank) & ~header.fill_null(value=False))


def _decode_csv_text(shape: ExportShape, data: memoryview, count: int) -> pl.DataFrame | None:
    from pyarrow import csv as arrow_csv

    paths = shape.wanted()
    columns = [str(number) for number in range(len(shape.header))]
    reading = arrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=columns)
    parsing = arrow_csv.ParseOptions(delimiter=shape.separator, newlines_in_values=True, ignore_empty_lines=False)
    wanted = [str(shape.header.index(path[0])) for path in paths]
    types = dict.fromkeys(wanted, pa.binary())
    converting = arrow_csv.ConvertOptions(
        check_utf8=False, include_columns=wanted, column_types=types, strings_can_be_null=False
    )
    try:
        table = arrow_csv.read_csv(pa.BufferReader(pa.py_buffer(data)), reading, parsing, converting)
    except pa.ArrowInvalid:
        return None
    if len(table) != count:
        return None
    fields = {str(path): table.column(name) for path, name in zip(paths, wanted, strict=True)}
    return pl.DataFrame(fields | {"parsed": True})


# Records of journald's export format (`journalctl -o export`).
#
# An entry is a run of lines `FIELD=value` up to a blank line. A value with line ends is written after a line with the
# field's name alone: its size as 64 bits, least byte first, the value, and a line end.

Entry = dict[bytes, bytes]
_SIZE: Final = 8
#: An entry that does not end within so many bytes is taken for damage.
_ENTRY_CAP: Final = 64 * 2**20


def read_journal_records(rows: Rows, texts: Iterator[PlacedLines]) -> Iterator[pl.DataFrame]:
    """The records, chunk by chunk."""
    text = GrowingText()
    for lines in texts:
        text.add(lines)
        found, end = parse_journal_entries(text.data, last=len(text.data) > _ENTRY_CAP)
        if found:
            yield rows.of(_build_journal_records(rows.shape, text, found))
            text.drop(end)
    found, _ = parse_journal_entries(text.data, last=True)
    if found:
        yield rows.of(_build_journal_records(rows.shape, text, found))


def parse_journal_entries(data: bytes, *, last: bool) -> tuple[list[tuple[int, int, Entry | None]], int]:
    r"""The entries of a text with their places, and where the last whole one ends; None for one that is damaged.

    Args:
        data: the text, from the beginning of an entry.
        last: nothing follows, so that an entry may end with the text.

    Example:
        >>> parse_journal_entries(b"A=1\nB\n\3\0\0\0\0\0\0\0x\ny\n\nA=2\n", last=False)
        ([(0, 18, {b'A': b'1', b'B': b'x\ny'})], 19)
    """
    found: list[tuple[int, int, Entry | None]] = []
    place = begin = 0
    entry: Entry | None = {}
    while (end := data.find(b"\n", place)) >= 0 or (last and place < len(data)):
        end = end if end >= 0 else len(data)
        line = data[place:end].removesuffix(b"\r")
        if not line:
            if place > begin:
                found.append((begin, place, entry))
            place = begin = end + 1
            entry = {}
            continue
        key, equals, value = line.partition(b"=")
        following = end + 1
        if not equals:
            size = int.from_bytes(data[following : following + _SIZE], "little")
            value_at = following + _SIZE
            following = value_at + size + 1
            if following > len(data):
                if not last:
                    break
                # No value of that size: the line is damaged, and what follows it may be whole.
                entry, following = None, end + 1
            value = data[value_at : value_at + size]
        if entry is not None:
            entry[key] = entry[key] + b"\n" + value if key in entry else value
        place = following
    if last and min(place, len(data)) > begin:
        found.append((begin, min(place, len(data)), entry))
        begin = len(data)
    return found, begin


def _build_journal_records(
    shape: ExportShape, text: GrowingText, found: list[tuple[int, int, Entry | None]]
) -> pl.DataFrame:
    fields = {
        str(path): pl.Series([entry and entry.get(path[0].encode()) for _, _, entry in found], dtype=pl.Binary)
        for path in shape.wanted()
    }
    return pl.DataFrame(fields).with_columns(
        raw=pl.Series([text.data[begin:end] for begin, end, _ in found], dtype=pl.Binary),
        begin=text.get_begins(np.array([begin for begin, _, _ in found], np.int64)),
        end=text.get_ends(np.array([end for _, end, _ in found], np.int64)),
        parsed=pl.Series([entry is not None for _, _, entry in found]),
    )


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
    text = data.removeprefix(_MARK).strip(_BETWEEN)
    if shape.form == "fields" and shape.records[0] == ANY:
        return re.match(rb"\[\s*\{", text) is not None
    if shape.form != "object":
        return text.startswith(b"[")
    if shape.records[0] == ANY:
        return text.startswith(b"{")
    return len(text) <= RECORD_CAP and get_value_bytes(parse_json(text), shape.text) is not None


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

    def complete(self) -> list[_RecordGroup]:
        """The records since the last call."""
        found, self._find_positions = self._find_positions, []
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
        found = parse_json(self._text.data[held.at : place + 1] + closing)
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
