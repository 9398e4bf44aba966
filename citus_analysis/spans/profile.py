"""Components of a statement's time, by cluster size: means of the spans, distributions, and latencies at the client.

The profile is :func:`citus_analysis.spans.coarse_profile` of the statements of the steady state
(:mod:`citus_analysis.spans.profile`): those of a session's start, and those that open a connection
to another node, are counted and averaged apart. Statements of one run are not independent, so cluster sizes are
compared by the means of runs, one value per run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import (
    Frame,
    TableSource,
    convert_to_polars,
    return_callers_frame_kind,
    scan_source_table,
)
from citus_analysis.defaults import LEVEL, MARGIN, UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.operations import MEAN_LATENCY_US
from citus_analysis.runs.selection import Question, Selection
from citus_analysis.runs.set_ups import CONFIGURATION, build_series_names, format_setup_value
from citus_analysis.runs.windows import Windowed, select_measured_rows
from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.spans.coarse import (
    QUANTITIES,
    coarse_profile,
    list_summary_columns,
    number_in_sessions,
    select_after_warm_up,
)
from citus_analysis.spans.unplaced_statements import describe_unplaced_statements
from citus_analysis.stats import Comparison, Interval, compare, compare_many, mean_interval
from citus_analysis.stats.drift import FEWEST_BLOCKS, build_block_layout
from citus_analysis.stats.intervals import choose_mean_method
from citus_analysis.stats.run_percentiles import RunValues, run_percentile_interval
from citus_analysis.stats.studied_runs import get_metric_values, iterate_groups
from citus_analysis.texts.words import format_thread_count, make_size_expr
from citus_analysis.units import US_PER_MS

# The sampled statements that enter a page, divided by the state of their session.
#
# A session begins with statements that make plans, sends some statements while it opens a connection to another node,
# and then sends most of them over connections and plans that exist. These are different populations: a mean over all of
# them describes none. :func:`select_statements` divides them once, and everything that a page says of statements
# (sentences, tables, figures, comparisons) takes its result, so that all of it describes the same rows. Runs of one
# family, size and number of threads whose loads or experiments differ are set-ups of their own there.

#: States of a session, in the order in which a statement that fits several is assigned to one.
START, CONNECTING, FIRST_EXECUTION, STEADY = "session start", "opens a connection", "first execution", "steady"
STATES: Final = (START, CONNECTING, FIRST_EXECUTION, STEADY)
#: Columns of a configuration of statements.
GROUP: Final = ("family", "workers", "threads", "statement_kind", "executed")

_STATE: Final = pl.Enum(STATES)
_SELECTED_STATEMENTS_RUN: Final = ("resource", "run_id")
_SELECTED_STATEMENTS_SETUP: Final = (*_SELECTED_STATEMENTS_RUN, "family", "workers", "threads")
#: Columns of runs of which statements with different values are not pooled.
_NOT_POOLED: Final = (
    *(name for name in CONFIGURATION if name not in (*GROUP, "operation", "monitored")),
    "experiment",
)
#: Where fewer of a configuration's statements have their connections already, opening one is its steady state
#: (`citus.max_cached_conns_per_worker = 0`, a client that connects for each statement).
_FEWEST_STEADY: Final = 0.05
_SELECTING: Final = object()


@dataclass(frozen=True, repr=False)
class SelectedStatements(DisplayMixin):
    """The sampled statements of a page, which only :func:`select_statements` makes.

    Attributes:
        steady: statements of the steady state, with `family` (set-up, with the load where it differs), `workers`,
            `threads` and `state`: what means, percentiles and comparisons are of.
        apart: the statements of the other states, with the same columns.
        failed: statements that failed; they are in neither.
        skip_first: statements at the beginning of each session that count as its start.
        stated: runs of whose connections between nodes the logs have records (Citus logs them at debug4).
        inferred: runs with statements on other nodes, but without such records; there, the first statement that a
            child's session logged is the one that opened its connection.
        window: number of statements outside the measured windows of the runs.
    """

    steady: pl.DataFrame
    apart: pl.DataFrame
    failed: int
    skip_first: int
    stated: int
    inferred: int
    window: Windowed
    made_by: InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        """Refuse statements that were not divided."""
        if made_by is not _SELECTING:
            raise UsageError("statements of a page come from select_statements", hint="pass its result")

    @property
    def height(self) -> int:
        """Number of statements, of all states."""
        return self.steady.height + self.apart.height

    def summary_lines(self) -> list[str]:
        """The number of statements of each state."""
        counts = dict(self.apart["state"].value_counts().iter_rows())
        return [f"{self.steady.height:,} statements in the steady state", *(f"{n:,} {s}" for s, n in counts.items())]

    def summary_table(self) -> pl.DataFrame:
        """The states: :meth:`states`."""
        return self.states()

    def states(self, by: Sequence[str] = GROUP) -> pl.DataFrame:
        """Number and means of the statements of each state.

        Args:
            by: columns to group by.

        Returns:
            Per group and `state`: `n`, `share_percent` of the group's statements, and means in ms: `total_ms` (T),
            `connect_ms` (over the statements that opened a connection whose time is known), `parent_ms` (P, which
            contains `connect_ms`), `child_ms` (C), `between_ms` (L).
        """
        means = {"total_us": "total", "connect_us": "connect", "parent_us": "parent", "child_us": "child"}
        means |= {"between_us": "between"}
        keys = [*by, "state"]
        wanted = [*keys, *means]
        both = pl.concat([self.steady.select(wanted), self.apart.select(wanted)])
        found = both.group_by(keys).agg(
            pl.len().alias("n"), *((pl.col(us).mean() / US_PER_MS).alias(f"{name}_ms") for us, name in means.items())
        )
        share = 100 * pl.col("n") / pl.col("n").sum().over(by)
        return found.select(*keys, "n", share.alias("share_percent"), pl.exclude(*keys, "n")).sort(keys)


def select_statements(selection: Selection, dataset: TableSource, *, skip_first: int = 0) -> SelectedStatements:
    """The statements on data that were sampled within the measured windows of runs, divided by state.

    Args:
        selection: runs with their set-up.
        dataset: gives `statements`, `spans` and `log_events`.
        skip_first: this many statements at the beginning of each session are its start.

    Raises:
        InsufficientDataError: there are none.

    Example:
        >>> import citus_analysis as ca
        >>> dataset = ca.open_dataset(".cache/dataset")  # doctest: +SKIP
        >>> select_statements(ca.runs.select_runs(dataset), dataset, skip_first=5).states()  # doctest: +SKIP
    """
    on_data = pl.col("statement_kind").cast(pl.String).is_in(DATA_STATEMENTS) & pl.col("executed").is_not_null()
    setup = selection.runs.lazy().select(_SELECTED_STATEMENTS_SETUP)
    statements = scan_source_table(dataset, "statements").filter(on_data)
    found = statements.join(setup, on=_SELECTED_STATEMENTS_RUN, maintain_order="left").collect()
    # Statements before the measured window are a part of their session's start, too.
    window = select_measured_rows(found.with_columns(_number=number_in_sessions(found)), selection.runs)
    if window.rows.is_empty() and window.outside:
        raise InsufficientDataError(
            f"all {window.outside} sampled statements of these runs began before or ended after the time in which all "
            "main clients ran",
            hint="let the main clients run longer, or the sampled client end with them",
        )
    if window.rows.is_empty():
        raise InsufficientDataError("no sampled statements in these runs", hint="see the table statements")
    # Statements that another node did not serve opened no connection.
    runs = window.rows.filter(pl.col("executed") != "local").select(_SELECTED_STATEMENTS_RUN).unique()
    stated = _find_runs_logging_connections(dataset).join(runs, on=_SELECTED_STATEMENTS_RUN, how="semi")
    others = runs.join(stated, on=_SELECTED_STATEMENTS_RUN, how="anti")
    openers = find_first_of_connections(
        scan_source_table(dataset, "spans").join(others.lazy(), on=_SELECTED_STATEMENTS_RUN, how="semi")
    )
    placed = _add_load_to_family(window.rows, selection.runs)
    marked = mark_states(placed, skip_first=skip_first, openers=openers)
    return SelectedStatements(
        marked.filter(pl.col("state") == STEADY),
        marked.filter(pl.col("state") != STEADY),
        marked["state"].null_count(),
        skip_first,
        stated.height,
        others.height,
        replace(window, rows=window.rows.clear()),
        _SELECTING,
    )


def _add_load_to_family(statements: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Statements whose `family` names the load, too, where runs of one family, size and kind differ in it.

    The load with the most runs of a family has the family's plain name.
    """
    kinds = statements.select(*_SELECTED_STATEMENTS_RUN, "statement_kind").unique()
    known = runs.with_columns(pl.col("operations").cast(pl.Int64)) if "operations" in runs.columns else runs
    every = kinds.join(known, on=_SELECTED_STATEMENTS_RUN)
    columns = [name for name in _NOT_POOLED if name in every.columns and every[name].n_unique() > 1]
    cell = ["family", "workers", "threads", "statement_kind"]
    if not columns:
        return statements
    counts = every.with_columns(_runs=pl.len().over("family", "statement_kind", *columns))
    parts = []
    for _, part in counts.sort(*cell, nulls_last=True).group_by(cell, maintain_order=True):
        loads = part.group_by(columns).agg(pl.col("_runs").first()).sort(pl.col("_runs"), *columns, nulls_last=True)
        loads = loads.reverse()
        parts.append(part.join(_name_loads(loads), on=columns, how="left", nulls_equal=True))
    parts_apart = pl.concat(parts).filter(pl.col("_load") != "")
    named = parts_apart.select(*_SELECTED_STATEMENTS_RUN, "statement_kind", "_load")
    joined = statements.join(named, on=[*_SELECTED_STATEMENTS_RUN, "statement_kind"], how="left", maintain_order="left")
    family = pl.concat_str(pl.col("family").replace("", None), "_load", separator=", ", ignore_nulls=True)
    return joined.with_columns(family=family).drop("_load")


