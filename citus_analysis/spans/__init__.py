"""Exact traces of distributed statements, from server logs alone.

Example:
    >>> from citus_analysis.schema import TABLES
    >>> from citus_analysis.spans import build_traces
    >>> build_traces(TABLES["log_events"].empty(), TABLES["nodes"].empty()).statements.height
    0
"""

from citus_analysis.spans.coarse import coarse_profile, log_line_profile
from citus_analysis.spans.traces import Traces, build_traces

__all__ = ["Traces", "build_traces", "coarse_profile", "log_line_profile"]
