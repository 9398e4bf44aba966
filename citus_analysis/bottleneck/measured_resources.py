"""Resource usage of the machines during runs: connections, CPU, programs, devices, checkpoints, functions of perf.

Means include only samples from within a run (its first to its last status line). The first report of a sampler, which
averages since boot, is excluded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.connection_counts import connections_over_time
from citus_analysis.bottleneck.contrasts import CpuContrast, cpu_contrasts
from citus_analysis.bottleneck.evidence.unplaced_samples import unplaced_samples
from citus_analysis.bottleneck.machine_work import ForeignWork, name_machines, shared_machines, study_foreign_work
from citus_analysis.bottleneck.profiles import cpu_share_by_object, mean_symbols, symbols_of_stacks
from citus_analysis.bottleneck.program_loads import program_loads
from citus_analysis.bottleneck.run_detail import CPU_SHARES, Detail, detail_of
from citus_analysis.bottleneck.samples_in_runs import RUN, align_to_runs, one_source, windows_of
from citus_analysis.bottleneck.stacks import stack_tree
from citus_analysis.bottleneck.timeline import busy_percent, throttling_over_time
from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.run_selection import check_known, matching
from citus_analysis.runs.run_status import allowed_statuses, used_notes
from citus_analysis.runs.setups import described, with_operations

_CONFIGURATION: Final = ("operation", "set_up", "workers", "threads", "records")
_SAMPLES: Final = ("cpu_samples", "device_samples", "process_samples", "pressure_samples")
_COUNTS: Final = (pl.col("run_id").n_unique().alias("runs"), pl.len().alias("samples"))
#: Number of functions from perf that are kept for each resource and event.
_MOST_SYMBOLS: Final = 40


@dataclass(frozen=True)
class ResourceStudy:
    """Samples of the chosen resources.

    Attributes:
        foreign: work on the machines that is not the runs' own (:func:`citus_analysis.bottleneck.machine_work`), in all
            runs of the chosen resources, also in those that are doubtful for it and enter no mean.
        cpu: per resource: operation, set-up, workers, threads, records, runs, samples, mean shares and `busy_percent`.
        programs: result of :func:`program_loads`: CPU time and disk traffic of the programs that pidstat listed.
        pressure: per resource, node, awaited resource and scope: runs, samples, mean and largest share of the time in
            which tasks were stalled (pressure stall information).
        contrasts: CPU time under few and under many client threads, of the set-up with the most runs.
        devices: per resource and device: runs, samples, mean and largest await, utilisation and write rate.
        checkpoints: per resource: number of checkpoints that were under way during a run, number of their nodes, their
            mean duration, and the mean await of samples during a checkpoint and of all others.
        symbols: result of :func:`mean_symbols`: functions by their mean share of perf's samples, over the recordings of
            a resource and event.
        modules: result of :func:`cpu_share_by_object`: shares of the kernel, of postgres and so on.
        stacks: result of :func:`stack_tree`.
        connections: result of :func:`connections_over_time` for one run: that of `detail`, if its sessions were
            recorded, else the one with the most connections.
        throttling: result of :func:`throttling_over_time` for all runs.
        detail: one run over time; None if no run has samples with times.
        warnings: samples that could not be placed in a run.
    """

    foreign: ForeignWork
    cpu: pl.DataFrame
    programs: pl.DataFrame
    pressure: pl.DataFrame
    contrasts: tuple[CpuContrast, ...]
    devices: pl.DataFrame
    checkpoints: pl.DataFrame
    symbols: pl.DataFrame
    modules: pl.DataFrame
    stacks: pl.DataFrame
    connections: pl.DataFrame
    throttling: pl.DataFrame
    detail: Detail | None
    warnings: tuple[str, ...] = ()

    @property
    def busy(self) -> pl.DataFrame:
        """Mean busy share of CPU time: a row per operation, set-up, size and records, a column per number of threads.

        Rows with the most values come first.
        """
        index = ["operation", "set_up", "workers", *(["records"] if self.cpu["records"].n_unique() > 1 else [])]
        noun = pl.when(pl.col("threads") == 1).then(pl.lit("thread")).otherwise(pl.lit("threads"))
        named = self.cpu.sort("threads").with_columns(column=pl.format("{}_{}_percent", "threads", noun))
        # Resources that share a row count by their samples.
        weighted = named.group_by(*index, "column", maintain_order=True).agg(
            busy_percent=(pl.col("busy_percent") * pl.col("samples")).sum() / pl.col("samples").sum()
        )
        wide = weighted.pivot("column", index=index, values="busy_percent", maintain_order=True)
        if self.cpu.is_empty():
            return wide
        measured = pl.sum_horizontal(pl.exclude(index).is_not_null())
        return wide.sort(-measured.cast(pl.Int32), *index, nulls_last=True)


def study_resources(
    dataset: TableSource,
    resources: str = "*",
    *,
    detail: str = "",
    iteration: int = 0,
    allow: str | Collection[str] = (),
) -> ResourceStudy:
    """Summaries of all chosen resources, and one run over time.

    Args:
        dataset: gives `runs`, `settings`, `cpu_samples`, `device_samples`, `process_samples`, `pressure_samples`,
            `checkpoints`, `perf_symbols`, `perf_stacks`, `activity_samples` and `throttle_samples`.
        resources: glob patterns, separated by commas. Runs that are not ok are left out.
        detail: resource that is shown over time; empty: that of the run with the most checkpoints for each node, or
            with the busiest device.
        iteration: its iteration; 0: the iteration with the most checkpoints, or the first with samples.
        allow: `degraded` to include degraded runs.

    Raises:
        UsageError: another status cannot be allowed.
        InsufficientDataError: the chosen resources have no samples at all.
        UnknownNameError: no run is of a resource that a pattern matches, or the resource or iteration for the detail
            has no samples.
    """
    runs = _runs_of(dataset, resources, allow)
    throttle, nodes = _chosen(dataset, "throttle_samples", runs), _chosen(dataset, "nodes", runs)
    machines = shared_machines(nodes, throttle, _chosen(dataset, "process_samples", runs))
    samples = {name: name_machines(_chosen(dataset, name, runs), machines) for name in _SAMPLES}
    cpu = _within(samples["cpu_samples"], runs, by=("node",))
    devices = _within(samples["device_samples"].remove(pl.col("is_group")), runs, by=("node", "device"))
    stacks = _chosen(dataset, "perf_stacks", runs)
    symbols = _with_symbols_of_stacks(_chosen(dataset, "perf_symbols", runs), stacks)
    programs = program_loads(samples["process_samples"], runs)
    pressure = _pressure_summary(samples["pressure_samples"], runs)
    unplaced = unplaced_samples(samples, runs)
    if all(one.is_empty() for one in (cpu, devices, programs, pressure, symbols)):
        raise InsufficientDataError(
            f"no samples of CPU, devices, processes, pressure or perf within runs of resources {resources!r}",
            way_out=_way_out(unplaced, runs),
        )
    checkpoints = _overlapping(_chosen(dataset, "checkpoints", runs), runs)
    marked = _in_checkpoint(devices, checkpoints)
    shown = detail_of(cpu, devices, checkpoints, detail, iteration)
    return ResourceStudy(
        foreign=_foreign_work(dataset, resources),
        cpu=_cpu_summary(cpu, runs),
        programs=programs,
        pressure=pressure,
        contrasts=cpu_contrasts(samples["cpu_samples"], _of_main_set_up(runs)),
        devices=_device_summary(devices),
        checkpoints=_checkpoint_summary(checkpoints, marked),
        symbols=mean_symbols(symbols, n=_MOST_SYMBOLS),
        modules=cpu_share_by_object(symbols),
        stacks=stack_tree(stacks, symbols),
        connections=_connections(_chosen(dataset, "activity_samples", runs), runs, shown),
        throttling=throttling_over_time(throttle, runs),
        detail=shown,
        warnings=(*used_notes(runs), *unplaced),
    )


def _runs_of(dataset: TableSource, resources: str, allow: str | Collection[str]) -> pl.DataFrame:
    table = as_polars(dataset.table("runs")).with_columns(pl.col("phase", "status").cast(pl.String))
    check_known(table, resources)
    chosen = matching(table, resources).filter(pl.col("status").is_in(allowed_statuses(allow)))
    return described(chosen, as_polars(dataset.table("settings")))


def _foreign_work(dataset: TableSource, resources: str) -> ForeignWork:
    """Foreign work in the runs of some resources, which are compared with all runs of their kind."""
    found = study_foreign_work(dataset)
    return ForeignWork(matching(found.seconds, resources), matching(found.runs, resources))


def _way_out(unplaced: list[str], runs: pl.DataFrame) -> str:
    if runs.is_empty():
        return "the runs failed or lost operations: see the table runs; degraded ones can be allowed (allow=degraded)"
    tables = f"see the tables {', '.join(_SAMPLES)} and perf_symbols"
    return " ".join(unplaced).removesuffix(".") or tables


def _of_main_set_up(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs of the set-up without a name, or, if all set-ups have names, of the most frequent."""
    most = runs["variant"].mode().sort().first() if runs.height else ""
    unnamed = runs.filter((pl.col("family") == "") & (pl.col("settings") == "") & (pl.col("limit") == ""))
    return unnamed if unnamed.height else runs.filter(variant=most)


