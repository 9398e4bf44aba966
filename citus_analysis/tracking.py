"""Metrics over many datasets in time: change points of their level, and other changes at the same time.

`track` returns a `Track`, with one `TrackedSeries` per metric and configuration and a `TrackedChange` per change point;
`format_track` renders it as text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.bottleneck.balance import jain_index
from citus_analysis.bottleneck.resources import compute_resource_utilization
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import TableSource, convert_to_numbers, convert_to_polars, is_frame, resolve_source
from citus_analysis.defaults import CHANGE_ALPHA, LEVEL, METRIC
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.selection import Question, split_names
from citus_analysis.runs.set_ups import LOAD, format_configuration, format_setup_value, split_configurations
from citus_analysis.runs.setting_changes import change_words, find_setting_changes
from citus_analysis.schema import TABLES
from citus_analysis.stats import Interval, find_changes
from citus_analysis.stats.change_points import (
    Alarm,
    ChangePoint,
    ChangePoints,
    NewestShift,
    follow_changes,
    newest_shift,
)
from citus_analysis.stats.environment import MACHINE_SPEED, Environment, judge_environment
from citus_analysis.stats.studied_runs import (
    StudiedRuns,
    read_studied_runs,
    read_values_as_runs,
    select_runs_with_metric,
)
from citus_analysis.stats.verdicts import compare, get_metric_direction
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.tables import render_grouped_table
from citus_analysis.texts.words import make_natural_key, pluralize
from citus_analysis.units import US_PER_S

# Results over time: series of metrics, their changes, and other changes near the same run.

__all__ = ["Track", "track"]

#: Note on the sizes of changes.
_CHOSEN: Final = "intervals of sizes take into account that a change was reported because it is large, and its place"
#: Names of the runs before and after a change.
_EARLIER: Final = "the level before it"
_LATER: Final = "the level after it"


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
class TrackedChange(DisplayMixin):
    """A change of level that was reported at the last look or at an earlier one.

    Attributes:
        alarm: its state, when it was first seen, and the change itself.
        last_before: the last run before it.
        first_after: the first run after it.
        higher_is_better: whether a larger value of the metric is better; None if its name does not say.
        moved: other changes within two runs of it, in words.
        environment: the machines at the level after it, against those at the level before it; None if their speed is
            not known or does not differ.
    """

    alarm: Alarm
    last_before: TrackedRun
    first_after: TrackedRun
    higher_is_better: bool | None
    moved: tuple[str, ...] = ()
    environment: Environment | None = None

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

    @property
    def gradual_until(self) -> int:
        """Number of runs up to the end of a gradual change; 0 of any other."""
        return self.point.end if self.point and self.point.gradual else 0

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
        moved = [f"  moved there too: {words}" for words in self.moved]
        machines = [] if self.environment is None else [f"  {self.environment.sentence()}"]
        return [first, f"  {self.alarm.sentence()}", *machines, *moved]


@dataclass(frozen=True, repr=False)
class TrackedSeries(DisplayMixin):
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
        return ", ".join(part for part in (self.metric, format_configuration(self.stratum)) if part)

    def summary_lines(self) -> list[str]:
        """Length and changes of the series."""
        words = [f"  {line}" for change in self.changes for line in change.summary_lines()]
        first = f"{self.name}: {pluralize(self.found.n, 'run')}, {pluralize(len(self.standing), 'change')}"
        words += [f"  {one.sentence()}" for one in self.found.spreads]
        words += [f"  {self.newest.sentence()}"] if self.newest else []
        return [first, *words, *(f"  note: {note}" for note in self.found.warnings)]


@dataclass(frozen=True, repr=False)
class Track(DisplayMixin):
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
            f"{pluralize(len(self.changes), 'change')} in {judged} of {len(self.series)} series "
            f"over {pluralize(len(self.datasets), 'dataset')} (level {self.alpha:g})"
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
        changes near it; the speed of the machines after it over that before it, where it differs, and that in words.
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
    "machine_speed_ratio": pl.Float64(),
    "environment": pl.String(),
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
    if change.environment is not None:
        row["machine_speed_ratio"] = change.environment.speed.ratio.estimate
        row["environment"] = change.environment.sentence()
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


def format_track(found: Track, *, width: int | None = None) -> str:
    """A track as text: a line per series, then the changes with other changes near them, then notes.

    Args:
        found: the track.
        width: characters of a line of the table: of columns that do not fit, the first stand above the lines that have
            them in common; None: all are columns.
    """
    shared, differing = split_configurations([{"metric": one.metric, **one.stratum} for one in found.series])
    names = list(dict.fromkeys(name for one in differing for name in one))
    head = (*names, "runs", "mean", "latest level", "changes", "p")
    rows = []
    for one, facts in zip(found.series, differing, strict=True):
        values = one.runs["value"]
        latest = format_number(one.runs["level"][-1]) if one.runs.height else "-"
        p_value = "-" if one.found.p_value != one.found.p_value else f"{one.found.p_value:.2g}"
        mean = format_number(float(values.to_numpy().mean())) if one.runs.height else "-"
        own = ["" if facts.get(name) is None else format_setup_value(name, facts[name]) for name in names]
        rows.append([*own, str(one.found.n), mean, latest, str(len(one.standing)), p_value])
    rows.sort(key=lambda row: [make_natural_key(cell) for cell in row[: len(names)]])
    right = set(range(len(names), len(head)))
    table = render_grouped_table(head, rows, movable=len(names), width=width, right=right)
    listed = [(series, change) for series in found.series for change in series.changes]
    lines = [f"{series.name}: {line}" for series, change in listed for line in change.summary_lines()]
    lines += [f"{series.name}: {spread.sentence()}" for series in found.series for spread in series.found.spreads]
    lines += [f"{series.name}: {shift.sentence()}" for series, shift in found.newest]
    notes = [*found.warnings, *([_CHOSEN] if found.changes else [])]
    parts = (
        found.summary_lines()[0],
        "\n".join([*([format_configuration(shared, "  ")] if shared else []), *table]),
        "\n".join(lines),
        "\n".join(f"note: {note}" for note in notes),
    )
    return "\n\n".join(part for part in parts if part)


# Other measures of each run that may have moved with its throughput: CPU per operation, balance, its system.

#: Measures of a run -> their names in words.
MEASURES: Final = {
    "cpu_us_per_operation": "CPU time per operation",
    "balance": "balance of clients over nodes",
    MACHINE_SPEED: "speed of the machines",
}
_RUN: Final = ("resource", "run_id")
#: Setting in which the runner records the share of the clients that each node had in an iteration.
_SHARE: Final = r"^measured\.(\d+)\.share_by_node\.(.+)$"


def add_run_measures(runs: pl.DataFrame, source: TableSource) -> pl.DataFrame:
    """Runs with the columns of :data:`MEASURES`; null if a run has no such recording.

    `cpu_us_per_operation` is the busy share of a host's CPU time over the throughput, D = U / X, averaged over the
    sampled nodes; it treats all cores of a host as one, and includes all programs of the host. `balance` is Jain's
    index of the shares of the clients that the nodes had: 1 if all shares are equal. `machine_speed` is the runs'.

    Args:
        runs: rows of the table `runs`.
        source: the dataset of the runs.
    """
    known = runs if MACHINE_SPEED in runs.columns else runs.with_columns(pl.lit(None, pl.Float64).alias(MACHINE_SPEED))
    return known.join(_compute_cpu_per_operation(runs, source), on=_RUN, how="left").join(
        _balance(source), on=["resource", "iteration"], how="left"
    )


def _compute_cpu_per_operation(runs: pl.DataFrame, source: TableSource) -> pl.DataFrame:
    cpu, devices = (convert_to_polars(source.table(name)) for name in ("cpu_samples", "device_samples"))
    if cpu.is_empty():
        return runs.select(*_RUN, cpu_us_per_operation=pl.lit(None, pl.Float64)).clear()
    used = compute_resource_utilization(cpu, devices, runs).filter(pl.col("component") == "cpu")
    busy = used.group_by(_RUN).agg(pl.col("mean_percent").mean())
    per_operation = pl.col("mean_percent") / 100 * US_PER_S / pl.col(METRIC)
    measured = busy.join(runs.filter(pl.col(METRIC) > 0).select(*_RUN, METRIC), on=_RUN)
    return measured.select(*_RUN, cpu_us_per_operation=per_operation)


def _balance(source: TableSource) -> pl.DataFrame:
    settings = convert_to_polars(source.table("settings")).filter(pl.col("name").str.contains(_SHARE))
    shares = settings.select(
        "resource",
        iteration=pl.col("name").str.extract(_SHARE, 1).cast(pl.Int32),
        share=pl.col("value").cast(pl.Float64, strict=False),
    )
    grouped = shares.drop_nulls().group_by("resource", "iteration").agg("share").sort("resource", "iteration")
    usable = grouped.filter(pl.col("share").list.max() > 0, pl.col("share").list.min() >= 0)
    indices = [jain_index(share) for share in usable["share"].to_list()]
    return usable.select("resource", "iteration").with_columns(pl.Series("balance", indices, dtype=pl.Float64))


# Series of runs over datasets, their change points, and other changes within two runs of each.

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
_DATASET_RUN: Final = ("dataset", "resource", "run_id", "start_time")


def track(
    datasets: object,
    metrics: str | Sequence[str] | None = None,
    *,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    alpha: float = CHANGE_ALPHA,
    include_status: str | Collection[str] = (),
    since: str | datetime | None = None,
) -> Track:
    """Find changes of metrics over runs of several datasets, and other changes near them.

    Runs are ordered by their begin (by their dataset if that is not known), with one series per metric and
    configuration; settings may change within a series. :func:`citus_analysis.stats.find_changes` decides. A setting, a
    version, the CPU time per operation or the balance is listed with a change if it changed within two runs of it.
    Where the canary shows that the machines were slower or faster after a change than before it, a sentence says so,
    and whether the change is decided.

    Each change is new, confirmed, revised or withdrawn, compared with what was found at earlier looks: one look after
    each dataset and after each day on which runs began.

    Args:
        datasets: datasets, paths or frames of runs in the order of time, or one of them; the keys of a mapping, or else
            their folders, name them; frames are `frame`, or `frame 1`, `frame 2` ... Also values in the order of time:
            a list, or lists by name. The rows of a frame without the column `start_time` are in the order of time.
        metrics: one or several metrics of `runs` or `operation_latencies`, or measured columns; by default the only
            measured column, or the throughput.
        pool: columns that do not separate series (such as `family`, if experiments have different names).
        only: column -> value; only runs with this value.
        alpha: probability of a false alarm in one series.
        include_status: `degraded` to track degraded runs as well; a warning gives their number.
        since: a dataset's name or a time; the verdict is about changes that were first reported from it on, and
            gradual ones that still went on.

    Raises:
        UsageError: no dataset, another status is to be allowed, or `since` is neither a dataset nor a time.
        UnknownNameError: no such metric or column.
        InsufficientDataError: no run has a metric.

    Example:
        >>> values = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 90.0, 91.0, 89.0, 90.5, 89.5, 90.0]
        >>> [change.place for _, change in track(values, "tps").changes]
        [6]
    """
    given = [metrics] if metrics is None or isinstance(metrics, str) else list(dict.fromkeys(metrics))
    sources = _name_datasets(datasets, given)
    first = _begin(since, sources)
    names = list(dict.fromkeys(map(str, (_choose_metric(name, sources) for name in given))))
    settings = pl.concat(
        [
            convert_to_polars(source.table("settings")).with_columns(dataset=pl.lit(name))
            for name, source in sources.items()
        ],
        how="diagonal_relaxed",
    )
    frames = [source for source in sources.values() if isinstance(source, _RunsOfFrame)]
    find, say = (frames[0].studied.find_column, frames[0].studied.callers_name) if frames else (str, str)
    question = Question(
        only={find(name): value for name, value in (only or {}).items()},
        include_status=split_names(include_status),
        pool=tuple(map(find, pool)),
    )
    factors = tuple(dict.fromkeys(name for one in frames for name in one.studied.factors))
    notes: list[str] = []
    series: list[TrackedSeries] = []
    for metric in names:
        runs, said = _build_run_history(sources, metric, question)
        notes += said
        series += [
            _track_series(metric, {say(name): value for name, value in key.items()}, part, settings, alpha)
            for key, part in _iterate_series(runs, question.pool, (*_SERIES, *factors))
        ]
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
            hint = f"name one of {', '.join(sources)}, or write a time as 2026-01-31"
            raise UsageError(f"{since} is neither a dataset nor a time", hint=hint) from None
    return since.replace(tzinfo=since.tzinfo or UTC) if since else None


def _verdict(series: Sequence[TrackedSeries], since: list[str] | datetime) -> str:
    """Whether a change for the worse was first reported from a dataset or time on, or still went on then."""
    undecided = False
    for one in series:
        later = pl.col("dataset").is_in(since) if isinstance(since, list) else pl.col("start_time") >= since
        known = isinstance(since, list) or "start_time" in one.runs.columns
        before = one.runs.filter(~later.fill_null(value=False)).height if known else one.runs.height
        if before == one.runs.height:
            continue
        if any(change.worse and max(change.alarm.seen_after, change.gradual_until) > before for change in one.standing):
            return "worse"
        hint = one.newest is not None and one.newest.lower is one.higher_is_better
        undecided = undecided or hint or not one.found.judged
    return "undecided" if undecided else "not worse"


@dataclass(frozen=True)
class _RunsOfFrame:
    """A caller's frame of runs as a dataset that has nothing else; its rows are in the order of time."""

    studied: StudiedRuns

    def table(self, name: str, /) -> pl.DataFrame:
        """The runs with what a dataset's runs have; any other table without rows."""
        if name != "runs":
            return TABLES[name].empty()
        runs = self.studied.runs
        numbers = pl.Series(range(1, runs.height + 1), dtype=pl.Int32)
        return runs.with_columns(
            numbers.alias("iteration"), pl.lit("").alias("resource"), ("row " + numbers.cast(pl.String)).alias("run_id")
        )


