"""The course of one call: the next run, when to stop, and the events for a live view."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from citus_analysis.runner.execution.ledger import Ledger
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.planning.durations import Durations, Estimate
from citus_analysis.runner.planning.plan import PlannedRun


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
    left: Estimate
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
            self.entering("preparing")
            yield run

    def entering(self, phase: str) -> None:
        """Report that the run in progress enters a phase."""
        self._phase = phase
        self.measuring(None)

    def measuring(self, throughput_ops_s: float | None) -> None:
        """Report the current throughput of the run in progress."""
        if self._run:
            self.watch(self._event(self._run, self._phase, throughput_ops_s, ""))

    def ended(self, run: PlannedRun) -> None:
        """Report the end of a run to the view, and count it if it failed."""
        self._durations.add(run, self.journal)
        failure = self.ledger.failed.get(run.run_id) or self.ledger.degraded.get(run.run_id, "")
        if failure:
            cause = cause_of(failure)
            self._causes[cause] += 1
            if self._causes[cause] >= self.experiment.limits.max_failures:
                self.stopped = f"{self._causes[cause]} runs failed for the same reason (limits.max_failures): {failure}"
        self.watch(self._event(run, "", self.ledger.verified.get(run.run_id), failure))
        self._run = None

    def _event(self, run: PlannedRun, phase: str, throughput_ops_s: float | None, failure: str) -> RunnerEvent:
        spent_s = time.monotonic() - self._since_s
        open_runs = [one for one in self.chosen if not self.ledger.is_done(one) and one.run_id not in self.skipped]
        left = self._durations.left(open_runs)
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


def cause_of(failure: str) -> str:
    """The cause that failures of different runs share: the load generator's message if there is one, without numbers.

    Example:
        >>> cause_of("no final summary in x-t8/run_1.log; the client says: FATAL: port 7301: too many clients; 0 rows")
        'FATAL: port N: too many clients'
    """
    quoted = re.search(r" says: ([^;]*)", failure)
    return re.sub(r"\d+", "N", quoted[1] if quoted else failure)
