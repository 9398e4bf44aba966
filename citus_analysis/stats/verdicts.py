"""Comparison of two sets of runs: one ratio, one verdict out of four.

The tests on the log of the ratio, including TOST, are written here
(:mod:`citus_analysis.stats.verdicts`): statsmodels has them only for differences of samples, and published
tables have means and standard deviations, but no samples.

References:
    Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
    Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure (TOST). J. Pharmacokin. Biopharm. 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.defaults import ASSURANCE, LEVEL, MARGIN, POWER
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.stats._validate import check_level, list_unique_warnings, validate_sample
from citus_analysis.stats.distributions import (
    compute_chi2_quantile,
    compute_normal_quantile,
    compute_normal_tail,
    compute_t_quantile,
    compute_t_tail,
    find_smallest_n,
)
from citus_analysis.stats.intervals import (
    Design,
    compute_sample_moments,
    compute_welch_error,
    estimate_mean_from_summary,
    log_ratio_error,
    log_ratio_interval,
)
from citus_analysis.stats.mixed_model import IterationEffect, estimate_iterations
from citus_analysis.stats.rank_tests import compute_signed_rank_p_value
from citus_analysis.stats.results import Interval
from citus_analysis.texts.words import choose_noun_form, pluralize
from citus_analysis.units import better_direction

# Evidence of a ratio: its estimate, the error of its logarithm, and the tests and plans based on them.
#
# References:
#     Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
#     Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure (TOST). J. Pharmacokin. Biopharm.
# 15.
#     Browne, R. H. (1995). On the use of a pilot sample for sample size determination. Statistics in Medicine 14.

#: Mean, standard deviation and n, which is not a whole number if runs are correlated.
Summary = tuple[float, float, float]
_MOST_RUNS: Final = 100_000


@dataclass(frozen=True)
class Evidence:
    """A ratio of means with the error of its logarithm.

    Attributes:
        ratio: mean of `a` over mean of `b`; ratio of the geometric means if runs are paired or iterations random.
        error: standard error of its logarithm; inf if a side has a single run, which has no spread.
        df: its degrees of freedom; 0 if there is no error.
        n: runs of the smaller side, or blocks.
        spread: standard deviation of the log ratio of one run of each side, within an iteration if these are modelled.
        design: relation between the runs of both sides.
    """

    ratio: float
    error: float
    df: float
    n: int
    spread: float
    design: Design = "unpaired"

    @classmethod
    def from_summaries(cls, a: Summary, b: Summary) -> Evidence:
        """Evidence of two independent sets; the variance of the log of a mean is (sd/mean)²/n by the delta method."""
        error, df = log_ratio_error(a, b)
        spread = math.hypot(a[1] / a[0], b[1] / b[0])
        return cls(a[0] / b[0], error, df, int(min(a[2], b[2])), spread)

    @classmethod
    def from_blocks(cls, a: Floats, b: Floats) -> Evidence:
        """Evidence of pairs of runs that were made in the same block.

        Raises:
            UsageError: unequal numbers of runs, fewer than two blocks, or a value that is not positive.
        """
        if a.size != b.size or a.size < 2:
            raise UsageError(f"{a.size} against {b.size} runs make no blocks", hint="pass two or more runs of each")
        if min(a.min(), b.min()) <= 0:
            raise UsageError("the ratio of a block needs positive values")
        ratios = np.log(a / b)
        spread = float(ratios.std(ddof=1))
        # Equal ratios may differ in their last digits, which is not a spread.
        spread = 0.0 if spread < 1e-12 else spread
        error = spread / math.sqrt(a.size)
        return cls(math.exp(float(ratios.mean())), error, a.size - 1.0, a.size, spread, "paired")

    @classmethod
    def from_iterations(cls, effect: IterationEffect, n: int) -> Evidence:
        """Evidence of runs whose iterations share conditions, with n runs on the smaller side."""
        ratio, spread = math.exp(effect.log_ratio), math.sqrt(2 * effect.variance_within)
        return cls(ratio, effect.error, effect.df, n, spread, "mixed")

    def interval(self, level: float, family: int = 1) -> Interval:
        """Interval of the ratio, as one of a family of simultaneous ones (:func:`log_ratio_interval`)."""
        return log_ratio_interval(self.ratio, self.error, self.df, self.n, level, family, self.design)

    def p_difference(self) -> float:
        """Two-sided t test of a ratio of 1; nan without an error."""
        distance = abs(math.log(self.ratio))
        if not self.df:
            return math.nan
        return 2 * compute_t_tail(distance / self.error, self.df) if self.error else float(distance == 0)

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

        def decides(error: float, df: float) -> bool:
            differs = (compute_t_quantile(1 - alpha / 2, df) + compute_t_quantile(POWER, df)) * error <= distance
            # At a ratio near 1 both one-sided tests must succeed, which costs power on each side.
            both = compute_t_quantile(1 - alpha, df) + compute_t_quantile((1 + POWER) / 2, df)
            return differs or both * error <= bound - distance

        return self._smallest(decides)

    def p_not_worse(self, margin: float, *, higher_is_better: bool = True) -> float:
        """One-sided test against the end of the margin on which `a` is worse; nan without an error."""
        return self._p_within(math.log1p(margin) + self._gain(higher_is_better))

    def _p_within(self, inside: float) -> float:
        """One-sided test that the log ratio lies within a bound, given how far inside it was measured."""
        if not self.df:
            return math.nan
        return compute_t_tail(inside / self.error, self.df) if self.error else float(inside <= 0)

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

        def decides(error: float, df: float) -> bool:
            power = compute_t_quantile(POWER, df)
            worse = (compute_t_quantile(1 - alpha / family_size / 2, df) + power) * error <= -gain
            return worse or (compute_t_quantile(1 - alpha, df) + power) * error <= bound + gain

        return self._smallest(decides)

    def _gain(self, higher_is_better: bool) -> float:
        return math.log(self.ratio) if higher_is_better else -math.log(self.ratio)

    def _smallest(self, decides: Callable[[float, float], bool]) -> int | None:
        """Smallest n per set for which `decides` is true of the error and its degrees of freedom; None if unknown."""
        if not self.df:
            return None
        if self.spread == 0:
            return 2
        spread = bound_spread(self.spread, self.df)
        sets = 2 if self.design == "unpaired" else 1
        return find_smallest_n(lambda n: decides(spread / math.sqrt(n), (n - 1) * sets), 2, _MOST_RUNS)


def bound_spread(spread: float, df: float) -> float:
    """The upper limit of a spread that was estimated with some degrees of freedom, with the usual assurance.

    Example:
        >>> round(bound_spread(1.0, 8.0), 2)
        1.32
    """
    return spread * math.sqrt(df / compute_chi2_quantile(1 - ASSURANCE, df))


def summarise_correlated_runs(sample: Floats, effective: float) -> Summary:
    """Mean, standard deviation and effective n of correlated runs.

    The spread of correlated values about their own mean is too small, because the mean is correlated with them.
    """
    mean, sd, n = compute_sample_moments(sample)
    return (mean, sd, n) if effective >= n else (mean, sd * math.sqrt((1 - 1 / n) / (1 - 1 / effective)), effective)


# Rank statistics of two samples: Mann-Whitney, the Hodges-Lehmann shift and Cliff's delta.
#
# The null distributions of a test with ties and of the interval of the shift are counted here, because scipy has no
# public function for them; importing `scipy.stats` for those without ties would take as long as all of a comparison.
#
# References:
#     Hollander, M. and Wolfe, D. A. (1999). Nonparametric Statistical Methods, 2nd edition, chapter 4.
#     Cliff, N. (1993). Dominance statistics: ordinal analyses to answer ordinal questions. Psychological Bulletin
# 114.

#: Up to this many values per sample the null distribution of U is counted exactly.
_EXACT_UP_TO: Final = 30


def compute_mann_whitney_p_value(a: ArrayLike, b: ArrayLike) -> float:
    """Two-sided p-value of the Mann-Whitney test: exact for samples of up to 30 values, also with ties.

    With ties, the distribution is that of the mid-ranks over all divisions of the values into two samples of these
    sizes, and the p-value is twice the smaller tail.

    Example:
        >>> compute_mann_whitney_p_value([1.1, 2.2, 3.3, 4.4], [5.5, 6.6, 7.7, 8.8]) == 2 / 70
        True
        >>> compute_mann_whitney_p_value([1.0, 1.0, 1.0], [1.1, 1.1, 1.1])
        0.1
    """
    x, y = validate_sample(a, 1), validate_sample(b, 1)
    pooled = np.concatenate([x, y])
    if np.ptp(pooled) == 0:
        return 1.0
    _, places, ties = np.unique(pooled, return_inverse=True, return_counts=True)
    if max(x.size, y.size) > _EXACT_UP_TO:
        return _compute_asymptotic_p_value(x.size, places, ties)
    return _compute_exact_p_value(x.size, places, ties)


def _compute_exact_p_value(first: int, places: Integers, ties: Integers) -> float:
    """The p-value by counting all divisions of the mid-ranks; arguments: :func:`_compute_asymptotic_p_value`."""
    # Twice the mid-ranks are whole numbers, by which sums are counted.
    doubled = 2 * np.cumsum(ties) - ties + 1
    ways = np.zeros((first + 1, int((doubled * ties).sum()) + 1))
    ways[0, 0] = 1
    for score in doubled[places]:
        ways[1:, score:] += ways[:-1, :-score]
    of_size = ways[first]
    observed = int(doubled[places[:first]].sum())
    total = math.comb(len(places), first)
    return min(1.0, 2 * float(min(of_size[: observed + 1].sum(), of_size[observed:].sum())) / total)


def _compute_asymptotic_p_value(first: int, places: Integers, ties: Integers) -> float:
    """The p-value by the normal distribution, with the corrections for ties and for continuity.

    Args:
        first: size of the first sample.
        places: index of each value among the distinct values.
        ties: number of occurrences of each distinct value.
    """
    n, second = len(places), len(places) - first
    ranks = np.cumsum(ties) - (ties - 1) / 2
    u = float(ranks[places[:first]].sum()) - first * (first + 1) / 2
    tied = float((ties.astype(np.float64) ** 3 - ties).sum()) / (n * (n - 1))
    deviation = math.sqrt(first * second / 12 * (n + 1 - tied))
    return min(1.0, 2 * compute_normal_tail((max(u, first * second - u) - first * second / 2 - 0.5) / deviation))


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Probability that a value of `a` exceeds one of `b`, minus the probability of the reverse: from -1 to 1.

    Example:
        >>> cliffs_delta([3, 4, 5], [1, 2, 3])
        0.8888888888888888
    """
    x, y = validate_sample(a, 1), np.sort(validate_sample(b, 1))
    below = np.searchsorted(y, x, side="left").sum()
    above = y.size * x.size - np.searchsorted(y, x, side="right").sum()
    return float(below - above) / (x.size * y.size)


