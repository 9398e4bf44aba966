"""Layouts of networks, which differ in the parts of an operation that share a queue, and their predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.scaling.queueing.networks import ClosedSolution, Station, solve_networks

__all__ = ["CLIENT", "EVERY_PART", "PARTS", "Change", "Layout", "Parameters", "Prediction", "Shape", "layouts"]


#: The parts of an operation's response time. `outside` is the time that no span of the servers covers: the client and
#: its driver, the network to the server, queueing before the statement, and commits that no duration contains.
PARTS: Final = ("parent", "child", "network", "outside")
#: The time of a client thread outside the response times that it reports.
CLIENT: Final = "client"
EVERY_PART: Final = (*PARTS, CLIENT)
#: Least growth of a part, over the measured numbers of threads, that shows a queue.
_GROWS: Final = 1.25
#: Parts that do not use a server's processors; if they show no queue, none is assumed.
_ELSEWHERE: Final = ("network", "outside", CLIENT)
#: Largest growth of a part that waits only for batches.
_BATCHED: Final = 2.5
#: Parts that may contain a commit, which is flushed to disk for all waiting transactions (group commit).
_COMMITS: Final = ("child", "outside")


@dataclass(frozen=True)
class Shape:
    """A station without numbers.

    Attributes:
        parts: the parts served here.
        servers: number of servers, if known; None if it is fitted.
        batches: a service serves all waiting customers.
        assumed: the station is assumed to have no queue, because none was visible.
        utilisation: measured share of time busy, per number of threads; empty if nothing was recorded.
    """

    parts: tuple[str, ...]
    servers: float | None = None
    batches: bool = False
    assumed: bool = False
    utilisation: tuple[tuple[int, float], ...] = ()

    @property
    def known(self) -> bool:
        """Whether its capacity was stated or recorded."""
        return bool(self.utilisation) or (self.servers is not None and not self.assumed)

    def __str__(self) -> str:
        names = " + ".join(self.parts)
        if self.batches:
            return f"{names} in batches"
        if self.servers is None:
            return f"{names} at servers"
        return f"{names} without a queue" if math.isinf(self.servers) else f"{names} at {self.servers:g} servers"


@dataclass(frozen=True)
class Parameters:
    """Numbers of a network: demands per part, servers and share of waiting per station."""

    demands: Mapping[str, float]
    servers: tuple[float, ...]
    batch_waits: tuple[float, ...]
    wait_shares: Mapping[str, float]
    calms: tuple[float, ...]


@dataclass(frozen=True)
class Change:
    """A change of a system.

    Attributes:
        name: the change in words.
        demands: (part, factor of its demand): 0 removes the part, 0.5 halves it.
        enlarged: parts whose stations get more servers.
        servers: factor of the servers of these stations.
        threads: factor of the number of client threads.
    """

    name: str
    demands: tuple[tuple[str, float], ...] = ()
    enlarged: tuple[str, ...] = ()
    servers: float = 1.0
    threads: int = 1

    @classmethod
    def without(cls, part: str) -> Change:
        """One part infinitely fast."""
        return cls(f"no {part} time", demands=((part, 0.0),))


@dataclass(frozen=True)
class Prediction:
    """The behaviour of a network at some numbers of threads: throughput, times per part, utilisation of stations."""

    throughput: Floats
    parts: Mapping[str, Floats]
    utilisation: Floats


@dataclass(frozen=True)
class Layout:
    """Stations that together serve every part of an operation."""

    shapes: tuple[Shape, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.shapes))

    def stations(self, numbers: Parameters, change: Change | None = None) -> list[Station]:
        """The network of these numbers, after a change if one is given."""
        factors = dict(change.demands) if change else {}
        demands = {part: factors.get(part, 1.0) * value for part, value in numbers.demands.items()}
        return [
            Station(sum(demands[part] for part in shape.parts), servers * _more(shape, change), wait, calm)
            for shape, servers, wait, calm in zip(
                self.shapes, numbers.servers, numbers.batch_waits, numbers.calms, strict=True
            )
        ]

    def predict(self, numbers: Parameters, threads: Sequence[int], change: Change | None = None) -> Prediction:
        """Throughput (operations per us), time of each part and utilisation of each station per number of threads."""
        return self.predictions([numbers], threads, change)[0]

    def predictions(
        self, numbers: Sequence[Parameters], threads: Sequence[int], change: Change | None = None
    ) -> list[Prediction]:
        """The predictions of several networks with these stations.

        The waiting at a station that several parts share is divided by `wait_shares`. It is proportional to demands if
        the parts take turns in short slices, and to visits if they are served first come, first served.
        """
        factors = dict(change.demands) if change else {}
        networks = [self.stations(one, change) for one in numbers]
        solutions = solve_networks(networks, threads)
        return [
            self._prediction(own, stations, solved, factors)
            for own, stations, solved in zip(numbers, networks, solutions, strict=True)
        ]

    def _prediction(
        self, numbers: Parameters, stations: Sequence[Station], solved: ClosedSolution, factors: Mapping[str, float]
    ) -> Prediction:
        parts: dict[str, Floats] = {}
        for place, (shape, station) in enumerate(zip(self.shapes, stations, strict=True)):
            waits = solved.residence_time[:, place] - station.demand
            for part in shape.parts:
                parts[part] = factors.get(part, 1.0) * numbers.demands[part] + numbers.wait_shares[part] * waits
        busy = [solved.throughput * one.demand / one.servers for one in stations]
        return Prediction(solved.throughput, parts, np.array(busy))


def _more(shape: Shape, change: Change | None) -> float:
    return change.servers if change is not None and set(shape.parts) & set(change.enlarged) else 1.0


def layouts(times: Mapping[str, Floats], known: Sequence[Shape] = ()) -> Iterator[Layout]:
    """Every layout that could explain the times: parts that wait may share a queue, each other part has its own.

    Args:
        times: part -> its mean time at each number of threads; parts without time are left out.
        known: known stations, whose parts are at no other station.
    """
    placed = {part for shape in known for part in shape.parts}
    free = [part for part in times if part not in placed]
    growing = [part for part in free if float(times[part].max()) > _GROWS * float(times[part].min())]
    steady = [
        Shape((part,), servers=math.inf, assumed=True) if part in _ELSEWHERE else Shape((part,))
        for part in free
        if part not in growing
    ]
    for groups in _partitions(growing):
        for shapes in _kinds((*known, *(Shape(parts) for parts in groups)), times):
            yield Layout((*shapes, *steady))


def _kinds(queues: tuple[Shape, ...], times: Mapping[str, Floats]) -> Iterator[tuple[Shape, ...]]:
    """Queues at all stations, and variants with batches instead of the queue of a part that may contain a commit.

    With batches, a customer waits at most for the service under way and its own, twice as long as alone.
    """
    yield queues
    for place, shape in enumerate(queues):
        part = shape.parts[0]
        grows = float(times[part].max() / max(times[part].min(), 1e-9))
        if len(shape.parts) == 1 and part in _COMMITS and shape.servers is None and _GROWS < grows < _BATCHED:
            yield (*queues[:place], Shape(shape.parts, batches=True), *queues[place + 1 :])


def _partitions(parts: Sequence[str]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """All ways to divide parts into groups."""
    if not parts:
        yield ()
        return
    first, rest = parts[0], parts[1:]
    for groups in _partitions(rest):
        yield ((first,), *groups)
        for place, group in enumerate(groups):
            yield (*groups[:place], (first, *group), *groups[place + 1 :])
