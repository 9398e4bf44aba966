"""Publish the tables of a dataset in a PostgreSQL database, Citus or not.

Names are imported on first use: the driver of PostgreSQL is an optional extra.
"""

from citus_analysis.public_names import public_of_stub

__getattr__, __dir__, __all__ = public_of_stub(__name__, __file__)
