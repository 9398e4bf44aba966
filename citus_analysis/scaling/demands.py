"""Demands of an operation on each node, and the throughput at which the first resource would be saturated.

References:
    Denning, P. J. and Buzen, J. P. (1978). The operational analysis of queueing network models (utilisation law).
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 5 (asymptotic bounds).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.machine_work import find_shared_machines, make_is_machine_expr, name_machines, place_text
from citus_analysis.bottleneck.measurements import SERVER_CPU, read_stated_numbers
from citus_analysis.bottleneck.samples import NODE, RUN, align_to_runs
from citus_analysis.bottleneck.study import CONFIGURATION, BottleneckStudy, read_configured_runs
from citus_analysis.core.frames import (
    Frame,
    TableSource,
    convert_to_polars,
    return_callers_frame_kind,
)
from citus_analysis.scaling.queueing import asymptotic_bounds, compute_service_demand_us
from citus_analysis.units import US_PER_S

_CORES: Final = r"(\d+) cores?"
#: Metric of the matrix -> name of the demand, its unit, and whether it is a share of a capacity (has a bound).
_OF_MATRIX: Final = {
    ("CPU", "busy"): ("CPU time", "µs", True),
    ("device", "busy (busiest device)"): ("device time", "µs", True),
    ("network", "received and sent"): ("network", "kB", False),
}


def compute_resource_demands(dataset: TableSource, study: BottleneckStudy) -> pl.DataFrame:
    """Demand of an operation at each node, by the utilisation law D = U m / X, and the bound X / U that follows.

    The CPU time of a node is that of its control group, or of its processes as pidstat lists them. Where neither was
    recorded, it is that of its machine, which includes all other programs; if several nodes, or clients, share the
    machine, the node's is not known, and there is no row. Devices and the network of a shared machine have no bound,
    and are named after the machine. Doubtful runs are left out. A bound assumes that the demand of an operation does
    not depend on the load.

    Args:
        dataset: the dataset of the study.
        study: result of :func:`citus_analysis.bottleneck.study_bottleneck`.

    Returns:
        The configuration, `node`, `demand` (CPU time, device time, network, context switches, WAL), `per_operation`,
        `unit`, `utilisation_percent`, `throughput_ops_s` (mean of the runs), `bound_ops_s` (null if there is no
        capacity), `of_bound_percent`, `runs`.
    """
    done = read_configured_runs(dataset).filter(pl.col("throughput_ops_s") > 0, pl.col("status") != "doubtful")
    tables = {name: convert_to_polars(dataset.table(name)) for name in ("nodes", "throttle_samples", "process_samples")}
    machines = find_shared_machines(tables["nodes"], tables["throttle_samples"], tables["process_samples"])
    rates = done.group_by(CONFIGURATION).agg(pl.col("throughput_ops_s").mean(), runs=pl.len())
    cores = pl.col("value").str.extract(_CORES).cast(pl.Float64)
    sized = read_stated_numbers(convert_to_polars(dataset.table("settings")), "hardware", cores=cores)
    parts = [
        _compute_matrix_demands(study.matrix, rates, _add_core_quotas(sized, done)),
        _compute_switch_demands(name_machines(convert_to_polars(dataset.table("vm_samples")), machines), done, rates),
        _compute_wal_demands(convert_to_polars(dataset.table("server_counters")), done, rates),
    ]
    found = pl.concat(parts, how="diagonal").sort(*CONFIGURATION, "demand", "node", nulls_last=True)
    return found.select(*CONFIGURATION, "node", "demand", "per_operation", "unit", *_BESIDE)


def _add_core_quotas(sized: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """`cores` of each resource's machines, and `quota`: the cores that a node may use, if it is stated."""
    if "cpu_per_node" not in runs.columns:
        return sized.with_columns(quota=pl.lit(None, pl.Float64))
    quotas = runs.select("resource", quota=pl.col("cpu_per_node").cast(pl.Float64, strict=False)).unique("resource")
    return sized.join(quotas, on="resource", how="full", coalesce=True)