def _name_loads(loads: pl.DataFrame) -> pl.DataFrame:
    """Loads with `_load`, what tells each from the first, which has none."""
    if loads.height == 1:
        return loads.drop("_runs").with_columns(_load=pl.lit(""))
    shown = loads
    if "operations" in loads.columns:
        # A load that inserts each of its records once is named by their number.
        repeats = (pl.col("operations") == pl.col("records")) if "records" in loads.columns else pl.lit(value=False)
        says = (pl.col("operations") < UNTIL_TIME_IS_UP) & ~repeats.fill_null(value=False)
        limited = pl.when(says).then("operations")
        shown = loads.with_columns(operations=limited)
    named = [name for name in loads.columns if name not in ("_runs", "experiment", "phase")]
    differ = any(loads[name].n_unique() > 1 for name in named)
    names = build_series_names(shown.select(named)).to_list() if differ else [""] * loads.height
    if "experiment" in loads.columns and len(set(names)) < len(names):
        of = [f"experiment {name}" if name else "" for name in loads["experiment"]]
        names = [", ".join(filter(None, pair)) for pair in zip(names, of, strict=True)]
    if "phase" in loads.columns and loads["phase"].n_unique() > 1:
        names = [", ".join(filter(None, (f"phase {p}", n))) for p, n in zip(loads["phase"], names, strict=True)]
    # Loads that words do not tell apart have numbers: they are different runs all the same.
    unique = [name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names, start=1)]
    return loads.drop("_runs").with_columns(_load=pl.Series(["", *unique[1:]]))


