"""Scaling over a table of runs: which runs belong to one curve, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from citus_analysis.defaults import FIT_RESAMPLES, LEVEL, MARGIN, METRIC
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.frames import Frame, TableSource
from citus_analysis.runs import comparability, pooled, stratum_text
from citus_analysis.scaling.fitting import fit
from citus_analysis.scaling.models import MODELS
from citus_analysis.scaling.relative import ScalePoint, relative_scaling
from citus_analysis.scaling.results import ScalingFit
from citus_analysis.shown import Shown
from citus_analysis.stats._validate import unique
from citus_analysis.stats.comparison import CHANGE_WORDS, Comparison
from citus_analysis.stats.formatting import p_words
from citus_analysis.stats.frames import measured_runs, runs_of, strata_of, values_of, with_values
from citus_analysis.stats.results import Interval
from citus_analysis.stats.runs import Question, check_columns, compare_levels, split_selection

__all__ = ["ScalingCurve", "ScalingStudy", "scale_runs"]


@dataclass(frozen=True, eq=False, repr=False)
class ScalingCurve(Shown):
    """Throughput against size for runs that agree in everything else.

    Attributes:
        x: what the size is (`workers`, `threads` ...).
        stratum: what the runs have in common.
        points: throughput, speedup, efficiency and psi per size.
        fits: fitted models; None where there are too few sizes for any.
        comparisons: each size against the base, as `compare_runs` compares them; adjusted by Holm's procedure over
            all curves of the same operation.
        warnings: what a reader must know.
    """

    x: str
    stratum: dict[str, object]
    points: tuple[ScalePoint, ...]
    fits: ScalingFit | None
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()

    @property
    def growth(self) -> Comparison:
        """The largest size against the base: whether throughput grew at all."""
        return self.comparisons[-1]

    def notes(self) -> tuple[str, ...]:
        """Warnings of the curve and of its growth."""
        return unique((*self.warnings, *self.growth.warnings))

    def summary_lines(self) -> list[str]:
        """The finding and what the models say."""
        where = stratum_text(self.stratum)
        models = [f"  {self.fits.sentence()}"] if self.fits else []
        return [f"{where}: {self.sentence()}" if where else self.sentence(), *models]

    def summary_table(self) -> pl.DataFrame | None:
        """Throughput, speedup and efficiency per size."""
        return pl.DataFrame([_record(self, point) for point in self.points], infer_schema_length=None)

    def sentence(self) -> str:
        """Whether throughput grew with size, in one sentence."""
        growth = self.growth
        span = f"from {growth.label_b} to {growth.label_a} {self.x}"
        tested = f"; {p_words(growth)}" if growth.ratio.exists else ""
        return f"throughput {CHANGE_WORDS[growth.verdict]} {span}: {growth.verdict}, factor {growth.ratio}{tested}."


@dataclass(frozen=True, eq=False, repr=False)
class ScalingStudy(Shown):
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
        return pl.DataFrame([row for curve in self.curves for row in _model_records(curve)], infer_schema_length=None)


def scale_runs(
    source: TableSource | Frame,
    x: str = "workers",
    metric: str = METRIC,
    base: float | None = None,
    *,
    within: Sequence[str] | None = None,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    models: Sequence[str] = tuple(MODELS),
    margin: float = MARGIN,
    level: float = LEVEL,
    resamples: int = FIT_RESAMPLES,
    statuses: Sequence[str] = ("ok",),
) -> ScalingStudy:
    """Speedup, efficiency, psi and model fits over a numeric column of a table of runs.

    Runs form a curve where the rest of their configuration agrees, as in :func:`citus_analysis.stats.compare_runs`,
    which gives the same numbers and verdicts. A column of the system of which no value occurs at two sizes (the
    family, when each cluster size has its own) cannot be held equal and is reported.

    Args:
        source: a dataset, or a polars, pandas or Arrow frame of the table `runs`.
        x: size: `workers`, `threads`, `drivers`, or any numeric column.
        metric: a rate; more is better.
        base: size that speedup refers to; by default each curve's smallest.
        within: columns to hold equal, instead of the whole configuration.
        pool: columns of the configuration that need not be equal.
        only: column -> value; only curves (or runs, for a column that is not held equal) that have it.
        models: models to fit, each where there are enough sizes for its parameters.
        margin: relative difference that counts as none.
        level: confidence level.
        resamples: bootstrap resamples per fit.
        statuses: run statuses that enter.

    Raises:
        UnknownNameError: no such column, metric, model or base size.
        InsufficientDataError: no run is left.

    Example:
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [100.0, 102, 190, 194]})
        >>> (curve,) = scale_runs(runs)
        >>> curve.sentence()[:70]
        'throughput grows from 1 to 2 workers: faster, factor 1.901 [1.787, 2.0'
    """
    frame = runs_of(source, metric)
    check_columns(frame, (x, *(within or ()), *pool))
    if not frame.schema[x].is_numeric():
        raise UnknownNameError("numeric column", x, [c for c, t in frame.schema.items() if t.is_numeric()])
    _, notes = measured_runs(frame, metric, statuses, only)
    runs, _ = measured_runs(frame, metric, statuses)
    measured = runs.filter((pl.col(x) > 0) & (pl.col(metric) > 0))
    if measured.is_empty():
        raise InsufficientDataError(f"no run has both a {x} and a {metric} above 0")
    held = comparability(measured, x, pool)
    strata, along = (held.strata, held.along) if within is None else (tuple(within), ())
    shown, chosen = split_selection(only, strata)
    measured = with_values(measured, chosen)
    start = _known_size(base, measured[x])
    compared = compare_levels(measured, Question(metric, x, start, strata, tuple(pool), margin, level))
    options = _Options(x, metric, start, tuple(models), level, resamples)
    curves, left_out = [], 0
    for stratum, part in strata_of(with_values(measured, shown), strata):
        own = tuple(one for one in compared if one.stratum == stratum)
        if own:
            curves.append(options.curve(part, stratum, own))
        left_out += not own
    also = [f"{column} differs along with {x}: the curve is over both" for column in along]
    if left_out:
        what = f"one {x} value each" if start is None else f"no second {x} value beside {start:g}"
        also.append(f"{left_out} configuration{'s' if left_out > 1 else ''} left out: {what}")
    if missing := runs.height - runs.filter((pl.col(x) > 0) & (pl.col(metric) > 0)).height:
        also.append(f"{missing} run{'s' if missing > 1 else ''} left out: {x} or {metric} is unknown or 0")
    return ScalingStudy(x, metric, tuple(curves), (*notes, *also))


def _known_size(base: float | None, sizes: pl.Series) -> float | None:
    if base is not None and not (sizes == base).any():
        raise UnknownNameError(sizes.name, f"{base:g}", [f"{size:g}" for size in sizes.unique().sort()])
    return base


@dataclass(frozen=True)
class _Options:
    """What is asked of each curve."""

    x: str
    metric: str
    base: float | None
    models: tuple[str, ...]
    level: float
    resamples: int

    def curve(self, part: pl.DataFrame, stratum: dict[str, object], compared: tuple[Comparison, ...]) -> ScalingCurve:
        """The curve of one stratum."""
        sizes, values = values_of(part, self.x), values_of(part, self.metric)
        points = relative_scaling(sizes, values, self.base, level=self.level)
        possible = [name for name in self.models if len(MODELS[name].parameters) <= len(points)]
        fits = fit(sizes, values, possible, level=self.level, resamples=self.resamples) if possible else None
        notes = [f"{self.x} {p.size:g}: {note}" for p in points for note in _point_notes(part, self.x, p, stratum)]
        return ScalingCurve(self.x, stratum, points, fits, compared, unique(notes))


def _point_notes(part: pl.DataFrame, x: str, point: ScalePoint, stratum: dict[str, object]) -> list[str]:
    runs = part.filter(pl.col(x) == point.size)
    return [f"pools several values of {words}" for words in pooled(runs, {x, *stratum})]


def _curve_dict(curve: ScalingCurve) -> dict[str, object]:
    return {
        "stratum": curve.stratum,
        "finding": curve.sentence(),
        "growth": _growth_dict(curve.growth),
        "points": [_record(curve, point) for point in curve.points],
        "model_finding": curve.fits.sentence() if curve.fits else None,
        "models": list(_model_records(curve)),
        "warnings": list(curve.notes()),
    }


def _growth_dict(growth: Comparison) -> dict[str, object]:
    tested = growth.ratio.exists
    return {
        "verdict": growth.verdict,
        "n": growth.ratio.n,
        **_ends("ratio", growth.ratio),
        "p_difference": growth.p_difference if tested else None,
        "p_difference_adjusted": growth.p_difference_adjusted if tested else None,
        "family": growth.family,
        "family_size": growth.family_size,
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
            "rejected": curve.fits.rejected.get(name),
            "decided": name == curve.fits.decided,
            "peak": one.peak.words if one.peak and name not in curve.fits.rejected else None,
            "warnings": "; ".join(one.warnings),
        }
