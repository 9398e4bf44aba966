"""Plans that PostgreSQL 15 and Citus 12 printed (`tests/data/plans`), as tables.

`NAME.json`, `.yaml`, `.txt` and `.psql*.txt` are one statement in several formats, with `ANALYZE, TIMING OFF, VERBOSE,
BUFFERS, WAL` and `citus.explain_analyze_sort_method = taskId`, so that only times of planning and execution differ.
Files of the cluster of two workers (`scan`, `cte-subplan`, `multi-shard-aggregate-all-tasks`, `repartition-join`) have
the times of the nodes. `auto_explain-pg15.*` and `-pg18.*` are one query, logged as text, JSON and YAML, in the three
kinds of log that servers of these versions wrote at the same time. `pev2-unicode.plan` and `dbeaver.plan` are from
the tests of pev2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.formats import Content, Hints, Parsed, format_named

__all__ = ["PLANS", "nodes_of", "parsed", "table_of"]

PLANS: Final = Path(__file__).parents[1] / "data" / "plans"


def parsed(path: Path) -> Parsed:
    (piece,) = format_named("explain").parse(Content(path), Hints(path.name))
    assert piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes == path.stat().st_size
    return piece


def nodes_of(name: str) -> pl.DataFrame:
    return parsed(PLANS / name).frame("plan_nodes")


def table_of(*names: str) -> pl.DataFrame:
    """`plan_nodes` of files as a dataset holds it: each file is a source."""
    place = pl.lit("w2").alias("resource")
    return pl.concat([nodes_of(name).with_columns(place, source_id=pl.lit(name)) for name in names])
