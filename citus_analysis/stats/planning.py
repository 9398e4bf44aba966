"""The number of runs needed for a precision, a stopping rule, and the influence of single runs.

References:
    Jain, R. (1991). The Art of Computer Systems Performance Analysis, section 13.9 (sample size).
    Kupper, L. L. and Hafner, K. B. (1989). How appropriate are popular sample size formulas? American Statistician 43.
    Cook, R. D. and Weisberg, S. (1982). Residuals and Influence in Regression (deleted residuals).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.defaults import ASSURANCE, LEVEL
from citus_analysis.errors import UsageError, require_known
from citus_analysis.stats._validate import as_sample, check_level
from citus_analysis.stats.estimate._student import f_quantile, normal_quantile, smallest, t_quantile
from citus_analysis.stats.estimate.intervals import mean_interval
from citus_analysis.stats.results import Interval
from citus_analysis.texts.counted_words import counted

_MOST: Final = 10_000_000


@dataclass(frozen=True, repr=False)
class RequiredRuns(Shown):
    """The number of runs needed for a precision.

    Attributes:
        runs: all runs, including those made so far.
        made: runs made so far, from which the spread is known.
        wanted: wanted relative half-width.
        level: confidence level of the interval.
        assurance: probability that this number of runs reaches the precision; None for Jain's formula, which assumes
            that the spread is known.
    """

    runs: int
    made: int
    wanted: float
    level: float
    assurance: float | None

    def __int__(self) -> int:
        return self.runs

    def __str__(self) -> str:
        chance = "the spread taken for known" if self.assurance is None else f"assurance {self.assurance * 100:g} %"
        return f"{self.runs:,} runs for ±{self.wanted * 100:g} % ({self.level * 100:g} %, {chance})"

    def summary_lines(self) -> list[str]:
        """The number in words."""
        return [f"{self}; {counted(self.made, 'run')} made so far"]


@dataclass(frozen=True)
class StoppingRule:
    """The decision whether further runs are needed.

    Attributes:
        enough: whether the wanted precision is reached.
        more: runs still to be made; 0 if `enough`.
        assurance: probability that these further runs reach the precision.
        reached: relative half-width of the interval so far.
        wanted: wanted relative half-width.
        interval: mean with its interval so far.
        warnings: caveats.
    """

    enough: bool
    more: int
    reached: float
    wanted: float
    interval: Interval
    assurance: float = ASSURANCE
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "enough" if self.enough else f"{self.more} more (assurance {self.assurance * 100:g} %)"


@dataclass(frozen=True, eq=False, repr=False)
class Influence(Shown):
    """The influence of each run on the mean; no run is dropped.

    Attributes:
        values: the runs.
        mean: mean of all runs.
        mean_without: per run, mean of the other runs.
        change_percent: change of the mean in per cent if the run is left out.
        deleted_residual: distance from the mean of the others in their standard deviations (studentised).
        outlying: whether the deleted residual is beyond the Bonferroni-corrected 95 % quantile.
        warnings: outlying runs, in words.
    """

    values: Floats
    mean: float
    mean_without: Floats
    change_percent: Floats
    deleted_residual: Floats
    outlying: np.ndarray[tuple[int], np.dtype[np.bool_]]
    warnings: tuple[str, ...] = ()


def required_runs(
    values: ArrayLike,
    relative_half_width: float,
    level: float = LEVEL,
    method: Literal["t", "normal"] = "t",
    *,
    assurance: float = ASSURANCE,
) -> RequiredRuns:
    """The number of runs needed for a mean ± the wanted relative half-width, including those made so far.

    A plan that takes the spread of few runs for the true one reaches the precision in about half of all cases. The
    result is the number at which the interval of all runs is narrow enough with the stated assurance. The ratio of the
    variances of further and present runs follows F if runs are normal.

    Args:
        values: at least two runs made so far.
        relative_half_width: wanted half-width over the mean, e.g. 0.02.
        level: confidence level.
        method: ``t``, or ``normal`` (Jain's formula (100 z s / (r mean))², without assurance).
        assurance: probability of reaching the precision.

    Raises:
        InsufficientDataError: fewer than two values.
        UsageError: a half-width that is not positive, or a mean of 0.

    Example:
        >>> print(required_runs([98.0, 102.0, 100.0, 97.0, 103.0], 0.02))
        16 runs for ±2 % (95 %, assurance 80 %)
    """
    sample = as_sample(values, 2)
    check_level(level)
    mean = abs(float(sample.mean()))
    if not relative_half_width > 0 or mean == 0:
        raise UsageError("a relative half-width needs a positive size and a mean other than 0")
    if not 0 < assurance < 1:
        raise UsageError(f"an assurance of {assurance:g} is not between 0 and 1", way_out="pass 0.8 for 80 %")
    require_known("interval method", method, ["t", "normal"])
    made, ratio = sample.size, float(sample.std(ddof=1)) / (relative_half_width * mean)
    by_normal = max(2, math.ceil((normal_quantile((1 + level) / 2) * ratio) ** 2))
    if method == "normal":
        return RequiredRuns(by_normal, made, relative_half_width, level, None)
    runs = smallest(lambda n: _narrow(n, made, ratio, level, assurance), made, _MOST) or _MOST
    return RequiredRuns(runs, made, relative_half_width, level, assurance)


def _narrow(n: int, made: int, ratio: float, level: float, assurance: float) -> bool:
    """Whether n runs in all give an interval of at most the wanted width with the assurance.

    Args:
        n: number of all runs.
        made: number of the runs made so far.
        ratio: their standard deviation over the wanted half-width.
        level: confidence level of the interval.
        assurance: probability of reaching the precision.
    """
    more = n - made
    inflated = (made - 1 + more * (f_quantile(assurance, more, made - 1) if more else 0.0)) / (n - 1)
    return t_quantile((1 + level) / 2, n - 1) * ratio * math.sqrt(inflated / n) <= 1


def enough_runs(
    values: ArrayLike,
    relative_half_width: float = 0.05,
    level: float = LEVEL,
    *,
    least: int = 5,
    most: int | None = None,
    assurance: float = ASSURANCE,
) -> StoppingRule:
    """Sequential stopping: whether there are enough runs, or how many more are needed.

    An interval at which measuring stops because it is narrow covers less than its level; `least` runs before the first
    decision keep the loss small (docs/statistics.md has the simulated coverage).

    Args:
        values: runs so far.
        relative_half_width: wanted half-width over the mean.
        level: confidence level.
        least: runs before the first decision.
        most: number of runs at which to stop even if the precision is not reached.
        assurance: probability that the further runs are enough.

    Raises:
        InsufficientDataError: no values.

    Example:
        >>> str(enough_runs([100, 101, 99, 100, 102])), str(enough_runs([100, 130, 80, 95, 110]))
        ('enough', '117 more (assurance 80 %)')
    """
    sample = as_sample(values, 1)
    interval = mean_interval(sample, level)
    reached = interval.relative_half_width
    if sample.size >= max(least, 2) and reached <= relative_half_width:
        return StoppingRule(True, 0, reached, relative_half_width, interval, assurance)
    if most is not None and sample.size >= most:
        widths = f"±{reached * 100:.1f} % instead of ±{relative_half_width * 100:.1f} %"
        note = f"stopped at {counted(most, 'run')} with {widths}"
        return StoppingRule(False, 0, reached, relative_half_width, interval, assurance, (note,))
    needed = required_runs(sample, relative_half_width, level, assurance=assurance).runs if sample.size > 1 else least
    needed = max(needed, least, sample.size + 1)
    more = (needed if most is None else min(needed, most)) - sample.size
    return StoppingRule(False, more, reached, relative_half_width, interval, assurance)


def influence(values: ArrayLike) -> Influence:
    """The change of the mean if each run is left out.

    Raises:
        InsufficientDataError: fewer than 3 values.

    Example:
        >>> influence([10, 11, 10, 11, 30]).warnings
        ('run 5 (30) lies 30 standard deviations from the others and moves the mean by 27.1 %',)
    """
    sample = as_sample(values, 3)
    n, mean = sample.size, float(sample.mean())
    without = (sample.sum() - sample) / (n - 1)
    squares = float(((sample - mean) ** 2).sum())
    # Leaving out value i lowers the sum of squares by its squared distance times n/(n-1).
    others = np.maximum(squares - (sample - mean) ** 2 * n / (n - 1), 0.0) / (n - 2)
    scale = np.sqrt(others * n / (n - 1))
    gap = sample - without
    with np.errstate(divide="ignore", invalid="ignore"):
        deleted = np.where(gap == 0, 0.0, gap / scale)
        change = (without / mean - 1) * 100 if mean else np.full(n, math.nan)
    bound = t_quantile(1 - 0.025 / n, n - 2)
    outlying = np.abs(deleted) > bound
    notes = tuple(
        f"run {i + 1} ({sample[i]:.4g}) lies {abs(deleted[i]):.0f} standard deviations from the others "
        f"and moves the mean by {abs(change[i]):.1f} %"
        for i in np.nonzero(outlying)[0]
    )
    return Influence(sample, mean, without, change, deleted, outlying, notes)
