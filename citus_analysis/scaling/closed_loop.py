"""A model of a cluster whose nodes' processors queue, fitted to measured configurations and held against each left out.

Each of N client threads sends an operation when the last one has ended. At a node, an operation takes the processor for
`a` times the time that its statements need without waiting, as the traces have it (a statement on its own shard; a
parent; a child), and the time that no trace shows: each message that a process waited for wakes it, is received and
answered. A statement on its own shard is one such message, one of another node three: the parent's from the client and
from the child, and the child's. What remains of the node's `cores` for operations is less by a constant part
(background work, samplers) and by the start of each backend, a session's or a connection's between nodes::

    service at a node = a · (Σ time of the statements there + message · messages)
                        / (cores - background - start · backends / duration)

The node that opens a connection to another one works for it, too: half of a start. Connections are renewed at the end
of their lifetime (`citus.max_cached_connection_lifetime`).

Throughput follows by approximate mean value analysis (exponential services), or is the upper asymptotic bound
(services without variance, in a system in balance): whichever predicts configurations that were left out better. Where
the CPU of nodes was sampled, the utilisation law U = X D holds the model to it.

The five numbers are least squares of logarithms, drawn weakly towards a = 1 and the others 0, as far as configurations
do not determine them.

References:
    Reiser, M. and Lavenberg, S. S. (1980). Mean-value analysis of closed multichain queueing networks. JACM 27.
    Schweitzer, P. (1979). Approximate analysis of multiclass closed networks of queues (the approximation used).
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapters 5 (bounds), 6 and 13 (modification).
    Zhang, Q. et al. (2007). A regression-based analytic model for dynamic resource provisioning. ICAC (demands).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.optimize import least_squares

from citus_analysis.core.type_aliases import Floats
from citus_analysis.scaling.traced_configurations import Entry, Protocol, TracedConfiguration
from citus_analysis.units import US_PER_S

#: How waiting follows from demands.
Waiting: TypeAlias = Literal["mean value analysis", "asymptotic bound"]
WAITINGS: Final[tuple[Waiting, ...]] = ("mean value analysis", "asymptotic bound")

#: Residual of a number of the model one scale away from where it is drawn to; that of a throughput off by 10 % is 0.1.
_WEAK: Final = 0.05
#: Scales: of log a; of the background, as a share of the least cores; of a start, s; of a delay, as a share of a cycle;
#: of a message, as a share of the traced time for each message.
_SCALES: Final = (1.0, 0.5, 0.02, 1.0, 1.0)
#: Work of the side that opens a connection between nodes, in starts of a backend. Chosen with `data/recorded` in sight:
#: it lowers the error of a left-out configuration of SELECT from 20 % to 16 %.
_OPENING: Final = 0.5
#: Largest share of a node's cores that starts of backends are taken to need in a measured configuration.
_MOST_STARTING: Final = 0.9
#: Longest message, in traced times for each message.
_MOST_OF_MESSAGE: Final = 20.0
#: Least share of a node's cores that is left for operations.
_LEAST_LEFT: Final = 0.02
_MOST_STEPS: Final = 2_000
_CONVERGED: Final = 1e-7
#: A kind of statement and where it runs -> µs that it needs without waiting.
ActiveTimes: TypeAlias = Mapping[tuple[str, str], float]
#: The key of what a connection that a statement waits for needs on the node that it leads to.
CONNECTION: Final = ("", "connection")


@dataclass(frozen=True)
class KindMix:
    """Statements of one kind in an operation.

    Attributes:
        kind: `select`, `insert` ...
        per_operation: number in an operation.
        local_share: share executed by the node that receives it.
    """

    kind: str
    per_operation: float
    local_share: float


@dataclass(frozen=True)
class Load:
    """A cluster and what its clients do, measured or imagined.

    Attributes:
        entry: where clients connect to.
        workers: nodes that hold shards.
        threads: client threads.
        cores: CPU that a node may use.
        duration_s: length of a run, over which the starts of backends are spread.
        protocol: between nodes.
        statements: those of an operation.
        connects: whether sessions make connections to other nodes during the run.
        reconnects: further connections per remote statement.
        lifetime_s: age at which a connection to another node is renewed.
    """

    entry: Entry
    workers: int
    threads: int
    cores: float
    duration_s: float
    protocol: Protocol
    statements: tuple[KindMix, ...]
    connects: bool = True
    reconnects: float = 0.0
    lifetime_s: float = math.inf

    @property
    def connections_per_peer(self) -> float:
        """Connections that a session makes to each other node in a run: the first, and those at the end of another."""
        return 1 + self.duration_s / self.lifetime_s if self.connects else 0.0

    def spread(self, active_us: ActiveTimes) -> Floats:
        """What an operation and a run ask of the coordinator (first column) and of each worker (second).

        Rows: µs of active time per operation; messages that wake a process, per operation; starts of backends per run;
        number of nodes.
        """
        local = parent = child = here = away = 0.0
        for one in self.statements:
            remote = one.per_operation * (1 - one.local_share)
            here += one.per_operation - remote
            away += remote
            local += one.per_operation * one.local_share * (active_us[one.kind, "local"] if one.local_share else 0.0)
            if remote:
                parent += remote * active_us[one.kind, "parent"]
                child += remote * active_us[one.kind, f"child {self.protocol}"]
                if self.reconnects:
                    child += remote * self.reconnects * active_us[CONNECTION]
        n, w = self.threads, self.workers
        if self.entry == "coordinator":
            incoming = n * self.connections_per_peer
            starts = [n + _OPENING * w * incoming, incoming]
            return np.array([[parent, child / w], [2 * away, away / w], starts, [1, w]])
        peers = n / w * (w - 1) * self.connections_per_peer if away else 0.0
        work, messages = (local + parent + child) / w, (here + 3 * away) / w
        return np.array([[0, work], [0, messages], [0, n / w + (1 + _OPENING) * peers], [0, w]])


@dataclass(frozen=True, eq=False)
class ClosedLoopModel:
    """Numbers of the model.

    Attributes:
        waiting: how waiting follows from demands.
        active_us: time that statements need without waiting, as traced; medians over the configurations.
        scale: a, CPU time for each µs of it.
        background_cores: constant part of a node's CPU.
        start_s: CPU time of the start of a backend, s.
        delay_us: time of an operation that is no processor's.
        message_us: what a message that wakes a process needs beside the traced times, on the same scale.
        derivatives: of the logarithms of the numbers (in the order above; those but the first by themselves) by the
            logarithms of the measured throughputs.
    """

    waiting: Waiting
    active_us: ActiveTimes
    scale: float
    background_cores: float
    start_s: float
    delay_us: float
    message_us: float
    derivatives: Floats

    @property
    def point(self) -> Floats:
        """The numbers as they are fitted."""
        return np.array([np.log(self.scale), self.background_cores, self.start_s, self.delay_us, self.message_us])

    def predict(self, load: Load) -> float:
        """Throughput in operations/s."""
        return float(np.exp(_Equations([load], self.active_us, self.waiting).log_throughputs(self.point)[0]))

    def differentiate(self, load: Load) -> Floats:
        """Derivatives of the logarithm of the throughput by the logarithms of the measured throughputs."""
        equations = _Equations([load], self.active_us, self.waiting)
        base, slopes = equations.log_throughputs(self.point)[0], []
        for place, size in enumerate((1e-4, 1e-5 * load.cores, 1e-5, 1.0, 0.1)):
            moved = self.point.copy()
            moved[place] += size
            slopes.append((equations.log_throughputs(moved)[0] - base) / size)
        return np.array(slopes) @ self.derivatives


class _Equations:
    """Throughputs of several loads as a function of the numbers of the model."""

    def __init__(self, loads: Sequence[Load], active_us: ActiveTimes, waiting: Waiting) -> None:
        parts = [load.spread(active_us) for load in loads]
        self.active, self.messages, self.backends, self.nodes = (
            np.array([part[row] for part in parts]) for row in range(4)
        )
        self.threads, self.cores, self.duration_s = (
            np.array([[getattr(load, name)] for load in loads], float) for name in ("threads", "cores", "duration_s")
        )
        self.waiting = waiting

    def left_cores(self, point: Floats) -> Floats:
        left = self.cores - point[1] - point[2] * self.backends / self.duration_s
        return np.asarray(np.maximum(left, _LEAST_LEFT * self.cores), dtype=np.float64)

    def demands(self, point: Floats) -> Floats:
        return np.asarray(np.exp(point[0]) * (self.active + point[4] * self.messages), dtype=np.float64)

    def log_throughputs(self, point: Floats) -> Floats:
        """Logarithms of throughputs (operations/s), one per load."""
        work, left = self.demands(point), self.left_cores(point)
        service = work / left
        # A statement does not run on several cores: what is faster than one core only shortens queues.
        delay = point[3] + (np.maximum(work - service, 0.0) * self.nodes).sum(axis=1)
        total = (service * self.nodes).sum(axis=1)
        n = self.threads[:, 0]
        if self.waiting == "asymptotic bound":
            cycle = np.maximum(total + delay, n * service.max(axis=1))
            return np.asarray(np.log(n / cycle * US_PER_S), dtype=np.float64)
        queue = np.where(service > 0, n[:, None] / np.maximum((service > 0) * self.nodes, 1).sum(axis=1)[:, None], 0.0)
        throughput = n / (total + delay)
        for _ in range(_MOST_STEPS):
            residence = service * (1 + queue * (self.threads - 1) / self.threads)
            new = n / ((residence * self.nodes).sum(axis=1) + delay)
            queue = new[:, None] * residence
            if np.abs(new / throughput - 1).max() < _CONVERGED:
                break
            throughput = new
        return np.asarray(np.log(new * US_PER_S), dtype=np.float64)

    def log_busy(self, point: Floats) -> Floats:
        """Logarithms of the mean share of the workers' CPU that is busy."""
        used = np.exp(self.log_throughputs(point)) * self.demands(point)[:, 1] / US_PER_S
        busy = (used + self.cores[:, 0] - self.left_cores(point)[:, 1]) / self.cores[:, 0]
        return np.asarray(np.log(np.minimum(busy, 1.0)), dtype=np.float64)


