"""Small CSV files with a header, read line by line so that a bad line can be rejected with its offset."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Parsed, Reject, reject_rows
from citus_analysis.formats.api.number_columns import whole_number
from citus_analysis.schema import TABLES

#: Catalogue extracts are read at once; 64 MiB is about half a million shards.
CSV_LIMIT_BYTES: Final = 64 * 2**20

Value = str | int | datetime | None


@dataclass(frozen=True)
class Field:
    """The source of a column: its name in the header, the conversion of its text, whether it is required.

    Without a conversion, the text must be a whole number.
    """

    header: str
    convert: Callable[[str], str | datetime] | None = None
    required: bool = False


def parse_small_csv(data: bytes, table: str, fields: Mapping[str, Field]) -> Parsed:
    """Rows of one table from a CSV with a header; lines that cannot be converted are rejected.

    Raises:
        FormatError: the header lacks a required column.
    """
    lines = list(_lines(data))
    header = _header(lines[0][1]) if lines else []
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
            rows.append({name: _cell(cells, field, schema[name]) for name, field in fields.items()})
        except (ValueError, csv.Error) as error:
            rejects.append(Reject(offset, length, f"not a row of {table}: {error}", text))
    frame = pl.DataFrame(rows, schema=schema)
    rejected = sum(reject.byte_length for reject in rejects)
    return Parsed({table: frame}, len(data) - noise - rejected, noise, reject_rows(rejects))


def _header(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise FormatError(f"not a header: {error}", place="line 1") from error


def _cell(cells: Mapping[str, str], field: Field, dtype: pl.DataType) -> Value:
    text = cells.get(field.header, "")
    if not text and field.required:
        raise ValueError(f"{field.header} is empty")
    if not text:
        return None
    return whole_number(text, dtype) if field.convert is None else field.convert(text)


def _lines(data: bytes) -> Iterator[tuple[int, str, int]]:
    """Offset, text without line end, and length with it."""
    offset = 0
    for line in data.splitlines(keepends=True):
        yield offset, line.decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r\n"), len(line)
        offset += len(line)
