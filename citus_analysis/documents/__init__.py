"""Numbers and figures in documents, bound to the data that they are of."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
