"""`matrix`: the varied values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from citus_analysis.runner.experiment_file.fields import Part, Positive, Setting

#: Workloads of every driver except `command`.
CORE_NAMES = ("load", "load-e", "a", "b", "c", "d", "e", "f")

_LIST, _MAPPING = "=list", "=mapping"
#: Tags of the two shapes of numbers; they do not occur in the file, so messages omit them.
TAGS = (_LIST, _MAPPING)
Numbers = Annotated[list[Positive], Field(min_length=1)]


def _shape(value: object) -> str:
    return _MAPPING if isinstance(value, Mapping) else _LIST


#: Numbers for all workloads, or a mapping from a workload or phase to its numbers.
NumbersByWorkload = Annotated[
    Annotated[Numbers, Tag(_LIST)] | Annotated[dict[str, Numbers], Tag(_MAPPING)], Discriminator(_shape)
]


class Matrix(Part):
    """Every combination of these values is a configuration."""

    workloads: Annotated[list[str], Field(min_length=1)] = Field(
        description="`load` (INSERT phase of workload a), `load-e`, a core workload a to f, or one of driver.workloads"
    )
    threads: NumbersByWorkload = Field(
        [1],
        description="client threads, over all load generators; or a list for each workload or phase: "
        "`{load: [990], run: [800], e: [100]}`",
    )
    workers: list[Annotated[int, Field(ge=0)]] = Field(
        [], description="worker nodes; 0 = a single server; default: all workers of a Citus cluster, else 0"
    )
    records: list[Positive] = Field([10_000], description="records in the table; the load phase inserts them")
    operations: list[Positive] = Field([10_000], description="ignored by the load phase, which inserts all records")
    drivers: NumbersByWorkload = Field(
        [1],
        description="load generators that run at the same time; or a list for each workload or phase, like `threads`",
    )
    protocol: list[Literal["simple", "extended", "prepared"]] = Field([], description="pgbench: overrides the driver's")
    monitored: list[bool] = Field([False], description="whether the sampled client runs during the load")
    settings: dict[str, list[Setting]] = Field(default_factory=dict, description="server setting -> values")

    @model_validator(mode="after")
    def _numbers_for_every_workload(self) -> Matrix:
        for name, numbers in (("threads", self.threads), ("drivers", self.drivers)):
            for workload in self.workloads:
                _numbers_of(numbers, workload, name)
        return self

    def threads_of(self, workload: str) -> list[int]:
        """Numbers of client threads of a workload: its own, or else those of its phase.

        Example:
            >>> matrix = Matrix(workloads=["load", "c", "e"], threads={"load": [990], "run": [800], "e": [100]})
            >>> [matrix.threads_of(workload) for workload in matrix.workloads]
            [[990], [800], [100]]
        """
        return _numbers_of(self.threads, workload, "threads")

    def drivers_of(self, workload: str) -> list[int]:
        """Numbers of load generators of a workload: its own, or else those of its phase."""
        return _numbers_of(self.drivers, workload, "drivers")

    @property
    def all_threads(self) -> list[int]:
        """Every number of client threads that a workload has, each once."""
        return list(dict.fromkeys(number for workload in self.workloads for number in self.threads_of(workload)))

    @property
    def all_drivers(self) -> list[int]:
        """Every number of load generators that a workload has, each once."""
        return list(dict.fromkeys(number for workload in self.workloads for number in self.drivers_of(workload)))


def _numbers_of(numbers: list[int] | dict[str, list[int]], workload: str, name: str) -> list[int]:
    if not isinstance(numbers, dict):
        return numbers
    phase = "load" if workload.startswith("load") else "run"
    for place in (workload, phase):
        if place in numbers:
            return numbers[place]
    raise ValueError(f"{name}: no value for workload {workload}; add {workload}: or {phase}:")
