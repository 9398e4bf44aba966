"""The run of a single file of a load generator, as `ingest` would judge it."""

from pathlib import Path
from typing import Any

import polars as pl

from citus_analysis.formats import Content, Format, Hints, detect_format
from citus_analysis.schema import TABLES
from citus_analysis.stats.merged_clients import derive_runs

CASES = Path(__file__).parents[1] / "data" / "cases"
_IDENTITY: dict[str, Any] = {"run_id": "r", "resource": "one", "iteration": 1}
_UNKNOWN = ("system", "phase", "workload", "threads", "records", "operations", "workers", "drivers")


def read(path: Path) -> tuple[Format | None, dict[str, pl.DataFrame]]:
    """The format of a file, and its tables."""
    found = detect_format(Content(path))
    if found is None:
        return None, {}
    pieces = list(found.parse(Content(path), Hints(path.name)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
    return found, {table: pl.concat(piece.frame(table) for piece in pieces) for table in (*found.tables, "rejects")}


def find_run(clients: pl.DataFrame) -> dict[str, Any]:
    """The row of `runs` of main clients."""
    part = pl.int_range(pl.len(), dtype=pl.Int32)
    named = clients.with_columns(**{name: pl.lit(value) for name, value in _IDENTITY.items()}, role=pl.lit("main"))
    identity = TABLES["runs"].conform(pl.DataFrame([_IDENTITY])).select(*_IDENTITY, *_UNKNOWN)
    rows = TABLES["clients"].conform(named.with_columns(part=part, source_id=part.cast(pl.String)))
    return derive_runs(rows, identity).row(0, named=True)
