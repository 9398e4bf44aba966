"""Functions that have another name at the top level than in their package."""

from citus_analysis.stats import compare_runs as compare

__all__ = ["compare"]
