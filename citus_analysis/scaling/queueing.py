"""Operational laws: relations of throughput, response time, threads and utilisation that are valid in any system.

References:
    Denning, P. J. and Buzen, J. P. (1978). The operational analysis of queueing network models. Computing Surveys 10.
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapters 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, TableSource, read_tables, return_callers_frame_kind
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.concurrency import TOLERANCE, compute_concurrency
from citus_analysis.units import US_PER_S


@dataclass(frozen=True)
class Little:
    """Little's law on one run: N = X (R + Z), with the client's threads divided by where they are on average.

    Attributes:
        threads: configured concurrency N.
        in_system: X R, requests in the system on average.
        thinking: X Z, threads that wait on purpose.
        unaccounted: threads neither in the system nor thinking: the client's own work, start-up, throttling.
        share_in_system: X R / N.
        client_time_us: time per operation that a thread spends outside the measured response time.
        warnings: contradictions, in words.
    """

    threads: float
    in_system: float
    thinking: float
    unaccounted: float
    share_in_system: float
    client_time_us: float
    warnings: tuple[str, ...] = ()


def little(throughput_ops_s: float, response_time_us: float, threads: float, think_us: float = 0.0) -> Little:
    """Check Little's law on a run, to find the part of the client's concurrency that was really in the system.

    Args:
        throughput_ops_s: completed operations per second.
        response_time_us: mean response time seen by the client.
        threads: client threads, over all load generators.
        think_us: mean think time per operation.

    Raises:
        UsageError: a value that is not positive (think time: negative).

    Example:
        >>> run = little(73_000, 10_000, 800)
        >>> round(run.in_system), round(run.unaccounted), round(run.client_time_us)
        (730, 70, 959)
    """
    if not (throughput_ops_s > 0 and response_time_us > 0 and threads > 0 and think_us >= 0):
        raise UsageError("throughput, response time and threads must be positive, think time not negative")
    in_system = throughput_ops_s * response_time_us / US_PER_S
    thinking = throughput_ops_s * think_us / US_PER_S
    spare = threads - in_system - thinking
    notes: tuple[str, ...] = ()
    if spare < -TOLERANCE * threads:
        notes = (
            f"{in_system + thinking:.4g} requests in flight with {threads:g} threads: "
            "throughput, response time and threads contradict each other",
        )
    outside = threads / throughput_ops_s * US_PER_S - response_time_us
    return Little(threads, in_system, thinking, spare, in_system / threads, outside, notes)


@return_callers_frame_kind
def apply_littles_law_to_runs(source: TableSource | Mapping[str, Frame]) -> pl.DataFrame:
    """Little's law for every run of a dataset that has latencies.

    Requests in the system are the summed latencies of the main clients' operations, divided by the run time;
    :func:`citus_analysis.operations.adds_up` decides which operations may be summed.

    Args:
        source: a dataset, or a mapping with the tables `runs` and `operation_latencies`.

    Returns:
        One row per run: run_id, resource, threads, throughput_ops_s, response_time_us (mean over operations),
        in_system, share_in_system, client_time_us, contradicts.

    Raises:
        InsufficientDataError: no run has latencies.
    """
    runs, latencies = read_tables(source, ("runs", "operation_latencies")).values()
    found = compute_concurrency(runs, latencies)
    if found.is_empty():
        raise InsufficientDataError("no run has both a throughput and latencies")
    return found


def utilisation(throughput_ops_s: ArrayLike, demand_us: ArrayLike, servers: ArrayLike = 1) -> Floats:
    """Utilisation law U = X D / m; above 1, the demand and the throughput contradict each other.

    Example:
        >>> utilisation(2_000, [300, 120], [1, 2]).tolist()
        [0.6, 0.12]
    """
    product = np.asarray(throughput_ops_s, float) * np.asarray(demand_us, float) / US_PER_S
    return np.asarray(product / np.asarray(servers, float), dtype=np.float64)


def compute_service_demand_us(
    utilisation_share: ArrayLike, throughput_ops_s: ArrayLike, servers: ArrayLike = 1
) -> Floats:
    """Service demand law D = U m / X, in microseconds.

    Example:
        >>> compute_service_demand_us(0.6, 2_000).tolist()
        300.0
    """
    share = np.asarray(utilisation_share, float) * np.asarray(servers, float)
    return np.asarray(share / np.asarray(throughput_ops_s, float) * US_PER_S, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Asymptotic bounds of a closed system.

    Attributes:
        threads: concurrencies N.
        throughput_low_ops_s: N / (N D + Z): every request waits for all others.
        throughput_high_ops_s: min(1 / D_max, N / (D + Z)).
        response_low_us: max(D, N D_max - Z).
        response_high_us: N D.
        knee: N* = (D + Z) / D_max, where the two upper bounds meet.
        bottleneck: index or name of the resource with the largest demand.
    """

    threads: Floats
    throughput_low_ops_s: Floats
    throughput_high_ops_s: Floats
    response_low_us: Floats
    response_high_us: Floats
    knee: float
    bottleneck: str


