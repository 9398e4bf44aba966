"""Tasks that no record reports, from the contents of statements and children.

Citus reports tasks only where `log_min_messages` is low enough, and executors to come may not report all of them. A
child of which no task is reported belongs to a statement of its session that has the same values, reports neither tasks
nor local executions, and was running at the time: such a statement is given one *unreported* task for each shard that a
child with its values used. Its begin and end bound the task's, whose duration is unknown.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.spans.match.contents import NO_VALUES

_STREAM: Final = ("gpid", "child_node", "stream_shard")

#: Whether a row of tasks is not reported by a record.
UNREPORTED: Final = pl.col("task_us").is_null()


def is_silent() -> pl.Expr:
    """Whether an execution of a parent does not say where its statement was executed."""
    says = pl.col("has_tasks") | pl.col("has_locals") | pl.col("failed") | pl.col("is_child")
    return pl.col("opened") & pl.col("closed") & ~says & (pl.col("values_hash") != NO_VALUES)


def with_unreported(tasks: pl.DataFrame, children: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Tasks with the possible tasks of statements that report none, in the order of the executions.

    Args:
        tasks: with `stream_shard`.
        children: `gpid`, `child_node`, `stream_shard`, `values_hash` and `failed`.
        executions: as in :class:`~citus_analysis.spans.read.sessions.Sessions`.

    Returns:
        The tasks; those that no record reports have no `task_us`, `shard_id` and `byte_offset`, and the begin of their
        statement in `start_time`.
    """
    silent = executions.filter(is_silent() & pl.col("gpid").is_not_null())
    if silent.is_empty():
        return tasks
    ran = children.filter(~pl.col("failed")).group_by(_STREAM).len("ran")
    more = ran.join(tasks.group_by(_STREAM).len("sent"), on=_STREAM, how="left", nulls_equal=True)
    more = more.filter(pl.col("ran") > pl.col("sent").fill_null(0))
    alone = children.join(more, on=_STREAM, how="semi").filter(pl.col("values_hash") != NO_VALUES)
    wanted = alone.select(*_STREAM, "values_hash").unique()
    found = silent.join(wanted, on=["gpid", "values_hash"], how="inner").select(
        *("execution", "source", "pid", "values_hash", "gpid", "child_node", "stream_shard", "failed", "is_child"),
        "end_time",
        parent_node="node",
        start_time=pl.coalesce("start_time", "opener_time"),
        statement_source="source",
        statement_offset=pl.coalesce("byte_offset", "last_offset"),
        statement_seq="session_seq",
        session=pl.lit(0, tasks.schema["session"]),
        anchored=pl.lit(value=False),
    )
    return pl.concat([tasks, found.cast({"statement_seq": tasks.schema["statement_seq"]})], how="diagonal").sort(
        "execution", maintain_order=True
    )
