"""Progress of an experiment, read from its folder alone, while it runs or at any time afterwards."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

from citus_analysis.runner.execution.ledger import Ledger
from citus_analysis.runner.execution.resumption import JOURNAL, LOCK, PRIVATE, begun_experiment
from citus_analysis.runner.journal import Entry, Journal
from citus_analysis.runner.observe.reached_nodes import Reached
from citus_analysis.runner.planning.durations import Durations, Estimate
from citus_analysis.runner.planning.plan import PlannedRun, make_plan

State = Literal["verified", "degraded", "failed", "not needed", "begun", "open"]


@dataclass(frozen=True)
class RunState:
    """The state of one run.

    Attributes:
        state: its state; `begun` is a run in progress, or interrupted and to be repeated.
        reached: the state in its newest line of the journal.
        throughput_ops_s: throughput of a verified run.
        reason: reason why it failed or is degraded.
        shares: node -> share of the clients' statements, or sessions, that it got; empty if that is not known.
    """

    run_id: str
    resource: str
    iteration: int
    state: State
    reached: str = ""
    throughput_ops_s: float | None = None
    reason: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Overview:
    """The runs of an experiment and their progress.

    Attributes:
        name: the experiment.
        running: whether a runner works in the folder now.
        left: estimated time of the runs that are neither verified, failed nor found unnecessary.
    """

    name: str
    runs: tuple[RunState, ...]
    running: bool
    left: Estimate

    def count(self, *states: State) -> int:
        """Number of runs in these states."""
        return sum(run.state in states for run in self.runs)


def read_overview(out: str | PathLike[str]) -> Overview:
    """The progress of the experiment in a folder of `run`, which is not changed.

    Raises:
        UsageError: no experiment was begun there.
        InputError: the journal was written by another version.
    """
    tree = Path(out).resolve()
    journal = Journal(tree / PRIVATE / JOURNAL)
    experiment = begun_experiment(journal, tree)
    ledger = Ledger.read(journal)
    plan = make_plan(experiment, ledger.more)
    unnecessary = {run.run_id for run in plan if not ledger.is_done(run) and ledger.has_enough(run, experiment)}
    left = [run for run in plan if not ledger.is_done(run) and run.run_id not in unnecessary]
    return Overview(
        name=experiment.name,
        runs=tuple(_state(run, ledger, journal.last(run.run_id), run.run_id in unnecessary) for run in plan),
        running=_is_locked(tree / PRIVATE / LOCK),
        left=Durations.read(experiment, plan, journal).left(left),
    )


def _state(run: PlannedRun, ledger: Ledger, newest: Entry | None, unnecessary: bool) -> RunState:
    reached = newest.state if newest else ""
    going_on: State = "open" if reached in ("", "reopened") else "begun"
    return RunState(
        run_id=run.run_id,
        resource=run.configuration.resource,
        iteration=run.iteration,
        state=ledger.state(run.run_id) or ("not needed" if unnecessary else going_on),
        reached=reached,
        throughput_ops_s=ledger.verified.get(run.run_id),
        reason=ledger.failed.get(run.run_id) or ledger.degraded.get(run.run_id, ""),
        shares=Reached.read(ledger.seen.get(run.run_id, {})).shares(),
    )


def _is_locked(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
