"""Rewrites tests/data/scaling from tests/data/recorded: `python -m tests.scaling.refresh_runs`."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import citus_analysis as ca

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "tests" / "data" / "scaling"
TRACED = tuple(f"w2-t{threads}-{operation}" for threads in (4, 16, 64) for operation in ("insert", "select"))
STATEMENTS = (
    "run_id",
    "resource",
    "node",
    "pid",
    "session_seq",
    "statement_kind",
    "executed",
    "total_us",
    "parent_us",
    "child_us",
    "between_us",
    "match",
    "failed",
    "includes_commit",
)
LATENCIES = ("run_id", "resource", "role", "operation", "operations", "mean_us")


def main() -> None:
    """Ingest the recordings and keep what a scaling study reads."""
    with TemporaryDirectory() as folder:
        ca.ingest(ROOT / "tests" / "data" / "recorded", folder)
        dataset = ca.open_dataset(folder)
        runs = dataset.table("runs").sort("run_id").drop("status_reason")
        latencies = dataset.table("operation_latencies").filter(pl.col("role") == "main").select(LATENCIES)
        statements = dataset.table("statements").filter(
            pl.col("resource").is_in(TRACED) & (pl.col("iteration") == 1) & pl.col("executed").is_not_null()
        )
        statements.sort("run_id", "trace_id").select(STATEMENTS).write_parquet(TARGET / "statements.parquet")
        runs.write_csv(TARGET / "runs.csv")
        latencies.sort("run_id", "operation").write_csv(TARGET / "operation_latencies.csv")


if __name__ == "__main__":
    main()
