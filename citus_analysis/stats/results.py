"""Frozen results that carry their method, their n and their warnings."""

from __future__ import annotations

from dataclasses import dataclass, field

from citus_analysis.stats._numbers import readable

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        estimate: point estimate.
        low: lower end; -inf where the data give no lower bound.
        high: upper end; inf where the data give no upper bound.
        level: confidence level, e.g. 0.95.
        n: number of independent observations (runs, not operations) behind it.
        method: how it was computed (`Student t`, `normal`, `BCa bootstrap`, `order statistics` ...).
        warnings: what a reader must know before believing it.

    Example:
        >>> interval = Interval(100.0, 90.0, 110.0, 0.95, 5, "Student t")
        >>> interval.relative_half_width
        0.1
        >>> str(interval)
        '100 [90, 110] (95 %, Student t, n = 5)'
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    method: str
    warnings: tuple[str, ...] = field(default=())

    @property
    def half_width(self) -> float:
        """Half the interval's width, in the estimate's unit."""
        return (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over the estimate's size; inf for an estimate of 0."""
        return self.half_width / abs(self.estimate) if self.estimate else float("inf")

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        ends = f"{readable(self.estimate)} [{readable(self.low)}, {readable(self.high)}]"
        return f"{ends} ({self.level * 100:g} %, {self.method}, n = {self.n})"
