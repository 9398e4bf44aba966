"""Fit scalability models to repeated runs, rank them, and decide between them if the data permit.

The spread of a throughput grows with the throughput. Models are therefore judged (lack of fit, F tests, weights) on
logarithms, and fitted to them. Where each size has one run, the parameters are those of ordinary least squares, as in
R's `usl`: a single run of each size does not show how the spread grows.

References:
    Burnham, K. P. and Anderson, D. R. (2002). Model Selection and Multimodel Inference (AICc, Akaike weights).
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application, section 7.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import FIT_RESAMPLES, LEVEL, SEED
from citus_analysis.errors import InsufficientDataError, UsageError, require_known
from citus_analysis.scaling.models import MODELS, USL, Model, model_named
from citus_analysis.scaling.relative import group_by_size
from citus_analysis.stats import Interval
from citus_analysis.stats.distributions import (
    compute_f_tail,
    compute_normal_quantile,
    compute_t_quantile,
    compute_t_tail,
)
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import join_words, pluralize

# Frozen results of scalability fits.

#: Level of the tests that reject a model.
ALPHA: Final = 0.05
#: Predictions are made for sizes up to this multiple of the largest measured size.
REACH: Final = 2.0
#: Relative distance from a curve within which a run lies on it.
EXACT: Final = 1e-7

#: Weights that differ by less are printed as equal.
_TIE: Final = 0.005
#: Values whose last digit is a larger share of them are not taken for rounded values of a curve.
_COARSEST: Final = 1e-3

#: The scale on which a curve is fitted: errors in proportion to the throughput (logarithms), or of one size.
Errors = Literal["relative", "absolute"]


@dataclass(frozen=True, repr=False)
class Growth(DisplayMixin):
    """Throughput as size to a power.

    Attributes:
        exponent: the power with its interval; 1: in proportion to size.
        p_proportional: two-sided p-value that the power is 1.
    """

    exponent: Interval
    p_proportional: float

    def summary_lines(self) -> list[str]:
        """The exponent with its interval."""
        return [f"throughput grows as size to the power of {self.exponent}"]

    @property
    def superlinear(self) -> bool:
        """Whether throughput grows faster than size: the whole interval lies above 1."""
        return self.exponent.low > 1


@dataclass(frozen=True, repr=False)
class Peak(DisplayMixin):
    """The size at which a fit's throughput is largest.

    Attributes:
        supported: the data bound the peak: the whole interval lies within twice the measured range.
        size: size of the peak, with its bootstrap interval; infinite if throughput never falls.
        throughput: throughput at the peak.
        words: the finding in one sentence.
    """

    supported: bool
    size: Interval
    throughput: Interval
    words: str


@dataclass(frozen=True, eq=False, repr=False)
class Band(DisplayMixin):
    """Predicted throughput with a pointwise bootstrap band.

    Attributes:
        size: the requested sizes.
        estimate: fitted curve.
        low: lower end of the band.
        high: upper end of the band.
        level: confidence level.
    """

    size: Floats
    estimate: Floats
    low: Floats
    high: Floats
    level: float


@dataclass(frozen=True, eq=False, repr=False)
class ModelFit(DisplayMixin):
    """One fitted model.

    Attributes:
        model: name of the model.
        parameters: estimates by name (gamma = throughput at size 1, alpha = contention or serial share,
            beta = coherency).
        standard_errors: asymptotic, from the Jacobian, as in R's `usl`; nan for a parameter at its bound.
        intervals: bootstrap percentile intervals of the parameters.
        sizes: size of each run.
        throughputs: throughput of each run.
        residuals: measured minus fitted.
        log_residuals: measured minus fitted on logarithms, with the parameters that fit these best.
        errors: `relative` if the parameters are fitted to logarithms, `absolute` if to the throughputs themselves.
        sigma: residual standard deviation; with relative errors, of the logarithms (0.05 is about 5 %).
        df: runs minus parameters.
        aicc: Akaike's criterion on logarithms, corrected for small samples; infinite if there are too few runs for it.
        lack_of_fit_p: p-value of the F test, on logarithms, of the model against free means per size; None without
            repeated runs.
        replicates: bootstrap parameters, shape (resamples, parameters).
        peak: size at which throughput is largest; None for models without a peak.
        warnings: limitations that a reader must know.
    """

    model: str
    parameters: dict[str, float]
    standard_errors: dict[str, float]
    intervals: dict[str, Interval]
    sizes: Floats = field(repr=False)
    throughputs: Floats = field(repr=False)
    residuals: Floats = field(repr=False)
    log_residuals: Floats = field(repr=False)
    errors: Errors
    sigma: float
    df: int
    aicc: float
    lack_of_fit_p: float | None
    replicates: Floats = field(repr=False)
    peak: Peak | None
    warnings: tuple[str, ...] = ()

    def summary_lines(self) -> list[str]:
        """The parameters with their intervals, and the warnings."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.parameters.items())
        ends = [f"  {name}: {interval}" for name, interval in self.intervals.items()]
        return [f"{self.model}: {values}", *ends, *(f"  {note}" for note in self.warnings)]

    @property
    def rss(self) -> float:
        """Residual sum of squares of the logarithms, on which models are judged."""
        return float(self.log_residuals @ self.log_residuals)

    @property
    def exact(self) -> bool:
        """Whether every run lies on the curve, as in tables of calculated values, and one run at least tests this.

        Values that are rounded to whole numbers or decimals lie on a curve that rounds to them, if two runs test it.
        """
        if self.df < 1:
            return False
        missed = np.abs(self.log_residuals)
        if bool((missed <= EXACT).all()):
            return True
        decimals = next((d for d in range(7) if np.allclose(self.throughputs, self.throughputs.round(d), 1e-12, 0)), 7)
        # Half a unit of the last digit, twice, because the fitted curve is not the one that was rounded.
        rounding = 10.0**-decimals / self.throughputs
        tested = self.df > 1 and bool((rounding < _COARSEST).all())
        return tested and bool((missed <= rounding).all())

    @property
    def rejected(self) -> bool:
        """Whether repeated runs show that the curve misses their means, so that its bands and peak are not valid."""
        return self.lack_of_fit_p is not None and self.lack_of_fit_p < ALPHA

    @property
    def limit(self) -> float:
        """Throughput that the curve approaches for ever larger sizes (Amdahl); inf, or 0 past a peak."""
        alpha, beta = self.parameters.get("alpha", 0.0), self.parameters.get("beta", 0.0)
        if beta > 0:
            return 0.0
        if self.model not in ("amdahl", "usl") or alpha == 0:
            return math.inf
        return self.parameters["gamma"] / alpha

    def predict(self, size: ArrayLike, *, force: bool = False) -> Floats:
        """Fitted throughput at the sizes.

        Args:
            size: sizes, up to twice the largest measured one.
            force: allow larger sizes.

        Raises:
            UsageError: a size lies beyond twice the measured range and `force` is not set, or is not positive.
        """
        n = np.atleast_1d(np.asarray(size, float))
        if not (n > 0).all():
            raise UsageError("sizes must be positive")
        most = REACH * float(self.sizes.max())
        if n.max() > most and not force:
            raise UsageError(
                f"size {n.max():g} lies beyond twice the largest measured size ({self.sizes.max():g})",
                hint=f"ask for at most {most:g}, or pass force=True and take the result as a guess",
            )
        return model_named(self.model).curve(n, np.array(list(self.parameters.values())))

    def band(self, size: ArrayLike, level: float = LEVEL, *, force: bool = False) -> Band:
        """Fitted throughput with a pointwise bootstrap band; arguments and errors as for `predict`."""
        n = np.atleast_1d(np.asarray(size, float))
        estimate = self.predict(n, force=force)
        curves = model_named(self.model).curve(n, self.replicates)
        low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return Band(n, estimate, low, high, level)

    def efficiency(self, size: ArrayLike, *, force: bool = False) -> Floats:
        """Fitted efficiency: X(n) / (n X(1))."""
        n = np.atleast_1d(np.asarray(size, float))
        return self.predict(n, force=force) / (n * self.parameters["gamma"])


