"""The sentences, tables and figures that only the shipped notebooks show; any version may change them."""

# ruff: noqa: F401 - notebooks use the names

from __future__ import annotations

from citus_analysis.accounts.beside.sentences import function_rows, gone_rows
from citus_analysis.accounts.explanation_text import (
    carriers_text,
    cause_rows,
    explanation_sentences,
    mechanism_rows,
    statement_rows,
    throughput_rows,
)
from citus_analysis.bottleneck.connection_counts import connection_balance
from citus_analysis.bottleneck.timeline import throttling_over_time
from citus_analysis.plots.bottleneck_figures import plot_percentages, plot_variance, plot_waits
from citus_analysis.plots.comparison_figures import plot_account
from citus_analysis.plots.node_figures import plot_node_heat_map
from citus_analysis.plots.perf_figures import plot_stack_changes, plot_symbols
from citus_analysis.plots.profile_figures import plot_distribution, plot_plan, plot_tasks
from citus_analysis.plots.published_figures import plot_measured_rates, plot_stated_intervals
from citus_analysis.plots.resource_figures import plot_cpu, plot_foreign_work
from citus_analysis.plots.scalability_figures import plot_latency_load, plot_relative
from citus_analysis.plots.server_figures import plot_counts_over_time, plot_measure_over_time, plot_shares
from citus_analysis.plots.trace_figures import plot_flame, plot_heat_map, plot_percentile_profile, plot_tail
from citus_analysis.published._overview import measured_rates, new_orders, published_numbers, rates_not_measured
from citus_analysis.published.published_study import (
    monitoring_comparison,
    published_fits,
    published_identity,
    reconciled_rows,
    reproduced,
)
from citus_analysis.report.bottleneck.bottleneck_tables import (
    absent_measurements,
    configuration_columns,
    demand_rows,
    node_spread,
    program_rows,
    separator_rows,
    session_spread,
    shard_spread,
    shown_verdicts,
    threshold_rows,
    variance_rows,
)
from citus_analysis.report.bottleneck.bottleneck_text import (
    balance_sentences,
    bottleneck_sentences,
    connection_sentences,
    curve_figures,
    demand_sentences,
    node_load_figures,
    run_variance_sentences,
    shown_run,
)
from citus_analysis.report.bottleneck.prediction_text import network_predictions
from citus_analysis.report.comparison_sentences import alone_sentences, comparison_sentences, order_warnings
from citus_analysis.report.difference_accounts import account_sentences, account_table, account_with_stacks, accounts_of
from citus_analysis.report.other_pairs import other_pairs, other_pairs_table, pair_sentences
from citus_analysis.report.over_time.track_text import (
    changes_table,
    column_values,
    series_table,
    track_figures,
    track_sentences,
    tracked_datasets,
)
from citus_analysis.report.profile_text import profile_sentences, profile_warnings
from citus_analysis.report.published_text import (
    band_sentence,
    claim_rows,
    claims_sentence,
    findings_table,
    fit_sentences,
    monitoring_sentence,
    published_sentences,
    published_warnings,
)
from citus_analysis.report.resources_text import name_run, resource_sentences, shown_throttling, throttling_warnings
from citus_analysis.report.scalability import outside_series
from citus_analysis.report.scalability_text import (
    IN_OPENING,
    growth_sentences,
    hardware_sentence,
    model_sentences,
    opening_sentences,
    scalability_warnings,
)
from citus_analysis.report.server_text import (
    change_sentences,
    coverage_table,
    distributed_notes,
    group_tables,
    percentile_notes,
    ratio_table,
    reader_columns,
    server_sentences,
    shown_counts,
    shown_percentiles,
    shown_statements,
)
from citus_analysis.report.side_by_side import overhead_sentences
from citus_analysis.report.study_figures import show_study
from citus_analysis.scaling.load import latency_by_load
from citus_analysis.scaling.queueing.resource_demands import first_to_saturate, load_bounds, resource_demands
from citus_analysis.serverlogs.activity_tables import summarise_lock_waits
from citus_analysis.serverlogs.error_tables import errors_over_time
from citus_analysis.serverlogs.session_tables import connection_times, summarise_sessions
from citus_analysis.spans.analyse.beside_clients import in_milliseconds, parts_by_configuration, states_by_configuration
from citus_analysis.spans.analyse.composition import fan_out_profile
from citus_analysis.spans.analyse.followed import trace_studies
from citus_analysis.spans.analyse.time_cells import percentiles_over_time, summed_time
