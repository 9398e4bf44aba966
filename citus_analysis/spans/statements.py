"""The profile of each statement execution: how its time divides into parts.

T is the sum of a statement's protocol phases, W the time it waited for tasks, C the time that the children reported,
P = T - W the parent's own time, and L = W - C the time that neither reports: network, queueing, connection handling.

The first statement of a session that needs a node waits until a connection is made, before its task begins. This
takes milliseconds, in which nothing is computed; they are the part `connect_us` of P.

For several tasks, W is the time during which at least one was running. Records have times of 1 ms resolution, so the
overlap of tasks is known to 1 ms only, and P has bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.core.arrow_arrays import make_number_array
from citus_analysis.schema import DATA_STATEMENTS, TABLES, WRITING_STATEMENTS
from citus_analysis.spans.clocks import RESOLUTION_US
from citus_analysis.spans.executions import PHASES, Sessions, make_column_frame
from citus_analysis.spans.identifiers import Identifiers
from citus_analysis.spans.ordered_arrays import (
    Indices,
    changes,
    find_group_starts,
    is_single_value,
    join_executions,
    number_groups,
)

_MATCH: Final = TABLES["statements"]["match"].dtype
_COLUMNS: Final = (
    "execution", "trace_id", "pid", "gpid", "session_seq", "statement_kind", "statement_fingerprint", "protocol",
    "child_protocol", "executed", "shard_id", "tasks", "start_time", "end_time", "parse_us", "bind_us",
    "execute_us", "total_us", "parent_us", "connect_us", "parent_low_us", "parent_high_us", "wait_us", "child_us",
    "between_us", "slowest_task_us", "median_task_us", "match", "includes_commit", "failed", "source", "byte_offset",
)  # fmt: skip
_EXECUTED: Final = TABLES["statements"]["executed"].dtype
_PROTOCOL: Final = TABLES["statements"]["protocol"].dtype
_CHILD_PROTOCOL: Final = TABLES["statements"]["child_protocol"].dtype
_STATEMENT_KIND: Final = TABLES["statements"]["statement_kind"].dtype


def build_statement_profile(
    sessions: Sessions, pairs: pl.DataFrame, links: pl.DataFrame, identifiers: Identifiers, *, distributed: bool
) -> pl.DataFrame:
    """One row per parent statement with its profile.

    Args:
        sessions: the sessions' executions, phases and local shard statements.
        pairs: tasks with their children.
        links: children of statements without a task (:data:`~citus_analysis.spans.matching.LINK`).
        identifiers: makes trace ids.
        distributed: the servers form a cluster; otherwise every statement on data is executed locally.

    Returns:
        Columns of table `statements` with `source` in place of `source_id`, and `execution`.
    """
    parents = sessions.executions.filter(_IS_PARENT).with_columns(REPORTED_AT)
    parents = parents.with_columns(trace_id=identifiers.of(parents, "trace"))
    locals_ = sessions.locals.group_by("execution").agg(_LOCALS)
    linked = links.group_by("execution", maintain_order=True).agg(_LINKED)
    joined = parents.drop("shard_id")
    for facts in (_sum_phase_times(sessions.phases), locals_, _compute_task_times(pairs), linked):
        joined = join_executions(joined, facts)
    for columns in _make_final_column_exprs(distributed=distributed):
        joined = joined.with_columns(**columns)
    return joined.select(_COLUMNS)


# Expressions are made once: a small iteration takes as long to make them as to evaluate them.
_IS_PARENT: Final = ~pl.col("is_child")
#: Where an execution was reported: at the record that closed it, else at its last record.
REPORTED_AT: Final = pl.coalesce("byte_offset", "last_offset").alias("byte_offset")
_LOCALS: Final = (pl.len().cast(pl.Int32).alias("local_tasks"), pl.col("shard_id").first().alias("local_shard"))
#: The link of a failed child has no proof, and none of its times counts.
_COUNTED_LINK: Final = pl.col("proof").is_not_null() | pl.col("child_us").is_not_null()
_LINKED: Final = (
    pl.col("shard_id").first().alias("linked_shard"),
    _COUNTED_LINK.sum().cast(pl.Int32).alias("linked_tasks"),
    # Enum order is exact, inferred, unmatched: the worst is the largest.
    pl.col("match").max().alias("linked_match"),
    pl.when(pl.len() == 1).then(pl.col("child_us").first()).alias("linked_us"),
    pl.col("child_extended").any(ignore_nulls=False).alias("linked_extended"),
)


@cache
def _make_final_column_exprs(*, distributed: bool) -> tuple[Mapping[str, pl.Expr], ...]:
    """The columns that are computed from the facts about each statement, in three steps."""
    alone = pl.col("statement_kind").is_in(make_kind_list_expr(DATA_STATEMENTS)) & pl.lit(not distributed)
    tasks = pl.col("local_tasks") + pl.col("remote_tasks") + pl.col("linked_tasks")
    total = pl.sum_horizontal("parse_us", "bind_us", "execute_us")
    # The union of task intervals is known to 1 ms only; the busiest lane and T bound it from both sides.
    union = pl.when(pl.col("union_us").is_not_null()).then(pl.min_horizontal("union_us", "execute_us"))
    # Where the children of tasks are unknown, tasks of several connections seem to be of one.
    lane = pl.when(pl.col("union_us").is_null()).then("lane_us").otherwise(pl.min_horizontal("lane_us", "execute_us"))
    wait = pl.max_horizontal(lane, union)
    counts = {name: pl.col(name).fill_null(0) for name in ("local_tasks", "remote_tasks", "linked_tasks")}
    reported = pl.col("linked_tasks") == 0
    times = {
        "tasks": tasks,
        "executed": _place_of_execution(tasks, alone),
        # If the log begins or ends within a statement, not all of its phases are known.
        "total_us": pl.when((pl.col("phases") > 0) & pl.col("opened") & pl.col("closed")).then(total),
        "wait_us": wait,
        "child_us": pl.coalesce("child_us", "linked_us"),
        "child_protocol": pl.coalesce("child_protocol", _make_child_protocol_expr(pl.col("linked_extended"))),
        "shard_id": pl.when(tasks <= 1).then(pl.coalesce("local_shard", "remote_shard", "linked_shard")),
        "match": _match_of_statement(alone),
        # Of a statement that only an error names, the protocol is unknown.
        "protocol": pl.when("extended")
        .then(pl.lit("extended", _PROTOCOL))
        .when(~pl.col("extended") | ~pl.col("failed"))
        .then(pl.lit("simple", _PROTOCOL)),
    }
    besides = pl.col("execute_us") - pl.col("wait_us")
    parts = {
        # Of tasks without a record, the parent's share is unknown.
        "parent_us": pl.when(~pl.col("failed") & reported).then(pl.col("total_us") - pl.col("wait_us").fill_null(0.0)),
        **_make_parent_bound_exprs(),
        "connect_us": _make_connecting_time_expr(besides),
        "between_us": pl.col("wait_us") - pl.col("child_us"),
        "includes_commit": _make_includes_commit_expr(),
    }
    return counts, times, parts


def make_kind_list_expr(words: Sequence[str]) -> pl.Expr:
    """Kinds of statements as a list for `is_in`, as codes, because codes are compared faster than texts."""
    return pl.lit(pl.Series(words, dtype=_STATEMENT_KIND)).implode()


def _place_of_execution(tasks: pl.Expr, alone: pl.Expr) -> pl.Expr:
    """`multi_shard`, `remote` or `local`; null for statements that touched no shard."""
    return (
        pl.when(tasks > 1)
        .then(pl.lit("multi_shard", _EXECUTED))
        .when((pl.col("remote_tasks") == 1) | pl.col("linked_shard").is_not_null())
        .then(pl.lit("remote", _EXECUTED))
        .when((pl.col("local_tasks") == 1) | alone)
        .then(pl.lit("local", _EXECUTED))
    )


def _match_of_statement(alone: pl.Expr) -> pl.Expr:
    """The match of the statement's tasks; local executions are exact, links without a task as certain as they say."""
    return (
        pl.when(pl.col("remote_tasks") > 0)
        .then("match")
        .when((pl.col("local_tasks") > 0) | alone)
        .then(pl.lit("exact", _MATCH))
        .otherwise("linked_match")
    )


