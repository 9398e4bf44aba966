"""Throughput if a part of every operation took no time: closed networks fitted to runs at several thread counts.

All predictions of gains are made here. A prediction is made only by networks that have predicted runs to which they
were not fitted; if the runs do not distinguish networks with different predictions, there is no prediction.

References:
    Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI (blocked time).
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 13 (modification analysis).
    Suri, R. (1985). A concept of monotonicity and its characterization for closed queueing networks. Oper. Res. 33.
    Burnham, K. P. and Anderson, D. R. (2002). Model Selection and Multimodel Inference, section 2.6 (differences).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import least_squares

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError, require_known
from citus_analysis.scaling.fitting import fit
from citus_analysis.scaling.queueing import Station, build_station_array, compute_network_throughputs, solve_networks
from citus_analysis.stats import Interval, mean_interval
from citus_analysis.stats.intervals import choose_mean_method
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_S

# Layouts of networks, which differ in the parts of an operation that share a queue, and their predictions.

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
class StationShape:
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
class NetworkLayout:
    """Stations that together serve every part of an operation."""

    shapes: tuple[StationShape, ...]

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
        stations = build_station_array([self.stations(numbers, change)])
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
                :func:`~citus_analysis.scaling.queueing.build_station_array`.
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


def iterate_layouts(times: Mapping[str, Floats], known: Sequence[StationShape] = ()) -> Iterator[NetworkLayout]:
    """Every layout that could explain the times: parts that wait may share a queue, each other part has its own.

    Args:
        times: part -> its mean time at each number of threads; parts without time are left out.
        known: known stations, whose parts are at no other station.
    """
    placed = {part for shape in known for part in shape.parts}
    free = [part for part in times if part not in placed]
    growing = [part for part in free if float(times[part].max()) > _GROWS * float(times[part].min())]
    quiet = [part for part in free if part not in growing]
    steady = [
        StationShape((part,), math.inf if part in _ELSEWHERE else None, assumed=part in _ELSEWHERE) for part in quiet
    ]
    for groups in _iterate_partitions(growing):
        for shapes in _iterate_queue_kinds((*known, *(StationShape(parts) for parts in groups)), times):
            yield NetworkLayout((*shapes, *steady))


def _iterate_queue_kinds(
    queues: tuple[StationShape, ...], times: Mapping[str, Floats]
) -> Iterator[tuple[StationShape, ...]]:
    """Queues at all stations, and variants with batches instead of the queue of a part that may contain a commit.

    With batches, a customer waits at most for the service under way and its own, twice as long as alone.
    """
    yield queues
    for place, shape in enumerate(queues):
        part = shape.parts[0]
        grows = float(times[part].max() / max(times[part].min(), 1e-9))
        if len(shape.parts) == 1 and part in _COMMITS and shape.servers is None and _GROWS < grows < _BATCHED:
            yield (*queues[:place], StationShape(shape.parts, batches=True), *queues[place + 1 :])


def _iterate_partitions(parts: Sequence[str]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """All ways to divide parts into groups."""
    if not parts:
        yield ()
        return
    first, rest = parts[0], parts[1:]
    for groups in _iterate_partitions(rest):
        yield ((first,), *groups)
        for place, group in enumerate(groups):
            yield (*groups[:place], (first, *group), *groups[place + 1 :])


# Fit closed networks to times measured at several numbers of threads, and determine the range of predictions.
#
# The range of a prediction is its profile: the network is fitted again while the prediction is pulled away from its
# best value, and all values that the data still allow belong to the range. So a number that the data do not determine
# (the servers of a station that never was busy) gives a wide range instead of a confident answer.
#
# References:
#     Venzon, D. J. and Moolgavkar, S. H. (1988). A method for computing profile-likelihood-based confidence
# intervals.
#         Applied Statistics 37.

#: The logarithm of a predicted quantity for each of several networks.
Logarithms = Callable[[Sequence[Parameters]], list[float]]

#: Least relative error of measured means and of the network's assumptions.
_NOISE: Final = 0.02
#: The error of a part is proportional to its time, but at least to this share of the whole cycle.
_COARSEST: Final = 0.05
#: Relative error of waiting times, which depend on the unknown irregularity of arrivals and services.
_WAITING: Final = 0.1
#: Error of a measured utilisation, as a share of time.
_BUSY_NOISE: Final = 0.02
#: Quantile of chi-squared with one degree of freedom at 95 %: the deviance that a profile may add.
_PROFILE: Final = 3.84
#: Standard deviation of the calmness of queues (0: exponential servers), and its largest value.
_CALM, _CALM_MOST = 0.4, 0.9
#: Weight of a pull, much larger than that of data which determine a prediction to within some per cent.
_PULL: Final = 40.0


@dataclass(frozen=True)
class Samples:
    """Means over runs, per number of threads: throughput per us, time of each part (us), relative error of both."""

    threads: tuple[int, ...]
    throughput: Floats
    parts: Mapping[str, Floats]
    errors: Floats

    def without(self, place: int) -> Samples:
        """All but one number of threads."""
        threads = self.threads[:place] + self.threads[place + 1 :]
        parts = {name: np.delete(values, place) for name, values in self.parts.items()}
        return Samples(threads, np.delete(self.throughput, place), parts, np.delete(self.errors, place))


@dataclass(frozen=True)
class FittedNetwork:
    """A layout with the numbers that fit best.

    Attributes:
        layout: its stations.
        numbers: demands, servers and shares of waiting.
        point: the same numbers as the vector that was fitted.
        deviance: weighted sum of squared errors.
        df: observations less parameters.
        parameters: number of parameters.
    """

    layout: NetworkLayout
    numbers: Parameters
    point: Floats
    deviance: float
    df: int
    parameters: int

    @property
    def scale(self) -> float:
        """Variance of the errors over the assumed one, never less than 1."""
        return max(1.0, self.deviance / self.df) if self.df > 0 else 1.0

    @property
    def criterion(self) -> float:
        """Akaike's criterion except for a constant."""
        return self.deviance + 2 * self.parameters