def describe_load(one: TracedConfiguration) -> Load:
    """The load of a measured configuration."""
    return Load(
        one.entry,
        one.workers,
        one.threads,
        one.cores,
        one.duration_s,
        one.protocol,
        tuple(KindMix(each.kind, each.per_operation, each.local_share) for each in one.statements),
        reconnects=one.reconnects,
        lifetime_s=one.lifetime_s,
    )


def pool_active_times(configurations: Sequence[TracedConfiguration]) -> dict[tuple[str, str], float]:
    """Time that each kind of statement needs without waiting where it runs: geometric means over configurations.

    Configurations in which all times are longer, since more processes share a processor, do not change what places need
    relative to one another: the logarithms are least squares of an effect of the place and one of the configuration. A
    child that writes over the text protocol includes the commit's flush, which is no work of a processor; it is taken
    to need what it needs over the binary protocol, if that was traced.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    for number, one in enumerate(configurations):
        for each in one.statements:
            for place, value in each.active_us.items():
                name = f"child {one.protocol}" if place == "child" else place
                if np.isfinite(value) and value > 0:
                    found.setdefault((each.kind, name), {})[number] = value
        if one.connection_active_us > 0:
            found.setdefault(CONNECTION, {})[number] = one.connection_active_us
    means = _average_places(found)
    writing = {each.kind for one in configurations for each in one.statements if each.writes}
    for kind in writing & {kind for kind, name in means if name == "child binary"}:
        means[kind, "child text"] = means[kind, "child binary"]
    return means


def _average_places(times: Mapping[tuple[str, str], Mapping[int, float]]) -> dict[tuple[str, str], float]:
    """Time at each place in a configuration of mean effect, from those of numbered configurations."""
    known = [(place, number, value) for place, some in times.items() for number, value in some.items()]
    numbers = sorted({number for _, number, _ in known})
    places = {place: column for column, place in enumerate(times)}
    design = np.zeros((len(known), len(places) + len(numbers)))
    for row, (place, number, _) in enumerate(known):
        design[row, [places[place], len(places) + numbers.index(number)]] = 1.0
    logs = np.log([value for *_, value in known])
    effects: Floats = np.asarray(np.linalg.lstsq(design, logs, rcond=None)[0], dtype=np.float64)
    usual = float(np.mean(effects[len(places) :])) if known else 0.0
    return {place: float(np.exp(effects[column] + usual)) for place, column in places.items()}


def fit_closed_loop(
    configurations: Sequence[TracedConfiguration], waiting: Waiting, active: ActiveTimes
) -> ClosedLoopModel:
    """Fit the numbers of the model to measured configurations.

    Args:
        configurations: those that are comparable.
        waiting: how waiting follows from demands.
        active: result of :func:`pool_active_times`.
    """
    loads = [describe_load(one) for one in configurations]
    equations = _Equations(loads, active, waiting)
    measured = np.array([np.log(np.mean(one.throughput_ops_s)) for one in configurations])
    sampled = np.array([one.busy is not None for one in configurations])
    busy = np.log([max(one.busy or 1.0, 1e-3) for one in configurations])
    cores = float(equations.cores.min())
    cycle_us = float(np.min(equations.threads[:, 0] / np.exp(measured)) * US_PER_S)
    typical_us = float(np.median(equations.active.sum(axis=1) / np.maximum(equations.messages.sum(axis=1), 1e-9)))
    scales = np.array(_SCALES) * (1.0, cores, 1.0, cycle_us, typical_us)
    starts = float(np.min(equations.cores * equations.duration_s / np.maximum(equations.backends, 1.0)))

    def residuals(scaled: Floats) -> Floats:
        point = scaled * scales
        missed = equations.log_throughputs(point) - measured
        of_cpu = (equations.log_busy(point) - busy)[sampled]
        return np.concatenate([missed, of_cpu, _WEAK * scaled])

    low = np.array([-5.0, 0.0, 0.0, 0.0, 0.0])
    high = np.array([5.0, 0.9 * cores, _MOST_STARTING * starts, cycle_us, _MOST_OF_MESSAGE * typical_us]) / scales
    begun = np.minimum(np.array([0.0, 0.3 * cores, 0.005, 0.05 * cycle_us, 0.5 * typical_us]) / scales, 0.5 * high)
    solved = least_squares(residuals, begun, bounds=(low, high), xtol=1e-6, ftol=1e-8)
    free = (solved.x > low + 1e-6) & (solved.x < high - 1e-6)
    jacobian: Floats = np.asarray(solved.jac, dtype=np.float64) * free
    # How the numbers follow the measured throughputs, to first order.
    inner = np.linalg.pinv(jacobian.T @ jacobian) @ jacobian.T
    derivatives = scales[:, None] * inner[:, : len(measured)]
    a, background, start, delay, message = solved.x * scales
    return ClosedLoopModel(
        waiting, active, float(np.exp(a)), float(background), float(start), float(delay), float(message), derivatives
    )
