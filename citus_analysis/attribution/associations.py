"""What else differs between the two sides, measured on the nodes during the runs: associations, never causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.attribution.evidence import explain_unlike_thresholds
from citus_analysis.attribution.observed import RUN
from citus_analysis.bottleneck.profiles import (
    build_stack_frames,
    make_object_part_expr,
    number_stack_frames,
    select_one_output,
)
from citus_analysis.bottleneck.samples import align_to_runs, make_busy_percent_expr, select_one_source
from citus_analysis.bottleneck.waits import select_client_sessions
from citus_analysis.bottleneck.witnesses import OF_PROCESSOR, measure_canaries
from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.core.type_aliases import Bools, Floats
from citus_analysis.plans.shapes import add_node_paths, build_shapes, label_differences, name_statements
from citus_analysis.plans.study import KEY, measure_nodes
from citus_analysis.stats.distributions import compute_chi2_tail, compute_t_quantile, compute_t_tail
from citus_analysis.stats.intervals import compute_sample_moments, compute_welch_error
from citus_analysis.stats.verdicts import adjust_by_holm
from citus_analysis.texts.words import join_words
from citus_analysis.units import US_PER_S

if TYPE_CHECKING:
    from citus_analysis.attribution.observed import Observed, ObservedSample

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


# Plans of statements on both sides: whether their shape changed, and rows and time of each node.
#
# Plans come from EXPLAIN or auto_explain. Those of one statement are found by its fingerprint, so constants and numbers
# of shards do not count; a plan without its statement is known by its file and its number there. What is a plan's shape
# is said in `citus_analysis.plans.shapes`. A shape changed if all plans of each side have one, and it is another; if a
# side has several, the share of the base's most frequent shape is tested (Fisher's exact test, adjusted by Holm over
# the statements).

#: Both sides' values of one column of a table.
_BOTH: Final = ("base", "other")
_STATEMENTS: Final = {
    "statement": pl.String(),
    "fingerprint": pl.String(),
    **dict.fromkeys(("base_plans", "other_plans"), pl.Int64()),
    **dict.fromkeys(("before", "after"), pl.String()),
    **{f"{side}_{name}": pl.Float64() for name in ("tasks", "rows", "ms") for side in ("base", "other")},
    "p": pl.Float64(),
    "changed": pl.Boolean(),
}


@dataclass(frozen=True)
class PlanChanges:
    """Plans of the statements that both sides recorded.

    Attributes:
        statements: `statement`, `fingerprint`, plans of each side, the nodes that only the base (`before`) or the other
            side (`after`) has in its most frequent shape, tasks of Citus, rows that scans read and time (of an
            execution, mean; null where they are not known), `p` (null where each side has one shape), and whether the
            shape `changed`.
        nodes: of each statement and node: `node`, `path`, plans, `rows` (given or removed), `expected_rows` and
            `self_ms` of an execution on each side; of the time the interval of its difference, `low` and `high`, and
            `p` (Welch over runs, adjusted by Holm).
        unlike: why plans of short executions were logged on one side only, so that they are left out; empty if not.
    """

    statements: pl.DataFrame
    nodes: pl.DataFrame
    unlike: str = ""


def plan_changes(sides: Observed, *, level: float) -> PlanChanges | None:
    """Compare the plans of both sides; None unless both recorded some of one statement.

    Args:
        sides: both sides of a difference.
        level: confidence level.
    """
    if sides.unit != "run":
        return None
    read = [_read_plan_nodes(source, side.table) for source, side in zip(sides.sources, sides.both, strict=True)]
    logged = [_read_plan_durations(source, nodes) for source, nodes in zip(sides.sources, read, strict=True)]
    base, other = (one["duration_us"].to_numpy() for one in logged)
    unlike, least_us = explain_unlike_thresholds((base, other), (sides.both[0].name, sides.both[1].name))
    if unlike:
        short = [one.filter(pl.col("duration_us") < least_us) for one in logged]
        read = [nodes.join(one, on=KEY, how="anti") for nodes, one in zip(read, short, strict=True)]
    both = pl.concat([one.with_columns(side=pl.lit(i)) for i, one in enumerate(read)], how="vertical_relaxed")
    known = both.group_by("fingerprint").agg(pl.col("side").n_unique()).filter(pl.col("side") == len(read))
    nodes = both.join(known.select("fingerprint"), on="fingerprint")
    if nodes.is_empty():
        return None
    unlike = f"plans: {unlike}, which are left out" if unlike else ""
    return PlanChanges(_compare_statement_plans(nodes, level), _compare_plan_nodes(nodes, level), unlike)


def _read_plan_durations(source: TableSource, nodes: pl.DataFrame) -> pl.DataFrame:
    """How long the executions took of which auto_explain logged a plan: the key of the plan, and `duration_us`."""
    plans = convert_to_polars(source.table("plans")).join(nodes.select(KEY).unique(), on=KEY, how="semi")
    events = scan_source_table(source, "log_events").filter(pl.col("kind").cast(pl.String) == "plan")
    durations = events.select("source_id", "byte_offset", "duration_us").drop_nulls().collect()
    return plans.join(durations, on=["source_id", "byte_offset"]).select(*KEY, "duration_us")


def _read_plan_nodes(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Nodes of the plans of runs, one row for each path of a plan: `fingerprint`, `path`, rows and times."""
    mine = pl.col("run_id").is_in(runs["run_id"].implode()) | (
        pl.col("run_id").is_null() & pl.col("resource").is_in(runs["resource"].implode())
    )
    plans = _assign_plans_to_runs(source).filter(mine).select(*KEY, "run_id", "query", "task_count")
    files = convert_to_polars(source.table("sources")).select("source_id", file=pl.col("path").cast(pl.String))
    named = (
        plans.join(name_statements(plans["query"]), on="query", how="left")
        .join(files, on="source_id", how="left")
        .with_columns(own=pl.format("plan {} of {}", pl.col("plan") + 1, pl.col("file").str.extract(r"([^/]+)$")))
        .select(
            *KEY,
            run=pl.coalesce("run_id", "resource"),
            fingerprint=pl.coalesce("fingerprint", "own"),
            tasks="task_count",
            statement=pl.coalesce("statement", "own"),
        )
    )
    nodes = measure_nodes(convert_to_polars(source.table("plan_nodes")).join(named.select(KEY), on=KEY, how="semi"))
    removed = pl.col("removed_rows").fill_null(0.0) * pl.col("loops")
    everything = add_node_paths(nodes)
    placed = everything.filter(pl.col("kind").cast(pl.String) == "node")
    scanned = pl.col("relation").is_not_null()
    return (
        placed.group_by(*KEY, "path", maintain_order=True)
        .agg(
            node=pl.col("label").first(),
            depth=pl.col("depth").min(),
            scan=scanned.any(),
            rows=_make_known_sum_expr(pl.col("given_rows") + removed),
            expected_rows=_make_known_sum_expr(pl.col("expected_rows")),
            self_ms=_make_known_sum_expr(pl.col("self_ms")),
            total_ms=pl.when(pl.col("parent").is_null()).then("time_ms").sum(),
        )
        .join(named, on=KEY)
        .join(build_shapes(everything), on=KEY)
    )


