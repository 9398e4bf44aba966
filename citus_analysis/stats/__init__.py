"""Statistics of runs: functions from arrays to frozen results with their method, n and warnings.

- intervals: `mean_interval`, `median_interval`, `ratio_interval`, `percentile_interval`, of histograms
  `histogram_percentile_interval`, of merged clients `latency_percentiles`;
- comparisons: `compare`, `compare_many`, and over tables of runs `compare_runs`, of one dataset with another `gate`;
- sequences: `cut_warm_up`, `detect_drift`, `check_independence`, `find_changes`;
- planning: `required_runs`, and over a table of runs `run_precision`; `summarise_runs`.

docs/statistics.md explains when to use each of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
