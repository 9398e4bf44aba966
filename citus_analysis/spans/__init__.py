"""Exact traces of distributed statements, from server logs alone.

Names are imported on first use, so that building traces does not wait for the modules that read them.

Example:
    >>> from citus_analysis.schema import TABLES
    >>> from citus_analysis.spans import build_traces
    >>> build_traces(TABLES["log_events"].empty(), TABLES["nodes"].empty()).statements.height
    0
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
