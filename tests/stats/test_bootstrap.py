"""Bootstrap: BCa against scipy."""

import numpy as np
import scipy.stats

from citus_analysis.stats.bootstrap import estimate_bca_interval


def test_bca_is_scipys() -> None:
    values = np.random.default_rng(1).gamma(2, 10, 30)
    theirs = scipy.stats.bootstrap([values], np.mean, method="BCa", n_resamples=999, rng=np.random.default_rng(7))
    ours = estimate_bca_interval([values], np.mean, resamples=999, seed=7)
    assert (ours.low, ours.high) == (theirs.confidence_interval.low, theirs.confidence_interval.high)


def test_few_values_are_warned_about() -> None:
    assert "covers less" in estimate_bca_interval([[1, 2, 3, 4]], np.mean, resamples=99).warnings[0]
