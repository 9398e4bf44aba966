"""The course of one call: the next run, when to stop, and the events for a live view."""

from __future__ import annotations

import fcntl
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Final, Literal, TypeGuard, TypeVar, cast

from pydantic import ValidationError

from citus_analysis.errors import InputError, UsageError
from citus_analysis.redaction import redact_values
from citus_analysis.runner.cluster_workers import fill_worker_count
from citus_analysis.runner.experiment import Experiment
from citus_analysis.runner.former_state import describe_unrestored
from citus_analysis.runner.hosts import Processes
from citus_analysis.runner.journal import Journal, JournalEntry, Seen
from citus_analysis.runner.measure import Window
from citus_analysis.runner.plan import Choice, DurationEstimate, Durations, PlannedRun, get_last_iteration, make_plan
from citus_analysis.runner.records import IterationOutcome
from citus_analysis.runner.server_snapshots import Reached
from citus_analysis.stats.intervals import mean_interval

# Outcomes of the runs of an experiment, read from its journal.

_MIN_RUNS_FOR_INTERVAL: Final = 2

_Value = TypeVar("_Value")


@dataclass
class Ledger:
    """The state of all runs, as recorded in the journal.

    Attributes:
        verified: run id -> throughput, operations per second.
        failed: run id -> reason.
        degraded: run id -> reason; the run was measured, but operations failed.
        windows: run id -> begin and end of the time in which its main clients ran.
        seen: run id -> nodes that its clients reached, and missing recordings with the reasons.
        notes: remarks on the whole experiment.
        more: resource -> requested iterations beyond those of the experiment file.
    """

    verified: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    degraded: dict[str, str] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)
    more: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, journal: Journal) -> Ledger:
        """The ledger from the journal's lines."""
        ledger = cls()
        for entry in journal.entries():
            ledger.take(entry)
        return ledger

    def take(self, entry: JournalEntry) -> None:
        """Take in one line of the journal."""
        run_id, detail = entry.subject, entry.detail
        self.notes.update(detail.get("notes", ()))
        match entry.state:
            case "verified":
                self.verified[run_id] = detail["throughput_ops_s"]
            case "failed" | "degraded":
                getattr(self, entry.state)[run_id] = detail["reason"]
            case "measured":
                texts = detail.get("window") or [None, None]
                begin, end = (datetime.fromisoformat(text) if text else None for text in texts)
                self.windows[run_id] = begin, end
                self.seen[run_id] = detail.get("seen", {})
            case "reopened":
                self.reopen(run_id)
            case "extended":
                self.more.update(detail["more"])

    def reopen(self, run_id: str) -> None:
        """Forget the outcome of a run, so that it is launched again."""
        self.verified.pop(run_id, None)
        self.failed.pop(run_id, None)
        self.degraded.pop(run_id, None)

    def is_done(self, run: PlannedRun) -> bool:
        """Whether the run ended, with success or not."""
        return self.state(run.run_id) is not None

    def state(self, run_id: str) -> Literal["failed", "degraded", "verified"] | None:
        """How a run ended; None if it has not."""
        if run_id in self.verified:
            return "verified"
        return "failed" if run_id in self.failed else "degraded" if run_id in self.degraded else None

    def has_enough(self, run: PlannedRun, experiment: Experiment) -> bool:
        """Whether the stop rule finds this iteration unnecessary."""
        rule = experiment.stop
        if rule.rule == "fixed" or not experiment.iterations < run.iteration <= rule.max_iterations:
            return False  # iterations requested beyond the rule are measured
        throughputs = self.throughputs(run.configuration.resource)
        if len(throughputs) < max(_MIN_RUNS_FOR_INTERVAL, experiment.iterations):
            return False
        return mean_interval(throughputs, level=rule.level).relative_half_width <= rule.relative_half_width

    def throughputs(self, resource: str) -> list[float]:
        """Throughputs of the resource's verified runs."""
        return list(_select_resource_iterations(resource, self.verified).values())

    def outcomes(self, resource: str) -> list[IterationOutcome]:
        """The outcomes of the resource's iterations."""
        reasons = {**dict.fromkeys(self.verified, ""), **self.degraded, **self.failed}
        return [
            IterationOutcome(number, f"{self.state(run_id)}", reason, *self.windows.get(run_id, (None, None)))
            for number, reason in sorted(_select_resource_iterations(resource, reasons).items())
            for run_id in [f"{resource}#{number}"]
        ]

    def measured(self, resource: str) -> dict[int, Seen]:
        """Iteration -> observations of it, for a resource."""
        seen = _select_resource_iterations(resource, self.seen)
        return {number: seen[number] for number in sorted(seen) if seen[number]}


