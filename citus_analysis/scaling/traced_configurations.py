"""Measured configurations with traced statements: load, size, and the times of each kind of statement by place.

A configuration is a set of runs that were measured alike. Its axes are what a prediction changes: client threads,
workers, the nodes that clients connect to, the CPU of a node, the protocol between nodes, and how long connections
between nodes live. Configurations that differ in nothing else are *comparable*: one model is fitted to all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl

from citus_analysis.bottleneck.machine_work import compute_node_cpu, find_shared_machines
from citus_analysis.bottleneck.samples import NODE, RUN, select_cpu_over_time
from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import SKIP_FIRST
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.concurrency import compute_concurrency
from citus_analysis.runs.selection import Question, select_asked_runs
from citus_analysis.runs.windows import select_measured_rows
from citus_analysis.schema import DATA_STATEMENTS, WRITING_STATEMENTS
from citus_analysis.units import US_PER_S

#: Where clients connect to: the coordinator alone, all of the nodes that hold shards, or of these the node of each key.
Entry: TypeAlias = Literal["coordinator", "any node", "owner"]
#: Protocol between nodes.
Protocol: TypeAlias = Literal["binary", "text"]

#: Columns that tell configurations apart, those that a prediction can change among them.
_APART: Final = (
    *("system", "family", "phase", "workload", "query_mode", "limit", "threads", "workers", "records"),
    *("scale_factor", "operations", "drivers", "monitored", "cpu_per_node", "settings", "shard_count"),
)
#: Those that comparable configurations have in common.
_HELD: Final = (
    *("system", "phase", "workload", "query_mode", "limit", "records", "scale_factor", "operations", "drivers"),
    *("monitored", "shard_count"),
)
_OF_MACHINES: Final = ("nodes", "throttle_samples", "process_samples")
_LIFETIME: Final = "citus.max_cached_connection_lifetime"
#: Column -> setting of the runner's description of a resource: how many shards, where clients connected to, how
#: long a connection between nodes lives, and whether results between nodes are binary.
_STATED: Final = {
    "shard_count": "shard_count",
    "stated_entry": "entry",
    "stated_lifetime": f"settings.{_LIFETIME}",
    "stated_binary": "settings.citus.enable_binary_protocol",
}
#: Settings that axes stand for.
_OF_AXES: Final = r"(citus\.enable_binary_protocol|citus\.max_cached_connection_lifetime)=[\w-]+(?:, )?"
#: Units of times in settings, s.
_UNITS_S: Final = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
#: Lifetime of a connection between nodes, unless it is stated, s: the default of Citus.
_USUAL_LIFETIME_S: Final = 600.0
#: Columns of `statements` that are read.
_STATEMENT_COLUMNS: Final = (
    *(*NODE, "pid", "session_seq", "start_time", "end_time", "statement_kind", "executed", "failed", "child_protocol"),
    *("includes_commit", "total_us", "parent_us", "connect_us", "child_us", "between_us"),
)
#: The time that a statement needs without waiting is the lower quartile of its recorded times: those in which it
#: waited least. All kinds and places are compared by the same quartile; its scale is fitted.
_WITHOUT_WAITING: Final = 0.25
#: Share of statements with several tasks from which on a configuration is not predicted.
MOST_MULTI_SHARD: Final = 0.01
#: Statements per operation this close to 1 are 1: some statements have no record.
_WHOLE: Final = 0.1


@dataclass(frozen=True)
class StatementTimes:
    """Traced statements of one kind in a configuration; times in µs, `nan` where no such statement was traced.

    Attributes:
        kind: `select`, `insert` ...
        per_operation: statements of this kind per operation of the client.
        local, remote: number traced that the receiving node executed itself, and that another node executed.
        mean_us: mean time of `local`, and of the segments `parent` (without connections), `between` and `child` of
            remote statements; statements that made a connection are left out.
        active_us: lower quartile of the time of `local`, `parent` and `child`.
        writes: whether it changes rows.
        local_commits: whether the times of `local` statements contain their commits, as of simple queries.
    """

    kind: str
    per_operation: float
    local: int
    remote: int
    mean_us: Mapping[str, float]
    active_us: Mapping[str, float]
    writes: bool
    local_commits: bool = False

    @property
    def local_share(self) -> float:
        """Share of the statements that the receiving node executed itself."""
        return self.local / (self.local + self.remote)


@dataclass(frozen=True)
class TracedConfiguration:
    """Runs that were measured alike, and their traced statements.

    Attributes:
        name: the resource, and what tells it from others of this resource.
        facts: values of the columns that tell configurations apart.
        held: those that comparable configurations have in common.
        entry: where clients connect to.
        protocol: between nodes.
        workers: nodes that hold shards.
        threads: client threads.
        cores: CPU that a node may use; 1 if it is not stated, so that demands are relative to a node.
        duration_s: mean length of a run.
        lifetime_s: age at which a connection between nodes is renewed.
        throughput_ops_s: one value per run.
        response_us: mean response time that the client measured, per run.
        operations: mean number of operations of a run.
        statements: by kind.
        connections_us: mean time that statements waited for a connection that was made for them; 0 if none was.
        connection_active_us: lower quartile of it.
        reconnects: connections per remote statement, beside the first of each session to each node, and those at the
            end of another's lifetime.
        busy: mean share of the CPU of the nodes that hold shards, or of the coordinator where clients connect to it;
            None if it was not sampled for single nodes.
        multi_shard: share of statements with tasks on several shards.
        is_shared: whether nodes share the processors of a machine, and no limit of their CPU is stated.
    """

    name: str
    facts: Mapping[str, object]
    held: tuple[object, ...]
    entry: Entry
    protocol: Protocol
    workers: int
    threads: int
    cores: float
    duration_s: float
    lifetime_s: float
    throughput_ops_s: Floats
    response_us: Floats
    operations: float
    statements: tuple[StatementTimes, ...]
    connections_us: float
    connection_active_us: float
    reconnects: float
    busy: float | None
    multi_shard: float
    is_shared: bool

    @property
    def axes(self) -> dict[str, object]:
        """What a prediction can change."""
        names = ("entry", "workers", "threads", "cores", "protocol", "lifetime_s")
        return {name: getattr(self, name) for name in names}

    @property
    def operation(self) -> str:
        """The operation in words, such as `SELECT`."""
        return "; ".join(one.kind.upper() for one in self.statements)

    @property
    def named_after(self) -> tuple[object, ...]:
        """The axes that set-ups are named after."""
        return self.entry, self.cores, self.protocol, self.lifetime_s

    def is_comparable(self, other: TracedConfiguration) -> bool:
        """Whether both differ in axes alone: a set-up of another name differs in an axis that it is named after.

        Where nodes share processors, other nodes are not other processors: only threads and protocol may differ.
        """
        if (self.is_shared or other.is_shared) and (self.workers, self.entry) != (other.workers, other.entry):
            return False
        same_name = self.facts["family"] == other.facts["family"]
        return self.held == other.held and (same_name or self.named_after != other.named_after)


def read_traced_configurations(source: TableSource, question: Question) -> tuple[TracedConfiguration, ...]:
    """All configurations of a dataset whose statements were traced and whose clients report response times.

    Args:
        source: a dataset, or tables by name.
        question: the runs that enter.

    Raises:
        InsufficientDataError: there is none.
    """
    runs = select_asked_runs(source, question).runs
    settings = convert_to_polars(source.table("settings"))
    for column, name in _STATED.items():
        stated = settings.filter(pl.col("name") == name).select("resource", pl.col("value").alias(column))
        runs = runs.join(stated.unique("resource"), on="resource", how="left", maintain_order="left")
    columns = ("resource", "run_id", "response_time_us")
    latencies = compute_concurrency(runs, convert_to_polars(source.table("operation_latencies"))).select(columns)
    runs = runs.join(latencies, on=RUN, maintain_order="left").filter(
        pl.col("threads") > 0, pl.col("workers").is_not_null()
    )
    statements = _read_statements(source, runs)
    traced = runs.join(statements.select(RUN).unique(), on=RUN, how="semi", maintain_order="left")
    apart = [name for name in ("resource", *_APART) if name in runs.columns]
    numbered = traced.with_columns(configuration=pl.struct(apart).rank("dense"))
    if numbered.is_empty():
        raise InsufficientDataError(
            "no run has both traced statements and the client's response times",
            hint="record server logs of a sampled client (docs/experiments.md)",
        )
    placed = statements.join(numbered.select(*RUN, "configuration"), on=RUN)
    times = _summarize_statements(placed).partition_by("configuration", as_dict=True)
    parents = placed.group_by("configuration").agg(
        nodes=pl.col("node").unique(), sessions=pl.struct(*NODE, "pid").n_unique()
    )
    entries = {number: (tuple(nodes), sessions) for number, nodes, sessions in parents.iter_rows()}
    busy = _read_node_cpu(source, numbered)
    hosts = find_shared_machines(*(convert_to_polars(source.table(name)) for name in _OF_MACHINES))
    shared = set(hosts.filter(pl.col("nodes") > 1)["resource"])
    found = []
    for (number,), rows in numbered.partition_by("configuration", as_dict=True, maintain_order=True).items():
        built = _build_configuration(rows, times[(number,)], *entries[int(str(number))], busy)
        is_shared = built.facts["resource"] in shared and built.facts.get("cpu_per_node") is None
        found.append(replace(built, is_shared=is_shared))
    return tuple(_name_apart(found))


def _read_statements(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Statements on data within the measured windows, with their number in the session."""
    table = scan_source_table(source, "statements").select(_STATEMENT_COLUMNS).with_columns(
        pl.col("statement_kind", "executed", "node", "child_protocol").cast(pl.String)
    )  # fmt: skip
    wanted = table.filter(
        pl.col("statement_kind").is_in(DATA_STATEMENTS),
        pl.col("executed").is_not_null(),
        ~pl.col("failed").fill_null(value=False),
        pl.col("total_us").is_not_null(),
    )
    inside = select_measured_rows(wanted.collect(), runs).rows
    return inside.with_columns(number=pl.col("session_seq").rank("ordinal").over(*NODE, "pid"))


