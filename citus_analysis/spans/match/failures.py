"""The failed statement that a failed child belongs to.

A task that failed leaves no task record, so the stream cannot pair it. A failed child belongs to the failed statement
of its gpid that was running at the time. If the clocks are not known, the n-th child belongs to the n-th statement,
provided that there are equally many of both and all children ran on one node. Such links are `inferred`.

A child whose task is not reported for another reason is linked in the same way by its content
(:mod:`citus_analysis.spans.match.unreported`).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.match.clocks import TOLERANCE_US
from citus_analysis.spans.match.matching import Clocks, Matching
from citus_analysis.spans.match.pairing import microseconds
from citus_analysis.spans.read.sessions import Sessions, place

#: Columns of the links of statements with children without a task.
LINK: Final[dict[str, pl.DataType]] = {
    "execution": pl.UInt32(),
    "child": pl.UInt32(),
    "shard_id": pl.Int64(),
    "match": TABLES["spans"]["match"].dtype,
    "proof": TABLES["spans"]["proof"].dtype,
    "child_us": pl.Float64(),
    "child_extended": pl.Boolean(),
}


def link_failures(sessions: Sessions, clocks: Clocks) -> pl.DataFrame:
    """Failed statements without a task with failed children: the columns of :data:`LINK`, sorted."""
    failed = sessions.executions.filter(pl.col("failed") & pl.col("opened") & pl.col("gpid").is_not_null())
    without_task = failed.filter(~pl.col("is_child") & ~pl.col("has_tasks") & ~pl.col("has_locals"))
    statements = without_task.select(
        *("gpid", "execution"),
        parent_node="node",
        begin=microseconds(pl.coalesce("start_time", "opener_time")),
        end=microseconds("end_time"),
        number=pl.int_range(pl.len()).over("gpid"),
    )
    children = failed.filter(pl.col("is_child") & pl.col("shard_id").is_not_null()).select(
        *("gpid", "shard_id"),
        child="execution",
        child_node="node",
        place=place("opener_offset"),
        child_begin=microseconds("opener_time"),
        child_end=microseconds("end_time"),
    )
    none = pl.DataFrame(schema=LINK)
    if statements.is_empty() or children.is_empty():
        return none
    by_time = _by_time(statements, children, clocks)
    nodes = sorted({child for _, child in (*clocks.exact, *clocks.guessed)})
    known = pl.DataFrame({"child_node": nodes}, schema={"child_node": pl.Categorical})
    rest = children.join(by_time, on="child", how="anti").join(known, on="child_node", how="anti")
    # Without a known offset, statements and children of one node are paired in order if they are equally many.
    alone = rest.filter(pl.col("child_node").n_unique().over("gpid") == 1).sort("gpid", "place")
    numbered = alone.with_columns(number=pl.int_range(pl.len()).over("gpid"), count=pl.len().over("gpid"))
    by_order = statements.with_columns(count=pl.len().over("gpid")).join(numbered, on=["gpid", "number", "count"])
    links = pl.concat([by_time, by_order.select("execution", "child", "shard_id")])
    # A statement that two children claim is claimed by neither.
    sure = links.filter(pl.len().over("execution") == 1, pl.len().over("child") == 1).sort("execution")
    return pl.concat([none, sure.with_columns(match=pl.lit("inferred", LINK["match"]))], how="diagonal")


def link_unreported(matching: Matching) -> pl.DataFrame:
    """Statements that report no task with their children: the columns of :data:`LINK`, sorted."""
    found = matching.unreported
    return found.select(
        *("execution", "child", "match", "proof", "child_extended"),
        shard_id="stream_shard",
        child_us="child_duration_us",
    ).select(list(LINK))


def _by_time(statements: pl.DataFrame, children: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    lines = {**clocks.guessed, **clocks.exact}
    offsets = pl.DataFrame(
        [(parent, child, line.offset) for (parent, child), line in lines.items()],
        schema={"parent_node": pl.Categorical, "child_node": pl.Categorical, "offset": pl.Float64},
        orient="row",
    )
    both = statements.join(children, on="gpid", how="inner").join(
        offsets, on=["parent_node", "child_node"], how="inner"
    )
    inside = (pl.col("child_begin") - pl.col("offset") >= pl.col("begin") - TOLERANCE_US) & (
        pl.col("child_end") - pl.col("offset") <= pl.col("end") + TOLERANCE_US
    )
    return both.filter(inside).select("execution", "child", "shard_id")
