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
    >>> derive_family("w2-binary-t16-insert", workers=2, threads=16)
    'binary'
    >>> derive_family("w4-t64-select", workers=4, threads=64)
    ''
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.defaults import UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError, join_first_names
from citus_analysis.texts.words import format_cluster_size, make_natural_key, pluralize

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


def derive_family(resource: str, *, workers: int | None, threads: int | None, drivers: int | None = 1) -> str:
    """A resource's name without the parts that repeat its workers, threads and phase; may be empty."""
    per_driver = threads // drivers if threads and drivers else threads
    repeated = {f"w{workers}", f"t{threads}", f"t{per_driver}", f"{workers}w", f"{threads}t"} | _PHASE_WORDS
    return "-".join(token for token in _SEPARATORS.split(resource) if token.lower() not in repeated)


def format_operation_name(phase: str | None, workload: str | None) -> str | None:
    """The name of a phase's operation in reports; None if neither phase nor workload is known.

    Example:
        >>> format_operation_name("load", "A"), format_operation_name("run", "C"), format_operation_name("run", "A")
        ('INSERT', 'SELECT', 'Workload A')
    """
    if phase == "load":
        return "INSERT"
    if workload == _READS_ONLY:
        return "SELECT"
    return f"Workload {workload}" if workload and len(workload) == 1 else workload


