"""Datasets packed with all that reproduces them (`pack`), and the proof that they are reproduced (`verify`).

Names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
