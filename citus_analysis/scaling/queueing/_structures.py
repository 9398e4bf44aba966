"""Networks that differ in which parts of an operation share a queue, and their predictions for given parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.scaling.queueing.networks import Station, solve_closed

__all__ = ["CLIENT", "EVERY_PART", "PARTS", "Change", "Layout", "Parameters", "Prediction", "Shape", "layouts"]


#: What an operation's response time is made of. `outside` is what no span of the servers covers: the client and its
#: driver, the way to the server, queueing before the statement, and commits that no duration contains.
PARTS: Final = ("parent", "child", "network", "outside")
#: The time of a client thread outside the response times that it reports.
CLIENT: Final = "client"
EVERY_PART: Final = (*PARTS, CLIENT)
#: A part that grows by less over the measured numbers of threads shows no queue that others could share.
_GROWS: Final = 1.25
#: Parts that are no work of a server's processors: where they show no queue, none is assumed.
_ELSEWHERE: Final = ("network", "outside", CLIENT)
#: A part that grows by more does not wait for batches alone.
_BATCHED: Final = 2.5
#: Parts that may contain a commit, which is flushed to disk for all who wait (group commit).
_COMMITS: Final = ("child", "outside")


@dataclass(frozen=True)
class Shape:
    """A station without numbers.

    Attributes:
        parts: the parts served here.
        servers: how many at once, where that is known; None where it is fitted.
        batches: services serve all who wait.
        assumed: that it has no queue is an assumption, for nothing showed one.
        utilisation: measured share of time busy, per number of threads; empty where nothing was recorded.
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
    """What is changed about a system.

    Attributes:
        name: the change in words.
        demands: per part, what its demand is multiplied by: 0 removes it, 0.5 halves it.
        enlarged: parts whose stations get more servers.
        servers: what the servers of these stations are multiplied by.
        threads: what the number of client threads is multiplied by.
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
    """What a network does at some numbers of threads: times per part, and how busy each station is."""

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
        """The network of these numbers, where wanted with a change."""
        factors = dict(change.demands) if change else {}
        demands = {part: factors.get(part, 1.0) * value for part, value in numbers.demands.items()}
        return [
            Station(sum(demands[part] for part in shape.parts), servers * _more(shape, change), wait, calm)
            for shape, servers, wait, calm in zip(
                self.shapes, numbers.servers, numbers.batch_waits, numbers.calms, strict=True
            )
        ]

    def predict(self, numbers: Parameters, threads: Sequence[int], change: Change | None = None) -> Prediction:
        """Throughput (operations per us), time of each part and utilisation of each station per number of threads.

        The waiting at a station that several parts share is divided by `wait_shares`: it goes by demands where they
        take turns in short slices, by visits where they are served first come, first served.
        """
        stations, factors = self.stations(numbers, change), dict(change.demands) if change else {}
        solved = solve_closed(stations, threads)
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
        times: per part, its mean time at each number of threads; parts without time are left out.
        known: stations that are known; their parts are nowhere else.
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
    """Queues everywhere; and for each part that may contain a commit, batches in its place.

    Who waits for one service under way and then for his own waits for twice as long as alone, no more.
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
