"""Comparisons corrected by what was measured beside the runs: the speed of the machine, foreign work, placement.

Runs of one configuration that were made while the machine was slower are slower; the slope of that relation, within
configurations, tells how much of a difference between two configurations the unequal conditions explain (analysis of
covariance; with measurements that the treatment cannot change it is the control variate of simulation, and CUPED).
The corrected log ratio is the log ratio less the slopes times the differences of the covariates' means. Its error is
that of the runs' residuals, and of the slopes.

A correction must not turn a difference round: if it does, the covariates say more about the configurations than about
the conditions, and the correction is refused.

References:
    Cochran, W. G. (1957). Analysis of covariance: its nature and uses. Biometrics 13.
    Deng, A., Xu, Y., Kohavi, R. and Walker, T. (2013). Improving the sensitivity of online controlled experiments by
        utilizing pre-experiment data (CUPED). WSDM '13.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats.results import Interval
from citus_analysis.stats.verdicts import Comparison, Evidence, Verdict, decide

__all__ = ["CorrectedComparison", "CovariateSlopes", "correct_comparison", "estimate_slopes"]


@dataclass(frozen=True)
class CovariateSlopes:
    """Change of the logarithm of a metric for one unit of each covariate, configurations held constant.

    Attributes:
        names: the covariates.
        slopes: one for each.
        precision: the inverse of the covariates' sums of squares and products within configurations.
        df: degrees of freedom of the runs within configurations, before slopes are estimated.
        n: number of runs.
    """

    names: tuple[str, ...]
    slopes: Floats
    precision: Floats
    df: int
    n: int


def estimate_slopes(
    values: ArrayLike, configuration: Sequence[object], covariates: Mapping[str, ArrayLike]
) -> CovariateSlopes:
    """Slopes of the logarithm of a metric on covariates, within configurations, over all runs together.

    Args:
        values: the metric of each run, positive.
        configuration: configuration of each run.
        covariates: name -> one number per run; runs of which one is not known (nan) are left out.

    Raises:
        UsageError: a value is not positive, or arrays are of different length.
        InsufficientDataError: too few repeated runs, or a covariate that is equal in all runs of a configuration.

    Example:
        >>> speed = [1.0, 0.9, 0.8, 1.0, 0.9, 0.8]
        >>> found = estimate_slopes([100, 90, 80, 50, 45, 40], ["a"] * 3 + ["b"] * 3, {"speed": np.log(speed)})
        >>> round(float(found.slopes[0]), 3)
        1.0
    """
    rates = np.asarray(values, dtype=np.float64)
    columns = [np.asarray(column, dtype=np.float64) for column in covariates.values()]
    if len({rates.size, len(configuration), *(column.size for column in columns)}) > 1:
        raise UsageError("values, configuration and covariates have different lengths")
    if not (np.isfinite(rates) & (rates > 0)).all():
        raise UsageError("a value is not positive", hint="leave out runs that failed")
    x = np.column_stack(columns) if columns else np.empty((rates.size, 0))
    known = np.isfinite(x).all(axis=1)
    _, places = np.unique(np.asarray([repr(one) for one in configuration])[known], return_inverse=True)
    y, x = np.log(rates[known]), x[known]
    counts = np.bincount(places)
    df = int(y.size - counts.size)
    centred_y = y - (np.bincount(places, y) / counts)[places]
    centred_x = x - np.column_stack([(np.bincount(places, column) / counts)[places] for column in x.T]) if df else x
    products = centred_x.T @ centred_x
    if df <= len(columns) or np.linalg.matrix_rank(products) < len(columns):
        raise InsufficientDataError(
            f"{y.size} runs of {counts.size} configurations do not tell the slopes of {len(columns)} covariates",
            hint="repeat configurations more often",
        )
    precision: Floats = np.asarray(np.linalg.inv(products), dtype=np.float64)
    return CovariateSlopes(tuple(covariates), precision @ (centred_x.T @ centred_y), precision, df, int(y.size))


@dataclass(frozen=True)
class CorrectedComparison:
    """A comparison beside the same one corrected by covariates.

    Attributes:
        plain: the comparison without covariates, whose verdict stands.
        evidence: the corrected ratio with its error; None where it is not corrected.
        verdict: of the corrected ratio, at the level and margin of the plain one, as one of as many comparisons
            (Bonferroni); ``inconclusive`` where it is not corrected.
        reason: why it is not corrected; empty if it is.
        covariates: what it is corrected by.
    """

    plain: Comparison
    evidence: Evidence | None
    verdict: Verdict
    reason: str
    covariates: tuple[str, ...]

    @property
    def interval(self) -> Interval | None:
        """The corrected ratio with the interval that belongs to the verdict: one of a family of simultaneous ones."""
        return None if self.evidence is None else self.evidence.interval(self.plain.ratio.level, self.plain.family_size)

    @property
    def width_ratio(self) -> float:
        """Width of the corrected interval over that of the plain one, on the log scale; nan if not corrected."""
        if self.evidence is None:
            return math.nan
        level = self.plain.ratio.level
        widths = [
            math.log(one.high / one.low) for one in (self.evidence.interval(level), self.plain.evidence.interval(level))
        ]
        return widths[0] / widths[1] if widths[1] else math.nan


def correct_comparison(
    plain: Comparison, sides: tuple[tuple[Floats, Floats], tuple[Floats, Floats]], slopes: CovariateSlopes
) -> CorrectedComparison:
    """A comparison corrected by covariates, or the reason why it is not.

    It is corrected if that makes the interval of the ratio narrower and leaves the direction of the difference.

    Args:
        plain: the comparison of the runs without covariates.
        sides: of `a` and of `b`, the metric of each run, and its covariates (one column each, in the order of the
            slopes); block by block if `plain` is paired.
        slopes: result of :func:`estimate_slopes`.
    """

    def refuse(reason: str) -> CorrectedComparison:
        return CorrectedComparison(plain, None, "inconclusive", reason, slopes.names)

    if not plain.ratio.exists:
        return refuse("a side has a single run")
    (a, of_a), (b, of_b) = sides
    if not (np.isfinite(of_a).all() and np.isfinite(of_b).all()):
        return refuse(f"not known of all runs: {', '.join(slopes.names)}")
    residual_a, residual_b = np.log(a) - of_a @ slopes.slopes, np.log(b) - of_b @ slopes.slopes
    paired = plain.design == "paired" and a.size == b.size
    if paired:
        left = residual_a - residual_b
        squares, df, per_run = float(((left - left.mean()) ** 2).sum()), a.size - 1.0, 1 / a.size
    else:
        both = (residual_a, residual_b)
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in both)
        df, per_run = a.size + b.size - 2.0, 1 / a.size + 1 / b.size
    # The slopes fit the runs of this comparison as well, in proportion to their part of all runs.
    rest = df - len(slopes.names) * min(1.0, df / slopes.df)
    if rest < 1:
        return refuse("too few runs")
    difference = of_a.mean(axis=0) - of_b.mean(axis=0)
    variance = squares / rest
    # One run's variance is half of that of a pair's difference.
    of_slopes = float(difference @ slopes.precision @ difference) * (variance / 2 if paired else variance)
    corrected = math.log(plain.ratio.estimate) - float(difference @ slopes.slopes)
    spread = math.sqrt(variance if paired else 2 * variance)
    evidence = replace(
        plain.evidence,
        ratio=math.exp(corrected),
        error=math.sqrt(variance * per_run + of_slopes),
        df=rest,
        spread=spread,
        design="paired" if paired else "unpaired",
    )
    p_values = (evidence.p_difference(), evidence.p_equivalence(plain.margin))
    p_difference, p_equivalence = (min(1.0, plain.family_size * p) for p in p_values)
    verdict = decide(evidence.ratio, p_difference, p_equivalence, 1 - plain.ratio.level, plain.higher_is_better)
    found = CorrectedComparison(plain, evidence, verdict, "", slopes.names)
    if corrected * math.log(plain.ratio.estimate) < 0 and (
        plain.differs or verdict not in ("equivalent", "inconclusive")
    ):
        return refuse("it would turn the difference round")
    if not found.width_ratio < 1:
        return refuse("it would not make the interval narrower")
    return found
