"""Figures of where a statement's time goes: stacked means, and distributions."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots._columns import with_columns_of
from citus_analysis.plots.theme import COLOURS, groups, new_figure, style_of, text

__all__ = ["plot_distribution", "plot_spans"]

#: Quantity -> its meaning and its colour; stacked in this order, they add up to T.
_STACK: Final = {
    "P": ("parent (P)", COLOURS[0]),
    "C": ("child (C)", COLOURS[1]),
    "L": ("between (L)", COLOURS[2]),
    "T": ("local (T)", COLOURS[4]),
}
#: Points of a distribution's line; more would only make the file larger.
_POINTS: Final = 400


def plot_spans(profile: Frame, *, title: str = "Mean time of a statement") -> go.Figure:
    """Stacked means: what a statement's time consists of, one bar per group.

    Args:
        profile: columns `name` (of the bar), `quantity` (`P`, `C`, `L`; `T` for local executions), `mean_us`.
        title: what is shown, in words.
    """
    needed = with_columns_of(profile, "profile", "name", "quantity", "mean_us")
    frame = needed.with_columns(pl.col("quantity").cast(pl.String))
    figure = new_figure(title, height=170 + 34 * frame["name"].n_unique())
    names = frame["name"].unique(maintain_order=True).to_list()
    for quantity, (words, colour) in _STACK.items():
        part = frame.filter(pl.col("quantity") == quantity)
        if part.height:
            figure.add_bar(
                y=[names.index(name) for name in part["name"]],
                x=part["mean_us"].to_numpy(),
                orientation="h",
                name=words,
                marker={"color": colour},
                hovertemplate="%{x:,.0f} µs<extra>%{fullData.name}</extra>",
            )
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[text(n) for n in names], autorange="reversed", showgrid=False
    )
    return figure.update_xaxes(title_text="mean time [µs]", rangemode="tozero").update_layout(barmode="stack")


def plot_distribution(times: Frame, *, column: str = "total_us", title: str = "") -> go.Figure:
    """Distribution of times per series: the share of statements that took at most x.

    Args:
        times: columns `series` and `column`; one row per statement.
        column: the time, in microseconds.
        title: what is shown, in words.
    """
    frame = with_columns_of(times, "times", "series", column).drop_nulls(column)
    figure = new_figure(title or "Distribution of statement times")
    shares = np.linspace(0, 1, _POINTS)
    for number, (name, part) in enumerate(groups(frame, "series")):
        colour, _, dash = style_of(number)
        figure.add_scatter(
            x=np.quantile(part[column].to_numpy(), shares),
            y=100 * shares,
            mode="lines",
            name=f"{name} (n = {part.height:,})",
            line={"color": colour, "dash": dash, "width": 2},
            hovertemplate="%{y:.1f} % take at most %{x:,.0f} µs<extra>%{fullData.name}</extra>",
        )
    for percent in (50, 95, 99):
        figure.add_hline(y=percent, line={"color": "#9aa5b1", "dash": "dot", "width": 1})
    ticks = [0, 25, 50, 75, 95, 99]
    figure.update_yaxes(title_text="statements that took at most this [%]", tickvals=ticks, range=[0, 101])
    return figure.update_xaxes(
        title_text="time [µs]", type="log", dtick=1, exponentformat="none", separatethousands=True
    )
