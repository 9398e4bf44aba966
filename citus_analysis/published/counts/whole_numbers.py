"""Means of counts: whether whole numbers can have the printed mean and standard deviation (GRIM, GRIMMER, SPRITE)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import floor
from typing import Final, Literal, TypeAlias

from citus_analysis.published._printed import Printed
from citus_analysis.published._rows import Number
from citus_analysis.published.counts.counted_means import CountMean
from citus_analysis.published.counts.whole_lists import Ends, Verdict, judge_whole_numbers, nearest_deviations
from citus_analysis.texts.counted_words import listed
from citus_analysis.texts.number_text import readable

#: How mean and deviation may have been printed, the usual ways first: whether cut off, and n - 1 or n.
_WAYS: Final = {
    (False, 1): "",
    (True, 1): "if the digits were cut off, not rounded",
    (False, 0): "if sigma is the population's, by n and not n - 1",
    (True, 0): "if the digits were cut off, and sigma is the population's",
}
_REASONS: Final = {
    "GRIM": "no {n} whole numbers have this mean (GRIM)",
    "GRIMMER": "no {n} whole numbers with this mean have this sigma (GRIMMER)",
    "SPRITE": "no {n} whole numbers {bounds}have this mean and sigma: all lists were tried (SPRITE)",
}
#: A number whose only decimal is a zero: printed with one decimal, or a whole number of a floating-point column.
_ONE_ZERO: Final = re.compile(r"\d\.0(?!\d)")
#: Most numbers of an example that are shown.
_SHOWN: Final = 12


#: Severity, expected, stated and explanation of a finding about a mean of counts.
Judged: TypeAlias = tuple[Literal["green", "amber", "red"], str, str, str]


def judge_counts(n: int, counts: CountMean, unit: Fraction = Fraction(1)) -> Judged:
    """What can be said of one mean of whole numbers; red if no whole numbers are possible.

    Args:
        n: how many.
        counts: the mean, and what belongs to it.
        unit: what is counted, in base units.
    """
    low, high = (None if one is None else round(one.value) for one in (counts.low, counts.high))
    verdict, way = Verdict("GRIM"), ""
    for mean, sigma, ddof, words in _readings(counts, unit):
        found = judge_whole_numbers(n, mean, sigma, low, high, ddof=ddof)
        verdict = found if not words or found.failed is None else verdict
        if found.failed is None:
            way = words
            break
    if verdict.failed:
        why = _why(verdict, n, low, high)
        return "red", _expected(n, counts, verdict, unit), _stated(n, counts), why
    wanted = f"{n} whole numbers"
    if not verdict.is_complete:
        text = "neither found nor excluded: the search for whole numbers was bounded"
        return "amber", wanted, _stated(n, counts), text
    shown = listed([f"{one:,}" for one in verdict.example], _SHOWN)
    parts = ["whole numbers have these", *([f"such as {shown}"] if verdict.example else []), *([way] if way else [])]
    return "amber" if way else "green", wanted, _stated(n, counts), ", ".join(parts)


def _readings(counts: CountMean, unit: Fraction) -> Iterator[tuple[Ends, Ends | None, int, str]]:
    """The ways to read the mean and the deviation, the usual one first: their ends, what n loses, and a condition."""
    unclear = any(one is not None and _ONE_ZERO.search(one.stated) for one in (counts.mean, counts.sigma))
    for is_decimal in (True, False) if unclear else (True,):
        for (is_cut, ddof), words in _WAYS.items():
            mean, sigma = (
                _ends(one, counts.mean, unit, is_cut=is_cut, is_decimal=is_decimal)
                for one in (counts.mean, counts.sigma)
            )
            if mean is not None and (ddof or sigma is not None):
                zero = "" if is_decimal else "if the zero after the point is no digit"
                yield mean, sigma, ddof, ", and ".join(filter(None, (zero, words)))


def _ends(number: Number | None, mean: Number, unit: Fraction, *, is_cut: bool, is_decimal: bool) -> Ends | None:
    """The values that a number may stand for: rounded to even or up, so that both ends count; or cut off."""
    if number is None:
        return None
    printed = Printed.of(number, mean, is_decimal=is_decimal)
    scale = Fraction(repr(mean.metric.factor)) / unit
    half = printed.value - printed.low
    ends = (printed.value, printed.high) if is_cut else (printed.low, printed.value + half)
    return ends[0] * scale, ends[1] * scale


def _why(verdict: Verdict, n: int, low: int | None, high: int | None) -> str:
    bounds = [f"{word} {one:,}" for word, one in (("from", low), ("to", high)) if one is not None]
    return _REASONS[verdict.failed or "GRIM"].format(n=n, bounds="".join(f"{one} " for one in bounds))


def _expected(n: int, counts: CountMean, verdict: Verdict, unit: Fraction) -> str:
    """What would be possible: the nearest means, or the nearest deviations."""
    mean, each = counts.mean, float(unit) / counts.mean.metric.factor
    total = counts.mean.value / float(unit) * n
    if verdict.failed == "GRIM":
        return f"a mean of {readable(floor(total) * each / n)} or {readable((floor(total) + 1) * each / n)}"
    if verdict.failed != "GRIMMER" or counts.sigma is None or n < 2:
        return f"{n} whole numbers"
    sigma = Printed.of(counts.sigma, mean).value / Fraction(each)
    near = nearest_deviations(n, round(total), float(sigma))
    return f"a sigma of {' or '.join(readable(one * each) for one in near)}"


def _stated(n: int, counts: CountMean) -> str:
    parts = {"mean": counts.mean, "sigma": counts.sigma, "min": counts.low, "max": counts.high}
    stated = [f"{name} {number}" for name, number in parts.items() if number is not None]
    return f"{counts.quantity}: {', '.join(stated)}, n = {n}"