def _compute_matrix_demands(matrix: pl.DataFrame, rates: pl.DataFrame, sized: pl.DataFrame) -> pl.DataFrame:
    found = []
    joined = matrix.drop("runs").join(rates, on=CONFIGURATION, nulls_equal=True).join(sized, on="resource", how="left")
    joined = joined.filter(pl.col("value").is_not_null()).with_columns(is_shared=make_is_machine_expr(pl.col("node")))
    own = joined.filter(metric=SERVER_CPU).with_columns(
        pl.col("value") / pl.coalesce("quota", "cores"),
        pl.lit("busy").alias("metric"),
        servers=pl.coalesce("quota", "cores"),
    )
    measured = [*CONFIGURATION, "part"]
    of_machines = joined.with_columns(servers="cores").join(own, on=measured, how="anti", nulls_equal=True)
    for (part, metric), (demand, unit, bounded) in _OF_MATRIX.items():
        is_cpu = part == "CPU"
        rows = pl.concat([own, of_machines.filter(~pl.col("is_shared"))]) if is_cpu else joined
        rows = rows.filter((pl.col("part") == part) & (pl.col("metric") == metric))
        if bounded:
            rows = rows.with_columns(servers=pl.col("servers") if is_cpu else pl.lit(1.0)).drop_nulls("servers")
            share = (rows["value"] / 100).to_numpy()
            demands = compute_service_demand_us(share, rows["throughput_ops_s"].to_numpy(), rows["servers"].to_numpy())
            is_own = pl.when(pl.col("value") > 0, ~pl.col("is_shared"))
            bound = is_own.then(pl.col("throughput_ops_s") / pl.col("value"))
            rows = rows.with_columns(
                per_operation=pl.Series(demands),
                utilisation_percent="value",
                bound_ops_s=bound * 100,
                of_bound_percent=pl.when(~pl.col("is_shared")).then("value"),
            )
        else:
            rows = rows.with_columns(per_operation=pl.col("value") / pl.col("throughput_ops_s"))
        found.append(_demand(rows, demand, unit))
    return pl.concat(found, how="diagonal")


_BESIDE: Final = ("utilisation_percent", "throughput_ops_s", "bound_ops_s", "of_bound_percent", "runs")


def _demand(rows: pl.DataFrame, demand: str, unit: str) -> pl.DataFrame:
    return rows.select(
        *CONFIGURATION,
        pl.col("node").cast(pl.String),
        "per_operation",
        *(name for name in _BESIDE if name in rows.columns),
        demand=pl.lit(demand),
        unit=pl.lit(unit),
    )


