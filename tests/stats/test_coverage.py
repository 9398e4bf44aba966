"""Simulated coverage: how often an interval holds the truth, for the seeds given here.

The quick versions run always; the ones that the documentation quotes (10,000 repeats) are marked slow.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from citus_analysis import stats
from citus_analysis.stats.warmup import estimate_effective_sample_size

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
Method = Callable[[NDArray[np.float64]], stats.Interval]


def normal(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.normal(100, 15, n)


def skewed(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.lognormal(0, 0.5, n)


def coverage(method: Method, draw: Draw, n: int, truth: float, repeats: int, seed: int = 1) -> float:
    rng = np.random.default_rng(seed)
    return sum(truth in method(draw(rng, n)) for _ in range(repeats)) / repeats


@pytest.mark.parametrize("n", [3, 5, 10])
def test_t_covers_as_stated(n: int) -> None:
    assert 0.935 < coverage(stats.mean_interval, normal, n, 100, 2_000) < 0.965


@pytest.mark.parametrize("n", [3, 5, 10])
def test_t_on_the_log_scale_covers_as_stated(n: int) -> None:
    assert 0.935 < coverage(lambda x: stats.mean_interval(x, method="log-t"), normal, n, 100, 2_000) < 0.965
    truth = float(np.exp(0.5**2 / 2))
    on_logs = coverage(lambda x: stats.mean_interval(x, method="log-t"), skewed, n, truth, 2_000)
    assert on_logs > max(0.92, coverage(stats.mean_interval, skewed, n, truth, 2_000))


@pytest.mark.parametrize("n", [3, 5])
def test_the_studys_normal_formula_does_not(n: int) -> None:
    assert coverage(lambda x: stats.mean_interval(x, method="normal"), normal, n, 100, 1_000) < 0.90


def test_order_statistics_cover_at_least_as_stated() -> None:
    for q, n in ((50, 20), (90, 100), (95, 200)):
        truth = float(np.exp(0.5 * _normal_quantile(q / 100)))
        assert coverage(lambda x, q=q: stats.percentile_interval(x, q), skewed, n, truth, 1_000) > 0.94  # type: ignore[misc]  # a default binds the loop's value


def _normal_quantile(p: float) -> float:
    import scipy.stats

    return float(scipy.stats.norm.ppf(p))


def test_ratio_by_t_covers_as_stated_for_three_runs() -> None:
    def ratio(values: NDArray[np.float64]) -> stats.Interval:
        return stats.ratio_interval(values[:3], values[3:] * 0.5, method="t")

    assert 0.94 < coverage(ratio, lambda rng, n: rng.normal(100, 5, n), 6, 2, 1_500) < 0.985


def test_bca_is_near_its_level_for_a_skewed_mean() -> None:
    truth = math.exp(0.125)
    covered = coverage(lambda x: stats.mean_interval(x, method="bootstrap", resamples=499), skewed, 30, truth, 300)
    assert 0.89 < covered < 0.97


def test_effective_sample_size_repairs_the_interval_of_a_correlated_mean() -> None:
    rng = np.random.default_rng(3)
    plain, corrected = [], []
    for _ in range(200):
        noise = rng.normal(size=600)
        values = np.empty(600)
        values[0] = noise[0] / math.sqrt(1 - 0.8**2)
        for i in range(1, 600):
            values[i] = 0.8 * values[i - 1] + noise[i]
        effective = estimate_effective_sample_size(values).effective
        half = 1.96 * values.std(ddof=1)
        plain.append(abs(values.mean()) < half / math.sqrt(600))
        corrected.append(abs(values.mean()) < half / math.sqrt(effective))
    assert np.mean(plain) < 0.6
    assert np.mean(corrected) > 0.88


def test_equivalence_is_claimed_at_the_margin_no_more_often_than_stated() -> None:
    rng = np.random.default_rng(4)
    verdicts = [stats.compare(rng.normal(105, 3, 6), rng.normal(100, 3, 6)).verdict for _ in range(600)]
    assert verdicts.count("equivalent") / 600 < 0.075


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 30])
def test_t_covers_94_to_96_per_cent_over_10000_repeats(n: int) -> None:
    assert 0.94 < coverage(stats.mean_interval, normal, n, 100, 10_000) < 0.96


@pytest.mark.slow
@pytest.mark.parametrize(("n", "low", "high"), [(5, 0.79, 0.86), (10, 0.87, 0.92), (30, 0.91, 0.95)])
def test_bca_covers_what_is_documented_over_10000_repeats(n: int, low: float, high: float) -> None:
    truth = math.exp(0.125)
    covered = coverage(lambda x: stats.mean_interval(x, method="bootstrap", resamples=999), skewed, n, truth, 10_000)
    assert low < covered < high


@pytest.mark.slow
def test_order_statistics_cover_at_least_95_per_cent_over_10000_repeats() -> None:
    assert coverage(lambda x: stats.percentile_interval(x, 50), skewed, 20, 1.0, 10_000) > 0.95
    truth = math.exp(0.5 * _normal_quantile(0.99))
    assert coverage(lambda x: stats.percentile_interval(x, 99), skewed, 1_000, truth, 10_000) > 0.945
