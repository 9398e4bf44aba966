"""Intervals in figures: as error bars, in the text of marks, and as limits of axes."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl
from numpy.typing import NDArray

from citus_analysis.texts.number_text import readable

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
    return f"[{readable(low)}, {readable(high)}]"


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
