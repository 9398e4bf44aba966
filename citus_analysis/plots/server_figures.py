"""Figures of server logs: statements, errors and connections over time, and shares of the time of statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import product
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.defaults import METRIC
from citus_analysis.plots.theme import (
    COLOURS,
    GREY,
    add_bars,
    add_points,
    convert_with_columns,
    get_style,
    groups,
    new_figure,
    text,
)
from citus_analysis.stats.change_points import ChangePoint
from citus_analysis.units import label

#: Characters of a statement above its bar; the hover text has more.
_MOST_CHARACTERS: Final = 44
#: Characters of a line of that text, and its lines.
_WIDTH, _LINES = 90, 8
_TIME: Final = "%{x|%Y-%m-%d %H:%M:%S}"


def plot_measure_over_time(
    intervals: Frame, measures: Sequence[str], *, title: str = "Statements over time"
) -> go.Figure:
    """Measures of statements per interval of time, one line per measure and group.

    Args:
        intervals: columns `time`, `by` and the measures, which have one unit.
        measures: columns of the measures.
        title: title of the figure.
    """
    frame = convert_with_columns(intervals, "intervals", "time", "sent_by", *measures).sort("time")
    figure = new_figure(title, y=measures[0], height=340)
    step = frame["time"].unique().sort().diff().min()
    for number, ((name, measured), measure) in enumerate(product(groups(frame, "sent_by"), measures)):
        part = _interrupt_gaps(measured.select("time", measure), step)
        colour, symbol, dash = get_style(number)
        named = name if len(measures) == 1 else f"{name}: {label(measure)}"
        style = {"line": {"color": colour, "dash": dash, "width": 1.5}, "marker": {"size": 4, "symbol": symbol}}
        x, y, said = part["time"].to_list(), part[measure].to_list(), f"{_TIME}<br>%{{y:,.4~r}}"
        add_points(figure, x, y, named, "lines+markers", said, **style)
    return figure.update_yaxes(rangemode="tozero").update_xaxes(title_text="time (UTC)", nticks=6)


def _interrupt_gaps(part: pl.DataFrame, step: object) -> pl.DataFrame:
    """Rows in order of time, with a row of nulls after each that the next one does not follow within a step.

    A line would otherwise cross a time without any statement, as between two runs.
    """
    if not isinstance(step, timedelta):
        return part
    last = part.filter(pl.col("time").diff().shift(-1) > step).select(pl.col("time") + step)
    return pl.concat([part, last], how="diagonal").sort("time")


def plot_counts_over_time(
    counts: Frame, value: str, *, by: str, title: str = "Events over time", words: str = ""
) -> go.Figure:
    """Counts per interval of time, stacked by group.

    Args:
        counts: columns `time`, `by` and the value.
        value: column of the counts.
        by: column of the groups.
        title: title of the figure.
        words: title of the axis of counts; the column's name by default.
    """
    frame = convert_with_columns(counts, "counts", "time", by, value).sort("time")
    figure = new_figure(title, height=300)
    for number, (name, part) in enumerate(groups(frame, by)):
        x, y, said = part["time"].to_list(), part[value].to_list(), f"{_TIME}<br>%{{y:,}}"
        add_bars(figure, x, y, name, COLOURS[number % len(COLOURS)], said)
    figure.update_yaxes(title_text=text(words or label(value)), rangemode="tozero")
    return figure.update_xaxes(title_text="time (UTC)", nticks=6).update_layout(barmode="stack")


def plot_shares(
    statements: Frame, *, most: int = 12, title: str = "Statements with the largest total time"
) -> go.Figure:
    """The statements with the largest share of the total time, as bars.

    Args:
        statements: columns `text`, `statement_kind`, `sent_by`, `total_s` and `share_percent`, in order.
        most: number of bars.
        title: title of the figure.
    """
    columns = ("text", "statement_kind", "sent_by", "total_s", "share_percent")
    frame = convert_with_columns(statements, "statements", *columns).head(most).with_row_index("row")
    figure = new_figure(title, x="total_s", height=150 + 40 * frame.height)
    unknown = pl.format("({} without its text)", pl.col("statement_kind").cast(pl.String))
    names = frame.select(pl.coalesce("text", unknown, pl.lit("statement without its text"))).to_series().to_list()
    frame = frame.with_columns(hover=pl.Series([_wrap_name(name) for name in names], dtype=pl.String))
    for number, (sender, part) in enumerate(groups(frame, "sent_by")):
        x, y, colour = part["total_s"].to_list(), part["row"].to_list(), COLOURS[number % len(COLOURS)]
        shown = {"hovertext": part["hover"].to_list(), "customdata": part["share_percent"].to_list(), "width": 0.4}
        said = "%{hovertext}<br>%{x:,.4~r} s, %{customdata:.1f} %<extra></extra>"
        add_bars(figure, x, y, f"sent by {sender}", colour, said, orientation="h", **shown)
    # A statement is above its bar, where it has the whole width; beside the bar it would fill the screen of a phone.
    for row, name in enumerate(names):
        short = name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"
        place = {"x": 0, "xref": "paper", "xanchor": "left", "y": row - 0.38, "yref": "y", "yanchor": "middle"}
        figure.add_annotation(text=text(f"{row + 1}. {short}"), showarrow=False, font={"size": 12}, **place)
    figure.update_yaxes(showticklabels=False, ticks="", range=[frame.height - 0.5, -0.8], showgrid=False)
    return figure.update_xaxes(rangemode="tozero").update_layout(barmode="overlay", showlegend=True)


def _wrap_name(name: str) -> str:
    lines = [name[at : at + _WIDTH] for at in range(0, len(name), _WIDTH)]
    return "<br>".join(text(line) for line in lines[:_LINES]) + ("…" if len(lines) > _LINES else "")


#: With more datasets, colours cannot be distinguished: all runs are drawn alike.
_MOST_NAMED = 8


def plot_track(runs: Frame, *, metric: str = METRIC, points: Sequence[ChangePoint] = (), title: str = "") -> go.Figure:
    """A metric run by run, its level as a line, its changes as vertical lines with intervals, and its outliers.

    Args:
        runs: columns `place`, `dataset`, `value`, `level`; values of a column `outlier` that are true are marked.
        metric: name of the quantity; its suffix gives the unit.
        points: the changes; a gradual one is drawn as an area from its begin to its end.
        title: title of the figure.
    """
    frame = convert_with_columns(runs, "runs", "place", "dataset", "value", "level").sort("place")
    figure = new_figure(title or label(metric), height=340)
    named = frame["dataset"].n_unique() <= _MOST_NAMED
    for number, (name, part) in enumerate(groups(frame, "dataset") if named else [("runs", frame)]):
        colour, symbol, _ = get_style(number)
        x, y, said = (part["place"] + 1).to_list(), part["value"].to_list(), "run %{x} of %{text}<br>%{y:,.4~r}"
        shown = {"marker": {"color": colour, "symbol": symbol, "size": 7}, "text": list(map(text, part["dataset"]))}
        add_points(figure, x, y, text(name), "markers", f"{said}<extra></extra>", **shown)
    x, y = (frame["place"] + 1).to_list(), frame["level"].to_list()
    line = {"color": COLOURS[0], "width": 1.5, "shape": "hvh"}
    figure.add_scatter(x=x, y=y, name="level", mode="lines", line=line, hoverinfo="skip")
    if "outlier" in frame.columns and (far := frame.filter("outlier")).height:
        marker = {"color": "rgba(0,0,0,0)", "size": 14, "line": {"color": GREY, "width": 1.5}}
        x, y = (far["place"] + 1).to_list(), far["value"].to_list()
        figure.add_scatter(x=x, y=y, name="outlier", mode="markers", marker=marker, hoverinfo="skip")
    for point in points:
        figure.add_vline(x=point.index + 0.5, line={"color": GREY, "dash": "dash", "width": 1.5})
        low, high = (point.index, point.end) if point.gradual else point.between
        if low < high:
            figure.add_vrect(x0=low + 0.5, x1=high + 0.5, fillcolor=GREY, opacity=0.15, line_width=0)
    figure.update_xaxes(title_text="run, in the order of time")
    return figure.update_yaxes(title_text=label(metric), rangemode="tozero")
