"""Bootstrap: BCa against scipy, the nested bootstrap against theory."""

import numpy as np
import pytest
import scipy.stats

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError


def test_bca_is_scipys() -> None:
    values = np.random.default_rng(1).gamma(2, 10, 30)
    theirs = scipy.stats.bootstrap([values], np.mean, method="BCa", n_resamples=999, rng=np.random.default_rng(7))
    ours = stats.bca_interval([values], np.mean, resamples=999, seed=7)
    assert (ours.low, ours.high) == (theirs.confidence_interval.low, theirs.confidence_interval.high)


def test_few_values_are_warned_about() -> None:
    assert "covers less" in stats.bca_interval([[1, 2, 3, 4]], np.mean, resamples=99).warnings[0]


def test_nested_bootstrap_sees_the_spread_between_runs() -> None:
    rng = np.random.default_rng(2)
    between, within, runs, size = 5.0, 20.0, 40, 50
    groups = [rng.normal(100 + rng.normal(0, between), within, size) for _ in range(runs)]
    nested = stats.nested_bootstrap(groups, resamples=4_000)
    # Resampling both levels adds the within-run variance of the mean once more.
    error = np.sqrt(between**2 / runs + 2 * within**2 / (runs * size))
    assert nested.half_width == pytest.approx(1.96 * error, rel=0.2)
    pooled = stats.mean_interval(np.concatenate(groups))
    assert nested.half_width > 1.3 * pooled.half_width


def test_fast_path_of_the_mean_is_the_general_one() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.normal(10, 1, size) for size in (20, 30, 25, 40, 10, 15)]
    fast = stats.nested_bootstrap(groups, resamples=4_000)
    general = stats.nested_bootstrap(groups, lambda values: float(values.mean()), resamples=4_000)
    assert fast.estimate == general.estimate
    assert (fast.low, fast.high) == pytest.approx((general.low, general.high), abs=0.05)


def test_other_statistics_and_few_runs() -> None:
    rng = np.random.default_rng(4)
    groups = [rng.exponential(10, 200) for _ in range(3)]
    interval = stats.nested_bootstrap(groups, lambda values: float(np.quantile(values, 0.95)), resamples=300)
    assert interval.low < interval.estimate < interval.high
    assert "3 runs" in interval.warnings[0]
    with pytest.raises(InsufficientDataError, match="at least 2 runs"):
        stats.nested_bootstrap([[1, 2, 3]])
