"""How often steady series are cut, and how well the start of the steady part is found, beside MSER-5.

`python -m benchmarks.start_up [CLONE] [--forks N] [--out FILE]`. Simulated: runs of 31 or 120 intervals with a spread
of 10 %, alone and five together, steady or with a start-up of known length (a line, an exponential, a step). Labelled:
with a clone of github.com/SEALABQualityGroup/steady-state, forks of 3,000 JMH iterations, whose labels come from change
points of PELT. A start is found if it is at most 5 % of the series away from the true one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from citus_analysis.core.type_aliases import Floats
from citus_analysis.stats import cut_warm_up
from citus_analysis.stats.start_up import find_start_up

RESULTS: Final = Path(__file__).parent / "results" / "start_up.json"
SEED: Final = 14
INTERVALS: Final = (31, 120)
SPREAD: Final = 0.1
NEAR: Final = 0.05

Method = Callable[[list[Floats]], int]


def find_cut(rows: list[Floats]) -> int:
    """The cut of this package; -1 if the runs did not settle."""
    found = find_start_up(rows)
    return found.cut if found.settled else -1


def find_mser(rows: list[Floats]) -> int:
    """The cut of MSER-5 on the mean of the runs."""
    return cut_warm_up(np.mean(rows, axis=0), "mser-5").cut


METHODS: Final[dict[str, Method]] = {"start_up": find_cut, "mser_5": find_mser}


def simulate(rng: np.random.Generator, intervals: int, runs: int, phi: float, length: int, shape: str) -> list[Floats]:
    """Runs whose noise is an AR(1), after a start-up of some intervals."""
    place = np.arange(intervals)
    level = {
        "none": np.ones(intervals),
        "line": np.minimum(1, (place + 0.5) / max(length, 1)),
        "exponential": 1 - np.exp(-3 * (place + 0.5) / max(length, 1)),
        "step": np.where(place < length, 0.5, 1.0),
    }[shape]
    rows = []
    for _ in range(runs):
        noise = rng.normal(size=intervals + 50)
        for i in range(1, noise.size):
            noise[i] = phi * noise[i - 1] + noise[i] * np.sqrt(1 - phi**2)
        rows.append(1_000 * level * np.maximum(1 + SPREAD * noise[50:], 0.01))
    return rows


def measure_simulated(repeats: int) -> list[dict[str, object]]:
    """Shares of cut steady series and of found starts, per method, runs and kind of series."""
    found: list[dict[str, object]] = []
    for intervals, runs in product(INTERVALS, (1, 5)):
        # MSER-5 needs 50 values.
        methods = {name: method for name, method in METHODS.items() if intervals >= 50 or name != "mser_5"}
        design = {"intervals": intervals, "runs": runs}
        for phi in (0.0, 0.3, 0.6, 0.8):
            rng = np.random.default_rng(SEED)
            series = [simulate(rng, intervals, runs, phi, 0, "none") for _ in range(repeats)]
            cut = {name: float(np.mean([method(one) != 0 for one in series])) for name, method in methods.items()}
            found.append({**design, "phi": phi, "shape": "none", "cut": cut})
        for length, shape in product((intervals // 6, intervals // 3), ("line", "exponential", "step")):
            rng = np.random.default_rng(SEED)
            series = [simulate(rng, intervals, runs, 0.3, length, shape) for _ in range(repeats)]
            off = {name: np.array([method(one) - length for one in series]) for name, method in methods.items()}
            near = {name: float(np.mean(np.abs(one) <= NEAR * intervals)) for name, one in off.items()}
            mean = {name: float(np.mean(one)) for name, one in off.items()}
            found.append({**design, "phi": 0.3, "shape": shape, "length": length, "found": near, "mean_error": mean})
    return found


def measure_labelled(clone: Path, forks: int) -> dict[str, object]:
    """Shares over labelled forks: steady ones that are cut, and starts that are found."""
    rng = np.random.default_rng(SEED)
    names = sorted(path.name for path in (clone / "data" / "classification").glob("*.json"))
    steady: list[Floats] = []
    late: list[tuple[Floats, int]] = []
    for name in rng.permutation(names)[: forks // 2]:
        labels = json.loads((clone / "data" / "classification" / name).read_text())["steady_state_starts"]
        series = json.loads((clone / "data" / "timeseries" / "all" / name).read_text())
        for fork in (0, len(labels) // 2):
            values = np.array(series[fork], dtype=np.float64)
            if labels[fork] == 0:
                steady.append(values)
            elif labels[fork] > 0:
                late.append((values, labels[fork]))
    result: dict[str, object] = {"steady": len(steady), "with_start": len(late)}
    for name, method in METHODS.items():
        cuts = np.array([method([values]) for values in steady])
        found = np.array([method([values]) for values, _ in late])
        off = (found - np.array([label for _, label in late])) / np.array([values.size for values, _ in late])
        result[name] = {
            "steady_cut": float(np.mean(cuts != 0)),
            "found": float(np.mean(np.abs(off) <= NEAR)),
            "too_early": float(np.mean((off < -NEAR) & (found >= 0))),
            "too_late": float(np.mean(off > NEAR)),
            "unsettled": float(np.mean(found < 0)),
        }
    return result


def main() -> None:
    """Print the shares, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", nargs="?", type=Path)
    parser.add_argument("--forks", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    result: dict[str, object] = {"seed": SEED, "simulated": measure_simulated(chosen.repeats)}
    if chosen.clone is not None:
        result["labelled"] = measure_labelled(chosen.clone, chosen.forks)
    text = json.dumps(result, indent=1)
    chosen.out.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
