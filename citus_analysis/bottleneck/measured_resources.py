"""Resource usage of the machines during runs: CPU, devices, checkpoints, symbols of perf.

Only samples from within a run (its first to its last status line) enter a mean. The first report of a sampler, which
averages since boot, is excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.profiles import top_symbols
from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.bottleneck.timeline import busy_percent
from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.runs import with_operations
from citus_analysis.runs.run_selection import check_known, matching

__all__ = ["Detail", "ResourceStudy", "study_resources"]

_RUN: Final = ("resource", "run_id")
_SHARES: Final = ("user_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")
_DEVICE: Final = ("await_ms", "utilization_percent", "write_kb_s", "read_kb_s", "queue_length")


@dataclass(frozen=True)
class Detail:
    """One run over time.

    Attributes:
        resource: its resource.
        iteration: its iteration.
        cpu: `node`, `elapsed_s` and the shares of CPU time.
        devices: `series` (node and device), `elapsed_s`, `await_ms`, `utilization_percent`, `write_kb_s`.
        checkpoints: `node`, `start_s`, `end_s`, `reason`, `buffers_written`, `sync_s`, `total_s`.
    """

    resource: str
    iteration: int
    cpu: pl.DataFrame
    devices: pl.DataFrame
    checkpoints: pl.DataFrame


@dataclass(frozen=True)
class ResourceStudy:
    """Samples of the chosen resources.

    Attributes:
        cpu: per resource: operation, workers, threads, runs, samples, mean shares and `busy_percent`.
        devices: per resource and device: runs, samples, mean and largest await, utilisation and write rate.
        checkpoints: per resource: how many were under way during a run, on how many nodes, their mean duration, and
            the mean await of samples that fell into one and of those that did not.
        symbols: per resource and event, from the source with the most samples: perf's symbols with their shared
            object and share of samples.
        detail: one run over time; None where no run has samples with times.
    """

    cpu: pl.DataFrame
    devices: pl.DataFrame
    checkpoints: pl.DataFrame
    symbols: pl.DataFrame
    detail: Detail | None


def study_resources(
    dataset: TableSource, resources: str = "*", *, detail: str = "", iteration: int = 0
) -> ResourceStudy:
    """Summaries of all chosen resources, and one run over time.

    Args:
        dataset: gives `runs`, `cpu_samples`, `device_samples`, `checkpoints` and `perf_symbols`.
        resources: glob patterns, separated by commas. Runs that failed or lost operations are left out.
        detail: resource that is shown over time; empty: the one with the most checkpoints within its runs, or
            with the busiest device.
        iteration: its iteration; 0: the first that has samples.

    Raises:
        InsufficientDataError: the chosen resources have no samples at all.
        UnknownNameError: no run is of a resource that a pattern matches, or the resource or iteration for the detail
            has no samples.
    """
    table = as_polars(dataset.table("runs")).with_columns(pl.col("phase", "status").cast(pl.String))
    check_known(table, resources)
    runs = matching(table, resources).filter(pl.col("status") == "ok")
    cpu = _within(_chosen(dataset, "cpu_samples", runs), runs, by=("node",))
    single = _chosen(dataset, "device_samples", runs).filter(~pl.col("is_group").fill_null(value=False))
    devices = _within(single, runs, by=("node", "device"))
    symbols = _symbols(_chosen(dataset, "perf_symbols", runs))
    if cpu.is_empty() and devices.is_empty() and symbols.is_empty():
        raise InsufficientDataError(
            f"no samples of CPU, devices or perf within runs of resources {resources!r}",
            way_out="see the tables cpu_samples, device_samples and perf_symbols",
        )
    checkpoints = _overlapping(_chosen(dataset, "checkpoints", runs), runs)
    marked = _in_checkpoint(devices, checkpoints)
    return ResourceStudy(
        _cpu_summary(cpu),
        _device_summary(devices),
        _checkpoint_summary(checkpoints, marked),
        symbols,
        _detail(cpu, devices, checkpoints, detail, iteration),
    )


def _chosen(dataset: TableSource, table: str, runs: pl.DataFrame) -> pl.DataFrame:
    frame = as_polars(dataset.table(table))
    return frame.filter(pl.col("resource").is_in(runs["resource"].unique().implode()))


def _with_runs(rows: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    spans = runs.select(
        *_RUN,
        "phase",
        "workload",
        "workers",
        "threads",
        run_start=pl.coalesce("measured_from", "start_time"),
        run_end=pl.coalesce("measured_until", "end_time"),
    ).drop_nulls(["run_start", "run_end"])
    return rows.join(spans, on=list(_RUN))


def _within(samples: pl.DataFrame, runs: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Samples whose whole interval lies within their run, of one sampler per run and `by`, with `elapsed_s`.

    Samples without a time cannot be placed: they are left out, rather than averaged with idle time around the run.
    """
    return _with_runs(one_source(align_to_runs(samples, runs), (*_RUN, *by)), runs)


