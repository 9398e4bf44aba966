"""What both sides of a difference can see: evidence that one side alone has is cut, or the difference is not divided.

A term compares the same quantity on both sides. A log, a kind of client or short statements that only one side recorded
would make it a comparison of two quantities, and a false cause. So

- a node whose log one side lacks is left out as a parent on both sides, and times of children on it are not divided
  into those of the child and those between parent and child;
- where one side does not show on which node statements of a kind ran, their times are compared as a whole;
- where one side logged the statements of all clients and the other those of the sampled client, or one side logged all
  statements and the other those above a duration, the difference is not divided.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.core.type_aliases import Floats
from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS

_RUN: Final = ("resource", "run_id")
#: Parts of the time that a parent waits for a child; they are told apart by the child's log.
WAITING: Final = ("between_us", "commit_us", "child_us", "unseen_us")
#: The other parts of T.
_OF_PARENT: Final = ("parse_us", "bind_us", "connect_us", "parent_us")
#: Share of the statements with a child on a node whose child may lack a record by chance: lines at the ends of logs.
_FEW_UNSEEN: Final = 0.02
#: Numbers of statements per operation of two sides that differ by less than this factor may be alike.
_ALIKE: Final = 1.25
#: So many times as many sessions show that more clients were logged.
_MORE_SESSIONS: Final = 1.3
#: Durations above which servers are made to log statements, as digits; and what shows that one was set: no duration is
#: below it, some are just above it, and the other side has many below it.
_ROUND: Final = (1.0, 2.0, 2.5, 3.0, 5.0)
_JUST_ABOVE: Final = (1.02, 1.1)
_SHARE_JUST_ABOVE: Final = 0.03
_SHARE_BELOW: Final = 0.05
_FEWEST: Final = 50


@dataclass(frozen=True)
class CommonEvidence:
    """Statements of both sides, cut to what both show.

    Attributes:
        timed: statements with their segments, of base and other.
        unseen_parents: nodes whose statements are left out.
        notes: what was cut, in sentences.
    """

    timed: tuple[pl.DataFrame, pl.DataFrame]
    unseen_parents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find_task_nodes(source: TableSource, runs: pl.DataFrame | None = None) -> pl.DataFrame:
    """The node to which each task was sent, as its parent's log names it.

    Args:
        source: a dataset.
        runs: rows of `runs`; None: all records.

    Returns:
        `source_id`, `byte_offset`, `run_id`, `task_node`.
    """
    events = scan_source_table(source, "log_events").filter(pl.col("worker_host").is_not_null())
    if runs is not None:
        events = events.filter(pl.col("run_id").is_in(runs["run_id"].implode()))
    address = {"host": pl.col("worker_host").cast(pl.String), "port": pl.col("worker_port")}
    tasks = events.select("source_id", "byte_offset", *_RUN, **address).collect()
    nodes = convert_to_polars(source.table("nodes")).drop_nulls(["node", "host"])
    known = nodes.select("resource", "host", "port", task_node=pl.col("node").cast(pl.String)).unique(
        ["resource", "host", "port"], keep="first"
    )
    placed = tasks.join(known, on=["resource", "host", "port"], how="left", maintain_order="left")
    return placed.select(pl.col("source_id").cast(pl.String), "byte_offset", "run_id", "task_node")


def find_absent_logs(source: TableSource, runs: pl.DataFrame, task_nodes: pl.DataFrame) -> pl.DataFrame:
    """`run_id`, `node`: nodes to which tasks of a run were sent, and of which the run has no record of a log.

    Args:
        source: a dataset.
        runs: rows of `runs`.
        task_nodes: as :func:`find_task_nodes` gives them.
    """
    asked = task_nodes.drop_nulls("task_node").select("run_id", node="task_node").unique()
    return asked.join(_find_logging_nodes(source, runs), on=["run_id", "node"], how="anti")


def _find_logging_nodes(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """`run_id`, `node`: those with records."""
    return (
        scan_source_table(source, "log_events")
        .filter(pl.col("run_id").is_in(runs["run_id"].implode()))
        .select("run_id", pl.col("node").cast(pl.String))
        .unique()
        .collect()
    )


def leave_out_runs_without_logs(
    table: pl.DataFrame, absent: pl.DataFrame, label: str
) -> tuple[pl.DataFrame, frozenset[str], list[str]]:
    """The runs of a side that have the logs of all their nodes, if these are most; else all, and the nodes without.

    Args:
        table: the side's runs.
        absent: as :func:`find_absent_logs` gives it.
        label: the side's name.

    Returns:
        The runs that are used, the nodes of which they lack logs, and what was left out, in sentences.
    """
    if absent.is_empty():
        return table, frozenset(), []
    whole = table.join(absent.select("run_id").unique(), on="run_id", how="anti", maintain_order="left")
    if whole.height >= max(2, table.height / 2):
        left = pluralize(table.height - whole.height, "run")
        return whole, frozenset(), [f"{left} of {label} without the log of one of the nodes left out"]
    return table, frozenset(absent["node"]), []


def find_unlogged_parents(
    sources: Sequence[TableSource],
    tables: Sequence[pl.DataFrame],
    timed: Sequence[pl.DataFrame],
    per_operation: Sequence[Floats],
) -> tuple[frozenset[str], frozenset[str]]:
    """Of each side, nodes without a log that sent statements on the other side, if operations lack statements.

    Where no task names nodes, this alone tells a missing log from a node that clients did not use.

    Args:
        sources: datasets of base and other.
        tables: their runs.
        timed: their statements.
        per_operation: statements per operation of each run of both sides; nan where these are not known.
    """
    found = []
    for mine, theirs in ((0, 1), (1, 0)):
        complete = np.isfinite(per_operation[theirs]).any() and not np.isfinite(per_operation[mine]).all()
        sending = set(timed[theirs]["node"].drop_nulls()) if complete else set()
        logging = set(_find_logging_nodes(sources[mine], tables[mine])["node"].drop_nulls()) if sending else set()
        found.append(frozenset(sending - logging))
    return found[0], found[1]


def cut_to_common_evidence(
    timed: tuple[pl.DataFrame, pl.DataFrame],
    absent: tuple[frozenset[str], frozenset[str]],
    labels: tuple[str, str],
    *,
    spread: bool = False,
) -> CommonEvidence:
    """Statements of both sides with what both can see of them.

    Args:
        timed: statements with their segments and `unseen_child`, of base and other.
        absent: nodes of which each side lacks logs.
        labels: names of the sides.
        spread: whether statements of both sides ran on several nodes, as those of Citus do.
    """
    notes = []
    unplaced = _find_unplaced_statements(timed, spread=spread)
    if unplaced.height:
        notes.append(
            "times of statements are not divided, and their places not compared, where the logs of one side or both do "
            "not show where they ran"
        )
        timed = tuple(_merge_whole(side, unplaced) for side in timed)  # type: ignore[assignment] # two in, two out
    for nodes, label in zip(absent, labels, strict=True):
        if nodes:
            notes.append(f"{label} has no log of {_name_nodes(nodes)}")
    either = absent[0] | absent[1]
    sending = set().union(*(side["node"].drop_nulls().cast(pl.String) for side in timed))
    parents = tuple(sorted(either & sending))
    if parents:
        notes.append(f"statements that {_name_nodes(parents)} received are left out on both sides")
        timed = tuple(
            side.filter(~pl.col("node").cast(pl.String).is_in(parents).fill_null(value=False)) for side in timed
        )  # type: ignore[assignment] # two sides in, two out
    for one, words in _find_undivided(timed, either):
        notes.append(words)
        timed = tuple(_merge_waiting(side, one) for side in timed)  # type: ignore[assignment] # two sides in, two out
    return CommonEvidence(timed, parents, tuple(notes))


_KIND: Final = ("statement_kind", "statement_fingerprint")


def _find_unplaced_statements(timed: tuple[pl.DataFrame, pl.DataFrame], *, spread: bool) -> pl.DataFrame:
    """Kinds of statements of which it is not known on both sides alike where they ran.

    Without the text of what was executed, nobody knows whether the time passed on the parent or on others.
    """
    hidden = pl.col("executed").is_null().mean()
    base, other = (side.group_by(_KIND).agg(hidden=hidden) for side in timed)
    both = base.join(other, on=_KIND, nulls_equal=True, suffix="_other")
    unlike = (pl.col("hidden") - pl.col("hidden_other")).abs() > _FEW_UNSEEN
    # Statements on data run on nodes; others, such as BEGIN, have no place.
    nowhere = pl.min_horizontal("hidden", "hidden_other") > _FEW_UNSEEN
    on_data = pl.col("statement_kind").cast(pl.String).is_in(DATA_STATEMENTS).fill_null(value=False)
    return both.filter(unlike | (pl.lit(spread) & on_data & nowhere)).select(_KIND)


def _merge_whole(rows: pl.DataFrame, unplaced: pl.DataFrame) -> pl.DataFrame:
    """The statements, those of some kinds without place and segments."""
    marked = unplaced.with_columns(_whole=pl.lit(value=True))
    joined = rows.join(marked, on=_KIND, how="left", nulls_equal=True, maintain_order="left")
    chosen = pl.col("_whole").fill_null(value=False)
    emptied = [pl.when(chosen).then(0.0).otherwise(name).alias(name) for name in (*_OF_PARENT, *WAITING)]
    places = [pl.when(~chosen).then(name).alias(name) for name in ("executed", "child_node", "shard_id")]
    whole = pl.when(chosen).then(pl.col("total_us").cast(pl.Float64)).otherwise("whole_us").alias("whole_us")
    return joined.with_columns(*emptied, *places, whole, unseen_child=pl.col("unseen_child") & ~chosen).drop("_whole")


def _name_nodes(nodes: Collection[str]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {join_words(sorted(nodes))}"


_SEVERAL: Final = (pl.col("executed").cast(pl.String) == "multi_shard").fill_null(value=False)
_WAITED: Final = pl.sum_horizontal(WAITING) > 0


def _find_undivided(
    timed: tuple[pl.DataFrame, pl.DataFrame], absent: frozenset[str]
) -> list[tuple[tuple[pl.Expr, bool], str]]:
    """Statements whose waiting times are not divided, whether their child's node is known, and why, in words."""
    alone = [side.filter(_WAITED & ~_SEVERAL) for side in timed]
    several = [side.filter(_WAITED & _SEVERAL) for side in timed]
    found: list[tuple[tuple[pl.Expr, bool], str]] = []
    unseen = pl.col("unseen_child").mean()
    nowhere = (pl.col("child_node").is_null() & pl.col("unseen_child")).mean()
    if any(_share(side, nowhere) > _FEW_UNSEEN for side in alone):
        if min(_share(side, unseen) for side in alone) < 1 - _FEW_UNSEEN:
            found.append(((~_SEVERAL, False), "the nodes of some children are not known: children are not told apart"))
    else:
        nodes = set(absent)
        for side in alone:
            by_node = side.group_by(pl.col("child_node").cast(pl.String)).agg(share=unseen)
            nodes |= set(by_node.filter(pl.col("share") > _FEW_UNSEEN)["child_node"].drop_nulls())
        nodes &= set().union(*(side["child_node"].drop_nulls().cast(pl.String) for side in timed))
        if nodes:
            words = (
                f"times of children on {_name_nodes(nodes)} are not divided into the child's and those between parent "
                "and child, because the logs of one side or both do not show these children"
            )
            chosen = ~_SEVERAL & pl.col("child_node").cast(pl.String).is_in(sorted(nodes)).fill_null(value=False)
            found.append(((chosen, True), words))
    if any(_share(side, unseen) > _FEW_UNSEEN for side in several):
        words = (
            "waiting times of statements on several shards are not divided, because not all of their children are seen"
        )
        found.append(((_SEVERAL, False), words))
    return found


