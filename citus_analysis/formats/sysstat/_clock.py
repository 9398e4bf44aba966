"""Times of samples in the texts of sysstat, which print the date once, in the banner, and then only times of day.

A file has *parts* (each begins with a banner, or with a restart of the machine) and parts have *sections*: `sar -f`
prints one kind of report for the whole part, its averages, then the next kind, which begins at the part's first time
again; sar with an interval prints all kinds for each moment, in one section. Within a section times only increase: a
time of day that is hours before the previous one is on the next day. The clock may be set back by up to two hours (the
end of summer time) without a change of the day.

Only the samples, restarts and the first header of a section are used: the later headers repeat the time of the previous
report, and averages have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.formats.sysstat._lines import BANNER, KINDS
from citus_analysis.formats.times.sampler_clock import parse_times
from citus_analysis.formats.times.snapshot_times import in_utc

_SET_BACK_S: Final = 2 * 3600
_DAY_S: Final = 86_400
_UNKNOWN: Final = -(2**31)


@dataclass(frozen=True)
class Clock:
    """The state after the lines so far, from which the next lines are dated.

    Attributes:
        day: days from 1970 to the newest time, or to the banner's date; far in the past if no date can be read.
        last: second of the day of the newest time.
        part_day: days from 1970 to the time at which the part began.
        part_first: second of the day of that time; None before it.
        sample: highest number of a sample, -1 before the first.
        at: number of the newest sample; it begins again in the later sections of a part.
        part_sample: number of the last sample before the part.
        newest_kind: kind of the newest line that counts.
    """

    day: int = _UNKNOWN
    last: float | None = None
    part_day: int = _UNKNOWN
    part_first: float | None = None
    sample: int = -1
    at: int = -1
    part_sample: int = -1
    newest_kind: str = "banner"


def banner_dates(lines: pl.DataFrame) -> list[str]:
    """The dates of the banners as printed, or as numbers with dashes if they have signs for year, month and day."""
    dates = lines.filter(kind="banner")["text"].str.extract(BANNER)
    return [re.sub(r"[年月년월] ?", "-", text).rstrip("日일 ") for text in dates.drop_nulls()]


def placed(lines: pl.DataFrame, clock: Clock, order: str, timezone: str) -> tuple[pl.DataFrame, Clock]:
    """Place the rows among classified lines in time.

    Returns:
        `sample` and `sample_time` of each line of the kind `row`, null without a valid time; and the state after them.
    """
    counting = lines.lazy().select("kind", "seconds", text=pl.when(pl.col("kind") == "banner").then("text"))
    counting = counting.filter(pl.col("kind").is_in(["banner", "restart", "average", "row", "header"]))
    before = pl.col("kind").shift(fill_value=pl.lit(clock.newest_kind, KINDS))
    opens = before.is_in(["banner", "restart", "average"]) & pl.col("kind").is_in(["row", "header"])
    marked = counting.with_columns(section=opens & (before == "average"), opens=opens).collect()
    newest = str(marked["kind"][-1]) if marked.height else clock.newest_kind
    marked = marked.filter((pl.col("kind") != "average") & ((pl.col("kind") != "header") | pl.col("opens")))
    # A header without a time (`pidstat -h`) does not change the clock.
    known = pl.col("seconds").is_not_null() | (pl.col("kind") == "banner")
    timed = marked.filter(known)
    epochs = bool((timed["seconds"] > 2 * _DAY_S).any())
    walk = _Walk(clock, timed, _epoch_days(banner_dates(timed), order))
    clock = walk.done()
    found = pl.DataFrame(
        {"sample": walk.samples, "sample_time": _times(walk.days, walk.seconds, timezone, epochs=epochs)}
    )
    if timed.height < marked.height:
        place = marked.select(pl.when(known).then(known.cum_sum() - 1)).to_series()
        found = found.select(pl.all().gather(place))
    return found.filter(marked["kind"] == "row"), replace(clock, newest_kind=newest)


def _epoch_days(texts: list[str], order: str) -> list[int]:
    """The dates of banners as days since 1970."""
    moments = parse_times(pl.Series([f"{text} 00:00:00" for text in texts], dtype=pl.String), order)
    return moments.dt.epoch("d").cast(pl.Int64).fill_null(_UNKNOWN).to_list()


class _Walk:
    """Dates and numbers the lines that count, section by section.

    Attributes:
        days: days since 1970 of each line.
        seconds: seconds of the day of each line.
        samples: number of the sample of each line.
    """

    def __init__(self, clock: Clock, lines: pl.DataFrame, dates: list[int]) -> None:
        self.clock = clock
        self.seconds = lines["seconds"].fill_null(0.0).to_numpy()
        self.days = np.full(lines.height, _UNKNOWN, np.int64)
        self.samples = np.zeros(lines.height, np.int64)
        self._banner = (lines["kind"] == "banner").to_numpy()
        self._restart = (lines["kind"] == "restart").to_numpy()
        self._row = (lines["kind"] == "row").to_numpy()
        self._section = lines["section"].to_numpy()
        self._dates = iter(dates)

    def done(self) -> Clock:
        """Walk through all sections; returns the state after the last line."""
        starts = np.flatnonzero(self._banner | self._restart | self._section)
        for begin, end in pairwise(sorted({0, len(self.seconds), *starts.tolist()})):
            self._stretch(begin, end)
        return self.clock

    def _stretch(self, begin: int, end: int) -> None:
        clock = self.clock
        if self._banner[begin]:
            day, sample = next(self._dates), clock.sample
            self.clock = clock = Clock(day, part_day=day, sample=sample, at=sample, part_sample=sample)
            begin += 1
            if begin == end:
                return
        first, last = float(self.seconds[begin]), clock.last
        day, sample = clock.day + _wrapped(first, last), clock.at
        if self._restart[begin] or clock.part_first is None:
            last, sample = None, clock.sample
            clock = replace(clock, part_first=first, part_day=day, part_sample=sample)
        elif self._section[begin]:
            last, day, sample = None, clock.part_day + _wrapped(first, clock.part_first), clock.part_sample
        self._place(begin, end, day, sample, last)
        at = int(self.samples[end - 1])
        last, day = float(self.seconds[end - 1]), int(self.days[end - 1])
        self.clock = replace(clock, last=last, day=day, sample=max(clock.sample, at), at=at)

    def _place(self, begin: int, end: int, day: int, sample: int, last: float | None) -> None:
        """Number and date the lines of a stretch whose first is `day` days after the banner's date."""
        seconds, row = self.seconds[begin:end], self._row[begin:end]
        wraps = np.concatenate([[0], np.cumsum(np.diff(seconds) < -_SET_BACK_S)])
        self.days[begin:end] = wraps + day
        of_rows = seconds[row]
        changes = np.concatenate([[len(of_rows) > 0 and of_rows[0] != last], np.diff(of_rows) != 0])[: len(of_rows)]
        numbers: npt.NDArray[np.int64] = np.full(end - begin, sample, np.int64)
        numbers[row] += np.cumsum(changes)
        self.samples[begin:end] = np.maximum.accumulate(numbers)


def _wrapped(second: float, before: float | None) -> int:
    return int(before is not None and second < before - _SET_BACK_S)


def _times(days: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64], timezone: str, *, epochs: bool) -> pl.Series:
    """Times in UTC of local times, or of seconds since 1970."""
    if epochs:
        return pl.Series((seconds * 1e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    known = days > _UNKNOWN // 2
    local = ((np.where(known, days, 0) * _DAY_S + seconds) * 1e6).astype(np.int64)
    frame = pl.DataFrame({"local": pl.Series(local).cast(pl.Datetime("us")), "known": known})
    return frame.select(pl.when("known").then(in_utc(pl.col("local"), timezone))).to_series()
