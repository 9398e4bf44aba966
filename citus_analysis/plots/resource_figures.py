"""Figures of one machine's resources over time: CPU time by kind, and devices with checkpoints."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots.node_figures import plot_nodes
from citus_analysis.plots.theme import COLOURS, add_points, convert_with_columns, fade, new_figure

#: Stacked from the bottom: times of work, then times of waiting.
_SHARES: Final = {
    "user_percent": ("user", COLOURS[0]),
    "system_percent": ("system", COLOURS[1]),
    "iowait_percent": ("waiting for I/O", COLOURS[3]),
    "steal_percent": ("stolen", COLOURS[6]),
}


def plot_cpu(samples: Frame, *, title: str = "CPU time over time") -> go.Figure:
    """Shares of CPU time over time, stacked; the rest up to 100 % is idle.

    Args:
        samples: columns `elapsed_s`, `user_percent`, `system_percent`, `iowait_percent`, `steal_percent`
            (and `nice_percent`, which is counted as user).
        title: title of the figure.
    """
    frame = convert_with_columns(samples, "samples", "elapsed_s", *_SHARES).sort("elapsed_s")
    # A doubtful sample has no shares; it shows no idle machine.
    frame = frame.filter(pl.any_horizontal(pl.col(list(_SHARES)).is_not_null()))
    if "nice_percent" in frame.columns:
        frame = frame.with_columns(pl.col("user_percent") + pl.col("nice_percent").fill_null(0))
    figure = new_figure(title, x="elapsed_s", height=320)
    for column, (name, colour) in _SHARES.items():
        x, y = frame["elapsed_s"].round(3).to_list(), frame[column].fill_null(0).round(2).to_list()
        area = {"stackgroup": "cpu", "line": {"color": colour, "width": 0.8}, "fillcolor": fade(colour, 0.55)}
        add_points(figure, x, y, name, "lines", "%{y:.1f} %", **area)
    return figure.update_yaxes(title_text="CPU time [%]", range=[0, 100]).update_layout(hovermode="x unified")


def plot_device(
    samples: Frame,
    checkpoints: Frame | None = None,
    *,
    metric: str = "await_ms",
    window: tuple[float, float] | None = None,
    title: str = "",
) -> go.Figure:
    """A device metric over time by node and device (:func:`plot_nodes`); checkpoints are shaded.

    Args:
        samples: columns `elapsed_s`, `series` and the metric.
        checkpoints: columns `start_s`, `end_s`; None: none are marked.
        metric: `await_ms`, `utilization_percent`, `write_kb_s` or another column of `device_samples`.
        window: first and last second to draw; None: all.
        title: title of the figure.
    """
    return plot_nodes(samples, metric=metric, series="series", checkpoints=checkpoints, window=window, title=title)


def plot_foreign_work(seconds: Frame, *, title: str = "CPU time of the machine") -> go.Figure:
    """CPU time of a machine over the time of day, what runs of the kind need, and the work that is not the runs' own.

    Args:
        seconds: columns `run_id`, `sample_time`, `busy_percent`, `other_percent`, `expected_percent`,
            `foreign_percent`, as `ForeignWork.seconds` has them.
        title: title of the figure.
    """
    columns = ("run_id", "sample_time", "busy_percent", "other_percent", "expected_percent", "foreign_percent")
    frame = convert_with_columns(seconds, "samples", *columns).sort("sample_time")
    needed = pl.col("busy_percent") - pl.col("other_percent") + pl.col("expected_percent")
    foreign = pl.when(pl.col("foreign_percent").is_not_null()).then(pl.col("busy_percent"))
    lines = frame.select("run_id", "sample_time", busy="busy_percent", needed=needed, foreign=foreign)
    # A gap between runs interrupts the lines.
    ends = lines.group_by("run_id").agg(pl.col("sample_time").max() + pl.duration(milliseconds=1))
    lines = pl.concat([lines, ends], how="diagonal").sort("sample_time")
    figure = new_figure(title, height=320)
    shown = {
        "foreign": ("with other work", {"color": COLOURS[1], "width": 5}),
        "busy": ("busy", {"color": COLOURS[0], "width": 1.5}),
        "needed": ("median of runs of the kind", {"color": "#000000", "width": 1.2, "dash": "dot"}),
    }
    for column, (name, line) in shown.items():
        x, y = lines["sample_time"].to_list(), lines[column].round(1).to_list()
        # Other work of a single sample is a point: no line leads to it.
        mode = "lines+markers" if column == "foreign" else "lines"
        add_points(figure, x, y, name, mode, "%{x|%H:%M:%S}<br>%{y:.0f} %", line=line, connectgaps=False)
    figure.update_xaxes(title_text="time of day (UTC)", tickformat="%H:%M")
    return figure.update_yaxes(title_text="CPU time [%]", range=[0, 103])
