"""The number of runs needed for a precision, a stopping rule, and the influence of single runs.

References:
    Jain, R. (1991). The Art of Computer Systems Performance Analysis, section 13.9 (sample size).
    Kupper, L. L. and Hafner, K. B. (1989). How appropriate are popular sample size formulas? American Statistician 43.
    Cook, R. D. and Weisberg, S. (1982). Residuals and Influence in Regression (deleted residuals).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import ASSURANCE, LEVEL, METRIC
from citus_analysis.errors import UsageError, require_known
from citus_analysis.stats._validate import check_level, validate_sample
from citus_analysis.stats.distributions import (
    compute_f_quantile,
    compute_normal_quantile,
    compute_t_quantile,
    find_smallest_n,
)
from citus_analysis.stats.independence import check_independence
from citus_analysis.stats.intervals import mean_interval
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_means import refuse_mixed_systems
from citus_analysis.stats.studied_runs import get_metric_values, get_start_times_ms, iterate_groups
from citus_analysis.stats.warmup import estimate_effective_sample_size
from citus_analysis.texts.words import pluralize

_MOST: Final = 10_000_000


@dataclass(frozen=True, repr=False)
class RequiredRuns(DisplayMixin):
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
        return [f"{self}; {pluralize(self.made, 'run')} made so far"]


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
class Influence(DisplayMixin):
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
    sample = validate_sample(values, 2)
    check_level(level)
    mean = abs(float(sample.mean()))
    if not relative_half_width > 0 or mean == 0:
        raise UsageError("a relative half-width needs a positive size and a mean other than 0")
    if not 0 < assurance < 1:
        raise UsageError(f"an assurance of {assurance:g} is not between 0 and 1", hint="pass 0.8 for 80 %")
    require_known("interval method", method, ["t", "normal"])
    made, ratio = sample.size, float(sample.std(ddof=1)) / (relative_half_width * mean)
    by_normal = max(2, math.ceil((compute_normal_quantile((1 + level) / 2) * ratio) ** 2))
    if method == "normal":
        return RequiredRuns(by_normal, made, relative_half_width, level, None)
    runs = find_smallest_n(lambda n: _narrow(n, made, ratio, level, assurance), made, _MOST) or _MOST
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
    inflated = (made - 1 + more * (compute_f_quantile(assurance, more, made - 1) if more else 0.0)) / (n - 1)
    return compute_t_quantile((1 + level) / 2, n - 1) * ratio * math.sqrt(inflated / n) <= 1


def check_enough_runs(
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
        >>> str(check_enough_runs([100, 101, 99, 100, 102])), str(check_enough_runs([100, 130, 80, 95, 110]))
        ('enough', '117 more (assurance 80 %)')
    """
    sample = validate_sample(values, 1)
    interval = mean_interval(sample, level)
    reached = interval.relative_half_width
    if sample.size >= max(least, 2) and reached <= relative_half_width:
        return StoppingRule(True, 0, reached, relative_half_width, interval, assurance)
    if most is not None and sample.size >= most:
        widths = f"±{reached * 100:.1f} % instead of ±{relative_half_width * 100:.1f} %"
        note = f"stopped at {pluralize(most, 'run')} with {widths}"
        return StoppingRule(False, 0, reached, relative_half_width, interval, assurance, (note,))
    needed = required_runs(sample, relative_half_width, level, assurance=assurance).runs if sample.size > 1 else least
    needed = max(needed, least, sample.size + 1)
    more = (needed if most is None else min(needed, most)) - sample.size
    return StoppingRule(False, more, reached, relative_half_width, interval, assurance)


def compute_run_influence(values: ArrayLike) -> Influence:
    """The change of the mean if each run is left out.

    Raises:
        InsufficientDataError: fewer than 3 values.

    Example:
        >>> compute_run_influence([10, 11, 10, 11, 30]).warnings
        ('run 5 (30) lies 30 standard deviations from the others and moves the mean by 27.1 %',)
    """
    sample = validate_sample(values, 3)
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
    bound = compute_t_quantile(1 - 0.025 / n, n - 2)
    outlying = np.abs(deleted) > bound
    notes = tuple(
        f"run {i + 1} ({sample[i]:.4g}) lies {abs(deleted[i]):.0f} standard deviations from the others "
        f"and moves the mean by {abs(change[i]):.1f} %"
        for i in np.nonzero(outlying)[0]
    )
    return Influence(sample, mean, without, change, deleted, outlying, notes)


