"""File formats: one module each, which detects its files and parses them to tables.

The registry (:func:`formats`, :func:`detect_format`) finds the modules by itself; installed packages add their own
through the entry point group ``citus_analysis.formats``. docs/add-a-format.md describes how to write one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
