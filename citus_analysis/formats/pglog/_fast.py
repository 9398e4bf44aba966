"""Records of a chunk of a stderr log, scanned by compiled code: the same frame as `_scan.scan` gives.

Numbers become Arrow arrays without a copy, texts (applications, hosts, statement names ...) and statements are
numbered by the scanner, so that Python sees each distinct one once per chunk and never a row.
"""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.formats._content import LINE_CAP
from citus_analysis.formats.pglog import _kernel as kernel
from citus_analysis.formats.pglog._body import MESSAGE_SCAN, add_statements, redacted
from citus_analysis.formats.pglog._kernel_body import WORDS
from citus_analysis.formats.pglog._kernel_prefix import MEMO_WIDTH
from citus_analysis.formats.pglog._prefix import SEVERITY_WORDS, Prefix
from citus_analysis.formats.pglog._program import FIELDS, SEVERITY_TABLE, Program, least_bytes, program_of
from citus_analysis.formats.pglog._scan import Chunk, Scanned, scan, stray_rejects
from citus_analysis.formats.pglog._views import Bytes, Integers, cut_to_characters, string_views
from citus_analysis.schema import KINDS, TABLES

__all__ = ["scan_fast"]

#: Distinct texts and statements of a chunk that the compiled scanner can number; beyond, `_scan` reads the chunk.
_ROOM: Final = 2**16
_TEXT_COLUMNS: Final = kernel.COLUMNS_32[kernel.COLUMNS_32.index("zone") :]
_TABLE: Final = TABLES["log_events"]
_PHASES: Final = ("parse", "bind", "execute", "statement")

_kinds: Final[dict[int, str]] = {}
_kinds_lock: Final = threading.Lock()


