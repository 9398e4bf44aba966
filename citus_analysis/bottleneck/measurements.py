"""Measurements of each resource in each run: utilisation, saturation and errors as one long table.

Every frame here has the columns `resource`, `run_id`, `node`, `part` (CPU, device ...), `aspect`, `metric`, `value`,
`unit`, `samples` and `source_id`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import polars as pl

from citus_analysis import defaults
from citus_analysis.bottleneck.machine_work import CLIENT_GROUP, GROUP_NODE, WHOLE_HOST, compute_node_cpu, place_text
from citus_analysis.bottleneck.resources import compute_resource_utilization
from citus_analysis.bottleneck.samples import (
    NODE,
    RUN,
    add_configuration_columns,
    align_to_runs,
    build_run_windows,
    has_out_of_range_values,
    make_first_true_expr,
    select_in_range_samples,
)
from citus_analysis.bottleneck.waits import time_shares
from citus_analysis.errors import UsageError, require_known
from citus_analysis.runs.concurrency import compute_concurrency
from citus_analysis.stats import mean_interval
from citus_analysis.texts.words import join_words

#: Metric: CPU time of a single node's server, where control groups or pidstat measured it.
SERVER_CPU: Final = "used by its server"
PARTS: Final = ("CPU", "device", "memory", "network", "connections", "locks", "WAL and checkpoints", "load generator")
ASPECTS: Final = ("utilisation", "saturation", "errors")
COLUMNS: Final = ("resource", "run_id", "node", "part", "aspect", "metric", "value", "unit", "samples", "source_id")
_MEMORY: Final = r"(\d+(?:\.\d+)?) GiB memory"
#: The samples behind a mean, and the first file that they are from.
_BASIS: Final = {"samples": pl.len(), "source_id": pl.col("source_id").first()}
_KB_PER_GIB: Final = 1024 * 1024


def make_measurements(rows: pl.DataFrame, part: str, aspect: str, metric: str, unit: str) -> pl.DataFrame:
    """Rows with `value`, `samples` and `source_id` as measurements of one metric; null values are left out."""
    typed = rows.cast({"node": pl.String, "value": pl.Float64, "samples": pl.Int64}).drop_nulls("value")
    place = {"part": part, "aspect": aspect, "metric": metric, "unit": unit}
    return typed.with_columns(pl.lit(word).alias(name) for name, word in place.items()).select(COLUMNS)


def read_stated_numbers(settings: pl.DataFrame, name: str, **value: pl.Expr) -> pl.DataFrame:
    """`resource` and a number from its value of a setting, the first of several."""
    return settings.filter(pl.col("name") == name).select("resource", **value).unique("resource", keep="first")


def _means(samples: pl.DataFrame, value: pl.Expr, *, total_by: str = "") -> pl.DataFrame:
    """Mean of a value over the samples of each run and node; with `total_by`, the rows of a sample are summed first."""
    rows = samples.with_columns(value=value).drop_nulls("value")
    if total_by:
        rows = rows.group_by(*NODE, "source_id", "sample", maintain_order=True).agg(pl.col("value").sum())
    return rows.group_by(NODE, maintain_order=True).agg(pl.col("value").mean(), **_BASIS)


def measure_hosts(tables: dict[str, pl.DataFrame], runs: pl.DataFrame) -> list[pl.DataFrame]:
    """CPU, devices, memory and network of each node.

    Args:
        tables: `cpu_samples`, `device_samples`, `vm_samples`, `pressure_samples`, `net_samples`, `throttle_samples`,
            `process_samples`, `activity_samples`, `nodes` and `settings`.
        runs: the runs.
    """
    used = compute_resource_utilization(tables["cpu_samples"], tables["device_samples"], runs).rename({"n": "samples"})
    cpu = used.filter(pl.col("component") == "cpu")
    devices = used.filter(pl.col("component") == "device").sort("mean_percent", descending=True, nulls_last=True)
    busiest = devices.unique(NODE, keep="first", maintain_order=True)
    return [
        make_measurements(cpu.with_columns(value="mean_percent"), "CPU", "utilisation", "busy", "%"),
        make_measurements(cpu.with_columns(value="steal_percent"), "CPU", "saturation", "stolen", "%"),
        make_measurements(
            busiest.with_columns(value="mean_percent"), "device", "utilisation", "busy (busiest device)", "%"
        ),
        make_measurements(
            busiest.with_columns(value="queue_length"), "device", "saturation", "queue length", "requests"
        ),
        make_measurements(busiest.with_columns(value="await_ms"), "device", "saturation", "time of requests", "ms"),
        *_measure_pressure(align_to_runs(tables["pressure_samples"], runs)),
        *_measure_memory(align_to_runs(tables["vm_samples"], runs), tables["settings"]),
        *_measure_network(align_to_runs(tables["net_samples"], runs)),
        *measure_throttling(tables["throttle_samples"], runs),
        make_measurements(
            compute_node_cpu(tables, runs).with_columns(value="used_percent"),
            "CPU",
            "utilisation",
            SERVER_CPU,
            "% of one CPU",
        ),
    ]


def _measure_pressure(pressure: pl.DataFrame) -> list[pl.DataFrame]:
    places = {"cpu": "CPU", "io": "device", "memory": "memory"}
    some = pressure.filter(pl.col("scope").cast(pl.String) == "some")
    kind = pl.col("pressure").cast(pl.String)
    return [
        make_measurements(
            _means(some.filter(kind == name), pl.col("stalled_percent")), part, "saturation", "stalled", "%"
        )
        for name, part in places.items()
    ]


def _measure_memory(vm: pl.DataFrame, settings: pl.DataFrame) -> list[pl.DataFrame]:
    size = read_stated_numbers(
        settings, "hardware", size=pl.col("value").str.extract(_MEMORY).cast(pl.Float64) * _KB_PER_GIB
    )
    sized = vm.join(size, on="resource", how="left")
    free = pl.col("free_kb") + pl.col("buffer_kb").fill_null(0) + pl.col("cache_kb").fill_null(0)
    used = pl.when(~has_out_of_range_values(sized, "buffer_kb", "cache_kb")).then((1 - free / pl.col("size")) * 100)
    swapped = pl.col("swap_in_kb_s") + pl.col("swap_out_kb_s")
    return [
        make_measurements(_means(sized, used), "memory", "utilisation", "used, without caches", "%"),
        make_measurements(_means(vm, swapped), "memory", "saturation", "swapped", "kB/s"),
        make_measurements(_means(vm, pl.col("runnable")), "CPU", "saturation", "runnable processes", "processes"),
    ]


def _measure_network(net: pl.DataFrame) -> list[pl.DataFrame]:
    both = {name: pl.col(f"receive_{name}_per_s") + pl.col(f"transmit_{name}_per_s") for name in ("drops", "errors")}
    rate = pl.col("receive_kb_s") + pl.col("transmit_kb_s")
    sound = select_in_range_samples(net, ("receive_kb_s", "transmit_kb_s"))
    return [
        make_measurements(
            _means(sound, rate, total_by="interface"), "network", "utilisation", "received and sent", "kB/s"
        ),
        make_measurements(
            _find_busiest_interfaces(net), "network", "utilisation", "of its speed (busiest interface)", "%"
        ),
        make_measurements(
            _means(net, both["drops"], total_by="interface"), "network", "saturation", "dropped", "packets/s"
        ),
        make_measurements(
            _means(net, both["errors"], total_by="interface"), "network", "errors", "errors", "packets/s"
        ),
    ]


def _find_busiest_interfaces(net: pl.DataFrame) -> pl.DataFrame:
    """The interface of each run and node that came closest to its speed; none if no speed is known.

    sar prints 0 for an interface whose speed it does not know.
    """
    seen = net.drop_nulls("utilization_percent").group_by(*NODE, "interface", maintain_order=True)
    used = seen.agg(value=pl.col("utilization_percent").mean(), **_BASIS).filter(pl.col("value") > 0)
    return used.sort("value", descending=True, maintain_order=True).unique(NODE, keep="first", maintain_order=True)


def measure_throttling(throttle: pl.DataFrame, runs: pl.DataFrame) -> list[pl.DataFrame]:
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
        found.append(make_measurements(most, part, "saturation", "periods stopped by a quota", "%"))
    return found


def measure_sessions(sessions: pl.DataFrame, settings: pl.DataFrame) -> list[pl.DataFrame]:
    """Connections in use, and the share of the clients' session time in waits and outside the servers."""
    limits = read_stated_numbers(
        settings, "settings.max_connections", limit=pl.col("value").cast(pl.Float64, strict=False)
    )
    open_ = sessions.group_by(*NODE, "source_id", "sample", maintain_order=True).agg(open=pl.len())
    used = _means(open_.join(limits, on="resource", how="left"), pl.col("open") / pl.col("limit") * 100)
    found = [make_measurements(used, "connections", "utilisation", "of max_connections", "%")]
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
        found.append(make_measurements(pl.concat([mine, rest], how="diagonal"), *place, "%"))
    return found


