r"""Rows of a query as people keep them: CSV with a header, in columns and in blocks of bounded size, and psql's tables.

A record may span lines inside quotes. A header that is repeated (`\watch` prints one each time) and empty lines are
noise; a record with another number of fields than the header is rejected.

Other clients separate by semicolons or tabs, and `psql -A` by `|`. psql's aligned tables and its expanded ones (`\x`),
and a JSON array of objects, have the same records. Where no column has a time, the title that `\watch` prints above a
table states it (column `sample_time`); without one the time of the file is that of its only snapshot.

Example:
    >>> parse_header_names(b'"sample_time",PID,state\n2026-03-01 12:00:00+00,7,active\n')
    ['sample_time', 'pid', 'state']
"""

from __future__ import annotations

import csv
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from io import BytesIO
from itertools import islice, pairwise, takewhile
from typing import ClassVar, Final, TypeAlias

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
from citus_analysis.formats.parsing.times import time_column
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
    return detect_table_style(head).header


@dataclass(frozen=True)
class TableStyle:
    """How the rows of a query stand in a text.

    Attributes:
        kind: `separated`, `aligned`, `expanded` or `json`.
        header: names of the columns in lower case; empty if the text is no table.
        separator: mark between fields; a quote has no meaning beside `|`.
    """

    kind: str
    header: list[str]
    separator: str = ","


def detect_table_style(head: bytes) -> TableStyle:
    r"""How the rows of a query stand in a text, by its first lines.

    Example:
        >>> detect_table_style(b" pid | state\n-----+-------\n   7 | idle\n")
        TableStyle(kind='aligned', header=['pid', 'state'], separator=',')
    """
    text = head.removeprefix(BOM_UTF8).lstrip(b"\r\n ")
    if text[:1] == b"[":
        return TableStyle("json", _list_json_names(text))
    lines = [_simplify_borders(line) for line in islice(_iterate_filled_lines(text), _MOST_FIRST_LINES)]
    while lines and (_TITLE.fullmatch(lines[0].strip()) or _BORDER.fullmatch(lines[0])):
        lines.pop(0)
    if not lines or len(lines[0]) > _LONGEST_HEADER:
        return TableStyle("separated", [])
    if _RECORD.match(lines[0]):
        cells = (_EXPANDED.match(line) for line in takewhile(lambda line: not _RECORD.match(line), lines[1:]))
        return TableStyle("expanded", [cell[1].strip().lower() for cell in cells if cell and cell[1].strip()])
    if len(lines) > 1 and _RULE.fullmatch(lines[1]) and _count_columns(lines[1]) == _strip_border(lines[0]).count("|"):
        return TableStyle("aligned", [name.strip().lower() for name in _strip_border(lines[0]).split("|")])
    first = lines[0].strip()
    separator = max(_SEPARATORS, key=first.count)
    try:
        names = next(csv.reader([first], strict=True, delimiter=separator), [])
    except csv.Error:
        names = []
    return TableStyle("separated", [name.strip().lower() for name in names], separator)


_SEPARATORS: Final = (",", ";", "\t", "|")
_MOST_FIRST_LINES: Final = 100
#: psql's lines: the heading of an expanded record, the rule below a header, a border, and what it says beside rows.
_RECORD: Final = re.compile(r"-\[ RECORD [0-9]+ \]|\* Record [0-9]+|\+-\[ RECORD [0-9]+ \]")
_RULE: Final = re.compile(r"\|?[-+]*-{2,}[-+]*\|?\s*")
_BORDER: Final = re.compile(r"\+-[-+]*\+\s*")
_EXPANDED: Final = re.compile(r"\|? ?([^|]*?) *\|(?: (.*?))?\s*$")
_FOOTER: Final = re.compile(
    r"\([0-9]+ rows?\)|Time: [0-9.,]+ ms.*|Expanded display is .*|Output format is .*|\(No rows\)"
)
#: What `\\watch` prints above a table, in the English forms of its locales.
_TITLE: Final = re.compile(
    r"(?:[^\t]*\t)?(?:[A-Z][a-z]{2},? )?(?:(?P<day>[0-9]{1,2}) (?P<month>[A-Z][a-z]{2}) (?P<year>[0-9]{4})"
    r"|(?P<month_first>[A-Z][a-z]{2}) {1,2}(?P<day_second>[0-9]{1,2})) (?P<time>[0-9]{1,2}:[0-9]{2}:[0-9]{2})"
    r"(?: (?P<half>AM|PM))?(?: (?P<year_last>[0-9]{4}))?(?: (?P<zone>[A-Z]{2,5}|[+-][0-9]{2,4}))? \(every [0-9.]+s\)"
)
_PLAIN_BORDERS: Final = str.maketrans("\u2502\u2551\u2500\u2550\u253c\u256a\u2502", "||--++|")
_JSON_BYTES: Final = 64 * 2**20


