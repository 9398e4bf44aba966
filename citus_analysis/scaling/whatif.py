"""What if a resource were infinitely fast: blocked-time analysis on measured service demands.

References:
    Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI (blocked time).
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 13 (modification analysis).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.scaling.mva import mva, mva_multiclass
from citus_analysis.shown import Shown
from citus_analysis.units import US_PER_S

__all__ = ["Calibration", "WhatIf", "calibrate", "what_if", "what_if_classes"]


@dataclass(frozen=True, repr=False)
class WhatIf(Shown):
    """The network with one resource changed.

    Attributes:
        resource: what is changed.
        factor: its demand is multiplied by this; 0 = infinitely fast.
        throughput_ops_s: predicted throughput.
        response_time_us: predicted response time.
        speedup: predicted over modelled throughput.
        bottleneck: busiest resource then; `none` where nothing limits a class any more.
    """

    resource: str
    factor: float
    throughput_ops_s: float
    response_time_us: float
    speedup: float
    bottleneck: str


@dataclass(frozen=True, repr=False)
class Calibration(Shown):
    """Whether the network reproduces the run that its demands come from.

    Attributes:
        modelled_ops_s: throughput of the solved network.
        measured_ops_s: measured throughput.
        error_percent: modelled against measured.
        warnings: what a reader must know.
    """

    modelled_ops_s: float
    measured_ops_s: float
    error_percent: float
    warnings: tuple[str, ...] = ()


def what_if(
    demands_us: Mapping[str, float],
    threads: int,
    think_us: float = 0.0,
    *,
    delays: Sequence[str] = (),
    factors: Mapping[str, float] | None = None,
) -> tuple[WhatIf, ...]:
    """Throughput if each resource in turn were infinitely fast (or changed by a factor), largest gain first.

    Args:
        demands_us: service demand per operation and resource; a resource with m servers counts as demand / m.
        threads: client threads N.
        think_us: time per operation that a thread spends outside the system (client, driver).
        delays: resources without a queue.
        factors: demand multiplier per resource; by default 0 for each.

    Raises:
        UsageError: demands that cannot be solved; no thread.
        UnknownNameError: a factor for a resource that has no demand.

    Example:
        >>> best, *_ = what_if({"parent": 400.0, "child": 900.0, "network": 300.0}, 16, delays=["network"])
        >>> best.resource, round(best.speedup, 2), best.bottleneck
        ('child', 2.25, 'parent')
    """
    return what_if_classes({"all": demands_us}, {"all": threads}, {"all": think_us}, delays=delays, factors=factors)


def what_if_classes(
    demands_us: Mapping[str, Mapping[str, float]],
    threads: Mapping[str, int],
    think_us: Mapping[str, float] | None = None,
    *,
    delays: Sequence[str] = (),
    factors: Mapping[str, float] | None = None,
) -> tuple[WhatIf, ...]:
    """The same for several classes (reads and writes); throughput is summed, response time is the mean over all.

    Args:
        demands_us: per class, service demand per operation and resource.
        threads: client threads per class.
        think_us: per class, time outside the system.
        delays: resources without a queue.
        factors: demand multiplier per resource; by default 0 for each.

    Raises:
        UsageError: demands that cannot be solved; no thread.
        UnknownNameError: a factor for a resource that has no demand.

    Example:
        >>> demands = {"read": {"cpu": 200.0, "net": 90.0}, "write": {"cpu": 100.0, "disk": 800.0}}
        >>> [(one.resource, one.bottleneck) for one in what_if_classes(demands, {"read": 8, "write": 8})]
        [('cpu', 'net'), ('disk', 'cpu'), ('net', 'cpu')]
    """
    if sum(threads.values()) < 1:
        raise UsageError("a network without threads does nothing")
    resources = list(dict.fromkeys(name for one in demands_us.values() for name in one))
    changes = dict.fromkeys(resources, 0.0) if factors is None else factors
    for name, factor in changes.items():
        if name not in resources:
            raise UnknownNameError("resource", name, resources)
        if factor < 0:
            raise UsageError(f"a demand cannot be multiplied by {factor:g}")
    now = float(mva_multiclass(demands_us, threads, think_us, delays=delays).throughput.sum())
    found = [_changed(name, factor, demands_us, threads, think_us, delays, now) for name, factor in changes.items()]
    return tuple(sorted(found, key=lambda one: -one.speedup))


def _changed(
    name: str,
    factor: float,
    demands_us: Mapping[str, Mapping[str, float]],
    threads: Mapping[str, int],
    think_us: Mapping[str, float] | None,
    delays: Sequence[str],
    now: float,
) -> WhatIf:
    changed = {
        c: {r: value * (factor if r == name else 1.0) for r, value in one.items()} for c, one in demands_us.items()
    }
    if any(threads[c] and sum(one.values()) + (think_us or {}).get(c, 0.0) <= 0 for c, one in changed.items()):
        # A class that needs nothing else would complete infinitely often.
        return WhatIf(name, factor, float("inf"), 0.0, float("inf"), "none")
    solved = mva_multiclass(changed, threads, think_us, delays=delays)
    queueing = [i for i, resource in enumerate(solved.resources) if resource not in delays]
    busiest = max(queueing or range(len(solved.resources)), key=lambda i: float(solved.utilisation[i]))
    total = float(solved.throughput.sum())
    response = float(solved.throughput @ solved.response_time) / total
    return WhatIf(name, factor, total * US_PER_S, response, total / now, solved.resources[busiest])


def calibrate(
    demands_us: Mapping[str, float],
    threads: int,
    measured_ops_s: float,
    think_us: float = 0.0,
    *,
    delays: Sequence[str] = (),
) -> Calibration:
    """Compare the network's throughput with the measured one; a model that misses the present predicts nothing.

    Example:
        >>> calibrate({"cpu": 500.0}, 8, measured_ops_s=1_900).error_percent
        5.3
    """
    if not measured_ops_s > 0:
        raise UsageError("a measured throughput is positive")
    modelled = float(mva(demands_us, threads, think_us, delays=delays).throughput[0]) * US_PER_S
    error = (modelled / measured_ops_s - 1) * 100
    notes = (f"the network misses the measured throughput by {error:+.0f} %: read gains as orders only",)
    return Calibration(modelled, measured_ops_s, round(error, 1), notes if abs(error) > 20 else ())
