"""The quality of the pairing of tasks and child statements, and the offsets of the clocks, per pair of nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.match.clocks import ClockLine
from citus_analysis.spans.match.matching import Clocks, Matching
from citus_analysis.spans.match.pairing import NodePair
from citus_analysis.spans.read.sessions import GPID_NODE_FACTOR
from citus_analysis.texts.counted_words import counted, counted_expr

__all__ = ["clock_offsets", "count_matches", "match_quality"]

_COUNTS: Final = ("tasks", "exact", "inferred", "unmatched_tasks", "ambiguous", "children", "unmatched_children")


def count_matches(nodes: pl.DataFrame, matching: Matching) -> pl.DataFrame:
    """Pairs of some sessions, and the records without a partner, per pair of nodes.

    Args:
        nodes: nodes of the resource.
        matching: their tasks with their children.
    """
    pairs, children = matching.pairs, matching.children
    match = pl.col("match").cast(pl.String)
    tasks = pairs.group_by("parent_node", "child_node").agg(
        tasks=pl.len(),
        exact=(match == "exact").sum(),
        inferred=(match == "inferred").sum(),
        unmatched_tasks=(match == "unmatched").sum(),
        ambiguous=pl.col("ambiguous").sum(),
    )
    owner = nodes.select("node", nodeid=pl.col("nodeid").cast(pl.Int64)).drop_nulls().unique("nodeid", keep="first")
    paired = pairs.select("child").drop_nulls().with_columns(paired=pl.lit(value=True))
    kids = (
        children.with_columns(nodeid=pl.col("gpid") // GPID_NODE_FACTOR)
        .join(owner.select("nodeid", parent_node=pl.col("node").cast(pl.Categorical)), on="nodeid", how="left")
        .join(paired, on="child", how="left")
        .group_by("parent_node", "child_node")
        .agg(children=pl.len(), unmatched_children=pl.col("paired").is_null().sum())
    )
    return tasks.join(kids, on=["parent_node", "child_node"], how="full", coalesce=True, nulls_equal=True).with_columns(
        pl.col(_COUNTS).fill_null(0)
    )


def match_quality(
    counts: Sequence[pl.DataFrame], clocks: Clocks, sources: pl.DataFrame, coverage: pl.DataFrame
) -> pl.DataFrame:
    """Table `match_quality` of an iteration.

    Args:
        counts: of all of its sessions.
        clocks: offsets of the clocks of its nodes.
        sources: its log files.
        coverage: their extent per node; see :attr:`~citus_analysis.spans.read.sessions.Sessions.coverage`.
    """
    joined = pl.concat(counts).group_by("parent_node", "child_node").agg(pl.col(_COUNTS).sum())
    rated = joined.with_columns(*_identity(sources)).with_columns(
        match_rate=pl.when(pl.col("tasks") > 0).then((pl.col("exact") + pl.col("inferred")) / pl.col("tasks")),
        warning=_warning(clocks, coverage),
    )
    return TABLES["match_quality"].conform(rated).sort("parent_node", "child_node")


def _identity(sources: pl.DataFrame) -> list[pl.Expr]:
    names = ("resource", "run_id", "iteration")
    values = sources.select(pl.col(names).first())
    return [pl.lit(values[name][0], values[name].dtype).alias(name) for name in names]


def _warning(clocks: Clocks, coverage: pl.DataFrame) -> pl.Expr:
    text = pl.col("parent_node").cast(pl.String), pl.col("child_node").cast(pl.String)
    parent, child = (node.fill_null("unknown") for node in text)
    undecided, doubtful = (_among(nodes) for nodes in (clocks.undecided - clocks.doubtful, clocks.doubtful))
    parts = (
        pl.when(pl.col("unmatched_tasks") > 0).then(
            pl.format("{} without a child in the log of node {}", counted_expr("unmatched_tasks", "task"), child)
        ),
        pl.when(pl.col("unmatched_children") > 0).then(
            pl.format("{} without a task in the log of node {}", counted_expr("unmatched_children", "child"), parent)
        ),
        pl.when(pl.col("inferred") > 0).then(
            pl.format(
                "{} inferred: a log begins while sessions are under way or lacks records, or children sent tasks, too",
                counted_expr("inferred", "pair"),
            )
        ),
        pl.when(doubtful).then(
            pl.lit("statements repeat so regularly that the order would be the same if both logs lacked some")
        ),
        pl.when(undecided).then(pl.lit("the offset of the clocks is unknown: nothing was aligned")),
        *(
            pl.when((text[0] == node) | (text[1] == node)).then(
                pl.lit(f"the logs of node {node} hold {counted(copies, 'repeated record')}: left out")
            )
            for node, copies in coverage.filter(pl.col("copies") > 0).select("node", "copies").sort("node").rows()
        ),
    )
    joined = pl.concat_str(*parts, separator="; ", ignore_nulls=True)
    return pl.when(joined != "").then(joined)


def _among(pairs: Collection[NodePair]) -> pl.Expr:
    parent, child = pl.col("parent_node").cast(pl.String), pl.col("child_node").cast(pl.String)
    return pl.any_horizontal(
        pl.lit(value=False), *(((parent == one) & (child == other)) for one, other in sorted(pairs))
    )


def clock_offsets(clocks: Clocks, sources: pl.DataFrame) -> pl.DataFrame:
    """Table `clock_offsets` of an iteration: the offset of the clocks of each pair of nodes that has pairs.

    A pair of nodes has one row, or, if a clock was set meanwhile, one row per stretch of time between two steps.
    """
    rows = [row for key, line in clocks.exact.items() if line.pairs for row in _offset_rows(*key, line, "exact")]
    rows += [row for key, line in clocks.guessed.items() if line.pairs for row in _offset_rows(*key, line, "inferred")]
    if not rows:
        return TABLES["clock_offsets"].empty()
    frame = (
        pl.DataFrame(rows)
        .with_columns(*_identity(sources))
        .with_columns(
            pl.from_epoch(pl.col("reference_time").round().cast(pl.Int64), time_unit="us").dt.replace_time_zone("UTC")
        )
    )
    return TABLES["clock_offsets"].conform(frame).sort("parent_node", "child_node", "reference_time")


def _offset_rows(parent: str, child: str, line: ClockLine, match: str) -> list[dict[str, object]]:
    count = len(line.pieces)
    return [
        _offset_row(parent, child, piece, match, f"; between steps: {number} of {count}" if count > 1 else "")
        for number, piece in enumerate(line.pieces, 1)
    ]


def _offset_row(parent: str, child: str, line: ClockLine, match: str, which: str) -> dict[str, object]:
    left_out = f"; {line.contradicting} contradicting pairs left out" if line.contradicting else ""
    return {
        "parent_node": parent,
        "child_node": child,
        "pairs": line.pairs,
        "offset_us": line.offset,
        "offset_low_us": line.offset_low,
        "offset_high_us": line.offset_high,
        "drift_ppm": line.drift * 1e6,
        "drift_low_ppm": line.drift_low * 1e6,
        "drift_high_ppm": line.drift_high * 1e6,
        "reference_time": line.reference,
        "method": f"linear programme over causality bounds of {match} pairs{left_out}{which}",
    }