def _iterate_filled_lines(text: bytes) -> Iterator[str]:
    return (line.decode("utf-8", "replace").rstrip("\r") for line in text.splitlines() if line.strip())


def _simplify_borders(line: str) -> str:
    return line.translate(_PLAIN_BORDERS)


def _strip_border(line: str) -> str:
    r"""A line of an aligned table without the borders at its ends (`\pset border 2`)."""
    text = line.rstrip()
    return text[1:-1] if text.startswith("|") and text.endswith("|") else text


def _count_columns(rule: str) -> int:
    """Marks between the columns of a rule, of which a border has one more at each end."""
    return rule.strip().strip("+|").count("+")


def _list_json_names(text: bytes) -> list[str]:
    """Names of the first object in an array; empty if it begins with something else."""
    decoder, shown = json.JSONDecoder(), text[1:].decode("utf-8", "replace").lstrip()
    try:
        first = decoder.raw_decode(shown)[0] if shown[:1] == "{" else None
    except (ValueError, RecursionError):
        return []
    return [name.lower() for name in first] if isinstance(first, dict) else []


def _parse_title(text: str) -> tuple[str, str] | None:
    r"""The time of a title of `\watch`, and its zone as printed."""
    found = _TITLE.fullmatch(text.strip())
    if found is None:
        return None
    day, month = found["day"] or found["day_second"], found["month"] or found["month_first"]
    year, half = found["year"] or found["year_last"], found["half"] or ""
    form = "%d %b %Y %I:%M:%S %p" if half else "%d %b %Y %H:%M:%S"
    try:
        time = datetime.strptime(f"{day} {month} {year} {found['time']} {half}".strip(), form)
    except ValueError:
        return None
    return time.isoformat(" "), found["zone"] or ""


def _read_header_schema(head: bytes, numbers: Collection[str]) -> tuple[str, pl.Schema]:
    """The first line of a file that begins like this, without blanks at its end, and what its columns are read as.

    Raises:
        FormatError: a name is missing or occurs twice.
    """
    names = parse_header_names(head)
    _check_header(names)
    text = line_frame(head.lstrip(b"\r\n").partition(b"\n")[0])["text"].item(0)
    return str(text), pl.Schema({name: pl.Float64() if name in numbers else pl.String() for name in names})


def _check_header(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names) or not all(names) or "offset" in names:
        raise FormatError("the first line is not a header of distinct names", place="line 1")


def read_records(
    content: Content, numbers: Collection[str] = (), *, file_time: str | None = None, timezone: str | None = None
) -> Iterator[Records | Parsed]:
    """The file's records block by block; a line too long for a record yields a piece that rejects it.

    Args:
        content: the source.
        numbers: names of the columns that are read as numbers.
        file_time: the time of the file, of rows for which nothing else states one.
        timezone: zone of times in titles that name none, or one that has several meanings.

    Raises:
        FormatError: the header is invalid: a name is missing or occurs twice; or nothing states the time of the rows.
    """
    style = detect_table_style(content.head)
    _check_header(style.header)
    timed = time_column(style.header) is not None
    if style.kind == "separated":
        header, schema = _read_header_schema(content.head, numbers)
        if not timed and file_time is None:
            raise FormatError(_NO_TIME, place="line 1", hint=_ADD_TIME)
        for block in split_into_blocks(content, partial(_complete, quoted=style.separator != "|")):
            if block.oversized:
                yield reject_oversized(block)
                continue
            records = _parse_csv_records(block, header, schema, style.separator)
            added = records.fields if timed else records.fields.with_columns(sample_time=pl.lit(file_time))
            yield replace(records, fields=added)
        return
    data = content.read(_JSON_BYTES)
    read = {"aligned": _read_aligned, "expanded": _read_expanded, "json": _read_json}[style.kind]
    rows, lines, zones = read(data, style.header)
    if not timed:
        if zones - {"", "UTC", "GMT"} and timezone is None:
            problem = f"the titles state times in {', '.join(sorted(zones))}"
            raise FormatError(problem, hint="name the zone: --meta timezone=Europe/Berlin")
        if file_time is None and any(row["sample_time"] is None for row in rows):
            raise FormatError(_NO_TIME, place="line 1", hint=_ADD_TIME)
        for row in rows:
            row["sample_time"] = row["sample_time"] or file_time
    names = style.header if timed else [*style.header, "sample_time"]
    texts: dict[str, pl.DataType] = {"offset": pl.Int64(), **dict.fromkeys(names, pl.String())}
    frame = pl.DataFrame([{name: row.get(name) for name in texts} for row in rows], schema=texts, orient="row")
    kinds = {
        "offset": pl.Int64(),
        "length": pl.Int64(),
        "text": pl.String(),
        "noise": pl.Boolean(),
        "reason": pl.String(),
    }
    yield Records(_convert_numbers(frame, numbers), pl.DataFrame(lines, schema=kinds, orient="row"))


