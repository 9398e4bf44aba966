# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .causes import Cause as Cause
from .causes import Explanation as Explanation
from .explanation import why as why

__all__: list[str]
