"""The sampled statements that enter a page, divided by the state of their session.

A session begins with statements that make plans, sends some statements while it opens a connection to another node, and
then sends most of them over connections and plans that exist. These are different populations: a mean over all of them
describes none. :func:`select_statements` divides them once, and everything that a page says of statements (sentences,
tables, figures, comparisons) takes its result, so that all of it describes the same rows. Runs of one family, size and
number of threads whose loads or experiments differ are set-ups of their own there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import TableSource, lazy_table
from citus_analysis.defaults import UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.measured_windows import Windowed, within_measured
from citus_analysis.runs.naming import series_names
from citus_analysis.runs.run_selection import Selection
from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.spans.analyse.coarse import number_in_sessions
from citus_analysis.units import US_PER_MS

#: States of a session, in the order in which a statement that fits several is assigned to one.
START, CONNECTING, FIRST_EXECUTION, STEADY = "session start", "opens a connection", "first execution", "steady"
STATES: Final = (START, CONNECTING, FIRST_EXECUTION, STEADY)
#: Columns of a configuration of statements.
GROUP: Final = ("family", "workers", "threads", "statement_kind", "executed")

_STATE: Final = pl.Enum(STATES)
_RUN: Final = ("resource", "run_id")
_SETUP: Final = (*_RUN, "family", "workers", "threads")
#: Columns of runs of which statements with different values are not pooled.
_NOT_POOLED: Final = (
    *("system", "settings", "cpu_per_node", "phase", "workload", "query_mode", "limit", "arrivals"),
    *("records", "scale_factor", "operations", "drivers", "experiment"),
)
#: Where fewer of a configuration's statements have their connections already, opening one is its steady state
#: (`citus.max_cached_conns_per_worker = 0`, a client that connects for each statement).
_FEWEST_STEADY: Final = 0.05
_SELECTING: Final = object()


@dataclass(frozen=True, repr=False)
class SelectedStatements(Shown):
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
            raise UsageError("statements of a page come from select_statements", way_out="pass its result")

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
        means |= {"latency_us": "between"}
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
    setup = selection.runs.lazy().select(_SETUP)
    statements = lazy_table(dataset, "statements").filter(on_data)
    found = statements.join(setup, on=_RUN, maintain_order="left").collect()
    # Statements before the measured window are a part of their session's start, too.
    window = within_measured(found.with_columns(_number=number_in_sessions(found)), selection.runs)
    if window.rows.is_empty() and window.outside:
        raise InsufficientDataError(
            f"all {window.outside} sampled statements of these runs began before or ended after the time in which all "
            "main clients ran",
            way_out="let the main clients run longer, or the sampled client end with them",
        )
    if window.rows.is_empty():
        raise InsufficientDataError("no sampled statements in these runs", way_out="see the table statements")
    # Statements that another node did not serve opened no connection.
    runs = window.rows.filter(pl.col("executed") != "local").select(_RUN).unique()
    stated = _stating_runs(dataset).join(runs, on=_RUN, how="semi")
    others = runs.join(stated, on=_RUN, how="anti")
    openers = first_of_connections(lazy_table(dataset, "spans").join(others.lazy(), on=_RUN, how="semi"))
    placed = _with_loads_apart(window.rows, selection.runs)
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


def _with_loads_apart(statements: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Statements whose `family` names the load, too, where runs of one family, size and kind differ in it.

    The load with the most runs of a family has the family's plain name.
    """
    kinds = statements.select(*_RUN, "statement_kind").unique()
    known = runs.with_columns(pl.col("operations").cast(pl.Int64)) if "operations" in runs.columns else runs
    every = kinds.join(known, on=_RUN)
    columns = [name for name in _NOT_POOLED if name in every.columns and every[name].n_unique() > 1]
    cell = ["family", "workers", "threads", "statement_kind"]
    if not columns:
        return statements
    counts = every.with_columns(_runs=pl.len().over("family", "statement_kind", *columns))
    parts = []
    for _, part in counts.sort(*cell, nulls_last=True).group_by(cell, maintain_order=True):
        loads = part.group_by(columns).agg(pl.col("_runs").first()).sort(pl.col("_runs"), *columns, nulls_last=True)
        loads = loads.reverse()
        parts.append(part.join(_named_loads(loads), on=columns, how="left", nulls_equal=True))
    parts_apart = pl.concat(parts).filter(pl.col("_load") != "")
    named = parts_apart.select(*_RUN, "statement_kind", "_load")
    joined = statements.join(named, on=[*_RUN, "statement_kind"], how="left", maintain_order="left")
    family = pl.concat_str(pl.col("family").replace("", None), "_load", separator=", ", ignore_nulls=True)
    return joined.with_columns(family=family).drop("_load")


def _named_loads(loads: pl.DataFrame) -> pl.DataFrame:
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
    names = series_names(shown.select(named)).to_list() if differ else [""] * loads.height
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
    same = [*_RUN, "statement_kind", "statement_fingerprint"]
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


def first_of_connections(spans: pl.LazyFrame) -> pl.Series:
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


def _stating_runs(dataset: TableSource) -> pl.DataFrame:
    """resource, run_id: runs in whose logs connections between nodes have records."""
    made = lazy_table(dataset, "log_events").filter(pl.col("kind") == "connect")
    return made.select(_RUN).drop_nulls().unique().collect(engine="streaming")
