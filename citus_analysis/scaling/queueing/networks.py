"""Closed networks of one class whose stations may have several servers, have no queue, or serve in batches.

They are solved exactly by convolution, for every number of customers at once. `mva` solves networks by recursion, and
with several classes. Fitting a network solves it thousands of times, for which convolution of arrays is faster; it is
also stable if many servers are nearly saturated. Several networks are solved at once (`solve_networks`,
`throughputs`), because most of the time of a small one is spent on calls rather than on arithmetic.

References:
    Buzen, J. P. (1973). Computational algorithms for closed queueing networks with exponential servers. CACM 16.
    Reiser, M. and Lavenberg, S. S. (1980). Mean-value analysis of closed multichain queueing networks. JACM 27.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.errors import UsageError

__all__ = ["ClosedSolution", "Station", "solve_closed", "solve_networks", "throughputs"]


#: Above this number of customers, smaller numbers by this factor are solved separately, because weights underflow.
_SAFE, _WIDEST = 200, 4


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

    @property
    def delays(self) -> bool:
        """Whether no customer ever waits here."""
        return math.isinf(self.servers) and self.batch_wait == 0

    def rates(self, customers: int) -> Floats:
        """Departures per time unit with 1 to `customers` customers at the station."""
        return np.asarray(_rates([self], customers)[0], dtype=np.float64)

    def capacity(self) -> float:
        """The largest possible number of departures per time unit."""
        return self.servers / self.demand if self.demand > 0 else math.inf


@dataclass(frozen=True, eq=False, repr=False)
class ClosedSolution(Shown):
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
    return solve_networks([stations], customers)[0]


def solve_networks(networks: Sequence[Sequence[Station]], customers: Sequence[int]) -> list[ClosedSolution]:
    """Several networks for the same numbers of customers, each as :func:`solve_closed` solves it."""
    if divided := _divided(customers):
        parts = [solve_networks(networks, part) for part in divided]
        return [_joined(customers, few, many) for few, many in zip(*parts, strict=True)]
    at = np.asarray(customers, dtype=np.int64)
    return [one.solution(at) for one in _weighted(networks, customers)]


def throughputs(networks: Sequence[Sequence[Station]], customers: int) -> Floats:
    """The throughput of each network at one number of customers, without the residence times."""
    return np.array([one.throughput(one.constants(), customers) for one in _weighted(networks, [customers])])


@dataclass(frozen=True, eq=False)
class _Weighted:
    """A network as the weights of its numbers of customers at each station that has a queue, and at all delays."""

    stations: Sequence[Station]
    queues: Sequence[int]
    weights: Sequence[Floats]
    scale: float

    @property
    def most(self) -> int:
        """The largest number of customers."""
        return len(self.weights[0]) - 1

    def constants(self) -> Floats:
        """Normalisation constants of all numbers of customers."""
        return _product(self.weights, self.most)

    def throughput(self, constants: Floats, at: NDArray[np.int64] | int) -> Floats:
        """Completions per time unit."""
        return np.asarray(constants[at - 1] / constants[at] * self.scale, dtype=np.float64)

    def solution(self, at: NDArray[np.int64]) -> ClosedSolution:
        """Throughput and residence times at some numbers of customers."""
        every = self.constants()
        throughput = self.throughput(every, at)
        residence = np.tile(np.array([one.demand for one in self.stations], dtype=np.float64), (len(at), 1))
        for place, station in enumerate(self.queues):
            others = _product([w for i, w in enumerate(self.weights) if i != place], self.most)
            here = np.convolve(self.weights[place] * np.arange(self.most + 1), others)
            residence[:, station] = here[at] / every[at] / throughput
        return ClosedSolution(tuple(at.tolist()), throughput, residence)


def _weighted(networks: Sequence[Sequence[Station]], customers: Sequence[int]) -> list[_Weighted]:
    """The weights of all stations of all networks, computed together."""
    most = max(customers, default=0)
    queues, together = [], []
    for stations in networks:
        _check(stations, customers)
        queues.append([i for i, one in enumerate(stations) if one.demand > 0 and not one.delays])
        delay = sum(one.demand for one in stations if one.delays)
        # All delays together are one delay, because no customer waits at any of them.
        together.append([stations[i] for i in queues[-1]] + ([Station(delay, math.inf)] if delay > 0 else []))
    scales = [_scale(stations, most) for stations in together]
    each = np.repeat(scales, [len(stations) for stations in together])
    weights = iter(_weights(_rates([one for stations in together for one in stations], most) / each[:, None]))
    return [
        _Weighted(stations, places, [next(weights) for _ in merged], scale)
        for stations, places, merged, scale in zip(networks, queues, together, scales, strict=True)
    ]


def _rates(stations: Sequence[Station], customers: int) -> Floats:
    """The rates of each station, shape (stations, customers)."""
    numbers = np.array([(one.demand, one.servers, one.batch_wait, one.calm) for one in stations])
    demand, servers, batch_wait, calm = numbers.T[:, :, None]
    present = np.arange(1, customers + 1, dtype=np.float64)
    waiting = 1 + batch_wait * (1 - 1 / present**2)
    queued = np.maximum(present - np.floor(np.minimum(servers, customers)), 1.0)
    served = np.minimum(present, servers)
    relieved = np.where(present > servers, np.minimum(present, served * (1 + calm / queued)), served)
    return np.asarray(relieved / (demand * waiting), dtype=np.float64)


def _check(stations: Sequence[Station], customers: Sequence[int]) -> None:
    if not customers or min(customers) < 1:
        raise UsageError("a network without customers does nothing")
    for one in stations:
        if not (0 <= one.demand < math.inf and one.servers > 0 and one.batch_wait >= 0):
            raise UsageError("demands must be finite and not negative, servers positive, waits not negative")
    if not any(one.demand > 0 for one in stations):
        raise UsageError("a network without demand would complete infinitely often")


def _divided(customers: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Small and large numbers of customers; None if they can be solved together."""
    most = max(customers, default=0)
    few = [n for n in customers if n * _WIDEST < most and most > _SAFE]
    return (few, [n for n in customers if n not in few]) if few else None


def _joined(customers: Sequence[int], few: ClosedSolution, many: ClosedSolution) -> ClosedSolution:
    places = [(few if n in few.customers else many, n) for n in customers]
    rows = [(part, part.customers.index(n)) for part, n in places]
    throughput = np.array([part.throughput[row] for part, row in rows])
    return ClosedSolution(tuple(customers), throughput, np.array([part.residence_time[row] for part, row in rows]))


def _scale(stations: Sequence[Station], customers: int) -> float:
    """A rate near the throughput; in units of it, no relevant weight overflows or underflows."""
    return min(customers / sum(one.demand for one in stations), *(one.capacity() for one in stations))


def _weights(rates: Floats) -> Floats:
    """Per station, the relative weights of 0 .. N customers, the largest being 1."""
    logs = np.zeros((len(rates), rates.shape[1] + 1))
    np.negative(np.cumsum(np.log(rates), axis=1), out=logs[:, 1:])
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)), dtype=np.float64)


def _product(weights: Sequence[Floats], most: int) -> Floats:
    """Normalisation constants of a part of the network; for an empty part, 1 for no customer."""
    if not weights:
        return np.concatenate(([1.0], np.zeros(most)))
    found = weights[0]
    for one in weights[1:]:
        found = np.convolve(found, one)[: most + 1]
    return found
