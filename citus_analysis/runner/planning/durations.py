"""Estimate the durations of runs: from ended runs, else from the experiment's limits.

A run's wall time is its measurement plus overhead (preparing, filling, warming up, collecting). A configuration with
ended runs is expected to take their mean. Other configurations are expected to take the mean overhead of all ended
runs, plus their own time limit or their operations at the mean throughput so far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Self

from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.journal import Entry, Journal
from citus_analysis.runner.planning.plan import PlannedRun


@dataclass(frozen=True)
class Estimate:
    """Estimated total time of some runs.

    Attributes:
        seconds: wall time.
        ended: number of ended runs that it is estimated from; 0: from the limits alone.
        exact_limits: without ended runs, whether every run has a time limit; otherwise `timeout_s` limits it.
    """

    seconds: float
    ended: int
    exact_limits: bool = True

    def __str__(self) -> str:
        if self.ended:
            return f"about {duration_text(self.seconds)}, from {self.ended} ended run{'s' * (self.ended > 1)}"
        if self.exact_limits:
            return f"at least {duration_text(self.seconds)}, from warmup_s and limits.duration_s"
        return f"at most {duration_text(self.seconds)}, from limits.timeout_s; a first ended run shows more"


@dataclass(frozen=True)
class _Spent:
    """Wall time of one ended run and of its measurement, in seconds."""

    total_s: float
    measuring_s: float
    operations: int


class Durations:
    """Durations of an experiment's runs."""

    def __init__(self, experiment: Experiment) -> None:
        self._limits, self._warmup_s = experiment.limits, experiment.warmup_s
        self._spent: dict[str, list[_Spent]] = defaultdict(list)

    @classmethod
    def read(cls, experiment: Experiment, plan: Iterable[PlannedRun], journal: Journal) -> Self:
        """Durations of the runs of a plan, read from the journal."""
        durations = cls(experiment)
        for run in plan:
            durations.add(run, journal)
        return durations

    def add(self, run: PlannedRun, journal: Journal) -> None:
        """Add the duration of a run if it succeeded."""
        if spent := _spent(run, journal.of(run.run_id)):
            self._spent[run.configuration.resource].append(spent)

    def expected_s(self, run: PlannedRun) -> float:
        """Expected wall time of a run; before any run ended, its limit."""
        own = self._spent.get(run.configuration.resource)
        if own:
            return fmean(spent.total_s for spent in own)
        ended = self._ended()
        if not ended:
            limit_s = self._limits.duration_s or self._limits.timeout_s
            return self._warmup_s + limit_s
        around_s = fmean(spent.total_s - spent.measuring_s for spent in ended)
        operations_per_s = sum(spent.operations for spent in ended) / sum(spent.measuring_s for spent in ended)
        return around_s + (self._limits.duration_s or run.configuration.operations / operations_per_s)

    def left(self, runs: Sequence[PlannedRun]) -> Estimate:
        """The time that runs will take, one after the other."""
        seconds = sum(self.expected_s(run) for run in runs)
        return Estimate(seconds, len(self._ended()), exact_limits=self._limits.duration_s is not None)

    def _ended(self) -> list[_Spent]:
        return [spent for several in self._spent.values() for spent in several]


def _spent(run: PlannedRun, entries: Sequence[Entry]) -> _Spent | None:
    """The newest attempt's times; None if it did not succeed or the journal does not contain its begin."""
    times: dict[str, datetime] = {}
    for entry in entries:
        if entry.state == "begun":
            times.clear()
        times[entry.state] = datetime.fromisoformat(entry.time)
    if not {"begun", "monitored", "measured", "verified"} <= times.keys():
        return None
    total = times["verified"] - times["begun"]
    measuring = times["measured"] - times["monitored"]
    return _Spent(total.total_seconds(), max(measuring.total_seconds(), 1e-3), run.configuration.operations)


def duration_text(seconds: float) -> str:
    """A duration as text, in two units at most.

    Example:
        >>> [duration_text(seconds) for seconds in (0.4, 59, 61, 3_600, 200_000)]
        ['1 s', '59 s', '1 min 1 s', '1 h 0 min', '2 d 7 h']
    """
    whole = max(1, round(seconds))
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {smaller_unit}"
    return f"{whole} s"
