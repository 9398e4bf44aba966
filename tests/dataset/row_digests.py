"""Digests of all rows of some tables, ids included: what a change that only makes things faster must leave as it is.

`python -m tests.dataset.row_digests` computes those of the recordings and of damaged logs anew and keeps them. Do so
only where rows are meant to change, and say in the commit which and why.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.research_object.checks import hash_table_rows
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from citus_analysis.spans import build_traces
from tests.recordings import copy_recordings
from tests.spans.recordings import Cut, Recording, load
from tests.spans.test_damaged_logs import DAMAGES, in_pieces, joined

KEPT: Final = Path(__file__).parent / "row_digests.json"

#: One recording of each shape: sessions, nodes, protocols, failures, transactions, many shards, clients, formats.
SHAPES: Final = (
    "stock-debug4-w2-t8-insert", "w1-local-t16-select", "w1-t4-insert", "w2-all-e", "w2-binary-t16-insert",
    "w2-checkpoint-insert", "w2-coord-t16-select", "w2-drivers2-select", "w2-fail-clients", "w2-fail-stop-insert",
    "w2-histogram-mixed", "w2-lock-update", "w2-multishard", "w2-perf-select", "w2-pgbench", "w2-t64-select",
    "w2-timeseries-select", "w2-txn-insert", "w2-txn-update", "w2-verbose-mixed", "w4-t16-insert",
)  # fmt: skip

_TRACES: Final = ("statements", "spans", "match_quality", "clock_offsets")

Digests = dict[str, str]


def of_recordings(jobs: int = 2) -> Digests:
    """Of all tables of an ingest of one recording of each shape; with one job, all work is done in this process."""
    with tempfile.TemporaryDirectory() as name:
        raw = copy_recordings(Path(name) / "raw", *SHAPES)
        ingest(raw, Path(name) / "dataset", jobs=jobs)
        dataset = open_dataset(Path(name) / "dataset")
        return {table: hash_table_rows(dataset.table(table)) for table in sorted(TABLES.keys() - OUTSIDE_DATASET)}


def of_traces(recording: Recording) -> Digests:
    traces = build_traces(*recording.tables())
    return {name: hash_table_rows(getattr(traces, name)) for name in _TRACES}


def _stepped(resource: str, node: str, step_ms: int) -> Recording:
    """A recording in which a node's clock was set halfway."""
    whole = load(resource, (1,))
    offsets = whole.log_events.filter(node=node)["byte_offset"]
    later = (pl.col("node") == node) & (pl.col("byte_offset") >= offsets.median())
    moved = pl.col("log_time") + pl.duration(milliseconds=step_ms)
    events = whole.log_events.with_columns(log_time=pl.when(later).then(moved).otherwise("log_time"))
    return Recording(events, whole.checkpoints, whole.nodes, whole.logs)


def _without_lines(resource: str) -> Recording:
    """A recording under a prefix without `%l`."""
    whole = load(resource, (1,))
    events = whole.log_events.with_columns(session_line=pl.lit(None, pl.Int64))
    return Recording(events, whole.checkpoints, whole.nodes, whole.logs)


def _thinned(resource: str) -> Recording:
    """A recording that lacks every 97th record."""
    whole = load(resource, (1,))
    return Recording(
        whole.log_events.filter(pl.int_range(pl.len()) % 97 != 50), whole.checkpoints, whole.nodes, whole.logs
    )


def _damaged(damage: str) -> Callable[[], Recording]:
    return lambda: in_pieces("w2-t4-insert", DAMAGES[damage])


def _cut(node: str, third: str) -> Callable[[], Recording]:
    return lambda: load("w2-t4-insert", (1,), Cut(node, third))


CASES: Final[Mapping[str, Callable[[], Recording]]] = {
    **{damage: _damaged(damage) for damage in DAMAGES},
    **{f"{third} third of node {node} lost": _cut(node, third) for node in "12" for third in ("first", "last")},
    "many sessions cut": lambda: load("w2-t64-insert", (1,), Cut("2", "first")),
    "clock set ahead": lambda: _stepped("w2-t4-insert", "2", 37),
    "clock set back": lambda: _stepped("w2-t4-insert", "1", -2000),
    "clock set back among five nodes": lambda: _stepped("w4-t4-insert", "3", -2000),
    "without line numbers": lambda: _without_lines("w2-t4-insert"),
    "records lost": lambda: _thinned("w2-multishard"),
    "records of transactions lost": lambda: _thinned("w2-txn-insert"),
    "joins": lambda: joined(mixed=False),
    "joins and single shards": lambda: joined(mixed=True),
}


def main() -> None:
    """Compute all digests and keep them."""
    damaged = {name: of_traces(make()) for name, make in CASES.items()}
    KEPT.write_text(json.dumps({"recordings": of_recordings(), "damaged": damaged}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
