"""Times that people print between or before the lines of a dump: ISO 8601, seconds since 1970, or `date` in English.

`date` prints one of these, by language and version::

    Mon Nov 23 16:01:10 UTC 2026
    Mon Nov 23 04:01:10 PM CET 2026
    Mon 23 Nov 16:01:10 +03 2026
    Mon 23 Nov 2026 04:01:10 PM GMT
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.times.snapshot_times import in_utc, time_expr
from citus_analysis.formats.times.zones import LocalTime, zone_minutes

_ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9:]{2,6})?"
_EPOCH: Final = r"[0-9]{9,10}(?:\.[0-9]{1,9})?"
_DATE: Final = (
    r"[A-Z][a-z]{2} (?:[A-Z][a-z]{2} {1,2}[0-9]{1,2}|[ 0-9]?[0-9] [A-Z][a-z]{2})(?: [0-9]{4})? "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?: [AP]M)? (?:[A-Z]{1,5}|[+-][0-9]{2,4})(?: [0-9]{4})?"
)
#: A whole text that is a time.
TIME: Final = rf"^(?:{_ISO}|{_EPOCH}|{_DATE})$"
_FORMATS: Final = ("%Y %b %d %H:%M:%S", "%Y %b %d %I:%M:%S %p")


def times_of(texts: pl.Series, local: LocalTime) -> pl.Series:
    """Times in UTC with microseconds; null for other texts and for zones that nobody knows.

    Args:
        texts: texts of any kind.
        local: the zone of times that state none, and of zones whose abbreviation has several meanings.

    Raises:
        FormatError: an abbreviation has several meanings, and the option `timezone` does not name its zone.

    Example:
        >>> from pathlib import Path
        >>> found = times_of(pl.Series(["Mon Nov 23 04:01:10 PM CET 2026"]), LocalTime(Path("dump"), None))
        >>> str(found[0])
        '2026-11-23 15:01:10+00:00'
    """
    text = pl.col("text")
    own = "UTC" if local.zone is None else local.zone.key
    iso = time_expr(text.str.extract(f"^({_ISO})$").str.replace(",", ".", literal=True), own)
    epoch = (text.str.extract(f"^({_EPOCH})$").cast(pl.Float64) * 1e6).round().cast(pl.Int64)
    frame = texts.alias("text").to_frame()
    times = (iso, epoch.cast(pl.Datetime("us", "UTC")), _dates(frame, local, own))
    return frame.select(time=pl.coalesce(times)).to_series()


def _dates(frame: pl.DataFrame, local: LocalTime, own: str) -> pl.Expr:
    """The times of `date`."""
    text = pl.when(pl.col("text").str.contains(rf"^{_DATE}$")).then("text")
    zone = text.str.extract(r" ([A-Z]{1,5}|[+-][0-9]{2,4})(?: [0-9]{4})?$")
    names = frame.select(zone.unique().drop_nulls()).to_series().to_list()
    local.check(names)
    clock = text.str.extract(r" ([0-9]{2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?) ")
    day = text.str.extract(r"^... (?:... )? ?([0-9]{1,2}) ").str.zfill(2)
    month = text.str.extract(r"^... (?:[ 0-9]?[0-9] )?([A-Z][a-z]{2}) ")
    said = pl.format("{} {} {} {}", text.str.extract(r" ([0-9]{4})(?: |$)"), month, day, clock)
    naive = pl.coalesce(said.str.to_datetime(form, time_unit="us", strict=False) for form in _FORMATS)
    known = {name: minutes for name in names if (minutes := zone_minutes(name)) is not None}
    east = zone.replace_strict(known, default=None, return_dtype=pl.Int64)
    # An abbreviation with several meanings passed the check: it is the time of the zone that is stated.
    stated = in_utc(naive, own)
    placed = (naive - pl.duration(minutes=east)).dt.replace_time_zone("UTC")
    return pl.when(east.is_not_null()).then(placed).when(local.zone is not None).then(stated)
