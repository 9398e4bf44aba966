"""The matrix of resources by utilisation, saturation and errors, for each configuration and node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.bottleneck.evidence.measurements import ASPECTS, PARTS
from citus_analysis.bottleneck.samples_in_runs import with_configuration
from citus_analysis.stats import mean_interval

_BY_RUNNER: Final = "with the runner's sampler of the kernel's counters (samplers.host)"
_DEVICES: Final = "devices with `iostat -x -t 1` (samplers.iostat)"
_SESSIONS: Final = "sessions with snapshots of pg_stat_activity (samplers.activity)"
#: Parts whose errors server logs tell.
_LOGGED: Final = ("device", "memory", "connections", "locks", "WAL and checkpoints")
#: The recording that would fill an empty cell. Missing combinations have no meaning: errors of a CPU are not counted.
TO_RECORD: Final = {
    ("CPU", "utilisation"): "CPU time on the servers' hosts with iostat or vmstat (samplers.iostat)",
    ("CPU", "saturation"): f"pressure and quotas {_BY_RUNNER}",
    ("device", "utilisation"): _DEVICES,
    ("device", "saturation"): _DEVICES,
    ("memory", "utilisation"): "memory with vmstat, and its size under `hardware` in config.yml",
    ("memory", "saturation"): "swapping with `vmstat -n -t 1` (samplers.vmstat)",
    **{("network", aspect): f"interfaces {_BY_RUNNER}" for aspect in ASPECTS},
    ("connections", "utilisation"): _SESSIONS,
    ("locks", "saturation"): f"{_SESSIONS}, or log_lock_waits = on",
    ("WAL and checkpoints", "utilisation"): "checkpoints with log_checkpoints = on",
    ("WAL and checkpoints", "saturation"): _SESSIONS,
    ("load generator", "utilisation"): _SESSIONS,
    ("load generator", "saturation"): "latencies of the clients' operations",
    ("load generator", "errors"): "the load generator's output",
    **{(part, "errors"): "server logs (target.collect_logs)" for part in _LOGGED},
}
_METRIC: Final = ("node", "part", "aspect", "metric", "unit")


def matrix_of(
    measured: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str], level: float, sources: pl.DataFrame
) -> pl.DataFrame:
    """Means over runs of every metric, with intervals, and one row for each cell without a measurement.

    Args:
        measured: columns of :data:`citus_analysis.bottleneck.evidence.measurements.COLUMNS`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.
        level: confidence level of the intervals.
        sources: `source_id` and `path` of the files.

    Returns:
        `configuration`, `node`, `part`, `aspect`, `metric`, `value`, `low` (at least 0) and `high` (null for one run),
        `unit`, `runs`, `samples`, `source_id` and `source` (its path) of the first run, `not_measured` (the recording
        that is missing; null if there is a value).
    """
    placed = with_configuration(measured, runs, configuration)
    cells = placed.group_by(*configuration, *_METRIC, maintain_order=True).agg(
        values=pl.col("value"),
        samples=pl.col("samples").sum(),
        source_id=pl.col("source_id").sort_by("run_id", maintain_order=True).first(),
    )
    samples = list(map(tuple, cells["values"].to_list()))
    # Most counts of errors are 0 in all runs: two of three intervals are known from another cell.
    intervals = {values: mean_interval(values, level) for values in set(samples)}
    ends = [intervals[values] for values in samples]
    known = cells.drop("values").with_columns(
        value=pl.Series([one.estimate for one in ends], dtype=pl.Float64),
        # No measurement here can be negative, and no share can exceed 100 %.
        low=pl.Series([one.ends[0] for one in ends], dtype=pl.Float64).clip(lower_bound=0.0),
        high=pl.Series([one.ends[1] for one in ends], dtype=pl.Float64).clip(
            upper_bound=cells["unit"].eq("%").replace_strict({True: 100.0, False: math.inf})
        ),
        runs=pl.Series([one.n for one in ends], dtype=pl.Int64),
    )
    whole = pl.concat([known, _empty_cells(known, runs, configuration)], how="diagonal").join(
        sources.select("source_id", source="path"), on="source_id", how="left", maintain_order="left"
    )
    order = {"part": PARTS, "aspect": ASPECTS}
    ranks = [pl.col(name).replace_strict(list(of), list(range(len(of)))) for name, of in order.items()]
    return whole.select(
        *configuration, "node", "part", "aspect", "metric", "value", "low", "high", "unit", "runs", "samples",
        "source_id", "source", "not_measured",
    ).sort(*configuration, *ranks, "metric", "node", nulls_last=True)  # fmt: skip


def _empty_cells(known: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    rows = [
        {"part": part, "aspect": aspect, "not_measured": f"record {what}"} for (part, aspect), what in TO_RECORD.items()
    ]
    wanted = runs.select(configuration).unique(maintain_order=True).join(pl.DataFrame(rows), how="cross")
    return wanted.join(known, on=[*configuration, "part", "aspect"], how="anti", nulls_equal=True)
