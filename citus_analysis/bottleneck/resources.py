"""Resource usage of the machines during runs: connections, CPU, programs, devices, checkpoints, functions of perf.

Means include only samples from within a run (its first to its last status line). The first report of a sampler, which
averages since boot, is excluded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.machine_work import (
    ForeignWork,
    find_shared_machines,
    name_machines,
    place_text,
    study_foreign_work,
)
from citus_analysis.bottleneck.profiles import (
    CpuContrast,
    compare_cpu_times,
    compute_cpu_share_by_object,
    derive_symbols_from_stacks,
    mean_symbols,
    stack_tree,
)
from citus_analysis.bottleneck.samples import (
    NODE,
    RUN,
    add_configuration_columns,
    align_to_runs,
    build_run_windows,
    describe_unplaced_samples,
    has_out_of_range_values,
    make_busy_percent_expr,
    make_sampling_interval_s_expr,
    null_out_of_range_values,
    select_in_range_samples,
    select_one_source,
    select_throttling_over_time,
)
from citus_analysis.core.frames import Frame, TableSource, convert_to_polars, return_callers_frame_kind
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.formats.activity import is_from_node
from citus_analysis.runs.selection import check_known, matching
from citus_analysis.runs.set_ups import add_operation_column, add_setup_descriptions
from citus_analysis.runs.status import list_included_statuses, write_used_run_notes
from citus_analysis.texts.words import make_natural_expr

# One run over time: the samples of its machines, and the checkpoints that were under way.

CPU_SHARES: Final = ("user_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")
_DEVICE: Final = ("await_ms", "utilization_percent", "write_kb_s", "read_kb_s", "queue_length")
#: Least and most seconds that are shown before and after a checkpoint.
_LEAST_REACH_S: Final = 2.0
_MOST_REACH_S: Final = 30.0
#: Largest share of the run that a window may have; a larger window would be no enlargement.
_MOST_OF: Final = 0.8


@dataclass(frozen=True)
class RunDetail:
    """One run over time.

    Attributes:
        resource: its resource.
        iteration: its iteration.
        cpu: `node`, `elapsed_s` and the shares of CPU time.
        devices: `series` (node and device), `elapsed_s`, `await_ms`, `utilization_percent`, `write_kb_s`.
        checkpoints: `node`, `start_s`, `end_s`, `reason`, `buffers_written`, `sync_s`, `total_s`.
        around: begin and end (seconds) of a window around the checkpoint during which device requests took longest;
            None if there was no checkpoint, or if the window would be most of the run.
    """

    resource: str
    iteration: int
    cpu: pl.DataFrame
    devices: pl.DataFrame
    checkpoints: pl.DataFrame
    around: tuple[float, float] | None


def choose_run_detail(
    cpu: pl.DataFrame, devices: pl.DataFrame, checkpoints: pl.DataFrame, resource: str = "", iteration: int = 0
) -> RunDetail | None:
    """The run that is shown over time.

    Args:
        cpu: samples of CPU time within runs, with `elapsed_s`.
        devices: samples of devices within runs, likewise.
        checkpoints: checkpoints that were under way during runs, with the `begin` of their run.
        resource: its resource; empty: that of the run with the most checkpoints for each node, or with the busiest
            device.
        iteration: its iteration; 0: the iteration with the most checkpoints, or the first with samples.

    Raises:
        UnknownNameError: the resource or the iteration has no samples.
    """
    sampled = pl.concat([cpu.select("resource", "iteration"), devices.select("resource", "iteration")]).unique()
    if sampled.is_empty():
        return None
    name = resource or _choose_resource_to_show(devices, checkpoints, sampled)
    if name not in sampled["resource"]:
        raise UnknownNameError("resource with samples within its runs", name, sampled["resource"].unique())
    iterations = sampled.filter(resource=name)["iteration"].sort().to_list()
    if iteration and iteration not in iterations:
        raise UnknownNameError(f"iteration of {name} with samples", str(iteration), map(str, iterations))
    logged = checkpoints.filter(pl.col("resource") == name, pl.col("iteration").is_in(iterations, nulls_equal=True))
    chosen = iteration or _find_most_frequent(logged["iteration"]) or iterations[0]
    mine = (pl.col("resource") == name) & pl.col("iteration").eq_missing(pl.lit(chosen, pl.Int32))
    shares = (make_busy_percent_expr().alias("busy_percent"), "nice_percent", *CPU_SHARES)
    used = cpu.filter(mine).select("node", "elapsed_s", *shares).sort("node", "elapsed_s")
    shown, marks = _name_device_lines(devices.filter(mine)), _tabulate_checkpoint_times(checkpoints.filter(mine))
    return RunDetail(name, chosen, used, shown, marks, _choose_checkpoint_window(shown, marks))


def _find_most_frequent(values: pl.Series) -> int:
    """The most frequent number, the smallest of several; 0 for none."""
    modes = values.drop_nulls().mode().sort()
    return int(modes[0]) if len(modes) else 0


def _name_device_lines(devices: pl.DataFrame) -> pl.DataFrame:
    """Device samples with a name for each line of a figure, which includes the node if there are several."""
    node = _make_node_label_expr(devices) if devices["node"].n_unique() > 1 else pl.lit("")
    series = pl.concat_str([pl.col("device"), node], separator=" ").str.strip_chars().alias("series")
    return devices.select(series, "elapsed_s", *_DEVICE).sort("series", "elapsed_s")


def _make_node_label_expr(devices: pl.DataFrame) -> pl.Expr:
    names = devices["node"].cast(pl.String).unique().drop_nulls()
    return pl.col("node").cast(pl.String).replace({name: place_text(name) for name in names})


def _choose_checkpoint_window(devices: pl.DataFrame, checkpoints: pl.DataFrame) -> tuple[float, float] | None:
    """The time around the checkpoint with the largest await, with about as much before and after it as it took."""
    spans = checkpoints.select(begin=pl.coalesce("start_s", "end_s"), end="end_s").drop_nulls()
    waits = devices.select("elapsed_s", "await_ms").drop_nulls()
    during = waits.join_where(spans, pl.col("elapsed_s").is_between(pl.col("begin"), pl.col("end")))
    if during.is_empty():
        return None
    begin, end = during.sort("await_ms", "begin").select("begin", "end").row(-1)
    reach = min(max(end - begin, _LEAST_REACH_S), _MOST_REACH_S)
    length = float(devices["elapsed_s"].to_numpy().max())
    window = (max(0.0, begin - reach), min(length, end + reach))
    return window if window[1] - window[0] < _MOST_OF * length else None


def _tabulate_checkpoint_times(checkpoints: pl.DataFrame) -> pl.DataFrame:
    since = [
        ((pl.col(f"{name}_time") - pl.col("begin")).dt.total_milliseconds() / 1000).alias(f"{name}_s")
        for name in ("start", "end")
    ]
    return checkpoints.select("node", *since, "reason", "buffers_written", "sync_s", "total_s").sort("end_s")


def _choose_resource_to_show(devices: pl.DataFrame, checkpoints: pl.DataFrame, sampled: pl.DataFrame) -> str:
    logged = checkpoints.join(sampled, on=["resource", "iteration"], how="semi", nulls_equal=True)
    if logged.height:
        counts = logged.group_by("resource", "iteration").agg(each=pl.len() / pl.col("node").n_unique())
        return str(counts.sort("each", "resource", descending=[True, False])["resource"][0])
    means = devices.group_by("resource", "device", maintain_order=True).agg(pl.col("utilization_percent").mean())
    busiest = means.sort("utilization_percent", "resource", descending=[True, False], nulls_last=True)
    return str(busiest["resource"][0] if busiest.height else sampled["resource"].sort()[0])


# CPU time and disk traffic of programs during runs: what pidstat says of the processes of each.

_SUMMED: Final = ("cpu_percent", "wait_percent", "read_kb_s", "write_kb_s")
#: A name, or a command line without its folder and arguments: `postgres: user db` and `/usr/bin/postgres -D ...`.
_PROGRAM: Final = r"^(?:/(?:[^\s/]*/)*)?([^\s:/]+)"


@return_callers_frame_kind
def sum_program_loads(samples: Frame, runs: Frame, by: Sequence[str] = ("resource",)) -> pl.DataFrame:
    """Programs with the CPU time and disk traffic of all their processes during runs, those with most CPU time first.

    A sample in which one of these values is doubtful is left out.

    Args:
        samples: the table `process_samples`. Rows of threads are left out, as their processes have rows of their own.
        runs: the table `runs`, with the columns of `by`.
        by: columns of runs whose means are taken together.

    Returns:
        a row per `by`, `node` and `program`: `runs` (with samples of the node), `samples`, `cpu_percent` (of one CPU)
        and `wait_percent` (in which processes could run but waited for a CPU), `read_kb_s`, `write_kb_s`: sums over the
        program's processes, means over the samples of a run, then over runs. A program that a sample or a run does not
        list counts as 0 there; a column is null where it was never reported. `cpu_share_percent` and
        `disk_share_percent` are the program's shares of the sums over all programs that were listed.

    Raises:
        UsageError: an argument is not a frame, or lacks a column.

    Example:
        >>> from datetime import UTC, datetime
        >>> times = [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (0, 1, 2, 9)]
        >>> run = {"resource": "r", "run_id": "r/1"}
        >>> runs = pl.DataFrame([run | {"start_time": times[0], "end_time": times[-1]}])
        >>> row = run | {"node": "1", "source_id": "s", "thread": None, "since_boot": False}
        >>> row |= {"wait_percent": 0.0, "read_kb_s": None, "write_kb_s": None}
        >>> seen = [(1, "postgres: monitor", 30.0), (1, "postgres: user ycsb", 50.0), (2, "pgbench", 20.0)]
        >>> some = [
        ...     row | {"sample": at, "sample_time": times[at], "command": command, "cpu_percent": percent}
        ...     for at, command, percent in seen
        ... ]
        >>> found = sum_program_loads(pl.DataFrame(some), runs)
        >>> found.select("program", "samples", "cpu_percent", "cpu_share_percent").rows()
        [('postgres', 2, 40.0, 80.0), ('pgbench', 2, 10.0, 20.0)]
    """
    whole, known = convert_to_polars(samples).filter(pl.col("thread").is_null()), convert_to_polars(runs)
    placed = select_in_range_samples(select_one_source(align_to_runs(whole, known), NODE), _SUMMED)
    placed = add_configuration_columns(placed, known, by)
    moments = placed.group_by(*by, "run_id", "node").agg(moments=pl.col("sample_time").n_unique())
    of_nodes = moments.group_by(*by, "node").agg(runs=pl.len(), samples=pl.col("moments").sum())
    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _SUMMED]
    of_runs = (
        placed.with_columns(program=pl.col("command").cast(pl.String).str.extract(_PROGRAM).fill_null("unknown"))
        .group_by(*by, "run_id", "node", "program")
        .agg(sums)
        .join(moments, on=[*by, "run_id", "node"], nulls_equal=True)
        .with_columns(pl.col(name) / pl.col("moments") for name in _SUMMED)
    )
    means = of_runs.group_by(*by, "node", "program").agg(sums).join(of_nodes, on=[*by, "node"], nulls_equal=True)
    means = means.with_columns(pl.col(name) / pl.col("runs") for name in _SUMMED)
    disk = pl.sum_horizontal(pl.col("read_kb_s", "write_kb_s"))
    return means.select(
        *by, "node", "program", "runs", "samples", "cpu_percent",
        _share(pl.col("cpu_percent"), (*by, "node")).alias("cpu_share_percent"),
        "wait_percent", "read_kb_s", "write_kb_s",
        _share(disk, (*by, "node")).alias("disk_share_percent"),
    ).sort(
        *by, "cpu_percent", "node", "program", descending=[*(False for _ in by), True, False, False], nulls_last=True
    )  # fmt: skip


def _share(value: pl.Expr, over: Sequence[str]) -> pl.Expr:
    """Percentage of the sum; null if that is 0."""
    total = value.sum().over(over)
    return pl.when(total > 0).then(100 * value / total)


# Connections of each node over time: of clients, and from other nodes of the cluster.

#: The runner's own sessions, including the session that takes the snapshots.
_RUNNER: Final = "citus-analysis"
_RUN: Final = ("resource", "run_id", "iteration", "node")


@return_callers_frame_kind
def count_connections_over_time(activity_samples: Frame, runs: Frame, *, margin_s: float = 5.0) -> pl.DataFrame:
    """Open connections per node and snapshot: of clients, and internal ones, which work for another node's session.

    Background processes, parallel workers and the runner's own sessions are not counted.

    Args:
        activity_samples: the table `activity_samples`.
        runs: the table `runs`.
        margin_s: seconds by which a snapshot may lie outside the measured time, to show how connections are opened and
            closed.

    Returns:
        `resource`, `run_id`, `iteration`, `node`, `elapsed_s` (since the measured time began), `client`, `internal`.
    """
    samples = convert_to_polars(activity_samples).with_columns(since_boot=pl.lit(value=False))
    inside = select_one_source(align_to_runs(samples, runs, margin_s=margin_s), _RUN)
    application = pl.col("application").cast(pl.String).fill_null("")
    internal = is_from_node()
    backend = pl.col("backend_type").cast(pl.String) == "client backend"
    connection = backend & pl.col("leader_pid").is_null() & (application != _RUNNER)
    counts = inside.group_by(*_RUN, "elapsed_s", maintain_order=True).agg(
        client=(connection & ~internal).sum(), internal=(connection & internal).sum()
    )
    return counts.sort(*_RUN, "elapsed_s")


@return_callers_frame_kind
def compute_connection_balance(connections: Frame) -> pl.DataFrame:
    """The connections of a run on each of its nodes.

    Args:
        connections: result of :func:`count_connections_over_time`.

    Returns:
        Per run and node: `samples`, and medians over its snapshots within the measured time: `client`, `internal`.
    """
    measured = convert_to_polars(connections).filter(pl.col("elapsed_s") >= 0)
    medians = (pl.len().alias("samples"), pl.col("client", "internal").median())
    order = (make_natural_expr(name) if name == "node" else pl.col(name) for name in _RUN)
    return measured.group_by(_RUN, maintain_order=True).agg(medians).sort(*order, nulls_last=True)


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
        programs: result of :func:`sum_program_loads`: CPU time and disk traffic of the programs that pidstat listed.
        pressure: per resource, node, awaited resource and scope: runs, samples, mean and largest share of the time in
            which tasks were stalled (pressure stall information).
        contrasts: CPU time under few and under many client threads, of the set-up with the most runs.
        devices: per resource and device: runs, samples, mean and largest await, utilisation and write rate.
        checkpoints: per resource: number of checkpoints that were under way during a run, number of their nodes, their
            mean duration, and the mean await of samples during a checkpoint and of all others.
        symbols: result of :func:`mean_symbols`: functions by their mean share of perf's samples, over the recordings of
            a resource and event.
        modules: result of :func:`compute_cpu_share_by_object`: shares of the kernel, of postgres and so on.
        stacks: result of :func:`stack_tree`.
        connections: result of :func:`count_connections_over_time` for one run: that of `detail`, if its sessions were
            recorded, else the one with the most connections.
        throttling: result of :func:`select_throttling_over_time` for all runs.
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
    detail: RunDetail | None
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
    include_status: str | Collection[str] = (),
) -> ResourceStudy:
    """Summaries of all chosen resources, and one run over time.

    Args:
        dataset: gives `runs`, `settings`, `cpu_samples`, `device_samples`, `process_samples`, `pressure_samples`,
            `checkpoints`, `perf_symbols`, `perf_stacks`, `activity_samples` and `throttle_samples`.
        resources: glob patterns, separated by commas. Runs that are not ok are left out.
        detail: resource that is shown over time; empty: that of the run with the most checkpoints for each node, or
            with the busiest device.
        iteration: its iteration; 0: the iteration with the most checkpoints, or the first with samples.
        include_status: `degraded` to include degraded runs.

    Raises:
        UsageError: another status cannot be allowed.
        InsufficientDataError: the chosen resources have no samples at all.
        UnknownNameError: no run is of a resource that a pattern matches, or the resource or iteration for the detail
            has no samples.
    """
    runs = _select_resource_runs(dataset, resources, include_status)
    throttle, nodes = _select_table_rows(dataset, "throttle_samples", runs), _select_table_rows(dataset, "nodes", runs)
    machines = find_shared_machines(nodes, throttle, _select_table_rows(dataset, "process_samples", runs))
    samples = {name: name_machines(_select_table_rows(dataset, name, runs), machines) for name in _SAMPLES}
    cpu = _select_samples_within_runs(samples["cpu_samples"], runs, by=("node",))
    devices = _select_samples_within_runs(
        samples["device_samples"].remove(pl.col("is_group")), runs, by=("node", "device")
    )
    stacks = _select_table_rows(dataset, "perf_stacks", runs)
    symbols = _add_symbols_from_stacks(_select_table_rows(dataset, "perf_symbols", runs), stacks)
    programs = sum_program_loads(samples["process_samples"], runs)
    pressure = _summarise_pressure(samples["pressure_samples"], runs)
    unplaced = describe_unplaced_samples(samples, runs)
    if all(one.is_empty() for one in (cpu, devices, programs, pressure, symbols)):
        raise InsufficientDataError(
            f"no samples of CPU, devices, processes, pressure or perf within runs of resources {resources!r}",
            hint=_choose_hint(unplaced, runs),
        )
    checkpoints = _select_overlapping_checkpoints(_select_table_rows(dataset, "checkpoints", runs), runs)
    marked = _mark_samples_during_checkpoint(devices, checkpoints)
    shown = choose_run_detail(cpu, devices, checkpoints, detail, iteration)
    return ResourceStudy(
        foreign=_foreign_work(dataset, resources),
        cpu=_summarise_cpu(cpu, runs),
        programs=programs,
        pressure=pressure,
        contrasts=compare_cpu_times(samples["cpu_samples"], _select_main_set_up_runs(runs)),
        devices=_summarise_devices(devices),
        checkpoints=_summarise_checkpoints(checkpoints, marked),
        symbols=mean_symbols(symbols, n=_MOST_SYMBOLS),
        modules=compute_cpu_share_by_object(symbols),
        stacks=stack_tree(stacks, symbols),
        connections=_select_detail_connections(_select_table_rows(dataset, "activity_samples", runs), runs, shown),
        throttling=select_throttling_over_time(throttle, runs),
        detail=shown,
        warnings=(*write_used_run_notes(runs), *unplaced),
    )


def _select_resource_runs(dataset: TableSource, resources: str, include_status: str | Collection[str]) -> pl.DataFrame:
    table = convert_to_polars(dataset.table("runs")).with_columns(pl.col("phase", "status").cast(pl.String))
    check_known(table, resources)
    chosen = matching(table, resources).filter(pl.col("status").is_in(list_included_statuses(include_status)))
    return add_setup_descriptions(chosen, convert_to_polars(dataset.table("settings")))


def _foreign_work(dataset: TableSource, resources: str) -> ForeignWork:
    """Foreign work in the runs of some resources, which are compared with all runs of their kind."""
    found = study_foreign_work(dataset)
    return ForeignWork(matching(found.seconds, resources), matching(found.runs, resources))


def _choose_hint(unplaced: list[str], runs: pl.DataFrame) -> str:
    if runs.is_empty():
        return "the runs failed or lost operations: see the table runs; include_status=degraded uses degraded ones"
    tables = f"see the tables {', '.join(_SAMPLES)} and perf_symbols"
    return " ".join(unplaced).removesuffix(".") or tables


def _select_main_set_up_runs(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs of the set-up without a name, or, if all set-ups have names, of the most frequent."""
    most = runs["variant"].mode().sort().first() if runs.height else ""
    unnamed = runs.filter((pl.col("family") == "") & (pl.col("settings") == "") & (pl.col("limit") == ""))
    return unnamed if unnamed.height else runs.filter(variant=most)


