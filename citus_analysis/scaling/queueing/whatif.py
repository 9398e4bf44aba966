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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from citus_analysis.defaults import LEVEL
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.scaling.queueing._gains import gain_of
from citus_analysis.scaling.queueing._network_fit import FittedNetwork, Samples, fit_network, relative_errors
from citus_analysis.scaling.queueing._structures import CLIENT, PARTS, Change, Layout, Shape, layouts
from citus_analysis.scaling.queueing.whatif_results import Gain, HeldOut, Placement, RunTimes, WhatIf
from citus_analysis.stats import Interval, mean_interval
from citus_analysis.stats.estimate.intervals import mean_method
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.number_text import readable
from citus_analysis.units import US_PER_S

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
    samples, distorted = _samples(runs, counts)
    shapes = _shapes(placements, samples)
    hopeless = _few(counts) or _falling(samples, tolerated_percent) or distorted
    found = _Found((), (), hopeless) if hopeless else _search(samples, shapes, tolerated_percent)
    gains = tuple(_gain(part, samples, found, at) for part in PARTS)
    here, best = [run for run in runs if run.threads == at], next(iter(found.networks), None)
    return WhatIf(
        configuration={},
        threads=at,
        thread_counts=counts,
        parts_us={part: _mean([run.parts_us.get(part, 0.0) for run in here], level) for part in PARTS},
        response_us=_mean([sum(run.parts_us.get(part, 0.0) for part in PARTS) for run in here], level),
        throughput_ops_s=_mean([run.throughput_ops_s for run in here], level),
        gains=gains,
        demands_us=dict(best.numbers.demands) if best else {},
        network=str(best.layout) if best else "",
        held_out=found.held_out,
        held_out_error_percent=found.error if found.held_out else None,
        refused=found.refused,
        n=len(runs),
        method=_NOT_FITTED if hopeless else _FITTED.format(counted(len(counts), "thread count")),
        warnings=_notes(best),
        runs=tuple(runs),
        samples=samples if best else None,
        networks=found.networks,
    )


def _few(counts: Sequence[int]) -> str | None:
    if len(counts) >= LEAST_THREAD_COUNTS:
        return None
    seen = f"{counted(len(counts), 'thread count')} ({listed([str(n) for n in counts])})"
    return f"{seen} measured: at least {LEAST_THREAD_COUNTS} are needed, so that each can be predicted by the others"


def _falling(samples: Samples, tolerated_percent: float) -> str | None:
    """The reason why no network fits: in no network does throughput fall when customers are added."""
    best = np.maximum.accumulate(samples.throughput)
    low = int(np.argmin(samples.throughput / best))
    tolerated = tolerated_percent / 100
    if samples.throughput[low] * (1 + tolerated) >= best[low] * (1 - tolerated):
        return None
    high = int(np.argmax(samples.throughput[:low]))
    rates, threads = samples.throughput * US_PER_S, samples.threads
    return (
        f"throughput falls from {readable(rates[high])} operations/s at {threads[high]} threads to "
        f"{readable(rates[low])} at {threads[low]}, which it does in no network of queues with constant demands"
    )


def _mean(values: Sequence[float], level: float) -> Interval:
    return mean_interval(values, level, mean_method(values))


def _samples(runs: Sequence[RunTimes], counts: Sequence[int]) -> tuple[Samples, str | None]:
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
    errors = relative_errors(cycles)
    distorted = f"the parts add up to {worst * 100:.0f} % of the client's cycle: sampling slows its statements down"
    samples = Samples(tuple(counts), np.array(counts) / whole, parts, errors)
    return samples, distorted if worst > _DISTORTED else None


def _shapes(placements: Sequence[Placement], samples: Samples) -> tuple[Shape, ...]:
    placed = [part for one in placements for part in one.parts]
    if len(set(placed)) < len(placed):
        raise UsageError("a part is at two stations", way_out="name each part in one placement")
    return tuple(
        Shape(parts, one.servers, utilisation=tuple(sorted(one.utilisation.items())))
        for one in placements
        if (parts := tuple(part for part in one.parts if part in samples.parts))
    )


@dataclass(frozen=True)
class _Found:
    """The accepted networks, the best first, or the reason why there are none."""

    networks: tuple[FittedNetwork, ...]
    held_out: tuple[HeldOut, ...]
    refused: str | None = None

    @property
    def error(self) -> float:
        """The largest error of throughput at a thread count that was left out, in per cent."""
        return max((abs(one.error_percent) for one in self.held_out), default=math.inf)


def _search(samples: Samples, known: tuple[Shape, ...], tolerated_percent: float) -> _Found:
    """The networks of all layouts that fit the runs and predict thread counts that were left out."""
    tried = [fit_network(layout, samples) for layout in layouts(samples.parts, known)]
    fitted = sorted((one for one in tried if one is not None), key=lambda one: one.criterion)
    if not fitted:
        return _Found((), (), "the thread counts are too few to determine any network")
    best = fitted[0]
    rivals = [one for one in fitted if one.criterion - best.criterion <= _SUPPORTED * best.scale]
    held = [_Found((one,), _held_out(one.layout, samples)) for one in rivals]
    accepted = [one for one in held if one.error <= tolerated_percent]
    if not accepted:
        error = held[0].error
        text = f"by {error:.0f} %" if math.isfinite(error) else "that cannot be predicted by the others"
        why = f"the best network misses a thread count that it was not fitted to {text}"
        return _Found((), held[0].held_out, f"{why}; {tolerated_percent:g} % are tolerated")
    worst = max(accepted, key=lambda one: one.error)
    return _Found(tuple(one.networks[0] for one in accepted), worst.held_out)


def _held_out(layout: Layout, samples: Samples) -> tuple[HeldOut, ...]:
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


def _gain(part: str, samples: Samples, found: _Found, at: int) -> Gain:
    if found.refused is not None:
        return Gain(part, None, None, None, None, found.refused)
    if part not in samples.parts:
        return Gain(part, 1.0, 1.0, 1.0, 1.0 + _NEGLIGIBLE)
    change = Change(f"no {part} time", demands={part: 0.0})
    return replace(gain_of(found.networks, samples, change, at, found.error / 100), part=part)


def _notes(best: FittedNetwork | None) -> tuple[str, ...]:
    if best is None:
        return ()
    assumed = [part for shape in best.layout.shapes if shape.assumed for part in shape.parts]
    if not assumed:
        return ()
    return (
        f"{listed(assumed)} showed no queue: none is assumed up to twice the highest measured throughput, and the "
        "gains do not depend on more",
    )
