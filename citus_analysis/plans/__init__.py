"""Plans of statements: rows, times and errors of their nodes, and which statements' plan changed.

- `plan_study` computes all tables of a dataset's plans at once; `compare_tasks_with_traces`: tasks with the sampled
  executions on the same shard;
- `plan_changes` says which statement got another plan: on which node, when, at what cost (a `PlanHistory`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