def measure_checkpoints(
    checkpoints: pl.DataFrame, runs: pl.DataFrame, logs: pl.DataFrame, settings: pl.DataFrame
) -> list[pl.DataFrame]:
    """Share of each run with a checkpoint under way, and the mean time between checkpoints that WAL requested.

    The share is 0 for logs without checkpoints (`logs`: run, node, `source_id`) if `log_checkpoints` is on.
    """
    begin = pl.coalesce("start_time", pl.col("end_time") - pl.duration(milliseconds=pl.col("total_s") * 1000))
    placed = checkpoints.with_columns(start_time=begin).join(build_run_windows(runs), on=RUN)
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
        make_measurements(
            shares.with_columns(value="share"), part, "utilisation", "time with a checkpoint under way", "%"
        ),
        make_measurements(
            counts.with_columns(value="distance"), part, "saturation", "between checkpoints for WAL", "s"
        ),
    ]


# Errors of each resource in each run: from server logs, and from the load generators' own reports.

_REFUSED: Final = r"too many clients already|remaining connection slots are reserved|too many connections for"
_DEADLOCK: Final = r"^(?:canceling the transaction since it was involved in a distributed )?deadlock"
_FAILED_IO: Final = r"^could not (?:read|write|fsync|extend|open) .*|No space left on device"
#: Part -> metric, SQLSTATEs, and English words of the message for logs without SQLSTATE.
_ERRORS: Final = {
    "connections": ("refused connections", ("53300",), _REFUSED),
    "locks": ("deadlocks", ("40P01",), _DEADLOCK),
    "memory": ("out of memory", ("53200",), r"^out of (?:shared )?memory"),
    "device": ("failed reads and writes", ("58030", "53100"), _FAILED_IO),
}
_FREQUENT: Final = r"^checkpoints are occurring too frequently"
#: Kind of the records that autovacuum writes.
AUTOVACUUM: Final = "autovacuum"
_SEVERE: Final = ("ERROR", "FATAL", "PANIC")


