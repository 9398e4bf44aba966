"""How well the sources of the variance between runs are named, and what correcting comparisons by them gives.

`python -m benchmarks.noise [--live] [--out FILE]`. Simulated: studies of 10 configurations with 8 runs each, of whose
variance a source makes a stated share; comparisons of two configurations of which one is 5 % faster. With `--live`:
on an embedded PostgreSQL server, one program that keeps a processor busy beside a third of the runs, as `noise` finds
it from the files alone, and the throughput with and without the runner's canary, in pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from citus_analysis.bottleneck import noise
from citus_analysis.bottleneck.variance import split_run_variance
from citus_analysis.core.type_aliases import Floats
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runner import run_experiment
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.plan import Choice, make_plan
from citus_analysis.stats.covariates import correct_comparison, estimate_slopes
from citus_analysis.stats.verdicts import compare

RESULTS: Final = Path(__file__).parent / "results" / "noise.json"
SEED: Final = 62
CONFIGURATIONS: Final = 10
RUNS: Final = 8
SPREAD: Final = 0.08
SHARE: Final = 0.8
FASTER: Final = 1.05
SOURCES: Final = ("speed of the machines", "foreign work", "checkpoints", "balance of nodes", "stolen CPU time")
#: Runs with a busy processor, of the runs of each configuration.
LIVE_RUNS: Final = 12
BUSY_RUNS: Final = 4
PAIRS: Final = 10
BUSY: Final = "while True: pass"


def simulate_sources(rng: np.random.Generator, shares: dict[str, float]) -> pl.DataFrame:
    """The sources of a simulated study, of whose variance some sources have these shares."""
    n = CONFIGURATIONS * RUNS
    values: dict[str, Floats] = {
        "speed of the machines": rng.normal(0, 0.05, n),
        "foreign work": (rng.random(n) < 1 / 3) * rng.uniform(5, 20, n),
        "checkpoints": (rng.random(n) < 0.5) * rng.uniform(0, 100, n),
        "balance of nodes": rng.beta(8, 2, n),
        "stolen CPU time": rng.exponential(1, n),
    }
    names = np.repeat(np.arange(CONFIGURATIONS), RUNS)
    rest = SPREAD * math.sqrt(1 - sum(shares.values())) * rng.normal(0, 1, n)
    logs = rng.uniform(5, 9, CONFIGURATIONS)[names] + rest
    for source, share in shares.items():
        logs += SPREAD * math.sqrt(share) * (values[source] - values[source].mean()) / values[source].std()
    order = np.tile(np.arange(float(RUNS)), CONFIGURATIONS)
    return split_run_variance(np.exp(logs), names.tolist(), values | {"order in time": order}).sources


def find_named(sources: pl.DataFrame) -> list[str]:
    """Sources that chance does not explain, the largest first."""
    return sources.filter((pl.col("p_value") < 0.05).fill_null(value=False))["source"].to_list()


def measure_naming(repeats: int) -> dict[str, object]:
    """Shares of studies in which what was injected is named, first and with its share, and in which all else is not."""
    rng = np.random.default_rng(SEED)
    first, near = [], []
    for source, _ in product(SOURCES, range(repeats // len(SOURCES))):
        found = simulate_sources(rng, {source: SHARE})
        first.append(find_named(found)[:1] == [source])
        own = found.filter(pl.col("source") == source)["share_beyond_chance"].item()
        near.append(abs(own - SHARE) < 0.1)
    both = []
    for _ in range(repeats):
        one, other = rng.choice(SOURCES, 2, replace=False)
        both.append({one, other} <= set(find_named(simulate_sources(rng, {one: 0.5, other: 0.3}))))
    nothing = [not find_named(simulate_sources(rng, {})) for _ in range(repeats)]
    shares = {"named_first": first, "share_within_10_points": near, "both_named": both, "nothing_named": nothing}
    return {"studies": repeats, "share": SHARE, **{name: float(np.mean(one)) for name, one in shares.items()}}


def measure_correction(repeats: int) -> list[dict[str, object]]:
    """Coverage and width of corrected intervals, where one source makes most of the variance, and where none does."""
    rng = np.random.default_rng(SEED)
    found: list[dict[str, object]] = []
    for (runs, configurations, blocked), share in product(((5, 8, False), (10, 2, False), (5, 8, True)), (SHARE, 0.0)):
        covered, plain_covered, widths = [], [], []
        names = np.repeat(np.arange(configurations), runs).tolist()
        for _ in range(repeats):
            covariate = rng.normal(0, 1, (configurations, runs))
            own = rng.normal(0, 1, covariate.shape)
            blocks = rng.normal(0, 0.05, runs) if blocked else 0.0
            logs = SPREAD * (math.sqrt(share) * covariate + math.sqrt(1 - share) * own) + blocks
            logs[0] += math.log(FASTER)
            values = 100 * np.exp(logs)
            slopes = estimate_slopes(values.ravel(), names, {"source": covariate.ravel()})
            plain = compare(values[0], values[1], blocked=blocked)
            sides = ((values[0], covariate[0][:, None]), (values[1], covariate[1][:, None]))
            corrected = correct_comparison(plain, sides, slopes)
            plain_covered.append(plain.ratio.low <= FASTER <= plain.ratio.high)
            if (interval := corrected.interval) is not None:
                covered.append(interval.low <= FASTER <= interval.high)
                widths.append(corrected.width_ratio)
        found.append(
            {
                "runs": runs, "configurations": configurations, "blocked": blocked, "share": share, "repeats": repeats,
                "plain_coverage": float(np.mean(plain_covered)), "corrected": len(widths) / repeats,
                "coverage": float(np.mean(covered)), "width": float(np.median(widths)),
            }
        )  # fmt: skip
    return found


def describe_experiment(name: str, iterations: int, threads: list[int], *, canary: bool) -> dict[str, Any]:
    """Short runs of pgbench's SELECT on an embedded server."""
    return {
        "name": name,
        "target": {"kind": "embedded", "settings": {"shared_buffers": "64MB"}},
        "driver": {"kind": "pgbench", "protocol": "prepared"},
        "matrix": {"workloads": ["c"], "threads": threads, "records": [10_000]},
        "limits": {"duration_s": 8},
        "iterations": iterations,
        "samplers": {"canary": canary, "activity": False, "counters": False},
    }


