"""Utilisation of CPUs and devices during each run."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import NODE, align_to_runs, one_source, sampling_interval_s
from citus_analysis.bottleneck.timeline import busy_percent
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.possible_values.doubtful_values import doubtful_in, without_doubtful

#: Fewest samples for a 95th percentile; of fewer samples it would be the largest.
LEAST_FOR_P95: Final = 20

_KEY: Final = (*NODE, "component", "name")
_SHARES: Final = ("user_percent", "system_percent", "iowait_percent", "steal_percent")
_DEVICE: Final = ("queue_length", "read_kb_s", "write_kb_s")
_RATES: Final = ("reads_per_s", "writes_per_s", "discards_per_s")


@in_callers_kind
def resource_utilization(cpu_samples: Frame, device_samples: Frame, runs: Frame | None = None) -> pl.DataFrame:
    """Utilisation of CPUs and devices per run and node: one row per component.

    For the CPU, utilisation is 100 - idle - iowait; for a device it is the share of time with a request in
    flight. With `runs`, only samples from within a run are used (:func:`align_to_runs`). If a node has no samples with
    a time, all samples of the file that names the run are used: `within_run` is false, and idle seconds around the run
    lower the mean. Samples that average since boot and doubtful values are never used.

    Args:
        cpu_samples: the table `cpu_samples`.
        device_samples: the table `device_samples`.
        runs: the table `runs`; None: all samples of a run's files are used.

    Returns:
        `resource`, `run_id`, `node`, `component` (`cpu`, `device`), `name` (`cpu` or the device), `n` (samples),
        `mean_percent`, `p95_percent` (null below :data:`LEAST_FOR_P95` samples), `max_percent`; of the CPU the
        mean `user_percent`, `system_percent`, `iowait_percent`, `steal_percent`; of devices `await_ms` (weighted
        by requests), and the means of `queue_length`, `requests_per_s`, `read_kb_s`, `write_kb_s`; `interval_s`,
        `source_id` and `within_run`.

    Raises:
        UsageError: an argument is not a frame, or lacks a column.
    """
    cpu = without_doubtful(as_polars(cpu_samples)).with_columns(
        component=pl.lit("cpu"), name=pl.lit("cpu"), busy=busy_percent()
    )
    device = without_doubtful(as_polars(device_samples)).filter(~pl.col("is_group").fill_null(value=False))
    device = device.with_columns(component=pl.lit("device"), name="device", busy="utilization_percent")
    requests = pl.sum_horizontal(_RATES)
    known = pl.any_horizontal(pl.col(name).is_not_null() for name in _RATES)
    counted = pl.when(known).then(requests).otherwise("transfers_per_s")
    device = device.with_columns(requests=pl.when(~doubtful_in(device, *_RATES)).then(counted))
    device = device.with_columns(waited=pl.col("requests") * pl.col("await_ms"))
    tables = [
        _summary(_counted(cpu, runs), {name: pl.col(name).mean() for name in _SHARES}),
        _summary(_counted(device, runs), _device_means()),
    ]
    return pl.concat(tables, how="diagonal").select(
        *_KEY, "n", "mean_percent", "p95_percent", "max_percent", *_SHARES,
        "await_ms", *_DEVICE, "requests_per_s", "interval_s", "source_id", "within_run",
    ).sort(*_KEY)  # fmt: skip


def _counted(samples: pl.DataFrame, runs: Frame | None) -> pl.DataFrame:
    """The samples to use, of one source per component, with `within_run` and `interval_s`."""
    samples = samples.filter(pl.col("busy").is_not_null())
    intervals = samples.with_columns(interval_s=sampling_interval_s(samples))
    whole = intervals.filter(~pl.col("since_boot").fill_null(value=False)).with_columns(within_run=pl.lit(value=False))
    if runs is None:
        return one_source(whole, _KEY)
    inside = align_to_runs(samples, runs).drop("elapsed_s").with_columns(within_run=pl.lit(value=True))
    untimed = whole.filter(pl.col("sample_time").is_null()).join(inside, on=_KEY, how="anti", nulls_equal=True)
    return one_source(pl.concat([inside, untimed], how="diagonal"), _KEY)


def _summary(samples: pl.DataFrame, means: dict[str, pl.Expr]) -> pl.DataFrame:
    p95 = pl.col("busy").quantile(0.95, interpolation="nearest")
    return samples.group_by(_KEY, maintain_order=True).agg(
        n=pl.len(),
        # Intervals of a sampler are not exact, so that a busy device may seem busy for more than all of one.
        mean_percent=pl.col("busy").clip(upper_bound=100.0).mean(),
        p95_percent=pl.when(pl.len() >= LEAST_FOR_P95).then(p95),
        max_percent=pl.col("busy").clip(upper_bound=100.0).max(),
        **means,
        interval_s=pl.col("interval_s").first(),
        source_id=pl.col("source_id").first(),
        within_run=pl.col("within_run").first(),
    )


def _device_means() -> dict[str, pl.Expr]:
    requests = pl.col("requests").filter(pl.col("waited").is_not_null()).sum()
    return {
        "await_ms": pl.when(requests > 0).then(pl.col("waited").sum() / requests),
        "requests_per_s": pl.col("requests").mean(),
        **{name: pl.col(name).mean() for name in _DEVICE},
    }