def log_errors(events: pl.LazyFrame) -> pl.DataFrame:
    """Number of errors, lock waits and records of autovacuum in the logs, by kind.

    Args:
        events: the table `log_events` as a lazy frame, because only a few columns are read.

    Returns:
        `resource`, `run_id` (null if the records are of no run), `node`, `what` (the part that has the error,
        `lock waits`, `frequent checkpoints`, :data:`AUTOVACUUM`, or null for all other records), `n`, `source_id`.
    """
    text, code = pl.col("message"), pl.col("sqlstate").cast(pl.String)
    severe = pl.col("severity").cast(pl.String).is_in(_SEVERE)
    kind = pl.col("kind").cast(pl.String)
    said = {
        part: (code.is_in(codes) | (code.is_null() & text.str.contains(words))).fill_null(value=False)
        for part, (_, codes, words) in _ERRORS.items()
    }
    cases = [
        (kind == "lock_wait", "lock waits"),
        ((kind == "checkpoint") & text.str.contains(_FREQUENT), "frequent checkpoints"),
        *((severe & error, part) for part, error in said.items()),
        (kind == AUTOVACUUM, AUTOVACUUM),
    ]
    groups = events.group_by(*NODE, what=make_first_true_expr(cases, None), maintain_order=True)
    counts = groups.agg(n=pl.len(), source_id=pl.col("source_id").first()).collect(engine="streaming")
    return counts.with_columns(pl.col("node").cast(pl.String))