def _name_datasets(datasets: object, metrics: Sequence[str | None]) -> dict[str, TableSource]:
    """What is tracked, by name.

    Raises:
        UsageError: nothing is given, or something that holds no runs.
    """
    if isinstance(datasets, Sequence | Mapping) and not datasets:
        raise UsageError("no dataset is given", hint="pass the datasets in the order of time")
    if isinstance(datasets, Mapping) and not _is_table(datasets, metrics[0]):
        return {str(name): _resolve_tracked(one, metrics) for name, one in datasets.items()}
    several: Sequence[object] = [datasets]
    if isinstance(datasets, list | tuple) and convert_to_numbers(datasets) is None:
        records = all(isinstance(one, Mapping) and not any(map(_is_column, one.values())) for one in datasets)
        several = [datasets] if records else datasets
    named: dict[str, TableSource] = {}
    for number, one in enumerate(several, 1):
        source = _resolve_tracked(one, metrics)
        path = one if isinstance(one, str | PathLike) else getattr(source, "path", None)
        kind = "frame" if isinstance(source, _RunsOfFrame) else "dataset"
        kind = "values" if convert_to_numbers(one) is not None else kind
        name = Path(path).name if path else kind if len(several) == 1 else f"{kind} {number}"
        named[name if name not in named else f"{name} ({number})"] = source
    return named


