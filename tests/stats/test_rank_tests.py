"""Tests by ranks, held to scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from citus_analysis.stats.drift import detect_drift
from citus_analysis.stats.rank_tests import compute_signed_rank_p_value, correlate_ranks
from citus_analysis.stats.verdicts import compute_mann_whitney_p_value

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("n", [2, 3, 5, 9, 33, 34, 60])
@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "with ties"])
def test_kendall(n: int, rounded: bool) -> None:
    for _ in range(5):
        x, y = RNG.normal(size=(2, n))
        if rounded:
            x, y = np.round(x * 2), np.round(y * 2 + x)
        found, expected = correlate_ranks(x, y), stats.kendalltau(x, y)
        assert found.tau == pytest.approx(expected.statistic, nan_ok=True)
        assert found.p_value == pytest.approx(expected.pvalue, nan_ok=True, rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 30, 50])
def test_signed_ranks_without_ties(n: int) -> None:
    for _ in range(5):
        differences = RNG.normal(0.3, 1, size=n)
        expected = stats.wilcoxon(differences, method="exact").pvalue
        assert compute_signed_rank_p_value(differences) == pytest.approx(expected, rel=1e-9)


def test_signed_ranks_with_ties_and_zeros() -> None:
    """The share of all signs whose sum is as extreme, counted one by one."""
    differences = np.array([0.0, 1.0, 1.0, -1.0, 2.0, 3.0, 3.0])
    ranks = stats.rankdata(np.abs(differences[1:]))
    signs = np.array(np.meshgrid(*[[0, 1]] * ranks.size)).reshape(ranks.size, -1)
    sums = ranks @ signs
    observed = ranks[differences[1:] > 0].sum()
    expected = 2 * min((sums >= observed).mean(), (sums <= observed).mean())
    assert compute_signed_rank_p_value(differences) == pytest.approx(expected)
    assert compute_signed_rank_p_value([0.0, 0.0]) == 1.0


@pytest.mark.parametrize(("n", "m"), [(1, 3), (4, 4), (7, 12), (30, 30)])
def test_mann_whitney_without_ties(n: int, m: int) -> None:
    x, y = RNG.normal(size=n), RNG.normal(0.5, 1, size=m)
    expected = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert compute_mann_whitney_p_value(x, y) == pytest.approx(expected, rel=1e-9)


def test_the_slope_of_a_drift_is_the_median_over_pairs() -> None:
    times, values = np.array([1.0, 1.0, 2.0, 4.0, 7.0, 9.0]), np.array([10.0, 11.0, 11.5, 12.0, 15.0, 14.0])
    slope = stats.theilslopes(values, times).slope
    assert detect_drift(values, times).change_percent == pytest.approx(slope * 8 / values.mean() * 100)
    assert math.isnan(correlate_ranks([1.0, 1.0], [1.0, 2.0]).p_value)