def log_errors_measured(counts: pl.DataFrame) -> list[pl.DataFrame]:
    """Errors per run and node from :func:`log_errors`; 0 if a log of the run contains none."""
    sums = {"samples": pl.col("n").sum(), "source_id": pl.col("source_id").first()}
    logs = counts.group_by(NODE, maintain_order=True).agg(**sums)
    places = {part: (part, "errors", metric, "errors") for part, (metric, _, _) in _ERRORS.items()}
    places["lock waits"] = ("locks", "saturation", "lock waits longer than deadlock_timeout", "records")
    places["frequent checkpoints"] = ("WAL and checkpoints", "errors", "warnings of frequent checkpoints", "records")
    found = []
    for what, (part, aspect, metric, unit) in places.items():
        seen = counts.filter(pl.col("what") == what).select(*NODE, value="n")
        counted = logs.join(seen, on=NODE, how="left", nulls_equal=True).with_columns(pl.col("value").fill_null(0))
        found.append(make_measurements(counted, part, aspect, metric, unit))
    return found


def measure_clients(
    runs: pl.DataFrame, clients: pl.DataFrame, latencies: pl.DataFrame, errors: pl.DataFrame
) -> list[pl.DataFrame]:
    """The load generator: threads outside the measured operations (Little's law), failed operations and errors.

    N - X R threads are outside operations on average: they do not wait for the result of an operation.
    """
    outside = compute_concurrency(runs, latencies).select(*RUN, outside=(1 - pl.col("share_in_system")).clip(0.0) * 100)
    main = pl.col("role").cast(pl.String) == "main"
    said = errors.filter(main).group_by(RUN, maintain_order=True).agg(said=pl.col("count").sum())
    first = clients.filter(main).group_by(RUN, maintain_order=True).agg(pl.col("source_id").sort_by("part").first())
    rows = runs.with_columns(node=pl.lit(None, pl.String), samples=pl.lit(1))
    for facts in (outside, said, first):
        rows = rows.join(facts, on=RUN, how="left")
    part = "load generator"
    return [
        make_measurements(
            rows.with_columns(value="outside"), part, "saturation", "threads outside operations (Little)", "%"
        ),
        make_measurements(
            rows.with_columns(value="failed_operations"), part, "errors", "failed operations", "operations"
        ),
        make_measurements(
            rows.with_columns(value=pl.col("said").fill_null(0)), part, "errors", "error messages", "messages"
        ),
    ]


# Which programs used the CPU or the disks of a node, in words: evidence beside the measurements of the whole node.

#: Programs named in a sentence at most, and the share from which one is.
_MOST: Final = 3
_LEAST_PERCENT: Final = 5.0
#: Part of a node -> column with a program's share, and the words for what it is a share of.
_SHARES: Final = {
    "CPU": ("cpu_share_percent", "of the CPU time of the programs that pidstat listed{place},", "used"),
    "device": ("disk_share_percent", "of what the programs that pidstat listed{place} read and wrote,", "had"),
}


@dataclass(frozen=True)
class ProgramShares:
    """The programs of one configuration's nodes.

    Attributes:
        shares: (part, node) -> (program, share in per cent), the largest first.
    """

    shares: dict[tuple[str, str | None], tuple[tuple[str, float], ...]]

    def words(self, part: str, node: str | None) -> str | None:
        """The programs with the largest shares; None if pidstat did not record the node while the clients ran.

        Example:
            >>> shares = ProgramShares({("CPU", "1"): (("postgres", 71.2), ("pgbench", 22.0), ("sadc", 0.5))})
            >>> shares.words("CPU", "1")
            'of the CPU time of the programs that pidstat listed on node 1, postgres used 71 % and pgbench 22 %'
            >>> shares.words("device", "1") is None
            True
        """
        found = self.shares.get((part, node))
        if not found:
            return None
        named = [found[0], *(one for one in found[1:_MOST] if one[1] >= _LEAST_PERCENT)]
        _, head, verb = _SHARES[part]
        place = "" if node is None else f" on {place_text(node)}"
        (first, share), *rest = named
        each = [f"{first} {verb} {share:.0f} %", *(f"{program} {share:.0f} %" for program, share in rest)]
        return f"{head.format(place=place)} {join_words(each)}"


def describe_program_shares(programs: pl.DataFrame) -> ProgramShares:
    """The shares of one configuration.

    Args:
        programs: rows of :func:`citus_analysis.bottleneck.resources`.
    """
    found: dict[tuple[str, str | None], tuple[tuple[str, float], ...]] = {}
    if programs.is_empty():
        return ProgramShares(found)
    for part, (column, _, _) in _SHARES.items():
        known = programs.filter(pl.col(column) > 0).sort(column, "program", descending=[True, False])
        for (node,), rows in known.group_by(pl.col("node").cast(pl.String), maintain_order=True):
            found[part, None if node is None else str(node)] = tuple(rows.select("program", column).iter_rows())
    return ProgramShares(found)


