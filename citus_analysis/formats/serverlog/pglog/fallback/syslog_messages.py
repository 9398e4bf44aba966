"""Messages that PostgreSQL passes to syslog in pieces, joined as in `native/syslog.c`.

Each piece is a line with syslog's header; lines of other processes may be between the pieces. A line continues the
last message of its process if it has that message's number.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.serverlog.pglog._prefix import HEAD_LIMIT, HELD_BACK, SYSLOG_HEADER, Prefix
from citus_analysis.formats.serverlog.pglog._records import CONTINUED, RECORD, STRAY
from citus_analysis.formats.serverlog.pglog._scan import find_openers, shown_sizes, trimmed
from citus_analysis.formats.serverlog.pglog._syslog import BREAK, CONTROLS
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import cut_to_characters, string_views
from citus_analysis.formats.sources.content import LINE_CAP

#: Lines of a message that began earlier than the first line; lines with another number than their process's message.
_UNKNOWN, _NONE = -1, -2


def message_texts(data: bytes, heads: pl.DataFrame, starts: Integers, sizes: Integers) -> pl.Series:
    """The text of each record: all lines of its message, also those after other records, without syslog's headers.

    Args:
        data: whole records.
        heads: fields of the records' prefixes.
        starts: first byte of each record.
        sizes: number of bytes of each record.
    """
    if not len(starts):
        return pl.Series([], dtype=pl.String)
    buffer = np.frombuffer(data, np.uint8)
    bounds = np.unique(np.concatenate([starts, np.flatnonzero(buffer == 10) + 1, [len(data)]]))
    begins, ends = bounds[:-1], bounds[1:]
    record = np.searchsorted(starts, begins, side="right") - 1
    inside = (record >= 0) & (begins < (starts + sizes)[record])
    begins, ends, record = begins[inside], ends[inside], record[inside]
    opens = begins == starts[record]
    lines = _headers(data, begins, ends - begins - (buffer[ends - 1] == 10))
    lines = lines.with_columns(
        pl.when(pl.lit(opens)).then(heads[record].get_column(name)).otherwise(pl.col(name)).alias(name)
        for name in ("head", "p", "l")
    )
    message = _messages(lines, opens)
    pieces = begins + lines.get_column("head").str.len_bytes().fill_null(0).to_numpy()
    # A record longer than the cap, which is cut, ends its message.
    most = np.where(sizes > LINE_CAP, starts + shown_sizes(buffer, starts, sizes), len(data))
    limits = most[record[np.maximum(message, 0)]]
    ends = np.maximum(np.minimum(trimmed(buffer, pieces, ends), limits), pieces)
    kept = opens | ((message >= 0) & (pieces < limits))
    texts = pl.DataFrame(
        {
            "message": message[kept],
            "opens": opens[kept],
            "piece": string_views(buffer, pieces[kept], (ends - pieces)[kept]),
        }
    )
    broken = pl.when(~pl.col("opens") & pl.col("piece").str.contains(BREAK)).then(pl.lit("\n")).otherwise(pl.lit(""))
    piece = pl.col("piece")
    for spelled, control in CONTROLS.items():
        piece = piece.str.replace_all(spelled, control, literal=True)
    joined = texts.group_by("message").agg(text=(broken + piece).str.join("")).sort("message")
    return joined.get_column("text").str.strip_chars_end("\r\n")


def last_between_messages(data: bytes, prefix: Prefix) -> int | None:
    """The last record, some bytes before the end, after which no line continues a message from before it.

    Returns:
        None if the last opener is not a record.
    """
    lines = find_openers(data, prefix)
    openers = np.flatnonzero(lines.roles != CONTINUED)
    if not len(openers) or lines.roles[openers[-1]] != RECORD:
        return None
    opener = np.maximum.accumulate(np.where(lines.roles != CONTINUED, np.arange(len(lines.roles)), -1))
    goes_on = (opener >= 0) & (lines.roles[opener] != STRAY)
    begins, ends = lines.starts[:-1][goes_on], lines.starts[1:][goes_on]
    opens = lines.roles[goes_on] == RECORD
    buffer = np.frombuffer(data, np.uint8)
    headers = _headers(data, begins, ends - begins - (buffer[ends - 1] == 10))
    message = _messages(headers, opens)
    known = np.where(message >= 0, message, np.where(message == _NONE, len(message), _UNKNOWN))
    for strict in (True, False):
        before = known if strict else np.where(known == _UNKNOWN, len(message), known)
        first = np.minimum.accumulate(before[::-1])[::-1]
        between = begins[opens & (first >= np.arange(len(first)))]
        if len(between):
            early = between[between <= len(data) - HELD_BACK]
            return int((early if len(early) else between)[-1])
    return None


def _headers(data: bytes, begins: Integers, lengths: Integers) -> pl.DataFrame:
    """Syslog's header of each line, its process and number as text; null if the line has none."""
    buffer = np.frombuffer(data, np.uint8)
    shown = cut_to_characters(buffer, begins, lengths, HEAD_LIMIT)
    lines = pl.DataFrame({"line": string_views(buffer, begins, shown)})
    return lines.select(pl.col("line").str.extract_groups(SYSLOG_HEADER).alias("fields")).unnest("fields")


def _messages(lines: pl.DataFrame, opens: Bools) -> Integers:
    """Number of the line that began each line's message, or :data:`_UNKNOWN` or :data:`_NONE`."""
    place = pl.int_range(pl.len())
    number = pl.col("l").cast(pl.Int64).fill_null(-1)
    own = lines.select(opens=pl.lit(opens), place=place, process=pl.col("p").cast(pl.Int64), number=number)
    last = own.with_columns(
        pl.when("opens").then(pl.col(name)).forward_fill().over("process").alias(f"last_{name}")
        for name in ("place", "number")
    )
    found = (
        pl.when(pl.col("process").is_null())
        .then(_NONE)
        .when(pl.col("last_place").is_null())
        .then(_UNKNOWN)
        .when(pl.col("last_number") == pl.col("number"))
        .then(pl.col("last_place"))
        .otherwise(_NONE)
    )
    return last.select(found.cast(pl.Int64)).to_series().to_numpy()
