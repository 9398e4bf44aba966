"""The report `track`: its datasets, and what they state about changes over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.dataset import Dataset, open_dataset
from citus_analysis.defaults import CHANGE_ALPHA, METRIC
from citus_analysis.errors import InsufficientDataError
from citus_analysis.plots.server_figures import plot_track
from citus_analysis.runs.selection import Question, split_names
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
from citus_analysis.texts.names import convert_to_place, resolve_place
from citus_analysis.texts.numbers import format_p_value
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.tracking import Track, TrackedChange, TrackedSeries, track

#: Series that are drawn: those with changes first, then the longest.
_MOST_FIGURES: Final = 12
_NAMED: Final = 3

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "series": "{runs} of {datasets} make {series} series, of which {judged} are long enough to show a change.",
    "change": "{series} changed from run {run} on ({first}): {size}; {machines}{moved} ({state}).",
    "change: moved": "also changed there: {moved}",
    "change: alone": "no other change is known there",
    "more changes": "{number} more {verb} in the table.",
    "withdrawn": "{series}: the change at run {run} was {what}.",
    "more withdrawn changes": "{number} more {verb} in the table.",
    "no change": "No series changed its level.",
    "too short": "The series are too short to show a change.",
    "newest runs": "{series}: {shift}.",
    "chance": "A series of independent runs without a change raises a false alarm in {percent:g} % of cases.",
}


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


def state_track(found: Track) -> list[ReportFinding]:
    """The changes and their times in three to six sentences, the latest first."""
    judged = [one for one in found.series if one.found.judged]
    first = state(
        TEMPLATES,
        "series",
        runs=pluralize(sum(one.found.n for one in found.series), "run"),
        datasets=pluralize(len(found.datasets), "dataset"),
        series=len(found.series),
        judged=len(judged),
    )
    latest = sorted(found.changes, key=lambda pair: pair[1].place - pair[0].found.n, reverse=True)
    findings = [_state_change(*pair) for pair in latest[:_NAMED]]
    findings += _state_more("more changes", len(latest) - len(findings), "change")
    findings += [
        state(TEMPLATES, "withdrawn", series=series.name, run=change.place + 1, what=change.alarm.sentence())
        for series, change in found.withdrawn[:1]
    ]
    findings += _state_more("more withdrawn changes", len(found.withdrawn) - 1, "withdrawn change")
    if not latest:
        findings = [*findings, state(TEMPLATES, "no change")] if judged else [state(TEMPLATES, "too short")]
    findings += [
        state(TEMPLATES, "newest runs", series=series.name, shift=shift.sentence())
        for series, shift in found.newest[: _NAMED - 1]
    ]
    return [first, *findings, state(TEMPLATES, "chance", percent=found.alpha * 100)]


def _state_more(kind: str, number: int, noun: str) -> list[ReportFinding]:
    verb = "is" if number == 1 else "are"
    return [state(TEMPLATES, kind, number=pluralize(number, noun), verb=verb)] if number > 0 else []


def _state_change(series: TrackedSeries, change: TrackedChange) -> ReportFinding:
    moved = join_words(change.moved, most=_NAMED)
    ratio = change.ratio
    size = FindingNumber(series.name, verdict=change.alarm.state)
    return state(
        TEMPLATES,
        "change",
        [replace(size, estimate=ratio.estimate, low=ratio.ends[0], high=ratio.ends[1]) if ratio else size],
        series=series.name,
        run=change.place + 1,
        first=change.first_after.words(),
        size=change.size_words(),
        machines="" if change.environment is None else f"{change.environment.sentence()}; ",
        moved=TEMPLATES["change: moved" if moved else "change: alone"].format(moved=moved),
        state=change.alarm.state,
    )


def _between(change: TrackedChange) -> str:
    if change.point is None or change.point.between[0] == change.point.between[1]:
        return str(change.place + 1)
    return f"{change.place + 1} [{change.point.between[0] + 1}, {change.point.between[1] + 1}]"


@dataclass(frozen=True)
class TrackReport:
    """What the page of changes over time shows.

    Attributes:
        track: the series and their changes.
    """

    track: Track

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return state_track(self.track)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limits of all numbers of the page."""
        return self.track.warnings

    def plot(self) -> list[go.Figure]:
        """One figure for each series, those with changes first; at most twelve."""
        drawn = (one for one in self.track.series if one.found.n)
        ordered = sorted(drawn, key=lambda one: (-len(one.changes), -one.found.n))[:_MOST_FIGURES]
        return [plot_track(one.runs, metric=one.metric, points=one.found.points, title=one.name) for one in ordered]

    def changes_table(self) -> pl.DataFrame:
        """The changes for readers: series, state, place, size with interval, the runs beside it, what moved there."""
        table = self.track.changes_frame()
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
                "machines": "" if change.environment is None else change.environment.sentence(),
            }
            for series in self.track.series
            for change in series.changes
        ]
        return pl.DataFrame(rows) if rows else table.select("series", "state").clear()

    def series_table(self) -> pl.DataFrame:
        """The series for readers: runs, changes, and the level of their latest part."""
        rows = [
            {
                "series": one.name,
                "runs": one.found.n,
                "changes": len(one.standing),
                "latest_level": one.runs["level"][-1],
                "p": format_p_value(one.found.p_value) if one.found.judged else "too few runs",
            }
            for one in self.track.series
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


def track_datasets(
    datasets: Sequence[Dataset],
    question: Question,
    metrics: str = METRIC,
    *,
    alpha: float = CHANGE_ALPHA,
    since: str = "",
) -> TrackReport:
    r"""Find the changes of metrics over several datasets as the page of changes over time shows them.

    Args:
        datasets: the datasets (:func:`read_tracked_datasets`).
        question: the runs that enter, and what does not separate series.
        metrics: metrics, split by commas.
        alpha: chance of a false alarm in a series without a change.
        since: a dataset's name or a time from which on changes are judged; empty: none is.

    Raises:
        UnknownNameError: a name of the question, or a metric, is unknown.
        UsageError: `since` is neither a dataset nor a time.
        InsufficientDataError: no run enters.

    Example:
        >>> import citus_analysis as ca
        >>> nights = [ca.open_dataset(f"night{number}") for number in (1, 2, 3)]  # doctest: +SKIP
        >>> print(*track_datasets(nights, ca.runs.Question()).findings, sep="\n")  # doctest: +SKIP
    """
    found = track(
        datasets,
        split_names(metrics),
        pool=question.pool,
        only=question.only,
        alpha=alpha,
        include_status=question.include_status,
        since=since or None,
    )
    return TrackReport(found)
