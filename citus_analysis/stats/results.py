"""Frozen results with their method, n and warnings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.texts.numbers import format_number

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Interval(DisplayMixin):
    """An estimate with its confidence interval, or without one if the data give none (one run).

    Attributes:
        estimate: point estimate.
        low: lower end; nan if there is no interval.
        high: upper end; nan if there is no interval; inf if the data give no upper end (the last bucket of a
            histogram, a peak that is not reached).
        level: confidence level, e.g. 0.95.
        n: number of independent observations (runs, not operations).
        method: method of computation (`Student t`, `normal`, `BCa bootstrap`, `order statistics` ...).
        warnings: caveats.

    Example:
        >>> interval = Interval(100.0, 90.0, 110.0, 0.95, 5, "Student t")
        >>> interval.relative_half_width
        0.1
        >>> str(interval)
        '100 [90, 110] (95 %, Student t, n = 5)'
        >>> str(Interval.absent(100.0, 0.95, 1, "Student t", "one run has no spread"))
        '100 (no interval, n = 1)'
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    method: str
    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def absent(cls, estimate: float, level: float, n: int, method: str, reason: str) -> Interval:
        """An estimate without an interval, for the given reason."""
        return cls(estimate, math.nan, math.nan, level, n, method, (reason,))

    @property
    def exists(self) -> bool:
        """Whether the data give an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Lower and upper end for a table; None if there is no interval."""
        return (self.low, self.high) if self.exists else (None, None)

    def record(self, name: str) -> dict[str, float | None]:
        """Estimate and ends as columns of a table: `name`, `name_low`, `name_high`."""
        low, high = self.ends
        return {name: self.estimate, f"{name}_low": low, f"{name}_high": high}

    def summary_table(self) -> pl.DataFrame | None:
        """One row: the estimate with both ends, level, n and method."""
        import polars as pl

        return pl.DataFrame([self.record("estimate") | {"level": self.level, "n": self.n, "method": self.method}])

    def scaled(self, factor: float) -> Interval:
        """The interval of a multiple."""
        return replace(self, estimate=self.estimate * factor, low=self.low * factor, high=self.high * factor)

    def ends_text(self, written: Callable[[float], str] = format_number) -> str:
        """Both ends in brackets; empty if there is no interval."""
        return f"[{written(self.low)}, {written(self.high)}]" if self.exists else ""

    @property
    def half_width(self) -> float:
        """Half the interval's width, in the estimate's unit; nan without an interval."""
        return (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over the estimate's size; inf for an estimate of 0, nan without an interval."""
        return self.half_width / abs(self.estimate) if self.estimate else float("inf")

    def __iter__(self) -> Iterator[float]:
        """Both ends: `low, high = interval`."""
        return iter((self.low, self.high))

    def __float__(self) -> float:
        """The estimate: `float(interval)`."""
        return float(self.estimate)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if not self.exists:
            return f"{format_number(self.estimate)} (no interval, n = {self.n})"
        basis = f"{self.level * 100:g} %, {self.method}, n = {self.n}"
        return f"{format_number(self.estimate)} {self.ends_text()} ({basis})"
