"""Which runs may stand in one series: those that differ only in what the axis shows.

A run's *set-up* is everything that could explain a difference: the database system, the *family* of its
resource (the name without the parts that merely repeat its workers, threads and phase, so that
`w2-binary-t16-insert` is of family `binary` and `w2-t16-insert` of the main family), phase, workload (for pgbench:
its scripts), the client's protocol and the rate it was limited to, number of load generators, table size (for
pgbench: its scaling factor), operations, and every server setting in which the chosen resources differ.
Runs with the same set-up form a series; no series mixes two. A run of which nobody says what it did has no
operation, and stands in none.

Where clients connect to (the coordinator or the workers) follows the cluster's size in many studies; it does
not split a series, and :func:`caveats` says in words where it changes along one.

Example:
    >>> family_of("w2-binary-t16-insert", workers=2, threads=16)
    'binary'
    >>> family_of("w4-t64-select", workers=4, threads=64)
    ''
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import polars as pl

from citus_analysis.errors import InsufficientDataError
from citus_analysis.report.words import listed
from citus_analysis.stats import as_polars
from citus_analysis.stats.frames import TableSource

__all__ = [
    "SETUP",
    "Selection",
    "caveats",
    "family_of",
    "matching",
    "operation_name",
    "select_runs",
    "series_names",
    "with_operations",
]

#: Columns that, with the settings in which resources differ, describe a run's set-up.
SETUP: Final = (
    "system",
    "family",
    "phase",
    "workload",
    "query_mode",
    "limit",
    "drivers",
    "records",
    "scale_factor",
    "operations",
    "settings",
)

#: Columns that can stand in a series' name, in this order.
_NAMING: Final = (
    "system",
    "family",
    "settings",
    "workload",
    "query_mode",
    "limit",
    "threads",
    "workers",
    "drivers",
    "records",
    "scale_factor",
    "operations",
)
_PHASE_WORDS: Final = frozenset({"insert", "select", "load", "run", "read"})
_SEPARATORS: Final = re.compile(r"[-_]+")
_URL: Final = r"jdbc:\w+://([^/\s?]+)"
#: Settings that change what is logged, not what is measured, or that merely restate the topology.
_IRRELEVANT: Final = re.compile(r"^settings\.(log_|logging_|citus\.node_conninfo|server_version$)")


@dataclass(frozen=True)
class Selection:
    """The runs that enter a report, and those that do not.

    Attributes:
        runs: runs with status ok, with the columns `operation` (null where nobody says what the run did), `family`,
            `limit`, `settings` and `entry` added.
        left_out: resource, iteration, phase, threads, workers, status, reason of every other run.
        hardware: what the resources' descriptions say of the hardware; usually one text.
    """

    runs: pl.DataFrame
    left_out: pl.DataFrame
    hardware: tuple[str, ...] = ()


def family_of(resource: str, *, workers: int | None, threads: int | None, drivers: int | None = 1) -> str:
    """A resource's name without the parts that repeat its workers, threads and phase; may be empty."""
    per_driver = threads // drivers if threads and drivers else threads
    repeated = {f"w{workers}", f"t{threads}", f"t{per_driver}", f"{workers}w", f"{threads}t"} | _PHASE_WORDS
    return "-".join(token for token in _SEPARATORS.split(resource) if token.lower() not in repeated)


def matching(frame: pl.DataFrame, resources: str) -> pl.DataFrame:
    """The rows of resources that match one of several glob patterns, separated by commas."""
    patterns = [pattern.strip() for pattern in resources.split(",") if pattern.strip()]
    chosen = [name for name in frame["resource"].unique() if any(fnmatchcase(name, p) for p in patterns)]
    return frame.filter(pl.col("resource").is_in(chosen))


def operation_name(phase: str | None, workload: str | None) -> str | None:
    """What a phase does, as a reader knows it; None where neither is known.

    Example:
        >>> operation_name("load", "A"), operation_name("run", "C"), operation_name("run", "select only")
        ('INSERT (load)', 'Workload C', 'select only')
    """
    if phase == "load":
        return "INSERT (load)"
    return f"Workload {workload}" if workload and len(workload) == 1 else workload


