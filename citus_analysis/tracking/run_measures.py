"""Other measures of each run that may have moved with its throughput: CPU per operation, balance, its system."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.evidence.balance import jain_index
from citus_analysis.bottleneck.utilization import resource_utilization
from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.defaults import METRIC
from citus_analysis.units import US_PER_S

#: Measures of a run -> their names in words.
MEASURES: Final = {
    "cpu_us_per_operation": "CPU time per operation",
    "balance": "balance of clients over nodes",
}
_RUN: Final = ("resource", "run_id")
#: Setting in which the runner records the share of the clients that each node had in an iteration.
_SHARE: Final = r"^measured\.(\d+)\.share_by_node\.(.+)$"


def with_measures(runs: pl.DataFrame, source: TableSource) -> pl.DataFrame:
    """Runs with the columns of :data:`MEASURES`; null if a run has no such recording.

    `cpu_us_per_operation` is the busy share of a host's CPU time over the throughput, D = U / X, averaged over the
    sampled nodes; it treats all cores of a host as one, and includes all programs of the host. `balance` is Jain's
    index of the shares of the clients that the nodes had: 1 if all shares are equal.

    Args:
        runs: rows of the table `runs`.
        source: the dataset of the runs.
    """
    return runs.join(_cpu(runs, source), on=_RUN, how="left").join(
        _balance(source), on=["resource", "iteration"], how="left"
    )


def _cpu(runs: pl.DataFrame, source: TableSource) -> pl.DataFrame:
    cpu, devices = (as_polars(source.table(name)) for name in ("cpu_samples", "device_samples"))
    used = resource_utilization(cpu, devices, runs).filter(pl.col("component") == "cpu")
    busy = used.group_by(_RUN).agg(pl.col("mean_percent").mean())
    per_operation = pl.col("mean_percent") / 100 * US_PER_S / pl.col(METRIC)
    measured = busy.join(runs.filter(pl.col(METRIC) > 0).select(*_RUN, METRIC), on=_RUN)
    return measured.select(*_RUN, cpu_us_per_operation=per_operation)


def _balance(source: TableSource) -> pl.DataFrame:
    settings = as_polars(source.table("settings")).filter(pl.col("name").str.contains(_SHARE))
    shares = settings.select(
        "resource",
        iteration=pl.col("name").str.extract(_SHARE, 1).cast(pl.Int32),
        share=pl.col("value").cast(pl.Float64, strict=False),
    )
    grouped = shares.drop_nulls().group_by("resource", "iteration").agg("share").sort("resource", "iteration")
    usable = grouped.filter(pl.col("share").list.max() > 0, pl.col("share").list.min() >= 0)
    indices = [jain_index(share) for share in usable["share"].to_list()]
    return usable.select("resource", "iteration").with_columns(pl.Series("balance", indices, dtype=pl.Float64))
