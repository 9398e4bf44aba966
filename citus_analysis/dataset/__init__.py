"""Datasets: raw files in (`ingest`), tables out (`open_dataset`).

Names are imported on first use, so that writing parts does not import the modules that read them.
"""

from citus_analysis.public_names import public_of_stub

__getattr__, __dir__, __all__ = public_of_stub(__name__, __file__)
