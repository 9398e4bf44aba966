"""The sentences, tables and figures that only the shipped notebooks show; any version may change them."""

from __future__ import annotations

from citus_analysis.attribution.function_changes import tabulate_functions, tabulate_removed_functions
from citus_analysis.attribution.sentences import (
    describe_top_contributors,
    tabulate_causes,
    tabulate_correlated_changes,
    tabulate_statement_changes,
    tabulate_throughput_parts,
)
from citus_analysis.bottleneck.machine_work import place_text
from citus_analysis.plots.bottleneck_figures import (
    plot_percentages,
    plot_predicted_ratios,
    plot_variance,
    plot_waits,
)
from citus_analysis.plots.comparison_figures import plot_account
from citus_analysis.plots.node_figures import plot_node_heat_map
from citus_analysis.plots.perf_figures import plot_stack_changes, plot_symbols
from citus_analysis.plots.profile_figures import plot_distribution, plot_plan, plot_tasks
from citus_analysis.plots.published_figures import plot_stated_intervals
from citus_analysis.plots.resource_figures import plot_cpu, plot_foreign_work
from citus_analysis.plots.scalability_figures import plot_relative
from citus_analysis.plots.server_figures import plot_counts_over_time, plot_measure_over_time, plot_shares
from citus_analysis.plots.trace_figures import plot_flame, plot_heat_map, plot_percentile_profile, plot_tail
from citus_analysis.published.open_questions import answer_open_questions
from citus_analysis.published.owner_routing import estimate_owner_routing
from citus_analysis.published.study import compute_published_identity, reconcile_published_rows, reproduce_tables
from citus_analysis.report.bottleneck import (
    choose_shown_run,
    demand_rows,
    list_configuration_columns,
    plot_node_loads,
    select_shown_verdicts,
    state_balance,
    state_connections,
    state_demands,
    state_limits,
    state_run_variance,
    tabulate_missing_measurements,
    tabulate_node_balance,
    tabulate_programs,
    tabulate_separators,
    tabulate_session_balance,
    tabulate_shard_balance,
    tabulate_thresholds,
    tabulate_variance_sources,
)
from citus_analysis.report.resources import name_run
from citus_analysis.report.server import (
    drop_technical_columns,
    format_shown_statements,
    select_shown_counts,
    select_shown_plan_changes,
)
from citus_analysis.report.study_figures import show_study
from citus_analysis.report.track import read_tracked_datasets
from citus_analysis.scaling.demands import compute_resource_demands, find_first_to_saturate, load_bounds
from citus_analysis.scaling.what_if import study_what_if
from citus_analysis.serverlogs.profile import (
    count_connections_over_time,
    count_errors_over_time,
    summarise_lock_waits,
    summarise_sessions,
)
from citus_analysis.spans.composition import compute_fan_out_profile
from citus_analysis.spans.distribution import compute_percentiles_over_time, sum_statement_times
from citus_analysis.spans.profile import compute_parts_by_configuration, convert_us_to_ms, states_by_configuration

# ruff: noqa: F401 - notebooks use the names
