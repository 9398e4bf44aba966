"""PostgreSQL server logs in JSON (`log_destination = jsonlog`, PostgreSQL 15 to 18), to the tables of `pglog.py`.

One object per line. Its detail, hint, context and statement become separate rows, as in the stderr log; they have
the record's offset and are linked to it. CloudNativePG wraps the columns of each csvlog row in an object with
`record`; messages of its own programs, objects with a `logger`, are noise. Exports that wrap lines of a stderr log in
objects are undone before (:mod:`citus_analysis.formats.deliveries.log_services`).

Example of a line::

    {"timestamp":"2026-11-20 21:03:47.877 UTC","pid":1580,"line_num":1,"error_severity":"LOG","message":"duration: ..."}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.core.parallel import map_in_order
from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import EXCERPT_CHARS, TIMEZONE, Hints, Reject
from citus_analysis.formats.parsing.json_records import decode_lines, find_blank_lines, find_selected_chunks
from citus_analysis.formats.parsing.lines import find_line_bounds
from citus_analysis.formats.parsing.time_zones import LocalTime
from citus_analysis.formats.pglog.chunking import ServerLog
from citus_analysis.formats.pglog.languages import detect_row_language
from citus_analysis.formats.pglog.prefix import SEVERITY_WORDS, STAMP_PATTERN
from citus_analysis.formats.pglog.records import BLANK, DETAILS, RECORD, STRAY, ScannedChunk
from citus_analysis.formats.pglog.regular_expressions import build_prefix_columns, insert_detail_rows
from citus_analysis.formats.pglog.scanned_chunks import Memory, add_body_fast, scan_rows_fast
from citus_analysis.formats.pglog.string_views import replace_invalid_utf8
from citus_analysis.formats.pglog.tables import SCANNED, ChunkTables, build_chunk_tables, extract_json_message
from citus_analysis.formats.pglog.translation import make_english_severity_expr, translate_rows
from citus_analysis.texts.documents import parse_json
from citus_analysis.texts.words import replace_lone_surrogates

_BLOCK: Final = 8 * 2**20
_SAMPLE_LINES: Final = 400
#: Keys that every record has.
_SAID: Final = frozenset({"error_severity", "message"})
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
#: Column -> the form of its values; others are null.
_FORMS: Final = {
    "m": f"^{STAMP_PATTERN}$",
    "p": "^[0-9]{1,9}$",
    "l": "^[0-9]{1,18}$",
    "v": "^-?[0-9]{1,9}/[0-9]{1,18}$",
}
#: Keys that are read -> columns; every value is read as text.
_NAMES: Final = {**_KEYS, **{name: name for name in DETAILS}}
_PORT: Final = r":[0-9]+$"
_NO_RECORD: Final = "no object with a message and a severity of a known language"
Object = Mapping[str, object]


class PgJsonLog(ServerLog):
    """PostgreSQL server log in JSON (jsonlog), also as CloudNativePG wraps it."""

    name: ClassVar[str] = "pgjsonlog"
    version: ClassVar[int] = 12
    tables = ("log_events", "checkpoints", "plans", "plan_nodes")
    noise = "blank lines; messages of CloudNativePG's own programs"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """High if one of the first lines is an object with a severity and a message."""
        return 0.97 if _parse_first_records(head) else 0.0

    def heads(self, content: Content, hints: Hints) -> None:
        """A line is an object."""

    def is_cuttable(self, content: Content, hints: Hints) -> bool:
        """Not in another language than English: only the beginning of the log may tell it."""
        return not _detect_json_language(content.head)

    def chunk_tables(self, content: Content, hints: Hints) -> Iterator[ChunkTables]:
        """The blocks of the log.

        Raises:
            FormatError: none of the first lines is such an object.
        """
        sample = _parse_first_records(content.head)
        if content.head.strip() and not sample:
            raise FormatError(
                "no line is a jsonlog object", path=content.path, place="line 1", hint="pass --format pglog"
            )
        nested = any(wrapped for wrapped, _ in sample)
        language = _detect_json_language(content.head)
        local = LocalTime.of(content.path, hints.options)

        memory = Memory()

        def work(block: Block) -> ChunkTables:
            plain = not (block.oversized or nested or language)
            fast = scan_rows_fast(block.data, block.offset, "json", memory) if plain else None
            found = fast or _scan_json_block(block, nested=nested, language=language)
            return build_chunk_tables(found, local, block.offset, lambda: block.data, extract_json_message)

        yield from map_in_order(content.blocks(_BLOCK), work, hints.jobs, "pgjsonlog")


def _parse_first_records(data: bytes) -> list[tuple[bool, Object]]:
    """Records in the first lines: whether CloudNativePG wraps them, and the object with severity and message."""
    found: list[tuple[bool, Object]] = []
    if b"error_severity" not in data:
        return found
    for whole in map(_parse_json_object, data.splitlines()[:_SAMPLE_LINES]):
        within = whole.get(_NESTED)
        both = ((True, within), (False, whole))
        found += [(wrapped, one) for wrapped, one in both if isinstance(one, dict) and one.keys() >= _SAID][:1]
    return found


def _parse_json_object(line: bytes) -> Object:
    if not line.lstrip().startswith(b"{"):
        return {}
    try:
        # Passed as text: from bytes, the decoder would guess the encoding and accept UTF-16 too.
        found = parse_json(replace_invalid_utf8(line).decode())
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def _detect_json_language(head: bytes) -> str:
    """The language of the records at the beginning of a log; empty: English."""
    return detect_row_language(
        (str(said["error_severity"]), str(said["message"])) for _, said in _parse_first_records(head)
    )


def _scan_json_block(block: Block, *, nested: bool, language: str = "") -> ScannedChunk:
    if block.oversized:
        reject = Reject(block.offset, block.length, "longer than the cap", block.data)
        return ScannedChunk(SCANNED.empty(), [reject], 0, 0)
    data = replace_lone_surrogates(replace_invalid_utf8(block.data))
    starts, sizes = find_line_bounds(data)
    frame, numbers = _decode_json_objects(data, starts, sizes, nested=nested)
    frame = frame.with_columns(
        byte_offset=pl.Series(block.offset + starts[numbers]), byte_length=pl.Series(sizes[numbers])
    )
    has_text = frame.get_column("text").is_not_null()
    frame = frame.with_columns(pl.col("severity").str.replace("[1-5]$", ""))
    if language:
        frame = translate_rows(frame.with_columns(make_english_severity_expr(language)), language)
    # A severity of an unknown language could be any.
    is_record = has_text & frame.get_column("severity").is_in(SEVERITY_WORDS).fill_null(value=False)
    records = frame if is_record.all() else frame.filter(is_record)
    roles = np.full(len(starts), STRAY)
    roles[numbers[is_record.to_numpy()]] = RECORD
    if nested:
        roles[numbers[(~has_text & frame.get_column("logger").is_not_null()).to_numpy()]] = BLANK
    roles[find_blank_lines(data, starts, sizes, among=roles == STRAY)] = BLANK
    rejects = [
        Reject(block.offset + start, end - start, _NO_RECORD, data[start : start + 4 * EXCERPT_CHARS])
        for start, end in find_selected_chunks(roles == STRAY, starts, sizes)
    ]
    return ScannedChunk(
        _build_json_rows(records), rejects, int(sizes[roles == RECORD].sum()), int(sizes[roles == BLANK].sum())
    )


def _decode_json_objects(
    data: bytes, starts: Integers, sizes: Integers, *, nested: bool
) -> tuple[pl.DataFrame, Integers]:
    """Objects as columns with the names of `_NAMES`, for nested records also `logger`; numbers of their lines."""
    if not nested:
        frame, numbers = decode_lines(data, starts, sizes, _NAMES)
        return frame.rename(_NAMES), numbers
    frame, numbers = decode_lines(data, starts, sizes, [*_NAMES, "logger"], {_NESTED: _NESTED_KEYS})
    within = frame.select(_NESTED).unnest(_NESTED).rename(_NESTED_KEYS)
    within = within.with_columns(pl.col("remote_host").str.replace(_PORT, ""))
    both = [pl.coalesce(pl.col(name), within.get_column(name)) for name in within.columns]
    return frame.drop(_NESTED).with_columns(both).rename(_NAMES), numbers


def _build_json_rows(objects: pl.DataFrame) -> pl.DataFrame:
    sound = [pl.when(pl.col(name).str.contains(form)).then(name).alias(name) for name, form in _FORMS.items()]
    known = build_prefix_columns(objects.with_columns(sound))
    rows = objects.select("byte_offset", "byte_length", "text", capped=pl.lit(value=False)).hstack(known)
    return add_body_fast(
        insert_detail_rows(rows, {severity: objects.get_column(name) for name, severity in DETAILS.items()})
    )


FORMAT = PgJsonLog()
