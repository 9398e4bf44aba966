"""PostgreSQL server logs in CSV (`log_destination = csvlog`, PostgreSQL 12 to 18), to the tables of `pglog.py`.

A record is one CSV row, which may span lines. Its detail, hint, context and query columns become separate rows, as in
the stderr log; they have the record's offset and are linked to it. Incomplete rows are rejected: a row has 23 columns
(24 since PostgreSQL 13, 26 since 14), unlike a truncated row or two rows in one line.

Example of a row::

    2026-11-20 21:03:47.877 UTC,"bench","ycsb",1580,"10.0.0.1:5432",65a1.62c,1,"SELECT",2026-11-20 21:00:00 UTC,
    3/4,0,LOG,00000,"duration: 0.067 ms",,,,,,,,,"psql","client backend",,0
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

import polars as pl
import polars.selectors as cs

from citus_analysis.core.parallel import map_in_order
from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import LINE_CAP, Content
from citus_analysis.formats.parsing.format import TIMEZONE, Hints, LineBegin
from citus_analysis.formats.parsing.time_zones import LocalTime
from citus_analysis.formats.pglog.chunking import ServerLog, split_into_record_chunks
from citus_analysis.formats.pglog.languages import detect_row_language
from citus_analysis.formats.pglog.prefix import SEVERITY_WORDS, STAMP_PATTERN, Heads, RowHeads
from citus_analysis.formats.pglog.records import DETAILS, RECORD, Chunk
from citus_analysis.formats.pglog.regular_expressions import (
    build_prefix_columns,
    find_openers,
    insert_detail_rows,
    record_texts,
    scan_with,
)
from citus_analysis.formats.pglog.scanned_chunks import Memory, add_body_fast, scan_rows_fast
from citus_analysis.formats.pglog.string_views import replace_invalid_utf8
from citus_analysis.formats.pglog.tables import ChunkTables, build_chunk_tables, extract_csv_message
from citus_analysis.formats.pglog.translation import make_english_severity_expr, map_severities, translate_rows

_CHUNK: Final = 16 * 2**20
#: Microseconds after milliseconds.
_FINER: Final = r"(\.[0-9]{3})[0-9]+"
#: A doubled quote ends one part and begins the next: the match never has to backtrack, which makes it fast.
FIELD: Final = r'(?:(?:"[^"]*")+|[^,"\r\n]*)'
#: A virtual transaction: backend and local number, in the range of their columns.
_TRANSACTION: Final = r'"?(?:-?[0-9]{1,9}/[0-9]{1,18})?"?'
_SAID_FIELDS: Final = (
    *("state", "said", "detail", "hint", "internal_query", "internal_position", "context", "statement", "position"),
)


SEVERITY_FIELD: Final = rf'"?(?P<severity>{"|".join(SEVERITY_WORDS)})[1-5]?"?,'
_HEADS: Final = RowHeads(
    rf'^(?P<head>"?(?P<m>{STAMP_PATTERN})"?,(?P<u>{FIELD}),(?P<d>{FIELD}),(?P<p>[0-9]{{0,9}}),(?P<h>{FIELD}),'
    rf"(?P<c>[0-9a-f.]*),(?P<l>[0-9]{{0,18}}),{FIELD},{FIELD},(?P<v>{_TRANSACTION}),[0-9]*,{SEVERITY_FIELD})"
)
#: A fast test for every file; the heads decide.
_MAYBE: Final = LineBegin(rb'"?[0-9]{4}-[0-9]{2}-[0-9]{2} [^,\n]{1,40},')
#: Severity and beginning of the message, in any language.
_SEVERITY_AND_MESSAGE: Final = re.compile(r',"?([^",\n]{2,60}?)[1-5]?"?,"?[0-9A-Z]{5}"?,"?([^",\n]{0,60})')
#: The columns from the error code to the position in the query, which all kinds of rows have.
SAID: Final = ",".join(f"(?P<{name}>{FIELD})" for name in _SAID_FIELDS)
ROW_END: Final = r"(?:\r?\n|$))"
_KNOWN: Final = rf"{SAID},{FIELD},(?P<application>{FIELD})"
#: The application is followed by the kind of backend since PostgreSQL 13, and by leader and query since 14.
_TAIL: Final = rf"^(?P<row>{_KNOWN}(?:,{FIELD}(?:,{FIELD},{FIELD})?)?{ROW_END}"
#: The same for exports that omit one of these columns.
_LOOSE_TAIL: Final = rf"^(?P<row>{_KNOWN}(?:,{FIELD}){{0,3}}{ROW_END}"


class PgCsvLog(ServerLog):
    """PostgreSQL server log in CSV (csvlog).

    Attributes:
        rows: the beginning of its rows.
        tails: the columns after the severity, strict and loose, with the names of the readers in compiled code; an
            empty name where there is none.
    """

    name: ClassVar[str] = "pgcsvlog"
    version: ClassVar[int] = 10
    tables = ("log_events", "checkpoints", "plans", "plan_nodes")
    options = (TIMEZONE,)
    rows: ClassVar[RowHeads] = _HEADS
    tails: ClassVar[tuple[tuple[str, str], ...]] = ((_TAIL, "csv"), (_LOOSE_TAIL, "loose_csv"))

    def detect(self, name: str, head: bytes) -> float:
        """High if a line begins like a csvlog row."""
        return 0.97 if _has_rows(head, _make_row_heads(self.rows, head)) else 0.0

    def heads(self, content: Content, hints: Hints) -> Heads:
        """The beginning of a row."""
        return _make_row_heads(self.rows, content.head)

    def is_cuttable(self, content: Content, hints: Hints) -> bool:
        """Not in another language than English: only the beginning of the log may tell it."""
        return not _detect_csv_language(content.head)

    def chunk_tables(self, content: Content, hints: Hints) -> Iterator[ChunkTables]:
        """The chunks of the log.

        Raises:
            FormatError: no line at the beginning is a csvlog row.
            UsageError: the option `timezone` is not a time zone.
        """
        rows = _make_row_heads(self.rows, content.head)
        if content.head.strip() and not _has_rows(content.head, rows):
            raise FormatError(
                "no line begins like a csvlog row", path=content.path, place="line 1", hint="pass --format pglog"
            )
        local = LocalTime.of(content.path, hints.options)

        tail, form = self._tail(content.head, rows)
        build = partial(_parse_csv_rows, tail_pattern=tail, language=rows.language)
        memory, is_plain = Memory(), bool(form) and not rows.language

        def work(chunk: Chunk) -> ChunkTables:
            read = replace(chunk, text=chunk.data())
            fast = scan_rows_fast(read.data(), chunk.offset, form, memory) if is_plain and not chunk.tail else None
            return build_chunk_tables(
                fast or scan_with(read, rows, build), local, chunk.offset, read.data, extract_csv_message
            )

        yield from map_in_order(split_into_record_chunks(content, rows, _CHUNK), work, hints.jobs, self.name)

    def _tail(self, head: bytes, rows: RowHeads) -> tuple[str, str]:
        """The first pattern of the columns after the severity that rows fit; the last one if they fit none."""
        for tail, form in self.tails[:-1]:
            if scan_with(
                Chunk(0, head), rows, partial(_parse_csv_rows, tail_pattern=tail, language=rows.language)
            ).parsed_bytes:
                return tail, form
        return self.tails[-1]


def _make_row_heads(rows: RowHeads, head: bytes) -> RowHeads:
    """The rows with the severities of the language of a log's head."""
    language = _detect_csv_language(head)
    if not language:
        return rows
    english, known = ("|".join(map(re.escape, words)) for words in (SEVERITY_WORDS, map_severities(language)))
    return RowHeads(rows.pattern.replace(f"(?P<severity>{english})", f"(?P<severity>{known})"), language)


