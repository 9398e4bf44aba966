"""Records of a chunk of a stderr log, by regular expressions."""

from __future__ import annotations

from functools import partial

import polars as pl

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.serverlog.pglog._prefix import Prefix
from citus_analysis.formats.serverlog.pglog._records import Chunk, Scanned
from citus_analysis.formats.serverlog.pglog._scan import prefix_columns, record_texts, scan_with
from citus_analysis.formats.serverlog.pglog.fallback.ambiguous_texts import without_ambiguous
from citus_analysis.formats.serverlog.pglog.fallback.body import add_body
from citus_analysis.formats.serverlog.pglog.fallback.syslog_messages import message_texts


def scan(chunk: Chunk, prefix: Prefix) -> Scanned:
    """The records of a chunk."""
    return scan_with(chunk, prefix, partial(_frame, prefix))


def _frame(
    prefix: Prefix, data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers
) -> tuple[pl.DataFrame, Integers]:
    rows = record_texts(data, offset, heads, starts, sizes)
    if prefix.syslog:
        rows = rows.with_columns(text=message_texts(data, heads, starts, sizes))
    return add_body(rows.hstack(prefix_columns(without_ambiguous(heads, prefix))), verbose=prefix.verbose), sizes
