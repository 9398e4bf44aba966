"""Hypotheses about the runs behind a row, weighed by the digits that they explain.

Every printed number that a hypothesis reproduces is evidence: its range of values is that much narrower than the values
that might have been printed. Evidence is counted in bits (log2 of how much narrower). A search over many hypotheses
finds agreement by chance, so that each costs the bits of its number: log2 of the subsets, the runs or the formulas
that were tried (the idea of minimum description length, Rissanen 1978). A hypothesis is claimed if it explains at least
:data:`CLAIM_BITS` more than all runs with the usual formulas do: by chance less often than once in a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import Final, Literal

from citus_analysis.published._printed import Printed
from citus_analysis.stats.estimate._student import normal_quantile, t_quantile

Kind = Literal["all", "subset", "one_differs"]
CLAIM_BITS: Final = 10.0
#: Names of formulas of the deviation, and of the half width of the interval.
FORMULAS: Final = {
    "sample": "the sample's standard deviation (n - 1)",
    "population": "the population's standard deviation (n)",
    "standard error": "the standard error",
    "normal": "the normal quantile",
    "1.96": "1.96",
    "t": "Student's quantile",
}
_MEDIAN: Final = "median"
#: Most runs of which all subsets are tried; of more, those without at most `_LEFT_OUT`.
_ALL_SUBSETS: Final = 12
_LEFT_OUT: Final = 3
_USUAL: Final = ("sample", "normal")


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
        matched: names of the numbers that it reproduces.
        formulas: formulas that it needs: of the deviation and of the interval.
        bits: evidence for it, less what the search costs.
        tried: hypotheses of its kind.
        changed: place of the value that differs.
        needed: what it would have to be.
    """

    kind: Kind
    used: tuple[int, ...]
    matched: tuple[str, ...]
    formulas: tuple[str, ...]
    bits: float
    tried: int
    changed: int | None = None
    needed: Fraction | None = None
    unusual: tuple[str, ...] = field(default=())


def hypotheses(runs: Sequence[Fraction], stated: Statement) -> list[Hypothesis]:
    """Hypotheses that reproduce at least two numbers, the best first, and always that of all runs.

    Nothing else is tried where all runs reproduce every number.
    """
    scale = _scale(runs)
    whole = _weighed("all", tuple(range(len(runs))), runs, stated, scale, 1)
    if set(whole.matched) == set(stated.stated):
        return [whole]
    found = [whole, *_subsets(runs, stated, scale), *_one_differs(runs, stated, scale)]
    return sorted(found, key=lambda one: (-one.bits, one.kind != "all", len(runs) - len(one.used)))


def _scale(runs: Sequence[Fraction]) -> float:
    """The spread of the runs: what a mean or a deviation may be."""
    spread = math.sqrt(float(_variance(runs))) if len(runs) > 1 else 0.0
    return spread or abs(float(runs[0])) * 1e-3 or 1.0


def _variance(runs: Sequence[Fraction]) -> Fraction:
    mean = sum(runs, Fraction(0)) / len(runs)
    return sum(((value - mean) ** 2 for value in runs), Fraction(0)) / (len(runs) - 1)


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
        rest = sum((value for j, value in enumerate(runs) if j != i), Fraction(0))
        ends = [bound * n - rest for bound in (stated.mean.low, stated.mean.high)]
        others = [value for j, value in enumerate(runs) if j != i]
        # The digits of a deviation may be finer than the range that the mean allows: they choose the value in it.
        fitting = [x for x in _giving_deviation(others, stated) if ends[0] <= x < ends[1]]
        values = [*fitting, stated.mean.value * n - rest]
        tried = [_weighed("one_differs", tuple(range(n)), _with(runs, i, x), stated, scale, n) for x in values]
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


def _with(runs: Sequence[Fraction], place: int, value: Fraction) -> list[Fraction]:
    return [value if j == place else one for j, one in enumerate(runs)]


def _bits(scale: float, width: float) -> float:
    return max(0.0, math.log2(4 * scale / width)) if width > 0 else 0.0


def _weighed(
    kind: Kind, used: tuple[int, ...], runs: Sequence[Fraction], stated: Statement, scale: float, tried: int
) -> Hypothesis:
    n = len(runs)
    mean, variance = sum(runs, Fraction(0)) / n, _variance(runs) if n > 1 else Fraction(0)
    matched: list[str] = []
    formulas: list[str] = []
    bits = -math.log2(tried)
    if stated.mean.allows(mean):
        matched.append("mean")
        bits += _bits(scale, stated.mean.width)
    elif kind == "all" and stated.mean.allows(_median(runs)):
        matched.append("mean")
        formulas.append(_MEDIAN)
        bits += _bits(scale, stated.mean.width) - 1
    if stated.sigma is not None:
        squares = {"sample": variance, "population": variance * (n - 1) / n, "standard error": variance / n}
        name = next((name for name, square in squares.items() if stated.sigma.allows_root(square)), None)
        if name is not None:
            matched.append("sigma")
            formulas.append(name)
            bits += _bits(scale, stated.sigma.width) - (0 if name == "sample" else 1)
    if stated.half is not None and n > 1:
        name = _interval_formula(variance, n, stated)
        if name is not None:
            matched.append("interval")
            formulas.append(name)
            # A deviation that is printed right gives the interval as well.
            bits += (2.0 if "sigma" in matched else _bits(scale, stated.half[1] - stated.half[0])) - math.log2(3)
    unusual = tuple(name for name in formulas if name not in (*_USUAL, "1.96"))
    return Hypothesis(kind, used, tuple(matched), tuple(formulas), bits, tried, unusual=unusual)


def _median(runs: Sequence[Fraction]) -> Fraction:
    ordered = sorted(runs)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _interval_formula(variance: Fraction, n: int, stated: Statement) -> str | None:
    """The formula with which the deviation gives half the width that is printed."""
    half = stated.half or (0.0, 0.0)
    error = math.sqrt(float(variance) / n)
    slack = 1e-9 * error
    fitting = (
        name for name, q in _quantiles(stated.level, n).items() if half[0] - slack <= q * error <= half[1] + slack
    )
    return next(fitting, None)


def _quantiles(level: float, n: int) -> dict[str, float]:
    """Formula -> factor of the standard error."""
    probability = 1 - (1 - level) / 2
    factors = {"normal": normal_quantile(probability), "t": t_quantile(probability, n - 1)}
    return factors | ({"1.96": 1.96} if math.isclose(level, 0.95) else {})
