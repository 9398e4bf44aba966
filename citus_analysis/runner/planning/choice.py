"""The runs of a plan that one call launches: all open runs, some configurations, failed runs again, or further runs.

Example:
    >>> from citus_analysis.runner.experiment_file.experiment import parse_experiment
    >>> from citus_analysis.runner.planning.plan import make_plan
    >>> plan = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [1, 2]}}))
    >>> sorted(run.run_id for run in Choice(only=("x-w0-t2-c", "*-t1-*#3")).of(plan))
    ['x-w0-t1-c#3', 'x-w0-t2-c#1', 'x-w0-t2-c#2', 'x-w0-t2-c#3']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from citus_analysis.errors import UnknownNameError
from citus_analysis.runner.planning.plan import PlannedRun


@dataclass(frozen=True)
class Choice:
    """The runs that a call launches.

    Attributes:
        only: names of configurations (resources) or runs, with `*`, `?` and `[...]`; empty: all.
        retry_failed: whether failed runs are launched again.
        more: number of iterations that are added to every chosen configuration.
    """

    only: tuple[str, ...] = ()
    retry_failed: bool = False
    more: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether the choice applies only to an experiment that was begun."""
        return self.retry_failed or self.more > 0

    def of(self, plan: Sequence[PlannedRun]) -> list[PlannedRun]:
        """The chosen runs of a plan, in its order.

        Raises:
            UnknownNameError: a name chooses no run.
        """
        for pattern in self.only:
            if not any(_has_name(run, pattern) for run in plan):
                known = dict.fromkeys(run.configuration.resource for run in plan)
                raise UnknownNameError("configuration or run", pattern, list(known))
        return [run for run in plan if not self.only or any(_has_name(run, pattern) for pattern in self.only)]


def _has_name(run: PlannedRun, pattern: str) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for name in (run.configuration.resource, run.run_id))
