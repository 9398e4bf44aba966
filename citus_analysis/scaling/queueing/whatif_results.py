"""Input and results of a what-if analysis: times of runs, known stations, gains with their warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.errors import UnknownNameError, UsageError, require_known
from citus_analysis.scaling.queueing._network_fit import FittedNetwork, Samples
from citus_analysis.scaling.queueing._structures import EVERY_PART
from citus_analysis.stats import Interval
from citus_analysis.texts.counted_words import counted


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
                raise UsageError(f"the time of {name} is {value:g}", way_out="give finite times that are not negative")


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
            raise UsageError(
                f"a station with {self.servers:g} servers", way_out="give at least one, or none if unknown"
            )
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
class WhatIf(Shown):
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
            f"  {self.method}; {counted(self.n, 'run')}; {held}",
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
