"""From an experiment to an ordered list of runs.

A configuration is one combination of the matrix; it has a resource name of its own, so that the server logs and
samples of a run are identified by (resource, iteration) alone. The plan orders runs in randomised interleaved blocks:
every iteration is a block that contains each configuration once, shuffled by a recorded seed. The order of the study
is by size instead, and by workload within an iteration, so that a table is filled once for all runs that do not change
its records.

Example:
    >>> from citus_analysis.runner.experiment import parse_experiment
    >>> plan = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [1, 2]}}))
    >>> sorted(run.run_id for run in plan)[:2]
    ['x-w0-t1-c#1', 'x-w0-t1-c#2']
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import product
from statistics import fmean
from typing import Final, Literal, Self

from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.formats.config import format_server_setting
from citus_analysis.runner.experiment import (
    ClusterTarget,
    EntryName,
    Experiment,
    PgbenchDriver,
    ScriptedWorkload,
    Setting,
    collect_used_names,
)
from citus_analysis.runner.journal import Journal, JournalEntry


@dataclass(frozen=True)
class Configuration:
    """One combination of the matrix.

    Attributes:
        resource: name of its folder.
        set_up: name shared by all runs that differ in size, load or operation only: the experiment, and the protocol
            and server settings if the matrix varies them.
        records: number of records in the table; 0 if the workload does not use this number.
        operations: number of operations; 0 if the workload does not use this number.
        own_tables: the workload has tables of its own, and does not use the benchmark's.
        entry: where load generators connect to; None: as the target says.
    """

    resource: str
    set_up: str
    phase: Literal["load", "run"]
    workload: str
    threads: int
    workers: int
    records: int
    operations: int
    drivers: int
    protocol: str | None
    monitored: bool
    settings: tuple[tuple[str, Setting], ...]
    own_tables: bool = False
    entry: EntryName | None = None

    @property
    def adds_records(self) -> bool:
        """Whether the run changes the set of records; updates do not."""
        return self.phase == "load" or self.workload in _INSERTING

    @property
    def size(self) -> tuple[object, ...]:
        """Key of the servers' and the table's state: runs with equal keys can share a table."""
        return self.settings, self.workers, self.records


@dataclass(frozen=True)
class PlannedRun:
    """One iteration of a configuration."""

    configuration: Configuration
    iteration: int

    @property
    def run_id(self) -> str:
        """Key of the run in the journal."""
        return f"{self.configuration.resource}#{self.iteration}"


def list_configurations(experiment: Experiment) -> list[Configuration]:
    """Every combination of the matrix, in the matrix' order.

    Raises:
        UsageError: two combinations would have the same name.
    """
    matrix = experiment.matrix
    own_protocol = experiment.driver.protocol if isinstance(experiment.driver, PgbenchDriver) else None
    protocols: list[str | None] = [*matrix.protocol] or [own_protocol]
    entries: list[EntryName | None] = [*matrix.entry] or [None]
    setting_axes = [[(name, value) for value in values] for name, values in matrix.settings.items()]
    used = {workload: _collect_matrix_names(experiment, workload) for workload in matrix.workloads}
    combined = (
        Configuration(
            resource=_build_resource_name(experiment, combination, settings),
            set_up=_set_up(experiment, protocol, entry, settings),
            phase="load" if workload.startswith("load") else "run",
            workload=_format_workload_name(experiment, workload),
            threads=threads,
            workers=workers,
            records=records if "records" in used[workload] else 0,
            operations=records if workload.startswith("load") else operations if "operations" in used[workload] else 0,
            drivers=drivers,
            protocol=protocol,
            monitored=monitored,
            settings=settings,
            own_tables=experiment.own_workload(workload) is not None,
            entry=entry,
        )
        for settings in product(*setting_axes)
        for combination in product(
            matrix.workers or [0],
            matrix.all_threads,
            matrix.workloads,
            matrix.records,
            matrix.operations,
            matrix.all_drivers,
            protocols,
            entries,
            matrix.monitored,
        )
        for workers, threads, workload, records, operations, drivers, protocol, entry, monitored in [combination]
        if threads in matrix.get_threads(workload) and drivers in matrix.get_drivers(workload)
    )
    # The load phase has no number of operations: combinations that differ only in this number are equal.
    chosen = list(dict.fromkeys(combined))
    _refuse_equal_names(chosen)
    return chosen


def _format_workload_name(experiment: Experiment, workload: str) -> str:
    return workload if experiment.own_workload(workload) else _WORKLOAD_LETTER.get(workload, workload.upper())


def _collect_matrix_names(experiment: Experiment, workload: str) -> set[str]:
    """The numbers of the matrix that a workload uses: a core workload uses all, pgbench always uses operations."""
    own = experiment.own_workload(workload)
    if own is None:
        return {"records", "operations"}
    names = collect_used_names(own)
    if isinstance(own, ScriptedWorkload):
        names |= {"operations", *(["records"] if own.key else [])}
    return names


def _refuse_equal_names(chosen: Sequence[Configuration]) -> None:
    counts = Counter(configuration.resource for configuration in chosen)
    name, count = counts.most_common(1)[0]
    if count > 1:
        problem = f"{count} configurations would be named {name!r}: values of a setting differ in punctuation only"
        raise UsageError(problem, place="matrix.settings", hint="write them so that letters or digits differ")


def get_last_iteration(experiment: Experiment) -> int:
    """The largest iteration of the experiment file: the fixed number, or the stop rule's largest."""
    return experiment.iterations if experiment.stop.rule == "fixed" else experiment.stop.max_iterations


