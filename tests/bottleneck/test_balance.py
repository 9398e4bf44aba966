"""Jain's index and the multinomial test against values that can be counted by hand."""

import pytest
from scipy import stats

from citus_analysis.bottleneck.balance import balance, jain_index
from citus_analysis.errors import UsageError


@pytest.mark.parametrize(
    ("counts", "p_value"),
    [
        ([2, 0], 0.5),  # two of the four ways to throw two coins
        ([1, 1], 1.0),
        ([3, 0, 0], 3 / 27),
        ([2, 1, 0], 21 / 27),  # all but the six ways to have one each
    ],
)
def test_small_counts_are_tested_exactly(counts: list[int], p_value: float) -> None:
    split = balance(counts, [str(node) for node in range(len(counts))])
    assert split.p_value == pytest.approx(p_value)
    assert split.method == "exact multinomial"


def test_two_nodes_are_the_binomial_test() -> None:
    assert balance([30, 12], ["1", "2"]).p_value == pytest.approx(stats.binomtest(12, 42).pvalue)


def test_large_counts_are_tested_by_chi_squared() -> None:
    split = balance([52_000, 50_000, 48_000], ["1", "2", "3"])
    assert split.method == "chi-squared"
    assert split.p_value == pytest.approx(stats.chisquare([52_000, 50_000, 48_000]).pvalue)
    assert split.jain == pytest.approx(0.99893, abs=1e-5)


def test_no_load_has_no_balance() -> None:
    with pytest.raises(UsageError, match="one that is positive"):
        jain_index([0, 0])
    with pytest.raises(UsageError, match="at least two nodes"):
        balance([4], ["0"])
