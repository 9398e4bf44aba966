"""Datasets: raw files in (`ingest`), tables out (`open_dataset`).

Names are imported on first use, so that writing parts does not import the modules that read them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
