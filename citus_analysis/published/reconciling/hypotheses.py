"""Hypotheses about the runs behind a row, weighed by the digits that they explain.

Every printed number that a hypothesis reproduces is evidence: its range of values is that much narrower than the values
that might have been printed. Evidence is counted in bits (log2 of how much narrower). A search over many hypotheses
finds agreement by chance, so that each costs the bits of its number: log2 of the subsets, the runs or the formulas
that were tried (the idea of minimum description length, Rissanen 1978). A hypothesis is claimed if it explains at least
:data:`CLAIM_BITS` more than all runs with the usual formulas do: by chance less often than once in a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from statistics import mean, median, variance
from typing import Final, Literal

from citus_analysis.published._printed import Printed
from citus_analysis.stats.estimate._student import normal_quantile, t_quantile

Kind = Literal["all", "subset", "one_differs"]
CLAIM_BITS: Final = 10.0
#: Names of formulas of the deviation, of the half width of the interval, and of what is no mean.
FORMULAS: Final = {
    "sample": "the sample's standard deviation (n - 1)",
    "population": "the population's standard deviation (n)",
    "standard error": "the standard error",
    "normal": "the normal quantile",
    "1.96": "1.96",
    "t": "Student's quantile",
    "median": "their median",
}
#: Most runs of which all subsets are tried; of more, those without at most `_LEFT_OUT`.
_ALL_SUBSETS: Final = 12
_LEFT_OUT: Final = 3
_USUAL: Final = ("", "sample", "normal", "1.96")


@dataclass(frozen=True)
class Statement:
    """What a row states of its runs.

    Attributes:
        mean: the mean.
        sigma: the standard deviation; None if it is not stated.
        low: lower end of the interval.
        high: upper end.
        level: its level.
        n: number of runs; None if it is not stated.
    """

    mean: Printed
    sigma: Printed | None = None
    low: Printed | None = None
    high: Printed | None = None
    level: float = 0.95
    n: int | None = None

    @property
    def half(self) -> tuple[float, float] | None:
        """The range of half the interval's width."""
        if self.low is None or self.high is None:
            return None
        return float(self.high.low - self.low.high) / 2, float(self.high.high - self.low.low) / 2

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the numbers that are stated."""
        names = {"mean": self.mean, "sigma": self.sigma, "interval": self.half}
        return tuple(name for name, value in names.items() if value is not None)


@dataclass(frozen=True)
class Hypothesis:
    """A set of runs and formulas, and what it reproduces.

    Attributes:
        kind: all runs; a subset of them; or all, if one value was another.
        used: places of the runs.
        matched: names of the numbers that it reproduces, each with the formula that it needs; empty for the mean's own.
        bits: evidence for it, less what the search costs.
        tried: hypotheses of its kind.
        changed: place of the value that differs.
        needed: what it would have to be.
    """

    kind: Kind
    used: tuple[int, ...]
    matched: Mapping[str, str]
    bits: float
    tried: int
    changed: int | None = None
    needed: Fraction | None = None

    @property
    def formulas(self) -> list[str]:
        """The formulas that it needs."""
        return [name for name in self.matched.values() if name]

    @property
    def is_unusual(self) -> bool:
        """Whether a formula is not the usual one."""
        return not {*self.matched.values()} <= {*_USUAL}


def hypotheses(runs: Sequence[Fraction], stated: Statement) -> list[Hypothesis]:
    """Hypotheses that reproduce at least two numbers, the best first, and always that of all runs.

    Nothing else is tried where all runs reproduce every number.
    """
    # What a mean or a deviation may be.
    scale = math.sqrt(float(variance_of(runs))) or abs(float(runs[0])) * 1e-3 or 1.0
    whole = _weighed("all", tuple(range(len(runs))), runs, stated, scale, 1)
    if set(whole.matched) == set(stated.stated):
        return [whole]
    found = [whole, *_subsets(runs, stated, scale), *_one_differs(runs, stated, scale)]
    return sorted(found, key=lambda one: (-one.bits, one.kind != "all", len(runs) - len(one.used)))


def variance_of(runs: Sequence[Fraction]) -> Fraction:
    """The sample's variance, exactly; 0 of one run."""
    return variance(runs) if len(runs) > 1 else Fraction(0)


