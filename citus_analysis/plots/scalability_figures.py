"""Figures of how a metric changes with the number of workers or threads.

Each function draws one panel. The frames have one row per series and value of x, with the columns of
:func:`citus_analysis.stats.summarise_runs` (`mean`, `low`, `high`, `n`) and `series`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.defaults import METRIC
from citus_analysis.core.frames import Frame
from citus_analysis.plots._columns import with_columns_of
from citus_analysis.plots._intervals import error_bars, from_zero, has_interval, interval_words
from citus_analysis.plots.theme import GREY, faded, groups, new_figure, style_of, text
from citus_analysis.texts.counted_words import counted, noun_for
from citus_analysis.units import label

__all__ = ["plot_latency_load", "plot_relative", "plot_series"]

#: From this ratio of largest to smallest value on, an axis of workers or threads is logarithmic.
_LOG_FROM = 8.0
#: Single runs are drawn beside their mean, which would hide them otherwise: spread in per cent of a step.
_SPREAD = 0.018
_MEAN: Final = ("mean", "low", "high")


def plot_series(
    means: Frame,
    runs: Frame | None = None,
    *,
    x: str,
    metric: str = METRIC,
    title: str = "",
    order: Sequence[str] = (),
) -> go.Figure:
    """Means with their intervals as bands along x, one line per series, single runs as points.

    Args:
        means: columns `series`, x, `mean`, `low`, `high`; the ends are null where there is no interval.
        runs: single runs: columns `series`, x, `metric` and, for the hover text, `run_id`; None: no points.
        x: `workers`, `threads` or another numeric column.
        metric: what is shown; its name's suffix gives the unit.
        title: what is shown, in words.
        order: names of all series, so that a series keeps its colour over several panels.

    Example:
        >>> means = pl.DataFrame(
        ...     {"series": ["a", "a"], "workers": [1, 2], "mean": [9.0, 8.0], "low": [8.0, 7.0], "high": [10.0, 9.0]}
        ... )
        >>> [trace.name for trace in plot_series(means, x="workers").data if trace.showlegend]
        ['a']
    """
    frame = with_columns_of(means, "means", "series", x, *_MEAN).sort(x, maintain_order=True)
    singles = None if runs is None else with_columns_of(runs, "runs", "series", x, metric)
    figure = new_figure(title or f"{label(metric)} by {x}", x=x, y=metric)
    names = list(order) or frame["series"].unique(maintain_order=True).to_list()
    for name, part in _in_order(frame, names):
        _add_line(figure, part, x, name, names, metric)
    if singles is not None:
        _add_runs(figure, singles, x, metric, names)
    _x_axis(figure, frame[x])
    return from_zero(figure, frame["mean"], *([] if singles is None else [singles[metric]]), reach=frame["high"])


def plot_relative(
    relative: Frame,
    *,
    x: str,
    quantity: str,
    base: float,
    title: str = "",
    order: Sequence[str] = (),
) -> go.Figure:
    """Speedup or efficiency along x with bands, and the ideal as a grey line.

    Args:
        relative: columns `series`, x, `mean`, `low`, `high`.
        x: `workers` or `threads`.
        quantity: `speedup` (ideal: x / base) or `efficiency` (ideal: 1).
        base: value of x to which everything refers.
        title: what is shown, in words.
        order: names of all series.
    """
    frame = with_columns_of(relative, "relative", "series", x, *_MEAN).sort(x, maintain_order=True)
    figure = new_figure(title or f"{quantity} by {x}", x=x)
    figure.update_yaxes(title_text=f"{quantity}, 1 at {base:g} {text(noun_for(base, x.removesuffix('s')))}")
    values = frame[x].unique().sort().to_numpy()
    ideal = values / base if quantity == "speedup" else np.ones(len(values))
    line = {"color": GREY, "dash": "dot", "width": 1.5}
    figure.add_scatter(x=values, y=ideal, mode="lines", line=line, name="linear" if quantity == "speedup" else "ideal")
    names = list(order) or frame["series"].unique(maintain_order=True).to_list()
    for name, part in _in_order(frame, names):
        _add_line(figure, part, x, name, names, quantity)
    _x_axis(figure, frame[x])
    return from_zero(figure, frame["mean"], pl.Series(ideal), reach=frame["high"])


def plot_latency_load(
    latency: Frame,
    *,
    metric: str = "p99_us",
    title: str = "",
    order: Sequence[str] = (),
) -> go.Figure:
    """Latency against the throughput at which it was measured, one line per series, labelled with the threads.

    Args:
        latency: columns `series`, `threads`, `throughput_ops_s`, `mean`, `low`, `high` (of the latency `metric`).
        metric: latency column the numbers are of.
        title: what is shown, in words.
        order: names of all series.
    """
    needed = ("series", "threads", "throughput_ops_s", *_MEAN)
    frame = with_columns_of(latency, "latency", *needed).sort("threads", maintain_order=True)
    figure = new_figure(title or f"{label(metric)} against load", x="throughput_ops_s")
    figure.update_yaxes(title_text=f"{text(label(metric.removesuffix('_us') + '_latency_us'))}", type="log", dtick=1)
    names = list(order) or frame["series"].unique(maintain_order=True).to_list()
    for name, part in _in_order(frame, names):
        colour, symbol, dash = style_of(names.index(name))
        figure.add_scatter(
            x=part["throughput_ops_s"].to_numpy(),
            y=part["mean"].to_numpy(),
            error_y=error_bars(part, "mean", thickness=1, width=3),
            text=[counted(threads, "thread") for threads in part["threads"]],
            mode="lines+markers",
            name=text(name),
            line={"color": colour, "dash": dash, "width": 1.5},
            marker={"color": colour, "symbol": symbol, "size": 8},
            hovertemplate="%{text}<br>%{x:,.0f} operations/s<br>%{y:,.0f} µs<extra>%{fullData.name}</extra>",
        )
    return figure.update_xaxes(rangemode="tozero")


def _in_order(frame: pl.DataFrame, names: Sequence[str]) -> list[tuple[str, pl.DataFrame]]:
    parts = {str(key[0]): part for key, part in frame.group_by("series", maintain_order=True)}
    return [(name, parts[name]) for name in names if name in parts]


def _add_line(figure: go.Figure, part: pl.DataFrame, x: str, name: str, names: Sequence[str], metric: str) -> None:
    colour, symbol, dash = style_of(names.index(name))
    banded = part.filter(has_interval())
    if banded.height > 1:
        edge = {"color": colour, "width": 0}
        common = {"mode": "lines", "line": edge, "hoverinfo": "skip", "showlegend": False, "legendgroup": text(name)}
        figure.add_scatter(x=banded[x].to_numpy(), y=banded["high"].to_numpy(), **common)
        low = banded["low"].to_numpy()
        figure.add_scatter(x=banded[x].to_numpy(), y=low, fill="tonexty", fillcolor=faded(colour), **common)
    reading = f"%{{x}} {text(x)}<br>{text(label(metric))}: %{{y:,.4~r}} %{{customdata}}"
    figure.add_scatter(
        x=part[x].to_numpy(),
        y=part["mean"].to_numpy(),
        error_y=error_bars(part, "mean", thickness=1) if banded.height == 1 else None,
        mode="lines+markers",
        name=text(name),
        legendgroup=text(name),
        showlegend=True,
        line={"color": colour, "dash": dash, "width": 2},
        marker={"color": colour, "symbol": symbol, "size": 9},
        customdata=[interval_words(low, high) for low, high in part.select("low", "high").iter_rows()],
        hovertemplate=reading + "<extra>%{fullData.name}</extra>",
    )


def _add_runs(figure: go.Figure, runs: pl.DataFrame, x: str, metric: str, names: Sequence[str]) -> None:
    span = _axis_span(runs[x])
    for name, part in groups(runs, "series"):
        index = [text(n) for n in names].index(name)
        colour, _, _ = style_of(index)
        shift = (index - (len(names) - 1) / 2) * _SPREAD
        values = part[x].to_numpy().astype(float)
        moved = values * np.exp(shift * 2) if span is None else values + shift * span
        figure.add_scatter(
            x=moved,
            y=part[metric].to_numpy(),
            mode="markers",
            name=name,
            legendgroup=name,
            showlegend=False,
            marker={"color": "white", "size": 6, "line": {"color": colour, "width": 1.2}},
            text=[text(run) for run in part["run_id"]] if "run_id" in part.columns else None,
            hovertemplate="%{text}<br>%{y:,.4~r}<extra></extra>",
        )


def _axis_span(values: pl.Series) -> float | None:
    """Width of a linear axis; None for a logarithmic one."""
    low, high = float(values.min() or 0), float(values.max() or 0)  # type: ignore[arg-type] # numeric column
    return None if low > 0 and high / low >= _LOG_FROM else max(high - low, 1.0)


def _x_axis(figure: go.Figure, values: pl.Series) -> None:
    ticks = values.unique().sort().to_list()
    figure.update_xaxes(
        type="log" if _axis_span(values) is None else "linear",
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
        minor={"ticks": ""},
    )
