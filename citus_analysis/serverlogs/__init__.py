"""Analyses of PostgreSQL server logs alone, without a load generator and runs.

- `server_profile` computes all tables at once, `compare_servers` compares two windows or two logs;
- `LogWindow`, `WindowedLogs`: the choice of logs and of time;
- `read_statements`, `summarise_statements`, `over_time`: executions, and tables of them;
- `percentile_intervals`: percentiles of statements with intervals;
- `with_log_runs`: a dataset of logs whose windows are its runs, for analyses of runs (`LogRuns`);
- `summarise_lock_waits`, `errors_over_time`, `connection_times`, `summarise_sessions`: tables of the other records.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
