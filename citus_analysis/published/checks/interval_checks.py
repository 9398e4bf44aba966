"""Checks that mean, standard deviation, number of repetitions and interval agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of
from citus_analysis.stats.estimate.intervals import MeanMethod, mean_interval_from_summary
from citus_analysis.texts.metric_names import level_in
from citus_analysis.texts.number_text import percent, readable

_MOST_REPEATS: Final = 200
#: Allows for 1.96 instead of 1.959964 and rounded input; n and n + 1 differ by more up to n = 500.
_TOLERANCE: Final = 0.001
_DEFAULT_LEVEL: Final = 0.95
#: Smaller values are not confidence levels, and their quantiles vanish.
_LEAST_LEVEL: Final = 0.01
#: Half-widths above this share of the mean hide the differences that papers discuss.
_COARSE: Final = 0.10
_NAMES: Final[dict[MeanMethod, str]] = {"normal": "normal quantile", "t": "Student's t"}


@dataclass(frozen=True)
class StatedInterval:
    """A mean with its interval, as a row states them."""

    row: Row
    mean: Number
    low: Number
    high: Number
    level: float

    @property
    def half_width(self) -> Range:
        """Half the width, as the range that the digits of the ends allow."""
        return (self.high.range - self.low.range).scaled(0.5)

    def __str__(self) -> str:
        return f"± {self.mean.printed(self.half_width.printed)}"


def stated_interval(row: Row) -> StatedInterval | None:
    """The interval that a row states, by its ends or by half its width; None if it states none."""
    half, low, high = (row.get(stem) for stem in ("interval_half", "interval_low", "interval_high"))
    spread = low if low is not None and high is not None else half
    mean = None if spread is None else row.mean_for(spread)
    if mean is None:
        return None
    if (low is None or high is None) and half is not None:
        low, high = _ends_about(mean, half)
    if low is None or high is None:
        return None
    stated = row["interval_level"].value if row.states("interval_level") else level_in(low.name) or _DEFAULT_LEVEL
    share = stated / 100 if stated > 1 else stated
    return StatedInterval(row, mean, low, high, share) if _LEAST_LEVEL < share < 1 else None


def _ends_about(mean: Number, half: Number) -> tuple[Number, Number]:
    """The ends of mean ± half, without the rounding of the mean, which shifts both equally."""
    relative = half.stated.endswith("%") or half.metric.dimension == "percent"
    width = half.range.scaled(mean.value / 100) if relative else half.range
    about = Range.exact(mean.value)
    low, high = (
        replace(half, value=end.printed, range=end, stated=readable(end.printed))
        for end in (about - width, about + width)
    )
    return low, high


def implied_n(interval: StatedInterval, method: MeanMethod) -> list[int]:
    """Numbers of repetitions at which the row's sigma gives the interval's width."""
    if not interval.row.states("sigma"):
        return []
    sigma, width = interval.row["sigma"].range, interval.half_width
    return [n for n in range(2, _MOST_REPEATS + 1) if _half_width(sigma, n, interval.level, method).overlaps(width)]


@cache
def _unit_half_width(n: int, level: float, method: MeanMethod) -> float:
    return mean_interval_from_summary(0.0, 1.0, n, level, method).half_width


def _half_width(sigma: Range, n: int, level: float, method: MeanMethod) -> Range:
    unit = _unit_half_width(n, level, method)
    return Range(unit * (1 - _TOLERANCE), unit * (1 + _TOLERANCE)) * sigma


def _intervals(tables: Sequence[ResultTable]) -> Iterator[StatedInterval]:
    return (interval for row in rows_of(tables) if (interval := stated_interval(row)))


@check("interval_centre", "Does the mean lie in the middle of its interval?", _intervals)
def interval_centre(interval: StatedInterval) -> Iterator[Finding]:
    """An interval of either formula is symmetric about its mean."""
    mean, low, high = interval.mean, interval.low, interval.high
    centre = (low.range + high.range).scaled(0.5)
    outside = mean.range.high < low.range.low or mean.range.low > high.range.high or low.value > high.value
    red = "the mean lies outside its own interval" if outside else ""
    amber = "" if centre.overlaps(mean.range) else "the interval is not centred on its mean, as mean ± half-width is"
    expected = mean.printed(centre.printed)
    yield finding(interval.row, expected, str(mean), "mean in the middle", red=red, amber=amber)


@check("interval_n", "For which number of repetitions do sigma and interval agree?", iter)
def interval_n(table: ResultTable) -> Iterator[Finding]:
    """Invert half-width = quantile × sigma / √n under the normal quantile and under Student's t."""
    implied: list[list[int]] = []
    for interval in _intervals([table]):
        if interval.row.states("sigma"):
            fits = {method: implied_n(interval, method) for method in _NAMES}
            if interval.row.n is None:
                implied.append(fits["normal"] or fits["t"])
            yield _judge_n(interval, fits)
    if len(implied) > 1 and all(implied) and not set.intersection(*map(set, implied)):
        stated = "n = " + ", ".join(_either(ns) for ns in implied)
        text = f"the widths of the intervals imply {stated} in the order of the rows"
        yield Finding("amber", "", table.source, table.name, "all rows", "one n", stated, text)


