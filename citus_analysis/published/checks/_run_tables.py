"""Input and findings of the checks of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import polars as pl

from citus_analysis.published.checks._registry import Finding, worst

#: Values by column, `resource` and `run_id` among them.
Cells: TypeAlias = Mapping[str, object]


class Weighted(NamedTuple):
    """A finding with its rank within the check; the worst finding represents the others."""

    finding: Finding
    weight: float


@dataclass(frozen=True)
class RunTables:
    """The tables of a dataset that the checks read; absent ones are empty."""

    runs: pl.DataFrame
    clients: pl.DataFrame
    operation_latencies: pl.DataFrame
    client_series: pl.DataFrame
    client_metrics: pl.DataFrame
    doubtful_samples: pl.DataFrame

    def finished(self) -> pl.DataFrame:
        """Runs that have a summary."""
        return self.runs.filter(pl.col("status") != "failed", pl.col("throughput_ops_s") > 0, pl.col("runtime_ms") > 0)


def about(
    cells: Cells, expected: str, stated: str, green: str = "", *, red: str = "", amber: str = "", weight: float = 0.0
) -> Weighted:
    """A finding about a run or a configuration: red or amber if a reason for it is given, else green."""
    resource, run = (str(cells[name] or "") for name in ("resource", "run_id"))
    text = red or amber or green
    return Weighted(Finding(worst(red, amber), "", resource, "runs", run, expected, stated, text), weight)


def part_of_run(cells: Cells, part: object) -> Cells:
    """The values, named as those of a part of their run."""
    return {**cells, "run_id": f"{cells['run_id']} {part}"}
