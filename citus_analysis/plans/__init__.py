"""Plans of statements (`EXPLAIN`): expected against actual rows, time per node and task, skew between tasks.

- `plan_study` computes all tables of a dataset at once;
- `measure_nodes`, `measure_tasks`, `task_skew`: single tables;
- `tasks_beside_traces`: tasks with the sampled executions on the same shard.
"""

from citus_analysis.plans.plan_study import PlanStudy, plan_study
from citus_analysis.plans.tasks import tasks_beside_traces
from citus_analysis.public_names import public

__all__ = ["PlanStudy", "plan_study", "tasks_beside_traces"]

__dir__, __getattr__ = public(__name__, __all__)