def measure_busy_processor(folder: Path) -> dict[str, object]:
    """What `noise` says of runs of which a third had a busy processor beside them."""
    experiment = parse_experiment(describe_experiment("busy", LIVE_RUNS, [1, 2], canary=True))
    rng, busy = np.random.default_rng(SEED), set[str]()
    plan = make_plan(experiment)
    for resource in sorted({run.configuration.resource for run in plan}):
        chosen = rng.choice(np.arange(1, LIVE_RUNS + 1), BUSY_RUNS, replace=False)
        busy |= {f"{resource}#{iteration}" for iteration in chosen}
    for at, run in enumerate(plan):
        beside = [subprocess.Popen([sys.executable, "-c", BUSY])] if run.run_id in busy else []
        try:
            run_experiment(experiment, folder / "tree", resume=at > 0, choice=Choice((run.run_id,)))
        finally:
            for one in beside:
                one.kill()
                one.wait()
    ingest([folder / "tree"], folder / "dataset")
    found = noise(open_dataset(folder / "dataset"))
    doubtful = found.doubtful.filter("is_doubtful")["run_id", "resource"].unique()
    runs = open_dataset(folder / "dataset").runs().join(doubtful, on=["resource", "run_id"])
    named = {f"{resource}#{iteration}" for resource, iteration in runs.select("resource", "iteration").iter_rows()}
    return {
        "runs": len(plan), "busy_runs": len(busy), "found_busy": len(named & busy), "false_alarms": len(named - busy),
        "sentence": found.sentence(), "named": list(found.named), "sources": found.to_dict()["sources"],
    }  # fmt: skip


def measure_cost_of_canary(folder: Path) -> dict[str, object]:
    """Throughput with the canary over that without it, in pairs of runs."""
    sides = {
        name: parse_experiment(describe_experiment(name, PAIRS, [2], canary=name == "with"))
        for name in ("with", "without")
    }
    for pair in range(1, PAIRS + 1):
        for name in sorted(sides, reverse=pair % 2 == 0):
            run_id = next(run.run_id for run in make_plan(sides[name]) if run.iteration == pair)
            run_experiment(sides[name], folder / name, resume=pair > 1, choice=Choice((run_id,)))
    rates = {}
    for name in sides:
        ingest([folder / name], folder / f"{name}-dataset")
        rates[name] = open_dataset(folder / f"{name}-dataset").runs().sort("iteration")["throughput_ops_s"].to_numpy()
    found = compare(rates["with"], rates["without"], blocked=True)
    return {"pairs": PAIRS, "ratio": found.ratio.estimate, "low": found.ratio.low, "high": found.ratio.high}


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    kept = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    kept |= {"naming": measure_naming(given.repeats), "correction": measure_correction(given.repeats)}
    if given.live:
        folder = Path(tempfile.mkdtemp(prefix="noise-"))
        try:
            kept |= {"busy_processor": measure_busy_processor(folder), "canary": measure_cost_of_canary(folder)}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    given.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