def _is_table(columns: Mapping[str, object], metric: str | None) -> bool:
    """Whether these are columns by name; lists of numbers are values of a metric that is named and is none of them."""
    values = list(columns.values())
    if metric is not None and metric not in columns and all(convert_to_numbers(one) is not None for one in values):
        return False
    return any(map(_is_column, values))


def _is_column(value: object) -> bool:
    return isinstance(value, Sized) and not (isinstance(value, str | Mapping | TableSource) or is_frame(value))


def _resolve_tracked(source: object, metrics: Sequence[str | None]) -> TableSource:
    runs = read_values_as_runs(source, metrics[0])
    resolved = resolve_source(runs)
    if not isinstance(resolved, pl.DataFrame):
        return resolved
    if {"run_id", "resource"} <= set(resolved.columns):
        return _RunsOfFrame(StudiedRuns(resolved, metrics[0] or METRIC))
    return _RunsOfFrame(read_studied_runs(runs, metrics[0]))


def _choose_metric(name: str | None, sources: Mapping[str, TableSource]) -> str:
    """The metric that is asked for, or that the frames have.

    Raises:
        UsageError: the frames are measured in different columns.
    """
    if name is not None:
        frames = [one.studied for one in sources.values() if isinstance(one, _RunsOfFrame)]
        return frames[0].find_column(name) if frames else name
    found = list(
        dict.fromkeys(one.studied.metric if isinstance(one, _RunsOfFrame) else METRIC for one in sources.values())
    )
    if len(found) > 1:
        raise UsageError(
            f"{' and '.join(found)} are measured: which is to be tracked is not said", hint="name the metric"
        )
    return found[0]