def _judge_n(interval: StatedInterval, fits: dict[MeanMethod, list[int]]) -> Finding:
    row, sigma, n = interval.row, interval.row["sigma"], interval.row.n
    wanted = "; ".join(f"n = {_either(ns)} ({_NAMES[method]})" for method, ns in fits.items() if ns)
    if not wanted:
        text = (
            f"no number of repetitions gives an interval of {interval} from this sigma; "
            "with the normal quantile the interval needs the expected ones"
        )
        return finding(row, _needed_sigma(interval), f"sigma {sigma}", red=text)
    if n is None:
        text = f"{interval} follows from this sigma at that n; the publication does not state n"
        return finding(row, wanted, "n not stated", amber=text)
    agree = any(n in ns for ns in fits.values())
    red = "" if agree else f"{interval} does not follow from this sigma at the stated n"
    return finding(row, wanted, f"n = {n}", "sigma, n and interval agree", red=red)


def _needed_sigma(interval: StatedInterval) -> str:
    factor, half = interval.row["sigma"].metric.factor, interval.half_width.printed
    needed = {k: half / _unit_half_width(k, interval.level, "normal") / factor for k in (3, 4, 5)}
    return "sigma " + ", ".join(f"{readable(sigma)} at n = {k}" for k, sigma in needed.items())


@check("interval_quantile", "Is the interval as wide as Student's t makes it at that n?", _intervals)
def interval_quantile(interval: StatedInterval) -> Iterator[Finding]:
    """The normal quantile gives an interval that is too narrow for a handful of repetitions."""
    n = _repetitions(interval.row)
    if n is None or not interval.row.states("sigma"):
        return
    wide, width = _half_width(interval.row["sigma"].range, n, interval.level, "t"), interval.half_width
    narrow = width.high < wide.low
    share = percent(width.printed / wide.printed) if narrow else ""
    amber = f"the interval has {share} of the width that Student's t gives {n} repetitions" if narrow else ""
    expected = f"± {interval.mean.printed(wide.printed)} at n = {n}"
    yield finding(interval.row, expected, str(interval), "wide enough", amber=amber)


@check("interval_resolution", "Which differences can the repetitions with their spread show?", rows_of)
def interval_resolution(row: Row) -> Iterator[Finding]:
    """A mean of few scattered runs cannot support a claim of no difference."""
    sigma, mean = row.sigma_and_mean
    n = _repetitions(row)
    if row.n is not None and row.n < 3 and row.states("throughput"):
        text = "too few repetitions to estimate their spread"
        yield finding(row, "n of 3 or more", f"n = {row.n}", amber=text)
    elif sigma and mean and mean.value and n is not None:
        share = _half_width(sigma.range, n, _DEFAULT_LEVEL, "t").printed / abs(mean.value)
        stated = f"sigma {percent(sigma.value / abs(mean.value), 1)} of the mean, n = {n}"
        known = f"the mean is known to ± {percent(share, 1)}"
        text = f"{known} (Student's t): smaller differences, or their absence, do not show"
        coarse = share > _COARSE
        yield finding(row, f"± {percent(_COARSE)} or better", stated, known, amber=text if coarse else "")


def _repetitions(row: Row) -> int | None:
    """The stated n, else the one that the row's interval implies."""
    if row.n is None:
        interval = stated_interval(row)
        return None if interval is None else next(iter(implied_n(interval, "normal")), None)
    return row.n if row.n > 1 else None


def _either(ns: Sequence[int]) -> str:
    return str(ns[0]) if len(ns) == 1 else f"{ns[0]} to {ns[-1]}"