def fit_network(layout: NetworkLayout, samples: Samples) -> FittedNetwork | None:
    """Fit the numbers of a layout; None if there are more numbers than the samples determine."""
    problem = _Problem(layout, samples)
    observations = problem.residuals(problem.start(1.0)[None, :]).shape[1] - len(problem.queues)
    if problem.size >= observations:
        return None
    point, deviance = problem.solve(problem.start(1.0))
    if deviance > observations:
        # Times at the fewest threads may contain much waiting already.
        point, deviance = min((point, deviance), problem.solve(problem.start(0.3)), key=lambda one: one[1])
    return FittedNetwork(layout, problem.numbers(point), point, deviance, observations - problem.size, problem.size)


def profile(fitted: FittedNetwork, samples: Samples, log_of: Logarithms, reach: float) -> float:
    """The distance by which a logarithm can move in the direction of `reach` at a deviance that the data allow.

    The distance has the sign of `reach`, and is infinite if the data allow all of `reach`.
    """
    problem, best = _Problem(fitted.layout, samples), log_of([fitted.numbers])[0]
    allowed = _PROFILE * fitted.scale

    def pull(numbers: Sequence[Parameters]) -> list[float]:
        return [_PULL * (one - best - reach) for one in log_of(numbers)]

    farthest = 0.0
    starts = [fitted.point] if reach > 0 else [fitted.point, problem.widen(fitted.point, allowed)]
    for start in starts:
        point, _ = problem.solve(start, pull)
        moved = (log_of([problem.numbers(point)])[0] - best) * math.copysign(1.0, reach)
        cost = problem.deviance(point) - fitted.deviance
        if cost <= allowed and moved > 0.9 * abs(reach):
            return math.copysign(math.inf, reach)
        # The deviance is nearly a parabola of the distance.
        farthest = max(farthest, moved * math.sqrt(allowed / max(cost, 0.01 * allowed)))
    return math.copysign(farthest, reach)