def _build_run_history(
    sources: Mapping[str, TableSource], metric: str, question: Question
) -> tuple[pl.DataFrame, list[str]]:
    """The runs of all datasets in the order of time, each with its dataset and its other measures."""
    parts: list[pl.DataFrame] = []
    notes: list[str] = []
    for name, source in sources.items():
        try:
            runs, said = select_runs_with_metric(source, metric, question.include_status, question.only)
        except InsufficientDataError as error:
            notes.append(f"{name}: {error.problem}")
            continue
        notes += [f"{name}: {note}" for note in said]
        measured = add_run_measures(runs, source)
        parts.append(measured.with_columns(dataset=pl.lit(name), _order=pl.lit(len(parts))))
    if not parts:
        raise InsufficientDataError(f"no dataset has a run with a {metric}")
    whole = pl.concat(parts, how="diagonal_relaxed")
    timed = "start_time" in whole.columns and not whole["start_time"].null_count()
    if not timed:
        notes.append("not all runs have a start time: they are in the order of the datasets and iterations")
    return whole.sort(*(["start_time"] if timed else ["_order", "iteration"]), maintain_order=True), notes


def _iterate_series(
    runs: pl.DataFrame, pool: Sequence[str], apart: Sequence[str]
) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    columns = [name for name in apart if name in runs.columns and name not in pool]
    columns = [name for name in columns if runs[name].n_unique() > 1]
    if not columns:
        yield {}, runs
        return
    for key, part in runs.group_by(columns, maintain_order=True):
        yield dict(zip(columns, key, strict=True)), part


