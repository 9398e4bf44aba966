"""Estimates of ratios, differences and means, with one interval and one plan for all three.

A ratio and a positive mean are judged by their logarithm, a difference as it is. Each is an estimate on a straight
scale, with the standard error and the degrees of freedom of Student's t.

References:
    Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
    Browne, R. H. (1995). On the use of a pilot sample for sample size determination. Statistics in Medicine 14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from citus_analysis.defaults import ASSURANCE, POWER
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats.compare.evidence import Evidence
from citus_analysis.stats.estimate._student import chi2_quantile, smallest, t_quantile
from citus_analysis.stats.estimate.intervals import log_ratio_interval, welch_error

_MOST_RUNS: Final = 100_000


class Side(NamedTuple):
    """One side: its mean and, where they are known, standard deviation and n."""

    mean: float
    sd: float = math.nan
    n: int = 1


@dataclass(frozen=True)
class Estimate:
    """An estimate on a straight scale.

    Attributes:
        value: the estimate, of a ratio or mean its logarithm.
        error: its standard error; inf if a side has one run.
        freedom: degrees of freedom of the error; 0 if there is none.
        n: runs of the smaller side, or blocks.
        spread: standard deviation that one run of each side contributes.
        sets: sets of runs whose spread is known independently.
        logarithm: whether `value` is a logarithm.
        method: how the interval is computed.
    """

    value: float
    error: float
    freedom: float
    n: int
    spread: float
    sets: int
    logarithm: bool
    method: str

    @classmethod
    def of_ratio(cls, evidence: Evidence) -> Estimate:
        """The estimate of a comparison."""
        method = log_ratio_interval(1.0, 0.0, 1.0, evidence.n, design=evidence.design).method
        sets = 2 if evidence.design == "unpaired" else 1
        value, error, freedom = math.log(evidence.ratio), evidence.error, evidence.freedom
        return cls(value, error, freedom, evidence.n, evidence.spread, sets, True, method)

    @classmethod
    def of_ratio_of_means(cls, a: Side, b: Side) -> Estimate:
        """The ratio of two printed means.

        Raises:
            InsufficientDataError: a mean is not positive.
        """
        if min(a.mean, b.mean) <= 0:
            raise InsufficientDataError("a ratio needs positive means")
        return cls.of_ratio(Evidence.of_summaries(a, b))

    @classmethod
    def of_mean(cls, side: Side) -> Estimate:
        """A mean, by its logarithm if it is positive."""
        positive = side.mean > 0
        value, sd = (math.log(side.mean), side.sd / side.mean) if positive else (side.mean, side.sd)
        method = "Student t on the log scale" if positive else "Student t"
        known = side.n > 1
        error = sd / math.sqrt(side.n) if known else math.inf
        return cls(value, error, side.n - 1.0, side.n, sd, 1, positive, method)

    @classmethod
    def of_difference(cls, a: Side, b: Side | None = None) -> Estimate:
        """The difference of two sides, or the mean of differences within blocks."""
        if b is None:
            return cls(a.mean, a.sd / math.sqrt(a.n), a.n - 1.0, a.n, a.sd, 1, False, "paired t, block by block")
        value, n, spread = a.mean - b.mean, min(a.n, b.n), math.hypot(a.sd, b.sd)
        return cls(value, *welch_error((a.sd, a.n), (b.sd, b.n)), n, spread, 2, False, "Welch t")

    @property
    def shown(self) -> float:
        """The estimate as a ratio, mean or difference."""
        # To twelve digits, because a logarithm and its exponential do not give 1,000,000 back exactly.
        return float(f"{self._shown(self.value):.12g}")

    def ends(self, tail: float) -> tuple[float, float] | None:
        """The ends of the interval that leaves `tail` on each side; None without a spread."""
        if not self.freedom:
            return None
        reach = t_quantile(1 - tail, self.freedom) * self.error
        return self._shown(self.value - reach), self._shown(self.value + reach)

    def _shown(self, value: float) -> float:
        return math.exp(min(value, 700.0)) if self.logarithm else value

    def _straight(self, bound: float) -> float:
        """A bound on the scale of the value."""
        return bound if not self.logarithm else math.log(bound) if bound > 0 else -math.inf

    def runs_missing(self, low: float, high: float, tail: float) -> int | None:
        """Further runs of each side until the interval likely lies within, or outside of, some bounds.

        The estimate is assumed to stay the same; the spread is taken at its upper limit. None if it is not known, or if
        more than 100,000 runs would be needed.
        """
        if not self.freedom or not self.spread:
            return None
        gaps = [self.value - self._straight(low), self._straight(high) - self.value]
        inside = min(gaps) >= 0
        gap = min(gaps) if inside else -min(gaps)
        # Between two bounds, the interval must keep away from both.
        power = (1 + POWER) / 2 if inside and all(map(math.isfinite, gaps)) else POWER
        spread = self.spread * math.sqrt(self.freedom / chi2_quantile(1 - ASSURANCE, self.freedom))

        def decides(n: int) -> bool:
            freedom = (n - 1.0) * self.sets
            return (t_quantile(1 - tail, freedom) + t_quantile(power, freedom)) * spread / math.sqrt(n) <= gap

        needed = smallest(decides, 2, _MOST_RUNS)
        return None if needed is None else max(1, needed - self.n)
