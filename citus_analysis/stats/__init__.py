"""Statistics of runs: functions from arrays to frozen results with their method, n and warnings.

- intervals: `mean_interval`, `median_interval`, `ratio_interval`, `percentile_interval`, of histograms
  `histogram_percentile_interval`, of merged clients `latency_percentiles`;
- comparisons: `compare`, `compare_many`, and over tables of runs `compare_runs`, of one dataset with another `gate`;
- sequences: `cut_warm_up`, `detect_drift`, `check_independence`, `find_changes`;
- planning: `required_runs`, and over a table of runs `run_precision`; `summarise_runs`.

docs/statistics.md explains when to use each of them.
"""

from citus_analysis.public_names import public
from citus_analysis.stats.compare.families import compare_many
from citus_analysis.stats.compare.gates import gate
from citus_analysis.stats.compare.run_tables import compare_runs
from citus_analysis.stats.compare.verdicts import Comparison, compare
from citus_analysis.stats.estimate.intervals import mean_interval, median_interval, ratio_interval
from citus_analysis.stats.estimate.latencies import latency_percentiles
from citus_analysis.stats.estimate.percentiles import histogram_percentile_interval, percentile_interval
from citus_analysis.stats.planning import required_runs
from citus_analysis.stats.precision import run_precision
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_means import summarise_runs
from citus_analysis.stats.series.change_points import find_changes
from citus_analysis.stats.series.drift import detect_drift
from citus_analysis.stats.series.independence import check_independence
from citus_analysis.stats.series.sequences import cut_warm_up

__all__ = [
    "Comparison",
    "Interval",
    "check_independence",
    "compare",
    "compare_many",
    "compare_runs",
    "cut_warm_up",
    "detect_drift",
    "find_changes",
    "gate",
    "histogram_percentile_interval",
    "latency_percentiles",
    "mean_interval",
    "median_interval",
    "percentile_interval",
    "ratio_interval",
    "required_runs",
    "run_precision",
    "summarise_runs",
]

__dir__, __getattr__ = public(__name__, __all__)
