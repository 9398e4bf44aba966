"""The runs of a report, with their set-up, and the runs left out.

What is not known of a run is a level like any other: such runs are compared with one another, and share a series. The
operation of a run whose workload is not known is :data:`UNKNOWN_OPERATION`. The nodes that clients connect to
(the coordinator or the workers) are reported beside the set-up: in many studies they depend on the cluster's size, and
they do not split a series.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import polars as pl

from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.runs.known_facts import stated_at_ingest
from citus_analysis.runs.run_status import allowed_statuses, used_notes
from citus_analysis.runs.setups import described, with_operations
from citus_analysis.texts.counted_words import counted

#: Operation of runs that are no load, and whose workload is not known.
UNKNOWN_OPERATION: Final = "unknown workload"

_URL: Final = r"jdbc:\w+://([^/\s?]+)"


@dataclass(frozen=True)
class Selection:
    """The runs of a report, and the runs left out.

    Attributes:
        runs: runs that are ok (or degraded and allowed), with the columns `operation`, `family`,
            `limit`, `settings`, `variant`, `entry`, `tool` (the load generator) and `hardware` (as the resource's
            description states it) added.
        left_out: resource, iteration, phase, threads, workers, status, reason of every other run.
        hardware: the hardware as the resources' descriptions state it; usually one text.
        notes: words on runs that were allowed, on those whose clients contradict themselves, and on those whose
            workload is not known.
    """

    runs: pl.DataFrame
    left_out: pl.DataFrame
    hardware: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _patterns(resources: str) -> list[str]:
    return [pattern.strip() for pattern in resources.split(",") if pattern.strip()]


def matching(frame: pl.DataFrame, resources: str) -> pl.DataFrame:
    """The rows of resources that match one of several glob patterns, separated by commas."""
    patterns = _patterns(resources)
    present = frame["resource"].unique()
    chosen = [name for name in present if any(fnmatchcase(name, p) for p in patterns)]
    return frame if len(chosen) == len(present) else frame.filter(pl.col("resource").is_in(chosen))


def check_known(runs: pl.DataFrame, resources: str, workload: str = "") -> None:
    """Refuse patterns that match no resource, and a workload that no run has.

    Args:
        runs: the table `runs`.
        resources: glob patterns, separated by commas; `*` is valid even if there are no runs.
        workload: a workload's name; empty: any.

    Raises:
        UnknownNameError: a pattern matches no resource, or no run has the workload.
    """
    known = runs["resource"].unique().to_list()
    for pattern in _patterns(resources):
        if pattern != "*" and not any(fnmatchcase(name, pattern) for name in known):
            raise UnknownNameError("resource", pattern, known)
    workloads = runs["workload"].drop_nulls().unique().to_list()
    if workload and workload not in workloads:
        raise UnknownNameError("workload", workload, workloads)


def select_runs(
    dataset: TableSource,
    resources: str = "*",
    phase: str = "all",
    workload: str = "",
    allow: str | Collection[str] = (),
) -> Selection:
    """The runs of the chosen resources, with their set-up.

    Args:
        dataset: source of the tables `runs`, `settings`, `clients` and `nodes`.
        resources: glob patterns, separated by commas.
        phase: `load`, `run` or `all`.
        workload: one workload's name; empty: all. The load phase is not filtered by it.
        allow: `degraded` to select degraded runs as well.

    Raises:
        UnknownNameError: a pattern matches no resource, or no run has the workload.
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run has the phase, or no matching run is ok (or allowed).
    """
    table = as_polars(dataset.table("runs")).with_columns(pl.col("phase", "status").cast(pl.String))
    check_known(table, resources, workload)
    runs = matching(table, resources)
    settings = as_polars(dataset.table("settings"))
    if phase != "all":
        phases = sorted(runs["phase"].drop_nulls().unique())
        runs = runs.filter(pl.col("phase") == phase)
        if runs.is_empty():
            known = f"phases are {', '.join(phases)}" if phases else "the phase of none is known"
            raise InsufficientDataError(f"no run has phase={phase}; {known}", way_out="phase=all takes all runs")
    if workload:
        runs = runs.filter((pl.col("workload") == workload) | (pl.col("phase") == "load"))
    statuses = allowed_statuses(allow)
    ok = runs.filter(pl.col("status").is_in(statuses) & pl.col("throughput_ops_s").is_not_null())
    if ok.is_empty():
        raise InsufficientDataError(
            f"no run with status {' or '.join(statuses)} among {runs.height} of resources {resources!r}, "
            f"phase {phase!r}, workload {workload or 'any'!r}",
            way_out="see the table runs; allow=degraded takes degraded runs in",
        )
    left_out = runs.join(ok.select("run_id", "resource"), on=["run_id", "resource"], how="anti")
    chosen = _with_setup(ok, dataset, settings)
    notes = (*used_notes(ok), *_unknown_workloads(chosen))
    return Selection(chosen, _reasons(left_out), _hardware(settings, ok), notes)


def _unknown_workloads(runs: pl.DataFrame) -> list[str]:
    """A word on runs that are taken to do the same only because nothing says what they do."""
    number = runs.filter(pl.col("operation") == UNKNOWN_OPERATION).height
    if not number:
        return []
    taken = f"the workload of {counted(number, 'run')} is not known, so that {'it is' if number == 1 else 'they are'}"
    return [f"{taken} compared as if of one workload; {stated_at_ingest(['workload'])}"]


def _with_setup(runs: pl.DataFrame, dataset: TableSource, settings: pl.DataFrame) -> pl.DataFrame:
    clients = as_polars(dataset.table("clients")).filter(pl.col("role") == "main")
    entries = _entries(clients, as_polars(dataset.table("nodes")))
    known = clients.drop_nulls("tool").group_by("run_id", "resource")
    tools = known.agg(tool=pl.col("tool").unique().sort().str.join(", "))
    unknown = [pl.col("system").fill_null("unknown"), pl.col("operation").fill_null(UNKNOWN_OPERATION)]
    named = described(with_operations(runs).with_columns(unknown), settings)
    placed = named.join(entries, on=["run_id", "resource"], how="left", maintain_order="left")
    placed = placed.join(tools, on=["run_id", "resource"], how="left", maintain_order="left")
    stated = settings.filter(pl.col("name") == "hardware").select("resource", hardware="value").unique("resource")
    return placed.join(stated, on="resource", how="left", maintain_order="left")


def _entries(clients: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """run_id, resource, entry: the kind of node that the main clients connect to."""
    coordinators = nodes.filter(pl.col("groupid") == 0).select("resource", pl.col("host").alias("target"))
    hosts = (
        clients.select("run_id", "resource", pl.col("command_line").str.extract(_URL).str.split(",").alias("target"))
        .explode("target")
        .with_columns(pl.col("target").str.replace(r":\d+$", ""))
        .drop_nulls("target")
    )
    through = hosts.join(coordinators.with_columns(coordinator=True), on=["resource", "target"], how="left")
    kind = pl.col("coordinator").fill_null(value=False)
    return through.group_by("run_id", "resource").agg(
        pl.when(kind.all())
        .then(pl.lit("coordinator"))
        .when(kind.any())
        .then(pl.lit("coordinator and workers"))
        .otherwise(pl.lit("workers"))
        .alias("entry")
    )


def _reasons(left_out: pl.DataFrame) -> pl.DataFrame:
    columns = ["resource", "phase", "workload", "threads", "workers", "iteration", "status"]
    reason = pl.coalesce("status_reason", pl.lit("no throughput")).alias("reason")
    return left_out.select(*columns, reason).sort(columns)


def _hardware(settings: pl.DataFrame, runs: pl.DataFrame) -> tuple[str, ...]:
    chosen = settings.filter((pl.col("name") == "hardware") & pl.col("resource").is_in(runs["resource"].implode()))
    return tuple(chosen["value"].unique().sort().to_list())
