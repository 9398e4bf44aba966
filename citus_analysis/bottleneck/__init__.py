"""Which resource limits a system: pure functions over the sample and profile tables.

- samples in runs: `align_to_runs`, `one_source`; over time: `cpu_over_time`, `throttling_over_time`;
- summaries: `resource_utilization`; of programs: `program_loads`;
- what limits a configuration: `study_bottleneck` (a `BottleneckStudy` by `Thresholds`), also as
  `citus_analysis.bottleneck(dataset)`; `balance` over nodes, `shard_skew`, `session_waits`, `variance_of` statements,
  `run_variance` between repeated runs (`split_run_variance` on plain values);
- connections over time: `connections_over_time`, `connection_balance`; two configurations: `cpu_contrasts`;
- where CPU time goes: `top_symbols`, `mean_symbols`, `cpu_share_by_object`, `symbols_of_stacks`, `stack_tree`;
- all tables of the report on resources: `study_resources`.
"""

import sys
from collections.abc import Mapping
from types import ModuleType

from citus_analysis.bottleneck.connection_counts import connection_balance, connections_over_time
from citus_analysis.bottleneck.contrasts import CpuContrast, cpu_contrasts
from citus_analysis.bottleneck.evidence.balance import Balance, balance, jain_index
from citus_analysis.bottleneck.evidence.node_loads import shard_skew
from citus_analysis.bottleneck.evidence.run_factors import run_variance
from citus_analysis.bottleneck.evidence.run_variance import RunVariance, split_run_variance
from citus_analysis.bottleneck.evidence.variance import separators, variance_of
from citus_analysis.bottleneck.evidence.waits import client_sessions, session_waits
from citus_analysis.bottleneck.first_limits import Verdict
from citus_analysis.bottleneck.measured_resources import ResourceStudy, study_resources
from citus_analysis.bottleneck.profiles import cpu_share_by_object, mean_symbols, symbols_of_stacks, top_symbols
from citus_analysis.bottleneck.program_loads import program_loads
from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.bottleneck.stacks import stack_tree
from citus_analysis.bottleneck.study import BottleneckStudy, study_bottleneck
from citus_analysis.bottleneck.thresholds import Thresholds
from citus_analysis.bottleneck.timeline import cpu_over_time, throttling_over_time
from citus_analysis.bottleneck.utilization import resource_utilization
from citus_analysis.core.defaults import LEVEL
from citus_analysis.core.displays import public
from citus_analysis.core.frames import TableSource

__all__ = [
    "Balance",
    "BottleneckStudy",
    "CpuContrast",
    "ResourceStudy",
    "RunVariance",
    "Thresholds",
    "Verdict",
    "align_to_runs",
    "balance",
    "client_sessions",
    "connection_balance",
    "connections_over_time",
    "cpu_contrasts",
    "cpu_over_time",
    "cpu_share_by_object",
    "jain_index",
    "mean_symbols",
    "one_source",
    "program_loads",
    "resource_utilization",
    "run_variance",
    "separators",
    "session_waits",
    "shard_skew",
    "split_run_variance",
    "stack_tree",
    "study_bottleneck",
    "study_resources",
    "symbols_of_stacks",
    "throttling_over_time",
    "top_symbols",
    "variance_of",
]

__dir__ = public(__all__)


class _Callable(ModuleType):
    """Makes the package callable, as `citus_analysis.bottleneck(dataset)`."""

    def __call__(
        self,
        dataset: TableSource,
        resources: str = "*",
        *,
        thresholds: Thresholds | Mapping[str, float] | None = None,
        level: float = LEVEL,
    ) -> BottleneckStudy:
        """:func:`study_bottleneck` of a dataset."""
        return study_bottleneck(dataset, resources, thresholds=thresholds, level=level)


sys.modules[__name__].__class__ = _Callable
