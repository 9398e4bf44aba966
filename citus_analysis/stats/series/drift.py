"""Drift over the order of runs, and sets of runs that were not interleaved.

References:
    Kendall, M. G. (1938). A new measure of rank correlation. Biometrika 30.
    Sen, P. K. (1968). Estimates of the regression coefficient based on Kendall's tau. JASA 63.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.defaults import LEVEL
from citus_analysis.core.displays import Shown
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import as_sample, check_level
from citus_analysis.texts.counted_words import counted

__all__ = ["Drift", "are_interleaved", "detect_drift"]

#: Below this n even a perfect order has a p-value above 5 %.
_FEWEST: Final = 5


@dataclass(frozen=True, repr=False)
class Drift(Shown):
    """A trend of a metric over the order in which runs were made.

    Attributes:
        detected: the trend is significant; None where there are too few runs to tell.
        tau: Kendall's rank correlation with the order.
        p_value: two-sided.
        change_percent: change from the first to the last run by the median (Theil-Sen) slope, in per cent of the mean.
        n: number of runs.
        warnings: what a reader must know.
    """

    detected: bool | None
    tau: float
    p_value: float
    change_percent: float
    n: int
    warnings: tuple[str, ...] = ()


def detect_drift(values: ArrayLike, order: ArrayLike | None = None, *, level: float = LEVEL) -> Drift:
    """Test whether a metric rises or falls over the order of the runs.

    Args:
        values: one value per run.
        order: when each run was made (start time, iteration); by default the values are in order.
        level: 1 - level is the test's level.

    Raises:
        UsageError: values and order differ in length.

    Example:
        >>> detect_drift([100, 98, 97, 95, 94, 90]).detected
        True
    """
    from scipy import stats

    sample = as_sample(values, 1)
    times = np.arange(sample.size, dtype=float) if order is None else as_sample(order, 1, "the order")
    if times.size != sample.size:
        raise UsageError(f"{counted(sample.size, 'value')}, but {counted(times.size, 'place')} in their order")
    if sample.size < _FEWEST:
        note = f"too few to see a drift: {counted(sample.size, 'run')}; at least {_FEWEST} are needed"
        return Drift(None, float("nan"), 1.0, float("nan"), sample.size, (note,))
    if np.ptp(sample) == 0 or np.ptp(times) == 0:
        return Drift(False, 0.0, 1.0, 0.0, sample.size)
    test = stats.kendalltau(times, sample)
    slope = float(stats.theilslopes(sample, times).slope)
    change = slope * float(np.ptp(times)) / abs(float(sample.mean())) * 100 if sample.mean() else float("nan")
    detected = bool(test.pvalue <= 1 - check_level(level))
    direction = "rises" if change > 0 else "falls"
    notes = (f"the metric {direction} by {abs(change):.1f} % over the order of the runs",) if detected else ()
    return Drift(detected, float(test.statistic), float(test.pvalue), change, sample.size, notes)


def are_interleaved(times: Sequence[ArrayLike]) -> bool:
    """Whether no two sets of runs were made one wholly after the other.

    Example:
        >>> are_interleaved([[1, 3, 5], [2, 4, 6]]), are_interleaved([[1, 2, 3], [4, 5, 6]])
        (True, False)
    """
    spans = sorted((float(np.min(t)), float(np.max(t))) for t in (as_sample(one, 1, "times") for one in times))
    return all(next_start < end for (_, end), (next_start, _) in pairwise(spans))