def make_plan(experiment: Experiment, more: Mapping[str, int] | None = None) -> list[PlannedRun]:
    """All runs in the order in which they are to be launched.

    Args:
        experiment: the experiment.
        more: resource -> iterations beyond :func:`get_last_iteration`; other resources have none.
    """
    chosen = list_configurations(experiment)
    last = {one.resource: get_last_iteration(experiment) + (more or {}).get(one.resource, 0) for one in chosen}
    runs = [PlannedRun(one, i) for one in chosen for i in range(1, last[one.resource] + 1)]
    if experiment.order == "sequential":
        return runs
    if experiment.order == "study":
        sizes = list(dict.fromkeys(one.size for one in chosen))
        return sorted(runs, key=lambda run: (sizes.index(run.configuration.size), run.iteration, _study_place(run)))
    # A block's order depends on seed and iteration alone, so that more iterations do not change the earlier blocks.
    # The seed is a string because seeding by text is documented to be stable between Python versions.
    return [
        PlannedRun(one, i)
        for i in range(1, max(last.values()) + 1)
        for one in random.Random(f"{experiment.seed}/{i}").sample(chosen, k=len(chosen))  # noqa: S311 (no secret)
        if i <= last[one.resource]
    ]


def _study_place(run: PlannedRun) -> int:
    """Place of a run within its iteration; workloads that the study did not have come last, in the matrix' order."""
    place = (run.configuration.phase, run.configuration.workload)
    return _STUDY_ORDER.index(place) if place in _STUDY_ORDER else len(_STUDY_ORDER)


def keeps_table(experiment: Experiment, configuration: Configuration) -> bool:
    """Whether a run can use a table that already contains its records; updates by earlier runs do not matter."""
    only_reads = configuration.own_tables or configuration.workload == "C"
    return configuration.phase != "load" and (experiment.order == "study" or only_reads)


def plan_table_preparations(experiment: Experiment, plan: Sequence[PlannedRun]) -> list[str]:
    """The preparation of the table before each run of a plan: `emptied`, `filled`, `kept`, or `moved` if it grows.

    Before a run of a workload with tables of its own, the benchmark's table is not changed: `own`.

    Example:
        >>> from citus_analysis.runner.experiment import parse_experiment
        >>> matrix = {"workloads": ["load", "e", "d", "a", "load-e"]}
        >>> study = parse_experiment({"name": "x", "matrix": matrix, "order": "study", "iterations": 1})
        >>> plan = make_plan(study)
        >>> [(run.configuration.resource[8:], table) for run, table in zip(plan, plan_table_preparations(study, plan))]
        [('load', 'emptied'), ('a', 'kept'), ('d', 'kept'), ('loade', 'emptied'), ('e', 'kept')]
    """
    # Shards are moved to the workers of the next run, without making the table again.
    is_rebalanced = isinstance(experiment.target, ClusterTarget) and experiment.target.growth == "rebalance"
    actions: list[str] = []
    held: Configuration | None = None  # whose records are in the table
    before: Configuration | None = None
    for run in plan:
        now = run.configuration
        if now.own_tables:
            actions.append("own")
            continue
        moves = before is not None and is_rebalanced and 0 < before.workers < now.workers
        fits = held is not None and (held.size == now.size or (moves and held.records == now.records))
        action = "emptied" if now.phase == "load" else "kept" if keeps_table(experiment, now) and fits else "filled"
        actions.append(f"moved, {action}" if moves else action)
        before, held = now, None if now.adds_records and now.phase == "run" else now
    return actions


#: The load phases insert the tables of core workloads; a to d and f share a table.
_WORKLOAD_LETTER: Final = {"load": "A", "load-e": "E"}

_INSERTING: Final = ("D", "E")

#: Loads come before the workloads that need their table; D and E insert records, so they come last.
_STUDY_ORDER: Final = [("load", "A"), *(("run", letter) for letter in "ABCFD"), ("load", "E"), ("run", "E")]


def _build_resource_name(
    experiment: Experiment,
    combination: tuple[int, int, str, int, int, int, str | None, EntryName | None, bool],
    settings: tuple[tuple[str, Setting], ...],
) -> str:
    """The resource's name: always with workers, threads and workload, and with the values of other axes that vary."""
    matrix = experiment.matrix
    workers, threads, workload, records, operations, drivers, protocol, entry, monitored = combination
    optional = [
        (len(matrix.records) > 1, f"r{records}"),
        (len(matrix.operations) > 1 and not workload.startswith("load"), f"o{operations}"),
        (len(matrix.all_drivers) > 1, f"d{drivers}"),
        (len(matrix.protocol) > 1, f"{protocol}"),
        (len(matrix.entry) > 1, f"{entry}"),
        (len(matrix.monitored) > 1, "monitored" if monitored else "unmonitored"),
        *((len(matrix.settings[name]) > 1, _format_setting_suffix(name, value)) for name, value in settings),
    ]
    always = [experiment.name, f"w{workers}", f"t{threads}", workload.replace("-", "")]
    return "-".join([*always, *(part for varies, part in optional if varies)])


