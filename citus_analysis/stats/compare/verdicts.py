"""Comparison of two sets of runs: one ratio, one verdict out of four.

The tests on the log of the ratio, including TOST, are written here
(:mod:`citus_analysis.stats.compare.evidence`): statsmodels has them only for differences of samples, and published
tables have means and standard deviations, but no samples.

References:
    Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
    Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure (TOST). J. Pharmacokin. Biopharm. 15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.defaults import ASSURANCE, LEVEL, MARGIN, POWER
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import as_sample, check_level, unique
from citus_analysis.stats.compare.evidence import Evidence, Summary, worth
from citus_analysis.stats.compare.mixed import estimate_iterations
from citus_analysis.stats.compare.rank_checks import rank_notes, size_notes
from citus_analysis.stats.compare.ranks import cliffs_delta, hodges_lehmann, mann_whitney_p
from citus_analysis.stats.estimate._student import t_tail
from citus_analysis.stats.estimate.intervals import Design, mean_interval_from_summary, moments, welch_error
from citus_analysis.stats.results import Interval
from citus_analysis.texts.counted_words import noun_for
from citus_analysis.units import better_direction

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
#: The power that `runs_needed` plans for, in words.
PLANNED: Final = f"{POWER * 100:g} % power with {ASSURANCE * 100:g} % assurance"


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
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
    def error(self) -> float:
        """Standard error of the log of the ratio; inf if a side has a single run."""
        return self.evidence.error

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the error; 0 if there is none."""
        return self.evidence.freedom

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

    def sentence(self) -> str:
        """The finding in one sentence.

        Example:
            >>> compare([100, 101, 99, 100], [80, 81, 79, 80], label_a="text", label_b="binary").sentence()
            'text is faster than binary: ratio 1.25 [1.23, 1.27] (95 %, Welch t on the log ratio, n = 4).'
        """
        what = f"{self.metric} of {self.label_a}" if self.metric else self.label_a
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
        return f"; about {missing} more {noun_for(missing, 'run')} of each would decide ({PLANNED}{one_of})"


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
    x, y = as_sample(a, 1, f"set {label_a}"), as_sample(b, 1, f"set {label_b}")
    evidence, reason = Evidence.of_blocks(x, y) if blocked else None, ""
    if evidence is None and iterations is not None:
        evidence, reason = _of_iterations(x, y, iterations)
    if evidence is None:
        sizes = effective or (float(x.size), float(y.size))
        evidence = _evidence(worth(x, sizes[0]), worth(y, sizes[1]))
    if higher_is_better is None:
        higher_is_better = direction_of(metric)
    names, sides = (label_a, label_b, metric), (moments(x), moments(y))
    base = _judged(evidence, sides, margin, level, higher_is_better, names)
    p_beside = base.p_welch if base.design == "unpaired" else base.p_difference
    return replace(
        base,
        design_reason=reason,
        p_mann_whitney=mann_whitney_p(x, y),
        shift=hodges_lehmann(x, y, level),
        cliffs_delta=cliffs_delta(x, y),
        warnings=unique((*base.warnings, *rank_notes(evidence.design, x, y, p_beside, 1 - level))),
    )


def direction_of(metric: str) -> bool | None:
    """Whether higher values are better: true for values without a name, which are rates; None if the name says nothing.

    Example:
        >>> direction_of(""), direction_of("p99_us"), direction_of("cpu_percent")
        (True, False, None)
    """
    direction = better_direction(metric)
    return direction == "higher" if direction else None if metric else True


def _of_iterations(x: Floats, y: Floats, iterations: tuple[ArrayLike, ArrayLike]) -> tuple[Evidence | None, str]:
    """The evidence of a mixed model and the reason for it, or None and the reason to treat the sets as independent."""
    first, second = (as_sample(one, 1, "the iterations") for one in iterations)
    if (first.size, second.size) != (x.size, y.size):
        raise UsageError(f"{x.size} and {y.size} runs, but {first.size} and {second.size} iterations")
    effect = estimate_iterations(x, y, (first, second))
    if isinstance(effect, str):
        return None, effect
    share = effect.variance_between / (effect.variance_between + effect.variance_within)
    reason = f"iterations differ (F test, p = {effect.p_iterations:.2g}): {100 * share:.0f} % of the variance of a run"
    return Evidence.of_iterations(effect, min(x.size, y.size)), reason


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
    return _judged(_evidence(a, b), (a, b), margin, level, True, (label_a, label_b, ""))


def _evidence(a: Summary, b: Summary) -> Evidence:
    if min(a[0], b[0]) <= 0:
        raise UsageError(f"a ratio of means needs positive means, not {min(a[0], b[0]):g}")
    return Evidence.of_summaries(a, b)


def _judged(
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
        raise UsageError(f"a margin of {margin:g} is not positive", way_out="pass 0.05 for 5 %")
    ratio = evidence.interval(level)
    p_difference, p_equivalence = evidence.p_difference(), evidence.p_equivalence(margin)
    mean_a, mean_b = (mean_interval_from_summary(*side, level=level, method="log-t") for side in sides)
    return Comparison(
        verdict=decide(ratio.estimate, p_difference, p_equivalence, 1 - level, higher_is_better),
        ratio=ratio,
        mean_a=mean_a,
        mean_b=mean_b,
        margin=margin,
        p_difference=p_difference,
        p_equivalence=p_equivalence,
        p_welch=_welch(*sides),
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
        warnings=unique((*ratio.warnings, *size_notes((sides[0][2], names[0]), (sides[1][2], names[1])))),
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


def _welch(a: tuple[float, float, int], b: tuple[float, float, int]) -> float:
    if min(a[2], b[2]) < 2:
        return math.nan
    error, freedom = welch_error(a[1:], b[1:])
    return 2 * t_tail(abs(a[0] - b[0]) / error, freedom) if error else float(a[0] == b[0])
