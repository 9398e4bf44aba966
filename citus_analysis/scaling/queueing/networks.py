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
        return np.asarray(_rates(station_numbers([[self]])[0, 0], customers), dtype=np.float64)

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
    throughput, residence = solve_networks(station_numbers([stations]), customers)
    return ClosedSolution(tuple(int(n) for n in customers), throughput[0], residence[0])


def station_numbers(networks: Sequence[Sequence[Station]]) -> Floats:
    """Networks of equally many stations as an array, shape (networks, stations, 4): the fields of each station."""
    return np.array(
        [[(one.demand, one.servers, one.batch_wait, one.calm) for one in stations] for stations in networks], np.float64
    )


def solve_networks(numbers: Floats, customers: Sequence[int]) -> tuple[Floats, Floats]:
    """Several networks for the same numbers of customers, each as :func:`solve_closed` solves it.

    Args:
        numbers: the stations (:func:`station_numbers`).
        customers: the numbers of customers N to solve for.

    Returns:
        Throughput, shape (networks, N), and residence times, shape (networks, N, stations).
    """
    if divided := _divided(customers):
        parts = [solve_networks(numbers, part) for part in divided]
        places = [(*divided[0], *divided[1]).index(n) for n in customers]
        throughput, residence = (np.concatenate(both, axis=1)[:, places] for both in zip(*parts, strict=True))
        return throughput, residence
    _check(numbers, customers)
    at = np.asarray(customers, dtype=np.int64)
    throughput = np.empty((len(numbers), len(at)))
    residence = np.repeat(numbers[:, None, :, _DEMAND], len(at), axis=1)
    for rows in _alike(numbers):
        weighted = _weighted(numbers[rows], int(at.max()))
        throughput[rows], waiting = weighted.solution(at)
        residence[rows[:, None], :, weighted.queues] = waiting.transpose(0, 2, 1)
    return throughput, residence


def throughputs(numbers: Floats, customers: int) -> Floats:
    """The throughput of each network at one number of customers, without the residence times."""
    _check(numbers, [customers])
    found = np.empty(len(numbers))
    for rows in _alike(numbers):
        weighted = _weighted(numbers[rows], customers)
        found[rows] = weighted.throughput(weighted.constants(), np.array([customers]))[:, 0]
    return found


@dataclass(frozen=True, eq=False)
class _Weighted:
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
        return np.array([_product(list(one), self.most) for one in self.weights])

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
                others = _product([*one[:place], *one[place + 1 :]], self.most)
                present[row, :, place] = np.convolve(counted[row, place], others)[at]
        return throughput, present / every[:, at, None] / throughput[:, :, None]


def _alike(numbers: Floats) -> list[NDArray[np.int64]]:
    """The places of networks with queues and delays at the same stations."""
    kinds = np.concatenate([_queued(numbers), numbers[:, :, _DEMAND] > 0], axis=1)
    if (kinds == kinds[0]).all():
        return [np.arange(len(numbers))]
    _, group = np.unique(kinds, axis=0, return_inverse=True)
    return [np.flatnonzero(group.ravel() == one) for one in range(int(group.max()) + 1)]


def _queued(numbers: Floats) -> NDArray[np.bool_]:
    """Which stations of each network have a queue."""
    delays = np.isinf(numbers[:, :, _SERVERS]) & (numbers[:, :, _BATCH_WAIT] == 0)
    return np.asarray((numbers[:, :, _DEMAND] > 0) & ~delays, dtype=np.bool_)


def _weighted(numbers: Floats, most: int) -> _Weighted:
    """The weights of all stations of all networks, computed together."""
    queued = _queued(numbers[:1])[0]
    stations, delays = numbers[:, queued], numbers[:, ~queued, _DEMAND].sum(axis=1)
    if delays[0] > 0:
        # All delays together are one delay, because no customer waits at any of them.
        together = np.tile([0.0, math.inf, 0.0, 0.0], (len(numbers), 1, 1))
        together[:, 0, _DEMAND] = delays
        stations = np.concatenate([stations, together], axis=1)
    # A rate near the throughput; in units of it, no relevant weight overflows or underflows.
    capacity = (stations[:, :, _SERVERS] / stations[:, :, _DEMAND]).min(axis=1)
    scales = np.minimum(most / stations[:, :, _DEMAND].sum(axis=1), capacity)
    weights = _weights(_rates(stations, most) / scales[:, None, None])
    return _Weighted(np.flatnonzero(queued).tolist(), weights, scales)


def _rates(stations: Floats, customers: int) -> Floats:
    """The rates of each station, shape (..., customers)."""
    demand, servers, batch_wait, calm = (stations[..., field, None] for field in range(4))
    present = np.arange(1, customers + 1, dtype=np.float64)
    waiting = 1 + batch_wait * (1 - 1 / present**2)
    queued = np.maximum(present - np.floor(np.minimum(servers, customers)), 1.0)
    served = np.minimum(present, servers)
    relieved = np.where(present > servers, np.minimum(present, served * (1 + calm / queued)), served)
    return np.asarray(relieved / (demand * waiting), dtype=np.float64)


def _check(numbers: Floats, customers: Sequence[int]) -> None:
    if not customers or min(customers) < 1:
        raise UsageError("a network without customers does nothing")
    demand, servers, batch_wait = (numbers[:, :, field] for field in (_DEMAND, _SERVERS, _BATCH_WAIT))
    if not ((demand >= 0) & (demand < math.inf) & (servers > 0) & (batch_wait >= 0)).all():
        raise UsageError("demands must be finite and not negative, servers positive, waits not negative")
    if not (demand > 0).any(axis=1).all():
        raise UsageError("a network without demand would complete infinitely often")


def _divided(customers: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Small and large numbers of customers; None if they can be solved together."""
    most = max(customers, default=0)
    few = [n for n in customers if n * _WIDEST < most and most > _SAFE]
    return (few, [n for n in customers if n not in few]) if few else None


def _weights(rates: Floats) -> Floats:
    """Per station, the relative weights of 0 .. N customers, the largest being 1."""
    logs = np.zeros((*rates.shape[:-1], rates.shape[-1] + 1))
    np.negative(np.cumsum(np.log(rates), axis=-1), out=logs[..., 1:])
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)), dtype=np.float64)


def _product(weights: Sequence[Floats], most: int) -> Floats:
    """Normalisation constants of a part of the network; for an empty part, 1 for no customer."""
    if not weights:
        return np.concatenate(([1.0], np.zeros(most)))
    found = weights[0]
    for one in weights[1:]:
        found = np.convolve(found, one)[: most + 1]
    return found
