"""The totals of a pgbench report beside their parts: transactions by script, and those measured for a latency limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from citus_analysis.formats.clients._pgbench_lines import ATTEMPTED, KINDS, OVERALL
from citus_analysis.formats.clients._totals import contradictions

__all__ = ["PgbenchTotals"]

_PROCESSED = "number of transactions actually processed"
_FAILED = "number of failed transactions"
_SKIPPED = "number of transactions skipped"
_LIMIT = "number of transactions above "


@dataclass
class PgbenchTotals:
    """Sums over the scripts of a report, and the numbers that counts refer to.

    Attributes:
        scripts: transactions that the scripts processed; None without a report by script.
        attempted: their transactions with failed and skipped ones (version 18).
        measured: transactions of which those above the latency limit are a part.
    """

    scripts: float | None = None
    attempted: float | None = None
    measured: float | None = None

    def add(self, metrics: pl.DataFrame, lines: pl.DataFrame) -> None:
        """Take the values of further lines.

        Args:
            metrics: their rows of `client_metrics`.
            lines: the lines with their `kind`.
        """
        own = metrics.filter(pl.col("unit").is_null(), pl.col("section").ne_missing(OVERALL))
        self.scripts = _added(self.scripts, own.filter(metric="transactions"))
        self.attempted = _added(self.attempted, own.filter(metric=ATTEMPTED))
        limited = lines.filter(pl.col("kind") == "value", pl.col("text").str.starts_with(_LIMIT))
        if self.measured is None and limited.height:
            self.measured = limited["text"].str.extract(KINDS["value"], 3).cast(pl.Float64)[0]

    def notes(self, values: Mapping[str, float]) -> str | None:
        """The totals that are not the sums of their parts, in words.

        Args:
            values: metric -> its value of the whole run.
        """
        done = values.get(_PROCESSED)
        lost = values.get(_FAILED, 0.0) + values.get(_SKIPPED, 0.0)
        if done is None:
            return None
        # Some versions count skipped transactions among those that could have been late.
        late = done if self.measured is None else min(max(self.measured, done), done + lost)
        return contradictions(
            [
                (_PROCESSED, done, [self.scripts], 0.5),
                ("transactions of all scripts", self.attempted, [done, lost], 0.5),
                ("transactions with a latency", self.measured, [late], 0.5),
            ]
        )


def _added(before: float | None, rows: pl.DataFrame) -> float | None:
    return before if rows.is_empty() else (before or 0.0) + float(rows["value"].sum())
