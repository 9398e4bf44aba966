"""Attribution of differences between two sets of runs, or two periods of server logs, to terms that add up."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