@dataclass(frozen=True, eq=False, repr=False)
class ScalingFit(DisplayMixin):
    """Several models fitted to the same runs.

    Attributes:
        fits: name of the model -> fit, in the requested order.
        weights: Akaike weights of the models that the runs do not reject, which sum to 1; 0 for rejected models, nan
            for all if the runs are too few for the criterion of a model that they do not reject.
        rejected: models that the runs contradict, each with the reason.
        decided: the model that the runs decide for; None if the candidates cannot be distinguished.
        growth: throughput as size to a power; None with too few runs.
        exact: the runs lie on the curve that they decide for.
    """

    fits: dict[str, ModelFit]
    weights: dict[str, float]
    rejected: dict[str, str] = field(default_factory=dict)
    decided: str | None = None
    growth: Growth | None = None
    exact: bool = False

    def summary_lines(self) -> list[str]:
        """The decision, and the parameters and weight of each model."""
        models = [f"  {one.summary_lines()[0]}{self.describe_standing(name)}" for name, one in self.fits.items()]
        return [self.sentence(), *models]

    def describe_standing(self, name: str) -> str:
        """The weight of a model, or the reason why the runs reject it, to be written after it."""
        if name in self.rejected:
            return f"; rejected: {self.rejected[name]}"
        return f", weight {self.weights[name]:.2f}" if math.isfinite(self.weights[name]) else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limitations that a reader must know."""
        if self.candidates and not self.exact and not all(map(math.isfinite, self.weights.values())):
            runs = next(iter(self.fits.values())).sizes.size
            return (f"{pluralize(runs, 'run')}: too few for Akaike weights of the models that they do not reject",)
        return ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """Models that the runs do not reject."""
        return tuple(name for name in self.fits if name not in self.rejected)

    @property
    def best(self) -> ModelFit:
        """The fit that the runs decide for.

        Raises:
            InsufficientDataError: the candidates cannot be distinguished, or each model is rejected.
        """
        if self.decided is None:
            raise InsufficientDataError(self.sentence(), hint="measure more sizes, each several times")
        return self.fits[self.decided]

    def band(self, size: ArrayLike, level: float = LEVEL, *, force: bool = False) -> Band:
        """Throughput with a pointwise band that accounts for the uncertainty of the model.

        If the runs decide for a model, the band is that model's. If they do not, it reaches from the lowest to the
        highest of the candidates' bands, because the band of a single candidate covers too little if another candidate
        is true. The estimate is that of the candidate with the largest weight, or without weights of the one that
        misses the runs least.

        Args:
            size: sizes, up to twice the largest measured one.
            level: level of each candidate's band.
            force: allow larger sizes.

        Raises:
            InsufficientDataError: each model is rejected.
            UsageError: a size is not positive, or beyond the reach.
        """
        if not self.candidates:
            raise InsufficientDataError(self.sentence(), hint="measure more sizes, each several times")
        allowed = (self.decided,) if self.decided is not None else self.candidates
        bands = {name: self.fits[name].band(size, level, force=force) for name in allowed}
        foremost = bands[min(allowed, key=self.standing_order)]
        low = np.minimum.reduce([band.low for band in bands.values()])
        high = np.maximum.reduce([band.high for band in bands.values()])
        return Band(foremost.size, foremost.estimate, low, high, level)

    def standing_order(self, name: str) -> tuple[bool, float, float]:
        """Key by which models are listed: the largest weight first, or the smallest misses; rejected ones last."""
        weight = self.weights[name]
        return name in self.rejected, -weight if math.isfinite(weight) else 0.0, self.fits[name].rss

    def sentence(self) -> str:
        """The decision between the models, in words."""
        if self.decided is not None:
            if self.exact:
                return f"the runs lie on the curve of {self.decided}"
            if len(self.fits) > 1 and self.candidates == (self.decided,):
                return f"the runs reject all models but {self.decided}"
            return f"the runs decide for {self.decided} (weight {self.weights[self.decided]:.2f})"
        if self.growth is not None and self.growth.superlinear and not self.candidates:
            power = self.growth.exponent
            return (
                f"throughput grows faster than size, as size to the power of {format_number(power.estimate)} "
                f"({format_number(power.low)} to {format_number(power.high)}), which none of these models can"
            )
        if not self.candidates:
            return "each model is rejected by these runs"
        if len(self.candidates) == 1:
            return f"there are too few runs to decide whether {self.candidates[0]} is valid"
        return f"{join_words(self.candidates)} cannot be distinguished by these runs; {self._foremost()}"

    def _foremost(self) -> str:
        """The model that a reader may prefer among those that cannot be distinguished, and why."""
        heaviest = min(self.candidates, key=self.standing_order)
        weight = self.weights[heaviest]
        fewest = min(len(self.fits[name].parameters) for name in self.candidates)
        simplest = [name for name in self.candidates if len(self.fits[name].parameters) == fewest]
        if not math.isfinite(weight):
            return "there are too few runs to weigh them"
        if weight > max(self.weights[name] for name in simplest) + _TIE:
            return f"{heaviest} has the largest weight ({weight:.2f})"
        return f"{join_words(simplest)} {'is' if len(simplest) == 1 else 'are'} the simplest"

    def __getitem__(self, name: str) -> ModelFit:
        require_known("fitted model", name, self.fits)
        return self.fits[name]


# Choose among fitted models: the models that the runs do not reject, and the one that they decide for, if any.
#
# All models are judged by the same residuals, those of the logarithms.
#
# A model is *rejected* if it misses the means of repeated runs (lack of fit), or if a model with more parameters fits
# significantly better (F tests, exact for nested models, linear in Amdahl in USL, and approximate for Gustafson's). It
# is not rejected if a special case of it is not: linear throughput is Amdahl's law with alpha = 0, so that runs which
# do not contradict a line do not contradict Amdahl either, although his law has fewer degrees of freedom left. If
# throughput grows faster than size, all models are rejected, as none can.
#
# Among the others the Akaike weights decide, if one of them reaches 0.9. The small-sample correction of AICc is omitted
# if it is unfavourable to a rival of the best model: it grows without bound for few runs, and would then choose the
# model with fewer parameters regardless of the data. So a model is never preferred to one that contains it and is not
# rejected. The weights are those by which the models are chosen. There are none if AICc is undefined for a model that
# is not rejected (fewer runs than its parameters plus 3). If the tests reject all models but one, which has two degrees
# of freedom or more, it is chosen without weights. Runs that lie on a curve exactly have that model.
#
# References:
#     Burnham, K. P. and Anderson, D. R. (2002). Model Selection and Multimodel Inference, sections 2.4 and 2.6.
#     Draper, N. R. and Smith, H. (1998). Applied Regression Analysis, sections 2.1 and 6.1.
#     Gabriel, K. R. (1969). Simultaneous test procedures. Annals of Mathematical Statistics 40 (coherence).

#: Weight from which on a model is chosen.
_DECISIVE: Final = 0.9
#: Fewest degrees of freedom of a model that is chosen because all others are rejected.
_TESTED: Final = 2
#: Model -> its special cases.
_CONTAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "amdahl": ("linear",),
    "gustafson": ("linear",),
    "usl": ("linear", "amdahl"),
}


def find_rejected_models(fits: Mapping[str, ModelFit], growth: Growth | None = None) -> dict[str, str]:
    """Models that the runs contradict, each with the reason.

    Example:
        >>> from citus_analysis.scaling import fit
        >>> fitted = fit([1, 2, 4, 8] * 3, [100, 200, 400, 150, 101, 199, 404, 148, 99, 203, 398, 152], resamples=50)
        >>> sorted(find_rejected_models(fitted.fits))
        ['amdahl', 'gustafson', 'linear', 'usl']
    """
    if growth is not None and growth.superlinear:
        reason = f"throughput grows faster than size, p = {growth.p_proportional:.2g}"
        return dict.fromkeys(fits, reason)
    found = {}
    for name, one in fits.items():
        if one.exact:
            continue
        if one.rejected:
            found[name] = f"lack of fit, p = {one.lack_of_fit_p:.2g}"
            continue
        richer = [other for other, rival in fits.items() if len(rival.parameters) > len(one.parameters)]
        better = {other: _compute_nested_p_value(one, fits[other]) for other in richer}
        rival, p = min(better.items(), key=lambda item: item[1], default=("", 1.0))
        if p < ALPHA:
            found[name] = f"{rival} fits better, p = {p:.2g}"
    for name, cases in _CONTAINS.items():
        if name in found and any(case in fits and case not in found for case in cases):
            del found[name]
    return found


def _compute_nested_p_value(poorer: ModelFit, richer: ModelFit) -> float:
    """P-value of the F test that the richer model fits no better; 1 if it has no freedom left."""
    extra, df = len(richer.parameters) - len(poorer.parameters), richer.df
    if df <= 0:
        return 1.0
    # Residuals of rounding are no evidence for the model that happens to round better.
    rounding = poorer.sizes.size * EXACT**2
    gained, left = poorer.rss - richer.rss, max(richer.rss, rounding)
    if gained <= rounding:
        return 1.0
    return compute_f_tail(gained / extra / (left / df), extra, df)


def weigh_models(fits: Mapping[str, ModelFit], rejected: Mapping[str, str]) -> dict[str, float]:
    """Akaike weights of the models that the runs do not reject; 0 for the others, nan for all with too few runs.

    Example:
        >>> from citus_analysis.scaling import fit
        >>> fitted = fit([1, 2, 4, 8, 16, 32], [100, 190, 345, 590, 870, 1_150], resamples=50)
        >>> {name: round(weight, 2) for name, weight in fitted.weights.items()}
        {'linear': 0.0, 'amdahl': 0.5, 'gustafson': 0.0, 'usl': 0.5}
    """
    left = {name: one for name, one in fits.items() if name not in rejected}
    if not left or not all(math.isfinite(one.aicc) for one in left.values()):
        return dict.fromkeys(fits, math.nan)
    best = min(left.values(), key=lambda one: one.aicc)
    likely = {name: math.exp(-0.5 * _compute_criterion_distance(one, best)) for name, one in left.items()}
    whole = sum(likely.values())
    return {name: likely.get(name, 0.0) / whole for name in fits}


def _compute_criterion_distance(rival: ModelFit, best: ModelFit) -> float:
    """The difference of the rival's criterion from the best model's, by AIC or AICc, the smaller of the two."""
    runs = len(best.sizes)
    rounding = runs * EXACT**2
    fit = runs * math.log(max(rival.rss, rounding) / max(best.rss, rounding))
    plain = fit + 2 * (len(rival.parameters) - len(best.parameters))
    return float(np.clip(plain, 0.0, rival.aicc - best.aicc))


def decide_model(
    fits: Mapping[str, ModelFit], rejected: Mapping[str, str], weights: Mapping[str, float]
) -> tuple[str | None, bool]:
    """The model that the runs decide for, None if they do not decide; and whether they lie on its curve."""
    left = {name: one for name, one in fits.items() if name not in rejected}
    exact = {name: len(one.parameters) for name, one in left.items() if one.exact}
    simplest = [name for name, count in exact.items() if count == min(exact.values())]
    if len(simplest) == 1:
        return simplest[0], True
    if len(left) == 1 < len(fits):
        ((only, one),) = left.items()
        if one.df >= _TESTED:
            return only, False
    return next((name for name, weight in weights.items() if weight >= _DECISIVE), None), False


# Bounded least squares: one fit with scipy, many bootstrap refits at once with numpy.
#
# Reference:
#     Moré, J. J. (1978). The Levenberg-Marquardt algorithm: implementation and theory. LNM 630.

_TIGHT: Final = 1e-15
_ROUNDS: Final = 100
#: Relative gain below which a fit has converged, and damping at which no step can improve it any more.
_SETTLED: Final = 1e-14
_STIFF: Final = 1e4
#: Keeps the logarithm of a curve that a step brought to 0 finite.
SMALLEST: Final = 1e-300
#: Further starts of alpha and beta, because on the log scale a curve may have more than one minimum.
_STARTS: Final = ((0.01, 1e-5), (0.3, 1e-3), (0.9, 0.1))


def solve(model: Model, n: Floats, x: Floats, *, relative: bool = False) -> Floats:
    """Least-squares parameters of a model within their bounds.

    Args:
        model: the curve.
        n: size of each run.
        x: throughput of each run.
        relative: minimise squares of logarithms, for errors in proportion to the throughput.
    """
    first = np.clip(model.start(n, x), 0.0, model.upper)
    if relative:
        starts = [first, *(np.array([first[0], *others])[: first.size] for others in _STARTS)]
        rows = np.tile(x, (len(starts), 1))
        found = solve_many(model, n, rows, np.array(starts), relative=True)
        misses = np.log(rows) - _compute_safe_logarithm(model.curve(n, found))
        best: Floats = found[int(np.argmin((misses**2).sum(axis=-1)))]
        return best
    scale = float(np.abs(x).max())

    def residuals(p: Floats) -> Floats:
        return (model.curve(n, p) - x) / scale

    def jacobian(p: Floats) -> Floats:
        return model.jacobian(n, p) / scale

    # dogbox moves along the bounds and ends exactly on an active one.
    result = least_squares(
        residuals,
        first,
        jac=jacobian,
        bounds=(0.0, model.upper),
        method="dogbox",
        xtol=_TIGHT,
        ftol=_TIGHT,
        gtol=_TIGHT,
        x_scale="jac",
        max_nfev=2_000,
    )
    polished: Floats = solve_many(model, n, x[None, :], result.x)[0]
    return polished


def _compute_safe_logarithm(curve: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(curve, SMALLEST)), dtype=np.float64)


def solve_many(model: Model, n: Floats, x: Floats, start: Floats, *, relative: bool = False) -> Floats:
    """Parameters, shape (B, p), for each row of throughputs, shape (B, len(n)), from one start or one for each row.

    Levenberg-Marquardt with bounds: a parameter whose step would cross its bound is kept there for the step.
    """

    def value(theta: Floats) -> Floats:
        curve = model.curve(n, theta)
        return _compute_safe_logarithm(curve) if relative else curve

    def slope(theta: Floats) -> Floats:
        jacobian = model.jacobian(n, theta)
        return jacobian / np.maximum(model.curve(n, theta), SMALLEST)[..., None] if relative else jacobian

    upper = model.upper
    wanted = np.log(x) if relative else x
    theta = np.array(np.broadcast_to(start, (x.shape[0], np.shape(start)[-1])))
    residual = wanted - value(theta)
    loss = (residual**2).sum(axis=-1)
    damping = np.full(x.shape[0], 1e-3)
    active = np.arange(x.shape[0])
    for _ in range(_ROUNDS):
        here = theta[active]
        steps = _compute_damped_steps(slope(here), residual[active], damping[active], here, upper)
        candidate = np.clip(here + steps, 0.0, upper)
        new_residual = wanted[active] - value(candidate)
        gain = loss[active] - (new_residual**2).sum(axis=-1)
        better = gain > 0
        moved = active[better]
        theta[moved], residual[moved] = candidate[better], new_residual[better]
        settled = np.where(better, gain <= _SETTLED * loss[active], damping[active] > _STIFF)
        loss[moved] -= gain[better]
        damping[active] = np.where(better, damping[active] / 10, damping[active] * 10)
        active = active[~settled]
        if not active.size:
            break
    return theta


def _compute_damped_steps(jacobian: Floats, residual: Floats, damping: Floats, theta: Floats, upper: Floats) -> Floats:
    across = jacobian.transpose(0, 2, 1)
    gradient = (across @ residual[..., None])[..., 0]
    normal = across @ jacobian
    held = ((theta <= 0) & (gradient < 0)) | ((theta >= upper) & (gradient > 0))
    diagonal = np.einsum("bpp->bp", normal)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    # Scaling to a unit diagonal keeps gamma (1e5) and beta (1e-5) in one well-conditioned system.
    normal = normal / (scale[:, :, None] * scale[:, None, :])
    free = ~held
    normal = normal * (free[:, :, None] & free[:, None, :])
    normal = normal + np.eye(theta.shape[-1]) * (damping[:, None] + 1e-14 + held)[:, None, :]
    step: Floats = np.linalg.solve(normal, (gradient / scale * free)[..., None])[..., 0]
    return step / scale


def fit(
    n: ArrayLike,
    x: ArrayLike,
    models: Sequence[str] = tuple(MODELS),
    *,
    errors: Errors | None = None,
    level: float = LEVEL,
    resamples: int = FIT_RESAMPLES,
    seed: int = SEED,
) -> ScalingFit:
    """Fit several models to the same runs, compute their Akaike weights, and decide for one if the runs permit.

    Args:
        n: size of each run (workers, threads ...); runs of equal size are repeats.
        x: throughput of each run.
        models: names of models in `MODELS`.
        errors: scale on which curves are fitted: `relative` (logarithms) or `absolute` (throughputs); None: relative
            if a size has several runs, otherwise absolute. Models are judged on logarithms in any case.
        level: confidence level of the parameters, of the peak and of the growth exponent.
        resamples: bootstrap resamples over runs.
        seed: makes the intervals repeatable.

    Raises:
        UnknownNameError: no such model.
        UsageError: arrays of different length, or values that are not positive.
        InsufficientDataError: fewer sizes than a model has parameters.

    Example:
        >>> fitted = fit([1, 2, 4, 8, 16, 32], [100, 190, 345, 590, 870, 1_150], resamples=200)
        >>> fitted.sentence(), round(fitted["usl"].parameters["alpha"], 3)
        ('amdahl and usl cannot be distinguished by these runs; amdahl is the simplest', 0.056)

        Runs that lie on a curve exactly:

        >>> fit([1, 2, 4, 8], [100, 200 / 1.05, 400 / 1.15, 800 / 1.35], resamples=50).sentence()
        'the runs lie on the curve of amdahl'
    """
    fits = {
        model.name: fit_model(model, n, x, errors=errors, level=level, resamples=resamples, seed=seed)
        for model in [model_named(name) for name in models]
    }
    groups = group_by_size(n, x)
    growth = estimate_growth_exponent(groups, level)
    rejected = find_rejected_models(fits, growth)
    weights = weigh_models(fits, rejected)
    decided, exact = decide_model(fits, rejected, weights)
    return ScalingFit(fits, weights, rejected, decided, growth, exact)


def fit_usl(
    n: ArrayLike,
    x: ArrayLike,
    *,
    errors: Errors | None = None,
    level: float = LEVEL,
    resamples: int = FIT_RESAMPLES,
    seed: int = SEED,
) -> ModelFit:
    """Fit the Universal Scalability Law; see :func:`fit`.

    Example:
        The data set `specsdm91` of R's package `usl`, which reports 0.0277285, 0.0001044 and 89.9952:

        >>> load = [1, 18, 36, 72, 108, 144, 216]
        >>> fitted = fit_usl(load, [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2])
        >>> {name: float(f"{value:.4g}") for name, value in fitted.parameters.items()}
        {'gamma': 90.0, 'alpha': 0.02773, 'beta': 0.0001044}
    """
    return fit_model(USL, n, x, errors=errors, level=level, resamples=resamples, seed=seed)


def fit_model(
    model: Model,
    n: ArrayLike,
    x: ArrayLike,
    *,
    errors: Errors | None = None,
    level: float = LEVEL,
    resamples: int = FIT_RESAMPLES,
    seed: int = SEED,
) -> ModelFit:
    """Fit one model by bounded least squares on all runs; see :func:`fit`.

    Bootstrap: deviations of the runs from the mean of their size, pooled over the sizes, are resampled around each
    size's mean (with one run per size: relative residuals of the fit, around the curve). In simulations, 95 % bands
    then cover 94 to 96 % with 3 runs per size or more, and 92 to 99 % with one run per size. If the spread does not
    grow with the throughput, bands from one run per size are too wide.
    """
    groups = group_by_size(n, x)
    sizes, values = _flatten_groups(groups)
    count = len(model.parameters)
    if len(groups) < count:
        raise InsufficientDataError(
            f"{pluralize(len(groups), 'size')} cannot determine the {pluralize(count, 'parameter')} of {model.name}",
            hint="measure more sizes, or fit a simpler model",
        )
    if errors is not None:
        require_known("scale of errors", errors, get_args(Errors))
    scale: Errors = errors or ("relative" if len(groups) < values.size else "absolute")
    relative = scale == "relative"
    on_logs = solve(model, sizes, values, relative=True)
    log_residuals = np.log(values) - np.log(np.maximum(model.curve(sizes, on_logs), SMALLEST))
    found = on_logs if relative else _fit_absolute(model, sizes, values, on_logs)
    residuals = values - model.curve(sizes, found)
    samples = _resample(model, groups, model.curve(sizes, found), relative, resamples, np.random.default_rng(seed))
    replicates = solve_many(model, sizes, samples, found, relative=relative)
    df = values.size - count
    log_rss = float(log_residuals @ log_residuals)
    fitted_rss = log_rss if relative else float(residuals @ residuals)
    # A parameter at its bound takes no degree of freedom: a USL with alpha = beta = 0 is tested as the line that it is.
    free = int(((on_logs > 0) & (on_logs < model.upper)).sum())
    lack = _test_lack_of_fit(groups, log_rss, free) if len(groups) > count else None
    peak = _estimate_peak(found, replicates, sizes, level) if model is USL else None
    return ModelFit(
        model=model.name,
        parameters=dict(zip(model.parameters, found.tolist(), strict=True)),
        standard_errors=_estimate_standard_errors(model, sizes, found, relative, fitted_rss, df),
        intervals=_build_parameter_intervals(model, found, replicates, len(values), level),
        sizes=sizes,
        throughputs=values,
        residuals=residuals,
        log_residuals=log_residuals,
        errors=scale,
        sigma=math.sqrt(fitted_rss / df) if df else math.nan,
        df=df,
        aicc=_compute_aicc(log_rss, values.size, count + 1),
        lack_of_fit_p=lack,
        replicates=replicates,
        peak=peak,
        warnings=tuple(_write_fit_notes(model, found, groups, lack)),
    )


def _fit_absolute(model: Model, sizes: Floats, values: Floats, on_logs: Floats) -> Floats:
    """Ordinary least squares; a second start at the parameters of the logarithms avoids local minima."""
    both = np.array([solve(model, sizes, values), solve_many(model, sizes, values[None, :], on_logs)[0]])
    losses = ((values - model.curve(sizes, both)) ** 2).sum(axis=-1)
    best: Floats = both[int(np.argmin(losses))]
    return best


def _flatten_groups(groups: dict[float, Floats]) -> tuple[Floats, Floats]:
    """Size and throughput of each run."""
    return np.repeat(list(groups), [values.size for values in groups.values()]), np.concatenate(list(groups.values()))


def _resample(
    model: Model,
    groups: dict[float, Floats],
    fitted: Floats,
    relative: bool,
    resamples: int,
    rng: np.random.Generator,
) -> Floats:
    """Throughputs of repeated experiments: a centre per run plus a deviation drawn from all runs.

    Three to five runs of one size determine its spread badly; the pooled deviations of all sizes determine it well.
    They are inflated for the fitted means, and by t over normal for the remaining degrees of freedom.
    """
    repeated = [values for values in groups.values() if values.size > 1]
    _, values = _flatten_groups(groups)
    if repeated:
        df = sum(one.size - 1 for one in repeated)
        scaled = [np.log(one) if relative else one for one in repeated]
        pool = np.concatenate([(one - one.mean()) * math.sqrt(one.size / (one.size - 1)) for one in scaled])
    else:
        df = max(values.size - len(model.parameters), 1)
        pool = (np.log(values / fitted) if relative else values / fitted - 1) * math.sqrt(values.size / df)
        pool = pool - pool.mean()
    widening = compute_t_quantile(0.975, df) / compute_normal_quantile(0.975)
    deviations = widening * rng.choice(pool, size=(resamples, values.size))
    drawn: Floats
    if relative:
        means = np.concatenate([np.full(one.size, math.exp(np.log(one).mean())) for one in groups.values()])
        drawn = (means if repeated else fitted) * np.exp(deviations)
    elif repeated:
        drawn = np.concatenate([np.full(one.size, one.mean()) for one in groups.values()]) + deviations
    else:
        drawn = fitted * (1 + deviations)
    # Throughputs are positive; a spread as large as the mean would give resampled values that are not.
    return np.asarray(drawn.clip(1e-9 * float(fitted.max())), dtype=np.float64)


def _compute_aicc(rss: float, n: int, count: int) -> float:
    """AICc of a least-squares fit with normal errors; `count` includes the error's variance."""
    if n - count - 1 <= 0:
        return math.inf
    return n * math.log(max(rss, n * EXACT**2) / n) + 2 * count + 2 * count * (count + 1) / (n - count - 1)