def with_operations(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with the column `operation`: what each does, as :func:`operation_name` says it."""
    names = [operation_name(phase, workload) for phase, workload in runs.select("phase", "workload").iter_rows()]
    return runs.with_columns(pl.Series("operation", names, dtype=pl.String))


def select_runs(dataset: TableSource, resources: str = "*", phase: str = "all", workload: str = "") -> Selection:
    """The runs of the chosen resources, with their set-up.

    Args:
        dataset: anything that gives the tables `runs`, `settings`, `clients` and `nodes`.
        resources: glob patterns, separated by commas.
        phase: `load`, `run` or `all`.
        workload: one workload's name; empty: all. The load phase is not filtered by it.

    Raises:
        InsufficientDataError: nothing matches, or no run that matches is ok.
    """
    runs = matching(as_polars(dataset.table("runs")), resources).with_columns(pl.col("phase", "status").cast(pl.String))
    settings = as_polars(dataset.table("settings"))
    if phase != "all":
        runs = runs.filter(pl.col("phase") == phase)
    if workload:
        runs = runs.filter((pl.col("workload") == workload) | (pl.col("phase") == "load"))
    ok = runs.filter((pl.col("status") == "ok") & pl.col("throughput_ops_s").is_not_null())
    if ok.is_empty():
        raise InsufficientDataError(
            f"no run with status ok among {runs.height} of resources {resources!r}, phase {phase!r}, "
            f"workload {workload or 'any'!r}",
            way_out="see the table runs",
        )
    left_out = runs.join(ok.select("run_id", "resource"), on=["run_id", "resource"], how="anti")
    return Selection(_with_setup(ok, dataset, settings), _reasons(left_out), _hardware(settings, ok))


def _with_setup(runs: pl.DataFrame, dataset: TableSource, settings: pl.DataFrame) -> pl.DataFrame:
    described = with_operations(runs).with_columns(_families(runs), _limits())
    differing = _differing_settings(settings, runs["resource"].unique().to_list())
    entries = _entries(as_polars(dataset.table("clients")), as_polars(dataset.table("nodes")))
    return (
        described.join(differing, on="resource", how="left", maintain_order="left")
        .join(entries, on=["run_id", "resource"], how="left", maintain_order="left")
        .with_columns(pl.col("settings").fill_null(""), pl.col("system").fill_null("unknown"))
    )


def _families(runs: pl.DataFrame) -> pl.Series:
    rows = runs.select("resource", "workers", "threads", "drivers").iter_rows()
    names = [family_of(r, workers=w, threads=t, drivers=d) for r, w, t, d in rows]
    return pl.Series("family", names, dtype=pl.String)


def _limits() -> pl.Expr:
    """The rate that clients were limited to, in words; empty where there was none."""
    rate = pl.when(pl.col("target_ops_s").is_null()).then(pl.lit("limited rate"))
    words = rate.otherwise(pl.format("at most {}/s", pl.col("target_ops_s").round(2)).str.replace(r"\.0(/s)$", "$1"))
    return pl.when("rate_limited").then(words).otherwise(pl.lit("")).alias("limit")


def _differing_settings(settings: pl.DataFrame, resources: Sequence[str]) -> pl.DataFrame:
    """resource, settings: the settings in which the resources differ, as `name=value, ...`."""
    relevant = settings.filter(
        pl.col("resource").is_in(resources)
        & pl.col("name").str.starts_with("settings.")
        & ~pl.col("name").str.contains(_IRRELEVANT.pattern)
    )
    several = relevant.group_by("name").agg(pl.col("value").n_unique()).filter(pl.col("value") > 1)["name"]
    usual = relevant.group_by("name").agg(pl.col("value").mode().sort().first().alias("usual"))
    return (
        relevant.filter(pl.col("name").is_in(several.implode()))
        .join(usual, on="name")
        .filter(pl.col("value") != pl.col("usual"))
        .sort("resource", "name")
        .with_columns(pl.format("{}={}", pl.col("name").str.strip_prefix("settings."), "value").alias("settings"))
        .group_by("resource")
        .agg(pl.col("settings").str.join(", "))
    )


def _entries(clients: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """run_id, resource, entry: the kind of node that the main clients connect to."""
    coordinators = nodes.filter(pl.col("groupid") == 0).select("resource", pl.col("host").alias("target"))
    hosts = (
        clients.filter(pl.col("role") == "main")
        .select("run_id", "resource", pl.col("command_line").str.extract(_URL).str.split(",").alias("target"))
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


def series_names(series: pl.DataFrame, ignore: Sequence[str] = (), always: Sequence[str] = ()) -> pl.Series:
    """A short name per row from the set-up columns in which the rows differ.

    Args:
        series: one row per series, with (some of) the columns of :data:`SETUP`, `threads` and `workers`.
        ignore: columns that are said elsewhere, such as in a figure's title.
        always: columns that are named even where the rows do not differ.
    """
    possible = [name for name in _NAMING if name in series.columns and name not in ignore]
    words = [name for name in possible if name in always or series[name].n_unique() > 1]
    names = []
    for row in series.iter_rows(named=True):
        parts = [_word(name, row[name]) for name in words]
        names.append(", ".join(part for part in parts if part) or str(row.get("family") or row.get("system") or "runs"))
    return pl.Series("series", names, dtype=pl.String)


def _word(name: str, value: object) -> str:
    if name == "family":
        return str(value) or "main grid"
    if name in {"threads", "workers", "drivers"} and isinstance(value, int):
        return f"{value} {name if value != 1 else name.removesuffix('s')}"
    if name in {"records", "operations"} and isinstance(value, int):
        return f"{value:,} {name}"
    if name == "scale_factor":
        return f"scale {value}" if value is not None else ""
    return f"workload {value}" if name == "workload" else str(value or "")


def caveats(runs: pl.DataFrame, along: str, others: Sequence[str] = ()) -> list[str]:
    """What changes along a series beside its axis: the node that clients connect to.

    Args:
        runs: runs that stand in series, with `entry` and the columns of the set-up.
        along: the series' axis.
        others: further columns in which series differ.
    """
    keys = ["family", *others]
    known = runs.drop_nulls("entry").group_by(*keys, along).agg(pl.col("entry").unique().sort().str.join(" or the "))
    changing = known.filter(pl.col("entry").n_unique().over(keys) > 1)
    sentences = []
    for (family,), part in changing.sort(along).group_by("family", maintain_order=True):
        places = part.group_by("entry", maintain_order=True).agg(pl.col(along).unique().sort().cast(pl.String))
        words = [f"at {listed(values)} through the {entry}" for entry, values in places.iter_rows()]
        sentences.append(
            f"In {family or 'the main grid'}, clients connect to other nodes as {along} change ({'; '.join(words)}): "
            f"{along} are not the only difference between these runs."
        )
    return sentences