def _detect_csv_language(head: bytes) -> str:
    """The language of the rows at the beginning of a log; empty: English."""
    if not _MAYBE.is_in(head):
        return ""
    return detect_row_language(_SEVERITY_AND_MESSAGE.findall(head.decode("utf-8", "replace")))


def _has_rows(head: bytes, rows: RowHeads) -> bool:
    if not _MAYBE.is_in(head):
        return False
    whole = replace_invalid_utf8(head[: head.rfind(b"\n") + 1] or head)
    return bool(whole) and bool((find_openers(whole, rows).roles == RECORD).any())


def _parse_csv_rows(
    data: bytes,
    offset: int,
    heads: pl.DataFrame,
    starts: Integers,
    sizes: Integers,
    *,
    tail_pattern: str,
    language: str = "",
) -> tuple[pl.DataFrame, Integers]:
    texts = record_texts(data, offset, heads, starts, sizes)
    tail = texts.select(pl.col("text").str.extract_groups(tail_pattern)).unnest("text")
    whole = _measure_row_bytes(heads, texts, tail)
    texts = texts.with_columns(byte_length=whole, capped=whole > LINE_CAP)
    if not whole.all():
        sound = pl.Series(whole > 0)
        texts, tail, heads = texts.filter(sound), tail.filter(sound), heads.filter(sound)
    return _build_csv_rows(heads, texts, tail.select(_make_unquoted_expr(pl.all())), language), whole


def _measure_row_bytes(heads: pl.DataFrame, texts: pl.DataFrame, tail: pl.DataFrame) -> Integers:
    """Number of bytes of each record that form a row: fewer than all if other text follows the row; 0 if none do.

    Only the beginning of a record longer than the cap is known; it counts as the beginning of a row.
    """
    row, head, text = (
        frame.get_column(name).str.len_bytes().cast(pl.Int64)
        for frame, name in ((tail, "row"), (heads, "head"), (texts, "text"))
    )
    measured = (
        pl.when(row < text)
        .then(head + row)
        .when(row.is_not_null() | texts.get_column("capped"))
        .then(texts.get_column("byte_length"))
        .otherwise(0)
    )
    return pl.select(measured).to_series().to_numpy()


def _build_csv_rows(heads: pl.DataFrame, texts: pl.DataFrame, tail: pl.DataFrame, language: str) -> pl.DataFrame:
    plain = heads.with_columns(_make_unquoted_expr(cs.by_name("u", "d", "h", "v", require_all=False).as_expr()))
    if language:
        plain = plain.with_columns(make_english_severity_expr(language))
    plain = plain.with_columns(pl.col("h").str.replace(r":[0-9]+$", ""), pl.col("m").str.replace(_FINER, "$1"))
    if "application" in tail.columns:
        plain = plain.with_columns(a=tail.get_column("application"))
    known = build_prefix_columns(plain).with_columns(sqlstate=tail.get_column("state"))
    rows = texts.with_columns(text=tail.get_column("said").fill_null(texts.get_column("text"))).hstack(known)
    if language:
        said = translate_rows(rows.select("severity", "text").hstack(tail.select("detail")), language)
        rows, tail = rows.with_columns(said.get_column("text")), tail.with_columns(said.get_column("detail"))
    details = {severity: tail.get_column(name) for name, severity in DETAILS.items()}
    return add_body_fast(insert_detail_rows(rows, details))


def _make_unquoted_expr(field: pl.Expr) -> pl.Expr:
    quoted = field.str.starts_with('"')
    inner = field.str.replace('^"', "").str.replace('"$', "").str.replace_all('""', '"', literal=True)
    return pl.when(quoted).then(inner).otherwise(field)


FORMAT = PgCsvLog()
