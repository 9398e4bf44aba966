"""The tables of a log from its scanned chunks, in the order of the log.

The thread that scanned a chunk computes all results that depend on this chunk alone. The writing thread does the work
that needs the order of the source: linking details to their records, combining checkpoints, joining rejects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from citus_analysis.core.arrow_arrays import fill_null_integers
from citus_analysis.core.table_definition import CATEGORY, INT64
from citus_analysis.errors import FormatError
from citus_analysis.formats.parsing.format import Parsed, Reject, reject_rows
from citus_analysis.formats.parsing.time_zones import LocalTime
from citus_analysis.formats.pglog.detail_links import DetailLinks
from citus_analysis.formats.pglog.prefix import convert_clock_to_utc
from citus_analysis.formats.pglog.records import ScannedChunk, whole_message
from citus_analysis.schema import KINDS, TABLES, Column, Rows, Table
from citus_analysis.texts.documents import parse_json

if TYPE_CHECKING:
    import polars as pl

    from citus_analysis.formats.explain import Plan

# Checkpoints and restartpoints, combined from their `starting` and `complete` records.

_STARTING: Final = r"^(?:checkpoint|restartpoint) starting: ([^\n]*)"
_COMPLETE: Final = r"^(?:checkpoint|restartpoint) complete: "
#: Numbers of a `complete` record, each with the words next to it: versions of PostgreSQL differ in the text between.
_NUMBERS: Final = {
    "buffers_written": r"wrote ([0-9]+) buffers",
    "buffers_percent": r"buffers \(([0-9.]+)%\)",
    "wal_added": r"([0-9]+) (?:WAL|transaction log) file\(s\) added",
    "wal_removed": r"added, ([0-9]+) removed",
    "wal_recycled": r"removed, ([0-9]+) recycled",
    "write_s": r"write=([0-9.]+) s",
    "sync_s": r"sync=([0-9.]+) s",
    "total_s": r"total=([0-9.]+) s",
    "sync_files": r"sync files=([0-9]+)",
    "longest_sync_s": r"longest=([0-9.]+) s",
    "average_sync_s": r"average=([0-9.]+) s",
    "distance_kb": r"distance=([0-9]+) kB",
    "estimate_kb": r"estimate=([0-9]+) kB",
}


def select_checkpoint_records(events: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Offsets, times and messages of the records about checkpoints, one row per record."""
    about = events.select(["byte_offset", "log_time", "message"])
    numbers = events.column("kind").indices
    # Read from the buffer: `to_numpy` would import pandas.
    kinds = np.frombuffer(numbers.buffers()[1], np.uint8)[numbers.offset : numbers.offset + len(numbers)]
    # Row by row, because there are few; a frame would copy all messages.
    return [about.slice(row, 1) for row in np.flatnonzero(kinds == KINDS.index("checkpoint")).tolist()]


