"""The figures and tables of the scalability report: a scaling study laid out by operation and series.

The curves with their points, comparisons and models are those of :func:`citus_analysis.scaling.scale_runs`, which the
command `scale` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal

import plotly.graph_objects as go
import polars as pl

from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import UnknownNameError
from citus_analysis.plots import plot_fits, plot_series
from citus_analysis.plots.scalability_figures import plot_relative
from citus_analysis.runs.naming import series_names
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.run_status import AS_SELECTED
from citus_analysis.runs.setups import CONFIGURATION
from citus_analysis.scaling import scale_runs
from citus_analysis.scaling.curves import ScalingCurve, ScalingStudy
from citus_analysis.stats import Comparison, summarise_runs
from citus_analysis.stats.estimate.intervals import MeanMethod
from citus_analysis.stats.start_up import steady_runs
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.natural_order import natural_key
from citus_analysis.texts.number_text import MISSING, with_interval

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
        """Per operation, series and value: seconds that are cut, and throughput of whole runs and of steady parts."""
        if self.steady.is_empty():
            return pl.DataFrame()
        joined = self.runs.join(self.steady, on=["resource", "run_id"], maintain_order="left")
        return joined.group_by(*_PLACE, self.axis, maintain_order=True).agg(
            pl.len().alias("n"),
            pl.col("cut_s").max(),
            pl.col("settled").all(),
            whole_ops_s=pl.col(METRIC).mean(),
            steady_ops_s=pl.col("steady_ops_s").mean(),
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
        return counted(self.base, self.axis.removesuffix("s"))

    @property
    def runs(self) -> pl.DataFrame:
        """Single runs of the series."""
        return _runs(self.panels, self.axis).select(*_PLACE, self.axis, METRIC, "iteration", "run_id", "resource")

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
        rows = [row for panel in self.panels for row in _relative_rows(panel, self.axis)]
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
        return _table(self, quantity)

    def means_of(self, panel: Panel) -> pl.DataFrame:
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
    check_base(selection, axis, base)
    # A single server is another system, not a cluster of 0 workers.
    runs = selection.runs.drop_nulls("operation").filter(pl.col(axis) > 0)
    study = ScalingStudy(axis, METRIC, ())
    if base in (0, *runs[axis]) and not runs.is_empty():
        study = scale_runs(runs, axis, METRIC, base or None, margin=margin, level=level, allow=AS_SELECTED)
    panels = tuple(_panels(study, axis))
    steady = pl.DataFrame()
    if series is not None and panels:
        steady = steady_runs(runs, series, ["operation", *(name for name in CONFIGURATION if name in runs.columns)])
        panels = _with_steady(
            panels, runs.join(steady, on=["resource", "run_id"], maintain_order="left"), study, base, level
        )
    usual = base if base and panels else _usual_base(panels)
    return ScalingPanels(axis, study, usual, panels, _means(_runs(panels, axis), axis, level, method), steady)


def _with_steady(
    panels: tuple[Panel, ...], runs: pl.DataFrame, study: ScalingStudy, base: int, level: float
) -> tuple[Panel, ...]:
    """The panels with their growth by the steady parts of the runs, by the same comparisons as that of whole runs."""
    if runs.is_empty():
        return panels
    growth = panels[0].curve.growth
    parts = runs.with_columns(pl.col("steady_ops_s").alias(METRIC))
    found = scale_runs(
        parts, study.x, METRIC, base or None, models=(), margin=growth.margin, level=level, allow=AS_SELECTED
    )
    # By their runs: a stratum names columns that vary, and fewer vary where some runs have no steady part.
    same = {_runs_of(curve): curve for curve in found}
    return tuple(_steady_panel(panel, same.get(_runs_of(panel.curve))) for panel in panels)


def _runs_of(curve: ScalingCurve) -> frozenset[tuple[object, ...]]:
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


def outside_series(selection: Selection, shown: Sequence[ScalingPanels]) -> pl.DataFrame:
    """Configurations in no series, because no other configuration has the same set-up."""
    inside = pl.concat([panels.runs.select("run_id", "resource") for panels in shown])
    return (
        selection.runs.join(inside, on=["run_id", "resource"], how="anti")
        .group_by("resource", "operation", "limit", "threads", "workers", "records", maintain_order=True)
        .agg(pl.len().alias("runs"), pl.col(METRIC).mean())
        .sort("resource", "operation", "threads")
    )


def _panels(study: ScalingStudy, axis: Axis) -> Iterator[Panel]:
    """Names are made per operation, without the parts that the panel's title states (operation, one size)."""
    other = _OTHER[axis]
    if not study.curves:
        return
    keys = [*(name for name in study.curves[0].stratum if name != other), other]
    firsts = pl.concat([_one_row(curve, keys) for curve in study.curves]).with_row_index("curve")
    for (operation,), rows in firsts.sort("operation", other).group_by("operation", maintain_order=True):
        names = series_names(rows.select(*keys), ignore=["workload"], always=[other])
        apart = [name for name in keys if name not in ("workload", other) and rows[name].n_unique() > 1]
        set_ups = series_names(rows.select(*keys), ignore=["workload", other]) if apart else [""] * rows.height
        lines = series_names(rows.select(other), always=[other])
        order = zip(rows[other].fill_null(-1), map(natural_key, names), strict=True)
        for _, number, name, set_up, line in sorted(zip(order, rows["curve"], names, set_ups, lines, strict=True)):
            yield Panel(str(operation), name, study.curves[number], set_up, "" if line == UNNAMED else line)


