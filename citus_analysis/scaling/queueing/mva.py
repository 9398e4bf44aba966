"""Exact mean value analysis of closed product-form networks, one class or several.

References:
    Reiser, M. and Lavenberg, S. S. (1980). Mean-value analysis of closed multichain queueing networks. JACM 27.
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapters 6 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.errors import UsageError

#: Most populations (times resources) of an exact solution; more would take much time and memory.
MOST_POPULATIONS: Final = 5_000_000


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSolution(Shown):
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
    residence, throughput, queue = _recursion(demand, population, thinking, queueing)
    busy = throughput @ demand
    response = residence.sum(axis=1)
    return NetworkSolution(names, resources, population, throughput, response, residence, queue, busy)


def _recursion(
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
        way_out = "merge classes or reduce customers"
        raise UsageError(f"{populations:,} populations are too many for an exact solution", way_out=way_out)
