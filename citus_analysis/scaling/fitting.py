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
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import FIT_RESAMPLES, LEVEL, SEED
from citus_analysis.errors import InsufficientDataError, require_known
from citus_analysis.scaling._solve import SMALLEST, solve, solve_many
from citus_analysis.scaling.fits import ALPHA, EXACT, REACH, Errors, Growth, ModelFit, Peak, ScalingFit
from citus_analysis.scaling.models import MODELS, USL, Model, model_named
from citus_analysis.scaling.relative import by_size
from citus_analysis.scaling.selection import decide_model, rejections, weigh_models
from citus_analysis.stats import Interval
from citus_analysis.stats.estimate._student import f_tail, normal_quantile, t_quantile, t_tail
from citus_analysis.texts.counted_words import counted


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
    groups = by_size(n, x)
    growth = growth_exponent(groups, level)
    rejected = rejections(fits, growth)
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
    groups = by_size(n, x)
    sizes, values = _flat(groups)
    count = len(model.parameters)
    if len(groups) < count:
        raise InsufficientDataError(
            f"{counted(len(groups), 'size')} cannot determine the {counted(count, 'parameter')} of {model.name}",
            way_out="measure more sizes, or fit a simpler model",
        )
    if errors is not None:
        require_known("scale of errors", errors, get_args(Errors))
    scale: Errors = errors or ("relative" if len(groups) < values.size else "absolute")
    relative = scale == "relative"
    on_logs = solve(model, sizes, values, relative=True)
    log_residuals = np.log(values) - np.log(np.maximum(model.curve(sizes, on_logs), SMALLEST))
    found = on_logs if relative else _absolute(model, sizes, values, on_logs)
    residuals = values - model.curve(sizes, found)
    samples = _resample(model, groups, model.curve(sizes, found), relative, resamples, np.random.default_rng(seed))
    replicates = solve_many(model, sizes, samples, found, relative=relative)
    freedom = values.size - count
    log_rss = float(log_residuals @ log_residuals)
    fitted_rss = log_rss if relative else float(residuals @ residuals)
    # A parameter at its bound takes no degree of freedom: a USL with alpha = beta = 0 is tested as the line that it is.
    free = int(((on_logs > 0) & (on_logs < model.upper)).sum())
    lack = _lack_of_fit(groups, log_rss, free) if len(groups) > count else None
    peak = _peak(found, replicates, sizes, level) if model is USL else None
    return ModelFit(
        model=model.name,
        parameters=dict(zip(model.parameters, found.tolist(), strict=True)),
        standard_errors=_standard_errors(model, sizes, found, relative, fitted_rss, freedom),
        intervals=_intervals(model, found, replicates, len(values), level),
        sizes=sizes,
        throughputs=values,
        residuals=residuals,
        log_residuals=log_residuals,
        errors=scale,
        sigma=math.sqrt(fitted_rss / freedom) if freedom else math.nan,
        degrees_of_freedom=freedom,
        aicc=_aicc(log_rss, values.size, count + 1),
        lack_of_fit_p=lack,
        replicates=replicates,
        peak=peak,
        warnings=tuple(_notes(model, found, groups, lack)),
    )


def _absolute(model: Model, sizes: Floats, values: Floats, on_logs: Floats) -> Floats:
    """Ordinary least squares; a second start at the parameters of the logarithms avoids local minima."""
    both = np.array([solve(model, sizes, values), solve_many(model, sizes, values[None, :], on_logs)[0]])
    losses = ((values - model.curve(sizes, both)) ** 2).sum(axis=-1)
    best: Floats = both[int(np.argmin(losses))]
    return best


def _flat(groups: dict[float, Floats]) -> tuple[Floats, Floats]:
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
    _, values = _flat(groups)
    if repeated:
        freedom = sum(one.size - 1 for one in repeated)
        scaled = [np.log(one) if relative else one for one in repeated]
        pool = np.concatenate([(one - one.mean()) * math.sqrt(one.size / (one.size - 1)) for one in scaled])
    else:
        freedom = max(values.size - len(model.parameters), 1)
        pool = (np.log(values / fitted) if relative else values / fitted - 1) * math.sqrt(values.size / freedom)
        pool = pool - pool.mean()
    widening = t_quantile(0.975, freedom) / normal_quantile(0.975)
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


def _aicc(rss: float, n: int, count: int) -> float:
    """AICc of a least-squares fit with normal errors; `count` includes the error's variance."""
    if n - count - 1 <= 0:
        return math.inf
    return n * math.log(max(rss, n * EXACT**2) / n) + 2 * count + 2 * count * (count + 1) / (n - count - 1)


