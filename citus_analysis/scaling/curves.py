"""Results of a scaling study: curves with their points, comparisons and models, as objects and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.runs.setups import stratum_text
from citus_analysis.scaling.fits import ScalingFit
from citus_analysis.scaling.models import MODELS
from citus_analysis.scaling.relative import ScalePoint
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.verdict_text import p_words
from citus_analysis.stats.compare.verdicts import CHANGE_WORDS, Comparison
from citus_analysis.texts.counted_words import counted, listed


@dataclass(frozen=True, eq=False, repr=False)
class ScalingCurve(Shown):
    """Throughput against size for runs that agree in everything else.

    Attributes:
        x: name of the size (`workers`, `threads` ...).
        stratum: the values that the runs have in common.
        points: throughput, speedup, efficiency and psi per size. Intervals of speedup and efficiency are those of the
            comparisons; those of throughput and psi hold alone.
        fits: fitted models; None if there are too few sizes for any.
        comparisons: each size against the base, as in `compare_runs`; adjusted by Holm's procedure over all curves of
            the same operation.
        warnings: limitations that a reader must know.
        runs: the runs of the curve, with their set-up.
        too_few: requested models that have more parameters than the curve has sizes.
    """

    x: str
    stratum: dict[str, object]
    points: tuple[ScalePoint, ...]
    fits: ScalingFit | None
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()
    runs: pl.DataFrame = field(default_factory=pl.DataFrame)
    too_few: tuple[str, ...] = ()

    @property
    def growth(self) -> Comparison:
        """The comparison of the largest size with the base: whether throughput grew at all."""
        return self.comparisons[-1]

    def notes(self) -> tuple[str, ...]:
        """Warnings of the curve and of its growth."""
        return unique((*self.warnings, *self.growth.warnings))

    def summary_lines(self) -> list[str]:
        """The findings on growth and on the models."""
        where = stratum_text(self.stratum)
        models = f"  {self.models_sentence()}"
        return [f"{where}: {self.sentence()}" if where else self.sentence(), models]

    def summary_table(self) -> pl.DataFrame | None:
        """Throughput, speedup and efficiency per size."""
        return pl.DataFrame([_record(self, point) for point in self.points], infer_schema_length=None)

    def model_rows(self) -> list[dict[str, object]]:
        """One row per fitted model: parameters, AICc, weight, reason for rejection, peak, warnings."""
        if self.fits is None:
            return []
        return [
            {
                "model": name,
                "gamma": one.parameters["gamma"],
                "alpha": one.parameters.get("alpha"),
                "beta": one.parameters.get("beta"),
                "aicc": one.aicc if math.isfinite(one.aicc) else None,
                "weight": weight if math.isfinite(weight := self.fits.weights[name]) else None,
                "lack_of_fit_p": one.lack_of_fit_p,
                "rejected": self.fits.rejected.get(name),
                "decided": name == self.fits.decided,
                "peak": one.peak.words if one.peak and name not in self.fits.rejected else None,
                "warnings": "; ".join(one.warnings),
            }
            for name, one in self.fits.fits.items()
        ]

    def models_sentence(self) -> str:
        """The finding on the models, and the models that could not be fitted."""
        fitted = "; ".join([self.fits.sentence(), *self._interpolating(self.fits)]) if self.fits else ""
        if not self.too_few:
            return fitted
        sizes = counted(len(self.points), "size")
        refused = f"{listed(self.too_few)} cannot be fitted to {sizes}: there are more parameters than sizes"
        return f"{fitted}; {refused}" if fitted else refused

    def _interpolating(self, fits: ScalingFit) -> list[str]:
        """A sentence on models that pass through all means because they have a parameter for each size."""
        names = [name for name in fits.candidates if len(MODELS[name].parameters) == len(self.points)]
        if not names:
            return []
        has, it = ("has", "it") if len(names) == 1 else ("have", "them")
        return [f"{listed(names)} {has} a parameter for each size, so that no mean can contradict {it}"]

    def sentence(self) -> str:
        """Whether throughput grew with size, in one sentence."""
        growth = self.growth
        span = f"from {growth.label_b} to {growth.label_a} {self.x}"
        tested = f"; {p_words(growth)}" if growth.ratio.exists else ""
        return f"throughput {CHANGE_WORDS[growth.verdict]} {span}: {growth.verdict}, factor {growth.deciding}{tested}."


@dataclass(frozen=True, eq=False, repr=False)
class ScalingStudy(Shown):
    """All curves of a table of runs.

    Attributes:
        x: name of the size.
        metric: measured metric.
        curves: one per stratum with at least two sizes.
        warnings: runs left out, columns that change along with the size, strata with a single size.
    """

    x: str
    metric: str
    curves: tuple[ScalingCurve, ...]
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[ScalingCurve]:
        return iter(self.curves)

    def __len__(self) -> int:
        return len(self.curves)

    def summary_lines(self) -> list[str]:
        """One line per curve, and what was left out."""
        first = f"{len(self)} curves of {self.metric} over {self.x} (format_scaling prints them all)"
        curves = [f"  {curve.summary_lines()[0]}" for curve in self.curves]
        return [first, *curves, *(f"  note: {note}" for note in self.warnings)]

    def summary_table(self) -> pl.DataFrame | None:
        """Throughput, speedup and efficiency per curve and size."""
        return self.to_polars() if self.curves else None

    def to_polars(self) -> pl.DataFrame:
        """One row per curve and size: stratum, size, n, throughput, speedup, efficiency, psi with intervals."""
        return pl.DataFrame(
            [_record(curve, point) for curve in self.curves for point in curve.points], infer_schema_length=None
        )

    def to_dict(self) -> dict[str, object]:
        """Curves with points, growth and models as plain values, for JSON."""
        return {
            "x": self.x,
            "metric": self.metric,
            "curves": [_curve_dict(curve) for curve in self.curves],
            "warnings": list(self.warnings),
        }

    def models(self) -> pl.DataFrame:
        """One row per curve and model: parameters, AICc, weight, peak, warnings."""
        return pl.DataFrame(
            [{**curve.stratum, **row} for curve in self.curves for row in curve.model_rows()], infer_schema_length=None
        )


def _curve_dict(curve: ScalingCurve) -> dict[str, object]:
    return {
        "stratum": curve.stratum,
        "finding": curve.sentence(),
        "growth": {
            "verdict": curve.growth.verdict,
            "n": curve.growth.ratio.n,
            **curve.growth.ratio.record("ratio"),
            **curve.growth.known_p_values(),
            "holm_family": curve.growth.holm_family,
            "family_size": curve.growth.family_size,
        },
        "points": [_record(curve, point) for point in curve.points],
        "growth_exponent": _growth_dict(curve.fits),
        "model_finding": curve.models_sentence() or None,
        "models": [{**curve.stratum, **row} for row in curve.model_rows()],
        "warnings": list(curve.notes()),
    }


def _growth_dict(fits: ScalingFit | None) -> dict[str, object] | None:
    if fits is None or fits.growth is None:
        return None
    growth = fits.growth
    ends = growth.exponent.record("exponent")
    return {**ends, "p_proportional": growth.p_proportional, "superlinear": growth.superlinear}


def _record(curve: ScalingCurve, point: ScalePoint) -> dict[str, object]:
    return {
        **curve.stratum,
        curve.x: point.size,
        "n": point.throughput.n,
        **point.throughput.record("throughput"),
        **point.record(),
    }