# The matrix of resources by utilisation, saturation and errors, for each configuration and node.

_BY_RUNNER: Final = "with the runner's sampler of the kernel's counters (samplers.host)"
_DEVICES: Final = "devices with `iostat -x -t 1` (samplers.iostat)"
_SESSIONS: Final = "sessions with snapshots of pg_stat_activity (samplers.activity)"
#: Parts whose errors server logs tell.
_LOGGED: Final = ("device", "memory", "connections", "locks", "WAL and checkpoints")
#: The recording that would fill an empty cell. Missing combinations have no meaning: errors of a CPU are not counted.
TO_RECORD: Final = {
    ("CPU", "utilisation"): "CPU time on the servers' hosts with iostat or vmstat (samplers.iostat)",
    ("CPU", "saturation"): f"pressure and quotas {_BY_RUNNER}",
    ("device", "utilisation"): _DEVICES,
    ("device", "saturation"): _DEVICES,
    ("memory", "utilisation"): "memory with vmstat, and its size under `hardware` in config.yml",
    ("memory", "saturation"): "swapping with `vmstat -n -t 1` (samplers.vmstat)",
    **{("network", aspect): f"interfaces {_BY_RUNNER}" for aspect in ASPECTS},
    ("connections", "utilisation"): _SESSIONS,
    ("locks", "saturation"): f"{_SESSIONS}, or log_lock_waits = on",
    ("WAL and checkpoints", "utilisation"): "checkpoints with log_checkpoints = on",
    ("WAL and checkpoints", "saturation"): _SESSIONS,
    ("load generator", "utilisation"): _SESSIONS,
    ("load generator", "saturation"): "latencies of the clients' operations",
    ("load generator", "errors"): "the load generator's output",
    **{(part, "errors"): "server logs (target.collect_logs)" for part in _LOGGED},
}
_METRIC: Final = ("node", "part", "aspect", "metric", "unit")


def build_resource_matrix(
    measured: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str], level: float, sources: pl.DataFrame
) -> pl.DataFrame:
    """Means over runs of every metric, with intervals, and one row for each cell without a measurement.

    Args:
        measured: columns of :data:`citus_analysis.bottleneck.measurements.COLUMNS`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.
        level: confidence level of the intervals.
        sources: `source_id` and `path` of the files.

    Returns:
        `configuration`, `node`, `part`, `aspect`, `metric`, `value`, `low` (at least 0) and `high` (null for one run),
        `unit`, `runs`, `samples`, `source_id` and `source` (its path) of the first run, `not_measured` (the recording
        that is missing; null if there is a value).
    """
    placed = add_configuration_columns(measured, runs, configuration)
    cells = placed.group_by(*configuration, *_METRIC, maintain_order=True).agg(
        values=pl.col("value"),
        samples=pl.col("samples").sum(),
        source_id=pl.col("source_id").sort_by("run_id", maintain_order=True).first(),
    )
    samples = list(map(tuple, cells["values"].to_list()))
    # Most counts of errors are 0 in all runs: two of three intervals are known from another cell.
    intervals = {values: mean_interval(values, level) for values in set(samples)}
    ends = [intervals[values] for values in samples]
    known = cells.drop("values").with_columns(
        value=pl.Series([one.estimate for one in ends], dtype=pl.Float64),
        # No measurement here can be negative, and no share can exceed 100 %.
        low=pl.Series([one.ends[0] for one in ends], dtype=pl.Float64).clip(lower_bound=0.0),
        high=pl.Series([one.ends[1] for one in ends], dtype=pl.Float64).clip(
            upper_bound=cells["unit"].eq("%").replace_strict({True: 100.0, False: math.inf})
        ),
        runs=pl.Series([one.n for one in ends], dtype=pl.Int64),
    )
    whole = pl.concat([known, _empty_cells(known, runs, configuration)], how="diagonal").join(
        sources.select("source_id", source="path"), on="source_id", how="left", maintain_order="left"
    )
    order = {"part": PARTS, "aspect": ASPECTS}
    ranks = [pl.col(name).replace_strict(list(of), list(range(len(of)))) for name, of in order.items()]
    return whole.select(
        *configuration, "node", "part", "aspect", "metric", "value", "low", "high", "unit", "runs", "samples",
        "source_id", "source", "not_measured",
    ).sort(*configuration, *ranks, "metric", "node", nulls_last=True)  # fmt: skip


