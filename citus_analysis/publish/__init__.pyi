# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .definitions import statements_of as statements_of
from .publishing import Published as Published
from .publishing import publish_dataset as publish_dataset

__all__: list[str]
