"""The figures and tables of the scalability report: a scaling study laid out by operation and series.

The curves with their points, comparisons and models are those of :func:`citus_analysis.scaling.scale_runs`, which the
command `scale` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final, Literal

import plotly.graph_objects as go
import polars as pl

from citus_analysis.bottleneck.samples import select_throttling_over_time
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.defaults import LEVEL, MARGIN, METRIC, UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.operations import MEAN_LATENCY_US, is_main_operation
from citus_analysis.plots import plot_fits, plot_series
from citus_analysis.plots.scalability_figures import plot_latency_load, plot_relative
from citus_analysis.report.resources import write_throttling_warnings
from citus_analysis.report.sentences import (
    format_interval_cells,
    format_ratio,
    format_ratio_interval,
    replace_model_names,
)
from citus_analysis.runs.selection import Question, Selection, select_asked_runs
from citus_analysis.runs.set_ups import (
    CONFIGURATION,
    VARIANT,
    build_series_names,
    describe_ingest_option,
    format_setup_value,
)
from citus_analysis.runs.status import AS_SELECTED
from citus_analysis.scaling import configuration_costs, scale_runs
from citus_analysis.scaling.curves import ScalingCurve, ScalingStudy
from citus_analysis.scaling.latency_load import estimate_latency_by_load
from citus_analysis.spans.coarse import coarse_profile
from citus_analysis.spans.profile import select_statements
from citus_analysis.stats import Comparison, run_precision, summarise_runs
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
from citus_analysis.stats.intervals import MeanMethod
from citus_analysis.stats.start_up import steady_runs
from citus_analysis.texts.numbers import (
    MISSING,
    convert_long_times_to_ms,
    format_estimate_with_interval,
    format_number,
    format_percent,
)
from citus_analysis.texts.words import (
    choose_noun_form,
    join_words,
    load_text,
    make_natural_key,
    pluralize,
    spell_number,
)

Axis = Literal["workers", "threads"]

#: The quantities that :meth:`ScalingPanels.plot` draws and :meth:`ScalingPanels.table` lists.
Quantity = Literal["throughput", "speedup", "efficiency", "models"]

_OTHER: Final[dict[Axis, Axis]] = {"workers": "threads", "threads": "workers"}
#: Name of a series without a known column.
UNNAMED: Final = "runs"
_ENDS: Final = ("", "_low", "_high")
_PLACE: Final = {"operation": pl.String(), "series": pl.String()}
_MEANS: Final = {
    **dict.fromkeys(("mean", "sd", "low", "high", "level"), pl.Float64()),
    "n": pl.Int64(),
    "method": pl.String(),
    "warnings": pl.String(),
}
_DECISION: Final = {"verdict": pl.String(), "p_difference": pl.Float64(), "p_difference_adjusted": pl.Float64()}
_MODELS: Final = {
    "model": pl.String(),
    **dict.fromkeys(("gamma", "alpha", "beta", "aicc", "weight", "lack_of_fit_p"), pl.Float64()),
    "rejected": pl.String(),
    "decided": pl.Boolean(),
    "peak": pl.String(),
    "warnings": pl.String(),
}


@dataclass(frozen=True)
class Panel:
    """A curve with its place in the figures.

    Attributes:
        operation: the clients' operation.
        series: the whole name: set-up, and value of the other axis.
        curve: its points, comparisons and models.
        set_up: the set-up in the name; empty if there is only one. Each set-up has its own figure.
        line: the rest of the name, such as "16 threads" along workers.
        steady: the largest size compared with the base by the steady parts of the runs; None without their intervals.
        cut_s: seconds of start-up that are left out at most.
        settled: whether all runs settled.
    """

    operation: str
    series: str
    curve: ScalingCurve
    set_up: str = ""
    line: str = ""
    steady: Comparison | None = None
    cut_s: float = 0.0
    settled: bool = True

    @property
    def place(self) -> dict[str, str]:
        """Operation and series, as columns of a table."""
        return {"operation": self.operation, "series": self.series}

    @property
    def title(self) -> str:
        """Operation and, if there are several, set-up."""
        return ", ".join(part for part in (self.operation, self.set_up) if part)


@dataclass(frozen=True)
class ScalingPanels:
    """A scaling study as tables for figures.

    Attributes:
        axis: `workers` or `threads`.
        study: the curves.
        base: value of the axis that speedup and efficiency of most series refer to; 0 if there is no series.
        panels: the curves with their places, in the order of the figures.
        means: per operation, series and value: n, mean, sd, low, high, level, method, warnings.
        steady: the start-up and the steady part of each run whose intervals are known.
    """

    axis: Axis
    study: ScalingStudy
    base: int
    panels: tuple[Panel, ...]
    means: pl.DataFrame
    steady: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def start_up(self) -> pl.DataFrame:
        """Per operation, series and value: seconds that are cut, and throughput of whole runs and of steady parts.

        Where a run did not settle, there is no steady part.
        """
        if self.steady.is_empty():
            return pl.DataFrame(schema=[*_PLACE, self.axis, "n", "cut_s", "settled", "whole_ops_s", "steady_ops_s"])
        joined = self.runs.join(self.steady, on=["resource", "run_id"], maintain_order="left")
        return joined.group_by(*_PLACE, self.axis, maintain_order=True).agg(
            pl.len().alias("n"),
            pl.col("cut_s").max(),
            pl.col("settled").all(),
            whole_ops_s=pl.col(METRIC).mean(),
            steady_ops_s=pl.when(pl.col("settled").all()).then(pl.col("steady_ops_s").mean()),
        )

    @property
    def order(self) -> tuple[str, ...]:
        """Names of all series, so that each keeps its colour over several figures."""
        return tuple(dict.fromkeys(panel.series for panel in self.panels))

    @property
    def base_words(self) -> str:
        """The value that speedup and efficiency refer to, in words: "4 threads", or that series have several."""
        bases = {one.label_b for panel in self.panels for one in panel.curve.comparisons}
        if len(bases) > 1:
            return f"the fewest {self.axis} of each series"
        return pluralize(self.base, self.axis.removesuffix("s"))

    @property
    def runs(self) -> pl.DataFrame:
        """Single runs of the series."""
        return _collect_panel_runs(self.panels, self.axis).select(
            *_PLACE, self.axis, METRIC, "iteration", "run_id", "resource"
        )

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Comparisons of each value with the base; `stratum` contains operation, series and value of the axis."""
        return tuple(
            replace(one, stratum={**p.place, self.axis: int(one.label_a)})
            for p in self.panels
            for one in p.curve.comparisons
        )

    @property
    def relative(self) -> pl.DataFrame:
        """Per operation, series and value: speedup, efficiency and psi with their intervals, and the verdict.

        Intervals of speedup and efficiency are those of the comparisons, which decide the verdicts.
        """
        numbers = dict.fromkeys((f"{q}{end}" for q in ("speedup", "efficiency", "psi") for end in _ENDS), pl.Float64())
        schema = {**_PLACE, self.axis: pl.Int32(), **numbers, **_DECISION, "n": pl.Int64()}
        rows = [row for panel in self.panels for row in _tabulate_relative_points(panel, self.axis)]
        return pl.DataFrame(rows, schema=schema)

    @property
    def models(self) -> pl.DataFrame:
        """Per operation, series and fitted model: parameters, weight, caveats, and its peak."""
        rows = [{**panel.place, **row} for panel in self.panels for row in panel.curve.model_rows()]
        return pl.DataFrame(rows, schema={**_PLACE, **_MODELS})

    def operations(self) -> list[str]:
        """Names of the operations that have a series."""
        return list(dict.fromkeys(panel.operation for panel in self.panels))

    def groups(self) -> list[list[Panel]]:
        """The curves that share a figure, of one operation and set-up, the set-up with the most curves first."""
        sizes = Counter(panel.set_up for panel in self.panels)
        parts: dict[tuple[str, str], list[Panel]] = {}
        for panel in sorted(self.panels, key=lambda panel: -sizes[panel.set_up]):
            parts.setdefault((panel.operation, panel.set_up), []).append(panel)
        return list(parts.values())

    def plot(self, quantity: Quantity = "throughput", *, most: int = 12) -> list[go.Figure]:
        """Figures of a quantity, one for each operation and set-up; of models one for each curve.

        Args:
            quantity: `throughput`, `speedup`, `efficiency` or `models`.
            most: largest number of figures; set-ups with the most curves come first.
        """
        if quantity == "models":
            return list(_model_figures(self))[:most]
        return [_group_figure(self, group, quantity) for group in self.groups()[:most]]

    def table(self, quantity: Quantity = "throughput") -> pl.DataFrame:
        """A wide table for readers: one row per operation and series, one column per size, intervals in the cells.

        For models, one row per curve and model. :attr:`means`, :attr:`relative` and :attr:`models` have the numbers.
        """
        return _tabulate_quantity(self, quantity)

    def get_means(self, panel: Panel) -> pl.DataFrame:
        """The means of one series."""
        return self.means.filter(**panel.place)


