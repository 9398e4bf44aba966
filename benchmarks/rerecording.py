"""How steady the machine was while the demonstration was recorded, by its canaries: block by block.

`python -m benchmarks.rerecording DATASET [--out FILE]`

DATASET has runs of the experiments in `experiments/demonstration/`, each configuration once in each block
(`data/record_blocks.py`), with canaries. The result has, for each block, the CPU time of a read of memory that was not
touched for a second and the throughput relative to the first block; how runs vary between the first two blocks and
over all; the rank correlation of a run's throughput with that time, both relative to their configuration; what
`noise` says; and all runs.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Final

import polars as pl
from scipy.stats import spearmanr

import citus_analysis as ca

RESULTS: Final = Path(__file__).parent / "results" / "rerecording.json"
_RATE: Final = "throughput_ops_s"
_READ: Final = "memory_read_us"


def read_runs(dataset: ca.Dataset) -> pl.DataFrame:
    """One row per run: resource, block, throughput, and the mean CPU time of a read of untouched memory, us."""
    canaries = dataset.canaries().filter(pl.col("work").cast(pl.String) == "memory").drop_nulls("run_id")
    reads = canaries.group_by("run_id").agg((pl.col("cpu_us").sum() / pl.col("operations").sum()).alias(_READ))
    runs = dataset.runs().select("run_id", "resource", "start_time", pl.col("iteration").alias("block"), _RATE)
    return runs.join(reads, on="run_id").sort("start_time")


def describe_blocks(runs: pl.DataFrame) -> list[dict[str, float]]:
    """Of each block: number of runs, median read, geometric mean of the throughputs relative to the first block."""
    first = runs.filter(block=1).select("resource", first=_RATE)
    compared = runs.join(first, on="resource").with_columns(log=(pl.col(_RATE) / pl.col("first")).log())
    blocks = compared.group_by("block").agg(
        runs=pl.len(), memory_read_us=pl.col(_READ).median(), throughput_ratio=pl.col("log").mean().exp()
    )
    return blocks.sort("block").to_dicts()


def compute_deviations(runs: pl.DataFrame) -> pl.DataFrame:
    """Logarithms of throughput and of reads, less the mean of their configuration."""
    logs = runs.with_columns(pl.col(_RATE, _READ).log())
    return logs.with_columns(pl.col(_RATE, _READ) - pl.col(_RATE, _READ).mean().over("resource"))


def compute_sd_percent(runs: pl.DataFrame) -> float:
    """Standard deviation of the runs of one configuration, per cent, pooled over the configurations."""
    deviations = compute_deviations(runs)
    df = deviations.height - deviations["resource"].n_unique()
    return 100 * math.sqrt(float((deviations[_RATE] ** 2).sum()) / df)


def main() -> None:
    """Compute, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    dataset = ca.open_dataset(given.dataset)
    runs = read_runs(dataset)
    deviations = compute_deviations(runs)
    noise = ca.noise(dataset).to_dict()
    found = {
        "blocks": describe_blocks(runs),
        "sd_percent": compute_sd_percent(runs),
        "first_two_blocks_sd_percent": compute_sd_percent(runs.filter(pl.col("block") <= 2)),
        "correlation_with_memory": float(spearmanr(deviations[_RATE], deviations[_READ]).statistic),
        "noise": {name: noise[name] for name in ("sentence", "sources", "corrected_by", "comparisons")},
        "runs": runs.drop("run_id").with_columns(pl.col("start_time").dt.to_string()).to_dicts(),
    }
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in found.items() if name != "runs"}, indent=1))


if __name__ == "__main__":
    main()
