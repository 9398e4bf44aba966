"""Results over time: series of metrics, their changes, and other changes near the same run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.runs.setups import stratum_text
from citus_analysis.stats import Interval
from citus_analysis.stats.series.change_points import Alarm, ChangePoint, ChangePoints, NewestShift
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import readable
from citus_analysis.texts.text_tables import text_table

#: Note on the sizes of changes.
_CHOSEN: Final = "intervals of sizes take into account that a change was reported because it is large, and its place"


@dataclass(frozen=True)
class TrackedRun:
    """A run beside a change.

    Attributes:
        dataset: name of its dataset.
        resource: its resource.
        run_id: its name.
        start_time: its begin; None if that is not known.
        commit: the commit or revision that its system states; empty if it states none.
    """

    dataset: str
    resource: str
    run_id: str
    start_time: datetime | None
    commit: str = ""

    def words(self) -> str:
        """Date, dataset, run and commit, as far as they are known."""
        when = f"{self.start_time:%Y-%m-%d %H:%M}" if self.start_time else ""
        return ", ".join(part for part in (when, self.dataset, self.run_id, self.commit) if part)


@dataclass(frozen=True, repr=False)
class TrackedChange(Shown):
    """A change of level that was reported at the last look or at an earlier one.

    Attributes:
        alarm: its state, when it was first seen, and the change itself.
        last_before: the last run before it.
        first_after: the first run after it.
        higher_is_better: whether a larger value of the metric is better; None if its name does not say.
        moved: other changes within two runs of it, in words.
    """

    alarm: Alarm
    last_before: TrackedRun
    first_after: TrackedRun
    higher_is_better: bool | None
    moved: tuple[str, ...] = ()

    @property
    def place(self) -> int:
        """Number of the first run after it in the series, from 0."""
        return self.alarm.place

    @property
    def point(self) -> ChangePoint | None:
        """The change with its size; None if it was withdrawn."""
        return self.alarm.point

    @property
    def ratio(self) -> Interval | None:
        """Level after the change over the level before it; None if it was withdrawn."""
        return self.point.ratio if self.point else None

    @property
    def better(self) -> bool | None:
        """Whether the metric improved; None if its name does not say so, or if the change was withdrawn."""
        if self.point is None or self.higher_is_better is None:
            return None
        return (self.point.after > self.point.before) == self.higher_is_better

    @property
    def worse(self) -> bool:
        """Whether the metric became worse, and this was not withdrawn."""
        return self.better is False

    def size_words(self) -> str:
        """Size with its interval, and whether that is better."""
        if self.point is None:
            return "no change any more"
        ratio, higher = self.point.ratio, self.point.after > self.point.before
        word = {True: "better", False: "worse", None: "higher" if higher else "lower"}[self.better]
        ends = f" [{(ratio.low - 1) * 100:+.1f}, {(ratio.high - 1) * 100:+.1f}]" if ratio.exists else ""
        kind = f", gradually up to run {self.point.end}" if self.point.gradual else ""
        return f"{(ratio.estimate - 1) * 100:+.1f} %{ends} ({word}{kind})"

    def summary_lines(self) -> list[str]:
        """The change in words, with its state and the other changes near it."""
        where = f"run {self.place + 1}"
        if self.point and self.point.between[0] != self.point.between[1]:
            where += f" [{self.point.between[0] + 1}, {self.point.between[1] + 1}]"
        first = f"{where} ({self.first_after.words()}; before it {self.last_before.words()}): {self.size_words()}"
        return [first, f"  {self.alarm.sentence()}", *(f"  moved there too: {words}" for words in self.moved)]


@dataclass(frozen=True, repr=False)
class TrackedSeries(Shown):
    """One metric of one configuration over time.

    Attributes:
        metric: the metric.
        stratum: the configuration.
        runs: the runs in the order of time: `place`, `dataset`, `resource`, `run_id`, `start_time`, `value`, `level`,
            `outlier`, and the columns of other measures.
        found: the change points.
        changes: the changes, with those that were reported at an earlier look and withdrawn later.
        newest: a shift of the two newest runs from the runs since the last change; None if there is no shift to report.
    """

    metric: str
    stratum: dict[str, object]
    runs: pl.DataFrame
    found: ChangePoints
    changes: tuple[TrackedChange, ...] = ()
    newest: NewestShift | None = None
    higher_is_better: bool | None = True

    @property
    def standing(self) -> tuple[TrackedChange, ...]:
        """The changes that were not withdrawn."""
        return tuple(change for change in self.changes if change.point)

    @property
    def name(self) -> str:
        """Metric and configuration."""
        return ", ".join(part for part in (self.metric, stratum_text(self.stratum)) if part)

    def summary_lines(self) -> list[str]:
        """Length and changes of the series."""
        words = [f"  {line}" for change in self.changes for line in change.summary_lines()]
        first = f"{self.name}: {counted(self.found.n, 'run')}, {counted(len(self.standing), 'change')}"
        words += [f"  {one.sentence()}" for one in self.found.spreads]
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
        since: what `track` was asked to judge the changes since; empty if nothing.
        verdict: with `since`, `worse`, `undecided` or `not worse`; empty otherwise.
        warnings: limitations that a reader must know.
    """

    series: tuple[TrackedSeries, ...]
    datasets: tuple[str, ...]
    metrics: tuple[str, ...]
    alpha: float
    since: str = ""
    verdict: str = ""
    warnings: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """As of a gate: 0 not worse, or nothing was asked; 1 worse; 4 undecided."""
        return {"worse": 1, "undecided": 4}.get(self.verdict, 0)

    @property
    def changes(self) -> tuple[tuple[TrackedSeries, TrackedChange], ...]:
        """All changes that were not withdrawn, each with its series."""
        return tuple((series, change) for series in self.series for change in series.standing)

    @property
    def withdrawn(self) -> tuple[tuple[TrackedSeries, TrackedChange], ...]:
        """The changes that were reported at an earlier look and withdrawn, each with its series."""
        return tuple((series, change) for series in self.series for change in series.changes if not change.point)

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
        first += f", {len(self.withdrawn)} withdrawn" if self.withdrawn else ""
        first += f"; since {self.since}: {self.verdict}" if self.verdict else ""
        lines = [
            f"  {series.name}: {change.summary_lines()[0]}; {change.alarm.state}"
            for series, change in self.changes + self.withdrawn
        ]
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
        """One row per change, in the order of time, with those that were withdrawn.

        Columns: its series; state, and that in words; place with its interval; last run before and first run after,
        with their times and commits; levels, ratio with its interval, slope of a gradual change; p-value; other
        changes near it.
        """
        rows = [_row(series, change) for series in self.series for change in series.changes]
        return pl.DataFrame(rows, schema=_CHANGES)

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            **{name: list(getattr(self, name)) for name in ("datasets", "metrics")},
            **{name: getattr(self, name) for name in ("alpha", "since", "verdict", "exit_code")},
            "series": [
                {
                    "metric": one.metric,
                    "configuration": dict(one.stratum),
                    "n": one.found.n,
                    "p_value": one.found.p_value,
                    "autocorrelation": one.found.autocorrelation,
                    "newest": asdict(one.newest) if one.newest else None,
                    "spreads": [asdict(spread) for spread in one.found.spreads],
                    "outliers": list(one.found.outliers),
                    "runs": one.runs.to_dicts(),
                    "warnings": list(one.found.warnings),
                }
                for one in self.series
            ],
            "changes": self.changes_frame().to_dicts(),
            "warnings": list(self.warnings),
        }


