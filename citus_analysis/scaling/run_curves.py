"""Scaling over a table of runs: the curves that the runs form, and the findings on each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import cast

import polars as pl

from citus_analysis.core.frames import return_callers_frame_kind
from citus_analysis.defaults import FIT_RESAMPLES, LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.runs import comparability
from citus_analysis.runs.selection import Question, find_pooled_columns, split_names
from citus_analysis.runs.set_ups import refuse_unknown
from citus_analysis.scaling.curves import ScalingCurve, ScalingStudy
from citus_analysis.scaling.fitting import fit
from citus_analysis.scaling.models import MODELS
from citus_analysis.scaling.relative import ScalePoint, compute_relative_scaling, replace_with_simultaneous_intervals
from citus_analysis.stats._validate import list_unique_warnings
from citus_analysis.stats.run_comparisons import (
    ComparisonQuestion,
    compare_levels,
    keep_one_experiment,
    split_selection,
)
from citus_analysis.stats.studied_runs import (
    StudiedRuns,
    check_columns,
    filter_runs_by_values,
    get_metric_values,
    iterate_groups,
    read_studied_runs,
    select_measured_runs,
)
from citus_analysis.stats.verdicts import Comparison
from citus_analysis.texts.words import pluralize
from citus_analysis.units import better_direction


@return_callers_frame_kind
def scale_runs(
    source: object,
    x: str | None = None,
    metric: str | None = None,
    base: float | None = None,
    *,
    within: Sequence[str] | None = None,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    models: Sequence[str] = tuple(MODELS),
    margin: float = MARGIN,
    level: float = LEVEL,
    resamples: int = FIT_RESAMPLES,
    include_status: str | Collection[str] = (),
) -> ScalingStudy:
    """Speedup, efficiency, psi and model fits over a numeric column of a table of runs.

    Runs form a curve if the rest of their configuration is equal, as in :func:`citus_analysis.stats.compare_runs`,
    which gives the same numbers and verdicts. A column of the system of which no value occurs at two sizes (such as the
    family, if each cluster size has its own) cannot be held equal; a warning names it.

    Args:
        source: a dataset; a polars, pandas or Arrow frame of runs; columns by name; a path, as for
            :func:`citus_analysis.stats.compare_runs`.
        x: size: `workers`, `threads`, `drivers`, or any numeric column; by default the workers, or the only size.
        metric: a rate; more is better; by default the throughput.
        base: base size of the speedup; by default each curve's smallest.
        within: columns to hold equal, instead of the whole configuration.
        pool: columns of the configuration that need not be equal.
        only: column -> value; only curves (or runs, for a column that is not held equal) with this value.
        models: models to fit, if there are enough sizes for their parameters.
        margin: relative difference that is considered equivalent.
        level: confidence level.
        resamples: bootstrap resamples per fit.
        include_status: `degraded` to include degraded runs; a warning gives their number.

    Raises:
        UnknownNameError: no such column, metric, model or base size.
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run is left, or none has a known size.

    Example:
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [100.0, 102, 190, 194]})
        >>> (curve,) = scale_runs(runs)
        >>> curve.sentence()[:70]
        'throughput grows from 1 to 2 workers: faster, factor 1.901 [1.787, 2.0'
    """
    studied = read_studied_runs(source, metric, [*([x] if x else []), *(within or ()), *(only or {})], pool)
    frame, metric = studied.runs, studied.metric
    if better_direction(metric) == "lower":
        raise UsageError(f"{metric} is no rate: less of it is better", hint="name a throughput: metric=...")
    x = studied.find_column(x or choose_size_column(studied))
    choice = Question(
        include_status=split_names(include_status), only=only or {}, pool=tuple(pool), level=level, margin=margin
    )
    question = ComparisonQuestion.from_studied_runs(studied, x, choice, base=base, within=within)
    check_columns(frame, (x, *(question.within or ()), *question.pool))
    if frame.schema[x] == pl.String and x in studied.factors:
        numbers = frame[x].cast(pl.Float64, strict=False)
        if numbers.null_count() == frame[x].null_count():
            # Whole numbers are printed as such.
            is_whole = bool((numbers.drop_nulls() % 1 == 0).all())
            frame = frame.with_columns(numbers.cast(pl.Int64) if is_whole else numbers)
    if not frame.schema[x].is_numeric():
        raise UnknownNameError("numeric column", x, [c for c, t in frame.schema.items() if t.is_numeric()])
    usable_runs, notes = select_measured_runs(frame, metric, question.include_status, question.only)
    refuse_unknown(usable_runs, x, "x")
    measured, unknown = _select_sized_runs(select_measured_runs(frame, metric, question.include_status)[0], x, metric)
    held = comparability(measured, x, question.pool, studied.factors, studied.replaced)
    strata, along = (held.strata, held.along) if question.within is None else (question.within, ())
    shown, chosen = split_selection(question.only, strata)
    measured = filter_runs_by_values(measured, chosen)
    measured, apart = (measured, []) if "experiment" in question.pool else keep_one_experiment(measured, strata, x)
    if base is not None and not (measured[x] == base).any():
        raise UnknownNameError(x, f"{base:g}", [f"{size:g}" for size in measured[x].unique().sort()])
    question = replace(question, strata=strata)
    compared = compare_levels(measured, question)
    parts = [
        (part, tuple(one for one in compared if one.stratum == stratum))
        for stratum, part in iterate_groups(filter_runs_by_values(measured, shown), strata)
    ]
    curves = tuple(_build_curve(part, own, question, models, resamples) for part, own in parts if own)
    also = [f"{column} differs along with {x}: the curve is over both" for column in along]
    if left_out := len(parts) - len(curves):
        what = f"one {x} value each" if base is None else f"no second {x} value beside {base:g}"
        also.append(f"{pluralize(left_out, 'configuration')} left out: {what}")
    of_table = studied.design.notes({x, metric}) if studied.design else ()
    name = studied.callers_name
    curves = tuple(
        replace(one, x=name(x), stratum={name(column): value for column, value in one.stratum.items()})
        for one in curves
    )
    return ScalingStudy(name(x), metric, curves, (*notes, *also, *unknown, *apart, *of_table))


def choose_size_column(studied: StudiedRuns) -> str:
    """The size where none is asked for: the workers, else the threads, else the only number of the design.

    Raises:
        UsageError: several columns are sizes.

    Example:
        >>> choose_size_column(read_studied_runs({"nodes": [1, 2, 1, 2], "tps": [10.5, 20.5, 11.5, 21.5]}))
        'nodes'
    """
    runs = studied.runs
    numbers = [name for name in ("workers", "threads", "drivers") if name in runs.columns]
    varying = [name for name in numbers if runs[name].drop_nulls().n_unique() > 1]
    own = [name for name in studied.factors if runs.schema[name].is_numeric()]
    if studied.design is None:
        return "workers"
    sizes = [*varying, *own]
    if len(sizes) > 1 and "workers" not in varying:
        said = [studied.callers_name(name) for name in sizes]
        raise UsageError(f"{' and '.join(said)} are sizes: along which is not said", hint=f"x={said[0]!r}")
    return "workers" if "workers" in varying or not sizes else sizes[0]


def _select_sized_runs(runs: pl.DataFrame, x: str, metric: str) -> tuple[pl.DataFrame, list[str]]:
    """The runs with a size and a throughput above 0, and a note on the others."""
    measured = runs.filter((pl.col(x) > 0) & (pl.col(metric) > 0))
    if measured.is_empty():
        raise InsufficientDataError(f"no run has both a {x} and a {metric} above 0")
    left_out = runs.height - measured.height
    note = f"{pluralize(left_out, 'run')} left out: {x} or {metric} is unknown or 0"
    return measured, [note] if left_out else []


def _build_curve(
    part: pl.DataFrame,
    compared: tuple[Comparison, ...],
    question: ComparisonQuestion,
    models: Sequence[str],
    resamples: int,
) -> ScalingCurve:
    """The curve of the runs of one stratum."""
    x, level, stratum = question.by, question.level, compared[0].stratum
    sizes, values = get_metric_values(part, x), get_metric_values(part, question.metric)
    points = compute_relative_scaling(sizes, values, cast("float | None", question.base), level=level)
    points = replace_with_simultaneous_intervals(
        points, {float(c.label_a): c.ratio for c in compared}, float(compared[0].label_b)
    )
    possible = [name for name in models if len(MODELS[name].parameters) <= len(points)]
    fits = fit(sizes, values, possible, level=level, resamples=resamples) if possible else None
    held = {x, *stratum, *question.replaced}
    notes = [f"{x} {p.size:g}: {note}" for p in points for note in _write_point_notes(part, x, p, held, question)]
    too_few = tuple(name for name in models if name not in possible)
    return ScalingCurve(x, stratum, points, fits, compared, list_unique_warnings(notes), part, too_few)


def _write_point_notes(
    part: pl.DataFrame, x: str, point: ScalePoint, held: AbstractSet[str], question: ComparisonQuestion
) -> list[str]:
    runs = part.filter(pl.col(x) == point.size)
    return [f"pools several values of {words}" for words in find_pooled_columns(runs, held, question.factors)]
