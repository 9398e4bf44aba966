"""File formats: one module each, which detects its files and parses them to tables.

The registry (:func:`formats`, :func:`detect_format`) finds the module; installed packages add their own
through the entry point group ``citus_analysis.formats``.
"""

from citus_analysis.formats._base import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.formats._content import Block, Content
from citus_analysis.formats._registry import detect_format, format_named, formats
from citus_analysis.redaction import redact
from citus_analysis.shown import public

__all__ = [
    "Block",
    "Content",
    "Format",
    "Hints",
    "Parsed",
    "Reject",
    "detect_format",
    "format_named",
    "formats",
    "redact",
    "reject_rows",
]

__dir__ = public(__all__)
