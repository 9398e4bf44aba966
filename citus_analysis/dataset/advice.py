"""Advice on files and facts that are missing for complete traces."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from citus_analysis.dataset.manifest import DerivedState, Manifest, SourceState
from citus_analysis.dataset.parts import scan_table
from citus_analysis.schema import TABLES
from citus_analysis.texts.words import pluralize

_CATALOGUE = (
    "the node number of each worker is unknown: add pg_dist_node.csv beside the logs "
    "(COPY pg_dist_node TO STDOUT WITH (FORMAT csv, HEADER)) and ingest again"
)
_NODE = "state which node wrote each log: --meta node=N, one log at a time, or a column `node` in a runs.csv"


def write_advice(manifest: Manifest) -> list[str]:
    """One line for each resource whose remote tasks found no statement because a file or a fact is missing."""
    lines: list[str] = []
    sources = sorted(manifest.sources.values(), key=attrgetter("resource"))
    for resource, states in groupby(sources, key=attrgetter("resource")):
        missing = [*_list_missing_facts(states)]
        tasks = _count_unmatched_tasks(manifest, resource) if missing else 0
        if tasks:
            found = f"{pluralize(tasks, 'remote task')} found no statement of a worker"
            lines.append(f"{resource}: {found}: {'; '.join(missing)}")
    return lines


def _list_missing_facts(states: Iterable[SourceState]) -> Iterable[str]:
    tables = [(state, {part.table for part in state.parts}) for state in states]
    logs = [state for state, held in tables if "log_events" in held]
    if logs and not any("nodes" in held for _, held in tables):
        yield _CATALOGUE
    if any(state.identity.get("node") is None for state in logs):
        yield _NODE


def _count_unmatched_tasks(manifest: Manifest, resource: str) -> int:
    derived: DerivedState | None = manifest.derived.get((resource, "traces"))
    parts = [part for part in derived.parts if part.table == "match_quality"] if derived else []
    quality = scan_table(TABLES["match_quality"], manifest.folder, parts)
    return int(quality.select("unmatched_tasks").collect()["unmatched_tasks"].sum())
