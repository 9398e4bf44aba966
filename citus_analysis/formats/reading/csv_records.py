r"""CSV with a header as `psql --csv` and `COPY ... CSV HEADER` write it, in columns and in blocks of bounded size.

A record may span lines inside quotes. A header that is repeated (`\watch` prints one each time) and empty lines are
noise; a record with another number of fields than the header is rejected.

Example:
    >>> header_of(b'"sample_time",PID,state\n2026-03-01 12:00:00+00,7,active\n')
    ['sample_time', 'pid', 'state']
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.reading.lines import (
    UNTERMINATED,
    accounted,
    chunks,
    first_true,
    line_frame,
    reject_oversized,
    with_reasons,
)
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.schema import Rows

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
        return accounted(tables, with_reasons(self.lines, reasons), pl.col("noise"))


def header_of(head: bytes) -> list[str]:
    """Names of the columns in lower case; empty if the first line is not CSV."""
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").split(b"\n", 1)[0]
    try:
        names = next(csv.reader([first.decode("utf-8", "replace").strip()], strict=True), [])
    except csv.Error:
        return []
    return [name.strip().lower() for name in names]


def _header(head: bytes, numbers: Collection[str]) -> tuple[str, pl.Schema]:
    """The first line of a file that begins like this, without blanks at its end, and what its columns are read as.

    Raises:
        FormatError: a name is missing or occurs twice.
    """
    names = header_of(head)
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
    header, schema = _header(content.head, numbers)
    for block in chunks(content, _complete):
        yield reject_oversized(block) if block.oversized else _records_of(block, header, schema)


def _complete(data: bytes, _offset: int) -> int:
    """Bytes up to the last line end that is not inside quotes."""
    array = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(array == _NEWLINE)
    quotes = np.flatnonzero(array == _QUOTE)
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _records_of(block: Block, header: str, schema: pl.Schema) -> Records:
    """The records of a block that begins where a record begins and ends where one ends, or the file."""
    lines = line_frame(block.data, block.offset)
    if b'"' in block.data:
        lines = _joined(lines)
    text = pl.col("text")
    lines = lines.with_columns(
        noise=(text == "") | (text == header),
        reason=first_true(
            {
                UNTERMINATED: ~pl.col("terminated"),
                f"the header announces {len(schema)} fields": (text != "") & ~_whole(lines, len(schema)),
            }
        ),
    )
    good = lines.filter(~pl.col("noise") & pl.col("reason").is_null())
    return Records(_fields(good, schema).with_columns(good["offset"]), lines)


def _whole(lines: pl.DataFrame, count: int) -> pl.Series:
    """Whether records have `count` fields; only those with quotes need a pattern, which takes longer."""
    found = lines["text"].str.count_matches(",", literal=True) == count - 1
    quoted = lines["text"].str.contains('"', literal=True).arg_true()
    pattern = rf"\A{_FIELD}(?:,{_FIELD}){{{count - 1}}}\z"
    return found.scatter(quoted, lines["text"].gather(quoted).str.contains(pattern)) if len(quoted) else found


def _joined(lines: pl.DataFrame) -> pl.DataFrame:
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


def _fields(good: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
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