def _make_known_sum_expr(values: pl.Expr) -> pl.Expr:
    """The sum; null, and not 0, if no value is known."""
    return pl.when(values.count() > 0).then(values.sum())


def _assign_plans_to_runs(source: TableSource) -> pl.DataFrame:
    """Plans; those of a log that spans several runs are of the run in which their record was written."""
    plans = convert_to_polars(source.table("plans"))
    if not plans["run_id"].null_count():
        return plans
    events = scan_source_table(source, "log_events").filter(pl.col("kind").cast(pl.String) == "plan")
    records = events.select("source_id", "byte_offset", written_in="run_id").collect()
    placed = plans.join(records, on=["source_id", "byte_offset"], how="left", maintain_order="left")
    return placed.with_columns(run_id=pl.coalesce("run_id", "written_in"))


def _compare_statement_plans(nodes: pl.DataFrame, level: float) -> pl.DataFrame:
    keys = ["side", "fingerprint", *KEY]
    # Tasks are a part of the shape.
    several = pl.col("tasks").first() > 1
    tasks = pl.when(several).then(pl.format("{} tasks", pl.col("tasks").first()))
    plans = nodes.group_by(keys, maintain_order=True).agg(
        pl.col("statement").first(),
        pl.col("shape").first(),
        paths=pl.col("path").append(tasks).drop_nulls(),
        tasks=pl.col("tasks").first(),
        rows=_make_known_sum_expr(pl.col("rows").filter("scan")),
        ms=pl.when(pl.col("self_ms").count() > 0).then(pl.col("total_ms").sum()),
    )
    rows = [_compare_plan_shapes(group) for _, group in plans.group_by("fingerprint", maintain_order=True)]
    table = pl.DataFrame(rows, schema=_STATEMENTS).with_row_index("row")
    tested = table.drop_nulls("p")
    adjusted = tested.select("row", p=pl.Series(adjust_by_holm(tested["p"].to_numpy()), dtype=pl.Float64))
    table = table.update(adjusted, on="row").with_columns(
        changed=pl.when(pl.col("p").is_null()).then("changed").otherwise(pl.col("p") < 1 - level)
    )
    longer = (pl.col("other_ms") - pl.col("base_ms")).abs()
    return table.drop("row").sort(
        pl.col("changed"), longer, "statement", descending=[True, True, False], nulls_last=True
    )


