r"""The step that undoes an export, as log services and container runtimes write it: a text in a field of records.

Example:
    >>> docker = ExportShape("lines", text=("log",), time=("time",), utc=True, stream=("stream",), newline=True)
    >>> record = b'{"log":"one\\n","stream":"stderr","time":"1970-01-01T00:00:01Z"}\n'
    >>> (lines,) = Export.of(docker).undo(iter([PlacedLines.from_file(record, offset=100)]))
    >>> lines.data, lines.begins.tolist(), lines.ends.tolist(), lines.times.tolist()
    (b'one\n', [100], [164], [1000000])
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final, cast
from urllib.parse import quote, unquote

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.core.parallel import prefetch_in_thread
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.content import find_line_starts
from citus_analysis.formats.deliveries.export_csv import read_csv_records
from citus_analysis.formats.deliveries.export_journal import parse_journal_entries, read_journal_records
from citus_analysis.formats.deliveries.export_json import (
    JsonNumber,
    get_member_value,
    get_record_fields,
    get_value_bytes,
    parse_json_record,
    read_document_records,
    read_json_line_records,
)
from citus_analysis.formats.deliveries.export_rows import ANY, OUTER, SEVERITY, UNSEEN, ExportShape, Path, Rows
from citus_analysis.formats.deliveries.export_times import convert_times_to_ns, states_zone
from citus_analysis.formats.deliveries.placed_lines import (
    NO_TIME,
    Knows,
    Order,
    PlacedLines,
    Step,
    determine_name_orders,
    join_text_bytes,
    put_together,
    sort_pieces_by_time,
    take_while_in_order,
)
from citus_analysis.texts.words import replace_lone_surrogates

# What people call exports of a known shape, and the names of fields that such exports are known to have.

#: Names of fields, in lower case and without punctuation. A text, a time or a name is not looked for among these alone;
#: they decide between several that would do.
TEXTS: Final = ("log", "message", "textpayload", "msg", "line", "@message", "body", "stringvalue", "raw", "event")
TIMES: Final = (
    *("time", "timestamp", "@timestamp", "realtimetimestamp", "timeunixnano", "ts", "date", "datetime"),
    *("timegenerated", "@ingestiontime", "ingestiontime", "receivetimestamp", "0"),
)
#: What a field names -> names that such a field has, the usual one first.
NAMING: Final = {
    "host": (
        *("host", "hostname", "nodename", "node", "nodeid", "instanceid", "instance", "databaseid", "server"),
        *("servername", "logicalservername", "dbinstanceidentifier", "computer", "resourceid"),
    ),
    "pod": ("podname", "pod", "kubernetespodname", "loggingpod"),
    "container": ("containername", "container", "kubernetescontainername", "appname"),
    "unit": ("systemdunit", "unit", "syslogidentifier", "service", "servicename"),
    "stream": ("logstreamname", "logstream", "@logstream"),
    "file": ("filename", "logfile", "file", "filepath", "path"),
}
#: Fields beside a message that PostgreSQL prints as lines after it.
DETAILS: Final = {
    "detail": "DETAIL",
    "hint": "HINT",
    "internalquery": "QUERY",
    "context": "CONTEXT",
    "statement": "STATEMENT",
}


def describe_export_shape(shape: ExportShape) -> str:
    """What a shape is called.

    Example:
        >>> describe_export_shape(ExportShape("lines", text=("textPayload",)))
        'JSON export, field textPayload'
    """
    field = ".".join(shape.text)
    if shape.container == "journal":
        return "journald export"
    if shape.container == "csv":
        return f"CSV export, column {field}"
    if field == "log" and shape.stream == ("stream",) and shape.time == ("time",):
        return "Docker JSON"
    if field == "MESSAGE" and shape.time == ("__REALTIME_TIMESTAMP",):
        return "journald JSON"
    return _describe_array_export(shape.records, field) or f"JSON export, field {field}"


def _describe_array_export(records: Path, field: str) -> str | None:
    if field == "@message":
        return "CloudWatch Insights results"
    if records[-2:] in (("events", ANY), ("logEvents", ANY)) and field == "message":
        return "CloudWatch events"
    if records[-4:] == ("result", ANY, "values", ANY):
        return "Loki response"
    return None


_READERS: Final = MappingProxyType(
    {
        "lines": read_json_line_records,
        "document": read_document_records,
        "csv": read_csv_records,
        "journal": read_journal_records,
    }
)


def any_cut(data: bytes, *, lines_only: bool) -> int:
    """A :class:`~citus_analysis.formats.deliveries.content.Cut` for documents, whose lines may be of any length."""
    return 0 if lines_only else len(data)


@dataclass(frozen=True)
class Export(ExportShape, Step):
    """An export, and what is read of it.

    Attributes:
        only: records of this name (see :meth:`views`) are read; None for all.
        strays: records that cannot be parsed, and so have no name, are handed on too.
        late_ns: how much earlier than one before it a record is at most; 0 if they are in order.
        newest_first: the newest record comes first.
        believed: the records are believed to be in order.
    """

    only: str | None = None
    strays: bool = True
    late_ns: int = 0
    newest_first: bool = False
    believed: bool = False

    @classmethod
    def of(cls, shape: ExportShape) -> Export:
        """All records of an export of this shape, which is in order."""
        return cls(**{one.name: getattr(shape, one.name) for one in fields(ExportShape)})

    @property
    def words(self) -> str:
        """`Docker JSON`, `JSON export, field textPayload`, `CSV export, column @message of pg-1`."""
        known = describe_export_shape(self)
        return known if self.only is None else f"{known} of {self.only or 'no name'}"

    @property
    def any_line(self) -> bool:
        """A record has no relation to lines, so that content may be cut anywhere (:func:`any_cut`)."""
        return self.container == "document"

    def undo(self, texts: Iterator[PlacedLines], jobs: int = 1) -> Iterator[PlacedLines]:
        r"""The lines of the tool, in order of time.

        Each has the place of its record. A record without a text, or one that cannot be parsed, is handed on as it
        stands. What stands between records (brackets, commas, blank lines, a header) gives no lines.

        Args:
            texts: chunks of the file, of whole lines unless it is a document.
            jobs: with more than one, a thread decodes records in advance.

        Raises:
            InputError: records are too far out of order to be sorted in memory.
            OutOfOrderError: their order was believed, and a record is earlier than the one before it.
            FormatError: of a document, too much stands before its records.
        """
        rows = Rows(self)
        records = self._select(rows, prefetch_in_thread(_READERS[self.container](rows, texts), "decoding", jobs - 1))
        if self.believed:
            records = take_while_in_order(records)
        if self.late_ns:
            problem = "records are so far out of order that more than 1 GiB would be held to sort them"
            refusal = InputError(problem, hint="sort the file by the time of its records, or export shorter times")
            records = sort_pieces_by_time(records, self.late_ns, refusal, newest_first=self.newest_first)
        if self.newline or self.part:
            # A piece without bytes, after which nothing came, is no line.
            lined = pl.col("text").bin.size() > 0
            records = (found.filter(lined | ~pl.col("open")) for found in put_together(records, ("name", "part")))
        for found in records:
            yield _convert_rows_to_lines(found, timed=bool(self.time) and self.utc)

    def views(self, texts: Iterator[PlacedLines], jobs: int = 1) -> list[Export]:
        """What is in a text: one step for each name in it, in order of appearance, which knows whether to sort.

        Reads the text once, in bounded memory. Records that cannot be parsed go to the first one.

        Args:
            texts: chunks of the whole file.
            jobs: with more than one, a thread decodes records in advance.
        """
        rows = Rows(self)
        pieces = prefetch_in_thread(_READERS[self.container](rows, texts), "decoding", jobs - 1)
        named = (piece.select("name", "time").filter(pl.col("name") >= 0) for piece in pieces)
        late = cast("dict[int, Order]", determine_name_orders(named))
        names = [self._name(values) for values in rows.names.numbers]
        views = [
            replace(self, strays=number == min(late), late_ns=found.late, newest_first=found.is_descending)
            for number, found in sorted(late.items())
        ]
        if not self.naming or not views:
            return views or [self]
        return [replace(view, only=name) for view, name in zip(views, names, strict=True)]

    @property
    def is_named(self) -> bool:
        """Whether its records have names."""
        return bool(self.naming)

    @property
    def of_node(self) -> str | None:
        """The pod, host or container that the records are of; None if their name is of something else."""
        known = self.facts
        return next((known[kind] for kind in ("pod", "host", "container") if kind in known), None)

    @property
    def facts(self) -> Mapping[str, str]:
        """What the name of the records says: values of `host`, `pod`, `container` ..., as far as it has them."""
        if self.only is None:
            return {}
        values = [self.only] if len(self.naming) == 1 else [unquote(value) for value in self.only.split("/")]
        return {kind: value for (kind, _), value in zip(self.naming, values, strict=True) if value}

    def _name(self, values: tuple[bytes, ...]) -> str:
        texts = [value.decode("utf-8", "replace") for value in values]
        return texts[0] if len(texts) == 1 else "/".join(quote(text, safe=" :@+,=") for text in texts)

    def _select(self, rows: Rows, pieces: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for piece in pieces:
            # Of a record looked up alone, what stood around it and names it is not at hand.
            kept = [
                number
                for values, number in rows.names.numbers.items()
                if self.only is None or UNSEEN in values or self._name(values) == self.only
            ]
            chosen = pl.col("name").is_in([*kept, *([-1] if self.strays else [])])
            found = piece if self.only is None and self.strays else piece.filter(chosen)
            if found.height:
                yield found


def _convert_rows_to_lines(rows: pl.DataFrame, *, timed: bool) -> PlacedLines:
    """Their lines; a text without a line end at its end is given one, and each line has the place of its text."""
    text = pl.col("text")
    ended = rows.select(pl.when(text.bin.ends_with(b"\n")).then(text).otherwise(text + pl.lit(b"\n")))
    data, bounds = join_text_bytes(ended.to_series())
    starts = find_line_starts(data)
    # Each text has at least its line end, so that no two begin at the same place.
    own = rows[np.searchsorted(bounds, starts[:-1], side="right") - 1]
    times = own["time"].to_numpy()
    micros = np.where(times == NO_TIME, times, times // 1000) if timed else None
    return PlacedLines(data, starts, own["begin"].to_numpy(), own["end"].to_numpy(), micros)


# The first records of a text, for each container that it might be: what an export is recognised by.

_MOST_RECORDS: Final = 400
#: Arrays further down are no arrays of records.
_DEEPEST: Final = 6
_BLANKS: Final = b" \t\r\n"
_HEADER: Final = re.compile(r"@?[A-Za-z_][\w .@()/-]{0,60}")
_SEPARATORS: Final = ",;\t"
#: Strings, brackets, and the quote of a string that is cut.
_DELIMITERS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]{}]')


@dataclass(frozen=True)
class Sample:
    """Records and the shape that they were found in, of which the fields are yet to be chosen.

    Attributes:
        shape: container and place of the records.
        records: the records, as objects.
        outer: for each record, the object that holds the array it is in, as far as it stands before the array.
    """

    shape: ExportShape
    records: tuple[Mapping[str, object], ...]
    outer: tuple[Mapping[str, object], ...] = ()


def iterate_samples(head: bytes) -> Iterator[Sample]:
    """What the text may be, the likeliest first.

    Args:
        head: its first bytes, which may end inside a record.
    """
    yield from _sample_json_lines(head)
    if head[:1] in (b"{", b"["):
        yield from _sample_json_documents(head)
    elif re.match(rb"__CURSOR=|(?:[A-Z_][A-Z0-9_]*=[^\n]*\n)+__REALTIME_TIMESTAMP=", head):
        entries = [entry for _, _, entry in parse_journal_entries(head, last=False)[0] if entry]
        words = [
            {key.decode("latin-1"): value.decode("utf-8", "surrogateescape") for key, value in one.items()}
            for one in entries
        ]
        yield Sample(ExportShape("journal"), tuple(words[:_MOST_RECORDS]))
    else:
        yield from _sample_csv(head)


def _sample_json_lines(head: bytes) -> Iterator[Sample]:
    lines = [line for line in head.split(b"\n")[:_MOST_RECORDS] if line.strip(_BLANKS)]
    objects = [found for line in lines if isinstance(found := parse_json_record(line), dict)]
    # The last line may be cut.
    if objects and 2 * len(objects) >= len(lines) - 1:
        yield Sample(ExportShape("lines"), tuple(objects))


def _sample_json_documents(head: bytes) -> Iterator[Sample]:
    roots = list(_parse_root_values(replace_lone_surrogates(head).decode("utf-8", "surrogateescape")))
    if not roots:
        return
    single = isinstance(roots[0], dict)
    if single and len(roots) > 1:
        yield Sample(ExportShape("document"), tuple(root for root in roots if isinstance(root, dict)))
    # Of one object over several lines, an array of records in it is looked for first.
    yield from _sample_json_arrays(roots)
    if isinstance(roots[0], dict):
        yield Sample(ExportShape("document"), (roots[0],))


def _sample_json_arrays(roots: list[object]) -> Iterator[Sample]:
    found: dict[tuple[Path, str], list[tuple[Mapping[str, object], Mapping[str, object]]]] = {}
    for root in roots:
        for path, form, record, outer in _iterate_array_records(root, (), {}):
            found.setdefault((path, form), []).append((record, outer))
    for (path, form), pairs in sorted(found.items(), key=lambda item: -len(item[1])):
        first = pairs[:_MOST_RECORDS]
        shape = ExportShape("document", records=path, form=form)
        yield Sample(shape, tuple(record for record, _ in first), tuple(around for _, around in first))


def _iterate_array_records(
    value: object, path: Path, outer: Mapping[str, object]
) -> Iterator[tuple[Path, str, Mapping[str, object], Mapping[str, object]]]:
    """All elements of arrays that have the form of a record."""
    if len(path) > _DEEPEST:
        return
    if isinstance(value, dict):
        before: dict[str, object] = {}
        for key, inner in value.items():
            if isinstance(inner, dict | list) and key not in (ANY, OUTER):
                yield from _iterate_array_records(inner, (*path, key), dict(before))
            before[key] = inner
    elif isinstance(value, list):
        for element in value:
            form = _get_record_form(element)
            record = get_record_fields(element, form)
            if record is not None:
                yield (*path, ANY), form, record, outer
            if form == "object":
                yield from _iterate_array_records(element, (*path, ANY), outer)


def _get_record_form(element: object) -> str:
    if _is_pair(element):
        return "pair"
    return "fields" if get_record_fields(element, "fields") else "object"


def _is_pair(element: object) -> bool:
    if not isinstance(element, list) or len(element) < 2:
        return False
    time, text = element[:2]
    return (
        isinstance(text, str)
        and not isinstance(text, JsonNumber)
        and re.fullmatch(r"[0-9.]{10,20}", str(time)) is not None
    )


def _parse_root_values(text: str) -> Iterator[object]:
    """The values of a text that holds one or several; of a cut one what can be completed."""
    decoder = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber)
    place = 0
    while place < len(text):
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n,"))
        try:
            value, place = decoder.raw_decode(text, place)
            yield value
        except RecursionError:
            return
        except ValueError:
            with suppress(ValueError, RecursionError):
                yield decoder.decode(_complete_cut_json(text[place:]))
            return


def _complete_cut_json(text: str) -> str:
    """A cut text up to the last bracket that closes, and then the brackets that are open there."""
    opened: list[str] = []
    end, closing = 0, ""
    for found in _DELIMITERS.finditer(text):
        mark = found[0]
        if mark == '"':
            break
        if mark in "[{":
            opened.append("]" if mark == "[" else "}")
        elif mark in "]}":
            if not opened or opened.pop() != mark:
                break
            if len(opened) <= _DEEPEST:
                end, closing = found.end(), "".join(reversed(opened))
    return text[:end] + closing


def _sample_csv(head: bytes) -> Iterator[Sample]:
    text = head.decode("utf-8", "surrogateescape")
    first = text.split("\n", 1)[0]
    for separator in _SEPARATORS:
        names: list[str] = []
        with suppress(csv.Error):
            names = next(csv.reader([first.rstrip("\r")], delimiter=separator), [])
        alone = len(names) == 1 and (separator != "," or not text[len(first) + 1 :].startswith('"'))
        if alone or len(set(names)) < len(names) or not names or not all(map(_HEADER.fullmatch, names)):
            continue
        rows = _parse_csv_rows(text, separator)
        records = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
        if 2 * len(records) >= len(rows) > 0:
            yield Sample(ExportShape("csv", header=tuple(names), separator=separator), tuple(records))


def _parse_csv_rows(text: str, separator: str) -> list[list[str]]:
    lines = text.splitlines(keepends=True)
    # The last row may be cut.
    whole = lines if text.endswith("\n") else lines[:-1]
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(row for row in csv.reader(whole, delimiter=separator) if row)
    return rows[1 : _MOST_RECORDS + 1]


# Which field of an export holds a tool's text: that whose values, in order of time, are a text that a format knows.

#: A field is taken for a tool's text from this confidence on.
SURE: Final = 0.9
#: Confidence in a text that is itself an export.
_NESTED: Final = 0.95
_FIND_DEEPEST: Final = 3
#: Fields that are tried, and names of records that are distinguished for it.
_TRIED, _NAMES_TRIED = 12, 8
_DEEPEST_FIELD: Final = 8
#: Share of a field's values that decide what it is; others are damaged, or of other programs.
_NEARLY: Final = 0.9
_MARK: Final = b"\xef\xbb\xbf"
#: The least length of a piece of a longer line, and of a character that may be cut at its end.
_PIECE, _CHARACTER = 4096, 4
#: Fields that say whether a text continues.
_PARTS: Final = ("logtag", "_p", "partial_last", "CONTAINER_PARTIAL_LAST")
_STREAMS: Final = ("stream", "source")
_STREAM_WORDS: Final = {b"stdout", b"stderr"}


def find_exports(head: bytes, knows: Knows, sure: float = SURE) -> Export | None:
    """The export that a text is; None if it is none, or if no field of it is a text that a format knows.

    A text that a format reads as it is may be an export too; which of the two counts is for the caller to decide. The
    text of an export may be an export again.

    Args:
        head: the first bytes of the text, which may end inside a record.
        knows: how sure the formats are of a text.
        sure: the least confidence in the text. With less than the default, a server log whose prefix nobody has stated
            yet is found as well, but so may be what is none.
    """
    return _find_export(head, knows, sure, 1)


def _find_export(head: bytes, knows: Knows, sure: float, depth: int) -> Export | None:
    for sample in iterate_samples(head.removeprefix(_MARK).lstrip()):
        found = _FieldChoice(sample, knows, sure, depth).export()
        if found is not None:
            return found
    return None


def _normalise_field_name(name: str) -> str:
    """A name without what differs between spellings of it."""
    return re.sub(r"[^a-z0-9@]", "", name.lower())


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _iterate_field_paths(record: object, path: Path = ()) -> Iterator[Path]:
    """Paths to all values of a record that are no objects; names of fields that are damaged are passed over."""
    if isinstance(record, Mapping) and len(path) < _DEEPEST_FIELD:
        for key, value in record.items():
            if key != OUTER and not _SURROGATE.search(key):
                yield from _iterate_field_paths(value, (*path, key))
    elif path:
        yield path


@dataclass(frozen=True)
class _SampleField:
    """The values of one field of the first records; None where a record has none."""

    path: Path
    values: tuple[bytes | None, ...]
    kind: str

    @property
    def said(self) -> list[bytes]:
        return [value for value in self.values if value is not None]


class _FieldChoice:
    """Chooses the fields of a sample."""

    def __init__(self, sample: Sample, knows: Knows, sure: float, depth: int) -> None:
        self._sample, self._knows, self._least, self._depth = sample, knows, sure, depth
        paths = dict.fromkeys(path for record in sample.records for path in _iterate_field_paths(record))
        self._fields = [self._field(path) for path in paths]

    def _field(self, path: Path) -> _SampleField:
        values = tuple(get_value_bytes(record, path) for record in self._sample.records)
        return _SampleField(path, values, _infer_field_kind(self._sample.records, path))

    def export(self) -> Export | None:
        """The export whose text a format is surest of; None if none is sure enough."""
        time = self._time()
        naming = self._find_names(time)
        taken = {time and time.path, *(path for _, path in naming)}
        shape = _add_time_field(replace(self._sample.shape, naming=naming), time)
        texts = [one for one in self._fields if one.kind == "text" and one.path not in taken and any(one.said)]
        texts.sort(key=lambda one: (_rank(one.path, TEXTS), -sum(map(len, one.said))))
        best: ExportShape | None = None
        sure = self._least
        for text in texts[:_TRIED]:
            for candidate in self._with_text(shape, text):
                confidence = self._confidence(candidate, text)
                if confidence > sure or (best is None and confidence >= sure):
                    best, sure = candidate, confidence
        return None if best is None else Export.of(best)

    def _time(self) -> _SampleField | None:
        times = [one for one in self._fields if one.kind != "other" and _has_only_times(one)]
        return min(times, key=lambda one: (_rank(one.path, TIMES), len(one.path)), default=None)

    def _find_names(self, time: _SampleField | None) -> tuple[tuple[str, Path], ...]:
        """For each kind of name the field with the most usual name that does not differ in every record."""
        outer = [
            _SampleField((OUTER, *path), tuple(get_value_bytes(one, path) for one in self._sample.outer), "text")
            for path in dict.fromkeys(path for one in self._sample.outer for path in _iterate_field_paths(one))
        ]
        found = []
        for kind, usual in NAMING.items():
            named = [one for one in (*self._fields, *outer) if _rank(one.path, usual) < len(usual)]
            named = [one for one in named if _is_name(one, kind) and one is not time]
            if named:
                found.append((kind, min(named, key=lambda one: (_rank(one.path, usual), len(one.path))).path))
        return tuple(found)

    def _with_text(self, shape: ExportShape, text: _SampleField) -> Iterator[ExportShape]:
        """The shape with this text, and with a prefix that stands in a field beside it."""
        beside = {
            _normalise_field_name(one.path[-1]): one
            for one in self._fields
            if one.path[:-1] == text.path[:-1] and one != text
        }
        said = text.said
        lined = _has_line_ends(said)
        stream = next(
            (one.path for one in self._fields if one.path[-1] in _STREAMS and set(one.said) <= _STREAM_WORDS), ()
        )
        part = next((one.path for one in self._fields if one.path[-1] in _PARTS and one.kind == "text"), ())
        details = tuple(
            (word, beside[name].path)
            for name, word in DETAILS.items()
            if name in beside and beside[name].kind == "text" and any(map(SEVERITY.match, said))
        )
        # CloudWatch Insights states times in UTC and does not say so.
        utc = shape.utc or (*shape.time, *text.path) == ("@timestamp", "@message")
        found = replace(shape, text=text.path, utc=utc, newline=lined, part=part, details=details)
        found = replace(found, stream=stream if lined or part else ())
        prefix = beside.get("prefix")
        if prefix is not None and any(prefix.said):
            yield replace(found, prefix=prefix.path)
        yield found

    def _confidence(self, shape: ExportShape, text: _SampleField) -> float:
        """How sure formats are of the text of any name."""
        prefix = next((one.values for one in self._fields if one.path == shape.prefix), None)
        ends = b"" if shape.newline else b"\n"
        best = 0.0
        for rows in self._rows_of_names(shape):
            values = [
                (prefix[row] or b"" if prefix else b"") + (text.values[row] or b"")
                for row in rows
                if text.values[row] is not None
            ]
            whole = b"".join(value if value.endswith(b"\n") else value + ends for value in values)
            best = max(best, self._sure(whole)) if whole.strip() else best
        return best

    def _sure(self, text: bytes) -> float:
        known = self._knows(text)
        if known < _NESTED and self._depth < _FIND_DEEPEST and text.lstrip()[:1] in (b"{", b"["):
            return max(known, _NESTED if _find_export(text, self._knows, self._least, self._depth + 1) else 0.0)
        return known

    def _rows_of_names(self, shape: ExportShape) -> list[list[int]]:
        """Records of each of the first names, in order of time."""
        count = len(self._sample.records)
        times = np.zeros(count, np.int64)
        field = next((one for one in self._fields if one.path == shape.time), None)
        if field is not None:
            times = convert_times_to_ns(pa.array(field.values, pa.binary()))
        rows = range(count)
        if count > 1 and times[0] > times[-1] and (np.diff(times) <= 0).all():
            rows = range(count - 1, -1, -1)
        groups: dict[tuple[bytes | None, ...], list[int]] = {}
        for row in sorted(rows, key=lambda row: int(times[row])):
            groups.setdefault(self._get_name(row, shape), []).append(row)
        return sorted(groups.values(), key=len, reverse=True)[:_NAMES_TRIED]

    def _get_name(self, row: int, shape: ExportShape) -> tuple[bytes | None, ...]:
        record, around = self._sample.records[row], self._sample.outer[row] if self._sample.outer else None
        return tuple(
            get_value_bytes(around, path[1:]) if path[0] == OUTER else get_value_bytes(record, path)
            for _, path in shape.naming
        )


def _infer_field_kind(records: Sequence[Mapping[str, object]], path: Path) -> str:
    """What nearly all values of a field are: `text`, `integer`, `number` or `other`."""
    kinds = Counter(kind for record in records if (kind := _get_value_kind(record, path)) is not None)
    if kinds["number"]:
        kinds["number"] += kinds.pop("integer", 0)
    kind, count = kinds.most_common(1)[0] if kinds else ("other", 0)
    return kind if count >= _NEARLY * kinds.total() else "other"


def _get_value_kind(record: object, path: Path) -> str | None:
    value = get_member_value(record, path)
    if value is None:
        return None
    if isinstance(value, JsonNumber):
        return "integer" if value.removeprefix("-").isdigit() else "number"
    # Bytes in journald's JSON are arrays.
    return "text" if isinstance(value, str | list) else "other"


def _rank(path: Path, usual: Sequence[str]) -> int:
    """The place of a field's name, or of that with the name of the object it is in, among the usual ones."""
    names = (_normalise_field_name(path[-1]), _normalise_field_name("".join(path[-2:])))
    return min((usual.index(name) for name in names if name in usual), default=len(usual))


def _has_only_times(one: _SampleField) -> bool:
    said = one.said
    if 2 * len(said) < len(one.values):
        return False
    return bool((convert_times_to_ns(pa.array(said, pa.binary())) != NO_TIME).all())


def _add_time_field(shape: ExportShape, time: _SampleField | None) -> ExportShape:
    if time is None:
        return shape
    return replace(shape, time=time.path, time_kind=time.kind, utc=all(map(states_zone, time.said)))


def _has_line_ends(said: Sequence[bytes]) -> bool:
    """Whether texts contain their line ends: half of them do, or all that do not are pieces of the same length."""
    others = [len(value) for value in said if not value.endswith(b"\n")]
    pieces = bool(others) and min(others) >= _PIECE and max(others) - min(others) <= _CHARACTER
    return 2 * len(others) <= len(said) or (pieces and len(others) < len(said))


def _is_name(one: _SampleField, kind: str) -> bool:
    """Most records have one of few values, none of which is empty; a file with its folder, as no source file is."""
    said = one.said
    if kind == "file" and not all(b"/" in value for value in said):
        return False
    few = len(set(said)) <= max(1, len(said) // 2) and 2 * len(said) >= len(one.values)
    return one.kind == "text" and bool(said) and few and all(said)
