"""Functions that draw the figure of a result.

Results belong to lower layers than figures. The package, which is above both, names the function that draws them
(`draw_results_by`), and a result calls it without knowing the module that it is in (`figure_of_result`).
"""

from __future__ import annotations

# As in `typing`, of which the import would double the time that `import citus_analysis` takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from plotly.graph_objects import Figure

__all__ = ["draw_results_by", "figure_of_result"]

_draws: list[Callable[[object], Figure]] = []


def draw_results_by(draw: Callable[[object], Figure]) -> None:
    """Draw results by a function from now on.

    Args:
        draw: takes a result and gives its figure.
    """
    _draws[:] = [draw]


def figure_of_result(result: object) -> Figure:
    """The figure that shows a result.

    Raises:
        UsageError: results of this kind have no figure.
    """
    (draw,) = _draws
    return draw(result)
