"""The states of a run: prepared, loaded, monitored, measured, publishing, collected, verified (or degraded, failed).

Each state is on disk before the next one starts. An interrupted run is repeated from its beginning: its attempt's
private files are deleted, and files that were already published are removed from the tree.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.redaction import redact
from citus_analysis.runner.execution.ledger import Ledger
from citus_analysis.runner.execution.measure import Measured, Measurement, publish
from citus_analysis.runner.journal import Journal, Seen
from citus_analysis.runner.planning.plan import PlannedRun
from citus_analysis.runner.records.artefacts import inside
from citus_analysis.runner.records.description import check_environment, environment_of, write_description
from citus_analysis.runner.records.outcomes import write_outcomes
from citus_analysis.runner.records.run_results import RunResult, client_words, judge_run, last_words, share_remark
from citus_analysis.runner.systems.system import Description
from citus_analysis.runs.run_status import OUTCOME_OF, worst_status

_ENVIRONMENT: Final = "environment"


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
        seen = _seen(measured)
        self._step(run, "measured", problems=measured.problems, notes=measured.notes, window=window, seen=seen)
        self._write_description(run, description)
        result = judge_run(run, measured.client_outputs, measured.monitor_output, measured.server_logs)
        complaint = _complaint(measured)  # before the files are moved
        self._step(run, "publishing", files=[str(place) for place in measured.files])
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
                    inside(self.tree, place).unlink(missing_ok=True)

    def _describe(self, run: PlannedRun) -> Description:
        target, experiment = self.measurement.target, self.measurement.experiment
        description = target.describe()
        varying = {f"settings.{name}" for name in experiment.matrix.settings} | {"system"}
        now = {name: value for name, value in environment_of(description).items() if name not in varying}
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

    def _verify(self, run: PlannedRun, measured: Measured, result: RunResult, complaint: list[str]) -> None:
        problems = [*measured.problems, *self._count_problem(run)]
        one_sided = measured.reached.problem(threads=run.configuration.threads)
        status = worst_status(result.status, *(["failed"] if problems else []), *(["degraded"] if one_sided else []))
        reasons = [*problems, *(reason for reason in (result.reason, one_sided) if reason), *complaint]
        known = {name: getattr(result, name) for name in ("throughput_ops_s", "connected_threads", "monitor_share")}
        why = {} if status == "ok" else {"reason": redact("; ".join(reasons))}
        self._step(run, OUTCOME_OF[status], **why, **known)
        resource = run.configuration.resource
        write_outcomes(self.tree / resource, self.ledger.outcomes(resource))

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


def _seen(measured: Measured) -> Seen:
    """The observations of a run for the journal and `config.yml`."""
    seen = measured.reached.as_facts()
    if measured.skipped:
        seen["skipped"] = measured.skipped
    return seen


def _complaint(measured: Measured) -> list[str]:
    """The first error message of a run's clients, with the name of its file; empty if there is none.

    If a client ended badly and no output contains a known form of message, the last line is used.
    """
    places = {path: place for place, path in measured.files.items()}
    outputs = [*measured.client_outputs, *([measured.monitor_output] if measured.monitor_output else [])]
    words = [client_words, *([last_words] if measured.ended_badly else [])]
    complaint = ((places.get(output, output.name), find(output)) for find in words for output in outputs)
    return next(([f"{place} says: {found}"] for place, found in complaint if found), [])