def mark_states(
    statements: pl.DataFrame, *, skip_first: int = 0, openers: pl.Series | None = None, by: Sequence[str] = GROUP
) -> pl.DataFrame:
    """Statements with the `state` of their session; null for those that failed or touched no shard.

    `session start`: among the first of its session. `opens a connection`: it waited for a connection to another node
    (`connect_us`, or one of `openers`). `first execution`: it was parsed, in a run in which the same statement is
    executed without being parsed again, too. All others are `steady`. Where hardly any statement of a configuration has
    its connection already, statements that open one are `steady` as well.

    Args:
        statements: rows of table `statements`.
        skip_first: number of statements at the beginning of a session that are its start.
        openers: trace_ids of statements that opened connections, besides those with `connect_us`.
        by: columns that name a configuration.

    Statements whose column `_number` holds their place in the session, from 0, keep it; others are numbered here.
    """
    opens = pl.col("connect_us").is_not_null()
    if openers is not None:
        opens |= pl.col("trace_id").is_in(openers.implode())
    reuses = ((pl.col("protocol") == "extended") & pl.col("parse_us").is_null()).fill_null(value=False)
    same = [*_SELECTED_STATEMENTS_RUN, "statement_kind", "statement_fingerprint"]
    first = pl.col("parse_us").is_not_null() & reuses.any().over(same)
    numbered = statements
    if "_number" not in statements.columns:
        numbered = statements.with_columns(_number=number_in_sessions(statements))
    # Only statements that touched a shard have a number.
    counted = pl.col("_number").is_not_null() & ~pl.col("failed").fill_null(value=False)
    words = [pl.lit(state, _STATE) for state in STATES]
    state = (
        pl.when(~counted)
        .then(None)
        .when(pl.col("_number") < skip_first)
        .then(words[0])
        .when(opens)
        .then(words[1])
        .when(first)
        .then(words[2])
        .otherwise(words[3])
    )
    marked = numbered.with_columns(state=state)
    steady, opening = ((pl.col("state") == name).sum().over(by) for name in (STEADY, CONNECTING))
    usual = (pl.col("state") == CONNECTING) & (steady < _FEWEST_STEADY * (steady + opening))
    return marked.with_columns(state=pl.when(usual).then(words[3]).otherwise("state")).drop("_number")


def find_first_of_connections(spans: pl.LazyFrame) -> pl.Series:
    """trace_ids of the statements whose child was the first that its session logged.

    A session of a child serves one connection of one parent session, so its first statement is of the one that opened
    the connection. Where a log begins after the connection was opened, one statement of the connection is taken for it.

    Args:
        spans: rows of table `spans`.
    """
    session = ("resource", "iteration", "source_id", "pid", "gpid")
    children = spans.filter(pl.col("kind") == "remote").select(*session, "trace_id", "start_time", "byte_offset")
    ordered = children.sort("start_time", "byte_offset").unique(session, keep="first", maintain_order=True)
    return ordered.select("trace_id").collect().to_series().unique()


def _find_runs_logging_connections(dataset: TableSource) -> pl.DataFrame:
    """resource, run_id: runs in whose logs connections between nodes have records."""
    made = scan_source_table(dataset, "log_events").filter(pl.col("kind") == "connect")
    return made.select(_SELECTED_STATEMENTS_RUN).drop_nulls().unique().collect(engine="streaming")


# Percentiles of a profile with intervals: of statements' times on the server, and of clients' latencies.
#
# Statements of one run share its conditions, so intervals are computed from one percentile per run. If there is a
# single run, they are computed from its effective number of independent statements
# (:func:`citus_analysis.stats.run_percentile_interval`).

PERCENTILES: Final = (50.0, 95.0, 99.0)
_PROFILE_PERCENTILES_RUN: Final = ("resource", "run_id")
#: The order of time; `byte_offset` orders records of one source that have no time, or the same.
IN_ORDER: Final = ("start_time", "source_id", "byte_offset")
#: Columns of a percentile with its interval.
ESTIMATES: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("estimate_us", "low_us", "high_us"), pl.Float64()),
    **dict.fromkeys(("runs", "n"), pl.Int64()),
    **dict.fromkeys(("method", "warnings"), pl.String()),
}


def profile_percentiles(
    statements: Frame,
    *,
    by: Sequence[str] = ("statement_kind", "executed"),
    quantities: Sequence[str] = tuple(QUANTITIES),
    level: float = LEVEL,
) -> pl.DataFrame:
    """Percentiles of T, P, W, C and L with intervals, of the statements that :func:`coarse_profile` averages.

    Args:
        statements: rows of table `statements`.
        by: columns of `statements` to group by.
        quantities: symbols of the times.
        percentiles: in per cent.
        skip_first: statements left out at the beginning of each session.
        level: confidence level.

    Returns:
        Per group, quantity and percentile: `estimate_us`, `low_us` and `high_us` (null if there are too few data;
        `warnings` gives the reason), `runs`, `n` statements, `method`, `warnings`.
    """
    given = convert_to_polars(statements)
    in_order = [name for name in IN_ORDER if name in given.columns]
    kept = select_after_warm_up(
        given, 0, [*by, *_PROFILE_PERCENTILES_RUN, *in_order, *(QUANTITIES[symbol] for symbol in quantities)]
    )
    rows: list[dict[str, object]] = []
    # Only places are sorted and divided: copies of all columns would be most of the memory of a report.
    places = kept.select(*by, place=pl.int_range(pl.len(), dtype=pl.UInt32))
    if in_order:
        places = places[kept.select(pl.arg_sort_by(in_order, nulls_last=True)).to_series()]
    for key, part in iterate_groups(places, by):
        for symbol in quantities:
            values = kept.select(*_PROFILE_PERCENTILES_RUN, QUANTITIES[symbol])[part["place"]].drop_nulls(
                QUANTITIES[symbol]
            )
            of_runs = (one for _, one in values.group_by(_PROFILE_PERCENTILES_RUN, maintain_order=True))
            runs = [RunValues(get_metric_values(one, QUANTITIES[symbol])) for one in of_runs]
            rows += [
                {**key, "quantity": symbol, **estimate_percentile_columns(runs, q, level)} for q in PERCENTILES if runs
            ]
    names = {name: kept.schema[name] for name in by}
    schema = {**names, "quantity": pl.Enum(list(QUANTITIES)), "percentile": pl.Float64(), **ESTIMATES}
    return pl.DataFrame(rows, schema=schema)


