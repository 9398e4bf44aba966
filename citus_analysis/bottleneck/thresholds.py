"""Thresholds from which on a measurement is a sign of a limit, with their sources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import polars as pl

from citus_analysis import defaults
from citus_analysis.errors import UsageError, require_known

SOURCES: Final = {
    "saturated_percent": "mean utilisation at which hardly any capacity is left (citus_analysis.defaults)",
    "throttled_percent": "share of the kernel's enforcement periods in which a quota stopped the group; 0 if the quota "
    "is never reached",
    "waiting_percent": "share of the clients' session time in one class of waits: without it, throughput at a given "
    "number of threads could grow by 1 / (1 - share), 1.4-fold at 30 %",
    "outside_percent": "share of the clients' session time in which the server has nothing to do for them; above half, "
    "more time passes outside the servers than in them",
    "stalled_percent": "the kernel's pressure stall information (PSI, some): share of time in which a task waited for "
    "the CPU; above half, a busy CPU is a limit with high confidence, and a CPU with idle time is a limit, too",
    "checkpoint_distance_s": "PostgreSQL's checkpoint_warning (30 s): the server itself warns of closer checkpoints",
    "jain_index": "Jain, Chiu and Hawe (1984): 1 is even, 1/k is one of k nodes only; 0.8 is one of five idle",
    "uneven_p": "p-value of the multinomial test against an even split; small, because one is made for each run",
    "reached_share": "a client that was limited to a rate and reached this share of it did not request more",
}


@dataclass(frozen=True)
class Thresholds:
    """Values from which on a measurement is a sign of a limit; :data:`SOURCES` gives the source of each.

    Percentages are from 0 to 100; `jain_index`, `uneven_p` and `reached_share` from 0 to 1.

    Raises:
        UsageError: a value is out of its range.

    Example:
        >>> Thresholds(saturated_percent=95).saturated_percent
        95
    """

    saturated_percent: float = defaults.SATURATED_PERCENT
    throttled_percent: float = defaults.THROTTLED_PERCENT
    waiting_percent: float = defaults.WAITING_PERCENT
    outside_percent: float = defaults.OUTSIDE_PERCENT
    stalled_percent: float = defaults.STALLED_PERCENT
    checkpoint_distance_s: float = defaults.CHECKPOINT_DISTANCE_S
    jain_index: float = defaults.JAIN_INDEX
    uneven_p: float = defaults.UNEVEN_P
    reached_share: float = defaults.REACHED_SHARE

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            most = 100.0 if name.endswith("_percent") else math.inf if name.endswith("_s") else 1.0
            if not 0 <= value <= most or math.isinf(value):
                span = "a finite number that is not negative" if math.isinf(most) else f"from 0 to {most:g}"
                raise UsageError(f"threshold {name} is {value:g}", way_out=f"give {span}: {SOURCES[name]}")

    @classmethod
    def of(cls, given: Thresholds | Mapping[str, float] | None) -> Thresholds:
        """Thresholds unchanged, or from values by name; the others have their defaults.

        Raises:
            UnknownNameError: no threshold has that name.
            UsageError: a value is out of its range.

        Example:
            >>> Thresholds.of({"jain_index": 0.9}).jain_index
            0.9
        """
        if isinstance(given, Thresholds):
            return given
        named = dict(given or {})
        for name in named:
            require_known("threshold", name, SOURCES)
        return cls(**named)

    def to_polars(self) -> pl.DataFrame:
        """One row per threshold: `threshold`, `value`, `source`."""
        rows = [(name, float(value), SOURCES[name]) for name, value in asdict(self).items()]
        return pl.DataFrame(rows, schema=["threshold", "value", "source"], orient="row")