def _make_connecting_time_expr(besides: pl.Expr) -> pl.Expr:
    """The time that it took to make connections: as the log says (DEBUG4), else what the tasks leave of the execution.

    Args:
        besides: time of the execute phase beside the tasks.
    """
    said = pl.min_horizontal(pl.col("connect_us").cast(pl.Float64), pl.max_horizontal(besides, 0.0))
    # A shorter time cannot be distinguished from the parent's own work.
    inferred = pl.when(pl.col("connects"), besides > RESOLUTION_US, ~pl.col("failed")).then(besides)
    return pl.when(pl.col("connect_us") > 0).then(said).when(pl.col("connect_us").is_null()).then(inferred)


def _make_parent_bound_exprs() -> dict[str, pl.Expr]:
    """The lower and the upper bound of P: the tasks overlapped as little, or as much, as their records allow."""
    several = (pl.col("remote_tasks") > 1) & ~pl.col("failed")
    return {
        "parent_low_us": pl.when(several).then(
            pl.col("total_us") - pl.max_horizontal(pl.min_horizontal("longest_us", "execute_us"), "lane_us")
        ),
        "parent_high_us": pl.when(several).then(pl.col("total_us") - pl.col("lane_us")),
    }


def _make_includes_commit_expr() -> pl.Expr:
    """Whether T contains the commit's WAL flush, which depends on the place of execution and the protocol.

    A remote single-shard statement commits on the child, inside the task. A local or multi-shard statement commits at
    the end of a simple query, and at Sync, after the execute phase, over the extended protocol. Within a transaction
    block only COMMIT commits.
    """
    kind = pl.col("statement_kind")
    in_block = pl.col("in_transaction")
    return (
        pl.when(kind == "commit")
        .then(pl.lit(value=True))
        .when(~kind.is_in(make_kind_list_expr(WRITING_STATEMENTS)) | pl.col("failed"))
        .then(None)
        .when(in_block)
        .then(pl.lit(value=False))
        .when(pl.col("executed") == "remote")
        .then(pl.lit(value=True))
        .otherwise(~pl.col("extended"))
    )


