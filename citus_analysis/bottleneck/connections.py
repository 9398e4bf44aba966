"""How many client connections a node has room for, and how many of them the throughput needs.

Each connection is a process of PostgreSQL. Its memory beyond what all processes share is its proportional set size
without shared memory, and its page tables (:mod:`citus_analysis.formats.backends`). On a Citus cluster, a client's
session keeps connections to other nodes, which are processes there: if clients connect to all w workers, a node with c
clients has about k c (w - 1) such children, where k is the number that a client's session has on each other node. So a
node has room for

    c = (memory - what does not depend on connections) / (a client's session + k (w - 1) sessions of other nodes).

The cluster has w times as many, C = c w: where the children weigh as much as clients, C hardly grows with w.

The number that the throughput needs is the smallest measured one whose mean throughput is within the margin of the
best; it says nothing of numbers that were not measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples import RUN, align_to_runs
from citus_analysis.bottleneck.waits import select_client_sessions
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, TableSource, convert_to_polars, resolve_source, return_callers_frame_kind
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.selection import select_runs, split_names
from citus_analysis.stats.intervals import mean_interval
from citus_analysis.stats.results import Interval
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.tables import render_text_table
from citus_analysis.texts.words import pluralize

#: Role of a session, and whether it works: what is measured for each.
CLIENT, CHILD = "parent", "child"
_KINDS: Final = {
    (CLIENT, True): "active connection of a client",
    (CLIENT, False): "idle connection of a client",
    (CHILD, True): "active connection of another node",
    (CHILD, False): "idle connection of another node",
}
#: Share of a server's sampled backends that snapshots of a node must know, for the node to be that server.
_SAME_SERVER: Final = 0.5
_KB_PER_MB: Final = 1000.0
_MB_PER_GB: Final = 1000.0
_MS_PER_S: Final = 1000.0
_UNITS_MB: Final = {"B": 1e-6, "kB": 0.001024, "MB": 1.048576, "GB": 1073.741824, "TB": 1099511.627776}
_NEEDED: Final = ("runs", "nodes", "settings", "activity_samples", "backend_samples")
_SERIES: Final = ("operation", "set_up", "workers")


@dataclass(frozen=True, repr=False)
class ConnectionAdvice(DisplayMixin):
    """How many client connections fit into the memory of a node, and how many the throughput needs.

    Attributes:
        costs: one row per kind of connection: `connection` (in words), `memory_mb` with `_low` and `_high`,
            `cpu_percent` with `_low` and `_high` (of one processor), `sessions`, `runs`.
        curve: one row per operation, set-up, workers and number of connections: `connections` (of clients, all nodes),
            `per_node`, `throughput_ops_s` with `_low` and `_high`, `runs`, `memory_mb` (of the node that used most:
            all its processes and the shared memory they touched), `children` (connections of other nodes, mean of the
            nodes), `is_enough` (the smallest within the margin of the best).
        per_client_mb: memory of one more client connection at each node, its children included; by runs.
        children_per_peer: connections that a client's session has on each other node (k), in the run with most; None on
            a single server.
        fixed_mb: memory of a node that does not depend on connections: shared_buffers and other processes.
        memory_gb: memory that the servers of a node may use (10^9 bytes); None if it was not asked.
        workers: nodes that clients connect to in the advice (w).
        most_per_node: number of client connections that fit; None if no memory was stated.
        level: confidence level.
        margin: relative difference of throughputs that counts as none.
        assumptions: what the numbers take for granted.
        warnings: limitations of the measurement.
    """

    costs: pl.DataFrame
    curve: pl.DataFrame
    per_client_mb: Interval
    children_per_peer: float | None
    fixed_mb: float
    memory_gb: float | None
    workers: int
    most_per_node: Interval | None
    level: float
    margin: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The advice, or the memory of a connection if no memory was stated."""
        one = self.per_client_mb
        nodes = max(self.workers, 1)
        at = " at each node" if nodes > 1 else ""
        cost = f"{format_number(one.estimate)} {one.ends_text()} MB a client connection{at}"
        place = "the server" if self.workers < 1 else f"each of {pluralize(self.workers, 'worker')}"
        if self.most_per_node is None or self.memory_gb is None:
            return f"Measured: {cost} ({one.n} runs); state the memory of a node to get the number that fits."
        most = self.most_per_node
        at_most = _round_down(most.low if most.exists else most.estimate)
        ends = f" ({_round_down(most.low):,} to {_round_down(most.high):,})" if most.exists else ""
        total = f", {at_most * nodes:,} in all" if nodes > 1 else ""
        return (
            f"With {format_number(self.memory_gb)} GB, {place} has room for at most {at_most:,} client "
            f"connections{ends}{total}: {cost} ({one.n} runs), beside {format_number(self.fixed_mb)} MB that do not "
            "depend on connections."
        )

    def summary_lines(self) -> list[str]:
        """The advice, what the throughput needs, what a connection costs, assumptions and warnings."""
        lines = [self.sentence()]
        for row in self.curve.filter("is_enough").to_dicts():
            of = self.curve.filter(pl.all_horizontal(pl.col(name).eq_missing(row[name]) for name in _SERIES))
            if of.height > 1:
                lines.append(_describe_enough(row, of, self.margin))
        lines += [_describe_cost(row) for row in self.costs.to_dicts()]
        return [*lines, *(f"assumed: {one}" for one in self.assumptions), *(f"note: {one}" for one in self.warnings)]

    def summary_table(self) -> pl.DataFrame | None:
        """The curve."""
        return self.curve

    def to_dict(self) -> dict[str, object]:
        """As plain values, for JSON."""
        most = self.most_per_node
        return {
            "sentence": self.sentence(),
            "most_per_node": None if most is None else _round_down(most.low if most.exists else most.estimate),
            "most_per_node_estimate": None if most is None else most.record("most_per_node"),
            "memory_gb": self.memory_gb,
            "workers": self.workers,
            **self.per_client_mb.record("per_client_mb"),
            "n": self.per_client_mb.n,
            "method": self.per_client_mb.method,
            "level": self.level,
            "children_per_peer": self.children_per_peer,
            "fixed_mb": self.fixed_mb,
            "costs": self.costs.to_dicts(),
            "curve": self.curve.to_dicts(),
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
        }