def _summarize_statements(placed: pl.DataFrame) -> pl.DataFrame:
    """One row per configuration and kind of statement."""
    local, remote = pl.col("executed") == "local", pl.col("executed") == "remote"
    is_later = pl.col("number") > SKIP_FIRST
    later = placed.filter(is_later | ~is_later.any().over("configuration"))
    quiet = later.filter(pl.col("connect_us").is_null())
    place = {
        "local": pl.col("total_us").filter(local),
        "parent": pl.col("parent_us").filter(remote),
        "between": pl.col("between_us").filter(remote),
        "child": pl.col("child_us").filter(remote),
    }
    key = ("configuration", "statement_kind")
    means = quiet.group_by(key).agg(
        *(values.mean().alias(f"{name}_mean") for name, values in place.items()),
        *(values.quantile(_WITHOUT_WAITING).alias(f"{name}_active") for name, values in place.items()),
    )
    counts = placed.group_by(key).agg(
        local=local.sum(),
        local_commits=(local & pl.col("includes_commit").fill_null(value=False)).any(),
        remote=remote.sum(),
        multi=(pl.col("executed") == "multi_shard").sum(),
        connections=pl.col("connect_us").is_not_null().sum(),
        connect_us=pl.col("connect_us").sum(),
        connect_active=pl.col("connect_us").quantile(_WITHOUT_WAITING),
        text=(pl.col("child_protocol") == "text").sum(),
        binary=(pl.col("child_protocol") == "binary").sum(),
    )
    return counts.join(means, on=key, how="left").sort(key)