def _connections(activity: pl.DataFrame, runs: pl.DataFrame, detail: Detail | None) -> pl.DataFrame:
    found = connections_over_time(activity, runs)
    if detail is not None:
        of_iteration = pl.col("iteration").eq_missing(pl.lit(detail.iteration, pl.Int32))
        mine = found.filter(pl.col("resource") == detail.resource, of_iteration)
        found = mine if mine.height else found
    most = found.group_by("run_id", maintain_order=True).agg(pl.col("client", "internal").max())
    last = most.sort("client", "internal", "run_id")["run_id"].tail(1)
    return found.filter(pl.col("run_id").is_in(last.implode()))


def _chosen(dataset: TableSource, table: str, runs: pl.DataFrame) -> pl.DataFrame:
    frame = as_polars(dataset.table(table))
    return frame.filter(pl.col("resource").is_in(runs["resource"].unique().implode()))


def _with_symbols_of_stacks(symbols: pl.DataFrame, stacks: pl.DataFrame) -> pl.DataFrame:
    """Symbols of reports; for recordings without a report, the symbols at the leaves of their stacks."""
    found = symbols_of_stacks(stacks).join(symbols, on=[*RUN, "node", "event"], how="anti", nulls_equal=True)
    return pl.concat([symbols, found], how="diagonal_relaxed") if found.height else symbols


