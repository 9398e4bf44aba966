"""Figures of a metric against the number of workers or threads.

Each function draws one panel. The frames have one row per series and value of x, with the columns of
:func:`citus_analysis.stats.summarise_runs` (`mean`, `low`, `high`, `n`) and `series`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.frames import Frame
from citus_analysis.defaults import METRIC
from citus_analysis.plots.theme import (
    GREY,
    add_points,
    convert_with_columns,
    error_bars,
    from_zero,
    get_style,
    groups,
    has_interval,
    interval_words,
    line_and_marks,
    log_range,
    new_figure,
    text,
)
from citus_analysis.texts.words import choose_noun_form, pluralize
from citus_analysis.units import label

#: Ratio of largest to smallest value from which an axis of workers or threads is logarithmic.
_LOG_FROM = 8.0
#: Shift between series at one size, as a share of the axis, so that their intervals do not hide each other.
_DODGE = 0.012
#: Shift of single runs from their mean, which would hide them.
_BESIDE = 0.006
#: Latencies of at least this many microseconds are shown in milliseconds.
_LONG_US = 10_000.0
_MEAN: Final = ("mean", "low", "high")


def plot_series(
    means: Frame,
    runs: Frame | None = None,
    *,
    x: str,
    metric: str = METRIC,
    title: str = "",
    order: Sequence[str] = (),
    ideal: bool = False,
) -> go.Figure:
    """Means with their intervals as error bars along x, one line per series, single runs as points.

    Intervals are known at the measured sizes only, so no band is drawn between them.

    Args:
        means: columns `series`, x, `mean`, `low`, `high`; the ends are null if there is no interval.
        runs: single runs: columns `series`, x, `metric` and, for the hover text, `run_id`; None: no points.
        x: `workers`, `threads` or another numeric column.
        metric: name of the quantity; its suffix gives the unit.
        title: title of the figure.
        order: names of all series, so that a series keeps its colour over several panels.
        ideal: draw growth in proportion to x from each series' smallest size on, as a dotted line; an x axis that is
            logarithmic because of its range then has a logarithmic y axis beside it.

    Example:
        >>> means = pl.DataFrame(
        ...     {"series": ["a", "a"], "workers": [1, 2], "mean": [9.0, 8.0], "low": [8.0, 7.0], "high": [10.0, 9.0]}
        ... )
        >>> [trace.name for trace in plot_series(means, x="workers").data if trace.showlegend]
        ['a']
    """
    frame = convert_with_columns(means, "means", "series", x, *_MEAN).sort(x, maintain_order=True)
    singles = None if runs is None else convert_with_columns(runs, "runs", "series", x, metric)
    figure = new_figure(title or f"{label(metric)} by {x}", x=x, y=metric)
    proportional = _add_ideal(figure, frame, x) if ideal else np.array([])
    drawn = _add_lines(figure, frame, x, order, metric)
    if singles is not None:
        _add_runs(figure, singles, x, metric, list(order) or drawn, drawn)
    # Proportional growth is a straight line only if both axes are of one kind.
    if ideal and _axis_span(frame[x]) is None:
        _x_axis(figure, frame[x], log=True)
        return log_range(figure, frame["mean"], frame["low"], frame["high"], also=proportional)
    _x_axis(figure, frame[x])
    return from_zero(figure, frame["mean"], *([] if singles is None else [singles[metric]]), reach=frame["high"])


def plot_relative(
    relative: Frame, *, x: str, quantity: str, base: float, title: str = "", order: Sequence[str] = ()
) -> go.Figure:
    """Speedup or efficiency along x with error bars, and the ideal as a grey line; speedup on logarithmic axes.

    Every series begins at 1 at the base, which has no interval.

    Args:
        relative: columns `series`, x, `mean`, `low`, `high`; rows of the base may be missing.
        x: `workers` or `threads`.
        quantity: `speedup` (ideal: x / base) or `efficiency` (ideal: 1).
        base: value of x that speedup and efficiency refer to.
        title: title of the figure.
        order: names of all series.
    """
    measured = convert_with_columns(relative, "relative", "series", x, *_MEAN)
    frame = _from_base(measured, x, base).sort(x, maintain_order=True)
    figure = new_figure(title or f"{quantity} by {x}", x=x)
    figure.update_yaxes(title_text=f"{quantity}, 1 at {base:g} {text(choose_noun_form(base, x.removesuffix('s')))}")
    values = frame[x].unique().sort().to_numpy()
    ideal = values / base if quantity == "speedup" else np.ones(len(values))
    line = {"color": GREY, "dash": "dot", "width": 1.5}
    figure.add_scatter(x=values, y=ideal, mode="lines", line=line, name="perfect scaling")
    _add_lines(figure, frame, x, order, quantity)
    if quantity != "speedup":
        _x_axis(figure, frame[x])
        return from_zero(figure, frame["mean"], pl.Series(ideal), reach=frame["high"])
    _x_axis(figure, frame[x], log=True)
    return log_range(figure, frame["mean"], frame["low"], frame["high"], also=ideal)


def _add_ideal(figure: go.Figure, frame: pl.DataFrame, x: str) -> NDArray[np.float64]:
    """A dotted line per series: the mean of its smallest size, multiplied by the sizes over that size; its values."""
    values = []
    for number, (_, part) in enumerate(groups(frame, "series")):
        sizes = part[x].cast(pl.Float64).to_numpy()
        line = {"color": GREY, "dash": "dot", "width": 1.5}
        shown = {"name": "in proportion to size", "legendgroup": "ideal", "showlegend": number == 0}
        values.append(part["mean"][0] * sizes / sizes[0])
        figure.add_scatter(x=sizes, y=values[-1], mode="lines", line=line, hoverinfo="skip", **shown)
    return np.concatenate(values) if values else np.array([])


def _from_base(relative: pl.DataFrame, x: str, base: float) -> pl.DataFrame:
    """The rows, with the base of each series as 1 without an interval."""
    first = {x: pl.lit(base).cast(relative.schema[x]), "mean": pl.lit(1.0), "is_base": pl.lit(value=True)}
    bases = relative.select("series").unique(maintain_order=True).with_columns(**first)
    kept = relative.filter(pl.col(x) != base).with_columns(is_base=pl.lit(value=False))
    return pl.concat([bases, kept], how="diagonal_relaxed")


#: Where points have their labels, series by series.
_LABELS_AT: Final = ("top center", "bottom center", "middle right", "middle left")


def plot_latency_load(latency: Frame, *, metric: str = "p99_us", title: str = "") -> go.Figure:
    """Latency against the throughput at which it was measured, one line per series, labelled with the threads.

    Args:
        latency: columns `series`, `threads`, `throughput_ops_s`, `mean`, `low`, `high` (of the latency `metric`).
        metric: name of the latency column.
        title: title of the figure.
    """
    needed = ("series", "threads", "throughput_ops_s", *_MEAN)
    frame = convert_with_columns(latency, "latency", *needed).sort("threads", maintain_order=True)
    figure = new_figure(title or f"{label(metric)} against load", x="throughput_ops_s")
    unit, factor = _time_unit(frame["mean"])
    quantity = label(f"{metric.removesuffix('_us')}_latency_{unit}")
    figure.update_yaxes(title_text=text(quantity))
    said = f"%{{customdata}}<br>%{{x:,.0f}} operations/s<br>%{{y:,.4~r}} {'ms' if unit == 'ms' else 'µs'}"
    frame = frame.with_columns(pl.col(*_MEAN) * factor)
    for number, (name, part) in enumerate(groups(frame, "series")):
        shown = {"error_y": error_bars(part, "mean", thickness=1, width=3), **line_and_marks(number)}
        words = [pluralize(threads, "thread") for threads in part["threads"]]
        x, y = part["throughput_ops_s"].to_numpy(), part["mean"].to_numpy()
        # Between the ends of a line, the number alone says enough.
        ends = {0, len(words) - 1}
        labels = [word if at in ends else word.split()[0] for at, word in enumerate(words)]
        place = {"textposition": _LABELS_AT[number % len(_LABELS_AT)], "textfont": {"size": 9}, "cliponaxis": False}
        add_points(figure, x, y, name, "lines+markers+text", said, text=labels, customdata=words, **place, **shown)
    log_range(figure, frame["mean"], frame["low"], frame["high"])
    return figure.update_xaxes(rangemode="tozero")


def _time_unit(values: pl.Series) -> tuple[str, float]:
    """The unit for times in microseconds, `us` or for long ones `ms`, and the factor to it."""
    most = values.cast(pl.Float64).max()
    return ("ms", 1e-3) if isinstance(most, float) and most >= _LONG_US else ("us", 1.0)


def _add_lines(figure: go.Figure, frame: pl.DataFrame, x: str, order: Sequence[str], metric: str) -> list[str]:
    """Add a line for each series, in the given order; the names of those that have one."""
    parts = {str(key[0]): part for key, part in frame.group_by("series", maintain_order=True)}
    names = list(order) or list(parts)
    drawn = [name for name in names if name in parts]
    reading = f"%{{text}}<br>{text(label(metric))}: %{{y:,.4~r}} %{{customdata}}"
    for place, name in enumerate(drawn):
        part = parts[name]
        words = [interval_words(low, high) for low, high in part.select("low", "high").iter_rows()]
        if "is_base" in part.columns:
            words = ["" if base else word for word, base in zip(words, part["is_base"], strict=True)]
        several = part.select(has_interval().any()).item()
        error = error_bars(part, "mean", thickness=1.5, width=4) if several else None
        sizes = [pluralize(size, x.removesuffix("s")) if isinstance(size, int) else f"{size:g}" for size in part[x]]
        said = {"error_y": error, "legendgroup": text(name), "showlegend": True, "text": sizes, "customdata": words}
        at, y = _dodge(part[x], frame[x], place, len(drawn)), part["mean"].to_numpy()
        looks = line_and_marks(names.index(name))
        add_points(figure, at, y, text(name), "lines+markers", reading, **said, **looks)
    return drawn


def _add_runs(
    figure: go.Figure, runs: pl.DataFrame, x: str, metric: str, names: Sequence[str], drawn: Sequence[str]
) -> None:
    for name, part in groups(runs, "series"):
        colour, _, _ = get_style([text(n) for n in names].index(name))
        place = [text(n) for n in drawn].index(name)
        at, y = _dodge(part[x], runs[x], place, len(drawn), _BESIDE), part[metric].to_numpy()
        words = [text(run) for run in part["run_id"]] if "run_id" in part.columns else None
        marker = {"color": "white", "size": 5, "line": {"color": colour, "width": 1}}
        shown = {"legendgroup": name, "showlegend": False, "marker": marker, "text": words}
        add_points(figure, at, y, name, "markers", "%{text}<br>%{y:,.4~r}<extra></extra>", **shown)


def _dodge(values: pl.Series, axis: pl.Series, index: int, count: int, beside: float = 0.0) -> NDArray[np.float64]:
    """Places on the x axis of one of several series that are drawn side by side."""
    shift = (index - (count - 1) / 2) * _DODGE + beside
    span, numbers = _axis_span(axis), values.cast(pl.Float64).to_numpy()
    if span is None:
        return numbers * float(np.exp(shift * np.ptp(np.log(axis.cast(pl.Float64).to_numpy()))))
    return numbers + shift * span


def _axis_span(values: pl.Series) -> float | None:
    """Width of a linear axis; None for a logarithmic one."""
    low, high = float(values.min() or 0), float(values.max() or 0)  # type: ignore[arg-type] # numeric column
    return None if low > 0 and high / low >= _LOG_FROM else max(high - low, 1.0)


def _x_axis(figure: go.Figure, values: pl.Series, *, log: bool = False) -> None:
    ticks = values.unique().sort().to_list()
    kind = "log" if log or _axis_span(values) is None else "linear"
    figure.update_xaxes(type=kind, tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], minor={"ticks": ""})
