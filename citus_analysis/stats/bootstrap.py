"""Bootstrap intervals: BCa over independent values.

References:
    Efron, B. (1987). Better bootstrap confidence intervals. Journal of the American Statistical Association 82.
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application, section 5.3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, RESAMPLES, SEED
from citus_analysis.stats._validate import Seed, check_level, make_generator, validate_sample
from citus_analysis.stats.results import Interval

#: Below this many values the coverage of a BCa interval is clearly below its level (docs/statistics.md has the table).
FEW_FOR_BCA: Final = 20
#: Resampled values in memory at a time (8 bytes each).
_BATCH_VALUES: Final = 4_000_000
#: A vectorised statistic: called with the samples and ``axis=-1``.
Statistic: TypeAlias = Callable[..., Floats]
EQUAL_VALUES: Final = "all values are equal: the interval has no width, which says nothing about the next run"


def estimate_bca_interval(
    samples: Sequence[ArrayLike],
    statistic: Statistic,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: Seed = SEED,
) -> Interval:
    """Bias-corrected and accelerated bootstrap interval of a statistic of one or more independent samples.

    Args:
        samples: one-dimensional arrays, each of which is resampled independently.
        statistic: vectorised function, called with the samples and ``axis=-1``.
        level: confidence level.
        resamples: number of bootstrap resamples.
        seed: makes the interval repeatable.

    Raises:
        InsufficientDataError: a sample has fewer than two values.

    Example:
        >>> import numpy as np
        >>> estimate_bca_interval([[31, 36, 30, 34, 39, 33, 35, 38, 32, 37]], np.mean).method
        'BCa bootstrap'
    """
    check_level(level)
    arrays = [validate_sample(sample, 2) for sample in samples]
    estimate = float(statistic(*arrays, axis=-1))
    n = min(array.size for array in arrays)
    notes = [f"a BCa interval from {n} values covers less than it states"] if n < FEW_FOR_BCA else []
    if all(np.ptp(array) == 0 for array in arrays):
        return Interval(estimate, estimate, estimate, level, n, "BCa bootstrap", (*notes, EQUAL_VALUES))
    low, high = _compute_bca_ends(arrays, statistic, level, resamples, seed)
    if not np.isfinite([low, high]).all():
        low, high = np.nan, np.nan
        notes.append("the bootstrap distribution is degenerate, no interval: too few distinct values")
    return Interval(estimate, float(low), float(high), level, n, "BCa bootstrap", tuple(notes))


def _compute_bca_ends(
    arrays: list[Floats], statistic: Statistic, level: float, resamples: int, seed: Seed
) -> tuple[float, float]:
    from scipy import stats

    largest = max(array.size for array in arrays)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        # The result has a warning of its own instead of scipy's.
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
            rng=make_generator(seed),
        )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