def _round_down(number: float) -> int:
    return max(0, math.floor(number))


def _describe_enough(row: Mapping[str, object], of: pl.DataFrame, margin: float) -> str:
    best = of.sort("throughput_ops_s").row(-1, named=True)
    asked = f"{row['operation']!s}, {row['set_up']!s}"
    measured = f"{of['connections'].min()!s} to {of['connections'].max()!s}"
    if row["connections"] == best["connections"]:
        end = " (the largest that was measured)" if row["connections"] == of["connections"].max() else ""
        found = f"the most operations per second with {row['connections']} connections{end}"
    else:
        found = (
            f"{row['connections']!s} connections are within {100 * margin:g} % of the best mean "
            f"({best['connections']} connections)"
        )
    rate = format_number(float(str(row["throughput_ops_s"])))
    return f"{asked}: of {measured} connections, {found}: {rate} operations/s."


def _describe_cost(row: Mapping[str, object]) -> str:
    cpu = row["cpu_percent"]
    used = "" if cpu is None else f" and {format_number(float(str(cpu)))} % of a processor"
    memory = format_number(float(str(row["memory_mb"])))
    article = "An" if str(row["connection"])[0] in "ai" else "A"
    return f"{article} {row['connection']} took {memory} MB{used} ({row['sessions']} in {row['runs']} runs)."


@return_callers_frame_kind
def measure_connections(backend_samples: Frame, activity_samples: Frame, runs: Frame) -> pl.DataFrame:
    """Memory and CPU time of each session during runs.

    Args:
        backend_samples: the table of that name.
        activity_samples: the table of that name, which tells what a process is; sampled on the same machines.
        runs: the table `runs`.

    Returns:
        One row per session: `resource`, `run_id`, `node`, `pid`, `role` (`parent`: of a client, `child`: of another
        node), `is_active` (it was active in a snapshot, or began a statement between two; null if a single snapshot
        shows it, and not active), `memory_mb` (mean over samples of the memory that is
        not shared, page tables included; null if it could not be read), `cpu_percent` (of one processor; null if it was
        sampled once).
    """
    sampled = _assign_servers(align_to_runs(backend_samples, runs), convert_to_polars(activity_samples))
    sessions = convert_to_polars(select_client_sessions(activity_samples, runs))
    worked = (pl.col("state") == "active").any() | (pl.col("query_start").n_unique() > 1)
    seen = sessions.group_by(*RUN, pl.col("node").cast(pl.String), "pid").agg(
        pl.col("role").first(), is_active=pl.when(worked | (pl.len() > 1)).then(worked)
    )
    own = pl.col("pss_kb") - pl.col("shared_kb") + pl.col("page_tables_kb")
    used_ms = pl.col("cpu_ms").sort_by("sample_time").last() - pl.col("cpu_ms").sort_by("sample_time").first()
    passed_s = (pl.col("sample_time").max() - pl.col("sample_time").min()).dt.total_milliseconds() / _MS_PER_S
    measured = sampled.group_by(*RUN, "node", "pid").agg(
        memory_mb=own.mean() / _KB_PER_MB,
        cpu_percent=pl.when(passed_s > 0).then(100 * used_ms / _MS_PER_S / passed_s),
    )
    return seen.join(measured, on=[*RUN, "node", "pid"]).sort(*RUN, "node", "pid")


