"""Kinds of lines in the texts of sar, mpstat and pidstat, in any locale.

banner
    `Linux 6.1 (host) 11/22/26 _x86_64_ (2 CPU)`, at the beginning of each output.
header
    A time and the names of columns, or `#` and names (`pidstat -h`); none of its words is a number.
row
    A time and values.
average
    A line that begins with a word and a colon, `Average:` in the language of the locale; headers of averages, too.
restart, comment
    A time and `LINUX RESTART`, or `COM` and a comment of `sadc -C`.
blank, other
    An empty line; anything else.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import polars as pl

from citus_analysis.formats.reading.lines import first_true
from citus_analysis.formats.reading.sampler_lines import compact_lines

#: A time of day in any locale that prints digits; groups: leading half of the day, hour, minute, second, trailing half.
#: English in India has the abbreviation of the zone after the half of the day.
TIME: Final = (
    r"(?:(上午|下午|오전|오후) ?)?([0-9]{1,2})[:.時时點点시] ?([0-9]{2})[:.分분] ?([0-9]{2})[秒초]?"
    r"(?: ([AaPp])\.?[Mm]\.?(?: (?:UTC|[A-Z]{1,4}T))?)?"
)
#: System, version, host, date (the group), architecture, CPUs.
BANNER: Final = r"^\S+ \S+ \(.*\) (\S*[0-9]\S*(?: [^_\s]\S*){0,3}) _\S+_ \([0-9]+ CPUs?\)$"
_EPOCH: Final = r"[0-9]{9,11}"
_CLOCK: Final = rf"^((?:{TIME}|{_EPOCH})) "
#: A number after a time; a pattern that does not begin with alternatives is searched several times as fast.
_NUMBER_ALONE: Final = r" -?[0-9][0-9.,]*[BkMGTP%]?(?: |$)"
_AVERAGE: Final = r"^[^\s0-9:：#]+(?: [^\s0-9:：]+)?[\s\x{202f}\x{a0}]?[:：](?: |$)"


#: Characters that occur in names of columns, but not in messages of a shell (`sar: not found`).
_NAMES: Final = r"[ :](?:%|kb|CPU |INTR |\S+/s(?: |$)|\S+-sz )"
#: Kinds of lines.
KINDS: Final = pl.Enum(["row", "header", "average", "blank", "banner", "restart", "comment", "other"])


@cache
def _kind() -> pl.Expr:
    text, rest = pl.col("text"), pl.col("rest")
    timed = pl.col("clock").is_not_null()
    named = {
        "restart": timed & rest.str.starts_with("LINUX RESTART"),
        "comment": timed & rest.str.starts_with("COM "),
        "row": timed & text.str.contains(_NUMBER_ALONE),
        "header": timed | text.str.contains(r"^# ?Time [A-Za-z]"),
        "blank": text == "",
        "average": text.str.contains(_AVERAGE) & text.str.contains(f"{_NUMBER_ALONE}|{_NAMES}"),
        "banner": text.str.contains(BANNER),
    }
    return first_true(named).fill_null("other").cast(KINDS)


def classified(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of :func:`compact_lines` with `kind`, `clock` (time as printed, or null) and `rest` (the text after it)."""
    lines = compact_lines(data, offset).with_columns(clock=pl.col("text").str.extract(_CLOCK))
    rest = pl.col("text").str.slice(pl.col("clock").str.len_chars() + 1)
    hashed = pl.col("text").str.starts_with("#")
    if lines.select(hashed.any()).item():
        rest = pl.coalesce(rest, pl.when(hashed).then(pl.col("text").str.replace(r"^# ?Time ", "")))
    return lines.with_columns(rest=rest).with_columns(kind=_kind())
