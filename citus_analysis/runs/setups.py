"""The definition of a run's set-up for all commands and reports.

A run's *set-up* is everything that could explain a difference: the system, its *family*, every server setting in
which the resources differ, and the load: phase, workload (for pgbench: its scripts), the client's protocol and the rate
it was limited to, number of load generators, table size (for pgbench: its scaling factor), operations.
If nodes are limited to a share of the CPU, `cpu_per_node` is that share in cores, from the resource's description.
The family is the value of `runs.set_up`, which the runner states. If it is not stated, the family is the name of the
resource without the parts that merely repeat its workers, threads and phase, so that `w2-binary-t16-insert` belongs to
family `binary` and `w2-t16-insert` to the main one.
The arrival of operations is part of the load: `closed` if each thread sends an operation when its last one has
returned, `partly open` if a thread sends on a schedule unless it is still waiting, `open` if operations never wait.
A *configuration* is a set-up at one number of workers and threads. A *variant* is a set-up without its size: system,
family, number of load generators, protocol, limit, settings and, if a family has several of them, the share of the CPU
and whether the runs were monitored.

Example:
    >>> family_of("w2-binary-t16-insert", workers=2, threads=16)
    'binary'
    >>> family_of("w4-t64-select", workers=4, threads=64)
    ''
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final

import polars as pl

from citus_analysis.defaults import UNTIL_TIME_IS_UP

#: Columns of the measured system. They may change along with a compared column: each system has its own settings.
SYSTEM: Final = ("system", "family", "settings", "cpu_per_node", "workers")
#: Columns of the load. Runs that differ in them are compared only on request.
LOAD: Final = (
    *("phase", "workload", "operation", "query_mode", "limit", "arrivals"),
    *("threads", "records", "scale_factor", "operations", "drivers", "monitored"),
)
#: All columns of a configuration; a comparison holds them equal unless it is about them.
CONFIGURATION: Final = (*SYSTEM, *LOAD)
#: Columns that make up a variant's name.
VARIANT: Final = ("system", "family", "drivers", "query_mode", "limit", "settings", "cpu_per_node", "monitored")

_PHASE_WORDS: Final = frozenset({"insert", "select", "load", "run", "read"})
_SEPARATORS: Final = re.compile(r"[-_]+")
#: Settings that affect the logs, not the measurements, that merely restate the topology, or that Citus raises itself.
_IRRELEVANT: Final = r"^settings\.(log_|logging_|citus\.node_conninfo|(server_version|max_prepared_transactions)$)"
#: The set-up of runs whose names tell none.
USUAL_SET_UP: Final = "usual set-up"
#: YCSB's core workload that only reads (its Wiki, "Core Workloads"); the others mix operations.
_READS_ONLY: Final = "C"
#: The client's word for an operation -> its word in reports.
_SAME: Final = {"READ": "SELECT"}
#: Meaning of an empty text in these columns.
_EMPTY: Final = {"family": USUAL_SET_UP, "settings": "usual", "limit": "none"}


def family_of(resource: str, *, workers: int | None, threads: int | None, drivers: int | None = 1) -> str:
    """A resource's name without the parts that repeat its workers, threads and phase; may be empty."""
    per_driver = threads // drivers if threads and drivers else threads
    repeated = {f"w{workers}", f"t{threads}", f"t{per_driver}", f"{workers}w", f"{threads}t"} | _PHASE_WORDS
    return "-".join(token for token in _SEPARATORS.split(resource) if token.lower() not in repeated)


def operation_name(phase: str | None, workload: str | None) -> str | None:
    """The name of a phase's operation in reports; None if neither phase nor workload is known.

    Example:
        >>> operation_name("load", "A"), operation_name("run", "C"), operation_name("run", "A")
        ('INSERT', 'SELECT', 'Workload A')
    """
    if phase == "load":
        return "INSERT"
    if workload == _READS_ONLY:
        return "SELECT"
    return f"Workload {workload}" if workload and len(workload) == 1 else workload