def _share(rows: pl.DataFrame, mean: pl.Expr) -> float:
    value = rows.select(mean).item() if rows.height else None
    return float(value) if value is not None else 0.0


def _merge_waiting(rows: pl.DataFrame, merged: tuple[pl.Expr, bool]) -> pl.DataFrame:
    chosen, placed = merged
    kept = [pl.when(chosen).then(0.0).otherwise(name).alias(name) for name in WAITING[:-1]]
    whole = pl.when(chosen).then(pl.sum_horizontal(WAITING)).otherwise("unseen_us").alias("unseen_us")
    node = pl.col("child_node") if placed else pl.when(~chosen).then("child_node").alias("child_node")
    return rows.with_columns(*kept, whole, node)


@dataclass(frozen=True)
class SampledStatements:
    """How many statements of whom a side logged.

    Attributes:
        statements: traced statements.
        sessions: sessions that they are of.
        of_monitor: operations of the sampled client; 0 if there is none, or it reported none.
        of_all: operations of all clients.
    """

    statements: int
    sessions: int
    of_monitor: int
    of_all: int

    def count_per_operation(self, operations: int) -> float:
        """Statements for each operation; nan if these are not known."""
        return self.statements / operations if operations else float("nan")


def count_sampled_statements(source: TableSource, table: pl.DataFrame, timed: pl.DataFrame) -> SampledStatements:
    """Count the statements of a side, and the operations of its clients."""
    latencies = convert_to_polars(source.table("operation_latencies"))
    mine = latencies.join(table.select(_RUN), on=_RUN, how="semi")
    monitor = mine.filter(pl.col("role").cast(pl.String) == "monitor")["operations"].sum()
    sessions = timed.select(*_RUN, "node", "pid").n_unique() if timed.height else 0
    return SampledStatements(timed.height, sessions, int(monitor or 0), int(mine["operations"].sum() or 0))