_NO_TIME: Final = "has no column with the time of the snapshot, and the time of the file is not known"
_ADD_TIME: Final = "write it with SELECT now() AS sample_time, * FROM ..."
_Row: TypeAlias = dict[str, object]
_TableLine: TypeAlias = tuple[int, int, str, bool, str | None]
_Read: TypeAlias = tuple[list[_Row], list[_TableLine], set[str]]


def _read_aligned(data: bytes, header: list[str]) -> _Read:
    """The records of psql's aligned tables; a cell that ends with a plus goes on in the next line."""
    rows: list[_Row] = []
    lines: list[_TableLine] = []
    zones: set[str] = set()
    time: str | None = None
    open_: list[str] | None = None
    for offset, text, length in _iterate_csv_lines(data):
        line = _simplify_borders(text)
        title = _parse_title(line)
        cells = _cut_aligned(_strip_border(line), len(header))
        if title is not None:
            time = f"{title[0]}+00" if title[1] in {"UTC", "GMT"} else title[0]
            zones.add(title[1])
        names = cells is not None and [cell.strip().lower() for cell in cells] == header
        beside = title is not None or names or not line.strip() or _FOOTER.fullmatch(line.strip())
        if beside or _RULE.fullmatch(line) or _BORDER.fullmatch(line):
            lines.append((offset, length, text, True, None))
        elif cells is None:
            lines.append((offset, length, text, False, f"the header announces {len(header)} fields"))
        else:
            values = [cell.strip().removesuffix("+").rstrip() for cell in cells]
            if open_ is not None:
                for name, before, value in zip(header, open_, values, strict=True):
                    rows[-1][name] = f"{before}\n{value}" if value else before
                first = lines[-1]
                lines[-1] = (first[0], first[1] + length, f"{first[2]}\n{text}", False, None)
            else:
                rows.append(
                    {
                        "offset": offset,
                        "sample_time": time,
                        **{n: v or None for n, v in zip(header, values, strict=True)},
                    }
                )
                lines.append((offset, length, text, False, None))
            goes_on = any(cell.endswith("+") for cell in cells)
            open_ = [str(rows[-1][name] or "") for name in header] if goes_on else None
    return rows, lines, zones


def _cut_aligned(line: str, count: int) -> list[str] | None:
    """The cells of a line of an aligned table, with the signs at their ends; None if it has another number."""
    cells = line.split("|")
    return cells if len(cells) == count else None


def _read_expanded(data: bytes, header: list[str]) -> _Read:
    """The records of psql's expanded tables: a line for each field."""
    rows: list[_Row] = []
    lines: list[_TableLine] = []
    zones: set[str] = set()
    time: str | None = None
    begun: _TableLine | None = None
    last = ""
    for offset, text, length in _iterate_csv_lines(data):
        line = _simplify_borders(text)
        title, cell = _parse_title(line), _EXPANDED.match(line)
        if _RECORD.match(line):
            rows.append({"offset": offset, "sample_time": time})
            lines.append((offset, length, text, False, None))
            begun, last = lines[-1], ""
        elif title is not None or not line.strip() or _BORDER.fullmatch(line) or _FOOTER.fullmatch(line.strip()):
            if title is not None:
                time = f"{title[0]}+00" if title[1] in {"UTC", "GMT"} else title[0]
                zones.add(title[1])
            lines.append((offset, length, text, True, None))
            begun = None
        elif (
            begun is not None
            and cell is not None
            and (cell[1].strip().lower() in header or (last and not cell[1].strip()))
        ):
            name, value = cell[1].strip().lower() or last, (cell[2] or "").rstrip()
            goes_on = value.endswith("+")
            value = value.removesuffix("+").rstrip() if goes_on else value
            rows[-1][name] = f"{rows[-1][name]}\n{value}" if not cell[1].strip() else value or None
            begun = lines[-1] = (begun[0], begun[1] + length, begun[2], False, None)
            last = name
        else:
            lines.append((offset, length, text, False, "no field of the first record"))
            begun = None
    return rows, lines, zones


