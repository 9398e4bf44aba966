"""Series of runs over datasets, their change points, and other changes within two runs of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.defaults import CHANGE_ALPHA, METRIC
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.setting_changes import change_words, setting_changes
from citus_analysis.runs.setups import LOAD
from citus_analysis.stats import find_changes
from citus_analysis.stats.compare.verdicts import direction_of
from citus_analysis.stats.run_means import runs_with_metric
from citus_analysis.stats.series.change_points import follow_changes, newest_shift
from citus_analysis.tracking.run_measures import MEASURES, with_measures
from citus_analysis.tracking.track_results import Track, TrackedChange, TrackedRun, TrackedSeries

#: Columns that identify a series. Settings and shares of a CPU are not among them, so that their changes are found.
_SERIES: Final = ("system", "family", "workers", *LOAD)
#: By simulation (docs/ci.md).
_NEWEST: Final = (
    "a change is found after four further runs at the earliest, later if it is small or few runs precede it: judge the "
    "newest runs by `gate`"
)
#: Descriptions of a system that state its commit.
_COMMIT: Final = r"(?i)(?:^|[._])(?:git_)?(?:commit|revision|sha)(?:_id|_hash)?$"
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
    since: str | datetime | None = None,
) -> Track:
    """Find changes of metrics over runs of several datasets, and other changes near them.

    Runs are ordered by their begin (by their dataset if that is not known), with one series per metric and
    configuration; settings may change within a series. :func:`citus_analysis.stats.find_changes` decides. A setting, a
    version, the CPU time per operation or the balance is listed with a change if it changed within two runs of it.

    Each change is new, confirmed, revised or withdrawn, compared with what was found at earlier looks: one look after
    each dataset and after each day on which runs began.

    Args:
        datasets: datasets in the order of time; the keys of a mapping, or else their folders, name them.
        metrics: one or several metrics of `runs` or `operation_latencies`.
        pool: columns that do not separate series (such as `family`, if experiments have different names).
        only: column -> value; only runs with this value.
        alpha: probability of a false alarm in one series.
        allow: `degraded` to track degraded runs as well; a warning gives their number.
        since: a dataset's name or a time; the verdict is about changes that were first reported from it on.

    Raises:
        UsageError: no dataset, another status is to be allowed, or `since` is neither a dataset nor a time.
        UnknownNameError: no such metric or column.
        InsufficientDataError: no run has a metric.
    """
    sources = _named(datasets)
    first = _begin(since, sources)
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
    verdict = _verdict(series, first) if first is not None else ""
    asked = "" if since is None else str(since)
    return Track(tuple(series), tuple(sources), tuple(names), alpha, asked, verdict, tuple(dict.fromkeys(notes)))


def _begin(since: str | datetime | None, sources: Mapping[str, TableSource]) -> list[str] | datetime | None:
    """The datasets from a named one on, or a time."""
    if isinstance(since, str):
        if since in sources:
            return list(sources)[list(sources).index(since) :]
        try:
            since = datetime.fromisoformat(since)
        except ValueError:
            way_out = f"name one of {', '.join(sources)}, or write a time as 2026-01-31"
            raise UsageError(f"{since} is neither a dataset nor a time", way_out=way_out) from None
    return since.replace(tzinfo=since.tzinfo or UTC) if since else None


def _verdict(series: Sequence[TrackedSeries], since: list[str] | datetime) -> str:
    """Whether a change for the worse was first reported from a dataset or time on."""
    undecided = False
    for one in series:
        later = pl.col("dataset").is_in(since) if isinstance(since, list) else pl.col("start_time") >= since
        known = isinstance(since, list) or "start_time" in one.runs.columns
        before = one.runs.filter(~later.fill_null(value=False)).height if known else one.runs.height
        if before == one.runs.height:
            continue
        if any(change.worse and change.alarm.seen_after > before for change in one.standing):
            return "worse"
        hint = one.newest is not None and one.newest.lower is one.higher_is_better
        undecided = undecided or hint or not one.found.judged
    return "undecided" if undecided else "not worse"


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
    followed = follow_changes(values, _looks(shown), alpha)
    found = followed.found
    shown = shown.with_columns(
        pl.Series("level", found.levels, dtype=pl.Float64), outlier=pl.col("place").is_in(found.outliers)
    )
    changes = tuple(
        TrackedChange(
            alarm=alarm,
            last_before=_run(shown, settings, alarm.place - 1),
            first_after=_run(shown, settings, alarm.place),
            higher_is_better=direction_of(metric),
            moved=tuple(_moved(shown, settings, alpha, alarm.place)),
        )
        for alarm in followed.alarms
    )
    newest = newest_shift(values[max((point.end for point in found.points), default=0) :])
    return TrackedSeries(metric, stratum, shown, found, changes, newest, direction_of(metric))


def _looks(runs: pl.DataFrame) -> list[int]:
    """Numbers of runs after which a dataset or a day ends."""
    ends = pl.col("dataset") != pl.col("dataset").shift(-1)
    if "start_time" in runs.columns:
        day = pl.col("start_time").dt.date()
        ends |= (day != day.shift(-1)).fill_null(value=False)
    return (runs.filter(ends.fill_null(value=False))["place"] + 1).to_list()


def _run(runs: pl.DataFrame, settings: pl.DataFrame, place: int) -> TrackedRun:
    run = runs.row(max(place, 0), named=True)
    system = {name: str(run.get(name)) for name in ("dataset", "resource")}
    stated = (
        settings.filter(**system).filter(pl.col("name").str.contains(_COMMIT)) if not settings.is_empty() else settings
    )
    commit = " | ".join(stated["value"].drop_nulls().unique().sort().to_list())
    return TrackedRun(**system, run_id=str(run.get("run_id")), start_time=run.get("start_time"), commit=commit)


def _moved(runs: pl.DataFrame, settings: pl.DataFrame, alpha: float, place: int) -> Iterator[str]:
    """The changes within two runs of a place other than those of the metric, in words."""
    for number in range(max(1, place - _NEAR), min(runs.height - 1, place + _NEAR) + 1):
        pair = runs.select("dataset", "resource")[number - 1 : number + 1].to_dicts()
        systems = [{name: row[name] for name in ("dataset", "resource")} for row in pair]
        if systems[0] != systems[1]:
            words = change_words(setting_changes(*(settings.filter(**system) for system in systems)))
            if words:
                yield f"{words} (run {number + 1})"
    for column, words in MEASURES.items():
        known = runs.drop_nulls(column)
        places = known["place"].to_list()
        for point in find_changes(known[column].to_numpy(), alpha).points:
            if abs(places[point.index] - place) <= _NEAR:
                yield f"{words} {(point.ratio.estimate - 1) * 100:+.1f} % (run {places[point.index] + 1})"
