"""Records of a chunk of a server log, scanned by compiled code; messages are redacted, and cut to a limited length.

Numbers become Arrow arrays without a copy. The scanner numbers texts (applications, hosts, statement names ...), so
that Python handles each distinct text once per chunk and never a single row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from citus_analysis.core.arrow_arrays import make_text_array, make_word_array, repeat_text
from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.pglog.compiled import measure_text_facts, read_texts, scan_chunk, scan_rows
from citus_analysis.formats.pglog.filled_arrays import (
    gather_text_array,
    join_row_numbers,
    make_category_array,
    number_array,
    spread_texts,
)
from citus_analysis.formats.pglog.filled_columns import FilledColumn, ReusedBuffers, ScanOutput
from citus_analysis.formats.pglog.layout import NUMBER_COLUMNS
from citus_analysis.formats.pglog.prefix import (
    SEVERITY_WORDS,
    Prefix,
)
from citus_analysis.formats.pglog.prefix_program import encode_prefix_program
from citus_analysis.formats.pglog.records import FIRST_DETAIL, Chunk, ScannedChunk, build_stray_rejects
from citus_analysis.formats.pglog.string_views import (
    Bytes,
    convert_array_to_series,
    cut_to_characters,
    replace_invalid_utf8,
)
from citus_analysis.redaction import may_hold_secret, redact_series
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, STATEMENT_KINDS, TABLES

if TYPE_CHECKING:
    import polars as pl

MESSAGE_CHARS: Final = 500
#: Bytes searched for secrets before a message is cut, so that no secret is separated from its key.
MESSAGE_SCAN: Final = 2000


def redact_messages(messages: pl.Series) -> pl.Series:
    """Messages with secrets replaced, cut to :data:`MESSAGE_CHARS` characters."""
    return redact_series(messages).str.head(MESSAGE_CHARS)


def redact_message_array(messages: pa.Array) -> pa.Array:
    """Like :func:`redact_messages`, for Arrow texts without nulls; short texts without secrets need no polars."""
    _, bounds, data = messages.buffers()
    if not data.to_pybytes().isascii() or may_hold_secret(messages):
        return make_text_array(redact_messages(convert_array_to_series("message", messages)))
    begins, ends = np.frombuffer(bounds, np.int64)[:-1], np.frombuffer(bounds, np.int64)[1:]
    shown = np.column_stack([begins, np.minimum(ends, begins + MESSAGE_CHARS)])
    return gather_text_array(np.frombuffer(data, np.uint8), shown)


#: Meaning of the numbers in a column.
_WORDS: Final = {
    "severity": make_word_array(SEVERITY_WORDS),
    "kind": make_word_array(KINDS),
    "phase": make_word_array(PROTOCOL_PHASES),
    "statement_kind": make_word_array(STATEMENT_KINDS),
}
_NUMBERS: Final = (*(name for name in NUMBER_COLUMNS if name != "message"), "capped")
_FOUND_IN_TEXT: Final = frozenset(
    {
        *("duration_us", "shard_id", "placement_id", "task_us", "worker_host", "worker_port", "kind", "phase"),
        *("sqlstate", "statement_name", "statement_kind", "statement_fingerprint", "values_hash", "message"),
        *("other_shards", "trace_context"),
    }
)


class Memory:
    """Memory of one log, for chunks while they are scanned and for their columns until they are written."""

    def __init__(self) -> None:
        self.texts = ReusedBuffers()
        self.columns = ReusedBuffers()


def scan_fast(chunk: Chunk, prefix: Prefix, memory: Memory) -> ScannedChunk:
    """The records of a chunk, in columns in the given memory."""
    text = _read_chunk_text(chunk, memory.texts)
    facts = measure_text_facts(text)
    if not facts.ascii:
        text = np.frombuffer(replace_invalid_utf8(text.tobytes()), np.uint8)
    # Messages of syslog are joined in memory after the chunk.
    buffer = _add_spare_bytes(text, memory.texts) if prefix.syslog else text
    out = scan_chunk(buffer, len(text), facts, chunk, prefix, memory.columns)
    starts, sizes = out.strays[:, 0], out.strays[:, 1] - out.strays[:, 0]
    if chunk.tail and len(sizes):
        sizes[-1] += chunk.tail
    arrays = _build_column_arrays(buffer, out)
    if encode_prefix_program(prefix).epoch:
        arrays["zone"] = repeat_text("UTC", out.rows)
    rejects = build_stray_rejects(chunk, text.data, starts, sizes)
    return ScannedChunk(_make_record_batch(arrays), rejects, out.record_bytes, out.blank_bytes)


def scan_rows_fast(data: bytes, offset: int, form: str, memory: Memory) -> ScannedChunk | None:
    """The records of a chunk, in columns in the given memory.

    Args:
        data: whole rows.
        offset: their offset in the source.
        form: their form, one of :data:`~citus_analysis.formats.pglog.layout.ROW_FORMS`.
        memory: memory of the log.

    Returns:
        None if a server does not write some row in this form: the formats read such rows themselves.
    """
    given = np.frombuffer(data, np.uint8)
    facts = measure_text_facts(given)
    if facts.zeros or not len(given):
        return None
    buffer = _add_spare_bytes(
        given if facts.ascii else np.frombuffer(replace_invalid_utf8(data), np.uint8), memory.texts
    )
    out = scan_rows(buffer, len(given), facts.lines, offset=offset, form=form, buffers=memory.columns)
    if out is None:
        return None
    arrays = _build_column_arrays(buffer, out)
    # A detail and its record have the same offset.
    details = out.columns["severity"].values[: out.rows].view(np.uint8) >= FIRST_DETAIL
    valid = np.packbits(details, bitorder="little")
    tied = FilledColumn(out.columns["byte_offset"].values[: out.rows], valid, int(np.count_nonzero(details)))
    arrays["record_byte_offset"] = number_array(tied, out.rows)
    return ScannedChunk(_make_record_batch(arrays), [], out.record_bytes, 0)


def add_body_fast(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace `text` by the columns read from it; the frame must have `severity` and `text`."""
    import polars as pl

    texts = make_text_array(frame.get_column("text").fill_null(""))
    _, bounds, data = texts.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    places = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    severities = frame.get_column("severity").cast(TABLES["log_events"]["severity"].dtype).to_physical().to_numpy()
    out = read_texts(buffer, places, severities)
    read = pl.DataFrame(
        _make_record_batch({name: a for name, a in _build_column_arrays(buffer, out).items() if name in _FOUND_IN_TEXT})
    )
    frame = frame.drop("text")
    if "sqlstate" in read.columns and "sqlstate" in frame.columns:
        said, known = (one.get_column("sqlstate").cast(pl.String) for one in (read, frame))
        read, frame = read.with_columns(sqlstate=said.fill_null(known)), frame.drop("sqlstate")
    return frame.hstack(read)


