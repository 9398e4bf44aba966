"""Times of a log: what a clock showed, and which zone it was in, to UTC.

A prefix prints an abbreviation (`CET`) or an offset (`+02`). Abbreviations are ambiguous; they are read as
PostgreSQL's own default set of them does, unless the option `timezone` names the server's zone: then that zone
decides, and where its clock was set back, the abbreviation tells the two readings apart. Without a zone in the
line (none of the escapes does that) the time is UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from citus_analysis.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["parse_clock", "server_zone", "to_utc"]

_MINUTES: Final = {
    **dict.fromkeys(("UTC", "GMT", "Z", "UCT", "WET", "ZULU"), 0),
    **dict.fromkeys(("CET", "MET", "BST", "WEST", "WAT"), 60),
    **dict.fromkeys(("CEST", "MEST", "EET", "CAT", "SAST", "IST"), 120),
    **dict.fromkeys(("EEST", "MSK", "IDT", "EAT", "TRT"), 180),
    "MSD": 240,
    "PKT": 300,
    "NPT": 345,
    "WIB": 420,
    **dict.fromkeys(("HKT", "SGT", "PHT", "AWST", "WITA"), 480),
    **dict.fromkeys(("JST", "KST", "WIT"), 540),
    "ACST": 570,
    "AEST": 600,
    "ACDT": 630,
    "AEDT": 660,
    "NZST": 720,
    "NZDT": 780,
    "NST": -210,
    "NDT": -150,
    **dict.fromkeys(("BRT", "ART", "ADT"), -180),
    **dict.fromkeys(("AST", "EDT", "CLT"), -240),
    **dict.fromkeys(("EST", "CDT", "COT", "PET"), -300),
    **dict.fromkeys(("CST", "MDT"), -360),
    **dict.fromkeys(("MST", "PDT"), -420),
    **dict.fromkeys(("PST", "AKDT"), -480),
    "AKST": -540,
    "HST": -600,
}
_TIME: Final = pa.timestamp("ms", "UTC")
_OFFSET: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def server_zone(name: str | None) -> ZoneInfo | None:
    """The zone an option names.

    Raises:
        UsageError: there is no such zone.
    """
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"no time zone is named {name!r}", way_out="pass an IANA name such as Europe/Berlin"
        ) from error


def parse_clock(text: pl.Expr) -> pl.Expr:
    """Milliseconds since 1970 as the clock showed them, from `2026-11-20 21:03:47.877`, with or without the `.877`."""
    import polars as pl

    # In two steps, for polars is several times faster with times without a fraction.
    second = text.str.slice(0, 19).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False).cast(pl.Int64)
    return second + text.str.slice(20, 3).cast(pl.Int64, strict=False).fill_null(0)


def to_utc(clock: pa.Array, zone: pa.DictionaryArray, server: ZoneInfo | None) -> pa.Array:
    """Clock readings (milliseconds) with their zones as UTC; null where the zone is unknown.

    Args:
        clock: what the clock showed, milliseconds since 1970.
        zone: abbreviation or offset per reading.
        server: the server's zone where it is known.
    """
    zones = zone.dictionary.to_pylist()
    if zones == ["UTC"] and not zone.null_count:
        return pa.Array.from_buffers(_TIME, len(clock), clock.buffers(), clock.null_count, clock.offset)
    import polars as pl

    frame = pl.DataFrame(pa.RecordBatch.from_arrays([clock, zone], names=["clock", "zone"]))
    minutes = {name: _fixed_minutes(name) for name in zones}
    loose = [name for name in zones if server is not None and not _OFFSET.fullmatch(name) and minutes[name] != 0]
    frame = frame.with_columns(pl.col("zone").cast(pl.String))
    fixed = pl.col("zone").replace_strict(minutes, default=None, return_dtype=pl.Int64)
    if loose and server is not None:
        # Offsets are constant within a quarter of an hour: each is looked up once.
        frame = frame.with_columns(quarter=pl.col("clock").floordiv(900_000))
        keys = frame.filter(pl.col("zone").is_in(loose)).select("quarter", "zone").unique()
        found = keys.with_columns(
            looked_up=pl.Series(
                [_minutes_in(server, int(quarter), str(name)) for quarter, name in keys.iter_rows()], dtype=pl.Int64
            )
        )
        frame = frame.join(found, on=["quarter", "zone"], how="left", maintain_order="left")
        fixed = pl.coalesce("looked_up", fixed)
    return frame.select((pl.col("clock") - fixed * 60_000).cast(pl.Datetime("ms", "UTC"))).to_series().to_arrow()


def _fixed_minutes(name: str) -> int | None:
    match = _OFFSET.fullmatch(name)
    if match is None:
        return _MINUTES.get(name.upper())
    minutes = 60 * int(match[2]) + int(match[3] or 0)
    return -minutes if match[1] == "-" else minutes


def _minutes_in(server: ZoneInfo, quarter: int, name: str) -> int | None:
    """The offset of a clock reading in the server's zone; the abbreviation picks the reading where there are two."""
    local = (_EPOCH + timedelta(minutes=15 * quarter)).replace(tzinfo=server)
    readings = [local.replace(fold=0), local.replace(fold=1)]
    named = next((reading for reading in readings if reading.tzname() == name), None)
    if named is None:
        return _fixed_minutes(name)
    offset = named.utcoffset()
    return None if offset is None else int(offset.total_seconds() // 60)
