"""From an experiment to an ordered list of runs.

A configuration is one combination of the matrix; it has a resource name of its own, so that the server logs and
samples of a run are identified by (resource, iteration) alone. The plan orders runs in randomised interleaved blocks:
every iteration is a block that contains each configuration once, shuffled by a recorded seed. The order of the study
is by size instead, and by workload within an iteration, so that a table is filled once for all runs that do not change
its records.

Example:
    >>> from citus_analysis.runner.experiment_file.experiment import parse_experiment
    >>> plan = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [1, 2]}}))
    >>> sorted(run.run_id for run in plan)[:2]
    ['x-w0-t1-c#1', 'x-w0-t1-c#2']
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from citus_analysis.errors import UsageError
from citus_analysis.runner.experiment_file.driver_fields import PgbenchDriver
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.fields import Setting, setting_text
from citus_analysis.runner.experiment_file.own_workloads import ScriptedWorkload, used_names
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget


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


def configurations(experiment: Experiment) -> list[Configuration]:
    """Every combination of the matrix, in the matrix' order.

    Raises:
        UsageError: two combinations would have the same name.
    """
    matrix = experiment.matrix
    own_protocol = experiment.driver.protocol if isinstance(experiment.driver, PgbenchDriver) else None
    protocols: list[str | None] = [*matrix.protocol] or [own_protocol]
    setting_axes = [[(name, value) for value in values] for name, values in matrix.settings.items()]
    used = {workload: _used_names(experiment, workload) for workload in matrix.workloads}
    combined = (
        Configuration(
            resource=_resource(experiment, combination, settings),
            set_up=_set_up(experiment, protocol, settings),
            phase="load" if workload.startswith("load") else "run",
            workload=_workload_name(experiment, workload),
            threads=threads,
            workers=workers,
            records=records if "records" in used[workload] else 0,
            operations=records if workload.startswith("load") else operations if "operations" in used[workload] else 0,
            drivers=drivers,
            protocol=protocol,
            monitored=monitored,
            settings=settings,
            own_tables=experiment.own_workload(workload) is not None,
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
            matrix.monitored,
        )
        for workers, threads, workload, records, operations, drivers, protocol, monitored in [combination]
        if threads in matrix.threads_of(workload) and drivers in matrix.drivers_of(workload)
    )
    # The load phase has no number of operations: combinations that differ only in this number are equal.
    chosen = list(dict.fromkeys(combined))
    _refuse_equal_names(chosen)
    return chosen


def _workload_name(experiment: Experiment, workload: str) -> str:
    return workload if experiment.own_workload(workload) else _WORKLOAD_LETTER.get(workload, workload.upper())


def _used_names(experiment: Experiment, workload: str) -> set[str]:
    """The numbers of the matrix that a workload uses: a core workload uses all, pgbench always uses operations."""
    own = experiment.own_workload(workload)
    if own is None:
        return {"records", "operations"}
    return used_names(own) | ({"operations"} if isinstance(own, ScriptedWorkload) else set())


def _refuse_equal_names(chosen: Sequence[Configuration]) -> None:
    counts = Counter(configuration.resource for configuration in chosen)
    name, count = counts.most_common(1)[0]
    if count > 1:
        problem = f"{count} configurations would be named {name!r}: values of a setting differ in punctuation only"
        raise UsageError(problem, place="matrix.settings", way_out="write them so that letters or digits differ")


def last_iteration(experiment: Experiment) -> int:
    """The largest iteration of the experiment file: the fixed number, or the stop rule's largest."""
    return experiment.iterations if experiment.stop.rule == "fixed" else experiment.stop.max_iterations


def make_plan(experiment: Experiment, more: Mapping[str, int] | None = None) -> list[PlannedRun]:
    """All runs in the order in which they are to be launched.

    Args:
        experiment: the experiment.
        more: resource -> iterations beyond :func:`last_iteration`; other resources have none.
    """
    chosen = configurations(experiment)
    last = {one.resource: last_iteration(experiment) + (more or {}).get(one.resource, 0) for one in chosen}
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


def table_before(experiment: Experiment, plan: Sequence[PlannedRun]) -> list[str]:
    """The preparation of the table before each run of a plan: `emptied`, `filled`, `kept`, or `moved` if it grows.

    Before a run of a workload with tables of its own, the benchmark's table is not changed: `own`.

    Example:
        >>> from citus_analysis.runner.experiment_file.experiment import parse_experiment
        >>> matrix = {"workloads": ["load", "e", "d", "a", "load-e"]}
        >>> study = parse_experiment({"name": "x", "matrix": matrix, "order": "study", "iterations": 1})
        >>> plan = make_plan(study)
        >>> [(run.configuration.resource[8:], table) for run, table in zip(plan, table_before(study, plan))]
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


def _resource(
    experiment: Experiment,
    combination: tuple[int, int, str, int, int, int, str | None, bool],
    settings: tuple[tuple[str, Setting], ...],
) -> str:
    """The resource's name: always with workers, threads and workload, and with the values of other axes that vary."""
    matrix = experiment.matrix
    workers, threads, workload, records, operations, drivers, protocol, monitored = combination
    optional = [
        (len(matrix.records) > 1, f"r{records}"),
        (len(matrix.operations) > 1 and not workload.startswith("load"), f"o{operations}"),
        (len(matrix.all_drivers) > 1, f"d{drivers}"),
        (len(matrix.protocol) > 1, f"{protocol}"),
        (len(matrix.monitored) > 1, "monitored" if monitored else "unmonitored"),
        *((len(matrix.settings[name]) > 1, _setting_suffix(name, value)) for name, value in settings),
    ]
    always = [experiment.name, f"w{workers}", f"t{threads}", workload.replace("-", "")]
    return "-".join([*always, *(part for varies, part in optional if varies)])


def _set_up(experiment: Experiment, protocol: str | None, settings: tuple[tuple[str, Setting], ...]) -> str:
    matrix = experiment.matrix
    varied = [f"{name}={setting_text(value)}" for name, value in settings if len(matrix.settings[name]) > 1]
    name = experiment.set_up or experiment.name
    return " ".join([name, *([f"protocol={protocol}"] if len(matrix.protocol) > 1 else []), *varied])


def _setting_suffix(name: str, value: Setting) -> str:
    shown = name.rsplit(".", maxsplit=1)[-1].replace("_", "") + setting_text(value)
    # A sign and a decimal point distinguish values.
    return "".join(character for character in shown if character.isalnum() or character in "-.")
