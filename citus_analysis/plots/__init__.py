"""Figures: functions from tables (polars, pandas or Arrow) to plotly figures in one common theme."""

from citus_analysis.plots.comparison_figures import plot_ratios
from citus_analysis.plots.node_figures import plot_connections, plot_nodes
from citus_analysis.plots.perf_figures import plot_flame_graph
from citus_analysis.plots.profile_figures import plot_histograms, plot_spans
from citus_analysis.plots.published_figures import plot_fits
from citus_analysis.plots.resource_figures import plot_device
from citus_analysis.plots.scalability_figures import plot_series
from citus_analysis.plots.theme import new_figure
from citus_analysis.plots.trace_figures import plot_profile, plot_waterfall
from citus_analysis.public_names import public

__all__ = [
    "new_figure",
    "plot_connections",
    "plot_device",
    "plot_fits",
    "plot_flame_graph",
    "plot_histograms",
    "plot_nodes",
    "plot_profile",
    "plot_ratios",
    "plot_series",
    "plot_spans",
    "plot_waterfall",
]

__dir__, __getattr__ = public(__name__, __all__)
