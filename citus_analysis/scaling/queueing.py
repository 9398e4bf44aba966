"""Operational laws: relations of throughput, response time, threads and utilisation that are valid in any system.

References:
    Denning, P. J. and Buzen, J. P. (1978). The operational analysis of queueing network models. Computing Surveys 10.
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapters 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

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


# Exact mean value analysis of closed product-form networks.
#
# References:
#     Reiser, M. and Lavenberg, S. S. (1980). Mean-value analysis of closed multichain queueing networks. JACM 27.
#     Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 6.


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSolution(DisplayMixin):
    """A solved closed network.

    Attributes:
        resources: names of the resources.
        customers: N.
        throughput: completions per time unit.
        response_time: time in the network without thinking.
        residence_time: time at each resource, shape (resources,).
        queue_length: customers at each resource, shape (resources,).
        utilisation: share of time each resource is busy (delay resources: customers in it), shape (resources,).
    """

    resources: tuple[str, ...]
    customers: int
    throughput: float
    response_time: float
    residence_time: Floats
    queue_length: Floats
    utilisation: Floats

    def summary_table(self) -> pl.DataFrame:
        """One row per resource: utilisation, customers, and the time there."""
        times = {"utilisation": self.utilisation, "queue_length": self.queue_length, "time": self.residence_time}
        return pl.DataFrame({"resource": self.resources, **times})

    @property
    def bottleneck(self) -> str:
        """The busiest resource."""
        return self.resources[int(np.argmax(self.utilisation))]


def mva(
    demands: Mapping[str, float], customers: int, think: float = 0.0, *, delays: Sequence[str] = ()
) -> NetworkSolution:
    """Exact MVA of a closed network with one class of customers.

    Args:
        demands: service demand per resource (visits × service time), in one time unit.
        customers: N.
        think: think time Z, in the same unit.
        delays: resources without a queue (network, a disk array that is never the limit).

    Raises:
        UsageError: no demand, negative values, or an unknown delay.

    Example:
        Example 34.2 of Jain (1991): CPU 16 × 0.125 s, disks 10 × 0.3 s and 5 × 0.2 s, Z = 4 s, 20 users.

        >>> solved = mva({"cpu": 2.0, "disk a": 3.0, "disk b": 1.0}, 20, think=4.0)
        >>> round(solved.response_time, 3), round(solved.throughput, 3)
        (56.016, 0.333)
    """
    if unknown := sorted(set(delays) - set(demands)):
        raise UsageError(f"no demand is known of the delays {', '.join(unknown)}")
    values = [*demands.values(), think, customers]
    if min(values) < 0 or not all(math.isfinite(value) for value in values):
        raise UsageError("demands, think time and customers must be finite and not negative")
    if sum(demands.values()) + think <= 0:
        raise UsageError("a network needs a demand or a think time: its throughput would be infinite")
    demand = np.array(list(demands.values()), dtype=float)
    queues = np.array([name not in delays for name in demands])
    queue, residence, throughput = np.zeros_like(demand), demand, 0.0
    for n in range(1, int(customers) + 1):
        # The arrival theorem: an arriving customer sees the network without itself.
        residence = demand * (1 + np.where(queues, queue, 0.0))
        throughput = n / (think + float(residence.sum()))
        queue = throughput * residence
    return NetworkSolution(
        tuple(demands), int(customers), throughput, float(residence.sum()), residence, queue, throughput * demand
    )
