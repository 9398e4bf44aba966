"""Figures of nodes over time: a line for each of a few nodes, median and extremes of many, or a heat map."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots.theme import (
    COLOURS,
    GREY,
    add_band,
    add_points,
    convert_with_columns,
    fade,
    get_style,
    groups,
    in_natural_order,
    new_figure,
    text,
)
from citus_analysis.units import label

#: More lines than this cannot be distinguished.
_MOST_LINES: Final = 6
#: Points of a line, and columns of a heat map; a screen cannot show more.
_MOST_POINTS: Final = 150
_MOST_COLUMNS: Final = 60
#: Checkpoints that are shaded; more would shade the whole figure.
_MOST_SHADES: Final = 80
_CHECKPOINT: Final = "#E69F00"


def plot_nodes(
    samples: Frame,
    *,
    metric: str = "busy_percent",
    series: str = "node",
    checkpoints: Frame | None = None,
    window: tuple[float, float] | None = None,
    title: str = "",
) -> go.Figure:
    """A metric of several nodes over time.

    Up to six nodes have a line each. For more, the figure shows the median and the range over the nodes, and by name
    the nodes with the lowest and the highest mean.

    Args:
        samples: columns `elapsed_s`, `series` and `metric`.
        metric: the column to draw; the axis has the unit of the name's suffix.
        series: column with the names of nodes, or of devices.
        checkpoints: columns `start_s`, `end_s` of times to shade; None: none.
        window: first and last second to draw; None: all.
        title: title of the figure.
    """
    frame = convert_with_columns(samples, "samples", "elapsed_s", series, metric).drop_nulls(metric)
    if window is not None:
        frame = frame.filter(pl.col("elapsed_s").is_between(*window))
    figure = new_figure(title or f"{label(metric)} over time", x="elapsed_s", y=metric, height=340)
    marks = None if checkpoints is None else convert_with_columns(checkpoints, "checkpoints", "start_s", "end_s")
    if marks is not None and marks["end_s"].count():
        first, last = window or (0.0, float(frame["elapsed_s"].to_numpy().max(initial=0.0)))
        _shade(figure, marks.drop_nulls("end_s"), first, last)
    ordered = in_natural_order(_thin(frame, series, metric), series, "elapsed_s")
    if ordered[series].n_unique() <= _MOST_LINES:
        _add_lines(figure, ordered, series, metric)
    else:
        _add_range(figure, ordered, series, metric)
    # Figures of busy time are shown side by side, so all of them have the same axis.
    return figure.update_yaxes(range=[0, 103] if metric == "busy_percent" else None, rangemode="tozero")


def _thin(frame: pl.DataFrame, series: str, metric: str) -> pl.DataFrame:
    """Means over intervals of time, placed at their middle, if there are more points than the figure shows."""
    longest = frame.group_by(series).len()["len"].max() if frame.height else 0
    if not isinstance(longest, int) or longest <= _MOST_POINTS:
        return frame
    return _compute_interval_means(frame, series, metric).select(series, "elapsed_s", metric)


def _compute_interval_means(frame: pl.DataFrame, series: str, metric: str, at_most: int = _MOST_POINTS) -> pl.DataFrame:
    """Means of each series over intervals of time, which are at least as long as the time between its samples.

    Nodes are not sampled at the same moments, so shorter intervals would lack some of them.
    """
    most = min(at_most, max(1, frame.height // frame[series].n_unique()))
    first, last = (float(str(end)) for end in (frame["elapsed_s"].min(), frame["elapsed_s"].max()))
    width = (last - first) / most or 1.0
    interval = ((pl.col("elapsed_s") - first) / width).floor().clip(0, most - 1)
    return (
        frame.group_by(series, interval=interval)
        .agg(pl.col(metric).mean(), n=pl.len())
        .with_columns(elapsed_s=first + (pl.col("interval") + 0.5) * width)
        .sort(series, "interval")
    )


def _add_lines(figure: go.Figure, frame: pl.DataFrame, series: str, metric: str) -> None:
    for number, (name, part) in enumerate(groups(frame, series)):
        colour, _, dash = get_style(number)
        line = {"color": colour, "dash": dash, "width": 1.5}
        _add_line(figure, part["elapsed_s"], part[metric], _name_series(name, series), line)


def _name_series(name: str, series: str) -> str:
    """`node 3` for a node; the name of a machine, and of any other series, as it is."""
    return f"node {name}" if series == "node" and not name.startswith("machine ") else name


def _add_line(figure: go.Figure, x: pl.Series, y: pl.Series, name: str, line: dict[str, object]) -> None:
    add_points(figure, x.round(3).to_list(), y.to_list(), name, "lines", "%{x:.0f} s<br>%{y:,.4~r}", line=line)


def _add_range(figure: go.Figure, frame: pl.DataFrame, series: str, metric: str) -> None:
    """The range over all nodes at each moment, their median, and the nodes with the lowest and the highest mean."""
    value = pl.col(metric)
    at_once = _compute_interval_means(frame, series, metric)
    spread = (
        at_once.group_by("interval")
        .agg(pl.col("elapsed_s").first(), low=value.min(), middle=value.median(), high=value.max())
        .sort("interval")
    )
    x = spread["elapsed_s"].round(3).to_list()
    count = frame[series].n_unique()
    ends, named = (spread["low"].to_list(), spread["high"].to_list()), f"lowest to highest of {count}"
    add_band(figure, x, *ends, fade(GREY, 0.25), name=named)
    _add_line(figure, spread["elapsed_s"], spread["middle"], f"median of {count}", {"color": "#000000", "width": 2})
    means = frame.group_by(series, maintain_order=True).agg(value.mean()).sort(metric, maintain_order=True)
    if means[metric][0] == means[metric][-1]:
        # Samplers on one machine see the same values; naming one node as the highest would mislead.
        return
    for place, name, colour in (("lowest", means[series][0], COLOURS[0]), ("highest", means[series][-1], COLOURS[1])):
        part = at_once.filter(pl.col(series) == name)
        line = {"color": colour, "width": 1.2, "dash": "dot" if place == "lowest" else "dash"}
        _add_line(figure, part["elapsed_s"], part[metric], f"{place} mean: {text(_name_series(name, series))}", line)


def _shade(figure: go.Figure, marks: pl.DataFrame, first: float, last: float) -> None:
    """Shade the times of checkpoints, darker where they overlap; a line marks the end if the beginning is unknown."""
    spans = marks.select(begin=pl.coalesce("start_s", "end_s"), end="end_s").unique().sort("begin", "end")
    spans = spans.filter((pl.col("begin") <= last) & (pl.col("end") >= first))
    if spans.is_empty():
        return
    for start, end in spans.with_columns(pl.col("begin", "end").clip(first, last)).head(_MOST_SHADES).iter_rows():
        line = {"color": _CHECKPOINT, "width": 1 if start == end else 0}
        figure.add_vrect(x0=start, x1=end, fillcolor=fade(_CHECKPOINT, 0.2), line=line, layer="below")
    edge = {"color": _CHECKPOINT, "width": 1}
    square = {"symbol": "square", "size": 12, "color": fade(_CHECKPOINT, 0.4), "line": edge}
    figure.add_scatter(x=[None], y=[None], mode="markers", name="checkpoint under way", marker=square)


def plot_node_heat_map(samples: Frame, *, metric: str = "busy_percent", title: str = "") -> go.Figure:
    """A metric as colour over time and node: legible from 1 to 64 nodes.

    Args:
        samples: columns `elapsed_s`, `series` and `metric`.
        metric: the column to draw; the colour bar has the unit of the name's suffix. Percentages go from 0 to 100.
        title: title of the figure.
    """
    frame = convert_with_columns(samples, "samples", "elapsed_s", "node", metric).drop_nulls(metric)
    names = in_natural_order(frame, "node")["node"].cast(pl.String).unique(maintain_order=True).to_list()
    figure = new_figure(title or f"{label(metric)} over time and nodes", x="elapsed_s", height=150 + 16 * len(names))
    if frame.is_empty():
        return figure
    cells = _compute_interval_means(frame, "node", metric, _MOST_COLUMNS)
    grid = cells.pivot("node", index="elapsed_s", values=metric, aggregate_function="mean").sort("elapsed_s")
    scale = {"zmin": 0, "zmax": 100} if metric.endswith("_percent") else {"zmin": 0}
    figure.add_heatmap(
        x=grid["elapsed_s"].round(2).to_list(),
        y=[text(name) for name in names],
        z=[grid[name].round(3).to_list() for name in names],
        colorscale="Cividis",
        colorbar={"title": {"text": label(metric), "side": "right"}, "thickness": 12},
        hovertemplate=f"node %{{y}}, %{{x:.0f}} s<br>%{{z:,.4~r}}<extra>{text(label(metric))}</extra>",
        **scale,
    )
    return figure.update_yaxes(type="category", autorange="reversed", title_text="node")


def plot_connections(connections: Frame, *, of: str = "client", title: str = "") -> go.Figure:
    """Open connections per node over time.

    Args:
        connections: columns `node`, `elapsed_s` and `of`, as
            :func:`citus_analysis.bottleneck.count_connections_over_time` gives them for one run.
        of: `client` (connections of clients) or `internal` (connections opened by other nodes).
        title: title of the figure.
    """
    words = {"client": "Connections of clients", "internal": "Connections between nodes"}
    return plot_nodes(connections, metric=of, title=title or words.get(of, of)).update_yaxes(title_text="connections")