def _overlapping(checkpoints: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Checkpoints that were under way during their run; if the beginning was not logged, the end decides."""
    begin = pl.coalesce("start_time", "end_time")
    placed = _with_runs(checkpoints, runs)
    during = placed.filter((begin <= pl.col("run_end")) & (pl.col("end_time") >= pl.col("run_start")))
    return during.with_columns(begin_time=begin)


def _seconds(duration: pl.Expr) -> pl.Expr:
    return duration.dt.total_milliseconds() / 1000


def _cpu_summary(cpu: pl.DataFrame) -> pl.DataFrame:
    shares = cpu.with_columns(pl.col("user_percent") + pl.col("nice_percent").fill_null(0))
    means = shares.group_by("resource", "phase", "workload", "workers", "threads").agg(
        pl.col("run_id").n_unique().alias("runs"),
        pl.len().alias("samples"),
        busy_percent().mean().alias("busy_percent"),
        *(pl.col(s).mean() for s in _SHARES),
    )
    return (
        with_operations(means)
        .select("resource", "operation", "workers", "threads", "runs", "samples", "busy_percent", *_SHARES[:-1])
        .sort("operation", "workers", "threads", "resource")
    )


def _device_summary(devices: pl.DataFrame) -> pl.DataFrame:
    return (
        devices.group_by("resource", "device")
        .agg(
            pl.col("run_id").n_unique().alias("runs"),
            pl.len().alias("samples"),
            pl.col("await_ms").mean(),
            pl.col("await_ms").max().alias("largest_await_ms"),
            pl.col("utilization_percent").mean(),
            pl.col("utilization_percent").max().alias("largest_utilization_percent"),
            pl.col("write_kb_s").mean(),
        )
        .sort("utilization_percent", descending=True)
    )


def _in_checkpoint(devices: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Device samples of runs with checkpoints, with a flag for those taken during one."""
    marks = checkpoints.select(*_RUN, "begin_time", "end_time")
    sample = [*_RUN, "source_id", "sample", "device"]
    paired = devices.select(*sample, "sample_time", "await_ms").join(marks, on=list(_RUN))
    during = pl.col("sample_time").is_between(pl.col("begin_time"), pl.col("end_time"))
    return paired.group_by(sample).agg(pl.col("await_ms").first(), during.any().alias("during"))


def _checkpoint_summary(checkpoints: pl.DataFrame, marked: pl.DataFrame) -> pl.DataFrame:
    counts = checkpoints.group_by("resource").agg(
        pl.len().alias("checkpoints"),
        pl.col("node").n_unique().alias("nodes"),
        pl.col("total_s").mean(),
        pl.col("sync_s").mean(),
    )
    awaits = marked.group_by("resource").agg(
        pl.col("during").sum().alias("samples_during"),
        (~pl.col("during")).sum().alias("samples_outside"),
        pl.col("await_ms").filter(pl.col("during")).mean().alias("await_during_ms"),
        pl.col("await_ms").filter(~pl.col("during")).mean().alias("await_outside_ms"),
    )
    return counts.join(awaits, on="resource", how="left").sort("checkpoints", "resource", descending=[True, False])


def _symbols(symbols: pl.DataFrame) -> pl.DataFrame:
    """The recording with the most samples for each resource and event (:func:`top_symbols` chooses its report)."""
    shares = top_symbols(symbols, "symbol", n=max(1, symbols.height))
    least = -pl.col("samples_total").fill_null(0)
    best = pl.col("source_id").sort_by(least, "source_id").first().over("resource", "event")
    columns = ["resource", "event", "shared_object", "symbol", "self_percent", "samples_total"]
    return (
        shares.filter(pl.col("source_id") == best)
        .select(columns)
        .sort("resource", "event", "self_percent", "symbol", descending=[False, False, True, False])
    )


def _detail(
    cpu: pl.DataFrame, devices: pl.DataFrame, checkpoints: pl.DataFrame, resource: str, iteration: int
) -> Detail | None:
    sampled = pl.concat([cpu.select("resource", "iteration"), devices.select("resource", "iteration")]).unique()
    if sampled.is_empty():
        return None
    name = resource or _most_telling(devices, checkpoints, sampled)
    if name not in sampled["resource"]:
        raise UnknownNameError("resource with samples within its runs", name, sampled["resource"].unique())
    iterations = sampled.filter(resource=name)["iteration"].sort().to_list()
    if iteration and iteration not in iterations:
        raise UnknownNameError(f"iteration of {name} with samples", str(iteration), map(str, iterations))
    mine = (pl.col("resource") == name) & pl.col("iteration").eq_missing(iteration or iterations[0])
    node = pl.format("node {}", "node") if devices.filter(mine)["node"].n_unique() > 1 else pl.lit("")
    series = pl.concat_str([pl.col("device"), node], separator=" ").str.strip_chars().alias("series")
    return Detail(
        name,
        iteration or iterations[0],
        cpu.filter(mine).select("node", "elapsed_s", "nice_percent", *_SHARES).sort("node", "elapsed_s"),
        devices.filter(mine).select(series, "elapsed_s", *_DEVICE).sort("series", "elapsed_s"),
        _checkpoint_times(checkpoints.filter(mine)),
    )


def _checkpoint_times(checkpoints: pl.DataFrame) -> pl.DataFrame:
    since = {
        name: _seconds(pl.col(f"{name}_time") - pl.col("run_start")).alias(f"{name}_s") for name in ("start", "end")
    }
    return checkpoints.select("node", *since.values(), "reason", "buffers_written", "sync_s", "total_s").sort("end_s")


def _most_telling(devices: pl.DataFrame, checkpoints: pl.DataFrame, sampled: pl.DataFrame) -> str:
    counts = checkpoints.join(sampled, on=["resource", "iteration"], how="semi")["resource"].value_counts(sort=True)
    if counts.height:
        return str(counts["resource"][0])
    busiest = _device_summary(devices)
    return str(busiest["resource"][0] if busiest.height else sampled["resource"].sort()[0])
