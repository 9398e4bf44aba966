"""Percentiles: published tables, coverage of the ranks, histograms, and what n cannot support."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats.mstats import hdmedian, hdquantiles

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.stats.percentiles import compute_percentile_ranks, compute_values_needed
from tests.shards import count_examples


@pytest.mark.parametrize(
    # Binomial tables of the sign test at 2.5 % per side.
    ("n", "low", "high"),
    [(6, 1, 6), (7, 1, 7), (8, 1, 8), (9, 2, 8), (10, 2, 9), (15, 4, 12), (20, 6, 15), (30, 10, 21), (50, 18, 33)],
)
def test_ranks_of_the_median(n: int, low: int, high: int) -> None:
    assert compute_percentile_ranks(n, 50) == (low, high)


@settings(max_examples=count_examples(50), deadline=None)
@given(st.integers(6, 3_000), st.sampled_from([50.0, 75.0, 90.0, 95.0, 99.0]), st.sampled_from([0.9, 0.95, 0.99]))
def test_ranks_cover_at_least_the_level_and_no_narrower_pair_does(n: int, q: float, level: float) -> None:
    if n < compute_values_needed(q, level):
        with pytest.raises(InsufficientDataError, match=f"at least {compute_values_needed(q, level)} are needed"):
            compute_percentile_ranks(n, q, level)
        return
    low, high = compute_percentile_ranks(n, q, level)
    tail = (1 - level) / 2
    below = scipy.stats.binom(n, q / 100)
    assert below.cdf(low - 1) <= tail + 1e-12
    assert below.sf(high - 1) <= tail + 1e-12
    assert low == n or below.cdf(low) > tail - 1e-12
    assert high == 1 or below.sf(high - 2) > tail - 1e-12


def test_a_percentile_that_n_cannot_support_is_refused_with_the_n_it_needs() -> None:
    with pytest.raises(InsufficientDataError, match=r"too few values \(100\) for .* 99th .*at least 368 are needed"):
        stats.percentile_interval(range(100), 99)
    assert stats.percentile_interval(range(368), 99).high == 367


def test_percentiles_are_given_in_per_cent() -> None:
    with pytest.raises(UsageError, match="pass 99 for the 99th"):
        stats.percentile_interval(range(1000), 0.99)
    with pytest.raises(UnknownNameError, match="percentile method"):
        stats.percentile_interval(range(1000), 50, "exact")  # type: ignore[arg-type]  # a wrong name on purpose


def test_harrell_davis_is_scipys() -> None:
    values = np.random.default_rng(1).lognormal(size=200)
    for q in (50, 90):
        interval = stats.percentile_interval(values, q, "harrell-davis")
        assert interval.estimate == pytest.approx(float(hdquantiles(values, [q / 100])[0]))
    assert stats.percentile_interval(values, 50, "harrell-davis").estimate == pytest.approx(float(hdmedian(values)))


def test_methods_agree_for_a_large_sample() -> None:
    values = np.random.default_rng(2).exponential(10, 3_000)
    intervals = [stats.percentile_interval(values, 95, m, resamples=999) for m in ("order", "harrell-davis", "bca")]
    for interval in intervals[1:]:
        assert interval.low == pytest.approx(intervals[0].low, rel=0.03)
        assert interval.high == pytest.approx(intervals[0].high, rel=0.03)
    assert len({interval.method for interval in intervals}) == 3


def test_histogram_intervals_enclose_those_of_the_raw_values() -> None:
    values = np.random.default_rng(3).lognormal(7, 0.5, 20_000)
    edges = np.r_[np.arange(0, 5_000, 50), math.inf]
    counts, _ = np.histogram(values, edges)
    for q in (50, 95, 99):
        raw = stats.percentile_interval(values, q)
        binned = stats.histogram_percentile_interval(edges[:-1], edges[1:], counts, q)
        assert binned.low <= raw.low <= raw.high <= binned.high
        assert binned.high - binned.low <= raw.high - raw.low + 100
        assert binned.estimate == pytest.approx(raw.estimate, abs=50)
        assert binned.n == 20_000


def test_merged_histograms_equal_the_histogram_of_all_values() -> None:
    rng = np.random.default_rng(4)
    edges = np.arange(0, 40, 1.0)
    first, second = (np.histogram(rng.gamma(shape, 3, 5_000), edges)[0] for shape in (2, 4))
    merged = stats.histogram_percentile_interval(edges[:-1], edges[1:], first + second, 95)
    alone = [
        stats.histogram_percentile_interval(edges[:-1], edges[1:], counts, 95).estimate for counts in (first, second)
    ]
    assert alone[0] < merged.estimate < alone[1]
    assert merged.estimate != pytest.approx(np.mean(alone))


def test_the_rank_of_a_percentile_is_not_pushed_up_by_rounding() -> None:
    ones = [1] * 100
    edges = np.arange(101.0)
    # The 95th of 100 values lies in the bucket from 94 to 95.
    assert stats.histogram_percentile_interval(edges[:-1], edges[1:], ones, 95).estimate == 94.5


def test_an_overflow_bucket_gives_no_upper_bound_and_says_so() -> None:
    interval = stats.histogram_percentile_interval([0, 1_000], [1_000, math.inf], [900, 100], 95)
    assert (interval.low, interval.high) == (1_000, math.inf)
    assert interval.warnings == ("the upper end lies in the overflow bucket and is unbounded",)
    with pytest.raises(UsageError, match="same length"):
        stats.histogram_percentile_interval([0, 1], [1], [1, 2], 50)
    with pytest.raises(InsufficientDataError, match="at least 6"):
        stats.histogram_percentile_interval([0], [1], [3], 50)
