"""Run an experiment, or continue one where an earlier call stopped.

Layout of the output folder::

    OUT/RESOURCE/...             the artefact tree, for `ingest`
    OUT/.runner/journal.jsonl    the steps done, one line each
    OUT/.runner/processes.jsonl  the processes started that may still run
    OUT/.runner/attempts/        files of the run in progress
    OUT/.runner/servers/         data of an embedded target, removed at the end
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from citus_analysis.errors import CitusAnalysisError, UsageError
from citus_analysis.runner.drivers import make_driver
from citus_analysis.runner.drivers.driver import LOGIN_FILE
from citus_analysis.runner.execution.course import Course, Watch
from citus_analysis.runner.execution.driver_hosts import DriverHosts, driver_hosts
from citus_analysis.runner.execution.ledger import Ledger
from citus_analysis.runner.execution.measure import Measurement
from citus_analysis.runner.execution.preflight import refuse_unready
from citus_analysis.runner.execution.resumption import JOURNAL, LOCK, PRIVATE, begin, carry_on
from citus_analysis.runner.execution.run_lifecycle import RunLifecycle
from citus_analysis.runner.existing_files import adopt_files
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.target_fields import FilesTarget
from citus_analysis.runner.hosts.processes import Processes
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.planning.choice import Choice
from citus_analysis.runner.planning.plan import make_plan
from citus_analysis.runner.systems import make_target
from citus_analysis.runner.systems.state.found import restore_found
from citus_analysis.runner.systems.state.sizes import with_known_workers


@dataclass(frozen=True)
class RunnerSummary:
    """The results of an experiment's runs.

    Attributes:
        verified: ids of the runs that succeeded, in this call or an earlier one.
        degraded: run id -> reason; measured to the end, but operations failed. Statistics leave them out.
        failed: run id -> reason; their files are kept, and statistics leave them out as well.
        skipped: ids of the runs that the stop rule found unnecessary.
        notes: remarks for a reader (missing samplers, missing capabilities of a system).
        stopped: reason why the call ended before all chosen runs were launched; empty if it did not.
    """

    verified: tuple[str, ...]
    degraded: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: str = ""

    @property
    def exit_code(self) -> int:
        """1 if a run failed or is degraded, else 0."""
        return 1 if self.failed or self.degraded else 0


def run_experiment(
    experiment: Experiment,
    out: str | PathLike[str],
    *,
    resume: bool = False,
    choice: Choice | None = None,
    replace_table: bool = False,
    watch: Watch = lambda _event: None,
) -> RunnerSummary:
    """Run an experiment into the artefact tree `out`.

    Args:
        experiment: the experiment.
        out: folder for the tree, absolute or relative to the working folder; without `resume` it must not contain an
            experiment.
        resume: continue where an earlier call on the same folder stopped.
        choice: the runs to launch; by default all that are open. Repeating failed runs and adding iterations resume.
        replace_table: drop a table of the benchmark's name on a cluster even if this tool did not create it.
        watch: called with each event, for a live view.

    Raises:
        UsageError: `out` contains another experiment, or the experiment was already begun and `resume` is not set.
        UnknownNameError: `choice` names no run of the plan.
        NotReadyError: the cluster, this machine or a program does not meet the experiment's needs; nothing was changed.
        EnvironmentChangedError: versions, settings or hardware changed since the experiment began.
        RunnerError: the target or the driver cannot be used.
    """
    tree = Path(out).resolve()  # what is launched works in folders of its own
    if isinstance(experiment.target, FilesTarget):
        return RunnerSummary(tuple(adopt_files(experiment.target, tree)))
    choice = choice or Choice()
    private = tree / PRIVATE
    journal = Journal(private / JOURNAL)
    warnings = refuse_unready(experiment, tree)
    known = with_known_workers(experiment)
    with _only_runner(private), _no_secret_left(private):
        begin(journal, known, tree, resume=resume or choice.goes_on)
        with _forgotten_if_refused(journal):
            summary = _run_all(known, tree, journal, choice, watch, replace_table=replace_table)
    return replace(summary, notes=(*warnings, *summary.notes))


def restore_cluster(out: str | PathLike[str]) -> tuple[str, ...]:
    """Restore a cluster's settings and nodes to the state in which the experiment in `out` found them.

    This is needed if the runner itself could not restore them.

    Returns:
        a sentence for each node that could not be restored; the call can be repeated.

    Raises:
        UsageError: nothing is left to restore, or a runner works in `out`.
        RunnerError: another experiment uses the cluster.
    """
    private = Path(out).resolve() / PRIVATE
    if not private.is_dir():
        raise UsageError("no experiment was begun here", path=out, way_out="name the --out of an experiment")
    with _only_runner(private), _no_secret_left(private):
        problems = restore_found(private)
    if problems is None:
        raise UsageError("nothing is left to restore", path=out, way_out="the cluster is as the experiment found it")
    return tuple(problems)


def _run_all(
    experiment: Experiment, tree: Path, journal: Journal, choice: Choice, watch: Watch, *, replace_table: bool
) -> RunnerSummary:
    private = tree / PRIVATE
    with ExitStack() as ending:
        processes = ending.enter_context(Processes(private / "processes.jsonl"))
        ledger = Ledger.read(journal)
        chosen = carry_on(experiment, ledger, choice, journal)
        course = Course(experiment, make_plan(experiment, ledger.more), chosen, ledger, journal, watch)
        target = make_target(experiment, private, replace_table=replace_table)
        ending.callback(lambda: ledger.notes.update(target.stop()))
        hosts = ending.enter_context(closing(DriverHosts(driver_hosts(experiment))))
        driver, kept = make_driver(experiment, target), private / "servers" / "own-tables"
        measurement = Measurement(experiment, target, driver, processes, course.measuring, kept, course.entering, hosts)
        lifecycle = RunLifecycle(tree, private / "attempts", journal, measurement, ledger)
        for run in course.open_runs():
            lifecycle.carry_out(run)
            course.ended(run)
    skipped, notes = tuple(course.skipped), tuple(sorted(ledger.notes))
    return RunnerSummary(tuple(ledger.verified), ledger.degraded, ledger.failed, skipped, notes, course.stopped)


@contextmanager
def _forgotten_if_refused(journal: Journal) -> Iterator[None]:
    """Remove the journal after an error if no run was prepared, so that the experiment is not considered begun."""
    try:
        yield
    except CitusAnalysisError:
        if not any(entry.state == "prepared" for entry in journal.entries()):
            journal.path.unlink(missing_ok=True)
        raise


@contextmanager
def _no_secret_left(private: Path) -> Iterator[None]:
    """Remove clients' password files: those of a killed runner before the call, those of this call after it."""
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
    """Lock the folder against a second runner; the lock ends when this process ends for any reason."""
    import fcntl

    private.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(private / LOCK, os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            way_out = "wait for it, or choose another --out"
            raise UsageError("another runner works here", path=private.parent, way_out=way_out) from error
        yield
