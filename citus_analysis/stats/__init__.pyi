# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .change_points import find_changes as find_changes
from .drift import detect_drift as detect_drift
from .gates import gate as gate
from .independence import check_independence as check_independence
from .intervals import estimate_mean_from_summary as estimate_mean_from_summary
from .intervals import mean_interval as mean_interval
from .intervals import median_interval as median_interval
from .intervals import ratio_interval as ratio_interval
from .percentiles import histogram_percentile_interval as histogram_percentile_interval
from .percentiles import latency_percentiles as latency_percentiles
from .percentiles import percentile_interval as percentile_interval
from .planning import required_runs as required_runs
from .planning import run_precision as run_precision
from .results import Interval as Interval
from .run_comparisons import compare_runs as compare_runs
from .run_means import summarise_runs as summarise_runs
from .verdicts import Comparison as Comparison
from .verdicts import compare as compare
from .verdicts import compare_many as compare_many
from .warmup import cut_warm_up as cut_warm_up

__all__: list[str]
