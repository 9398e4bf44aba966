"""Which resource limits a system: pure functions over the sample and profile tables.

- samples in runs: `align_to_runs`, `one_source`; over time: `cpu_over_time`, `device_over_time`, `checkpoint_marks`;
- summaries: `resource_utilization`, and from it `saturation` (`saturation_frame`);
- where CPU time goes: `top_symbols`, `cpu_share_by_object`, `symbols_of_stacks`.
"""

from citus_analysis.bottleneck.profiles import cpu_share_by_object, symbols_of_stacks, top_symbols
from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.bottleneck.saturation import Saturation, saturation, saturation_frame
from citus_analysis.bottleneck.timeline import checkpoint_marks, cpu_over_time, device_over_time
from citus_analysis.bottleneck.utilization import resource_utilization
from citus_analysis.core.displays import public

__all__ = [
    "Saturation",
    "align_to_runs",
    "checkpoint_marks",
    "cpu_over_time",
    "cpu_share_by_object",
    "device_over_time",
    "one_source",
    "resource_utilization",
    "saturation",
    "saturation_frame",
    "symbols_of_stacks",
    "top_symbols",
]

__dir__ = public(__all__)