def _compare_plan_shapes(plans: pl.DataFrame) -> dict[str, object]:
    """Plans of one statement on both sides, and the p-value of its shapes before the adjustment."""
    sides = [plans.filter(side=i) for i in (0, 1)]
    shapes = [
        side.group_by("shape", maintain_order=True).agg(pl.len(), pl.col("paths").first()).sort("len", descending=True)
        for side in sides
    ]
    usual = [one["shape"][0] for one in shapes]
    single = all(one.height == 1 for one in shapes)
    before, after = label_differences(*(one["paths"][0].to_list() for one in shapes))
    return {
        "statement": plans["statement"][0],
        "fingerprint": plans["fingerprint"][0],
        **{f"{name}_plans": side.height for name, side in zip(_BOTH, sides, strict=True)},
        "before": before,
        "after": after,
        **{
            f"{name}_{of}": side[of].mean()
            for name, side in zip(_BOTH, sides, strict=True)
            for of in ("tasks", "rows", "ms")
        },
        "p": None if single else _compute_fisher_p_value(sides, usual[0]),
        "changed": single and usual[0] != usual[1],
    }


def _compute_fisher_p_value(sides: list[pl.DataFrame], shape: str) -> float:
    from scipy.stats import fisher_exact

    with_shape = [int((side["shape"] == shape).sum()) for side in sides]
    table = [[count, side.height - count] for count, side in zip(with_shape, sides, strict=True)]
    return float(fisher_exact(np.array(table)).pvalue)


def _compare_plan_nodes(nodes: pl.DataFrame, level: float) -> pl.DataFrame:
    """Nodes of both sides by statement and path, with the difference of their times over runs."""
    keys = ["statement", "path", "node", "depth"]
    first = nodes.with_columns(pl.col("statement", "depth").first().over("fingerprint", "path"))
    columns = ["rows", "expected_rows", "self_ms"]
    grouped = first.group_by("side", "fingerprint", *keys, maintain_order=True)
    means = grouped.agg(pl.len().cast(pl.Int64).alias("plans"), pl.col(columns).mean())
    base, other = (
        means.filter(side=i).drop("side").rename({one: f"{name}_{one}" for one in ("plans", *columns)})
        for i, name in enumerate(_BOTH)
    )
    table = base.join(other, on=["fingerprint", *keys], how="full", coalesce=True, nulls_equal=True)
    per_run = first.group_by("side", "fingerprint", "path", "run").agg(pl.col("self_ms").mean()).drop_nulls("self_ms")
    # In the order of runs, since the last digit of a mean depends on the order of its values.
    per_run = per_run.sort("run")
    runs = per_run.group_by("fingerprint", "path").agg(
        pl.col("self_ms").filter(side=0).alias("base"), pl.col("self_ms").filter(side=1).alias("other")
    )
    tests = [
        (fingerprint, path, one.low, one.high, one.p)
        for fingerprint, path, before, after in runs.sort("fingerprint", "path").iter_rows()
        if (one := compare_node_means("", "", np.array(before), np.array(after), level)) is not None
    ]
    schema = {"fingerprint": pl.String(), "path": pl.String(), **dict.fromkeys(("low", "high", "p"), pl.Float64())}
    tested = pl.DataFrame(tests, schema=schema, orient="row")
    tested = tested.with_columns(p=pl.Series(adjust_by_holm(tested["p"].to_numpy())) if tests else pl.col("p"))
    size = (pl.col("other_self_ms").fill_null(0.0) - pl.col("base_self_ms").fill_null(0.0)).abs()
    return (
        table.join(tested, on=["fingerprint", "path"], how="left")
        .sort(size, "statement", "path", descending=[True, False, False], nulls_last=True)
        .drop("fingerprint", "depth")
    )


# Skew: how unevenly executions and their time are spread over shards and nodes on both sides, and whether it changed.
#
# The coefficient of variation of the shards' shares is estimated from the traced statements that one shard answers. A
# few hundred executions are spread unevenly by chance alone, so that part is subtracted: for k shards with times T_i
# out of T, and statements of times t_j,
#
#     CV^2 = k * sum(T_i^2) / T^2 - 1 - (k - 1) * sum(t_j^2) / T^2,
#
# which for numbers of executions is Pearson's chi-square less its k - 1 degrees of freedom, over their number. Its mean
# is 0 for an even spread; values of the runs of both sides are compared.

