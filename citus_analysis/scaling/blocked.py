"""Blocked-time analysis of a dataset: the parts of operations' times, and the gain without each part.

References:
    Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI.
    Denning, P. J. and Buzen, J. P. (1978). The operational analysis of queueing network models (utilisation law).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from citus_analysis.bottleneck.resources import compute_resource_utilization
from citus_analysis.bottleneck.samples import NODE, RUN
from citus_analysis.core.frames import Frame, TableSource, convert_to_polars, read_tables
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs import comparability
from citus_analysis.runs.set_ups import add_setup_descriptions
from citus_analysis.runs.status import list_included_statuses
from citus_analysis.runs.windows import select_measured_rows
from citus_analysis.scaling.network_what_if import PARTS, TOLERATED_PERCENT, Placement, RunTimes, WhatIf, what_if
from citus_analysis.scaling.queueing import apply_littles_law_to_runs
from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.stats.run_means import iterate_groups
from citus_analysis.stats.warmup import DEFAULT_SKIP
from citus_analysis.texts.words import pluralize

#: The columns needed of the table `statements`, which has hundreds of thousands of rows per hour.
BLOCKED_FROM: Final = (
    *(*NODE, "pid", "session_seq", "start_time", "end_time", "statement_kind", "executed", "failed", "match"),
    *("total_us", "parent_us", "child_us", "between_us", "includes_commit"),
)
#: Largest ratio, allowing for noise, of the mean time of sampled statements to that of the client's operations.
_SLOWER: Final = 1.05
#: Largest difference of the mean utilisations (in points) of nodes that form one station.
_UNEVEN: Final = 15.0


def blocked_time(
    source: TableSource | Mapping[str, Frame],
    placements: Sequence[Placement] = (),
    *,
    skip_first: int = DEFAULT_SKIP,
    threads: int | None = None,
    tolerated_percent: float = TOLERATED_PERCENT,
    level: float = LEVEL,
    include_status: str | Collection[str] = (),
) -> tuple[WhatIf, ...]:
    """Blocked-time analysis of every set-up that has traced statements and client latencies, over its thread counts.

    The cycle N / X of a run consists of the mean parent, child and network times of the sampled statements (matched,
    not failed, from within the measured window, after the first of each session there), the rest of the client's
    response time, and the client's own time. Runs that differ only in threads are analysed together by :func:`what_if`.

    If samplers recorded the CPUs of all nodes on which parents or children ran, and no placements are given, their
    utilisation gives the demand of an operation (utilisation law), and the names of the nodes show whether parents and
    children share them. Sampled nodes are assumed to be separate machines.

    Args:
        source: a dataset, or a mapping with the tables `runs`, `operation_latencies` and `statements`, and optionally
            `settings`, `cpu_samples`, `device_samples` and `match_quality`.
        placements: known stations, for all set-ups.
        skip_first: statements left out at the beginning of each session (plans and connections are made there).
        threads: thread count of the gains; by default each set-up's largest.
        tolerated_percent: largest error of throughput at a thread count that was left out.
        level: confidence level.
        include_status: `degraded` to use degraded runs as well.

    Raises:
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run has both traced statements and client latencies.
    """
    tables = read_tables(source, ("runs", "operation_latencies", "statements"))
    settings = _read_optional_table(source, "settings")
    parts = _compute_mean_parts(select_measured_rows(tables["statements"], tables["runs"]).rows, skip_first)
    measured = apply_littles_law_to_runs(tables).select(*RUN, "response_time_us")
    runs = add_setup_descriptions(tables["runs"], settings).filter(
        pl.col("status").cast(pl.String).is_in(list_included_statuses(include_status))
    )
    joined = runs.join(parts, on=RUN).join(measured, on=RUN).filter(pl.col("threads") > 0)
    if joined.is_empty():
        raise InsufficientDataError("no run has both traced statements and client latencies")
    busy = pl.DataFrame() if placements else _compute_cpu_utilisation(source, tables["runs"])
    nodes = _list_statement_nodes(source, tables["statements"])
    found = []
    # Thread counts may have resources of their own.
    for stratum, part in iterate_groups(joined, comparability(joined, "threads").strata):
        known, notes = (tuple(placements), ()) if placements else _select_sampled_stations(part, busy, nodes)
        at = threads if threads in part["threads"].to_list() else None
        one = what_if(_build_run_times(part), known, threads=at, tolerated_percent=tolerated_percent, level=level)
        warnings = (*_write_blocked_notes(part, skip_first), *notes, *one.warnings)
        found.append(replace(one, configuration=stratum or _collect_common_facts(part), warnings=warnings))
    return tuple(found)


def _read_optional_table(source: TableSource | Mapping[str, Frame], name: str) -> pl.DataFrame | None:
    """A table that an analysis does not require; None if it is missing."""
    if isinstance(source, Mapping):
        return convert_to_polars(source[name]) if name in source else None
    return convert_to_polars(source.table(name))


def _collect_common_facts(runs: pl.DataFrame) -> dict[str, object]:
    return {"resource": ", ".join(runs["resource"].cast(pl.String).unique().sort())}


def _compute_mean_parts(statements: pl.DataFrame, skip_first: int) -> pl.DataFrame:
    """Mean times per run over data statements after the warm-up; a local statement is all parent."""
    local = pl.col("executed").cast(pl.String) == "local"
    data = statements.filter(pl.col("statement_kind").cast(pl.String).is_in(DATA_STATEMENTS))
    numbered = data.with_columns(_number=pl.col("session_seq").rank("ordinal").over(*NODE, "pid"))
    kept = numbered.filter(
        (pl.col("_number") > skip_first)
        & ~pl.col("failed").fill_null(value=False)
        & (local | (pl.col("child_us").is_not_null() & (pl.col("match").cast(pl.String) != "unmatched")))
    )
    return kept.group_by(RUN).agg(
        parent=pl.when(local).then("total_us").otherwise("parent_us").mean(),
        child=pl.when(local).then(0.0).otherwise("child_us").mean(),
        network=pl.when(local).then(0.0).otherwise("between_us").mean(),
        total=pl.col("total_us").mean(),
        statements=pl.len(),
        without_commit=(~pl.col("includes_commit")).fill_null(value=False).mean(),
    )


def _build_run_times(runs: pl.DataFrame) -> list[RunTimes]:
    """The parts of each run; `outside` is the part of the client's response time that statements do not cover."""
    outside = (pl.col("response_time_us") - pl.col("total")).clip(lower_bound=0.0)
    rows = runs.with_columns(outside=outside).sort("threads", "run_id")
    return [
        RunTimes(int(row["threads"]), float(row["throughput_ops_s"]), {part: float(row[part]) for part in PARTS})
        for row in rows.iter_rows(named=True)
    ]


