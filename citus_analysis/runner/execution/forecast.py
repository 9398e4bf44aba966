"""The runs that a call would launch and their duration, without launching them."""

from __future__ import annotations

from pathlib import Path

from citus_analysis.runner.execution.ledger import Ledger
from citus_analysis.runner.execution.resumption import JOURNAL, PRIVATE, carry_on
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.planning.choice import Choice
from citus_analysis.runner.planning.durations import Durations, Estimate
from citus_analysis.runner.planning.plan import PlannedRun, make_plan
from citus_analysis.runner.systems.state.sizes import with_known_workers


def forecast(experiment: Experiment, choice: Choice, out: Path | None) -> tuple[list[PlannedRun], Estimate]:
    """The runs that a call would launch, in order, and the time they take together.

    Args:
        experiment: the experiment; if it does not state the workers of a Citus cluster, the cluster is queried.
        choice: the chosen runs.
        out: the folder of an experiment that was begun: its ended runs are left out, and their durations are used; None
            or a new folder: all runs.

    Raises:
        UnknownNameError: the choice names no run.
        RunnerError: the cluster does not answer.
    """
    known = with_known_workers(experiment)
    journal = Journal(out / PRIVATE / JOURNAL) if out else None
    ledger = Ledger.read(journal) if journal else Ledger()
    chosen = carry_on(known, ledger, choice)
    left = [run for run in chosen if not ledger.is_done(run) and not ledger.has_enough(run, known)]
    durations = Durations.read(known, make_plan(known, ledger.more), journal) if journal else Durations(known)
    return left, durations.left(left)
