"""Scaling over a table of runs: which runs belong to one curve, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.scaling.fitting import RESAMPLES, fit
from citus_analysis.scaling.models import MODELS
from citus_analysis.scaling.relative import ScalePoint, relative_scaling
from citus_analysis.scaling.results import ScalingFit
from citus_analysis.stats._validate import unique
from citus_analysis.stats.comparison import Comparison, compare
from citus_analysis.stats.families import compare_many
from citus_analysis.stats.frames import (
    Frame,
    TableSource,
    dimensions,
    pooled_values,
    runs_with_metric,
    strata_of,
    values_of,
)
from citus_analysis.stats.results import Interval

__all__ = ["ScalingCurve", "ScalingStudy", "scale_runs"]

_FEWEST_SIZES: Final = 2


@dataclass(frozen=True, eq=False)
class ScalingCurve:
    """Throughput against size for runs that agree in everything else.

    Attributes:
        x: what the size is (`workers`, `threads` ...).
        stratum: what the runs have in common.
        points: throughput, speedup, efficiency and psi per size.
        fits: fitted models; None where there are too few sizes for any.
        growth: largest against smallest size; its verdict says whether throughput grew at all. Over several curves
            it is adjusted by Holm's procedure.
        warnings: what a reader must know.
    """

    x: str
    stratum: dict[str, object]
    points: tuple[ScalePoint, ...]
    fits: ScalingFit | None
    growth: Comparison
    warnings: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """Warnings of the curve and of its growth."""
        return unique((*self.warnings, *self.growth.warnings))

    def sentence(self) -> str:
        """Whether throughput grew with size, in one sentence."""
        first, last = self.points[0], self.points[-1]
        span = f"from {first.size:g} to {last.size:g} {self.x}"
        ratio = f"factor {self.growth.ratio}"
        words = {
            "faster": f"throughput grows {span} ({ratio})",
            "slower": f"throughput falls {span} ({ratio})",
            "equivalent": f"throughput stays the same {span} ({ratio})",
            "inconclusive": f"whether throughput changes {span} cannot be told ({ratio})",
        }
        return f"{words[self.growth.verdict]}."


@dataclass(frozen=True, eq=False)
class ScalingStudy:
    """All curves that a table of runs holds.

    Attributes:
        x: what the size is.
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
        return pl.DataFrame([row for curve in self.curves for row in _model_records(curve)], infer_schema_length=None)


def scale_runs(
    source: TableSource | Frame,
    x: str = "workers",
    metric: str = "throughput_ops_s",
    base: float | None = None,
    *,
    within: Sequence[str] | None = None,
    only: Mapping[str, object] | None = None,
    models: Sequence[str] = tuple(MODELS),
    level: float = 0.95,
    resamples: int = RESAMPLES,
    statuses: Sequence[str] = ("ok",),
) -> ScalingStudy:
    """Speedup, efficiency, psi and model fits over a numeric column of a table of runs.

    Runs form a curve where all other configuration columns agree. A column of which no value occurs at two sizes (the
    resource, when each cluster size has its own) cannot be held equal and is reported.

    Args:
        source: a dataset, or a polars, pandas or Arrow frame of the table `runs`.
        x: size: `workers`, `threads`, `drivers`, or any numeric column.
        metric: a rate; more is better.
        base: size that speedup refers to; by default each curve's smallest.
        within: columns to hold equal, instead of all configuration columns that can be.
        only: column -> value; only runs that have it enter.
        models: models to fit, each where there are enough sizes for its parameters.
        level: confidence level.
        resamples: bootstrap resamples per fit.
        statuses: run statuses that enter.

    Raises:
        UnknownNameError: no such column, metric, model or base size.
        InsufficientDataError: no run is left.

    Example:
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [100.0, 102, 190, 194]})
        >>> (curve,) = scale_runs(runs)
        >>> curve.sentence()
        'throughput grows from 1 to 2 workers (factor 1.901 [1.787, 2.023] (95 %, Welch t on the log ratio, n = 2)).'
    """
    runs, notes = runs_with_metric(source, metric, statuses, only)
    for name in (x, *(within or ())):
        if name not in runs.columns:
            raise UnknownNameError("column", name, runs.columns)
    if not runs.schema[x].is_numeric():
        raise UnknownNameError("numeric column", x, [c for c, t in runs.schema.items() if t.is_numeric()])
    measured = runs.filter((pl.col(x) > 0) & (pl.col(metric) > 0))
    if measured.is_empty():
        raise InsufficientDataError(f"no run has both a {x} and a {metric} above 0")
    strata, differing = dimensions(measured, x) if within is None else (tuple(within), ())
    curves, single = [], 0
    for stratum, part in strata_of(measured, strata):
        if part[x].n_unique() < _FEWEST_SIZES:
            single += 1
            continue
        curves.append(_curve(part, stratum, x, metric, base, models, level, resamples))
    also = [f"{column} differs along with {x}: the curve is over both" for column in differing]
    if single:
        also.append(f"{single} configuration{'s' if single > 1 else ''} left out: one {x} value each")
    if missing := runs.height - measured.height:
        also.append(f"{missing} run{'s' if missing > 1 else ''} left out: {x} or {metric} is unknown or 0")
    adjusted = compare_many([curve.growth for curve in curves], level=level)
    curves = [replace(curve, growth=growth) for curve, growth in zip(curves, adjusted, strict=True)]
    return ScalingStudy(x, metric, tuple(curves), (*notes, *also))


