"""Figures of the machines' resources: CPU and devices over time, checkpoints, symbols of perf."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots._columns import with_columns_of
from citus_analysis.plots.theme import COLOURS, GREY, faded, groups, new_figure, style_of, text
from citus_analysis.units import label

__all__ = ["plot_cpu", "plot_device", "plot_symbols"]

#: Stacked from the bottom: what was worked first, what was waited for above it.
_SHARES: Final = {
    "user_percent": ("user", COLOURS[0]),
    "system_percent": ("system", COLOURS[1]),
    "iowait_percent": ("waiting for I/O", COLOURS[3]),
    "steal_percent": ("stolen", COLOURS[6]),
}
_CHECKPOINT: Final = "#E69F00"


def plot_cpu(samples: Frame, *, title: str = "CPU time over time") -> go.Figure:
    """Shares of CPU time over time, stacked; the rest up to 100 % is idle.

    Args:
        samples: columns `elapsed_s`, `user_percent`, `system_percent`, `iowait_percent`, `steal_percent`
            (and `nice_percent`, which is counted as user).
        title: what is shown, in words.
    """
    frame = with_columns_of(samples, "samples", "elapsed_s", *_SHARES).sort("elapsed_s")
    if "nice_percent" in frame.columns:
        frame = frame.with_columns(pl.col("user_percent") + pl.col("nice_percent").fill_null(0))
    figure = new_figure(title, x="elapsed_s", height=320)
    for column, (name, colour) in _SHARES.items():
        figure.add_scatter(
            x=frame["elapsed_s"].to_numpy(),
            y=frame[column].fill_null(0).to_numpy(),
            name=name,
            mode="lines",
            stackgroup="cpu",
            line={"color": colour, "width": 0.8},
            fillcolor=faded(colour, 0.55),
            hovertemplate="%{y:.1f} %<extra>%{fullData.name}</extra>",
        )
    return figure.update_yaxes(title_text="CPU time [%]", range=[0, 100]).update_layout(hovermode="x unified")


def plot_device(
    samples: Frame,
    checkpoints: Frame | None = None,
    *,
    metric: str = "await_ms",
    title: str = "",
) -> go.Figure:
    """A device metric over time, one line per node and device; checkpoints are shaded.

    Args:
        samples: columns `elapsed_s`, `series` and the metric.
        checkpoints: columns `start_s`, `end_s`; None: none are marked.
        metric: `await_ms`, `utilization_percent`, `write_kb_s` or another column of `device_samples`.
        title: what is shown, in words.
    """
    frame = with_columns_of(samples, "samples", "elapsed_s", "series", metric).sort("elapsed_s")
    figure = new_figure(title or f"{label(metric)} over time", x="elapsed_s", y=metric, height=320)
    marks = None if checkpoints is None else with_columns_of(checkpoints, "checkpoints", "start_s", "end_s")
    if marks is not None and marks["end_s"].count():
        _shade(figure, marks.drop_nulls("end_s"))
    for number, (name, part) in enumerate(groups(frame, "series")):
        colour, _, dash = style_of(number)
        figure.add_scatter(
            x=part["elapsed_s"].to_numpy(),
            y=part[metric].to_numpy(),
            name=name,
            mode="lines+markers",
            line={"color": colour, "dash": dash, "width": 1.5},
            marker={"size": 4, "color": colour},
            hovertemplate="%{x:.0f} s<br>%{y:,.4~r}<extra>%{fullData.name}</extra>",
        )
    return figure.update_yaxes(rangemode="tozero")


def _shade(figure: go.Figure, marks: pl.DataFrame) -> None:
    """Begin to end of each checkpoint; one whose beginning was not logged is a line at its end."""
    for start, end in marks.select("start_s", "end_s").unique(maintain_order=True).iter_rows():
        figure.add_vrect(
            x0=end if start is None else start,
            x1=end,
            fillcolor=faded(_CHECKPOINT, 0.18),
            line={"color": _CHECKPOINT, "width": 1},
            layer="below",
        )
    square = {
        "symbol": "square",
        "size": 12,
        "color": faded(_CHECKPOINT, 0.4),
        "line": {"color": _CHECKPOINT, "width": 1},
    }
    figure.add_scatter(x=[None], y=[None], mode="markers", name="checkpoint", marker=square)


def plot_symbols(symbols: Frame, *, most: int = 15, title: str = "Symbols by share of samples") -> go.Figure:
    """The symbols with the largest share of samples, coloured by the shared object they belong to.

    Args:
        symbols: columns `symbol`, `shared_object`, `self_percent`.
        most: number of bars.
        title: what is shown, in words.
    """
    frame = with_columns_of(symbols, "symbols", "symbol", "shared_object", "self_percent")
    frame = frame.sort("self_percent", descending=True).head(most)
    objects = frame["shared_object"].unique(maintain_order=True).to_list()
    figure = new_figure(title, x="self_percent", height=130 + 24 * frame.height)
    # Two symbols of one name can be in different objects: the bar's place is its row, not its name.
    rows = frame.with_row_index("row")
    for number, name in enumerate(objects):
        part = rows.filter(pl.col("shared_object").eq_missing(name))
        colour = COLOURS[number % len(COLOURS)] if number < len(COLOURS) else GREY
        figure.add_bar(
            x=part["self_percent"].to_numpy(),
            y=part["row"].to_numpy(),
            orientation="h",
            name=text(name),
            marker={"color": colour},
            hovertext=[text(symbol) for symbol in part["symbol"]],
            hovertemplate="%{hovertext}<br>%{x:.2f} %<extra>%{fullData.name}</extra>",
        )
    names = [text(_short(symbol)) for symbol in rows["symbol"]]
    figure.update_yaxes(tickvals=rows["row"].to_list(), ticktext=names, autorange="reversed", showgrid=False)
    return figure.update_xaxes(title_text="share of samples [%]", rangemode="tozero")


def _short(symbol: str, most: int = 32) -> str:
    return symbol if len(symbol) <= most else f"{symbol[: most - 1]}…"