def _empty_cells(known: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    rows = [
        {"part": part, "aspect": aspect, "not_measured": f"record {what}"} for (part, aspect), what in TO_RECORD.items()
    ]
    wanted = runs.select(configuration).unique(maintain_order=True).join(pl.DataFrame(rows), how="cross")
    return wanted.join(known, on=[*configuration, "part", "aspect"], how="anti", nulls_equal=True)


# Thresholds from which on a measurement is a sign of a limit, with their sources.

SOURCES: Final = {
    "saturated_percent": "mean utilisation at which hardly any capacity is left (citus_analysis.defaults)",
    "throttled_percent": "share of the kernel's enforcement periods in which a quota stopped the group; 0 if the quota "
    "is never reached",
    "waiting_percent": "share of the clients' session time in one class of waits: without it, throughput at a given "
    "number of threads could grow by 1 / (1 - share), 1.4-fold at 30 %",
    "outside_percent": "share of the clients' session time in which the server has nothing to do for them; above half, "
    "more time passes outside the servers than in them",
    "stalled_percent": "the kernel's pressure stall information (PSI, some): share of time in which a task waited for "
    "the CPU; above half, a busy CPU is a limit with high confidence, and a CPU with idle time is a limit, too",
    "checkpoint_distance_s": "PostgreSQL's checkpoint_warning (30 s): the server itself warns of closer checkpoints",
    "jain_index": "Jain, Chiu and Hawe (1984): 1 is even, 1/k is one of k nodes only; 0.8 is one of five idle",
    "uneven_p": "p-value of the multinomial test against an even split; small, because one is made for each run",
    "reached_share": "a client that was limited to a rate and reached this share of it did not request more",
}


@dataclass(frozen=True)
class Thresholds:
    """Values from which on a measurement is a sign of a limit; :data:`SOURCES` gives the source of each.

    Percentages are from 0 to 100; `jain_index`, `uneven_p` and `reached_share` from 0 to 1.

    Raises:
        UsageError: a value is out of its range.

    Example:
        >>> Thresholds(saturated_percent=95).saturated_percent
        95
    """

    saturated_percent: float = defaults.SATURATED_PERCENT
    throttled_percent: float = defaults.THROTTLED_PERCENT
    waiting_percent: float = defaults.WAITING_PERCENT
    outside_percent: float = defaults.OUTSIDE_PERCENT
    stalled_percent: float = defaults.STALLED_PERCENT
    checkpoint_distance_s: float = defaults.CHECKPOINT_DISTANCE_S
    jain_index: float = defaults.JAIN_INDEX
    uneven_p: float = defaults.UNEVEN_P
    reached_share: float = defaults.REACHED_SHARE

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            most = 100.0 if name.endswith("_percent") else math.inf if name.endswith("_s") else 1.0
            if not 0 <= value <= most or math.isinf(value):
                span = "a finite number that is not negative" if math.isinf(most) else f"from 0 to {most:g}"
                raise UsageError(f"threshold {name} is {value:g}", hint=f"give {span}: {SOURCES[name]}")

    @classmethod
    def of(cls, given: Thresholds | Mapping[str, float] | None) -> Thresholds:
        """Thresholds unchanged, or from values by name; the others have their defaults.

        Raises:
            UnknownNameError: no threshold has that name.
            UsageError: a value is out of its range.

        Example:
            >>> Thresholds.of({"jain_index": 0.9}).jain_index
            0.9
        """
        if isinstance(given, Thresholds):
            return given
        named = dict(given or {})
        for name in named:
            require_known("threshold", name, SOURCES)
        return cls(**named)

    def to_polars(self) -> pl.DataFrame:
        """One row per threshold: `threshold`, `value`, `source`."""
        rows = [(name, float(value), SOURCES[name]) for name, value in asdict(self).items()]
        return pl.DataFrame(rows, schema=["threshold", "value", "source"], orient="row")
