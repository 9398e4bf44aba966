"""Lines of a chunk and the heads of records, found by regular expressions: for csvlog and long lines.

The compiled scanner reads all other lines: those of stderr logs up to the cap, and rows of csvlog and jsonlog as a
server writes them. Modules import this one only when needed, because it imports polars, which takes longer than the
compiled scanner takes for a small log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import EXCERPT_BYTES, LINE_CAP
from citus_analysis.formats.pglog.prefix import (
    HEAD_LIMIT,
    MARK_PATTERN,
    Heads,
    parse_clock,
)
from citus_analysis.formats.pglog.records import (
    BLANK,
    CONTINUED,
    RECORD,
    STRAY,
    Chunk,
    ScannedChunk,
    build_stray_rejects,
)
from citus_analysis.formats.pglog.string_views import Bytes, cut_to_characters, make_string_views, replace_invalid_utf8


def insert_detail_rows(rows: pl.DataFrame, details: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Rows of records, each followed by one row per detail it has.

    Args:
        rows: records with `severity` and `text`.
        details: severity of the detail's row -> its text per record; null or empty if it has none.
    """
    frames = [rows.with_columns(pl.lit(None, pl.Int64).alias("record_byte_offset"))]
    for severity, text in details.items():
        if text.null_count() == len(text):
            continue
        present = rows.with_columns(text.alias("text"), pl.lit(severity).alias("severity")).filter(
            pl.col("text").is_not_null() & (pl.col("text") != "")
        )
        frames.append(present.with_columns(record_byte_offset="byte_offset"))
    return pl.concat(frames).sort("byte_offset", maintain_order=True)


_BLANKS: Final = b" \t\r\n\x0b\x0c"
_MARK: Final = re.compile(MARK_PATTERN.encode())
_GPID: Final = r" gpid=([0-9]{1,18})$"

#: Chunk, its offset, heads, starts and sizes of its records -> rows, and the number of bytes of each record that belong
#: to it (0 if it is damaged).
FrameBuilder = Callable[[bytes, int, pl.DataFrame, Integers, Integers], tuple[pl.DataFrame, Integers]]


@dataclass(frozen=True)
class ChunkLines:
    """Lines of a chunk, their roles, and the fields of the prefixes.

    Attributes:
        starts: first byte of every line, followed by the length of the chunk.
        roles: whether a line begins a record, continues the previous one, is blank or stray.
        heads: for every line the fields of its prefix as text; null if it begins no record.
    """

    starts: Integers
    roles: Integers
    heads: pl.DataFrame


def find_records(data: bytes, prefix: Heads, *, fresh: bool) -> ChunkLines:
    """The lines of `data` and their roles.

    A line without prefix continues the record before it. If no record is open (before the first record and after
    a stray line), it is stray itself; blank lines at the beginning of the source are noise.

    Args:
        data: whole records.
        prefix: the log's prefix.
        fresh: only blank lines precede the data.
    """
    lines = find_openers(data, prefix)
    roles = lines.roles
    opener = np.maximum.accumulate(np.where(roles != CONTINUED, np.arange(len(roles)), -1))
    roles[(roles == CONTINUED) & ((opener < 0) | (roles[opener] == STRAY))] = STRAY
    if fresh:
        filled = next(
            (place for place, start in enumerate(lines.starts[:-1]) if _is_nonblank_line(data, start)), len(roles)
        )
        roles[:filled] = BLANK
    return lines


