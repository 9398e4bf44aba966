"""Input and findings of the checks of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import polars as pl

from citus_analysis.published.checks._registry import Finding, Severity

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
    severity: Severity, name: str, cells: Cells, expected: str, stated: str, explanation: str, weight: float = 0.0
) -> Weighted:
    """A finding about a run or a configuration."""
    resource, run = (str(cells[name] or "") for name in ("resource", "run_id"))
    return Weighted(Finding(severity, name, resource, "runs", run, expected, stated, explanation), weight)
