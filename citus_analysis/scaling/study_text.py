"""Scaling studies as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from citus_analysis.runs.setups import stratum_text
from citus_analysis.scaling.curves import ScalingCurve, ScalingStudy
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.verdict_text import ADJUSTED
from citus_analysis.stats.results import Interval
from citus_analysis.texts.number_text import readable
from citus_analysis.texts.text_tables import text_table
from citus_analysis.units import label

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
    notes = unique(note for curve in study for note in curve.notes())
    numbers = {note: i for i, note in enumerate(notes, 1)}
    blocks = [_block(study, curve, numbers) for curve in study]
    remarks = [f"[{i}] {note}" for note, i in numbers.items()] + [f"note: {note}" for note in study.warnings]
    remarks += [f"note: {ADJUSTED}"] if any(curve.growth.family_size > 1 for curve in study) else []
    return "\n\n".join([*blocks, *(["\n".join(remarks)] if remarks else [])])


def _block(study: ScalingStudy, curve: ScalingCurve, numbers: dict[str, int]) -> str:
    held = stratum_text(curve.stratum, "  ")
    where = f"  {held}" if held else ""
    rows: list[tuple[str, ...]] = []
    for point in curve.points:
        shares = (point.speedup, point.efficiency, point.psi)
        cells = (_cell(share, "{:.2f}".format) if share else "-" for share in shares)
        rows.append((f"{point.size:g}", str(point.throughput.n), _cell(point.throughput, readable), *cells))
    lines = [f"{label(study.metric)} over {study.x}{where}"]
    lines += text_table((study.x, *_HEAD), rows)
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
        values = ", ".join(f"{key} = {readable(value)}" for key, value in one.parameters.items())
        lines.append(f"{name}: {values}{fits.standing(name)}")
        if one.peak and name not in fits.rejected:
            lines.append(f"  {one.peak.words}")
    return lines


def _cell(interval: Interval, written: Callable[[float], str]) -> str:
    return f"{written(interval.estimate)} {interval.ends_text(written)}".rstrip()
