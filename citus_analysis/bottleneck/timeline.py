"""Samples over the time of a run, ready to be drawn: one row per node and sample.

Of several samplers on a node only one is kept (:func:`citus_analysis.bottleneck.one_source`).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import NODE, align_to_runs, one_source
from citus_analysis.core.frames import Frame, in_callers_kind

_SHARES: Final = ("user_percent", "nice_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")


def busy_percent() -> pl.Expr:
    """CPU time in which something ran or wanted to: 100 - idle - iowait.

    iowait is idle time with a request outstanding. Stolen time counts as busy, because the machine needed it.
    """
    return 100 - pl.col("idle_percent") - pl.col("iowait_percent").fill_null(0.0)


@in_callers_kind
def cpu_over_time(cpu_samples: Frame, runs: Frame, *, margin_s: float = 0.0) -> pl.DataFrame:
    """CPU shares over time: resource, run_id, node, elapsed_s, interval_s, sample_time, busy_percent, shares.

    Args:
        cpu_samples: the table `cpu_samples`.
        runs: the table `runs`.
        margin_s: seconds before and after the run that are included; before its begin, `elapsed_s` is negative.
    """
    inside = align_to_runs(cpu_samples, runs, margin_s=margin_s)
    used = one_source(inside, NODE).with_columns(busy_percent=busy_percent())
    shown = used.select(*NODE, "elapsed_s", "interval_s", "sample_time", "busy_percent", *_SHARES, "source_id")
    return shown.sort(*NODE, "elapsed_s")


@in_callers_kind
def throttling_over_time(throttle_samples: Frame, runs: Frame) -> pl.DataFrame:
    """Control groups whose CPU time the kernel throttled, while a run was measured.

    Groups that were never throttled are left out.

    Args:
        throttle_samples: the table `throttle_samples`.
        runs: the table `runs`.

    Returns:
        `resource`, `run_id`, `iteration`, `node`, `control_group`, `elapsed_s`, `used_percent` (of one CPU),
        `throttled_percent` (of the time) and `throttled_periods_percent` (of the periods in which the kernel counts).
    """
    inside = align_to_runs(throttle_samples, runs)
    keys = [*NODE, "control_group"]
    held = one_source(inside, keys).filter((pl.col("throttled_periods").sum() > 0).over(keys))
    periods = pl.when(pl.col("periods") > 0).then(100 * pl.col("throttled_periods") / pl.col("periods"))
    measures = ("used_percent", "throttled_percent", periods.alias("throttled_periods_percent"))
    shown = held.select("resource", "run_id", "iteration", "node", "control_group", "elapsed_s", *measures)
    return shown.sort(*keys, "elapsed_s")
