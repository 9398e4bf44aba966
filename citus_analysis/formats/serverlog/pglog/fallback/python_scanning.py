"""Records of a chunk of a stderr log, by regular expressions."""

from __future__ import annotations

import polars as pl

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.serverlog.pglog._prefix import Prefix
from citus_analysis.formats.serverlog.pglog._records import Chunk, Scanned
from citus_analysis.formats.serverlog.pglog._scan import prefix_columns, record_texts, scan_with
from citus_analysis.formats.serverlog.pglog.fallback.body import add_body, add_body_of_text
from citus_analysis.formats.serverlog.pglog.fallback.syslog_messages import message_texts

__all__ = ["scan"]


def scan(chunk: Chunk, prefix: Prefix) -> Scanned:
    """The records of a chunk."""
    return scan_with(chunk, prefix, _frame_of_messages if prefix.syslog else _frame)


def _frame(
    data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers
) -> tuple[pl.DataFrame, Integers]:
    return add_body(record_texts(data, offset, heads, starts, sizes).hstack(prefix_columns(heads))), sizes


def _frame_of_messages(
    data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers
) -> tuple[pl.DataFrame, Integers]:
    places = record_texts(data, offset, heads, starts, sizes).drop("text", "excerpt")
    texts = message_texts(data, heads, starts, sizes)
    return add_body_of_text(places.with_columns(text=texts).hstack(prefix_columns(heads))), sizes
