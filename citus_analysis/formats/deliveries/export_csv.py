"""Records of an export as CSV with a header; a quoted field may contain line ends."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.core.type_aliases import Bools, Integers
from citus_analysis.formats.deliveries.export_rows import ExportShape, GrowingText, Rows, decode_by_bisection
from citus_analysis.formats.deliveries.export_times import convert_times_to_ns
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, PlacedLines, slice_byte_texts

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
    begun: Bools = convert_times_to_ns(words.fill_null(b"")) != NO_TIME
    return begun


def _decode_csv_records(shape: ExportShape, text: GrowingText, bounds: Integers) -> pl.DataFrame:
    """The records; Arrow refuses all for one that is none."""
    data, columns = text.data[: bounds[-1]], [str(path) for path in shape.wanted()]
    lost = pl.DataFrame(schema=dict.fromkeys(columns, pl.Binary)).clear(1).with_columns(parsed=False)

    def decode(first: int, end: int) -> pl.DataFrame | None:
        return _decode_csv_text(shape, memoryview(data)[bounds[first] : bounds[end]], end - first)

    records = pl.concat(decode_by_bisection(decode, lambda _: lost, 0, len(bounds) - 1)).with_columns(
        raw=slice_byte_texts(data, bounds), begin=text.get_begins(bounds[:-1]), end=text.get_ends(bounds[1:])
    )
    # Blank lines, and the header wherever it stands, are no records.
    blank = np.diff(bounds) <= len(b"\r\n")
    for row in np.flatnonzero(blank).tolist():
        blank[row] = not data[bounds[row] : bounds[row + 1]].strip()
    names = [(str(path), path[0].encode()) for path in shape.wanted()]
    header = pl.all_horizontal(pl.col(column).is_in([name, BOM_UTF8 + name]) for column, name in names)
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
