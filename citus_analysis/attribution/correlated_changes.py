"""What else differs between the two sides, measured on the nodes during the runs: associations, never causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.attribution.observed import RUN
from citus_analysis.bottleneck.samples import align_to_runs, make_busy_percent_expr, select_one_source
from citus_analysis.bottleneck.waits import select_client_sessions
from citus_analysis.bottleneck.witnesses import OF_PROCESSOR, measure_canaries
from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.stats.distributions import compute_t_quantile, compute_t_tail
from citus_analysis.stats.intervals import compute_sample_moments, compute_welch_error
from citus_analysis.stats.verdicts import adjust_by_holm
from citus_analysis.units import US_PER_S

if TYPE_CHECKING:
    from citus_analysis.attribution.observed import Observed

#: Measure -> its name in words and its unit.
MEASURE_WORDS: Final = {
    "cpu_busy_percent": ("busy CPU time", "%"),
    "cpu_iowait_percent": ("CPU time idle while a disk was awaited", "%"),
    "cpu_steal_percent": ("stolen CPU time", "%"),
    "group_used_percent": ("CPU time used by the node's control group", "%"),
    "cpu_us_per_operation": ("CPU time that the node's control group used for an operation", "µs"),
    "group_throttled_percent": ("time in which the kernel throttled the node", "%"),
    "machine_speed": ("speed of the machine, by the canary's work per CPU time", "1/s"),
    "runnable": ("processes that ran or waited for a CPU", ""),
    "blocked": ("processes that waited for a disk", ""),
    "context_switches_per_s": ("context switches", "1/s"),
    "cpu_stalled_percent": ("time in which a task waited for a CPU", "%"),
    "io_stalled_percent": ("time in which a task waited for a disk", "%"),
    "memory_stalled_percent": ("time in which a task waited for memory", "%"),
    "device_await_ms": ("time of a disk's request", "ms"),
    "device_utilization_percent": ("time in which the busiest disk was in use", "%"),
    "checkpoints_per_min": ("checkpoints", "1/min"),
    "wal_bytes_per_operation": ("WAL of an operation", "B"),
    "wal_fpi_per_operation": ("full page images of an operation", ""),
    "blocks_read_per_operation": ("blocks of an operation that were not in memory", ""),
    "tuples_read_per_operation": ("rows of an operation that scans read", ""),
    "lock_waits_per_min": ("waits for locks that were logged", "1/min"),
    "lock_wait_sessions": ("sessions that waited for a lock", ""),
    "io_wait_sessions": ("sessions that waited for a file", ""),
    "wal_wait_sessions": ("sessions that waited for WAL", ""),
    "client_connections": ("connections of clients", ""),
    "internal_connections": ("connections of other nodes", ""),
    "connections_per_min": ("connections that were opened", "1/min"),
}
#: View and counter -> measure, for counters whose growth is divided by the run's operations.
_COUNTERS: Final = {
    ("pg_stat_wal", "wal_bytes"): "wal_bytes_per_operation",
    ("pg_stat_wal", "wal_fpi"): "wal_fpi_per_operation",
    ("pg_stat_database", "blks_read"): "blocks_read_per_operation",
    ("pg_stat_database", "tup_returned"): "tuples_read_per_operation",
}
_NODE: Final = (*RUN, "node")
_DEVICE: Final = ("node", "device")
_SAMPLER: Final = ("node", "sampler")
_LONG: Final = (*_NODE, "measure", "value")


@dataclass(frozen=True)
class CorrelatedChange:
    """A measure of a node that differs between the sides.

    Attributes:
        node: the node; empty for one that is not of a node.
        measure: one of :data:`MEASURE_WORDS`.
        base: mean over the runs of the base.
        other: mean over the runs of the other side.
        low: lower end of the interval of the difference.
        high: upper end.
        p: probability of so large a difference if there is none, adjusted for all measures (Holm).
        effect_size: difference over the spread of the runs within the sides (Cohen's d).
    """

    node: str
    measure: str
    base: float
    other: float
    low: float
    high: float
    p: float
    effect_size: float

    @property
    def words(self) -> str:
        """The measure in words."""
        return MEASURE_WORDS[self.measure][0]

    @property
    def unit(self) -> str:
        """Its unit; empty for numbers."""
        return MEASURE_WORDS[self.measure][1]

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
        return {name: getattr(self, name) for name in (*self.__dataclass_fields__, "words", "unit")}


def find_correlated_changes(sides: Observed, *, level: float) -> tuple[CorrelatedChange, ...]:
    """Measures of nodes that differ between the sides; the surest and largest first.

    Each is tested by Welch's t over the runs; p-values are adjusted together by Holm's procedure. Only those below
    1 - level are given.
    """
    if any("start_time" not in side.table.columns for side in sides.both):
        return ()
    tables = [_AssociationTables(source, side.table) for source, side in zip(sides.sources, sides.both, strict=True)]
    # A device that one side alone sampled would change the mean of its node.
    base, other = (read.inside("device_samples", "device").select(_DEVICE).unique() for read in tables)
    devices = base.join(other, on=_DEVICE, nulls_equal=True)
    # Samplers round differently, and do not count alike what is idle.
    base, other = (read.read_aligned("cpu_samples").select(_SAMPLER).unique() for read in tables)
    samplers = base.join(other, on=_SAMPLER, nulls_equal=True)
    both = [
        collect_node_measures(read.source, read.runs, devices, samplers)
        .group_by("node", "measure", maintain_order=True)
        .agg("value")
        for read in tables
    ]
    paired = both[0].join(both[1], on=["node", "measure"], suffix="_other").sort("measure", "node")
    tested = [
        one
        for node, measure, base, other in paired.iter_rows()
        if (one := compare_node_means(node, measure, np.array(base), np.array(other), level)) is not None
    ]
    adjusted = adjust_by_holm([one.p for one in tested]).tolist()
    sure = [replace(one, p=p) for one, p in zip(tested, adjusted, strict=True) if p < 1 - level]
    return tuple(sorted(sure, key=lambda one: (-abs(one.effect_size), one.measure, one.node)))


def compare_node_means(
    node: str, measure: str, base: np.ndarray, other: np.ndarray, level: float
) -> CorrelatedChange | None:
    """Welch's test of a measure's values in the runs of both sides; None with one run on a side, or no difference."""
    if min(base.size, other.size) < 2:
        return None
    difference = float(other.mean() - base.mean())
    if not difference:
        return None
    error, df = compute_welch_error(compute_sample_moments(base)[1:], compute_sample_moments(other)[1:])
    error = max(error, 1e-6 * abs(difference))
    half = error * compute_t_quantile(1 - (1 - level) / 2, df)
    within = ((base.size - 1) * base.var(ddof=1) + (other.size - 1) * other.var(ddof=1)) / (base.size + other.size - 2)
    size = difference / max(within, (1e-6 * difference) ** 2) ** 0.5
    p = 2 * compute_t_tail(abs(difference) / error, df)
    return CorrelatedChange(
        node, measure, float(base.mean()), float(other.mean()), difference - half, difference + half, p, size
    )


def collect_node_measures(
    source: TableSource,
    runs: pl.DataFrame,
    devices: pl.DataFrame | None = None,
    samplers: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Measures of each node in each run, as far as they were recorded.

    Args:
        source: a dataset.
        runs: rows of the table `runs`.
        devices: `node` and `device` of those that count; all devices of other nodes count, and all if None.
        samplers: `node` and `sampler` of those that count for CPUs; all if None.

    Returns:
        `resource`, `run_id`, `node`, `measure` (one of :data:`MEASURE_WORDS`), `value`.
    """
    read = _AssociationTables(source, runs)
    found = [
        *_measure_machines(read, samplers),
        *_measure_devices(read, devices),
        *_measure_counters(read),
        *_measure_log_events(read),
        *_measure_sessions(read),
    ]
    empty = pl.DataFrame(schema=dict.fromkeys(_LONG[:-1], pl.String) | {"value": pl.Float64})
    usable = [
        one.select(pl.col(_LONG[:-1]).cast(pl.String), pl.col("value").cast(pl.Float64)).drop_nulls("value")
        for one in found
    ]
    long = pl.concat([empty, *usable]).with_columns(pl.col("node").fill_null(""))
    return long.filter(pl.col("value").is_finite())


class _AssociationTables:
    """Tables of the runs' resources."""

    def __init__(self, source: TableSource, runs: pl.DataFrame) -> None:
        self.source, self.runs = source, runs
        self._resources = runs["resource"].unique().implode()

    def of(self, name: str) -> pl.DataFrame:
        return convert_to_polars(self.source.table(name)).filter(pl.col("resource").is_in(self._resources))

    def read_aligned(self, name: str) -> pl.DataFrame:
        """Samples within the runs, of all sources."""
        return align_to_runs(self.of(name), self.runs)

    def inside(self, name: str, *by: str) -> pl.DataFrame:
        """Samples within the runs, of one source for each run, node and `by`."""
        return select_one_source(self.read_aligned(name), [*_NODE, *by])

    @property
    def minutes(self) -> pl.DataFrame:
        """resource, run_id, from_time, until_time, minutes, operations_done."""
        return self.runs.select(
            *RUN,
            "operations_done",
            from_time=pl.coalesce("measured_from", "start_time"),
            until_time=pl.coalesce("measured_until", "end_time"),
        ).with_columns(minutes=(pl.col("until_time") - pl.col("from_time")).dt.total_milliseconds() / 60_000)


def _melt_measures(samples: pl.DataFrame, measures: dict[str, pl.Expr]) -> Iterator[pl.DataFrame]:
    means = samples.group_by(_NODE, maintain_order=True).agg(**measures)
    for name in measures:
        yield means.select(*_NODE, pl.lit(name).alias("measure"), value=name)


def _measure_machines(read: _AssociationTables, samplers: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    shares = {f"cpu_{name}": pl.col(name).mean() for name in ("iowait_percent", "steal_percent")}
    cpu = read.read_aligned("cpu_samples")
    if samplers is not None:
        cpu = cpu.join(samplers, on=_SAMPLER, how="semi", nulls_equal=True)
    yield from _melt_measures(
        select_one_source(cpu, _NODE), {"cpu_busy_percent": make_busy_percent_expr().mean(), **shares}
    )
    of_vm = ("runnable", "blocked", "context_switches_per_s")
    yield from _melt_measures(read.inside("vm_samples"), {name: pl.col(name).mean() for name in of_vm})
    used_us = pl.col("used_percent").mean() / 100 * pl.col("minutes").first() * 60 * US_PER_S
    held = {f"group_{name}": pl.col(name).mean() for name in ("used_percent", "throttled_percent")}
    of_groups = _read_cgroup_samples(read).join(read.minutes, on=RUN, how="left", maintain_order="left")
    yield from _melt_measures(of_groups, held | {"cpu_us_per_operation": used_us / pl.col("operations_done").first()})
    speeds = measure_canaries(read.of("canaries"), read.runs).filter(pl.col("work").is_in(OF_PROCESSOR))
    yield from _melt_measures(speeds, {"machine_speed": pl.col("speed").mean().exp()})
    pressure = read.inside("pressure_samples", "pressure", "scope").filter(pl.col("scope").cast(pl.String) == "some")
    for kind in ("cpu", "io", "memory"):
        mine = pressure.filter(pl.col("pressure").cast(pl.String) == kind)
        yield from _melt_measures(mine, {f"{kind}_stalled_percent": pl.col("stalled_percent").mean()})


def _measure_devices(read: _AssociationTables, devices: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    """The mean time of a request over the devices of a node, and how long the one that was busiest was in use."""
    samples = read.inside("device_samples", "device").remove(pl.col("is_group").fill_null(value=False))
    samples = samples.filter(pl.col("utilization_percent").is_not_null())
    if devices is not None:
        others = samples.join(devices, on="node", how="anti", nulls_equal=True)
        samples = pl.concat([samples.join(devices, on=_DEVICE, how="semi", nulls_equal=True), others])
    yield from _melt_measures(samples, {"device_await_ms": pl.col("await_ms").mean()})
    # A mean over time: the largest of many short samples is larger than that of few long ones.
    each = samples.group_by(*_NODE, "device", maintain_order=True).agg(pl.col("utilization_percent").mean())
    yield from _melt_measures(each, {"device_utilization_percent": pl.col("utilization_percent").max()})


def _read_cgroup_samples(read: _AssociationTables) -> pl.DataFrame:
    """Samples of the nodes' control groups; where a host has those of several nodes, their names stand for nodes."""
    held = read.inside("throttle_samples", "control_group").filter(~pl.col("control_group").str.contains("client"))
    several = pl.col("control_group").n_unique().over(_NODE) > 1
    folder = pl.col("control_group").str.extract(r"([^/]+)/[^/]*$")
    name = pl.coalesce(folder.str.extract(r"(\d+)$"), folder)
    return held.with_columns(node=pl.when(several).then(name).otherwise("node"))


def _measure_counters(read: _AssociationTables) -> Iterator[pl.DataFrame]:
    counters = read.of("server_counters").with_columns(pl.col("view", "counter").cast(pl.String))
    placed = (
        counters.drop_nulls("value")
        .drop("run_id")
        .join(read.minutes, on="resource")
        .filter((pl.col("from_time") <= pl.col("from_time_right")) & (pl.col("sample_time") >= pl.col("until_time")))
    )
    for (view, counter), measure in _COUNTERS.items():
        mine = placed.filter((pl.col("view") == view) & (pl.col("counter") == counter))
        yield from _melt_measures(mine, {measure: pl.col("value").sum() / pl.col("operations_done").first()})


def _measure_log_events(read: _AssociationTables) -> Iterator[pl.DataFrame]:
    checkpoints = read.of("checkpoints").drop("run_id").join(read.minutes, on="resource")
    during = checkpoints.filter(pl.col("end_time").is_between(pl.col("from_time"), pl.col("until_time")))
    records = scan_source_table(read.source, "log_events").filter(
        pl.col("resource").is_in(read.runs["resource"].unique().implode())
    )
    logged = _find_logged_nodes(read, records)
    yield from _compute_event_rates(read, during, logged, "checkpoints_per_min")
    kinds = {"lock_wait": "lock_waits_per_min", "connection": "connections_per_min"}
    events = (
        records.filter(pl.col("run_id").is_in(read.runs["run_id"].implode()))
        .filter(pl.col("kind").cast(pl.String).is_in(list(kinds)))
        .select(*_NODE, pl.col("kind").cast(pl.String))
        .collect()
        .join(read.minutes, on=RUN)
    )
    for kind, measure in kinds.items():
        yield from _compute_event_rates(read, events.filter(kind=kind), logged, measure)


def _find_logged_nodes(read: _AssociationTables, records: pl.LazyFrame) -> pl.DataFrame:
    """The nodes whose log is there, of each run: a file has records of the run, or both earlier and later ones.

    Without a log nobody knows whether there were events.
    """
    named = records.filter(pl.col("run_id").is_in(read.runs["run_id"].implode())).select(_NODE).unique().collect()
    spans = records.group_by("resource", "node", "source_id").agg(
        first=pl.col("log_time").min(), last=pl.col("log_time").max()
    )
    around = (
        read.minutes.join(spans.collect(), on="resource")
        .filter((pl.col("first") <= pl.col("from_time")) & (pl.col("last") >= pl.col("until_time")))
        .select(_NODE)
    )
    return pl.concat([named, around]).unique(maintain_order=True)


def _compute_event_rates(
    read: _AssociationTables, events: pl.DataFrame, logged: pl.DataFrame, measure: str
) -> Iterator[pl.DataFrame]:
    """Events per minute; 0 in runs of which a node's log is there without any, if the node had one in another run."""
    nodes = events.select("node").unique()
    counts = events.group_by(_NODE).len("events")
    every = logged.join(nodes, on="node", how="semi", nulls_equal=True)
    every = every.join(counts, on=_NODE, how="left", nulls_equal=True).join(read.minutes, on=RUN)
    yield from _melt_measures(every, {measure: pl.col("events").fill_null(0).first() / pl.col("minutes").first()})


def _measure_sessions(read: _AssociationTables) -> Iterator[pl.DataFrame]:
    sessions = select_client_sessions(read.of("activity_samples"), read.runs)
    if sessions.is_empty():
        return
    moments = pl.struct("source_id", "sample").n_unique()
    kinds = {
        "lock_wait_sessions": ("doing", "lock"),
        "io_wait_sessions": ("doing", "I/O"),
        "wal_wait_sessions": ("doing", "WAL"),
        "client_connections": ("role", "parent"),
        "internal_connections": ("role", "child"),
    }
    yield from _melt_measures(
        sessions, {name: (pl.col(of) == kind).sum() / moments for name, (of, kind) in kinds.items()}
    )
