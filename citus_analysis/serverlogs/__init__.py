"""Analyses of PostgreSQL server logs alone, without a load generator and runs.

- `server_profile` computes all tables at once, `compare_servers` compares two windows or two logs;
- `LogWindow`, `WindowedLogs`: the choice of logs and of time;
- `read_statements`, `summarise_statements`, `over_time`: executions, and tables of them;
- `percentile_intervals`: percentiles of statements with intervals;
- `with_log_runs`: a dataset of logs whose windows are its runs, for analyses of runs (`LogRuns`);
- `summarise_lock_waits`, `errors_over_time`, `connection_times`, `summarise_sessions`: tables of the other records.
"""

from citus_analysis.public_names import public
from citus_analysis.serverlogs.log_runs import with_log_runs
from citus_analysis.serverlogs.profile_comparison import compare_servers
from citus_analysis.serverlogs.server_profile import server_profile

__all__ = ["compare_servers", "server_profile", "with_log_runs"]

__dir__, __getattr__ = public(__name__, __all__)
