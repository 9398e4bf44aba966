"""Figures of perf's samples: functions by their share, and stacks as a flame graph."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots._columns import with_columns_of
from citus_analysis.plots.theme import COLOURS, GREY, add_bars, groups, ink_on, new_figure, text

#: Part of the software -> its colour, the same in every figure of perf.
_MODULES: Final = {
    "postgres": COLOURS[0],
    "citus": COLOURS[1],
    "libpq": COLOURS[3],
    "libc": COLOURS[4],
    "kernel": COLOURS[2],
    "other": "#b8a24a",
    "unknown": GREY,
}
#: Height of one level of stacks, and largest height of a flame graph, in pixels.
_LEVEL: Final = 19
_HIGHEST: Final = 860


def plot_symbols(symbols: Frame, *, most: int = 15, title: str = "Functions by share of samples") -> go.Figure:
    """The functions with the largest mean share of samples, coloured by the part of the software they belong to.

    If there are several recordings, thin lines reach from the lowest to the highest share in any of them.

    Args:
        symbols: result of :func:`citus_analysis.bottleneck.mean_symbols` for one group.
        most: number of bars.
        title: title of the figure.
    """
    columns = ("symbol", "module", "mean_percent", "lowest_percent", "highest_percent", "recordings")
    frame = with_columns_of(symbols, "symbols", *columns).sort("mean_percent", descending=True, maintain_order=True)
    # Functions of one name can be in different objects, so a bar's place is its row, not its name.
    rows = frame.head(most).with_row_index("row")
    figure = new_figure(title, height=130 + 24 * rows.height)
    for name, part in groups(rows, "module"):
        mean = part["mean_percent"]
        several = part["recordings"].max() != 1
        whiskers = {
            "array": (part["highest_percent"] - mean).to_list(),
            "arrayminus": (mean - part["lowest_percent"]).to_list(),
            "thickness": 1,
            "width": 3,
        }
        colour, said = _MODULES.get(name, GREY), "%{hovertext}<br>%{x:.2f} %"
        shown = {"error_x": whiskers if several else None, "hovertext": [text(symbol) for symbol in part["symbol"]]}
        add_bars(figure, mean.to_list(), part["row"].to_list(), name, colour, said, orientation="h", **shown)
    names = [text(_short(symbol)) for symbol in rows["symbol"]]
    figure.update_yaxes(tickvals=rows["row"].to_list(), ticktext=names, autorange="reversed", showgrid=False)
    return figure.update_xaxes(title_text="share of samples [%]", rangemode="tozero")


def _short(symbol: str, most: int = 32) -> str:
    return symbol if len(symbol) <= most else f"{symbol[: most - 1]}…"


def plot_flame_graph(tree: Frame, *, title: str = "Stacks by share of samples") -> go.Figure:
    """Stacks as a flame graph: the width of a frame is the share of samples in which it was on the stack.

    The outermost caller is at the bottom; a click on a frame shows only the functions that it called.

    Args:
        tree: result of :func:`citus_analysis.bottleneck.stack_tree` for one resource and event.
        title: title of the figure.
    """
    columns = ("frame_id", "caller_id", "depth", "frame", "module", "percent", "self_percent")
    frame = with_columns_of(tree, "tree", *columns)
    levels = frame["depth"].n_unique()
    figure = new_figure(title, height=min(_HIGHEST, 110 + _LEVEL * (levels + 1)))
    if frame.is_empty():
        return figure
    below = frame.group_by(pl.col("caller_id").alias("frame_id")).agg(callees=pl.col("percent").sum())
    rest = (pl.col("percent") - pl.col("callees").fill_null(0.0)).clip(lower_bound=0.0).round(4).alias("rest")
    frame = frame.join(below, on="frame_id", how="left", maintain_order="left").with_columns(rest)
    colours = ["#d5dae0", *(_MODULES.get(name, GREY) for name in frame["module"])]
    figure.add_icicle(
        ids=["all", *map(str, frame["frame_id"])],
        labels=["all samples", *map(text, frame["frame"])],
        parents=["", *("all" if one is None else str(one) for one in frame["caller_id"])],
        # The rest of a frame without its callees: rounded totals could be smaller than the sum of their parts.
        values=[0.0, *frame["rest"]],
        branchvalues="remainder",
        customdata=[0.0, *frame["self_percent"].round(3)],
        marker={"colors": colours, "line": {"width": 0.5}},
        textfont={"color": [ink_on(colour) for colour in colours]},
        tiling={"orientation": "v", "flip": "y", "pad": 0},
        textposition="middle left",
        pathbar={"visible": False},
        leaf={"opacity": 1},
        sort=False,
        hovertemplate="%{label}<br>%{value:.2f} % of the samples, %{customdata:.2f} % on top<extra></extra>",
    )
    _add_legend(figure, frame["module"].unique().to_list())
    return (
        figure.update_layout(uniformtext={"minsize": 9, "mode": "hide"})
        .update_xaxes(visible=False)
        .update_yaxes(visible=False)
    )


def _add_legend(figure: go.Figure, modules: list[str]) -> None:
    """Add empty marks with the colours of the modules, because an icicle has no legend of its own."""
    for name, colour in _MODULES.items():
        if name in modules:
            marker = {"symbol": "square", "size": 11, "color": colour}
            figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker)
