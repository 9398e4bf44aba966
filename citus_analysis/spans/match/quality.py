"""The quality of the pairing of tasks and child statements, and the offsets of the clocks, per pair of nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.match.clocks import ClockLine
from citus_analysis.spans.match.matching import Clocks, Matching
from citus_analysis.spans.read.assembling import GPID_NODE_FACTOR, numbered_nodes
from citus_analysis.spans.read.ordered_arrays import Flags, numbers_of
from citus_analysis.texts.counted_words import counted, noun_for

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: Names of a parent and a child node; None: unknown.
Nodes = tuple[str | None, str | None]

#: What is counted of each pair of nodes: columns of table `match_quality`.
Counts = dict[Nodes, dict[str, int]]


def count_matches(nodes: pl.DataFrame, matching: Matching) -> Counts:
    """Count the pairs of some sessions, and the records without a partner, per pair of nodes.

    Args:
        nodes: nodes of the resource.
        matching: their tasks with their children.
    """
    pairs, children = matching.pairs, matching.children
    match = pairs["match"].to_physical().to_numpy()
    proof = pairs["proof"].cast(pl.String)
    tasks = {"tasks": np.ones(pairs.height, np.bool_), "ambiguous": pairs["ambiguous"].to_numpy()}
    for code, column in enumerate(("exact", "inferred", "unmatched_tasks")):
        tasks[column] = match == code
    for word in ("order", "content"):
        tasks[f"by_{word}"] = proof.is_in([word, "both"]).fill_null(value=False).to_numpy()
    unreported = matching.unreported
    paired = pl.concat([pairs["child"], unreported["child"]])
    alone = np.isin(children["child"].to_numpy(), paired.filter(paired.is_not_null()).to_numpy(), invert=True)
    kids = {"children": np.ones(children.height, np.bool_), "unmatched_children": alone}
    counts: Counts = {}
    _count(counts, pairs["parent_node"], pairs["child_node"], tasks)
    _count(counts, _owners(children["gpid"], nodes), children["child_node"], kids)
    for name, rows in (("unreported", unreported), ("contradicted", matching.contradicted)):
        _count(counts, rows["parent_node"], rows["child_node"], {name: np.ones(rows.height, np.bool_)})
    return counts


def _owners(gpids: pl.Series, nodes: pl.DataFrame) -> pl.Series:
    """The node that each gpid names."""
    names = {nodeid: node for node, nodeid in reversed(numbered_nodes(nodes))}
    found, number = np.unique(gpids.fill_null(-1).to_numpy() // GPID_NODE_FACTOR, return_inverse=True)
    return pl.Series([names.get(nodeid) for nodeid in found.tolist()], dtype=pl.String).cast(pl.Categorical)[number]


def _count(counts: Counts, parents: pl.Series, children: pl.Series, marks: Mapping[str, Flags]) -> None:
    """Add the number of marked rows of each pair of nodes."""
    (parent,), (child,) = numbers_of(parents), numbers_of(children)
    size = int(child.max(initial=0)) + 1
    found, first, number = np.unique(parent * size + child, return_index=True, return_inverse=True)
    sums = {name: np.bincount(number[flags], minlength=len(found)).tolist() for name, flags in marks.items()}
    for at, row in enumerate(first.tolist()):
        own = counts.setdefault((parents[row], children[row]), dict.fromkeys(_COUNTED, 0))
        for name, numbers in sums.items():
            own[name] += numbers[at]


_COUNTED: Final = (
    *("tasks", "children", "exact", "by_order", "by_content", "inferred", "unreported", "contradicted"),
    *("unmatched_tasks", "unmatched_children", "ambiguous"),
)


def match_quality(
    counts: Sequence[Counts], clocks: Clocks, identity: Mapping[str, object], coverage: pl.DataFrame
) -> pl.DataFrame:
    """Table `match_quality` of an iteration.

    Args:
        counts: of all of its sessions.
        clocks: offsets of the clocks of its nodes.
        identity: `resource`, `run_id` and `iteration`.
        coverage: the extent of its logs; see :attr:`~citus_analysis.spans.read.sessions.Sessions.coverage`.
    """
    joined: dict[Nodes, Counter[str]] = defaultdict(lambda: Counter(dict.fromkeys(_COUNTED, 0)))
    for nodes, numbers in (item for part in counts for item in part.items()):
        joined[nodes].update(numbers)
    copies = [
        (node, number) for node, number in sorted(zip(coverage["node"], coverage["copies"], strict=True)) if number
    ]
    rows = [
        {
            **identity,
            "parent_node": nodes[0],
            "child_node": nodes[1],
            **{name: number for name, number in own.items() if name != "contradicted"},
            "match_rate": (own["exact"] + own["inferred"]) / own["tasks"] if own["tasks"] else None,
            "warning": _warning(nodes, own, clocks, copies),
        }
        for nodes, own in sorted(joined.items(), key=lambda one: [(name is not None, name or "") for name in one[0]])
    ]
    return pl.DataFrame(rows, schema=TABLES["match_quality"].polars_schema())


def _warning(nodes: Nodes, own: Mapping[str, int], clocks: Clocks, copies: Sequence[tuple[str, int]]) -> str | None:
    """What is to be known about a pair of nodes; `copies`: the number of repeated records of each node with some."""
    parent, child = (name or "unknown" for name in nodes)
    nouns = {"unmatched_tasks": "task", "unmatched_children": "child", "inferred": "pair"}
    tasks, children, pairs = (f"{own[name]} {noun_for(own[name], noun)}" for name, noun in nouns.items())
    warnings = []
    if own["contradicted"]:
        warnings.append(
            f"{counted(own['contradicted'], 'pair')} by order refuted by the values of their statements: not made"
        )
    if own["unreported"]:
        warnings.append(f"{counted(own['unreported'], 'child')} of which no record reports the task: found by content")
    if own["unmatched_tasks"]:
        warnings.append(f"{tasks} without a child in the log of node {child}")
    if own["unmatched_children"]:
        warnings.append(f"{children} without a task in the log of node {parent}")
    if own["inferred"]:
        warnings.append(
            f"{pairs} inferred: a log begins while sessions are under way or lacks records, or children sent tasks, "
            "and the values of their statements do not decide"
        )
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
            "offset_us": piece.offset,
            "offset_low_us": piece.offset_low,
            "offset_high_us": piece.offset_high,
            "drift_ppm": piece.drift * 1e6,
            "drift_low_ppm": piece.drift_low * 1e6,
            "drift_high_ppm": piece.drift_high * 1e6,
            "reference_time": _EPOCH + timedelta(microseconds=round(piece.reference)),
            "method": f"linear programme over causality bounds of {match} pairs{left_out}{which}",
        }
