"""Intervals of a percentile of values measured in runs, such as the times of sampled statements.

The interval of several runs is Student's t over the runs' percentiles (:mod:`citus_analysis.stats.run_percentiles`),
that of a single run uses order statistics at the ranks for the run's effective sample size, because neighbouring values
share the server's state.

References:
    Heidelberger, P. and Lewis, P. A. W. (1984). Quantile estimation in dependent sequences. Operations Research 32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats._validate import check_level, check_percentile, validate_sample
from citus_analysis.stats.intervals import MeanMethod, choose_mean_method, mean_interval
from citus_analysis.stats.percentiles import (
    check_supports,
    compute_percentile_ranks,
    compute_values_needed,
    count_supporting_values,
)
from citus_analysis.stats.results import Interval
from citus_analysis.stats.warmup import estimate_effective_sample_size
from citus_analysis.texts.words import pluralize

# Intervals of nested data: operations in runs.
#
# References:
#     Jain, R. (1991). The Art of Computer Systems Performance Analysis, section 25.5 (independent replications).
#     Law, A. M. (2015). Simulation Modeling and Analysis, 5th edition, section 9.5.
#     Hyndman, R. J. and Fan, Y. (1996). Sample quantiles in statistical packages. American Statistician 50.


def run_percentile(run: Floats, q: float) -> float:
    """A run's percentile by the median-unbiased rule (type 8 of Hyndman and Fan).

    The usual interpolation gives a high percentile of few values that is too low, by 7 % for the 99th of 100 lognormal
    ones. The mean over runs keeps that error: 95 % intervals over 5 runs cover 84 %, with this rule 95 %.

    Example:
        >>> round(run_percentile(np.arange(1.0, 101.0), 99), 2)
        99.66
    """
    return float(np.quantile(run, q / 100, method="median_unbiased"))


def estimate_nested_interval(
    groups: Sequence[ArrayLike],
    statistic: Callable[[Floats], np.floating | float] | float = np.mean,
    *,
    level: float = LEVEL,
    method: MeanMethod | None = None,
) -> Interval:
    """Student's t over the runs' own statistics: each run is one independent value.

    Operations of one run share its conditions, so an interval for independent operations would be that of the run, not
    of the system. The bootstrap of runs and operations has too small a coverage for few runs (3 runs: 76 %); t on one
    value per run has the right one (`python -m benchmarks.stats`). The estimate is the mean of the runs' statistics.

    Args:
        groups: one array of operations per run.
        statistic: statistic of the operations of one run, such as `numpy.mean`; or a percentile in per cent (99).
        level: confidence level.
        method: method of the interval, see `mean_interval`; by default on the log scale unless a value is negative.

    Raises:
        InsufficientDataError: fewer than two runs, an empty run, or a run too small for the percentile.

    Example:
        >>> print(estimate_nested_interval([[10, 11, 12], [14, 15, 16], [12, 13, 14]], method="t"))
        13 [8.032, 17.97] (95 %, Student t over runs, n = 3)
    """
    runs = [validate_sample(group, 1, "a run") for group in groups]
    if len(runs) < 2:
        raise InsufficientDataError("one run says nothing about the spread between runs: at least 2 are needed")
    if callable(statistic):
        values = [float(statistic(run)) for run in runs]
    else:
        for run in runs:
            check_supports(run.size, statistic)
        values = [run_percentile(run, statistic) for run in runs]
    found = mean_interval(values, level, method or choose_mean_method(values))
    return Interval(found.estimate, found.low, found.high, level, found.n, f"{found.method} over runs", found.warnings)


_ONE_RUN: Final = "one run: the interval is valid for its conditions, not for other runs"


@dataclass(frozen=True, eq=False)
class RunValues:
    """Values of one run in the order of time, with intermediate results kept for several percentiles.

    Raises:
        UsageError: more than one dimension, or a value that is not finite.

    Example:
        >>> run = RunValues(np.random.default_rng(0).normal(100, 10, 200))
        >>> [run_percentile_interval([run], q).n for q in (50, 75)]
        [144, 105]
    """

    values: Floats

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "values", validate_sample(self.values, 0, "a run"))

    @cached_property
    def ordered(self) -> Floats:
        """The values by size."""
        return np.sort(self.values)

    @cached_property
    def worth_of_ranks(self) -> float:
        """Effective sample size of the ranks of the values."""
        ranks = np.empty(self.values.size)
        ranks[np.argsort(self.values, kind="stable")] = np.arange(self.values.size)
        return estimate_effective_sample_size(ranks).effective


def run_percentile_interval(runs: Sequence[ArrayLike | RunValues], q: float, *, level: float = LEVEL) -> Interval:
    """Interval of the q-th percentile of values measured in one or several runs.

    Args:
        runs: one array of values per run, each in the order of time; for several percentiles of the same runs,
            :class:`citus_analysis.stats.run_percentiles.RunValues`.
        q: percentile in per cent.
        level: confidence level.

    Returns:
        For two or more runs n is the number of runs; runs too small for the percentile are left out with a warning.
        For one run n is its effective sample size; if that is too small, there is no interval, and the warning names
        the number needed.

    Raises:
        InsufficientDataError: no run is large enough for the percentile; the message names the size needed.

    Example:
        >>> print(run_percentile_interval([[10, 11, 12, 13], [14, 15, 16, 17], [11, 12, 13, 14]], 50))
        13.17 [8.89, 19.5] (95 %, Student t on the log scale over runs, n = 3)
        >>> import numpy as np
        >>> print(run_percentile_interval([np.random.default_rng(0).normal(100, 10, 200)], 50))
        100.5 [97.95, 103] (95 %, order statistics of one run, n = 144)
    """
    given = [run if isinstance(run, RunValues) else RunValues(np.atleast_1d(run)) for run in runs]
    samples = [run for run in given if run.values.size]
    large = [run for run in samples if run.values.size >= count_supporting_values(q)]
    if not large:
        check_supports(max((run.values.size for run in samples), default=0), q)
    check_level(level)
    several = len(large) > 1
    found = (
        estimate_nested_interval([run.values for run in large], q, level=level)
        if several
        else _estimate_run_percentile(large[0], q, level)
    )
    if left_out := len(samples) - len(large):
        note = f"{pluralize(left_out, 'run')} of fewer than {count_supporting_values(q)} values left out"
        found = replace(found, warnings=(*found.warnings, note))
    return found


def _estimate_run_percentile(run: RunValues, q: float, level: float) -> Interval:
    """Order statistics at the ranks for the effective sample size of the run."""
    size = run.values.size
    estimate, worth = run_percentile(run.values, q), _compute_percentile_sample_size(run, q)
    method = "order statistics of one run"
    try:
        low, high = compute_percentile_ranks(worth, q, level)
    except InsufficientDataError:
        note = f"one run of {pluralize(size, 'value')}, worth {worth} independent: an interval of the {q:g}th "
        note += f"percentile at {level * 100:g} % needs {compute_values_needed(q, level):,}, or a second run"
        return Interval.absent(estimate, level, worth, method, note)
    # The r-th of `worth` values represents the run's values from the share (r - 1) / worth to r / worth.
    first = math.floor((low - 1) * size / worth)
    last = math.ceil(high * size / worth) - 1
    return Interval(estimate, float(run.ordered[first]), float(run.ordered[last]), level, worth, method, (_ONE_RUN,))


def _compute_percentile_sample_size(run: RunValues, q: float) -> int:
    """Effective sample size of a run for a percentile: the smaller of two.

    One is that of the sequence "value above the percentile", on which the error depends, but which is imprecise if few
    values are beyond a high percentile; the other is that of the ranks.
    """
    if run.values.size < 4:
        return int(run.values.size)
    above = (run.values > np.quantile(run.ordered, check_percentile(q))).astype(np.float64)
    return max(1, int(min(run.worth_of_ranks, estimate_effective_sample_size(above).effective)))
