"""Functions whose name at the top level is not the one in their package."""

from citus_analysis.stats import compare_runs as compare

__all__ = ["compare"]
