"""Checkpoints and restartpoints, combined from their `starting` and `complete` records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from citus_analysis.schema import KINDS, TABLES, Table

if TYPE_CHECKING:
    import polars as pl

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


def checkpoint_records(events: pa.RecordBatch) -> list[pa.RecordBatch]:
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
        return table.batch(done.with_columns(**_numbers(table)).drop("message"))


def _numbers(table: Table) -> dict[str, pl.Expr]:
    import polars as pl

    message = pl.col("message")
    # A number out of its column's range is null; `log_events` keeps the message.
    return {
        name: message.str.extract(pattern, 1).cast(table[name].dtype, strict=False)
        for name, pattern in _NUMBERS.items()
    }
