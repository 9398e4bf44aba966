"""The domain model of runs: set-up, operation, status, and comparability."""

from citus_analysis.public_names import public
from citus_analysis.runs.comparable import comparability
from citus_analysis.runs.run_selection import Selection, matching, select_runs

__all__ = ["Selection", "comparability", "matching", "select_runs"]

__dir__, __getattr__ = public(__name__, __all__)