def _select_detail_connections(activity: pl.DataFrame, runs: pl.DataFrame, detail: RunDetail | None) -> pl.DataFrame:
    found = count_connections_over_time(activity, runs)
    if detail is not None:
        of_iteration = pl.col("iteration").eq_missing(pl.lit(detail.iteration, pl.Int32))
        mine = found.filter(pl.col("resource") == detail.resource, of_iteration)
        found = mine if mine.height else found
    most = found.group_by("run_id", maintain_order=True).agg(pl.col("client", "internal").max())
    last = most.sort("client", "internal", "run_id")["run_id"].tail(1)
    return found.filter(pl.col("run_id").is_in(last.implode()))


def _select_table_rows(dataset: TableSource, table: str, runs: pl.DataFrame) -> pl.DataFrame:
    frame = convert_to_polars(dataset.table(table))
    return frame.filter(pl.col("resource").is_in(runs["resource"].unique().implode()))


def _add_symbols_from_stacks(symbols: pl.DataFrame, stacks: pl.DataFrame) -> pl.DataFrame:
    """Symbols of reports; for recordings without a report, the symbols at the leaves of their stacks."""
    found = derive_symbols_from_stacks(stacks).join(symbols, on=[*RUN, "node", "event"], how="anti", nulls_equal=True)
    return pl.concat([symbols, found], how="diagonal_relaxed") if found.height else symbols