def _compute_cpu_utilisation(source: TableSource | Mapping[str, Frame], runs: pl.DataFrame) -> pl.DataFrame:
    """CPU utilisation per run and node, from samples within the run; empty if nothing was sampled."""
    cpu, devices = _read_optional_table(source, "cpu_samples"), _read_optional_table(source, "device_samples")
    if cpu is None or devices is None or cpu.is_empty():
        return pl.DataFrame()
    found = compute_resource_utilization(cpu, devices, runs)
    return found.filter((pl.col("component") == "cpu") & pl.col("within_run")).select(*NODE, "mean_percent")


def _list_statement_nodes(source: TableSource | Mapping[str, Frame], statements: pl.DataFrame) -> pl.DataFrame:
    """The nodes on which parents and children of a resource ran."""
    quality = _read_optional_table(source, "match_quality")
    columns = ["resource", "node", "part"]
    if quality is None or "node" not in statements.columns:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String()))
    parents = statements.filter(pl.col("executed").is_not_null()).select("resource", "node", part=pl.lit("parent"))
    children = quality.select("resource", node="child_node", part=pl.lit("child"))
    both = [one.select(pl.col(columns).cast(pl.String)).unique() for one in (parents, children)]
    return pl.concat(both).drop_nulls()


def _select_sampled_stations(
    runs: pl.DataFrame, busy: pl.DataFrame, nodes: pl.DataFrame
) -> tuple[tuple[Placement, ...], tuple[str, ...]]:
    """Stations whose nodes were sampled, with their utilisation, and the reasons why others were not used."""
    own = nodes.filter(pl.col("resource").is_in(runs["resource"].cast(pl.String).unique().implode()))
    hosts = {part: frozenset(own.filter(part=part)["node"]) for part in ("parent", "child")}
    if busy.is_empty():
        return (), ("no CPU was sampled: demands and capacities are inferred from times alone",)
    if not all(hosts.values()):
        return (), ("no statement ran on other nodes: demands and capacities are inferred from times alone",)
    groups: dict[tuple[str, ...], frozenset[str]]
    if hosts["parent"] == hosts["child"]:
        groups = {("parent", "child"): hosts["parent"]}
    elif hosts["parent"].isdisjoint(hosts["child"]):
        groups = {(part,): hosts[part] for part in hosts}
    else:
        return (), ("some nodes run parents and children, others one of them: utilisations are not used",)
    mine = runs.select(*RUN, "threads").join(busy, on=RUN).with_columns(pl.col("node").cast(pl.String))
    placements, notes = [], []
    for parts, names in groups.items():
        shares, uneven = _compute_utilisation_shares(mine.filter(pl.col("node").is_in(list(names))), len(names))
        if shares and not uneven:
            placements.append(Placement(parts, utilisation=shares))
        else:
            why = "differs much between them" if uneven else "was not sampled on all of them"
            notes.append(f"the CPU of the nodes of {' and '.join(parts)} {why}: it is not used")
    return tuple(placements), tuple(notes)


def _compute_utilisation_shares(samples: pl.DataFrame, nodes: int) -> tuple[dict[int, float], bool]:
    """Mean utilisation per thread count over runs in which all nodes were sampled, and whether nodes differ much."""
    per_run = samples.group_by("run_id", "threads").agg(
        pl.col("mean_percent").mean(),
        nodes=pl.len(),
        spread=pl.col("mean_percent").max() - pl.col("mean_percent").min(),
    )
    complete = per_run.filter(pl.col("nodes") == nodes)
    means = complete.group_by("threads").agg(pl.col("mean_percent").mean() / 100).sort("threads")
    uneven = not complete.is_empty() and bool(complete.select((pl.col("spread") > _UNEVEN).any()).item())
    return {int(n): min(float(share), 1.0) for n, share in means.iter_rows()}, uneven


def _write_blocked_notes(runs: pl.DataFrame, skip_first: int) -> tuple[str, ...]:
    sampled = int(runs["statements"].sum())
    taken = f"{pluralize(sampled, 'sampled statement')} in {pluralize(runs.height, 'run')}"
    notes = [f"all operations are assumed to be like {taken}, the first {skip_first} of each session left out"]
    share = (pl.col("without_commit") * pl.col("statements")).sum() / pl.col("statements").sum()
    hidden = float(runs.select(share).item())
    if hidden > 0:
        notes.append(f"{hidden * 100:.0f} % of the durations do not contain the commit: its wait counts as outside")
    slow = runs.filter(pl.col("total") > _SLOWER * pl.col("response_time_us")).height
    if slow:
        notes.append(
            f"sampled statements take longer than the client's mean response in {pluralize(slow, 'run')}: "
            "sampling slows them down"
        )
    return tuple(notes)