# Precision of the mean of each configuration, with remarks on its runs: a table for a report.

#: Half-width of a mean's interval, relative to the mean, that the table plans for.
WANTED: Final = 0.05
#: Smallest number of a client's status lines from which a correlation is estimated.
_FEWEST_LINES: Final = 20
_ADDED: Final = {
    "n": pl.Int64(),
    **dict.fromkeys(("mean", "half_width_percent"), pl.Float64()),
    "more_runs": pl.Int64(),
    **dict.fromkeys(("intervals", "worth"), pl.Float64()),
    "remarks": pl.String(),
}


@return_callers_frame_kind
def run_precision(
    runs: Frame,
    by: Sequence[str],
    metric: str = METRIC,
    *,
    series: Frame | None = None,
    level: float = LEVEL,
    wanted: float = WANTED,
) -> pl.DataFrame:
    """Precision of each configuration's mean, with the further runs needed and remarks.

    Args:
        runs: one row per run.
        by: columns that define a configuration.
        metric: column of the metric.
        series: rows of `client_series`, for the number of independent values in a run's status lines.
        level: confidence level.
        wanted: wanted relative half-width.

    Returns:
        The `by` columns; n, mean, half_width_percent (null for one run), more_runs (until the wanted half-width, with
        80 % assurance; 0: enough), intervals and worth (medians over the runs: status lines, and the number of
        independent ones that they are worth; null without a series), remarks (outlying runs, two modes, dependence).

    Raises:
        UsageError: runs of several systems would become one mean.

    Example:
        >>> runs = pl.DataFrame({"workers": [1] * 5, "throughput_ops_s": [100.0, 101, 99, 100, 60]})
        >>> table = run_precision(runs, ["workers"])
        >>> table["more_runs"][0], table["remarks"][0]
        (137, 'run 5 (60) lies 44 standard deviations from the others and moves the mean by 8.7 %')
    """
    frame = convert_to_polars(runs)
    refuse_mixed_systems(frame, by)
    worth = _count_independent_values(convert_to_polars(series)) if series is not None else {}
    rows = [
        {**key, **_build_precision_row(part, metric, level, wanted, worth)} for key, part in iterate_groups(frame, by)
    ]
    return pl.DataFrame(rows, schema={**{name: frame.schema[name] for name in by}, **_ADDED})


def _build_precision_row(
    part: pl.DataFrame, metric: str, level: float, wanted: float, worth: dict[tuple[object, object], tuple[int, float]]
) -> dict[str, object]:
    values, times = get_metric_values(part, metric), get_start_times_ms(part)
    rule = check_enough_runs(values, wanted, level)
    checked = check_independence(values, times, ordered=times is not None)
    remarks = [
        *(compute_run_influence(values).warnings if values.size > 2 else ()),
        *(checked.warnings if checked.checked else ()),
    ]
    keys = zip(part["resource"], part["run_id"], strict=True) if worth else ()
    known = [worth[key] for key in keys if key in worth]
    return {
        "n": values.size,
        "mean": float(values.mean()),
        "half_width_percent": rule.reached * 100 if rule.interval.exists else None,
        "more_runs": rule.more,
        "intervals": float(np.median([lines for lines, _ in known])) if known else None,
        "worth": float(np.median([effective for _, effective in known])) if known else None,
        "remarks": "; ".join(remarks),
    }


def _count_independent_values(series: pl.DataFrame) -> dict[tuple[object, object], tuple[int, float]]:
    """Status lines of each run's first main client, and the independent values that they are worth."""
    lines = series.filter(pl.col("section").is_null() & (pl.col("role").cast(pl.String) == "main"))
    lines = lines.drop_nulls(["throughput_ops_s", "elapsed_s"])
    found: dict[tuple[object, object], tuple[int, float]] = {}
    for key, part in lines.group_by("resource", "run_id", "part", maintain_order=True):
        values = get_metric_values(part.sort("elapsed_s"), "throughput_ops_s")
        if values.size >= _FEWEST_LINES:
            found.setdefault((key[0], key[1]), (values.size, estimate_effective_sample_size(values).effective))
    return found
