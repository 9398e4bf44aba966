"""A simulated cluster with traced statements, event by event: it shares no code with the model that predicts it.

Each client thread is connected to one node, or sends each operation to the node of its key. A node's processor is
shared equally by all that run on it (processor sharing); the network and the client are delays. A statement whose key
is on another node works there as a child, between the two halves of its parent's work.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from citus_analysis.schema import TABLES

BEGUN = datetime(2026, 11, 20, 21, tzinfo=UTC)
NETWORK_US, THINK_US = 60.0, 200.0
#: Runs into which a simulation is cut, and the share that is left out at its beginning.
RUNS, WARM_UP = 4, 0.1


@dataclass(frozen=True)
class Cluster:
    """Work in µs of a statement on its own node, of a parent, of a child, and of a connection on the child's node."""

    threads: int
    workers: int = 2
    owner: bool = False
    reconnects: float = 0.0
    local_us: float = 300.0
    parent_us: float = 250.0
    child_us: float = 200.0
    connection_us: float = 800.0


@dataclass
class _Operation:
    thread: int
    steps: list[tuple[str, int, float]]
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("parent", "connect", "child", "net"), 0.0))
    since: float = 0.0


#: A completed operation: time of its end (µs), the node of its parent, whether it was remote, where its time went.
Completed = tuple[float, int, bool, dict[str, float]]


@dataclass(frozen=True)
class Simulated:
    """Completed operations, those at the beginning included, and the share of time that each processor was busy."""

    done: list[Completed]
    busy: tuple[float, ...]


class _Simulation:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.random = cluster, np.random.default_rng(seed)
        self.now, self.number = 0.0, 0
        self.delays: list[tuple[float, int, _Operation]] = []
        # A node's virtual time passes as fast as each of its jobs is served.
        self.jobs: list[list[tuple[float, int, _Operation]]] = [[] for _ in range(cluster.workers)]
        self.virtual, self.moved = [0.0] * cluster.workers, [0.0] * cluster.workers
        self.busy_us = [0.0] * cluster.workers
        self.done: list[Completed] = []
        for thread in range(cluster.threads):
            self.proceed(self.start(thread))

    def draw(self, mean: float) -> float:
        return float(self.random.gamma(4.0, mean / 4.0))

    def start(self, thread: int) -> _Operation:
        one, key = self.cluster, int(self.random.integers(self.cluster.workers))
        node = key if one.owner else thread % one.workers
        if key == node:
            steps = [("parent", node, self.draw(one.local_us))]
        else:
            half = self.draw(one.parent_us) / 2
            connects = self.random.random() < one.reconnects
            connection = [("connect", key, self.draw(one.connection_us))] if connects else []
            away = [("net", -1, NETWORK_US), ("child", key, self.draw(one.child_us)), ("net", -1, NETWORK_US)]
            steps = [("parent", node, half), *connection, *away, ("parent", node, half)]
        return _Operation(thread, [("think", -1, self.draw(THINK_US)), *steps])

    def pass_time(self, node: int) -> None:
        if self.jobs[node]:
            self.virtual[node] += (self.now - self.moved[node]) / len(self.jobs[node])
            self.busy_us[node] += self.now - self.moved[node]
        self.moved[node] = self.now

    def proceed(self, operation: _Operation) -> None:
        """Begin the next step, or the next operation."""
        if not operation.steps:
            remote = operation.spent["child"] > 0
            self.done.append((self.now, operation.thread % self.cluster.workers, remote, operation.spent))
            operation = self.start(operation.thread)
        _, node, work = operation.steps[0]
        self.number += 1
        operation.since = self.now
        if node < 0:
            heapq.heappush(self.delays, (self.now + work, self.number, operation))
        else:
            self.pass_time(node)
            heapq.heappush(self.jobs[node], (self.virtual[node] + work, self.number, operation))

    def step(self) -> None:
        """End the step that ends next."""
        ends = [
            self.moved[node] + (queue[0][0] - self.virtual[node]) * len(queue) if queue else float("inf")
            for node, queue in enumerate(self.jobs)
        ]
        node = int(np.argmin(ends))
        if self.delays and self.delays[0][0] <= ends[node]:
            self.now, _, operation = heapq.heappop(self.delays)
        else:
            self.now = ends[node]
            self.pass_time(node)
            operation = heapq.heappop(self.jobs[node])[2]
        kind = operation.steps.pop(0)[0]
        if kind != "think":
            operation.spent[kind] += self.now - operation.since
        self.proceed(operation)


