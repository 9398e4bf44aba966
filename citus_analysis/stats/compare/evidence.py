"""Evidence of a ratio: its estimate, the error of its logarithm, and the tests and plans based on them.

References:
    Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
    Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure (TOST). J. Pharmacokin. Biopharm. 15.
    Browne, R. H. (1995). On the use of a pilot sample for sample size determination. Statistics in Medicine 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import ASSURANCE, POWER
from citus_analysis.errors import UsageError
from citus_analysis.stats.compare.mixed import IterationEffect
from citus_analysis.stats.estimate._student import chi2_quantile, smallest, t_quantile, t_tail
from citus_analysis.stats.estimate.intervals import Design, log_ratio_error, log_ratio_interval, moments
from citus_analysis.stats.results import Interval

#: Mean, standard deviation and n, which is not a whole number if runs are correlated.
Summary = tuple[float, float, float]
_MOST_RUNS: Final = 100_000


@dataclass(frozen=True)
class Evidence:
    """A ratio of means with the error of its logarithm.

    Attributes:
        ratio: mean of `a` over mean of `b`; ratio of the geometric means if runs are paired or iterations random.
        error: standard error of its logarithm; inf if a side has a single run, which has no spread.
        freedom: its degrees of freedom; 0 if there is no error.
        n: runs of the smaller side, or blocks.
        spread: standard deviation of the log ratio of one run of each side, within an iteration if these are modelled.
        design: relation between the runs of both sides.
    """

    ratio: float
    error: float
    freedom: float
    n: int
    spread: float
    design: Design = "unpaired"

    @classmethod
    def of_summaries(cls, a: Summary, b: Summary) -> Evidence:
        """Evidence of two independent sets; the variance of the log of a mean is (sd/mean)²/n by the delta method."""
        error, freedom = log_ratio_error(a, b)
        spread = math.hypot(a[1] / a[0], b[1] / b[0])
        return cls(a[0] / b[0], error, freedom, int(min(a[2], b[2])), spread)

    @classmethod
    def of_blocks(cls, a: Floats, b: Floats) -> Evidence:
        """Evidence of pairs of runs that were made in the same block.

        Raises:
            UsageError: unequal numbers of runs, fewer than two blocks, or a value that is not positive.
        """
        if a.size != b.size or a.size < 2:
            raise UsageError(f"{a.size} against {b.size} runs make no blocks", way_out="pass two or more runs of each")
        if min(a.min(), b.min()) <= 0:
            raise UsageError("the ratio of a block needs positive values")
        ratios = np.log(a / b)
        spread = float(ratios.std(ddof=1))
        # Equal ratios may differ in their last digits, which is not a spread.
        spread = 0.0 if spread < 1e-12 else spread
        error = spread / math.sqrt(a.size)
        return cls(math.exp(float(ratios.mean())), error, a.size - 1.0, a.size, spread, "paired")

    @classmethod
    def of_iterations(cls, effect: IterationEffect, n: int) -> Evidence:
        """Evidence of runs whose iterations share conditions, with n runs on the smaller side."""
        ratio, spread = math.exp(effect.log_ratio), math.sqrt(2 * effect.variance_within)
        return cls(ratio, effect.error, effect.freedom, n, spread, "mixed")

    def interval(self, level: float, family: int = 1) -> Interval:
        """Interval of the ratio, as one of a family of simultaneous ones (:func:`log_ratio_interval`)."""
        return log_ratio_interval(self.ratio, self.error, self.freedom, self.n, level, family, self.design)

    def p_difference(self) -> float:
        """Two-sided t test of a ratio of 1; nan without an error."""
        distance = abs(math.log(self.ratio))
        if not self.freedom:
            return math.nan
        return 2 * t_tail(distance / self.error, self.freedom) if self.error else float(distance == 0)

    def p_equivalence(self, margin: float) -> float:
        """The larger p-value of the two one-sided tests against both ends of the margin; nan without an error."""
        return self._p_within(math.log1p(margin) - abs(math.log(self.ratio)))

    def runs_needed(self, margin: float, alpha: float) -> int | None:
        """Smallest n per set at which a difference, or equivalence, is shown with the planned power.

        The ratio is assumed to stay the same. The spread is known from few runs only, so its upper confidence limit at
        the default assurance is used.

        Args:
            margin: relative difference that counts as none.
            alpha: level of the tests; for one of m tests that are adjusted together, 1/m of the family's level.
        """
        distance, bound = abs(math.log(self.ratio)), math.log1p(margin)

        def decides(error: float, freedom: float) -> bool:
            differs = (t_quantile(1 - alpha / 2, freedom) + t_quantile(POWER, freedom)) * error <= distance
            # At a ratio near 1 both one-sided tests must succeed, which costs power on each side.
            both = t_quantile(1 - alpha, freedom) + t_quantile((1 + POWER) / 2, freedom)
            return differs or both * error <= bound - distance

        return self._smallest(decides)

    def p_not_worse(self, margin: float, *, higher_is_better: bool = True) -> float:
        """One-sided test against the end of the margin on which `a` is worse; nan without an error."""
        return self._p_within(math.log1p(margin) + self._gain(higher_is_better))

    def _p_within(self, inside: float) -> float:
        """One-sided test that the log ratio lies within a bound, given how far inside it was measured."""
        if not self.freedom:
            return math.nan
        return t_tail(inside / self.error, self.freedom) if self.error else float(inside <= 0)

    def runs_to_gate(self, margin: float, alpha: float, family_size: int, *, higher_is_better: bool) -> int | None:
        """Smallest n per set at which a gate decides with the planned power whether `a` is worse.

        The plan is that of :meth:`runs_needed`, but a single test shows that `a` is not worse than the margin allows.

        Args:
            margin: relative difference that counts as none.
            alpha: level of the tests.
            family_size: tests for a difference that are adjusted together.
            higher_is_better: true for a throughput, false for a latency.
        """
        gain, bound = self._gain(higher_is_better), math.log1p(margin)

        def decides(error: float, freedom: float) -> bool:
            power = t_quantile(POWER, freedom)
            worse = (t_quantile(1 - alpha / family_size / 2, freedom) + power) * error <= -gain
            return worse or (t_quantile(1 - alpha, freedom) + power) * error <= bound + gain

        return self._smallest(decides)

    def _gain(self, higher_is_better: bool) -> float:
        return math.log(self.ratio) if higher_is_better else -math.log(self.ratio)

    def _smallest(self, decides: Callable[[float, float], bool]) -> int | None:
        """Smallest n per set for which `decides` is true of the error and its degrees of freedom; None if unknown."""
        if not self.freedom:
            return None
        if self.spread == 0:
            return 2
        spread = self.spread * math.sqrt(self.freedom / chi2_quantile(1 - ASSURANCE, self.freedom))
        sets = 2 if self.design == "unpaired" else 1
        return smallest(lambda n: decides(spread / math.sqrt(n), (n - 1) * sets), 2, _MOST_RUNS)


def worth(sample: Floats, effective: float) -> Summary:
    """Mean, standard deviation and effective n of correlated runs.

    The spread of correlated values about their own mean is too small, because the mean is correlated with them.
    """
    mean, sd, n = moments(sample)
    return (mean, sd, n) if effective >= n else (mean, sd * math.sqrt((1 - 1 / n) / (1 - 1 / effective)), effective)