def _track_series(
    metric: str, stratum: dict[str, object], runs: pl.DataFrame, settings: pl.DataFrame, alpha: float
) -> TrackedSeries:
    kept = runs.with_columns(value=pl.col(metric).cast(pl.Float64)).with_row_index("place")
    shown = kept.select("place", *(name for name in _DATASET_RUN if name in kept.columns), "value", *MEASURES)
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
            higher_is_better=get_metric_direction(metric),
            moved=tuple(_describe_other_changes(shown, settings, alpha, alarm.place)),
            environment=_judge_machines(shown, found, alarm.point, metric),
        )
        for alarm in followed.alarms
    )
    newest = newest_shift(values[max((point.end for point in found.points), default=0) :])
    return TrackedSeries(metric, stratum, shown, found, changes, newest, get_metric_direction(metric))


def _judge_machines(
    runs: pl.DataFrame, found: ChangePoints, point: ChangePoint | None, metric: str
) -> Environment | None:
    """The machines of the runs between a change and the next one, against those since the change before it.

    Runs without a canary are left out, and so are outliers and the runs of a gradual change.
    """
    if point is None:
        return None
    changes = sorted(found.points, key=lambda one: one.index)
    begin = max((one.end for one in changes if one.index < point.index), default=0)
    end = min((one.index for one in changes if one.index > point.index), default=runs.height)
    known = runs.filter(pl.col(MACHINE_SPEED).is_finite() & (pl.col(MACHINE_SPEED) > 0) & ~pl.col("outlier"))
    place = pl.col("place")
    earlier = known.filter(place.is_between(begin, point.index, closed="left"))
    later = known.filter(place.is_between(point.end, end, closed="left"))
    if min(earlier.height, later.height) < 2 or (known["value"] <= 0).any():
        return None
    values = (later["value"].to_numpy(), earlier["value"].to_numpy())
    plain = compare(*values, higher_is_better=get_metric_direction(metric), label_a=_LATER, label_b=_EARLIER)
    return judge_environment(plain, (later, earlier), LEVEL)


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


def _describe_other_changes(runs: pl.DataFrame, settings: pl.DataFrame, alpha: float, place: int) -> Iterator[str]:
    """The changes within two runs of a place other than those of the metric, in words."""
    for number in range(max(1, place - _NEAR), min(runs.height - 1, place + _NEAR) + 1):
        pair = runs.select("dataset", "resource")[number - 1 : number + 1].to_dicts()
        systems = [{name: row[name] for name in ("dataset", "resource")} for row in pair]
        if systems[0] != systems[1]:
            words = change_words(find_setting_changes(*(settings.filter(**system) for system in systems)))
            if words:
                yield f"{words} (run {number + 1})"
    for column, words in MEASURES.items():
        known = runs.drop_nulls(column)
        places = known["place"].to_list()
        for point in find_changes(known[column].to_numpy(), alpha).points:
            if abs(places[point.index] - place) <= _NEAR:
                yield f"{words} {(point.ratio.estimate - 1) * 100:+.1f} % (run {places[point.index] + 1})"
