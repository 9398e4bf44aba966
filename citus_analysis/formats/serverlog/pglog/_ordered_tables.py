"""The tables of a log from its scanned chunks, in the order of the log.

The thread that scanned a chunk computes all results that depend on this chunk alone. The writing thread does the work
that needs the order of the source: linking details to their records, combining checkpoints, joining rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from citus_analysis.core.column_types import CATEGORY, INT64
from citus_analysis.formats.api.format import Parsed, Reject, reject_rows
from citus_analysis.formats.serverlog.pglog._checkpoints import Checkpoints, checkpoint_records
from citus_analysis.formats.serverlog.pglog._plans import Said, logged_plans
from citus_analysis.formats.serverlog.pglog._records import Scanned
from citus_analysis.formats.serverlog.pglog._times import to_utc
from citus_analysis.formats.serverlog.pglog.fallback.chosen_reader import new_links
from citus_analysis.formats.times.zones import LocalTime
from citus_analysis.schema import TABLES, Column, Rows, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from citus_analysis.formats.explain._items import Plan

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

    scanned: Scanned
    rows: pa.RecordBatch
    checkpoints: list[pa.RecordBatch]
    linked: bool
    plans: Sequence[tuple[str, Plan]]
    unread: Sequence[Reject]


def tables_of_chunk(
    scanned: Scanned, local: LocalTime, offset: int, read: Callable[[], bytes], said: Said, beyond: int = 0
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
    log_time = to_utc(found.column("clock"), found.column("zone"), local)
    columns = [log_time if column.name == "log_time" else found.column(column.name) for column in _EVENTS]
    rows = pa.RecordBatch.from_arrays(columns, schema=_EVENTS.arrow())
    given = scanned.rows.schema.names if isinstance(scanned.rows, pa.RecordBatch) else scanned.rows.columns
    linked = "record_byte_offset" in given
    return ChunkTables(scanned, rows, checkpoint_records(rows), linked, *logged_plans(offset, read, rows, said, beyond))


class LogTables:
    """The tables of a whole source, chunk by chunk."""

    def __init__(self) -> None:
        self._links, self._checkpoints, self._plans = new_links(), Checkpoints(), 0

    def tables(self, chunk: ChunkTables) -> dict[str, Rows]:
        """The rows of the next chunk."""
        first, self._plans = self._plans, self._plans + len(chunk.plans)
        return {
            "log_events": chunk.rows if chunk.linked else self._links.link(chunk.rows),
            "checkpoints": self._checkpoints.collect(chunk.checkpoints),
            **plan_tables(chunk.plans, first),
        }


def ordered_tables(chunks: Iterable[ChunkTables], tables: Callable[[ChunkTables], dict[str, Rows]]) -> Iterator[Parsed]:
    """One piece per chunk; adjacent rejects, across chunks too, become one.

    Args:
        chunks: the chunks of a source, in order.
        tables: function that makes the tables of the next chunk.
    """
    held: list[Reject] = []
    for chunk in chunks:
        scanned = chunk.scanned
        rejects = _joined(held, scanned.rejects)
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
    from citus_analysis.formats.explain._rows import plan_frames

    heads, nodes = plan_frames(plans, first)
    return {"plans": heads, "plan_nodes": nodes}


def _joined(held: list[Reject], more: list[Reject]) -> list[Reject]:
    """The rejects in order; the reject held back is extended by one that begins at its end."""
    if held and more and held[0].byte_offset + held[0].byte_length == more[0].byte_offset:
        whole = held[0].byte_length + more[0].byte_length
        return [Reject(held[0].byte_offset, whole, held[0].reason, held[0].excerpt), *more[1:]]
    return [*held, *more]
