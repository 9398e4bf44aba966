"""Records of server logs in the order of their sessions, each with the execution it belongs to.

A backend writes its records in order, numbered by `session_line`. Sorted by backend and position, every record
of a session is one of a few *events*; which statement it belongs to follows from the events before it:

- an *opener* names a statement (`execute S_1: ...`, `statement: ...`);
- the first duration after an opener closes the statement; an error closes whatever is open;
- a duration whose predecessor is not an opener belongs to a phase (parse, bind) of the statement to come;
- `statement:` on a shard inside a client's session is a local execution, not an opener;
- a task record reports a remote execution of the open statement.

This holds for both protocols, for parents and for children (sessions with a gpid). All steps are column
operations over the sorted records; there is no loop over records or statements.
"""

from __future__ import annotations

from typing import Final

import polars as pl

__all__ = [
    "ERROR",
    "LOCAL",
    "OPENER",
    "PREPARE",
    "TASK",
    "TIMED",
    "WHOLE",
    "number_executions",
    "order_records",
    "sources_of",
]

#: What a record is to its session: a duration that names its phase (parse, bind), one that names its statement as
#: well, a bare duration, a local execution, a statement line, a task, an error.
PREPARE, WHOLE, DURATION, LOCAL, OPENER, TASK, ERROR = range(7)

#: Events that report a duration.
TIMED: Final = (PREPARE, WHOLE, DURATION)

_PLACE: Final = ("source_id", "pid", "byte_offset", "log_time", "session_line")
_PAYLOAD: Final = (
    "local_xid",
    "gpid",
    "severity",
    "kind",
    "phase",
    "duration_us",
    "shard_id",
    "task_us",
    "worker_host",
    "worker_port",
    "statement_kind",
    "statement_fingerprint",
)
_PIDS: Final = 1 << 31
_SOURCES: Final = 1 << 16


def sources_of(events: pl.DataFrame) -> pl.DataFrame:
    """Number the log files; those of one node follow each other in time."""
    return (
        events.group_by("source_id")
        .agg(pl.col("node", "resource", "run_id", "iteration").first(), first_time=pl.col("log_time").min())
        .sort("node", "first_time", "source_id")
        .with_row_index("source")
        .select("source", "source_id", pl.col("node").fill_null(pl.col("source_id")), "resource", "run_id", "iteration")
    )


def order_records(events: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """Records by node, backend and position, with the session and the unbroken segment each belongs to."""
    numbers = sources.select(
        "source_id",
        "source",
        pl.col("node").cast(pl.Categorical),
        key=(pl.col("node").rank("dense").cast(pl.Int64) * _PIDS * _SOURCES) + pl.col("source"),
    )
    placed = (
        events.lazy()
        .select(*_PLACE, *_PAYLOAD)
        .filter(pl.col("pid").is_not_null())
        .join(numbers.lazy(), on="source_id", how="left", maintain_order="left")
        .with_columns(pl.col("key") + pl.col("pid").cast(pl.Int64) * _SOURCES)
        .drop("source_id")
        .collect()
    )
    ordered = _by_offset(placed).sort("key", maintain_order=True)
    line, backend = pl.col("session_line"), pl.col("key") // _SOURCES
    restarted = (backend != backend.shift(1)).fill_null(value=True) | (line <= line.shift(1)).fill_null(value=False)
    broken = restarted | (line != line.shift(1) + 1).fill_null(value=False)
    starts = restarted & (line == 1).fill_null(value=False)
    return ordered.with_columns(
        session=restarted.cast(pl.UInt32).cum_sum(),
        segment=broken.cast(pl.UInt32).cum_sum(),
        begins_segment=broken,
        # A segment is anchored when it holds the session's first record: nothing of it is missing before.
        anchored=pl.when(broken).then(starts).forward_fill(),
    ).drop("key", "session_line")


def _by_offset(placed: pl.DataFrame) -> pl.DataFrame:
    """Rows by source and offset. A parser yields them so, and a sort of millions of rows is worth avoiding."""
    source, offset = pl.col("source"), pl.col("byte_offset")
    switches = (source != source.shift(1)).sum()
    ascends = ((offset > offset.shift(1)) | (source != source.shift(1))).fill_null(value=True).all()
    in_order = placed.select((switches < source.n_unique()) & ascends).item() if placed.height else True
    return placed if in_order else placed.sort("source", "byte_offset")


def _any_of(column: str, *values: str) -> pl.Expr:
    return pl.any_horizontal(pl.col(column) == value for value in values).fill_null(value=False)


def _code(event: int) -> pl.Expr:
    return pl.lit(event, pl.UInt8)


def _classify(records: pl.DataFrame) -> pl.DataFrame:
    """Keep the records that shape executions and say what each is (`event`)."""
    shard = pl.col("shard_id").is_not_null()
    extended = _any_of("phase", "execute") | _any_of("kind", "execute")
    runs = extended | _any_of("phase", "statement") | _any_of("kind", "statement")
    prepares = _any_of("phase", "parse", "bind") | _any_of("kind", "parse", "bind")
    timed = pl.col("duration_us").is_not_null() & _any_of("kind", "duration", "parse", "bind", "execute", "statement")
    named = _any_of("kind", "execute", "statement")
    event = (
        pl.when(timed & prepares)
        .then(_code(PREPARE))
        .when(timed & runs)
        .then(_code(WHOLE))
        .when(timed)
        .then(_code(DURATION))
        .when(_any_of("kind", "statement") & shard & pl.col("gpid").is_null())
        .then(_code(LOCAL))
        .when(named)
        .then(_code(OPENER))
        .when(_any_of("kind", "task"))
        .then(_code(TASK))
        .when(_any_of("severity", "ERROR", "FATAL", "PANIC"))
        .then(_code(ERROR))
    )
    return records.with_columns(event=event, extended=extended).filter(pl.col("event").is_not_null())


def number_executions(records: pl.DataFrame) -> pl.DataFrame:
    """The records that shape executions, with their `event`, `execution` and whether they close it (`closes`)."""
    rows = _classify(records)
    event, segment = pl.col("event"), pl.col("segment")
    # A task opens where its statement line is missing: the log begins, or has a gap, in the middle of a statement.
    opens = (event == OPENER) | (event == TASK)
    same_segment = (segment == segment.shift(1)).fill_null(value=False)
    shaping = pl.when(event != LOCAL)
    after_opener = shaping.then(opens).forward_fill().shift(1) & (
        shaping.then(segment).forward_fill().shift(1) == segment
    )
    after_opener = after_opener.fill_null(value=False)
    closes = (event == ERROR) | (event == WHOLE) | ((event == DURATION) & after_opener)
    never_closed = ((event == OPENER) | (event == WHOLE) | (event == PREPARE)) & after_opener
    # Where a segment begins in the middle of a statement, its last durations are told from the next one's by xid.
    opened = (pl.when(opens).then(segment).forward_fill().shift(1) == segment).fill_null(value=False)
    other_xid = (pl.col("local_xid") != pl.col("local_xid").shift(1)).fill_null(value=False)
    fragment = ~pl.col("anchored") & ~opened & same_segment & other_xid
    begins = ~same_segment | never_closed | fragment | closes.shift(1, fill_value=True)
    # Known to be sorted, it is grouped without hashing.
    return rows.with_columns(closes=closes, execution=begins.cast(pl.UInt32).cum_sum().set_sorted())
