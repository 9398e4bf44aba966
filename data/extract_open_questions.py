"""The numbers of `data/published/open_questions` from the recordings in `data/open-questions`.

`python data/extract_open_questions.py` writes both files anew; a test computes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

import citus_analysis as ca

_DATA: Final = Path(__file__).parent
RECORDED: Final = _DATA / "open-questions"
PUBLISHED: Final = _DATA / "published" / "open_questions"
_DECIMALS: Final = 2


#: Names of the recordings of runs.
EXPERIMENTS: Final = tuple(sorted(path.name.removesuffix(".tar.gz") for path in RECORDED.glob("*.tar.gz")))


def extract_runs(experiments: Sequence[str] = EXPERIMENTS) -> pl.DataFrame:
    """Each run: experiment, set-up, workload, phase, threads, iteration, operations per second."""
    parts = []
    for name in experiments:
        # What is read exists as long as its reader.
        reading = ca.read(RECORDED / f"{name}.tar.gz")
        runs = pl.DataFrame(reading.dataset.table("runs"))
        parts.append(
            runs.select(
                experiment=pl.lit(name),
                settings=pl.col("set_up").str.replace(r"^\S+ ?", ""),
                workload="workload",
                phase=pl.col("phase").cast(pl.String),
                threads="threads",
                iteration="iteration",
                throughput_ops_s=pl.col("throughput_ops_s").round(_DECIMALS),
            )
        )
    order = ("experiment", "settings", "workload", "phase", "threads", "iteration")
    return pl.concat(parts).sort(order)


def extract_parent_work() -> pl.DataFrame:
    """The samples of the sessions that coordinate: share of each function of each library."""
    reading = ca.read(RECORDED / "parent-work.txt.gz")
    symbols = pl.DataFrame(reading.dataset.table("perf_symbols"))
    texts = symbols.select(pl.col("shared_object", "symbol").cast(pl.String), "self_percent")
    # Functions without a name are known by their library.
    named = texts.with_columns(symbol=pl.when(~pl.col("symbol").str.starts_with("0x")).then("symbol"))
    shares = named.group_by("shared_object", "symbol").agg(pl.col("self_percent").sum().round(_DECIMALS))
    return shares.sort("self_percent", "shared_object", "symbol", descending=[True, False, False])


if __name__ == "__main__":
    PUBLISHED.mkdir(exist_ok=True)
    extract_runs().write_csv(PUBLISHED / "runs.csv")
    extract_parent_work().write_csv(PUBLISHED / "parent_work.csv")