def _estimate_standard_errors(
    model: Model, n: Floats, found: Floats, relative: bool, rss: float, df: int
) -> dict[str, float]:
    at_bound = (found <= 0) | (found >= model.upper)
    errors = np.full(found.size, math.nan)
    if df > 0 and not at_bound.all():
        whole = model.jacobian(n, found)
        jacobian = (whole / model.curve(n, found)[:, None] if relative else whole)[:, ~at_bound]
        triangle = np.linalg.qr(jacobian / np.linalg.norm(jacobian, axis=0), mode="r")
        if np.linalg.cond(triangle) < 1e12:
            inverse = np.linalg.inv(triangle)
            spread = np.sqrt((inverse**2).sum(axis=1) * rss / df)
            errors[~at_bound] = spread / np.linalg.norm(jacobian, axis=0)
    return dict(zip(model.parameters, errors.tolist(), strict=True))


def _build_parameter_intervals(
    model: Model, found: Floats, replicates: Floats, n: int, level: float
) -> dict[str, Interval]:
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {
        name: Interval(float(found[i]), float(low[i]), float(high[i]), level, n, "bootstrap over runs")
        for i, name in enumerate(model.parameters)
    }


def _test_lack_of_fit(groups: dict[float, Floats], rss: float, free: int) -> float | None:
    """P-value of the F test of the curve's misses of the means against the spread of repeated runs, on logarithms."""
    logs = [np.log(values) for values in groups.values()]
    pure = sum(float(((values - values.mean()) ** 2).sum()) for values in logs)
    within = sum(values.size - 1 for values in logs)
    between = len(groups) - free
    if not within:
        return None
    missed = max(rss - pure, 0.0)
    # Runs that repeat each other to the last digit have a spread of rounding only.
    pure = max(pure, within * EXACT**2)
    return (
        compute_f_tail(missed / between / (pure / within), between, within) if missed > len(groups) * EXACT**2 else 1.0
    )