def _sum_phase_times(phases: pl.DataFrame) -> pl.DataFrame:
    """Per execution, the time of each phase; rows of an execution are adjacent."""
    execution = phases["execution"].to_numpy()
    first = find_group_starts(execution)
    number = number_groups(changes(execution)).astype(np.intp) - 1
    duration, phase = phases["duration_us"].to_numpy(), phases["name"].to_physical().to_numpy()
    times = {"execution": make_number_array(execution[first])}
    for code, name in enumerate(PHASES):
        rows = np.flatnonzero(phase == code)
        times[f"{name}_us"] = _sum_by_number(number[rows], duration[rows], len(first))
    return make_column_frame(times)


def _sum_by_number(number: Indices, values: NDArray[np.float64], count: int) -> pa.Array:
    """The sum of the values of each number below `count`; the values of a number are adjacent. Null without values."""
    first = find_group_starts(number)
    sums, known = np.zeros(count), np.zeros(count, np.bool_)
    sums[number[first]] = values if len(first) == len(values) else np.add.reduceat(values, first)
    known[number[first]] = True
    return make_number_array(sums, known)


def _compute_task_times(pairs: pl.DataFrame) -> pl.DataFrame:
    """Per statement: number of tasks, waiting time by lane and by union, children of the critical lane."""
    tasks = pairs.select(_TASK_FACTS)
    alone = is_single_value(tasks["execution"].to_numpy())
    if alone.all():
        facts = tasks.select(_ONE_TASK)
    else:
        one, several = tasks.filter(alone), tasks.filter(~alone)
        facts = pl.concat([one.select(_ONE_TASK), _compute_several_task_times(several)])
    # A connection is made for the first task that its session executes on a shard.
    connecting = pairs["execution"].filter(pairs["child_connects"])
    connects = np.isin(facts["execution"].to_numpy(), connecting.to_numpy())
    return facts.hstack([pl.Series("connects", connects)])


