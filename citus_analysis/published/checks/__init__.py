"""The checks of the audit. Importing this package registers all of them in :data:`CHECKS`."""

from citus_analysis.published.checks import (
    copies,
    identities,
    little,
    plausible,
    ratios,
)
from citus_analysis.published.checks import (
    interval_checks as intervals,
)
from citus_analysis.published.checks import (
    latency_checks as latencies,
)
from citus_analysis.published.checks._registry import CHECKS, Finding

__all__ = ["CHECKS", "Finding", "copies", "identities", "intervals", "latencies", "little", "plausible", "ratios"]
