"""Datasets packed with all that reproduces them (`pack`), and the proof that they are reproduced (`verify`).

Names are imported on first use.
"""

from citus_analysis.public_names import public_of_stub

__getattr__, __dir__, __all__ = public_of_stub(__name__, __file__)