_DRAWS: Final = 400
_SEED: Final = 47
_OVER: Final = {"shards": "shard_id", "nodes": "executed_on"}
_OF: Final = {"executions": pl.lit(1.0), "time": pl.col("total_us")}
_OF_SIDE: Final = {
    **dict.fromkeys(("places", "executions"), pl.Int64()),
    **dict.fromkeys(("busiest_percent", "busiest_if_even_percent", "cv_percent", "even_p"), pl.Float64()),
}
_ROW: Final = {
    **dict.fromkeys(("of", "over"), pl.String()),
    **{f"{side}_{name}": kind for side in ("base", "other") for name, kind in _OF_SIDE.items()},
    **dict.fromkeys(("p", "effect_size"), pl.Float64()),
    "decided": pl.Boolean(),
}


def compare_shard_skew(sides: Observed, *, level: float) -> pl.DataFrame:
    """The spread of both sides over shards and nodes; no rows unless both have statements of several shards.

    Args:
        sides: both sides of a difference.
        level: confidence level.

    Returns:
        `of` (`executions`, or `time` of their statements), `over` (`shards` or `nodes`), for each side its number of
        them, traced `executions`, the share of the busiest (mean of the runs), the share that it would have on average
        if the spread were even, `cv_percent` (0 is even) and `even_p` (chi-square test of an even spread of
        executions); `p` of the test that the sides' spreads are equal (Welch over runs, adjusted by Holm),
        `effect_size` (Cohen's d) and `decided`.
    """
    executed_on = pl.when(pl.col("executed").cast(pl.String) == "local").then("node").otherwise("child_node")
    timed = sides.timed.with_columns(executed_on=executed_on).filter(pl.col("shard_id").is_not_null())
    rows: list[dict[str, object]] = []
    tests: list[CorrelatedChange] = []
    for over, place in _OVER.items():
        placed = timed.drop_nulls(place)
        counts = [_count_shards_or_nodes(sides, i, placed, place) for i in (0, 1)]
        if min(counts) < 2 or placed["side"].n_unique() < 2:
            continue
        for of, weight in _OF.items():
            spreads = [_spread_evenly(placed.filter(side=i), place, weight, counts[i]) for i in (0, 1)]
            test = compare_node_means("", "", spreads[0][0], spreads[1][0], level)
            if test is not None:
                named = zip(("base", "other"), spreads, strict=True)
                stated = {f"{side}_{name}": value for side, (_, one) in named for name, value in one.items()}
                rows.append({"of": of, "over": over, **stated})
                tests.append(test)
    for row, one, p in zip(rows, tests, adjust_by_holm([one.p for one in tests]), strict=True):
        row |= {"p": float(p), "effect_size": one.effect_size, "decided": float(p) < 1 - level}
    return pl.DataFrame(rows, schema=_ROW)


def _count_shards_or_nodes(sides: Observed, i: int, placed: pl.DataFrame, place: str) -> int:
    """Number of shards or nodes of a side: as stated, or if more were seen in a run, or none is stated, those."""
    side = sides.both[i]
    seen = placed.filter(side=i).group_by(RUN).agg(pl.col(place).n_unique())[place].max()
    return max(_read_stated_number(sides, side, i, place), int(seen) if isinstance(seen, int) else 0)


def _read_stated_number(sides: Observed, side: ObservedSample, i: int, place: str) -> int:
    if place != "shard_id":
        workers = side.table["workers"].max() if "workers" in side.table.columns else None
        return int(workers) if isinstance(workers, int) else 0
    settings = convert_to_polars(sides.sources[i].table("settings"))
    mine = settings.filter(pl.col("name") == "shard_count", pl.col("resource").is_in(side.table["resource"].implode()))
    stated = mine["value"].cast(pl.Int64, strict=False).max()
    return int(stated) if isinstance(stated, int) else 0