def fingerprint_statements(statements: pl.Series) -> pl.Series:
    """The fingerprints of statements, as those that a server logs have them.

    Example:
        >>> import polars as pl
        >>> one, two = fingerprint_statements(pl.Series(["SELECT 1", "select  $1;"]))
        >>> one == two
        True
    """
    import polars as pl

    frame = statements.to_frame("text").with_columns(severity=pl.lit("STATEMENT"))
    return add_body_fast(frame).get_column("statement_fingerprint")


def _read_chunk_text(chunk: Chunk, buffers: ReusedBuffers) -> Bytes:
    if isinstance(chunk.text, bytes):
        return np.frombuffer(chunk.text, np.uint8)
    memory = buffers.buffer(chunk.text.length)
    return memory[: chunk.text.read_into(memory.data)]


def _add_spare_bytes(text: Bytes, buffers: ReusedBuffers) -> Bytes:
    """The text, followed by memory of the same size for texts that differ from their bytes in the log."""
    memory = buffers.buffer(2 * len(text))
    memory[: len(text)] = text
    return memory


def _make_record_batch(arrays: dict[str, pa.Array]) -> pa.RecordBatch:
    """Columns as a batch."""
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _build_column_arrays(buffer: Bytes, out: ScanOutput) -> dict[str, pa.Array]:
    """The columns with values, named as in `log_events`, with `clock` and `zone` in place of `log_time`."""
    rows, columns = out.rows, {name: column for name, column in out.columns.items() if column.count or not out.rows}
    arrays = {name: number_array(columns[name], rows) for name in _NUMBERS if name in columns}
    for name, texts in {**_WORDS, **_build_distinct_texts(buffer, out)}.items():
        if name in columns:
            arrays[name] = make_category_array(columns[name], rows, texts)
    if len(out.messages):
        arrays["message"] = spread_texts(_build_message_array(buffer, out.messages), columns["message"], rows)
    if len(out.shards):
        arrays["other_shards"] = join_row_numbers(out.shards[:, 0], out.shards[:, 1], rows)
    return arrays


def _build_distinct_texts(buffer: Bytes, out: ScanOutput) -> dict[str, pa.Array]:
    """The distinct texts of each column, all copied at once."""
    places = np.concatenate(list(out.texts.values()))
    texts = gather_text_array(buffer, places)
    ends = np.cumsum([len(own) for own in out.texts.values()]).tolist()
    return {name: texts[end - len(own) : end] for (name, own), end in zip(out.texts.items(), ends, strict=True)}


def _build_message_array(buffer: Bytes, places: Integers) -> pa.Array:
    starts = places[:, 0]
    lengths = cut_to_characters(buffer, starts, places[:, 1] - starts, MESSAGE_SCAN)
    return redact_message_array(gather_text_array(buffer, np.column_stack([starts, starts + lengths])))
