"""Conversion of a log's clock readings and zones to UTC.

A prefix prints an abbreviation (`CET`) or an offset (`+02`). :mod:`citus_analysis.formats.times.zones` defines
the abbreviations, unless the option `timezone` names the server's zone: then that zone decides, and when its clock was
set back, the abbreviation distinguishes the two readings. The epoch (`%n`) needs no zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from citus_analysis.core.column_types import TIME
from citus_analysis.formats.times.zones import LocalTime, is_offset, zone_minutes

if TYPE_CHECKING:
    import polars as pl

_US_PER_MS: Final = 1000
_US_PER_MINUTE: Final = 60_000_000
#: Offsets of zones are constant within a quarter of an hour: each is looked up once.
_US_PER_QUARTER: Final = 15 * _US_PER_MINUTE
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_clock(text: pl.Expr) -> pl.Expr:
    """Clock readings in microseconds since 1970, from `2026-11-20 21:03:47.877`, with or without the `.877`."""
    import polars as pl

    # In two steps: polars is several times faster for times without a fraction.
    second = text.str.slice(0, 19).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False).cast(pl.Int64)
    return second + text.str.slice(20, 3).cast(pl.Int64, strict=False).fill_null(0) * _US_PER_MS


def to_utc(clock: pa.Array, zone: pa.DictionaryArray, local: LocalTime) -> pa.Array:
    """Clock readings (microseconds) with their zones as UTC; null if the zone is unknown.

    Args:
        clock: clock readings, microseconds since 1970.
        zone: abbreviation or offset per reading.
        local: rules for the log's times.

    Raises:
        FormatError: a zone is ambiguous, and the option `timezone` is not given.
    """
    zones = zone.dictionary.to_pylist()
    if zones == ["UTC"] and not zone.null_count:
        return pa.Array.from_buffers(TIME.arrow, len(clock), clock.buffers(), clock.null_count, clock.offset)
    local.check(zones)
    import polars as pl

    server = local.zone
    frame = pl.DataFrame(pa.RecordBatch.from_arrays([clock, zone], names=["clock", "zone"]))
    minutes = {name: zone_minutes(name) for name in zones}
    loose = [name for name in zones if server is not None and not is_offset(name) and minutes[name] != 0]
    frame = frame.with_columns(pl.col("zone").cast(pl.String))
    fixed = pl.col("zone").replace_strict(minutes, default=None, return_dtype=pl.Int64)
    if loose and server is not None:
        frame = frame.with_columns(quarter=pl.col("clock").floordiv(_US_PER_QUARTER))
        keys = frame.filter(pl.col("zone").is_in(loose)).select("quarter", "zone").unique()
        found = keys.with_columns(
            looked_up=pl.Series(
                [_minutes_in(server, int(quarter), str(name)) for quarter, name in keys.iter_rows()], dtype=pl.Int64
            )
        )
        frame = frame.join(found, on=["quarter", "zone"], how="left", maintain_order="left")
        fixed = pl.coalesce("looked_up", fixed)
    return frame.select((pl.col("clock") - fixed * _US_PER_MINUTE).cast(TIME.polars)).to_series().to_arrow()


def _minutes_in(server: ZoneInfo, quarter: int, name: str) -> int | None:
    """The offset of a clock reading in the server's zone; the abbreviation selects one of two possible readings."""
    local = (_EPOCH + timedelta(minutes=15 * quarter)).replace(tzinfo=server)
    readings = [local.replace(fold=0), local.replace(fold=1)]
    named = next((reading for reading in readings if reading.tzname() == name), None)
    if named is None:
        return zone_minutes(name)
    offset = named.utcoffset()
    return None if offset is None else int(offset.total_seconds() // 60)
