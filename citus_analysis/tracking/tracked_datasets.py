"""Series of runs over datasets, their change points, and other changes within two runs of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.defaults import CHANGE_ALPHA, METRIC
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.setting_changes import change_words, setting_changes
from citus_analysis.runs.setups import LOAD
from citus_analysis.stats import compare, find_changes
from citus_analysis.stats.run_means import runs_with_metric
from citus_analysis.stats.series.change_points import ChangePoints
from citus_analysis.stats.series.newest_runs import newest_shift
from citus_analysis.tracking.run_measures import MEASURES, with_measures
from citus_analysis.tracking.track_results import Track, TrackedChange, TrackedSeries

#: Columns that identify a series. Settings and shares of a CPU are not among them, so that their changes are found.
_SERIES: Final = ("system", "family", "workers", *LOAD)
#: By simulation (docs/ci.md): with fewer runs after it, even a large change is seen in less than three of four cases.
_NEWEST: Final = (
    "a change is found after about twelve further runs, and in the two newest runs only if it is large compared with "
    "the spread: judge the newest runs by `gate`"
)
#: Distance in runs within which two changes belong together.
_NEAR: Final = 2
_RUN: Final = ("dataset", "resource", "run_id", "start_time")


def track(
    datasets: Sequence[TableSource] | Mapping[str, TableSource],
    metrics: str | Sequence[str] = METRIC,
    *,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    alpha: float = CHANGE_ALPHA,
    allow: str | Collection[str] = (),
) -> Track:
    """Find changes of metrics over runs of several datasets, and other changes near them.

    Runs are ordered by their begin (by their dataset if that is not known), with one series per metric and
    configuration; settings may change within a series. :func:`citus_analysis.stats.find_changes` decides. A setting, a
    version, the CPU time per operation or the balance is listed with a change if it changed within two runs of it.

    Args:
        datasets: datasets in the order of time; the keys of a mapping, or else their folders, name them.
        metrics: one or several metrics of `runs` or `operation_latencies`.
        pool: columns that do not separate series (such as `family`, if experiments have different names).
        only: column -> value; only runs with this value.
        alpha: probability of a false alarm in one series.
        allow: `degraded` to track degraded runs as well; a warning gives their number.

    Raises:
        UsageError: no dataset, or another status is to be allowed.
        UnknownNameError: no such metric or column.
        InsufficientDataError: no run has a metric.
    """
    sources = _named(datasets)
    names = [metrics] if isinstance(metrics, str) else list(dict.fromkeys(metrics))
    settings = pl.concat(
        [as_polars(source.table("settings")).with_columns(dataset=pl.lit(name)) for name, source in sources.items()],
        how="diagonal_relaxed",
    )
    notes: list[str] = []
    series: list[TrackedSeries] = []
    for metric in names:
        runs, said = _history(sources, metric, only, allow)
        notes += said
        series += [_tracked(metric, key, part, settings, alpha) for key, part in _parts(runs, pool)]
    judged = sum(one.found.judged for one in series)
    if judged > 1:
        notes.append(f"{judged} series: {judged * alpha:.2g} false alarms are to be expected if all are quiet")
    if short := len(series) - judged:
        notes.append(f"{short} series too short to see a change")
    if judged:
        notes.append(_NEWEST)
    return Track(tuple(series), tuple(sources), tuple(names), alpha, tuple(dict.fromkeys(notes)))


def _named(datasets: Sequence[TableSource] | Mapping[str, TableSource]) -> dict[str, TableSource]:
    if not datasets:
        raise UsageError("no dataset is given", way_out="pass the datasets in the order of time")
    if isinstance(datasets, Mapping):
        return dict(datasets)
    named: dict[str, TableSource] = {}
    for number, source in enumerate(datasets, 1):
        path = getattr(source, "path", None)
        name = Path(path).name if path else str(number)
        named[name if name not in named else f"{name} ({number})"] = source
    return named


def _history(
    sources: Mapping[str, TableSource], metric: str, only: Mapping[str, object] | None, allow: str | Collection[str]
) -> tuple[pl.DataFrame, list[str]]:
    """The runs of all datasets in the order of time, each with its dataset and its other measures."""
    parts: list[pl.DataFrame] = []
    notes: list[str] = []
    for name, source in sources.items():
        try:
            runs, said = runs_with_metric(source, metric, allow, only)
        except InsufficientDataError as error:
            notes.append(f"{name}: {error.problem}")
            continue
        notes += [f"{name}: {note}" for note in said]
        measured = with_measures(runs, source)
        parts.append(measured.with_columns(dataset=pl.lit(name), _order=pl.lit(len(parts))))
    if not parts:
        raise InsufficientDataError(f"no dataset has a run with a {metric}")
    whole = pl.concat(parts, how="diagonal_relaxed")
    timed = "start_time" in whole.columns and not whole["start_time"].null_count()
    if not timed:
        notes.append("not all runs have a start time: they are in the order of the datasets and iterations")
    return whole.sort(*(["start_time"] if timed else ["_order", "iteration"]), maintain_order=True), notes


def _parts(runs: pl.DataFrame, pool: Sequence[str]) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    columns = [name for name in _SERIES if name in runs.columns and name not in pool]
    columns = [name for name in columns if runs[name].n_unique() > 1]
    if not columns:
        yield {}, runs
        return
    for key, part in runs.group_by(columns, maintain_order=True):
        yield dict(zip(columns, key, strict=True)), part


def _tracked(
    metric: str, stratum: dict[str, object], runs: pl.DataFrame, settings: pl.DataFrame, alpha: float
) -> TrackedSeries:
    kept = runs.with_columns(value=pl.col(metric).cast(pl.Float64)).with_row_index("place")
    shown = kept.select("place", *(name for name in _RUN if name in kept.columns), "value", *MEASURES)
    values = shown["value"].to_numpy()
    found = find_changes(values, alpha)
    levels = [float(values[slice(*part)].mean()) for part in found.segments() for _ in range(*part)]
    shown = shown.with_columns(pl.Series("level", levels, dtype=pl.Float64))
    changes = tuple(_changes(metric, shown, settings, found, alpha))
    newest = newest_shift(values[found.segments()[-1][0] :])
    return TrackedSeries(metric, stratum, shown, found, changes, newest)


def _changes(
    metric: str, runs: pl.DataFrame, settings: pl.DataFrame, found: ChangePoints, alpha: float
) -> Iterator[TrackedChange]:
    values = runs["value"].to_numpy()
    compared = partial(compare, label_a="after", label_b="before", metric=metric)
    for point, (before, after) in zip(found.points, pairwise(found.segments()), strict=True):
        run = runs.row(point.index, named=True)
        yield TrackedChange(
            place=point.index,
            dataset=str(run["dataset"]),
            resource=str(run.get("resource")),
            run_id=str(run.get("run_id")),
            start_time=run.get("start_time"),
            p_value=point.p_value,
            comparison=compared(values[slice(*after)], values[slice(*before)]),
            moved=tuple(_moved(runs, settings, alpha, point.index)),
        )


def _moved(runs: pl.DataFrame, settings: pl.DataFrame, alpha: float, place: int) -> Iterator[str]:
    """The changes within two runs of a place other than those of the metric, in words."""
    rows = runs.to_dicts()
    for number in range(max(1, place - _NEAR), min(len(rows) - 1, place + _NEAR) + 1):
        systems = [{name: row[name] for name in ("dataset", "resource")} for row in rows[number - 1 : number + 1]]
        if systems[0] != systems[1]:
            words = change_words(setting_changes(*(settings.filter(**system) for system in systems)))
            if words:
                yield f"{words} (run {number + 1})"
    for column, words in MEASURES.items():
        known = runs.drop_nulls(column)
        values, places = known[column].to_numpy(), known["place"].to_list()
        found = find_changes(values, alpha)
        for index, (before, after) in zip(found.places, pairwise(found.segments()), strict=True):
            if abs(places[index] - place) <= _NEAR:
                was, now = (float(values[slice(*part)].mean()) for part in (before, after))
                yield f"{words} {(now / was - 1) * 100:+.1f} % (run {places[index] + 1})"
