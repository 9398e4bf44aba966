"""Records of a chunk of a stderr log, by regular expressions."""

from __future__ import annotations

from functools import partial

import polars as pl

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.serverlog.pglog._prefix import Prefix
from citus_analysis.formats.serverlog.pglog._records import Chunk, Scanned
from citus_analysis.formats.serverlog.pglog._scan import prefix_columns, record_texts, scan_with
from citus_analysis.formats.serverlog.pglog.fallback.ambiguous_texts import without_ambiguous
from citus_analysis.formats.serverlog.pglog.fallback.body import add_body, add_body_of_text
from citus_analysis.formats.serverlog.pglog.fallback.syslog_messages import message_texts


def scan(chunk: Chunk, prefix: Prefix) -> Scanned:
    """The records of a chunk."""
    return scan_with(chunk, prefix, partial(_frame_of_messages if prefix.syslog else _frame, prefix))


def _frame(
    prefix: Prefix, data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers
) -> tuple[pl.DataFrame, Integers]:
    columns = prefix_columns(without_ambiguous(heads, prefix))
    return add_body(record_texts(data, offset, heads, starts, sizes).hstack(columns), verbose=prefix.verbose), sizes


def _frame_of_messages(
    prefix: Prefix, data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers
) -> tuple[pl.DataFrame, Integers]:
    places = record_texts(data, offset, heads, starts, sizes).drop("text", "excerpt")
    texts = message_texts(data, heads, starts, sizes)
    columns = prefix_columns(without_ambiguous(heads, prefix))
    return add_body_of_text(places.with_columns(text=texts).hstack(columns), verbose=prefix.verbose), sizes