def _subsets(runs: Sequence[Fraction], stated: Statement, scale: float) -> Iterator[Hypothesis]:
    n = len(runs)
    fewest = 2 if n <= _ALL_SUBSETS else n - _LEFT_OUT
    subsets = [used for size in range(fewest, n) for used in combinations(range(n), size)]
    low, high = float(stated.mean.low), float(stated.mean.high)
    values = [float(value) for value in runs]
    # Few subsets come near the mean; these are judged exactly.
    slack = 1e-9 * abs(high)
    near = (used for used in subsets if low - slack <= sum(values[i] for i in used) / len(used) <= high + slack)
    for used in near:
        found = _weighed("subset", used, [runs[i] for i in used], stated, scale, len(subsets))
        if "mean" in found.matched and len(found.matched) > 1:
            yield found


def _one_differs(runs: Sequence[Fraction], stated: Statement, scale: float) -> Iterator[Hypothesis]:
    """All runs, with one value such that the mean is the printed one."""
    n = len(runs)
    if stated.n not in (None, n) or n < 3:
        return
    for i in range(n):
        others = [*runs[:i], *runs[i + 1 :]]
        rest = sum(others, Fraction(0))
        ends = [bound * n - rest for bound in (stated.mean.low, stated.mean.high)]
        # The digits of a deviation may be finer than the range that the mean allows: they choose the value in it.
        fitting = [x for x in _giving_deviation(others, stated) if ends[0] <= x < ends[1]]
        values = [*fitting, stated.mean.value * n - rest]
        tried = [_weighed("one_differs", tuple(range(n)), [x, *others], stated, scale, n) for x in values]
        best, needed = max(zip(tried, values, strict=True), key=lambda one: (len(one[0].matched), one[0].bits))
        if len(best.matched) < 2:
            continue
        # The mean is no evidence where the value was chosen for it.
        bits = best.bits - _bits(scale, stated.mean.width)
        yield replace(best, bits=bits, changed=i, needed=needed)


def _giving_deviation(others: Sequence[Fraction], stated: Statement) -> Iterator[Fraction]:
    """Values that, with the others, give a deviation or an interval as it is printed."""
    n = len(others) + 1
    total, squares = sum(others, Fraction(0)), sum((value**2 for value in others), Fraction(0))
    targets = []
    if stated.sigma is not None:
        sigma = float(stated.sigma.low + stated.sigma.high) / 2
        exact = float(stated.sigma.value)
        targets += [sigma, exact, exact * math.sqrt(n / (n - 1)), exact * math.sqrt(n)]
    if stated.half is not None:
        middle = sum(stated.half) / 2
        targets += [middle * math.sqrt(n) / factor for factor in _quantiles(stated.level, n).values()]
    for target in targets:
        # (n - 1) variance = squares + x^2 - (total + x)^2 / n, solved for x.
        constant = float(squares - total**2 / n) - (n - 1) * target**2
        root = float(total / n) ** 2 - (1 - 1 / n) * constant
        if root >= 0:
            for sign in (1, -1):
                yield Fraction((float(total) / n + sign * math.sqrt(root)) / (1 - 1 / n))


def _bits(scale: float, width: float) -> float:
    return max(0.0, math.log2(4 * scale / width)) if width > 0 else 0.0


def _weighed(
    kind: Kind, used: tuple[int, ...], runs: Sequence[Fraction], stated: Statement, scale: float, tried: int
) -> Hypothesis:
    n, spread = len(runs), variance_of(runs)
    matched: dict[str, str] = {}
    bits = -math.log2(tried)
    is_median = kind == "all" and not stated.mean.allows(mean(runs))
    if stated.mean.allows(median(runs) if is_median else mean(runs)):
        matched["mean"] = "median" if is_median else ""
        bits += _bits(scale, stated.mean.width) - (1 if is_median else 0)
    if stated.sigma is not None:
        squares = {"sample": spread, "population": spread * (n - 1) / n, "standard error": spread / n}
        if name := next((name for name, square in squares.items() if stated.sigma.allows_root(square)), ""):
            matched["sigma"] = name
            bits += _bits(scale, stated.sigma.width) - (0 if name == "sample" else 1)
    if stated.half is not None and n > 1:
        low, high = stated.half
        error = math.sqrt(float(spread) / n)
        slack = 1e-9 * error
        factors = _quantiles(stated.level, n).items()
        if name := next((name for name, q in factors if low - slack <= q * error <= high + slack), ""):
            # A deviation that is printed right gives the interval as well.
            bits += (2.0 if "sigma" in matched else _bits(scale, high - low)) - math.log2(3)
            matched["interval"] = name
    return Hypothesis(kind, used, matched, bits, tried)


def _quantiles(level: float, n: int) -> dict[str, float]:
    """Formula -> factor of the standard error."""
    probability = 1 - (1 - level) / 2
    factors = {"normal": normal_quantile(probability), "t": t_quantile(probability, n - 1)}
    return factors | ({"1.96": 1.96} if math.isclose(level, 0.95) else {})
