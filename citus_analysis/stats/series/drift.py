"""Drift over the order of runs, and sets of runs that were not interleaved.

References:
    Kendall, M. G. (1938). A new measure of rank correlation. Biometrika 30.
    Sen, P. K. (1968). Estimates of the regression coefficient based on Kendall's tau. JASA 63.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.defaults import LEVEL, POWER, SEED
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import as_sample, check_level
from citus_analysis.texts.counted_words import counted

#: Below this n even a perfect order has a p-value above 5 %.
_FEWEST: Final = 5
#: Simulated sequences for the detectable drift.
_REPEATS: Final = 1_000


@dataclass(frozen=True, repr=False)
class Drift(Shown):
    """A trend of a metric over the order in which runs were made.

    Attributes:
        detected: whether the trend is significant; None if there are too few runs.
        tau: Kendall's rank correlation with the order.
        p_value: two-sided p-value.
        change_percent: change from the first to the last run by the median (Theil-Sen) slope, in per cent of the mean.
        n: number of runs.
        detectable_percent: drift from the first to the last run that n runs of this spread show in 80 % of cases; nan
            if there are too few.
        warnings: caveats.
    """

    detected: bool | None
    tau: float
    p_value: float
    change_percent: float
    n: int
    detectable_percent: float = float("nan")
    warnings: tuple[str, ...] = ()


def detect_drift(values: ArrayLike, order: ArrayLike | None = None, *, level: float = LEVEL) -> Drift:
    """Test whether a metric rises or falls over the order of the runs.

    Args:
        values: one value per run.
        order: start time or iteration of each run; by default the values are in order.
        level: confidence level; the test's level is 1 - level.

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
        return Drift(None, float("nan"), 1.0, float("nan"), sample.size, warnings=(note,))
    if np.ptp(sample) == 0 or np.ptp(times) == 0:
        return Drift(False, 0.0, 1.0, 0.0, sample.size)
    test = stats.kendalltau(times, sample)
    slope = float(stats.theilslopes(sample, times).slope)
    change = slope * float(np.ptp(times)) / abs(float(sample.mean())) * 100 if sample.mean() else float("nan")
    detected = bool(test.pvalue <= 1 - check_level(level))
    direction = "rises" if change > 0 else "falls"
    note = f"the metric {direction} by {abs(change):.1f} % over the order of the runs"
    residuals = sample - slope * times
    detectable = _detectable(sample.size, 1 - level) * float(residuals.std(ddof=2)) / abs(float(sample.mean())) * 100
    if not detected:
        note = f"no drift detected; {counted(sample.size, 'run')} show one of {detectable:.1f} % in 80 % of cases"
    return Drift(detected, float(test.statistic), float(test.pvalue), change, sample.size, detectable, (note,))


@lru_cache(maxsize=64)
def _detectable(n: int, alpha: float) -> float:
    """Drift over n evenly spaced runs, in standard deviations of one run, that Kendall's test shows in 80 % of cases.

    Simulated with a seed; the power rises with the drift, so bisection finds it.
    """
    rng = np.random.default_rng(SEED)
    noise, line, (first, second) = rng.normal(size=(_REPEATS, n)), np.linspace(0, 1, n), np.triu_indices(n, 1)

    def score(runs: Floats) -> Floats:
        """Concordant minus discordant pairs, the statistic of Kendall's test."""
        return np.asarray(np.abs(np.sign(runs[:, second] - runs[:, first]).sum(axis=1)))

    # Scores are two apart: this is between the largest one that is not significant and the next.
    needed = float(np.quantile(score(noise), 1 - alpha, method="higher")) + 1
    low, high = 0.0, 40.0
    for _ in range(20):
        middle = (low + high) / 2
        shown = (score(noise + middle * line) >= needed).mean() >= POWER
        low, high = (low, middle) if shown else (middle, high)
    return high


def are_interleaved(times: Sequence[ArrayLike]) -> bool:
    """Whether all sets of runs overlap in time, so that none was made wholly after another.

    Example:
        >>> are_interleaved([[1, 3, 5], [2, 4, 6]]), are_interleaved([[1, 2, 3], [4, 5, 6]])
        (True, False)
    """
    spans = sorted((float(np.min(t)), float(np.max(t))) for t in (as_sample(one, 1, "times") for one in times))
    return all(next_start < end for (_, end), (next_start, _) in pairwise(spans))
