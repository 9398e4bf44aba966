"""Analyses of PostgreSQL server logs alone, without a load generator and runs.

- `server_profile` computes all tables at once, `compare_servers` compares two windows or two logs;
- `LogWindow`, `WindowedLogs`: the choice of logs and of time;
- `read_statements`, `summarise_statements`, `over_time`: executions, and tables of them;
- `percentile_intervals`: percentiles of statements with intervals;
- `with_log_runs`: a dataset of logs whose windows are its runs, for analyses of runs (`LogRuns`);
- `summarise_lock_waits`, `errors_over_time`, `connection_times`, `summarise_sessions`: tables of the other records.
"""

from citus_analysis.core.displays import public
from citus_analysis.serverlogs.activity_tables import summarise_lock_waits
from citus_analysis.serverlogs.error_tables import errors_over_time
from citus_analysis.serverlogs.log_runs import LogRuns, with_log_runs
from citus_analysis.serverlogs.log_window import LogSource, LogWindow, WindowedLogs
from citus_analysis.serverlogs.profile_comparison import ServerComparison, compare_servers
from citus_analysis.serverlogs.server_profile import ServerProfile, profile_logs, server_profile
from citus_analysis.serverlogs.session_tables import connection_times, summarise_sessions
from citus_analysis.serverlogs.statement_records import read_statements
from citus_analysis.serverlogs.statement_tables import over_time, percentile_intervals, summarise_statements

__all__ = [
    "LogRuns",
    "LogSource",
    "LogWindow",
    "ServerComparison",
    "ServerProfile",
    "WindowedLogs",
    "compare_servers",
    "connection_times",
    "errors_over_time",
    "over_time",
    "percentile_intervals",
    "profile_logs",
    "read_statements",
    "server_profile",
    "summarise_lock_waits",
    "summarise_sessions",
    "summarise_statements",
    "with_log_runs",
]

__dir__ = public(__all__)
