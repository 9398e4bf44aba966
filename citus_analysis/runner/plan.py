"""From an experiment to an ordered list of runs.

A configuration is one combination of the matrix; it has a resource name of its own, so that the server logs and
samples of a run are found by (resource, iteration) alone. The plan orders runs in randomised interleaved blocks:
every iteration is a block that contains each configuration once, shuffled by a seed that is recorded.

Example:
    >>> from citus_analysis.runner.experiment import parse_experiment
    >>> plan = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [1, 2]}}))
    >>> sorted(run.run_id for run in plan)[:2]
    ['x-w0-t1-c#1', 'x-w0-t1-c#2']
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from citus_analysis.errors import UsageError
from citus_analysis.runner.experiment import Experiment, PgbenchDriver, Setting, setting_text

__all__ = ["Configuration", "PlannedRun", "configurations", "last_iteration", "make_plan"]


@dataclass(frozen=True)
class Configuration:
    """One combination of the matrix.

    Attributes:
        resource: name of its folder.
        set_up: what its runs share with those that differ in size, load or operation only: the experiment, and the
            protocol and server settings where the matrix varies them.
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

    @property
    def changes_table(self) -> bool:
        """Whether the table is another one after the run."""
        return self.phase == "load" or self.workload != "C"


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
        UsageError: two of them would have one name.
    """
    matrix = experiment.matrix
    own_protocol = experiment.driver.protocol if isinstance(experiment.driver, PgbenchDriver) else None
    protocols: list[str | None] = [*matrix.protocol] or [own_protocol]
    setting_axes = [[(name, value) for value in values] for name, values in matrix.settings.items()]
    combined = (
        Configuration(
            resource=_resource(experiment, *combination, settings),
            set_up=_set_up(experiment, protocol, settings),
            phase="load" if workload.startswith("load") else "run",
            workload=_WORKLOAD_LETTER.get(workload, workload.upper()),
            threads=threads,
            workers=workers,
            records=records,
            operations=records if workload.startswith("load") else operations,
            drivers=drivers,
            protocol=protocol,
            monitored=monitored,
            settings=settings,
        )
        for settings in product(*setting_axes)
        for combination in product(
            matrix.workers or [0],
            matrix.threads,
            matrix.workloads,
            matrix.records,
            matrix.operations,
            matrix.drivers,
            protocols,
            matrix.monitored,
        )
        for workers, threads, workload, records, operations, drivers, protocol, monitored in [combination]
    )
    # The load phase knows no number of operations: combinations that differ only in it are one.
    chosen = list(dict.fromkeys(combined))
    _refuse_equal_names(chosen)
    return chosen


def _refuse_equal_names(chosen: Sequence[Configuration]) -> None:
    counts = Counter(configuration.resource for configuration in chosen)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise UsageError(
            f"{count} configurations would be named {name!r}: values of a setting differ in punctuation only",
            place="matrix.settings",
            way_out="write them so that letters or digits differ",
        )


def last_iteration(experiment: Experiment) -> int:
    """The largest iteration of the experiment file: the fixed number, or the stop rule's largest."""
    return experiment.iterations if experiment.stop.rule == "fixed" else experiment.stop.max_iterations


def make_plan(experiment: Experiment, more: Mapping[str, int] | None = None) -> list[PlannedRun]:
    """All runs in the order in which they are to be launched.

    Args:
        experiment: what to run.
        more: resource -> iterations beyond :func:`last_iteration`; other resources have none.
    """
    chosen = configurations(experiment)
    last = {one.resource: last_iteration(experiment) + (more or {}).get(one.resource, 0) for one in chosen}
    if experiment.order == "sequential":
        return [PlannedRun(one, i) for one in chosen for i in range(1, last[one.resource] + 1)]
    blocks = (_shuffled_block(chosen, i, experiment.seed) for i in range(1, max(last.values()) + 1))
    return [run for block in blocks for run in block if run.iteration <= last[run.configuration.resource]]


def _shuffled_block(chosen: list[Configuration], iteration: int, seed: int) -> Iterator[PlannedRun]:
    # A block's order depends on seed and iteration alone: more iterations leave the earlier blocks as they were.
    # The seed is a string because seeding by text is documented to be stable between Python versions.
    order = random.Random(f"{seed}/{iteration}").sample(chosen, k=len(chosen))  # noqa: S311 (no secret)
    return (PlannedRun(configuration, iteration) for configuration in order)


#: The load phase inserts the table of a core workload; all of a to d and f share one.
_WORKLOAD_LETTER: Final = {"load": "A", "load-e": "E"}


def _resource(
    experiment: Experiment,
    workers: int,
    threads: int,
    workload: str,
    records: int,
    operations: int,
    drivers: int,
    protocol: str | None,
    monitored: bool,
    settings: tuple[tuple[str, Setting], ...],
) -> str:
    """The resource's name: always workers, threads and workload; of the other axes those that vary."""
    matrix = experiment.matrix
    optional = [
        (len(matrix.records) > 1, f"r{records}"),
        (len(matrix.operations) > 1 and not workload.startswith("load"), f"o{operations}"),
        (len(matrix.drivers) > 1, f"d{drivers}"),
        (len(matrix.protocol) > 1, f"{protocol}"),
        (len(matrix.monitored) > 1, "monitored" if monitored else "unmonitored"),
        *((len(matrix.settings[name]) > 1, _setting_suffix(name, value)) for name, value in settings),
    ]
    always = [experiment.name, f"w{workers}", f"t{threads}", workload.replace("-", "")]
    return "-".join([*always, *(part for varies, part in optional if varies)])


def _set_up(experiment: Experiment, protocol: str | None, settings: tuple[tuple[str, Setting], ...]) -> str:
    matrix = experiment.matrix
    varied = [f"{name}={setting_text(value)}" for name, value in settings if len(matrix.settings[name]) > 1]
    return " ".join([experiment.name, *([f"protocol={protocol}"] if len(matrix.protocol) > 1 else []), *varied])


def _setting_suffix(name: str, value: Setting) -> str:
    shown = name.rsplit(".", maxsplit=1)[-1].replace("_", "") + setting_text(value)
    # A sign and a decimal point tell values apart.
    return "".join(character for character in shown if character.isalnum() or character in "-.")