_TASK_FACTS: Final = (
    pl.col("execution", "task_us", "match", "child_node", "shard_id", "end_time", "child_pid", "child_extended"),
    pl.col("child_duration_us").alias("child_us"),
)


def _make_child_protocol_expr(extended: pl.Expr) -> pl.Expr:
    return (
        pl.when(extended)
        .then(pl.lit("binary", _CHILD_PROTOCOL))
        .when(~extended)
        .then(pl.lit("text", _CHILD_PROTOCOL))
        .alias("child_protocol")
    )


_LENGTH: Final = pl.col("task_us").cast(pl.Float64)
#: As :func:`_compute_several_task_times`, for statements with one task, whose W is the time of this task.
_ONE_TASK: Final = (
    pl.col("execution"),
    pl.lit(1, pl.Int32).alias("remote_tasks"),
    pl.col("shard_id").alias("remote_shard"),
    _LENGTH.alias("slowest_task_us"),
    _LENGTH.alias("median_task_us"),
    pl.col("match"),
    _make_child_protocol_expr(pl.col("child_extended")),
    _LENGTH.fill_null(0.0).alias("lane_us"),
    pl.col("child_us"),
    pl.lit(None, pl.Float64).alias("union_us"),
    pl.lit(None, pl.Float64).alias("longest_us"),
)


def _compute_several_task_times(tasks: pl.DataFrame) -> pl.DataFrame:
    counts = tasks.group_by("execution").agg(
        remote_tasks=pl.len().cast(pl.Int32),
        remote_shard=pl.col("shard_id").first(),
        slowest_task_us=pl.col("task_us").max().cast(pl.Float64),
        median_task_us=pl.col("task_us").median(),
        # Enum order is exact, inferred, unmatched: the worst is the largest.
        match=pl.col("match").max(),
        child_protocol=_make_child_protocol_expr(pl.col("child_extended").max()),
    )
    return counts.join(_compute_critical_lanes(tasks), on="execution", how="left").join(
        _compute_task_unions(tasks), on="execution", how="left"
    )


def _compute_critical_lanes(tasks: pl.DataFrame) -> pl.DataFrame:
    """Times of the connection that was busiest with a statement: its tasks run in sequence (the critical path)."""
    return (
        tasks.group_by("execution", "child_node", "child_pid")
        .agg(
            lane_us=pl.col("task_us").sum().cast(pl.Float64),
            child_us=pl.when(pl.col("child_us").is_not_null().all()).then(pl.col("child_us").sum()),
        )
        .sort("execution", "lane_us", "child_pid", descending=[False, True, False])
        .group_by("execution", maintain_order=True)
        .agg(pl.col("lane_us", "child_us").first())
    )


def _compute_task_unions(tasks: pl.DataFrame) -> pl.DataFrame:
    """Time during which at least one of several tasks was running, from record times of 1 ms resolution."""
    end, late = pl.col("end_time").cast(pl.Datetime("us", "UTC")).to_physical(), int(RESOLUTION_US)
    intervals = tasks.select("execution", start=end - pl.col("task_us"), end=end).sort("execution", "start")
    reached = pl.col("end").cum_max().shift(1).over("execution")
    gained = (pl.col("end") - pl.max_horizontal("start", reached.fill_null(pl.col("start")))).clip(0)
    # Each may have ended up to a millisecond later.
    longest = (pl.col("end") + late - pl.max_horizontal("start", (reached + late).fill_null(pl.col("start")))).clip(0)
    return (
        intervals.select("execution", gained=gained, longest=longest)
        .group_by("execution")
        .agg(union_us=pl.col("gained").sum().cast(pl.Float64), longest_us=pl.col("longest").sum().cast(pl.Float64))
    )
