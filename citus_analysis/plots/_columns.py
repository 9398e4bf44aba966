"""The check that a figure's table has the required columns, and the order of names in figures."""

from __future__ import annotations

import polars as pl

from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.errors import UsageError
from citus_analysis.texts.natural_order import natural_expr


def with_columns_of(frame: Frame, name: str, *columns: str) -> pl.DataFrame:
    """A caller's table as a polars frame with the columns that a figure needs.

    Args:
        frame: the table.
        name: the caller's name for the table.
        columns: the columns required.

    Raises:
        UsageError: columns are missing; the message names them and the columns of the table.

    Example:
        >>> with_columns_of(pl.DataFrame({"mean_us": [1.0]}), "profile", "name", "mean_us")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: the table `profile` lacks name (it has: mean_us)
    """
    table = as_polars(frame)
    missing = [column for column in dict.fromkeys(columns) if column not in table.columns]
    if missing:
        there = f"it has: {', '.join(table.columns)}" if table.columns else "it has no columns"
        raise UsageError(f"the table `{name}` lacks {', '.join(missing)}", way_out=there)
    return table


def in_natural_order(frame: pl.DataFrame, name: str, *then: str) -> pl.DataFrame:
    """Rows sorted by the numbers within a name, so that node 10 comes after node 9, then by other columns.

    Example:
        >>> in_natural_order(pl.DataFrame({"node": ["10", "9"]}), "node")["node"].to_list()
        ['9', '10']
    """
    known = frame.select(pl.col(name).unique())
    order = known.sort(natural_expr(name), nulls_last=True).with_row_index("_order")
    return frame.join(order, on=name, how="left", nulls_equal=True).sort("_order", *then).drop("_order")