def _select_resource_iterations(resource: str, values: Mapping[str, _Value]) -> dict[int, _Value]:
    """Iteration -> value, for the runs of a resource, from run id -> value."""
    named = ((run_id.rpartition("#"), value) for run_id, value in values.items())
    return {int(number): value for (name, _, number), value in named if name == resource}


@dataclass(frozen=True)
class RunnerEvent:
    """The state that a live view shows.

    Attributes:
        run_id: the run in progress.
        done: runs finished so far, earlier calls included.
        planned: runs of the plan.
        failed: runs that failed so far.
        left: time until the chosen runs are done.
        phase: preparing, filling, warming up, measuring or collecting; empty when the run has ended.
        throughput_ops_s: current throughput, None while unknown; of an ended run, its result.
        duration_s: wall time of the run so far.
        failure: reason why the run failed; empty if it did not.
    """

    run_id: str
    done: int
    planned: int
    failed: int
    left: DurationEstimate
    phase: str = ""
    throughput_ops_s: float | None = None
    duration_s: float = 0
    failure: str = ""


#: A function that is called with each event, for a live view.
Watch = Callable[[RunnerEvent], None]


@dataclass
class Course:
    """The runs of one call in their order: the next run, when to stop, and the events for a live view.

    Attributes:
        plan: all runs.
        chosen: the runs of this call.
        watch: called with each event.
        skipped: ids of the runs that the stop rule found unnecessary.
        stopped: reason why no further run is launched; empty if there is none.
    """

    experiment: Experiment
    plan: Sequence[PlannedRun]
    chosen: Sequence[PlannedRun]
    ledger: Ledger
    journal: Journal
    watch: Watch
    skipped: list[str] = field(default_factory=list)
    stopped: str = ""

    def __post_init__(self) -> None:
        self._durations = Durations.read(self.experiment, self.plan, self.journal)
        self._causes: Counter[str] = Counter()
        self._run: PlannedRun | None = None
        self._phase, self._since_s = "", 0.0

    def open_runs(self) -> Iterator[PlannedRun]:
        """The runs to launch, one by one, because the results of earlier runs decide on the next."""
        for run in self.chosen:
            if self.stopped:
                return
            if self.ledger.is_done(run):
                continue
            if self.ledger.has_enough(run, self.experiment):
                self.skipped.append(run.run_id)
                continue
            self._run, self._since_s = run, time.monotonic()
            self.enter("preparing")
            yield run

    def enter(self, phase: str) -> None:
        """Report that the run in progress enters a phase."""
        self._phase = phase
        self.report_rate(None)

    def report_rate(self, throughput_ops_s: float | None) -> None:
        """Report the current throughput of the run in progress."""
        if self._run:
            self.watch(self._event(self._run, self._phase, throughput_ops_s, ""))

    def end_run(self, run: PlannedRun) -> None:
        """Report the end of a run to the view, and count it if it failed."""
        self._durations.add(run, self.journal)
        failure = self.ledger.failed.get(run.run_id) or self.ledger.degraded.get(run.run_id, "")
        if failure:
            cause = extract_failure_cause(failure)
            self._causes[cause] += 1
            if self._causes[cause] >= self.experiment.limits.max_failures:
                self.stopped = f"{self._causes[cause]} runs failed for the same reason (limits.max_failures): {failure}"
        self.watch(self._event(run, "", self.ledger.verified.get(run.run_id), failure))
        self._run = None

    def _event(self, run: PlannedRun, phase: str, throughput_ops_s: float | None, failure: str) -> RunnerEvent:
        spent_s = time.monotonic() - self._since_s
        open_runs = [one for one in self.chosen if not self.ledger.is_done(one) and one.run_id not in self.skipped]
        left = self._durations.estimate(open_runs)
        if phase:
            spent_of_expected_s = min(spent_s, self._durations.expected_s(run))
            left = replace(left, seconds=left.seconds - spent_of_expected_s)
        unfit = len(self.ledger.failed) + len(self.ledger.degraded)
        return RunnerEvent(
            run_id=run.run_id,
            done=len(self.ledger.verified) + unfit + len(self.skipped),
            planned=len(self.plan),
            failed=unfit,
            left=left,
            phase=phase,
            throughput_ops_s=throughput_ops_s,
            duration_s=spent_s,
            failure=failure,
        )


