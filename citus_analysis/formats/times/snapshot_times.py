"""The column with the time of a snapshot, and times as PostgreSQL prints them.

Example:
    >>> import polars as pl
    >>> pl.Series(["2026-03-01 12:00:00.5+00", "2026-03-01T14:00:00+02:00"]).to_frame("t").select(
    ...     time_expr(pl.col("t"), "UTC").dt.strftime("%T%.3f"))["t"].to_list()
    ['12:00:00.500', '12:00:00.000']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

#: Usual names of that column, in the order of preference.
_NAMES: Final = (
    *("sample_time", "snapshot_time", "captured_at", "collected_at", "clock_timestamp", "statement_timestamp"),
    *("snap_time", "timestamp", "now", "time", "ts"),
)
_FORMAT: Final = "%Y-%m-%d %H:%M:%S%.f"


def time_column(header: Sequence[str]) -> str | None:
    """The header's column of snapshot times; None if it has none."""
    return next((name for name in _NAMES if name in header), None)


def time_expr(text: pl.Expr, timezone: str) -> pl.Expr:
    """ISO times in UTC with microseconds; null for anything else.

    Args:
        text: times as PostgreSQL prints them, with `T` or a space, with or without an offset.
        timezone: zone of times without an offset (IANA name).
    """
    plain = text.str.replace("T", " ", literal=True).str.replace(r"Z$", "+00")
    stated = plain.str.to_datetime(f"{_FORMAT}%#z", time_unit="us", time_zone="UTC", strict=False)
    local = plain.str.to_datetime(_FORMAT, time_unit="us", strict=False)
    placed = local.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")
    return pl.coalesce(stated, placed.dt.convert_time_zone("UTC"))