def scaling_panels(
    selection: Selection,
    axis: Axis = "workers",
    *,
    base: int = 0,
    level: float = LEVEL,
    method: MeanMethod = "log-t",
    margin: float = MARGIN,
    series: pl.DataFrame | None = None,
) -> ScalingPanels:
    """Means, speedup, efficiency and models of every set-up that was measured at two or more values of an axis.

    Args:
        selection: runs with their set-up.
        axis: the quantity that grows along a series.
        base: value that speedup refers to; 0: the smallest of each series.
        level: confidence level of every interval and test.
        method: method of the intervals of means (`log-t`, which stays positive, `t`, or the study's `normal`).
        margin: relative difference that counts as none.
        series: the table `client_series`, by which start-up and steady part of the runs are told apart.

    Raises:
        UnknownNameError: no run was made at the base.
    """
    question = Question(level=level, margin=margin)
    return build_scaling_panels(selection, axis, question, base=base, method=method, series=series)


def build_scaling_panels(
    selection: Selection,
    axis: Axis,
    question: Question,
    *,
    base: int = 0,
    method: MeanMethod = "log-t",
    series: pl.DataFrame | None = None,
) -> ScalingPanels:
    """The panels of an axis; see :func:`scaling_panels`."""
    level, margin = question.level, question.margin
    check_base(selection, axis, base)
    # A single server is another system, not a cluster of 0 workers.
    runs = selection.runs.drop_nulls("operation").filter(pl.col(axis) > 0)
    study = ScalingStudy(axis, METRIC, ())
    if base in (0, *runs[axis]) and not runs.is_empty():
        study = scale_runs(runs, axis, METRIC, base or None, margin=margin, level=level, include_status=AS_SELECTED)
    panels = tuple(_build_panels(study, axis))
    steady = pl.DataFrame()
    if series is not None and panels:
        steady = steady_runs(runs, series, ["operation", *(name for name in CONFIGURATION if name in runs.columns)])
        panels = _with_steady(
            panels, runs.join(steady, on=["resource", "run_id"], maintain_order="left"), study, base, level
        )
    usual = base if base and panels else _find_usual_base(panels)
    return ScalingPanels(
        axis, study, usual, panels, _means(_collect_panel_runs(panels, axis), axis, level, method), steady
    )


