r"""CSV with a header as `psql --csv` and `COPY ... CSV HEADER` write it, in columns and in blocks of bounded size.

A record may span lines inside quotes. A header that is repeated (`\watch` prints one each time) and empty lines are
noise; a record with another number of fields than the header is rejected.

Example:
    >>> parse_header_names(b'"sample_time",PID,state\n2026-03-01 12:00:00+00,7,active\n')
    ['sample_time', 'pid', 'state']
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    add_reject_reasons,
    build_parsed_lines,
    line_frame,
    make_first_true_expr,
    parse_whole_number,
    reject_oversized,
    split_into_blocks,
)
from citus_analysis.schema import TABLES, Rows

_FIELD: Final = r'(?:"(?:[^"]|"")*"|[^",]*)'
_QUOTE: Final = ord('"')
_NEWLINE: Final = ord("\n")


@dataclass(frozen=True)
class Records:
    """A block's records.

    Attributes:
        fields: the header's columns, null for empty fields, and `offset`. Columns are texts but for those that were
            asked for as numbers; these are NaN or infinite where the text is no finite number.
        lines: one row per record with `offset`, `length`, `text`, `noise` and `reason` (why it is not in `fields`).
    """

    fields: pl.DataFrame
    lines: pl.DataFrame

    def parsed(self, tables: Mapping[str, Rows], reasons: pl.DataFrame) -> Parsed:
        """The piece for these records.

        Args:
            tables: the rows.
            reasons: `offset` and `reason` of records in `fields` that were rejected; null for the others.
        """
        return build_parsed_lines(tables, add_reject_reasons(self.lines, reasons), pl.col("noise"))


#: Bytes of the longest first line that is taken for a header.
_LONGEST_HEADER: Final = 16 * 2**10


def parse_header_names(head: bytes) -> list[str]:
    """Names of the columns in lower case; empty if the first line is not CSV."""
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").split(b"\n", 1)[0]
    if len(first) > _LONGEST_HEADER:
        return []
    try:
        names = next(csv.reader([first.decode("utf-8", "replace").strip()], strict=True), [])
    except csv.Error:
        return []
    return [name.strip().lower() for name in names]


def _read_header_schema(head: bytes, numbers: Collection[str]) -> tuple[str, pl.Schema]:
    """The first line of a file that begins like this, without blanks at its end, and what its columns are read as.

    Raises:
        FormatError: a name is missing or occurs twice.
    """
    names = parse_header_names(head)
    if not names or len(set(names)) < len(names) or not all(names) or "offset" in names:
        raise FormatError("the first line is not a header of distinct names", place="line 1")
    text = line_frame(head.lstrip(b"\r\n").partition(b"\n")[0])["text"].item(0)
    return str(text), pl.Schema({name: pl.Float64() if name in numbers else pl.String() for name in names})


def read_records(content: Content, numbers: Collection[str] = ()) -> Iterator[Records | Parsed]:
    """The file's records block by block; a line too long for a record yields a piece that rejects it.

    Args:
        content: the source.
        numbers: names of the columns that are read as numbers.

    Raises:
        FormatError: the header is invalid: a name is missing or occurs twice.
    """
    header, schema = _read_header_schema(content.head, numbers)
    for block in split_into_blocks(content, _complete):
        yield reject_oversized(block) if block.oversized else _parse_csv_records(block, header, schema)


def _complete(data: bytes, _offset: int) -> int:
    """Bytes up to the last line end that is not inside quotes."""
    array = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(array == _NEWLINE)
    quotes = np.flatnonzero(array == _QUOTE)
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _parse_csv_records(block: Block, header: str, schema: pl.Schema) -> Records:
    """The records of a block that begins where a record begins and ends where one ends, or the file."""
    lines = line_frame(block.data, block.offset)
    if b'"' in block.data:
        lines = _join_quoted_lines(lines)
    text = pl.col("text")
    lines = lines.with_columns(
        noise=(text == "") | (text == header),
        reason=make_first_true_expr(
            {
                UNTERMINATED: ~pl.col("terminated"),
                f"the header announces {len(schema)} fields": (text != "") & ~_has_field_count(lines, len(schema)),
            }
        ),
    )
    good = lines.filter(~pl.col("noise") & pl.col("reason").is_null())
    return Records(_convert_csv_fields(good, schema).with_columns(good["offset"]), lines)


def _has_field_count(lines: pl.DataFrame, count: int) -> pl.Series:
    """Whether records have `count` fields; only those with quotes need a pattern, which takes longer."""
    found = lines["text"].str.count_matches(",", literal=True) == count - 1
    quoted = lines["text"].str.contains('"', literal=True).arg_true()
    pattern = rf"\A{_FIELD}(?:,{_FIELD}){{{count - 1}}}\z"
    return found.scatter(quoted, lines["text"].gather(quoted).str.contains(pattern)) if len(quoted) else found


def _join_quoted_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Records instead of lines: a record continues if a line ends inside quotes."""
    quotes = lines["text"].str.count_matches('"', literal=True)
    if not (quotes % 2 == 1).any():
        return lines
    begins = (quotes.cum_sum() % 2).shift(fill_value=0) == 0
    return (
        lines.group_by(begins.cast(pl.UInt32).cum_sum().alias("record"), maintain_order=True)
        .agg(
            pl.col("offset").first(), pl.col("length").sum(), pl.col("text").str.join("\n"), pl.col("terminated").last()
        )
        .drop("record")
    )


