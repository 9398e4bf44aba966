# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .comparison import compare_servers as compare_servers
from .log_runs import with_log_runs as with_log_runs
from .profile import server_profile as server_profile

__all__: list[str]