def extract_failure_cause(failure: str) -> str:
    """The cause that failures of different runs share: the load generator's message if there is one, without numbers.

    Example:
        >>> reason = "no final summary in x-t8/run_1.log; the client says: FATAL: port 7301: too many clients; 0 rows"
        >>> extract_failure_cause(reason)
        'FATAL: port N: too many clients'
    """
    quoted = re.search(r" says: ([^;]*)", failure)
    return re.sub(r"\d+", "N", quoted[1] if quoted else failure)


# Continue an experiment: its document in the journal, runs opened again, iterations added.
#
# The measured experiment may not change between two calls on one folder. Fields that do not affect it may: addresses,
# accounts and ways to reach a node, folders of programs, the description, and limits of time and failures.

#: The runner's own folder in the tree, its journal, and the lock file against a second runner.
PRIVATE: Final = ".runner"
JOURNAL: Final = "journal.jsonl"
LOCK: Final = "lock"
#: The register of the processes that a runner started.
PROCESSES: Final = "processes.jsonl"

_EXPERIMENT: Final = "experiment"
_CORRECTABLE: Final = frozenset({"description", "driver.home", "limits.timeout_s", "limits.max_failures"})
#: Fields of `target.nodes[]` that state how a node is reached.
_ADDRESS: Final = frozenset({"host", "port", "shell", "ssh_user", "ssh_port", "log_directory"})


def begin(journal: Journal, experiment: Experiment, tree: Path, *, resume: bool) -> None:
    """Record the experiment of a new folder, or check that the folder belongs to it; corrections are recorded.

    Raises:
        UsageError: the folder contains another experiment, or the experiment was begun and `resume` is not set, or
            there is none to resume.
    """
    document = _redact_experiment(experiment)
    begun = journal.last(_EXPERIMENT)
    if begun is None:
        if resume:
            raise UsageError("nothing to resume: no experiment was begun here", path=tree, hint="leave out --resume")
        journal.append(_EXPERIMENT, "begun", document=document)
        return
    before = _add_new_defaults(begun.detail["document"])
    changed = dict(_iterate_differences(before, document))
    refused = [f"{place} was {was}, is {now}" for place, (was, now) in changed.items() if not _is_correctable(place)]
    if refused:
        hint = "choose another --out"
        raise UsageError(f"holds another experiment: {'; '.join(refused)}", path=tree, hint=hint)
    if not resume:
        raise UsageError("an experiment was begun here", path=tree, hint="pass --resume, or choose another --out")
    if changed:
        journal.append(_EXPERIMENT, "corrected", document=document)


def read_begun_document(tree: Path) -> Mapping[str, object] | None:
    """The document of the experiment that was begun in a folder, without secrets; None if none was."""
    begun = Journal(tree / PRIVATE / JOURNAL).last(_EXPERIMENT)
    return None if begun is None else begun.detail["document"]


def load_begun_experiment(journal: Journal, tree: Path) -> Experiment:
    """The experiment of a folder.

    Raises:
        UsageError: no experiment was begun there.
        InputError: its document cannot be read by this version.
    """
    begun = journal.last(_EXPERIMENT)
    if begun is None:
        raise UsageError("no experiment was begun here", path=tree, hint="name the --out folder of a run")
    try:
        return Experiment.model_validate(begun.detail["document"])
    except ValidationError as error:
        hint = "use the version of citus-analysis that began the experiment"
        problem = f"the journal's experiment cannot be read: {error.errors()[0]['msg']}"
        raise InputError(problem, path=journal.path, hint=hint) from error