def add_operation_column(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with the column `operation`, named by :func:`format_operation_name`."""
    names = [format_operation_name(phase, workload) for phase, workload in runs.select("phase", "workload").iter_rows()]
    return runs.with_columns(pl.Series("operation", names, dtype=pl.String))


def describe_operations(runs: pl.DataFrame) -> str:
    """The work of runs in words: their phase and workload and, if the table has it, the operation of the client."""
    columns = ("phase", "workload", "operation")
    known = runs.with_columns(pl.lit(None, pl.String).alias(name) for name in columns if name not in runs.columns)
    found = known.select(pl.col(columns).cast(pl.String)).unique(maintain_order=True).iter_rows()
    words = (
        (format_operation_name(phase, workload), _SAME.get(operation, operation))
        for phase, workload, operation in found
    )
    names = (" ".join(dict.fromkeys(filter(None, some))) for some in words)
    return ", ".join(dict.fromkeys(name or "unknown operation" for name in names))


#: Columns that are computed of the set-ups of runs, and printed with them.
SETUP_COLUMNS: Final = ("family", "settings", "cpu_per_node", "experiment", "limit", "arrivals", "variant")


def add_setup_descriptions(runs: pl.DataFrame, settings: pl.DataFrame | None = None) -> pl.DataFrame:
    """Runs with the columns `family`, `settings`, `limit`, `arrivals` and `variant`; existing ones are kept.

    `cpu_per_node` (cores, as text) is added if a resource's description states it, and `experiment`, the name of the
    experiment that made the runs.

    Args:
        runs: rows of the table `runs`.
        settings: the table `settings`; None: settings are not known.
    """
    found = runs
    if "resource" in found.columns and "family" not in found.columns:
        found = found.with_columns(_derive_families(found))
    if "resource" in found.columns and "settings" not in found.columns and settings is not None:
        own = _format_differing_settings(settings, found["resource"])
        found = found.join(own, on="resource", how="left", maintain_order="left")
        found = found.with_columns(pl.col("settings").fill_null(""))
    if "resource" in found.columns and "cpu_per_node" not in found.columns and settings is not None:
        found = _add_cpu_per_node(found, settings)
    if "resource" in found.columns and "experiment" not in found.columns and settings is not None:
        named = (
            settings.filter(pl.col("name") == "experiment").select("resource", experiment="value").unique("resource")
        )
        found = found.join(named, on="resource", how="left", maintain_order="left")
    if "limit" not in found.columns and {"rate_limited", "target_ops_s"} <= set(found.columns):
        found = found.with_columns(_make_rate_limit_expr())
    if "arrivals" not in found.columns and "rate_limited" in found.columns:
        found = found.with_columns(
            arrivals=pl.when(_make_is_limited_expr()).then(pl.lit("partly open")).otherwise(pl.lit("closed"))
        )
    return found if "variant" in found.columns else found.with_columns(_describe_variants(found))


def _add_cpu_per_node(runs: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Runs with the cores that each node may use; unchanged if no description states them."""
    of_runs = pl.col("resource").is_in(runs["resource"].unique().implode())
    stated = settings.filter(of_runs, pl.col("name") == "cpu_per_node").select("resource", cpu_per_node="value")
    return runs.join(stated, on="resource", how="left", maintain_order="left") if stated.height else runs


def _make_rate_limit_expr() -> pl.Expr:
    """The rate that clients were limited to, in words; empty without a limit."""
    # In frames from pandas, columns of nulls are texts.
    target = pl.col("target_ops_s").cast(pl.Float64)
    words = pl.format("at most {}/s", target.round(2)).str.replace(r"\.0(/s)$", "$1")
    rate = pl.when(target.is_null()).then(pl.lit("limited rate")).otherwise(words)
    return pl.when(_make_is_limited_expr()).then(rate).otherwise(pl.lit("")).alias("limit")


def _make_is_limited_expr() -> pl.Expr:
    return pl.col("rate_limited").cast(pl.String).str.to_lowercase() == "true"


def fill_set_ups(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with `set_up` filled: where it is null, with what is read off the resource's name."""
    return runs.with_columns(set_up=pl.coalesce(pl.col("set_up"), _read_off(runs).replace("", USUAL_SET_UP)))


def _derive_families(runs: pl.DataFrame) -> pl.Series:
    if "set_up" not in runs.columns:
        return _read_off(runs)
    stated = pl.col("set_up").cast(pl.String).replace(USUAL_SET_UP, "")
    return runs.select(family=pl.coalesce(stated, _read_off(runs))).to_series()


def _read_off(runs: pl.DataFrame) -> pl.Series:
    known = [runs[name] if name in runs.columns else [None] * runs.height for name in ("workers", "threads", "drivers")]
    names = [
        derive_family(resource or "", workers=w, threads=t, drivers=d)
        for resource, w, t, d in zip(runs["resource"], *known, strict=True)
    ]
    return pl.Series("family", names, dtype=pl.String)


def _format_differing_settings(settings: pl.DataFrame, resources: pl.Series) -> pl.DataFrame:
    """resource, settings: the settings in which the resources differ, as `name=value, ...`."""
    relevant = settings.filter(
        pl.col("resource").is_in(resources.unique().implode())
        & pl.col("name").str.starts_with("settings.")
        & ~pl.col("name").str.contains(_IRRELEVANT)
    )
    relevant = relevant.join(_find_settings_in_names(settings), on=["resource", "name"], how="anti")
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


def _find_settings_in_names(settings: pl.DataFrame) -> pl.DataFrame:
    """resource, name: the settings that an experiment varied, which are in the names of its set-ups."""
    varied = settings.filter(pl.col("name") == "varied").select("resource", name=pl.col("value").str.split(", "))
    return varied.explode("name").select("resource", name="settings." + pl.col("name"))


def _describe_variants(runs: pl.DataFrame) -> pl.Series:
    """The set-up of each run in words, from the columns of :data:`VARIANT` that the table has."""
    columns = [name for name in VARIANT if name in runs.columns]
    varying = {name for name in ("system", "query_mode") if name in columns and runs[name].drop_nulls().n_unique() > 1}
    marks = {
        "_both": _make_varies_in_family_expr("monitored", columns),
        "_held": _make_varies_in_family_expr("cpu_per_node", columns),
    }
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
            describe_monitoring(row["monitored"]) if row["_both"] else "",
        ]
        names.append(", ".join(part for part in parts if part))
    return pl.Series("variant", names, dtype=pl.String)


def _make_varies_in_family_expr(column: str, columns: Container[str]) -> pl.Expr:
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


def describe_monitoring(monitored: bool | None) -> str:
    """Whether a sampled client ran along with the main ones, in a word; empty if not known."""
    return "" if monitored is None else "monitored" if monitored else "unmonitored"


def format_setup_value(column: str, value: object) -> str:
    """A value of the set-up as it is displayed and as users enter it.

    Example:
        >>> format_setup_value("family", ""), format_setup_value("settings", ""), format_setup_value("threads", 16)
        ('usual set-up', 'usual', '16')
        >>> format_setup_value("operations", 1_000_000_000)
        'as many as time allows'
    """
    if column == "operations" and str(value).isdecimal() and int(str(value)) >= UNTIL_TIME_IS_UP:
        return "as many as time allows"
    return _EMPTY.get(column, "") if value == "" else "unknown" if value is None else str(value)


def format_configuration(configuration: Mapping[str, object], separator: str = ", ") -> str:
    """The columns that are equal in a comparison or curve, as `--only` accepts them, without unknown or usual values.

    Example:
        >>> format_configuration({"family": "", "limit": "", "query_mode": None, "phase": "load", "threads": 16})
        'family=usual set-up, phase=load, threads=16'
    """
    named = {
        name: value for name, value in configuration.items() if value is not None and (value != "" or name == "family")
    }
    return separator.join(f"{name}={format_setup_value(name, value)}" for name, value in named.items())


def list_varying_columns(runs: pl.DataFrame) -> list[str]:
    """The columns of the configuration in which runs differ.

    Example:
        >>> list_varying_columns(pl.DataFrame({"workers": [1, 2], "threads": [16, 16]}))
        ['workers']
    """
    return [name for name in CONFIGURATION if name in runs.columns and runs[name].n_unique() > 1]


def split_configurations(
    configurations: Sequence[Mapping[str, object]],
) -> tuple[dict[str, object], list[dict[str, object]]]:
    """What configurations have in common, and the columns in which each differs; a single one differs in nothing.

    Example:
        >>> split_configurations([{"phase": "load", "threads": 16}, {"phase": "run", "threads": 16}])
        ({'threads': 16}, [{'phase': 'load'}, {'phase': 'run'}])
    """
    if not configurations:
        return {}, []
    first, *others = configurations
    shared = {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}
    return shared, [{name: value for name, value in one.items() if name not in shared} for one in configurations]


def name_configurations(configurations: Sequence[Mapping[str, object]]) -> list[str]:
    """Names of configurations for a figure: words for what differs between them; empty for a single one.

    Example:
        >>> name_configurations([{"phase": "load", "threads": 8}, {"phase": "run", "threads": 16}])
        ['load, 8 threads', 'run, 16 threads']
    """
    _, differing = split_configurations(configurations)
    words = ([_format_name_word(name, value) for name, value in one.items()] for one in differing)
    return [", ".join(part for part in parts if part) for parts in words]


# Short names of series and of systems, from the columns in which their set-ups differ.

#: Columns that a series' name can contain, in this order.
_NAMING: Final = (
    *("system", "family", "settings", "workload", "query_mode", "limit", "threads"),
    *("workers", "drivers", "records", "scale_factor", "operations", "monitored"),
)
#: Columns that tell a system from others, besides its operation and its threads.
_OF_SYSTEM: Final = (
    "workers",
    *(name for name in _NAMING if name not in ("workers", "workload", "threads", "operations")),
)
_SIZED: Final = ("operation", "workers")
#: Fewest systems that words tell apart: a single one differs from nothing.
_FEWEST_NAMED: Final = 2
#: Columns of numbers -> the noun for one.
_COUNTED: Final = {"threads": "thread", "drivers": "load generator", "records": "record", "operations": "operation"}


def build_series_names(series: pl.DataFrame, ignore: Sequence[str] = (), always: Sequence[str] = ()) -> pl.Series:
    """A short name per row from the set-up columns in which the rows differ.

    Args:
        series: one row per series, with (some of) the columns of a configuration.
        ignore: columns that are stated elsewhere, such as in a figure's title.
        always: columns that are named even if the rows do not differ in them.
    """
    possible = [name for name in _NAMING if name in series.columns and name not in ignore]
    words = [name for name in possible if name in always or series[name].n_unique() > 1]
    names = []
    for row in series.iter_rows(named=True):
        repeated = _find_repeated_columns(row) if "family" in words else set()
        parts = [_format_name_word(name, row[name]) for name in words if name not in repeated]
        names.append(", ".join(part for part in parts if part) or str(row.get("family") or row.get("system") or "runs"))
    return pl.Series("series", names, dtype=pl.String)


def build_system_names(runs: pl.DataFrame, settings: pl.DataFrame) -> dict[str, str]:
    """What each resource that the runner named is, in words: `SELECT on 4 workers, 16 threads, binary protocol`.

    The runner builds names of folders (`citus-binary-w4-t16-c`); other resources were named by people. What most of
    them have in common is not said. A resource whose runs differ in what would name it, or whose words are those of
    another, is left out.

    Args:
        runs: the table `runs`.
        settings: the table `settings`.
    """
    made = settings.filter(pl.col("name") == "experiment")["resource"].unique()
    every = add_operation_column(
        add_setup_descriptions(runs.filter(pl.col("resource").is_in(made.implode())), settings)
    )
    columns = [name for name in ("operation", *_OF_SYSTEM) if name in every.columns]
    distinct = every.select("resource", "threads", *columns).unique().sort("resource")
    own = distinct.filter(pl.len().over("resource") == 1)
    if own.height < _FEWEST_NAMED:
        return {}
    usual = {name: own[name].mode().sort().first() for name in columns}
    words = {}
    for row in own.iter_rows(named=True):
        size = (
            f"{row['operation']} on {format_cluster_size(row['workers'])}"
            if row["workers"] is not None
            else row["operation"]
        )
        unusual = [name for name in columns if name not in _SIZED and row[name] not in (None, "", usual[name])]
        others = [_format_name_word(name, row[name]) for name in unusual if name not in _find_repeated_columns(row)]
        threads = [_format_name_word("threads", row["threads"])] if own["threads"].n_unique() > 1 else []
        words[row["resource"]] = ", ".join(part for part in (size, *threads, *dict.fromkeys(others)) if part)
    counts = Counter(words.values())
    return {resource: text for resource, text in words.items() if counts[text] == 1}


def _find_repeated_columns(row: Mapping[str, str | None]) -> set[str]:
    """The columns whose value the name of the set-up contains."""
    family = row.get("family")
    system = {"system"} if repeats_system(row.get("system"), family) else set()
    return system | ({"query_mode"} if repeats_protocol(row.get("query_mode"), family) else set())


def _format_name_word(name: str, value: object) -> str:
    if name == "family":
        return format_setup_value(name, value)
    if name == "workers" and isinstance(value, int):
        return format_cluster_size(value)
    if name in _COUNTED and isinstance(value, int):
        return pluralize(value, _COUNTED[name])
    if name == "monitored":
        return describe_monitoring(None if value is None else bool(value))
    if name == "scale_factor":
        return f"scale {value}" if value is not None else ""
    return f"workload {value}" if name == "workload" else str(value or "")


# Refusals that name a fact that no run states, and what to use or to state instead.

#: Columns that can stand in for one that no run states, the most telling first.
_SET_UPS: Final = ("set_up", "family", "system", "settings", "resource")
_SIZES: Final = ("threads", "workers", "drivers")
#: Facts that can be stated to an ingest.
_STATED: Final = frozenset({"system", "set_up", "workload", "phase", "threads", "workers", "drivers", "records"})
_WORDS: Final = {"set_up": "set-up", "workers": "known number of workers", "threads": "known number of threads"}
_PLURALS: Final = {"set_up": "set-ups", "family": "set-ups", "settings": "settings"}
_LISTED: Final = 4


def refuse_unknown(runs: pl.DataFrame, column: str, option: str) -> None:
    """Refuse a column that is not known of any run; the message names the columns that differ between them.

    Args:
        runs: described runs.
        column: the compared column, or the size.
        option: the option of commands that names the column: `by` or `x`.

    Raises:
        InsufficientDataError: no run has a value of the column.

    Example:
        >>> runs = pl.DataFrame({"system": [None, None], "set_up": ["pg15", "pg16"]})
        >>> refuse_unknown(runs, "system", "by")
        Traceback (most recent call last):
            ...
        citus_analysis.errors.InsufficientDataError: no run has a system; set-ups are pg15, pg16: --by set_up \
(or state it at ingest: citus-analysis ingest --meta system=...)
    """
    if runs.is_empty() or runs[column].null_count() < runs.height:
        return
    others = [name for name in (_SIZES if option == "x" else (*_SET_UPS, *_SIZES)) if _differs(runs, name)]
    instead = f"; {_describe_column_levels(runs, others[0])}: --{option} {others[0]}" if others else ""
    hint = describe_ingest_option([column]) if column in _STATED else None
    hint = f"or {hint}" if hint and instead else hint
    raise InsufficientDataError(f"no run has a {_WORDS.get(column, column)}{instead}", hint=hint)


def _differs(runs: pl.DataFrame, column: str) -> bool:
    return column in runs.columns and runs[column].drop_nulls().n_unique() > 1


def _describe_column_levels(runs: pl.DataFrame, column: str) -> str:
    values = sorted(
        (format_setup_value(column, one) for one in runs[column].drop_nulls().unique()), key=make_natural_key
    )
    noun = _PLURALS.get(column, column if column.endswith("s") else f"{column}s")
    return f"{noun} are {join_first_names(values, _LISTED)}"


def describe_ingest_option(names: Sequence[str]) -> str:
    """How to state what files do not say of their runs.

    Example:
        >>> describe_ingest_option(["workload", "workers"])
        'state it at ingest: citus-analysis ingest --meta workload=... --meta workers=..., 0 for a single server'
    """
    options = " ".join(f"--meta {name}=..." for name in names)
    single = ", 0 for a single server" if "workers" in names else ""
    return f"state it at ingest: citus-analysis ingest {options}{single}"
