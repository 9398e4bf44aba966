"""Figures of perf's samples: functions by their share, and stacks as a flame graph."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots.theme import (
    COLOURS,
    GREY,
    add_bars,
    convert_with_columns,
    groups,
    ink_on,
    name_rows,
    new_figure,
    text,
)

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
#: Blue for less, white for no change, red for more (the ends of ColorBrewer's RdBu, safe for the colour-blind).
_CHANGE_SCALE: Final = ((0.0, "#2166ac"), (0.25, "#92c5de"), (0.5, "#f7f7f7"), (0.75, "#f4a582"), (1.0, "#b2182b"))
_COLOUR_BAR: Final = {
    "orientation": "h",
    "thickness": 10,
    "len": 0.55,
    "x": 0.0,
    "xanchor": "left",
    "y": 1.0,
    "yanchor": "bottom",
    "nticks": 7,
}
#: Changes below this share of the largest have a pale colour, on which text is dark.
_PALE: Final = 0.6


def plot_symbols(symbols: Frame, *, most: int = 15, title: str = "Functions by share of samples") -> go.Figure:
    """The functions with the largest mean share of samples, coloured by the part of the software they belong to.

    If there are several recordings, thin lines reach from the lowest to the highest share in any of them.

    Args:
        symbols: result of :func:`citus_analysis.bottleneck.mean_symbols` for one group.
        most: number of bars.
        title: title of the figure.
    """
    columns = ("symbol", "module", "mean_percent", "lowest_percent", "highest_percent", "recordings")
    frame = convert_with_columns(symbols, "symbols", *columns).sort(
        "mean_percent", descending=True, maintain_order=True
    )
    # Functions of one name can be in different objects, so a bar's place is its row, not its name.
    rows = frame.head(most).with_row_index("row")
    figure = new_figure(title, height=130 + 24 * rows.height)
    for name, part in groups(rows, "module"):
        mean = part["mean_percent"]
        several = part["recordings"].max() != 1
        above, below = (part["highest_percent"] - mean).to_list(), (mean - part["lowest_percent"]).to_list()
        whiskers = {"array": above, "arrayminus": below, "thickness": 1, "width": 3}
        colour, said = _MODULES.get(name, GREY), "%{hovertext}<br>%{x:.2f} %"
        shown = {"error_x": whiskers if several else None, "hovertext": [text(symbol) for symbol in part["symbol"]]}
        add_bars(figure, mean.to_list(), part["row"].to_list(), name, colour, said, orientation="h", **shown)
    names = [text(_short(symbol)) for symbol in rows["symbol"]]
    return name_rows(figure, names).update_xaxes(title_text="share of samples [%]", rangemode="tozero")


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
    frame = convert_with_columns(tree, "tree", *columns)
    colours = ["#d5dae0", *(_MODULES.get(name, GREY) for name in frame["module"])]
    figure = _add_frames(
        new_figure(title, height=_compute_height(frame)),
        frame.rename({"percent": "width"}),
        "all samples",
        marker={"colors": colours, "line": {"width": 0.5}},
        textfont={"color": [ink_on(colour) for colour in colours]},
        customdata=[0.0, *frame["self_percent"].round(3)],
        hovertemplate="%{label}<br>%{value:.2f} % of the samples, %{customdata:.2f} % on top<extra></extra>",
    )
    if frame.height:
        _add_legend(figure, frame["module"].unique().to_list())
    return figure


def plot_stack_changes(
    tree: Frame, *, unit: str = "µs", base: str = "base", other: str = "other", title: str = ""
) -> go.Figure:
    """Stacks of two sides as a differential flame graph: the width of a frame is that of the other side.

    The colour is the change of the frame's own time, without its callees: red is more, blue is less (Gregg 2014).

    Args:
        tree: `tree` of :class:`citus_analysis.attribution.function_changes.StackChanges`.
        unit: `µs` of CPU time per operation, or `%` of the samples.
        base: name of the side to compare with.
        other: name of the side that gives the widths.
        title: title of the figure.

    Example:
        >>> tree = {"frame_id": [0], "caller_id": [None], "depth": [0], "frame": ["main"], "base": [2.0]}
        >>> tree |= {"other": [5.0], "base_self": [2.0], "other_self": [5.0]}
        >>> plot_stack_changes(pl.DataFrame(tree)).data[0].marker.colors
        (0.0, 3.0)
    """
    columns = ("frame_id", "caller_id", "depth", "frame", "base", "other", "base_self", "other_self")
    frame = convert_with_columns(tree, "tree", *columns).with_columns(change=pl.col("other_self") - pl.col("base_self"))
    of = "µs of CPU time per operation" if unit == "µs" else "% of the samples"
    totals = frame.filter(pl.col("depth") == 0).select(pl.col("base", "other").sum()).row(0)
    furthest = max([abs(one) for one in frame["change"]] or [1.0]) or 1.0
    pale = [abs(one) < furthest * _PALE for one in frame["change"]]
    numbers = frame.select(pl.col("base", "base_self", "other_self", "change").round(2)).rows()
    return _add_frames(
        new_figure(title, height=_compute_height(frame) + 20),
        frame.rename({"other": "width"}),
        f"all: {text(base)} {totals[0]:,.4g}, {text(other)} {totals[1]:,.4g} {of}",
        marker={
            "colors": [0.0, *frame["change"]],
            "colorscale": [list(stop) for stop in _CHANGE_SCALE],
            "cmin": -furthest,
            "cmax": furthest,
            "showscale": True,
            "colorbar": {"title": {"text": f"change of a frame's own time [{of}]", "side": "top"}, **_COLOUR_BAR},
            "line": {"width": 0.5, "color": "#9aa3ad"},
        },
        textfont={"color": ["#1f2933", *("#1f2933" if one else "white" for one in pale)]},
        customdata=[(0.0, 0.0, 0.0, 0.0), *numbers],
        hovertemplate=(
            f"%{{label}}<br>with what it called: {text(base)} %{{customdata[0]}}, {text(other)} %{{value:.2f}} {of}<br>"
            "its own: %{customdata[1]} and %{customdata[2]}, change %{customdata[3]:+}<extra></extra>"
        ),
    )


def _compute_height(frame: pl.DataFrame) -> int:
    return min(_HIGHEST, 110 + _LEVEL * (frame["depth"].n_unique() + 1))


def _add_frames(figure: go.Figure, frame: pl.DataFrame, whole: str, **looks: object) -> go.Figure:
    """Add frames as an icicle from the bottom up, each as wide as its `width`."""
    if frame.is_empty():
        return figure
    caller = pl.col("caller_id").cast(frame.schema["frame_id"])
    below = frame.group_by(frame_id=caller).agg(callees=pl.col("width").sum())
    rest = (pl.col("width") - pl.col("callees").fill_null(0.0)).clip(lower_bound=0.0).round(4).alias("rest")
    frame = frame.join(below, on="frame_id", how="left", maintain_order="left").with_columns(rest)
    figure.add_icicle(
        ids=["all", *map(str, frame["frame_id"])],
        labels=[whole, *map(text, frame["frame"])],
        parents=["", *("all" if one is None else str(one) for one in frame["caller_id"])],
        # The rest of a frame without its callees: rounded totals could be smaller than the sum of their parts.
        values=[0.0, *frame["rest"]],
        branchvalues="remainder",
        tiling={"orientation": "v", "flip": "y", "pad": 0},
        textposition="middle left",
        pathbar={"visible": False},
        leaf={"opacity": 1},
        sort=False,
        **looks,
    )
    figure.update_layout(uniformtext={"minsize": 9, "mode": "hide"})
    return figure.update_xaxes(visible=False).update_yaxes(visible=False)


def _add_legend(figure: go.Figure, modules: list[str]) -> None:
    """Add empty marks with the colours of the modules, because an icicle has no legend of its own."""
    for name, colour in _MODULES.items():
        if name in modules:
            marker = {"symbol": "square", "size": 11, "color": colour}
            figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker)