def _output(size: int, program: Program) -> kernel.Output:
    """Room for the records of `size` bytes; memory that is not written costs nothing."""
    rows = size // least_bytes(program) + 2
    return kernel.Output(
        c64=np.empty((len(kernel.COLUMNS_64), rows), np.int64),
        c32=np.empty((len(kernel.COLUMNS_32), rows), np.int32),
        c8=np.empty((len(kernel.COLUMNS_8), rows), np.uint8),
        strays=np.empty((rows + 1, 2), np.int64),
        texts=np.empty((_ROOM // 2, 2), np.int32),
        text_slots=np.full(_ROOM, -1, np.int32),
        hashes=np.empty(_ROOM // 2, np.uint64),
        statements=np.empty((_ROOM // 2, 2), np.int32),
        hash_slots=np.full(_ROOM, -1, np.int32),
        fields=np.full((len(FIELDS) + 1, 2), -1, np.int32),
        choices=np.empty((len(program.code) + 2, 3), np.int32),
        memo=np.zeros((max(len(program.code), 1), MEMO_WIDTH), np.int32),
        numbers=np.zeros(8, np.int64),
        spans=np.zeros((8, 2), np.int64),
        state=np.zeros(8, np.int64),
        counts=np.zeros(6, np.int64),
    )


def scan_fast(chunk: Chunk, prefix: Prefix) -> Scanned:
    """The records of a chunk, which must not be empty."""
    buffer = np.frombuffer(chunk.data, np.uint8)
    program = program_of(prefix)
    out = _output(len(buffer), program)
    whole = buffer[: len(buffer) // 8 * 8]
    # Copied where it is not aligned: the compiled code has one signature.
    newline_words = (whole if whole.ctypes.data % 8 == 0 else whole.copy()).view(np.uint64)
    part = kernel.BLANKS if chunk.fresh else kernel.STRAYS
    matcher = (program.code, program.literals, program.optional_from, SEVERITY_TABLE)
    kernel.scan_chunk(buffer, newline_words, chunk.tail, part, *matcher, WORDS, out)
    if out.counts[kernel.FULL]:
        return scan(chunk, prefix)
    runs = out.strays[: out.counts[kernel.N_STRAYS]]
    starts, sizes = runs[:, 0], runs[:, 1] - runs[:, 0]
    if chunk.tail and len(sizes):
        sizes[-1] += chunk.tail
    frame = _frame(chunk, buffer, out, program)
    return Scanned(
        frame=frame,
        rejects=stray_rejects(chunk, starts, sizes),
        parsed_bytes=int(frame.get_column("byte_length").sum()),
        noise_bytes=int(out.counts[kernel.N_BLANK]),
    )


def _frame(chunk: Chunk, buffer: Bytes, out: kernel.Output, program: Program) -> pl.DataFrame:
    rows = int(out.counts[kernel.N_RECORDS])
    c64 = {name: out.c64[index, :rows] for index, name in enumerate(kernel.COLUMNS_64)}
    c32 = {name: out.c32[index, :rows] for index, name in enumerate(kernel.COLUMNS_32)}
    c8 = {name: out.c8[index, :rows] for index, name in enumerate(kernel.COLUMNS_8)}
    sizes = c32["size"].astype(np.int64)
    if chunk.tail and rows:
        sizes[-1] += chunk.tail
    texts = _texts(buffer, out)
    columns = {
        "byte_offset": pl.Series(c32["start"].astype(np.int64) + chunk.offset),
        "byte_length": pl.Series(sizes),
        "capped": pl.Series(sizes > LINE_CAP),
        **{name: _numbers(c64[name], kernel.MISSING_64) for name in kernel.COLUMNS_64 if name != "duration"},
        **{name: _numbers(c32[name], kernel.MISSING_32) for name in ("pid", "backend_id", "worker_port")},
        **{name: _picked(texts, c32[name]) for name in _TEXT_COLUMNS},
        "duration_us": _numbers(c64["duration"], kernel.MISSING_64).cast(pl.Float64),
        "severity": _named(SEVERITY_WORDS, "severity", c8["severity"]),
        "kind": _named(KINDS, "kind", c8["kind"]),
        "phase": _named(_PHASES, "phase", c8["phase"]),
        **_statement_columns(buffer, out, c32["statement"]),
        "message": _messages(buffer, c32, c8["message"]),
    }
    if program.epoch:
        columns["zone"] = pl.repeat("UTC", rows, eager=True)
    return pl.DataFrame(columns)


def _texts(buffer: Bytes, out: kernel.Output) -> pl.Series:
    places = out.texts[: out.counts[kernel.N_TEXTS]].astype(np.int64)
    return string_views(buffer, places[:, 0], places[:, 1] - places[:, 0]).cast(pl.Categorical())


def _statement_columns(buffer: Bytes, out: kernel.Output, numbers: npt.NDArray[np.int32]) -> dict[str, pl.Series]:
    count = out.counts[kernel.N_STATEMENTS]
    hashes = out.hashes[:count]
    kinds = _kinds_of(buffer, hashes, out.statements[:count].astype(np.int64))
    dtype = _TABLE["statement_kind"].dtype
    return {
        "statement_fingerprint": _picked(pl.Series(hashes), numbers),
        "statement_kind": _picked(pl.Series(kinds, dtype=dtype), numbers),
    }


def _kinds_of(buffer: Bytes, hashes: npt.NDArray[np.uint64], places: Integers) -> list[str]:
    """The kind of each distinct statement; each fingerprint is looked at once per process."""
    wanted = [int(value) for value in hashes]
    fresh = [index for index, value in enumerate(wanted) if value not in _kinds]
    if fresh:
        starts, ends = places[fresh, 0], places[fresh, 1]
        texts = pl.DataFrame({"statement": string_views(buffer, starts, ends - starts)})
        described = add_statements(texts.with_columns(shard_id=pl.lit(None, pl.Int64)))
        with _kinds_lock:
            if len(_kinds) > 8 * _ROOM:
                _kinds.clear()
            _kinds.update(zip((wanted[index] for index in fresh), described.get_column("statement_kind"), strict=True))
            return [_kinds[value] for value in wanted]
    return [_kinds[value] for value in wanted]


def _messages(buffer: Bytes, c32: dict[str, npt.NDArray[np.int32]], wanted: Bytes) -> pl.Series:
    starts = c32["text"].astype(np.int64)
    lengths = cut_to_characters(buffer, starts, c32["text_end"] - starts, MESSAGE_SCAN)
    messages = redacted(string_views(buffer, starts, np.where(wanted, lengths, -1)).alias("message"))
    # Copied out of the chunk: a view of one message would keep the whole chunk in memory.
    return pl.Series("message", messages.to_arrow(compat_level=pl.CompatLevel.oldest()))


def _numbers(values: npt.NDArray[np.int64] | npt.NDArray[np.int32], missing: int) -> pl.Series:
    present = values != missing
    kind = pa.int64() if values.dtype == np.int64 else pa.int32()
    if not present.any():
        return pl.Series(pa.nulls(len(values), kind))
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pl.Series(pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)]))


def _picked(values: pl.Series, numbers: npt.NDArray[np.int32]) -> pl.Series:
    """`values[numbers]`, null where a number is missing."""
    if not values.len():
        return pl.repeat(None, len(numbers), dtype=values.dtype, eager=True)
    return values.gather(_numbers(numbers, kernel.MISSING_32))


def _named(names: tuple[str, ...], column: str, codes: Bytes) -> pl.Series:
    """Enum values from their numbers; a number beyond the names is null."""
    labels = pl.Series(names, dtype=_TABLE[column].dtype)
    numbers = codes.astype(np.int32)
    inside = np.where(numbers < labels.len(), numbers, np.int32(kernel.MISSING_32))
    return _picked(labels, inside)