def _with_steady(
    panels: tuple[Panel, ...], runs: pl.DataFrame, study: ScalingStudy, base: int, level: float
) -> tuple[Panel, ...]:
    """The panels with their growth by the steady parts of the runs, by the same comparisons as that of whole runs."""
    if runs.is_empty():
        return panels
    growth = panels[0].curve.growth
    parts = runs.with_columns(pl.col("steady_ops_s").alias(METRIC))
    found = scale_runs(
        parts, study.x, METRIC, base or None, models=(), margin=growth.margin, level=level, include_status=AS_SELECTED
    )
    # By their runs: a stratum names columns that vary, and fewer vary where some runs have no steady part.
    same = {_get_runs(curve): curve for curve in found}
    return tuple(_steady_panel(panel, same.get(_get_runs(panel.curve))) for panel in panels)


def _get_runs(curve: ScalingCurve) -> frozenset[tuple[object, ...]]:
    return frozenset(curve.runs.select("resource", "run_id").iter_rows())


def _steady_panel(panel: Panel, steady: ScalingCurve | None) -> Panel:
    if steady is None:
        return panel
    ends = steady.runs.filter(pl.col(steady.x).is_in([int(steady.growth.label_a), int(steady.growth.label_b)]))
    cut_s = float(ends["cut_s"].cast(pl.Float64).max() or 0.0)  # type: ignore[arg-type] # numeric column
    return replace(panel, steady=steady.growth, cut_s=cut_s, settled=bool(ends["settled"].all()))


def check_base(selection: Selection, axis: Axis, base: int) -> None:
    """Refuse a base at which no run was made; 0 means no base.

    Raises:
        UnknownNameError: no run has that number of workers or threads.
    """
    measured = selection.runs[axis].drop_nulls().unique().sort()
    if base and base not in measured:
        raise UnknownNameError(f"number of {axis} in these runs", str(base), map(str, measured))


def select_outside_series(selection: Selection, shown: Sequence[ScalingPanels]) -> pl.DataFrame:
    """Configurations in no series, because no other configuration has the same set-up."""
    inside = pl.concat([panels.runs.select("run_id", "resource") for panels in shown])
    return (
        selection.runs.join(inside, on=["run_id", "resource"], how="anti")
        .group_by("resource", "operation", "limit", "threads", "workers", "records", maintain_order=True)
        .agg(pl.len().alias("runs"), pl.col(METRIC).mean())
        .sort("resource", "operation", "threads")
    )


def _build_panels(study: ScalingStudy, axis: Axis) -> Iterator[Panel]:
    """Names are made per operation, without the parts that the panel's title states (operation, one size)."""
    other = _OTHER[axis]
    if not study.curves:
        return
    keys = [*(name for name in study.curves[0].stratum if name != other), other]
    firsts = pl.concat([_tabulate_curve_set_up(curve, keys) for curve in study.curves]).with_row_index("curve")
    for (operation,), rows in firsts.sort("operation", other).group_by("operation", maintain_order=True):
        names = build_series_names(rows.select(*keys), ignore=["workload"], always=[other])
        apart = [name for name in keys if name not in ("workload", other) and rows[name].n_unique() > 1]
        set_ups = build_series_names(rows.select(*keys), ignore=["workload", other]) if apart else [""] * rows.height
        lines = build_series_names(rows.select(other), always=[other])
        order = zip(rows[other].fill_null(-1), map(make_natural_key, names), strict=True)
        for _, number, name, set_up, line in sorted(zip(order, rows["curve"], names, set_ups, lines, strict=True)):
            yield Panel(str(operation), name, study.curves[number], set_up, "" if line == UNNAMED else line)


def _tabulate_curve_set_up(curve: ScalingCurve, keys: Sequence[str]) -> pl.DataFrame:
    """The set-up of a curve; the other axis is null if it changes along the curve."""
    row = curve.runs.head(1).select({"operation", *keys})
    changing = [name for name in keys if curve.runs[name].n_unique() > 1]
    return row.with_columns(pl.lit(None, row.schema[name]).alias(name) for name in changing)


def _find_usual_base(panels: Sequence[Panel]) -> int:
    bases = pl.Series([int(one.label_b) for panel in panels for one in panel.curve.comparisons], dtype=pl.Int64)
    return int(bases.mode().sort()[0]) if len(bases) else 0


def _collect_panel_runs(panels: Sequence[Panel], axis: Axis) -> pl.DataFrame:
    if not panels:
        ids = {"iteration": pl.Int32(), "run_id": pl.String(), "resource": pl.String()}
        return pl.DataFrame(schema={**_PLACE, axis: pl.Int32(), METRIC: pl.Float64(), **ids})
    return pl.concat(p.curve.runs.sort(axis).with_columns(**{k: pl.lit(v) for k, v in p.place.items()}) for p in panels)


def _means(runs: pl.DataFrame, axis: Axis, level: float, method: MeanMethod) -> pl.DataFrame:
    if runs.is_empty():
        return pl.DataFrame(schema={**_PLACE, axis: pl.Int32(), **_MEANS})
    means = summarise_runs(runs, METRIC, by=[*_PLACE, axis], level=level, method=method, include_status=AS_SELECTED)
    order = runs.select(*_PLACE).unique(maintain_order=True)
    return order.join(means, on=list(_PLACE), how="left", maintain_order="left_right")


def _tabulate_relative_points(panel: Panel, axis: Axis) -> Iterator[dict[str, object]]:
    compared = {float(one.label_a): one for one in panel.curve.comparisons}
    for point in panel.curve.points:
        one = compared.get(point.size)
        decision = {"verdict": one.verdict, **one.known_p_values()} if one else {"verdict": "base"}
        yield {**panel.place, axis: int(point.size), **point.record(), **decision, "n": point.throughput.n}


