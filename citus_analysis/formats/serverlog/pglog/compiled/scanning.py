"""Records of a chunk of a server log, scanned by compiled code.

Numbers become Arrow arrays without a copy. The scanner numbers texts (applications, hosts, statement names ...), so
that Python handles each distinct text once per chunk and never a single row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from citus_analysis.core.array_types import Integers
from citus_analysis.core.arrow_arrays import repeated_text, text_array, texts_of
from citus_analysis.formats.serverlog.pglog._messages import MESSAGE_SCAN, redacted_array
from citus_analysis.formats.serverlog.pglog._prefix import SEVERITY_WORDS, Prefix
from citus_analysis.formats.serverlog.pglog._records import FIRST_DETAIL, Chunk, Scanned, stray_rejects
from citus_analysis.formats.serverlog.pglog.compiled import library as native
from citus_analysis.formats.serverlog.pglog.compiled.arrow_columns import (
    category_array,
    gathered_texts,
    joined_numbers,
    number_array,
    spread_texts,
)
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import Bytes, cut_to_characters, valid_utf8
from citus_analysis.formats.serverlog.pglog.compiled.layout import NUMBER_COLUMNS
from citus_analysis.formats.serverlog.pglog.compiled.prefix_program import program_of
from citus_analysis.formats.serverlog.pglog.compiled.reused_buffers import ReusedBuffers
from citus_analysis.formats.serverlog.pglog.compiled.scan_output import Column, Output
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, STATEMENT_KINDS, TABLES

if TYPE_CHECKING:
    import polars as pl

_TABLE: Final = TABLES["log_events"]
#: Meaning of the numbers in a column.
_WORDS: Final = {
    "severity": texts_of(SEVERITY_WORDS),
    "kind": texts_of(KINDS),
    "phase": texts_of(PROTOCOL_PHASES),
    "statement_kind": texts_of(STATEMENT_KINDS),
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


def scan_fast(chunk: Chunk, prefix: Prefix, memory: Memory) -> Scanned:
    """The records of a chunk, in columns in the given memory."""
    text = _text_of(chunk, memory.texts)
    facts = native.text_facts(text)
    if not facts.ascii:
        text = np.frombuffer(valid_utf8(text.tobytes()), np.uint8)
    # Messages of syslog are joined in memory after the chunk.
    buffer = _with_spare_bytes(text, memory.texts) if prefix.syslog else text
    out = native.scan_chunk(buffer, len(text), facts, chunk, prefix, memory.columns)
    starts, sizes = out.strays[:, 0], out.strays[:, 1] - out.strays[:, 0]
    if chunk.tail and len(sizes):
        sizes[-1] += chunk.tail
    arrays = _arrays_of(buffer, out)
    if program_of(prefix).epoch:
        arrays["zone"] = repeated_text("UTC", out.rows)
    rejects = stray_rejects(chunk, text.data, starts, sizes)
    return Scanned(_batch_of(arrays), rejects, out.record_bytes, out.blank_bytes)


def scan_rows_fast(data: bytes, offset: int, form: str, memory: Memory) -> Scanned | None:
    """The records of a chunk, in columns in the given memory.

    Args:
        data: whole rows.
        offset: their offset in the source.
        form: their form, one of :data:`~citus_analysis.formats.serverlog.pglog.compiled.layout.ROW_FORMS`.
        memory: memory of the log.

    Returns:
        None if a server does not write some row in this form; the reader in Python defines the meaning of such rows.
    """
    given = np.frombuffer(data, np.uint8)
    facts = native.text_facts(given)
    if facts.zeros or not len(given):
        return None
    buffer = _with_spare_bytes(given if facts.ascii else np.frombuffer(valid_utf8(data), np.uint8), memory.texts)
    out = native.scan_rows(buffer, len(given), facts.lines, offset=offset, form=form, buffers=memory.columns)
    if out is None:
        return None
    arrays = _arrays_of(buffer, out)
    # A detail and its record have the same offset.
    details = out.columns["severity"].values[: out.rows].view(np.uint8) >= FIRST_DETAIL
    valid = np.packbits(details, bitorder="little")
    tied = Column(out.columns["byte_offset"].values[: out.rows], valid, int(np.count_nonzero(details)))
    arrays["record_byte_offset"] = number_array(tied, out.rows)
    return Scanned(_batch_of(arrays), [], out.record_bytes, 0)


def add_body_fast(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace `text` by the columns read from it; the frame must have `severity` and `text`."""
    import polars as pl

    texts = text_array(frame.get_column("text").fill_null(""))
    _, bounds, data = texts.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    places = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    severities = frame.get_column("severity").cast(_TABLE["severity"].dtype).to_physical().to_numpy()
    out = native.read_texts(buffer, places, severities)
    read = pl.DataFrame(_batch_of({name: a for name, a in _arrays_of(buffer, out).items() if name in _FOUND_IN_TEXT}))
    frame = frame.drop("text")
    if "sqlstate" in read.columns and "sqlstate" in frame.columns:
        said, known = (one.get_column("sqlstate").cast(pl.String) for one in (read, frame))
        read, frame = read.with_columns(sqlstate=said.fill_null(known)), frame.drop("sqlstate")
    return frame.hstack(read)


def _text_of(chunk: Chunk, buffers: ReusedBuffers) -> Bytes:
    if isinstance(chunk.text, bytes):
        return np.frombuffer(chunk.text, np.uint8)
    memory = buffers.buffer(chunk.text.length)
    return memory[: chunk.text.read_into(memory.data)]


def _with_spare_bytes(text: Bytes, buffers: ReusedBuffers) -> Bytes:
    """The text, followed by memory of the same size for texts that differ from their bytes in the log."""
    memory = buffers.buffer(2 * len(text))
    memory[: len(text)] = text
    return memory


def _batch_of(arrays: dict[str, pa.Array]) -> pa.RecordBatch:
    """Columns as a batch."""
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _arrays_of(buffer: Bytes, out: Output) -> dict[str, pa.Array]:
    """The columns with values, named as in `log_events`, with `clock` and `zone` in place of `log_time`."""
    rows, columns = out.rows, {name: column for name, column in out.columns.items() if column.count or not out.rows}
    arrays = {name: number_array(columns[name], rows) for name in _NUMBERS if name in columns}
    for name, texts in {**_WORDS, **_texts(buffer, out)}.items():
        if name in columns:
            arrays[name] = category_array(columns[name], rows, texts)
    if len(out.messages):
        arrays["message"] = spread_texts(_messages(buffer, out.messages), columns["message"], rows)
    if len(out.shards):
        arrays["other_shards"] = joined_numbers(out.shards[:, 0], out.shards[:, 1], rows)
    return arrays


def _texts(buffer: Bytes, out: Output) -> dict[str, pa.Array]:
    """The distinct texts of each column, all copied at once."""
    places = np.concatenate(list(out.texts.values()))
    texts = gathered_texts(buffer, places)
    ends = np.cumsum([len(own) for own in out.texts.values()]).tolist()
    return {name: texts[end - len(own) : end] for (name, own), end in zip(out.texts.items(), ends, strict=True)}


def _messages(buffer: Bytes, places: Integers) -> pa.Array:
    starts = places[:, 0]
    lengths = cut_to_characters(buffer, starts, places[:, 1] - starts, MESSAGE_SCAN)
    return redacted_array(gathered_texts(buffer, np.column_stack([starts, starts + lengths])))
