"""Comparison of two sets of runs: one ratio, one verdict out of four.

Welch's test of the means is scipy's. The tests on the log of the ratio, TOST among them, are written here: statsmodels
has them for differences of samples only, and a published table gives no samples but means and standard deviations.

References:
    Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
    Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure (TOST). J. Pharmacokin. Biopharm. 15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.defaults import LEVEL, MARGIN
from citus_analysis.core.displays import Shown
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import as_sample, check_level, unique
from citus_analysis.stats.compare.ranks import cliffs_delta, hodges_lehmann, mann_whitney_p
from citus_analysis.stats.estimate._student import smallest, t_quantile, t_tail
from citus_analysis.stats.estimate.intervals import (
    log_ratio_error,
    mean_interval_from_summary,
    ratio_interval_from_summaries,
)
from citus_analysis.stats.results import Interval
from citus_analysis.texts.counted_words import counted

__all__ = ["CHANGE_WORDS", "Comparison", "Verdict", "compare", "compare_summaries", "decide"]

Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]
Summary = tuple[float, float, int]

#: What each verdict says of a throughput along an axis; every command and report uses these words.
CHANGE_WORDS: Final[dict[Verdict, str]] = {
    "faster": "grows",
    "slower": "falls",
    "equivalent": "stays the same within the margin",
    "inconclusive": "shows no change that these runs can prove",
}
#: Chance of reaching a verdict that `runs_needed` plans for.
POWER: Final = 0.8
_MOST_RUNS: Final = 100_000


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Set `a` against the base `b`.

    Attributes:
        verdict: ``faster``, ``slower`` (of `a`, whichever way the metric counts), ``equivalent`` (the ratio lies
            within the margin) or ``inconclusive``.
        ratio: mean of `a` over mean of `b`, with its interval; simultaneous where comparisons were adjusted together.
        mean_a: mean of `a` with its interval.
        mean_b: mean of `b` with its interval.
        margin: relative difference that counts as none.
        p_difference: two-sided Welch test on the log ratio, of this comparison alone; nan where one run has no spread.
        p_equivalence: TOST on the log ratio, of this comparison alone.
        p_difference_adjusted: the same after Holm's adjustment over the family; the verdict rests on it.
        p_equivalence_adjusted: likewise.
        family: what the comparisons that were adjusted together have in common: the operation.
        family_size: how many they are.
        error: standard error of the log of the ratio; inf where one run has no spread.
        freedom: its degrees of freedom; 0 where there is no error.
        p_welch: two-sided Welch test of the difference of means.
        p_mann_whitney: two-sided Mann-Whitney test; None where only summaries are known.
        shift: Hodges-Lehmann shift in the metric's unit; None where only summaries are known.
        cliffs_delta: from -1 to 1; None where only summaries are known.
        runs_needed: runs per set that would decide with 80 % power if the spread and ratio stay as they are;
            None where that cannot be told.
        higher_is_better: true for a throughput, false for a latency.
        label_a: what `a` is.
        label_b: what `b` is.
        metric: what was measured.
        stratum: what both sets have in common (workload, threads ...).
        warnings: what a reader must know before believing it.
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
    higher_is_better: bool = True
    label_a: str = "a"
    label_b: str = "b"
    metric: str = ""
    family: str = ""
    family_size: int = 1
    error: float = math.inf
    freedom: float = 0.0
    stratum: dict[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def change_percent(self) -> float:
        """Change from `b` to `a` in per cent of `b`."""
        return (self.ratio.estimate - 1) * 100

    @property
    def runs_missing(self) -> int | None:
        """Further runs per set until a verdict is likely; 0 once there is one."""
        if self.verdict != "inconclusive":
            return 0
        return None if self.runs_needed is None else max(1, self.runs_needed - self.ratio.n)

    def summary_lines(self) -> list[str]:
        """The finding with what it was adjusted over, and the warnings."""
        where = ", ".join(f"{name} {value}" for name, value in self.stratum.items())
        return [*([where] if where else []), self.sentence(), *(f"  {note}" for note in self.warnings)]

    def sentence(self) -> str:
        """The finding in one sentence.

        Example:
            >>> compare([100, 101, 99, 100], [80, 81, 79, 80], label_a="text", label_b="binary").sentence()
            'text is faster than binary: ratio 1.25 [1.23, 1.27] (95 %, Welch t on the log ratio, n = 4).'
        """
        words = {
            "faster": f"{self.label_a} is faster than {self.label_b}",
            "slower": f"{self.label_a} is slower than {self.label_b}",
            "equivalent": f"{self.label_a} and {self.label_b} are equivalent within ±{self.margin * 100:g} %",
            "inconclusive": f"whether {self.label_a} differs from {self.label_b} cannot be told",
        }
        missing = self.runs_missing
        runs = "run" if missing == 1 else "runs"
        advice = f"; about {missing} more {runs} of each would decide" if missing else ""
        return f"{words[self.verdict]}: ratio {self.ratio}{advice}."


def compare(
    a: ArrayLike,
    b: ArrayLike,
    margin: float = MARGIN,
    *,
    level: float = LEVEL,
    higher_is_better: bool = True,
    label_a: str = "a",
    label_b: str = "b",
    metric: str = "",
) -> Comparison:
    """Compare set `a` with the base set `b`, one value per run.

    The verdict rests on Welch's t on the log of the ratio of means, which holds its level for few runs: two
    one-sided tests against the margin decide `equivalent`; failing that, an interval that excludes 1 decides
    `faster` or `slower`; otherwise it is `inconclusive`. The rank statistics stand beside it and raise a warning
    where they disagree.

    Args:
        a: the set in question.
        b: the base.
        margin: relative difference that counts as none (0.05 = 5 %, from 1/1.05 to 1.05).
        level: confidence level; the tests use 1 - level.
        higher_is_better: true for a throughput, false for a latency.
        label_a: what `a` is.
        label_b: what `b` is.
        metric: what was measured.

    Raises:
        InsufficientDataError: an empty set.
        UsageError: means that are not positive, or a margin that is not.

    Example:
        >>> compare([10.1, 9.9, 10.0, 10.2], [10.0, 10.1, 9.9, 10.0]).verdict
        'equivalent'
        >>> compare([5.1, 5.0, 5.2], [4.0, 4.1, 3.9], higher_is_better=False).verdict
        'slower'
    """
    x, y = as_sample(a, 1, f"set {label_a}"), as_sample(b, 1, f"set {label_b}")
    base = compare_summaries(
        _moments(x),
        _moments(y),
        margin,
        level=level,
        higher_is_better=higher_is_better,
        label_a=label_a,
        label_b=label_b,
        metric=metric,
    )
    p_ranks = mann_whitney_p(x, y)
    notes = _rank_notes(base, p_ranks, x, y, 1 - level)
    return replace(
        base,
        p_mann_whitney=p_ranks,
        shift=hodges_lehmann(x, y, level),
        cliffs_delta=cliffs_delta(x, y),
        warnings=unique((*base.warnings, *notes)),
    )


def compare_summaries(
    a: Summary,
    b: Summary,
    margin: float = MARGIN,
    *,
    level: float = LEVEL,
    higher_is_better: bool = True,
    label_a: str = "a",
    label_b: str = "b",
    metric: str = "",
) -> Comparison:
    """Compare two sets that are known only by (mean, standard deviation, n), as published tables give them.

    Example:
        Two sets of 4 runs with a spread of 15 %, which cannot show that there is no overhead:

        >>> comparison = compare_summaries((102.0, 15.0, 4), (100.0, 15.0, 4))
        >>> comparison.verdict, comparison.runs_needed
        ('inconclusive', 451)
    """
    check_level(level)
    if not margin > 0:
        raise UsageError(f"a margin of {margin:g} is not positive", way_out="pass 0.05 for 5 %")
    ratio = ratio_interval_from_summaries(a, b, level)
    error, freedom = log_ratio_error(a, b)
    log_ratio, bound = math.log(ratio.estimate), math.log1p(margin)
    p_difference = _two_sided(log_ratio, error, freedom)
    p_equivalence = _tost(log_ratio, bound, error, freedom)
    means = tuple(mean_interval_from_summary(*side, level=level, method="log-t") for side in (a, b))
    return Comparison(
        verdict=decide(ratio.estimate, p_difference, p_equivalence, 1 - level, higher_is_better),
        ratio=ratio,
        mean_a=means[0],
        mean_b=means[1],
        margin=margin,
        p_difference=p_difference,
        p_equivalence=p_equivalence,
        p_welch=_welch(a, b),
        p_mann_whitney=None,
        shift=None,
        cliffs_delta=None,
        runs_needed=_runs_needed(abs(log_ratio), bound, a, b, 1 - level),
        p_difference_adjusted=p_difference,
        p_equivalence_adjusted=p_equivalence,
        higher_is_better=higher_is_better,
        label_a=label_a,
        label_b=label_b,
        metric=metric,
        error=error,
        freedom=freedom,
        warnings=unique((*ratio.warnings, *_size_notes(a, b, label_a, label_b))),
    )


def _moments(sample: Floats) -> Summary:
    return float(sample.mean()), float(sample.std(ddof=1)) if sample.size > 1 else math.nan, sample.size


def decide(ratio: float, p_difference: float, p_equivalence: float, alpha: float, higher_is_better: bool) -> Verdict:
    """The word for two p-values: equivalence is asked first, so a small but certain difference is equivalent."""
    if p_equivalence <= alpha:
        return "equivalent"
    if p_difference <= alpha:
        return "faster" if (ratio > 1) == higher_is_better else "slower"
    return "inconclusive"


def _two_sided(log_ratio: float, error: float, freedom: float) -> float:
    if not freedom:
        return math.nan
    if error == 0:
        return float(log_ratio == 0)
    return 2 * t_tail(abs(log_ratio) / error, freedom)


def _tost(log_ratio: float, bound: float, error: float, freedom: float) -> float:
    """The larger p-value of the two one-sided tests against -bound and +bound."""
    if not freedom:
        return math.nan
    if error == 0:
        return float(abs(log_ratio) >= bound)
    return t_tail((bound - abs(log_ratio)) / error, freedom)


def _welch(a: Summary, b: Summary) -> float:
    if min(a[2], b[2]) < 2:
        return math.nan
    if a[1] == b[1] == 0:
        return float(a[0] == b[0])
    from scipy import stats

    return float(stats.ttest_ind_from_stats(*a, *b, equal_var=False).pvalue)


def _runs_needed(distance: float, bound: float, a: Summary, b: Summary, alpha: float) -> int | None:
    """Smallest n per set at which a difference, or equivalence, is shown with the planned power."""
    if min(a[2], b[2]) < 2:
        return None
    spread = math.hypot(a[1] / a[0], b[1] / b[0])
    if spread == 0:
        return 2

    def decides(n: int) -> bool:
        freedom, error = 2 * (n - 1), spread / math.sqrt(n)
        differs = (t_quantile(1 - alpha / 2, freedom) + t_quantile(POWER, freedom)) * error <= distance
        # At a ratio near 1 both one-sided tests must succeed, which costs power on each side.
        both = t_quantile(1 - alpha, freedom) + t_quantile((1 + POWER) / 2, freedom)
        return differs or both * error <= bound - distance

    return smallest(decides, 2, _MOST_RUNS)


def _size_notes(a: Summary, b: Summary, label_a: str, label_b: str) -> list[str]:
    return [f"{label}: 2 runs; at least 3 are advised" for label, side in ((label_a, a), (label_b, b)) if side[2] == 2]


def _rank_notes(comparison: Comparison, p_ranks: float, x: Floats, y: Floats, alpha: float) -> list[str]:
    if min(x.size, y.size) < 2:
        return []
    fewest = 2 / math.comb(x.size + y.size, x.size)
    if fewest > alpha:
        least = f"smallest p {fewest:.2g}"
        return [f"{x.size} against {counted(y.size, 'run')}: too few for a rank test at {alpha:.2g} ({least})"]
    if (p_ranks <= alpha) != (comparison.p_welch <= alpha):
        return [
            f"Welch (p = {comparison.p_welch:.2g}) and Mann-Whitney (p = {p_ranks:.2g}) disagree: "
            "look at the single runs for outliers or two modes"
        ]
    return []