def _with_runs(rows: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    return rows.join(windows_of(runs, "phase", "workload", "workers", "threads", "records"), on=RUN)


def _within(samples: pl.DataFrame, runs: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Samples whose whole interval lies within their run, of one sampler per run and `by`, with `elapsed_s`.

    Samples without a time cannot be placed: they are left out, rather than averaged with idle time around the run.
    """
    return _with_runs(one_source(align_to_runs(samples, runs), (*RUN, *by)), runs)


def _overlapping(checkpoints: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Checkpoints that were under way during their run. A begin that was not logged follows from the total time.

    If neither is known, the end decides.
    """
    total = pl.duration(milliseconds=(pl.col("total_s") * 1_000).round().cast(pl.Int64))
    start = pl.coalesce("start_time", pl.col("end_time") - total)
    placed = _with_runs(checkpoints, runs).with_columns(start_time=start)
    begin = pl.coalesce("start_time", "end_time")
    during = placed.filter((begin <= pl.col("until")) & (pl.col("end_time") >= pl.col("begin")))
    return during.with_columns(begin_time=begin)


def _cpu_summary(cpu: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    set_ups = runs.select(*RUN, set_up="variant")
    shares = cpu.join(set_ups, on=RUN).with_columns(pl.col("user_percent") + pl.col("nice_percent").fill_null(0))
    means = shares.group_by(
        *("resource", "phase", "workload", "set_up", "workers", "threads", "records"), maintain_order=True
    ).agg(
        pl.col("run_id").n_unique().alias("runs"),
        busy_percent().count().alias("samples"),
        busy_percent().mean().alias("busy_percent"),
        pl.col(CPU_SHARES).mean(),
    )
    shown = ("resource", *_CONFIGURATION, "runs", "samples", "busy_percent", *CPU_SHARES[:-1])
    return with_operations(means).select(shown).sort("operation", "workers", "threads", "set_up", "records", "resource")


def _device_summary(devices: pl.DataFrame) -> pl.DataFrame:
    means = devices.group_by("resource", "device", maintain_order=True).agg(
        *_COUNTS,
        pl.col("await_ms").mean(),
        pl.col("await_ms").max().alias("largest_await_ms"),
        # Intervals of a sampler are not exact, so that a busy device may seem busy for more than all of one.
        pl.col("utilization_percent").clip(upper_bound=100.0).mean(),
        pl.col("utilization_percent").clip(upper_bound=100.0).max().alias("largest_utilization_percent"),
        pl.col("write_kb_s").mean(),
    )
    return means.sort("utilization_percent", descending=True)


def _pressure_summary(pressure: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    of = ["resource", "node", "pressure", "scope"]
    placed = align_to_runs(pressure.drop_nulls("stalled_percent"), runs)
    # `full` of the CPU is always 0 for a whole machine.
    counted = one_source(placed, ["run_id", *of]).filter((pl.col("pressure") != "cpu") | (pl.col("scope") == "some"))
    means = counted.group_by(of, maintain_order=True).agg(
        *_COUNTS,
        pl.col("stalled_percent").mean(),
        # Dumps whose times are whole seconds may show more.
        pl.col("stalled_percent").max().clip(upper_bound=100.0).alias("largest_stalled_percent"),
    )
    return means.sort("stalled_percent", *of, descending=[True, *(False for _ in of)])


def _in_checkpoint(devices: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Device samples of runs with checkpoints, with the flag `during` for samples during a checkpoint."""
    marks = checkpoints.select(*RUN, "begin_time", "end_time")
    sample = [*RUN, "source_id", "sample", "device"]
    paired = devices.select(*sample, "sample_time", "await_ms").join(marks, on=RUN)
    during = pl.col("sample_time").is_between(pl.col("begin_time"), pl.col("end_time"))
    return paired.group_by(sample, maintain_order=True).agg(pl.col("await_ms").first(), during.any().alias("during"))


def _checkpoint_summary(checkpoints: pl.DataFrame, marked: pl.DataFrame) -> pl.DataFrame:
    counts = checkpoints.group_by("resource", maintain_order=True).agg(
        pl.len().alias("checkpoints"),
        pl.col("node").n_unique().alias("nodes"),
        pl.col("total_s").mean(),
        pl.col("sync_s").mean(),
    )
    awaits = marked.group_by("resource", maintain_order=True).agg(
        pl.col("during").sum().alias("samples_during"),
        (~pl.col("during")).sum().alias("samples_outside"),
        pl.col("await_ms").filter(pl.col("during")).mean().alias("await_during_ms"),
        pl.col("await_ms").filter(~pl.col("during")).mean().alias("await_outside_ms"),
    )
    return counts.join(awaits, on="resource", how="left").sort("checkpoints", "resource", descending=[True, False])
