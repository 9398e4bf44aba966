"""Publish the tables of a dataset in a PostgreSQL database, Citus or not.

Names are imported on first use: the driver of PostgreSQL is an optional extra.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
