"""How well tasks and child statements were paired, per pair of nodes."""

from __future__ import annotations

import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.sessions import GPID_NODE_FACTOR, Sessions

__all__ = ["match_quality"]


def match_quality(sessions: Sessions, nodes: pl.DataFrame, pairs: pl.DataFrame, children: pl.DataFrame) -> pl.DataFrame:
    """Counts of pairs, and of what stayed without a partner: table `match_quality` without identity columns.

    Args:
        sessions: what the sessions did.
        nodes: nodes of the resource.
        pairs: tasks with `child`, `match` and `ambiguous`.
        children: result of :func:`~citus_analysis.spans.matching.child_statements`.
    """
    match = pl.col("match").cast(pl.String)
    tasks = pairs.group_by("parent_node", "child_node").agg(
        tasks=pl.len(),
        exact=(match == "exact").sum(),
        inferred=(match == "inferred").sum(),
        unmatched_tasks=(match == "unmatched").sum(),
        ambiguous=pl.col("ambiguous").sum(),
    )
    owner = nodes.select("node", nodeid=pl.col("nodeid").cast(pl.Int64)).drop_nulls().unique("nodeid", keep="first")
    paired = pairs.select(execution="child").drop_nulls().with_columns(paired=pl.lit(value=True))
    kids = (
        children.with_columns(nodeid=pl.col("gpid") // GPID_NODE_FACTOR)
        .join(owner.select("nodeid", parent_node=pl.col("node").cast(pl.Categorical)), on="nodeid", how="left")
        .join(paired, on="execution", how="left")
        .group_by("parent_node", "child_node")
        .agg(children=pl.len(), unmatched_children=pl.col("paired").is_null().sum())
    )
    counts = ("tasks", "exact", "inferred", "unmatched_tasks", "ambiguous", "children", "unmatched_children")
    joined = tasks.join(
        kids, on=["parent_node", "child_node"], how="full", coalesce=True, nulls_equal=True
    ).with_columns(pl.col(counts).fill_null(0))
    identity = sessions.sources.select(pl.col("resource", "run_id", "iteration").first()).row(0, named=True)
    rated = joined.with_columns(pl.lit(value).alias(name) for name, value in identity.items()).with_columns(
        match_rate=pl.when(pl.col("tasks") > 0).then((pl.col("exact") + pl.col("inferred")) / pl.col("tasks")),
        warning=_warning(),
    )
    return TABLES["match_quality"].conform(rated).sort("parent_node", "child_node")


def _warning() -> pl.Expr:
    lost = pl.concat_str(
        pl.lit("log of node "),
        pl.col("child_node").cast(pl.String).fill_null("unknown"),
        pl.lit(" lacks the children of "),
        pl.col("unmatched_tasks").cast(pl.String),
        pl.lit(" tasks"),
    )
    orphans = pl.concat_str(
        pl.lit("log of node "),
        pl.col("parent_node").cast(pl.String).fill_null("unknown"),
        pl.lit(" lacks the tasks of "),
        pl.col("unmatched_children").cast(pl.String),
        pl.lit(" children"),
    )
    unsure = pl.concat_str(
        pl.col("inferred").cast(pl.String),
        pl.lit(" pairs are inferred: a log begins while sessions are under way or has gaps"),
    )
    parts = (
        pl.when(pl.col("unmatched_tasks") > 0).then(lost),
        pl.when(pl.col("unmatched_children") > 0).then(orphans),
        pl.when(pl.col("inferred") > 0).then(unsure),
    )
    text = pl.concat_str(*parts, separator="; ", ignore_nulls=True)
    return pl.when(text != "").then(text)
