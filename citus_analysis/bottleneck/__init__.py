"""Which resource limits a system: pure functions over the sample and profile tables.

- samples in runs: `align_to_runs`, `one_source`; over time: `cpu_over_time`, `device_over_time`, `checkpoint_marks`;
- summaries: `resource_utilization`, and from it `saturation` (`saturation_frame`);
- connections over time: `connections_over_time`, `connection_balance`; two configurations: `cpu_contrasts`;
- where CPU time goes: `top_symbols`, `mean_symbols`, `cpu_share_by_object`, `symbols_of_stacks`, `stack_tree`;
- all of it for a report: `study_resources`.
"""

from citus_analysis.bottleneck.connection_counts import connection_balance, connections_over_time
from citus_analysis.bottleneck.contrasts import CpuContrast, cpu_contrasts
from citus_analysis.bottleneck.measured_resources import ResourceStudy, study_resources
from citus_analysis.bottleneck.profiles import cpu_share_by_object, mean_symbols, symbols_of_stacks, top_symbols
from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.bottleneck.saturation import Saturation, saturation, saturation_frame
from citus_analysis.bottleneck.stacks import stack_tree
from citus_analysis.bottleneck.timeline import (
    checkpoint_marks,
    cpu_over_time,
    device_over_time,
    throttling_over_time,
)
from citus_analysis.bottleneck.utilization import resource_utilization
from citus_analysis.core.displays import public

__all__ = [
    "CpuContrast",
    "ResourceStudy",
    "Saturation",
    "align_to_runs",
    "checkpoint_marks",
    "connection_balance",
    "connections_over_time",
    "cpu_contrasts",
    "cpu_over_time",
    "cpu_share_by_object",
    "device_over_time",
    "mean_symbols",
    "one_source",
    "resource_utilization",
    "saturation",
    "saturation_frame",
    "stack_tree",
    "study_resources",
    "symbols_of_stacks",
    "throttling_over_time",
    "top_symbols",
]

__dir__ = public(__all__)