def asymptotic_bounds(demands_us: Mapping[str, float], threads: ArrayLike, think_us: float = 0.0) -> Bounds:
    """Bounds on throughput and response time from the service demands alone, valid for all distributions.

    Args:
        demands_us: service demand per operation and resource (divide by the servers of a multi-server resource).
        threads: concurrencies N.
        think_us: think time.

    Raises:
        UsageError: no demand, or a negative one.

    Example:
        >>> bounds = asymptotic_bounds({"cpu": 2e6, "disk a": 3e6, "disk b": 1e6}, [20], think_us=4e6)
        >>> round(bounds.knee, 2), bounds.bottleneck, round(float(bounds.throughput_high_ops_s[0]), 3)
        (3.33, 'disk a', 0.333)
    """
    if not demands_us or min(demands_us.values()) < 0 or max(demands_us.values()) <= 0:
        raise UsageError("bounds need service demands that are not negative, and one that is positive")
    n = np.atleast_1d(np.asarray(threads, float))
    total, largest = sum(demands_us.values()), max(demands_us.values())
    return Bounds(
        threads=n,
        throughput_low_ops_s=n / (n * total + think_us) * US_PER_S,
        throughput_high_ops_s=np.minimum(1 / largest, n / (total + think_us)) * US_PER_S,
        response_low_us=np.maximum(total, n * largest - think_us),
        response_high_us=n * total,
        knee=(total + think_us) / largest,
        bottleneck=max(demands_us, key=lambda name: demands_us[name]),
    )


# Exact mean value analysis of closed product-form networks, one class or several.
#
# References:
#     Reiser, M. and Lavenberg, S. S. (1980). Mean-value analysis of closed multichain queueing networks. JACM 27.
#     Lazowska, E. D. et al. (1984). Quantitative System Performance, chapters 6 and 7.

#: Most populations (times resources) of an exact solution; more would take much time and memory.
MOST_POPULATIONS: Final = 5_000_000


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSolution(DisplayMixin):
    """A solved closed network.

    Attributes:
        classes: names of the customer classes.
        resources: names of the resources.
        population: customers per class.
        throughput: completions per time unit, per class.
        response_time: time in the network without thinking, per class.
        residence_time: time at each resource, shape (classes, resources).
        queue_length: customers at each resource, all classes, shape (resources,).
        utilisation: share of time each resource is busy (delay resources: customers in it), shape (resources,).
    """

    classes: tuple[str, ...]
    resources: tuple[str, ...]
    population: tuple[int, ...]
    throughput: Floats
    response_time: Floats
    residence_time: Floats
    queue_length: Floats
    utilisation: Floats

    def summary_table(self) -> pl.DataFrame:
        """One row per resource: utilisation, customers, and the time of each class there."""
        times = {f"time of {name}": self.residence_time[number] for number, name in enumerate(self.classes)}
        loads = {"utilisation": self.utilisation, "queue_length": self.queue_length}
        return pl.DataFrame({"resource": self.resources, **loads, **times})

    @property
    def bottleneck(self) -> str:
        """The busiest resource."""
        return self.resources[int(np.argmax(self.utilisation))]