def find_openers(data: bytes, prefix: Heads, *, complete: bool = True) -> ChunkLines:
    """The lines of `data` with roles determined by each line alone (record, stray, or else continued).

    Bytes that are not UTF-8 count as question marks. Lines with a zero byte, which PostgreSQL never writes, and lines
    in which a second record begins are stray. So is a last line without a line end, in which the log was cut, if
    `complete` is true.
    """
    data = replace_invalid_utf8(data)
    buffer = np.frombuffer(data, np.uint8)
    starts = np.unique(np.concatenate([[0], np.flatnonzero(buffer == 10) + 1, [len(data)]])).astype(np.int64)
    begins, lengths = starts[:-1], np.diff(starts)
    lengths_shown = lengths - (buffer[starts[1:] - 1] == 10)
    shown = cut_to_characters(buffer, begins, lengths_shown, HEAD_LIMIT)
    lines = pl.DataFrame({"line": make_string_views(buffer, begins, shown)})
    line = pl.col("line")
    heads = lines.select(line.str.extract_groups(prefix.pattern).alias("fields")).unnest("fields")
    roles = np.where(heads.get_column("severity").is_not_null(), RECORD, CONTINUED)
    for pattern, is_stray in ((prefix.continuation_pattern, False), (prefix.stray_pattern, True)):
        if pattern is not None:
            matched = lines.select(line.str.contains(pattern)).to_series().to_numpy()
            roles[(roles == CONTINUED) & (matched == is_stray)] = STRAY
    if prefix.timed:
        roles[_find_joined_records(data, begins, lengths_shown, heads, prefix)] = STRAY
    roles[np.searchsorted(starts, np.flatnonzero(buffer == 0), side="right") - 1] = STRAY
    unfinished = (
        complete
        and prefix.continuation_pattern is not None
        and len(lengths) > 0
        and not data.endswith(b"\n")
        and lengths[-1] <= LINE_CAP
        and not data.startswith(b"\t", begins[-1])
    )
    if unfinished and roles[-1] == CONTINUED:
        roles[-1] = STRAY
    return ChunkLines(starts, roles, heads)


def _find_joined_records(
    data: bytes, begins: Integers, lengths: Integers, heads: pl.DataFrame, prefix: Heads
) -> list[int]:
    """Numbers of the lines in which a second record begins, because the line end between two lines was lost."""
    lines = pl.DataFrame({"line": make_string_views(np.frombuffer(data, np.uint8), begins, lengths)})
    marks = lines.select(pl.col("line").str.count_matches(MARK_PATTERN)).to_series()
    opens = heads.get_column("head").str.len_bytes()
    beginning = re.compile(prefix.pattern.removeprefix("^").encode())
    joined = []
    for number in np.flatnonzero((marks > opens.is_not_null().cast(pl.UInt32)).to_numpy()).tolist():
        text = data[begins[number] : begins[number] + lengths[number]]
        indent = len(text) - len(text.lstrip(_BLANKS))
        after = opens[number] if opens[number] is not None else indent + 1
        if _holds_record(text, after, beginning):
            joined.append(number)
    return joined


def _holds_record(line: bytes, after: int, beginning: re.Pattern[bytes]) -> bool:
    """Whether a record begins at a place or after it; text at the beginning of a literal of SQL is not a record."""
    tried = after
    for mark in _MARK.finditer(line, after):
        for place in range(max(tried, mark.start() - HEAD_LIMIT), mark.start() + 1):
            quoted = line[place - 1 : place] == b"'" and line.count(b"'", 0, place) % 2 == 1
            if not quoted and beginning.match(line, place, place + HEAD_LIMIT):
                return True
        tried = mark.start() + 1
    return False


def _is_nonblank_line(data: bytes, start: int) -> bool:
    end = data.find(b"\n", start)
    return bool(data[start : len(data) if end < 0 else end].strip(_BLANKS))


def scan_with(chunk: Chunk, prefix: Heads, build: FrameBuilder) -> ScannedChunk:
    """The records of a chunk; the given function builds their frame from the heads."""
    data = replace_invalid_utf8(chunk.data())
    lines = find_records(data, prefix, fresh=chunk.fresh and not chunk.tail)
    roles = lines.roles
    if chunk.tail:
        roles[1:] = CONTINUED
    before = np.concatenate([[CONTINUED], roles[:-1]])
    opening = np.flatnonzero((roles == RECORD) | ((roles != CONTINUED) & (roles != before)))
    bounds = np.append(lines.starts[opening], len(data) + chunk.tail)
    sizes, roles = np.diff(bounds), roles[opening]
    stray, records = np.flatnonzero(roles == STRAY), np.flatnonzero(roles == RECORD)
    begins = bounds[records]
    rows, whole = build(data, chunk.offset, lines.heads[opening[records]], begins, sizes[records])
    astray = _merge_touching_ranges(
        np.concatenate([bounds[stray], begins + whole]), np.concatenate([sizes[stray], sizes[records] - whole])
    )
    return ScannedChunk(
        rows=rows,
        rejects=build_stray_rejects(chunk, memoryview(data), *astray),
        parsed_bytes=int(whole.sum()),
        noise_bytes=int(sizes[roles == BLANK].sum()),
    )


