"""Parent tasks and the child statements that ran them.

A child's gpid names the parent's session, not its statement. Within one *stream* (gpid, child node, shard) a
session runs one statement after the other, so its n-th task belongs to the n-th statement that the child node
logged for it. That needs no clock, but it needs both sequences to be complete from their beginning.
"""

from __future__ import annotations

from typing import Final

import polars as pl

__all__ = ["STREAM", "child_statements", "pair_by_order"]

STREAM: Final = ("gpid", "child_node", "shard_id")


def child_statements(executions: pl.DataFrame) -> pl.DataFrame:
    """The statements that children ran on shards, in the order in which their node logged them.

    A statement that failed has no task record. One that never ended has none either if its connection broke, so
    it stays only as the last of its stream.
    """
    ordered = (
        executions.filter(pl.col("is_child") & pl.col("opened") & pl.col("shard_id").is_not_null())
        .with_columns(child_node=pl.col("node"))
        .sort(*STREAM, "source", "opener_offset")
    )
    last = pl.int_range(pl.len()).reverse().over(STREAM) == 0
    return ordered.filter(~pl.col("failed") & (pl.col("closed") | last))


def pair_by_order(tasks: pl.DataFrame, children: pl.DataFrame) -> pl.DataFrame:
    """Pair the n-th task of each stream with its n-th child.

    Args:
        tasks: tasks of :class:`~citus_analysis.spans.sessions.Sessions`.
        children: result of :func:`child_statements`.

    Returns:
        `tasks` with `task` (row number), `child` (execution of the child, null without one) and `proven`: both
        sequences are complete up to this pair.
    """
    position = pl.int_range(pl.len(), dtype=pl.UInt32).over(STREAM).alias("position")
    complete = pl.col("anchored").cast(pl.UInt8).cum_min().over(STREAM) == 1
    numbered = tasks.with_row_index("task").with_columns(position, parent_complete=complete)
    numbered_children = children.select(*STREAM, position, child=pl.col("execution"), child_complete=complete)
    return (
        numbered.join(numbered_children, on=[*STREAM, "position"], how="left", maintain_order="left")
        .with_columns(proven=(pl.col("parent_complete") & pl.col("child_complete")).fill_null(value=False))
        .drop("parent_complete", "child_complete")
    )
