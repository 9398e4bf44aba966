"""Statistics of runs: functions from arrays to frozen results with their method, n and warnings.

- intervals: `mean_interval`, `median_interval`, `ratio_interval`, `percentile_interval`, `nested_interval`,
  `run_percentile_interval`;
- comparisons: `compare`, `compare_many`, and over tables of runs `compare_runs`, `format_comparison`,
  `render_comparison`, and of one dataset with another `gate`, `format_gate`, `render_gate`;
- sequences: `effective_sample_size`, `cut_warm_up` (`first_k`, `mser5`), `detect_drift`, `check_independence`,
  `find_changes`, `newest_shift`;
- overviews: `list_configurations`, `format_configurations`;
- planning: `required_runs`, `enough_runs`, `influence`, and over a table of runs `run_precision`.

docs/statistics.md explains when to use each of them.
"""

from citus_analysis.core.displays import public
from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.stats.compare.exchange import render_comparison, render_gate
from citus_analysis.stats.compare.families import compare_many, holm
from citus_analysis.stats.compare.gate_results import Gate, GateCheck, format_gate
from citus_analysis.stats.compare.gates import gate
from citus_analysis.stats.compare.ranks import cliffs_delta, hodges_lehmann, mann_whitney_p
from citus_analysis.stats.compare.run_tables import RunComparison, compare_runs
from citus_analysis.stats.compare.verdict_text import format_comparison
from citus_analysis.stats.compare.verdicts import Comparison, compare, compare_summaries
from citus_analysis.stats.configurations import format_configurations, list_configurations
from citus_analysis.stats.estimate.bootstrap import bca_interval
from citus_analysis.stats.estimate.intervals import (
    mean_interval,
    mean_interval_from_summary,
    median_interval,
    ratio_interval,
    ratio_interval_from_summaries,
)
from citus_analysis.stats.estimate.latencies import latency_percentiles
from citus_analysis.stats.estimate.nested import nested_interval
from citus_analysis.stats.estimate.percentiles import (
    histogram_percentile_interval,
    percentile_interval,
    percentile_ranks,
    values_needed,
)
from citus_analysis.stats.estimate.run_percentiles import run_percentile_interval
from citus_analysis.stats.planning import Influence, RequiredRuns, StoppingRule, enough_runs, influence, required_runs
from citus_analysis.stats.precision import run_precision
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_means import lower_is_better, runs_with_metric, summarise_runs
from citus_analysis.stats.series.change_points import ChangePoint, ChangePoints, cusum_p_value, find_changes, rank_cusum
from citus_analysis.stats.series.drift import Drift, are_interleaved, detect_drift
from citus_analysis.stats.series.independence import Independence, check_independence
from citus_analysis.stats.series.newest_runs import NewestShift, newest_shift
from citus_analysis.stats.series.sequences import (
    DEFAULT_SKIP,
    EffectiveSampleSize,
    WarmUp,
    autocorrelation,
    cut_warm_up,
    effective_sample_size,
    first_k,
    mser5,
)

__all__ = [
    "DEFAULT_SKIP",
    "ChangePoint",
    "ChangePoints",
    "Comparison",
    "Drift",
    "EffectiveSampleSize",
    "Frame",
    "Gate",
    "GateCheck",
    "Independence",
    "Influence",
    "Interval",
    "NewestShift",
    "RequiredRuns",
    "RunComparison",
    "StoppingRule",
    "WarmUp",
    "are_interleaved",
    "as_polars",
    "autocorrelation",
    "bca_interval",
    "check_independence",
    "cliffs_delta",
    "compare",
    "compare_many",
    "compare_runs",
    "compare_summaries",
    "cusum_p_value",
    "cut_warm_up",
    "detect_drift",
    "effective_sample_size",
    "enough_runs",
    "find_changes",
    "first_k",
    "format_comparison",
    "format_configurations",
    "format_gate",
    "gate",
    "histogram_percentile_interval",
    "hodges_lehmann",
    "holm",
    "influence",
    "latency_percentiles",
    "list_configurations",
    "lower_is_better",
    "mann_whitney_p",
    "mean_interval",
    "mean_interval_from_summary",
    "median_interval",
    "mser5",
    "nested_interval",
    "newest_shift",
    "percentile_interval",
    "percentile_ranks",
    "rank_cusum",
    "ratio_interval",
    "ratio_interval_from_summaries",
    "render_comparison",
    "render_gate",
    "required_runs",
    "run_percentile_interval",
    "run_precision",
    "runs_with_metric",
    "summarise_runs",
    "values_needed",
]

__dir__ = public(__all__)
