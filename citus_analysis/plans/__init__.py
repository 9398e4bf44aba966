"""Plans of statements (`EXPLAIN`): expected against actual rows, time per node and task, skew between tasks.

- `plan_study` computes all tables of a dataset at once;
- `measure_nodes`, `measure_tasks`, `task_skew`: single tables;
- `tasks_beside_traces`: tasks with the sampled executions on the same shard.
"""

from citus_analysis.core.displays import public
from citus_analysis.plans.measured_nodes import measure_nodes
from citus_analysis.plans.plan_study import PlanStudy, ShownPlan, plan_study
from citus_analysis.plans.tasks import measure_tasks, task_skew, tasks_beside_traces

__all__ = [
    "PlanStudy",
    "ShownPlan",
    "measure_nodes",
    "measure_tasks",
    "plan_study",
    "task_skew",
    "tasks_beside_traces",
]

__dir__ = public(__all__)
