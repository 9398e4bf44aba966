"""How fast the statistics are against plain loops, and what their intervals cover.

`python -m benchmarks.stats [--repeats N] [--out FILE]` prints a ratio with the two throughputs behind it, then the
simulated coverage of 95 % intervals, and keeps both in a small JSON file.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit

from citus_analysis import stats
from citus_analysis.scaling.fitting import fit_model
from citus_analysis.scaling.models import USL
from citus_analysis.stats.bootstrap import estimate_bca_interval
from citus_analysis.stats.planning import check_enough_runs
from citus_analysis.stats.run_percentiles import estimate_nested_interval
from citus_analysis.stats.verdicts import estimate_hodges_lehmann
from citus_analysis.stats.warmup import estimate_effective_sample_size

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results" / "stats.json"


def rate(work: Callable[[], object], seconds: float = 1.0) -> float:
    """Calls per second of CPU time, over at least `seconds`."""
    work()
    calls, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        work()
        calls += 1
    return calls / (time.process_time() - start)


def naive_bootstrap(values: list[float], resamples: int) -> tuple[float, float]:
    """Percentile bootstrap of the mean as one would write it first."""
    means = sorted(statistics.fmean(random.choices(values, k=len(values))) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples)]


def naive_shift(a: list[float], b: list[float]) -> float:
    """Hodges-Lehmann estimate with two loops."""
    return statistics.median(x - y for x in a for y in b)


def naive_autocorrelations(x: list[float], lags: int) -> list[float]:
    """Autocorrelations by their definition."""
    mean = statistics.fmean(x)
    centred = [value - mean for value in x]
    variance = sum(value * value for value in centred)
    return [sum(centred[i] * centred[i + lag] for i in range(len(x) - lag)) / variance for lag in range(lags)]


def usl(n: Floats, gamma: float, alpha: float, beta: float) -> Floats:
    """The Universal Scalability Law as scipy's curve_fit wants it."""
    curve: Floats = gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))
    return curve


def speed() -> list[dict[str, object]]:
    """Ratio and throughputs per statistic; each pair computes the same thing."""
    rng = np.random.default_rng(1)
    sample = rng.lognormal(0, 0.5, 100)
    a, b = rng.normal(100, 5, 400), rng.normal(97, 5, 400)
    sizes = np.repeat([1.0, 2, 4, 8, 16, 32], 3)
    runs = usl(sizes, 1_000, 0.05, 0.002) * rng.normal(1, 0.02, sizes.size)
    noisy = runs * rng.normal(1, 0.02, (200, sizes.size))
    series = rng.normal(size=4_000)

    def one_by_one() -> None:
        for row in noisy:
            curve_fit(usl, sizes, row, p0=(900, 0.04, 0.001), bounds=(0, [math.inf, 1, math.inf]))

    pairs: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        (
            "bootstrap of a mean, n = 100, 2,000 resamples",
            lambda: estimate_bca_interval([sample], np.mean, resamples=2_000),
            lambda: naive_bootstrap(sample.tolist(), 2_000),
        ),
        (
            "Hodges-Lehmann shift, 400 against 400",
            lambda: estimate_hodges_lehmann(a, b),
            lambda: naive_shift(a.tolist(), b.tolist()),
        ),
        (
            "USL, 200 bootstrap refits of 18 runs",
            lambda: fit_model(USL, sizes, runs, resamples=200),
            one_by_one,
        ),
        (
            "effective sample size, n = 4,000 (loops: 100 lags only)",
            lambda: estimate_effective_sample_size(series),
            lambda: naive_autocorrelations(series.tolist(), 100),
        ),
    ]
    found: list[dict[str, object]] = []
    for name, ours, theirs in pairs:
        fast, slow = rate(ours), rate(theirs)
        found.append({"what": name, "ratio": fast / slow, "ours_per_s": fast, "loops_per_s": slow})
    return found


