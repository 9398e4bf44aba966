"""A study as the runner writes it, of client logs only: workers x threads x repeats, and variants at one size.

Throughputs follow the Universal Scalability Law with a known spread, so that findings are known beforehand. Clusters of
any size and any number of configurations can be made, which no recording has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import yaml

HARDWARE: Final = "1 virtual machine, 2 cores; each node 10 % of a core"
DOUBLED: Final = "1 virtual machine, 2 cores; each node 20 % of a core"
#: Operations per second of one node, and the operations that a workload's summary lists.
_RATES: Final = {"load": 120.0, "A": 140.0, "B": 170.0, "C": 180.0, "D": 160.0, "E": 40.0, "F": 110.0}
_SECTIONS: Final = {
    "load": {"INSERT": 1.0},
    "A": {"READ": 0.5, "UPDATE": 0.5},
    "B": {"READ": 0.95, "UPDATE": 0.05},
    "C": {"READ": 1.0},
    "D": {"READ": 0.95, "INSERT": 0.05},
    "E": {"SCAN": 0.95, "INSERT": 0.05},
    # Every second operation reads and updates; YCSB counts both in their own sections too.
    "F": {"READ": 1.0, "READ-MODIFY-WRITE": 0.5, "UPDATE": 0.5},
}
_SPREAD: Final = 0.03
_CONTENTION: Final = 0.08


@dataclass(frozen=True)
class Cell:
    """A configuration, and the factor by which it is faster than the usual set-up."""

    workload: str
    workers: int
    threads: int
    set_up: str = "citus"
    factor: float = 1.0
    hardware: str = HARDWARE
    system: str = "citus"
    records: int = 2000
    drivers: int = 1
    monitored: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The resource, as the runner names it."""
        extra = "" if self.records == Cell.records else f"-r{self.records}"
        own = f"-{self.set_up}" if self.set_up != Cell.set_up else ""
        phase = "load" if self.workload == "load" else f"run-{self.workload.lower()}"
        return f"w{self.workers}-t{self.threads}{own}{extra}-{phase}{'' if self.monitored else '-plain'}"

    def throughput(self) -> float:
        """Expected operations per second."""
        nodes = max(self.workers, 1)
        capacity = _RATES[self.workload] * nodes / (1 + _CONTENTION * (nodes - 1))
        return float(self.factor * capacity * self.threads / (self.threads + 6.0))


def demonstration() -> list[Cell]:
    """The grid and the variants of the shipped demonstration."""
    return [*_grid((1, 2, 4, 8), (4, 16, 64)), *_variants()]


def wide(nodes: Sequence[int] = (1, 2, 4, 8, 16, 32, 64), threads: Sequence[int] = (16, 64, 256)) -> list[Cell]:
    """A study of some 200 configurations on up to 64 workers."""
    names = ("citus", "binary", "coordinator", "shards 32", "shards 128")
    return [
        Cell(workload, w, t, name, 1.0 + 0.05 * place)
        for place, name in enumerate(names)
        for workload in ("load", "C")
        for w in nodes
        for t in threads
    ]


def _grid(workers: Sequence[int], threads: Sequence[int]) -> Iterator[Cell]:
    for w in workers:
        for t in threads:
            yield from (Cell(workload, w, t) for workload in ("load", "C"))
    yield from (Cell(workload, 4, 16) for workload in "ABDEF")


def _variants() -> Iterator[Cell]:
    for workload in ("load", "C"):
        yield Cell(workload, 4, 16, "binary", 1.2, settings={"citus.enable_binary_protocol": "on"})
        yield Cell(workload, 4, 16, "coordinator", 0.6)
        yield Cell(workload, 4, 16, "2 load generators", 1.01, drivers=2)
        yield Cell(workload, 4, 16, "shards 8", 1.0)
        yield Cell(workload, 4, 16, monitored=False, factor=1.01)
        yield Cell(workload, 0, 16, "single", 2.2, system="postgresql")
        yield from (Cell(workload, w, 16, "double CPU", 1.8, DOUBLED) for w in (2, 4))
        yield from (Cell(workload, 4, 16, records=records, factor=f) for records, f in ((500, 0.8), (8000, 1.05)))
    for place, workload in enumerate("ABDEF"):
        yield Cell(workload, 0, 16, "single", 1.5 + 0.2 * place, system="postgresql")


def write_study(folder: Path, cells: Sequence[Cell], repeats: int = 5, seed: int = 20261122) -> Path:
    """Write a tree of the study: `RESOURCE/config.yml` and `RESOURCE/YCSB/raw/*.log`."""
    random = np.random.default_rng(seed)
    for cell in cells:
        raw = folder / cell.name / "YCSB" / "raw"
        raw.mkdir(parents=True)
        (folder / cell.name / "config.yml").write_text(yaml.safe_dump(_description(cell), sort_keys=False))
        for iteration in range(1, repeats + 1):
            rate = cell.throughput() * float(np.exp(random.normal(0, _SPREAD)))
            for part in range(cell.drivers):
                (raw / _file(cell, iteration, part)).write_text(_log(cell, rate / cell.drivers))
            if cell.monitored:
                (raw / f"monitor_{_file(cell, iteration, 0)}").write_text(_log(cell, rate / 1000, user="monitor"))
    return folder


def _description(cell: Cell) -> dict[str, object]:
    phase = "load" if cell.workload == "load" else "run"
    facts: dict[str, object] = {"set_up": cell.set_up, "phase": phase, "workload": cell.workload}
    facts |= {"threads": cell.threads, "records": cell.records, "workers": cell.workers, "drivers": cell.drivers}
    facts["workload"] = "A" if cell.workload == "load" else cell.workload
    return {
        "resource": cell.name,
        "facts": facts if phase == "load" else facts | {"operations": cell.records},
        "system": cell.system,
        "monitored": cell.monitored,
        "hardware": cell.hardware,
        "settings": {"citus.enable_binary_protocol": "off"} | dict(cell.settings),
        "varied": ["citus.enable_binary_protocol"],
    }


def _file(cell: Cell, iteration: int, part: int) -> str:
    tail = f"{iteration}_{cell.workers}_{cell.name}_{cell.drivers}_{part}.log"
    if cell.workload == "load":
        return f"load_A_{cell.threads}_{cell.records}_{tail}"
    return f"run_{cell.workload}_{cell.threads}_{cell.records}_{cell.records}_{tail}"


def _log(cell: Cell, rate: float, user: str = "citus") -> str:
    operations = cell.records
    host = "coordinator" if cell.set_up in ("coordinator", "single") else "worker1"
    mean = 1e6 * cell.threads / cell.drivers / rate if user == "citus" else 4e4
    lines = [
        f"Command line: -{'load' if cell.workload == 'load' else 't'} -s -threads {cell.threads // cell.drivers} "
        f"-p db.url=jdbc:postgresql://{host}:5432/x -p db.user={user}",
        "YCSB Client 0.17.0",
        f"[OVERALL], RunTime(ms), {operations / rate * 1000:.0f}",
        f"[OVERALL], Throughput(ops/sec), {rate!r}",
    ]
    for section, share in _SECTIONS[cell.workload].items():
        count = round(operations * share)
        values = {"Operations": count, "AverageLatency(us)": mean, "MinLatency(us)": 300, "MaxLatency(us)": 9 * mean}
        values |= {"95thPercentileLatency(us)": round(2 * mean), "99thPercentileLatency(us)": round(3 * mean)}
        lines += [f"[{section}], {name}, {value}" for name, value in values.items()]
        lines.append(f"[{section}], Return=OK, {count}")
    return "\n".join(lines) + "\n"
