"""Layouts of networks, which differ in the parts of an operation that share a queue, and their predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.core.array_types import Floats
from citus_analysis.scaling.queueing.networks import Station, solve_networks, station_numbers

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
        demands: part -> factor of its demand: 0 removes the part, 0.5 halves it.
        enlarged: parts whose stations get more servers.
        servers: factor of the servers of these stations.
        threads: factor of the number of client threads.
    """

    name: str
    demands: Mapping[str, float] = field(default_factory=dict)
    enlarged: tuple[str, ...] = ()
    servers: float = 1.0
    threads: int = 1


_NO_CHANGE: Final = Change("no change")


@dataclass(frozen=True)
class Layout:
    """Stations that together serve every part of an operation."""

    shapes: tuple[Shape, ...]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """All parts, station by station."""
        return tuple(part for shape in self.shapes for part in shape.parts)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The place of the station of each part."""
        return np.repeat(np.arange(len(self.shapes)), [len(shape.parts) for shape in self.shapes])

    def __str__(self) -> str:
        return "; ".join(map(str, self.shapes))

    def stations(self, numbers: Parameters, change: Change = _NO_CHANGE) -> list[Station]:
        """The network of these numbers after a change."""
        numbers_of_shapes = zip(self.shapes, numbers.servers, numbers.batch_waits, numbers.calms, strict=True)
        return [
            Station(
                sum(change.demands.get(part, 1.0) * numbers.demands[part] for part in shape.parts),
                servers * (change.servers if set(shape.parts) & set(change.enlarged) else 1.0),
                wait,
                calm,
            )
            for shape, servers, wait, calm in numbers_of_shapes
        ]

    def predict(self, numbers: Parameters, threads: int, change: Change = _NO_CHANGE) -> tuple[float, dict[str, float]]:
        """Throughput (operations per us) and time of each part at a number of threads."""
        demands = np.array([[change.demands.get(part, 1.0) * numbers.demands[part] for part in self.parts]])
        shares = np.array([[numbers.wait_shares[part] for part in self.parts]])
        stations = station_numbers([self.stations(numbers, change)])
        throughput, times, _ = self.predictions(stations, demands, shares, [threads])
        return float(throughput[0, 0]), dict(zip(self.parts, times[0, :, 0].tolist(), strict=True))

    def predictions(
        self, stations: Floats, demands: Floats, shares: Floats, threads: Sequence[int]
    ) -> tuple[Floats, Floats, Floats]:
        """The behaviour of several networks with these stations, in the order of the layout's parts and stations.

        The waiting at a station that several parts share is divided by `shares`. It is proportional to demands if
        the parts take turns in short slices, and to visits if they are served first come, first served.

        Args:
            stations: shape (networks, stations, 4), see
                :func:`~citus_analysis.scaling.queueing.networks.station_numbers`.
            demands: of each part, shape (networks, parts).
            shares: of each part, shape (networks, parts).
            threads: numbers of threads.

        Returns:
            Throughput, shape (networks, numbers of threads), times of the parts, shape (networks, parts, numbers of
            threads), and utilisation of the stations, shape (networks, stations, numbers of threads).
        """
        throughput, residence = solve_networks(stations, threads)
        waits = (residence - stations[:, None, :, 0]).transpose(0, 2, 1)
        times = demands[:, :, None] + shares[:, :, None] * waits[:, self.places]
        busy = throughput[:, None, :] * (stations[:, :, 0] / stations[:, :, 1])[:, :, None]
        return throughput, times, busy


def layouts(times: Mapping[str, Floats], known: Sequence[Shape] = ()) -> Iterator[Layout]:
    """Every layout that could explain the times: parts that wait may share a queue, each other part has its own.

    Args:
        times: part -> its mean time at each number of threads; parts without time are left out.
        known: known stations, whose parts are at no other station.
    """
    placed = {part for shape in known for part in shape.parts}
    free = [part for part in times if part not in placed]
    growing = [part for part in free if float(times[part].max()) > _GROWS * float(times[part].min())]
    quiet = [part for part in free if part not in growing]
    steady = [Shape((part,), math.inf if part in _ELSEWHERE else None, assumed=part in _ELSEWHERE) for part in quiet]
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
