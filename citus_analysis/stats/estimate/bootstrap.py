"""Bootstrap intervals: BCa over independent values, and the nested bootstrap over runs and operations.

References:
    Efron, B. (1987). Better bootstrap confidence intervals. Journal of the American Statistical Association 82.
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application, sections 3.8 and 5.3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.defaults import LEVEL, NESTED_RESAMPLES, RESAMPLES, SEED
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats._validate import Seed, as_sample, check_level, generator
from citus_analysis.stats.results import Interval
from citus_analysis.texts.counted_words import counted

__all__ = ["bca_interval", "nested_bootstrap"]

#: Below this many values a BCa interval covers visibly less than it states (docs/statistics.md has the table).
FEW_FOR_BCA: Final = 20
#: Resampled values held in memory at once (8 bytes each).
_BATCH_VALUES: Final = 4_000_000
_NO_SPREAD: Final = "all values are equal: the interval has no width, which says nothing about the next run"


def bca_interval(
    samples: Sequence[ArrayLike],
    statistic: Callable[..., Any],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: Seed = SEED,
) -> Interval:
    """Bias-corrected and accelerated bootstrap interval of a statistic of one or more independent samples.

    Args:
        samples: the samples, each a one-dimensional array; each is resampled on its own.
        statistic: vectorised: called with the samples and ``axis=-1``.
        level: confidence level.
        resamples: number of bootstrap resamples.
        seed: makes the interval repeatable.

    Raises:
        InsufficientDataError: a sample has fewer than two values.

    Example:
        >>> import numpy as np
        >>> bca_interval([[31, 36, 30, 34, 39, 33, 35, 38, 32, 37]], np.mean).method
        'BCa bootstrap'
    """
    check_level(level)
    arrays = [as_sample(sample, 2) for sample in samples]
    estimate = float(statistic(*arrays, axis=-1))
    n = min(array.size for array in arrays)
    notes = [f"a BCa interval from {n} values covers less than it states"] if n < FEW_FOR_BCA else []
    if all(np.ptp(array) == 0 for array in arrays):
        return Interval(estimate, estimate, estimate, level, n, "BCa bootstrap", (*notes, _NO_SPREAD))
    low, high = _bca_ends(arrays, statistic, level, resamples, seed)
    if not np.isfinite([low, high]).all():
        low, high = np.nan, np.nan
        notes.append("the bootstrap distribution is degenerate, no interval: too few distinct values")
    return Interval(estimate, float(low), float(high), level, n, "BCa bootstrap", tuple(notes))


def _bca_ends(
    arrays: list[Floats], statistic: Callable[..., Any], level: float, resamples: int, seed: Seed
) -> tuple[float, float]:
    from scipy import stats

    largest = max(array.size for array in arrays)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        # scipy announces a degenerate distribution with a warning; here it becomes a warning of the result.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            arrays,
            statistic,
            n_resamples=resamples,
            batch=max(1, min(resamples, _BATCH_VALUES // largest)),
            vectorized=True,
            axis=-1,
            confidence_level=level,
            method="BCa",
            rng=generator(seed),
        )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def nested_bootstrap(
    groups: Sequence[ArrayLike],
    statistic: Callable[[Floats], float] = np.mean,
    *,
    level: float = LEVEL,
    resamples: int = NESTED_RESAMPLES,
    seed: Seed = SEED,
) -> Interval:
    """Percentile interval of a statistic of nested data: runs are resampled, then the operations within each.

    Operations of one run share its conditions, so resampling them alone would state the precision of that run,
    not of the system.

    Args:
        groups: one array of operations per run.
        statistic: of the pooled operations; `numpy.mean` takes a fast path.
        level: confidence level.
        resamples: number of bootstrap resamples.
        seed: makes the interval repeatable.

    Raises:
        InsufficientDataError: fewer than two runs, or an empty run.

    Example:
        >>> interval = nested_bootstrap([[10, 11, 12], [14, 15, 16], [12, 13, 14]])
        >>> interval.estimate, interval.n, 10.5 < interval.low < interval.high < 15.5
        (13.0, 3, True)
    """
    check_level(level)
    arrays = [as_sample(group, 1, "a run") for group in groups]
    if len(arrays) < 2:
        raise InsufficientDataError("a nested bootstrap needs at least 2 runs: one run says nothing about the spread")
    rng = generator(seed)
    chosen = rng.integers(len(arrays), size=(resamples, len(arrays)))
    if statistic is np.mean:
        replicates = _nested_means(arrays, chosen, rng)
    else:
        replicates = np.array([statistic(_resample(arrays, row, rng)) for row in chosen])
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    notes = (
        (f"{counted(len(arrays), 'run')}: a bootstrap over fewer than 5 runs is too narrow",) if len(arrays) < 5 else ()
    )
    estimate = float(statistic(np.concatenate(arrays)))
    return Interval(estimate, float(low), float(high), level, len(arrays), "nested bootstrap", notes)


def _resample(arrays: list[Floats], chosen: np.ndarray[Any, Any], rng: np.random.Generator) -> Floats:
    return np.concatenate([arrays[g][rng.integers(arrays[g].size, size=arrays[g].size)] for g in chosen])


def _nested_means(arrays: list[Floats], chosen: np.ndarray[Any, Any], rng: np.random.Generator) -> Floats:
    """Means of all resamples at once: each run is drawn as often as all resamples together chose it."""
    sums = np.zeros(len(chosen))
    sizes = np.zeros(len(chosen))
    for g, array in enumerate(arrays):
        owners = np.nonzero(chosen == g)[0]
        step = max(1, _BATCH_VALUES // array.size)
        for start in range(0, owners.size, step):
            block = owners[start : start + step]
            drawn = array[rng.integers(array.size, size=(block.size, array.size))]
            np.add.at(sums, block, drawn.sum(axis=1))
            np.add.at(sizes, block, array.size)
    return sums / sizes
