"""From which value on a measurement counts as a sign of a limit: named, with its source, and changeable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import polars as pl

from citus_analysis.core.defaults import OUTSIDE_PERCENT, SATURATED_PERCENT, WAITING_PERCENT

__all__ = ["SOURCES", "Thresholds"]

SOURCES: Final = {
    "saturated_percent": "mean utilisation without capacity to speak of left (citus_analysis.core.defaults)",
    "throttled_percent": "share of the kernel's enforcement periods in which a quota stopped the group; without a "
    "quota that binds it is 0",
    "waiting_percent": "share of the clients' session time in one class of waits: with it gone, throughput at a given "
    "number of threads could grow by 1 / (1 - share), 1.4-fold at 30 %",
    "outside_percent": "share of the clients' session time in which the server has nothing to do for them; from half "
    "on, more time passes outside the servers than in them",
    "checkpoint_distance_s": "PostgreSQL's checkpoint_warning (30 s): the server itself warns of closer checkpoints",
    "jain_index": "Jain, Chiu and Hawe (1984): 1 is even, 1/k is one of k nodes only; 0.8 is one of five idle",
    "uneven_p": "p-value of the multinomial test against an even split; small, because one is made for each run",
    "reached_share": "a client that was limited to a rate and reached this share of it asked for no more",
}


@dataclass(frozen=True)
class Thresholds:
    """Values from which on a measurement is a sign of a limit; :data:`SOURCES` says where each is from.

    Example:
        >>> Thresholds(saturated_percent=95).saturated_percent
        95
    """

    saturated_percent: float = SATURATED_PERCENT
    throttled_percent: float = 10.0
    waiting_percent: float = WAITING_PERCENT
    outside_percent: float = OUTSIDE_PERCENT
    checkpoint_distance_s: float = 30.0
    jain_index: float = 0.8
    uneven_p: float = 0.001
    reached_share: float = 0.98

    def to_polars(self) -> pl.DataFrame:
        """One row per threshold: `threshold`, `value`, `source`."""
        rows = [
            {"threshold": name, "value": float(value), "source": SOURCES[name]} for name, value in asdict(self).items()
        ]
        return pl.DataFrame(rows)