def _merge_touching_ranges(starts: Integers, sizes: Integers) -> tuple[Integers, Integers]:
    """Ranges in order, without empty ones; adjacent ranges are joined."""
    order = np.argsort(starts, kind="stable")
    order = order[sizes[order] > 0]
    starts, ends = starts[order], (starts + sizes)[order]
    first = np.flatnonzero(np.concatenate([[True], starts[1:] != ends[:-1]])[: len(starts)])
    last = np.append(first[1:], len(starts))[: len(first)] - 1
    return starts[first], ends[last] - starts[first]


def record_texts(data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers) -> pl.DataFrame:
    """Offsets, lengths and texts of records: the text after the head, without line ends."""
    buffer = np.frombuffer(data, np.uint8)
    ends = starts + limit_record_sizes(buffer, starts, sizes)
    texts = starts + heads.get_column("head").str.len_bytes().to_numpy().astype(np.int64)
    lengths = trim_line_ends(buffer, texts, ends) - texts
    return pl.DataFrame(
        {
            "byte_offset": offset + starts,
            "byte_length": sizes,
            "capped": sizes > LINE_CAP,
            "text": make_string_views(buffer, texts, lengths),
        }
    )


def limit_record_sizes(buffer: Bytes, starts: Integers, sizes: Integers) -> Integers:
    """Number of bytes of each record that are read: all, or the beginning of a record longer than the cap."""
    beginning = cut_to_characters(buffer, starts, np.minimum(sizes, len(buffer) - starts), EXCERPT_BYTES)
    return np.where(sizes > LINE_CAP, beginning, sizes)


def trim_line_ends(buffer: Bytes, starts: Integers, ends: Integers) -> Integers:
    """Ends without the line ends (CR and LF) before them."""
    ends = ends.copy()
    open_rows = np.arange(len(ends))
    while len(open_rows):
        last = buffer[ends[open_rows] - 1]
        open_rows = open_rows[(ends[open_rows] > starts[open_rows]) & ((last == 10) | (last == 13))]
        ends[open_rows] -= 1
    return ends


def build_prefix_columns(heads: pl.DataFrame) -> pl.DataFrame:
    """Columns of `log_events` from the prefix, with `clock` and `zone` in place of `log_time`."""
    have = set(heads.columns)
    columns: dict[str, pl.Expr] = {"severity": pl.col("severity"), **_time_columns(have)}
    if "p" in have:
        # csvlog leaves the pid empty if the server has none.
        columns["pid"] = pl.col("p").cast(pl.Int32, strict=False)
    elif "c" in have:
        columns["pid"] = pl.col("c").str.extract(r"\.(.*)$", 1).str.to_integer(base=16, dtype=pl.Int32)
    if "v" in have:
        columns["backend_id"] = pl.col("v").str.extract("^(-?[0-9]+)/", 1).cast(pl.Int32)
        columns["local_xid"] = pl.col("v").str.extract("/([0-9]+)$", 1).cast(pl.Int64)
    if "l" in have:
        columns["session_line"] = pl.col("l").cast(pl.Int64)
    if "a" in have:
        columns["application"] = _make_nonempty_expr(pl.col("a").str.replace(_GPID, ""))
        columns["gpid"] = pl.col("a").str.extract(_GPID, 1).cast(pl.Int64)
    for escape, column in (("u", "user"), ("d", "database"), ("e", "sqlstate")):
        if escape in have:
            columns[column] = _make_nonempty_expr(pl.col(escape))
    if have & {"h", "r"}:
        host = pl.col("h") if "h" in have else pl.col("r").str.replace(r"\([0-9]+\)$", "")
        columns["client_host"] = _make_nonempty_expr(host)
    return heads.select(**columns)


def _time_columns(have: set[str]) -> dict[str, pl.Expr]:
    if "m" in have or "t" in have:
        text, width = (pl.col("m"), 23) if "m" in have else (pl.col("t"), 19)
        return {"clock": parse_clock(text.str.slice(0, width)), "zone": text.str.slice(width + 1)}
    if "n" in have:
        return {"clock": pl.col("n").str.replace(".", "", literal=True).cast(pl.Int64) * 1000, "zone": pl.lit("UTC")}
    return {"clock": pl.lit(None, pl.Int64), "zone": pl.lit(None, pl.String)}


def _make_nonempty_expr(text: pl.Expr) -> pl.Expr:
    return pl.when(text != "").then(text)
