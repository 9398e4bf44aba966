"""How fast a brush over a million statements is answered, against a plain scan by DuckDB.

`python -m benchmarks.explore [--statements N]` prints both times and their ratio, and keeps them in a small JSON file.
The statements are those of a recorded run, repeated one run after the other; a brush selects half of the time and the
slower half of the statements.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import cast

import duckdb
import polars as pl

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.explorer import Exploration, StatementSelection
from citus_analysis.explorer.selections import add_elapsed_time

RESULTS = Path(__file__).parent / "results" / "explore.json"
RECORDING = Path(__file__).parents[1] / "data" / "recorded" / "citus-w4-t32-load"
REPEATS = 7


class Repeated:
    """A dataset whose table `statements` is that of a recording, repeated."""

    def __init__(self, dataset: Dataset, rows: int) -> None:
        once = dataset.statements().drop_nulls("total_us")
        copies = -(-rows // once.height)
        length = pl.duration(microseconds=cast("int", add_elapsed_time(once)["elapsed_us"].max()))
        shift = pl.Series("copy", range(copies), dtype=pl.Int64).to_frame()
        repeated = once.with_columns(run_id=pl.lit("run")).join(shift, how="cross").head(rows)
        self.statements = repeated.with_columns(
            pl.col("start_time", "end_time") + pl.col("copy") * length,
            trace_id=pl.int_range(pl.len(), dtype=pl.UInt64),
        ).drop("copy")

    def scan(self, name: str) -> pl.LazyFrame:
        """The repeated statements."""
        assert name == "statements"
        return self.statements.lazy()


def milliseconds(work: Callable[[], object]) -> float:
    """Median time of a call, after one that is not counted."""
    work()
    times = []
    for _ in range(REPEATS):
        began = perf_counter()
        work()
        times.append((perf_counter() - began) * 1000)
    return statistics.median(times)


def measured(rows: int) -> dict[str, float]:
    """Times of a brush, of a change of filters and of the scan, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        ingest([RECORDING], Path(folder) / "dataset")
        repeated = Repeated(open_dataset(Path(folder) / "dataset"), rows)
    exploration = Exploration(cast("Dataset", repeated))
    held = exploration.statements
    middle = cast("float", held["elapsed_us"].median()) / 1e6
    brush = StatementSelection(run="run", since_s=middle, fastest_us=cast("float", held["total_us"].median()))
    exploration.heat(brush)
    kinds = iter(["insert", None] * REPEATS)
    with duckdb.connect() as connection:
        connection.register("statements", repeated.statements.to_arrow())
        plain = f"SELECT trace_id, total_us FROM statements WHERE total_us >= {brush.fastest_us}"
        scan = milliseconds(lambda: connection.sql(plain).to_arrow_table())
    found = {
        "statements": held.height,
        "selected": exploration.selected(brush).height,
        "brush_ms": milliseconds(lambda: exploration.view(brush)),
        "filter_ms": milliseconds(lambda: exploration.heat(StatementSelection(kind=next(kinds)))),
        "scan_ms": scan,
    }
    return found | {"brush_over_scan": found["brush_ms"] / scan}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=1_000_000)
    found = measured(parser.parse_args().statements)
    for name, value in found.items():
        print(f"{name}: {value:,.4g}")
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
