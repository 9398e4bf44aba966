"""Run an experiment from its first state to its last, or go on where an earlier call stopped.

Layout of the output folder::

    OUT/RESOURCE/...            the artefact tree, for `ingest`
    OUT/.runner/journal.jsonl   what was done, line by line
    OUT/.runner/attempts/       files of the run in progress
    OUT/.runner/servers/        data of an embedded target, removed at the end
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Final

from citus_analysis.errors import CitusAnalysisError, RunnerError, UsageError
from citus_analysis.runner.describe import check_environment, environment_of, write_description
from citus_analysis.runner.drivers import make_driver
from citus_analysis.runner.experiment import Experiment, FilesTarget, StopRule
from citus_analysis.runner.files import adopt_files
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.measure import Measured, Measurement, publish
from citus_analysis.runner.outcomes import write_outcome
from citus_analysis.runner.plan import PlannedRun, make_plan
from citus_analysis.runner.processes import Processes
from citus_analysis.runner.results import RunResult, read_run
from citus_analysis.runner.targets import make_target
from citus_analysis.stats import mean_interval

__all__ = ["RunnerEvent", "RunnerSummary", "run_experiment"]

_PRIVATE: Final = ".runner"


@dataclass(frozen=True)
class RunnerEvent:
    """What the live view shows.

    Attributes:
        run_id: the run in progress.
        state: its state.
        done: runs finished so far, earlier calls included.
        planned: runs of the plan.
        failed: runs that failed so far.
        throughput_ops_s: current throughput, None while unknown.
    """

    run_id: str
    state: str
    done: int
    planned: int
    failed: int
    throughput_ops_s: float | None = None


@dataclass(frozen=True)
class RunnerSummary:
    """What came of an experiment.

    Attributes:
        verified: run ids that ended well, in this call or an earlier one.
        failed: run id -> why.
        skipped: run ids that the stop rule found unnecessary.
        notes: what a reader should know (samplers that are missing, capabilities a system lacks).
    """

    verified: tuple[str, ...]
    failed: Mapping[str, str]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 when a run failed, else 0."""
        return 1 if self.failed else 0


def run_experiment(
    experiment: Experiment,
    out: str | PathLike[str],
    *,
    resume: bool = False,
    watch: Callable[[RunnerEvent], None] = lambda _event: None,
) -> RunnerSummary:
    """Run an experiment into the artefact tree `out`.

    Args:
        experiment: what to run.
        out: folder for the tree; must be new or empty unless `resume`.
        resume: go on where an earlier call on the same folder stopped.
        watch: is told what happens, for a live view.

    Raises:
        UsageError: `out` holds another experiment, or one in progress without `resume`.
        EnvironmentChangedError: versions, settings or hardware differ from when the experiment began.
        RunnerError: the target or the driver cannot be used.
    """
    tree = Path(out)
    if isinstance(experiment.target, FilesTarget):
        return RunnerSummary(tuple(adopt_files(experiment.target, tree)), {})
    private = tree / _PRIVATE
    journal = Journal(private / "journal.jsonl")
    _open_journal(journal, experiment, tree, resume=resume)
    with Processes(private / "processes.jsonl") as processes, _target(experiment, private) as target:
        execution = _Execution(experiment, tree, journal, processes, target, watch)
        return execution.run_all()


@contextmanager
def _target(experiment: Experiment, private: Path) -> Iterator[object]:
    target = make_target(experiment, private / "servers")
    try:
        yield target
    finally:
        target.stop()
