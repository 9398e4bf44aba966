"""Exact traces of distributed statements, from server logs alone.

Names are imported when they are first used: who builds traces need not wait for all that reads them.

Example:
    >>> from citus_analysis.schema import TABLES
    >>> from citus_analysis.spans import build_traces
    >>> build_traces(TABLES["log_events"].empty(), TABLES["nodes"].empty()).statements.height
    0
"""

from typing import TYPE_CHECKING

from citus_analysis.core.displays import public
from citus_analysis.core.lazy_names import imported_lazily

if TYPE_CHECKING:
    from citus_analysis.spans.analyse.beside_clients import beside_clients, in_milliseconds, parts_by_configuration
    from citus_analysis.spans.analyse.coarse import coarse_profile, log_line_profile
    from citus_analysis.spans.analyse.composition import critical_path, fan_out_profile, percentile_profile
    from citus_analysis.spans.analyse.distribution import time_histogram
    from citus_analysis.spans.analyse.followed import TraceStudy, trace_studies
    from citus_analysis.spans.analyse.profile import ProfileStudy, study_profile
    from citus_analysis.spans.analyse.tail import TailProfile, autovacuum_intervals, tail_profile
    from citus_analysis.spans.export.trace_files import export_traces
    from citus_analysis.spans.read.groups import group_sessions
    from citus_analysis.spans.read.records import TRACED_COLUMNS
    from citus_analysis.spans.read.sessions import are_distributed
    from citus_analysis.spans.traces import Traces, build_traces, trace_iteration

__all__ = [
    "TRACED_COLUMNS",
    "ProfileStudy",
    "TailProfile",
    "TraceStudy",
    "Traces",
    "are_distributed",
    "autovacuum_intervals",
    "beside_clients",
    "build_traces",
    "coarse_profile",
    "critical_path",
    "export_traces",
    "fan_out_profile",
    "group_sessions",
    "in_milliseconds",
    "log_line_profile",
    "parts_by_configuration",
    "percentile_profile",
    "study_profile",
    "tail_profile",
    "time_histogram",
    "trace_iteration",
    "trace_studies",
]

__dir__ = public(__all__)

__getattr__ = imported_lazily(
    __name__,
    {
        "TRACED_COLUMNS": "citus_analysis.spans.read.records",
        "TailProfile": "citus_analysis.spans.analyse.tail",
        "Traces": "citus_analysis.spans.traces",
        "are_distributed": "citus_analysis.spans.read.sessions",
        "autovacuum_intervals": "citus_analysis.spans.analyse.tail",
        "build_traces": "citus_analysis.spans.traces",
        "coarse_profile": "citus_analysis.spans.analyse.coarse",
        "critical_path": "citus_analysis.spans.analyse.composition",
        "export_traces": "citus_analysis.spans.export.trace_files",
        "fan_out_profile": "citus_analysis.spans.analyse.composition",
        "group_sessions": "citus_analysis.spans.read.groups",
        "log_line_profile": "citus_analysis.spans.analyse.coarse",
        "percentile_profile": "citus_analysis.spans.analyse.composition",
        "tail_profile": "citus_analysis.spans.analyse.tail",
        "beside_clients": "citus_analysis.spans.analyse.beside_clients",
        "in_milliseconds": "citus_analysis.spans.analyse.beside_clients",
        "parts_by_configuration": "citus_analysis.spans.analyse.beside_clients",
        "time_histogram": "citus_analysis.spans.analyse.distribution",
        "ProfileStudy": "citus_analysis.spans.analyse.profile",
        "study_profile": "citus_analysis.spans.analyse.profile",
        "TraceStudy": "citus_analysis.spans.analyse.followed",
        "trace_studies": "citus_analysis.spans.analyse.followed",
        "trace_iteration": "citus_analysis.spans.traces",
    },
)
