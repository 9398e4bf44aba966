"""The theme of all figures: fonts legible in print, units on axes, colours that colour-blind readers can distinguish.

Colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which remain distinct under the common
colour-vision deficiencies. Marker symbols and dashes change along with them, so that figures also work in grey.
Figures have no fixed width: they fill the page, also on a phone.

Example:
    >>> figure = new_figure("Throughput by workers", x="workers", y="throughput_ops_s")
    >>> figure.layout.yaxis.title.text
    'throughput [operations/s]'
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.errors import UsageError
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import make_natural_expr
from citus_analysis.units import label

#: Okabe-Ito without yellow, which vanishes on white; in the order in which series take them.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
GREY: Final = "#6b7280"
HEIGHT: Final = 420

#: Parts of a statement's time, in the order in which they are stacked -> colour in every figure.
PART_COLOURS: Final = {
    "parent": COLOURS[0],
    "between": COLOURS[1],
    "child": COLOURS[2],
    "local": COLOURS[4],
    "connect": COLOURS[3],
    "parse": COLOURS[5],
    "bind": COLOURS[6],
}
#: Systems, as the column `system` names them.
SYSTEM_COLOURS: Final = {
    "citus": COLOURS[0],
    "postgresql": COLOURS[2],
    "aurora": COLOURS[5],
    "spanner": COLOURS[3],
}

#: Luminance on which black and white stand out equally (WCAG).
_MIDDLE: Final = 0.179
#: Colours that the dark scheme of pages lightens.
_LIGHTENED: Final = frozenset({COLOURS[0], COLOURS[6], GREY.upper()})
_INK: Final = "#1f2933"
_GRID: Final = "#e4e7eb"
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
_AXIS: Final = {
    "automargin": True,
    "exponentformat": "none",
    "gridcolor": _GRID,
    "linecolor": "#9aa5b1",
    "separatethousands": True,
    "showline": True,
    "tickcolor": "#9aa5b1",
    "ticks": "outside",
    "title": {"font": {"size": 14}, "standoff": 10},
    "zeroline": False,
}

TEMPLATE: Final = go.layout.Template(
    layout={
        "autosize": True,
        "colorway": COLOURS,
        "font": {"family": _FONT, "size": 13, "color": _INK},
        "hoverlabel": {"font": {"family": _FONT, "size": 13}, "align": "left"},
        "hovermode": "closest",
        # Below the plot, measured from the figure's edge: plotly then reserves its height at any width.
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "xanchor": "left",
            "traceorder": "normal",
        },
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "separators": ".,",
        "title": {"font": {"size": 16}, "x": 0, "xref": "paper", "automargin": True, "yref": "container"},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
)


def text(value: object) -> str:
    """A value as text for a figure, escaped, because Plotly reads a subset of HTML in every text."""
    return escape(str(value), quote=False)


def new_figure(title: str, *, x: str | None = None, y: str | None = None, height: int = HEIGHT) -> go.Figure:
    """An empty figure in the library's theme.

    Args:
        title: title of the figure; plain text.
        x: column on the x axis; its label has the unit of the name's suffix.
        y: column on the y axis.
        height: height in pixels; the width is that of the surrounding page element.
    """
    figure = go.Figure(layout={"template": TEMPLATE, "title": {"text": text(title)}, "height": height})
    if x is not None:
        figure.update_xaxes(title_text=text(label(x)))
    if y is not None:
        figure.update_yaxes(title_text=text(label(y)))
    return figure


def get_style(number: int) -> tuple[str, str, str]:
    """Colour, marker symbol and dash of the n-th series (from 0)."""
    return COLOURS[number % len(COLOURS)], SYMBOLS[number % len(SYMBOLS)], DASHES[number // len(COLOURS) % len(DASHES)]


def assign_colours(names: Sequence[str]) -> dict[str, str]:
    """Colours of names: fixed colours of known names, and for the others the free colours of the palette in turn.

    Args:
        names: names, such as systems, in the order of the legend.

    Example:
        >>> assign_colours(["citus", "x", "aurora"]) == {"citus": "#0072B2", "x": "#D55E00", "aurora": "#E69F00"}
        True
    """
    fixed = {name: SYSTEM_COLOURS[name] for name in names if name in SYSTEM_COLOURS}
    free = [colour for colour in COLOURS if colour not in fixed.values()] or list(COLOURS)
    others = [name for name in dict.fromkeys(names) if name not in fixed]
    return fixed | {name: free[place % len(free)] for place, name in enumerate(others)}


def fade(colour: str, alpha: float = 0.15) -> str:
    """A `#rrggbb` colour with transparency, for bands.

    Example:
        >>> fade("#0072B2")
        'rgba(0, 114, 178, 0.15)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {alpha:g})"