def estimate_hodges_lehmann(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> Interval:
    """Shift of `a` against `b`: median of all differences, with the interval that Mann-Whitney's test implies.

    Samples that are too small for the level have no interval, such as 3 against 3 runs at 95 %.

    Example:
        >>> shift = estimate_hodges_lehmann([10, 11, 12, 13], [1, 2, 3, 4])
        >>> shift.estimate, shift.low, shift.high
        (9.0, 6.0, 12.0)
    """
    check_level(level)
    x, y = validate_sample(a, 1), validate_sample(b, 1)
    differences = np.sort(np.subtract.outer(x, y), axis=None)
    rank = _shift_rank(x.size, y.size, (1 - level) / 2)
    estimate, n = float(np.median(differences)), min(x.size, y.size)
    if rank == 0:
        note = f"{x.size} against {pluralize(y.size, 'value')} cannot bound a shift at {level * 100:g} %"
        return Interval.absent(estimate, level, n, "Hodges-Lehmann", note)
    ends = float(differences[rank - 1]), float(differences[-rank])
    return Interval(estimate, *ends, level, n, "Hodges-Lehmann")


def _shift_rank(m: int, n: int, tail: float) -> int:
    """Largest r with P(U <= r - 1) <= tail under no shift; the r-th smallest difference is the lower end."""
    if max(m, n) <= _EXACT_UP_TO:
        return int(np.searchsorted(_compute_u_distribution(min(m, n), max(m, n)), tail, side="right"))
    spread = math.sqrt(m * n * (m + n + 1) / 12)
    return max(0, math.floor(m * n / 2 + compute_normal_quantile(tail) * spread))


@lru_cache(maxsize=256)
def _compute_u_distribution(m: int, n: int) -> Floats:
    """P(U <= u) for u = 0 .. mn: cumulated coefficients of the Gaussian binomial (m+n choose m)."""
    size = m * n + 1
    ways = np.zeros(size, dtype=object)
    ways[0] = 1
    for i in range(1, m + 1):
        ways[n + i :] = ways[n + i :] - ways[: max(0, size - n - i)]
        for start in range(i):
            ways[start::i] = np.cumsum(ways[start::i])
    total = math.comb(m + n, m)
    return np.array([float(count) / total for count in np.cumsum(ways)])


# Warnings about small sets, and about rank tests that disagree with the t tests.


def write_size_notes(*sides: tuple[float, str]) -> list[str]:
    """A warning for each side of two runs, given as number and label.

    Example:
        >>> write_size_notes((2, "new"), (5, "old"))
        ['new: 2 runs; at least 3 are advised']
    """
    return [f"{label}: 2 runs; at least 3 are advised" for runs, label in sides if runs == 2]


def rank_notes(design: Design, x: Floats, y: Floats, p_beside: float, alpha: float) -> list[str]:
    """Warnings that the rank test of the design disagrees with the t test; a mixed model has no rank test.

    Args:
        design: relation between the runs of both sets; paired ones are in the same order.
        x: values of one set.
        y: values of the other.
        p_beside: p-value of the t test.
        alpha: level of both tests.

    Example:
        >>> rank_notes("unpaired", np.array([3.0, 3.1, 3.2]), np.array([1.0, 1.1, 1.2]), 0.001, 0.05)
        ['3 against 3 runs: too few for a rank test at 0.05 (smallest p 0.1)']
    """
    if design == "mixed" or min(x.size, y.size) < 2:
        return []
    paired = design == "paired"
    fewest = 2.0 ** (1 - x.size) if paired else 2 / math.comb(x.size + y.size, x.size)
    if fewest > alpha:
        runs = pluralize(x.size, "block") if paired else f"{x.size} against {pluralize(y.size, 'run')}"
        test = "signed-rank" if paired else "rank"
        return [f"{runs}: too few for a {test} test at {alpha:.2g} (smallest p {fewest:.2g})"]
    p_ranks = compute_signed_rank_p_value(np.log(x / y)) if paired else compute_mann_whitney_p_value(x, y)
    if (p_ranks <= alpha) == (p_beside <= alpha):
        return []
    names = ("the paired t test", "the signed-rank test", "blocks") if paired else ("Welch", "Mann-Whitney", "runs")
    tests = f"{names[0]} (p = {p_beside:.2g}) and {names[1]} (p = {p_ranks:.2g})"
    return [f"{tests} disagree: look at the single {names[2]} for outliers or two modes"]


Verdict = Literal["faster", "slower", "higher", "lower", "equivalent", "inconclusive"]
#: How the runs of one side lie in time to those of the base.
Order = Literal["in turns", "after the base", "before the base", "mostly after", "mostly before", "unknown"]

#: Verdict -> its words for a throughput along an axis, in every command and report.
CHANGE_WORDS: Final[dict[Verdict, str]] = {
    "faster": "grows",
    "slower": "falls",
    "higher": "grows",
    "lower": "falls",
    "equivalent": "stays the same within the margin",
    "inconclusive": "shows no change that these runs can prove",
}
#: Warning of a comparison whose sides were not made in turns.
MADE_APART: Final = "the two sets were made one after the other: a drift of the machine looks like a difference"
#: What is printed instead of a verdict where a side has a single run.
NO_VERDICT: Final = "-"
#: The power that `runs_needed` plans for, in words.
PLANNED: Final = f"{POWER * 100:g} % power with {ASSURANCE * 100:g} % assurance"


@dataclass(frozen=True, repr=False)
class Comparison(DisplayMixin):
    """Set `a` against the base `b`.

    Attributes:
        verdict: ``faster``, ``slower`` (`a` is better or worse in the metric), ``higher``, ``lower`` (the same of a
            metric whose better direction is not known), ``equivalent`` (the ratio lies within the margin) or
            ``inconclusive``.
        ratio: mean of `a` over mean of `b`, with its interval. If comparisons were adjusted together, it is
            simultaneous, or that of the step of Holm's procedure that decided; so it excludes 1 wherever a difference
            is claimed, and contains 1 wherever none is.
        mean_a: mean of `a` with its interval.
        mean_b: mean of `b` with its interval.
        margin: relative difference that counts as none.
        p_difference: two-sided Welch test on the log ratio, not adjusted; nan if a side has a single run.
        p_equivalence: TOST on the log ratio, not adjusted.
        p_difference_adjusted: `p_difference` after Holm's adjustment over the family, which gives the verdict.
        p_equivalence_adjusted: `p_equivalence` after the same adjustment.
        holm_family: operation of the comparisons that were adjusted together.
        family_size: number of these comparisons.
        evidence: the ratio with the error of its logarithm, from which tests, interval and plan are computed.
        design_reason: reason for the `design`; empty if the iterations of the runs are not known.
        planned_level: level at which `runs_needed` plans to decide; in a family of m comparisons it is higher than the
            interval's, because each comparison is planned at 1/m of 1 - level.
        p_welch: two-sided Welch test of the difference of means.
        p_mann_whitney: two-sided Mann-Whitney test; None if only summaries are known.
        shift: Hodges-Lehmann shift in the metric's unit; None if only summaries are known.
        cliffs_delta: from -1 to 1; None if only summaries are known.
        runs_needed: runs per set that would decide with 80 % power if the ratio stays the same; the spread, which is
            known from few runs, is taken at its upper limit (assurance 80 %). None if it cannot be estimated.
        higher_is_better: true for a throughput, false for a latency, None if the metric's name does not say.
        label_a: name of `a`.
        label_b: name of `b`.
        metric: the measured metric.
        order: how the runs of `a` lie in time to those of `b`.
        stratum: common values of both sets (workload, threads ...).
        warnings: caveats.
        sides: the runs of `a` and of `b` from which all numbers are computed, if a table of runs was compared.
    """

    verdict: Verdict
    ratio: Interval
    mean_a: Interval
    mean_b: Interval
    margin: float
    p_difference: float
    p_equivalence: float
    p_welch: float
    p_mann_whitney: float | None
    shift: Interval | None
    cliffs_delta: float | None
    runs_needed: int | None
    p_difference_adjusted: float
    p_equivalence_adjusted: float
    evidence: Evidence
    planned_level: float
    higher_is_better: bool | None = True
    label_a: str = "a"
    label_b: str = "b"
    metric: str = ""
    holm_family: str = ""
    family_size: int = 1
    design_reason: str = ""
    order: Order = "unknown"
    stratum: dict[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sides: tuple[pl.DataFrame, pl.DataFrame] | None = field(default=None, compare=False)

    @property
    def design(self) -> Design:
        """The design of the comparison: block by block, by iterations with a random effect, or as independent sets."""
        return self.evidence.design

    @property
    def made_apart(self) -> bool:
        """Whether all runs of one side were made before those of the other, so that a drift may explain the ratio."""
        return self.order in ("after the base", "before the base")

    @property
    def differs(self) -> bool:
        """Whether the verdict is a difference, in whatever direction."""
        return self.verdict not in ("equivalent", "inconclusive")

    @property
    def shown_verdict(self) -> str:
        """The verdict as it is printed: a dash where there is no interval, because a single run decides nothing.

        Example:
            >>> compare([100], [80]).shown_verdict, compare([100, 101], [80, 81]).shown_verdict
            ('-', 'faster')
        """
        return self.verdict if self.ratio.exists else NO_VERDICT

    @property
    def error(self) -> float:
        """Standard error of the log of the ratio; inf if a side has a single run."""
        return self.evidence.error

    @property
    def df(self) -> float:
        """Degrees of freedom of the error; 0 if there is none."""
        return self.evidence.df

    @property
    def change_percent(self) -> float:
        """Change from `b` to `a` in per cent of `b`."""
        return (self.ratio.estimate - 1) * 100

    @property
    def deciding(self) -> Interval:
        """Interval of the ratio that belongs to the test that decided.

        For `equivalent` this is the interval of two one-sided tests, which lies within the margin: 90 % if the level is
        95 %, adjusted like the test. For all other verdicts it is `ratio`.

        Example:
            >>> one = compare([102, 100, 104, 98], [100, 103, 99, 101], margin=0.05)
            >>> print(one.verdict, one.deciding)
            equivalent 1.002 [0.9722, 1.034] (90 %, Welch t on the log ratio, two one-sided tests, n = 4)
        """
        if self.verdict != "equivalent":
            return self.ratio
        # The level of this test was divided by the ratio of Holm's adjusted p-value to the raw one.
        divisor = self.p_equivalence_adjusted / self.p_equivalence if self.p_equivalence else self.family_size
        level = 1 - 2 * (1 - self.ratio.level)
        found = self.evidence.interval(1 - (1 - level) / divisor)
        adjusted = ", adjusted by Holm" if self.family_size > 1 else ""
        return replace(found, level=level, method=f"{found.method}, two one-sided tests{adjusted}")

    @property
    def runs_missing(self) -> int | None:
        """Further runs per set until a verdict is likely; 0 if there is one."""
        if self.verdict != "inconclusive":
            return 0
        return None if self.runs_needed is None else max(1, self.runs_needed - self.ratio.n)

    def known_p_values(self) -> dict[str, float | None]:
        """`p_difference` and `p_difference_adjusted` for a table; None without an interval, which has no test."""
        values = {"p_difference": self.p_difference, "p_difference_adjusted": self.p_difference_adjusted}
        return {name: None if math.isnan(p) else p for name, p in values.items()}

    def summary_lines(self) -> list[str]:
        """The stratum, the finding and the warnings."""
        where = ", ".join(f"{name} {value}" for name, value in self.stratum.items())
        return [*([where] if where else []), self.sentence(), *(f"  {note}" for note in self.warnings)]

    def summary_table(self) -> pl.DataFrame | None:
        """One row: both sides with n and mean, the ratio with the interval that decided, p-value and verdict."""
        ratio = self.deciding
        row = {
            **self.stratum,
            **({"metric": self.metric} if self.metric else {}),
            "a": self.label_a,
            "b": self.label_b,
            "n_a": self.mean_a.n,
            "n_b": self.mean_b.n,
            "mean_a": self.mean_a.estimate,
            "mean_b": self.mean_b.estimate,
            **ratio.record("ratio"),
            "level": ratio.level,
            **self.known_p_values(),
            "verdict": self.shown_verdict,
        }
        return pl.DataFrame([row])

    def sentence(self) -> str:
        """The finding in one sentence.

        Example:
            >>> compare([100, 101, 99, 100], [80, 81, 79, 80], label_a="text", label_b="binary").sentence()
            'text is faster than binary: ratio 1.25 [1.23, 1.27] (95 %, Welch t on the log ratio, n = 4).'
        """
        what = f"{self.metric} of {self.label_a}" if self.metric else self.label_a
        if not self.ratio.exists:
            return f"{what} against {self.label_b}: ratio {self.deciding}, without a verdict."
        words = {
            "faster": f"{self.label_a} is faster than {self.label_b}",
            "slower": f"{self.label_a} is slower than {self.label_b}",
            "higher": f"{what} is higher than of {self.label_b}",
            "lower": f"{what} is lower than of {self.label_b}",
            "equivalent": f"{self.label_a} and {self.label_b} are equivalent within ±{self.margin * 100:g} %",
            "inconclusive": f"these runs do not show whether {self.label_a} differs from {self.label_b}",
        }
        return f"{words[self.verdict]}: ratio {self.deciding}{self._advice()}."

    def _advice(self) -> str:
        """The further runs that would decide, and their level."""
        if not (missing := self.runs_missing):
            return ""
        one_of = f", at {self.planned_level * 100:.4g} % as one of {self.family_size}" if self.family_size > 1 else ""
        return f"; about {missing} more {choose_noun_form(missing, 'run')} of each would decide ({PLANNED}{one_of})"


def compare(
    a: ArrayLike,
    b: ArrayLike,
    margin: float = MARGIN,
    *,
    level: float = LEVEL,
    higher_is_better: bool | None = None,
    label_a: str = "a",
    label_b: str = "b",
    metric: str = "",
    blocked: bool = False,
    iterations: tuple[ArrayLike, ArrayLike] | None = None,
    effective: tuple[float, float] | None = None,
) -> Comparison:
    """Compare set `a` with the base set `b`, one value per run.

    The verdict is that of Welch's t on the log of the ratio of means, which keeps its level for few runs: two one-sided
    tests against the margin decide `equivalent`; otherwise an interval that excludes 1 decides `faster` or `slower`;
    otherwise it is `inconclusive`. Rank tests are computed, too, and raise a warning if they disagree.

    Args:
        a: the set to compare.
        b: the base.
        margin: relative difference that counts as none (0.05 = 5 %, from 1/1.05 to 1.05).
        level: confidence level; the tests use 1 - level.
        higher_is_better: true for a throughput, false for a latency; by default the metric's name decides
            (:func:`citus_analysis.units.better_direction`), and values without a name are rates. If the name does not
            say, verdicts are `higher` and `lower`.
        label_a: name of `a`.
        label_b: name of `b`.
        metric: the measured metric.
        blocked: whether the n-th runs of both sets were made in the same block; then the ratios within blocks are
            tested, and differences between blocks do not count as spread.
        iterations: the iteration of each run of both sets, if runs of one iteration may share conditions. If an F test
            shows that iterations differ, the ratio is that of a mixed model with a random effect per iteration;
            `design_reason` states the result of the test.
        effective: effective sample size of each set (`check_independence`), if successive runs are correlated; blocks
            need none, because changes that last over several blocks affect both sets equally.

    Raises:
        InsufficientDataError: an empty set.
        UsageError: means or a margin that are not positive, unequal numbers of runs in blocks, or not one iteration per
            run.

    Example:
        >>> compare([10.1, 9.9, 10.0, 10.2], [10.0, 10.1, 9.9, 10.0]).verdict
        'equivalent'
        >>> compare([5.1, 5.0, 5.2], [4.0, 4.1, 3.9], metric="latency_ms").verdict
        'slower'

        Runs made in four blocks with different conditions:

        >>> a, b = [106, 96, 117, 85], [100, 90, 111, 80]
        >>> compare(a, b).verdict, compare(a, b, blocked=True).verdict
        ('inconclusive', 'faster')

        The same, if only the four iterations of the runs are known, not their order:

        >>> compare(a, b, iterations=([1, 2, 3, 4], [1, 2, 3, 4])).design
        'mixed'
    """
    x, y = validate_sample(a, 1, f"set {label_a}"), validate_sample(b, 1, f"set {label_b}")
    evidence, reason = Evidence.from_blocks(x, y) if blocked else None, ""
    if evidence is None and iterations is not None:
        evidence, reason = _estimate_by_iterations(x, y, iterations)
    if evidence is None:
        sizes = effective or (float(x.size), float(y.size))
        evidence = _build_summary_evidence(
            summarise_correlated_runs(x, sizes[0]), summarise_correlated_runs(y, sizes[1])
        )
    if higher_is_better is None:
        higher_is_better = get_metric_direction(metric)
    names, sides = (label_a, label_b, metric), (compute_sample_moments(x), compute_sample_moments(y))
    base = _judge_evidence(evidence, sides, margin, level, higher_is_better, names)
    p_beside = base.p_welch if base.design == "unpaired" else base.p_difference
    return replace(
        base,
        design_reason=reason,
        p_mann_whitney=compute_mann_whitney_p_value(x, y),
        shift=estimate_hodges_lehmann(x, y, level),
        cliffs_delta=cliffs_delta(x, y),
        warnings=list_unique_warnings((*base.warnings, *rank_notes(evidence.design, x, y, p_beside, 1 - level))),
    )


def get_metric_direction(metric: str) -> bool | None:
    """Whether higher values are better: true for values without a name, which are rates; None if the name says nothing.

    Example:
        >>> get_metric_direction(""), get_metric_direction("p99_us"), get_metric_direction("cpu_percent")
        (True, False, None)
    """
    direction = better_direction(metric)
    return direction == "higher" if direction else None if metric else True


def _estimate_by_iterations(
    x: Floats, y: Floats, iterations: tuple[ArrayLike, ArrayLike]
) -> tuple[Evidence | None, str]:
    """The evidence of a mixed model and the reason for it, or None and the reason to treat the sets as independent."""
    first, second = (validate_sample(one, 1, "the iterations") for one in iterations)
    if (first.size, second.size) != (x.size, y.size):
        raise UsageError(f"{x.size} and {y.size} runs, but {first.size} and {second.size} iterations")
    effect = estimate_iterations(x, y, (first, second))
    if isinstance(effect, str):
        return None, effect
    share = effect.variance_between / (effect.variance_between + effect.variance_within)
    reason = f"iterations differ (F test, p = {effect.p_iterations:.2g}): {100 * share:.0f} % of the variance of a run"
    return Evidence.from_iterations(effect, min(x.size, y.size)), reason


def compare_summaries(
    a: tuple[float, float, int],
    b: tuple[float, float, int],
    margin: float = MARGIN,
    *,
    level: float = LEVEL,
    label_a: str = "a",
    label_b: str = "b",
) -> Comparison:
    """Compare two sets that are known only by (mean, standard deviation, n), as in published tables.

    Example:
        Two sets of 4 runs with a spread of 15 %, which cannot show the absence of an overhead:

        >>> comparison = compare_summaries((102.0, 15.0, 4), (100.0, 15.0, 4))
        >>> comparison.verdict, comparison.runs_needed
        ('inconclusive', 880)
    """
    return _judge_evidence(_build_summary_evidence(a, b), (a, b), margin, level, True, (label_a, label_b, ""))


def _build_summary_evidence(a: Summary, b: Summary) -> Evidence:
    if min(a[0], b[0]) <= 0:
        raise UsageError(f"a ratio of means needs positive means, not {min(a[0], b[0]):g}")
    return Evidence.from_summaries(a, b)


def _judge_evidence(
    evidence: Evidence,
    sides: tuple[tuple[float, float, int], tuple[float, float, int]],
    margin: float,
    level: float,
    higher_is_better: bool | None,
    names: tuple[str, str, str],
) -> Comparison:
    """The comparison by the evidence; `names` are the labels of both sets and the metric."""
    check_level(level)
    if not margin > 0:
        raise UsageError(f"a margin of {margin:g} is not positive", hint="pass 0.05 for 5 %")
    ratio = evidence.interval(level)
    p_difference, p_equivalence = evidence.p_difference(), evidence.p_equivalence(margin)
    mean_a, mean_b = (estimate_mean_from_summary(*side, level=level, method="log-t") for side in sides)
    return Comparison(
        verdict=decide(ratio.estimate, p_difference, p_equivalence, 1 - level, higher_is_better),
        ratio=ratio,
        mean_a=mean_a,
        mean_b=mean_b,
        margin=margin,
        p_difference=p_difference,
        p_equivalence=p_equivalence,
        p_welch=_compute_welch_p_value(*sides),
        p_mann_whitney=None,
        shift=None,
        cliffs_delta=None,
        runs_needed=evidence.runs_needed(margin, 1 - level),
        p_difference_adjusted=p_difference,
        p_equivalence_adjusted=p_equivalence,
        higher_is_better=higher_is_better,
        label_a=names[0],
        label_b=names[1],
        metric=names[2],
        evidence=evidence,
        planned_level=level,
        warnings=list_unique_warnings(
            (*ratio.warnings, *write_size_notes((sides[0][2], names[0]), (sides[1][2], names[1])))
        ),
    )


def decide(
    ratio: float, p_difference: float, p_equivalence: float, alpha: float, higher_is_better: bool | None
) -> Verdict:
    """The verdict for two p-values; equivalence is tested first, so a small but certain difference is equivalent."""
    if p_equivalence <= alpha:
        return "equivalent"
    if p_difference <= alpha and higher_is_better is None:
        return "higher" if ratio > 1 else "lower"
    if p_difference <= alpha:
        return "faster" if (ratio > 1) == higher_is_better else "slower"
    return "inconclusive"


def _compute_welch_p_value(a: tuple[float, float, int], b: tuple[float, float, int]) -> float:
    if min(a[2], b[2]) < 2:
        return math.nan
    error, df = compute_welch_error(a[1:], b[1:])
    return 2 * compute_t_tail(abs(a[0] - b[0]) / error, df) if error else float(a[0] == b[0])


# Several comparisons at once: Holm's adjustment of their verdicts, and simultaneous intervals of their ratios.
#
# Holm's adjustment is written here, and a test compares it with statsmodels': `multipletests` runs a garbage collection
# at each call, which takes 0.06 s and more, and a report adjusts dozens of families.
#
# The intervals are Bonferroni's: with the stated confidence, all intervals of a family contain their ratios. Holm's
# procedure steps down, so that it may decide although Bonferroni's interval contains 1. The interval is then that of
# the step that decided, as its method states, so that no verdict contradicts the interval beside it.
#
# References:
#     Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
#     Strassburger, K. and Bretz, F. (2008). Compatible simultaneous lower confidence bounds for the Holm procedure
# and
#         other Bonferroni-based closed tests. Statistics in Medicine 27.


def adjust_by_holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment of p-values, which controls the probability of any false claim among them.

    Example:
        >>> adjust_by_holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = validate_sample(p_values, 0, "p-values")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def compare_many(
    comparisons: Sequence[Comparison] | Mapping[str, ArrayLike],
    *,
    base: str = "",
    metric: str = "",
    margin: float = MARGIN,
    level: float = LEVEL,
) -> tuple[Comparison, ...]:
    """Adjust the verdicts of comparisons by Holm's procedure, family by family.

    Samples by name are compared with one of them first.

    A family consists of all comparisons of one operation (`Comparison.holm_family`), such as all set-ups and levels
    that a command or a section of a report compares for INSERT. The tests for a difference and the tests for
    equivalence are adjusted separately; a verdict with an adjusted p-value above 1 - level becomes `inconclusive`. A
    comparison that cannot be tested (one run on a side) is not counted. The intervals of the ratios become simultaneous
    (Bonferroni), or, where only a later step of Holm's procedure decides, those of this step, as their method states.
    Further runs are planned for Bonferroni's level (`Comparison.planned_level`), at which Holm's procedure decides in
    any case.

    Args:
        comparisons: results of :func:`compare`, or the values of each set by its name.
        base: name of the set that the others are compared with; by default the first.
        metric: what the values of samples measure, as for :func:`compare`.
        margin: relative difference of samples that counts as none.
        level: confidence level.

    Raises:
        UsageError: neither comparisons nor samples by name, fewer than two samples, or a base that is none of them.

    Example:
        >>> from citus_analysis.stats import compare
        >>> runs = {"base": [100, 101, 99], "new": [109, 111, 110], "old": [90, 91, 89]}
        >>> [(one.label_a, one.verdict) for one in compare_many(runs, metric="tps")]
        [('new', 'faster'), ('old', 'slower')]
        >>> one = compare([10, 11, 12, 13], [8, 9, 9.5, 10])
        >>> one.verdict, compare_many([one] * 3)[0].verdict
        ('faster', 'inconclusive')
        >>> str(compare_many([one] * 3)[0].ratio)
        '1.26 [0.9884, 1.607] (95 %, Welch t on the log ratio, simultaneous over 3, n = 4)'
    """
    alpha = 1 - check_level(level)
    if isinstance(comparisons, Mapping):
        comparisons = _compare_samples(comparisons, base, metric, margin, level)
    elif not all(isinstance(one, Comparison) for one in comparisons):
        raise UsageError(
            "these are no comparisons", hint="pass results of compare, or the values of each set by its name"
        )
    families: dict[str, list[int]] = {}
    for place, comparison in enumerate(comparisons):
        if math.isfinite(comparison.p_difference):
            families.setdefault(comparison.holm_family, []).append(place)
    adjusted = list(comparisons)
    for places in families.values():
        for place, one in zip(places, _adjust_family([comparisons[i] for i in places], alpha), strict=True):
            adjusted[place] = one
    return tuple(adjusted)


def _compare_samples(
    samples: Mapping[str, ArrayLike], base: str, metric: str, margin: float, level: float
) -> list[Comparison]:
    if len(samples) < 2:
        raise UsageError(f"{pluralize(len(samples), 'set')} of values: there is nothing to compare", hint="name two")
    if base and base not in samples:
        raise UnknownNameError("set", base, samples)
    first = base or next(iter(samples))
    return [
        compare(values, samples[first], margin, level=level, label_a=name, label_b=first, metric=metric)
        for name, values in samples.items()
        if name != first
    ]


def _adjust_family(family: Sequence[Comparison], alpha: float) -> Iterator[Comparison]:
    differences = adjust_by_holm([c.p_difference for c in family])
    equivalences = adjust_by_holm([c.p_equivalence for c in family])
    for comparison, p_difference, p_equivalence in zip(family, differences, equivalences, strict=True):
        verdict = decide(comparison.ratio.estimate, p_difference, p_equivalence, alpha, comparison.higher_is_better)
        ratio = comparison.evidence.interval(comparison.ratio.level, len(family))
        if p_difference <= alpha and (1.0 in ratio or not ratio.exists):
            ratio = _estimate_deciding_interval(comparison, float(p_difference), len(family))
        notes = comparison.warnings
        if verdict != comparison.verdict:
            notes = (*notes, f"{comparison.verdict} on its own, but not after Holm's adjustment")
        yield replace(
            comparison,
            verdict=verdict,
            ratio=ratio,
            p_difference_adjusted=float(p_difference),
            p_equivalence_adjusted=float(p_equivalence),
            family_size=len(family),
            planned_level=1 - alpha / len(family),
            runs_needed=comparison.evidence.runs_needed(comparison.margin, alpha / len(family)),
            warnings=list_unique_warnings(notes),
        )


def _estimate_deciding_interval(comparison: Comparison, p_adjusted: float, size: int) -> Interval:
    """The interval at the level at which Holm's procedure tested a comparison; it excludes 1 if that decided."""
    step = p_adjusted / comparison.p_difference
    found = comparison.evidence.interval(1 - (1 - comparison.ratio.level) / step)
    return replace(found, level=comparison.ratio.level, method=f"{found.method}, Holm's step {step:.3g} of {size}")
