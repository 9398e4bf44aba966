"""Exports of log services and container runtimes: a tool's text in a field of JSON objects, journald's entries or CSV.

:func:`~._find.find_exports` finds the field by what it contains, not by the name of a service;
:class:`~.export_step.Export` undoes it.
"""

from citus_analysis.formats.deliveries.exports._find import find_exports
from citus_analysis.formats.deliveries.exports._value_times import nanoseconds
from citus_analysis.formats.deliveries.exports.export_step import Export, any_cut

__all__ = ["Export", "any_cut", "find_exports", "nanoseconds"]