def _curve(
    part: pl.DataFrame,
    stratum: dict[str, object],
    x: str,
    metric: str,
    base: float | None,
    models: Sequence[str],
    level: float,
    resamples: int,
) -> ScalingCurve:
    sizes, values = values_of(part, x), values_of(part, metric)
    known = base if base is not None and base in sizes else None
    points = relative_scaling(sizes, values, known, level=level)
    first, last = points[0], points[-1]
    growth = compare(
        last.runs, first.runs, level=level, label_a=f"{x} {last.size:g}", label_b=f"{x} {first.size:g}", metric=metric
    )
    possible = [name for name in models if len(MODELS[name].parameters) <= len(points)]
    fits = fit(sizes, values, possible, level=level, resamples=resamples) if possible else None
    notes = [f"{x} {point.size:g}: {note}" for point in points for note in _point_notes(part, x, point, stratum)]
    if base is not None and known is None:
        notes.append(f"no run at {x} {base:g}: speedup refers to {points[0].size:g}")
    return ScalingCurve(x, stratum, points, fits, growth, unique(notes))


def _point_notes(part: pl.DataFrame, x: str, point: ScalePoint, stratum: dict[str, object]) -> list[str]:
    runs = part.filter(pl.col(x) == point.size)
    return [f"pools several values of {words}" for words in pooled_values(runs, {x, *stratum})]


def _curve_dict(curve: ScalingCurve) -> dict[str, object]:
    ratio = curve.growth.ratio
    return {
        "stratum": curve.stratum,
        "finding": curve.sentence(),
        "growth": {"verdict": curve.growth.verdict, "n": ratio.n, **_ends("ratio", ratio)},
        "points": [_record(curve, point) for point in curve.points],
        "models": list(_model_records(curve)),
        "warnings": list(curve.notes()),
    }


def _record(curve: ScalingCurve, point: ScalePoint) -> dict[str, object]:
    return {
        **curve.stratum,
        curve.x: point.size,
        "n": point.throughput.n,
        **_ends("throughput", point.throughput),
        **_ends("speedup", point.speedup),
        **_ends("efficiency", point.efficiency),
        **_ends("psi", point.psi),
    }


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    estimate, (low, high) = (interval.estimate, interval.ends) if interval else (None, (None, None))
    return {name: estimate, f"{name}_low": low, f"{name}_high": high}


def _model_records(curve: ScalingCurve) -> Iterator[dict[str, object]]:
    if curve.fits is None:
        return
    for name, one in curve.fits.fits.items():
        yield {
            **curve.stratum,
            "model": name,
            "gamma": one.parameters["gamma"],
            "alpha": one.parameters.get("alpha"),
            "beta": one.parameters.get("beta"),
            "aicc": one.aicc if math.isfinite(one.aicc) else None,
            "weight": curve.fits.weights[name],
            "lack_of_fit_p": one.lack_of_fit_p,
            "peak": one.peak.words if one.peak else None,
            "warnings": "; ".join(one.warnings),
        }
