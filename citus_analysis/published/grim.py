"""Means of counts: whether whole numbers can have the printed mean and standard deviation (GRIM, GRIMMER, SPRITE)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, isqrt
from typing import Final, Literal, TypeAlias

from citus_analysis.published.rows import APPROXIMATE, Printed, Row, StatedNumber
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import join_words

# Whether a list of whole numbers can have a printed mean and standard deviation, in exact arithmetic.
#
# The mean allows some sums; each sum and the deviation allow sums of squares, which are odd with the sum. GRIM (Brown
# and Heathers 2017, doi 10.1177/1948550616673876) asks for a sum, GRIMMER (Anaya 2016, doi
# 10.7287/peerj.preprints.2400v1; with the corrections of Allard 2018) for a sum of squares, and SPRITE (Heathers and
# others 2018, doi 10.7287/peerj.preprints.26968v1) for a list. Here, the search for a list leaves none out.

#: Most sums that are tried for one mean, longest list that is searched, and the steps of a search.
_MOST_SUMS: Final = 2_000
_LONGEST: Final = 200
_STEPS: Final = 30_000

Ends = tuple[Fraction, Fraction]
Failed = Literal["GRIM", "GRIMMER", "SPRITE"]


@dataclass(frozen=True)
class GrimVerdict:
    """What can be said of n whole numbers.

    Attributes:
        failed: the first test that fails; None if none does.
        example: n whole numbers as wanted; empty if they were not searched, or not found.
        is_complete: whether the answer is sure. A search that took too long is not.
    """

    failed: Failed | None
    example: tuple[int, ...] = ()
    is_complete: bool = True


def judge_whole_numbers(
    n: int, mean: Ends, sigma: Ends | None = None, low: int | None = None, high: int | None = None, *, ddof: int = 1
) -> GrimVerdict:
    """Whether n whole numbers have a mean and a standard deviation within given ends, both ends included.

    Args:
        n: how many.
        mean: ends of the mean.
        sigma: ends of the standard deviation; None if it is not known.
        low: the smallest of the numbers, which is one of them; None for any that is not negative.
        high: the largest of the numbers, which is one of them.
        ddof: 1 for the sample's deviation, 0 for the population's.

    Example:
        >>> ends = lambda text, half: (Fraction(text) - Fraction(half), Fraction(text) + Fraction(half))
        >>> judge_whole_numbers(28, ends("5.19", "0.005")).failed  # Brown and Heathers (2017)
        'GRIM'
        >>> judge_whole_numbers(4, ends("2.5", "0.05"), ends("1.29", "0.005")).example
        (4, 3, 2, 1)
    """
    sums = range(max(ceil(mean[0] * n), 0), floor(mean[1] * n) + 1)
    if not sums:
        return GrimVerdict("GRIM")
    # The sums next to the middle first: the most likely ones.
    middle = (sums[0] + sums[-1]) // 2
    chosen = sorted(sums, key=lambda total: abs(total - middle)) if len(sums) <= _MOST_SUMS else [middle]
    squares = {
        total: found for total in chosen if (found := _compute_square_sum_bounds(n, total, sigma, ddof)) is not None
    }
    if not squares:
        failed: Failed | None = "GRIMMER" if len(sums) <= _MOST_SUMS else None
        return GrimVerdict(failed, is_complete=failed is not None)
    if n > _LONGEST or (sigma is None and low is None and high is None):
        return GrimVerdict(None, is_complete=n <= _LONGEST or sigma is None)
    search = _Search()
    for total, ends in squares.items():
        example = _search_list_with_extremes(search, n, total, ends, low, high)
        if example is not None:
            return GrimVerdict(None, tuple(sorted(example, reverse=True)))
    sure = search.left > 0 and len(sums) <= _MOST_SUMS
    return GrimVerdict("SPRITE" if sure else None, is_complete=sure)


def _compute_square_sum_bounds(n: int, total: int, sigma: Ends | None, ddof: int) -> tuple[int, int] | None:
    """The smallest and largest sum of squares that the deviation allows, both odd with the sum; None if there is none.

    No whole numbers of this sum have a smaller sum of squares than those that differ by 1 at most.
    """
    least = _compute_least_square_sum(n, total)
    if sigma is None:
        return least, total * total
    if n <= ddof:
        return None
    around = Fraction(total * total, n)
    first = max(ceil(max(sigma[0], Fraction(0)) ** 2 * (n - ddof) + around), least)
    last = floor(sigma[1] ** 2 * (n - ddof) + around)
    first, last = first + (first - total) % 2, last - (last - total) % 2
    return (first, last) if first <= last else None


def find_nearest_deviations(n: int, total: int, sigma: float) -> list[float]:
    """The sample's deviations of n whole numbers of this sum that are next to a value, if there may be any.

    Example:
        >>> [round(one, 3) for one in find_nearest_deviations(28, 145, 1.21)]
        [1.188, 1.219]
    """
    least, around = _compute_least_square_sum(n, total), Fraction(total * total, n)
    below = floor(Fraction(sigma) ** 2 * (n - 1) + around)
    below -= (below - total) % 2
    squares = [one for one in (below, below + 2) if one >= least] or [least]
    return [float((one - around) / (n - 1)) ** 0.5 for one in squares]


def _compute_least_square_sum(n: int, total: int) -> int:
    each, rest = divmod(total, n)
    return n * each * each + rest * (2 * each + 1)


def _search_list_with_extremes(
    search: _Search, n: int, total: int, squares: tuple[int, int], low: int | None, high: int | None
) -> list[int] | None:
    """A list that has the printed extremes among its numbers."""
    known = [one for one in (low, high) if one is not None]
    if n == 1 and len(set(known)) == 1:
        known = known[:1]
    left = [end - sum(one * one for one in known) for end in squares]
    top = high if high is not None else isqrt(squares[1])
    rest = search.find(n - len(known), total - sum(known), left[0], left[1], low or 0, top)
    return None if rest is None else [*rest, *known]


@dataclass
class _Search:
    """A search over all lists, largest number first, that leaves out only what bounds exclude.

    Attributes:
        left: steps that are left.
    """

    left: int = field(default=_STEPS)

    def find(self, n: int, total: int, first: int, last: int, low: int, high: int) -> list[int] | None:
        """Numbers from `low` to `high` of this sum, and with a sum of squares from `first` to `last`."""
        self.left -= 1
        if n <= 0:
            return [] if n == 0 and total == 0 and first <= 0 <= last else None
        if self.left <= 0 or not n * low <= total <= n * high:
            return None
        if last < _compute_least_square_sum(n, total) or first > _compute_largest_square_sum(n, total, low, high):
            return None
        if n == 1:
            return [total]
        if n == 2:
            return _pair(total, first, last, low, high)
        widest = (total + isqrt((n - 1) * (n * last - total * total))) // n
        for one in range(min(high, widest, total - (n - 1) * low), -(-total // n) - 1, -1):
            rest = self.find(n - 1, total - one, first - one * one, last - one * one, low, one)
            if rest is not None or self.left <= 0:
                return rest and [one, *rest]
        return None


def _compute_largest_square_sum(n: int, total: int, low: int, high: int) -> int:
    """The largest sum of squares: as many numbers at the ends as the sum allows."""
    if low == high:
        return n * low * low
    at_high, rest = divmod(total - n * low, high - low)
    between = (low + rest) ** 2 if at_high < n else 0
    return at_high * high * high + between + max(n - at_high - 1, 0) * low * low


def _pair(total: int, first: int, last: int, low: int, high: int) -> list[int] | None:
    """Two numbers: (a - b)² = 2 (a² + b²) - (a + b)²."""
    wanted = max(2 * first - total * total, 0)
    apart = isqrt(wanted) + (isqrt(wanted) ** 2 < wanted)
    apart += (apart - total) % 2
    if apart * apart > 2 * last - total * total or apart > min(2 * high - total, total - 2 * low):
        return None
    return [(total + apart) // 2, (total - apart) // 2]


# Means of counted things: numbers whose single values are whole, by the words of their names and units.
#
# `mean errors`, `failed_operations (avg)` and `number of transactions, mean` are means of whole numbers. Names that are
# used for rates as well (`mean transactions`) need a word that says it: `count`, `number`, `total`, or the unit
# `count`. Averages over time (`mean connections`) are not whole in a run and need it too.

#: Things that are only ever counted.
_EVENTS: Final = frozenset(
    re.findall(
        r"\w+",
        """errors failures failed aborts aborted deadlocks retries timeouts conflicts rollbacks restarts crashes
        exceptions checkpoints disconnects""",
    )
)
#: Things that are counted, but whose names people use for rates and averages over time too.
_WORK: Final = frozenset(
    re.findall(
        r"\w+",
        """operations ops transactions requests queries statements rows records inserts updates reads writes commits
        connections sessions samples""",
    )
)
_COUNT: Final = frozenset({"count", "counts", "number", "total"})
#: Words of a name that say nothing of the quantity.
_FILLING: Final = frozenset({"of", "the", "in", "k", "m", "thousand", "thousands", "million", "n"})
_ROLES: Final = {
    "mean": {"mean", "avg", "average"},
    "sigma": {"sd", "std", "stdev", "stddev", "sigma", "dev", "deviation", "standard"},
    "min": {"min", "minimum"},
    "max": {"max", "maximum"},
}
_EACH_RUN: Final = re.compile(r"\bper[ _]?(?:run|iteration|repetition|repeat|trial)\b")


@dataclass(frozen=True)
class CountMean:
    """A mean of whole numbers in a row, with the numbers that belong to it.

    Attributes:
        quantity: what is counted.
        mean: the mean.
        sigma: the standard deviation of the single values.
        low: the smallest of them.
        high: the largest.
    """

    quantity: str
    mean: StatedNumber
    sigma: StatedNumber | None = None
    low: StatedNumber | None = None
    high: StatedNumber | None = None


def parse_counted_quantity(name: str, unit: str = "") -> tuple[str, str] | None:
    """The counted quantity of a name, and whether the name means its mean, deviation, smallest or largest value.

    Example:
        >>> parse_counted_quantity("mean failed operations"), parse_counted_quantity("errors_sd")
        (('failed operations', 'mean'), ('errors', 'sigma'))
        >>> parse_counted_quantity("mean transactions"), parse_counted_quantity("errors/s")
        (None, None)
    """
    if "±" in name:
        return None
    text = _EACH_RUN.sub("", f"{name} {unit}".lower())
    words = [word for word in re.findall(r"[^\W\d_]+|\d+|%", text) if word not in _FILLING]
    roles = [role for role, names in _ROLES.items() if names & set(words)]
    rest = list(dict.fromkeys(word for word in words if not any(word in names for names in _ROLES.values())))
    said = bool(_COUNT & set(rest))
    thing = [word for word in rest if word not in _COUNT]
    known = all(word in _EVENTS | _WORK for word in thing) and (said or bool(_EVENTS & set(thing)))
    # The unit `count` says it of any quantity.
    if len(roles) > 1 or not (known or unit.lower() in ("count", "counts")):
        return None
    role = roles[0] if roles else "mean" if _EACH_RUN.search(name.lower()) else ""
    return " ".join(thing) or "count", role


def means_of_counts(row: Row) -> Iterator[CountMean]:
    """The means of counted things that a row states; a number beside its deviation is a mean."""
    found: dict[str, dict[str, StatedNumber]] = defaultdict(dict)
    for number in (one for numbers in row.numbers.values() for one in numbers[:1] if not one.metric.dimension):
        named = parse_counted_quantity(number.name, number.unit)
        if named is not None:
            quantity, role = named
            found[quantity].setdefault(role, number)
    bare = row.get("sigma")
    for quantity, numbers in found.items():
        mean, sigma = numbers.get("mean"), numbers.get("sigma")
        if sigma is None and bare is not None and not bare.metric.dimension and len(found) == 1:
            sigma = bare if row.mean_for(bare) in (None, mean) else None
        mean = mean or (numbers.get("") if sigma is not None else None)
        # What a publication calls an approximation has no certain digits.
        if mean is not None and mean.value >= 0 and APPROXIMATE not in mean.stated:
            yield CountMean(quantity, mean, sigma, numbers.get("min"), numbers.get("max"))


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
    verdict, way = GrimVerdict("GRIM"), ""
    for mean, sigma, ddof, words in _iterate_readings(counts, unit):
        found = judge_whole_numbers(n, mean, sigma, low, high, ddof=ddof)
        verdict = found if not words or found.failed is None else verdict
        if found.failed is None:
            way = words
            break
    if verdict.failed:
        why = _explain_verdict(verdict, n, low, high)
        return "red", _describe_possible_values(n, counts, verdict, unit), _format_stated_counts(n, counts), why
    wanted = f"{n} whole numbers"
    if not verdict.is_complete:
        text = "neither found nor excluded: the search for whole numbers was bounded"
        return "amber", wanted, _format_stated_counts(n, counts), text
    shown = join_words([f"{one:,}" for one in verdict.example], _SHOWN)
    parts = ["whole numbers have these", *([f"such as {shown}"] if verdict.example else []), *([way] if way else [])]
    return "amber" if way else "green", wanted, _format_stated_counts(n, counts), ", ".join(parts)


def _iterate_readings(counts: CountMean, unit: Fraction) -> Iterator[tuple[Ends, Ends | None, int, str]]:
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


def _ends(
    number: StatedNumber | None, mean: StatedNumber, unit: Fraction, *, is_cut: bool, is_decimal: bool
) -> Ends | None:
    """The values that a number may stand for: rounded to even or up, so that both ends count; or cut off."""
    if number is None:
        return None
    printed = Printed.of(number, mean, is_decimal=is_decimal)
    scale = Fraction(repr(mean.metric.factor)) / unit
    half = printed.value - printed.low
    ends = (printed.value, printed.high) if is_cut else (printed.low, printed.value + half)
    return ends[0] * scale, ends[1] * scale


def _explain_verdict(verdict: GrimVerdict, n: int, low: int | None, high: int | None) -> str:
    bounds = [f"{word} {one:,}" for word, one in (("from", low), ("to", high)) if one is not None]
    return _REASONS[verdict.failed or "GRIM"].format(n=n, bounds="".join(f"{one} " for one in bounds))


def _describe_possible_values(n: int, counts: CountMean, verdict: GrimVerdict, unit: Fraction) -> str:
    """What would be possible: the nearest means, or the nearest deviations."""
    mean, each = counts.mean, float(unit) / counts.mean.metric.factor
    total = counts.mean.value / float(unit) * n
    if verdict.failed == "GRIM":
        return f"a mean of {format_number(floor(total) * each / n)} or {format_number((floor(total) + 1) * each / n)}"
    if verdict.failed != "GRIMMER" or counts.sigma is None or n < 2:
        return f"{n} whole numbers"
    sigma = Printed.of(counts.sigma, mean).value / Fraction(each)
    near = find_nearest_deviations(n, round(total), float(sigma))
    return f"a sigma of {' or '.join(format_number(one * each) for one in near)}"


def _format_stated_counts(n: int, counts: CountMean) -> str:
    parts = {"mean": counts.mean, "sigma": counts.sigma, "min": counts.low, "max": counts.high}
    stated = [f"{name} {number}" for name, number in parts.items() if number is not None]
    return f"{counts.quantity}: {', '.join(stated)}, n = {n}"
