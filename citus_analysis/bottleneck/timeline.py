"""Samples over the time of a run, ready to be drawn: one row per node (or device) and sample.

Of several samplers on a node only one is kept (:func:`citus_analysis.bottleneck.one_source`).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind

__all__ = ["busy_percent", "checkpoint_marks", "cpu_over_time", "device_over_time", "throttling_over_time"]

_RUN: Final = ("resource", "run_id", "node")
_SHARES: Final = ("user_percent", "nice_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")
_DEVICE: Final = (
    "utilization_percent",
    "await_ms",
    "read_await_ms",
    "write_await_ms",
    "queue_length",
    "read_kb_s",
    "write_kb_s",
)


def busy_percent() -> pl.Expr:
    """CPU time in which something ran or wanted to: 100 - idle - iowait.

    iowait is idle time with a request outstanding. Stolen time counts as busy: the machine wanted it.
    """
    return 100 - pl.col("idle_percent") - pl.col("iowait_percent").fill_null(0.0)


@in_callers_kind
def cpu_over_time(cpu_samples: Frame, runs: Frame, *, margin_s: float = 0.0) -> pl.DataFrame:
    """CPU shares over time: resource, run_id, node, elapsed_s, interval_s, sample_time, busy_percent, shares.

    Args:
        cpu_samples: the table `cpu_samples`.
        runs: the table `runs`.
        margin_s: how far the picture reaches beyond the run; before its begin `elapsed_s` is negative.
    """
    inside = align_to_runs(cpu_samples, runs, margin_s=margin_s)
    return (
        one_source(inside, _RUN)
        .with_columns(busy_percent=busy_percent())
        .select(*_RUN, "elapsed_s", "interval_s", "sample_time", "busy_percent", *_SHARES, "source_id")
        .sort(*_RUN, "elapsed_s")
    )


@in_callers_kind
def device_over_time(device_samples: Frame, runs: Frame, *, margin_s: float = 0.0) -> pl.DataFrame:
    """Devices over time: resource, run_id, node, device, elapsed_s, utilisation, awaits, queue and rates.

    Totals of groups of devices are left out. `await_ms` is null where no request completed.

    Args:
        device_samples: the table `device_samples`.
        runs: the table `runs`.
        margin_s: how far the picture reaches beyond the run.
    """
    devices = as_polars(device_samples).filter(~pl.col("is_group").fill_null(value=False))
    inside = align_to_runs(devices, runs, margin_s=margin_s)
    return (
        one_source(inside, (*_RUN, "device"))
        .select(*_RUN, "device", "elapsed_s", "interval_s", "sample_time", *_DEVICE, "source_id")
        .sort(*_RUN, "device", "elapsed_s")
    )


@in_callers_kind
def checkpoint_marks(checkpoints: Frame, runs: Frame) -> pl.DataFrame:
    """Checkpoints that touch a run: resource, run_id, node, start_s, end_s (since its begin), reason, buffers_written.

    `start_s` and `end_s` are cut to the run. If the beginning of a checkpoint is not in the log, it is
    computed from the reported duration (`total_s` before its end).

    Args:
        checkpoints: the table `checkpoints`.
        runs: the table `runs`.
    """
    spans = as_polars(runs).select("resource", "run_id", run_start="start_time", run_end="end_time")
    spans = spans.drop_nulls(["run_start", "run_end"])
    frame = as_polars(checkpoints).rename({"run_id": "_named"}).join(spans, on="resource")
    reported = pl.col("end_time") - pl.duration(milliseconds=pl.col("total_s") * 1000)
    begin = pl.coalesce("start_time", reported, "end_time")
    touching = (begin <= pl.col("run_end")) & (pl.col("end_time") >= pl.col("run_start"))
    mine = pl.col("_named").is_null() | (pl.col("_named") == pl.col("run_id"))
    since = {"start_s": pl.max_horizontal(begin, "run_start"), "end_s": pl.min_horizontal("end_time", "run_end")}
    return (
        frame.filter(touching & mine)
        .with_columns(
            **{name: (time - pl.col("run_start")).dt.total_milliseconds() / 1000 for name, time in since.items()}
        )
        .select(*_RUN, "start_s", "end_s", "reason", "buffers_written")
        .sort(*_RUN, "start_s")
    )


@in_callers_kind
def throttling_over_time(throttle_samples: Frame, runs: Frame) -> pl.DataFrame:
    """Control groups that the kernel held to a share of CPU time, while a run was measured.

    Groups that were never throttled are left out.

    Args:
        throttle_samples: the table `throttle_samples`.
        runs: the table `runs`.

    Returns:
        `resource`, `run_id`, `iteration`, `node`, `control_group`, `elapsed_s`, `used_percent` (of one CPU),
        `throttled_percent` (of the time) and `throttled_periods_percent` (of the periods in which the kernel counts).
    """
    inside = align_to_runs(throttle_samples, runs)
    keys = [*_RUN, "control_group"]
    held = one_source(inside, keys).filter((pl.col("throttled_periods").sum() > 0).over(keys))
    periods = pl.when(pl.col("periods") > 0).then(100 * pl.col("throttled_periods") / pl.col("periods"))
    return held.select(
        "resource",
        "run_id",
        "iteration",
        "node",
        "control_group",
        "elapsed_s",
        "used_percent",
        "throttled_percent",
        periods.alias("throttled_periods_percent"),
    ).sort(*keys, "elapsed_s")