def reopen_runs(
    experiment: Experiment, ledger: Ledger, choice: Choice, journal: Journal | None = None
) -> list[PlannedRun]:
    """Open chosen runs that failed or are named again, and add iterations, if the choice asks for it.

    Args:
        experiment: the experiment.
        ledger: its present state, which is changed.
        choice: the chosen runs.
        journal: records the changes, so that later calls continue with them; None: nothing is recorded.

    Returns:
        the chosen runs of the plan, including those that have ended.

    Raises:
        UnknownNameError: the choice names no run of the plan.
    """
    named = choice.of(make_plan(experiment, ledger.more))
    known = {run.run_id for run in named}
    more = {run.configuration.resource: choice.more for run in named} if choice.more else {}
    before = {resource: get_last_iteration(experiment) + ledger.more[resource] for resource in more}
    unfit = (ledger.failed.keys() | ledger.degraded.keys()) if choice.retry_failed else frozenset[str]()
    for run_id in sorted(known & (unfit | choice.again)):
        ledger.reopen(run_id)
        if journal:
            journal.append(run_id, "reopened")
    ledger.more.update(more)
    if more and journal:
        journal.append("plan", "extended", more=more)
    plan = make_plan(experiment, ledger.more)
    added = {run.run_id for run in plan if run.iteration > before.get(run.configuration.resource, run.iteration)}
    return [run for run in plan if run.run_id in known | added]


def _redact_experiment(experiment: Experiment) -> dict[str, object]:
    return cast("dict[str, object]", redact_values(experiment.model_dump(mode="json")))


def _add_new_defaults(document: Mapping[str, object]) -> Mapping[str, object]:
    """The document with the defaults of fields that an earlier version did not have."""
    try:
        read = Experiment.model_validate(document)
    except ValidationError:
        return document
    return _redact_experiment(read)


def _iterate_differences(before: object, now: object, place: str = "") -> Iterator[tuple[str, tuple[object, object]]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{place}.{name}" if place else str(name)
            yield from _iterate_differences(before.get(name), now.get(name), inner)
    elif _is_node_list(before) and _is_node_list(now) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _iterate_differences(one, other, f"{place}.{number}")
    elif before != now:
        yield place, (before, now)


def _is_node_list(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _is_correctable(place: str) -> bool:
    field = place.rsplit(".", maxsplit=1)[-1]
    of_node = place.startswith("target.nodes.") and field in _ADDRESS
    of_host = place.startswith("driver.hosts.")  # all of these fields state how a host is reached
    return place in _CORRECTABLE or of_node or of_host


# The runs that a call would launch and their duration, without launching them.


def forecast_runs(
    experiment: Experiment, choice: Choice, out: Path | None
) -> tuple[list[PlannedRun], DurationEstimate]:
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
    known = fill_worker_count(experiment)
    journal = Journal(out / PRIVATE / JOURNAL) if out else None
    ledger = Ledger.read(journal) if journal else Ledger()
    chosen = reopen_runs(known, ledger, choice)
    left = [run for run in chosen if not ledger.is_done(run) and not ledger.has_enough(run, known)]
    durations = Durations.read(known, make_plan(known, ledger.more), journal) if journal else Durations(known)
    return left, durations.estimate(left)


# Progress of an experiment, read from its folder alone, while it runs or at any time afterwards.

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
        unrestored: what of the cluster is not yet as the experiment found it; empty while a runner works.
        ended: names of processes of a killed runner that were still running, and were ended.
    """

    name: str
    runs: tuple[RunState, ...]
    running: bool
    left: DurationEstimate
    unrestored: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()

    def count(self, *states: State) -> int:
        """Number of runs in these states."""
        return sum(run.state in states for run in self.runs)


def read_overview(out: str | PathLike[str]) -> Overview:
    """The progress of the experiment in a folder of `run`, which is not changed.

    Processes that a killed runner left (load generators, samplers) are ended.

    Raises:
        UsageError: no experiment was begun there.
        InputError: the journal was written by another version.
    """
    tree = Path(out).resolve()
    journal = Journal(tree / PRIVATE / JOURNAL)
    experiment = load_begun_experiment(journal, tree)
    ledger = Ledger.read(journal)
    plan = make_plan(experiment, ledger.more)
    unnecessary = {run.run_id for run in plan if not ledger.is_done(run) and ledger.has_enough(run, experiment)}
    left = [run for run in plan if not ledger.is_done(run) and run.run_id not in unnecessary]
    running = _is_locked(tree / PRIVATE / LOCK)
    return Overview(
        name=experiment.name,
        runs=tuple(_state(run, ledger, journal.last(run.run_id), run.run_id in unnecessary) for run in plan),
        running=running,
        left=Durations.read(experiment, plan, journal).estimate(left),
        unrestored=() if running else describe_unrestored(tree / PRIVATE),
        ended=() if running else tuple(Processes(tree / PRIVATE / PROCESSES).end_leftovers()),
    )


def _state(run: PlannedRun, ledger: Ledger, newest: JournalEntry | None, unnecessary: bool) -> RunState:
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
