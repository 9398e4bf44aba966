"""How far two sessions of one system are apart in ClickBench's results, and how often warm executions hide it.

`python -m benchmarks.clickbench_reruns CLONE [--out FILE]` reads a clone of github.com/ClickHouse/ClickBench. Results
of one system, tuned equally, on one machine that are at most 14 days apart are pairs. Each pair is tested as if the two
warm executions of each query were repeats: by Student's t on the mean of log(10 ms + time) over the queries, with
Satterthwaite's degrees of freedom. Nothing but the session distinguishes the two, so that 5 % should differ. ClickHouse
Cloud, of which there are results of every day, is left out.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from scipy import stats

from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import CitusAnalysisError
from citus_analysis.published.collections import SHIFT_S, PublishedResult, compute_hot_times, read_results

RESULTS: Final = Path(__file__).parent / "results" / "clickbench_reruns.json"
QUERIES: Final = 43
DAYS: Final = 14
FEWEST: Final = 10
LEVEL: Final = 0.95


def results_of(clone: Path) -> dict[tuple[str, str, str], dict[str, PublishedResult]]:
    """Folder, machine and system -> date -> result."""
    found: dict[tuple[str, str, str], dict[str, PublishedResult]] = defaultdict(dict)
    for path in sorted(clone.glob("*/results/*/*.json")):
        folder = path.relative_to(clone).parts[0]
        try:
            (one,) = read_results(path)
        except CitusAnalysisError:
            continue
        if folder != "clickhouse-cloud" and one.times is not None and len(one.times) == QUERIES:
            found[folder, one.table, one.system][one.name[:10]] = one
    return found


def pairs_of(dated: dict[str, PublishedResult]) -> list[tuple[Floats, Floats]]:
    """The times of successive results that are not copies of one another."""
    times = [(date.fromisoformat(day), one.times) for day, one in sorted(dated.items()) if one.times is not None]
    return [
        (before, after)
        for (first, before), (second, after) in pairwise(times)
        if (second - first).days <= DAYS and before.tobytes() != after.tobytes()
    ]


def compared(a: Floats, b: Floats) -> tuple[float, bool] | None:
    """The relative difference of the hot times, and whether the warm executions call it one."""
    both = np.isfinite(a[:, 1:]).all(axis=1) & np.isfinite(b[:, 1:]).all(axis=1)
    if both.sum() < FEWEST:
        return None
    hot = np.mean(np.log(SHIFT_S + compute_hot_times(a[both])) - np.log(SHIFT_S + compute_hot_times(b[both])))
    warm = [np.log(SHIFT_S + one[both, 1:]) for one in (a, b)]
    variances = np.concatenate([one.var(axis=1, ddof=1) / 2 for one in warm])
    total = float(variances.sum())
    if not total:
        return float(np.expm1(abs(hot))), bool(hot)
    difference = float(np.mean(warm[0].mean(axis=1) - warm[1].mean(axis=1)))
    df = total**2 / float((variances**2).sum())
    limit = float(stats.t.ppf((1 + LEVEL) / 2, df)) * total**0.5 / both.sum()
    return float(np.expm1(abs(hot))), bool(abs(difference) > limit)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    systems = results_of(arguments.clone)
    found = [one for dated in systems.values() for pair in pairs_of(dated) if (one := compared(*pair)) is not None]
    apart = np.array([difference for difference, _ in found])
    figures = {
        "pairs": len(found),
        "median_difference": round(float(np.median(apart)), 4),
        "exceeded_by_one_in_ten": round(float(np.quantile(apart, 0.9)), 4),
        "called_different": round(float(np.mean([different for _, different in found])), 3),
    }
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