def estimate_growth_exponent(groups: Mapping[float, Floats], level: float = LEVEL) -> Growth | None:
    """How throughput grows with size, as size to a power: slope of log throughput over log size, with t interval.

    Returns:
        None with a single size, or too few runs for an interval.

    Example:
        >>> growth = estimate_growth_exponent(group_by_size([1, 2, 4, 8], [100, 230, 520, 1_150]))
        >>> growth and growth.superlinear, str(growth)[:64]
        (True, 'throughput grows as size to the power of 1.175 [1.136, 1.213] (9')
    """
    sizes, values = _flatten_groups(dict(groups))
    df = values.size - 2
    if len(groups) < 2 or df < 1:
        return None
    (xx, xy), (_, yy) = np.cov(np.log(sizes), np.log(values)).tolist()
    slope = xy / xx
    # Rounding is not noise, but neither is a slope known better than to rounding.
    error = math.sqrt(max(yy / xx - slope**2, EXACT**2) / df)
    half = compute_t_quantile(0.5 + level / 2, df) * error
    method = "t on the slope of log throughput over log size"
    exponent = Interval(slope, slope - half, slope + half, level, values.size, method)
    return Growth(exponent, min(1.0, 2 * compute_t_tail(abs(slope - 1) / error, df)))


def _estimate_peak(found: Floats, replicates: Floats, sizes: Floats, level: float) -> Peak:
    """n* = sqrt((1 - alpha) / beta), at which the derivative of the Universal Scalability Law is 0."""
    places = _compute_peak_sizes(np.vstack([found, replicates]))
    ends = [(1 - level) / 2, (1 + level) / 2]
    # With infinite places among the replicates an interpolated quantile would be nan: take order statistics.
    low, high = np.quantile(places[1:], ends, method="inverted_cdf")
    place = Interval(float(places[0]), float(low), float(high), level, len(sizes), "bootstrap over runs")
    reach = REACH * float(sizes.max())
    tops = USL.curve(np.minimum(places, reach)[:, None], np.vstack([found, replicates]))[:, 0]
    top_low, top_high = np.quantile(tops[1:], ends)
    top = Interval(float(tops[0]), float(top_low), float(top_high), level, len(sizes), "bootstrap over runs")
    supported = bool(np.isfinite(places[0]) and high <= reach)
    return Peak(supported, place, top, _describe_peak(place, sizes, supported))