def _one_row(curve: ScalingCurve, keys: Sequence[str]) -> pl.DataFrame:
    """The set-up of a curve; the other axis is null if it changes along the curve."""
    row = curve.runs.head(1).select({"operation", *keys})
    changing = [name for name in keys if curve.runs[name].n_unique() > 1]
    return row.with_columns(pl.lit(None, row.schema[name]).alias(name) for name in changing)


def _usual_base(panels: Sequence[Panel]) -> int:
    bases = pl.Series([int(one.label_b) for panel in panels for one in panel.curve.comparisons], dtype=pl.Int64)
    return int(bases.mode().sort()[0]) if len(bases) else 0


def _runs(panels: Sequence[Panel], axis: Axis) -> pl.DataFrame:
    if not panels:
        ids = {"iteration": pl.Int32(), "run_id": pl.String(), "resource": pl.String()}
        return pl.DataFrame(schema={**_PLACE, axis: pl.Int32(), METRIC: pl.Float64(), **ids})
    return pl.concat(p.curve.runs.sort(axis).with_columns(**{k: pl.lit(v) for k, v in p.place.items()}) for p in panels)


def _means(runs: pl.DataFrame, axis: Axis, level: float, method: MeanMethod) -> pl.DataFrame:
    if runs.is_empty():
        return pl.DataFrame(schema={**_PLACE, axis: pl.Int32(), **_MEANS})
    means = summarise_runs(runs, METRIC, by=[*_PLACE, axis], level=level, method=method, allow=AS_SELECTED)
    order = runs.select(*_PLACE).unique(maintain_order=True)
    return order.join(means, on=list(_PLACE), how="left", maintain_order="left_right")


def _relative_rows(panel: Panel, axis: Axis) -> Iterator[dict[str, object]]:
    compared = {float(one.label_a): one for one in panel.curve.comparisons}
    for point in panel.curve.points:
        one = compared.get(point.size)
        decision = {"verdict": one.verdict, **one.known_p_values()} if one else {"verdict": "base"}
        yield {**panel.place, axis: int(point.size), **point.record(), **decision, "n": point.throughput.n}


def _columns(quantity: Quantity) -> list[str]:
    """The columns of a quantity and its ends in the tables of the study."""
    return ["mean", "low", "high"] if quantity == "throughput" else [f"{quantity}{end}" for end in _ENDS]


def _group_figure(study: ScalingPanels, group: Sequence[Panel], quantity: Quantity) -> go.Figure:
    title = f"{group[0].title}: {quantity} by {study.axis}"
    order = list(dict.fromkeys(panel.line or panel.series for panel in study.panels))
    if quantity == "throughput":
        means, runs = _of(group, study.means), _of(group, study.runs)
        return plot_series(
            means, runs, x=study.axis, title=title, order=_used(order, means), ideal=study.axis == "workers"
        )
    mean, low, high = _columns(quantity)
    base = int(group[0].curve.growth.label_b)
    ratios = _of(group, study.relative).select("series", study.axis, mean=mean, low=low, high=high)
    return plot_relative(ratios, x=study.axis, quantity=quantity, base=base, title=title, order=_used(order, ratios))


def _used(order: list[str], rows: pl.DataFrame) -> list[str]:
    """Names of lines up to the last one drawn: each keeps its colour, and marks stay close together."""
    drawn = set(rows["series"])
    last = max((place for place, name in enumerate(order) if name in drawn), default=-1)
    return order[: last + 1]


def _of(group: Sequence[Panel], table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a group; series are named by their lines."""
    lines = {panel.series: panel.line or panel.series for panel in group}
    rows = table.filter(pl.col("operation") == group[0].operation, pl.col("series").is_in(list(lines)))
    return rows.with_columns(pl.col("series").replace(lines))


def _model_figures(study: ScalingPanels) -> Iterator[go.Figure]:
    for panel in chain.from_iterable(study.groups()):
        if panel.curve.fits:
            names = ", ".join(part for part in (panel.title, panel.line) if part)
            title = f"{names}: models by {study.axis}"
            yield plot_fits(study.means_of(panel), panel.curve.fits, x=study.axis, title=title, points="mean")


def _table(study: ScalingPanels, quantity: Quantity) -> pl.DataFrame:
    if quantity == "models":
        return study.models.drop("decided")
    source = study.means if quantity == "throughput" else study.relative.filter(pl.col("verdict") != "base")
    noun, cells = study.axis.removesuffix("s"), []
    names = [counted(size, noun) for size in source[study.axis].unique().sort()]
    for panel in chain.from_iterable(study.groups()):
        rows = source.filter(**panel.place).select(study.axis, *_columns(quantity)).iter_rows()
        found = {counted(size, noun): with_interval(*ends) for size, *ends in rows}
        cells.append(panel.place | dict.fromkeys(names, MISSING) | found)
    return pl.DataFrame(cells, schema=dict.fromkeys([*_PLACE, *names], pl.String()))
