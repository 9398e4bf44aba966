"""Closed networks of one class whose stations may have several servers, have no queue, or serve in batches.

They are solved exactly by convolution, for every number of customers at once. `mva` solves networks by recursion, and
with several classes. Fitting a network solves it thousands of times, for which convolution of arrays is faster; it is
also stable if many servers are nearly saturated.

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

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.errors import UsageError

__all__ = ["ClosedSolution", "Station", "solve_closed"]


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
        present = np.arange(1, customers + 1, dtype=np.float64)
        waiting = 1 + self.batch_wait * (1 - 1 / present**2)
        queued = np.maximum(present - math.floor(min(self.servers, customers)), 1.0)
        served = np.minimum(present, self.servers)
        relieved = np.where(present > self.servers, np.minimum(present, served * (1 + self.calm / queued)), served)
        return np.asarray(relieved / (self.demand * waiting), dtype=np.float64)

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
    _check(stations, customers)
    most = max(customers)
    few = [n for n in customers if n * _WIDEST < most and most > _SAFE]
    if few:
        many = [n for n in customers if n not in few]
        return _joined(customers, solve_closed(stations, few), solve_closed(stations, many))
    queues = [i for i, one in enumerate(stations) if one.demand > 0 and not one.delays]
    delay = sum(one.demand for one in stations if one.delays)
    # All delays together are one delay, because no customer waits at any of them.
    together = [stations[i] for i in queues] + ([Station(delay, math.inf)] if delay > 0 else [])
    scale = _scale(together, most)
    weights = [_weights(one.rates(most) / scale) for one in together]
    every, at = _product(weights, most), np.asarray(customers, dtype=np.int64)
    throughput = every[at - 1] / every[at]
    residence = np.tile(np.array([one.demand for one in stations], dtype=np.float64), (len(at), 1))
    for place, station in enumerate(queues):
        others = _product([w for i, w in enumerate(weights) if i != place], most)
        here = np.convolve(weights[place] * np.arange(most + 1), others)
        residence[:, station] = here[at] / every[at] / (throughput * scale)
    return ClosedSolution(tuple(customers), throughput * scale, residence)


def _check(stations: Sequence[Station], customers: Sequence[int]) -> None:
    if not customers or min(customers) < 1:
        raise UsageError("a network without customers does nothing")
    for one in stations:
        if not (0 <= one.demand < math.inf and one.servers > 0 and one.batch_wait >= 0):
            raise UsageError("demands must be finite and not negative, servers positive, waits not negative")
    if not any(one.demand > 0 for one in stations):
        raise UsageError("a network without demand would complete infinitely often")


def _joined(customers: Sequence[int], few: ClosedSolution, many: ClosedSolution) -> ClosedSolution:
    places = [(few if n in few.customers else many, n) for n in customers]
    rows = [(part, part.customers.index(n)) for part, n in places]
    throughput = np.array([part.throughput[row] for part, row in rows])
    return ClosedSolution(tuple(customers), throughput, np.array([part.residence_time[row] for part, row in rows]))


def _scale(stations: Sequence[Station], customers: int) -> float:
    """A rate near the throughput; in units of it, no relevant weight overflows or underflows."""
    return min(customers / sum(one.demand for one in stations), *(one.capacity() for one in stations))


def _weights(rates: Floats) -> Floats:
    """Relative weights of 0 .. N customers at a station, the largest being 1."""
    logs = np.concatenate(([0.0], -np.cumsum(np.log(rates))))
    return np.asarray(np.exp(logs - logs.max()), dtype=np.float64)


def _product(weights: Sequence[Floats], most: int) -> Floats:
    """Normalisation constants of a part of the network; for an empty part, 1 for no customer."""
    if not weights:
        return np.concatenate(([1.0], np.zeros(most)))
    found = weights[0]
    for one in weights[1:]:
        found = np.convolve(found, one)[: most + 1]
    return found
