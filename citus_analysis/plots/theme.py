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

import plotly.graph_objects as go
import polars as pl

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


def style_of(number: int) -> tuple[str, str, str]:
    """Colour, marker symbol and dash of the n-th series (from 0)."""
    return COLOURS[number % len(COLOURS)], SYMBOLS[number % len(SYMBOLS)], DASHES[number // len(COLOURS) % len(DASHES)]


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Colours of names: fixed colours of known names, and for the others the free colours of the palette in turn.

    Args:
        names: names, such as systems, in the order of the legend.

    Example:
        >>> colours_of(["citus", "x", "aurora"]) == {"citus": "#0072B2", "x": "#D55E00", "aurora": "#E69F00"}
        True
    """
    fixed = {name: SYSTEM_COLOURS[name] for name in names if name in SYSTEM_COLOURS}
    free = [colour for colour in COLOURS if colour not in fixed.values()] or list(COLOURS)
    others = [name for name in dict.fromkeys(names) if name not in fixed]
    return fixed | {name: free[place % len(free)] for place, name in enumerate(others)}


def faded(colour: str, alpha: float = 0.15) -> str:
    """A `#rrggbb` colour with transparency, for bands.

    Example:
        >>> faded("#0072B2")
        'rgba(0, 114, 178, 0.15)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {alpha:g})"


def ink_on(colour: str) -> str:
    """White or black, the one with more contrast to a colour, also in the page's dark scheme.

    That scheme (`report/engine/templates/page.js`) lightens some colours, and inverts `#ffffff`, but not `#fffffe`.

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
    colour, symbol, dash = style_of(number)
    line = {"color": colour, "dash": dash, "width": 1.5}
    return {"line": line, "marker": {"color": colour, "symbol": symbol, "size": size}}
