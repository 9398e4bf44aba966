"""What PostgreSQL server logs say when there is nothing else: no load generator, no runs.

- `server_profile` gives everything at once, `compare_servers` two windows or two logs beside each other;
- `LogWindow`, `WindowedLogs`: which logs, which time;
- `read_statements`, `summarise_statements`: executions, and tables of them.
"""

from citus_analysis.core.displays import public
from citus_analysis.serverlogs.log_window import LogSource, LogWindow, WindowedLogs
from citus_analysis.serverlogs.profile_comparison import ServerComparison, compare_servers
from citus_analysis.serverlogs.server_profile import ServerProfile, profile_logs, server_profile
from citus_analysis.serverlogs.statement_records import read_statements
from citus_analysis.serverlogs.statement_tables import over_time, summarise_statements

__all__ = [
    "LogSource",
    "LogWindow",
    "ServerComparison",
    "ServerProfile",
    "WindowedLogs",
    "compare_servers",
    "over_time",
    "profile_logs",
    "read_statements",
    "server_profile",
    "summarise_statements",
]

__dir__ = public(__all__)