def _add_run_columns(rows: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    return rows.join(build_run_windows(runs, "phase", "workload", "workers", "threads", "records"), on=RUN)


def _select_samples_within_runs(samples: pl.DataFrame, runs: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Samples whose whole interval lies within their run, of one sampler per run and `by`, with `elapsed_s`.

    Samples without a time cannot be placed: they are left out, rather than averaged with idle time around the run.
    """
    return _add_run_columns(select_one_source(align_to_runs(samples, runs), (*RUN, *by)), runs)


def _select_overlapping_checkpoints(checkpoints: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Checkpoints that were under way during their run. A begin that was not logged follows from the total time.

    If neither is known, the end decides.
    """
    total = pl.duration(milliseconds=(pl.col("total_s") * 1_000).round().cast(pl.Int64))
    start = pl.coalesce("start_time", pl.col("end_time") - total)
    placed = _add_run_columns(checkpoints, runs).with_columns(start_time=start)
    begin = pl.coalesce("start_time", "end_time")
    during = placed.filter((begin <= pl.col("until")) & (pl.col("end_time") >= pl.col("begin")))
    return during.with_columns(begin_time=begin)


def _summarise_cpu(cpu: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    set_ups = runs.select(*RUN, set_up="variant")
    shares = cpu.join(set_ups, on=RUN).with_columns(pl.col("user_percent") + pl.col("nice_percent").fill_null(0))
    means = shares.group_by(
        *("resource", "phase", "workload", "set_up", "workers", "threads", "records"), maintain_order=True
    ).agg(
        pl.col("run_id").n_unique().alias("runs"),
        make_busy_percent_expr().count().alias("samples"),
        make_busy_percent_expr().mean().alias("busy_percent"),
        pl.col(CPU_SHARES).mean(),
    )
    shown = ("resource", *_CONFIGURATION, "runs", "samples", "busy_percent", *CPU_SHARES[:-1])
    return (
        add_operation_column(means)
        .select(shown)
        .sort("operation", "workers", "threads", "set_up", "records", "resource")
    )


def _summarise_devices(devices: pl.DataFrame) -> pl.DataFrame:
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


def _summarise_pressure(pressure: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    of = ["resource", "node", "pressure", "scope"]
    placed = align_to_runs(pressure.drop_nulls("stalled_percent"), runs)
    # `full` of the CPU is always 0 for a whole machine.
    counted = select_one_source(placed, ["run_id", *of]).filter(
        (pl.col("pressure") != "cpu") | (pl.col("scope") == "some")
    )
    means = counted.group_by(of, maintain_order=True).agg(
        *_COUNTS,
        pl.col("stalled_percent").mean(),
        # Dumps whose times are whole seconds may show more.
        pl.col("stalled_percent").max().clip(upper_bound=100.0).alias("largest_stalled_percent"),
    )
    return means.sort("stalled_percent", *of, descending=[True, *(False for _ in of)])


def _mark_samples_during_checkpoint(devices: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Device samples of runs with checkpoints, with the flag `during` for samples during a checkpoint."""
    marks = checkpoints.select(*RUN, "begin_time", "end_time")
    sample = [*RUN, "source_id", "sample", "device"]
    paired = devices.select(*sample, "sample_time", "await_ms").join(marks, on=RUN)
    during = pl.col("sample_time").is_between(pl.col("begin_time"), pl.col("end_time"))
    return paired.group_by(sample, maintain_order=True).agg(pl.col("await_ms").first(), during.any().alias("during"))


def _summarise_checkpoints(checkpoints: pl.DataFrame, marked: pl.DataFrame) -> pl.DataFrame:
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


# Utilisation of CPUs and devices during each run.

#: Fewest samples for a 95th percentile; of fewer samples it would be the largest.
LEAST_FOR_P95: Final = 20

_KEY: Final = (*NODE, "component", "name")
_SHARES: Final = ("user_percent", "system_percent", "iowait_percent", "steal_percent")
_DEVICE_COLUMNS: Final = ("queue_length", "read_kb_s", "write_kb_s")
_RATES: Final = ("reads_per_s", "writes_per_s", "discards_per_s")


@return_callers_frame_kind
def compute_resource_utilization(cpu_samples: Frame, device_samples: Frame, runs: Frame | None = None) -> pl.DataFrame:
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
    cpu = null_out_of_range_values(convert_to_polars(cpu_samples)).with_columns(
        component=pl.lit("cpu"), name=pl.lit("cpu"), busy=make_busy_percent_expr()
    )
    device = null_out_of_range_values(convert_to_polars(device_samples)).filter(
        ~pl.col("is_group").fill_null(value=False)
    )
    device = device.with_columns(component=pl.lit("device"), name="device", busy="utilization_percent")
    requests = pl.sum_horizontal(_RATES)
    known = pl.any_horizontal(pl.col(name).is_not_null() for name in _RATES)
    counted = pl.when(known).then(requests).otherwise("transfers_per_s")
    device = device.with_columns(requests=pl.when(~has_out_of_range_values(device, *_RATES)).then(counted))
    device = device.with_columns(waited=pl.col("requests") * pl.col("await_ms"))
    tables = [
        _summarise_utilization(_select_counted_samples(cpu, runs), {name: pl.col(name).mean() for name in _SHARES}),
        _summarise_utilization(_select_counted_samples(device, runs), _make_device_mean_exprs()),
    ]
    return pl.concat(tables, how="diagonal").select(
        *_KEY, "n", "mean_percent", "p95_percent", "max_percent", *_SHARES,
        "await_ms", *_DEVICE_COLUMNS, "requests_per_s", "interval_s", "source_id", "within_run",
    ).sort(*_KEY)  # fmt: skip


def _select_counted_samples(samples: pl.DataFrame, runs: Frame | None) -> pl.DataFrame:
    """The samples to use, of one source per component, with `within_run` and `interval_s`."""
    samples = samples.filter(pl.col("busy").is_not_null())
    intervals = samples.with_columns(interval_s=make_sampling_interval_s_expr(samples))
    whole = intervals.filter(~pl.col("since_boot").fill_null(value=False)).with_columns(within_run=pl.lit(value=False))
    if runs is None:
        return select_one_source(whole, _KEY)
    inside = align_to_runs(samples, runs).drop("elapsed_s").with_columns(within_run=pl.lit(value=True))
    untimed = whole.filter(pl.col("sample_time").is_null()).join(inside, on=_KEY, how="anti", nulls_equal=True)
    return select_one_source(pl.concat([inside, untimed], how="diagonal"), _KEY)


def _summarise_utilization(samples: pl.DataFrame, means: dict[str, pl.Expr]) -> pl.DataFrame:
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


def _make_device_mean_exprs() -> dict[str, pl.Expr]:
    requests = pl.col("requests").filter(pl.col("waited").is_not_null()).sum()
    return {
        "await_ms": pl.when(requests > 0).then(pl.col("waited").sum() / requests),
        "requests_per_s": pl.col("requests").mean(),
        **{name: pl.col(name).mean() for name in _DEVICE_COLUMNS},
    }
