"""Figures of the parts of a statement's time: stacked means, distributions, plans and their tasks."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from citus_analysis.core.frames import Frame
from citus_analysis.plans.study import make_worker_name_expr
from citus_analysis.plots.theme import (
    COLOURS,
    PART_COLOURS,
    TEMPLATE,
    add_bars,
    add_points,
    assign_colours,
    convert_with_columns,
    get_style,
    groups,
    name_rows,
    new_figure,
    text,
)
from citus_analysis.units import US_PER_MS

#: Quantity -> its part, which has a colour; stacked in this order, P, C and L add up to T.
_STACK: Final = {"P": "parent", "C": "child", "L": "between", "T": "local"}
#: Points of a distribution's line; more would only make the file larger.
_POINTS: Final = 201
#: Nodes of a plan that are drawn.
_MOST: Final = 40
#: Widths in pixels: one level of a plan's tree, at most all levels, at most levels and names, and about one character.
_INDENT_PX: Final = 14
_LEVELS_PX: Final = 112
_TREE_PX: Final = 330
_CHARACTER_PX: Final = 7
_COLUMNS: Final = (
    *("plan_node", "depth", "kind", "node_type", "relation", "shard_id", "worker_host", "worker_port"),
    *("expected_rows", "given_rows", "time_ms", "self_ms"),
)
_NAMED: Final = ("depth", "kind", "node_type", "relation", "shard_id", "worker")
_OF_TASK: Final = {"shard": "shard_id", "on": "worker"}


def plot_spans(profile: Frame, *, most: int = 32, title: str = "Mean time of a statement") -> go.Figure:
    """Stacked means of the parts of a statement's time, one bar per group.

    Args:
        profile: columns `name` (of the bar), `quantity` (`P`, `C`, `L`; `T` for local executions), `mean_us`.
        most: number of bars; if there are more, the title says so.
        title: title of the figure.
    """
    needed = convert_with_columns(profile, "profile", "name", "quantity", "mean_us")
    frame = needed.with_columns(pl.col("quantity").cast(pl.String))
    every = frame["name"].unique(maintain_order=True).to_list()
    names = every[:most]
    frame = frame.filter(pl.col("name").is_in(names))
    cut = f" ({most} of {len(every)})" if len(every) > most else ""
    figure = new_figure(f"{title}{cut}", height=150 + 28 * len(names))
    for quantity, words in _STACK.items():
        part = frame.filter(pl.col("quantity") == quantity)
        if part.height:
            x, y = (part["mean_us"] / US_PER_MS).to_list(), [names.index(name) for name in part["name"]]
            add_bars(figure, x, y, f"{words} ({quantity})", PART_COLOURS[words], "%{x:,.3~r} ms", orientation="h")
    name_rows(figure, [text(name) for name in names])
    return figure.update_xaxes(title_text="mean time [ms]", rangemode="tozero").update_layout(barmode="stack")


def plot_distribution(times: Frame, *, title: str = "") -> go.Figure:
    """Distribution of times per series: the share of statements that took at most x.

    Args:
        times: columns `series` and `column`; one row per statement.
        title: title of the figure.
    """
    frame = convert_with_columns(times, "times", "series", "total_us").drop_nulls("total_us")
    figure = new_figure(title or "Distribution of statement times")
    shares = np.linspace(0, 1, _POINTS)
    for number, (name, part) in enumerate(groups(frame, "series")):
        colour, _, dash = get_style(number)
        x = np.round(np.quantile(part["total_us"].to_numpy(), shares) / US_PER_MS, 4).tolist()
        named, said = f"{name} (n = {part.height:,})", "%{y:.1f} % take at most %{x:,.3~r} ms"
        line = {"color": colour, "dash": dash, "width": 2}
        add_points(figure, x, np.round(100 * shares, 2).tolist(), named, "lines", said, line=line)
    for percent in (50, 95, 99):
        figure.add_hline(y=percent, line={"color": "#9aa5b1", "dash": "dot", "width": 1})
    # The label 99 would overlap with 95, so the upper line has none.
    ticks = [0, 25, 50, 75, 95]
    figure.update_yaxes(title_text="share of statements [%]", tickvals=ticks, range=[0, 101])
    figure.update_xaxes(exponentformat="none", separatethousands=True)
    return figure.update_xaxes(title_text="time [ms]", type="log", dtick=1)


def plot_histograms(histograms: Frame, *, series: str = "series", title: str = "") -> go.Figure:
    """Histograms below each other on one axis of time, each with the share of statements beyond it.

    Args:
        histograms: result of :func:`citus_analysis.spans.time_histogram`.
        series: column with the names of the histograms.
        title: title of the figure.
    """
    columns = (series, "low_ms", "high_ms", "share_percent", "n", "beyond")
    frame = convert_with_columns(histograms, "histograms", *columns)
    parts = groups(frame, series)
    figure = make_subplots(
        rows=max(1, len(parts)),
        shared_xaxes=True,
        vertical_spacing=0.28 / max(1, len(parts)),
        subplot_titles=[_histogram_title(name, part) for name, part in parts],
        figure=new_figure(title or "Distribution of statement times", height=110 + 105 * max(1, len(parts))),
    )
    # One outline for each histogram: a browser takes ten times as long to draw a shape for each bin.
    colour = get_style(0)[0]
    for row, (name, part) in enumerate(parts, start=1):
        bins = pl.concat([part, part.tail(1)])
        x = [*part["low_ms"].round(6), part["high_ms"].round(6)[-1]]
        said = "%{customdata[0]:,.3~r} to %{customdata[1]:,.3~r} ms: %{y:.2f} % of the statements"
        shown = {"fill": "tozeroy", "fillcolor": colour, "showlegend": False}
        shown |= {"line": {"shape": "hv", "width": 0}, "customdata": bins.select("low_ms", "high_ms").rows()}
        add_points(figure, x, bins["share_percent"].round(4).to_list(), name, "lines", said, row=row, col=1, **shown)
    if frame.height:
        figure.update_xaxes(range=[frame["low_ms"].min(), frame["high_ms"].max()])
    figure.update_annotations(x=0, xanchor="left", font={"size": 12})
    figure.update_layout(template=TEMPLATE, margin={"t": 34})
    figure.update_xaxes(title_text="time [ms]", row=max(1, len(parts)), col=1)
    return figure.update_yaxes(title_text="%", rangemode="tozero", nticks=4)


def _histogram_title(name: str, part: pl.DataFrame) -> str:
    row = part.row(0, named=True)
    beyond = f"; {100 * row['beyond'] / row['n']:.1f} % beyond" if row["beyond"] else ""
    return f"{name} (n = {row['n']:,}{beyond})"


def plot_plan(nodes: Frame, *, most: int = _MOST, title: str = "Plan") -> go.Figure:
    """A plan as a tree, with rows and time beside each node.

    On the left are the expected and the actual rows over all executions, on a logarithmic axis (0 rows are drawn at
    0.5); on the right the time of each node, without and with the nodes below it, if the plan has times.

    Args:
        nodes: result of `plans.measure_nodes` for one plan.
        most: number of nodes drawn; if there are more, the title says so.
        title: title of the figure.
    """
    table = convert_with_columns(nodes, "nodes", *_COLUMNS).sort("plan_node").with_columns(make_worker_name_expr())
    frame = table.head(most)
    cut = f" (first {most} of {table.height} nodes)" if table.height > most else ""
    timed = frame["time_ms"].null_count() < frame.height
    figure = make_subplots(cols=1 + timed, shared_yaxes=True, horizontal_spacing=0.03)
    _add_rows(figure, frame)
    figure.update_xaxes(title_text="rows", type="log", exponentformat="SI", nticks=4, col=1)
    if timed:
        _add_times(figure, frame)
        figure.update_xaxes(title_text="time [ms]", rangemode="tozero", col=2)
    figure.update_layout(template=TEMPLATE, title={"text": text(title + cut)}, barmode="stack")
    _add_tree(figure, frame)
    return figure


def _add_tree(figure: go.Figure, frame: pl.DataFrame) -> None:
    """Add the nodes' names in front of the axis, indented by depth, which labels of an axis cannot be.

    The levels of a deep plan are narrower, and long names are cut; pointing at a name shows all of it. A page that is
    too narrow for names beside the plot writes each above its row (`page.js`).
    """
    rows = list(frame.select(_NAMED).iter_rows(named=True))
    level = min(float(_INDENT_PX), _LEVELS_PX / max((row["depth"] for row in rows if row["depth"]), default=1))
    names = [(_label(row), level * row["depth"]) for row in rows]
    shown = [(_shorten_name(name, _TREE_PX - indent), name, indent) for name, indent in names]
    left = 24 + max((indent + _CHARACTER_PX * len(name) for name, _, indent in shown), default=0)
    for place, (name, whole, indent) in enumerate(shown):
        at = {"x": 0, "xref": "paper", "xanchor": "left", "xshift": indent - left + 12, "y": place, "yref": "y"}
        figure.add_annotation(text=text(name), hovertext=text(whole), showarrow=False, font={"size": 12}, **at)
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5], showticklabels=False, showgrid=False, ticks="")
    figure.update_layout(height=170 + 24 * len(rows), margin={"l": left})


def _add_rows(figure: go.Figure, frame: pl.DataFrame) -> None:
    rows = list(range(frame.height))
    looks = (("rows expected", COLOURS[5], "diamond-open"), ("rows given", COLOURS[0], "circle"))
    for column, (words, colour, symbol) in zip(("expected_rows", "given_rows"), looks, strict=True):
        x, marker = frame[column].clip(lower_bound=0.5).to_list(), {"color": colour, "symbol": symbol, "size": 9}
        shown = {"customdata": frame[column].to_list(), "marker": marker}
        add_points(figure, x, rows, words, "markers", "%{customdata:,.0f}", row=1, col=1, **shown)


def _add_times(figure: go.Figure, frame: pl.DataFrame) -> None:
    below = frame["time_ms"] - frame["self_ms"].fill_null(0)
    parts = (("time of the node", frame["self_ms"], COLOURS[1]), ("of the nodes below", below, "#d5dae0"))
    for words, times, colour in parts:
        x, y = times.to_list(), list(range(frame.height))
        add_bars(figure, x, y, words, colour, "%{x:,.3~r} ms", row=1, col=2, orientation="h")


def _label(row: dict[str, object]) -> str:
    """Name of a node, with its relation, or the shard and worker of a task."""
    words = [str(row["node_type"])]
    if row["kind"] == "task":
        words += [f"{name} {row[column]}" for name, column in _OF_TASK.items() if row[column] is not None]
    elif row["relation"] is not None:
        words.append(f"on {row['relation']}")
    return " ".join(words)


def _shorten_name(name: str, room_px: float) -> str:
    most = int(room_px / _CHARACTER_PX)
    return name if len(name) <= most else name[: most - 1] + "\u2026"


def plot_tasks(tasks: Frame, *, title: str = "Tasks") -> go.Figure:
    """The execution times of tasks, by shard, in the colour of their worker.

    Args:
        tasks: result of `plans.measure_tasks` for one plan.
        title: title of the figure.
    """
    columns = ("plan_node", "shard_id", "worker_host", "worker_port", "execution_ms")
    named = convert_with_columns(tasks, "tasks", *columns).with_columns(make_worker_name_expr().fill_null("unknown"))
    frame = named.sort("plan_node").with_row_index("row")
    colours = assign_colours(frame["worker"].unique(maintain_order=True).to_list())
    places = frame.select(columns[:2]).rows()
    figure = new_figure(title, height=170 + 24 * frame.height)
    for name, part in groups(frame, "worker"):
        x, y, colour = part["execution_ms"].to_list(), part["row"].to_list(), colours[part["worker"][0]]
        add_bars(figure, x, y, name, colour, "%{x:,.3~r} ms", orientation="h")
    name_rows(figure, [f"{node}: shard {'unknown' if shard is None else shard}" for node, shard in places])
    figure.update_yaxes(title_text="node: shard")
    return figure.update_xaxes(title_text="execution on the worker [ms]", rangemode="tozero")