def _list_quantity_columns(quantity: Quantity) -> list[str]:
    """The columns of a quantity and its ends in the tables of the study."""
    return ["mean", "low", "high"] if quantity == "throughput" else [f"{quantity}{end}" for end in _ENDS]


def _group_figure(study: ScalingPanels, group: Sequence[Panel], quantity: Quantity) -> go.Figure:
    title = f"{group[0].title}: {quantity} by {study.axis}"
    order = list(dict.fromkeys(panel.line or panel.series for panel in study.panels))
    if quantity == "throughput":
        means, runs = _select_group_rows(group, study.means), _select_group_rows(group, study.runs)
        return plot_series(
            means,
            runs,
            x=study.axis,
            title=title,
            order=_select_used_lines(order, means),
            ideal=study.axis == "workers",
        )
    mean, low, high = _list_quantity_columns(quantity)
    base = int(group[0].curve.growth.label_b)
    ratios = _select_group_rows(group, study.relative).select("series", study.axis, mean=mean, low=low, high=high)
    return plot_relative(
        ratios, x=study.axis, quantity=quantity, base=base, title=title, order=_select_used_lines(order, ratios)
    )


def _select_used_lines(order: list[str], rows: pl.DataFrame) -> list[str]:
    """Names of lines up to the last one drawn: each keeps its colour, and marks stay close together."""
    drawn = set(rows["series"])
    last = max((place for place, name in enumerate(order) if name in drawn), default=-1)
    return order[: last + 1]