def _convert_csv_fields(good: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    if good.is_empty():
        return pl.DataFrame(schema=schema)
    data = (str(good["text"].str.join("\n").item()) + "\n").encode()
    texts = dict.fromkeys(schema, pl.String())
    frame = pl.read_csv(BytesIO(data), has_header=False, schema=texts, eol_char="\n", infer_schema=False)
    return frame.with_columns(
        pl.when(pl.col(name).is_not_null()).then(pl.col(name).cast(pl.Float64, strict=False).fill_null(np.nan))
        for name, kind in schema.items()
        if kind == pl.Float64()
    )


# Small CSV files with a header, read line by line so that a bad line can be rejected with its offset.

#: Catalogue extracts are read at once; 64 MiB is about half a million shards.
CSV_LIMIT_BYTES: Final = 64 * 2**20

Value = str | int | datetime | None


@dataclass(frozen=True)
class CsvField:
    """The source of a column: its name in the header, the conversion of its text, whether it is required.

    Without a conversion, the text must be a whole number.
    """

    header: str
    convert: Callable[[str], str | datetime] | None = None
    required: bool = False


def parse_small_csv(data: bytes, table: str, fields: Mapping[str, CsvField]) -> Parsed:
    """Rows of one table from a CSV with a header; lines that cannot be converted are rejected.

    Raises:
        FormatError: the header lacks a required column.
    """
    lines = list(_iterate_csv_lines(data))
    header = _split_header_line(lines[0][1]) if lines else []
    missing = [field.header for field in fields.values() if field.required and field.header not in header]
    if missing:
        raise FormatError(f"the header lacks {', '.join(missing)}", place="line 1")
    rows: list[dict[str, Value]] = []
    rejects: list[Reject] = []
    schema = pl.Schema({name: TABLES[table][name].dtype for name in fields})
    noise = lines[0][2]
    for offset, text, length in lines[1:]:
        if not text.strip():
            noise += length
            continue
        try:
            cells = dict(zip(header, next(csv.reader([text], strict=True)), strict=True))
            rows.append({name: _convert_cell(cells, field, schema[name]) for name, field in fields.items()})
        except (ValueError, csv.Error) as error:
            rejects.append(Reject(offset, length, f"not a row of {table}: {error}", text))
    frame = pl.DataFrame(rows, schema=schema)
    rejected = sum(reject.byte_length for reject in rejects)
    return Parsed({table: frame}, len(data) - noise - rejected, noise, reject_rows(rejects))


def _split_header_line(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise FormatError(f"not a header: {error}", place="line 1") from error


def _convert_cell(cells: Mapping[str, str], field: CsvField, dtype: pl.DataType) -> Value:
    text = cells.get(field.header, "")
    if not text and field.required:
        raise ValueError(f"{field.header} is empty")
    if not text:
        return None
    return parse_whole_number(text, dtype) if field.convert is None else field.convert(text)


def _iterate_csv_lines(data: bytes) -> Iterator[tuple[int, str, int]]:
    """Offset, text without line end, and length with it."""
    offset = 0
    for line in data.splitlines(keepends=True):
        yield offset, line.decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r\n"), len(line)
        offset += len(line)


# Small CSV files with a header, each of which is one table.


class CsvExtract(Format):
    """A CSV file with a header.

    Attributes:
        fields: column of the table -> its source in the file.
        signs: names that no other file's header has together.
    """

    noise = "the header"
    fields: ClassVar[Mapping[str, CsvField]]
    signs: ClassVar[frozenset[bytes]]

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header has all names by which the file is known."""
        header = head.split(b"\n", 1)[0].lstrip(BOM_UTF8).strip().split(b",")
        return 1.0 if self.signs <= set(header) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all rows."""
        yield parse_small_csv(content.read(CSV_LIMIT_BYTES), self.tables[0], self.fields)
