"""Figures of metrics over many runs, with the places where their level changed."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from citus_analysis.core.defaults import METRIC
from citus_analysis.core.frames import Frame
from citus_analysis.plots._columns import with_columns_of
from citus_analysis.plots.theme import COLOURS, GREY, groups, new_figure, style_of, text
from citus_analysis.units import label

__all__ = ["plot_track"]

#: With more datasets, names and colours say nothing: all runs are drawn alike.
_MOST_NAMED = 8


def plot_track(runs: Frame, *, metric: str = METRIC, places: Sequence[int] = (), title: str = "") -> go.Figure:
    """A metric run by run, the mean of each part without a change as a line, and the changes as vertical lines.

    Args:
        runs: columns `place`, `dataset`, `value`, `level`.
        metric: what the values are of; its name's suffix gives the unit.
        places: the first run after each change.
        title: what is shown, in words.
    """
    frame = with_columns_of(runs, "runs", "place", "dataset", "value", "level").sort("place")
    figure = new_figure(title or label(metric), height=340)
    named = frame["dataset"].n_unique() <= _MOST_NAMED
    for number, (name, part) in enumerate(groups(frame, "dataset") if named else [("runs", frame)]):
        colour, symbol, _ = style_of(number)
        figure.add_scatter(
            x=(part["place"] + 1).to_list(),
            y=part["value"].to_list(),
            name=text(name),
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 7},
            text=[text(one) for one in part["dataset"]],
            hovertemplate="run %{x} of %{text}<br>%{y:,.4~r}<extra></extra>",
        )
    figure.add_scatter(
        x=(frame["place"] + 1).to_list(),
        y=frame["level"].to_list(),
        name="level",
        mode="lines",
        line={"color": COLOURS[0], "width": 1.5, "shape": "hvh"},
        hoverinfo="skip",
    )
    for place in places:
        figure.add_vline(x=place + 0.5, line={"color": GREY, "dash": "dash", "width": 1.5})
    return figure.update_xaxes(title_text="run, in the order of time").update_yaxes(
        title_text=label(metric), rangemode="tozero"
    )
