"""Measurements of each resource in each run: utilisation, saturation and errors as one long table.

Every frame here has the columns `resource`, `run_id`, `node`, `part` (CPU, device ...), `aspect`, `metric`, `value`,
`unit`, `samples` and `source_id`.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.evidence.waits import time_shares
from citus_analysis.bottleneck.machine_work import CLIENT_GROUP, GROUP_NODE, WHOLE_HOST, node_cpu
from citus_analysis.bottleneck.samples_in_runs import NODE, RUN, align_to_runs, windows_of
from citus_analysis.bottleneck.utilization import resource_utilization
from citus_analysis.core.possible_values.doubtful_values import doubtful_in, sound_moments

#: Metric: CPU time of a single node's server, where control groups or pidstat measured it.
SERVER_CPU: Final = "used by its server"
PARTS: Final = ("CPU", "device", "memory", "network", "connections", "locks", "WAL and checkpoints", "load generator")
ASPECTS: Final = ("utilisation", "saturation", "errors")
COLUMNS: Final = ("resource", "run_id", "node", "part", "aspect", "metric", "value", "unit", "samples", "source_id")
_MEMORY: Final = r"(\d+(?:\.\d+)?) GiB memory"
#: The samples behind a mean, and the first file that they are from.
_BASIS: Final = {"samples": pl.len(), "source_id": pl.col("source_id").first()}
_KB_PER_GIB: Final = 1024 * 1024


def measured(rows: pl.DataFrame, part: str, aspect: str, metric: str, unit: str) -> pl.DataFrame:
    """Rows with `value`, `samples` and `source_id` as measurements of one metric; null values are left out."""
    typed = rows.cast({"node": pl.String, "value": pl.Float64, "samples": pl.Int64}).drop_nulls("value")
    place = {"part": part, "aspect": aspect, "metric": metric, "unit": unit}
    return typed.with_columns(pl.lit(word).alias(name) for name, word in place.items()).select(COLUMNS)


def stated(settings: pl.DataFrame, name: str, **value: pl.Expr) -> pl.DataFrame:
    """`resource` and a number from its value of a setting, the first of several."""
    return settings.filter(pl.col("name") == name).select("resource", **value).unique("resource", keep="first")


def _means(samples: pl.DataFrame, value: pl.Expr, *, total_by: str = "") -> pl.DataFrame:
    """Mean of a value over the samples of each run and node; with `total_by`, the rows of a sample are summed first."""
    rows = samples.with_columns(value=value).drop_nulls("value")
    if total_by:
        rows = rows.group_by(*NODE, "source_id", "sample", maintain_order=True).agg(pl.col("value").sum())
    return rows.group_by(NODE, maintain_order=True).agg(pl.col("value").mean(), **_BASIS)


def hosts_measured(tables: dict[str, pl.DataFrame], runs: pl.DataFrame) -> list[pl.DataFrame]:
    """CPU, devices, memory and network of each node.

    Args:
        tables: `cpu_samples`, `device_samples`, `vm_samples`, `pressure_samples`, `net_samples`, `throttle_samples`,
            `process_samples`, `activity_samples`, `nodes` and `settings`.
        runs: the runs.
    """
    used = resource_utilization(tables["cpu_samples"], tables["device_samples"], runs).rename({"n": "samples"})
    cpu = used.filter(pl.col("component") == "cpu")
    devices = used.filter(pl.col("component") == "device").sort("mean_percent", descending=True, nulls_last=True)
    busiest = devices.unique(NODE, keep="first", maintain_order=True)
    return [
        measured(cpu.with_columns(value="mean_percent"), "CPU", "utilisation", "busy", "%"),
        measured(cpu.with_columns(value="steal_percent"), "CPU", "saturation", "stolen", "%"),
        measured(busiest.with_columns(value="mean_percent"), "device", "utilisation", "busy (busiest device)", "%"),
        measured(busiest.with_columns(value="queue_length"), "device", "saturation", "queue length", "requests"),
        measured(busiest.with_columns(value="await_ms"), "device", "saturation", "time of requests", "ms"),
        *_pressures(align_to_runs(tables["pressure_samples"], runs)),
        *_memory(align_to_runs(tables["vm_samples"], runs), tables["settings"]),
        *_network(align_to_runs(tables["net_samples"], runs)),
        *throttling(tables["throttle_samples"], runs),
        measured(
            node_cpu(tables, runs).with_columns(value="used_percent"), "CPU", "utilisation", SERVER_CPU, "% of one CPU"
        ),
    ]


def _pressures(pressure: pl.DataFrame) -> list[pl.DataFrame]:
    places = {"cpu": "CPU", "io": "device", "memory": "memory"}
    some = pressure.filter(pl.col("scope").cast(pl.String) == "some")
    kind = pl.col("pressure").cast(pl.String)
    return [
        measured(_means(some.filter(kind == name), pl.col("stalled_percent")), part, "saturation", "stalled", "%")
        for name, part in places.items()
    ]


def _memory(vm: pl.DataFrame, settings: pl.DataFrame) -> list[pl.DataFrame]:
    size = stated(settings, "hardware", size=pl.col("value").str.extract(_MEMORY).cast(pl.Float64) * _KB_PER_GIB)
    sized = vm.join(size, on="resource", how="left")
    free = pl.col("free_kb") + pl.col("buffer_kb").fill_null(0) + pl.col("cache_kb").fill_null(0)
    used = pl.when(~doubtful_in(sized, "buffer_kb", "cache_kb")).then((1 - free / pl.col("size")) * 100)
    swapped = pl.col("swap_in_kb_s") + pl.col("swap_out_kb_s")
    return [
        measured(_means(sized, used), "memory", "utilisation", "used, without caches", "%"),
        measured(_means(vm, swapped), "memory", "saturation", "swapped", "kB/s"),
        measured(_means(vm, pl.col("runnable")), "CPU", "saturation", "runnable processes", "processes"),
    ]


def _network(net: pl.DataFrame) -> list[pl.DataFrame]:
    both = {name: pl.col(f"receive_{name}_per_s") + pl.col(f"transmit_{name}_per_s") for name in ("drops", "errors")}
    rate = pl.col("receive_kb_s") + pl.col("transmit_kb_s")
    sound = sound_moments(net, ("receive_kb_s", "transmit_kb_s"))
    return [
        measured(_means(sound, rate, total_by="interface"), "network", "utilisation", "received and sent", "kB/s"),
        measured(_busiest(net), "network", "utilisation", "of its speed (busiest interface)", "%"),
        measured(_means(net, both["drops"], total_by="interface"), "network", "saturation", "dropped", "packets/s"),
        measured(_means(net, both["errors"], total_by="interface"), "network", "errors", "errors", "packets/s"),
    ]


def _busiest(net: pl.DataFrame) -> pl.DataFrame:
    """The interface of each run and node that came closest to its speed; none if no speed is known.

    sar prints 0 for an interface whose speed it does not know.
    """
    seen = net.drop_nulls("utilization_percent").group_by(*NODE, "interface", maintain_order=True)
    used = seen.agg(value=pl.col("utilization_percent").mean(), **_BASIS).filter(pl.col("value") > 0)
    return used.sort("value", descending=True, maintain_order=True).unique(NODE, keep="first", maintain_order=True)


def throttling(throttle: pl.DataFrame, runs: pl.DataFrame) -> list[pl.DataFrame]:
    """Share of enforcement periods in which a quota stopped the servers' and the clients' control groups.

    The runner samples the groups of server processes, and groups whose name contains `client`. A group belongs to the
    load generator if its path contains `client`, `driver`, `ycsb`, `pgbench` or `loadgen`, otherwise to the servers. Of
    several groups, the one that was throttled most is used; the root group, which is the whole host, is ignored. A
    group named after a node (`postgres-node1`) belongs to this node, any other to the node whose host was sampled.
    """
    path = pl.col("control_group")
    inside = align_to_runs(throttle, runs).filter(~path.str.contains(WHOLE_HOST))
    clients = path.str.contains(CLIENT_GROUP)
    found = []
    for mine, part in ((~clients, "CPU"), (clients, "load generator")):
        named = pl.coalesce(path.str.extract(GROUP_NODE), pl.col("node").cast(pl.String))
        groups = inside.filter(mine).with_columns(node=named)
        shares = groups.group_by(*NODE, "control_group", maintain_order=True).agg(
            value=100 * pl.col("throttled_periods").sum() / pl.col("periods").sum(),
            samples=pl.col("periods").count(),
            source_id=pl.col("source_id").first(),
        )
        # Without a quota the kernel counts no periods, and the quotient is not a number.
        shares = shares.with_columns(pl.col("value").fill_nan(0.0)).sort("value", descending=True)
        most = shares.unique(NODE, keep="first", maintain_order=True)
        found.append(measured(most, part, "saturation", "periods stopped by a quota", "%"))
    return found


def sessions_measured(sessions: pl.DataFrame, settings: pl.DataFrame) -> list[pl.DataFrame]:
    """Connections in use, and the share of the clients' session time in waits and outside the servers."""
    limits = stated(settings, "settings.max_connections", limit=pl.col("value").cast(pl.Float64, strict=False))
    open_ = sessions.group_by(*NODE, "source_id", "sample", maintain_order=True).agg(open=pl.len())
    used = _means(open_.join(limits, on="resource", how="left"), pl.col("open") / pl.col("limit") * 100)
    found = [measured(used, "connections", "utilisation", "of max_connections", "%")]
    shares = time_shares(sessions).with_columns(node=pl.lit(None, pl.String), value="percent", samples="n")
    source = sessions.group_by(RUN, maintain_order=True).agg(pl.col("source_id").min())
    places = {
        "lock": ("locks", "saturation", "session time in lock waits"),
        "WAL": ("WAL and checkpoints", "saturation", "session time in WAL waits"),
        "I/O": ("device", "saturation", "session time in I/O waits"),
        "client": ("load generator", "utilisation", "session time outside the servers"),
    }
    seen = shares.join(source, on=RUN)
    everywhere = seen.unique(RUN, keep="first").with_columns(value=pl.lit(0.0)).drop("doing")
    for doing, place in places.items():
        mine = seen.filter(pl.col("doing") == doing)
        rest = everywhere.join(mine, on=RUN, how="anti")
        found.append(measured(pl.concat([mine, rest], how="diagonal"), *place, "%"))
    return found


