"""Intervals of means, medians and ratios: published values, other implementations, and what is refused."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats import intervals
from citus_analysis.stats.intervals import estimate_mean_from_summary
from tests.shards import count_examples

#: Table 5.7 of the study: mean, standard deviation, stated ends, and the n that these ends imply.
TABLE_5_7 = [
    (62479, 2374.32, 60398.15, 64560.44, 5),
    (111322, 7473.57, 104771.32, 117872.83, 5),
    (160498, 3216.34, 156858.22, 164137.35, 3),
    (246396, 6253.53, 240268.12, 252524.80, 4),
    (292447, 19700.41, 273140.76, 311752.85, 4),
]


@pytest.mark.parametrize(("mean", "sd", "low", "high", "n"), TABLE_5_7)
def test_normal_formula_of_the_study_gives_its_stated_intervals(
    mean: float, sd: float, low: float, high: float, n: int
) -> None:
    interval = estimate_mean_from_summary(mean, sd, n, method="normal")
    assert interval.low == pytest.approx(low, abs=1.5)
    assert interval.high == pytest.approx(high, abs=1.5)
    assert interval.warnings == (f"a normal quantile at n = {n} is too small; Student's t widens the interval",)


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        ([10000001, 10000003, 10000002], 10000002, 1.0),  # NIST StRD NumAcc1
        ([1.2] + [1.1, 1.3] * 500, 1.2, 0.1),  # NIST StRD NumAcc2
        ([1000000.2] + [1000000.1, 1000000.3] * 500, 1000000.2, 0.1),  # NIST StRD NumAcc3
        ([10000000.2] + [10000000.1, 10000000.3] * 500, 10000000.2, 0.1),  # NIST StRD NumAcc4
    ],
)
def test_moments_are_those_certified_by_nist(values: list[float], mean: float, sd: float) -> None:
    interval = stats.mean_interval(values)
    n = len(values)
    assert interval.estimate == pytest.approx(mean, rel=1e-14)
    assert interval.half_width * math.sqrt(n) / scipy.stats.t.ppf(0.975, n - 1) == pytest.approx(sd, rel=1e-7)


def test_t_interval_is_scipys() -> None:
    values = [3.1, 4.7, 2.9, 5.5, 4.0]
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    interval = stats.mean_interval(values, 0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (interval.n, interval.method, interval.level) == (5, "Student t", 0.9)


def test_bootstrap_is_repeatable_and_near_t_for_a_normal_sample() -> None:
    values = np.random.default_rng(1).normal(100, 10, 60)
    first, second = (stats.mean_interval(values, method="bootstrap") for _ in range(2))
    assert first == second
    assert first.half_width == pytest.approx(stats.mean_interval(values).half_width, rel=0.1)
    assert first.method == "BCa bootstrap"


@pytest.mark.parametrize("method", ["t", "log-t", "normal", "bootstrap"])
def test_one_run_has_no_interval_and_says_why(method: intervals.MeanMethod) -> None:
    interval = stats.mean_interval([5.0], method=method)
    assert (interval.exists, interval.ends, interval.n) == (False, (None, None), 1)
    assert str(interval) == "5 (no interval, n = 1)"
    assert interval.warnings == ("one run has no spread: no interval can be given",)


@settings(max_examples=count_examples(200), deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8).filter(lambda values: max(values) > 1e-3))
def test_the_interval_of_a_rate_or_time_is_positive_and_finite(values: list[float]) -> None:
    interval = stats.mean_interval(values, method=intervals.choose_mean_method(values))
    assert interval.method == "Student t on the log scale"
    if not interval.exists:
        assert "leave the order of magnitude open" in interval.warnings[-1]
        return
    assert 0 < interval.low <= interval.estimate <= interval.high <= 10_000 * interval.low * (1 + 1e-9)


def test_on_the_log_scale_the_ends_are_equally_far_in_proportion() -> None:
    # t(0.975, 2) = 4.302653; s / (mean √n) = 0.5 / √3 with mean 2 and s 1: the delta method's error of log(mean).
    interval = estimate_mean_from_summary(2.0, 1.0, 3, method="log-t")
    factor = math.exp(4.302653 * 0.5 / math.sqrt(3))
    assert (interval.low, interval.high) == pytest.approx((2 / factor, 2 * factor), rel=1e-6)
    with pytest.raises(UsageError, match="an interval on the log scale needs positive means"):
        stats.mean_interval([-1.0, 0.5], method="log-t")


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_equal_values_carry_a_warning(method: intervals.MeanMethod) -> None:
    interval = stats.mean_interval([7.0, 7.0, 7.0], method=method)
    assert (interval.low, interval.high) == (7.0, 7.0)
    assert any("all values are equal" in warning for warning in interval.warnings)


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(InsufficientDataError):
        stats.mean_interval([])
    with pytest.raises(UsageError, match="has 1 missing or infinite value"):
        stats.mean_interval([1.0, math.nan])
    with pytest.raises(UsageError, match=r"pass 0\.95 for 95 %"):
        stats.mean_interval([1.0, 2.0], level=95)
    with pytest.raises(UsageError, match="no interval method is named 'T'"):
        stats.mean_interval([1.0, 2.0], method="T")  # type: ignore[arg-type]  # a wrong name on purpose


def test_median_takes_order_statistics_and_has_no_interval_of_few_values() -> None:
    values = np.random.default_rng(2).lognormal(size=5_000)
    assert stats.median_interval(values).method == "order statistics"
    assert stats.median_interval(values[:50]) == stats.percentile_interval(values[:50], 50)
    assert stats.median_interval(values[:50], method="bca", resamples=99).method == "BCa bootstrap"
    assert float(np.median(values)) in stats.median_interval(values)
    with pytest.raises(InsufficientDataError, match=r"too few values \(5\) .*at least 6 are needed"):
        stats.median_interval(values[:5], method="order")
    few = stats.median_interval(values[:5])
    assert not few.exists
    assert few.warnings == ("5 values cannot bound a median at 95 %: at least 6 can",)


def test_ratio_interval_methods_agree_for_many_runs() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(200, 10, 40), rng.normal(100, 10, 40)
    t, bca = (stats.ratio_interval(a, b, method=method) for method in ("t", "bca"))
    assert t.estimate == bca.estimate == a.mean() / b.mean()
    assert (t.low, t.high) == pytest.approx((bca.low, bca.high), rel=0.01)
    assert stats.ratio_interval(a, b) == t
    assert t.method == "Welch t on the log ratio"


def test_ratio_of_single_runs_has_no_interval_and_of_negative_means_refused() -> None:
    assert not stats.ratio_interval([2.0], [1.0], method="t").exists
    with pytest.raises(UsageError, match="positive means"):
        stats.ratio_interval([-2.0, -1.0], [1.0, 2.0])


@settings(max_examples=count_examples(50), deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=30), st.floats(0.5, 100))
def test_intervals_enclose_the_mean_and_scale_with_the_unit(values: list[float], factor: float) -> None:
    interval, scaled = stats.mean_interval(values), stats.mean_interval(np.multiply(values, factor))
    assert interval.low <= interval.estimate <= interval.high
    assert scaled.half_width == pytest.approx(factor * interval.half_width, rel=1e-6, abs=1e-6)
    assert stats.mean_interval(values, 0.99).half_width >= interval.half_width
