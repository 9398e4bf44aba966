"""The quality of the pairing of tasks and child statements, and the offsets of the clocks, per pair of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final

import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.match.clocks import ClockLine
from citus_analysis.spans.match.matching import Clocks, Matching
from citus_analysis.spans.read.assembling import GPID_NODE_FACTOR, numbered_nodes
from citus_analysis.texts.counted_words import counted, noun_for

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: Columns that identify a pair of a parent and a child node; null: unknown.
_NODES: Final = ("parent_node", "child_node")
#: What is counted of each pair of nodes.
_COUNTED: Final = (
    *("tasks", "children", "exact", "by_order", "by_content", "inferred", "unreported", "contradicted"),
    *("unmatched_tasks", "unmatched_children", "ambiguous"),
)


def count_matches(nodes: pl.DataFrame, matching: Matching) -> pl.DataFrame:
    """Count the pairs of some sessions, and the records without a partner, per pair of nodes.

    Args:
        nodes: nodes of the resource.
        matching: their tasks with their children.

    Returns:
        Several rows per pair of nodes; what is counted is the sum over them.
    """
    pairs, unreported = matching.pairs, matching.unreported
    proof, matches = (
        pl.col("proof").cast(pl.String),
        {"exact": "exact", "inferred": "inferred", "unmatched_tasks": "unmatched"},
    )
    tasks = pairs.group_by(_NODES).agg(
        pl.len().alias("tasks"),
        pl.col("ambiguous").sum(),
        *((pl.col("match") == match).sum().alias(name) for name, match in matches.items()),
        *(proof.is_in([word, "both"]).sum().alias(f"by_{word}") for word in ("order", "content")),
    )
    owners = {nodeid: node for node, nodeid in reversed(numbered_nodes(nodes))}
    owner = (pl.col("gpid") // GPID_NODE_FACTOR).replace_strict(owners, default=None, return_dtype=pl.String)
    paired = pl.concat([pairs["child"], unreported["child"]]).drop_nulls()
    children = matching.children.group_by(owner.cast(pl.Categorical).alias("parent_node"), "child_node").agg(
        pl.len().alias("children"), (~pl.col("child").is_in(paired.implode())).sum().alias("unmatched_children")
    )
    others = {"unreported": unreported, "contradicted": matching.contradicted}
    counts = (rows.group_by(_NODES).agg(pl.len().alias(name)) for name, rows in others.items())
    return pl.concat([tasks, children, *counts], how="diagonal_relaxed")


def match_quality(
    counts: Sequence[pl.DataFrame], clocks: Clocks, identity: Mapping[str, object], coverage: pl.DataFrame
) -> pl.DataFrame:
    """Table `match_quality` of an iteration.

    Args:
        counts: what :func:`count_matches` counts of all of its sessions.
        clocks: offsets of the clocks of its nodes.
        identity: `resource`, `run_id` and `iteration`.
        coverage: the extent of its logs; see :attr:`~citus_analysis.spans.read.sessions.Sessions.coverage`.
    """
    sums = pl.concat(counts, how="diagonal_relaxed").group_by(_NODES).agg(pl.col(_COUNTED).sum())
    ordered = sums.with_columns(pl.col(_NODES).cast(pl.String)).sort(_NODES)
    of_nodes = sorted(zip(coverage["node"], coverage["copies"], strict=True))
    copies = [(node, number) for node, number in of_nodes if number]
    rows = [
        {
            **identity,
            **{name: value for name, value in own.items() if name != "contradicted"},
            "match_rate": (own["exact"] + own["inferred"]) / own["tasks"] if own["tasks"] else None,
            "warning": _warning((own["parent_node"], own["child_node"]), own, clocks, copies),
        }
        for own in ordered.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=TABLES["match_quality"].polars_schema())


def _warning(
    nodes: tuple[str | None, str | None], own: Mapping[str, int], clocks: Clocks, copies: Sequence[tuple[str, int]]
) -> str | None:
    """What is to be known about a pair of nodes; `copies`: the number of repeated records of each node with some."""
    parent, child = (name or "unknown" for name in nodes)
    nouns = {"unmatched_tasks": "task", "unmatched_children": "child", "inferred": "pair"}
    tasks, children, pairs = (f"{own[name]} {noun_for(own[name], noun)}" for name, noun in nouns.items())
    refuted, found = counted(own["contradicted"], "pair"), counted(own["unreported"], "child")
    texts = {
        "contradicted": f"{refuted} by order refuted by the values of their statements: not made",
        "unreported": f"{found} of which no record reports the task: found by content",
        "unmatched_tasks": f"{tasks} without a child in the log of node {child}",
        "unmatched_children": f"{children} without a task in the log of node {parent}",
        "inferred": f"{pairs} inferred: a log begins while sessions are under way or lacks records, or children sent "
        "tasks, and the values of their statements do not decide",
    }
    warnings = [text for name, text in texts.items() if own[name]]
    if nodes in clocks.doubtful:
        warnings.append("neither the values of statements nor earlier records show that both logs do not lack some")
    elif nodes in clocks.undecided:
        warnings.append("the offset of the clocks is unknown: nothing was aligned")
    warnings += [
        f"the logs of node {node} hold {counted(number, 'repeated record')}: left out"
        for node, number in copies
        if node in nodes
    ]
    return "; ".join(warnings) or None


def clock_offsets(clocks: Clocks, identity: Mapping[str, object]) -> pl.DataFrame:
    """Table `clock_offsets` of an iteration: the offset of the clocks of each pair of nodes that has pairs.

    A pair of nodes has one row, or, if a clock was set meanwhile, one row per stretch of time between two steps.

    Args:
        clocks: offsets of the clocks of its nodes.
        identity: `resource`, `run_id` and `iteration`.
    """
    found = (("exact", clocks.exact), ("inferred", clocks.guessed))
    lines = [(key, line, match) for match, known in found for key, line in known.items() if line.pairs]
    rows = [row for key, line, match in lines for row in _offset_rows(*key, line, match)]
    rows.sort(key=itemgetter("parent_node", "child_node", "reference_time"))
    return pl.DataFrame([{**identity, **row} for row in rows], schema=TABLES["clock_offsets"].polars_schema())


def _offset_rows(parent: str, child: str, line: ClockLine, match: str) -> Iterator[dict[str, object]]:
    count = len(line.pieces)
    for number, piece in enumerate(line.pieces, 1):
        left_out = f"; {piece.contradicting} contradicting pairs left out" if piece.contradicting else ""
        which = f"; between steps: {number} of {count}" if count > 1 else ""
        yield {
            "parent_node": parent,
            "child_node": child,
            "pairs": piece.pairs,
            **{f"{name}_us": getattr(piece, name) for name in ("offset", "offset_low", "offset_high")},
            **{f"{name}_ppm": getattr(piece, name) * 1e6 for name in ("drift", "drift_low", "drift_high")},
            "reference_time": _EPOCH + timedelta(microseconds=round(piece.reference)),
            "method": f"linear programme over causality bounds of {match} pairs{left_out}{which}",
        }