def _assign_servers(sampled: pl.DataFrame, activity: pl.DataFrame) -> pl.DataFrame:
    """Samples with the node that each process belongs to.

    The sampler of a machine shows all its servers, which may be several nodes. A server, which is a parent process, is
    the node whose sessions its processes are. Where several samplers show one server, that of the node is taken.
    """
    backends = sampled.with_columns(pl.col("node").cast(pl.String).alias("sampler")).drop("node")
    known = activity.select("resource", pl.col("node").cast(pl.String), "pid").unique()
    pids = backends.select("resource", "sampler", "parent_pid", "pid").unique()
    server = ["resource", "sampler", "parent_pid"]
    both = pids.join(known, on=["resource", "pid"]).group_by(*server, "node").agg(found=pl.len())
    # The postmaster of a sampler is the parent of many of its processes, of which sessions must know most.
    sizes = pids.group_by(server).agg(of=pl.len())
    best = both.join(sizes, on=server).filter(pl.col("found") >= _SAME_SERVER * pl.col("of"))
    best = best.with_columns(is_own=pl.col("sampler") == pl.col("node"))
    best = best.sort("is_own", "found", "sampler", descending=[True, True, False]).unique(server, keep="first")
    # One sampler for each node; a node that was started again has several parents.
    chosen = best.sort("is_own", "sampler", descending=[True, False]).group_by("resource", "node", maintain_order=True)
    one = chosen.agg(pl.col("sampler").first())
    best = best.join(one, on=["resource", "node", "sampler"], how="semi")
    return backends.join(best.select(*server, "node"), on=server, how="inner")


def advise_connections(
    source: object,
    memory_gb: float | None = None,
    *,
    workers: int | None = None,
    resources: str = "*",
    level: float = LEVEL,
    margin: float = MARGIN,
    include_status: str | Collection[str] = (),
) -> ConnectionAdvice:
    """Say how many client connections fit into a node's memory, and how many the throughput needs.

    Args:
        source: a dataset, or a path of one or of raw files; the runner samples what is needed.
        memory_gb: memory that the servers of a node may use, in GB (10^9 bytes); what the operating system's file cache
            is to have is not part of it. None: only what was measured is said.
        workers: nodes that clients connect to; by default as many as were measured.
        resources: glob patterns of resources, separated by commas.
        level: confidence level of all intervals.
        margin: relative difference of throughputs that counts as none.
        include_status: statuses of runs that enter besides `ok`.

    Returns:
        The advice with its interval: Student's t over runs of the mean memory of an active connection.

    Raises:
        UsageError: the source has no samples, or the memory is too small for what does not depend on connections.
        InsufficientDataError: memory was not sampled or not readable, or it cannot be told which processes are
            connections.

    Example:
        >>> import citus_analysis as ca
        >>> found = ca.advise_connections("results", memory_gb=16)  # doctest: +SKIP
        >>> found.sentence(), found.curve  # doctest: +SKIP
        >>> advise_connections(pl.DataFrame({"version": ["a", "b"], "tps": [1.0, 2.0]}))
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: advice on connections needs a dataset or raw files (a table of results has \
no samples of memory)
    """
    dataset = resolve_source(source)
    if not isinstance(dataset, TableSource):
        hint = "a table of results has no samples of memory"
        raise UsageError("advice on connections needs a dataset or raw files", hint=hint)
    tables = {name: convert_to_polars(dataset.table(name)) for name in _NEEDED}
    _check_that_memory_was_sampled(tables)
    runs = select_runs(dataset, resources, include_status=split_names(include_status)).runs
    sessions = convert_to_polars(
        measure_connections(tables["backend_samples"], tables["activity_samples"], runs)
    ).drop_nulls("memory_mb")
    if sessions.filter(role=CLIENT).is_empty():
        raise InsufficientDataError(
            "no sampled process is a session of a client during a run",
            hint="runs must last several seconds; samplers and servers must see the same process ids (one container)",
        )
    counts = _count_sessions(tables["activity_samples"], runs)
    children = _estimate_children_per_peer(counts, tables["nodes"])
    measured_workers = int(runs.join(sessions.select(RUN).unique(), on=RUN)["workers"].max() or 0)  # type: ignore[arg-type] # whole numbers
    asked_workers = measured_workers if workers is None else workers
    warnings = _list_warnings(sessions, asked_workers, measured_workers)
    if children is None and asked_workers > 1:
        raise InsufficientDataError(
            "runs on less than two nodes do not show connections between nodes",
            hint="measure two or more workers, or ask for workers=1",
        )
    peers = 0.0 if children is None else children * max(asked_workers - 1, 0)
    one = _measure_one_client(sessions, peers, level)
    fixed = _measure_fixed_memory(tables, runs)
    most = None
    if memory_gb is not None:
        room = memory_gb * _MB_PER_GB - fixed
        if room <= 0:
            said = f"{format_number(memory_gb)} GB is less than the {format_number(fixed)} MB that do not depend on"
            raise UsageError(f"{said} connections (shared_buffers and background processes)", hint="state more memory")
        ends = (room / one.high, room / one.low) if one.exists and one.low > 0 else (math.nan, math.nan)
        most = Interval(room / one.estimate, *ends, level, one.n, one.method, one.warnings)
        largest = counts.filter(role=CLIENT)["sessions"].max()
        if isinstance(largest, float) and most.estimate > largest:
            warnings.append(
                f"at most {largest:.0f} client connections per node were measured; throughput with more is not known"
            )
    curve = _measure_curve(counts, tables, runs, level, margin)
    return ConnectionAdvice(
        _measure_costs(sessions, level), curve, one, children, fixed, memory_gb, asked_workers, most, level, margin,
        _list_assumptions(asked_workers, children), tuple(warnings),
    )  # fmt: skip