def ink_on(colour: str) -> str:
    """White or black, the one with more contrast to a colour, also in the page's dark scheme.

    That scheme (`report/templates/page.js`) lightens some colours, and inverts `#ffffff`, but not `#fffffe`.

    Example:
        >>> ink_on("#3b5b7a"), ink_on("#0072B2"), ink_on("#E69F00")
        ('#fffffe', '#ffffff', '#000001')
    """
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    if 0.2126 * red + 0.7152 * green + 0.0722 * blue >= _MIDDLE:
        return "#000001"
    return "#ffffff" if colour.upper() in _LIGHTENED else "#fffffe"


def add_bars(
    figure: go.Figure, x: object, y: object, name: str | None, colour: object, said: str, **others: object
) -> None:
    """Bars of one colour, or of one each, whose hover text `said` ends with their name or what it says instead."""
    figure.add_bar(x=x, y=y, name=name, marker={"color": colour}, hovertemplate=_with_name(said), **others)


def add_points(figure: go.Figure, x: object, y: object, name: str, mode: str, said: str, **others: object) -> None:
    """Markers or lines, whose hover text `said` ends with their name or what it says instead."""
    figure.add_scatter(x=x, y=y, name=name, mode=mode, hovertemplate=_with_name(said), **others)


def _with_name(said: str) -> str:
    return said if "<extra>" in said else f"{said}<extra>%{{fullData.name}}</extra>"


def add_band(figure: go.Figure, x: object, begin: object, end: object, fill: str, **others: object) -> None:
    """An area between two lines that are not drawn; `others` are properties of the area in the legend."""
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure.add_scatter(x=x, y=begin, showlegend=False, **edge)
    figure.add_scatter(x=x, y=end, fill="tonexty", fillcolor=fill, **edge, **(others or {"showlegend": False}))


def groups(frame: pl.DataFrame, by: str) -> Sequence[tuple[str, pl.DataFrame]]:
    """The parts of a frame by the values of one column, in order of appearance, with their names as figure text."""
    return [(text(key[0]), part) for key, part in frame.group_by(by, maintain_order=True)]


def name_rows(figure: go.Figure, names: Sequence[str]) -> go.Figure:
    """Write names, which are text of the figure, beside its rows, which are numbered from 0 at the top."""
    places = list(range(len(names)))
    return figure.update_yaxes(tickvals=places, ticktext=list(names), autorange="reversed", showgrid=False)


def line_and_marks(number: int, size: float = 8) -> dict[str, object]:
    """Line and marks of the n-th series (from 0)."""
    colour, symbol, dash = get_style(number)
    line = {"color": colour, "dash": dash, "width": 1.5}
    return {"line": line, "marker": {"color": colour, "symbol": symbol, "size": size}}


# The check that a figure's table has the required columns, and the order of names in figures.


def convert_with_columns(frame: Frame, name: str, *columns: str) -> pl.DataFrame:
    """A caller's table as a polars frame with the columns that a figure needs.

    Args:
        frame: the table.
        name: the caller's name for the table.
        columns: the columns required.

    Raises:
        UsageError: columns are missing; the message names them and the columns of the table.

    Example:
        >>> convert_with_columns(pl.DataFrame({"mean_us": [1.0]}), "profile", "name", "mean_us")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: the table `profile` lacks name (it has: mean_us)
    """
    table = convert_to_polars(frame)
    missing = [column for column in dict.fromkeys(columns) if column not in table.columns]
    if missing:
        there = f"it has: {', '.join(table.columns)}" if table.columns else "it has no columns"
        raise UsageError(f"the table `{name}` lacks {', '.join(missing)}", hint=there)
    return table


