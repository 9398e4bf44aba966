"""Run an experiment from its first state to its last, or go on where an earlier call stopped.

Layout of the output folder::

    OUT/RESOURCE/...             the artefact tree, for `ingest`
    OUT/.runner/journal.jsonl    what was done, line by line
    OUT/.runner/processes.jsonl  what was started and may still run
    OUT/.runner/attempts/        files of the run in progress
    OUT/.runner/servers/         data of an embedded target, removed at the end
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Final

from citus_analysis.errors import UsageError
from citus_analysis.runner.drivers import make_driver
from citus_analysis.runner.drivers.base import LOGIN_FILE
from citus_analysis.runner.experiment import Experiment, FilesTarget
from citus_analysis.runner.files import adopt_files
from citus_analysis.runner.journal import Journal, without_secrets
from citus_analysis.runner.life import Ledger, Life
from citus_analysis.runner.measure import Measurement
from citus_analysis.runner.plan import PlannedRun, make_plan
from citus_analysis.runner.processes import Processes
from citus_analysis.runner.targets import make_target
from citus_analysis.runner.targets.found import restore_found

__all__ = ["RunnerEvent", "RunnerSummary", "restore_cluster", "run_experiment"]

_PRIVATE: Final = ".runner"


@dataclass(frozen=True)
class RunnerEvent:
    """What a live view shows.

    Attributes:
        run_id: the run in progress.
        done: runs finished so far, earlier calls included.
        planned: runs of the plan.
        failed: runs that failed so far.
        throughput_ops_s: current throughput, None while unknown.
    """

    run_id: str
    done: int
    planned: int
    failed: int
    throughput_ops_s: float | None = None


@dataclass(frozen=True)
class RunnerSummary:
    """What came of an experiment.

    Attributes:
        verified: ids of the runs that ended well, in this call or an earlier one.
        failed: run id -> why; their files are kept, statistics leave them out.
        degraded: run id -> why; measured to the end, but operations failed. Statistics leave them out as well.
        skipped: ids of the runs that the stop rule found unnecessary.
        notes: what a reader should know (samplers that are missing, what a system cannot do).
    """

    verified: tuple[str, ...]
    failed: Mapping[str, str]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    degraded: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """1 when a run failed or is degraded, else 0."""
        return 1 if self.failed or self.degraded else 0


def run_experiment(
    experiment: Experiment,
    out: str | PathLike[str],
    *,
    resume: bool = False,
    replace_table: bool = False,
    watch: Callable[[RunnerEvent], None] = lambda _event: None,
) -> RunnerSummary:
    """Run an experiment into the artefact tree `out`.

    Args:
        experiment: what to run.
        out: folder for the tree, absolute or relative to the working folder; without `resume` it must not hold an
            experiment.
        resume: go on where an earlier call on the same folder stopped.
        replace_table: drop a table of the benchmark's name on a cluster though this tool did not make it.
        watch: is told what happens, for a live view.

    Raises:
        UsageError: `out` holds another experiment, or one already begun and `resume` is not set.
        EnvironmentChangedError: versions, settings or hardware differ from when the experiment began.
        RunnerError: the target or the driver cannot be used.
    """
    tree = Path(out).resolve()  # what is launched works in folders of its own
    if isinstance(experiment.target, FilesTarget):
        return RunnerSummary(tuple(adopt_files(experiment.target, tree)), {})
    private = tree / _PRIVATE
    journal = Journal(private / "journal.jsonl")
    with _only_runner(private), _no_secret_left(private):
        _begin(journal, experiment, tree, resume=resume)
        with Processes(private / "processes.jsonl") as processes:
            return _run_all(experiment, tree, journal, processes, watch, replace_table=replace_table)


def restore_cluster(out: str | PathLike[str]) -> tuple[str, ...]:
    """Put a cluster's settings and nodes back as the experiment in `out` found them, where its runner could not.

    Returns:
        a sentence for each node that could not be restored; it can be tried again.

    Raises:
        UsageError: nothing is left to restore, or a runner works in `out`.
        RunnerError: another experiment uses the cluster.
    """
    private = Path(out).resolve() / _PRIVATE
    if not private.is_dir():
        raise UsageError("no experiment was begun here", path=out, way_out="name the --out of an experiment")
    with _only_runner(private), _no_secret_left(private):
        problems = restore_found(private)
    if problems is None:
        raise UsageError("nothing is left to restore", path=out, way_out="the cluster is as the experiment found it")
    return tuple(problems)


def _run_all(
    experiment: Experiment,
    tree: Path,
    journal: Journal,
    processes: Processes,
    watch: Callable[[RunnerEvent], None],
    *,
    replace_table: bool,
) -> RunnerSummary:
    plan = make_plan(experiment)
    ledger = Ledger.read(journal)
    skipped: list[str] = []
    target = make_target(experiment, tree / _PRIVATE, replace_table=replace_table)
    try:
        driver = make_driver(experiment, target)
        for run in plan:
            if ledger.is_done(run):
                continue
            if ledger.has_enough(run, experiment):
                skipped.append(run.run_id)
                continue

            def tell(throughput_ops_s: float | None, run: PlannedRun = run) -> None:
                done = len(ledger.verified) + len(ledger.degraded) + len(ledger.failed) + len(skipped)
                watch(RunnerEvent(run.run_id, done, len(plan), len(ledger.failed), throughput_ops_s))

            tell(None)
            measurement = Measurement(experiment, target, driver, processes, tell)
            Life(tree, tree / _PRIVATE / "attempts", journal, measurement, ledger).live(run)
    finally:
        ledger.notes.update(target.stop())
    return RunnerSummary(
        tuple(ledger.verified),
        dict(ledger.failed),
        tuple(skipped),
        tuple(sorted(ledger.notes)),
        dict(ledger.degraded),
    )


def _begin(journal: Journal, experiment: Experiment, tree: Path, *, resume: bool) -> None:
    """Write down which experiment this folder belongs to, or check that it is the same."""
    document = without_secrets(experiment.model_dump(mode="json"))
    begun = journal.last("experiment")
    if begun is None:
        if resume:
            raise UsageError("nothing to resume: no experiment was begun here", path=tree, way_out="leave out --resume")
        journal.append("experiment", "begun", document=document)
    elif without_secrets(begun.detail["document"]) != document:
        raise UsageError("holds another experiment", path=tree, way_out="choose another --out")
    elif not resume:
        raise UsageError("an experiment was begun here", path=tree, way_out="pass --resume, or choose another --out")


@contextmanager
def _no_secret_left(private: Path) -> Iterator[None]:
    """Remove clients' password files: those of a killed runner before the call, our own after it."""
    try:
        _remove_secrets(private)
        yield
    finally:
        _remove_secrets(private)


def _remove_secrets(private: Path) -> None:
    for secret in private.rglob(LOGIN_FILE):
        secret.unlink(missing_ok=True)


@contextmanager
def _only_runner(private: Path) -> Iterator[None]:
    """Keep a second runner out of the same folder; the lock ends with this process however it ends."""
    import fcntl

    private.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(private / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                "another runner works here", path=private.parent, way_out="wait for it, or choose another --out"
            ) from error
        yield
    finally:
        os.close(descriptor)
