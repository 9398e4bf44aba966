"""Tests whether runs are independent draws of one distribution: dependence in time, and two modes.

Student's t assumes that they are. If successive runs are correlated, or some runs are of another kind (a checkpoint, a
noisy neighbour), its intervals are too short; docs/statistics.md has the coverage. Few runs can neither show nor
exclude either.

References:
    von Neumann, J. (1941). Distribution of the ratio of the mean square successive difference to the variance. Annals
        of Mathematical Statistics 12.
    Engelman, L. and Hartigan, J. A. (1969). Percentage points of a test for clusters. JASA 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import SEED
from citus_analysis.stats._validate import validate_sample
from citus_analysis.texts.words import pluralize

#: Below this n neither test has enough power: with 8 runs, a correlation of 0.7 is found in one of four cases.
FEWEST_TO_CHECK: Final = 8
#: Level of both tests; frequent false warnings would not be read.
_ALPHA: Final = 0.01
_RESAMPLES: Final = 1_999


@dataclass(frozen=True, repr=False)
class Independence(DisplayMixin):
    """Result of the tests of independence.

    Attributes:
        checked: whether there are enough runs for the tests.
        n: number of runs.
        lag1: autocorrelation of successive runs.
        p_dependence: permutation test of the mean square successive difference, against positive dependence; 1 if the
            order is not known.
        p_modes: test for two clusters against one normal distribution.
        effective: effective sample size of the runs for their mean; n if no dependence was found.
        warnings: caveats.
    """

    checked: bool
    n: int
    lag1: float
    p_dependence: float
    p_modes: float
    effective: float
    warnings: tuple[str, ...] = ()


def check_independence(values: ArrayLike, order: ArrayLike | None = None, *, ordered: bool = True) -> Independence:
    """Test runs for dependence from one to the next, and for two modes.

    Args:
        values: one value per run.
        order: start time of each run; by default the values are in order.
        ordered: whether the order is known; if not, only modes are tested.

    Raises:
        InsufficientDataError: no values.

    Example:
        >>> check_independence([100, 101, 99, 100, 102, 98, 70, 101, 99, 71, 100, 72]).warnings
        ('two groups of runs (3 near 71, 9 near 100): a mean and its interval describe neither (p = 0.0005)',)
        >>> check_independence([100, 101, 99]).warnings
        ('3 runs: neither two modes nor dependence of successive runs can be excluded',)
    """
    sample = validate_sample(values, 1)
    if order is not None:
        sample = sample[np.argsort(validate_sample(order, 1, "the order"), kind="stable")]
    if sample.size < FEWEST_TO_CHECK or np.ptp(sample) == 0:
        note = f"{pluralize(sample.size, 'run')}: neither two modes nor dependence of successive runs can be excluded"
        return Independence(False, sample.size, float("nan"), 1.0, 1.0, float(sample.size), (note,))
    centred = sample - sample.mean()
    lag1 = float(centred[1:] @ centred[:-1] / (centred @ centred))
    p_dependence = _estimate_dependence_p_value(sample) if ordered else 1.0
    split, share = _find_best_cluster_split(np.sort(sample)[None, :])
    p_modes = float((1 + (_simulate_null_shares(sample.size) <= share[0]).sum()) / (1 + _RESAMPLES))
    notes = []
    effective = float(sample.size)
    if p_dependence <= _ALPHA:
        effective = _compute_effective_size(sample.size, lag1)
        notes.append(
            f"successive runs depend on each other (lag-1 correlation {lag1:.2f}, p = {p_dependence:.2g}): "
            f"they are worth {effective:.1f} independent ones"
        )
    if p_modes <= _ALPHA:
        notes.append(_describe_modes(np.sort(sample), int(split[0]), p_modes))
    return Independence(True, sample.size, lag1, p_dependence, p_modes, effective, tuple(notes))


def _compute_effective_size(n: int, lag1: float) -> float:
    """Effective sample size of n runs that follow an AR(1), at least 2.

    The estimate of the correlation is corrected for its bias, -(1 + 3 phi) / n (Kendall, 1954).
    """
    phi = min(max((lag1 + 1 / n) / (1 - 3 / n), 0.0), 0.95)
    return max(2.0, n * (1 - phi) / (1 + phi))


def _estimate_dependence_p_value(sample: Floats) -> float:
    """Share of random orders whose successive differences are at most as large as the observed ones."""
    shuffled = np.random.default_rng(SEED).permuted(np.tile(sample, (_RESAMPLES, 1)), axis=1)
    seen = float((np.diff(sample) ** 2).sum())
    return float((1 + ((np.diff(shuffled, axis=1) ** 2).sum(axis=1) <= seen * (1 + 1e-12)).sum()) / (1 + _RESAMPLES))


def _find_best_cluster_split(ordered: Floats) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Floats]:
    """Size of the lower of two clusters of at least two values, and the share of the squares that is left within them.

    Args:
        ordered: shape (samples, n), ascending along the last axis.
    """
    n = ordered.shape[1]
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    total = (centred**2).sum(axis=1)
    sizes = np.arange(2, n - 1)
    below = np.cumsum(centred, axis=1)[:, 1 : n - 2]
    # Squares between the clusters: the distances of their means from the common mean, which is 0.
    between = below**2 * (1 / sizes + 1 / (n - sizes))
    best = between.argmax(axis=1)
    left = 1 - between.max(axis=1) / total
    return sizes[best], left


@lru_cache(maxsize=64)
def _simulate_null_shares(n: int) -> Floats:
    """Shares left by the best split, for samples of one normal distribution."""
    rng = np.random.default_rng(SEED)
    return _find_best_cluster_split(np.sort(rng.normal(size=(_RESAMPLES, n)), axis=1))[1]


def _describe_modes(ordered: Floats, split: int, p: float) -> str:
    low, high = ordered[:split], ordered[split:]
    groups = f"{low.size} near {np.median(low):.4g}, {high.size} near {np.median(high):.4g}"
    return f"two groups of runs ({groups}): a mean and its interval describe neither (p = {p:.2g})"