def _check_that_memory_was_sampled(tables: Mapping[str, pl.DataFrame]) -> None:
    backends = tables["backend_samples"]
    if backends.is_empty():
        hint = "citus-analysis run does on nodes with a shell (samplers.backends: true)"
        raise InsufficientDataError("the memory of backends was not sampled", hint=hint)
    if backends["pss_kb"].null_count() == backends.height:
        hint = "run the sampler as root or as the server's user (ssh_user)"
        raise InsufficientDataError("the memory of backends was not readable for the sampler", hint=hint)
    if tables["activity_samples"].is_empty():
        hint = "sample sessions as well (samplers.activity: true)"
        raise InsufficientDataError("without snapshots of sessions no process is known to be a connection", hint=hint)


def _count_sessions(activity: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Mean number of sessions of clients, and for them, at a time: `resource`, `run_id`, `node`, `role`, `sessions`."""
    inside = convert_to_polars(select_client_sessions(activity, runs)).with_columns(pl.col("node").cast(pl.String))
    # Nodes also keep connections of sessions that ended before, or that no client began.
    parents = inside.filter(role=CLIENT).select(*RUN, "gpid").drop_nulls().unique()
    of_clients = (pl.col("role") == CLIENT) | pl.col("gpid").is_null() | pl.col("_known").fill_null(value=False)
    known = parents.with_columns(_known=pl.lit(value=True))
    inside = inside.join(known, on=[*RUN, "gpid"], how="left").filter(of_clients) if parents.height else inside
    snapshots = inside.group_by(*RUN, "node").agg(snapshots=pl.col("sample_time").n_unique())
    counted = inside.group_by(*RUN, "node", "role").agg(number=pl.len()).join(snapshots, on=[*RUN, "node"])
    return counted.select(*RUN, "node", "role", sessions=pl.col("number") / pl.col("snapshots"))


def _estimate_children_per_peer(counts: pl.DataFrame, nodes: pl.DataFrame) -> float | None:
    """Connections of a client's session on each other node that has shards; None if there are no other nodes.

    The children of a run are divided by all pairs of a client and a node that is not its own; the run with most counts,
    because sessions open these connections only when a statement needs them.
    """
    named = nodes.select("resource", pl.col("node").cast(pl.String), "groupid").drop_nulls().unique()
    placed = counts.join(named, on=["resource", "node"], how="left")
    clients = placed.filter(role=CLIENT).select(*RUN, "node", clients="sessions")
    hosts = placed.filter((pl.col("role") == CHILD) & (pl.col("groupid").fill_null(1) != 0)).select(*RUN, "node")
    # A node that holds shards has sessions of clients or of other nodes.
    shards = pl.concat([hosts, clients.select(*RUN, "node")]).unique()
    shards = shards.join(named.filter(groupid=0).select("resource", "node"), on=["resource", "node"], how="anti")
    pairs = clients.join(shards.rename({"node": "peer"}), on=RUN).filter(pl.col("node") != pl.col("peer"))
    if pairs.is_empty():
        return None
    expected = pairs.group_by(RUN).agg(pl.col("clients").sum())
    children = placed.filter(role=CHILD).group_by(RUN).agg(pl.col("sessions").sum())
    shares = expected.join(children, on=RUN, how="left").select(pl.col("sessions").fill_null(0.0) / pl.col("clients"))
    return _as_number(shares.to_series().max())


def _measure_one_client(sessions: pl.DataFrame, peers: float, level: float) -> Interval:
    """Memory of one more client connection at each node: its own process, and those of its kind on other nodes."""
    busiest = _prefer_active(sessions.filter(role=CLIENT))
    own = busiest.group_by(RUN).agg(own=pl.col("memory_mb").mean())
    if peers:
        others = _prefer_active(sessions.filter(role=CHILD)).group_by(RUN).agg(other=pl.col("memory_mb").mean())
        own = own.join(others, on=RUN).select(*RUN, own=pl.col("own") + peers * pl.col("other"))
    return mean_interval(own.sort(*RUN)["own"].to_numpy(), level)


def _prefer_active(sessions: pl.DataFrame) -> pl.DataFrame:
    """Active sessions, which need more; all if none was active."""
    active = sessions.filter("is_active")
    return active if active.height else sessions


def _measure_costs(sessions: pl.DataFrame, level: float) -> pl.DataFrame:
    rows = []
    for (role, is_active), words in _KINDS.items():
        some = sessions.filter(role=role, is_active=is_active)
        if some.is_empty():
            continue
        of_runs = some.group_by(RUN).agg(pl.col("memory_mb", "cpu_percent").mean()).sort(*RUN)
        row: dict[str, object] = {"connection": words}
        for name in ("memory_mb", "cpu_percent"):
            values = of_runs[name].drop_nulls().to_numpy()
            known = mean_interval(values, level) if values.size else None
            row |= known.record(name) if known else dict.fromkeys((name, f"{name}_low", f"{name}_high"))
        rows.append(row | {"sessions": some.height, "runs": of_runs.height})
    numbers = ("memory_mb", "cpu_percent")
    kinds = {f"{name}{end}": pl.Float64 for name in numbers for end in ("", "_low", "_high")}
    schema = {"connection": pl.String, **kinds, "sessions": pl.Int64, "runs": pl.Int64}
    return pl.DataFrame(rows, schema=schema)


def _measure_fixed_memory(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame) -> float:
    """MB of a node without connections: shared_buffers as set, and the largest sum of all other processes."""
    resources = runs["resource"].unique().implode()
    stated = tables["settings"].filter(pl.col("name") == "settings.shared_buffers", pl.col("resource").is_in(resources))
    buffers = [size for text in stated["value"].unique() if (size := _parse_size_mb(str(text))) is not None]
    sampled = _assign_servers(align_to_runs(tables["backend_samples"], runs), tables["activity_samples"])
    of_clients = pl.col("backend_type").cast(pl.String) == "client backend"
    sessions = tables["activity_samples"].filter(of_clients)
    sessions = sessions.select("resource", pl.col("node").cast(pl.String), "pid").unique()
    at = [*RUN, "node", "sample_time"]
    read = sampled.drop_nulls("pss_kb")
    touched = read.group_by(at).agg(kb=pl.col("shared_kb").sum())["kb"].max()
    others = read.join(sessions, on=["resource", "node", "pid"], how="anti")
    own = (pl.col("pss_kb") - pl.col("shared_kb") + pl.col("page_tables_kb")).sum()
    beside = others.group_by(at).agg(kb=own)["kb"].max()
    shared = max([*buffers, _as_number(touched) / _KB_PER_MB])
    return shared + _as_number(beside) / _KB_PER_MB


def _as_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _parse_size_mb(text: str) -> float | None:
    """A size of PostgreSQL's settings in MB (10^6 bytes).

    Example:
        >>> _parse_size_mb("256MB"), _parse_size_mb("many")
        (268.435456, None)
    """
    found = re.fullmatch(r"(\d+)\s*(B|kB|MB|GB|TB)", text)
    return int(found[1]) * _UNITS_MB[found[2]] if found else None


def _measure_curve(
    counts: pl.DataFrame,
    tables: Mapping[str, pl.DataFrame],
    runs: pl.DataFrame,
    level: float,
    margin: float,
) -> pl.DataFrame:
    """Throughput and memory over the number of connections."""
    sampled = _assign_servers(align_to_runs(tables["backend_samples"], runs), tables["activity_samples"])
    all_kb = (pl.col("pss_kb") + pl.col("page_tables_kb")).sum() / _KB_PER_MB
    totals = sampled.drop_nulls("pss_kb").group_by(*RUN, "node", "sample_time").agg(memory_mb=all_kb)
    memory = totals.group_by(*RUN, "node").agg(pl.col("memory_mb").mean())
    memory = memory.group_by(RUN).agg(pl.col("memory_mb").max())
    of_clients = counts.filter(role=CLIENT).group_by(RUN).agg(per_node=pl.col("sessions").mean())
    of_nodes = counts.filter(role=CHILD).group_by(RUN).agg(children=pl.col("sessions").mean())
    known = runs.with_columns(connections=pl.coalesce("connected_threads", "threads"))
    for facts in (memory, of_clients, of_nodes):
        known = known.join(facts, on=RUN, how="left")
    rows = []
    series = [*_SERIES, "connections"]
    for key, some in known.group_by(series, maintain_order=True):
        rate = mean_interval(some["throughput_ops_s"].to_numpy(), level, "log-t")
        means = some.select(pl.col("per_node", "children", "memory_mb").mean()).row(0, named=True)
        numbers = rate.record("throughput_ops_s") | means | {"runs": some.height}
        rows.append(dict(zip(series, key, strict=True)) | numbers)
    curve = pl.DataFrame(rows, infer_schema_length=None).sort(*series)
    best = pl.col("throughput_ops_s").max().over(_SERIES)
    within = pl.col("throughput_ops_s") >= (1 - margin) * best
    first = pl.col("connections").filter(within).min().over(_SERIES)
    order = ("per_node", "children", "throughput_ops_s", "throughput_ops_s_low", "throughput_ops_s_high", "runs")
    marked = curve.with_columns(is_enough=pl.col("connections") == first)
    return marked.select(*series, *order, "memory_mb", "is_enough")


def _list_assumptions(workers: int, children: float | None) -> tuple[str, ...]:
    found = [
        "statements need no more memory at their peak than in the samples (work_mem, large results)",
        "all connections are active at the same time",
        "what is not in the memory stated is enough for the operating system and its file cache",
    ]
    if children is not None and workers > 1:
        found.append(
            f"clients are spread evenly over {pluralize(workers, 'worker')}, and the number of connections "
            f"that a session has on each other worker is {format_number(children)}, as in the run with most"
        )
    return tuple(found)


def _list_warnings(sessions: pl.DataFrame, workers: int, measured: int) -> list[str]:
    found = []
    if workers != measured:
        found.append(f"connections between nodes were measured on {pluralize(measured, 'worker')}, not on {workers}")
    if sessions.filter(role=CLIENT, is_active=True).is_empty():
        found.append("all connections of clients were idle: active ones need more")
    return found


def format_advice(found: ConnectionAdvice) -> str:
    """The advice as text: sentences, and the curve as a table.

    Args:
        found: the result of :func:`advise_connections`.
    """
    keys = ("operation", "set-up", "workers", "connections", "per node", "of nodes")
    head = (*keys, "operations/s", "low", "high", "runs", "MB per node", "")
    rows = []
    for row in found.curve.to_dicts():
        names = ("per_node", "children", "throughput_ops_s", "throughput_ops_s_low", "throughput_ops_s_high")
        rates = ["" if row[name] is None else format_number(row[name]) for name in names]
        memory = "" if row["memory_mb"] is None else format_number(row["memory_mb"])
        enough = "enough" if row["is_enough"] else ""
        place = [str(row[name]) for name in (*_SERIES, "connections")]
        rows.append([*place, *rates, str(row["runs"]), memory, enough])
    lines, table = found.summary_lines(), render_text_table(head, rows, right=range(2, 11))
    return "\n".join([lines[0], "", *table, "", *lines[1:]])
