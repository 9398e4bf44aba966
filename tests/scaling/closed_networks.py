"""Simulated closed systems, event by event, against which predictions are held: they share no code with the models.

Each of N threads goes through the steps of a route again and again. A step belongs to a part of the response time
(parent, child, network, outside) or to none (the client's own time) and is served at a station: first come, first
served by one or several servers, all at once (a delay), or in batches (all who wait when a flush ends are served
together by the next one).
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from citus_analysis.schema import TABLES

#: When the simulated runs were made, as far as their tables say.
BEGUN, LASTED = datetime(2026, 11, 20, 21, tzinfo=UTC), timedelta(seconds=30)
PARTS = ("parent", "child", "network", "outside")


@dataclass(frozen=True)
class Step:
    """Mean service time in us at a station, in Erlang stages: 1 is exponential, 4 is half as variable."""

    part: str
    station: str
    mean_us: float
    stages: int = 2


@dataclass(frozen=True)
class System:
    """A route through stations; `servers` per station: a number, `inf` for a delay, 0 for batches."""

    route: tuple[Step, ...]
    servers: Mapping[str, float]

    def without(self, part: str) -> "System":
        """The same system, one part infinitely fast."""
        return replace(self, route=tuple(step for step in self.route if step.part != part))


@dataclass
class MeasurementResult:
    """What a run of the simulation shows, as clients and traces would."""

    threads: int
    throughput_ops_s: float
    parts_us: dict[str, float]
    client_us: float
    utilisation: dict[str, float]


@dataclass
class _Station:
    servers: float
    free: float = 0.0
    waiting: deque[tuple[int, float]] = field(default_factory=deque)
    busy_us: float = 0.0


def simulate(system: System, threads: int, operations: int = 20_000, seed: int = 1) -> MeasurementResult:
    """Run until so many operations are done, of which the first fifth is warm-up."""
    return _Run(system, threads, operations, seed).result()


class _Run:
    def __init__(self, system: System, threads: int, operations: int, seed: int) -> None:
        self.system, self.threads, self.operations = system, threads, operations
        self.stations = {name: _Station(servers, servers) for name, servers in system.servers.items()}
        self.random = np.random.default_rng(seed)
        self.pools = [self._pool(step) for step in system.route]
        self.events: list[tuple[float, int, str, tuple[int, ...]]] = []
        self.at = [0] * threads
        self.since = [0.0] * threads
        self.spent = dict.fromkeys((*PARTS, "client"), 0.0)
        self.done, self.begun, self.number = 0, 0.0, 0

    def _pool(self, step: Step) -> list[float]:
        draws = self.random.gamma(step.stages, step.mean_us / step.stages, self.operations + 4 * self.threads)
        return [float(value) for value in draws]

    def result(self) -> MeasurementResult:
        now, warm = 0.0, self.operations // 5
        for thread in range(self.threads):
            self._arrive(thread, float(self.random.uniform(0, 100)))
        while self.done < self.operations:
            now, _, name, served = heapq.heappop(self.events)
            before = self.done
            self._leave(name, served, now)
            if before < warm <= self.done:
                self.begun, self.spent = now, dict.fromkeys(self.spent, 0.0)
                for station in self.stations.values():
                    station.busy_us = 0.0
        count, lasted = self.done - warm, now - self.begun
        parts = {part: self.spent[part] / count for part in PARTS}
        use = {n: min(s.busy_us / lasted / s.servers, 1.0) for n, s in self.stations.items() if 0 < s.servers < np.inf}
        return MeasurementResult(self.threads, count / lasted * 1e6, parts, self.spent["client"] / count, use)

    def _service(self, step: int) -> float:
        pool = self.pools[step]
        return pool.pop() if pool else self.system.route[step].mean_us

    def _serve(self, name: str, served: tuple[int, ...], now: float) -> None:
        time = self._service(self.at[served[0]])
        self.stations[name].busy_us += time
        self.number += 1
        heapq.heappush(self.events, (now + time, self.number, name, served))

    def _arrive(self, thread: int, now: float) -> None:
        self.since[thread] = now
        name = self.system.route[self.at[thread]].station
        station = self.stations[name]
        if station.servers == 0:  # batches: `free` is -1 while a flush is under way
            if station.free == 0:
                station.free = -1
                self._serve(name, (thread,), now)
            else:
                station.waiting.append((thread, now))
        elif station.free >= 1:
            station.free -= 1
            self._serve(name, (thread,), now)
        else:
            station.waiting.append((thread, now))

    def _leave(self, name: str, served: tuple[int, ...], now: float) -> None:
        station = self.stations[name]
        if not station.waiting:
            station.free = 0 if station.servers == 0 else station.free + 1
        elif station.servers == 0:
            batch = tuple(thread for thread, _ in station.waiting)
            station.waiting.clear()
            self._serve(name, batch, now)
        else:
            self._serve(name, (station.waiting.popleft()[0],), now)
        for thread in served:
            self.spent[self.system.route[self.at[thread]].part] += now - self.since[thread]
            self.at[thread] += 1
            if self.at[thread] == len(self.system.route):
                self.at[thread], self.done = 0, self.done + 1
            self._arrive(thread, now)


def tables(
    runs: Sequence[MeasurementResult], cpus: Mapping[str, Sequence[str]] | None = None
) -> dict[str, pl.DataFrame]:
    """The tables that an ingest of these runs would give, as far as a blocked-time analysis reads them.

    `cpus` are the sampled stations, each with its nodes; parents run on the nodes of the first one, children on those
    of the last one.
    """
    names = [f"simulated/t{run.threads}-{i}" for i, run in enumerate(runs)]
    nodes = list((cpus or {"cpu": ["1"]}).values())
    keys = {"run_id": names, "resource": "simulated"}
    count, threads = 20_000, [run.threads for run in runs]
    total = [sum(run.parts_us.values()) for run in runs]
    times = {part: [run.parts_us[part] for run in runs] for part in PARTS}
    statements = {
        "pid": 1,
        "statement_kind": "select",
        "executed": "remote",
        "total_us": [t - o for t, o in zip(total, times["outside"], strict=True)],
        "parent_us": times["parent"],
        "child_us": times["child"],
        "between_us": times["network"],
        "match": "exact",
        "failed": False,
        "includes_commit": True,
    }
    found = {
        "runs": {"threads": threads, "throughput_ops_s": [run.throughput_ops_s for run in runs]}
        | {"operations_done": count, "status": "ok", "start_time": BEGUN, "end_time": BEGUN + LASTED},
        "operation_latencies": {"role": "main", "operation": "READ", "operations": count, "mean_us": total},
        "statements": statements,
    }
    given = {name: TABLES[name].conform(pl.DataFrame({**keys, **columns})) for name, columns in found.items()}
    # The first statements of a session are warm-up.
    one = given["statements"].drop("node", "session_seq", strict=False)
    places = pl.DataFrame({"node": list(nodes[0])}).join(pl.DataFrame({"session_seq": range(8)}), how="cross")
    given["statements"] = TABLES["statements"].conform(one.join(places, how="cross"))
    pairs = {"parent_node": nodes[0][0], "child_node": list(nodes[-1])}
    given["match_quality"] = TABLES["match_quality"].conform(pl.DataFrame({"resource": "simulated", **pairs}))
    if cpus:
        given |= {"cpu_samples": _samples(runs, names, cpus), "device_samples": TABLES["device_samples"].empty()}
    return given


def _samples(
    runs: Sequence[MeasurementResult], names: Sequence[str], cpus: Mapping[str, Sequence[str]]
) -> pl.DataFrame:
    """A sample of each node's CPU per second."""
    seconds = int(LASTED.total_seconds())
    rows = [
        pl.DataFrame(
            {
                "source_id": f"{name}-{node}",
                "resource": "simulated",
                "run_id": name,
                "node": node,
                "sample": range(seconds),
                "sample_time": [BEGUN + timedelta(seconds=i) for i in range(seconds)],
                "since_boot": [i == 0 for i in range(seconds)],
                "sampler": "iostat",
                "idle_percent": 100 * (1 - run.utilisation[station]),
                "iowait_percent": 0.0,
                "steal_percent": 0.0,
            }
        )
        for run, name in zip(runs, names, strict=True)
        for station, nodes in cpus.items()
        for node in nodes
    ]
    return TABLES["cpu_samples"].conform(pl.concat(rows))


