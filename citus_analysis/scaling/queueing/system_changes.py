"""Throughput and response time after a change: servers doubled, a part halved, L removed, more client threads.

Predictions are made by the accepted networks of :func:`citus_analysis.scaling.queueing.whatif.what_if`. If there are
none, the arithmetic of blocked time is used: operations spend half as long in a part, all other times do not change.

References:
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 13 (modification analysis).
    Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI (blocked time).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.scaling.fitting import fit
from citus_analysis.scaling.queueing._gains import gain_of
from citus_analysis.scaling.queueing._network_fit import FittedNetwork, Logarithms, Samples, profile
from citus_analysis.scaling.queueing._structures import CLIENT, PARTS, Change, Parameters
from citus_analysis.scaling.queueing.networks import station_numbers, throughputs
from citus_analysis.scaling.queueing.whatif_results import WhatIf
from citus_analysis.stats import Interval, mean_interval
from citus_analysis.stats.estimate.intervals import mean_method
from citus_analysis.texts.counted_words import listed
from citus_analysis.units import US_PER_S

#: Names of the runs' points and of the queueing network's curve, besides those of the models of scalability.
MEASURED: Final = "measured"
MVA: Final = "mva"
_NETWORK: Final = "closed network"
_BLOCKED: Final = "blocked time, all other times unchanged"
#: Ratio of the time of sampled statements to the client's cycle above which they are not like its operations.
_DISTORTED: Final = 1.05
#: Factor up to which the range of a curve is tested; a wider range has no end.
_FARTHEST: Final = 1.5
#: Curves extend to this multiple of the largest measured thread count.
_REACH: Final = 2
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
        found: result of :func:`citus_analysis.scaling.queueing.whatif.what_if`.

    Returns:
        Predictions for doubled servers (at queues), each part halved, no time L, and twice the threads; if the
        analysis was refused, for each part halved, by the arithmetic of blocked time.
    """
    if not found.networks or found.samples is None:
        return tuple(_blocked(found, part) for part in PARTS if found.parts_us[part].estimate > 0)
    return tuple(_predicted(found, found.samples, change) for change in _changes(found.networks[0], found.threads))


def _changes(best: FittedNetwork, threads: int) -> Iterator[Change]:
    for shape, servers in zip(best.layout.shapes, best.numbers.servers, strict=True):
        if math.isfinite(servers) and not shape.batches:
            yield Change(f"twice the servers of {listed(shape.parts)}", enlarged=shape.parts, servers=2.0)
    for part in (one for one in PARTS if one in best.numbers.demands):
        yield Change(f"half the {part} work", demands={part: 0.5})
    if "network" in best.numbers.demands:
        yield Change("no time between parent and child (L)", demands={"network": 0.0})
    yield Change(f"{2 * threads} client threads", threads=2)


def _predicted(found: WhatIf, samples: Samples, change: Change) -> Predicted:
    error = (found.held_out_error_percent or 0.0) / 100
    gain = gain_of(found.networks, samples, change, found.threads, error)
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
    return Predicted(change.name, _NETWORK, gain.factor, throughput, _response(found, throughput, change))


def _response(found: WhatIf, throughput: Interval, change: Change) -> Interval:
    """N / X less the client's own time in the best network."""
    best, threads = found.networks[0], found.threads * change.threads
    client = best.layout.predict(best.numbers, threads, change)[1].get(CLIENT, 0.0)
    times = [
        max(threads / rate * US_PER_S - client, 0.0) for rate in (throughput.estimate, throughput.high, throughput.low)
    ]
    return replace(throughput, estimate=times[0], low=times[1], high=times[2])


def _blocked(found: WhatIf, part: str) -> Predicted:
    """A part that takes half as long, by the arithmetic of blocked time."""
    here = [run for run in found.runs if run.threads == found.threads]
    level = found.response_us.level
    after = [sum(run.parts_us.get(one, 0.0) for one in PARTS) - run.parts_us.get(part, 0.0) / 2 for run in here]
    # L is more than the network: a child that has used up its quota is waited for as well.
    words = "time between parent and child" if part == "network" else f"{part} time"
    name, response = f"{words} halved", mean_interval(after, level, mean_method(after))
    shares_of_cycle = [sum(one.parts_us.values()) * one.throughput_ops_s / one.threads / US_PER_S for one in here]
    if max(shares_of_cycle) > _DISTORTED:
        why = "sampled statements take longer than the client's cycle: their time says nothing about throughput"
        return Predicted(name, _BLOCKED, response_us=response, refused=why)
    rates = [1 / (1 / run.throughput_ops_s - run.parts_us.get(part, 0.0) / 2 / US_PER_S / run.threads) for run in here]
    throughput = mean_interval(rates, level, mean_method(rates))
    return Predicted(name, _BLOCKED, throughput.estimate / found.throughput_ops_s.estimate, throughput, response)


