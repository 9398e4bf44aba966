"""Restore the order of a backend's records over all files, and drop repeated records.

Server logs are rotated, copied while they are rotated, and concatenated by hand: files overlap, lines occur in
two files or twice in one, and a file may sort after a younger one. The text of a record, its time and its number in the
session (`%l`) show that two lines are the same record, and `%l` shows where a session continues.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.schema import SEVERITIES
from citus_analysis.spans.read.ordered_arrays import Flags, Indices, changes, counted

#: Columns that are equal in two copies of a record, besides the backend. The text is not among the columns that traces
#: are built from, and is not needed: a backend does not use a number twice within a millisecond.
SAME_RECORD: Final = (
    "session_line", "log_time", "local_xid", "gpid", "severity", "kind", "phase", "duration_us", "shard_id", "task_us",
    "worker_host", "worker_port", "statement_kind", "statement_fingerprint",
)  # fmt: skip
_DETAILS: Final = SEVERITIES[SEVERITIES.index("DETAIL") :]


def stitch(events: pl.DataFrame, order: Indices, starts: Indices) -> tuple[Indices, Indices]:
    """Sort the records of backends whose numbers go back, and leave out copies.

    Backends whose numbers only rise are not changed: for logs in order, this function only compares numbers.

    Args:
        events: the records.
        order: rows of `events`, by backend and position.
        starts: index in `order` at which each backend begins.

    Returns:
        The new `order`, and the rows of the copies that were left out.
    """
    backend = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    odd = _go_back(events, order, backend)
    if not odd.any():
        return order, np.zeros(0, np.intp)
    at = np.flatnonzero(np.isin(backend, np.unique(backend[odd])))
    # The first copy of each record. Records without a number are all kept, because copies cannot be recognised.
    said = events[list(SAME_RECORD)][order[at]].with_columns(backend=pl.Series(backend[at]))
    first = said.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    kept = (first | said["session_line"].is_null()).to_numpy()
    sorted_rows = _by_session(events, order[at][kept], backend[at][kept])
    stays = np.ones(len(order), np.bool_)
    stays[at[~kept]] = False
    stitched = order.copy()
    stitched[at[kept]] = sorted_rows
    return stitched[stays], order[at[~kept]]


def _go_back(events: pl.DataFrame, order: Indices, backend: Indices) -> Flags:
    """Whether a record's number is not larger than the one before it in the same backend."""
    # Records of unknown sessions are in no order.
    known = pl.when(pl.col("pid").is_not_null()).then("session_line")
    line = events.select(known.fill_null(0)).to_series().to_numpy()[order]
    back = np.zeros(len(order), np.bool_)
    back[1:] = ~_rises(line, _details(events, order)) & (line[1:] > 0) & (backend[1:] == backend[:-1])
    return back


def _details(events: pl.DataFrame, rows: Indices) -> Flags:
    found = events["severity"].cast(pl.String).is_in(_DETAILS).fill_null(value=False).to_numpy()
    return np.asarray(found[rows], dtype=np.bool_)


def _rises(line: NDArray[np.int64], detail: Flags) -> Flags:
    """Whether a record's number follows the one before it; details of csvlog and jsonlog repeat their record's."""
    rises: Flags = (line[1:] > line[:-1]) | (detail[1:] & (line[1:] == line[:-1]))
    return rises


def _by_session(events: pl.DataFrame, rows: Indices, backend: Indices) -> Indices:
    """Records by session and number. Times show which runs of rising numbers belong to one session."""
    line = events["session_line"].fill_null(0).to_numpy()[rows]
    if not line.all():
        return rows
    time = events["log_time"].to_physical().fill_null(0).to_numpy()[rows]
    begins = changes(backend)
    begins[1:] |= ~_rises(line, _details(events, rows))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1
    ends = np.maximum.reduceat(time, first)
    by_time = np.lexsort((line[first], time[first], backend[first]))
    session = np.empty(len(first), np.uint32)
    # A run continues the session before it if its numbers follow, or if it was written meanwhile and fills a gap.
    first_line = line[first][by_time]
    opens = changes(backend[first][by_time]) | (first_line == 1)
    follows = first_line[1:] > line[last][by_time][:-1]
    meanwhile = time[first][by_time][1:] < ends[by_time][:-1]
    opens[1:] |= ~(follows | meanwhile)
    session[by_time] = counted(opens)
    return rows[np.lexsort((line, session[counted(begins) - 1]))]
