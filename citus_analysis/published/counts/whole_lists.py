"""Whether a list of whole numbers can have a printed mean and standard deviation, in exact arithmetic.

The mean allows some sums; each sum and the deviation allow sums of squares, which are odd with the sum. GRIM (Brown and
Heathers 2017, doi 10.1177/1948550616673876) asks for a sum, GRIMMER (Anaya 2016, doi 10.7287/peerj.preprints.2400v1;
with the corrections of Allard 2018) for a sum of squares, and SPRITE (Heathers and others 2018, doi
10.7287/peerj.preprints.26968v1) for a list. Here, the search for a list leaves none out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, isqrt
from typing import Final, Literal

#: Most sums that are tried for one mean, longest list that is searched, and the steps of a search.
_MOST_SUMS: Final = 2_000
_LONGEST: Final = 200
_STEPS: Final = 30_000

Ends = tuple[Fraction, Fraction]
Failed = Literal["GRIM", "GRIMMER", "SPRITE"]


@dataclass(frozen=True)
class Verdict:
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
) -> Verdict:
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
        return Verdict("GRIM")
    # The sums next to the middle first: the most likely ones.
    middle = (sums[0] + sums[-1]) // 2
    chosen = sorted(sums, key=lambda total: abs(total - middle)) if len(sums) <= _MOST_SUMS else [middle]
    squares = {total: found for total in chosen if (found := _squares(n, total, sigma, ddof)) is not None}
    if not squares:
        failed: Failed | None = "GRIMMER" if len(sums) <= _MOST_SUMS else None
        return Verdict(failed, is_complete=failed is not None)
    if n > _LONGEST or (sigma is None and low is None and high is None):
        return Verdict(None, is_complete=n <= _LONGEST or sigma is None)
    search = _Search()
    for total, ends in squares.items():
        example = _with_extremes(search, n, total, ends, low, high)
        if example is not None:
            return Verdict(None, tuple(sorted(example, reverse=True)))
    sure = search.left > 0 and len(sums) <= _MOST_SUMS
    return Verdict("SPRITE" if sure else None, is_complete=sure)


def _squares(n: int, total: int, sigma: Ends | None, ddof: int) -> tuple[int, int] | None:
    """The smallest and largest sum of squares that the deviation allows, both odd with the sum; None if there is none.

    No whole numbers of this sum have a smaller sum of squares than those that differ by 1 at most.
    """
    least = _least_squares(n, total)
    if sigma is None:
        return least, total * total
    if n <= ddof:
        return None
    around = Fraction(total * total, n)
    first = max(ceil(max(sigma[0], Fraction(0)) ** 2 * (n - ddof) + around), least)
    last = floor(sigma[1] ** 2 * (n - ddof) + around)
    first, last = first + (first - total) % 2, last - (last - total) % 2
    return (first, last) if first <= last else None


def nearest_deviations(n: int, total: int, sigma: float) -> list[float]:
    """The sample's deviations of n whole numbers of this sum that are next to a value, if there may be any.

    Example:
        >>> [round(one, 3) for one in nearest_deviations(28, 145, 1.21)]
        [1.188, 1.219]
    """
    least, around = _least_squares(n, total), Fraction(total * total, n)
    below = floor(Fraction(sigma) ** 2 * (n - 1) + around)
    below -= (below - total) % 2
    squares = [one for one in (below, below + 2) if one >= least] or [least]
    return [float((one - around) / (n - 1)) ** 0.5 for one in squares]


def _least_squares(n: int, total: int) -> int:
    each, rest = divmod(total, n)
    return n * each * each + rest * (2 * each + 1)


def _with_extremes(
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
        if last < _least_squares(n, total) or first > _most_squares(n, total, low, high):
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


def _most_squares(n: int, total: int, low: int, high: int) -> int:
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
