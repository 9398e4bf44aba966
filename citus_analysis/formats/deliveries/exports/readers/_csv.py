"""Records of an export as CSV with a header; a quoted field may contain line ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.exports._columns import Records, binary_of
from citus_analysis.formats.deliveries.exports._rows import Rows, Table
from citus_analysis.formats.deliveries.exports._shape import Path, Shape
from citus_analysis.formats.deliveries.exports._value_times import nanoseconds
from citus_analysis.formats.deliveries.exports.readers._places import Stretch
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Lines

_QUOTE, _NEWLINE = ord('"'), ord("\n")
#: A row that does not end within so many bytes is taken for damage.
_ROW_CAP: Final = 64 * 2**20
_MARK: Final = b"\xef\xbb\xbf"


def of_csv(rows: Rows, texts: Iterator[Lines]) -> Iterator[Records]:
    """The records, stretch by stretch."""
    text = Stretch()
    for lines in texts:
        text.add(lines)
        bounds = _rows_of(rows.shape, text.data)
        if len(bounds) == 1 and len(text.data) > _ROW_CAP:
            bounds = np.flatnonzero(np.frombuffer(text.data, np.uint8) == _NEWLINE) + 1
            bounds = np.concatenate([[0], bounds]).astype(np.int64)
        if len(bounds) > 1:
            yield rows.records(_table(rows.shape, text, bounds))
            text.drop(int(bounds[-1]))
    if text.data:
        yield rows.records(_table(rows.shape, text, np.array([0, len(text.data)], np.int64)))


def _rows_of(shape: Shape, data: bytes) -> Integers:
    """Where rows begin, and where the last whole one ends: line ends after an even number of quotes.

    Where rows begin with their time, quotes are counted from each line that does, so that a quote that is lost changes
    the meaning of one row only.
    """
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    quotes = np.searchsorted(np.flatnonzero(text == _QUOTE), ends)
    even = quotes % 2 == 0
    if not even.all() and shape.time and shape.header[0] == shape.time[0]:
        begun = _begun_by_time(shape, data, ends)
        # Quotes before the last row that is known to begin.
        before = np.maximum.accumulate(np.where(begun, np.concatenate([[0], quotes[:-1]]), 0))
        even = (quotes - before) % 2 == 0
        even[:-1] |= begun[1:]
    return np.concatenate([[0], ends[even] + 1]).astype(np.int64)


def _begun_by_time(shape: Shape, data: bytes, ends: Integers) -> Bools:
    """Whether a line begins with a field that is a time."""
    first = re.compile(rb'(?:"([^"\n]{10,40})"|([^",\n]{10,40}))' + re.escape(shape.separator.encode()))
    begins = [0, *(ends[:-1] + 1).tolist()]
    found = [first.match(data, begin) for begin in begins]
    words = pa.array([match and (match[1] or match[2]) for match in found], pa.binary())
    begun: Bools = nanoseconds(pc.fill_null(words, b"")) != NO_TIME
    return begun


def _table(shape: Shape, text: Stretch, bounds: Integers) -> Table:
    data = text.data[: bounds[-1]]
    begins, ends = text.begins_of(bounds[:-1]), text.ends_of(bounds[1:])
    parts = list(_halved(shape, data, bounds, 0, len(begins)))
    columns = {path: pa.concat_arrays([fields[path] for fields, _ in parts]) for path in shape.wanted()}
    parsed = np.concatenate([whole for _, whole in parts])
    kept = np.flatnonzero(~_no_record(data, bounds, columns))
    fields = {path: column.take(pa.array(kept)) for path, column in columns.items()}
    return Table(binary_of(data, bounds).take(pa.array(kept)), begins[kept], ends[kept], fields, parsed[kept])


def _no_record(data: bytes, bounds: Integers, columns: Mapping[Path, pa.Array]) -> Bools:
    """Blank lines, and the header wherever it stands."""
    blank = np.diff(bounds) <= len(b"\r\n")
    for row in np.flatnonzero(blank).tolist():
        blank[row] = not data[bounds[row] : bounds[row + 1]].strip()
    header = np.ones(len(blank), np.bool_)
    for path, column in columns.items():
        names = pa.array([path[0].encode(), _MARK + path[0].encode()], pa.binary())
        header &= pc.is_in(column, value_set=names).to_numpy(zero_copy_only=False)
    found: Bools = blank | header
    return found


def _halved(
    shape: Shape, data: bytes, bounds: Integers, first: int, end: int
) -> Iterator[tuple[dict[Path, pa.Array], Bools]]:
    """The wanted columns of these rows, and whether they are rows; Arrow refuses all for one that is none."""
    found = _decoded(shape, memoryview(data)[bounds[first] : bounds[end]], end - first)
    if found is not None:
        yield found, np.ones(end - first, np.bool_)
    elif end - first == 1:
        yield {path: pa.nulls(1, pa.binary()) for path in shape.wanted()}, np.zeros(1, np.bool_)
    else:
        middle = (first + end) // 2
        yield from _halved(shape, data, bounds, first, middle)
        yield from _halved(shape, data, bounds, middle, end)


def _decoded(shape: Shape, data: memoryview, count: int) -> dict[Path, pa.Array] | None:
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
    return {path: table.column(name).combine_chunks() for path, name in zip(paths, wanted, strict=True)}