def estimate_percentile_columns(runs: Sequence[RunValues], q: float, level: float) -> dict[str, object]:
    """A percentile of the values of runs as columns of :data:`ESTIMATES`."""
    counts = {"percentile": q, "runs": len(runs), "n": sum(run.values.size for run in runs)}
    try:
        return {**counts, **_convert_interval_to_columns(run_percentile_interval(runs, q, level=level))}
    except InsufficientDataError as refusal:
        return {**counts, "method": "", "warnings": f"{refusal}"}


def _convert_interval_to_columns(interval: Interval) -> dict[str, object]:
    ends = dict(zip(("low_us", "high_us"), interval.ends, strict=True))
    worth = f" (worth n = {interval.n})" if "order statistics" in interval.method else ""
    return {
        "estimate_us": interval.estimate,
        **ends,
        "method": f"{interval.level * 100:g} %, {interval.method}{worth}",
        "warnings": "; ".join(interval.warnings),
    }


def average_client_percentiles(latencies: pl.DataFrame, by: Sequence[str], *, level: float = LEVEL) -> pl.DataFrame:
    """Means of the percentiles that clients report for each run, with intervals over the runs.

    Args:
        latencies: rows of table `operation_latencies`, one per run.
        by: columns to group by.
        percentiles: in per cent, of those that the table has (`p50_us` ...).
        level: confidence level.

    Returns:
        Per group and percentile: the columns of :func:`profile_percentiles`, where `n` is the number of operations.
    """
    rows: list[dict[str, object]] = []
    for key, part in iterate_groups(latencies, by):
        for q in PERCENTILES:
            known = part.drop_nulls(f"p{q:g}_us")
            if known.height:
                values = get_metric_values(known, f"p{q:g}_us")
                counts = {"percentile": q, "runs": known.height, "n": int(known["operations"].sum())}
                rows.append(
                    {
                        **key,
                        **counts,
                        **_convert_interval_to_columns(mean_interval(values, level, choose_mean_method(values))),
                    }
                )
    schema = {**{name: latencies.schema[name] for name in by}, "percentile": pl.Float64(), **ESTIMATES}
    return pl.DataFrame(rows, schema=schema)


_SETUP: Final = ("resource", "run_id", "family", "workers", "threads")
_RUN: Final = ["resource", "run_id"]
#: YCSB's operation -> kind of the statement it sends.
_SENT_BY: Final = {"INSERT": "insert", "READ": "select", "UPDATE": "update", "SCAN": "select", "DELETE": "delete"}
#: Kind of the statement that an operation of `operation_latencies` sends; null for other operations.
SENT: Final = pl.col("operation").replace_strict(_SENT_BY, default=None, return_dtype=pl.String)
_OF_CLIENT: Final = ["family", "workers", "threads", "statement_kind"]


@dataclass(frozen=True, repr=False)
class ProfileStudy(DisplayMixin):
    """Profiles of the sampled statements.

    Attributes:
        selected: the statements that are included, divided by the state of their session.
        profile: per family, workers, threads, kind and place of execution: n and mean of T, P, W, C, L.
        percentiles: the same groups: percentiles of T, P, W, C, L with intervals over the runs.
        beside_client: per family, workers, threads and kind: T of all places and states beside the latencies of the
            sampled client (`client_mean_us`) and of the main clients (`main_mean_us`).
        client_percentiles: the same groups: percentiles of T and of the sampled client, each with its interval.
        sampled: the sampled client's mean latency against the main clients' of the same runs, by kind, in the largest
            cluster that the figures show.
        sizes: T at other cluster sizes against the smallest, at equal threads, on the means of runs.
        places: T of local against remote executions of statements that commit nothing.
        matched: number of tasks of the chosen runs, and of those that were paired exactly.
        children: executions on shards that other nodes logged for the chosen runs, with a task or without.
        main: the family in which sizes are compared: the one without a name, else the one with the most statements.
        threads: number of threads that the figures show.
        unplaced: a sentence on the statements of which nothing says where they were executed.
    """

    selected: SelectedStatements
    profile: pl.DataFrame
    percentiles: pl.DataFrame
    beside_client: pl.DataFrame
    client_percentiles: pl.DataFrame
    sampled: tuple[Comparison, ...]
    sizes: tuple[Comparison, ...]
    places: tuple[Comparison, ...]
    matched: tuple[int, int]
    children: int
    main: str
    threads: int
    unplaced: tuple[str, ...] = ()

    @property
    def statements(self) -> pl.DataFrame:
        """The statements of the steady state, with `family`, `workers` and `threads`: what the profile is of."""
        return self.selected.steady

    @property
    def skip_first(self) -> int:
        """Statements at the beginning of each session that count as its start."""
        return self.selected.skip_first

    @property
    def window(self) -> Windowed:
        """The number of statements outside the measured windows of the runs."""
        return self.selected.window

    @property
    def load(self) -> str:
        """The number of client threads that the figures show, in words."""
        return format_thread_count(self.threads)

    def summary_table(self) -> pl.DataFrame:
        """The profile."""
        return self.profile

    def kinds(self, *, main: bool = True) -> list[str]:
        """Kinds of statements in the figures, of the main family or of all others."""
        return sorted({str(kind) for kind in self._select_rows(self.profile, main=main)["statement_kind"]})

    def select_spans(self, kind: str, *, main: bool = True) -> pl.DataFrame:
        """Means of P, C and L of remote executions and T of local ones, with a `name` per bar, for a figure.

        The name says if a time does not contain the commit, or contains it in an unusual place.

        Args:
            kind: kind of the statement.
            main: the main family; else all others.
        """
        rows = self._select_rows(self.profile, main=main).filter(pl.col("statement_kind") == kind)
        remote = (pl.col("executed") == "remote") & pl.col("quantity").is_in(["P", "C", "L"])
        local = (pl.col("executed") == "local") & (pl.col("quantity") == "T")
        family = pl.lit("") if main else pl.format("{}, ", "family")
        hidden = pl.col("warning").is_not_null().any().over("family", "workers", "executed")
        commit = pl.when(hidden & local).then(pl.lit(" (no commit)")).when(hidden).then(pl.lit(" (commit in L)"))
        name = pl.format("{}{}, {}", family, make_size_expr(), pl.col("executed").cast(pl.String))
        ordered = rows.filter(remote | local).sort("family", "workers", "executed", descending=[False, False, True])
        return ordered.with_columns(name=name + commit.otherwise(pl.lit("")))

    def get_times(self, kind: str) -> pl.DataFrame:
        """Times of single statements of the steady state and the main family, a `series` per cluster size and place."""
        shown = self.statements.lazy().filter(
            pl.col("threads") == self.threads,
            pl.col("family") == self.main,
            pl.col("statement_kind") == kind,
            pl.col("executed").is_in(["remote", "local"]),
        )
        rows = shown.select("workers", "executed", "total_us").collect().sort("workers", "executed")
        series = pl.format("{}, {}", make_size_expr(), pl.col("executed").cast(pl.String))
        return rows.select(series.alias("series"), "total_us")

    def _select_rows(self, rows: pl.DataFrame, *, main: bool = True) -> pl.DataFrame:
        family = pl.col("family") == self.main if main else pl.col("family") != self.main
        return rows.filter(pl.col("threads") == self.threads, family)