def mva(
    demands: Mapping[str, float], customers: int, think: float = 0.0, *, delays: Sequence[str] = ()
) -> NetworkSolution:
    """Exact MVA of a closed network with one class.

    Args:
        demands: service demand per resource (visits × service time), in one time unit.
        customers: N.
        think: think time Z, in the same unit.
        delays: resources without a queue (network, a disk array that is never the limit).

    Raises:
        UsageError: negative demands or customers, or an unknown delay.

    Example:
        Example 34.2 of Jain (1991): CPU 16 × 0.125 s, disks 10 × 0.3 s and 5 × 0.2 s, Z = 4 s, 20 users.

        >>> solved = mva({"cpu": 2.0, "disk a": 3.0, "disk b": 1.0}, 20, think=4.0)
        >>> round(float(solved.response_time[0]), 3), round(float(solved.throughput[0]), 3)
        (56.016, 0.333)
    """
    return mva_multiclass({"all": demands}, {"all": customers}, {"all": think}, delays=delays)


def mva_multiclass(
    demands: Mapping[str, Mapping[str, float]],
    customers: Mapping[str, int],
    think: Mapping[str, float] | None = None,
    *,
    delays: Sequence[str] = (),
) -> NetworkSolution:
    """Exact MVA of a closed network with several classes (such as reads and writes).

    Time and memory grow with the product of (N_c + 1) over the classes.

    Args:
        demands: class -> resource -> service demand; missing resources of a class have demand 0.
        customers: N_c per class.
        think: Z_c per class; 0 for missing classes.
        delays: resources without a queue.

    Raises:
        UsageError: negative values, unknown names, or too many populations for an exact solution.

    Example:
        Two classes of one customer each; class b finds class a's queue at both resources.

        >>> solved = mva_multiclass({"a": {"cpu": 1, "disk": 3}, "b": {"cpu": 2, "disk": 4}}, {"a": 1, "b": 1})
        >>> solved.response_time.round(3).tolist(), solved.throughput.round(3).tolist()
        ([6.333, 9.5], [0.158, 0.105])
    """
    names = tuple(demands)
    resources = tuple(dict.fromkeys(name for one in demands.values() for name in one))
    _check(demands, customers, think or {}, delays, resources)
    demand = np.array([[float(demands[c].get(r, 0.0)) for r in resources] for c in names])
    population = tuple(int(customers[c]) for c in names)
    thinking = np.array([float((think or {}).get(c, 0.0)) for c in names])
    queueing = np.array([r not in delays for r in resources])
    residence, throughput, queue = _solve_mva_recursion(demand, population, thinking, queueing)
    busy = throughput @ demand
    response = residence.sum(axis=1)
    return NetworkSolution(names, resources, population, throughput, response, residence, queue, busy)


