"""From log records to statements, span trees and the quality of their links.

Source: Citus prints for each remote execution how long the parent waited (task record) and, on the node that ran
it, what was executed for how long, under the global pid of the parent's session. `docs/traces.md` explains the
model with recorded examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.schema import TABLES
from citus_analysis.spans.failures import link_failures
from citus_analysis.spans.identifiers import Identifiers
from citus_analysis.spans.matching import match_tasks
from citus_analysis.spans.quality import clock_offsets, match_quality
from citus_analysis.spans.sessions import read_sessions
from citus_analysis.spans.statements import statement_profile
from citus_analysis.spans.tree import span_tree

__all__ = ["Traces", "build_traces"]

_TABLES: Final = ("statements", "spans", "match_quality", "clock_offsets")


@dataclass(frozen=True)
class Traces:
    """Statements, spans, and how sure their links are.

    Attributes:
        statements: table `statements`, one row per statement execution seen by a parent.
        spans: table `spans`, the tree of every statement.
        match_quality: table `match_quality`, one row per pair of nodes.
        clock_offsets: table `clock_offsets`, one row per pair of nodes.
    """

    statements: pl.DataFrame
    spans: pl.DataFrame
    match_quality: pl.DataFrame
    clock_offsets: pl.DataFrame


def build_traces(log_events: pl.DataFrame, nodes: pl.DataFrame) -> Traces:
    """Build the traces of all statements in server logs.

    Resources and iterations are independent of each other and are worked through one by one; memory is bounded
    by the largest iteration. The result depends on the records alone, not on the order of the rows.

    Args:
        log_events: rows of table `log_events`, identity columns filled in (`source_id`, `resource`, `iteration`,
            `node`), of one or more resources and iterations.
        nodes: rows of table `nodes` of these resources: nodeid (for gpids), host and port (for tasks).

    Returns:
        Frames of the tables `statements`, `spans`, `match_quality` and `clock_offsets`, sorted by time.
    """
    parts = [_build_iteration(events, _nodes_of(nodes, events)) for events in _iterations(log_events)]
    return Traces(**{name: _stack(name, [getattr(part, name) for part in parts]) for name in _TABLES})


def _iterations(log_events: pl.DataFrame) -> Iterator[pl.DataFrame]:
    # Records of one iteration mostly follow each other: few rows are left to hash.
    key = pl.col("resource", "iteration")
    changed = pl.any_horizontal(key.ne_missing(key.shift(1))) | (pl.int_range(pl.len()) == 0)
    keys = log_events.select(key).filter(changed).unique().sort("resource", "iteration")
    if keys.height <= 1:
        yield from [log_events] * keys.height
        return
    for resource, iteration in keys.iter_rows():
        yield log_events.filter(
            pl.col("resource").eq_missing(pl.lit(resource)) & pl.col("iteration").eq_missing(pl.lit(iteration))
        )


def _nodes_of(nodes: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    return nodes.filter(pl.col("resource").eq_missing(pl.lit(events["resource"][0], pl.String)))


def _stack(name: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames) if frames else TABLES[name].empty()


def _build_iteration(events: pl.DataFrame, nodes: pl.DataFrame) -> Traces:
    sessions = read_sessions(events, nodes)
    matching = match_tasks(sessions)
    failures = link_failures(sessions, matching)
    identifiers = Identifiers(sessions.sources)
    statements = statement_profile(
        sessions, matching.pairs, failures, identifiers, distributed=_is_cluster(events, nodes)
    )
    spans = span_tree(sessions, statements, matching.pairs, failures, identifiers)
    quality, offsets, sources = (
        match_quality(sessions, nodes, matching),
        clock_offsets(sessions, matching),
        sessions.sources,
    )
    # Sorting takes as much memory as these do.
    del sessions, matching, failures
    return Traces(
        statements=_conform("statements", statements.drop("execution"), sources),
        spans=_conform("spans", spans, sources),
        match_quality=quality,
        clock_offsets=offsets,
    )


def _is_cluster(events: pl.DataFrame, nodes: pl.DataFrame) -> bool:
    """Whether anything in the logs or in the catalogue speaks of Citus."""
    signs = events.select(pl.col("shard_id").is_not_null().any() | pl.col("gpid").is_not_null().any()).item()
    return bool(signs) or nodes["nodeid"].is_not_null().any()


def _conform(name: str, frame: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """Sort by time, name the sources again and bring the frame to its table."""
    ordered = frame.sort("start_time", "source", "byte_offset", nulls_last=True)
    named = ordered.join(sources, on="source", how="left", maintain_order="left").drop("source")
    return TABLES[name].conform(named)
