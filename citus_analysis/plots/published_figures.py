"""Figures of published results, with intervals and models computed from their numbers."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go

from citus_analysis.core.frames import Frame
from citus_analysis.defaults import METRIC
from citus_analysis.plots.theme import (
    GREY,
    add_band,
    add_points,
    assign_colours,
    convert_with_columns,
    error_bars,
    fade,
    from_zero,
    get_style,
    groups,
    interval_words,
    new_figure,
    text,
)
from citus_analysis.scaling.fitting import ScalingFit
from citus_analysis.units import label

_POINTS: Final = 120
#: Two intervals of one point are drawn side by side: shift on the logarithmic axis.
_APART: Final = 1.035


#: Height of a row, and of the rest of the figure, in pixels.
_ROW, _AROUND = 21, 110


def plot_measured_rates(rates: Frame, *, title: str = "") -> go.Figure:
    """Published throughputs, one row each, labelled with workload and size; systems differ in colour and mark.

    Args:
        rates: result of :func:`citus_analysis.published.select_measured_rates`.
        title: title of the figure.
    """
    frame = convert_with_columns(rates, "rates", "system", "source", "table", "label", "value").reverse()
    places = frame.with_row_index("place")
    figure = new_figure(title or "published throughput", height=_AROUND + _ROW * max(1, frame.height))
    colours = assign_colours(places["system"].unique(maintain_order=True).to_list())
    for number, (system, part) in enumerate(groups(places, "system")):
        symbol = get_style(number)[1]
        marker = {"color": colours[part["system"][0]], "symbol": symbol, "size": 9}
        origins = [text(f"{source}, {table}") for source, table in part.select("source", "table").iter_rows()]
        x, y, said = part["value"].to_numpy(), part["place"].to_numpy(), "%{x:,.0f} operations/s<br>%{text}"
        add_points(figure, x, y, system, "markers", said, marker=marker, text=origins)
    names = [text(name) for name in frame["label"]]
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.7, len(names) - 0.3])
    values = frame["value"].log10().to_list()
    # MemoryBudget at both ends, so that the marks and the labels of the last powers of ten are not cut.
    edges = [min(values) - 0.15, max(values) + 0.25] if values else None
    figure.update_xaxes(title_text=text(label(METRIC)), type="log", dtick=1, range=edges)
    return figure.update_layout(legend_traceorder="reversed", margin={"l": 8, "r": 48, "t": 12, "b": 8})


def plot_stated_intervals(summaries: Frame, *, x: str = "workers", title: str = "") -> go.Figure:
    """Published means with the interval as stated and with Student's t interval, side by side.

    Args:
        summaries: result of :func:`citus_analysis.published.summarise_published_rows`.
        x: the column of sizes.
        title: title of the figure.
    """
    frame = convert_with_columns(summaries, "summaries", x, "mean", "n", "stated_low", "stated_high", "low", "high")
    figure = new_figure(title or f"{label(METRIC)} by {x}", x=x, y=METRIC)
    sizes = frame[x].to_numpy()
    kinds = (("as stated", "stated_low", "stated_high", 1 / _APART), ("Student's t", "low", "high", _APART))
    for number, (name, low, high, shift) in enumerate(kinds):
        colour, symbol, _ = get_style(number)
        ends = [f"{interval_words(a, b)}, n = {n}" for a, b, n in frame.select(low, high, "n").iter_rows()]
        shown = {"error_y": error_bars(frame, "mean", low, high, width=5), "customdata": ends}
        shown["marker"] = {"color": colour, "symbol": symbol, "size": 8}
        y, said = frame["mean"].to_numpy(), "%{y:,.0f} %{customdata}"
        add_points(figure, sizes * shift, y, text(name), "markers", said, **shown)
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=[f"{size:g}" for size in sizes], minor={"ticks": ""})
    return from_zero(figure, frame["mean"], frame["stated_high"], reach=frame["high"])


def plot_fits(
    summaries: Frame,
    fit: ScalingFit,
    *,
    x: str = "workers",
    metric: str = METRIC,
    title: str = "",
    points: str = "published mean",
) -> go.Figure:
    """Means with their intervals, the fitted curves, and a band unless every model is rejected.

    The band is that of the model which the runs decide for, or else it spans the bands of all models that they do not
    reject (:meth:`citus_analysis.scaling.ScalingFit.band`). A rejected model has no band.

    Args:
        summaries: result of :func:`citus_analysis.published.summarise_published_rows`.
        fit: fits over the same sizes.
        x: the column of sizes.
        metric: name of the quantity; its suffix gives the unit.
        title: title of the figure.
        points: name of the means in the legend.
    """
    frame = convert_with_columns(summaries, "summaries", x, "mean", "low", "high")
    figure = new_figure(title or f"models of {label(metric)} by {x}", x=x, y=metric)
    mean, sizes = frame["mean"].to_numpy(), frame[x].to_numpy()
    grid = np.linspace(sizes.min() / 2, sizes.max() * 1.5, _POINTS)
    if fit.candidates:
        band = fit.band(grid)
        add_band(figure, grid, band.high, band.low, fade(get_style(0)[0]))
    foremost = fit.decided or next((name for name in ("usl", *fit.candidates) if name in fit.candidates), None)
    ordered = sorted(fit.fits.values(), key=lambda one: one.model != foremost)
    for number, one in enumerate(ordered):
        colour, _, _ = get_style(number)
        dash = "solid" if one.model == foremost else ("dash", "dot", "dashdot")[number % 3]
        name = text(model_name(one.model)) + (", rejected" if one.model in fit.rejected else "")
        line = {"color": colour, "dash": dash, "width": 2}
        add_points(figure, grid, one.predict(grid), name, "lines", "%{x:.0f}: %{y:,.0f}", line=line)
    shown = {"error_y": error_bars(frame, "mean", width=4), "marker": {"color": GREY, "size": 8}}
    add_points(figure, sizes, mean, text(points), "markers", "%{x:g}: %{y:,.0f}", **shown)
    return figure.update_yaxes(rangemode="tozero").update_xaxes(rangemode="tozero")


def model_name(model: str) -> str:
    """The name of a scalability model for readers.

    Example:
        >>> model_name("usl"), model_name("amdahl")
        ('USL', 'Amdahl')
    """
    return "USL" if model == "usl" else model.capitalize()
