"""The heat map of statement times over a run: time of the run on the horizontal axis, T on the vertical axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.units import US_PER_S

#: Most columns of the map; each is the shortest round stretch of time with which there are at most this many.
_COLUMNS: Final = 120
_ROUND: Final = tuple(round(lead * 10.0**power, 6) for power in range(-3, 5) for lead in (1, 2, 5))
#: Limits between rows, eight in a decade, to three digits so that a brushed rectangle has readable sides.
_LEVELS: Final = tuple(float(f"{10 ** (step / 8):.3g}") for step in range(81))


@dataclass(frozen=True, repr=False)
class HeatMap(Shown):
    """Counts of statements by time and by T.

    Attributes:
        width_s: length of a stretch of time, in seconds.
        columns: number of stretches.
        limits_us: limits between the rows, ascending, in microseconds; row `k` is [limits_us[k], limits_us[k + 1]).
        cells: `column`, `row`, `n` statements, `total_us` their T in sum; empty cells are left out.
        n: number of statements.
    """

    width_s: float
    columns: int
    limits_us: tuple[float, ...]
    cells: pl.DataFrame = field(repr=False)
    n: int = 0

    def summary_table(self) -> pl.DataFrame:
        """The cells."""
        return self.cells


def heat_map(statements: Frame) -> HeatMap:
    """Counts of statements by the time since their run began and by T.

    Args:
        statements: result of :func:`citus_analysis.explorer.with_elapsed`, or some of its rows.

    Example:
        >>> import polars as pl
        >>> rows = pl.DataFrame({"elapsed_us": [0, 400_000, 11_000_000], "total_us": [150.0, 160.0, 9000.0]})
        >>> shown = heat_map(rows)
        >>> shown.width_s, shown.columns, shown.cells["n"].to_list()
        (0.1, 111, [1, 1, 1])
    """
    frame = as_polars(statements).select("elapsed_us", "total_us")
    if frame.is_empty():
        empty = dict.fromkeys(("column", "row", "n"), "elapsed_us")
        return HeatMap(1.0, 0, (), frame.select(**empty, total_us="total_us"))
    elapsed, total = frame["elapsed_us"].to_numpy(), frame["total_us"].to_numpy()
    width = next((step for step in _ROUND if elapsed.max() / US_PER_S < step * _COLUMNS), _ROUND[-1])
    limits = _limits(float(total.min()), float(total.max()))
    column = elapsed // round(width * US_PER_S)
    row = np.searchsorted(np.asarray(limits), total, side="right") - 1
    placed = pl.DataFrame({"column": column, "row": row, "total_us": total}).group_by("column", "row")
    cells = placed.agg(n=pl.len(), total_us=pl.col("total_us").sum()).sort("column", "row")
    return HeatMap(width, int(column.max()) + 1, limits, cells, frame.height)


def _limits(least: float, most: float) -> tuple[float, ...]:
    """The limits that enclose these values."""
    levels = [*_LEVELS, *([most * 2] if most >= _LEVELS[-1] else [])]
    first = max((k for k, level in enumerate(levels) if level <= least), default=0)
    last = next(k for k, level in enumerate(levels) if level > most)
    inner = levels[first : last + 1]
    return (0.0, *inner) if least < inner[0] else tuple(inner)