def coverage(repeats: int) -> list[dict[str, object]]:
    """Share of seeded repeats in which a 95 % interval holds the truth."""
    skewed_mean = math.exp(0.125)

    def normal(rng: np.random.Generator, n: int) -> Floats:
        return rng.normal(100, 15, n)

    def skewed(rng: np.random.Generator, n: int) -> Floats:
        return rng.lognormal(0, 0.5, n)

    def ratio(values: Floats) -> stats.Interval:
        half = values.size // 2
        return stats.ratio_interval(values[:half], values[half:], method="t")

    def ratio_bca(values: Floats) -> stats.Interval:
        half = values.size // 2
        return stats.ratio_interval(values[:half], values[half:], method="bca", resamples=499)

    cases: list[tuple[str, Callable[[Floats], stats.Interval], Callable[..., Floats], float, tuple[int, ...], int]] = [
        ("mean, normal data: Student t", stats.mean_interval, normal, 100, (3, 5, 10, 30), repeats),
        ("mean, normal data: normal quantile", _normal_formula, normal, 100, (3, 5, 10, 30), repeats),
        ("mean, skewed data: Student t", stats.mean_interval, skewed, skewed_mean, (3, 5, 10, 30), repeats),
        ("mean, normal data: t on the log scale", _log_t, normal, 100, (3, 5, 10, 30), repeats),
        ("mean, skewed data: t on the log scale", _log_t, skewed, skewed_mean, (3, 5, 10, 30), repeats),
        ("mean, skewed data: BCa", _bca_mean, skewed, skewed_mean, (5, 10, 30), repeats // 10),
        ("median, skewed data: BCa", _bca_median, skewed, 1.0, (5, 10, 30), repeats // 10),
        ("median, skewed data: order statistics", _order_median, skewed, 1.0, (6, 10, 30), repeats),
        ("ratio, n per side is half: t on the log", ratio, normal, 1.0, (6, 10, 20, 40, 60), repeats),
        ("ratio, n per side is half: BCa", ratio_bca, normal, 1.0, (6, 10, 20, 40, 60), repeats // 10),
        ("mean, lognormal with sigma 1: t on the log scale", _log_t, _heavy, math.exp(0.5), _RUNS, repeats),
        ("mean, lognormal with sigma 1: Student t", stats.mean_interval, _heavy, math.exp(0.5), _RUNS, repeats),
        ("mean, one run in five 30 % slower: t on the log scale", _log_t, _bimodal, 94.0, _RUNS, repeats),
        ("mean, one run in five 30 % slower: Student t", stats.mean_interval, _bimodal, 94.0, _RUNS, repeats),
        ("mean, AR(1) with phi 0.7: t on the log scale", _log_t, _dependent, 100.0, _RUNS, repeats),
        ("mean of 200 operations per run, nested: t over runs", _nested, _runs_of_200, 100.0, (3, 5, 10), repeats),
    ]
    found: list[dict[str, object]] = []
    for name, method, draw, truth, ns, count in cases:
        for n in ns:
            rng = np.random.default_rng(n)
            held = sum(truth in method(draw(rng, n)) for _ in range(count))
            found.append({"interval": name, "n": n, "covers": held / count, "repeats": count})
    return [*found, *_stopping(repeats)]


#: Numbers of runs for which coverage under broken assumptions is shown.
_RUNS = (3, 5, 10, 20, 30)


def _heavy(rng: np.random.Generator, n: int) -> Floats:
    return rng.lognormal(0, 1, n)


def _bimodal(rng: np.random.Generator, n: int) -> Floats:
    return np.asarray(np.where(rng.random(n) < 0.2, 70.0, 100.0) + 2 * rng.normal(size=n))


def _dependent(rng: np.random.Generator, n: int) -> Floats:
    """Successive runs of an AR(1): mean 100, spread 5 %."""
    noise = rng.normal(size=n)
    values = np.empty(n)
    values[0] = noise[0]
    for i in range(1, n):
        values[i] = 0.7 * values[i - 1] + math.sqrt(1 - 0.7**2) * noise[i]
    return 100 + 5 * values


def _runs_of_200(rng: np.random.Generator, n: int) -> Floats:
    """Runs whose levels spread by 5 % and whose operations spread by 30 %, shape (n, 200)."""
    return np.asarray(rng.normal(100 * (1 + 0.05 * rng.normal(size=(n, 1))), 30, (n, 200)))


def _nested(values: Floats) -> stats.Interval:
    return estimate_nested_interval(list(values))


def _normal_formula(values: Floats) -> stats.Interval:
    return stats.mean_interval(values, method="normal")


def _log_t(values: Floats) -> stats.Interval:
    return stats.mean_interval(values, method="log-t")


def _bca_mean(values: Floats) -> stats.Interval:
    return stats.mean_interval(values, method="bootstrap", resamples=499)


def _bca_median(values: Floats) -> stats.Interval:
    return stats.median_interval(values, method="bca", resamples=499)


def _order_median(values: Floats) -> stats.Interval:
    return stats.median_interval(values, method="order")


def _stopping(repeats: int) -> list[dict[str, object]]:
    """Coverage of the interval at which sequential stopping ends, by the runs before the first look."""
    found: list[dict[str, object]] = []
    for least in (2, 3, 5, 10):
        rng = np.random.default_rng(least)
        held = 0
        for _ in range(repeats):
            values = rng.normal(100, 8, 60)
            n = least
            while n < values.size and not check_enough_runs(values[:n], 0.05, least=least).enough:
                n += 1
            held += 100 in stats.mean_interval(values[:n])
        name = "mean at which stopping at ±5 % ends, spread 8 %; n = fewest runs"
        found.append({"interval": name, "n": least, "covers": held / repeats, "repeats": repeats})
    return found


def main() -> None:
    """Run both parts, print them, keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2_000, help="repeats per coverage figure (10,000 in the docs)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    quick = speed()
    for row in quick:
        print(f"{row['ratio']:8.1f} x  {row['ours_per_s']:10.1f}/s against {row['loops_per_s']:8.1f}/s  {row['what']}")
    table = coverage(given.repeats)
    for row in table:
        print(f"{row['covers']:8.3f}  n = {row['n']:<3} ({row['repeats']} repeats)  {row['interval']}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"speed": quick, "coverage": table}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