def _compute_peak_sizes(parameters: Floats) -> Floats:
    alpha, beta = parameters[:, 1], parameters[:, 2]
    with np.errstate(divide="ignore"):
        peaks = np.where(beta > 0, np.sqrt((1 - alpha) / np.where(beta > 0, beta, 1.0)), math.inf)
    return np.asarray(np.clip(peaks, 1.0, None), dtype=np.float64)


def _describe_peak(place: Interval, sizes: Floats, supported: bool) -> str:
    smallest, largest = float(sizes.min()), float(sizes.max())
    if not supported:
        upper = "has no upper end" if math.isinf(place.high) else f"reaches {place.high:.3g}"
        return (
            f"the data do not support a peak: its {place.level * 100:g} % interval {upper}, "
            f"while sizes {smallest:g} to {largest:g} were measured"
        )
    ends = f"{place.estimate:.3g} ({place.level * 100:g} % interval {place.low:.3g} to {place.high:.3g})"
    if place.estimate <= smallest:
        return f"the curve falls from the smallest measured size on: its peak lies at {ends}"
    where = "within the measured range" if place.high <= largest else "partly beyond the measured range"
    return f"the curve peaks at size {ends}, {where}"


def _write_fit_notes(model: Model, found: Floats, groups: dict[float, Floats], lack: float | None) -> list[str]:
    notes = []
    values = dict(zip(model.parameters, found.tolist(), strict=True))
    if values.get("alpha") == 0:
        notes.append("alpha is at its bound 0: no contention can be seen")
    if values.get("alpha") == 1:
        notes.append("alpha is at its bound 1: throughput does not grow with size")
    if lack is not None and lack < ALPHA:
        notes.append(f"the curve misses the means by more than the runs' spread explains (lack of fit, p = {lack:.2g})")
    if all(sample.size == 1 for sample in groups.values()):
        notes.append("one run per size: bands are based on the residuals of the fit, and assume that its form is right")
    if len(groups) == len(model.parameters):
        parameters = pluralize(len(model.parameters), "parameter")
        notes.append(f"{pluralize(len(groups), 'size')} for {parameters}: the form of the curve cannot be tested")
    return notes
