"""Functions that draw the figure of a result.

Results belong to lower layers than figures. The package, which is above both, registers the function that draws them
(`draw_results_by`), and results call it without importing its module (`figure_of_result`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from plotly.graph_objects import Figure

_draws: list[Callable[[object], Figure]] = []


def draw_results_by(draw: Callable[[object], Figure]) -> None:
    """Register the function that draws results.

    Args:
        draw: function from a result to its figure.
    """
    _draws[:] = [draw]


def figure_of_result(result: object) -> Figure:
    """The figure that shows a result.

    Raises:
        UsageError: results of this kind have no figure.
    """
    (draw,) = _draws
    return draw(result)
