"""The column with the time of a snapshot, and times as PostgreSQL prints them.

Example:
    >>> import polars as pl
    >>> pl.Series(["2026-03-01 12:00:00.5+00", "2026-03-01T14:00:00+02:00"]).to_frame("t").select(
    ...     time_expr(pl.col("t"), "UTC").dt.strftime("%T%.3f"))["t"].to_list()
    ['12:00:00.500', '12:00:00.000']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import polars as pl

#: Usual names of that column, in the order of preference.
_NAMES: Final = (
    *("sample_time", "snapshot_time", "captured_at", "collected_at", "clock_timestamp", "statement_timestamp"),
    *("snap_time", "timestamp", "now", "time", "ts"),
)
_Times = TypeVar("_Times", pl.Expr, pl.Series)
_FORMAT: Final = "%Y-%m-%d %H:%M:%S%.f"


def time_column(header: Sequence[str]) -> str | None:
    """The header's column of snapshot times; None if it has none."""
    return next((name for name in _NAMES if name in header), None)


def in_utc(local: _Times, zone: str) -> _Times:
    """Local times of a zone in UTC: the first where clocks are set back, null where they are set forward."""
    return local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")


def time_expr(text: pl.Expr, timezone: str) -> pl.Expr:
    """ISO times in UTC with microseconds; null for anything else.

    Args:
        text: times as PostgreSQL prints them, with `T` or a space, with or without an offset.
        timezone: zone of times without an offset (IANA name).
    """
    plain = text.str.replace("T", " ", literal=True).str.replace(r"Z$", "+00")
    stated = plain.str.to_datetime(f"{_FORMAT}%#z", time_unit="us", time_zone="UTC", strict=False)
    local = plain.str.to_datetime(_FORMAT, time_unit="us", strict=False)
    return pl.coalesce(stated, in_utc(local, timezone))