def study_profile(
    selection: Selection,
    dataset: TableSource,
    *,
    skip_first: int = 5,
    threads: int = 0,
    level: float = LEVEL,
    margin: float = MARGIN,
) -> ProfileStudy:
    """Profile the sampled statements of the chosen runs.

    Args:
        selection: runs with their set-up; only statements of these runs enter.
        dataset: gives `statements`, `match_quality` and `operation_latencies`.
        skip_first: statements left out at the beginning of each session (plans and connections are made there).
        threads: number of threads that the figures show; 0: the number with the most cluster sizes.
        level: confidence level of comparisons.
        margin: relative difference that is considered equivalent.

    Raises:
        InsufficientDataError: none of the runs has sampled statements.
        UnknownNameError: no run has that number of threads.
    """
    question = Question(level=level, margin=margin)
    return profile_selected_runs(selection, dataset, question, skip_first=skip_first, threads=threads)


def profile_selected_runs(
    selection: Selection, dataset: TableSource, question: Question, *, skip_first: int, threads: int
) -> ProfileStudy:
    """The profile of the statements of selected runs; see :func:`study_profile`."""
    setup = selection.runs.select(_SETUP)
    selected = select_statements(selection, dataset, skip_first=skip_first)
    main, shown = _choose_main_family(selected), choose_profiled_threads(selected, threads)
    # Percentiles of all runs together are dropped: they have no interval, unlike those of `percentiles`.
    profile = coarse_profile(selected.steady, by=GROUP).select(pl.exclude(r"^p\d+_us$"))
    latencies = _select_sampled_latencies(selected, convert_to_polars(dataset.table("operation_latencies")))
    monitors = latencies.filter(role="monitor")
    quality = convert_to_polars(dataset.table("match_quality")).join(setup, on=_RUN, how="semi")
    statements = scan_source_table(dataset, "statements").join(setup.lazy(), on=_RUN, how="semi")
    return ProfileStudy(
        selected,
        profile,
        profile_percentiles(selected.steady, by=GROUP, level=question.level),
        _compare_with_client(selected, latencies),
        _compare_client_percentiles(selected, monitors, question.level),
        tuple(_compare_clients(latencies.filter(family=main, threads=shown), question)),
        tuple(_compare_sizes(selected, selection.runs, main, question)),
        tuple(_compare_places(selected, main, question)),
        (int(quality["tasks"].sum()), int(quality["exact"].sum())),
        int(quality["children"].sum()),
        main,
        shown,
        tuple(describe_unplaced_statements(statements)),
    )


def _choose_main_family(selected: SelectedStatements) -> str:
    # Where all statements are of the beginning of sessions, none is steady.
    counts = pl.concat([part.select("family") for part in (selected.steady, selected.apart)])["family"].value_counts()
    families = counts.sort("count", "family", descending=[True, False])["family"].to_list()
    return "" if "" in families else str(families[0])


def choose_profiled_threads(selected: SelectedStatements, wanted: int = 0) -> int:
    """The number of threads that the figures show: the wanted number, or the number with the most cluster sizes.

    Raises:
        UnknownNameError: the main family was not measured with the wanted number.
    """
    columns = ["family", "threads", "workers"]
    every = pl.concat([part.select(columns) for part in (selected.steady, selected.apart)])
    main = every.filter(family=_choose_main_family(selected))
    sizes = main.group_by("threads").agg(pl.col("workers").n_unique(), pl.len().alias("count"))
    if wanted and wanted not in sizes["threads"]:
        raise UnknownNameError("number of threads", str(wanted), map(str, sizes["threads"]))
    return wanted or int(sizes.sort("workers", "count", descending=True)["threads"][0])


def _select_sampled_latencies(selected: SelectedStatements, latencies: pl.DataFrame) -> pl.DataFrame:
    """Latencies that the clients of the sampled runs report, with the kind of statement of each operation."""
    columns = [*_SETUP, "statement_kind"]
    setup = pl.concat([part.select(columns) for part in (selected.steady, selected.apart)]).unique()
    of_kinds = setup.with_columns(pl.col("statement_kind").cast(pl.String))
    clients = latencies.with_columns(pl.col("role").cast(pl.String), statement_kind=SENT)
    return clients.join(of_kinds, on=[*_RUN, "statement_kind"])


