"""Figures of limits: the matrix of utilisations, waits of sessions, and the terms of a variance."""

from __future__ import annotations

from textwrap import wrap
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.plots.theme import (
    GREY,
    add_bars,
    convert_with_columns,
    get_style,
    groups,
    new_figure,
    text,
)
from citus_analysis.texts.words import pluralize

_ROW: Final = 26
#: Waits with a colour of their own: the size of the palette.
_MOST_WAITS: Final = 7
_WAITS: Final = ("resource", "run_id", "role", "doing", "event", "average_sessions")
#: Metrics of logs that are written after the bars -> short names.
_LOGGED: Final = {"lock waits longer than deadlock_timeout": "lock waits", "deadlocks": "deadlocks"}
#: Length of the axis relative to the longest bar, if there is text after bars.
_ROOM: Final = 2.0
#: Characters of a line of a metric's name.
_LABEL: Final = 34
#: The number in a cell is legible on the colours of both ends.
_SCALE: Final = ((0.0, "#f7fbff"), (0.5, "#9ecae1"), (0.9, "#E69F00"), (1.0, "#D55E00"))
#: Height of a configuration's row, and of the slanted names of the metrics above the rows and the scale below them.
_CELL: Final = 17
_HEAD: Final = 260
#: Configurations up to which cells have their number.
_MOST_NUMBERS: Final = 60
_SCALE_BELOW: Final = {
    "orientation": "h",
    "x": 0,
    "xanchor": "left",
    "y": 0,
    "yanchor": "top",
    "len": 200,
    "lenmode": "pixels",
    "thickness": 10,
    "tickvals": [0, 50, 100],
    "ticktext": ["0 %", "50 %", "100 %"],
}


def plot_percentages(matrix: Frame, *, title: str = "Shares of capacity and of session time") -> go.Figure:
    """All measurements in per cent as a heat map: a row for each configuration, the largest value of all nodes.

    Args:
        matrix: columns `resource`, `part`, `metric`, `value`, `unit`.
        title: title of the figure.
    """
    frame = convert_with_columns(matrix, "matrix", "resource", "part", "metric", "value", "unit")
    shares = frame.filter((pl.col("unit") == "%") & pl.col("value").is_not_null())
    named = shares.with_columns(metric=pl.format("{}: {}", "part", "metric"))
    largest = named.group_by("resource", "metric", maintain_order=True).agg(pl.col("value").max())
    wide = largest.pivot("metric", index="resource", values="value").sort("resource")
    metrics = [name for name in wide.columns if name != "resource"]
    names = [text(name) for name in wide["resource"]]
    # Names of configurations are long, so they have a row each, where they are horizontal.
    figure = new_figure(title, height=_HEAD + _CELL * max(1, wide.height))
    figure.add_heatmap(
        x=["<br>".join(wrap(text(name), _LABEL)) for name in metrics],
        y=names if metrics else [],
        z=wide.select(metrics).to_numpy(),
        zmin=0,
        zmax=100,
        xgap=1,
        ygap=1,
        colorscale=[list(stop) for stop in _SCALE],
        texttemplate="%{z:.0f}" if wide.height <= _MOST_NUMBERS else "",
        textfont={"size": 9},
        hovertemplate="%{y}<br>%{x}<br>%{z:.1f} %<extra></extra>",
        colorbar=_SCALE_BELOW,
    )
    figure.update_yaxes(autorange="reversed", automargin=True, tickfont={"size": 9}, dtick=1)
    return figure.update_xaxes(side="top", tickangle=-90, automargin=True, tickfont={"size": 9}, dtick=1)


def plot_waits(
    waits: Frame, matrix: Frame | None = None, *, title: str = "Average active sessions by wait event"
) -> go.Figure:
    """Average active sessions as stacked bars: one bar for each resource, one colour for each role and event.

    Args:
        waits: columns `resource`, `run_id`, `role`, `doing`, `event`, `average_sessions`.
        matrix: columns `resource`, `metric`, `value`; the numbers of lock waits and deadlocks in the logs are
            written after the bar of their resource.
        title: title of the figure.
    """
    means, shown = _mean_waits(convert_with_columns(waits, "waits", *_WAITS))
    figure = new_figure(title, height=140 + _ROW * means["resource"].n_unique() + 60)
    for number, name in enumerate(shown):
        part = means.filter(series=name)
        colour = get_style(number)[0] if number < _MOST_WAITS else GREY
        x, y = part["sessions"].to_numpy(), [text(resource) for resource in part["resource"]]
        add_bars(figure, x, y, text(name), colour, "%{x:.2f} sessions", orientation="h")
    if matrix is not None:
        _add_logged(figure, means, convert_with_columns(matrix, "matrix", "resource", "metric", "value"))
    figure.update_xaxes(title_text="active sessions").update_yaxes(automargin=True)
    return figure.update_layout(barmode="stack")


