"""Names in the summaries of YCSB and its forks that correspond to columns of `operation_latencies`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MEASURES: Final[Mapping[str, str]] = {
    "Operations": "operations",
    "Total Operations": "operations",
    "AverageLatency": "mean_us",
    "Average": "mean_us",
    "MinLatency": "min_us",
    "Min": "min_us",
    "MaxLatency": "max_us",
    "Max": "max_us",
    "50thPercentileLatency": "p50_us",
    "p50": "p50_us",
    "90thPercentileLatency": "p90_us",
    "p90": "p90_us",
    "95thPercentileLatency": "p95_us",
    "p95": "p95_us",
    "99thPercentileLatency": "p99_us",
    "p99": "p99_us",
    "99.9PercentileLatency": "p999_us",
    "99.9thPercentileLatency": "p999_us",
    "p99.9": "p999_us",
}
