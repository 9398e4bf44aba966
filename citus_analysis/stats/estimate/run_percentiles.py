"""Intervals of a percentile of values measured in runs, such as the times of sampled statements.

Several runs: Student's t over the runs' own percentiles (:mod:`citus_analysis.stats.estimate.nested`). One run: order
statistics, at the ranks that the run's effective sample size allows; neighbouring values share the server's state, so
they say less than as many independent ones.

References:
    Heidelberger, P. and Lewis, P. A. W. (1984). Quantile estimation in dependent sequences. Operations Research 32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats._validate import as_sample, check_level, check_percentile
from citus_analysis.stats.estimate.nested import nested_interval, run_percentile
from citus_analysis.stats.estimate.percentiles import check_supports, percentile_ranks, supporting, values_needed
from citus_analysis.stats.results import Interval
from citus_analysis.stats.series.sequences import effective_sample_size
from citus_analysis.texts.counted_words import counted

__all__ = ["run_percentile_interval"]

_ONE_RUN: Final = "one run: the interval holds for its conditions and says nothing of other runs"


def run_percentile_interval(runs: Sequence[ArrayLike], q: float, *, level: float = LEVEL) -> Interval:
    """Interval of the q-th percentile of values measured in one or several runs.

    Args:
        runs: one array of values per run, each in the order of time.
        q: percentile in per cent.
        level: confidence level.

    Returns:
        Over two runs or more n is the number of runs; runs too small for the percentile are left out with a warning.
        Of one run n is the number of independent values that it is worth; where these are too few, there is no
        interval, and the warning names the number needed.

    Raises:
        InsufficientDataError: no run is large enough for the percentile; the message names the size needed.

    Example:
        >>> print(run_percentile_interval([[10, 11, 12, 13], [14, 15, 16, 17], [11, 12, 13, 14]], 50))
        13.17 [8.89, 19.5] (95 %, Student t on the log scale over runs, n = 3)
        >>> import numpy as np
        >>> print(run_percentile_interval([np.random.default_rng(0).normal(100, 10, 200)], 50))
        100.5 [97.95, 103] (95 %, order statistics of one run, n = 144)
    """
    samples = [as_sample(run, 0, "a run") for run in runs if len(np.atleast_1d(run))]
    large = [run for run in samples if run.size >= supporting(q)]
    if not large:
        check_supports(max((run.size for run in samples), default=0), q)
    check_level(level)
    found = nested_interval(large, q, level=level) if len(large) > 1 else _of_one_run(large[0], q, level)
    if left_out := len(samples) - len(large):
        note = f"{counted(left_out, 'run')} of fewer than {supporting(q)} values left out"
        found = replace(found, warnings=(*found.warnings, note))
    return found


def _of_one_run(run: Floats, q: float, level: float) -> Interval:
    """Order statistics at the ranks of as many independent values as the run is worth."""
    estimate, worth = run_percentile(run, q), _worth(run, q)
    method = "order statistics of one run"
    try:
        low, high = percentile_ranks(worth, q, level)
    except InsufficientDataError:
        note = f"one run of {counted(run.size, 'value')}, worth {worth} independent: an interval of the {q:g}th "
        note += f"percentile at {level * 100:g} % needs {values_needed(q, level):,}, or a second run"
        return Interval.absent(estimate, level, worth, method, note)
    ordered = np.sort(run)
    # The r-th of `worth` values begins after the share (r - 1) / worth of the run's own and ends at r / worth.
    first = math.floor((low - 1) * run.size / worth)
    last = math.ceil(high * run.size / worth) - 1
    return Interval(estimate, float(ordered[first]), float(ordered[last]), level, worth, method, (_ONE_RUN,))


def _worth(run: Floats, q: float) -> int:
    """Independent values that a run is worth for a percentile: the fewer of two counts.

    The one is that of whether values lie above the percentile, on which its error depends, but which few values beyond
    a high percentile tell badly; the other that of the ranks.
    """
    if run.size < 4:
        return int(run.size)
    ranks = np.argsort(np.argsort(run, kind="stable"), kind="stable").astype(np.float64)
    above = (run > np.quantile(run, check_percentile(q))).astype(np.float64)
    return max(1, int(min(effective_sample_size(one).effective for one in (ranks, above))))
