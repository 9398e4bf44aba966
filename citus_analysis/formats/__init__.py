"""File formats: one module each, which detects its files and parses them to tables.

The registry (:func:`formats`, :func:`detect_format`) finds the modules by itself; installed packages add their own
through the entry point group ``citus_analysis.formats``. docs/add-a-format.md describes how to write one.
"""

from typing import TYPE_CHECKING

from citus_analysis.core.displays import public
from citus_analysis.core.lazy_names import imported_lazily
from citus_analysis.formats.api.format import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.formats.api.options import (
    BUILT_IN_OPTIONS,
    DATE_ORDER,
    FIRST_REPORT,
    LOG_LINE_PREFIX,
    TIMEZONE,
    Option,
)
from citus_analysis.formats.api.registry import detect_format, format_named, formats, known_options, summary_measures
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.redaction import redact

if TYPE_CHECKING:
    from citus_analysis.formats.reading.lines import line_frame, reject_runs

__all__ = [
    "BUILT_IN_OPTIONS",
    "DATE_ORDER",
    "FIRST_REPORT",
    "LOG_LINE_PREFIX",
    "TIMEZONE",
    "Block",
    "Content",
    "Format",
    "Hints",
    "Option",
    "Parsed",
    "Reject",
    "detect_format",
    "format_named",
    "formats",
    "known_options",
    "line_frame",
    "redact",
    "reject_rows",
    "reject_runs",
    "summary_measures",
]

__dir__ = public(__all__)

# These import polars; formats load them only when needed.
__getattr__ = imported_lazily(
    __name__, dict.fromkeys(("line_frame", "reject_runs"), "citus_analysis.formats.reading.lines")
)
