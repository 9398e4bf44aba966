"""Records of a chunk of a stderr log, scanned by compiled code: the same frame as `_scan.scan` gives.

Numbers become Arrow arrays without a copy, texts (applications, hosts, statement names ...) and statements are
numbered by the scanner, so that Python sees each distinct one once per chunk and never a row.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.formats.pglog import _native as native
from citus_analysis.formats.pglog._body import MESSAGE_SCAN, add_statements, redacted
from citus_analysis.formats.pglog._prefix import SEVERITY_WORDS, Prefix
from citus_analysis.formats.pglog._program import program_of
from citus_analysis.formats.pglog._scan import Chunk, Scanned, stray_rejects
from citus_analysis.formats.pglog._views import Bytes, Integers, cut_to_characters, series_of, string_views
from citus_analysis.schema import KINDS, TABLES

__all__ = ["add_body_fast", "scan_fast"]

_TABLE: Final = TABLES["log_events"]
_PHASES: Final = ("parse", "bind", "execute", "statement")
_ARROW: Final = {np.int64: pa.int64(), np.int32: pa.int32(), np.float64: pa.float64(), np.uint8: pa.uint8()}
_PLAIN: Final = (*(name for name in native.NUMBER_COLUMNS if name not in {"statement", "message"}), "capped")
#: Every record has these, so the scanner does not mark them.
_EVERYWHERE: Final = frozenset({"byte_offset", "byte_length", "capped"})
_TOLD_BY_TEXT: Final = frozenset(
    {
        *("duration_us", "shard_id", "placement_id", "task_us", "worker_host", "worker_port", "kind", "phase"),
        *("statement_name", "statement_kind", "statement_fingerprint", "message"),
    }
)
#: Columns that are looked at before the absent ones are added.
_NEEDED: Final = {"clock": pl.Int64(), "zone": pl.String(), "message": pl.String()}
#: Statements whose kind is kept; a log with more different ones has its kinds looked at again.
_KINDS_KEPT: Final = 2**19

_kinds: Final[dict[int, str]] = {}
_kinds_lock: Final = threading.Lock()


def scan_fast(chunk: Chunk, prefix: Prefix) -> Scanned:
    """The records of a chunk, which must not be empty."""
    buffer = np.frombuffer(chunk.data, np.uint8)
    out = native.scan_chunk(
        buffer,
        offset=chunk.offset,
        tail=chunk.tail,
        fresh=chunk.fresh,
        prefix=prefix,
    )
    starts, sizes = out.strays[:, 0], out.strays[:, 1] - out.strays[:, 0]
    if chunk.tail and len(sizes):
        sizes[-1] += chunk.tail
    frame = _frame(buffer, out)
    if program_of(prefix).epoch:
        frame = frame.with_columns(zone=pl.lit("UTC"))
    return Scanned(
        frame=frame,
        rejects=stray_rejects(chunk, starts, sizes),
        parsed_bytes=out.record_bytes,
        noise_bytes=out.blank_bytes,
    )


def add_body_fast(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that a record's text tells, as `_body.add_body` does, given `severity` and `text`; that goes."""
    texts = frame.get_column("text").fill_null("").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, data = texts.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    places = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    severities = frame.get_column("severity").cast(_TABLE["severity"].dtype).to_physical().to_numpy()
    out = native.read_texts(buffer, places, severities)
    told = _frame(buffer, out)
    return frame.drop("text").hstack(told.select(name for name in told.columns if name in _TOLD_BY_TEXT))


def _frame(buffer: Bytes, out: native.Output) -> pl.DataFrame:
    numbers = {name: array for name in out.columns if (array := _array(out, name)) is not None}
    values = [(name, source, values) for name, source, values in _values(buffer, out) if source in numbers]
    plain = [name for name in _PLAIN if name in numbers]
    found = {*plain, *(name for name, _, _ in values)}
    table = pa.Table.from_arrays(list(numbers.values()), names=list(numbers))
    # One pass over all columns: each would cost a start of polars' engine.
    return pl.DataFrame(table).select(
        *plain,
        *(pl.lit(choices).gather(pl.col(source)).alias(name) for name, source, choices in values),
        *(pl.lit(None, dtype).alias(name) for name, dtype in _NEEDED.items() if name not in found),
    )


def _values(buffer: Bytes, out: native.Output) -> Iterator[tuple[str, str, pl.Series]]:
    """What the numbers in a column stand for: column of `log_events`, column of numbers, values."""
    yield "severity", "severity", pl.Series(SEVERITY_WORDS, dtype=_TABLE["severity"].dtype)
    yield "kind", "kind", pl.Series(KINDS, dtype=_TABLE["kind"].dtype)
    yield "phase", "phase", pl.Series(_PHASES, dtype=_TABLE["phase"].dtype)
    if out.texts.size:
        texts = string_views(buffer, out.texts[:, 0], out.texts[:, 1] - out.texts[:, 0]).cast(pl.Categorical())
        yield from ((name, name, texts) for name in native.TEXT_COLUMNS)
    if len(out.statements):
        yield "statement_kind", "statement", pl.Series(_kinds_of(buffer, out), dtype=_TABLE["statement_kind"].dtype)
        yield "statement_fingerprint", "statement", pl.Series(out.fingerprints)
    if len(out.messages):
        yield "message", "message", _messages(buffer, out.messages)


def _kinds_of(buffer: Bytes, out: native.Output) -> list[str]:
    """The kind of each distinct statement; each fingerprint is looked at once per process."""
    wanted = [int(value) for value in out.fingerprints]
    with _kinds_lock:
        if len(_kinds) > _KINDS_KEPT:
            _kinds.clear()
        fresh = [index for index, value in enumerate(wanted) if value not in _kinds]
        if fresh:
            starts, ends = out.statements[fresh, 0], out.statements[fresh, 1]
            texts = pl.DataFrame({"statement": string_views(buffer, starts, ends - starts)})
            described = add_statements(texts.with_columns(shard_id=pl.lit(None, pl.Int64)))
            kinds = described.get_column("statement_kind")
            _kinds.update(zip((wanted[index] for index in fresh), kinds, strict=True))
        return [_kinds[value] for value in wanted]


def _messages(buffer: Bytes, places: Integers) -> pl.Series:
    starts = places[:, 0]
    lengths = cut_to_characters(buffer, starts, places[:, 1] - starts, MESSAGE_SCAN)
    messages = redacted(string_views(buffer, starts, lengths).alias("message"))
    # Copied out of the chunk: a view of one message would keep the whole chunk in memory.
    return series_of("message", messages.to_arrow(compat_level=pl.CompatLevel.oldest()))


def _array(out: native.Output, name: str) -> pa.Array | None:
    """A column without a copy; None where nothing is in it."""
    column, rows = out.columns[name], out.rows
    if not column.count and rows and name not in _EVERYWHERE:
        return None
    validity = None if column.count == rows or name in _EVERYWHERE else pa.py_buffer(column.valid)
    kind = pa.bool_() if name == "capped" else _ARROW[column.values.dtype.type]
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(column.values)])