def _standard_errors(
    model: Model, n: Floats, found: Floats, relative: bool, rss: float, freedom: int
) -> dict[str, float]:
    at_bound = (found <= 0) | (found >= model.upper)
    errors = np.full(found.size, math.nan)
    if freedom > 0 and not at_bound.all():
        whole = model.jacobian(n, found)
        jacobian = (whole / model.curve(n, found)[:, None] if relative else whole)[:, ~at_bound]
        triangle = np.linalg.qr(jacobian / np.linalg.norm(jacobian, axis=0), mode="r")
        if np.linalg.cond(triangle) < 1e12:
            inverse = np.linalg.inv(triangle)
            spread = np.sqrt((inverse**2).sum(axis=1) * rss / freedom)
            errors[~at_bound] = spread / np.linalg.norm(jacobian, axis=0)
    return dict(zip(model.parameters, errors.tolist(), strict=True))


def _intervals(model: Model, found: Floats, replicates: Floats, n: int, level: float) -> dict[str, Interval]:
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {
        name: Interval(float(found[i]), float(low[i]), float(high[i]), level, n, "bootstrap over runs")
        for i, name in enumerate(model.parameters)
    }


def _lack_of_fit(groups: dict[float, Floats], rss: float, free: int) -> float | None:
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
    return f_tail(missed / between / (pure / within), between, within) if missed > len(groups) * EXACT**2 else 1.0


def growth_exponent(groups: Mapping[float, Floats], level: float = LEVEL) -> Growth | None:
    """How throughput grows with size, as size to a power: slope of log throughput over log size, with t interval.

    Returns:
        None with a single size, or too few runs for an interval.

    Example:
        >>> growth = growth_exponent(by_size([1, 2, 4, 8], [100, 230, 520, 1_150]))
        >>> growth and growth.superlinear, str(growth)[:64]
        (True, 'throughput grows as size to the power of 1.175 [1.136, 1.213] (9')
    """
    sizes, values = _flat(dict(groups))
    freedom = values.size - 2
    if len(groups) < 2 or freedom < 1:
        return None
    (xx, xy), (_, yy) = np.cov(np.log(sizes), np.log(values)).tolist()
    slope = xy / xx
    # Rounding is not noise, but neither is a slope known better than to rounding.
    error = math.sqrt(max(yy / xx - slope**2, EXACT**2) / freedom)
    half = t_quantile(0.5 + level / 2, freedom) * error
    method = "t on the slope of log throughput over log size"
    exponent = Interval(slope, slope - half, slope + half, level, values.size, method)
    return Growth(exponent, min(1.0, 2 * t_tail(abs(slope - 1) / error, freedom)))


def _peak(found: Floats, replicates: Floats, sizes: Floats, level: float) -> Peak:
    """n* = sqrt((1 - alpha) / beta), at which the derivative of the Universal Scalability Law is 0."""
    places = _peak_sizes(np.vstack([found, replicates]))
    ends = [(1 - level) / 2, (1 + level) / 2]
    # With infinite places among the replicates an interpolated quantile would be nan: take order statistics.
    low, high = np.quantile(places[1:], ends, method="inverted_cdf")
    place = Interval(float(places[0]), float(low), float(high), level, len(sizes), "bootstrap over runs")
    reach = REACH * float(sizes.max())
    tops = USL.curve(np.minimum(places, reach)[:, None], np.vstack([found, replicates]))[:, 0]
    top_low, top_high = np.quantile(tops[1:], ends)
    top = Interval(float(tops[0]), float(top_low), float(top_high), level, len(sizes), "bootstrap over runs")
    supported = bool(np.isfinite(places[0]) and high <= reach)
    return Peak(supported, place, top, _peak_words(place, sizes, supported))


def _peak_sizes(parameters: Floats) -> Floats:
    alpha, beta = parameters[:, 1], parameters[:, 2]
    with np.errstate(divide="ignore"):
        peaks = np.where(beta > 0, np.sqrt((1 - alpha) / np.where(beta > 0, beta, 1.0)), math.inf)
    return np.asarray(np.clip(peaks, 1.0, None), dtype=np.float64)


def _peak_words(place: Interval, sizes: Floats, supported: bool) -> str:
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


def _notes(model: Model, found: Floats, groups: dict[float, Floats], lack: float | None) -> list[str]:
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
        parameters = counted(len(model.parameters), "parameter")
        notes.append(f"{counted(len(groups), 'size')} for {parameters}: the form of the curve cannot be tested")
    return notes