def _combine_session_states(selected: SelectedStatements) -> pl.DataFrame:
    """The statements of all states, because a client's latencies are of all of them, too."""
    return pl.concat([selected.steady, selected.apart])


def _compare_with_client(selected: SelectedStatements, latencies: pl.DataFrame) -> pl.DataFrame:
    """The server's T over all places and states, and the latencies of the client that sent them and of the others."""
    server = coarse_profile(_combine_session_states(selected), by=_OF_CLIENT, quantities=["T"])
    clients = latencies.group_by(_OF_CLIENT).agg(
        pl.col("run_id").filter(role="monitor").n_unique().alias("client_runs"),
        *(
            _make_mean_latency_expr(role).alias(name)
            for role, name in (("monitor", "client_mean_us"), ("main", "main_mean_us"))
        ),
    )
    shown = server.select(*_OF_CLIENT, "n", "mean_us").with_columns(pl.col("statement_kind").cast(pl.String))
    return shown.join(clients, on=_OF_CLIENT, how="left").sort(_OF_CLIENT)


def _make_mean_latency_expr(role: str) -> pl.Expr:
    mine = pl.col("role") == role
    sum_us, operations = (
        one.filter(mine).sum() for one in (pl.col("mean_us") * pl.col("operations"), pl.col("operations"))
    )
    return pl.when(operations > 0).then(sum_us / operations)


def _compare_clients(latencies: pl.DataFrame, question: Question) -> Iterator[Comparison]:
    """The sampled client against the main clients of the same runs, in the largest cluster, per kind."""
    for (kind,), part in latencies.sort("statement_kind").group_by("statement_kind", maintain_order=True):
        largest = part.filter(pl.col("workers").fill_null(0) == pl.col("workers").fill_null(0).max())
        means = largest.group_by(_RUN).agg(
            monitor=_make_mean_latency_expr("monitor"), main=_make_mean_latency_expr("main")
        )
        both = means.filter((pl.col("monitor") > 0) & (pl.col("main") > 0)).sort(_RUN)
        if both.height:
            one = _compare_pairs(both["monitor"], both["main"], question, "latency_us")
            one.stratum.update(kind=str(kind), workers=largest["workers"][0])
            yield one


def _compare_client_percentiles(selected: SelectedStatements, latencies: pl.DataFrame, level: float) -> pl.DataFrame:
    """Percentiles of T on the server and of the client's latency, one row per percentile."""
    server = profile_percentiles(_combine_session_states(selected), by=_OF_CLIENT, quantities=["T"], level=level)
    client = average_client_percentiles(latencies, _OF_CLIENT, level=level)
    parts = [
        part.with_columns(pl.col("statement_kind").cast(pl.String), measured=pl.lit(name)).select(
            *_OF_CLIENT, "measured", "percentile", *ESTIMATES
        )
        for name, part in (("server (T)", server), ("client", client))
    ]
    return pl.concat(parts).sort(*_OF_CLIENT, "percentile", "measured", descending=[False] * 5 + [True])


