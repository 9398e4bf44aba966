"""Conversion of the times that samplers print to UTC.

iostat prints dates and times in the recorder's locale (`11/20/26 21:10:57`, `20.11.2026 21:10:57`,
`11/20/2026 09:10:57 PM`) or in ISO 8601 with an offset (`S_TIME_FORMAT=ISO`). The output does not name the
locale, so the order of day and month is decided from evidence, in this sequence: a leading year of four digits;
the option `date_order`; a number above 12 in one of the two places; dots or dashes between the numbers, or a
decimal comma elsewhere in the file (locales with the month first use neither). Otherwise, the month is first. The
abbreviation of a zone after AM or PM (English in India) does not count: the zone is that of the option `timezone`.

Example:
    >>> import polars as pl
    >>> parse_times(pl.Series(["11/20/26 21:10:57", "2026-11-20T21:10:57+0200"])).to_list()
    [datetime.datetime(2026, 11, 20, 21, 10, 57, tzinfo=zoneinfo.ZoneInfo(key='UTC')), \
datetime.datetime(2026, 11, 20, 19, 10, 57, tzinfo=zoneinfo.ZoneInfo(key='UTC'))]
    >>> infer_date_order(["05/06/26", "13/06/26"], {})
    'dmy'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import polars as pl

from citus_analysis.formats.parsing.format import DATE_ORDER

# The column with the time of a snapshot, and times as PostgreSQL prints them.

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


#: Times of one file that go back by more are of another hour, not lines in another order.
_DISORDER: Final = pl.duration(minutes=1)
#: An hour that comes twice is over.
_OVER: Final = pl.duration(hours=3)


def convert_local_to_utc(local: _Times, zone: str) -> _Times:
    """Local times of a zone, in the order of their file, in UTC; null where clocks are set forward.

    In the hour that comes twice where clocks are set back, times are of the first one until they go back.

    Example:
        >>> clock = pl.Series(["2025-11-02 01:59:50", "2025-11-02 01:00:00"]).str.to_datetime()
        >>> convert_local_to_utc(clock, "America/New_York").dt.strftime("%H:%M:%S").to_list()
        ['05:59:50', '06:00:00']
    """
    early = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")
    late = local.dt.replace_time_zone(zone, ambiguous="latest", non_existent="null").dt.convert_time_zone("UTC")
    if isinstance(early, pl.Series) and isinstance(late, pl.Series):
        pair = pl.DataFrame({"early": early, "late": late})
        return pair.select(_choose_hour(pl.col("early"), pl.col("late")).alias(local.name)).to_series()
    return _choose_hour(early, late)


def _choose_hour(early: pl.Expr, late: pl.Expr) -> pl.Expr:
    """The later of two possible times from where the earlier one would go back."""
    twice = early != late
    returned = twice & (early < early.shift(1).cum_max().forward_fill() - _DISORDER)
    since = early - pl.when(returned).then(early).forward_fill()
    return pl.when(twice & (since < _OVER)).then(late).otherwise(early)


def time_expr(text: pl.Expr, timezone: str) -> pl.Expr:
    """ISO times in UTC with microseconds; null for anything else.

    Args:
        text: times as PostgreSQL prints them, with `T` or a space, with or without an offset.
        timezone: zone of times without an offset (IANA name).
    """
    plain = text.str.replace("T", " ", literal=True).str.replace(r"Z$", "+00")
    stated = plain.str.to_datetime(f"{_FORMAT}%#z", time_unit="us", time_zone="UTC", strict=False)
    local = plain.str.to_datetime(_FORMAT, time_unit="us", strict=False)
    return pl.coalesce(stated, convert_local_to_utc(local, timezone))


#: A date of three numbers, and a time of day; capture groups as :func:`parse_times` uses them.
DATE: Final = r"([0-9]{1,4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,4})\.?"
TIME: Final = r"([0-9]{1,2})[:.]([0-9]{2})[:.]([0-9]{2})(\.[0-9]+)?\s*([AaPp])?\.?[Mm]?\.?(?: (?:UTC|[A-Z]{1,4}T))?"

_LAST_MONTH: Final = 12
_YEAR_DIGITS: Final = 4
_CENTURY: Final = 2000
#: Years of the Buddhist era, which Thai locales print, begin this many before those of the common era.
_BUDDHIST: Final = 543
_MOST_YEAR: Final = 2400

#: Times that need no evidence, of which a sampler may print one in each line, and their form.
_PLAIN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"
_PLAIN_FORM: Final = "%Y-%m-%d %H:%M:%S"
_PARTS: Final = pl.col("text").str.extract_groups(rf"{DATE}[T,\s]+{TIME}\s*(?:(Z)|([+-])([0-9]{{2}}):?([0-9]{{2}}))?$")


def infer_date_order(dates: Iterable[str], options: Mapping[str, str], *, decimal_comma: bool = False) -> str:
    """Order of day, month and year in a file's dates, `mdy`, `dmy` or `ymd`, from the evidence described above.

    Raises:
        UnknownNameError: the option `infer_date_order` is not one of these.
    """
    stated = DATE_ORDER.value(options)
    if stated is not None:
        return stated
    matches = [match for match in (re.search(DATE, text) for text in dates) if match]
    matches = [match for match in matches if len(match[1]) < _YEAR_DIGITS]
    if any(int(match[1]) > _LAST_MONTH for match in matches):
        return "dmy"
    if any(int(match[2]) > _LAST_MONTH for match in matches):
        return "mdy"
    separators = {match[0][len(match[1])] for match in matches}
    return "dmy" if decimal_comma or separators & {".", "-"} else "mdy"


def parse_times(texts: pl.Series, order: str = "mdy", timezone: str = "UTC") -> pl.Series:
    """Texts of dates and times as UTC; null for texts that are not a possible date and time.

    Args:
        texts: such as `11/20/2026 09:10:57 PM` or `2026-11-20T21:10:57+0200`.
        order: order of day, month and year in dates without a leading year of four digits; see
            :func:`infer_date_order`.
        timezone: zone of texts without an offset; see :func:`convert_local_to_utc`.
    """
    if texts.null_count() == len(texts):
        return pl.Series(texts.name, [], pl.Datetime("us", "UTC")).extend_constant(None, len(texts))
    text = texts.cast(pl.String)
    if text.str.contains(_PLAIN).all():
        plain = text.str.to_datetime(_PLAIN_FORM, time_unit="us", strict=False)
        if plain.null_count() == text.null_count():
            return convert_local_to_utc(plain, timezone)
    frame = pl.DataFrame({"text": text}).select(part=_PARTS)
    return frame.select(_time_of_parts(order, timezone).alias(texts.name)).to_series()


@lru_cache
def _time_of_parts(order: str, timezone: str) -> pl.Expr:
    """The UTC time from the groups of `_PARTS` in a column `part`."""
    part = [pl.col("part").struct.field(str(group)) for group in range(1, 13)]
    year_first = part[0].str.len_chars() == _YEAR_DIGITS
    year, month, day = (
        pl.when(year_first).then(part["ymd".index(unit)]).otherwise(part[order.index(unit)]) for unit in "ymd"
    )
    year_number = year.cast(pl.Int32) + pl.when(year.str.len_chars() < _YEAR_DIGITS).then(_CENTURY).otherwise(0)
    year_number -= pl.when(year_number > _MOST_YEAR).then(_BUDDHIST).otherwise(0)
    hour, half = part[3].cast(pl.Int32), part[7].str.to_lowercase()
    hour = pl.when(half.is_null()).then(hour).otherwise(hour % 12 + pl.when(half == "p").then(12).otherwise(0))
    date = pl.format("{}-{}-{}", year_number, month, day).str.to_date("%Y-%m-%d", strict=False)
    seconds = part[6].cast(pl.Float64, strict=False).fill_null(0.0)
    since_midnight = pl.duration(
        hours=hour,
        minutes=part[4].cast(pl.Int32),
        seconds=part[5].cast(pl.Int32),
        milliseconds=(seconds * 1000).floor().cast(pl.Int64),
    )
    sign = pl.when(part[9] == "-").then(-1).otherwise(1)
    offset = pl.duration(minutes=sign * (part[10].cast(pl.Int32) * 60 + part[11].cast(pl.Int32)))
    local = date.cast(pl.Datetime("us")) + since_midnight
    stated = part[8].is_not_null() | part[9].is_not_null()
    utc = (
        pl.when(stated)
        .then((local - offset.fill_null(pl.duration(minutes=0))).dt.replace_time_zone("UTC"))
        .otherwise(convert_local_to_utc(local, timezone))
    )
    return utc.cast(pl.Datetime("us", "UTC"))