def in_natural_order(frame: pl.DataFrame, name: str, *then: str) -> pl.DataFrame:
    """Rows sorted by the numbers within a name, so that node 10 comes after node 9, then by other columns.

    Example:
        >>> in_natural_order(pl.DataFrame({"node": ["10", "9"]}), "node")["node"].to_list()
        ['9', '10']
    """
    known = frame.select(pl.col(name).unique())
    order = known.sort(make_natural_expr(name), nulls_last=True).with_row_index("_order")
    return frame.join(order, on=name, how="left", nulls_equal=True).sort("_order", *then).drop("_order")


# Intervals in figures: as error bars, in the text of marks, and as limits of axes.

#: An interval of few runs can reach far beyond the measured values; the axis extends to at most this factor of them.
_REACH: Final = 2.0
_HEADROOM: Final = 1.05
#: Ticks of a logarithmic axis of ratios.
_STEPS: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
#: Ticks of axes with larger values, such as times.
_DECADES: Final = tuple(step * 10**power for power in range(-2, 8) for step in (1, 2, 5))


def has_interval(low: str = "low", high: str = "high") -> pl.Expr:
    """Whether a row has an interval; a single run has none."""
    return (pl.col(low).is_finite() & pl.col(high).is_finite()).fill_null(value=False)


def error_bars(
    frame: pl.DataFrame, centre: str, low: str = "low", high: str = "high", **style: object
) -> dict[str, object]:
    """Plotly's error bars from the ends of intervals; rows without an interval have none."""
    known, middle = has_interval(low, high), pl.col(centre)
    lengths = frame.select(
        array=pl.when(known).then(pl.col(high) - middle), arrayminus=pl.when(known).then(middle - pl.col(low))
    )
    return {length.name: _numbers(length) for length in lengths} | style


def interval_words(low: float | None, high: float | None) -> str:
    """An interval in the text of a mark.

    Example:
        >>> interval_words(9.5, 10_250.0), interval_words(None, None)
        ('[9.5, 10,250]', '(one run: no interval)')
    """
    if low is None or high is None or not np.isfinite([low, high]).all():
        return "(one run: no interval)"
    return f"[{format_number(low)}, {format_number(high)}]"


def from_zero(figure: go.Figure, *measured: pl.Series, reach: pl.Series) -> go.Figure:
    """A y axis from 0 to the largest value, or to the upper end of the intervals, at most twice the largest value.

    Args:
        figure: the figure, with a linear y axis of a quantity that is not negative.
        measured: values that must be visible.
        reach: upper ends of their intervals.
    """
    largest = max((_largest(values) for values in measured), default=0.0)
    if largest <= 0:
        return figure.update_yaxes(rangemode="tozero")
    top = max(largest, min(_largest(reach), _REACH * largest))
    return figure.update_yaxes(range=[0, _HEADROOM * top])


def log_range(
    figure: go.Figure, measured: pl.Series, low: pl.Series, high: pl.Series, also: NDArray[np.float64] | None = None
) -> go.Figure:
    """A logarithmic y axis around the measured values and their intervals, extended by at most a factor of two.

    Args:
        figure: the figure.
        measured: positive values that must be visible.
        low: lower ends of their intervals.
        high: upper ends.
        also: further values that must be visible.
    """
    values = np.concatenate([_numbers(measured), *([] if also is None else [also])])
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return figure.update_yaxes(type="log")
    ends = _numbers(low)
    lowest = np.min(ends, initial=np.inf, where=np.isfinite(ends) & (ends > 0))
    bottom = min(values.min(), max(lowest, values.min() / _REACH))
    top = max(values.max(), min(_largest(high), _REACH * values.max()))
    ticks = _STEPS if top <= _STEPS[-1] else _DECADES
    steps = [step for step in ticks if bottom / _HEADROOM <= step <= top * _HEADROOM]
    names = [f"{step:,g}" for step in steps]
    edges = [float(np.log10(bottom / _HEADROOM)), float(np.log10(top * _HEADROOM))]
    return figure.update_yaxes(type="log", range=edges, tickvals=steps, ticktext=names, minor={"ticks": ""})


def _largest(values: pl.Series) -> float:
    numbers = _numbers(values)
    return float(np.max(numbers, initial=0.0, where=np.isfinite(numbers)))


def _numbers(values: pl.Series) -> NDArray[np.float64]:
    return values.cast(pl.Float64).to_numpy()