def _compute_switch_demands(vm: pl.DataFrame, runs: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    inside = align_to_runs(vm, runs).join(runs.select(*RUN, *CONFIGURATION[1:]), on=RUN)
    means = inside.group_by(*CONFIGURATION, "node").agg(rate=pl.col("context_switches_per_s").mean()).drop_nulls("rate")
    joined = means.join(rates, on=CONFIGURATION, nulls_equal=True)
    per_operation = pl.col("rate") / pl.col("throughput_ops_s")
    return _demand(joined.with_columns(per_operation=per_operation), "context switches", "switches")


def _compute_wal_demands(counters: pl.DataFrame, runs: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    view, counter = pl.col("view").cast(pl.String), pl.col("counter").cast(pl.String)
    written = counters.filter((view == "pg_stat_wal") & (counter == "wal_bytes")).drop_nulls("value")
    done = runs.select(*RUN, *CONFIGURATION[1:], "operations_done").filter(pl.col("operations_done") > 0)
    sums = written.group_by(*NODE, maintain_order=True).agg(pl.col("value").sum()).join(done, on=RUN)
    per_run = sums.with_columns(per_operation=pl.col("value") / pl.col("operations_done"))
    means = per_run.group_by(*CONFIGURATION, "node", maintain_order=True).agg(pl.col("per_operation").mean())
    return _demand(means.join(rates, on=CONFIGURATION, nulls_equal=True), "WAL", "bytes")


@return_callers_frame_kind
def find_first_to_saturate(demands: Frame) -> pl.DataFrame:
    """The resource with the lowest bound of each configuration: the first to saturate if load grows.

    Args:
        demands: result of :func:`compute_resource_demands`.
    """
    bounded = convert_to_polars(demands).drop_nulls("bound_ops_s").sort("bound_ops_s")
    return bounded.unique(CONFIGURATION, keep="first", maintain_order=True).sort(*CONFIGURATION, nulls_last=True)


@return_callers_frame_kind
def load_bounds(demands: Frame) -> pl.DataFrame:
    """Bounds of throughput and response time from the demands of each configuration, valid for all distributions.

    The bounds are those of a closed system whose clients do not pause: throughput is at most min(N / D, 1 / D_max), and
    an operation takes at least max(D, N D_max), where D is the sum of the demands of all nodes and D_max the largest.
    A CPU's demand is divided by its cores, so that D is a lower bound of an operation's time in the servers.

    Args:
        demands: result of :func:`compute_resource_demands`.

    Returns:
        Per configuration with a number of threads and a demand that has a bound: `demand_us` (D), `largest_us` (D_max),
        `largest` (its resource), `knee_threads` (D / D_max; below it, throughput can grow with the threads),
        `bound_ops_s` (at its own number of threads), `throughput_ops_s` (measured), `of_bound_percent` and
        `response_low_us`.

    Example:
        >>> row = {name: None for name in CONFIGURATION} | {"resource": "w2", "threads": 4, "throughput_ops_s": 500.0}
        >>> cpu = row | {"node": "1", "demand": "CPU time", "bound_ops_s": 1000.0}
        >>> disk = row | {"node": "1", "demand": "device time", "bound_ops_s": 4000.0}
        >>> found = load_bounds(pl.DataFrame([cpu, disk])).row(0, named=True)
        >>> found["largest"], found["knee_threads"], found["bound_ops_s"], found["response_low_us"]
        ('CPU time of node 1', 1.25, 1000.0, 4000.0)
    """
    frame = convert_to_polars(demands).drop_nulls(["bound_ops_s", "threads"])
    rows = [
        dict(zip(CONFIGURATION, key, strict=True)) | _compute_configuration_bounds(group)
        for key, group in frame.group_by(CONFIGURATION, maintain_order=True)
    ]
    kinds = {name: frame.schema[name] for name in CONFIGURATION}
    numbers = dict.fromkeys((*_BOUNDS, "throughput_ops_s", "of_bound_percent"), pl.Float64)
    found = pl.DataFrame(rows, schema={**kinds, "largest": pl.String, **numbers})
    return found.sort(*CONFIGURATION, nulls_last=True)


_BOUNDS: Final = ("demand_us", "largest_us", "knee_threads", "bound_ops_s", "response_low_us")


def _compute_configuration_bounds(demands: pl.DataFrame) -> dict[str, object]:
    """The bounds of one configuration, from the demands of all its resources."""
    places = [f"{demand} of {place_text(node or '?')}" for demand, node in demands.select("demand", "node").iter_rows()]
    named = demands.with_columns(place=pl.Series(places, dtype=pl.String))
    each = {place: US_PER_S / bound for place, bound in named.select("place", "bound_ops_s").iter_rows()}
    found = asymptotic_bounds(each, demands["threads"][0])
    bound, measured = float(found.throughput_high_ops_s[0]), demands["throughput_ops_s"][0]
    return {
        "demand_us": sum(each.values()),
        "largest_us": max(each.values()),
        "largest": found.bottleneck,
        "knee_threads": found.knee,
        "bound_ops_s": bound,
        "throughput_ops_s": measured,
        "of_bound_percent": 100 * measured / bound,
        "response_low_us": float(found.response_low_us[0]),
    }
