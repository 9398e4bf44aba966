"""Gains and limits of fitted networks: best value, the range that the runs allow, and whether it is narrow enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from citus_analysis.core.array_types import Floats
from citus_analysis.scaling.queueing._network_fit import FittedNetwork, Samples, profile
from citus_analysis.scaling.queueing._structures import Change, Layout, Parameters
from citus_analysis.scaling.queueing.networks import station_numbers, throughputs
from citus_analysis.scaling.queueing.whatif_results import Gain

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
class _Question:
    """One change of one network at one number of threads."""

    network: FittedNetwork
    samples: Samples
    change: Change
    threads: int

    @property
    def layout(self) -> Layout:
        return self.network.layout

    def log_gain(self, numbers: Parameters) -> float:
        """The logarithm of the gain of one network; see :meth:`log_gains`."""
        return self.log_gains([numbers])[0]

    def log_gains(self, numbers: Sequence[Parameters]) -> list[float]:
        """Logarithms of throughput after the change over throughput before it."""
        changed = station_numbers([self.layout.stations(one, self.change) for one in numbers])
        if not changed[0, :, 0].any():
            return [math.inf] * len(numbers)
        after = throughputs(changed, self.threads * self.change.threads)
        return [math.log(gain) for gain in after / self._now(numbers)]

    def log_limits(self, numbers: Sequence[Parameters]) -> list[float]:
        """Logarithms of the asymptotic bound after the change over the throughput before it."""
        before = self._now(numbers)
        return [math.log(self._bound(one) / now) for one, now in zip(numbers, before, strict=True)]

    def _now(self, numbers: Sequence[Parameters]) -> Floats:
        return throughputs(station_numbers([self.layout.stations(one) for one in numbers]), self.threads)

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


def gain_of(networks: Sequence[FittedNetwork], samples: Samples, change: Change, threads: int, error: float) -> Gain:
    """The gain by a change as the networks (the best first) predict it; refused if they do not agree.

    A limit contains the error with which the networks predicted thread counts that were left out.
    """
    asked = [_Question(network, samples, change, threads) for network in networks]
    best = [math.exp(one.log_gain(one.network.numbers)) for one in asked]
    limit = max(_limit(one) for one in asked) * (1 + error)
    most = limit if math.isfinite(limit) else None
    if math.isinf(best[0]):
        return Gain(change.name, None, None, None, most, "nothing else takes time")
    far = next((i for i, value in enumerate(best) if not _near(value, best[0])), None)
    if far is not None:
        where = f"'{asked[0].layout}' and '{asked[far].layout}'"
        why = f"{best[0]:.2f} or {best[far]:.2f}: the runs do not distinguish {where}"
        return Gain(change.name, None, None, None, most, why)
    if _near(1.0, best[0]) and _near(limit, best[0]):
        # For any numbers, throughput neither falls nor exceeds the limit.
        return Gain(change.name, best[0], 1.0, limit, limit)
    ends = [_ends(one) for one in asked]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    if not (_near(low, best[0]) and _near(high, best[0])):
        top = f"to {high:.2f}" if math.isfinite(high) else "upwards"
        why = f"the runs allow {max(low, 1.0):.2f} {top}: capacities that never were reached must be known"
        return Gain(change.name, None, None, None, most, why)
    return Gain(change.name, best[0], max(low, 1.0), high, None if most is None else max(most, high))


def _near(value: float, best: float) -> bool:
    return best / DECIDED <= value <= best * DECIDED


def _ends(question: _Question) -> tuple[float, float]:
    """The smallest and the largest gain that the runs and the assumptions on unreached capacities allow.

    A queue at a station that is assumed to have none makes the gain without a part smaller, and the gain from more
    servers larger, so each assumption is used for both ends.
    """
    numbers = question.network.numbers
    best = question.log_gain(numbers)
    unbounded = replace(numbers, servers=question.optimistic(numbers))
    assumed = sorted(question.log_gain(one) for one in (question.cautious(), unbounded))
    low, high = math.exp(min(assumed[0], best)), math.exp(max(assumed[1], best))
    if not (_near(low, math.exp(best)) and _near(high, math.exp(best))):
        return low, high
    down, up = (profile(question.network, question.samples, question.log_gains, end) for end in (-_REACH, _REACH))
    lowest = min(low, math.exp(best + down)) if math.isfinite(down) else 1.0
    return lowest, max(high, math.exp(best + up))


def _limit(question: _Question) -> float:
    best = question.log_limits([question.network.numbers])[0]
    if math.isinf(best):
        return math.inf
    return math.exp(best + profile(question.network, question.samples, question.log_limits, math.log(_FARTHEST)))