def _build_configuration(
    runs: pl.DataFrame,
    times: pl.DataFrame,
    parents: tuple[str, ...],
    sessions: int,
    busy: Mapping[tuple[str, str], float],
) -> TracedConfiguration:
    first = runs.row(0, named=True)
    seen = int(times.select(pl.sum_horizontal(pl.col("local", "remote", "multi").sum())).item())
    sampled = int(runs["monitor_operations"].sum()) if "monitor_operations" in runs.columns else 0
    per_operation = seen / sampled if sampled else 1.0
    per_operation = 1.0 if abs(per_operation - 1) < _WHOLE else per_operation
    workers = int(first["workers"])
    remote = int(times["remote"].sum())
    entry: Entry = "coordinator" if set(parents) == {"0"} and workers and not times["local"].sum() else "any node"
    if first["stated_entry"] == "owner" and not remote:
        entry = "owner"  # where a statement did arrive elsewhere, it is what its traces say
    duration_s = float(np.mean(runs["runtime_ms"].to_numpy())) * 1000 / US_PER_S
    lifetime_s = _read_lifetime(first["stated_lifetime"])
    expected = sessions * (workers if entry == "coordinator" else workers - 1) * (1 + duration_s / lifetime_s)
    connections = int(times["connections"].sum())
    # A child with parameters uses the extended protocol also where its results are text.
    is_text = times["text"].sum() > times["binary"].sum() or first["stated_binary"] == "off"
    protocol: Protocol = "text" if is_text else "binary"
    named = ("resource", "operation", *_APART)
    facts: dict[str, object] = {name: first[name] for name in named if name in runs.columns}
    held = [first.get(name) for name in _HELD]
    settings = pl.Series([first.get("settings") or ""]).str.replace_all(_OF_AXES, "").str.strip_chars(", ").item()
    cores = first.get("cpu_per_node")
    shares = [busy[key] for key in runs.select(RUN).iter_rows() if key in busy]
    return TracedConfiguration(
        name=str(first["resource"]),
        facts=facts,
        held=(*held, settings),
        entry=entry,
        protocol=protocol,
        workers=workers,
        threads=int(first["threads"]),
        cores=float(cores) if cores else 1.0,
        duration_s=duration_s,
        lifetime_s=lifetime_s,
        throughput_ops_s=runs["throughput_ops_s"].to_numpy().astype(float),
        response_us=runs["response_time_us"].to_numpy().astype(float),
        operations=float(np.mean(runs["operations_done"].to_numpy())),
        statements=tuple(
            StatementTimes(
                kind=row["statement_kind"],
                per_operation=per_operation * (row["local"] + row["remote"]) / max(seen, 1),
                local=row["local"],
                remote=row["remote"],
                mean_us={name: _convert_null(row[f"{name}_mean"]) for name in ("local", "parent", "between", "child")},
                active_us={name: _convert_null(row[f"{name}_active"]) for name in ("local", "parent", "child")},
                writes=row["statement_kind"] in WRITING_STATEMENTS,
                local_commits=row["local_commits"],
            )
            for row in times.iter_rows(named=True)
            if row["local"] + row["remote"]
        ),
        connections_us=float(times["connect_us"].sum()) / connections if connections else 0.0,
        connection_active_us=_convert_null(times["connect_active"].median()) if connections else 0.0,
        reconnects=max(0, connections - expected) / remote if remote else 0.0,
        busy=float(np.mean(shares)) if shares and len(shares) == runs.height else None,
        multi_shard=float(times["multi"].sum()) / max(seen, 1),
        is_shared=False,
    )