def explain_unlike_clients(sides: tuple[SampledStatements, SampledStatements], labels: tuple[str, str]) -> str:
    """Why the statements are of unlike clients, as one side logged all and the other the sampled one; empty if not.

    Example:
        >>> sampled, every = SampledStatements(300, 4, 310, 3310), SampledStatements(3290, 36, 305, 3300)
        >>> explain_unlike_clients((sampled, every), ("before", "after"))
        'after logged the statements of all clients (3,290), before those of the sampled client alone (300)'
        >>> explain_unlike_clients((sampled, sampled), ("before", "after"))
        ''
    """
    for few, many in ((0, 1), (1, 0)):
        sampled, every = sides[few], sides[many]
        usual = sampled.count_per_operation(sampled.of_monitor)
        of_all = every.count_per_operation(every.of_all)
        of_monitor = every.count_per_operation(every.of_monitor) if every.of_monitor else float("inf")
        alike = usual / _ALIKE <= of_all <= usual * _ALIKE
        if alike and of_monitor > _ALIKE * usual and every.sessions > _MORE_SESSIONS * sampled.sessions:
            return (
                f"{labels[many]} logged the statements of all clients ({every.statements:,}), {labels[few]} those of "
                f"the sampled client alone ({sampled.statements:,})"
            )
    return ""