def _spread_evenly(placed: pl.DataFrame, place: str, weight: pl.Expr, places: int) -> tuple[Floats, dict[str, object]]:
    """The squared coefficient of variation of each run, and what is stated of the side."""
    weighted = placed.with_columns(weight=weight)
    own = (pl.col("weight") ** 2).sum()
    sums = weighted.group_by(*RUN, place).agg(total=pl.col("weight").sum(), own=own, n=pl.len())
    whole = pl.col("total").sum()
    runs = (
        sums.group_by(RUN, maintain_order=True)
        .agg(
            n=pl.col("n").sum(),
            equal=(whole**2 / pl.col("own").sum()).round().clip(lower_bound=1),
            busiest=pl.col("total").max() / whole,
            squares=places * (pl.col("total") ** 2).sum() / whole**2
            - 1
            - (places - 1) * pl.col("own").sum() / whole**2,
            pearson=places * (pl.col("n") ** 2).sum() / pl.col("n").sum() - pl.col("n").sum(),
        )
        .sort(RUN)
    )
    draws = np.random.default_rng(_SEED)
    numbers = runs["n"].to_numpy()
    # Times vary: so many equal times would spread as they do by chance.
    equal = runs["equal"].to_numpy().astype(np.int64)
    even = [float(draws.multinomial(n, np.full(places, 1 / places), _DRAWS).max(axis=1).mean()) / n for n in equal]
    mean = runs["squares"].mean()
    return runs["squares"].to_numpy(), {
        "places": places,
        "executions": int(numbers.sum()),
        "busiest_percent": 100 * float(runs["busiest"].to_numpy().mean()),
        "busiest_if_even_percent": 100 * float(np.mean(even)),
        "cv_percent": 100 * max(mean if isinstance(mean, float) else 0.0, 0.0) ** 0.5,
        "even_p": compute_chi2_tail(float(runs["pearson"].sum()), (places - 1) * runs.height),
    }


# CPU time of functions, from perf's samples of both sides, per operation: what changed, and the tree of the stacks.
#
# The weight of a sample is the CPU time that it stands for (the period of a clock event) divided by the operations of
# its run. This is known where perf recorded whole runs, as the runner has it do; of other recordings, shares of their
# samples are compared, and a function whose share grows then takes it from others.
#
# Samples are counts. With several recordings on a side, the spread of a function between runs is the larger of its own
# and of what its count and all functions together suggest: Poisson's variance plus a part that grows with the square of
# the mean, as of a negative binomial distribution, which is the same for all functions (Anders and Huber 2010). With
# one recording on each side, nobody knows how runs differ: intervals are those of the counts, and nothing is decided.

#: Events whose count is CPU time in nanoseconds, and other common ones, in the order of preference.
#: Events of perf that are timers, not counters of the processor.
CLOCK_EVENTS: Final = ("cpu-clock", "task-clock")
_EVENTS: Final = (*CLOCK_EVENTS, "cycles", "cpu-cycles")
_NS_PER_US: Final = 1e3
#: Functions with fewer samples on both sides together are not tested.
_FEWEST_SAMPLES: Final = 20
_MOST_FUNCTIONS: Final = 100
#: Frames with a smaller share of all samples are not drawn.
_LEAST_SHARE: Final = 0.005
#: Levels that are drawn, so that names can be read.
_DEEPEST: Final = 36
#: Degrees of freedom that stand for the normal distribution.
_MANY: Final = 1e9
#: Addresses without a name differ from run to run.
_ADDRESS: Final = r"(^|;)0(?:x[0-9a-f]+)?\b"
#: Stands for stacks that are too rare to be drawn.
_RARE: Final = "[rare stacks]"
ALL_FUNCTIONS: Final = "all functions"


@dataclass(frozen=True)
class StackChanges:
    """What changed in perf's samples.

    Attributes:
        unit: `µs` of CPU time per operation, or `%` of samples.
        event: event that was sampled; empty if only one side has samples.
        recordings: of base and other.
        functions: `function`, `module`, `base`, `other`, `difference`, `low`, `high`, `p`, `decided`, `base_samples`,
            `other_samples`; intervals hold together, p is adjusted for all functions that were tested.
        tree: frames of the other side: `frame_id`, `caller_id`, `depth`, `frame`, `base`, `other` (callees included),
            `base_self`, `other_self`.
        gone: topmost frames that only the base has: `path`, `frame`, `base`.
        notes: what the numbers cannot say.
    """

    unit: str = ""
    event: str = ""
    recordings: tuple[int, int] = (0, 0)
    functions: pl.DataFrame = field(default_factory=pl.DataFrame)
    tree: pl.DataFrame = field(default_factory=pl.DataFrame)
    gone: pl.DataFrame = field(default_factory=pl.DataFrame)
    notes: tuple[str, ...] = ()