_CHANGES: Final = {
    **dict.fromkeys(("series", "metric", "state"), pl.String()),
    **dict.fromkeys(("place", "place_low", "place_high", "gradual_until"), pl.Int64()),
    **dict.fromkeys(("last_start_time", "start_time"), pl.Datetime("us", "UTC")),
    **dict.fromkeys(("last_dataset", "dataset", "last_run_id", "run_id", "last_commit", "commit"), pl.String()),
    **dict.fromkeys(("before", "after", "ratio", "low", "high", "slope", "slope_low", "slope_high"), pl.Float64()),
    "better": pl.Boolean(),
    "p_value": pl.Float64(),
    "seen_after": pl.Int64(),
    **dict.fromkeys(("said", "moved"), pl.String()),
}


def _row(series: TrackedSeries, change: TrackedChange) -> dict[str, object]:
    point, alarm = change.point, change.alarm
    row: dict[str, object] = {
        "series": series.name,
        "metric": series.metric,
        "state": alarm.state,
        "place": alarm.place,
    }
    for prefix, run in (("last_", change.last_before), ("", change.first_after)):
        row |= {f"{prefix}{name}": getattr(run, name) for name in ("start_time", "dataset", "run_id", "commit")}
    row |= {"seen_after": alarm.seen_after, "said": alarm.sentence(), "moved": "; ".join(change.moved)}
    row["better"] = change.better
    if point is not None:
        row |= {"place_low": point.between[0], "place_high": point.between[1], "p_value": point.p_value}
        row |= {"before": point.before, "after": point.after, "ratio": point.ratio.estimate}
        row |= dict(zip(("low", "high"), point.ratio.ends, strict=True))
        if point.slope is not None:
            slope = point.slope
            row |= {
                "gradual_until": point.end,
                "slope": slope.estimate,
                "slope_low": slope.low,
                "slope_high": slope.high,
            }
    return dict.fromkeys(_CHANGES) | row


def format_track(found: Track) -> str:
    """A track as text: a line per series, then the changes with other changes near them, then notes."""
    head = ("series", "runs", "mean", "latest level", "changes", "p")
    rows = []
    for one in found.series:
        values = one.runs["value"]
        latest = readable(one.runs["level"][-1]) if one.runs.height else "-"
        p_value = "-" if one.found.p_value != one.found.p_value else f"{one.found.p_value:.2g}"
        mean = readable(float(values.to_numpy().mean())) if one.runs.height else "-"
        rows.append([one.name, str(one.found.n), mean, latest, str(len(one.standing)), p_value])
    listed = [(series, change) for series in found.series for change in series.changes]
    lines = [f"{series.name}: {line}" for series, change in listed for line in change.summary_lines()]
    lines += [f"{series.name}: {spread.sentence()}" for series in found.series for spread in series.found.spreads]
    lines += [f"{series.name}: {shift.sentence()}" for series, shift in found.newest]
    notes = [*found.warnings, *([_CHOSEN] if found.changes else [])]
    parts = (
        found.summary_lines()[0],
        "\n".join(text_table(head, rows)),
        "\n".join(lines),
        "\n".join(f"note: {note}" for note in notes),
    )
    return "\n\n".join(part for part in parts if part)