def _select_group_rows(group: Sequence[Panel], table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a group; series are named by their lines."""
    lines = {panel.series: panel.line or panel.series for panel in group}
    rows = table.filter(pl.col("operation") == group[0].operation, pl.col("series").is_in(list(lines)))
    return rows.with_columns(pl.col("series").replace(lines))


def _model_figures(study: ScalingPanels) -> Iterator[go.Figure]:
    for panel in chain.from_iterable(study.groups()):
        if panel.curve.fits:
            names = ", ".join(part for part in (panel.title, panel.line) if part)
            title = f"{names}: models by {study.axis}"
            yield plot_fits(study.get_means(panel), panel.curve.fits, x=study.axis, title=title, points="mean")


def _tabulate_quantity(study: ScalingPanels, quantity: Quantity) -> pl.DataFrame:
    if quantity == "models":
        return study.models.drop("decided")
    source = study.means if quantity == "throughput" else study.relative.filter(pl.col("verdict") != "base")
    noun, cells = study.axis.removesuffix("s"), []
    names = [pluralize(size, noun) for size in source[study.axis].unique().sort()]
    for panel in chain.from_iterable(study.groups()):
        rows = source.filter(**panel.place).select(study.axis, *_list_quantity_columns(quantity)).iter_rows()
        found = {pluralize(size, noun): format_estimate_with_interval(*ends) for size, *ends in rows}
        cells.append(panel.place | dict.fromkeys(names, MISSING) | found)
    return pl.DataFrame(cells, schema=dict.fromkeys([*_PLACE, *names], pl.String()))


# Findings of the scalability report; every claim follows from the verdict of a comparison.

#: The opening states at most this many operations per axis; the sections state all.
IN_OPENING: Final = 2

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "one size": "No set-up was measured at more than one number of {axis}, so scaling by {axis} is not analysed.",
    "growth": "{operation}: {clauses}.",
    "growth: decided": "{larger} do {only}{ratio} times the work of {smaller} ({interval}){where}",
    "growth: decided with others": "{ratio} times ({interval}){where}",
    "growth: equal": "throughput stays the same within {margin} {places}",
    "growth: equal place": "{where} ({interval} times)",
    "growth: open place": "{where} ({ratio} times, {interval})",
    "growth: others open": "{places} these runs do not show whether throughput changes",
    "growth: open": "these runs do not show whether {larger} do more or less work than {smaller} {places}",
    "steady: not settled": "some of these runs did not settle{where}, so that no steady part confirms it",
    "steady: holds": "{cut} this holds ({ratio} times, {interval})",
    "steady: open too": "{cut} they do not show it either ({ratio} times, {interval})",
    "steady: open": "{cut} these runs do not show a change ({ratio} times, {interval})",
    "steady: same": "{cut} it stays the same ({ratio} times, {interval})",
    "steady: differs": "{cut} the larger size is {verdict} ({ratio} times, {interval})",
    "steady: cut": "without the start-up of up to {seconds:.0f} s{where}",
    "models": "Models of {operation} by {axis}: {findings}.",
    "models: each": "with {series}, {words}",
    "highest": "The highest throughput was {places}.",
    "highest: each": "{mean} operations/s for {operation} ({where}, mean of {runs})",
    "runs": "{runs} of {configurations} were analysed; no run failed.",
    "runs and left out": "{runs} of {configurations} were analysed; {left_out} {why} and {are} left out: {resources}.",
    "left out: failed": "failed or lost operations",
    "left out: disturbed": "{were} made while the machine did other work",
    "left out: both": "failed or lost operations, or {were} made while the machine did other work ({number}),",
    "no size": "No run states its number of workers or of threads, so that there is no series; {hint}.",
    "unknown size": "Of {runs} ({resources}) the number of {axis} is not known, so that no series shares {them} with "
    "the others; {hint}.",
    "few runs": "{points} {rest} on fewer than 3 runs: {intervals}.",
    "few runs: without": "{number} {have} no interval",
    "few runs: widest": "the widest interval is {low} to {high} times its mean",
    "entry changes": "In the {set_up}, clients connect to different nodes as {axis} change ({places}): {axis} are not "
    "the only difference between these runs.",
    "entry changes: each": "at {sizes} through the {entry}",
    "machines": "Measured on {machines}.",
}


def state_scalability(selection: Selection, studies: Sequence[ScalingPanels]) -> list[ReportFinding]:
    """The change of throughput along each axis, its maximum, and the runs analysed, in three to six findings."""
    runs = selection.runs
    known = [study for study in studies if runs[study.axis].null_count() < runs.height]
    # An axis without a series is named last.
    growth, none = (
        [one for study in known if bool(study.panels) == wanted for one in state_growth(study)[:IN_OPENING]]
        for wanted in (True, False)
    )
    return [
        *growth,
        *_state_highest_throughput(runs),
        _state_included_runs(selection),
        *none,
        *_state_unknown_sizes(runs),
    ]


def _state_included_runs(selection: Selection) -> ReportFinding:
    runs, left = selection.runs, selection.left_out
    known = [name for name in CONFIGURATION if name in runs.columns]
    configurations = pluralize(runs.select(known).unique().height, "configuration")
    if left.is_empty():
        return state(TEMPLATES, "runs", runs=pluralize(runs.height, "run"), configurations=configurations)
    are, were = ("is", "was") if left.height == 1 else ("are", "were")
    disturbed = int((left["status"].cast(pl.String) == "doubtful").sum()) if "status" in left.columns else 0
    why = "left out: disturbed" if disturbed == left.height else "left out: both" if disturbed else "left out: failed"
    return state(
        TEMPLATES,
        "runs and left out",
        runs=pluralize(runs.height, "run"),
        configurations=configurations,
        left_out=pluralize(left.height, "run"),
        why=TEMPLATES[why].format(were=were, number=disturbed),
        are=are,
        resources=_list_resources(left),
    )


def _list_resources(runs: pl.DataFrame) -> str:
    return join_words(sorted(runs["resource"].unique().to_list(), key=make_natural_key))


def _state_unknown_sizes(runs: pl.DataFrame) -> list[ReportFinding]:
    """What some runs do not say of their size although others do, or what none says that a series needs.

    An axis that no run mentions is not mentioned here, if the other axis is known.
    """
    unknown = {name: runs[name].null_count() for name in ("workers", "threads")}
    if all(number == runs.height for number in unknown.values()):
        return [state(TEMPLATES, "no size", hint=describe_ingest_option(list(unknown)))]
    return [
        state(
            TEMPLATES,
            "unknown size",
            runs=pluralize(number, "run"),
            resources=_list_resources(runs.filter(pl.col(name).is_null())),
            axis=name,
            them="it" if number == 1 else "them",
            hint=describe_ingest_option([name]),
        )
        for name, number in unknown.items()
        if 0 < number < runs.height
    ]


def state_growth(study: ScalingPanels) -> list[ReportFinding]:
    """Findings per operation and set-up on the largest size relative to the smallest, in the words of the verdicts.

    The set-up with the most series comes first.
    """
    if not study.panels:
        return [state(TEMPLATES, "one size", axis=study.axis)]
    noun = study.axis.removesuffix("s")
    return [found for group in study.groups() for found in _state_series_growth(group, noun)]


def _state_series_growth(group: Sequence[Panel], noun: str) -> Iterator[ReportFinding]:
    """One finding for all series with the same smallest and largest size."""
    ends: dict[tuple[int, int], list[Panel]] = {}
    for panel in group:
        growth = panel.curve.growth
        ends.setdefault((int(growth.label_b), int(growth.label_a)), []).append(panel)
    for (few, many), panels in ends.items():
        sizes = {"smaller": spell_number(few), "larger": f"{spell_number(many)} {choose_noun_form(many, noun)}"}
        equal = [panel for panel in panels if panel.curve.growth.verdict == "equivalent"]
        decided = [panel for panel in panels if panel not in equal and _is_clear(panel.curve.growth)]
        open_ = [panel for panel in panels if panel not in equal and panel not in decided]
        clauses = [_describe_decided_sizes(decided, sizes)] if decided else []
        clauses += [_describe_equal_sizes(equal)] if equal else []
        if open_:
            places = join_words([_fill_growth("growth: open place", panel).strip() for panel in open_])
            kind = "growth: others open" if decided or equal else "growth: open"
            clauses.append(TEMPLATES[kind].format(places=places, **sizes))
        clauses += [words for panel in panels if (words := steady_clause(panel, named=len(panels) > 1))]
        compared = [_name_growth(panel, noun) for panel in panels]
        yield state(TEMPLATES, "growth", compared, operation=group[0].title, clauses="; ".join(clauses))


def _name_growth(panel: Panel, noun: str) -> Comparison:
    """The growth of a series, both sizes named with their unit and the series."""
    growth = panel.curve.growth
    few, many = (pluralize(int(size), noun) for size in (growth.label_b, growth.label_a))
    return replace(growth, label_a=", ".join(filter(None, (panel.title, panel.line, many))), label_b=few)


def _fill_growth(kind: str, panel: Panel, **words: str) -> str:
    """A part of the sentence on growth, filled with the numbers of a series."""
    growth = panel.curve.growth
    where, interval = _format_line_suffix(panel), format_ratio_interval(growth)
    return TEMPLATES[kind].format(where=where, ratio=format_ratio(growth), interval=interval, **words)


def _is_clear(comparison: Comparison) -> bool:
    """Whether a change is decided and the interval that a reader sees beside it excludes 1."""
    ratio = comparison.deciding
    return comparison.verdict in ("faster", "slower") and not (ratio.exists and ratio.low <= 1 <= ratio.high)


def steady_clause(panel: Panel, *, named: bool = True) -> str:
    """Whether the finding on whole runs holds for their steady parts; empty if there is no start-up to leave out."""
    if panel.steady is None:
        return ""
    where = _format_line_suffix(panel) if named else ""
    if not panel.settled:
        return TEMPLATES["steady: not settled"].format(where=where)
    if not panel.cut_s:
        return ""
    whole, steady = panel.curve.growth, panel.steady
    clear = _is_clear(steady) or steady.verdict == "equivalent"
    agrees = steady.verdict == whole.verdict and clear == (_is_clear(whole) or whole.verdict == "equivalent")
    if agrees:
        kind = "holds" if clear else "open too"
    elif not clear:
        kind = "open"
    else:
        kind = "same" if steady.verdict == "equivalent" else "differs"
    return TEMPLATES[f"steady: {kind}"].format(
        cut=TEMPLATES["steady: cut"].format(seconds=panel.cut_s, where=where),
        ratio=format_ratio(steady),
        interval=format_ratio_interval(steady),
        verdict=steady.verdict,
    )


def _describe_decided_sizes(found: Sequence[Panel], sizes: Mapping[str, str]) -> str:
    """Sizes that differ: "four workers do 3.1 times the work of one (2.8 to 3.4) with 64 threads"."""
    first, *others = found
    only = "only " if first.curve.growth.verdict == "slower" else ""
    start = _fill_growth("growth: decided", first, only=only, **sizes)
    return join_words([start, *(_fill_growth("growth: decided with others", panel) for panel in others)])


def _describe_equal_sizes(found: Sequence[Panel]) -> str:
    places = [
        TEMPLATES["growth: equal place"].format(
            where=_format_line_suffix(p).strip() or "throughout", interval=format_ratio_interval(p.curve.growth)
        )
        for p in found
    ]
    margin = format_percent(found[0].curve.growth.margin)
    return TEMPLATES["growth: equal"].format(margin=margin, places=join_words(places))


def _format_line_suffix(panel: Panel) -> str:
    return f" with {panel.line}" if panel.line else ""


def state_models(study: ScalingPanels) -> list[ReportFinding]:
    """One finding per operation on the models that its series support, reject, or are too short for."""
    stated = []
    for operation in study.operations():
        found: dict[str, list[str]] = {}
        for panel in study.panels:
            if panel.operation == operation and (words := panel.curve.models_sentence()):
                found.setdefault(replace_model_names(words), []).append(panel.series)
        each = [
            TEMPLATES["models: each"].format(series=join_words(series), words=words) for words, series in found.items()
        ]
        if each:
            stated.append(state(TEMPLATES, "models", operation=operation, axis=study.axis, findings="; ".join(each)))
    return stated


def _state_highest_throughput(runs: pl.DataFrame) -> list[ReportFinding]:
    """The configuration with the highest mean of each operation, over all runs that were analysed."""
    known = ["operation", "resource", *(name for name in CONFIGURATION if name in runs.columns)]
    means = runs.drop_nulls(["operation", METRIC]).group_by(*dict.fromkeys(known), maintain_order=True)
    found = means.agg(pl.col(METRIC).mean().alias("mean"), pl.len().alias("n")).sort("mean", descending=True)
    best = found.group_by("operation", maintain_order=True).first().sort("operation").head(IN_OPENING)
    stated = [(row, _describe_row(row, runs)) for row in best.iter_rows(named=True)]
    places = [
        TEMPLATES["highest: each"].format(
            mean=format_number(row["mean"]), operation=row["operation"], where=where, runs=pluralize(row["n"], "run")
        )
        for row, where in stated
    ]
    numbers = [FindingNumber(f"{row['operation']}, {where}", estimate=row["mean"], n=row["n"]) for row, where in stated]
    return [state(TEMPLATES, "highest", numbers, places=join_words(places))] if places else []


def _describe_row(row: dict[str, object], runs: pl.DataFrame) -> str:
    """The resource of a configuration, with its threads if the resource was measured with several numbers of them."""
    numbers = runs.filter(resource=row["resource"], operation=row["operation"])["threads"].n_unique()
    threads = row.get("threads")
    if numbers > 1 and isinstance(threads, int):
        return f"{row['resource']}, {pluralize(threads, 'thread')}"
    return str(row["resource"])


def write_hardware_sentence(selection: Selection) -> list[str]:
    """The hardware of the runs in one sentence; none if no description states it."""
    if not selection.hardware:
        return []
    machines, *rests = zip(*(text.partition("; ")[::2] for text in selection.hardware), strict=True)
    if len(set(machines)) > 1 or not all(rests[0]):
        return [TEMPLATES["machines"].format(machines="; and on ".join(selection.hardware))]
    return [TEMPLATES["machines"].format(machines=f"{machines[0]}: {'; or '.join(rests[0])}")]


def write_scalability_warnings(selection: Selection, studies: Sequence[ScalingPanels]) -> list[str]:
    """Caveats for the figures: hardware, set-ups that change along an axis, few runs."""
    notes = write_hardware_sentence(selection)
    for study in studies:
        inside = selection.runs.join(study.runs.select("run_id", "resource"), on=["run_id", "resource"], how="semi")
        notes += write_axis_caveats(inside, study.axis, ["threads" if study.axis == "workers" else "workers"])
    few = [study.means.filter(pl.col("n") < 3).select("mean", "low", "high") for study in studies]
    return list(dict.fromkeys([*notes, *_write_few_runs(pl.concat(few))] if few else notes))


def _write_few_runs(points: pl.DataFrame) -> list[str]:
    """What the intervals of means of fewer than 3 runs say: how many are absent, and how wide the widest is."""
    if points.is_empty():
        return []
    known = points.filter(pl.col("low").is_finite(), pl.col("high").is_finite(), pl.col("mean") > 0)
    said = []
    if without := points.height - known.height:
        have = "has" if without == 1 else "have"
        said.append(TEMPLATES["few runs: without"].format(number=spell_number(without), have=have))
    if known.height:
        ends = known.select(pl.col("low", "high") / pl.col("mean"))
        low, high = ends.sort(pl.col("high") - pl.col("low")).row(-1)
        said.append(TEMPLATES["few runs: widest"].format(low=format_number(low), high=format_number(high)))
    rest = "rests" if points.height == 1 else "rest"
    points_text = pluralize(points.height, "point")
    return [TEMPLATES["few runs"].format(points=points_text, rest=rest, intervals="; ".join(said))]


def write_axis_caveats(runs: pl.DataFrame, along: str, others: Sequence[str] = ()) -> list[str]:
    """Sentences on changes along a series besides its axis: the node that clients connect to.

    Args:
        runs: runs that belong to series, with `entry` and the columns of the set-up.
        along: the series' axis.
        others: further columns in which series differ.
    """
    keys = ["family", *others]
    known = runs.drop_nulls("entry").group_by(*keys, along).agg(pl.col("entry").unique().sort().str.join(" or the "))
    changing = known.filter(pl.col("entry").n_unique().over(keys) > 1)
    sentences = []
    for (family,), part in changing.sort(along).group_by("family", maintain_order=True):
        places = part.group_by("entry", maintain_order=True).agg(pl.col(along).unique().sort().cast(pl.String))
        words = [
            TEMPLATES["entry changes: each"].format(sizes=join_words(values), entry=entry)
            for entry, values in places.iter_rows()
        ]
        set_up = format_setup_value("family", family)
        sentences.append(TEMPLATES["entry changes"].format(set_up=set_up, axis=along, places="; ".join(words)))
    return sentences


# Tables of configurations: throughput of each, and by intensity.

_SIZE: Final = ("workers", "threads")
#: The columns that make a workload more or less intense.
_INTENSITY: Final = ("records", "operations")


def configuration_table(selection: Selection, *, level: float = LEVEL, method: MeanMethod = "log-t") -> pl.DataFrame:
    """Mean, standard deviation, n and interval of the throughput of every configuration, one row each.

    A configuration is named by its operation, set-up (`variant`), workers, threads, and other parts of the load that
    differ; `operations` is null if the run was limited by time.

    Args:
        selection: runs with their set-up.
        level: confidence level.
        method: of the intervals of means.
    """
    runs = selection.runs
    named_elsewhere = ("operation", "phase", "workload", *_SIZE, *VARIANT)
    first = ["operation", "variant", *_SIZE]
    others = [name for name in CONFIGURATION if name in runs.columns and name not in named_elsewhere]
    rest = [name for name in others if runs[name].n_unique() > 1]
    means = summarise_runs(runs, METRIC, by=[*first, *rest], level=level, method=method, include_status=AS_SELECTED)
    ordered = means.select(*first, "n", "mean", "low", "high", "sd", *rest).sort(*first, *rest)
    bounded = pl.when(pl.col("operations") < UNTIL_TIME_IS_UP).then("operations")
    return ordered.with_columns(operations=bounded) if "operations" in rest else ordered


def intensity_table(
    selection: Selection, dataset: TableSource, *, level: float = LEVEL, skip_first: int = 0
) -> pl.DataFrame:
    """Throughput, the servers' times and the clients' latency for set-ups that were run at several intensities.

    The intensity is the number of records and of operations; runs that ended before all operations were done, because
    their time was up, have none. The servers' times are those of sampled statements of the steady state within the
    measured windows of the runs, over all places of execution.

    Args:
        selection: runs with their set-up.
        dataset: gives `statements` and `operation_latencies`.
        level: confidence level.
        skip_first: statements at the beginning of each session that the servers' times leave out.

    Returns:
        operation, series, records, operations, n, throughput (with its interval), server_mean_us, server_p99_us,
        client_mean_us; long times in ms. One row per intensity.
    """
    done = pl.col("operations_done") + pl.col("failed_operations").fill_null(0)
    runs = selection.runs.filter((done >= pl.col("operations")).fill_null(value=True))
    keys = [name for name in CONFIGURATION if name in runs.columns and name not in _INTENSITY]
    runs = runs.filter(pl.struct(_INTENSITY).n_unique().over(keys) > 1)
    if runs.is_empty():
        return pl.DataFrame(schema={"operation": pl.String()})
    means = summarise_runs(
        runs, METRIC, by=[*keys, *_INTENSITY], level=level, include_status=AS_SELECTED
    ).with_row_index("cell")
    cells = runs.join(means.select("cell", *keys, *_INTENSITY), on=[*keys, *_INTENSITY], nulls_equal=True)
    where = cells.select("run_id", "resource", "cell")
    found = means.join(_measure_server_latency(selection, dataset, where, skip_first), on="cell", how="left")
    found = found.join(_measure_client_latency(dataset, where), on="cell", how="left").sort(
        "operation", *keys, *_INTENSITY
    )
    series = [load_text(w, t).replace(" and ", ", ") for w, t in found.select(_SIZE).iter_rows()]
    names = [name for name in ("system", "family", "settings") if found[name].n_unique() > 1]
    shown = found.select("operation", *names, pl.Series("series", series), *_INTENSITY, "n")
    times = found.select("server_mean_us", "server_p99_us", "client_mean_us")
    return convert_long_times_to_ms(
        shown.with_columns(format_interval_cells(found, "mean").alias("throughput_ops_s"), *times)
    )


def _measure_server_latency(
    selection: Selection, dataset: TableSource, where: pl.DataFrame, skip_first: int
) -> pl.DataFrame:
    empty = {"cell": where.schema["cell"], "server_mean_us": pl.Float64(), "server_p99_us": pl.Float64()}
    try:
        selected = select_statements(selection, dataset, skip_first=skip_first)
        placed = selected.steady.join(where, on=["run_id", "resource"])
    except InsufficientDataError:
        placed = pl.DataFrame()
    if placed.is_empty():
        return pl.DataFrame(schema=empty)
    profile = coarse_profile(placed, by=["cell"], quantities=["T"])
    return profile.select("cell", server_mean_us="mean_us", server_p99_us="p99_us")


def _measure_client_latency(dataset: TableSource, where: pl.DataFrame) -> pl.DataFrame:
    """Mean latency of the main clients over all operations."""
    latencies = convert_to_polars(dataset.table("operation_latencies"))
    main = latencies.filter(is_main_operation())
    placed = main.join(where, on=["run_id", "resource"]).drop_nulls("mean_us")
    return placed.group_by("cell").agg(MEAN_LATENCY_US.alias("client_mean_us"))


# The report: everything that its page shows, by one call.


@dataclass(frozen=True)
class ScalabilityReport:
    """What the page of scalability shows.

    Attributes:
        selection: the runs that enter.
        workers: the study along the number of workers.
        threads: the study along the number of threads.
        latency: latency against load.
        throttling: control groups whose CPU time the kernel limited, over time.
        intensity: throughput and times by records and operations.
        configurations: the mean throughput of every configuration.
        precision: runs that were made, and runs that would be needed.
        costs: throughput per vCPU, and its price.
    """

    selection: Selection
    workers: ScalingPanels
    threads: ScalingPanels
    latency: pl.DataFrame
    throttling: pl.DataFrame
    intensity: pl.DataFrame
    configurations: pl.DataFrame
    precision: pl.DataFrame
    costs: pl.DataFrame

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return state_scalability(self.selection, [self.workers, self.threads])

    @property
    def warnings(self) -> list[str]:
        """Caveats of all numbers of the page."""
        return [*self.selection.notes, *write_scalability_warnings(self.selection, [self.workers, self.threads])]

    @property
    def throttling_warnings(self) -> list[str]:
        """The effect of a limit that the kernel set on the servers' CPU time."""
        return write_throttling_warnings(self.throttling)

    def further_growth(self, axis: Axis) -> list[ReportFinding]:
        """The growth along an axis of the operations that the findings leave out."""
        return state_growth(self.workers if axis == "workers" else self.threads)[IN_OPENING:]

    def models(self, axis: Axis) -> list[ReportFinding]:
        """The models that the series along an axis support."""
        return state_models(self.workers if axis == "workers" else self.threads)

    def outside_series(self) -> pl.DataFrame:
        """Configurations in no series."""
        return select_outside_series(self.selection, [self.workers, self.threads])

    def plot_latency(self, metric: str) -> list[go.Figure]:
        """Latency against load, a figure for each operation."""
        return [
            plot_latency_load(rows, metric=metric, title=f"{operation}: latency against load")
            for (operation,), rows in self.latency.group_by("operation", maintain_order=True)
        ]


def study_scalability(
    dataset: TableSource,
    question: Question,
    *,
    base_workers: int = 0,
    base_threads: int = 0,
    metric: str = "p99_us",
    interval: MeanMethod = "log-t",
    price_per_node_hour: float = 0.0,
    currency: str = "USD",
) -> ScalabilityReport:
    """Study how throughput scales with workers and threads, in every way that the page of scalability shows.

    Args:
        dataset: a dataset, or another source of its tables.
        question: the runs that enter, level and margin.
        base_workers: number of workers that speedup refers to; 0: the smallest.
        base_threads: number of threads that speedup refers to; 0: the smallest.
        metric: latency that is shown against load.
        interval: method of the intervals of means.
        price_per_node_hour: price of a node per hour; 0: not known.
        currency: unit of the price.

    Raises:
        UnknownNameError: a name of the question, or a base, is unknown.
        InsufficientDataError: no run enters.

    Example:
        >>> import citus_analysis as ca
        >>> found = study_scalability(ca.open_dataset("dataset"), ca.runs.Question(phase="load"))  # doctest: +SKIP
        >>> found.workers.table("speedup")  # doctest: +SKIP
    """
    selection, level = select_asked_runs(dataset, question), question.level
    series = convert_to_polars(dataset.table("client_series"))
    panels = partial(build_scaling_panels, selection, question=question, method=interval, series=series)
    latencies = convert_to_polars(dataset.table("operation_latencies"))
    known = selection.runs.drop_nulls("operation")
    places = ["resource", "set_up", "operation", "workers", "threads", "records"]
    nodes = convert_to_polars(dataset.table("nodes"))
    costs = configuration_costs(known, nodes, price_per_node_hour=price_per_node_hour, currency=currency, level=level)
    return ScalabilityReport(
        selection,
        panels(axis="workers", base=base_workers),
        panels(axis="threads", base=base_threads),
        estimate_latency_by_load(selection, latencies, metric, level=level),
        select_throttling_over_time(convert_to_polars(dataset.table("throttle_samples")), selection.runs),
        intensity_table(selection, dataset, level=level),
        configuration_table(selection, level=level, method=interval),
        run_precision(known, places, series=series, level=level),
        costs,
    )