def _read_lifetime(stated: str | None) -> float:
    """Lifetime of a connection between nodes in s, as the setting of the server states it."""
    found = re.fullmatch(r"(\d+) ?([a-z]*)", stated or "")
    if found and found[2] in _UNITS_S:
        return max(int(found[1]), 1) * _UNITS_S[found[2]]
    return math.inf if stated == "-1" else _USUAL_LIFETIME_S


def _convert_null(value: object) -> float:
    return float("nan") if value is None else float(str(value))


def _read_node_cpu(source: TableSource, runs: pl.DataFrame) -> dict[tuple[str, str], float]:
    """Run -> mean share of the CPU of its busiest kind of node, where samples are of single nodes.

    From control groups and processes, as a share of the CPU that a node may use; else from machines with one node.
    """
    names = ("throttle_samples", "process_samples", "activity_samples", "nodes", "cpu_samples")
    tables = {name: convert_to_polars(source.table(name)) for name in names}
    shares = pl.DataFrame(schema=dict.fromkeys(NODE, pl.String()) | {"busy": pl.Float64()})
    if "cpu_per_node" in runs.columns and (tables["throttle_samples"].height or tables["process_samples"].height):
        cores = runs.select(*RUN, cores=pl.col("cpu_per_node").cast(pl.Float64, strict=False)).drop_nulls()
        own = compute_node_cpu(tables, runs).with_columns(pl.col("node").cast(pl.String)).join(cores, on=RUN)
        shares = own.select(*NODE, busy=pl.col("used_percent") / 100 / pl.col("cores"))
    if shares.is_empty() and tables["cpu_samples"].height:
        shared = find_shared_machines(tables["nodes"], tables["throttle_samples"], tables["process_samples"])
        cpu = select_cpu_over_time(tables["cpu_samples"], runs).with_columns(pl.col("node").cast(pl.String))
        alone = cpu.join(shared, on=["resource", "node"], how="anti")
        machines = alone.group_by(NODE).agg(busy=pl.col("busy_percent").mean() / 100)
        # One sampled machine of a cluster says nothing about the others.
        known = tables["nodes"].select("resource", pl.col("node").cast(pl.String)).unique()
        numbers = known.group_by("resource").agg(nodes=pl.len())
        sampled = machines.group_by(RUN).agg(sampled=pl.len()).join(numbers, on="resource")
        whole = sampled.filter(pl.col("sampled") >= pl.col("nodes"))
        shares = machines.join(whole, on=RUN, how="semi").select(*NODE, "busy")
    workers = shares.filter(pl.col("node") != "0").group_by(RUN).agg(pl.col("busy").mean())
    return {(resource, run): float(value) for resource, run, value in workers.select(*RUN, "busy").iter_rows()}


def _name_apart(configurations: Sequence[TracedConfiguration]) -> list[TracedConfiguration]:
    """Configurations of one resource are told apart by the facts in which they differ."""
    found = []
    for one in configurations:
        same = [other for other in configurations if other.name == one.name]
        differing = [n for n in one.facts if len({str(other.facts.get(n)) for other in same}) > 1]
        words = ",".join(f"{n}={one.facts[n]}" for n in differing)
        found.append(replace(one, name=f"{one.name} ({words})") if words else one)
    return found
