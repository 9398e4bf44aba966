"""Results over time: series of metrics, their changes, and other changes near the same run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.runs.setups import stratum_text
from citus_analysis.stats import Comparison, Interval
from citus_analysis.stats.series.change_points import ChangePoints
from citus_analysis.stats.series.newest_runs import NewestShift
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import readable
from citus_analysis.texts.text_tables import text_table

#: Note on the sizes of changes.
_CHOSEN: Final = (
    "sizes compare the parts between changes; changes are placed where the parts differ most, so sizes are a little "
    "too large"
)


@dataclass(frozen=True, repr=False)
class TrackedChange(Shown):
    """A change of level.

    Attributes:
        place: number of the first run after it in the series, from 0.
        dataset: name of that run's dataset.
        resource: its resource.
        run_id: its name.
        start_time: its begin; None if that is not known.
        p_value: p-value of the change in the part of the series that it divides.
        comparison: the runs from this change to the next, compared with those from the last change to this one.
        moved: other changes within two runs of it, in words.
    """

    place: int
    dataset: str
    resource: str
    run_id: str
    start_time: datetime | None
    p_value: float
    comparison: Comparison
    moved: tuple[str, ...] = ()

    @property
    def ratio(self) -> Interval:
        """Mean after the change over the mean before it."""
        return self.comparison.ratio

    @property
    def better(self) -> bool | None:
        """Whether the metric improved; None if its name does not say whether higher is better."""
        if self.comparison.higher_is_better is None:
            return None
        return (self.ratio.estimate > 1) == self.comparison.higher_is_better

    def summary_lines(self) -> list[str]:
        """The change in words, with the other changes near it."""
        when = f"{self.start_time:%Y-%m-%d %H:%M}, " if self.start_time else ""
        word = {True: "better", False: "worse", None: "higher" if self.ratio.estimate > 1 else "lower"}[self.better]
        size = f"{self.comparison.change_percent:+.1f} % ({word}), ratio {self.ratio}"
        first = f"run {self.place + 1} ({when}{self.dataset}, {self.run_id}): {size}, p = {self.p_value:.2g}"
        return [first, *(f"  moved there too: {words}" for words in self.moved)]


@dataclass(frozen=True, repr=False)
class TrackedSeries(Shown):
    """One metric of one configuration over time.

    Attributes:
        metric: the metric.
        stratum: the configuration.
        runs: the runs in the order of time: `place`, `dataset`, `resource`, `run_id`, `start_time`, `value`, `level`
            (mean of the part without a change), and the columns of other measures.
        found: the change points.
        changes: the changes.
        newest: a shift of the two newest runs from the runs since the last change; None if there is no shift to report.
    """

    metric: str
    stratum: dict[str, object]
    runs: pl.DataFrame
    found: ChangePoints
    changes: tuple[TrackedChange, ...] = ()
    newest: NewestShift | None = None

    @property
    def name(self) -> str:
        """Metric and configuration."""
        return ", ".join(part for part in (self.metric, stratum_text(self.stratum)) if part)

    def summary_lines(self) -> list[str]:
        """Length and changes of the series."""
        words = [f"  {line}" for change in self.changes for line in change.summary_lines()]
        first = f"{self.name}: {counted(self.found.n, 'run')}, {counted(len(self.changes), 'change')}"
        words += [f"  {self.newest.sentence()}"] if self.newest else []
        return [first, *words, *(f"  note: {note}" for note in self.found.warnings)]


@dataclass(frozen=True, repr=False)
class Track(Shown):
    """Metrics over time.

    Attributes:
        series: one per metric and configuration.
        datasets: names of the datasets, in the order of time.
        metrics: the tracked metrics.
        alpha: probability of a false alarm in one series of independent runs without a change.
        warnings: limitations that a reader must know.
    """

    series: tuple[TrackedSeries, ...]
    datasets: tuple[str, ...]
    metrics: tuple[str, ...]
    alpha: float
    warnings: tuple[str, ...] = field(default=())

    @property
    def changes(self) -> tuple[tuple[TrackedSeries, TrackedChange], ...]:
        """All changes, each with its series."""
        return tuple((series, change) for series in self.series for change in series.changes)

    @property
    def newest(self) -> tuple[tuple[TrackedSeries, NewestShift], ...]:
        """The series whose two newest runs differ from those before, each with the difference."""
        return tuple((series, series.newest) for series in self.series if series.newest)

    def summary_lines(self) -> list[str]:
        """The number of series examined, the changes, and the newest runs that differ from those before."""
        judged = sum(series.found.judged for series in self.series)
        first = (
            f"{counted(len(self.changes), 'change')} in {judged} of {len(self.series)} series "
            f"over {counted(len(self.datasets), 'dataset')} (level {self.alpha:g})"
        )
        lines = [f"  {series.name}: {change.summary_lines()[0]}" for series, change in self.changes]
        lines += [f"  {series.name}: {shift.sentence()}" for series, shift in self.newest]
        return [first, *lines, *(f"  note: {note}" for note in self.warnings)]

    def summary_table(self) -> pl.DataFrame:
        """One row per change; see :meth:`changes_frame`."""
        return self.changes_frame()

    def runs_frame(self) -> pl.DataFrame:
        """All runs of all series, each with the name of its series."""
        return pl.concat(
            [one.runs.with_columns(series=pl.lit(one.name)) for one in self.series], how="diagonal_relaxed"
        )

    def changes_frame(self) -> pl.DataFrame:
        """One row per change: its series, place and run, size with interval, p-value, and other changes near it."""
        rows = [
            {
                "series": series.name,
                "metric": series.metric,
                **{name: getattr(change, name) for name in ("place", "start_time", "dataset", "run_id")},
                "ratio": change.ratio.estimate,
                **dict(zip(("low", "high"), change.ratio.ends, strict=True)),
                "better": change.better,
                "p_value": change.p_value,
                "moved": "; ".join(change.moved),
            }
            for series, change in self.changes
        ]
        return pl.DataFrame(rows, schema=_CHANGES)

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            **{name: list(getattr(self, name)) for name in ("datasets", "metrics")},
            "alpha": self.alpha,
            "series": [
                {
                    "metric": one.metric,
                    "configuration": dict(one.stratum),
                    "n": one.found.n,
                    "p_value": one.found.p_value,
                    "newest": asdict(one.newest) if one.newest else None,
                    "runs": one.runs.to_dicts(),
                    "warnings": list(one.found.warnings),
                }
                for one in self.series
            ],
            "changes": self.changes_frame().to_dicts(),
            "warnings": list(self.warnings),
        }


_CHANGES: Final = {
    "series": pl.String(),
    "metric": pl.String(),
    "place": pl.Int64(),
    "start_time": pl.Datetime("us", "UTC"),
    **dict.fromkeys(("dataset", "run_id"), pl.String()),
    **dict.fromkeys(("ratio", "low", "high"), pl.Float64()),
    "better": pl.Boolean(),
    "p_value": pl.Float64(),
    "moved": pl.String(),
}


def format_track(found: Track) -> str:
    """A track as text: a line per series, then the changes with other changes near them, then notes."""
    head = ("series", "runs", "mean", "latest level", "changes", "p")
    rows = []
    for one in found.series:
        values = one.runs["value"]
        latest = readable(one.runs["level"][-1]) if one.runs.height else "-"
        p_value = "-" if one.found.p_value != one.found.p_value else f"{one.found.p_value:.2g}"
        mean = readable(float(values.to_numpy().mean())) if one.runs.height else "-"
        rows.append([one.name, str(one.found.n), mean, latest, str(len(one.changes)), p_value])
    lines = [f"{series.name}: {line}" for series, change in found.changes for line in change.summary_lines()]
    lines += [f"{series.name}: {shift.sentence()}" for series, shift in found.newest]
    notes = [*found.warnings, *([_CHOSEN] if found.changes else [])]
    parts = (
        found.summary_lines()[0],
        "\n".join(text_table(head, rows)),
        "\n".join(lines),
        "\n".join(f"note: {note}" for note in notes),
    )
    return "\n\n".join(part for part in parts if part)