INF = float("inf")
#: Systems in which simpler models predicted wrongly.
SYSTEMS: dict[str, System] = {
    "single servers": System(
        (
            Step("client", "think", 100),
            Step("outside", "way", 150),
            Step("parent", "parent", 200),
            Step("network", "net", 60),
            Step("child", "child", 300),
        ),
        {"think": INF, "way": INF, "parent": 1, "net": INF, "child": 1},
    ),
    "shared 8 cores": System(
        (
            Step("client", "think", 100),
            Step("outside", "way", 200),
            Step("parent", "cpu", 500),
            Step("network", "net", 150),
            Step("child", "cpu", 900),
            Step("network", "net", 150),
            Step("parent", "cpu", 300),
        ),
        {"think": INF, "way": INF, "cpu": 8, "net": INF},
    ),
    "16 + 16 cores": System(
        (
            Step("client", "think", 100),
            Step("outside", "way", 200),
            Step("parent", "parent", 500),
            Step("network", "net", 100),
            Step("child", "child", 1_600),
            Step("network", "net", 100),
            Step("parent", "parent", 400),
        ),
        {"think": INF, "way": INF, "parent": 16, "net": INF, "child": 16},
    ),
    "group commit": System(
        (
            Step("client", "think", 100),
            Step("outside", "way", 200),
            Step("parent", "parent", 250),
            Step("network", "net", 100),
            Step("child", "child", 300),
            Step("child", "wal", 2_000, 8),
            Step("network", "net", 100),
            Step("parent", "parent", 150),
        ),
        {"think": INF, "way": INF, "parent": 16, "net": INF, "child": 8, "wal": 0},
    ),
    "one client core": System(
        (
            Step("client", "think", 20),
            Step("outside", "client", 100),
            Step("parent", "parent", 200),
            Step("network", "net", 100),
            Step("child", "child", 400),
            Step("network", "net", 100),
            Step("parent", "parent", 60),
        ),
        {"think": INF, "client": 1, "parent": 8, "net": INF, "child": 16},
    ),
}
