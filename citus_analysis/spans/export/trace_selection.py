"""The selection of traces for an export: those of a run, a resource or a time, the slowest of them, or the first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from citus_analysis.errors import UsageError


@dataclass(frozen=True)
class Selected:
    """The rows that a selection chose.

    Attributes:
        statements: rows of table `statements`.
        spans: rows of table `spans` of the same traces.
        chosen: number of statements.
        left_out: statements that fit the selection and exceed its number.
    """

    statements: pl.LazyFrame
    spans: pl.LazyFrame
    chosen: int
    left_out: int


@dataclass(frozen=True)
class Selection:
    """A selection of traces for an export.

    Attributes:
        run_id: traces of this run; None for all.
        resource: traces of this resource; None for all.
        begin: statements that began at this time or later.
        end: statements that began before this time.
        slowest: this many statements with the longest total time, instead of the first.
        limit: this many statements at most, in order of their times; 0 for all.

    Raises:
        UsageError: a number is negative, or the times are in the wrong order.
    """

    run_id: str | None = None
    resource: str | None = None
    begin: datetime | None = None
    end: datetime | None = None
    slowest: int | None = None
    limit: int = 0

    def __post_init__(self) -> None:
        """Check the numbers and times."""
        if self.limit < 0 or (self.slowest is not None and self.slowest < 1):
            raise UsageError("the number of statements must be positive", way_out="or 0 as the limit, for all of them")
        if self.begin is not None and self.end is not None and self.begin >= self.end:
            raise UsageError(f"the time ends ({self.end}) before it begins ({self.begin})")

    def of(self, statements: pl.LazyFrame, spans: pl.LazyFrame) -> Selected:
        """Choose from the tables `statements` and `spans`.

        Spans whose statement is not in the logs are included as long as neither times nor numbers choose.
        """
        for name in ("run_id", "resource"):
            if (value := getattr(self, name)) is not None:
                statements, spans = (rows.filter(pl.col(name) == value) for rows in (statements, spans))
        fitting = statements
        if self.begin is not None:
            fitting = fitting.filter(pl.col("start_time") >= self.begin)
        if self.end is not None:
            fitting = fitting.filter(pl.col("start_time") < self.end)
        count = int(fitting.select(pl.len()).collect().item())
        most = self.slowest or self.limit or count
        if most >= count and self.begin is None and self.end is None:
            return Selected(statements, spans, count, 0)
        keys, by = fitting.select("trace_id", "start_time", "total_us"), "total_us" if self.slowest else "start_time"
        ordered = keys.sort(by, "trace_id", descending=[bool(self.slowest), False], nulls_last=True)
        chosen = ordered.head(most).select("trace_id").collect().lazy()
        return Selected(
            statements.join(chosen, on="trace_id", how="semi"),
            spans.join(chosen, on="trace_id", how="semi"),
            min(most, count),
            max(count - most, 0),
        )