def stack_changes(sides: Observed, *, level: float) -> StackChanges | None:
    """Compare the stacks of both sides; None if neither has any.

    Args:
        sides: both sides of a difference.
        level: confidence level.
    """
    if sides.unit != "run":
        return None
    names = [side.name for side in sides.both]
    found = [_read_stacks(source, side.table) for source, side in zip(sides.sources, sides.both, strict=True)]
    events = [name for name in _EVENTS if all(name in one["event"] for one in found)]
    if all(one.is_empty() for one in found):
        return None
    if not events:
        missing = [name for name, one in zip(names, found, strict=True) if one.is_empty()]
        words = f"perf recorded no stacks of {missing[0]}" if missing else "perf sampled other events on each side"
        return StackChanges(notes=(f"{words}: stacks are not compared",))
    chosen, notes = _select_shared_stack_nodes([one.filter(event=events[0]) for one in found], names)
    if any(one.is_empty() for one in chosen):
        return StackChanges(notes=tuple(notes))
    per_operation = events[0] in CLOCK_EVENTS and all(
        bool(one["us_per_operation"].is_not_null().all()) for one in chosen
    )
    unit = "µs" if per_operation else "%"
    stacks = [_sum_stack_values(one, "us_per_operation" if per_operation else "share") for one in chosen]
    recordings = stacks[0]["run"].n_unique(), stacks[1]["run"].n_unique()
    if not per_operation:
        notes.append(
            "stacks are compared by their share of perf's samples, because it is not known that perf recorded the "
            "whole of each run"
        )
    if max(recordings) == 1:
        notes.append("one recording of perf on each side: its intervals do not contain how runs of a set-up differ")
    functions = _compare_functions(stacks, level=level, with_total=per_operation)
    return StackChanges(unit, events[0], recordings, functions, *_build_stack_trees(stacks), tuple(notes))


def _select_shared_stack_nodes(
    stacks: Sequence[pl.DataFrame], names: Sequence[str]
) -> tuple[list[pl.DataFrame], list[str]]:
    """Stacks of the nodes that perf recorded in all runs of a side, and a note if these differ between the sides."""
    kept = []
    for one in stacks:
        node = pl.col("node").fill_null("")
        runs = pl.struct(RUN)
        in_runs = one.group_by(node).agg(runs.n_unique().alias("runs"))
        everywhere = in_runs.filter(pl.col("runs") == one.select(runs.n_unique()).item())["node"]
        kept.append(one.filter(node.is_in(everywhere.implode())))
    nodes = [sorted(one["node"].fill_null("all").unique()) for one in kept]
    if nodes[0] and nodes[0] == nodes[1]:
        return kept, []
    words = [f"{join_words(one) or 'none'} of {name}" for one, name in zip(nodes, names, strict=True)]
    return kept, [f"perf recorded these nodes in all runs: {'; '.join(words)}; what others took is not compared"]


