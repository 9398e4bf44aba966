"""File formats: one module each, which detects its files and parses them to tables.

The registry (:func:`formats`, :func:`detect_format`) finds the modules by itself; installed packages add their own
through the entry point group ``citus_analysis.formats``. docs/add-a-format.md describes how to write one.
"""

from citus_analysis.public_names import public_of_stub

__getattr__, __dir__, __all__ = public_of_stub(__name__, __file__)