def simulate(cluster: Cluster, seed: int, operations: int = 2_000) -> Simulated:
    """Run a cluster until so many operations have ended."""
    simulation = _Simulation(cluster, seed)
    while len(simulation.done) < operations:
        simulation.step()
    return Simulated(simulation.done, tuple(busy / simulation.now for busy in simulation.busy_us))


def measure_ops_s(simulated: Simulated) -> float:
    """Throughput after the beginning."""
    ends = [end for end, *_ in simulated.done]
    first = int(WARM_UP * len(ends))
    return (len(ends) - first) / (ends[-1] - ends[first]) * 1e6


def make_tables(simulated: Mapping[Cluster, Simulated], *, with_cpu: bool = False) -> dict[str, pl.DataFrame]:
    """The tables that an ingest of these clusters' runs would give, as far as a prediction reads them."""
    runs, latencies, statements, samples, nodes = [], [], [], [], []
    for cluster, one in simulated.items():
        done = one.done
        kept = done[int(WARM_UP * len(done)) :]
        for run, part in enumerate(np.array_split(np.arange(len(kept)), RUNS)):
            key = {"run_id": f"t{cluster.threads}/{run}", "resource": f"t{cluster.threads}"}
            mine = [kept[place] for place in part]
            begun = kept[part[0] - 1][0] if part[0] else done[len(done) - len(kept) - 1][0]
            lasted_us = mine[-1][0] - begun
            samples += [
                key
                | {"node": str(node + 1), "sample": second, "sample_time": BEGUN + timedelta(seconds=second)}
                | {"since_boot": False, "sampler": "iostat", "idle_percent": 100 * (1 - busy), "source_id": str(node)}
                | {"user_percent": 100 * busy, "iowait_percent": 0.0, "steal_percent": 0.0}
                for node, busy in enumerate(one.busy)
                for second in (1, 2)
            ]
            totals = [sum(spent.values()) for *_, spent in mine]
            runs.append(
                key
                | {"system": "citus", "set_up": "query from any node", "phase": "run", "workload": "C"}
                | {"threads": cluster.threads, "workers": cluster.workers, "status": "ok", "iteration": run}
                | {"throughput_ops_s": len(mine) / lasted_us * 1e6, "runtime_ms": 30_000.0}
                | {"operations_done": len(mine), "start_time": BEGUN, "end_time": BEGUN + timedelta(seconds=30)}
            )
            latencies.append(
                key | {"role": "main", "operation": "READ", "operations": len(mine), "mean_us": float(np.mean(totals))}
            )
            for place, (_, node, remote, spent) in enumerate(mine[::3]):
                parent = spent["parent"] + spent["connect"]
                statements.append(
                    key
                    | {"node": str(node + 1), "pid": node, "session_seq": place, "statement_kind": "select"}
                    | {"executed": "remote" if remote else "local", "failed": False, "child_protocol": "binary"}
                    | {"total_us": sum(spent.values()), "parent_us": parent, "connect_us": spent["connect"] or None}
                    | {"child_us": spent["child"] if remote else None, "between_us": spent["net"] if remote else None}
                )
        nodes += [
            {"resource": f"t{cluster.threads}", "node": str(node + 1), "host": f"host{node}", "groupid": node + 1}
            for node in range(cluster.workers)
        ]
    found = {"runs": runs, "operation_latencies": latencies, "statements": statements}
    found |= {"cpu_samples": samples, "nodes": nodes} if with_cpu else {}
    given = {name: TABLES[name].conform(pl.DataFrame(rows, infer_schema_length=None)) for name, rows in found.items()}
    others = ("settings", "clients", "nodes", "throttle_samples", "process_samples", "activity_samples", "cpu_samples")
    return {name: TABLES[name].empty() for name in others} | given
