"""Small pieces of sentences: counts and lists (:mod:`citus_analysis.words`), and numbers with their intervals."""

from __future__ import annotations

import polars as pl

from citus_analysis.stats import Interval
from citus_analysis.words import counted, counted_expr, listed, size_text

__all__ = ["counted", "interval_text", "listed", "size_expr", "size_text"]


def size_expr(workers: str = "workers") -> pl.Expr:
    """:func:`size_text` for a column."""
    number = pl.col(workers)
    return pl.when(number == 0).then(pl.lit(size_text(0))).otherwise(counted_expr(workers, "worker"))


def interval_text(interval: Interval, digits: int = 2) -> str:
    """An estimate with its interval, or the estimate with what is missing.

    Example:
        >>> interval_text(Interval(0.8123, 0.75, 0.88, 0.95, 3, "Student t"))
        '0.81 [0.75, 0.88]'
        >>> interval_text(Interval.absent(0.8, 0.95, 1, "Student t", "one run"))
        '0.80 (one run: no interval)'
    """
    if not interval.exists:
        return f"{interval.estimate:.{digits}f} (one run: no interval)"
    return f"{interval.estimate:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