def explain_unlike_thresholds(durations_us: tuple[Floats, Floats], labels: tuple[str, str]) -> tuple[str, float]:
    """Why short statements are logged on one side only, and the duration (µs) from which both log them.

    A threshold shows by the durations themselves: all are at least a round number of milliseconds, many are just above
    it, and the other side has many below it.

    Example:
        >>> every = np.random.default_rng(1).lognormal(9.2, 0.7, 400)
        >>> explain_unlike_thresholds((every, every[every >= 10_000]), ("before", "after"))
        ('after logged only statements of at least 10 ms, before also shorter ones', 10000.0)
        >>> explain_unlike_thresholds((every, every * 3), ("before", "after"))
        ('', 0.0)
    """
    for long, short in ((0, 1), (1, 0)):
        least_us = find_duration_threshold(durations_us[long])
        if least_us and float(np.mean(durations_us[short] < least_us)) > _SHARE_BELOW:
            words = f"{labels[long]} logged only statements of at least {least_us / US_PER_MS:g} ms"
            return f"{words}, {labels[short]} also shorter ones", least_us
    return "", 0.0


def find_duration_threshold(durations_us: Floats) -> float:
    """The duration (µs) above which statements were logged, as durations show it; 0 if they show none.

    Example:
        >>> find_duration_threshold(np.random.default_rng(1).exponential(10_000, 500) + 5_000)
        5000.0
    """
    if durations_us.size < _FEWEST:
        return 0.0
    least_ms = float(durations_us.min()) / US_PER_MS
    if least_ms < 1:
        return 0.0
    power = 10.0 ** np.floor(np.log10(least_ms))
    at_ms = max(digit * power for digit in _ROUND if digit * power <= least_ms)
    near, above = (factor * at_ms for factor in _JUST_ABOVE)
    crowded = float(np.mean(durations_us <= above * US_PER_MS)) >= _SHARE_JUST_ABOVE
    return float(at_ms * US_PER_MS) if least_ms <= near and crowded else 0.0


def have_own_texts(source: TableSource, timed: pl.DataFrame) -> bool:
    """Whether durations and texts of statements are in one record, as log_min_duration_statement writes them.

    Under log_duration, a duration has no text, and all statements are logged however short.
    """
    rows = timed.select(pl.col("source_id").cast(pl.String), "byte_offset")
    records = (
        scan_source_table(source, "log_events")
        .filter(pl.col("duration_us").is_not_null() & pl.col("statement_fingerprint").is_not_null())
        .select(pl.col("source_id").cast(pl.String), "byte_offset")
    )
    return bool(records.join(rows.lazy(), on=["source_id", "byte_offset"], how="semi").limit(1).collect().height)
