"""Figures of where a statement's time goes: stacked means, and distributions."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from citus_analysis.core.frames import Frame
from citus_analysis.plots._columns import with_columns_of
from citus_analysis.plots.theme import PART_COLOURS, TEMPLATE, groups, new_figure, style_of, text
from citus_analysis.units import US_PER_MS

__all__ = ["plot_distribution", "plot_histograms", "plot_spans"]

#: Quantity -> its meaning, which has a colour; stacked in this order, they add up to T.
_STACK: Final = {"P": "parent", "C": "child", "L": "between", "T": "local"}
#: Points of a distribution's line; more would only make the file larger.
_POINTS: Final = 201


def plot_spans(profile: Frame, *, most: int = 32, title: str = "Mean time of a statement") -> go.Figure:
    """Stacked means: what a statement's time consists of, one bar per group.

    Args:
        profile: columns `name` (of the bar), `quantity` (`P`, `C`, `L`; `T` for local executions), `mean_us`.
        most: number of bars; if there are more, the title says so.
        title: what is shown, in words.
    """
    needed = with_columns_of(profile, "profile", "name", "quantity", "mean_us")
    frame = needed.with_columns(pl.col("quantity").cast(pl.String))
    every = frame["name"].unique(maintain_order=True).to_list()
    names = every[:most]
    frame = frame.filter(pl.col("name").is_in(names))
    cut = f" ({most} of {len(every)})" if len(every) > most else ""
    figure = new_figure(f"{title}{cut}", height=150 + 28 * len(names))
    for quantity, words in _STACK.items():
        part = frame.filter(pl.col("quantity") == quantity)
        if part.height:
            figure.add_bar(
                y=[names.index(name) for name in part["name"]],
                x=(part["mean_us"] / US_PER_MS).to_list(),
                orientation="h",
                name=f"{words} ({quantity})",
                marker={"color": PART_COLOURS[words]},
                hovertemplate="%{x:,.3~r} ms<extra>%{fullData.name}</extra>",
            )
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[text(n) for n in names], autorange="reversed", showgrid=False
    )
    return figure.update_xaxes(title_text="mean time [ms]", rangemode="tozero").update_layout(barmode="stack")


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
            x=np.round(np.quantile(part[column].to_numpy(), shares) / US_PER_MS, 4).tolist(),
            y=np.round(100 * shares, 2).tolist(),
            mode="lines",
            name=f"{name} (n = {part.height:,})",
            line={"color": colour, "dash": dash, "width": 2},
            hovertemplate="%{y:.1f} % take at most %{x:,.3~r} ms<extra>%{fullData.name}</extra>",
        )
    for percent in (50, 95, 99):
        figure.add_hline(y=percent, line={"color": "#9aa5b1", "dash": "dot", "width": 1})
    ticks = [0, 25, 50, 75, 95, 99]
    figure.update_yaxes(title_text="statements that took at most this [%]", tickvals=ticks, range=[0, 101])
    return figure.update_xaxes(
        title_text="time [ms]", type="log", dtick=1, exponentformat="none", separatethousands=True
    )


def plot_histograms(histograms: Frame, *, series: str = "series", title: str = "") -> go.Figure:
    """Histograms below each other on one axis of time, each with how many statements lie beyond it.

    Args:
        histograms: result of :func:`citus_analysis.spans.time_histogram`.
        series: column with the names of the histograms.
        title: what is shown, in words.
    """
    columns = (series, "low_ms", "high_ms", "share_percent", "n", "beyond")
    frame = with_columns_of(histograms, "histograms", *columns)
    parts = groups(frame, series)
    figure = make_subplots(
        rows=max(1, len(parts)),
        shared_xaxes=True,
        vertical_spacing=0.28 / max(1, len(parts)),
        subplot_titles=[_histogram_title(name, part) for name, part in parts],
        figure=new_figure(title or "Distribution of statement times", height=110 + 105 * max(1, len(parts))),
    )
    for row, (name, part) in enumerate(parts, start=1):
        figure.add_bar(
            x=((part["low_ms"] + part["high_ms"]) / 2).round(6).to_list(),
            y=part["share_percent"].round(4).to_list(),
            width=(part["high_ms"] - part["low_ms"]).round(6).to_list(),
            name=name,
            marker={"color": style_of(0)[0], "line": {"width": 0}},
            showlegend=False,
            hovertemplate="around %{x:,.3~r} ms: %{y:.2f} % of the statements<extra>%{fullData.name}</extra>",
            row=row,
            col=1,
        )
    figure.update_annotations(x=0, xanchor="left", font={"size": 12})
    figure.update_layout(template=TEMPLATE, bargap=0, margin={"t": 34})
    figure.update_xaxes(title_text="time [ms]", row=max(1, len(parts)), col=1)
    return figure.update_yaxes(title_text="%", rangemode="tozero", nticks=4)


def _histogram_title(name: str, part: pl.DataFrame) -> str:
    row = part.row(0, named=True)
    beyond = f"; {100 * row['beyond'] / row['n']:.1f} % beyond" if row["beyond"] else ""
    return f"{name} (n = {row['n']:,}{beyond})"
