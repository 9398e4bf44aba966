"""Frozen results of scalability fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError, UsageError, require_known
from citus_analysis.scaling.models import model_named
from citus_analysis.stats import Interval
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.number_text import readable

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
class Growth(Shown):
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
class Peak(Shown):
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
class Band(Shown):
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
class ModelFit(Shown):
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
        degrees_of_freedom: runs minus parameters.
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
    degrees_of_freedom: int
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
        if self.degrees_of_freedom < 1:
            return False
        missed = np.abs(self.log_residuals)
        if bool((missed <= EXACT).all()):
            return True
        decimals = next((d for d in range(7) if np.allclose(self.throughputs, self.throughputs.round(d), 1e-12, 0)), 7)
        # Half a unit of the last digit, twice, because the fitted curve is not the one that was rounded.
        rounding = 10.0**-decimals / self.throughputs
        tested = self.degrees_of_freedom > 1 and bool((rounding < _COARSEST).all())
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
                way_out=f"ask for at most {most:g}, or pass force=True and take the result as a guess",
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
class ScalingFit(Shown):
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
        models = [f"  {one.summary_lines()[0]}{self.standing(name)}" for name, one in self.fits.items()]
        return [self.sentence(), *models]

    def standing(self, name: str) -> str:
        """The weight of a model, or the reason why the runs reject it, to be written after it."""
        if name in self.rejected:
            return f"; rejected: {self.rejected[name]}"
        return f", weight {self.weights[name]:.2f}" if math.isfinite(self.weights[name]) else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limitations that a reader must know."""
        if self.candidates and not self.exact and not all(map(math.isfinite, self.weights.values())):
            runs = next(iter(self.fits.values())).sizes.size
            return (f"{counted(runs, 'run')}: too few for Akaike weights of the models that they do not reject",)
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
            raise InsufficientDataError(self.sentence(), way_out="measure more sizes, each several times")
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
            raise InsufficientDataError(self.sentence(), way_out="measure more sizes, each several times")
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
                f"throughput grows faster than size, as size to the power of {readable(power.estimate)} "
                f"({readable(power.low)} to {readable(power.high)}), which none of these models can"
            )
        if not self.candidates:
            return "each model is rejected by these runs"
        if len(self.candidates) == 1:
            return f"there are too few runs to decide whether {self.candidates[0]} is valid"
        return f"{listed(self.candidates)} cannot be distinguished by these runs; {self._foremost()}"

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
        return f"{listed(simplest)} {'is' if len(simplest) == 1 else 'are'} the simplest"

    def __getitem__(self, name: str) -> ModelFit:
        require_known("fitted model", name, self.fits)
        return self.fits[name]
