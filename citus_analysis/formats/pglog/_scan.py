"""Records of a chunk of a stderr log, in polars expressions and regular expressions.

This needs no compilation, so it reads small logs at once; it is also the yardstick for the compiled scanner,
which must give the same frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.formats._base import EXCERPT_CHARS, Reject
from citus_analysis.formats._content import EXCERPT_BYTES, LINE_CAP
from citus_analysis.formats.pglog._body import MESSAGE_SCAN, add_body
from citus_analysis.formats.pglog._prefix import HEAD_LIMIT, SEVERITY_WORDS, Prefix
from citus_analysis.formats.pglog._times import parse_clock
from citus_analysis.formats.pglog._views import Bytes, Integers, cut_to_characters, string_views

__all__ = ["BLANK", "CONTINUED", "RECORD", "STRAY", "Lines", "Scanned", "find_openers", "find_records", "scan"]

_BLANKS: Final = b" \t\r\n\x0b\x0c"
#: A line that is no continuation (those begin with a tab) and holds a severity is a record under another prefix.
_FOREIGN: Final = rf"^(?:[^\t\n][^\n]*[^A-Za-z\n])?(?:{'|'.join(SEVERITY_WORDS)})[1-5]?:  "
_GPID: Final = r" gpid=([0-9]{1,18})$"
CONTINUED, RECORD, BLANK, STRAY = range(4)


@dataclass(frozen=True)
class Lines:
    """Lines of a chunk, the part each one plays, and the fields of the prefixes.

    Attributes:
        starts: first byte of every line, and the length of the chunk behind the last.
        roles: per line whether it begins a record, continues the one before, is blank or astray.
        heads: for every line the fields of its prefix as text; null where it begins no record.
    """

    starts: Integers
    roles: Integers
    heads: pl.DataFrame


@dataclass(frozen=True)
class Scanned:
    """What a chunk holds.

    Attributes:
        frame: one row per record: offsets within the source, `clock` and `zone` in place of `log_time`.
        rejects: lines outside of records.
        parsed_bytes: bytes of the records.
        noise_bytes: blank lines before the first record.
    """

    frame: pl.DataFrame
    rejects: list[Reject]
    parsed_bytes: int
    noise_bytes: int


def find_records(data: bytes, prefix: Prefix) -> Lines:
    """The lines of `data`, which must be valid UTF-8, and the part each one plays.

    A line without prefix continues the record before it. Where none is open (before the first record and behind
    a line that is astray) it is blank or astray itself, so that no line's part depends on how a log is cut.
    """
    lines = find_openers(data, prefix)
    roles = lines.roles
    opener = np.maximum.accumulate(np.where(roles != CONTINUED, np.arange(len(roles)), -1))
    loose = (roles == CONTINUED) & ((opener < 0) | (roles[opener] == STRAY))
    roles[loose] = np.where(_blank(data, lines.starts[:-1][loose], lines.starts[1:][loose]), BLANK, STRAY)
    return lines


def find_openers(data: bytes, prefix: Prefix, *, complete: bool = True) -> Lines:
    """The lines of `data`; their parts are told by the line alone (record, astray, or else continued).

    Unless `complete` is false, a last line without a line end is one that the log breaks off in.
    """
    buffer = np.frombuffer(data, np.uint8)
    starts = np.unique(np.concatenate([[0], np.flatnonzero(buffer == 10) + 1, [len(data)]])).astype(np.int64)
    begins, lengths = starts[:-1], np.diff(starts)
    shown = cut_to_characters(buffer, begins, lengths - (buffer[starts[1:] - 1] == 10), HEAD_LIMIT)
    lines = pl.DataFrame({"line": string_views(buffer, begins, shown)})
    line = pl.col("line")
    heads = lines.select(line.str.extract_groups(prefix.pattern).alias("fields")).unnest("fields")
    looks = lines.select(record=heads.get_column("severity").is_not_null(), stray=line.str.contains(_FOREIGN))
    roles = np.where(looks.get_column("record"), RECORD, np.where(looks.get_column("stray"), STRAY, CONTINUED))
    unfinished = (
        complete and not data.endswith(b"\n") and lengths[-1] <= LINE_CAP and not data.startswith(b"\t", begins[-1])
    )
    if unfinished and roles[-1] == CONTINUED:
        roles[-1] = STRAY
    return Lines(starts, roles, heads)


def _blank(data: bytes, starts: Integers, ends: Integers) -> npt.NDArray[np.bool_]:
    return np.array(
        [not data[a:b].strip(_BLANKS) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)], dtype=np.bool_
    )


def scan(data: bytes, offset: int, tail: int, prefix: Prefix) -> Scanned:
    """The records of a chunk.

    Args:
        data: whole records, valid UTF-8, not empty.
        offset: where the chunk begins in the source.
        tail: bytes behind `data` that belong to its one record (or stray line), which is capped.
        prefix: the log's prefix.
    """
    lines = find_records(data, prefix)
    roles = lines.roles
    if tail:
        roles[1:] = CONTINUED
    opening = np.flatnonzero(roles != CONTINUED)
    bounds = np.append(lines.starts[opening], len(data) + tail)
    sizes, roles = np.diff(bounds), roles[opening]
    stray = np.flatnonzero(roles == STRAY)
    rejects = [
        Reject(offset + start, size, _reason(data, start + size), data[start : start + size][: 4 * EXCERPT_CHARS])
        for start, size in zip(bounds[stray].tolist(), sizes[stray].tolist(), strict=True)
    ]
    records = np.flatnonzero(roles == RECORD)
    frame = _frame(data, offset, lines.heads[opening[records]], bounds[records], sizes[records])
    return Scanned(frame, rejects, int(sizes[records].sum()), int(sizes[roles == BLANK].sum()))


def _reason(data: bytes, end: int) -> str:
    if end == len(data) and not data.endswith(b"\n"):
        return "the log ends within this line"
    return "no log_line_prefix where a record should begin"


def _frame(data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers) -> pl.DataFrame:
    buffer = np.frombuffer(data, np.uint8)
    capped = sizes > LINE_CAP
    beginning = cut_to_characters(buffer, starts, np.minimum(sizes, len(data) - starts), EXCERPT_BYTES)
    ends = starts + np.where(capped, beginning, sizes)
    texts = starts + heads.get_column("head").str.len_bytes().to_numpy().astype(np.int64)
    lengths = trimmed(buffer, texts, ends) - texts
    frame = pl.DataFrame(
        {
            "byte_offset": offset + starts,
            "byte_length": sizes,
            "capped": capped,
            "text": string_views(buffer, texts, lengths),
            "excerpt": string_views(buffer, texts, cut_to_characters(buffer, texts, lengths, MESSAGE_SCAN)),
        }
    )
    return add_body(frame.hstack(prefix_columns(heads)))


def trimmed(buffer: Bytes, starts: Integers, ends: Integers) -> Integers:
    """Ends without the line ends (CR and LF) before them."""
    ends = ends.copy()
    open_rows = np.arange(len(ends))
    while len(open_rows):
        last = buffer[ends[open_rows] - 1]
        open_rows = open_rows[(ends[open_rows] > starts[open_rows]) & ((last == 10) | (last == 13))]
        ends[open_rows] -= 1
    return ends


def prefix_columns(heads: pl.DataFrame) -> pl.DataFrame:
    """Columns of `log_events` that the prefix tells, `clock` and `zone` in place of `log_time`."""
    have = set(heads.columns)
    columns: dict[str, pl.Expr] = {"severity": pl.col("severity"), **_time_columns(have)}
    if "p" in have:
        columns["pid"] = pl.col("p").cast(pl.Int32)
    elif "c" in have:
        columns["pid"] = pl.col("c").str.extract(r"\.(.*)$", 1).str.to_integer(base=16, dtype=pl.Int32)
    if "v" in have:
        columns["backend_id"] = pl.col("v").str.extract("^(-?[0-9]+)/", 1).cast(pl.Int32)
        columns["local_xid"] = pl.col("v").str.extract("/([0-9]+)$", 1).cast(pl.Int64)
    if "l" in have:
        columns["session_line"] = pl.col("l").cast(pl.Int64)
    if "a" in have:
        columns["application"] = _filled(pl.col("a").str.replace(_GPID, ""))
        columns["gpid"] = pl.col("a").str.extract(_GPID, 1).cast(pl.Int64)
    for escape, column in (("u", "user"), ("d", "database"), ("e", "sqlstate")):
        if escape in have:
            columns[column] = _filled(pl.col(escape))
    if have & {"h", "r"}:
        host = pl.col("h") if "h" in have else pl.col("r").str.replace(r"\([0-9]+\)$", "")
        columns["client_host"] = _filled(host)
    return heads.select(**columns)


def _time_columns(have: set[str]) -> dict[str, pl.Expr]:
    if "m" in have or "t" in have:
        text, width = (pl.col("m"), 23) if "m" in have else (pl.col("t"), 19)
        return {"clock": parse_clock(text.str.slice(0, width)), "zone": text.str.slice(width + 1)}
    if "n" in have:
        return {"clock": pl.col("n").str.replace(".", "", literal=True).cast(pl.Int64), "zone": pl.lit("UTC")}
    return {"clock": pl.lit(None, pl.Int64), "zone": pl.lit(None, pl.String)}


def _filled(text: pl.Expr) -> pl.Expr:
    return pl.when(text != "").then(text)
