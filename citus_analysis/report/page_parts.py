"""The sentences, tables and figures that only the shipped notebooks show; any version may change them.

Each is imported when it is first used: a report needs few of them.
"""

from __future__ import annotations

from typing import Final

import lazy_loader

_NAMES: Final = {
    "accounts.explanation_text": ["cause_rows", "explanation_sentences", "mechanism_rows"],
    "bottleneck.connection_counts": ["connection_balance"],
    "bottleneck.timeline": ["throttling_over_time"],
    "plots.bottleneck_figures": ["plot_percentages", "plot_variance", "plot_waits"],
    "plots.comparison_figures": ["plot_account"],
    "plots.node_figures": ["plot_node_heat_map"],
    "plots.perf_figures": ["plot_symbols"],
    "plots.profile_figures": ["plot_distribution", "plot_plan", "plot_tasks"],
    "plots.published_figures": ["plot_measured_rates", "plot_stated_intervals"],
    "plots.resource_figures": ["plot_cpu"],
    "plots.scalability_figures": ["plot_latency_load", "plot_relative"],
    "plots.server_figures": ["plot_counts_over_time", "plot_measure_over_time", "plot_shares"],
    "plots.trace_figures": ["plot_flame", "plot_heat_map", "plot_percentile_profile", "plot_tail"],
    "published._overview": ["measured_rates", "new_orders", "published_numbers", "rates_not_measured"],
    "published.published_study": ["monitoring_comparison", "published_identity", "reconciled_rows", "reproduced"],
    "report.bottleneck.bottleneck_tables": [
        "absent_measurements",
        "configuration_columns",
        "demand_rows",
        "node_spread",
        "program_rows",
        "separator_rows",
        "session_spread",
        "shard_spread",
        "shown_verdicts",
        "threshold_rows",
        "variance_rows",
    ],
    "report.bottleneck.bottleneck_text": [
        "balance_sentences",
        "bottleneck_sentences",
        "connection_sentences",
        "curve_figures",
        "demand_sentences",
        "node_load_figures",
        "run_variance_sentences",
        "shown_run",
    ],
    "report.bottleneck.prediction_text": ["network_predictions"],
    "report.comparison_sentences": ["alone_sentences", "comparison_sentences", "order_warnings"],
    "report.difference_accounts": ["account_sentences", "account_table", "accounts_of"],
    "report.other_pairs": ["other_pairs", "other_pairs_table", "pair_sentences"],
    "report.over_time.track_text": [
        "changes_table",
        "column_values",
        "series_table",
        "track_figures",
        "track_sentences",
        "tracked_datasets",
    ],
    "report.profile_text": ["profile_sentences", "profile_warnings"],
    "report.published_text": [
        "band_sentence",
        "findings_table",
        "monitoring_sentence",
        "published_sentences",
        "published_warnings",
    ],
    "report.resources_text": ["resource_sentences", "shown_throttling", "throttling_warnings"],
    "report.scalability": ["outside_series"],
    "report.scalability_text": [
        "IN_OPENING",
        "growth_sentences",
        "hardware_sentence",
        "model_sentences",
        "opening_sentences",
        "scalability_warnings",
    ],
    "report.server_text": [
        "change_sentences",
        "coverage_table",
        "distributed_notes",
        "group_tables",
        "percentile_notes",
        "ratio_table",
        "reader_columns",
        "server_sentences",
        "shown_counts",
        "shown_percentiles",
        "shown_statements",
    ],
    "report.side_by_side": ["overhead_sentences"],
    "scaling.load": ["latency_by_load"],
    "scaling.queueing.resource_demands": ["first_to_saturate", "load_bounds", "resource_demands"],
    "serverlogs.activity_tables": ["summarise_lock_waits"],
    "serverlogs.error_tables": ["errors_over_time"],
    "serverlogs.session_tables": ["connection_times", "summarise_sessions"],
    "spans.analyse.beside_clients": ["in_milliseconds", "parts_by_configuration"],
    "spans.analyse.composition": ["fan_out_profile"],
    "spans.analyse.followed": ["trace_studies"],
    "spans.analyse.time_cells": ["percentiles_over_time", "summed_time"],
}

__getattr__, __dir__, __all__ = lazy_loader.attach("citus_analysis", submod_attrs=_NAMES)
