"""Results of a scaling study: curves with their points, comparisons and models, as objects and as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.runs.set_ups import format_configuration, split_configurations
from citus_analysis.scaling.fitting import ScalingFit
from citus_analysis.scaling.models import MODELS
from citus_analysis.scaling.relative import ScalePoint
from citus_analysis.stats._validate import list_unique_warnings
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_comparisons import ADJUSTED, describe_p_values
from citus_analysis.stats.verdicts import CHANGE_WORDS, Comparison
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.tables import render_text_table
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import label


@dataclass(frozen=True, eq=False, repr=False)
class ScalingCurve(DisplayMixin):
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
        return list_unique_warnings((*self.warnings, *self.growth.warnings))

    def summary_lines(self) -> list[str]:
        """The findings on growth and on the models."""
        where = format_configuration(self.stratum)
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
        fitted = "; ".join([self.fits.sentence(), *self._list_interpolating(self.fits)]) if self.fits else ""
        if not self.too_few:
            return fitted
        sizes = pluralize(len(self.points), "size")
        refused = f"{join_words(self.too_few)} cannot be fitted to {sizes}: there are more parameters than sizes"
        return f"{fitted}; {refused}" if fitted else refused

    def _list_interpolating(self, fits: ScalingFit) -> list[str]:
        """A sentence on models that pass through all means because they have a parameter for each size."""
        names = [name for name in fits.candidates if len(MODELS[name].parameters) == len(self.points)]
        if not names:
            return []
        has, it = ("has", "it") if len(names) == 1 else ("have", "them")
        return [f"{join_words(names)} {has} a parameter for each size, so that no mean can contradict {it}"]

    def sentence(self) -> str:
        """Whether throughput grew with size, in one sentence."""
        growth = self.growth
        span = f"from {growth.label_b} to {growth.label_a} {self.x}"
        if not growth.ratio.exists:
            return f"throughput {span}: factor {growth.deciding}, without a verdict."
        verdict = CHANGE_WORDS[growth.verdict]
        return f"throughput {verdict} {span}: {growth.verdict}, factor {growth.deciding}; {describe_p_values(growth)}."


@dataclass(frozen=True, eq=False, repr=False)
class ScalingStudy(DisplayMixin):
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
        first = f"{pluralize(len(self), 'curve')} of {self.metric} over {self.x} (all sizes: .table())"
        shared, differing = split_configurations([curve.stratum for curve in self.curves])
        common = [f"  in all: {format_configuration(shared)}"] if format_configuration(shared) else []
        wheres = map(format_configuration, differing)
        curves = [
            f"  {where}: {curve.sentence()}" if where else f"  {curve.sentence()}"
            for where, curve in zip(wheres, self.curves, strict=True)
        ]
        return [first, *common, *curves, *(f"  note: {note}" for note in self.warnings)]

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
            "curves": [_convert_curve_to_dict(curve) for curve in self.curves],
            "warnings": list(self.warnings),
        }

    def models(self) -> pl.DataFrame:
        """One row per curve and model: parameters, AICc, weight, peak, warnings."""
        return pl.DataFrame(
            [{**curve.stratum, **row} for curve in self.curves for row in curve.model_rows()], infer_schema_length=None
        )


def _convert_curve_to_dict(curve: ScalingCurve) -> dict[str, object]:
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
        "growth_exponent": _convert_growth_to_dict(curve.fits),
        "model_finding": curve.models_sentence() or None,
        "models": [{**curve.stratum, **row} for row in curve.model_rows()],
        "warnings": list(curve.notes()),
    }


def _convert_growth_to_dict(fits: ScalingFit | None) -> dict[str, object] | None:
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


# Scaling studies as text.

_HEAD: Final = ("n", "throughput", "speedup", "efficiency", "psi")


def format_scaling(study: ScalingStudy) -> str:
    """The study as text: per curve a table of sizes, the finding, and the models by weight.

    Example:
        >>> import polars as pl
        >>> runs = pl.DataFrame({"workers": [1] * 4 + [2] * 4, "throughput_ops_s": [99.0, 100, 101, 100] * 2})
        >>> from citus_analysis.scaling import scale_runs
        >>> for line in format_scaling(scale_runs(runs, models=["amdahl"])).splitlines():
        ...     print(line[:93])
        throughput [operations/s] over workers
        workers  n  throughput          speedup            efficiency         psi
        1        4  100 [98.71, 101.3]  1.00 [1.00, 1.00]  1.00 [1.00, 1.00]  -
        2        4  100 [98.71, 101.3]  1.00 [0.99, 1.01]  0.50 [0.49, 0.51]  0.50 [0.49, 0.51]
        throughput stays the same within the margin from 1 to 2 workers: equivalent, factor 1 [0.9888
        The runs decide for amdahl (weight 1.00); amdahl has a parameter for each size, so that no me
        amdahl: gamma = 100, alpha = 1, weight 1.00
    """
    notes = list_unique_warnings(note for curve in study for note in curve.notes())
    numbers = {note: i for i, note in enumerate(notes, 1)}
    blocks = [_format_curve_block(study, curve, numbers) for curve in study]
    remarks = [f"[{i}] {note}" for note, i in numbers.items()] + [f"note: {note}" for note in study.warnings]
    remarks += [f"note: {ADJUSTED}"] if any(curve.growth.family_size > 1 for curve in study) else []
    return "\n\n".join([*blocks, *(["\n".join(remarks)] if remarks else [])])


def _format_curve_block(study: ScalingStudy, curve: ScalingCurve, numbers: dict[str, int]) -> str:
    held = format_configuration(curve.stratum, "  ")
    where = f"  {held}" if held else ""
    rows: list[tuple[str, ...]] = []
    for point in curve.points:
        shares = (point.speedup, point.efficiency, point.psi)
        cells = (_format_interval_cell(share, "{:.2f}".format) if share else "-" for share in shares)
        rows.append(
            (f"{point.size:g}", str(point.throughput.n), _format_interval_cell(point.throughput, format_number), *cells)
        )
    lines = [f"{label(study.metric)} over {study.x}{where}"]
    lines += render_text_table((study.x, *_HEAD), rows)
    marks = " ".join(f"[{numbers[note]}]" for note in curve.notes())
    lines.append(f"{curve.sentence()} {marks}".rstrip())
    return "\n".join([*lines, *_model_lines(curve)])


def _model_lines(curve: ScalingCurve) -> list[str]:
    said = curve.models_sentence()
    lines = [f"{said[0].upper()}{said[1:]}."] if said else []
    if curve.fits is None:
        return lines
    fits = curve.fits
    for name, one in sorted(fits.fits.items(), key=lambda item: fits.standing_order(item[0])):
        values = ", ".join(f"{key} = {format_number(value)}" for key, value in one.parameters.items())
        lines.append(f"{name}: {values}{fits.describe_standing(name)}")
        if one.peak and name not in fits.rejected:
            lines.append(f"  {one.peak.words}")
    return lines


def _format_interval_cell(interval: Interval, written: Callable[[float], str]) -> str:
    return f"{written(interval.estimate)} {interval.ends_text(written)}".rstrip()
