"""PostgreSQL server logs in JSON (`log_destination = jsonlog`, PostgreSQL 15 to 18), to the tables of :mod:`.pglog`.

One object per line. Its detail, hint, context and statement become separate rows, as in the stderr log; they have
the record's offset and are linked to it. CloudNativePG wraps the columns of each csvlog row in an object with
`record`; messages of its own programs, objects with a `logger`, are noise. Exports that wrap lines of a stderr log in
objects are undone before (:mod:`citus_analysis.formats.deliveries.exports`).

Example of a line::

    {"timestamp":"2026-11-20 21:03:47.877 UTC","pid":1580,"line_num":1,"error_severity":"LOG","message":"duration: ..."}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Integers
from citus_analysis.core.threads import in_order
from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import EXCERPT_CHARS, Hints, Reject
from citus_analysis.formats.api.options import TIMEZONE, Option
from citus_analysis.formats.reading.json_lines import blank_lines, decode_lines, stretches
from citus_analysis.formats.reading.texts_between import lines_of
from citus_analysis.formats.serverlog._details import with_details
from citus_analysis.formats.serverlog.pglog._ordered_tables import ChunkTables, tables_of_chunk
from citus_analysis.formats.serverlog.pglog._plans import logged_plans, said_in_json
from citus_analysis.formats.serverlog.pglog._prefix import SEVERITY_WORDS, STAMP_PATTERN
from citus_analysis.formats.serverlog.pglog._records import BLANK, RECORD, STRAY, Scanned
from citus_analysis.formats.serverlog.pglog._scan import prefix_columns
from citus_analysis.formats.serverlog.pglog._stretches import ServerLog
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import valid_utf8
from citus_analysis.formats.serverlog.pglog.compiled.scanning import Memory
from citus_analysis.formats.serverlog.pglog.fallback.chosen_reader import add_body, scan_rows
from citus_analysis.formats.serverlog.pglog.languages.detected import language_of_rows
from citus_analysis.formats.serverlog.pglog.languages.translation import english_severity, translated_rows
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.times.zones import LocalTime
from citus_analysis.texts.lone_surrogates import without_lone_surrogates

_BLOCK: Final = 8 * 2**20
_SAMPLE_LINES: Final = 400
_DETAILS: Final = {
    "detail": "DETAIL",
    "hint": "HINT",
    "internal_query": "QUERY",
    "context": "CONTEXT",
    "statement": "STATEMENT",
}
#: Keys of an object -> the equivalent escape of a prefix.
_KEYS: Final = {
    "timestamp": "m",
    "user": "u",
    "dbname": "d",
    "pid": "p",
    "remote_host": "h",
    "line_num": "l",
    "vxid": "v",
    "application_name": "a",
    "state_code": "e",
    "error_severity": "severity",
    "message": "text",
}
#: Keys of a CloudNativePG record -> the different name in a jsonlog object.
_NESTED: Final = "record"
_NESTED_KEYS: Final = {
    "log_time": "timestamp",
    "user_name": "user",
    "database_name": "dbname",
    "process_id": "pid",
    "connection_from": "remote_host",
    "session_line_num": "line_num",
    "virtual_transaction_id": "vxid",
    "sql_state_code": "state_code",
    "query": "statement",
    **{name: name for name in ("application_name", "error_severity", "message")},
    **{name: name for name in ("detail", "hint", "internal_query", "context")},
}
_STAMP: Final = f"^{STAMP_PATTERN}$"
#: Keys that are read -> columns; every value is read as text.
_NAMES: Final = {**_KEYS, **{name: name for name in _DETAILS}}
_PORT: Final = r":[0-9]+$"
_NO_RECORD: Final = "no object with a message and a severity of a known language"
Object = Mapping[str, object]


class PgJsonLog(ServerLog):
    """PostgreSQL server log in JSON (jsonlog), also as CloudNativePG wraps it."""

    name: ClassVar[str] = "pgjsonlog"
    version: ClassVar[int] = 11
    tables: ClassVar[tuple[str, ...]] = ("log_events", "checkpoints", "plans", "plan_nodes")
    noise: ClassVar[str] = "blank lines; messages of CloudNativePG's own programs"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """High if one of the first lines is an object with a severity and a message."""
        return 0.97 if any(_is_record(found) for found in _objects(head)) else 0.0

    def heads(self, content: Content, hints: Hints) -> None:
        """A line is an object."""

    def cuts(self, content: Content, hints: Hints, stretch_bytes: int) -> list[int]:
        """None in another language than English: only the beginning of the log may tell it."""
        return [] if _language(content.head) else super().cuts(content, hints, stretch_bytes)

    def chunk_tables(self, content: Content, hints: Hints) -> Iterator[ChunkTables]:
        """The blocks of the log.

        Raises:
            FormatError: none of the first lines is such an object.
        """
        sample = [found for found in _objects(content.head) if _is_record(found)]
        if content.head.strip() and not sample:
            raise FormatError(
                "no line is a jsonlog object", path=content.path, place="line 1", way_out="pass --format pglog"
            )
        nested = any(_is_nested(found) for found in sample)
        language = _language(content.head)
        local = LocalTime.of(content.path, hints.options)

        memory = Memory()

        def work(block: Block) -> ChunkTables:
            plain = not (block.oversized or nested or language)
            fast = scan_rows(block.data, block.offset, "json", memory) if plain else None
            found = tables_of_chunk(fast or _scanned(block, nested=nested, language=language), local)
            return replace(found, **logged_plans(block.offset, lambda: block.data, found.rows, said_in_json)._asdict())

        yield from in_order(content.blocks(_BLOCK), work, hints.jobs, "pgjsonlog")


def _objects(data: bytes) -> list[Object]:
    lines = data.splitlines()[:_SAMPLE_LINES]
    return [found for line in lines if (found := _object(line)) is not None]


def _object(line: bytes) -> Object | None:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        # Passed as text: from bytes, the decoder would guess the encoding and accept UTF-16 too.
        found = json.loads(valid_utf8(line).decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _language(head: bytes) -> str:
    """The language of the records at the beginning of a log; empty: English."""
    return language_of_rows(_severity_and_message(found) for found in _objects(head) if _is_record(found))


def _severity_and_message(record: Object) -> tuple[str, str]:
    within = record.get(_NESTED)
    said = within if isinstance(within, dict) and _is_said(within) else record
    return str(said["error_severity"]), str(said["message"])


def _is_record(found: Object) -> bool:
    return _is_said(found) or _is_nested(found)


def _is_nested(found: Object) -> bool:
    within = found.get(_NESTED)
    return isinstance(within, dict) and _is_said(within)


def _is_said(found: Object) -> bool:
    return "error_severity" in found and "message" in found


def _scanned(block: Block, *, nested: bool, language: str = "") -> Scanned:
    if block.oversized:
        reject = Reject(block.offset, block.length, "longer than the cap", block.data)
        return Scanned(_frame(_no_objects()), [reject], 0, 0)
    data = without_lone_surrogates(valid_utf8(block.data))
    starts, sizes = lines_of(data)
    frame, numbers = _decoded(data, starts, sizes, nested=nested)
    frame = frame.with_columns(
        byte_offset=pl.Series(block.offset + starts[numbers]), byte_length=pl.Series(sizes[numbers])
    )
    has_text = frame.get_column("text").is_not_null()
    frame = frame.with_columns(pl.col("severity").str.replace("[1-5]$", ""))
    if language:
        frame = translated_rows(frame.with_columns(english_severity(language)), language)
    # A severity of an unknown language could be any.
    is_record = has_text & frame.get_column("severity").is_in(SEVERITY_WORDS).fill_null(value=False)
    records = frame if is_record.all() else frame.filter(is_record)
    roles = np.full(len(starts), STRAY)
    roles[numbers[is_record.to_numpy()]] = RECORD
    if nested:
        roles[numbers[(~has_text & frame.get_column("logger").is_not_null()).to_numpy()]] = BLANK
    roles[blank_lines(data, starts, sizes, among=roles == STRAY)] = BLANK
    rejects = [
        Reject(block.offset + start, end - start, _NO_RECORD, data[start : start + 4 * EXCERPT_CHARS])
        for start, end in stretches(roles == STRAY, starts, sizes)
    ]
    return Scanned(_frame(records), rejects, int(sizes[roles == RECORD].sum()), int(sizes[roles == BLANK].sum()))


def _decoded(data: bytes, starts: Integers, sizes: Integers, *, nested: bool) -> tuple[pl.DataFrame, Integers]:
    """Objects as columns with the names of `_NAMES`, for nested records also `logger`; numbers of their lines."""
    if not nested:
        frame, numbers = decode_lines(data, starts, sizes, _NAMES)
        return frame.rename(_NAMES), numbers
    frame, numbers = decode_lines(data, starts, sizes, [*_NAMES, "logger"], {_NESTED: _NESTED_KEYS})
    within = frame.select(_NESTED).unnest(_NESTED).rename(_NESTED_KEYS)
    within = within.with_columns(pl.col("remote_host").str.replace(_PORT, ""))
    both = [pl.coalesce(pl.col(name), within.get_column(name)) for name in within.columns]
    return frame.drop(_NESTED).with_columns(both).rename(_NAMES), numbers


def _no_objects() -> pl.DataFrame:
    return pl.DataFrame(
        schema={"byte_offset": pl.Int64, "byte_length": pl.Int64, **dict.fromkeys(_NAMES.values(), pl.String)}
    )


def _frame(objects: pl.DataFrame) -> pl.DataFrame:
    rows = _rows(objects, objects).with_columns(capped=pl.lit(value=False))
    details = {severity: rows.get_column(name) for name, severity in _DETAILS.items()}
    return add_body(with_details(rows.drop(_DETAILS), details))


def _rows(heads: pl.DataFrame, objects: pl.DataFrame) -> pl.DataFrame:
    stamped = heads
    if "m" in heads.columns:
        stamp = pl.when(pl.col("m").str.contains(_STAMP)).then("m")
        stamped = heads.with_columns(m=stamp)
    for column, pattern in (("p", "^[0-9]{1,9}$"), ("l", "^[0-9]{1,18}$"), ("v", "^-?[0-9]{1,9}/[0-9]{1,18}$")):
        if column in stamped.columns:
            stamped = stamped.with_columns(pl.when(pl.col(column).str.contains(pattern)).then(column).alias(column))
    return objects.select("byte_offset", "byte_length", "text", *_DETAILS).hstack(prefix_columns(stamped))


FORMAT = PgJsonLog()
