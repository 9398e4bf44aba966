"""Who used the CPUs of a machine during a run: its nodes, its clients, and work that is not the run's own.

A sampler such as iostat measures a *machine*. If several nodes run on it, or clients beside a node, its samples are not
those of a node: :func:`name_machines` gives them the machine's name. :func:`compute_machine_cpu` accounts for
the CPU time of every second, and :func:`find_foreign_work` finds the seconds in which a machine did other work:

- *counted*: the runner's canary counts the CPU time of the programs that are not the run's own;
- *named*: pidstat lists programs that are neither servers nor load generators nor samplers;
- *accounted*: control groups measure all nodes and the clients, and the machine used clearly more than they did;
- *like runs*: what control groups do not account for is clearly more than in runs of the same kind at the same second.

Counts of the canary hold for a run of any length: each second with at least 5 % of the machine's CPU time is foreign.
Where another method finds more, such as work of another container, that stands.

The last method knows no single run's truth, only that of its like. A kind of run is, in the narrow sense, a set-up at
one size and load; in the wide sense, all set-ups of one system at the same operation, size and threads. The wide one
finds work that lay on all runs of a set-up; it is believed only if some seconds or runs of the set-up are free of it,
because a set-up may simply need more. Times are medians over five samples, so that bursts of two seconds (the start of
a JVM, the begin of a checkpoint) are none; the limit is five robust standard deviations of the kind, but at least 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, cast

import polars as pl

from citus_analysis.bottleneck.samples import (
    NODE,
    RUN,
    align_to_runs,
    build_run_windows,
    make_busy_percent_expr,
    select_one_source,
)
from citus_analysis.core.frames import Frame, TableSource, convert_to_polars
from citus_analysis.runs.set_ups import add_operation_column, add_setup_descriptions
from citus_analysis.runs.status import DOUBTFUL_PERCENT
from citus_analysis.texts.words import join_words, pluralize

#: Tables that an account of the machines' CPU time is made from.
ACCOUNT_TABLES: Final = (
    *("runs", "cpu_samples", "throttle_samples", "process_samples", "foreign_samples", "nodes", "settings"),
)
#: Tables of samples of whole machines.
MACHINE_SAMPLES: Final = (
    *("cpu_samples", "device_samples", "vm_samples", "pressure_samples", "net_samples", "process_samples"),
)
#: A control group that is the whole host, one that is named after a node, and those of load generators.
WHOLE_HOST: Final = r"^/sys/fs/cgroup/(?:cpu(?:,cpuacct)?/)?cpu\.stat$"
GROUP_NODE: Final = r"node[-_]?(\d+)[^/]*/cpu\.stat$"
CLIENT_GROUP: Final = r"(?i)client|driver|ycsb|pgbench|loadgen"
_MACHINE: Final = "machine of "
_CORES: Final = r"(\d+)\s*(?:cores?|v?CPUs?|virtual CPUs?)\b"
_SERVERS: Final = r"(?i)^(?:postgres|postmaster|pgbouncer|odyssey|pgcat|haproxy)\b"
_GENERATORS: Final = (
    r"(?i)^(?:java|ycsb|go-ycsb|pgbench|sysbench|go-tpc|tclsh|wish|hammerdb|benchbase|locust|k6|jmeter)"
)
#: Samplers and the runner, shells that start them, the kernel's threads, and what every machine runs.
_OBSERVERS: Final = (
    r"(?i)^(?:iostat|vmstat|pidstat|mpstat|sar|sadc|sadf|dstat|dool|perf|top|atop|python[\d.]*|citus-analysi|sh|bash|"
    r"dash|sleep|cat|grep|awk|gawk|date|psql|ssh|sshd|init|systemd|dbus|cron|containerd|dockerd|"
    r"kworker|ksoftirqd|kswapd|kcompactd|khugepaged|rcu|migration|jbd2|xfs|nvme|watchdog|cpuhp|kthread|irq|md\d)"
)
#: Samples of which a median is taken, if a sample is about a second; fewest seconds of a period, of these above the
#: limit, and the gap that it bridges.
_SMOOTHED: Final = 5
_LEAST_S: Final = 5.0
_CERTAIN_S: Final = 3.0
_GAP_S: Final = 2.5
#: Least difference, in per cent of the machine's CPU time, and in robust standard deviations of the kind.
LEAST_PERCENT: Final = 5.0
_DEVIATIONS: Final = 5.0
#: Factor from which on the deviation at one second is larger than that of all.
_CLEARLY: Final = 3.0
#: Of a short run, least seconds of counted work that make it doubtful, and least part of its seconds.
_LEAST_COUNTED_S: Final = 3.0
_LARGEST_PART: Final = 0.6
#: Part of an interval that must lie in a run.
_INSIDE: Final = 0.5
#: Share of a run's seconds below which work is not in all of it.
_PARTIAL: Final = 0.8
#: What a machine may use beyond its accounted nodes and clients: the kernel, samplers, logging.
_UNACCOUNTED_PERCENT: Final = 15.0
#: Fewest runs of a kind.
_LEAST_RUNS: Final = 4
_MAD: Final = 1.4826
#: Periods that are named.
_MOST_TIMES: Final = 3
_LIKE: Final = ("variant", "operation", "workers", "threads", "drivers")
_WIDE: Final = ("system", "operation", "workers", "threads", "drivers", "cpu_per_node")
_AT: Final = (*RUN, "machine")


@dataclass(frozen=True)
class ForeignWork:
    """CPU time that machines spent on work that is not the runs' own.

    Attributes:
        seconds: one row per run, machine and sample: `sample_time`, `elapsed_s`, `interval_s`, `busy_percent`,
            `nodes_percent` and `clients_percent` (what control groups account for; null if not known),
            `other_percent` (the rest), `expected_percent` (of the rest, in runs of the kind), `foreign_percent` (what
            is clearly beyond; null where nothing is), `program` (that pidstat names).
        runs: one row per run and machine: `method` (`counted`, `named`, `accounted`, `like runs`, `not known`),
            `like_runs` (number of the others), `sampled_s`, `foreign_s`, `foreign_percent` (mean while it went on),
            `share_percent` (of the machine's CPU time in the whole run), `begin_time`, `end_time`, `program`,
            `times` (of the periods, as texts), `is_doubtful`.
    """

    seconds: pl.DataFrame
    runs: pl.DataFrame

    @property
    def doubtful(self) -> pl.DataFrame:
        """The rows of `runs` that are doubtful, in the order of time."""
        return convert_to_polars(self.runs).filter("is_doubtful").sort("begin_time", *_AT)


def find_shared_machines(
    nodes: pl.DataFrame, throttle: pl.DataFrame | None = None, processes: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The nodes whose samplers measure more than the node, with the name of their machine.

    Several nodes are on one machine if Citus knows them by one host name, or if the sampler of one of them recorded
    the control groups of several servers; clients are on it if their control group or pidstat shows them there.

    Args:
        nodes: the table `nodes`.
        throttle: the table `throttle_samples`.
        processes: the table `process_samples`.

    Returns:
        `resource`, `node`, `machine`, `nodes` (number of nodes on it, as far as they are known).

    Example:
        >>> hosts = pl.DataFrame({"resource": ["w2"] * 3, "node": ["0", "1", "2"], "host": ["a", "b", "b"]})
        >>> find_shared_machines(hosts).sort("node").rows()
        [('w2', '1', 'machine of nodes 1 to 2', 2), ('w2', '2', 'machine of nodes 1 to 2', 2)]
    """
    known = nodes.select("resource", pl.col("node").cast(pl.String), "host").drop_nulls().unique()
    host = pl.col("host").str.to_lowercase().replace({"localhost": "127.0.0.1", "::1": "127.0.0.1"})
    hosts = known.group_by("resource", host.alias("host")).agg(pl.col("node").unique())
    rows: dict[tuple[str, str], tuple[str, int]] = {}
    for resource, _, names in hosts.filter(pl.col("node").list.len() > 1).iter_rows():
        rows |= {(resource, name): (_format_machine_name(names), len(names)) for name in names}
    for resource, node, groups, numbers in _count_co_located_groups(throttle, processes):
        alone = (resource, node) not in rows
        if alone and (groups > 1 or numbers):
            rows[resource, node] = (f"{_MACHINE}node {node}", max(1, groups))
    found = [(resource, node, machine, number) for (resource, node), (machine, number) in rows.items()]
    schema = {"resource": pl.String, "node": pl.String, "machine": pl.String, "nodes": pl.Int64}
    return pl.DataFrame(found, schema=schema, orient="row").sort("resource", "node")


def _count_co_located_groups(
    throttle: pl.DataFrame | None, processes: pl.DataFrame | None
) -> list[tuple[str, str, int, bool]]:
    """Resource and node of samplers, with the number of servers' control groups that they saw, and whether clients'."""
    found: list[tuple[str, str, int, bool]] = []
    place = ("resource", pl.col("node").cast(pl.String))
    if throttle is not None and throttle.height:
        path = pl.col("control_group").cast(pl.String)
        groups = throttle.select(*place, path).unique().filter(~path.str.contains(WHOLE_HOST)).drop_nulls("node")
        clients = path.str.contains(CLIENT_GROUP)
        counts = groups.group_by("resource", "node").agg(servers=(~clients).sum(), clients=clients.any())
        found += counts.rows()
    if processes is not None and processes.height:
        seen = processes.select(*place, command=pl.col("command").cast(pl.String)).unique().drop_nulls()
        both = seen.group_by("resource", "node").agg(
            servers=pl.col("command").str.contains(_SERVERS).any(),
            clients=pl.col("command").str.contains(_GENERATORS).any(),
        )
        found += [(resource, node, 1, True) for resource, node, *_ in both.filter("servers", "clients").rows()]
    return found


def _format_machine_name(nodes: Sequence[str]) -> str:
    """`machine of nodes 0 to 4`, or `machine of nodes 1, 3`."""
    if not all(name.isdigit() for name in nodes):
        return f"{_MACHINE}nodes {', '.join(sorted(nodes))}"
    numbers = sorted(map(int, nodes))
    is_row = numbers == list(range(numbers[0], numbers[-1] + 1))
    listed = f"{numbers[0]} to {numbers[-1]}" if is_row else ", ".join(map(str, numbers))
    return f"{_MACHINE}nodes {listed}"


def name_machines(samples: pl.DataFrame, machines: pl.DataFrame) -> pl.DataFrame:
    """Samples of machines, with `node` replaced by the machine's name where it is shared.

    Args:
        samples: a table of samples of whole machines.
        machines: result of :func:`find_shared_machines`.
    """
    if machines.is_empty() or samples.is_empty():
        return samples.with_columns(pl.col("node").cast(pl.String))
    named = samples.with_columns(pl.col("node").cast(pl.String)).join(
        machines.select("resource", "node", "machine"), on=["resource", "node"], how="left", maintain_order="left"
    )
    return named.with_columns(node=pl.coalesce("machine", "node")).drop("machine")


def make_is_machine_expr(node: pl.Expr) -> pl.Expr:
    """Whether the name in a column `node` is that of a machine with several nodes, or with a node and clients."""
    return node.cast(pl.String).str.starts_with(_MACHINE).fill_null(value=False)


def place_text(node: object) -> str:
    """A node or a machine in words.

    Example:
        >>> place_text("3"), place_text("machine of nodes 0 to 4")
        ('node 3', 'the machine of nodes 0 to 4')
    """
    return f"the {node}" if str(node).startswith(_MACHINE) else f"node {node}"


def select_server_groups(throttle: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Samples of the control groups of servers within runs, with the `node` that each is named after.

    A group that is not named after a node belongs to the node whose host was sampled.
    """
    path = pl.col("control_group").cast(pl.String)
    inside = align_to_runs(throttle, runs).filter(~path.str.contains(WHOLE_HOST), ~path.str.contains(CLIENT_GROUP))
    own = pl.coalesce(path.str.extract(GROUP_NODE), pl.col("node").cast(pl.String))
    return inside.with_columns(sampled_on=pl.col("node").cast(pl.String), node=own)


def compute_node_cpu(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame) -> pl.DataFrame:
    """CPU time of single nodes, per run: from their control groups, else from the processes that pidstat lists.

    A process belongs to the node among whose sessions its process id is; where a machine has a single node, all
    processes of servers are that node's.

    Args:
        tables: `throttle_samples`, `process_samples`, `activity_samples` and `nodes`.
        runs: the runs.

    Returns:
        `resource`, `run_id`, `node`, `used_percent` (of one CPU, mean over samples), `samples`, `source_id`.
    """
    basis = {"samples": pl.len(), "source_id": pl.col("source_id").first()}
    groups = select_server_groups(tables["throttle_samples"], runs).drop_nulls("used_percent")
    sums = groups.group_by(*NODE, "source_id", "sample", maintain_order=True).agg(pl.col("used_percent").sum())
    of_groups = sums.group_by(NODE, maintain_order=True).agg(pl.col("used_percent").mean(), **basis)
    whole = tables["process_samples"].filter(pl.col("thread").is_null(), pl.col("cpu_percent").is_not_null())
    servers = align_to_runs(whole, runs).filter(pl.col("command").cast(pl.String).str.contains(_SERVERS))
    servers = select_one_source(servers.with_columns(pl.col("node").cast(pl.String)), NODE)
    # Beside clients alone, all processes of servers are those of the one node.
    hosts = find_shared_machines(tables["nodes"])
    crowded = pl.concat([hosts.select("resource", node=name) for name in ("node", "machine")]).unique()
    servers = servers.with_columns(
        pl.col("node").str.strip_prefix(f"{_MACHINE}node ")  # the machine of one node and its clients
    )
    pids = tables["activity_samples"].select(
        "resource", "iteration", "pid", own=pl.col("node").cast(pl.String)
    ).drop_nulls(["pid", "own"])  # fmt: skip
    one = pids.unique().filter(pl.len().over("resource", "iteration", "pid") == 1)
    placed = servers.join(one, on=["resource", "iteration", "pid"], how="left", nulls_equal=True)
    alone = placed.join(crowded, on=["resource", "node"], how="anti")
    shared = placed.join(crowded, on=["resource", "node"], how="semi").with_columns(node="own").drop_nulls("node")
    moments = servers.group_by("resource", "run_id").agg(moments=pl.col("sample_time").n_unique())
    of_processes = (
        pl.concat([alone, shared])
        .group_by(NODE, maintain_order=True)
        .agg(pl.col("cpu_percent").sum(), source_id=pl.col("source_id").first())
        .join(moments, on=RUN)
        .with_columns(used_percent=pl.col("cpu_percent") / pl.col("moments"), samples=pl.col("moments"))
        .join(of_groups, on=NODE, how="anti")
    )
    columns = [*NODE, "used_percent", "samples", "source_id"]
    return pl.concat([of_groups.select(columns), of_processes.select(columns)]).sort(NODE)


def compute_machine_cpu(tables: Mapping[str, Frame]) -> pl.DataFrame:
    """The CPU time of every machine during runs, sample by sample, and what accounts for it.

    Args:
        tables: those of :data:`ACCOUNT_TABLES`.

    Returns:
        The columns of `ForeignWork.seconds` up to `other_percent`, `program` and `named_percent` (programs that are
        not the run's own, as pidstat lists them), all in per cent of the machine's CPU time, and `cores`.
    """
    frames = {name: convert_to_polars(tables[name]) for name in ACCOUNT_TABLES}
    runs = frames["runs"]
    machines = find_shared_machines(frames["nodes"], frames["throttle_samples"], frames["process_samples"])
    sized = frames["settings"].filter(pl.col("name") == "hardware")
    cores = sized.select("resource", cores=pl.col("value").str.extract(_CORES).cast(pl.Float64)).unique("resource")
    cpu = name_machines(frames["cpu_samples"], machines).with_columns(busy_percent=make_busy_percent_expr())
    used = select_one_source(align_to_runs(cpu.drop_nulls("busy_percent"), runs), NODE)
    used = used.unique([*NODE, "sample_time"], keep="first", maintain_order=True)
    used = used.rename({"node": "machine"}).select(*_AT, "sample_time", "elapsed_s", "interval_s", "busy_percent")
    used = used.join(cores, on="resource", how="left").with_columns(second=pl.col("sample_time").dt.round("1s"))
    account = _sum_control_group_cpu(frames["throttle_samples"], runs, machines).join(
        _measure_foreign_programs(frames["process_samples"], runs, machines),
        on=[*_AT, "second"],
        how="full",
        coalesce=True,
    )
    joined = used.join(account, on=[*_AT, "second"], how="left", nulls_equal=True, maintain_order="left")
    shares = [(pl.col(name) / pl.col("cores")).alias(f"{name}_percent") for name in ("nodes", "clients", "named")]
    own = pl.sum_horizontal(pl.col("nodes_percent", "clients_percent").fill_null(0.0))
    found = joined.with_columns(shares).with_columns(other_percent=(pl.col("busy_percent") - own).clip(lower_bound=0.0))
    return found.select(
        *_AT, "sample_time", "elapsed_s", "interval_s", "cores", "busy_percent", "nodes_percent", "clients_percent",
        "other_percent", "named_percent", "program",
    ).sort(*_AT, "sample_time")  # fmt: skip


def _sum_control_group_cpu(throttle: pl.DataFrame, runs: pl.DataFrame, machines: pl.DataFrame) -> pl.DataFrame:
    """What control groups of nodes and of clients used, in per cent of one CPU, per machine and second.

    Null if one of the groups does not state it.
    """
    path = pl.col("control_group").cast(pl.String)
    named = name_machines(throttle.filter(~path.str.contains(WHOLE_HOST)), machines)
    inside = align_to_runs(named, runs).rename({"node": "machine"})
    is_client = path.str.contains(CLIENT_GROUP)
    used = pl.col("used_percent")

    def total(mine: pl.Expr) -> pl.Expr:
        # A group that did not state its time during the run is no account; an idle one states 0.
        return pl.when(mine.any() & (used.filter(mine).null_count() == 0)).then(used.filter(mine).sum())

    seconds = inside.with_columns(second=pl.col("sample_time").dt.round("1s"))
    return seconds.group_by(*_AT, "second").agg(nodes=total(~is_client), clients=total(is_client))


def _measure_foreign_programs(processes: pl.DataFrame, runs: pl.DataFrame, machines: pl.DataFrame) -> pl.DataFrame:
    """CPU time of the programs that are not the run's own, in per cent of one CPU, and the largest of them."""
    whole = processes.filter(pl.col("thread").is_null(), pl.col("cpu_percent").is_not_null())
    inside = align_to_runs(name_machines(whole, machines), runs).rename({"node": "machine"})
    program = pl.col("command").cast(pl.String).str.extract(r"([^/\s]+)(?:\s|$)").fill_null("unknown")
    own = pl.any_horizontal(pl.col("program").str.contains(one) for one in (_SERVERS, _GENERATORS, _OBSERVERS))
    named = inside.with_columns(program=program, second=pl.col("sample_time").dt.round("1s"))
    sums = named.group_by(*_AT, "second", "program").agg(named=pl.col("cpu_percent").sum())
    foreign = sums.with_columns(named=pl.when(own).then(0.0).otherwise("named")).sort("named", "program")
    return foreign.group_by(*_AT, "second", maintain_order=True).agg(
        pl.col("named").sum(), program=pl.when(pl.col("named").last() > 0).then(pl.col("program").last())
    )


def find_foreign_work(tables: Mapping[str, Frame]) -> ForeignWork:
    """Find foreign work: :class:`ForeignWork` of the runs of some tables.

    Args:
        tables: those of :data:`ACCOUNT_TABLES`; kinds of runs are those of all of `runs`.
    """
    runs = add_operation_column(
        add_setup_descriptions(convert_to_polars(tables["runs"]), convert_to_polars(tables["settings"]))
    )
    runs = runs.with_columns(pl.lit(None, pl.String).alias(name) for name in _WIDE if name not in runs.columns)
    cpu = compute_machine_cpu(tables)
    facts = runs.select(*RUN, *dict.fromkeys((*_LIKE, *_WIDE)))
    facts = facts.with_columns(
        like=pl.struct(_LIKE).struct.json_encode(), wide=pl.struct(_WIDE).struct.json_encode()
    ).select(*RUN, "like", "wide")
    # Machines are the same if they have the same name, apart from the numbers of their nodes.
    marked = _smooth_cpu_samples(cpu.join(facts, on=RUN)).with_columns(
        pl.when("is_accounted").then(pl.lit(_UNACCOUNTED_PERCENT)).alias("limit_accounted")
    )
    for kind in ("like", "wide"):
        marked = _add_expected_cpu(marked, kind)
    estimated = _sum_foreign_work(_number_foreign_intervals(_choose_foreign_share(marked)))
    return _join_counted_work(_count_foreign_work(tables), estimated)


def _count_foreign_work(tables: Mapping[str, Frame]) -> ForeignWork:
    """Foreign work by the canary's counts, which know the runs' own programs from others."""
    counts, runs = convert_to_polars(tables["foreign_samples"]), convert_to_polars(tables["runs"])
    beside = [convert_to_polars(tables[name]) for name in ("nodes", "throttle_samples", "process_samples")]
    counts = counts.filter(pl.col("wall_us") > 0, pl.col("cores") > 0, pl.col("sample_time").is_not_null())
    named = name_machines(counts, find_shared_machines(*beside)).rename({"node": "machine"})
    named = named.with_columns(begin_time=pl.col("sample_time") - pl.duration(microseconds=pl.col("wall_us")))
    named = named.with_row_index("_row").select(
        "_row", "source_id", *_AT, "sample_time", "begin_time", "program",
        percent=100 * pl.col("cpu_us") / (pl.col("wall_us") * pl.col("cores")),
    )  # fmt: skip
    windows = build_run_windows(runs)
    own = named.drop_nulls("run_id").join(windows, on=list(RUN))
    free = named.filter(pl.col("run_id").is_null()).drop("run_id").join(windows, on="resource")
    first, last = pl.max_horizontal("begin_time", "begin"), pl.min_horizontal("sample_time", "until")
    seconds = (last - first).dt.total_microseconds() / 1e6
    whole = (pl.col("sample_time") - pl.col("begin_time")).dt.total_microseconds() / 1e6
    placed = pl.concat([own, free.select(own.columns)]).with_columns(interval_s=seconds)
    placed = placed.filter(pl.col("interval_s") >= _INSIDE * whole).filter(pl.len().over("_row") == 1)
    placed = select_one_source(placed, _AT).sort(*_AT, "sample_time")
    foreign = pl.col("percent") >= LEAST_PERCENT
    begins = (foreign & ~foreign.shift(1, fill_value=False).over(_AT)).cast(pl.Int64).cum_sum().over(_AT)
    nothing = pl.lit(None, pl.Float64)
    return _sum_foreign_work(
        placed.select(
            *_AT, "sample_time", "interval_s",
            elapsed_s=(pl.col("sample_time") - pl.col("begin")).dt.total_microseconds() / 1e6,
            foreign_percent=pl.when(foreign).then("percent"), program=pl.when(foreign).then("program"),
            period=pl.when(foreign).then(begins), method=pl.lit("counted"), like_runs=pl.lit(0, pl.Int64),
            busy_percent=nothing, nodes_percent=nothing, clients_percent=nothing, other_percent=nothing,
            expected_percent=nothing,
        )
    )  # fmt: skip


def _join_counted_work(counted: ForeignWork, estimated: ForeignWork) -> ForeignWork:
    """Of each run and machine, what was counted, unless more was found otherwise."""
    if counted.runs.height == 0:
        return estimated
    both = pl.concat([counted.runs, estimated.runs], how="vertical_relaxed")
    counts = pl.col("method") == "counted"
    best = both.sort(pl.col("share_percent").fill_null(0.0), counts, descending=True, maintain_order=True)
    runs = best.unique(_AT, keep="first", maintain_order=True).sort(_AT)
    by_count = runs.filter(counts).select(_AT)
    seconds = pl.concat(
        [
            _add_machine_use(counted.seconds.join(by_count, on=_AT, how="semi"), estimated.seconds),
            estimated.seconds.join(by_count, on=_AT, how="anti"),
        ],
        how="vertical_relaxed",
    )
    return ForeignWork(seconds.sort(*_AT, "sample_time"), runs)


def _add_machine_use(counted: pl.DataFrame, sampled: pl.DataFrame) -> pl.DataFrame:
    """Counted seconds with what the machine used in all, as its nearest sample within a second says."""
    used = ("busy_percent", "nodes_percent", "clients_percent", "other_percent", "expected_percent")
    samples = sampled.select(*_AT, "sample_time", *used).drop_nulls(["sample_time", "busy_percent"]).sort("sample_time")
    joined = (
        counted.drop(used)
        .sort("sample_time")
        .join_asof(samples, on="sample_time", by=list(_AT), strategy="nearest", tolerance="1s", check_sortedness=False)
    )
    return joined.select(counted.columns)


def _smooth_cpu_samples(cpu: pl.DataFrame) -> pl.DataFrame:
    """Medians over neighbouring samples, so that bursts count for nothing; `bin` is the second since the begin."""
    width = pl.col("interval_s").fill_null(1.0)

    def smooth(name: str) -> pl.Expr:
        near = pl.col(name).rolling_median(_SMOOTHED, center=True, min_samples=3).over(_AT)
        few = pl.col(name).rolling_median(3, center=True, min_samples=2).over(_AT)
        return pl.when(width <= 2).then(near).when(width <= 4).then(few).otherwise(name)

    accounted = pl.all_horizontal(pl.col("nodes_percent", "clients_percent").is_not_null())
    return cpu.with_columns(
        other=smooth("other_percent"), named=smooth("named_percent"), is_accounted=accounted,
        bin=pl.col("elapsed_s").round(0).cast(pl.Int64),
    )  # fmt: skip


def _add_expected_cpu(cpu: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The median of the kind at the same second (`expected_KIND`) and the limit above which more is unlike it.

    The deviation is that of all seconds of all runs of the kind, or of those at this second if these differ more; it
    is enlarged for small kinds, whose deviation is often seen too small.
    """
    group, number = [kind, "machine"], f"{kind}_runs"
    run = pl.struct(RUN)
    counted_ = cpu.with_columns(run.n_unique().over(group).alias(number))
    at = [*group, "bin"]
    of_second = pl.when(run.n_unique().over(at) >= _LEAST_RUNS).then(pl.col("other").median().over(at))
    middle = pl.coalesce(of_second, pl.col("other").median().over(group))
    seen = counted_.with_columns(middle.alias(f"expected_{kind}"))
    away = (pl.col("other") - pl.col(f"expected_{kind}")).abs()
    spread, here = away.median().over(group), away.median().over(at)
    # Only where it is plain: the deviation at one second is that of a few values.
    start = (run.n_unique().over(at) >= _LEAST_RUNS) & (here > _CLEARLY * spread)
    limit = _DEVIATIONS * _MAD * pl.when(start).then(here).otherwise(spread) * (1 + 2 / pl.col(number))
    known = pl.when(pl.col(number) >= _LEAST_RUNS).then(limit.clip(lower_bound=LEAST_PERCENT))
    return seen.with_columns(known.alias(f"limit_{kind}"))


def _choose_foreign_share(cpu: pl.DataFrame) -> pl.DataFrame:
    """The foreign share of each sample by the first method that finds some, `method`, and whether it is `certain`.

    What is above half of the limit is foreign if it is beside what is above it.
    """
    above = {kind: pl.col("other") - pl.col(f"expected_{kind}") for kind in ("like", "wide")}
    beyond = {kind: (value > pl.col(f"limit_{kind}")).fill_null(value=False) for kind, value in above.items()}
    near = {kind: (value > pl.col(f"limit_{kind}") / 2).fill_null(value=False) for kind, value in above.items()}
    # A set-up that always needs more than others is not disturbed: some of its seconds must be as in the others.
    of_run = cpu.group_by(*_AT, "like").agg(share=near["wide"].mean())
    free = of_run.select(*_AT, free=(pl.col("share") < _PARTIAL).any().over("like", "machine"))
    marked = cpu.join(free, on=list(_AT), how="left")
    named = (pl.col("named") >= LEAST_PERCENT).fill_null(value=False)
    accounted = (pl.col("other") > pl.col("limit_accounted")).fill_null(value=False)
    partial = near["wide"] & pl.col("free")
    amount = (
        pl.when(named).then("named").when(accounted).then("other")
        .when(near["like"]).then(above["like"]).when(partial).then(above["wide"])
    )  # fmt: skip
    certain = named | accounted | beyond["like"] | (beyond["wide"] & pl.col("free"))
    knows = {"like": pl.col("limit_like").is_not_null(), "wide": pl.col("limit_wide").is_not_null()}
    method = (
        pl.when(named).then(pl.lit("named")).when("is_accounted").then(pl.lit("accounted"))
        .when(knows["like"] | knows["wide"]).then(pl.lit("like runs")).otherwise(pl.lit("not known"))
    )  # fmt: skip
    in_kind = pl.when(knows["like"] & ~(partial & ~near["like"]))
    return marked.with_columns(
        foreign_percent=amount, method=method, certain=certain,
        expected_percent=in_kind.then("expected_like").otherwise("expected_wide"),
        like_runs=pl.max_horizontal("like_runs", "wide_runs") - 1, program=pl.when(named).then("program"),
    )  # fmt: skip


def _number_foreign_intervals(cpu: pl.DataFrame) -> pl.DataFrame:
    """Foreign seconds with the number of their `period`; those of periods that are too short are none."""
    width = pl.col("interval_s").fill_null(1.0)
    found = cpu.filter(pl.col("foreign_percent").is_not_null()).sort(*_AT, "sample_time")
    gap = pl.col("sample_time").diff().over(_AT).dt.total_milliseconds() / 1000
    begins = (gap.is_null() | (gap > pl.max_horizontal(pl.lit(_GAP_S), 1.5 * width))).cast(pl.Int64)
    periods = found.with_columns(period=begins.cum_sum().over(_AT))
    of_period = [*_AT, "period"]
    certain = width.filter(pl.col("certain")).sum().over(of_period)
    long = (width.sum().over(of_period) >= _LEAST_S) & (certain >= _CERTAIN_S)
    kept = periods.filter(long).select(*_AT, "sample_time", "period")
    joined = cpu.join(kept, on=[*_AT, "sample_time"], how="left", nulls_equal=True)
    inside = pl.col("period").is_not_null()
    return joined.with_columns(pl.when(inside).then(pl.col("foreign_percent", "program"))).sort(*_AT, "sample_time")


def _sum_foreign_work(cpu: pl.DataFrame) -> ForeignWork:
    width = pl.col("interval_s").fill_null(1.0)
    inside = pl.col("foreign_percent").is_not_null()
    work = (pl.col("foreign_percent").fill_null(0.0) * width).sum()
    begin = pl.col("sample_time") - pl.duration(milliseconds=width * 1000)
    spans = (
        cpu.filter(inside)
        .group_by(*_AT, "period", maintain_order=True)
        .agg(begin=begin.min().dt.strftime("%H:%M:%S"), end=pl.col("sample_time").max().dt.strftime("%H:%M:%S"))
    )
    times = spans.group_by(_AT, maintain_order=True).agg(times=pl.format("{} to {}", "begin", "end"))
    method = pl.col("method")
    runs = cpu.group_by(_AT, maintain_order=True).agg(
        method=pl.coalesce(method.filter(inside).mode().sort().first(), method.mode().sort().first()),
        like_runs=pl.col("like_runs").first(),
        sampled_s=width.sum(),
        foreign_s=width.filter(inside).sum(),
        foreign_percent=work / width.filter(inside).sum(),
        share_percent=work / width.sum(),
        begin_time=begin.filter(inside).min(),
        end_time=pl.col("sample_time").filter(inside).max(),
        program=pl.col("program").drop_nulls().mode().sort().first(),
    )
    found = runs.join(times, on=list(_AT), how="left", maintain_order="left")
    doubtful = (pl.col("share_percent") >= DOUBTFUL_PERCENT).fill_null(value=False)
    much = pl.min_horizontal(pl.lit(_LEAST_S), pl.max_horizontal(_LEAST_COUNTED_S, _LARGEST_PART * pl.col("sampled_s")))
    long = (pl.col("method") != "counted") | (pl.col("foreign_s") >= much)
    found = found.with_columns(pl.col("foreign_percent").fill_nan(None), is_doubtful=doubtful & long)
    seconds = cpu.select(
        *_AT, "sample_time", "elapsed_s", "interval_s", "busy_percent", "nodes_percent", "clients_percent",
        "other_percent", "expected_percent", "foreign_percent", "program",
    )  # fmt: skip
    return ForeignWork(seconds, found)


class _ForeignRow(TypedDict):
    """A row of `ForeignWork.runs`, as far as its words need it."""

    times: list[str]
    program: str | None
    method: str
    like_runs: int
    foreign_s: float
    sampled_s: float
    foreign_percent: float


def describe_foreign_work(row: _ForeignRow) -> str:
    """Foreign work in a run in words.

    Args:
        row: a row of `ForeignWork.runs` with foreign seconds.
    """
    periods = join_words([f"from {span}" for span in row["times"][:_MOST_TIMES]])
    more = len(row["times"]) - _MOST_TIMES
    also = f" and {pluralize(more, 'other period')}" if more > 0 else ""
    basis = {
        "counted": f"most of it by {row['program']}",
        "named": f"used by {row['program']}",
        "accounted": "beyond what its nodes and clients used",
        "like runs": f"beyond the median of {pluralize(row['like_runs'], 'other run')} of its kind",
    }[row["method"]]
    seconds = f"{row['foreign_s']:.0f} of {row['sampled_s']:.0f} s"
    return f"{periods}{also} UTC ({seconds}): {row['foreign_percent']:.0f} % of its CPU time, {basis}"


def tabulate_foreign_doubts(tables: Mapping[str, Frame]) -> pl.DataFrame:
    """The foreign work of runs, as :func:`citus_analysis.runs.status.add_machine_doubts` takes it.

    Args:
        tables: those of :data:`ACCOUNT_TABLES`.
    """
    if all(convert_to_polars(tables[name]).is_empty() for name in ("cpu_samples", "foreign_samples")):
        # Without samples nothing is found; looking for it would take a third of the time of a small ingest.
        nothing = convert_to_polars(tables["runs"]).clear().select(RUN)
        return nothing.with_columns(
            foreign_share_percent=pl.lit(None, pl.Float64), foreign_work=pl.lit(None, pl.String)
        )
    found = find_foreign_work(tables).runs.filter("is_doubtful")
    rows = cast("list[_ForeignRow]", found.to_dicts())
    words = pl.Series("foreign_work", [describe_foreign_work(row) for row in rows], pl.String)
    return found.select(*RUN, foreign_share_percent="share_percent").with_columns(words)


def study_foreign_work(dataset: TableSource) -> ForeignWork:
    """Find the work that machines did beside the runs of a dataset, run by run and second by second.

    Args:
        dataset: a dataset, or another source of its tables.
    """
    return find_foreign_work({name: dataset.table(name) for name in ACCOUNT_TABLES})
