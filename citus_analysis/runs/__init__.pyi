# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .selection import Question as Question
from .selection import Selection as Selection
from .selection import comparability as comparability
from .selection import matching as matching
from .selection import select_runs as select_runs

__all__: list[str]