def _read_json(data: bytes, header: list[str]) -> _Read:
    """The objects of an array, each of which is a record."""
    text = data.decode("utf-8", "replace")
    decoder, rows, places = json.JSONDecoder(), list[_Row](), [0]
    at = text.index("[") + 1
    while (begin := text.find("{", at)) >= 0 and not text[at:begin].strip(", \t\r\n"):
        try:
            found, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"is no array of objects: {error}", place="line 1") from error
        cells = {name.lower(): _format_json_cell(value) for name, value in found.items()}
        rows.append({"sample_time": None, **{name: cells.get(name) for name in header}})
        places.append(at)
    if text[at:].strip(" \t\r\n") != "]":
        raise FormatError("is no array of objects", place="line 1")
    # What stands before an object belongs to it, and what follows the last.
    ends = [len(text[:place].encode()) for place in places[:-1]] + [len(data)]
    for row, begin in zip(rows, ends[:-1], strict=True):
        row["offset"] = begin
    lines: list[_TableLine] = [
        (begin, end - begin, data[begin : begin + _SHOWN_BYTES].decode("utf-8", "replace"), False, None)
        for begin, end in pairwise(ends)
    ]
    return rows, lines, set()


_SHOWN_BYTES: Final = 200


def _format_json_cell(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert_numbers(frame: pl.DataFrame, numbers: Collection[str]) -> pl.DataFrame:
    return frame.with_columns(
        pl.when(pl.col(name).is_not_null()).then(pl.col(name).cast(pl.Float64, strict=False).fill_null(np.nan))
        for name in frame.columns
        if name in numbers
    )


def _complete(data: bytes, _offset: int, *, quoted: bool = True) -> int:
    """Bytes up to the last line end that is not inside quotes."""
    if not quoted:
        return data.rfind(b"\n") + 1
    array = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(array == _NEWLINE)
    quotes = np.flatnonzero(array == _QUOTE)
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _parse_csv_records(block: Block, header: str, schema: pl.Schema, separator: str = ",") -> Records:
    """The records of a block that begins where a record begins and ends where one ends, or the file."""
    lines = line_frame(block.data, block.offset)
    if b'"' in block.data and separator != "|":
        lines = _join_quoted_lines(lines)
    text = pl.col("text")
    noise = (text == "") | (text == header)
    if separator == "|":
        noise |= text.str.contains(f"^(?:{_FOOTER.pattern})$")
    lines = lines.with_columns(noise=noise)
    counted = _has_field_count(lines, len(schema), separator)
    reasons = {
        UNTERMINATED: ~pl.col("terminated"),
        f"the header announces {len(schema)} fields": ~pl.col("noise") & ~counted,
    }
    lines = lines.with_columns(reason=make_first_true_expr(reasons))
    good = lines.filter(~pl.col("noise") & pl.col("reason").is_null())
    return Records(_convert_csv_fields(good, schema, separator).with_columns(good["offset"]), lines)


def _has_field_count(lines: pl.DataFrame, count: int, separator: str) -> pl.Series:
    """Whether records have `count` fields; only those with quotes need a pattern, which takes longer."""
    found = lines["text"].str.count_matches(separator, literal=True) == count - 1
    if separator == "|":
        return found
    quoted = lines["text"].str.contains('"', literal=True).arg_true()
    field = _FIELD.replace(",", separator)
    pattern = rf"\A{field}(?:{separator}{field}){{{count - 1}}}\z"
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


def _convert_csv_fields(good: pl.DataFrame, schema: pl.Schema, separator: str) -> pl.DataFrame:
    if good.is_empty():
        return pl.DataFrame(schema=schema)
    data = (str(good["text"].str.join("\n").item()) + "\n").encode()
    texts = dict.fromkeys(schema, pl.String())
    frame = pl.read_csv(
        BytesIO(data),
        has_header=False,
        schema=texts,
        eol_char="\n",
        infer_schema=False,
        separator=separator,
        quote_char=None if separator == "|" else '"',
    )
    return _convert_numbers(frame, [name for name, kind in schema.items() if kind == pl.Float64()])


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
        signature: names that no other file's header has together.
    """

    noise = "the header"
    fields: ClassVar[Mapping[str, CsvField]]
    signature: ClassVar[frozenset[bytes]]

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header has all names by which the file is known."""
        header = head.split(b"\n", 1)[0].lstrip(BOM_UTF8).strip().split(b",")
        return 1.0 if self.signature <= set(header) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all rows."""
        yield parse_small_csv(content.read(CSV_LIMIT_BYTES), self.tables[0], self.fields)
