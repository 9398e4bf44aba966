# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .publishing import publish_dataset as publish_dataset

__all__: list[str]
