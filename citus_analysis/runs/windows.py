"""Select the rows from within the measured windows of runs.

The measured window of a run is the time in which all its main clients ran (`runs.measured_from`, `measured_until`). A
sampled client, a profiler or a sampler often continues afterwards, on idle servers; rows from that time do not describe
the load. Windows use the clients' clock, rows that of a server.

Example:
    >>> import polars as pl
    >>> from datetime import UTC, datetime
    >>> at = lambda second: datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC)
    >>> run = {"resource": "w2", "run_id": "w2/1", "measured_from": at(10), "measured_until": at(20)}
    >>> seen = [{"resource": "w2", "run_id": "w2/1", "start_time": at(s), "end_time": at(s)} for s in (12, 19, 25)]
    >>> select_measured_rows(pl.DataFrame(seen), pl.DataFrame([run])).outside
    1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

#: Larger distances indicate that clocks differ, for instance by a time zone, rather than that a client was late.
CLOCKS_APART_S: Final = 600

_RUN: Final = ["resource", "run_id"]
WINDOW: Final = ("measured_from", "measured_until")


@dataclass(frozen=True)
class Windowed:
    """Rows within the measured windows of their runs.

    Attributes:
        rows: rows within the measured window of their run, and all rows of runs without a known window.
        outside: number of rows that began before the window or ended after it.
        runs_outside: runs with all rows outside.
        unplaced: runs with all rows more than :data:`CLOCKS_APART_S` away from the window: the clocks of client and
            server cannot be compared, and all rows are kept.
    """

    rows: pl.DataFrame
    outside: int
    runs_outside: tuple[str, ...]
    unplaced: tuple[str, ...]


def select_measured_rows(rows: pl.DataFrame, runs: pl.DataFrame) -> Windowed:
    """Rows from within the measured window of their run.

    Args:
        rows: rows with `resource`, `run_id`, `start_time` and `end_time`, such as `statements`. Rows without a time, or
            of a run that is not in `runs`, are kept.
        runs: the table `runs`. If it has no windows, or the rows have no times, all rows are kept.
    """
    if not (set(WINDOW) <= set(runs.columns) and {"start_time", "end_time"} <= set(rows.columns)):
        return Windowed(rows, 0, (), ())
    windows = runs.select(*_RUN, *WINDOW).unique(_RUN, keep="first")
    # Only the columns needed are joined: rows may have many.
    placed = rows.select(*_RUN, "start_time", "end_time").join(windows, on=_RUN, how="left", maintain_order="left")
    begin, end, (opens, closes) = pl.col("start_time"), pl.col("end_time"), map(pl.col, WINDOW)
    apart = pl.max_horizontal(opens - end, begin - closes)
    far = (apart.min() > pl.duration(seconds=CLOCKS_APART_S)).fill_null(value=False).over(_RUN)
    known = ((begin >= opens) & (end <= closes)).fill_null(value=True)
    judged = placed.with_columns(_far=far, _kept=known | far, _none=~known.any().over(_RUN))
    return Windowed(
        rows if judged["_kept"].all() else rows.filter(judged["_kept"]),
        int(judged.select((~pl.col("_kept")).sum()).item()),
        _names(judged.filter(pl.col("_none") & ~pl.col("_far"))),
        _names(judged.filter("_far")),
    )


def _names(rows: pl.DataFrame) -> tuple[str, ...]:
    return tuple(str(name) for name in rows["run_id"].unique().sort())