class Checkpoints:
    """Collects the checkpoints of one source, chunk by chunk."""

    def __init__(self) -> None:
        self._open: pl.DataFrame | None = None

    def collect(self, records: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Checkpoints that end in the next chunk, given its records about checkpoints."""
        table = TABLES["checkpoints"].parsed()
        if not records:
            return table.no_rows()
        import polars as pl

        rows = pl.DataFrame(pa.Table.from_batches(records))
        begun_before = table.empty().select("start_time", "reason") if self._open is None else self._open
        message = pl.col("message")
        reason, complete = message.str.extract(_STARTING, 1), message.str.contains(_COMPLETE)
        begun = pl.when(reason.is_not_null()).then("log_time")
        marks = rows.select(reason=reason, complete=complete, start_time=begun)
        marks = pl.concat([begun_before, marks], how="diagonal")
        # A `complete` closes the open checkpoint, so that a later one without `starting` does not take its start.
        closed = pl.col("complete").fill_null(value=False)
        episode = closed.cast(pl.Int32).cum_sum().shift(1, fill_value=0)
        filled = marks.with_columns(pl.col("start_time", "reason").forward_fill().over(episode))
        starts = filled.slice(begun_before.height).select("start_time", "reason")
        self._open = filled.tail(1).filter(~closed).select("start_time", "reason")
        done = rows.hstack(starts).filter(complete).rename({"log_time": "end_time"})
        return table.batch(done.with_columns(**_make_number_exprs(table)).drop("message"))


def _make_number_exprs(table: Table) -> dict[str, pl.Expr]:
    import polars as pl

    message = pl.col("message")
    # A number out of its column's range is null; `log_events` keeps the message.
    return {
        name: message.str.extract(pattern, 1).cast(table[name].dtype, strict=False)
        for name, pattern in _NUMBERS.items()
    }


# Plans that auto_explain logged, from the bytes of their records in stderr logs, csvlog and jsonlog.
#
# The scanner does not store the text of such a record. Only chunks with such records are read a second time.

#: The message of a record from its bytes.
Said = Callable[[bytes], str]

#: In jsonlog, the line end is written as an escape.
_BEGINS: Final = re.compile(rb"duration: [0-9.]+ ms  plan:(?:\r?\n|\\n)")
_QUOTED: Final = re.compile(rb'"((?:[^"]|"")*)"')


def parse_logged_plans(
    offset: int, read: Callable[[], bytes], rows: pa.RecordBatch, said: Said, beyond: int = 0
) -> tuple[list[tuple[str, Plan]], list[Reject]]:
    """Form and plan of each record of auto_explain, and, as rejects without bytes, those that cannot be read.

    Args:
        offset: offset of a chunk of whole records.
        read: function that gives the chunk's bytes.
        rows: the chunk's rows of `log_events`.
        said: function that finds the message of a record.
        beyond: number of bytes after a record that `said` also gets.
    """
    found: list[tuple[str, Plan]] = []
    unread: list[Reject] = []
    chosen = fill_null_integers(rows.column("kind").indices, -1) == KINDS.index("plan")
    if not chosen.any():
        return found, unread
    offsets, lengths = (fill_null_integers(rows.column(name), 0)[chosen] for name in ("byte_offset", "byte_length"))
    data = read()
    begins = np.array([found.start() for found in _BEGINS.finditer(data)], np.int64) + offset
    # A plan belongs to the last record that begins before it, if that record is a candidate.
    holding = np.searchsorted(offsets, begins, side="right") - 1
    holding = np.unique(holding[(holding >= 0) & (begins < offsets[holding] + lengths[holding])])
    for start, length in zip(offsets[holding].tolist(), lengths[holding].tolist(), strict=True):
        text = said(data[start - offset : start - offset + length + beyond])
        try:
            found += _parse_message_plan(text, start, length)
        except ValueError as error:
            # The record itself is a row of `log_events`.
            unread.append(Reject(start, 0, f"a plan that cannot be read: {error}", text))
    return found, unread


def extract_syslog_message(lines: bytes) -> str:
    """The message of a record of syslog, given the record and the bytes after it."""
    return extract_stderr_message(whole_message(lines.decode("utf-8", "replace")).encode())


def extract_stderr_message(record: bytes) -> str:
    """The message of a record of a stderr log, without the tab before each further line."""
    begin = _BEGINS.search(record)
    return (record[begin.start() :] if begin else record).decode("utf-8", "replace").replace("\n\t", "\n")


def extract_csv_message(record: bytes) -> str:
    r"""The message of a row of csvlog.

    Example:
        >>> extract_csv_message(b'2026-11-22 UTC,"me",LOG,00000,"duration: 1 ms  plan:\n""Plan"": 1",,"psql"')
        'duration: 1 ms  plan:\n"Plan": 1'
    """
    quoted = (found[1] for found in _QUOTED.finditer(record) if _BEGINS.match(found[1]))
    return next(quoted, b"").replace(b'""', b'"').decode("utf-8", "replace")


def extract_json_message(record: bytes) -> str:
    r"""The message of an object of jsonlog, also of one that is wrapped.

    Example:
        >>> extract_json_message(b'{"record": {"message": "duration: 1 ms  plan:\\nResult"}}')
        'duration: 1 ms  plan:\nResult'
    """
    try:
        document = parse_json(record.decode("utf-8", "replace"))
    except FormatError:
        return ""
    within = document.get("record", document) if isinstance(document, dict) else None
    texts = [within.get(key) for key in ("message", "textPayload")] if isinstance(within, Mapping) else []
    text = next((text for text in texts if isinstance(text, str)), "")
    return text[text.find("duration: ") :]


def _parse_message_plan(text: str, offset: int, length: int) -> list[tuple[str, Plan]]:
    """The plan in a message.

    Raises:
        ValueError: it cannot be read.
    """
    # Imports YAML, which few logs need.
    from citus_analysis.formats.explain import parse_logged_plan

    found = parse_logged_plan([line.rstrip() for line in text.split("\n")[1:]])
    for _, plan in found:
        plan.offset, plan.length = offset, length
    return found


_EVENTS: Final = TABLES["log_events"].parsed()
SCANNED: Final = Table(
    "scanned",
    "Records as a scanner reads them: clock readings, not yet converted to UTC.",
    _EVENTS.source,
    (
        Column("clock", INT64, "microseconds since 1970 as the server's clock showed them"),
        Column("zone", CATEGORY, "time zone as the log names it"),
        *(column for column in _EVENTS if column.name != "log_time"),
    ),
)


@dataclass(frozen=True)
class ChunkTables:
    """A scanned chunk with all results that depend on it alone.

    Attributes:
        scanned: the chunk's rejects and numbers of bytes.
        rows: the rows of `log_events`; `record_byte_offset` is still null for details that are not linked yet.
        checkpoints: the records about checkpoints, one row each.
        linked: whether the format itself links details.
        plans: form and plan of each record of auto_explain.
        unread: rejects, without bytes, of plans that cannot be read.
    """

    scanned: ScannedChunk
    rows: pa.RecordBatch
    checkpoints: list[pa.RecordBatch]
    linked: bool
    plans: Sequence[tuple[str, Plan]]
    unread: Sequence[Reject]


def build_chunk_tables(
    scanned: ScannedChunk, local: LocalTime, offset: int, read: Callable[[], bytes], said: Said, beyond: int = 0
) -> ChunkTables:
    """The rows of a scanned chunk, with its times in UTC by the given rules, and its plans.

    Args:
        scanned: the chunk.
        local: rules for its times.
        offset: its offset in the source.
        read: function that gives its bytes.
        said: function that finds the message of a record.
        beyond: number of bytes after a record that `said` also gets.
    """
    import pyarrow as pa

    found = SCANNED.batch(scanned.rows)
    log_time = convert_clock_to_utc(found.column("clock"), found.column("zone"), local)
    columns = [log_time if column.name == "log_time" else found.column(column.name) for column in _EVENTS]
    rows = pa.RecordBatch.from_arrays(columns, schema=_EVENTS.arrow())
    given = scanned.rows.schema.names if isinstance(scanned.rows, pa.RecordBatch) else scanned.rows.columns
    linked = "record_byte_offset" in given
    return ChunkTables(
        scanned, rows, select_checkpoint_records(rows), linked, *parse_logged_plans(offset, read, rows, said, beyond)
    )


class LogTables:
    """The tables of a whole source, chunk by chunk."""

    def __init__(self) -> None:
        self._links, self._checkpoints, self._plans = DetailLinks(), Checkpoints(), 0

    def tables(self, chunk: ChunkTables) -> dict[str, Rows]:
        """The rows of the next chunk."""
        first, self._plans = self._plans, self._plans + len(chunk.plans)
        return {
            "log_events": chunk.rows if chunk.linked else self._links.link(chunk.rows),
            "checkpoints": self._checkpoints.collect(chunk.checkpoints),
            **plan_tables(chunk.plans, first),
        }


def iterate_ordered_tables(
    chunks: Iterable[ChunkTables], tables: Callable[[ChunkTables], dict[str, Rows]]
) -> Iterator[Parsed]:
    """One piece per chunk; adjacent rejects, across chunks too, become one.

    Args:
        chunks: the chunks of a source, in order.
        tables: function that makes the tables of the next chunk.
    """
    held: list[Reject] = []
    for chunk in chunks:
        scanned = chunk.scanned
        rejects = _join_adjacent_rejects(held, scanned.rejects)
        held = rejects[-1:]
        yield Parsed(
            tables(chunk),
            parsed_bytes=scanned.parsed_bytes,
            noise_bytes=scanned.noise_bytes,
            rejects=reject_rows([*rejects[:-1], *chunk.unread]),
        )
    if held:
        yield Parsed({}, 0, rejects=reject_rows(held))


def plan_tables(plans: Sequence[tuple[str, Plan]], first: int) -> dict[str, Rows]:
    """The tables of plans, numbered from `first`."""
    if not plans:
        return {}
    # Imports polars, the slowest import, which only logs with plans need.
    from citus_analysis.formats.explain import plan_frames

    heads, nodes = plan_frames(plans, first)
    return {"plans": heads, "plan_nodes": nodes}


def _join_adjacent_rejects(held: list[Reject], more: list[Reject]) -> list[Reject]:
    """The rejects in order; the reject held back is extended by one that begins at its end."""
    if held and more and held[0].byte_offset + held[0].byte_length == more[0].byte_offset:
        whole = held[0].byte_length + more[0].byte_length
        return [Reject(held[0].byte_offset, whole, held[0].reason, held[0].excerpt), *more[1:]]
    return [*held, *more]