def _mean_waits(waits: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Mean sessions per resource and series, and the series, the largest first; small ones are combined at the end."""
    workers = "waits for workers"
    what = pl.when(pl.col("doing") == workers).then(pl.lit(workers)).otherwise("event")
    labelled = waits.with_columns(series=pl.format("{}: {}", "role", what))
    # In their order, because sums in another order differ in the last digit.
    sums = labelled.group_by("resource", "run_id", "series", maintain_order=True).agg(pl.col("average_sessions").sum())
    means = (
        sums.group_by("resource", "series", maintain_order=True)
        .agg(pl.col("average_sessions").sum())
        .join(sums.group_by("resource").agg(runs=pl.col("run_id").n_unique()), on="resource")
        .with_columns(sessions=pl.col("average_sessions") / pl.col("runs"))
        .sort("sessions", "resource", "series", descending=[True, False, False])
    )
    totals = means.group_by("series").agg(pl.col("sessions").sum())
    largest = totals.sort("sessions", "series", descending=[True, False])
    kept = largest["series"].head(_MOST_WAITS).to_list()
    rest = pluralize(largest.height - len(kept), "other wait")
    named = means.with_columns(series=pl.when(pl.col("series").is_in(kept)).then("series").otherwise(pl.lit(rest)))
    means = named.group_by("resource", "series", maintain_order=True).agg(pl.col("sessions").sum())
    return means, [*kept, *([rest] if rest in means["series"] else [])]


def _add_logged(figure: go.Figure, means: pl.DataFrame, matrix: pl.DataFrame) -> None:
    """Write the numbers of lock waits and deadlocks in the logs after the bars: the largest number of any node."""
    words = pl.col("metric").replace_strict(_LOGGED, default=None)
    counts = matrix.filter(pl.col("metric").is_in(list(_LOGGED)) & (pl.col("value") > 0)).sort("value", descending=True)
    said = counts.unique(["resource", "metric"], keep="first", maintain_order=True).with_columns(
        said=pl.format("{} {}", pl.col("value").round(0).cast(pl.Int64), words)
    )
    bars = means.group_by("resource", maintain_order=True).agg(pl.col("sessions").sum())
    lines = said.group_by("resource").agg(pl.col("said").str.join("<br>"))
    ends = bars.join(lines, on="resource", maintain_order="left")
    if ends.is_empty():
        return
    x, y = ends["sessions"].to_numpy(), [text(resource) for resource in ends["resource"]]
    looks = {"textfont": {"size": 10}, "textposition": "middle right", "showlegend": False, "hoverinfo": "skip"}
    figure.add_scatter(x=x, y=y, mode="text", text=[f" log: {one}" for one in ends["said"]], name="log", **looks)
    figure.update_xaxes(range=[0, _ROOM * float(bars["sessions"].to_numpy().max())])


def plot_variance(variance: Frame, *, title: str = "Terms of Var(T)") -> go.Figure:
    """Share of each term of Var(T), one bar per configuration and kind of statement; covariances may be negative.

    Args:
        variance: columns `resource`, `statement_kind`, `term`, `share`.
        title: title of the figure.
    """
    frame = convert_with_columns(variance, "variance", "resource", "statement_kind", "term", "share")
    kind = pl.col("statement_kind").cast(pl.String).str.to_uppercase()
    several = pl.col("statement_kind").n_unique().over("resource") > 1
    named = frame.with_columns(
        row=pl.when(several).then(pl.format("{}, {}", "resource", kind)).otherwise(pl.col("resource").cast(pl.String))
    )
    figure = new_figure(title, height=160 + _ROW * named["row"].n_unique())
    for number, (term, part) in enumerate(groups(named, "term")):
        shares, rows = (part["share"] * 100).to_numpy(), [text(row) for row in part["row"]]
        add_bars(figure, shares, rows, text(term), get_style(number)[0], "%{x:.1f} %", orientation="h")
    figure.update_xaxes(title_text="share of Var(T) [%]", zeroline=True).update_yaxes(automargin=True)
    return figure.update_layout(barmode="relative")


def plot_predicted_ratios(
    predictions: Frame, *, title: str = "Throughput after a change over that before"
) -> go.Figure:
    """Predicted ratios of throughputs with their intervals, and the measured ones beside them.

    Args:
        predictions: columns `base`, `change`, `ratio`, `ratio_low`, `ratio_high`, `measured_ratio`, as
            :func:`citus_analysis.scaling.what_if.study_what_if` gives them.
        title: title of the figure.
    """
    columns = ("base", "change", "ratio", "ratio_low", "ratio_high", "measured_ratio")
    frame = convert_with_columns(predictions, "predictions", *columns)
    rows = frame.with_columns(row=pl.format("{}, {}", "base", "change"))
    figure = new_figure(title, height=160 + _ROW * max(rows.height, 1))
    names = [text(row) for row in rows["row"]]
    reach = {
        "type": "data",
        "symmetric": False,
        "array": (rows["ratio_high"] - rows["ratio"]).to_list(),
        "arrayminus": (rows["ratio"] - rows["ratio_low"]).to_list(),
    }
    figure.add_scatter(
        x=rows["ratio"].to_list(), y=names, error_x=reach, mode="markers", name="predicted",
        marker={"color": get_style(0)[0]}, hovertemplate="%{y}<br>%{x:.3~g}<extra>predicted</extra>",
    )  # fmt: skip
    measured = rows.with_columns(name=pl.Series(names, dtype=pl.String)).drop_nulls("measured_ratio")
    figure.add_scatter(
        x=measured["measured_ratio"].to_list(), y=measured["name"].to_list(), mode="markers", name="measured",
        marker={"color": "#000000", "symbol": "diamond-open", "size": 9},
        hovertemplate="%{y}<br>%{x:.3~g}<extra>measured</extra>",
    )  # fmt: skip
    figure.add_vline(x=1.0, line={"color": "#888888", "dash": "dot", "width": 1})
    figure.update_xaxes(title_text="throughput after over before", type="log")
    return figure.update_yaxes(automargin=True, autorange="reversed")
