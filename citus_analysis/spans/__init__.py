"""Exact traces of distributed statements, from server logs alone.

Names are imported when they are first used: who builds traces need not wait for all that reads them.

Example:
    >>> from citus_analysis.schema import TABLES
    >>> from citus_analysis.spans import build_traces
    >>> build_traces(TABLES["log_events"].empty(), TABLES["nodes"].empty()).statements.height
    0
"""

from typing import TYPE_CHECKING

from citus_analysis.lazily import imported_lazily
from citus_analysis.shown import public

if TYPE_CHECKING:
    from citus_analysis.spans.coarse import coarse_profile, log_line_profile
    from citus_analysis.spans.composition import critical_path, fan_out_profile, percentile_profile
    from citus_analysis.spans.export import export_traces
    from citus_analysis.spans.groups import group_sessions
    from citus_analysis.spans.records import TRACED_COLUMNS
    from citus_analysis.spans.sessions import are_distributed
    from citus_analysis.spans.tail import TailProfile, autovacuum_intervals, tail_profile
    from citus_analysis.spans.traces import Traces, build_traces, trace_iteration

__all__ = [
    "TRACED_COLUMNS",
    "TailProfile",
    "Traces",
    "are_distributed",
    "autovacuum_intervals",
    "build_traces",
    "coarse_profile",
    "critical_path",
    "export_traces",
    "fan_out_profile",
    "group_sessions",
    "log_line_profile",
    "percentile_profile",
    "tail_profile",
    "trace_iteration",
]

__dir__ = public(__all__)

__getattr__ = imported_lazily(
    __name__,
    {
        "TRACED_COLUMNS": "citus_analysis.spans.records",
        "TailProfile": "citus_analysis.spans.tail",
        "Traces": "citus_analysis.spans.traces",
        "are_distributed": "citus_analysis.spans.sessions",
        "autovacuum_intervals": "citus_analysis.spans.tail",
        "build_traces": "citus_analysis.spans.traces",
        "coarse_profile": "citus_analysis.spans.coarse",
        "critical_path": "citus_analysis.spans.composition",
        "export_traces": "citus_analysis.spans.export",
        "fan_out_profile": "citus_analysis.spans.composition",
        "group_sessions": "citus_analysis.spans.groups",
        "log_line_profile": "citus_analysis.spans.coarse",
        "percentile_profile": "citus_analysis.spans.composition",
        "tail_profile": "citus_analysis.spans.tail",
        "trace_iteration": "citus_analysis.spans.traces",
    },
)
