"""The report `track`: its datasets, and its sentences about changes over time."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.dataset import Dataset, open_dataset
from citus_analysis.errors import InsufficientDataError
from citus_analysis.plots.server_figures import plot_track
from citus_analysis.texts.names import convert_to_place, resolve_place
from citus_analysis.texts.numbers import format_p_value
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.tracking import Track, TrackedChange, TrackedSeries

#: Series that are drawn: those with changes first, then the longest.
_MOST_FIGURES: Final = 12
_NAMED: Final = 3


def read_tracked_datasets(dataset: str, datasets: str) -> list[Dataset]:
    """The datasets of a report: the folders in `datasets`, split by commas, and `dataset` itself.

    Raises:
        InsufficientDataError: there is only one.
        DatasetError: a folder contains no dataset.
    """
    named = [convert_to_place(one.strip()) for one in datasets.split(",") if one.strip()]
    newest = convert_to_place(dataset)
    places = [*named, *([] if resolve_place(newest) in map(resolve_place, named) else [newest])]
    if len(places) < 2:
        hint = "name the others: -p datasets=DIR,DIR, or citus-analysis track DIR... --out OUT"
        raise InsufficientDataError("changes over time need several datasets", hint=hint)
    return [open_dataset(place) for place in places]


def track_sentences(found: Track) -> list[str]:
    """The changes and their times in three to six sentences, the latest first."""
    runs, judged = sum(one.found.n for one in found.series), [one for one in found.series if one.found.judged]
    looked = f"{pluralize(runs, 'run')} of {pluralize(len(found.datasets), 'dataset')} make {len(found.series)} series"
    first = f"{looked}, of which {len(judged)} are long enough to show a change."
    latest = sorted(found.changes, key=lambda pair: pair[1].place - pair[0].found.n, reverse=True)
    sentences = [_write_change_sentence(*pair) for pair in latest[:_NAMED]]
    if more := len(latest) - len(sentences):
        sentences.append(f"{pluralize(more, 'change')} more {'is' if more == 1 else 'are'} in the table.")
    sentences += [
        f"{series.name}: the change at run {change.place + 1} was {change.alarm.sentence()}."
        for series, change in found.withdrawn[:1]
    ]
    if more := len(found.withdrawn) - 1 if found.withdrawn else 0:
        sentences.append(f"{pluralize(more, 'withdrawn change')} more {'is' if more == 1 else 'are'} in the table.")
    if not latest:
        sentences = (
            [*sentences, "No series changed its level."] if judged else ["The series are too short to show a change."]
        )
    sentences += [f"{series.name}: {shift.sentence()}." for series, shift in found.newest[: _NAMED - 1]]
    chance = f"A series of independent runs without a change raises a false alarm in {found.alpha * 100:g} % of cases."
    return [first, *sentences, chance]


def _write_change_sentence(series: TrackedSeries, change: TrackedChange) -> str:
    where = f"from run {change.place + 1} on ({change.first_after.words()})"
    moved = join_words(change.moved, most=_NAMED)
    also = f"also changed there: {moved}" if change.moved else "no other change is known there"
    return f"{series.name} changed {where}: {change.size_words()}; {also} ({change.alarm.state})."


def track_figures(found: Track) -> list[go.Figure]:
    """One figure for each series, those with changes first; at most twelve."""
    drawn = (one for one in found.series if one.found.n)
    ordered = sorted(drawn, key=lambda one: (-len(one.changes), -one.found.n))[:_MOST_FIGURES]
    return [plot_track(one.runs, metric=one.metric, points=one.found.points, title=one.name) for one in ordered]


def changes_table(found: Track) -> pl.DataFrame:
    """The changes for readers: series, state, place and size with intervals, the runs beside it, what moved there."""
    table = found.changes_frame()
    rows = [
        {
            "series": series.name,
            "state": change.alarm.sentence(),
            "run": _between(change),
            "change": change.size_words(),
            "last_run_before": change.last_before.words(),
            "first_run_after": change.first_after.words(),
            "p": format_p_value(change.point.p_value) if change.point else "",
            "moved": "; ".join(change.moved),
        }
        for series in found.series
        for change in series.changes
    ]
    return pl.DataFrame(rows) if rows else table.select("series", "state").clear()


def _between(change: TrackedChange) -> str:
    if change.point is None or change.point.between[0] == change.point.between[1]:
        return str(change.place + 1)
    return f"{change.place + 1} [{change.point.between[0] + 1}, {change.point.between[1] + 1}]"


def tabulate_series(found: Track) -> pl.DataFrame:
    """The series for readers: runs, changes, and the level of their latest part."""
    rows = [
        {
            "series": one.name,
            "runs": one.found.n,
            "changes": len(one.standing),
            "latest_level": one.runs["level"][-1],
            "p": format_p_value(one.found.p_value) if one.found.judged else "too few runs",
        }
        for one in found.series
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
