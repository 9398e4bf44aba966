"""Accounts of differences: where two sets of runs, or two stretches of server logs, differ, in terms that add up."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
