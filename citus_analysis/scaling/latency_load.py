"""Latency against load: response times for increasing numbers of client threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.operations import is_main_operation
from citus_analysis.runs import comparability
from citus_analysis.runs.selection import Selection
from citus_analysis.runs.set_ups import build_series_names
from citus_analysis.runs.status import AS_SELECTED
from citus_analysis.stats import summarise_runs

_LOAD: Final = "threads"
_COLUMNS: Final = {
    "operation": pl.String(),
    "series": pl.String(),
    _LOAD: pl.Int32(),
    **dict.fromkeys(("mean", "sd", "low", "high", "level"), pl.Float64()),
    "n": pl.Int64(),
    "method": pl.String(),
    "warnings": pl.String(),
    METRIC: pl.Float64(),
}


def estimate_latency_by_load(
    selection: Selection, latencies: pl.DataFrame, metric: str = "p99_us", *, level: float = LEVEL
) -> pl.DataFrame:
    """Latency and throughput per set-up and number of threads: means over runs of one value per run.

    Args:
        selection: runs with their set-up.
        latencies: the table `operation_latencies`.
        metric: its column.
        level: confidence level.

    Returns:
        operation, series, threads, throughput_ops_s, n, mean, sd, low, high (of `metric`), level, method, warnings.
    """
    own = latencies.filter(is_main_operation())
    own = own.select("run_id", "resource", pl.col("operation").alias("section"), metric)
    runs = selection.runs.drop_nulls([_LOAD, "operation"])
    keys = [*(name for name in comparability(runs, _LOAD).strata if name != "workers"), "workers"]
    runs = runs.filter(pl.col(_LOAD).n_unique().over(keys) > 1)
    joined = runs.join(own, on=["run_id", "resource"]).drop_nulls(metric).sort("workers", _LOAD, "section")
    if joined.is_empty():
        return pl.DataFrame(schema=_COLUMNS)
    several = joined["section"].n_unique() > joined["operation"].n_unique()
    section = pl.format(", {}", "section") if several else pl.lit("")
    joined = _add_series_names(joined, keys).with_columns(pl.col("series") + section)
    by = ["operation", "series", _LOAD]
    means = summarise_runs(joined, metric, by=by, level=level, include_status=AS_SELECTED)
    return means.join(joined.group_by(by).agg(pl.col(METRIC).mean()), on=by, maintain_order="left")


def _add_series_names(runs: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Runs with names of series, made per operation, because the title of a panel names its operation."""
    parts = [
        part.with_columns(build_series_names(part.select(*keys), ignore=["workload"], always=["workers"]))
        for _, part in runs.group_by("operation", maintain_order=True)
    ]
    return pl.concat(parts)