def with_operations(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with the column `operation`, named by :func:`operation_name`."""
    names = [operation_name(phase, workload) for phase, workload in runs.select("phase", "workload").iter_rows()]
    return runs.with_columns(pl.Series("operation", names, dtype=pl.String))


def operation_of(runs: pl.DataFrame) -> str:
    """The work of runs in words: their phase and workload and, if the table has it, the operation of the client."""
    columns = ("phase", "workload", "operation")
    known = runs.with_columns(pl.lit(None, pl.String).alias(name) for name in columns if name not in runs.columns)
    found = known.select(pl.col(columns).cast(pl.String)).unique(maintain_order=True).iter_rows()
    words = ((operation_name(phase, workload), _SAME.get(operation, operation)) for phase, workload, operation in found)
    names = (" ".join(dict.fromkeys(filter(None, some))) for some in words)
    return ", ".join(dict.fromkeys(name or "unknown operation" for name in names))


def described(runs: pl.DataFrame, settings: pl.DataFrame | None = None) -> pl.DataFrame:
    """Runs with the columns `family`, `settings`, `limit`, `arrivals` and `variant`; existing ones are kept.

    `cpu_per_node` (cores, as text) is added if a resource's description states it, and `experiment`, the name of the
    experiment that made the runs.

    Args:
        runs: rows of the table `runs`.
        settings: the table `settings`; None: settings are not known.
    """
    found = runs
    if "resource" in found.columns and "family" not in found.columns:
        found = found.with_columns(_families(found))
    if "resource" in found.columns and "settings" not in found.columns and settings is not None:
        own = _differing_settings(settings, found["resource"])
        found = found.join(own, on="resource", how="left", maintain_order="left")
        found = found.with_columns(pl.col("settings").fill_null(""))
    if "resource" in found.columns and "cpu_per_node" not in found.columns and settings is not None:
        found = _with_cpu_per_node(found, settings)
    if "resource" in found.columns and "experiment" not in found.columns and settings is not None:
        named = (
            settings.filter(pl.col("name") == "experiment").select("resource", experiment="value").unique("resource")
        )
        found = found.join(named, on="resource", how="left", maintain_order="left")
    if "limit" not in found.columns and {"rate_limited", "target_ops_s"} <= set(found.columns):
        found = found.with_columns(_limits())
    if "arrivals" not in found.columns and "rate_limited" in found.columns:
        found = found.with_columns(arrivals=pl.when(_limited()).then(pl.lit("partly open")).otherwise(pl.lit("closed")))
    return found if "variant" in found.columns else found.with_columns(_variants(found))


def _with_cpu_per_node(runs: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Runs with the cores that each node may use; unchanged if no description states them."""
    of_runs = pl.col("resource").is_in(runs["resource"].unique().implode())
    stated = settings.filter(of_runs, pl.col("name") == "cpu_per_node").select("resource", cpu_per_node="value")
    return runs.join(stated, on="resource", how="left", maintain_order="left") if stated.height else runs


def _limits() -> pl.Expr:
    """The rate that clients were limited to, in words; empty without a limit."""
    # In frames from pandas, columns of nulls are texts.
    target = pl.col("target_ops_s").cast(pl.Float64)
    words = pl.format("at most {}/s", target.round(2)).str.replace(r"\.0(/s)$", "$1")
    rate = pl.when(target.is_null()).then(pl.lit("limited rate")).otherwise(words)
    return pl.when(_limited()).then(rate).otherwise(pl.lit("")).alias("limit")


def _limited() -> pl.Expr:
    return pl.col("rate_limited").cast(pl.String).str.to_lowercase() == "true"


def with_set_ups(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with `set_up` filled: where it is null, with what is read off the resource's name."""
    return runs.with_columns(set_up=pl.coalesce(pl.col("set_up"), _read_off(runs).replace("", USUAL_SET_UP)))


def _families(runs: pl.DataFrame) -> pl.Series:
    if "set_up" not in runs.columns:
        return _read_off(runs)
    stated = pl.col("set_up").cast(pl.String).replace(USUAL_SET_UP, "")
    return runs.select(family=pl.coalesce(stated, _read_off(runs))).to_series()


def _read_off(runs: pl.DataFrame) -> pl.Series:
    known = [runs[name] if name in runs.columns else [None] * runs.height for name in ("workers", "threads", "drivers")]
    names = [
        family_of(resource or "", workers=w, threads=t, drivers=d)
        for resource, w, t, d in zip(runs["resource"], *known, strict=True)
    ]
    return pl.Series("family", names, dtype=pl.String)


def _differing_settings(settings: pl.DataFrame, resources: pl.Series) -> pl.DataFrame:
    """resource, settings: the settings in which the resources differ, as `name=value, ...`."""
    relevant = settings.filter(
        pl.col("resource").is_in(resources.unique().implode())
        & pl.col("name").str.starts_with("settings.")
        & ~pl.col("name").str.contains(_IRRELEVANT)
    )
    relevant = relevant.join(_named_by_set_up(settings), on=["resource", "name"], how="anti")
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


def _named_by_set_up(settings: pl.DataFrame) -> pl.DataFrame:
    """resource, name: the settings that an experiment varied, which are in the names of its set-ups."""
    varied = settings.filter(pl.col("name") == "varied").select("resource", name=pl.col("value").str.split(", "))
    return varied.explode("name").select("resource", name="settings." + pl.col("name"))


def _variants(runs: pl.DataFrame) -> pl.Series:
    """The set-up of each run in words, from the columns of :data:`VARIANT` that the table has."""
    columns = [name for name in VARIANT if name in runs.columns]
    varying = {name for name in ("system", "query_mode") if name in columns and runs[name].drop_nulls().n_unique() > 1}
    marks = {"_both": _several_in_family("monitored", columns), "_held": _several_in_family("cpu_per_node", columns)}
    names = []
    for row in runs.with_columns(**marks).select(*columns, *marks).iter_rows(named=True):
        repeated = "system" not in varying or repeats_system(row["system"], row.get("family"))
        family, drivers = row.get("family") or "", row.get("drivers")
        said = "query_mode" not in varying or repeats_protocol(row["query_mode"], family)
        several = drivers and drivers > 1 and f"drivers{drivers}" not in family
        parts = [
            "" if repeated else row["system"],
            family or USUAL_SET_UP,
            f"{drivers} load generators" if several else "",
            "" if said else row["query_mode"],
            *(row.get("limit"), row.get("settings")),
            f"{row['cpu_per_node']} cores per node" if row["_held"] else "",
            monitored_text(row["monitored"]) if row["_both"] else "",
        ]
        names.append(", ".join(part for part in parts if part))
    return pl.Series("variant", names, dtype=pl.String)


def _several_in_family(column: str, columns: Container[str]) -> pl.Expr:
    """Whether runs of the same family have several values of a column, such as monitored and unmonitored ones."""
    if column not in columns or "family" not in columns:
        return pl.lit(value=False)
    return pl.col(column).drop_nulls().n_unique().over("family") > 1


def repeats_system(system: str | None, family: str | None) -> bool:
    """Whether the name of a set-up begins with that of its system, which then is not repeated.

    Example:
        >>> repeats_system("citus", "citus-binary"), repeats_system("citus", "binary"), repeats_system(None, "binary")
        (True, False, False)
    """
    return bool(system) and (family or "").startswith(str(system))


def repeats_protocol(query_mode: str | None, family: str | None) -> bool:
    """Whether the name of a set-up contains the client's protocol, as the runner writes it.

    Example:
        >>> repeats_protocol("simple", "pgbench protocol=simple"), repeats_protocol("simple", "pgbench")
        (True, False)
    """
    return f"protocol={query_mode}" in (family or "").split()


def monitored_text(monitored: bool | None) -> str:
    """Whether a sampled client ran along with the main ones, in a word; empty if not known."""
    return "" if monitored is None else "monitored" if monitored else "unmonitored"


def setting_text(column: str, value: object) -> str:
    """A value of the set-up as it is displayed and as users enter it.

    Example:
        >>> setting_text("family", ""), setting_text("settings", ""), setting_text("threads", 16)
        ('usual set-up', 'usual', '16')
        >>> setting_text("operations", 1_000_000_000)
        'as many as time allows'
    """
    if column == "operations" and str(value).isdecimal() and int(str(value)) >= UNTIL_TIME_IS_UP:
        return "as many as time allows"
    return _EMPTY.get(column, "") if value == "" else "unknown" if value is None else str(value)


def stratum_text(stratum: Mapping[str, object], separator: str = ", ") -> str:
    """The columns that are equal in a comparison or curve, as `--only` accepts them, without unknown or usual values.

    Example:
        >>> stratum_text({"family": "", "limit": "", "query_mode": None, "phase": "load", "threads": 16})
        'family=usual set-up, phase=load, threads=16'
    """
    named = {name: value for name, value in stratum.items() if value is not None and (value != "" or name == "family")}
    return separator.join(f"{name}={setting_text(name, value)}" for name, value in named.items())