def _run_means(statements: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return statements.group_by(*by, *_RUN).agg(pl.col("total_us").mean()).sort(*by, "run_id")


def _compare_sizes(
    selected: SelectedStatements, runs: pl.DataFrame, main: str, question: Question
) -> Iterator[Comparison]:
    """Largest against smallest cluster, remote executions, per kind and threads; by block, if there are blocks."""
    remote = selected.steady.filter((pl.col("executed") == "remote") & (pl.col("family") == main))
    order = [name for name in ("iteration", "start_time") if name in runs.columns]
    for (kind,), part in remote.group_by("statement_kind", maintain_order=True):
        found = []
        for (threads,), rows in part.sort("threads").group_by("threads", maintain_order=True):
            low, high = rows["workers"].min(), rows["workers"].max()
            if low != high:
                means = _run_means(rows, ["workers"]).join(runs.select(*_RUN, *order), on=_RUN, how="left")
                layout = build_block_layout(means.filter(workers=high), means.filter(workers=low), "total_us")
                one = compare(
                    layout.a,
                    layout.b,
                    question.margin,
                    level=question.level,
                    higher_is_better=False,
                    metric="total_us",
                    blocked=layout.paired,
                    iterations=layout.iterations,
                )
                one.stratum.update(kind=str(kind), threads=threads, small=low, large=high)
                found.append(one)
        yield from compare_many(found, level=question.level)


def _compare_places(selected: SelectedStatements, main: str, question: Question) -> Iterator[Comparison]:
    """Local against remote executions of statements that commit nothing, because only these are comparable.

    Both of a run are a pair: they were measured at the same time.
    """
    of_main = selected.steady.filter((pl.col("family") == main) & (pl.col("statement_kind") == "select"))
    found = []
    for (workers, threads), rows in of_main.sort("workers", "threads").group_by(
        "workers", "threads", maintain_order=True
    ):
        means = _run_means(rows, ["executed"])
        local, remote = (means.filter(executed=place).drop("executed") for place in ("local", "remote"))
        both = local.join(remote, on=_RUN, suffix="_remote")
        if both.height:
            one = _compare_pairs(both["total_us"], both["total_us_remote"], question, "total_us")
            one.stratum.update(workers=workers, threads=threads)
            found.append(one)
    yield from compare_many(found, level=question.level)


def _compare_pairs(a_us: pl.Series, b_us: pl.Series, question: Question, metric: str) -> Comparison:
    """Times of the same runs, which were measured at the same time."""
    paired = a_us.len() >= FEWEST_BLOCKS
    a, b = a_us.to_numpy(), b_us.to_numpy()
    return compare(a, b, question.margin, level=question.level, higher_is_better=False, metric=metric, blocked=paired)


# Tables of a profile with one row per configuration: parts of a statement's time, and its percentiles beside clients.
#
# The share of operations that was sampled is a dimension of a configuration: logging every statement of its sessions
# may slow a client down, and a short sample may miss rare events.

_CLIENT_RUN: Final = ["resource", "run_id"]
_CONFIGURATION: Final = ["statement_kind", "family", "workers", "threads"]
#: Columns of `runs` in which repeats agree.
_REPEATED: Final = (
    "resource",
    "set_up",
    *("phase", "workload", "workers", "threads", "drivers", "records", "operations"),
)
_ESTIMATE: Final = {"estimate_us": "", "low_us": "_low", "high_us": "_high"}
#: Role of a client -> prefix of its columns.
_ROLES: Final = {"main": "client", "monitor": "sampled_client"}


def compute_sampled_percent(runs: pl.DataFrame) -> pl.DataFrame:
    """run_id, resource, sampled_percent: share of a run's operations that the sampled client did.

    The share varies among the repeats of a configuration, because the sampled client has a fixed rate. A share between
    half and twice the median of the repeats is replaced by this median. Shares are rounded to one significant digit.

    Args:
        runs: rows of the table `runs`.

    Example:
        >>> run = {"run_id": "a", "resource": "r", "operations_done": 60_000, "monitor_operations": 60}
        >>> compute_sampled_percent(pl.DataFrame([run]))["sampled_percent"].to_list()
        [0.1]
    """
    sampled = pl.col("monitor_operations")
    share = 100 * sampled / (pl.col("operations_done") + sampled)
    repeats = [name for name in _REPEATED if name in runs.columns]
    known = runs.with_columns(sampled_percent=pl.when(share > 0).then(share))
    mine, usual = pl.col("sampled_percent"), pl.col("sampled_percent").median().over(repeats)
    close = mine.is_between(usual / 2, usual * 2)
    known = known.with_columns(sampled_percent=pl.when(close).then(usual).otherwise(mine).round_sig_figs(1))
    return known.select("run_id", "resource", "sampled_percent")


def compute_parts_by_configuration(study: ProfileStudy) -> pl.DataFrame:
    """Mean parts of a statement's time, a row for each configuration and place of execution.

    Returns:
        `statement`, `set_up`, `workers`, `threads`, `executed`, `n`, and in ms: `whole_ms` (T), `parent_ms` (P),
        `child_ms` (C), `between_ms` (L); parts that do not exist are null. `commit` names a part that is known not to
        contain the commit.
    """
    index = [*_CONFIGURATION, "executed"]
    names = {"T": "whole_ms", "P": "parent_ms", "C": "child_ms", "L": "between_ms"}
    rows = study.profile.with_columns(pl.col("quantity").cast(pl.String), (pl.col("mean_us") / US_PER_MS).alias("mean"))
    wide = rows.filter(pl.col("quantity").is_in(list(names))).pivot(
        "quantity", index=index, values="mean", aggregate_function="first", maintain_order=True
    )
    missing = [pl.lit(None, pl.Float64).alias(symbol) for symbol in names if symbol not in wide.columns]
    counts = rows.filter(quantity="T").select(*index, "n")
    hidden = (
        rows.drop_nulls("warning")
        .group_by(index)
        .agg(commit=pl.format("not in {}", pl.col("quantity").filter(pl.col("quantity").is_in(["T", "C"])).first()))
    )
    local = pl.col("executed").cast(pl.String) == "local"
    return (
        wide.with_columns(missing)
        .join(counts, on=index, how="left")
        .join(hidden, on=index, how="left")
        # A local statement has no child: all of its time is the parent's.
        .with_columns(pl.when(local).then(None).otherwise(pl.col(symbol)).alias(symbol) for symbol in ("P", "C", "L"))
        .select(*index, "n", *(pl.col(symbol).alias(name) for symbol, name in names.items()), "commit")
        .pipe(_sort_named_table, study.main, ["executed"])
    )


def states_by_configuration(study: ProfileStudy) -> pl.DataFrame:
    """The states of sessions, a row for each configuration, place of execution and state.

    Returns:
        `statement`, `set_up`, `workers`, `threads`, `executed`, and the columns of
        :meth:`~citus_analysis.spans.profile.SelectedStatements.states`.
    """
    return study.selected.states().pipe(_sort_named_table, study.main, ["executed", "state"])


def _sort_named_table(table: pl.DataFrame, main: str, then: list[str]) -> pl.DataFrame:
    """Columns and rows in reading order: the usual set-up first, cluster sizes below each other."""
    statement = pl.col("statement_kind").cast(pl.String).str.to_uppercase()
    set_up = pl.col("family").replace("", format_setup_value("family", ""))
    ordered = table.sort(pl.col("family") != main, "family", statement, "threads", "workers", *then, nulls_last=True)
    return ordered.select(statement.alias("statement"), set_up.alias("set_up"), pl.exclude("statement_kind", "family"))


@return_callers_frame_kind
def convert_us_to_ms(table: Frame) -> pl.DataFrame:
    """A table whose times in µs (`..._us`) are in ms (`..._ms`).

    Example:
        >>> convert_us_to_ms(pl.DataFrame({"mean_us": [1500.0], "n": [3]})).row(0, named=True)
        {'mean_ms': 1.5, 'n': 3}
    """
    frame = convert_to_polars(table)
    times = [name for name in frame.columns if name.endswith("_us")]
    scaled = frame.with_columns(pl.col(times) / US_PER_MS)
    return scaled.rename({name: f"{name.removesuffix('_us')}_ms" for name in times})


def compare_with_clients(study: ProfileStudy, dataset: TableSource, *, level: float = LEVEL) -> pl.DataFrame:
    """Percentiles of T on the server beside the latency that clients report, a row per configuration.

    T is the time of the sampled statements of the steady state, of all places of execution. The main clients'
    statements are not logged, so the two describe different statements of the same runs; the sampled client's latency
    is of all its statements, also of those that opened connections.

    Args:
        study: the profile.
        dataset: gives `runs` and `operation_latencies`.
        level: confidence level of the intervals of percentiles
            (:func:`citus_analysis.spans.profile.profile_percentiles`).

    Returns:
        `statement`, `set_up`, `workers`, `threads`, `compute_sampled_percent`, `runs`, `n` statements; of T: `p50_ms`,
        `p95_ms`, `p99_ms`, each with its interval (`..._low`, `..._high`; null where there are too few statements),
        and `mean_ms`; mean latency of the main clients: `client_mean_ms`, and of the client that sent the sampled
        statements: `sampled_client_mean_ms`. The usual set-up comes first.
    """
    shares = compute_sampled_percent(convert_to_polars(dataset.table("runs")))
    group = [*_CONFIGURATION, "sampled_percent"]
    wanted = [*_CLIENT_RUN, *_CONFIGURATION, "executed", "failed", *IN_ORDER, *list_summary_columns("T")]
    statements = study.statements.select(wanted).join(shares, on=_CLIENT_RUN, how="left", maintain_order="left")
    profile = coarse_profile(statements, by=group, quantities=["T"])
    means = convert_us_to_ms(profile.select(*group, "n", "mean_us"))
    found = profile_percentiles(statements, by=group, quantities=["T"], level=level)
    table = means.join(_pivot_percentiles(found, group), on=group, how="left", nulls_equal=True)
    latencies = convert_to_polars(dataset.table("operation_latencies"))
    of_runs = study.statements.select(*_CLIENT_RUN, *_CONFIGURATION).unique().join(shares, on=_CLIENT_RUN, how="left")
    for role, prefix in _ROLES.items():
        table = table.join(
            _compute_client_latency(latencies, of_runs, role, prefix), on=group, how="left", nulls_equal=True
        )
    percentiles = [name for name in table.columns if name.startswith("p") and "_ms" in name]
    clients = [f"{prefix}_mean_ms" for prefix in _ROLES.values()]
    shown = table.select(*group, "runs", "n", *percentiles, "mean_ms", *clients)
    return shown.pipe(_sort_named_table, study.main, ["sampled_percent"])


def _pivot_percentiles(percentiles: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """One row per group, with the columns `p50_ms`, `p50_ms_low`, `p50_ms_high` and so on, and the number of runs."""
    runs = percentiles.group_by(group).agg(pl.col("runs").max())
    for (percent,), part in percentiles.group_by("percentile", maintain_order=True):
        named = [(pl.col(us) / US_PER_MS).alias(f"p{percent:g}_ms{end}") for us, end in _ESTIMATE.items()]
        runs = runs.join(part.select(*group, *named), on=group, how="left", nulls_equal=True)
    return runs


def _compute_client_latency(latencies: pl.DataFrame, of_runs: pl.DataFrame, role: str, prefix: str) -> pl.DataFrame:
    """Latency of the clients of one role, of the operations that send each kind of statement."""
    mine = latencies.filter(pl.col("role").cast(pl.String) == role).with_columns(kind=SENT)
    keyed = of_runs.with_columns(kind=pl.col("statement_kind").cast(pl.String))
    joined = mine.join(keyed, on=["resource", "run_id", "kind"])
    mean_ms = (MEAN_LATENCY_US / US_PER_MS).alias(f"{prefix}_mean_ms")
    return joined.group_by([*_CONFIGURATION, "sampled_percent"]).agg(mean_ms)


# What the traces of a version of Citus are certain of, from recordings of it (`docs/traces.md`).

#: The recorded versions.
RECORDED: Final = "Citus 12.1, 13.2 and 14.0 on PostgreSQL 15, 16 and 18"
_FIRST_GPID: Final = (11, 0)
#: Since this version, the place of local statements with literals is logged at debug2 only.
_FIRST_READY_PLAN: Final = (13, 2)
_LAST_RECORDED: Final = (14, 0)
_VERBOSITY: Final = ("debug1", "debug2", "debug3", "debug4", "debug5")


def describe_certainty(version: str, level: str, tasks_at: str | None = "debug4") -> str:
    """What is exact, and what is unknown, in traces of a cluster.

    Args:
        version: version of Citus (`14.0.1`, `14.0-1`, `Citus 14.0.1 on ...`).
        level: `log_min_messages` of the sampled sessions.
        tasks_at: the level at which the cluster reports its tasks; None: it does not.

    Example:
        >>> describe_certainty("14.0-1", "debug4")
        'places, pairs and times are exact; COPY has no place, and tasks of repartition joins have no children'
        >>> describe_certainty("13.2.2", "debug1").split(";")[0]
        'pairs are exact where the values of statements prove them, without times of tasks'
    """
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None:
        return f"nothing is known of this version (recorded: {RECORDED})"
    number = int(found[1]), int(found[2])
    if number < _FIRST_GPID:
        return "no pair is known: before Citus 11, children do not name the session of their parent"
    reports = tasks_at is not None and _includes_log_level(level, tasks_at)
    exact = (
        "places, pairs and times are exact"
        if reports
        else "pairs are exact where the values of statements prove them, without times of tasks"
    )
    unknown = []
    if number >= _FIRST_READY_PLAN and not _includes_log_level(level, "debug2"):
        unknown.append("local executions in the simple protocol have no place (log_min_messages = debug2 tells it)")
    unknown.append("COPY has no place, and tasks of repartition joins have no children")
    if number > _LAST_RECORDED:
        unknown.append(f"not recorded for this version, but for {RECORDED}")
    return "; ".join([exact, *unknown])


def _includes_log_level(level: str, wanted: str) -> bool:
    """Whether a level includes the messages of another."""
    return level in _VERBOSITY and wanted in _VERBOSITY and _VERBOSITY.index(level) >= _VERBOSITY.index(wanted)
