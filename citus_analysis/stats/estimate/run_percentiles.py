"""Intervals of a percentile of values measured in runs, such as the times of sampled statements.

The interval of several runs is Student's t over the runs' percentiles (:mod:`citus_analysis.stats.estimate.nested`),
that of a single run uses order statistics at the ranks for the run's effective sample size, because neighbouring values
share the server's state.

References:
    Heidelberger, P. and Lewis, P. A. W. (1984). Quantile estimation in dependent sequences. Operations Research 32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats._validate import as_sample, check_level, check_percentile
from citus_analysis.stats.estimate.nested import nested_interval, run_percentile
from citus_analysis.stats.estimate.percentiles import check_supports, percentile_ranks, supporting, values_needed
from citus_analysis.stats.results import Interval
from citus_analysis.stats.series.sequences import effective_sample_size
from citus_analysis.texts.counted_words import counted

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
        object.__setattr__(self, "values", as_sample(self.values, 0, "a run"))

    @cached_property
    def ordered(self) -> Floats:
        """The values by size."""
        return np.sort(self.values)

    @cached_property
    def worth_of_ranks(self) -> float:
        """Effective sample size of the ranks of the values."""
        ranks = np.empty(self.values.size)
        ranks[np.argsort(self.values, kind="stable")] = np.arange(self.values.size)
        return effective_sample_size(ranks).effective


def run_percentile_interval(runs: Sequence[ArrayLike | RunValues], q: float, *, level: float = LEVEL) -> Interval:
    """Interval of the q-th percentile of values measured in one or several runs.

    Args:
        runs: one array of values per run, each in the order of time; for several percentiles of the same runs,
            :class:`citus_analysis.stats.estimate.run_percentiles.RunValues`.
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
    large = [run for run in samples if run.values.size >= supporting(q)]
    if not large:
        check_supports(max((run.values.size for run in samples), default=0), q)
    check_level(level)
    several = len(large) > 1
    found = (
        nested_interval([run.values for run in large], q, level=level) if several else _of_one_run(large[0], q, level)
    )
    if left_out := len(samples) - len(large):
        note = f"{counted(left_out, 'run')} of fewer than {supporting(q)} values left out"
        found = replace(found, warnings=(*found.warnings, note))
    return found


def _of_one_run(run: RunValues, q: float, level: float) -> Interval:
    """Order statistics at the ranks for the effective sample size of the run."""
    size = run.values.size
    estimate, worth = run_percentile(run.values, q), _worth(run, q)
    method = "order statistics of one run"
    try:
        low, high = percentile_ranks(worth, q, level)
    except InsufficientDataError:
        note = f"one run of {counted(size, 'value')}, worth {worth} independent: an interval of the {q:g}th "
        note += f"percentile at {level * 100:g} % needs {values_needed(q, level):,}, or a second run"
        return Interval.absent(estimate, level, worth, method, note)
    # The r-th of `worth` values represents the run's values from the share (r - 1) / worth to r / worth.
    first = math.floor((low - 1) * size / worth)
    last = math.ceil(high * size / worth) - 1
    return Interval(estimate, float(run.ordered[first]), float(run.ordered[last]), level, worth, method, (_ONE_RUN,))


def _worth(run: RunValues, q: float) -> int:
    """Effective sample size of a run for a percentile: the smaller of two.

    One is that of the sequence "value above the percentile", on which the error depends, but which is imprecise if few
    values are beyond a high percentile; the other is that of the ranks.
    """
    if run.values.size < 4:
        return int(run.values.size)
    above = (run.values > np.quantile(run.ordered, check_percentile(q))).astype(np.float64)
    return max(1, int(min(run.worth_of_ranks, effective_sample_size(above).effective)))
