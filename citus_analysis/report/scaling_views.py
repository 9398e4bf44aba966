"""Figures and tables of a scaling study for readers: one figure per set-up, one row per series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.plots import plot_fits, plot_relative, plot_series
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import MISSING, with_interval

if TYPE_CHECKING:
    from citus_analysis.report.scalability import Group, Quantity, ScalingPanels

__all__ = ["scaling_figures", "scaling_table"]

#: Quantity -> its columns in the tables of the study.
_COLUMNS: Final = {
    "throughput": ("mean", "low", "high"),
    "speedup": ("speedup", "speedup_low", "speedup_high"),
    "efficiency": ("efficiency", "efficiency_low", "efficiency_high"),
}


def scaling_figures(study: ScalingPanels, quantity: Quantity) -> list[go.Figure]:
    """Figures of a quantity; see :meth:`citus_analysis.report.scalability.ScalingPanels.plot`."""
    if quantity == "models":
        return list(_model_figures(study))
    return [_group_figure(study, group, quantity) for group in study.groups()]


def _group_figure(study: ScalingPanels, group: Group, quantity: Quantity) -> go.Figure:
    title = f"{group.title}: {quantity} by {study.axis}"
    order = list(dict.fromkeys(panel.line or panel.series for panel in study.panels))
    if quantity == "throughput":
        means, runs = _of(group, study.means), _of(group, study.runs)
        return plot_series(means, runs, x=study.axis, title=title, order=_used(order, means))
    rows = _of(group, study.relative)
    mean, low, high = _COLUMNS[quantity]
    base = int(group.panels[0].curve.growth.label_b)
    ratios = rows.select("series", study.axis, mean=mean, low=low, high=high)
    return plot_relative(ratios, x=study.axis, quantity=quantity, base=base, title=title, order=_used(order, ratios))


def _used(order: list[str], rows: pl.DataFrame) -> list[str]:
    """Names of lines up to the last one drawn: each keeps its colour, and marks stay close together."""
    drawn = set(rows["series"])
    last = max((place for place, name in enumerate(order) if name in drawn), default=-1)
    return order[: last + 1]


def _of(group: Group, table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a group; series are named by their lines."""
    lines = {panel.series: panel.line or panel.series for panel in group.panels}
    rows = table.filter(pl.col("operation") == group.operation, pl.col("series").is_in(list(lines)))
    return rows.with_columns(pl.col("series").replace(lines))


def _model_figures(study: ScalingPanels) -> Iterator[go.Figure]:
    for group in study.groups():
        for panel in group.panels:
            if panel.curve.fits:
                title = ", ".join(part for part in (group.title, panel.line) if part)
                means = study.means_of(panel)
                yield plot_fits(
                    means, panel.curve.fits, x=study.axis, title=f"{title}: models by {study.axis}", points="mean"
                )


def scaling_table(study: ScalingPanels, quantity: Quantity) -> pl.DataFrame:
    """A table of a quantity; see :meth:`citus_analysis.report.scalability.ScalingPanels.table`."""
    if quantity == "models":
        return study.models.drop("decided")
    source = study.means if quantity == "throughput" else study.relative.filter(pl.col("verdict") != "base")
    sizes = source[study.axis].unique().sort().to_list()
    cells = []
    for panel in (panel for group in study.groups() for panel in group.panels):
        place = {"operation": panel.operation, "series": panel.series}
        cells.append(place | _cells(source.filter(**place), study.axis, sizes, _COLUMNS[quantity]))
    noun = study.axis.removesuffix("s")
    schema = dict.fromkeys(["operation", "series", *(counted(size, noun) for size in sizes)], pl.String())
    return pl.DataFrame(cells, schema=schema)


def _cells(rows: pl.DataFrame, axis: str, sizes: list[int], columns: tuple[str, str, str]) -> dict[str, str]:
    noun = axis.removesuffix("s")
    found = {size: with_interval(*ends) for size, *ends in rows.select(axis, *columns).iter_rows()}
    return {counted(size, noun): found.get(size, MISSING) for size in sizes}