def checkpoints_measured(
    checkpoints: pl.DataFrame, runs: pl.DataFrame, logs: pl.DataFrame, settings: pl.DataFrame
) -> list[pl.DataFrame]:
    """Share of each run with a checkpoint under way, and the mean time between checkpoints that WAL requested.

    The share is 0 for logs without checkpoints (`logs`: run, node, `source_id`) if `log_checkpoints` is on.
    """
    begin = pl.coalesce("start_time", pl.col("end_time") - pl.duration(milliseconds=pl.col("total_s") * 1000))
    placed = checkpoints.with_columns(start_time=begin).join(windows_of(runs), on=RUN)
    during = placed.filter((pl.col("start_time") < pl.col("until")) & (pl.col("end_time") > pl.col("begin")))
    overlap = pl.min_horizontal("end_time", "until") - pl.max_horizontal("start_time", "begin")
    length = (pl.col("until") - pl.col("begin")).dt.total_milliseconds()
    of_wal = pl.col("reason").str.contains(r"\b(?:wal|xlog)\b")
    distance = pl.col("start_time").filter(of_wal).sort().diff().dt.total_milliseconds().mean() / 1000
    counts = during.group_by(NODE, maintain_order=True).agg(
        share=100 * overlap.dt.total_milliseconds().sum() / length.first(), distance=distance, **_BASIS
    )
    logged = settings.filter((pl.col("name") == "settings.log_checkpoints") & (pl.col("value") == "on"))
    without = logs.join(logged, on="resource", how="semi").join(counts, on=NODE, how="anti")
    never = without.select(*NODE, "source_id", share=pl.lit(0.0), samples=0)
    shares = pl.concat([counts, never], how="diagonal_relaxed")
    part = "WAL and checkpoints"
    return [
        measured(shares.with_columns(value="share"), part, "utilisation", "time with a checkpoint under way", "%"),
        measured(counts.with_columns(value="distance"), part, "saturation", "between checkpoints for WAL", "s"),
    ]