def _solve_mva_recursion(
    demand: Floats, population: tuple[int, ...], thinking: Floats, queueing: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Queue lengths of all populations up to the wanted one, smaller ones first."""
    classes, resources = demand.shape
    queues = np.zeros((*(n + 1 for n in population), resources))
    residence, throughput = np.zeros_like(demand), np.zeros(classes)
    for at in product(*(range(n + 1) for n in population)):
        queue = np.zeros(resources)
        for c in range(classes):
            if not at[c]:
                residence[c], throughput[c] = 0.0, 0.0
                continue
            # The arrival theorem: an arriving customer sees the network without itself.
            seen = queues[(*at[:c], at[c] - 1, *at[c + 1 :])]
            residence[c] = demand[c] * (1 + np.where(queueing, seen, 0.0))
            cycle = thinking[c] + residence[c].sum()
            throughput[c] = at[c] / cycle
            queue += throughput[c] * residence[c]
        queues[at] = queue
    return residence, throughput, queues[population]


def _check(
    demands: Mapping[str, Mapping[str, float]],
    customers: Mapping[str, int],
    think: Mapping[str, float],
    delays: Sequence[str],
    resources: Sequence[str],
) -> None:
    if not demands or not resources:
        raise UsageError("a network needs a class and a resource")
    unknown = [*(set(customers) ^ set(demands)), *(set(think) - set(demands)), *(set(delays) - set(resources))]
    if unknown:
        raise UsageError(f"classes or resources that are not in both places: {', '.join(sorted(unknown))}")
    values = [v for one in demands.values() for v in one.values()] + list(think.values()) + list(customers.values())
    if min(values) < 0 or not all(math.isfinite(v) for v in values):
        raise UsageError("demands, think times and customers must be finite and not negative")
    for name, one in demands.items():
        if customers[name] and sum(one.values()) + think.get(name, 0.0) <= 0:
            raise UsageError(f"class {name} has neither a demand nor a think time: its throughput would be infinite")
    populations = math.prod(int(n) + 1 for n in customers.values())
    if populations * len(resources) > MOST_POPULATIONS:
        hint = "merge classes or reduce customers"
        raise UsageError(f"{populations:,} populations are too many for an exact solution", hint=hint)


# Closed networks of one class whose stations may have several servers, have no queue, or serve in batches.
#
# They are solved exactly by convolution, for every number of customers at once. `mva` solves networks by recursion, and
# with several classes. Fitting a network solves it thousands of times, for which convolution of arrays is faster; it is
# also stable if many servers are nearly saturated. Several networks are solved at once (`solve_networks`,
# `throughputs`), because most of the time of a small one is spent on calls rather than on arithmetic.
#
# References:
#     Buzen, J. P. (1973). Computational algorithms for closed queueing networks with exponential servers. CACM 16.
#     Reiser, M. and Lavenberg, S. S. (1980). Mean-value analysis of closed multichain queueing networks. JACM 27.

#: Above this number of customers, smaller numbers by this factor are solved separately, because weights underflow.
_SAFE, _WIDEST = 200, 4
#: Places of the fields of a station in the array of its numbers.
_DEMAND, _SERVERS, _BATCH_WAIT = range(3)


@dataclass(frozen=True)
class Station:
    """A station of a closed network.

    Attributes:
        demand: service demand per operation, in the same time unit at all stations.
        servers: number of customers that are served at once; infinite: no customer ever waits (a delay). Fractions
            are allowed: with 2.5 servers, three customers are served at the rate of 2.5.
        batch_wait: share of the demand that a customer additionally waits if there are many others, because a
            service for all (the flush of a group commit) is under way when it arrives: 0.5 if all services take the
            same time, 1 if their times are exponential.

    Example:
        >>> Station(400.0, servers=2).rates(3).tolist()
        [0.0025, 0.005, 0.005]
    """

    demand: float
    servers: float = 1.0
    batch_wait: float = 0.0
    calm: float = 0.0

    def rates(self, customers: int) -> Floats:
        """Departures per time unit with 1 to `customers` customers at the station."""
        return np.asarray(_compute_station_rates(build_station_array([[self]])[0, 0], customers), dtype=np.float64)

    def capacity(self) -> float:
        """The largest possible number of departures per time unit."""
        return self.servers / self.demand if self.demand > 0 else math.inf


@dataclass(frozen=True, eq=False, repr=False)
class ClosedSolution(DisplayMixin):
    """A solved closed network.

    Attributes:
        customers: numbers of customers N.
        throughput: per N, completions per time unit.
        residence_time: time at each station, shape (N, stations).
    """

    customers: tuple[int, ...]
    throughput: Floats
    residence_time: Floats

    def summary_table(self) -> pl.DataFrame:
        """One row per number of customers: throughput, and the time in the whole network."""
        whole = self.residence_time.sum(axis=1)
        return pl.DataFrame({"customers": self.customers, "throughput": self.throughput, "time": whole})


def solve_closed(stations: Sequence[Station], customers: Sequence[int]) -> ClosedSolution:
    """Throughput and residence times of a closed network, exact for product form.

    Args:
        stations: the stations; stations without demand have no customers.
        customers: the numbers of customers N to solve for, each at least 1.

    Raises:
        UsageError: no customer, no demand, or a value that is negative or not finite.

    Example:
        Two machines that run for 4 hours and are repaired in 1 hour by one repairman: the closed form of M/M/1//2
        is X = (1 - p) / S with 1 / p = 1 + 2 (S / Z) + 2 (S / Z)².

        >>> solved = solve_closed([Station(1.0), Station(4.0, servers=float("inf"))], [2])
        >>> round(float(solved.throughput[0]), 6), round(1 - 1 / (1 + 2 / 4 + 2 / 16), 6)
        (0.384615, 0.384615)
    """
    throughput, residence = solve_networks(build_station_array([stations]), customers)
    return ClosedSolution(tuple(int(n) for n in customers), throughput[0], residence[0])


def build_station_array(networks: Sequence[Sequence[Station]]) -> Floats:
    """Networks of equally many stations as an array, shape (networks, stations, 4): the fields of each station."""
    return np.array(
        [[(one.demand, one.servers, one.batch_wait, one.calm) for one in stations] for stations in networks], np.float64
    )


def solve_networks(numbers: Floats, customers: Sequence[int]) -> tuple[Floats, Floats]:
    """Several networks for the same numbers of customers, each as :func:`solve_closed` solves it.

    Args:
        numbers: the stations (:func:`build_station_array`).
        customers: the numbers of customers N to solve for.

    Returns:
        Throughput, shape (networks, N), and residence times, shape (networks, N, stations).
    """
    if divided := _split_customer_counts(customers):
        parts = [solve_networks(numbers, part) for part in divided]
        places = [(*divided[0], *divided[1]).index(n) for n in customers]
        throughput, residence = (np.concatenate(both, axis=1)[:, places] for both in zip(*parts, strict=True))
        return throughput, residence
    _check_network(numbers, customers)
    at = np.asarray(customers, dtype=np.int64)
    throughput = np.empty((len(numbers), len(at)))
    residence = np.repeat(numbers[:, None, :, _DEMAND], len(at), axis=1)
    for rows in _group_alike_networks(numbers):
        weighted = _compute_weighted_networks(numbers[rows], int(at.max()))
        throughput[rows], waiting = weighted.solution(at)
        residence[rows[:, None], :, weighted.queues] = waiting.transpose(0, 2, 1)
    return throughput, residence


def compute_network_throughputs(numbers: Floats, customers: int) -> Floats:
    """The throughput of each network at one number of customers, without the residence times."""
    _check_network(numbers, [customers])
    found = np.empty(len(numbers))
    for rows in _group_alike_networks(numbers):
        weighted = _compute_weighted_networks(numbers[rows], customers)
        found[rows] = weighted.throughput(weighted.constants(), np.array([customers]))[:, 0]
    return found


@dataclass(frozen=True, eq=False)
class _WeightedNetworks:
    """Networks whose queues are at the same stations, as the weights of the numbers of customers.

    Attributes:
        queues: places of the stations that have a queue.
        weights: for each network, of each of these stations and (in the end) of all delays, of 0 .. N customers.
        scales: for each network, the unit of throughput.
    """

    queues: Sequence[int]
    weights: Floats
    scales: Floats

    @property
    def most(self) -> int:
        """The largest number of customers."""
        return int(self.weights.shape[-1]) - 1

    def constants(self) -> Floats:
        """Normalisation constants of all numbers of customers, shape (networks, N + 1)."""
        return np.array([_compute_normalisation_constants(list(one), self.most) for one in self.weights])

    def throughput(self, constants: Floats, at: NDArray[np.int64]) -> Floats:
        """Completions per time unit, shape (networks, N)."""
        return np.asarray(constants[:, at - 1] / constants[:, at] * self.scales[:, None], dtype=np.float64)

    def solution(self, at: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Throughput and residence times at the stations that have a queue, at some numbers of customers."""
        every = self.constants()
        throughput = self.throughput(every, at)
        present = np.empty((*throughput.shape, len(self.queues)))
        counted = self.weights * np.arange(self.most + 1)
        for row, one in enumerate(map(list, self.weights)):
            for place in range(len(self.queues)):
                others = _compute_normalisation_constants([*one[:place], *one[place + 1 :]], self.most)
                present[row, :, place] = np.convolve(counted[row, place], others)[at]
        return throughput, present / every[:, at, None] / throughput[:, :, None]


def _group_alike_networks(numbers: Floats) -> list[NDArray[np.int64]]:
    """The places of networks with queues and delays at the same stations."""
    kinds = np.concatenate([_find_queued_stations(numbers), numbers[:, :, _DEMAND] > 0], axis=1)
    if (kinds == kinds[0]).all():
        return [np.arange(len(numbers))]
    _, group = np.unique(kinds, axis=0, return_inverse=True)
    return [np.flatnonzero(group.ravel() == one) for one in range(int(group.max()) + 1)]


def _find_queued_stations(numbers: Floats) -> NDArray[np.bool_]:
    """Which stations of each network have a queue."""
    delays = np.isinf(numbers[:, :, _SERVERS]) & (numbers[:, :, _BATCH_WAIT] == 0)
    return np.asarray((numbers[:, :, _DEMAND] > 0) & ~delays, dtype=np.bool_)


def _compute_weighted_networks(numbers: Floats, most: int) -> _WeightedNetworks:
    """The weights of all stations of all networks, computed together."""
    queued = _find_queued_stations(numbers[:1])[0]
    stations, delays = numbers[:, queued], numbers[:, ~queued, _DEMAND].sum(axis=1)
    if delays[0] > 0:
        # All delays together are one delay, because no customer waits at any of them.
        together = np.tile([0.0, math.inf, 0.0, 0.0], (len(numbers), 1, 1))
        together[:, 0, _DEMAND] = delays
        stations = np.concatenate([stations, together], axis=1)
    # A rate near the throughput; in units of it, no relevant weight overflows or underflows.
    capacity = (stations[:, :, _SERVERS] / stations[:, :, _DEMAND]).min(axis=1)
    scales = np.minimum(most / stations[:, :, _DEMAND].sum(axis=1), capacity)
    weights = _compute_station_weights(_compute_station_rates(stations, most) / scales[:, None, None])
    return _WeightedNetworks(np.flatnonzero(queued).tolist(), weights, scales)


def _compute_station_rates(stations: Floats, customers: int) -> Floats:
    """The rates of each station, shape (..., customers)."""
    demand, servers, batch_wait, calm = (stations[..., field, None] for field in range(4))
    present = np.arange(1, customers + 1, dtype=np.float64)
    waiting = 1 + batch_wait * (1 - 1 / present**2)
    queued = np.maximum(present - np.floor(np.minimum(servers, customers)), 1.0)
    served = np.minimum(present, servers)
    relieved = np.where(present > servers, np.minimum(present, served * (1 + calm / queued)), served)
    return np.asarray(relieved / (demand * waiting), dtype=np.float64)


def _check_network(numbers: Floats, customers: Sequence[int]) -> None:
    if not customers or min(customers) < 1:
        raise UsageError("a network without customers does nothing")
    demand, servers, batch_wait = (numbers[:, :, field] for field in (_DEMAND, _SERVERS, _BATCH_WAIT))
    if not ((demand >= 0) & (demand < math.inf) & (servers > 0) & (batch_wait >= 0)).all():
        raise UsageError("demands must be finite and not negative, servers positive, waits not negative")
    if not (demand > 0).any(axis=1).all():
        raise UsageError("a network without demand would complete infinitely often")


def _split_customer_counts(customers: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Small and large numbers of customers; None if they can be solved together."""
    most = max(customers, default=0)
    few = [n for n in customers if n * _WIDEST < most and most > _SAFE]
    return (few, [n for n in customers if n not in few]) if few else None


def _compute_station_weights(rates: Floats) -> Floats:
    """Per station, the relative weights of 0 .. N customers, the largest being 1."""
    logs = np.zeros((*rates.shape[:-1], rates.shape[-1] + 1))
    np.negative(np.cumsum(np.log(rates), axis=-1), out=logs[..., 1:])
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)), dtype=np.float64)


def _compute_normalisation_constants(weights: Sequence[Floats], most: int) -> Floats:
    """Normalisation constants of a part of the network; for an empty part, 1 for no customer."""
    if not weights:
        return np.concatenate(([1.0], np.zeros(most)))
    found = weights[0]
    for one in weights[1:]:
        found = np.convolve(found, one)[: most + 1]
    return found
