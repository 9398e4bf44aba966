"""Confidence intervals of a mean, a median and a ratio of means.

References:
    Jain, R. (1991). The Art of Computer Systems Performance Analysis, chapter 13.
    Le Boudec, J.-Y. (2010). Performance Evaluation of Computer and Communication Systems, chapter 2.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, RESAMPLES, SEED
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError, require_known
from citus_analysis.stats._validate import Seed, check_level, validate_sample
from citus_analysis.stats.bootstrap import EQUAL_VALUES, estimate_bca_interval
from citus_analysis.stats.distributions import compute_normal_quantile, compute_t_quantile
from citus_analysis.stats.percentiles import compute_values_needed, percentile_interval
from citus_analysis.stats.results import Interval
from citus_analysis.texts.words import pluralize

MeanMethod = Literal["t", "log-t", "normal", "bootstrap"]
#: Relation between the runs of two sets: none; common iterations, whose effect is random; or pairs of runs made in the
#: same block.
Design = Literal["unpaired", "mixed", "paired"]
_RATIO_METHODS: Final[dict[Design, str]] = {
    "unpaired": "Welch t on the log ratio",
    "mixed": "mixed model on the log ratio, iterations random",
    "paired": "paired t on the log ratio, block by block",
}
_METHODS: Final = {"t": "Student t", "log-t": "Student t on the log scale", "normal": "normal"}
_ONE_VALUE: Final = "one run has no spread: no interval can be given"
_RATIO: Final = "a ratio of means"
#: Larger exponents overflow; an interval that wide has no meaning in any case.
_LARGEST_EXPONENT: Final = 700.0
#: An interval whose upper end is more than this many times its lower one does not even give the order of magnitude.
_WIDEST: Final = 10_000.0


def mean_interval(
    values: ArrayLike, level: float = LEVEL, method: MeanMethod = "t", *, resamples: int = RESAMPLES, seed: Seed = SEED
) -> Interval:
    """Interval of the mean of independent values (runs, not operations); a single value has none.

    Args:
        values: one value per run.
        level: confidence level.
        method: ``t`` (Student, the default for few runs), ``log-t`` (Student on the log scale, for rates and times:
            the interval stays above 0, and is absent if its ends are a factor of more than 10,000 apart), ``normal``
            (mean ± 1.96 s/√n at 95 %, the study's formula, too narrow for few runs) or ``bootstrap`` (BCa).
        resamples: bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        InsufficientDataError: no values.

    Example:
        >>> str(mean_interval([62_000, 63_500, 61_400, 64_100, 62_700]))
        '62,740 [61,384, 64,096] (95 %, Student t, n = 5)'

        Two very different runs, with an interval on the log scale and one that is not:

        >>> str(mean_interval([1_000, 1_700], method="log-t"))
        '1,350 [50.08, 36,390] (95 %, Student t on the log scale, n = 2)'
        >>> str(mean_interval([1_000, 1_700]))
        '1,350 [-3,097, 5,797] (95 %, Student t, n = 2)'
    """
    sample = validate_sample(values, 1)
    if method == "bootstrap" and sample.size > 1:
        return estimate_bca_interval([sample], np.mean, level=level, resamples=resamples, seed=seed)
    return estimate_mean_from_summary(*compute_sample_moments(sample), level, "t" if method == "bootstrap" else method)


def estimate_mean_from_summary(
    mean: float, sd: float, n: int, level: float = LEVEL, method: MeanMethod = "t"
) -> Interval:
    """Interval of a mean that is known only by its mean, standard deviation and n (published tables).

    Args:
        mean: arithmetic mean.
        sd: sample standard deviation (divisor n - 1); ignored for n = 1.
        n: number of values.
        level: confidence level.
        method: ``t``, ``normal``, or ``log-t``: mean × exp(± t s / (mean √n)), the interval of log(mean) by the
            delta method, as :func:`estimate_ratio_from_summaries` uses it for both means.

    Raises:
        InsufficientDataError: no values.
        UsageError: a negative standard deviation; a mean that is not positive for ``log-t``.

    Example:
        The row of 2 workers in table 5.7 of the study, whose stated interval implies n = 5:

        >>> interval = estimate_mean_from_summary(62479, 2374.32, 5, method="normal")
        >>> round(interval.low), round(interval.high)
        (60398, 64560)
    """
    check_level(level)
    if n < 1:
        raise InsufficientDataError("a mean of no values has no interval")
    if method not in _METHODS:
        raise UnknownNameError("interval method", method, [*_METHODS, "bootstrap"])
    name = _METHODS[method]
    if n == 1:
        return Interval.absent(mean, level, 1, name, _ONE_VALUE)
    if not sd >= 0:
        raise UsageError(f"a standard deviation of {sd:g} is not a size of a spread")
    tail = (1 + level) / 2
    quantile = compute_normal_quantile(tail) if method == "normal" else compute_t_quantile(tail, n - 1)
    half = quantile * sd / math.sqrt(n)
    notes = (EQUAL_VALUES,) if sd == 0 else ()
    if method == "normal" and n < 30:
        notes = (*notes, f"a normal quantile at n = {n} is too small; Student's t widens the interval")
    low, high = _ends_on_log_scale(mean, half) if method == "log-t" else (mean - half, mean + half)
    if method == "log-t" and high > _WIDEST * low:
        return Interval.absent(mean, level, n, name, _says_nothing(n))
    return Interval(mean, low, high, level, n, name, notes)


def _says_nothing(n: int) -> str:
    """The reason to refuse an interval that leaves even the order of magnitude open."""
    return f"{pluralize(n, 'run')} of this spread leave the order of magnitude open: no interval is given"


def _ends_on_log_scale(estimate: float, half: float) -> tuple[float, float]:
    """Ends of a positive quantity's interval, at a distance of `half` over the estimate on the log scale."""
    if half == 0:
        return estimate, estimate
    _check_positive("an interval on the log scale", estimate)
    factor = math.exp(min(half / estimate, _LARGEST_EXPONENT))
    return estimate / factor, estimate * factor


def choose_mean_method(values: ArrayLike) -> Literal["t", "log-t"]:
    """The method for a measured quantity's mean: on the log scale unless a value is negative or all are 0.

    Example:
        >>> choose_mean_method([1_000, 1_700]), choose_mean_method([-0.2, 0.4])
        ('log-t', 't')
    """
    sample = validate_sample(values, 1)
    return "log-t" if sample.min() >= 0 and sample.max() > 0 else "t"


def median_interval(
    values: ArrayLike,
    level: float = LEVEL,
    method: Literal["auto", "bca", "order"] = "auto",
    *,
    resamples: int = RESAMPLES,
    seed: Seed = SEED,
) -> Interval:
    """Interval of the median: by order statistics, whose coverage is at least the level; or by BCa bootstrap.

    Args:
        values: independent values.
        level: confidence level.
        method: ``order``; ``bca``, which is shorter, but whose coverage is below the level up to n = 30 and more; or
            ``auto``: order statistics, and no interval if there are too few values for one.
        resamples: bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        InsufficientDataError: no values; for ``bca`` fewer than 2; for ``order`` too few for an interval at this level
            (95 %: 6), for which ``auto`` gives the median without an interval.

    Example:
        >>> print(median_interval(range(1, 11)))
        5.5 [2, 9] (95 %, order statistics, n = 10)
    """
    sample = validate_sample(values, 1)
    require_known("interval method", method, ["auto", "bca", "order"])
    if method == "auto" and sample.size < (needed := compute_values_needed(50, level)):
        reason = f"{pluralize(sample.size, 'value')} cannot bound a median at {level * 100:g} %: at least {needed} can"
        return Interval.absent(float(np.median(sample)), level, sample.size, "order statistics", reason)
    if method != "bca":
        return percentile_interval(sample, 50, level=level)
    return estimate_bca_interval([sample], np.median, level=level, resamples=resamples, seed=seed)


def ratio_interval(
    a: ArrayLike,
    b: ArrayLike,
    level: float = LEVEL,
    method: Literal["auto", "bca", "t"] = "auto",
    *,
    resamples: int = RESAMPLES,
    seed: Seed = SEED,
) -> Interval:
    """Interval of mean(a) / mean(b) of two independent samples of positive values.

    Args:
        a: numerator, one value per run.
        b: denominator, one value per run.
        level: confidence level.
        method: ``t``: Welch's t on the log of the ratio, which keeps its level for few runs (see
            :func:`estimate_ratio_from_summaries`); ``bca``: bootstrap, which covers less than t up to hundreds of
            values per side; ``auto``: t.
        resamples: bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        UsageError: a mean is not positive.
        InsufficientDataError: an empty sample; for ``bca`` also a sample of one value.

    Example:
        >>> round(ratio_interval([20, 22, 21], [10, 11, 10.5]).estimate, 6)
        2.0
    """
    require_known("interval method", method, ["auto", "bca", "t"])
    numerator, denominator = validate_sample(a, 1, "the numerator"), validate_sample(b, 1, "the denominator")
    _check_positive(_RATIO, float(numerator.mean()), float(denominator.mean()))
    if method == "bca":
        return estimate_bca_interval(
            [numerator, denominator], _compute_ratio_of_means, level=level, resamples=resamples, seed=seed
        )
    return estimate_ratio_from_summaries(compute_sample_moments(numerator), compute_sample_moments(denominator), level)


def compute_sample_moments(sample: Floats) -> tuple[float, float, int]:
    """Mean, standard deviation (nan for one value) and n."""
    return float(sample.mean()), float(sample.std(ddof=1)) if sample.size > 1 else math.nan, int(sample.size)


def _compute_ratio_of_means(a: Floats, b: Floats, axis: int = -1) -> Floats:
    ratio: Floats = np.mean(a, axis=axis) / np.mean(b, axis=axis)
    return ratio


def estimate_ratio_from_summaries(
    a: tuple[float, float, int], b: tuple[float, float, int], level: float = LEVEL
) -> Interval:
    """Welch's t interval of the ratio of two means, on the log scale, from (mean, sd, n) of each.

    The variance of log(mean) is (sd/mean)²/n by the delta method; the degrees of freedom are Welch-Satterthwaite's.
    The interval is that of the equivalence test (TOST) in :func:`citus_analysis.stats.compare`.

    Example:
        >>> ratio = estimate_ratio_from_summaries((21.0, 1.0, 3), (10.5, 0.5, 3))
        >>> round(ratio.low, 3), round(ratio.high, 3)
        (1.795, 2.228)
    """
    check_level(level)
    _check_positive(_RATIO, a[0], b[0])
    return log_ratio_interval(a[0] / b[0], *log_ratio_error(a, b), min(a[2], b[2]), level)


def log_ratio_interval(
    ratio: float,
    error: float,
    df: float,
    n: int,
    level: float = LEVEL,
    family: int = 1,
    design: Design = "unpaired",
) -> Interval:
    """Interval of a ratio from the standard error of its logarithm.

    There is none if the error has no degrees of freedom, or if the interval says nothing: it contains 1 and leaves the
    order of magnitude open (the upper end is more than 10,000 times the lower one).

    Args:
        ratio: the estimate.
        error: standard error of its logarithm.
        df: degrees of freedom of the error.
        n: values of the smaller side.
        level: simultaneous confidence level of all intervals of the family.
        family: number of simultaneous ratios (Bonferroni).
        design: relation between the runs of both sides.

    Example:
        >>> print(log_ratio_interval(2.0, 0.1, 6.0, 4))
        2 [1.566, 2.554] (95 %, Welch t on the log ratio, n = 4)
        >>> print(log_ratio_interval(2.0, 0.1, 6.0, 4, family=10))
        2 [1.299, 3.08] (95 %, Welch t on the log ratio, simultaneous over 10, n = 4)
    """
    method = _RATIO_METHODS[design] + (f", simultaneous over {family}" if family > 1 else "")
    if not df:
        return Interval.absent(ratio, level, n, method, _ONE_VALUE)
    reach = compute_t_quantile(1 - (1 - level) / 2 / family, df) * error
    notes = (EQUAL_VALUES,) if error == 0 else ()
    low, high = _ends_on_log_scale(ratio, reach * ratio)
    if high > _WIDEST * low and low <= 1 <= high:
        return Interval.absent(ratio, level, n, method, _says_nothing(n))
    return Interval(ratio, low, high, level, n, method, notes)


def log_ratio_error(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float]:
    """Standard error of log(mean a / mean b) and its degrees of freedom; (inf, 0) if a side has one value."""
    return compute_welch_error((a[1] / a[0], a[2]), (b[1] / b[0], b[2]))


def compute_welch_error(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom by Welch and Satterthwaite.

    Args:
        a: standard deviation and n of one side.
        b: those of the other.

    Returns:
        (inf, 0) if a side has one value.

    Example:
        >>> compute_welch_error((3.0, 9), (4.0, 16))
        (1.4142135623730951, 20.869565217391305)
    """
    if min(a[1], b[1]) < 2:
        return math.inf, 0.0
    parts = [sd**2 / n for sd, n in (a, b)]
    total = sum(parts)
    if total == 0:
        return 0.0, float(a[1] + b[1] - 2)
    df = total**2 / sum(part**2 / (n - 1) for part, (_, n) in zip(parts, (a, b), strict=True))
    return math.sqrt(total), df


def _check_positive(what: str, *means: float) -> None:
    if min(means) <= 0:
        raise UsageError(f"{what} needs positive means, not {min(means):g}")
