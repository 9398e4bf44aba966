"""The runs of a report, with their set-up, and the runs left out.

What is not known of a run is a level like any other: such runs are compared with one another, and share a series. The
operation of a run whose workload is not known is :data:`UNKNOWN_OPERATION`. The nodes that clients connect to
(the coordinator or the workers) are reported beside the set-up: in many studies they depend on the cluster's size, and
they do not split a series.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError, join_first_names
from citus_analysis.runs.set_ups import (
    CONFIGURATION,
    SYSTEM,
    VARIANT,
    add_operation_column,
    add_setup_descriptions,
    describe_ingest_option,
)
from citus_analysis.runs.status import list_included_statuses, write_used_run_notes
from citus_analysis.schema import WARM_UP
from citus_analysis.texts.words import pluralize

#: Operation of runs that are no load, and whose workload is not known.
UNKNOWN_OPERATION: Final = "unknown workload"
#: Columns whose values name a side, in the order in which they are looked up.
NAMING: Final = ("resource", "set_up", "variant", "family", "settings", "system", "run_id", "workload", "operation")
#: Separates several values of a column.
VALUE_SEPARATOR: Final = "|"

_URL: Final = r"jdbc:\w+://([^/\s?]+)"


@dataclass(frozen=True)
class Question:
    """What is asked of runs: which of them enter, and by what their differences are judged.

    Functions that users call take these as keyword arguments and make one question of them; what they call takes it.

    Attributes:
        resources: glob patterns of resources, separated by commas.
        phase: `load`, `run`, `warmup` or `all`, which are all but warm-ups.
        workload: one workload's name; empty: all.
        include_status: statuses of runs that enter besides those that are ok.
        only: column -> value that runs (or comparisons) have.
        pool: columns of the configuration that need not be equal.
        level: confidence level.
        margin: relative difference that counts as none.

    """

    resources: str = "*"
    phase: str = "all"
    workload: str = ""
    include_status: tuple[str, ...] = ()
    only: Mapping[str, object] = field(default_factory=dict)
    pool: tuple[str, ...] = ()
    level: float = LEVEL
    margin: float = MARGIN

    @classmethod
    def read(cls, parameters: Mapping[str, object]) -> Question:
        """The question of a report's parameters, which are texts and numbers; other parameters are left to the report.

        Raises:
            UsageError: `only` has a part without `=`.

        Example:
            >>> asked = Question.read({"pool": "records, operations", "only": "threads=16", "level": 0.9, "base": "x"})
            >>> asked.pool, asked.only, asked.level
            (('records', 'operations'), {'threads': '16'}, 0.9)
        """
        usual = {"resources": "*", "phase": "all"}
        resources, phase, workload, include_status, only, pool = (
            str(parameters.get(name, usual.get(name, "")))
            for name in ("resources", "phase", "workload", "include_status", "only", "pool")
        )
        level, margin = float(str(parameters.get("level", LEVEL))), float(str(parameters.get("margin", MARGIN)))
        statuses, values = split_names(include_status), parse_column_values(only)
        return cls(resources, phase, workload, statuses, values, split_names(pool), level, margin)


#: The question with all defaults.
USUAL_QUESTION: Final = Question()


def split_names(names: str | Collection[str]) -> tuple[str, ...]:
    """Names from one text, in which commas separate them, or from several texts.

    Example:
        >>> split_names("records, operations"), split_names(["records"]), split_names("")
        (('records', 'operations'), ('records',), ())
    """
    texts = [names] if isinstance(names, str) else names
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def parse_column_values(text: str) -> dict[str, object]:
    """`column=value` pairs, split by commas.

    Raises:
        UsageError: a part without `=`.

    Example:
        >>> parse_column_values("workload=C, threads=16")
        {'workload': 'C', 'threads': '16'}
    """
    pairs = split_names(text)
    if wrong := [pair for pair in pairs if "=" not in pair]:
        raise UsageError(f"{wrong[0]} contains no value", hint="write -p only=COLUMN=VALUE")
    return {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs)}


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


def matching(frame: pl.DataFrame, resources: str) -> pl.DataFrame:
    """The rows of resources that match one of several glob patterns, separated by commas."""
    patterns = split_names(resources)
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
    for pattern in split_names(resources):
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
    include_status: str | Collection[str] = (),
) -> Selection:
    """The runs of the chosen resources, with their set-up.

    Args:
        dataset: source of the tables `runs`, `settings`, `clients` and `nodes`.
        resources: glob patterns, separated by commas.
        phase: `load`, `run`, `warmup` or `all`, which are all but warm-ups.
        workload: one workload's name; empty: all. The load phase is not filtered by it.
        include_status: `degraded` to select degraded runs as well.

    Raises:
        UnknownNameError: a pattern matches no resource, or no run has the workload.
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run has the phase, or no matching run is ok (or allowed).
    """
    return select_asked_runs(dataset, Question(resources, phase, workload, split_names(include_status)))


def select_asked_runs(dataset: TableSource, question: Question) -> Selection:
    """The runs that enter a question, with their set-up; see :func:`select_runs`."""
    resources, phase, workload = question.resources, question.phase, question.workload
    table = convert_to_polars(dataset.table("runs")).with_columns(pl.col("phase", "status").cast(pl.String))
    check_known(table, resources, workload)
    runs = matching(table, resources)
    settings = convert_to_polars(dataset.table("settings"))
    if phase != "all":
        phases = sorted(runs["phase"].drop_nulls().unique())
        runs = runs.filter(pl.col("phase") == phase)
        if runs.is_empty():
            known = f"phases are {', '.join(phases)}" if phases else "the phase of none is known"
            raise InsufficientDataError(f"no run has phase={phase}; {known}", hint="phase=all takes all runs")
    notes: list[str] = []
    prepared = runs.filter(pl.col("phase") == WARM_UP).height
    if phase == "all" and 0 < prepared < runs.height:
        runs = runs.filter(pl.col("phase").ne_missing(WARM_UP))
        notes.append(f"{pluralize(prepared, 'warm-up')} {'is' if prepared == 1 else 'are'} left out (phase=warmup)")
    if workload:
        runs = runs.filter((pl.col("workload") == workload) | (pl.col("phase") == "load"))
    statuses = list_included_statuses(question.include_status)
    ok = runs.filter(pl.col("status").is_in(statuses) & pl.col("throughput_ops_s").is_not_null())
    if ok.is_empty():
        raise InsufficientDataError(
            f"no run with status {' or '.join(statuses)} among {runs.height} of resources {resources!r}, "
            f"phase {phase!r}, workload {workload or 'any'!r}",
            hint="see the table runs; include_status=degraded takes degraded runs in",
        )
    left_out = runs.join(ok.select("run_id", "resource"), on=["run_id", "resource"], how="anti")
    chosen = _add_setup_columns(ok, dataset, settings)
    notes += [*write_used_run_notes(ok), *_describe_unknown_workloads(chosen)]
    return Selection(chosen, _tabulate_exclusion_reasons(left_out), _list_hardware(settings, ok), tuple(notes))


def _describe_unknown_workloads(runs: pl.DataFrame) -> list[str]:
    """A word on runs that are taken to do the same only because nothing says what they do."""
    number = runs.filter(pl.col("operation") == UNKNOWN_OPERATION).height
    if not number:
        return []
    taken = f"the workload of {pluralize(number, 'run')} is not known, so that {'it is' if number == 1 else 'they are'}"
    return [f"{taken} compared as if of one workload; {describe_ingest_option(['workload'])}"]


def _add_setup_columns(runs: pl.DataFrame, dataset: TableSource, settings: pl.DataFrame) -> pl.DataFrame:
    clients = convert_to_polars(dataset.table("clients")).filter(pl.col("role") == "main")
    entries = _find_entry_nodes(clients, convert_to_polars(dataset.table("nodes")))
    known = clients.drop_nulls("tool").group_by("run_id", "resource")
    tools = known.agg(tool=pl.col("tool").unique().sort().str.join(", "))
    unknown = [pl.col("system").fill_null("unknown"), pl.col("operation").fill_null(UNKNOWN_OPERATION)]
    named = add_setup_descriptions(add_operation_column(runs).with_columns(unknown), settings)
    placed = named.join(entries, on=["run_id", "resource"], how="left", maintain_order="left")
    placed = placed.join(tools, on=["run_id", "resource"], how="left", maintain_order="left")
    stated = settings.filter(pl.col("name") == "hardware").select("resource", hardware="value").unique("resource")
    return placed.join(stated, on="resource", how="left", maintain_order="left")


def _find_entry_nodes(clients: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
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


def _tabulate_exclusion_reasons(left_out: pl.DataFrame) -> pl.DataFrame:
    columns = ["resource", "phase", "workload", "threads", "workers", "iteration", "status"]
    reason = pl.coalesce("status_reason", pl.lit("no throughput")).alias("reason")
    return left_out.select(*columns, reason).sort(columns)


def _list_hardware(settings: pl.DataFrame, runs: pl.DataFrame) -> tuple[str, ...]:
    chosen = settings.filter((pl.col("name") == "hardware") & pl.col("resource").is_in(runs["resource"].implode()))
    return tuple(chosen["value"].unique().sort().to_list())


# Comparability of runs: compared runs must agree in their whole configuration except the compared column.

#: Compared column -> columns that it consists of or determines.
_DECIDES: Final = {
    "variant": frozenset({*VARIANT, "arrivals"}),
    "set_up": frozenset({"family"}),
    "resource": frozenset({"family", "settings", "variant"}),
    "limit": frozenset({"arrivals"}),
}
_LEVELS_NAMED: Final = 4


@dataclass(frozen=True)
class Comparability:
    """The columns that are equal within a comparison.

    Attributes:
        strata: columns that vary and are held equal.
        along: columns of the system that change together with the compared one and so cannot be held equal.
    """

    strata: tuple[str, ...]
    along: tuple[str, ...] = ()


def comparability(
    runs: pl.DataFrame,
    by: str,
    pool: Collection[str] = (),
    factors: Sequence[str] = (),
    replaced: Collection[str] = (),
) -> Comparability:
    """Columns to hold equal when the levels of `by` are compared.

    A column of the system (such as the family, if each cluster size has its own) in which the levels have no common
    value is not held equal if each level has one value of it: the comparison is then of both columns.

    A variant excludes the size of the system, so variants are compared at equal sizes only.

    Args:
        runs: described runs.
        by: compared column.
        pool: columns that need not be equal.
        factors: further columns to hold equal, which the caller's table alone has.
        replaced: columns of a configuration that the factors say in other words.

    Example:
        >>> runs = pl.DataFrame({"system": ["x", "y"] * 2, "threads": [4, 4, 8, 8], "workers": [2, 3, 2, 3]})
        >>> comparability(runs, "system")
        Comparability(strata=('threads',), along=('workers',))
    """
    aside = {by, *pool, *replaced}.union(*(_DECIDES.get(name, ()) for name in (by, *pool)))
    possible = dict.fromkeys((*CONFIGURATION, *factors))
    varying = [name for name in possible if name in runs.columns and name not in aside]
    varying = [name for name in varying if runs[name].n_unique() > 1]
    along = [name for name in varying if name in SYSTEM and by != "variant" and _changes_along(runs, name, by)]
    strata = [name for name in varying if name not in along]
    mixed = {name for name in along if _is_mixed(runs, name, [*strata, by])}
    return Comparability(
        tuple(name for name in varying if name in strata or name in mixed),
        tuple(name for name in along if name not in mixed),
    )


def _changes_along(runs: pl.DataFrame, column: str, by: str) -> bool:
    pairs = runs.select(column, by).unique()
    return pairs.height == pairs[column].n_unique()


def _is_mixed(runs: pl.DataFrame, column: str, groups: Sequence[str]) -> bool:
    most = runs.group_by(groups).agg(pl.col(column).n_unique())[column].max()
    return isinstance(most, int) and most > 1


def find_pooled_columns(runs: pl.DataFrame, held: AbstractSet[str], factors: Sequence[str] = ()) -> list[str]:
    """Columns that vary within a set of runs although they are not held equal, each with its values, in words."""
    possible = dict.fromkeys(("resource", *CONFIGURATION, *factors))
    columns = [name for name in possible if name in runs.columns and name not in held]
    return [f"{name}: {_format_column_values(runs[name])}" for name in columns if runs[name].n_unique() > 1]


def find_differing_columns(tested: pl.DataFrame, base: pl.DataFrame, columns: Collection[str]) -> list[str]:
    """Columns in which two sets of runs have different values, with the values of each, in words."""
    known = [name for name in CONFIGURATION if name in columns and name in tested.columns]
    sides = [(name, set(tested[name].to_list()), set(base[name].to_list())) for name in known]
    return [
        f"{name}: {_format_column_values(tested[name])} against {_format_column_values(base[name])}"
        for name, a, b in sides
        if a != b
    ]


def _format_column_values(values: pl.Series) -> str:
    return join_first_names([str(value) for value in values.unique().sort().to_list()], _LEVELS_NAMED)


def find_closest_difference(runs: pl.DataFrame, by: str, strata: Sequence[str]) -> tuple[str, ...]:
    """The smallest set of columns in which two runs at different levels of `by` differ, and which must be pooled."""
    if not strata:
        return ()
    found = runs.select(by, *strata).unique(maintain_order=True)
    levels = found[by].rank("dense").fill_null(0).to_numpy()
    codes = np.column_stack([found[name].rank("dense").fill_null(0).to_numpy() for name in strata])
    best = np.full(len(strata), fill_value=True)
    for i in range(found.height):
        others = codes[levels != levels[i]] != codes[i]
        if len(others):
            nearest = others[others.sum(axis=1).argmin()]
            best = nearest if nearest.sum() < best.sum() else best
    return tuple(name for name, differs in zip(strata, best, strict=True) if differs)


def select_named_runs(runs: pl.DataFrame, text: str) -> pl.DataFrame:
    """The runs that a text names.

    Args:
        runs: described runs.
        text: `column=value` (or `column=value|value`), several split by commas, or a value of one of :data:`NAMING`;
            resources may be patterns.

    Raises:
        UnknownNameError: no run has this value, or there is no such column.

    Example:
        >>> runs = pl.DataFrame({"resource": ["a", "b"], "workers": [1, 8], "set_up": ["x", "y"]})
        >>> select_named_runs(runs, "workers=8")["resource"].item(), select_named_runs(runs, "x")["resource"].item()
        ('b', 'a')
    """
    if "=" in text and "/" not in text.partition("=")[0]:
        return _filter_runs_by_values(
            runs, dict([side.strip() for side in part.partition("=")[::2]] for part in text.split(","))
        )
    if matching(runs, text).height:
        return matching(runs, text)
    for column in [name for name in NAMING if name in runs.columns]:
        found = runs.filter(pl.col(column).cast(pl.String) == text)
        if found.height:
            return found
    known = [
        runs[name].drop_nulls().cast(pl.String).unique() for name in ("resource", "set_up") if name in runs.columns
    ]
    raise UnknownNameError("side", text, sorted({str(value) for values in known for value in values if value}))


def _filter_runs_by_values(runs: pl.DataFrame, wanted: Mapping[str, str]) -> pl.DataFrame:
    found = runs
    for column, value in wanted.items():
        if column not in runs.columns:
            known = dict.fromkeys(name for name in (*NAMING, *CONFIGURATION) if name in runs.columns)
            raise UnknownNameError("column", column, known)
        found = found.filter(pl.col(column).cast(pl.String).is_in(value.split(VALUE_SEPARATOR)))
        if found.is_empty():
            values = runs[column].drop_nulls().unique().sort().cast(pl.String).to_list()
            raise UnknownNameError(column, value, values)
    return found
