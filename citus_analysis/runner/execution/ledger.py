"""Outcomes of the runs of an experiment, read from its journal."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from citus_analysis.runner.execution.measure import Window
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.journal import Journal, Seen
from citus_analysis.runner.planning.plan import PlannedRun
from citus_analysis.runner.records.outcomes import Outcome
from citus_analysis.stats.estimate.intervals import mean_interval

_MIN_RUNS_FOR_INTERVAL: Final = 2


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
            ledger.notes.update(entry.detail.get("notes", ()))
            if entry.state == "verified":
                ledger.verified[entry.subject] = entry.detail["throughput_ops_s"]
            elif entry.state in ("failed", "degraded"):
                getattr(ledger, entry.state)[entry.subject] = entry.detail["reason"]
            elif entry.state == "measured":
                texts = entry.detail.get("window") or [None, None]
                begin, end = (datetime.fromisoformat(text) if text else None for text in texts)
                ledger.windows[entry.subject] = begin, end
                ledger.seen[entry.subject] = entry.detail.get("seen", {})
            elif entry.state == "reopened":
                ledger.reopen(entry.subject)
            elif entry.state == "extended":
                ledger.more.update(entry.detail["more"])
        return ledger

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
        throughputs = self.throughputs()[run.configuration.resource]
        if len(throughputs) < max(_MIN_RUNS_FOR_INTERVAL, experiment.iterations):
            return False
        return mean_interval(throughputs, level=rule.level).relative_half_width <= rule.relative_half_width

    def throughputs(self) -> dict[str, list[float]]:
        """Resource -> throughputs of its verified runs."""
        grouped: dict[str, list[float]] = defaultdict(list)
        for run_id, throughput_ops_s in self.verified.items():
            grouped[run_id.rpartition("#")[0]].append(throughput_ops_s)
        return grouped

    def outcomes(self, resource: str) -> list[Outcome]:
        """The outcomes of the resource's iterations."""
        reasons = {**dict.fromkeys(self.verified, ""), **self.degraded, **self.failed}
        of_resource = [(int(id_.rpartition("#")[2]), id_) for id_ in reasons if id_.rpartition("#")[0] == resource]
        return [
            Outcome(iteration, f"{self.state(id_)}", reasons[id_], *self.windows.get(id_, (None, None)))
            for iteration, id_ in sorted(of_resource)
        ]

    def measured(self, resource: str) -> dict[int, Seen]:
        """Iteration -> observations of it, for a resource."""
        of_resource = [(run, seen) for run, seen in self.seen.items() if seen and run.rpartition("#")[0] == resource]
        return dict(sorted((int(run.rpartition("#")[2]), seen) for run, seen in of_resource))