def change_table(changes: Sequence[Predicted]) -> pl.DataFrame:
    """One row per change: `change`, `basis`, `factor`, throughput and response time with their ends, `refused`."""
    numbers = ("factor", "throughput_ops_s", "throughput_low", "throughput_high")
    times = ("response_us", "response_low", "response_high")
    rows = [
        (one.change, one.basis, one.factor, *_ends(one.throughput_ops_s), *_ends(one.response_us), one.refused)
        for one in changes
    ]
    text, number = pl.String(), pl.Float64()
    schema = {"change": text, "basis": text, **dict.fromkeys((*numbers, *times), number), "refused": text}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _ends(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if interval is None else (interval.estimate, *interval.ends)


def throughput_curves(
    found: WhatIf, *, models: Sequence[str] = _MODELS, level: float = LEVEL, most_threads: int | None = None
) -> pl.DataFrame:
    """Throughput against threads: the queueing network and models of scalability, each with its band.

    The network's band is the range that the runs allow for any accepted network, widened by the error with which the
    networks predicted thread counts that they were not fitted to; the models have bootstrap bands over runs.

    Args:
        found: result of :func:`citus_analysis.scaling.queueing.whatif.what_if`.
        models: names of models in :data:`citus_analysis.scaling.MODELS`.
        level: level of the models' bands.
        most_threads: the largest thread count of the curves; by default twice the largest measured one.

    Returns:
        `model` (`measured`, one row per run; `mva`; and `models`), `threads`, `throughput_ops_s`, `low`, `high` (null
        if the range has no end), `refused` (the reason why a model is not valid; a model without a curve has one row
        with null threads).
    """
    counts = found.thread_counts
    last = min(most_threads or _REACH * counts[-1], _REACH * counts[-1])
    grid = sorted({*counts, *(round(counts[0] * (last / counts[0]) ** (i / (_POINTS - 1))) for i in range(_POINTS))})
    measured = [(MEASURED, run.threads, run.throughput_ops_s, None, None, None) for run in found.runs]
    parts = [_rows(measured), _of_network(found, grid), *(_of_model(found, model, grid, level) for model in models)]
    return pl.concat(parts)


_CURVE: Final = {
    "model": pl.String(),
    "threads": pl.Int64(),
    **dict.fromkeys(("throughput_ops_s", "low", "high"), pl.Float64()),
    "refused": pl.String(),
}


def _rows(rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=_CURVE, orient="row")


def _of_model(found: WhatIf, model: str, grid: Sequence[int], level: float) -> pl.DataFrame:
    try:
        rates = [one.throughput_ops_s for one in found.runs]
        fitted = fit([one.threads for one in found.runs], rates, [model], level=level)
    except InsufficientDataError as error:
        return _rows([(model, None, None, None, None, str(error))])
    band, rejected = fitted[model].band(grid, level), fitted.rejected.get(model)
    columns = zip(grid, band.estimate.tolist(), band.low.tolist(), band.high.tolist(), strict=True)
    return _rows([(model, *values, rejected) for values in columns])


def _of_network(found: WhatIf, grid: Sequence[int]) -> pl.DataFrame:
    if not found.networks or found.samples is None:
        return _rows([(MVA, None, None, None, None, found.refused)])
    rows = []
    error = math.log1p((found.held_out_error_percent or 0.0) / 100)
    for threads in grid:
        logs = [_log_rates(network, threads) for network in found.networks]
        best = logs[0]([found.networks[0].numbers])[0]
        allowed = [_allowed(one, found.samples, log) for one, log in zip(found.networks, logs, strict=True)]
        sides = ((-1, min(low for low, _ in allowed)), (1, max(high for _, high in allowed)))
        ends = [math.copysign(math.hypot(end - best, error), sign) for sign, end in sides]
        known = [math.exp(best + end) * US_PER_S if math.isfinite(end) else None for end in ends]
        rows.append((MVA, threads, math.exp(best) * US_PER_S, *known, None))
    return _rows(rows)


def _log_rates(network: FittedNetwork, threads: int) -> Logarithms:
    def log_rates(numbers: Sequence[Parameters]) -> list[float]:
        stations = station_numbers([network.layout.stations(one) for one in numbers])
        return [math.log(rate) for rate in throughputs(stations, threads)]

    return log_rates


def _allowed(network: FittedNetwork, samples: Samples, log_of: Logarithms) -> tuple[float, float]:
    best, reach = log_of([network.numbers])[0], math.log(_FARTHEST)
    down, up = (profile(network, samples, log_of, sign * reach) for sign in (-1, 1))
    return best + down, best + up
