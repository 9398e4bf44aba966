# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .changes import PlanHistory as PlanHistory
from .changes import plan_changes as plan_changes
from .study import PlanStudy as PlanStudy
from .study import plan_study as plan_study
from .study import compare_tasks_with_traces as compare_tasks_with_traces

__all__: list[str]
