"""What owner routing would have gained in the thesis' own numbers: bounds from printed means and percentiles.

If every statement arrives at the node of its shard, an operation no longer waits between parent and child, and at most
all time is saved that the statement spends outside of the child. By Little's law, the same connections then have a
throughput that is the client's latency before, over that after.

The thesis prints for INSERT, on 32 workers, the means of the statement, of the wait and of the child (table 5.5). For
SELECT it prints the median of the statement (table 5.8) and that more than half of it is spent on the parent (section
5.3): of the wait, only that it is less than half is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.published.tables import published
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import pluralize

_SOURCE: Final = "thesis"
#: Most of a SELECT's time that is not spent on the parent (section 5.3 of the thesis).
_MOST_WAIT: Final = 0.5
ASSUMPTIONS: Final = (
    "all other times stay as they were, also where processors and disks queue",
    "the client knows the node of each key at no cost, and as many connections as before are spread over the nodes",
    "the median of a SELECT stands for its mean, which the thesis does not print",
)


@dataclass(frozen=True, repr=False)
class OwnerRoutingEstimate(DisplayMixin):
    """Estimates for the rows of the thesis' tables.

    Attributes:
        rows: `operation`, `workers`, `client_ms` (YCSB's latency), `statement_ms` (mean, or median), `saved_low_ms` and
            `saved_high_ms` (of an operation), `ratio_low` and `ratio_high` (of throughputs; at least and at most),
            `reason` (why nothing is known).
        assumptions: what the estimates take for granted.
    """

    rows: pl.DataFrame
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def summary_lines(self) -> list[str]:
        """The estimates in sentences."""
        known = self.rows.drop_nulls("ratio_high")
        said = [
            f"An estimate, not a measurement: owner routing would have raised the throughput of {row['operation']} on "
            f"{row['workers']} workers {_format_bounds(row['ratio_low'], row['ratio_high'])}."
            for row in known.iter_rows(named=True)
        ]
        unknown = self.rows.filter(pl.col("ratio_high").is_null())
        if unknown.height:
            sizes = ", ".join(map(str, unknown["workers"]))
            reason = unknown["reason"].head(1).item()
            said.append(f"Of {pluralize(unknown.height, 'other row')} ({sizes} workers) nothing is known: {reason}.")
        return [*said, *(f"assumed: {text}" for text in self.assumptions)]

    def summary_table(self) -> pl.DataFrame | None:
        """One row per row of the thesis' tables."""
        return self.rows


def _format_bounds(low: float, high: float) -> str:
    if low > 1:
        return f"{format_number(low)}- to {format_number(high)}-fold"
    return f"at most {format_number(high)}-fold"


def estimate_owner_routing() -> OwnerRoutingEstimate:
    """Bounds of the gain of owner routing in tables 5.5 and 5.8 of the thesis.

    Example:
        >>> estimate_owner_routing().rows.select("workers", pl.col("ratio_low", "ratio_high").round(3)).row(0)
        (32, 1.019, 1.061)
    """
    inserts, selects = _read_rows("5.5"), _read_rows("5.8")
    rows = []
    for one in inserts:
        statement, wait, child = (one[f"{name}_latency_ms"] for name in ("server", "wait", "child"))
        rows.append(_bound_gain("INSERT", one, statement, wait - child, statement - child))
    for one in selects:
        statement = one["server_latency_p50_ms"]
        if statement > one["client_latency_ms"]:
            reason = "the median of the sampled statements is above the client's mean latency"
            rows.append(_bound_gain("SELECT", one, statement, None, None) | {"reason": reason})
        else:
            rows.append(_bound_gain("SELECT", one, statement, 0.0, _MOST_WAIT * statement))
    schema = {"operation": pl.String, "workers": pl.Int64} | dict.fromkeys(_NUMBERS, pl.Float64) | {"reason": pl.String}
    return OwnerRoutingEstimate(pl.DataFrame(rows, schema=schema))


_NUMBERS: Final = ("client_ms", "statement_ms", "saved_low_ms", "saved_high_ms", "ratio_low", "ratio_high")


def _read_rows(table: str) -> list[dict[str, float]]:
    """The printed numbers of a table: one dictionary of metrics per row."""
    once = published(_SOURCE, table).unique(["row", "metric"], keep="first", maintain_order=True)
    parts = once.group_by("row", maintain_order=True)
    return [dict(part.select("metric", "value").iter_rows()) for _, part in parts]


def _bound_gain(
    operation: str, one: dict[str, float], statement_ms: float, low_ms: float | None, high_ms: float | None
) -> dict[str, object]:
    """A row of estimates; without bounds if these are not known.

    A statement whose key happens to be on its node waits for nobody already: of w workers one in w.
    """
    client, away = one["client_latency_ms"], 1 - 1 / one["workers"]
    saved = [None if value is None else away * value for value in (low_ms, high_ms)]
    ratios = [None if value is None else client / (client - value) for value in saved]
    numbers = dict(zip(_NUMBERS, (client, statement_ms, *saved, *ratios), strict=True))
    return {"operation": operation, "workers": int(one["workers"]), **numbers, "reason": ""}
