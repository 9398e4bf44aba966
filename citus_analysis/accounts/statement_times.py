"""Times of statements by run, kind, place of execution and nodes: what an account of a difference is made of."""

from __future__ import annotations

from typing import Final

import polars as pl

#: What names a run in all tables.
RUN: Final = ("resource", "run_id")
#: Part of T, in the order in which a statement passes them -> where the time passed, in words.
SEGMENT_WORDS: Final = {
    "parse_us": "parsing on the parent",
    "bind_us": "binding on the parent",
    "connect_us": "making connections",
    "parent_us": "executing on the parent",
    "between_us": "between parent and child",
    "commit_us": "between parent and child (commit included)",
    "child_us": "in the child",
    "unseen_us": "waiting for children that no log shows",
}
#: Those of the child and between are of the child's node.
SEGMENTS: Final = tuple(SEGMENT_WORDS)
#: Segments that pass on the child's node, or on the way to it.
OF_CHILD: Final = frozenset({"between_us", "commit_us", "child_us", "unseen_us"})
#: Statements of one cell are alike but for their times.
CELL: Final = ("statement_kind", "statement_fingerprint", "executed", "node", "child_node")
_COLUMNS: Final = (
    *("trace_id", "resource", "run_id", "start_time", "end_time", "node", "statement_kind", "statement_fingerprint"),
    *("executed", "total_us", "parse_us", "bind_us", "connect_us", "wait_us", "child_us", "shard_id", "source_id"),
    "byte_offset",
)


def statement_times(statements: pl.LazyFrame, spans: pl.LazyFrame) -> pl.LazyFrame:
    """Statements with the node of their child and the parts of T; the parts add up to `total_us`.

    Of a statement with several tasks, the child is the one on its critical path: the connection whose tasks took
    longest together. Statements that failed, and those whose T is not known, are left out.

    Args:
        statements: the table `statements`.
        spans: the table `spans`.
    """
    known = statements.filter(pl.col("total_us").is_not_null() & ~pl.col("failed")).select(_COLUMNS)
    placed = known.join(_children(spans), on="trace_id", how="left", maintain_order="left")
    wait = pl.col("wait_us").fill_null(0.0)
    seen = pl.col("child_us").is_not_null() & pl.col("child_node").is_not_null()
    between = pl.when(seen).then(wait - pl.col("child_us")).otherwise(0.0)
    hides_commit = pl.col("hides_commit").fill_null(value=False)
    before = [pl.col(name).fill_null(0.0) for name in ("parse_us", "bind_us", "connect_us")]
    divided = placed.with_columns(
        *before,
        between_us=pl.when(hides_commit).then(0.0).otherwise(between),
        commit_us=pl.when(hides_commit).then(between).otherwise(0.0),
        child_us=pl.when(seen).then("child_us").otherwise(0.0),
        unseen_us=pl.when(seen).then(0.0).otherwise(wait),
        child_node=pl.when(wait > 0).then("child_node"),
    )
    others = [name for name in SEGMENTS if name != "parent_us"]
    return divided.with_columns(parent_us=pl.col("total_us") - pl.sum_horizontal(others)).drop("wait_us")


def _children(spans: pl.LazyFrame) -> pl.LazyFrame:
    """trace_id, child_node, hides_commit: the child on the critical path of each statement."""
    remote = spans.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null()).select(
        "trace_id", "parent_span_id", "pid", child_node="node", hides_commit=~pl.col("includes_commit")
    )
    tasks = spans.filter(pl.col("kind") == "task").select(parent_span_id="span_id", task_us="duration_us")
    several = pl.len().over("trace_id") > 1
    alone = remote.filter(~several).select("trace_id", "child_node", "hides_commit")
    lanes = (
        remote.filter(several)
        .join(tasks, on="parent_span_id", how="left")
        .group_by("trace_id", "child_node", "pid")
        .agg(pl.col("task_us").sum(), pl.col("hides_commit").first())
        .sort("task_us", "child_node", "pid", descending=[True, False, False])
        .unique("trace_id", keep="first", maintain_order=True)
    )
    return pl.concat([alone, lanes.select(alone.collect_schema().names())])
