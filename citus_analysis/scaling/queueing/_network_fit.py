"""Fit closed networks to times measured at several numbers of threads, and determine the range of predictions.

The range of a prediction is its profile: the network is fitted again while the prediction is pulled away from its best
value, and all values that the data still allow belong to the range. So a number that the data do not determine (the
servers of a station that never was busy) gives a wide range instead of a confident answer.

References:
    Venzon, D. J. and Moolgavkar, S. H. (1988). A method for computing profile-likelihood-based confidence intervals.
        Applied Statistics 37.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from citus_analysis.core.array_types import Floats
from citus_analysis.scaling.queueing._structures import Layout, Parameters

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
        freedom: observations less parameters.
        parameters: number of parameters.
    """

    layout: Layout
    numbers: Parameters
    point: Floats
    deviance: float
    freedom: int
    parameters: int

    @property
    def scale(self) -> float:
        """Variance of the errors over the assumed one, never less than 1."""
        return max(1.0, self.deviance / self.freedom) if self.freedom > 0 else 1.0

    @property
    def criterion(self) -> float:
        """Akaike's criterion except for a constant."""
        return self.deviance + 2 * self.parameters


def fit_network(layout: Layout, samples: Samples) -> FittedNetwork | None:
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
    starts = [fitted.point] if reach > 0 else [fitted.point, problem.widened(fitted.point, allowed)]
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

    def __init__(self, layout: Layout, samples: Samples) -> None:
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
            found, last[1] = with_slopes(lambda points: self.residuals(points, pull), point, low, high)
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

    def widened(self, point: Floats, allowed: float) -> Floats:
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


def with_slopes(
    residuals: Callable[[Floats], Floats], point: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Residuals, and their differences, forwards or, at a bound, away from it, shape (residuals, numbers).

    scipy would evaluate each point of the differences alone; solving all of their networks at once is faster.
    """
    steps = math.sqrt(np.finfo(np.float64).eps) * np.where(point >= 0, 1.0, -1.0) * np.maximum(1.0, np.abs(point))
    steps = np.where((point + steps < low) | (point + steps > high), -steps, steps)
    found = residuals(np.vstack([point, point + np.diag(steps)]))
    return found[0], np.asarray(((found[1:] - found[0]) / ((point + steps) - point)[:, None]).T, dtype=np.float64)


def relative_errors(groups: Sequence[Floats]) -> Floats:
    """Relative standard errors of the means of some groups, with the error of the network's assumptions."""
    own = [float(one.std(ddof=1)) / float(one.mean()) / math.sqrt(one.size) if one.size > 1 else 0.0 for one in groups]
    return np.hypot(_NOISE, own)
