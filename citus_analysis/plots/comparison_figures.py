"""Figures of comparisons: ratios and means with their intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.defaults import MARGIN, METRIC
from citus_analysis.plots.theme import (
    COLOURS,
    GREY,
    add_bars,
    add_points,
    assign_colours,
    convert_with_columns,
    error_bars,
    fade,
    from_zero,
    has_interval,
    interval_words,
    name_rows,
    new_figure,
    text,
)
from citus_analysis.units import label

_VERDICT_COLOURS = {
    "faster": COLOURS[2],
    "slower": COLOURS[1],
    "higher": COLOURS[3],
    "lower": COLOURS[4],
    "equivalent": COLOURS[0],
    "inconclusive": GREY,
}
_ROW = 26
_LINE = 17
#: Most characters in a line of the title of an axis.
_TITLE = 60
#: An axis whose largest ratio is less than this many times its smallest gets finer ticks.
_NARROW = 3
_TICKS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3)
_WIDE_TICKS = (0.01, 0.1, 0.25, 0.5, 1, 2, 4, 10, 100)


def plot_ratios(ratios: Frame, *, base: str = "the base", margin: float = MARGIN, title: str = "") -> go.Figure:
    """Ratio of each set-up to a base with its interval; a ratio without an interval is a hollow mark.

    Args:
        ratios: columns `name`, `ratio`, `low`, `high`, `verdict`, in the order of the rows.
        base: name of the base.
        margin: the band that counts as no difference, drawn in grey.
        title: title of the figure.
    """
    frame = convert_with_columns(ratios, "ratios", "name", "ratio", "low", "high", "verdict").with_row_index("row")
    figure = new_figure(title or f"Ratio to {base}", height=150 + _ROW * frame.height)
    figure.add_vrect(x0=1 / (1 + margin), x1=1 + margin, fillcolor=fade(GREY), line_width=0, layer="below")
    figure.add_vline(x=1, line={"color": GREY, "width": 1})
    for verdict, colour in _VERDICT_COLOURS.items():
        _add_verdict(figure, frame.filter(pl.col("verdict").cast(pl.String) == verdict), verdict, colour)
    names = [_wrap_name(name) for name in frame["name"]]
    # Rows are as far apart as the name with the most lines needs.
    row_height = max([_ROW, *(_LINE * (name.count("<br>") + 1) + 4 for name in names)])
    name_rows(figure, names)
    ratios_shown = frame["ratio"].to_numpy()
    ticks = _TICKS if frame.is_empty() or ratios_shown.max() / ratios_shown.min() < _NARROW else _WIDE_TICKS
    labels = [f"{tick:g}" for tick in ticks]
    named = _wrap_name(f"ratio to {base}", most=_TITLE)
    figure.update_xaxes(title_text=named, type="log", tickvals=ticks, ticktext=labels, tickangle=0, automargin=True)
    height = 150 + row_height * frame.height + _LINE * named.count("<br>")
    return figure.update_layout(showlegend=True, height=height)


def _add_verdict(figure: go.Figure, rows: pl.DataFrame, verdict: str, colour: str) -> None:
    if rows.is_empty():
        return
    # On a logarithmic axis, an error bar that begins at 0 cannot be drawn.
    drawn = rows.with_columns(low=pl.when(pl.col("low") > 0).then("low"))
    known = drawn.select(has_interval()).to_series().to_numpy()
    x, y, said = rows["ratio"].to_numpy(), rows["row"].to_numpy(), "%{text}<br>%{x:.3f} %{customdata}"
    fill = np.where(known, colour, "white")
    shown = {
        "marker": {"size": 9, "color": fill, "line": {"color": colour, "width": 1.5}},
        "error_x": error_bars(drawn, "ratio", color=colour, thickness=1.5, width=4),
        "customdata": [interval_words(low, high) for low, high in drawn.select("low", "high").iter_rows()],
        "text": [text(name) for name in rows["name"]],
    }
    add_points(figure, x, y, verdict, "markers", said, **shown)


def plot_bars(
    bars: Frame, *, metric: str = METRIC, x_title: str = "", title: str = "", order: Sequence[str] = ()
) -> go.Figure:
    """Means as bars from zero with their intervals, grouped along x, one colour per group.

    Args:
        bars: columns `x`, `group`, `mean`, `low`, `high`; the ends are null if there is no interval.
        metric: name of the quantity; its suffix gives the unit.
        x_title: meaning of `x`.
        title: title of the figure.
        order: names of all groups, so that a group keeps its colour over several figures.

    Example:
        >>> bars = pl.DataFrame({"x": ["A", "A"], "group": ["citus", "aurora"], "mean": [1.0, 2.0],
        ...                      "low": [0.9, None], "high": [1.1, None]})
        >>> [trace.name for trace in plot_bars(bars).data]
        ['citus', 'aurora']
    """
    frame = convert_with_columns(bars, "bars", "x", "group", "mean", "low", "high")
    figure = new_figure(title or label(metric), y=metric)
    colours = assign_colours(list(order) or frame["group"].unique(maintain_order=True).to_list())
    for name, part in frame.group_by("group", maintain_order=True):
        ends = [interval_words(low, high) for low, high in part.select("low", "high").iter_rows()]
        x, said = [text(value) for value in part["x"]], "%{x}<br>%{y:,.4~r} %{customdata}"
        bars_of = {"error_y": error_bars(part, "mean", thickness=1.5, width=4), "customdata": ends}
        add_bars(figure, x, part["mean"].to_numpy(), text(name[0]), colours[str(name[0])], said, **bars_of)
    places = [text(value) for value in frame["x"].unique(maintain_order=True)]
    figure.update_xaxes(title_text=text(x_title), type="category", categoryorder="array", categoryarray=places)
    figure.update_layout(barmode="group", bargap=0.3, bargroupgap=0.08, showlegend=True)
    return from_zero(figure, frame["mean"], reach=frame["high"])


def plot_account(causes: Frame, *, title: str = "") -> go.Figure:
    """Parts of a difference of response times as bars from 0, the largest first; those that are not sure are grey.

    Args:
        causes: columns `part`, `estimate_ms`, `low_ms`, `high_ms`, `decided`, in the order of the rows.
        title: title of the figure.

    Example:
        >>> causes = pl.DataFrame({"part": ["in the child on node 2"], "estimate_ms": [1.4], "low_ms": [1.2],
        ...                        "high_ms": [1.6], "decided": [True]})
        >>> plot_account(causes).data[0].x
        array([1.4])
    """
    frame = convert_with_columns(causes, "causes", "part", "estimate_ms", "low_ms", "high_ms", "decided")
    figure = new_figure(title or "Where the difference comes from", height=150 + _ROW * frame.height)
    colours = [COLOURS[0] if sure else GREY for sure in frame["decided"]]
    ends = [interval_words(low, high) for low, high in frame.select("low_ms", "high_ms").iter_rows()]
    error = error_bars(frame, "estimate_ms", "low_ms", "high_ms", thickness=1.5, width=4)
    x, y = frame["estimate_ms"].to_numpy(), [text(one) for one in frame["part"]]
    said = "%{y}<br>%{x:.4~r} ms %{customdata}<extra></extra>"
    add_bars(figure, x, y, None, colours, said, orientation="h", error_x=error, customdata=ends)
    figure.add_vline(x=0, line={"color": GREY, "width": 1})
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure.update_xaxes(title_text="difference of the mean response time [ms]")


def _wrap_name(name: str, most: int = 24) -> str:
    """A name in lines, broken between words or, in long words, after separators; no part is left out."""
    lines = [""]
    for word in re.split(r"(?<= )", name):
        parts = [word] if len(word) <= most else re.split(r"(?<=[._=-])", word)
        for place, part in enumerate(parts):
            room = most - len(lines[-1])
            if lines[-1] and (len(part) > room or (place == 0 and len(word) > room)):
                lines.append("")
            lines[-1] += part
    return "<br>".join(text(line.strip()) for line in lines)
