"""Figures: functions from tables (polars, pandas or Arrow) to plotly figures in one common theme."""

from citus_analysis.core.displays import public
from citus_analysis.plots.bottleneck_figures import plot_percentages, plot_throughput_curves, plot_variance, plot_waits
from citus_analysis.plots.comparison_figures import plot_bars, plot_ratios
from citus_analysis.plots.node_figures import plot_connections, plot_node_heat_map, plot_nodes
from citus_analysis.plots.perf_figures import plot_flame_graph, plot_symbols
from citus_analysis.plots.profile_figures import plot_distribution, plot_histograms, plot_plan, plot_spans, plot_tasks
from citus_analysis.plots.published_figures import plot_fits, plot_measured_rates, plot_stated_intervals
from citus_analysis.plots.resource_figures import plot_cpu, plot_device
from citus_analysis.plots.scalability_figures import plot_latency_load, plot_relative, plot_series
from citus_analysis.plots.server_figures import plot_counts_over_time, plot_measure_over_time, plot_shares, plot_track
from citus_analysis.plots.theme import TEMPLATE, new_figure
from citus_analysis.plots.trace_figures import (
    plot_flame,
    plot_heat_map,
    plot_percentile_profile,
    plot_profile,
    plot_tail,
    plot_waterfall,
)

__all__ = [
    "TEMPLATE",
    "new_figure",
    "plot_bars",
    "plot_connections",
    "plot_counts_over_time",
    "plot_cpu",
    "plot_device",
    "plot_distribution",
    "plot_fits",
    "plot_flame",
    "plot_flame_graph",
    "plot_heat_map",
    "plot_histograms",
    "plot_latency_load",
    "plot_measure_over_time",
    "plot_measured_rates",
    "plot_node_heat_map",
    "plot_nodes",
    "plot_percentages",
    "plot_percentile_profile",
    "plot_plan",
    "plot_profile",
    "plot_ratios",
    "plot_relative",
    "plot_series",
    "plot_shares",
    "plot_spans",
    "plot_stated_intervals",
    "plot_symbols",
    "plot_tail",
    "plot_tasks",
    "plot_throughput_curves",
    "plot_track",
    "plot_variance",
    "plot_waits",
    "plot_waterfall",
]

__dir__ = public(__all__)
