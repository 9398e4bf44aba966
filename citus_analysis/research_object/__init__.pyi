# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .packing import PackResult as PackResult
from .packing import pack as pack
from .verification import Verified as Verified
from .verification import verify as verify

__all__: list[str]