def _read_stacks(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Stacks of the runs: `event` without modifiers, `stack`, `function`, `module`, `samples` and their weights."""
    resources = pl.col("resource").is_in(runs["resource"].unique().implode())
    stacks = select_one_output(convert_to_polars(source.table("perf_stacks")).filter(resources))
    totals = (
        convert_to_polars(source.table("perf_symbols"))
        .filter(resources)
        .group_by("source_id", "event")
        .agg(pl.col("samples_total").max())
    )
    whole = convert_to_polars(source.table("settings")).filter(resources, pl.col("name") == "experiment")["resource"]
    # The traced client's operations take CPU time as well.
    traced = pl.col("monitor_operations").fill_null(0) if "monitor_operations" in runs.columns else pl.lit(0)
    measured = runs.select(*RUN, operations=pl.col("operations_done") + traced)
    share = 100 * pl.col("self_percent") / pl.col("self_percent").sum().over(*RUN, "node", "event")
    in_run = pl.col("resource").is_in(whole.unique().implode()) & (pl.col("operations") > 0)
    return (
        stacks.join(measured, on=RUN)
        .join(totals, on=["source_id", "event"], how="left")
        .with_columns(
            pl.col("event").str.extract(r"^([^:/]+)"),
            pl.col("stack").str.replace_all(_ADDRESS, "${1}[unknown]"),
            samples=pl.coalesce(
                pl.col("samples").cast(pl.Float64), pl.col("self_percent") / 100 * pl.col("samples_total")
            ),
            share=share,
            us_per_operation=pl.when(in_run).then(pl.col("event_count") / _NS_PER_US / pl.col("operations")),
        )
        .with_columns(
            function=pl.col("stack").str.extract(r"([^;]*)$"), module=make_object_part_expr(pl.col("shared_object"))
        )
        .drop_nulls(["samples", "share"])
    )


def _sum_stack_values(stacks: pl.DataFrame, weight: str) -> pl.DataFrame:
    """One row per run, stack and part of the software: `run` (its number), `value` and `samples`, over all nodes."""
    numbered = stacks.with_columns(run=pl.struct(RUN).rank("dense") - 1, nodes=pl.col("node").n_unique().over(RUN))
    # Shares of several nodes are averaged, times are added up.
    value = pl.col(weight) / (pl.col("nodes") if weight == "share" else 1)
    return (
        numbered.with_columns(value=value)
        .group_by("run", "stack", "function", pl.col("module").fill_null("unknown"), maintain_order=True)
        .agg(pl.col("value", "samples").sum())
    )


def _compare_functions(stacks: Sequence[pl.DataFrame], *, level: float, with_total: bool) -> pl.DataFrame:
    """The functions by their own time, the surest and largest changes first."""
    places = [one.group_by("function", "module", "run").agg(pl.col("value", "samples").sum()) for one in stacks]
    sums = pl.concat(places).group_by("function", "module").agg(pl.col("samples").sum())
    tested = (
        sums.filter(pl.col("samples") >= _FEWEST_SAMPLES)
        .sort("samples", "function", "module", descending=[True, False, False])
        .head(_MOST_FUNCTIONS)
        .select("function", "module")
    )
    if with_total:
        everything = {"function": ALL_FUNCTIONS, "module": ""}
        named = [pl.lit(value).alias(name) for name, value in everything.items()]
        whole = [one.group_by(*named, "run").agg(pl.col("value", "samples").sum()) for one in stacks]
        places = [pl.concat(both) for both in zip(places, whole, strict=True)]
        tested = pl.concat([pl.DataFrame(everything), tested])
    values, counts = zip(*(_pivot_by_run(one, tested) for one in places), strict=True)
    found = compare_weighted_counts(values, counts, level)
    rows = tested.with_columns(
        **{name: pl.Series(numbers) for name, numbers in found.items()},
        base_samples=pl.Series(counts[0].sum(axis=1)).round().cast(pl.Int64),
        other_samples=pl.Series(counts[1].sum(axis=1)).round().cast(pl.Int64),
    )
    size = pl.col("difference").abs()
    return rows.sort(pl.col("function") == ALL_FUNCTIONS, "decided", size, descending=True)


def _pivot_by_run(places: pl.DataFrame, tested: pl.DataFrame) -> tuple[Floats, Floats]:
    """Values and numbers of samples: one row per function, one column per run."""
    runs = places["run"].n_unique()
    rows = places.join(tested.with_row_index("row"), on=["function", "module"])
    values, counts = np.zeros((2, tested.height, runs))
    at = rows["row"].to_numpy(), rows["run"].to_numpy()
    values[at], counts[at] = rows["value"].to_numpy(), rows["samples"].to_numpy()
    return values, counts


def compare_weighted_counts(
    values: Sequence[Floats], counts: Sequence[Floats], level: float
) -> dict[str, Floats | Bools]:
    """Differences of the means of two sides whose values are weighted counts, with simultaneous intervals.

    Args:
        values: of base and other: one row per function, one column per run.
        counts: numbers of samples behind the values.
        level: confidence with which all intervals hold together (Bonferroni).

    Returns:
        `base`, `other`, `difference`, `low`, `high`, `p` (NaN with one run on each side) and `decided`.

    Example:
        >>> before, after = np.array([[100.0, 104.0, 98.0]]), np.array([[210.0, 190.0, 200.0]])
        >>> found = compare_weighted_counts((before, after), (before, after), 0.95)
        >>> bool(found["decided"][0]), round(float(found["difference"][0]), 1)
        (True, 99.3)
    """
    from scipy import special

    means = [side.mean(axis=1) for side in values]
    runs = [side.shape[1] for side in values]
    # A side with few samples by chance would have too small a variance: it has at least that of both sides' mean.
    pooled = np.concatenate(values, axis=1).mean(axis=1)
    likely = [np.maximum(mean, pooled) for mean in means]
    # A sample stands for the same value in all functions.
    sampled = [
        mean * np.divide(v.sum(), c.sum(), out=np.zeros(()), where=c.sum() > 0)
        for mean, v, c in zip(likely, values, counts, strict=True)
    ]
    df = sum(runs) - len(runs)
    spread = [side.var(axis=1, ddof=1) if side.shape[1] > 1 else np.zeros(side.shape[0]) for side in values]
    excess = sum(float((n - 1) * (s - c).sum()) for n, s, c in zip(runs, spread, sampled, strict=True))
    squares = sum(float((n - 1) * (mean**2).sum()) for n, mean in zip(runs, means, strict=True))
    relative = max(excess / squares, 0.0) if squares else 0.0
    variances = [
        np.maximum(s, c + relative * mean**2) / n for s, c, mean, n in zip(spread, sampled, likely, runs, strict=True)
    ]
    difference, variance = means[1] - means[0], np.sum(variances, axis=0)
    counted = np.sum([one / n for one, n in zip(sampled, runs, strict=True)], axis=0)
    # Satterthwaite: the variance of counts is known, that between runs has the degrees of freedom of the runs.
    between = np.divide(variance - counted, variance, out=np.zeros_like(variance), where=variance > 0)
    dfs = np.divide(df, between**2, out=np.full_like(variance, _MANY), where=between > df**0.5 * 1e-4)
    half = np.sqrt(variance) * special.stdtrit(dfs, 1 - (1 - level) / (2 * difference.size))
    t = np.divide(np.abs(difference), np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0)
    p = np.minimum(2 * special.stdtr(dfs, -t) * difference.size, 1.0) if df else np.full_like(t, np.nan)
    return {
        "base": means[0],
        "other": means[1],
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "p": p,
        "decided": p < 1 - level,
    }


def _build_stack_trees(stacks: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tree of the other side beside the base, and the topmost frames that only the base has."""
    sides = []
    for one in stacks:
        means = one.group_by("stack", maintain_order=True).agg(share=pl.col("value").sum() / one["run"].n_unique())
        frames = build_stack_frames(means.with_columns(tree=pl.lit(0)), ("tree",), 0.0, _DEEPEST)
        sides.append(frames.select("tree", "path", "depth", value="percent", own="self_percent"))
    wholes = [float(one.filter(depth=0)["value"].sum()) for one in sides]
    least = max(wholes) * _LEAST_SHARE
    base, other = sides
    both = other.join(base, on=["tree", "path"], how="left", suffix="_base").with_columns(
        pl.col("value_base", "own_base").fill_null(0.0)
    )
    shown = number_stack_frames(both.filter(pl.col("value") >= least).rename({"value": "percent"}), ("tree",)).select(
        *("frame_id", "caller_id", "depth", "frame"),
        base="value_base",
        other="percent",
        base_self="own_base",
        other_self="own",
    )
    roots = shown.filter(depth=0)
    rest = {side: whole - float(roots[side].sum()) for side, whole in zip(("base", "other"), wholes, strict=True)}
    rare = {"frame_id": shown.height, "depth": 0, "frame": _RARE, **rest, "base_self": 0.0, "other_self": 0.0}
    tree = pl.concat([shown, pl.DataFrame([rare], schema=shown.schema)])
    lost = base.join(other, on="path", how="anti").filter(pl.col("value") >= least)
    caller = pl.col("path").str.extract(r"^(.*);[^;]*$")
    topmost = lost.with_columns(caller=caller).join(lost.select(caller="path"), on="caller", how="anti")
    gone = topmost.sort("value", "path", descending=[True, False]).select(
        pl.col("path").str.extract(r"([^;]*)$").alias("frame"), base="value", path="path"
    )
    return tree, gone


def describe_timer_skid(event: str | None) -> str:
    """What a timer of perf cannot see, as where a virtual machine has no counters of the processor; else empty.

    Example:
        >>> describe_timer_skid("cpu-clock:ppp").partition(":")[0], describe_timer_skid("cycles")
        ('The event cpu-clock is a timer', '')
    """
    # Behind a colon are modifiers.
    name = (event or "").partition(":")[0]
    if name not in CLOCK_EVENTS:
        return ""
    return (
        f"The event {name} is a timer: its samples fall where interrupts are let in again, so that functions of the "
        "kernel that keep them out are counted under those that let them in (_raw_spin_unlock_irqrestore, "
        "finish_task_switch)."
    )


def tabulate_functions(found: StackChanges, most: int = 25) -> pl.DataFrame:
    """Functions as rows of a table, with the unit of their values; the surest and largest changes first."""
    unit = "µs of CPU per operation" if found.unit == "µs" else "% of the samples"
    return found.functions.head(most).with_columns(unit=pl.lit(unit))


def tabulate_removed_functions(found: StackChanges, most: int = 25) -> pl.DataFrame:
    """Functions that only the base called: `function`, `called_by` (the two above it) and their value in the base."""
    above = pl.col("path").str.extract(r"([^;]*(?:;[^;]*)?);[^;]*$").str.replace(";", " > ")
    return found.gone.head(most).select(function="frame", called_by=above, base="base")


def round_to_digits(value: float, digits: int = 2) -> str:
    """A number as a person says it, with two digits.

    Example:
        >>> round_to_digits(1234.5), round_to_digits(0.0123)
        ('1,200', '0.012')
    """
    return f"{float(f'{value:.{digits}g}'):,.10g}"