def _set_up(
    experiment: Experiment,
    protocol: str | None,
    entry: EntryName | None,
    settings: tuple[tuple[str, Setting], ...],
) -> str:
    matrix = experiment.matrix
    varied = [f"{name}={format_server_setting(value)}" for name, value in settings if len(matrix.settings[name]) > 1]
    name = experiment.set_up or experiment.name
    clients = [f"protocol={protocol}"] if len(matrix.protocol) > 1 else []
    return " ".join([name, *clients, *([f"entry={entry}"] if len(matrix.entry) > 1 else []), *varied])


def _format_setting_suffix(name: str, value: Setting) -> str:
    shown = name.rsplit(".", maxsplit=1)[-1].replace("_", "") + format_server_setting(value)
    # A sign and a decimal point distinguish values.
    return "".join(character for character in shown if character.isalnum() or character in "-.")


# The runs of a plan that one call launches: all open runs, some configurations, failed runs again, or further runs.


@dataclass(frozen=True)
class Choice:
    """The runs that a call launches.

    Attributes:
        only: names of configurations (resources) or runs, with `*`, `?` and `[...]`; empty: all.
        retry_failed: whether failed runs are launched again.
        again: names of runs (`RESOURCE#ITERATION`) that are launched again, whatever became of them.
        more: number of iterations that are added to every chosen configuration.
    """

    only: tuple[str, ...] = ()
    retry_failed: bool = False
    more: int = 0
    again: frozenset[str] = frozenset()

    @property
    def goes_on(self) -> bool:
        """Whether the choice applies only to an experiment that was begun."""
        return self.retry_failed or self.more > 0 or bool(self.again)

    def of(self, plan: Sequence[PlannedRun]) -> list[PlannedRun]:
        """The chosen runs of a plan, in its order.

        Raises:
            UnknownNameError: a name chooses no run.
        """
        for pattern in self.only:
            if not any(_has_name(run, pattern) for run in plan):
                known = dict.fromkeys(run.configuration.resource for run in plan)
                raise UnknownNameError("configuration or run", pattern, list(known))
        return [run for run in plan if not self.only or any(_has_name(run, pattern) for pattern in self.only)]


def _has_name(run: PlannedRun, pattern: str) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for name in (run.configuration.resource, run.run_id))


# Estimate the durations of runs: from ended runs, else from the experiment's limits.
#
# A run's wall time is its measurement plus overhead (preparing, filling, warming up, collecting). A configuration with
# ended runs is expected to take their mean. Other configurations are expected to take the mean overhead of all ended
# runs, plus their own time limit or their operations at the mean throughput so far.


@dataclass(frozen=True)
class DurationEstimate:
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
            return f"about {format_duration(self.seconds)}, from {self.ended} ended run{'s' * (self.ended > 1)}"
        if self.exact_limits:
            return f"at least {format_duration(self.seconds)}, from warmup_s and limits.duration_s"
        return f"at most {format_duration(self.seconds)}, from limits.timeout_s; a first ended run shows more"


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
        if spent := _measure_spent_times(run, journal.of(run.run_id)):
            self._spent[run.configuration.resource].append(spent)

    def expected_s(self, run: PlannedRun) -> float:
        """Expected wall time of a run; before any run ended, its limit."""
        own = self._spent.get(run.configuration.resource)
        if own:
            return fmean(spent.total_s for spent in own)
        ended = self._list_ended()
        if not ended:
            limit_s = self._limits.duration_s or self._limits.timeout_s
            return self._warmup_s + limit_s
        around_s = fmean(spent.total_s - spent.measuring_s for spent in ended)
        operations_per_s = sum(spent.operations for spent in ended) / sum(spent.measuring_s for spent in ended)
        return around_s + (self._limits.duration_s or run.configuration.operations / operations_per_s)

    def estimate(self, runs: Sequence[PlannedRun]) -> DurationEstimate:
        """The time that runs will take, one after the other."""
        seconds = sum(self.expected_s(run) for run in runs)
        return DurationEstimate(seconds, len(self._list_ended()), exact_limits=self._limits.duration_s is not None)

    def _list_ended(self) -> list[_Spent]:
        return [spent for several in self._spent.values() for spent in several]


def _measure_spent_times(run: PlannedRun, entries: Sequence[JournalEntry]) -> _Spent | None:
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


def format_duration(seconds: float) -> str:
    """A duration as text, in two units at most.

    Example:
        >>> [format_duration(seconds) for seconds in (0.4, 59, 61, 3_600, 200_000)]
        ['1 s', '59 s', '1 min 1 s', '1 h 0 min', '2 d 7 h']
    """
    whole = max(1, round(seconds))
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {smaller_unit}"
    return f"{whole} s"
