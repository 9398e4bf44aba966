"""Share of a client's concurrency that was in the system, by Little's law: X R of N threads."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.operations import adds_up
from citus_analysis.units import US_PER_S

#: Excess that rounding of reported means and run times explains; more is a contradiction.
TOLERANCE: Final = 0.02


def compute_concurrency(runs: pl.DataFrame, latencies: pl.DataFrame) -> pl.DataFrame:
    """Requests in the system of each run: the summed latencies of its main clients' operations over the run time.

    Args:
        runs: the table `runs`.
        latencies: the table `operation_latencies`.

    Returns:
        `run_id`, `resource`, `threads`, `throughput_ops_s`, `response_time_us`, `in_system`, `share_in_system`,
        `client_time_us`, `contradicts`; no row for a run without a throughput or without latencies.
    """
    busy = (
        latencies.filter(
            (pl.col("role").cast(pl.String) == "main") & adds_up("operation") & pl.col("mean_us").is_finite()
        )
        .group_by("run_id", "resource")
        .agg(busy_us=(pl.col("mean_us") * pl.col("operations")).sum())
    )
    measured = runs.filter((pl.col("throughput_ops_s") > 0) & (pl.col("operations_done") > 0))
    in_system = pl.col("throughput_ops_s") * pl.col("response_time_us") / US_PER_S
    return (
        measured.join(busy, on=["run_id", "resource"], maintain_order="left")
        .select(
            *("run_id", "resource", "threads", "throughput_ops_s"),
            response_time_us=pl.col("busy_us") / pl.col("operations_done"),
        )
        .with_columns(
            in_system=in_system,
            share_in_system=in_system / pl.col("threads"),
            client_time_us=pl.col("threads") / pl.col("throughput_ops_s") * US_PER_S - pl.col("response_time_us"),
            contradicts=in_system > (1 + TOLERANCE) * pl.col("threads"),
        )
    )