class _Problem:
    """Least squares over logarithms of demands and servers, and shares of waiting."""

    def __init__(self, layout: NetworkLayout, samples: Samples) -> None:
        self.layout, self.samples = layout, samples
        self.parts = layout.parts
        self.open = [i for i, shape in enumerate(layout.shapes) if shape.servers is None and not shape.batches]
        self.batches = [i for i, shape in enumerate(layout.shapes) if shape.batches]
        self.shared = [part for shape in layout.shapes for part in shape.parts[1:]]
        self.queues = [i for i, shape in enumerate(layout.shapes) if not shape.batches and shape.servers != math.inf]
        self.counts = (len(self.parts), len(self.open), len(self.batches), len(self.shared), len(self.queues))
        # The calmness of queues has a prior expectation, so it takes no degrees of freedom.
        self.size = sum(self.counts[:-1])
        self.ends = (0, *accumulate(self.counts))
        self.most = float(max(samples.threads))
        cycle = np.sum([samples.parts[part] for part in self.parts], axis=0)
        self.times = np.array([samples.parts[part] for part in self.parts])
        self.weights = np.array([1 / self._tolerance(times, cycle) for times in self.times])
        self.known = np.array([shape.servers or math.inf for shape in layout.shapes])
        #: The place of the first part of each station.
        self.firsts = np.searchsorted(layout.places, np.arange(len(layout.shapes)))
        self.factors = [i for i, part in enumerate(self.parts) if part in self.shared]
        self.busy = [
            (place, samples.threads.index(threads), share)
            for place, shape in enumerate(layout.shapes)
            for threads, share in shape.utilisation
            if threads in samples.threads
        ]

    def _tolerance(self, times: Floats, cycle: Floats) -> Floats:
        """The error of a part's times: the error of the measurement, and that of waiting times for a given load."""
        own = self.samples.errors * np.maximum(times, _COARSEST * cycle)
        return np.asarray(np.hypot(own, _WAITING * (times - times.min())), dtype=np.float64)

    def numbers(self, point: Floats) -> Parameters:
        """A point of the search as demands, servers and shares."""
        return self._parameters(*self.networks(point[None, :]))[0]

    def _parameters(self, *networks: Floats) -> list[Parameters]:
        """Stations, demands and shares of several networks by the names of their parts."""
        found = []
        for stations, demands, shares in zip(*(one.tolist() for one in networks), strict=True):
            _, servers, batch_waits, calms = zip(*stations, strict=True)
            own, divided = dict(zip(self.parts, demands, strict=True)), dict(zip(self.parts, shares, strict=True))
            found.append(Parameters(own, servers, batch_waits, divided, calms))
        return found

    def networks(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Points of the search as stations, demands and shares of waiting, see :meth:`Layout.predictions`."""
        logs, servers, waits, ratios, calms = (points[:, start:end] for start, end in pairwise(self.ends))
        demands = np.exp(logs)
        # Shares of waiting are proportional to demands, for each part after the first times a fitted factor.
        raw = demands.copy()
        raw[:, self.factors] *= np.exp(ratios)
        stations = np.zeros((len(points), len(self.known), 4))
        stations[:, :, 0], stations[:, :, 1] = self._sums(demands), self.known
        stations[:, self.open, 1] = np.exp(servers)
        stations[:, self.batches, 2] = waits
        stations[:, self.queues, 3] = calms
        return stations, demands, raw / self._sums(raw)[:, self.layout.places]

    def _sums(self, values: Floats) -> Floats:
        """Sums over the parts of each station."""
        return np.asarray(np.add.reduceat(values, self.firsts, axis=1), dtype=np.float64)

    def start(self, lean: float) -> Floats:
        """The start of the search: times at the fewest threads, multiplied by `lean` if they may contain waiting."""
        first = int(np.argmin(self.samples.threads))
        highest = float(self.samples.throughput.max())
        demands = {part: max(float(self.samples.parts[part][first]), 1e-3) for part in self.parts}
        servers = []
        for shape in self.layout.shapes:
            seen = [self.samples.parts[part] for part in shape.parts]
            grows = float(np.sum(seen, axis=0).max()) > 1.2 * float(np.sum(seen, axis=0)[first])
            if grows:
                demands |= {part: lean * demands[part] for part in shape.parts}
            together = sum(demands[part] for part in shape.parts)
            servers.append(min(max(highest * together * (1.03 if grows else 4.0), 1.05), 0.95 * self.most))
        logs = [math.log(demands[part]) for part in self.parts] + [math.log(servers[i]) for i in self.open]
        return np.array(logs + [0.4] * len(self.batches) + [0.0] * (len(self.shared) + len(self.queues)))

    def solve(self, start: Floats, pull: Logarithms | None = None) -> tuple[Floats, float]:
        """The best point from a start, and its weighted sum of squares (with the pull)."""
        # Servers are between one and the number of threads, at which no customer ever waits.
        low = np.repeat([math.log(1e-4), 0.0, 0.0, -3.0, -_CALM_MOST], self.counts)
        high = np.repeat([math.log(1e10), math.log(max(self.most, 1.2)), 1.2, 3.0, _CALM_MOST], self.counts)
        last = [np.empty(0), np.empty(0)]

        def errors(point: Floats) -> Floats:
            # Most steps are accepted, and then the search asks for the derivatives at the same point.
            found, last[1] = compute_residuals_and_slopes(lambda points: self.residuals(points, pull), point, low, high)
            last[0] = point.copy()
            return found

        def derivatives(point: Floats) -> Floats:
            if not np.array_equal(point, last[0]):
                errors(point)
            return last[1]

        inside = np.clip(start, low + 1e-6, high - 1e-6)
        found = least_squares(
            errors, inside, derivatives, bounds=(low, high), max_nfev=25, xtol=1e-5, ftol=1e-4, gtol=1e-6
        )
        return np.asarray(found.x, dtype=np.float64), float(2 * found.cost)

    def deviance(self, point: Floats) -> float:
        """Weighted sum of squared errors."""
        return float(np.sum(self.residuals(point[None, :])[0] ** 2))

    def widen(self, point: Floats, allowed: float) -> Floats:
        """The point with the fewest servers of each station that the data allow.

        If a station was never busy, the errors do not depend on its servers, and a search would not change them.
        """
        found, limit = point.copy(), self.deviance(point) + allowed / 2
        for place in range(len(self.parts), len(self.parts) + len(self.open)):
            near, far = float(found[place]), 0.0
            for _ in range(6):
                tried = found.copy()
                tried[place] = middle = (near + far) / 2
                near, far = (middle, far) if self.deviance(tried) <= limit else (near, middle)
            found[place] = near
        return found

    def residuals(self, points: Floats, pull: Logarithms | None = None) -> Floats:
        """Per point, errors of times, throughput and utilisation, each divided by its tolerance, and the pull."""
        stations, demands, shares = self.networks(points)
        throughput, times, busy = self.layout.predictions(stations, demands, shares, self.samples.threads)
        off = ((times - self.times) * self.weights).reshape(len(points), -1)
        rates = np.log(throughput / self.samples.throughput) / self.samples.errors
        used = [(busy[:, place, n] - share)[:, None] / _BUSY_NOISE for place, n, share in self.busy]
        parts = [off, rates, *used, points[:, self.size :] / _CALM]
        if pull is not None:
            parts.append(np.array(pull(self._parameters(stations, demands, shares)))[:, None])
        return np.concatenate(parts, axis=1)


def compute_residuals_and_slopes(
    residuals: Callable[[Floats], Floats], point: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Residuals, and their differences, forwards or, at a bound, away from it, shape (residuals, numbers).

    scipy would evaluate each point of the differences alone; solving all of their networks at once is faster.
    """
    steps = math.sqrt(np.finfo(np.float64).eps) * np.where(point >= 0, 1.0, -1.0) * np.maximum(1.0, np.abs(point))
    steps = np.where((point + steps < low) | (point + steps > high), -steps, steps)
    found = residuals(np.vstack([point, point + np.diag(steps)]))
    return found[0], np.asarray(((found[1:] - found[0]) / ((point + steps) - point)[:, None]).T, dtype=np.float64)


def estimate_relative_errors(groups: Sequence[Floats]) -> Floats:
    """Relative standard errors of the means of some groups, with the error of the network's assumptions."""
    own = [float(one.std(ddof=1)) / float(one.mean()) / math.sqrt(one.size) if one.size > 1 else 0.0 for one in groups]
    return np.hypot(_NOISE, own)


# Input and results of a what-if analysis: times of runs, known stations, gains with their warnings.


@dataclass(frozen=True)
class RunTimes:
    """The measurements of one run.

    Attributes:
        threads: client threads N.
        throughput_ops_s: completed operations per second.
        parts_us: mean time per operation in `parent`, `child`, `network` and `outside`; the rest of N / X is the
            client's own time.
    """

    threads: int
    throughput_ops_s: float
    parts_us: Mapping[str, float]

    def __post_init__(self) -> None:
        if self.threads < 1 or not 0 < self.throughput_ops_s < math.inf:
            raise UsageError("a run has at least one thread and a positive throughput")
        for name, value in self.parts_us.items():
            require_known("part of an operation", name, EVERY_PART)
            if not 0 <= value < math.inf:
                raise UsageError(f"the time of {name} is {value:g}", hint="give finite times that are not negative")


@dataclass(frozen=True)
class Placement:
    """A known station: these parts, and no others, wait for the same servers.

    Attributes:
        parts: parts that are served here (`parent` and `child` if every node receives statements and has shards).
        servers: number of servers (cores); infinite: no customer ever waits; None: not known.
        utilisation: measured mean utilisation (0 to 1) per number of threads; empty if nothing was recorded.

    Example:
        >>> Placement(("parent", "child"), servers=8).parts
        ('parent', 'child')
    """

    parts: tuple[str, ...]
    servers: float | None = None
    utilisation: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.parts:
            require_known("part of an operation", name, EVERY_PART)
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise UsageError("a station serves at least one part, and each once")
        if self.servers is not None and not self.servers >= 1:
            raise UsageError(f"a station with {self.servers:g} servers", hint="give at least one, or none if unknown")
        if any(not 0 <= share <= 1 for share in self.utilisation.values()):
            raise UsageError("utilisations are shares from 0 to 1")


@dataclass(frozen=True)
class HeldOut:
    """The prediction of a thread count by a network that was fitted to all others.

    Attributes:
        threads: the thread count that was left out.
        measured_ops_s: mean measured throughput.
        predicted_ops_s: predicted throughput.
        error_percent: predicted against measured throughput.
        parts_error_percent: summed errors of the parts' times, in per cent of the cycle N / X.
    """

    threads: int
    measured_ops_s: float
    predicted_ops_s: float
    error_percent: float
    parts_error_percent: float


@dataclass(frozen=True)
class Gain:
    """The gain if one part were infinitely fast.

    Attributes:
        part: the part; for another change, the change in words.
        factor: throughput then over throughput now; None if it is refused.
        low: smallest factor that the runs allow; None if it is refused.
        high: largest factor that the runs allow; None if it is refused.
        limit: largest factor of all networks that the runs allow; None if it is not limited.
        refused: reason why there is no factor; None if there is one.
    """

    part: str
    factor: float | None
    low: float | None
    high: float | None
    limit: float | None
    refused: str | None = None

    def __str__(self) -> str:
        most = "" if self.limit is None else f", at most {self.limit:.2f}-fold"
        if self.factor is None:
            return f"without {self.part} time: no prediction ({self.refused}){most}"
        return f"without {self.part} time: {self.factor:.2f}-fold [{self.low:.2f}, {self.high:.2f}]{most}"


@dataclass(frozen=True, repr=False)
class WhatIf(DisplayMixin):
    """The parts of the time of operations of one set-up, and the gain without each part.

    Attributes:
        configuration: values that the runs have in common (resource, phase, workload ...); empty if not stated.
        threads: thread count of the gains.
        thread_counts: all measured thread counts.
        parts_us: mean time per operation in each part at `threads`, over its runs.
        response_us: mean response time at `threads`, over its runs.
        throughput_ops_s: mean throughput at `threads`, over its runs.
        gains: per part, in the order of the parts.
        demands_us: service demand per part without waiting, of the best network; empty if none was fitted.
        network: stations of the best network, in words; empty if none was fitted.
        held_out: predictions of thread counts that were left out, by the worst of the accepted networks; by the best
            network if none was accepted.
        held_out_error_percent: largest error of throughput among them; None if nothing could be left out.
        refused: reason why no gain at all is stated; None if some may be.
        n: number of runs.
        method: method of the gains.
        warnings: limitations that a reader must know.
        runs: the measurements of each run.
        samples: means per thread count, to which the networks were fitted; None if none was fitted.
        networks: the accepted networks, the best first; empty if none was accepted.
    """

    configuration: Mapping[str, object]
    threads: int
    thread_counts: tuple[int, ...]
    parts_us: Mapping[str, Interval]
    response_us: Interval
    throughput_ops_s: Interval
    gains: tuple[Gain, ...]
    demands_us: Mapping[str, float]
    network: str
    held_out: tuple[HeldOut, ...]
    held_out_error_percent: float | None
    refused: str | None
    n: int
    method: str
    warnings: tuple[str, ...] = ()
    runs: tuple[RunTimes, ...] = field(default=(), repr=False)
    samples: Samples | None = field(default=None, repr=False)
    networks: tuple[FittedNetwork, ...] = field(default=(), repr=False)

    def gain(self, part: str) -> Gain:
        """The gain of one part.

        Raises:
            UnknownNameError: no such part.
        """
        for one in self.gains:
            if one.part == part:
                return one
        raise UnknownNameError("part of an operation", part, [one.part for one in self.gains])

    def sentence(self) -> str:
        """The largest part, and the gain without it, in one sentence."""
        part = max(self.parts_us, key=lambda name: self.parts_us[name].estimate)
        whole = sum(one.estimate for one in self.parts_us.values())
        share = self.parts_us[part].estimate / whole if whole else 0.0
        return f"{share * 100:.0f} % of the response time at {self.threads} threads is {part} time; {self.gain(part)}."

    def summary_lines(self) -> list[str]:
        """The finding, one line per part, and the warnings."""
        error = self.held_out_error_percent
        held = "nothing was left out and predicted" if error is None else f"held-out error {error:.1f} %"
        return [
            self.sentence(),
            f"  {self.method}; {pluralize(self.n, 'run')}; {held}",
            *(f"  {one}" for one in self.gains if self.refused is None),
            *(f"  note: {note}" for note in self.warnings),
        ]

    def summary_table(self) -> pl.DataFrame | None:
        """One row per part."""
        return self.to_polars()

    def to_polars(self) -> pl.DataFrame:
        """One row per part: its time and demand, gain with its range, limit, and reason for a refusal."""
        rows = [
            {
                "part": one.part,
                "time_us": self.parts_us[one.part].estimate,
                "demand_us": self.demands_us.get(one.part),
                "gain": one.factor,
                "gain_low": one.low,
                "gain_high": one.high,
                "limit": one.limit,
                "refused": one.refused,
            }
            for one in self.gains
        ]
        numbers = dict.fromkeys(("time_us", "demand_us", "gain", "gain_low", "gain_high", "limit"), pl.Float64())
        return pl.DataFrame(rows, schema={"part": pl.String(), **numbers, "refused": pl.String()})


# Gains and limits of fitted networks: best value, the range that the runs allow, and whether it is narrow enough.

#: A gain is stated if all gains that the runs allow lie within this factor of it.
DECIDED: Final = 1.15
#: Logarithm of the factor up to which gains are tested, which is larger than `DECIDED`.
_REACH: Final = 1.3 * math.log(DECIDED)
#: Factor up to which limits are tested; a limit that can be larger is not stated.
_FARTHEST: Final = 2.0
#: Share of its capacity at which the capacity of a station was reached.
_REACHED: Final = 0.95
#: Multiple of the highest measured throughput up to which a station without a visible queue is assumed to have none.
_TRUSTED: Final = 2.0


@dataclass(frozen=True)
class _GainQuestion:
    """One change of one network at one number of threads."""

    network: FittedNetwork
    samples: Samples
    change: Change
    threads: int

    @property
    def layout(self) -> NetworkLayout:
        return self.network.layout

    def log_gain(self, numbers: Parameters) -> float:
        """The logarithm of the gain of one network; see :meth:`log_gains`."""
        return self.log_gains([numbers])[0]

    def log_gains(self, numbers: Sequence[Parameters]) -> list[float]:
        """Logarithms of throughput after the change over throughput before it."""
        changed = build_station_array([self.layout.stations(one, self.change) for one in numbers])
        if not changed[0, :, 0].any():
            return [math.inf] * len(numbers)
        after = compute_network_throughputs(changed, self.threads * self.change.threads)
        return [math.log(gain) for gain in after / self._now(numbers)]

    def log_limits(self, numbers: Sequence[Parameters]) -> list[float]:
        """Logarithms of the asymptotic bound after the change over the throughput before it."""
        before = self._now(numbers)
        return [math.log(self._bound(one) / now) for one, now in zip(numbers, before, strict=True)]

    def _now(self, numbers: Sequence[Parameters]) -> Floats:
        return compute_network_throughputs(
            build_station_array([self.layout.stations(one) for one in numbers]), self.threads
        )

    def _bound(self, numbers: Parameters) -> float:
        """The asymptotic bound of throughput after the change."""
        left = self.layout.stations(replace(numbers, servers=self.optimistic(numbers)), self.change)
        whole = sum(one.demand for one in left)
        if whole <= 0:
            return math.inf
        return min(self.threads * self.change.threads / whole, *(one.capacity() for one in left))

    def cautious(self) -> Parameters:
        """The best numbers, but with a queue beyond the trusted throughput where none is assumed."""
        numbers, highest = self.network.numbers, _TRUSTED * float(self.samples.throughput.max())
        servers = [
            max(highest * sum(numbers.demands[part] for part in shape.parts), 1.0) if shape.assumed else known
            for shape, known in zip(self.layout.shapes, numbers.servers, strict=True)
        ]
        return replace(numbers, servers=tuple(servers))

    def optimistic(self, numbers: Parameters) -> tuple[float, ...]:
        """Servers of each station; infinite if their number is neither known nor was reached.

        Waiting times at a station far from its capacity do not determine this number, because they depend as much on
        the irregularity of arrivals.
        """
        highest = float(self.samples.throughput.max())
        stations = self.layout.stations(numbers)
        return tuple(
            servers if shape.known or highest > _REACHED * station.capacity() else math.inf
            for shape, servers, station in zip(self.layout.shapes, numbers.servers, stations, strict=True)
        )


def predict_gain(
    networks: Sequence[FittedNetwork], samples: Samples, change: Change, threads: int, error: float
) -> Gain:
    """The gain by a change as the networks (the best first) predict it; refused if they do not agree.

    A limit contains the error with which the networks predicted thread counts that were left out.
    """
    asked = [_GainQuestion(network, samples, change, threads) for network in networks]
    best = [math.exp(one.log_gain(one.network.numbers)) for one in asked]
    limit = max(_limit(one) for one in asked) * (1 + error)
    most = limit if math.isfinite(limit) else None
    if math.isinf(best[0]):
        return Gain(change.name, None, None, None, most, "nothing else takes time")
    far = next((i for i, value in enumerate(best) if not _is_near_best(value, best[0])), None)
    if far is not None:
        where = f"'{asked[0].layout}' and '{asked[far].layout}'"
        why = f"{best[0]:.2f} or {best[far]:.2f}: the runs do not distinguish {where}"
        return Gain(change.name, None, None, None, most, why)
    if _is_near_best(1.0, best[0]) and _is_near_best(limit, best[0]):
        # For any numbers, throughput neither falls nor exceeds the limit.
        return Gain(change.name, best[0], 1.0, limit, limit)
    ends = [_ends(one) for one in asked]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    if not (_is_near_best(low, best[0]) and _is_near_best(high, best[0])):
        top = f"to {high:.2f}" if math.isfinite(high) else "upwards"
        why = f"the runs allow {max(low, 1.0):.2f} {top}: capacities that never were reached must be known"
        return Gain(change.name, None, None, None, most, why)
    return Gain(change.name, best[0], max(low, 1.0), high, None if most is None else max(most, high))


def _is_near_best(value: float, best: float) -> bool:
    return best / DECIDED <= value <= best * DECIDED


def _ends(question: _GainQuestion) -> tuple[float, float]:
    """The smallest and the largest gain that the runs and the assumptions on unreached capacities allow.

    A queue at a station that is assumed to have none makes the gain without a part smaller, and the gain from more
    servers larger, so each assumption is used for both ends.
    """
    numbers = question.network.numbers
    best = question.log_gain(numbers)
    unbounded = replace(numbers, servers=question.optimistic(numbers))
    assumed = sorted(question.log_gain(one) for one in (question.cautious(), unbounded))
    low, high = math.exp(min(assumed[0], best)), math.exp(max(assumed[1], best))
    if not (_is_near_best(low, math.exp(best)) and _is_near_best(high, math.exp(best))):
        return low, high
    down, up = (profile(question.network, question.samples, question.log_gains, end) for end in (-_REACH, _REACH))
    lowest = min(low, math.exp(best + down)) if math.isfinite(down) else 1.0
    return lowest, max(high, math.exp(best + up))


def _limit(question: _GainQuestion) -> float:
    best = question.log_limits([question.network.numbers])[0]
    if math.isinf(best):
        return math.inf
    return math.exp(best + profile(question.network, question.samples, question.log_limits, math.log(_FARTHEST)))


#: Largest error, in per cent, of an accepted network at a thread count to which it was not fitted.
TOLERATED_PERCENT: Final = 10.0
#: Fewest thread counts of which each can be left out and predicted by the others.
LEAST_THREAD_COUNTS: Final = 3
#: Largest difference of Akaike's criterion between a supported network and the best one.
_SUPPORTED: Final = 10.0
#: Parts with less than this share of every cycle are left out, because their effect is negligible.
_NEGLIGIBLE: Final = 0.002
_FITTED: Final = "closed networks fitted to {}, each predicted by the others"
_NOT_FITTED: Final = "mean times per part; no network was fitted"
#: Ratio of the time of statements to the client's mean response above which they are not like its operations.
_DISTORTED: Final = 1.05


def what_if(
    runs: Sequence[RunTimes],
    placements: Sequence[Placement] = (),
    *,
    threads: int | None = None,
    tolerated_percent: float = TOLERATED_PERCENT,
    level: float = LEVEL,
) -> WhatIf:
    """Determine the time of each part of an operation, and the throughput if the part were infinitely fast.

    Closed networks of every layout that the times permit (own queues, shared queues, commits in batches) are fitted to
    all thread counts. Networks with about the support of the best one must predict each thread count from the others
    within `tolerated_percent`. A gain is stated if all of these networks, with all numbers that the runs allow, agree
    on it within 15 %.

    Args:
        runs: measured runs of one set-up at several thread counts.
        placements: known stations: the parts that share servers, the number of servers, their utilisation.
        threads: thread count of the gains; by default the largest.
        tolerated_percent: largest error of throughput of a thread count that was left out.
        level: confidence level of the intervals over runs.

    Raises:
        UsageError: no run, a thread count without runs, or a part at two stations.

    Example:
        A client core that takes 100 us per operation, and 300 us elsewhere without waiting:

        >>> rates = {1: 2_500, 4: 8_360, 16: 10_000, 64: 10_000}
        >>> runs = [
        ...     RunTimes(n, x, {"parent": 300.0, "outside": n / x * 1e6 - 300.0}) for n, x in rates.items()
        ... ]
        >>> found = what_if(runs, [Placement(("outside",), servers=1), Placement(("parent",), servers=16)])
        >>> round(found.held_out_error_percent) <= 10, found.gain("parent").factor is not None
        (True, True)
    """
    if not runs:
        raise UsageError("a what-if analysis needs runs")
    counts = tuple(sorted({run.threads for run in runs}))
    at = counts[-1] if threads is None else threads
    if at not in counts:
        raise UnknownNameError("thread count", str(at), [str(n) for n in counts])
    samples, distorted = _average_by_threads(runs, counts)
    shapes = _build_station_shapes(placements, samples)
    hopeless = _explain_too_few_counts(counts) or _explain_falling_throughput(samples, tolerated_percent) or distorted
    found = _AcceptedNetworks((), (), hopeless) if hopeless else _search(samples, shapes, tolerated_percent)
    gains = tuple(_predict_part_gain(part, samples, found, at) for part in PARTS)
    here, best = [run for run in runs if run.threads == at], next(iter(found.networks), None)
    return WhatIf(
        configuration={},
        threads=at,
        thread_counts=counts,
        parts_us={part: _estimate_mean([run.parts_us.get(part, 0.0) for run in here], level) for part in PARTS},
        response_us=_estimate_mean([sum(run.parts_us.get(part, 0.0) for part in PARTS) for run in here], level),
        throughput_ops_s=_estimate_mean([run.throughput_ops_s for run in here], level),
        gains=gains,
        demands_us=dict(best.numbers.demands) if best else {},
        network=str(best.layout) if best else "",
        held_out=found.held_out,
        held_out_error_percent=found.error if found.held_out else None,
        refused=found.refused,
        n=len(runs),
        method=_NOT_FITTED if hopeless else _FITTED.format(pluralize(len(counts), "thread count")),
        warnings=_write_what_if_notes(best),
        runs=tuple(runs),
        samples=samples if best else None,
        networks=found.networks,
    )


def _explain_too_few_counts(counts: Sequence[int]) -> str | None:
    if len(counts) >= LEAST_THREAD_COUNTS:
        return None
    seen = f"{pluralize(len(counts), 'thread count')} ({join_words([str(n) for n in counts])})"
    return f"{seen} measured: at least {LEAST_THREAD_COUNTS} are needed, so that each can be predicted by the others"


def _explain_falling_throughput(samples: Samples, tolerated_percent: float) -> str | None:
    """The reason why no network fits: in no network does throughput fall when customers are added."""
    best = np.maximum.accumulate(samples.throughput)
    low = int(np.argmin(samples.throughput / best))
    tolerated = tolerated_percent / 100
    if samples.throughput[low] * (1 + tolerated) >= best[low] * (1 - tolerated):
        return None
    high = int(np.argmax(samples.throughput[:low]))
    rates, threads = samples.throughput * US_PER_S, samples.threads
    return (
        f"throughput falls from {format_number(rates[high])} operations/s at {threads[high]} threads to "
        f"{format_number(rates[low])} at {threads[low]}, which it does in no network of queues with constant demands"
    )


def _estimate_mean(values: Sequence[float], level: float) -> Interval:
    return mean_interval(values, level, choose_mean_method(values))


def _average_by_threads(runs: Sequence[RunTimes], counts: Sequence[int]) -> tuple[Samples, str | None]:
    """Means per thread count, and the reason why they are not valid, if they contradict each other."""
    groups = [[run for run in runs if run.threads == n] for n in counts]
    times = {
        part: np.array([np.mean([run.parts_us.get(part, 0.0) for run in here]) for here in groups]) for part in PARTS
    }
    cycles = [np.array([run.threads / run.throughput_ops_s * US_PER_S for run in here]) for here in groups]
    whole, own = np.array([each.mean() for each in cycles]), np.sum(list(times.values()), axis=0)
    times[CLIENT] = np.maximum(whole - own, 0.0)
    worst = float((own / whole).max())
    parts = {part: values for part, values in times.items() if (values > _NEGLIGIBLE * whole).any()}
    errors = estimate_relative_errors(cycles)
    distorted = f"the parts add up to {worst * 100:.0f} % of the client's cycle: sampling slows its statements down"
    samples = Samples(tuple(counts), np.array(counts) / whole, parts, errors)
    return samples, distorted if worst > _DISTORTED else None


def _build_station_shapes(placements: Sequence[Placement], samples: Samples) -> tuple[StationShape, ...]:
    placed = [part for one in placements for part in one.parts]
    if len(set(placed)) < len(placed):
        raise UsageError("a part is at two stations", hint="name each part in one placement")
    return tuple(
        StationShape(parts, one.servers, utilisation=tuple(sorted(one.utilisation.items())))
        for one in placements
        if (parts := tuple(part for part in one.parts if part in samples.parts))
    )


@dataclass(frozen=True)
class _AcceptedNetworks:
    """The accepted networks, the best first, or the reason why there are none."""

    networks: tuple[FittedNetwork, ...]
    held_out: tuple[HeldOut, ...]
    refused: str | None = None

    @property
    def error(self) -> float:
        """The largest error of throughput at a thread count that was left out, in per cent."""
        return max((abs(one.error_percent) for one in self.held_out), default=math.inf)


def _search(samples: Samples, known: tuple[StationShape, ...], tolerated_percent: float) -> _AcceptedNetworks:
    """The networks of all layouts that fit the runs and predict thread counts that were left out."""
    tried = [fit_network(layout, samples) for layout in iterate_layouts(samples.parts, known)]
    fitted = sorted((one for one in tried if one is not None), key=lambda one: one.criterion)
    if not fitted:
        return _AcceptedNetworks((), (), "the thread counts are too few to determine any network")
    best = fitted[0]
    rivals = [one for one in fitted if one.criterion - best.criterion <= _SUPPORTED * best.scale]
    held = [_AcceptedNetworks((one,), _predict_held_out(one.layout, samples)) for one in rivals]
    accepted = [one for one in held if one.error <= tolerated_percent]
    if not accepted:
        error = held[0].error
        text = f"by {error:.0f} %" if math.isfinite(error) else "that cannot be predicted by the others"
        why = f"the best network misses a thread count that it was not fitted to {text}"
        return _AcceptedNetworks((), held[0].held_out, f"{why}; {tolerated_percent:g} % are tolerated")
    worst = max(accepted, key=lambda one: one.error)
    return _AcceptedNetworks(tuple(one.networks[0] for one in accepted), worst.held_out)


def _predict_held_out(layout: NetworkLayout, samples: Samples) -> tuple[HeldOut, ...]:
    """Predictions of each thread count from the others; empty if they do not determine the network."""
    found = []
    for place, threads in enumerate(samples.threads):
        fitted = fit_network(layout, samples.without(place))
        if fitted is None:
            return ()
        expected, times = layout.predict(fitted.numbers, threads)
        rate = float(samples.throughput[place])
        off = sum(abs(time - float(samples.parts[part][place])) for part, time in times.items())
        errors = ((expected / rate - 1) * 100, off * rate / threads * 100)
        found.append(HeldOut(threads, rate * US_PER_S, expected * US_PER_S, *errors))
    return tuple(found)


def _predict_part_gain(part: str, samples: Samples, found: _AcceptedNetworks, at: int) -> Gain:
    if found.refused is not None:
        return Gain(part, None, None, None, None, found.refused)
    if part not in samples.parts:
        return Gain(part, 1.0, 1.0, 1.0, 1.0 + _NEGLIGIBLE)
    change = Change(f"no {part} time", demands={part: 0.0})
    return replace(predict_gain(found.networks, samples, change, at, found.error / 100), part=part)


def _write_what_if_notes(best: FittedNetwork | None) -> tuple[str, ...]:
    if best is None:
        return ()
    assumed = [part for shape in best.layout.shapes if shape.assumed for part in shape.parts]
    if not assumed:
        return ()
    return (
        f"{join_words(assumed)} showed no queue: none is assumed up to twice the highest measured throughput, and the "
        "gains do not depend on more",
    )


# Throughput and response time after a change: servers doubled, a part halved, L removed, more client threads.
#
# Predictions are made by the accepted networks of :func:`citus_analysis.scaling.network_what_if.what_if`. If there are
# none, the arithmetic of blocked time is used: operations spend half as long in a part, all other times do not change.
#
# References:
#     Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 13 (modification analysis).
#     Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI (blocked time).

#: Names of the runs' points and of the queueing network's curve, besides those of the models of scalability.
MEASURED: Final = "measured"
MVA: Final = "mva"
_NETWORK: Final = "closed network"
_BLOCKED: Final = "blocked time, all other times unchanged"
#: Factor up to which the range of a curve is tested; a wider range has no end.
_FARTHEST_CHANGE: Final = 1.5
#: Curves extend to this multiple of the largest measured thread count.
_CHANGE_REACH: Final = 2
_POINTS: Final = 9
_MODELS: Final = ("amdahl", "usl")


@dataclass(frozen=True)
class Predicted:
    """The predicted effect of a change.

    Attributes:
        change: the change in words.
        basis: the closed network, or the arithmetic of blocked time.
        factor: throughput after the change over throughput before it; None if it is refused.
        throughput_ops_s: throughput after the change; None if it is refused.
        response_us: mean response time after the change; None if it is refused.
        refused: reason why there is no prediction, or none of throughput; None if there is one.
    """

    change: str
    basis: str
    factor: float | None = None
    throughput_ops_s: Interval | None = None
    response_us: Interval | None = None
    refused: str | None = None


def predicted_changes(found: WhatIf) -> tuple[Predicted, ...]:
    """Predict the effect of changes at the thread count of a what-if analysis.

    A throughput is the measured one times the network's gain. Its interval combines, as if they were independent, the
    range of the gain that the runs allow, the interval of the measured throughput, and the error with which the
    networks predicted thread counts that they were not fitted to. Response times follow by Little's law.

    Args:
        found: result of :func:`citus_analysis.scaling.network_what_if.what_if`.

    Returns:
        Predictions for doubled servers (at queues), each part halved, no time L, and twice the threads; if the
        analysis was refused, for each part halved, by the arithmetic of blocked time.
    """
    if not found.networks or found.samples is None:
        return tuple(_predict_halved_part(found, part) for part in PARTS if found.parts_us[part].estimate > 0)
    return tuple(
        _make_change_prediction(found, found.samples, change) for change in _changes(found.networks[0], found.threads)
    )


def _changes(best: FittedNetwork, threads: int) -> Iterator[Change]:
    for shape, servers in zip(best.layout.shapes, best.numbers.servers, strict=True):
        if math.isfinite(servers) and not shape.batches:
            yield Change(f"twice the servers of {join_words(shape.parts)}", enlarged=shape.parts, servers=2.0)
    for part in (one for one in PARTS if one in best.numbers.demands):
        yield Change(f"half the {part} work", demands={part: 0.5})
    if "network" in best.numbers.demands:
        yield Change("no time between parent and child (L)", demands={"network": 0.0})
    yield Change(f"{2 * threads} client threads", threads=2)


def _make_change_prediction(found: WhatIf, samples: Samples, change: Change) -> Predicted:
    error = (found.held_out_error_percent or 0.0) / 100
    gain = predict_gain(found.networks, samples, change, found.threads, error)
    if gain.factor is None or gain.low is None or gain.high is None:
        return Predicted(change.name, _NETWORK, refused=gain.refused)
    now, place = found.throughput_ops_s, samples.threads.index(found.threads)
    own = 2 * float(samples.errors[place])
    sides = [(now.low, gain.low), (now.high, gain.high)]
    off = [
        math.hypot(
            math.log(measured / now.estimate) if now.exists else own, math.log(end / gain.factor), math.log1p(error)
        )
        for measured, end in sides
    ]
    rate = now.estimate * gain.factor
    notes = () if now.exists else ("one run: the assumed error of a measured mean replaces the spread of runs",)
    throughput = Interval(
        rate, rate * math.exp(-off[0]), rate * math.exp(off[1]), now.level, now.n, "profile of closed networks", notes
    )
    return Predicted(change.name, _NETWORK, gain.factor, throughput, _predict_response_time(found, throughput, change))


def _predict_response_time(found: WhatIf, throughput: Interval, change: Change) -> Interval:
    """N / X less the client's own time in the best network."""
    best, threads = found.networks[0], found.threads * change.threads
    client = best.layout.predict(best.numbers, threads, change)[1].get(CLIENT, 0.0)
    times = [
        max(threads / rate * US_PER_S - client, 0.0) for rate in (throughput.estimate, throughput.high, throughput.low)
    ]
    return replace(throughput, estimate=times[0], low=times[1], high=times[2])


def _predict_halved_part(found: WhatIf, part: str) -> Predicted:
    """A part that takes half as long, by the arithmetic of blocked time."""
    here = [run for run in found.runs if run.threads == found.threads]
    level = found.response_us.level
    after = [sum(run.parts_us.get(one, 0.0) for one in PARTS) - run.parts_us.get(part, 0.0) / 2 for run in here]
    # L is more than the network: a child that has used up its quota is waited for as well.
    words = "time between parent and child" if part == "network" else f"{part} time"
    name, response = f"{words} halved", mean_interval(after, level, choose_mean_method(after))
    shares_of_cycle = [sum(one.parts_us.values()) * one.throughput_ops_s / one.threads / US_PER_S for one in here]
    if max(shares_of_cycle) > _DISTORTED:
        why = "sampled statements take longer than the client's cycle: their time says nothing about throughput"
        return Predicted(name, _BLOCKED, response_us=response, refused=why)
    rates = [1 / (1 / run.throughput_ops_s - run.parts_us.get(part, 0.0) / 2 / US_PER_S / run.threads) for run in here]
    throughput = mean_interval(rates, level, choose_mean_method(rates))
    return Predicted(name, _BLOCKED, throughput.estimate / found.throughput_ops_s.estimate, throughput, response)


def change_table(changes: Sequence[Predicted]) -> pl.DataFrame:
    """One row per change: `change`, `basis`, `factor`, throughput and response time with their ends, `refused`."""
    numbers = ("factor", "throughput_ops_s", "throughput_low", "throughput_high")
    times = ("response_us", "response_low", "response_high")
    rows = [
        (
            one.change,
            one.basis,
            one.factor,
            *_interval_ends(one.throughput_ops_s),
            *_interval_ends(one.response_us),
            one.refused,
        )
        for one in changes
    ]
    text, number = pl.String(), pl.Float64()
    schema = {"change": text, "basis": text, **dict.fromkeys((*numbers, *times), number), "refused": text}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _interval_ends(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if interval is None else (interval.estimate, *interval.ends)


def throughput_curves(
    found: WhatIf, *, models: Sequence[str] = _MODELS, level: float = LEVEL, most_threads: int | None = None
) -> pl.DataFrame:
    """Throughput against threads: the queueing network and models of scalability, each with its band.

    The network's band is the range that the runs allow for any accepted network, widened by the error with which the
    networks predicted thread counts that they were not fitted to; the models have bootstrap bands over runs.

    Args:
        found: result of :func:`citus_analysis.scaling.network_what_if.what_if`.
        models: names of models in :data:`citus_analysis.scaling.MODELS`.
        level: level of the models' bands.
        most_threads: the largest thread count of the curves; by default twice the largest measured one.

    Returns:
        `model` (`measured`, one row per run; `mva`; and `models`), `threads`, `throughput_ops_s`, `low`, `high` (null
        if the range has no end), `refused` (the reason why a model is not valid; a model without a curve has one row
        with null threads).
    """
    counts = found.thread_counts
    last = min(most_threads or _CHANGE_REACH * counts[-1], _CHANGE_REACH * counts[-1])
    grid = sorted({*counts, *(round(counts[0] * (last / counts[0]) ** (i / (_POINTS - 1))) for i in range(_POINTS))})
    measured = [(MEASURED, run.threads, run.throughput_ops_s, None, None, None) for run in found.runs]
    parts = [
        _make_curve_frame(measured),
        _predict_network_curve(found, grid),
        *(_predict_model_curve(found, model, grid, level) for model in models),
    ]
    return pl.concat(parts)


_CURVE: Final = {
    "model": pl.String(),
    "threads": pl.Int64(),
    **dict.fromkeys(("throughput_ops_s", "low", "high"), pl.Float64()),
    "refused": pl.String(),
}


def _make_curve_frame(rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=_CURVE, orient="row")


def _predict_model_curve(found: WhatIf, model: str, grid: Sequence[int], level: float) -> pl.DataFrame:
    try:
        rates = [one.throughput_ops_s for one in found.runs]
        fitted = fit([one.threads for one in found.runs], rates, [model], level=level)
    except InsufficientDataError as error:
        return _make_curve_frame([(model, None, None, None, None, str(error))])
    band, rejected = fitted[model].band(grid, level), fitted.rejected.get(model)
    columns = zip(grid, band.estimate.tolist(), band.low.tolist(), band.high.tolist(), strict=True)
    return _make_curve_frame([(model, *values, rejected) for values in columns])


def _predict_network_curve(found: WhatIf, grid: Sequence[int]) -> pl.DataFrame:
    if not found.networks or found.samples is None:
        return _make_curve_frame([(MVA, None, None, None, None, found.refused)])
    rows = []
    error = math.log1p((found.held_out_error_percent or 0.0) / 100)
    for threads in grid:
        logs = [_log_rates(network, threads) for network in found.networks]
        best = logs[0]([found.networks[0].numbers])[0]
        allowed = [
            _compute_allowed_range(one, found.samples, log) for one, log in zip(found.networks, logs, strict=True)
        ]
        sides = ((-1, min(low for low, _ in allowed)), (1, max(high for _, high in allowed)))
        ends = [math.copysign(math.hypot(end - best, error), sign) for sign, end in sides]
        known = [math.exp(best + end) * US_PER_S if math.isfinite(end) else None for end in ends]
        rows.append((MVA, threads, math.exp(best) * US_PER_S, *known, None))
    return _make_curve_frame(rows)


def _log_rates(network: FittedNetwork, threads: int) -> Logarithms:
    def log_rates(numbers: Sequence[Parameters]) -> list[float]:
        stations = build_station_array([network.layout.stations(one) for one in numbers])
        return [math.log(rate) for rate in compute_network_throughputs(stations, threads)]

    return log_rates


def _compute_allowed_range(network: FittedNetwork, samples: Samples, log_of: Logarithms) -> tuple[float, float]:
    best, reach = log_of([network.numbers])[0], math.log(_FARTHEST_CHANGE)
    down, up = (profile(network, samples, log_of, sign * reach) for sign in (-1, 1))
    return best + down, best + up
