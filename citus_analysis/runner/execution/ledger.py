"""Outcomes of the runs of an experiment, read from its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeVar

from citus_analysis.runner.execution.measure import Window
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.journal import Entry, Journal, Seen
from citus_analysis.runner.planning.plan import PlannedRun
from citus_analysis.runner.records.outcomes import Outcome
from citus_analysis.stats.estimate.intervals import mean_interval

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

    def take(self, entry: Entry) -> None:
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
        return list(_iterations(resource, self.verified).values())

    def outcomes(self, resource: str) -> list[Outcome]:
        """The outcomes of the resource's iterations."""
        reasons = {**dict.fromkeys(self.verified, ""), **self.degraded, **self.failed}
        return [
            Outcome(number, f"{self.state(run_id)}", reason, *self.windows.get(run_id, (None, None)))
            for number, reason in sorted(_iterations(resource, reasons).items())
            for run_id in [f"{resource}#{number}"]
        ]

    def measured(self, resource: str) -> dict[int, Seen]:
        """Iteration -> observations of it, for a resource."""
        seen = _iterations(resource, self.seen)
        return {number: seen[number] for number in sorted(seen) if seen[number]}


def _iterations(resource: str, values: Mapping[str, _Value]) -> dict[int, _Value]:
    """Iteration -> value, for the runs of a resource, from run id -> value."""
    named = ((run_id.rpartition("#"), value) for run_id, value in values.items())
    return {int(number): value for (name, _, number), value in named if name == resource}
