"""Comparisons corrected by covariates: another implementation's answer, coverage, and corrections that are refused."""

import math

import numpy as np
import pytest
from statsmodels.api import OLS

from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats.covariates import correct_comparison, estimate_slopes
from citus_analysis.stats.verdicts import compare

RATIO = 1.05


def simulated(
    random: np.random.Generator, runs: int, configurations: int, share: float, *, blocked: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Runs (one row for each configuration), the first of which is faster, and what makes a share of their variance."""
    shape = (configurations, runs)
    covariate = random.normal(0, 1, shape)
    blocks = random.normal(0, 0.05, runs) if blocked else 0
    logs = 0.08 * (math.sqrt(share) * covariate + math.sqrt(1 - share) * random.normal(0, 1, shape)) + blocks
    logs[0] += math.log(RATIO)
    return 100 * np.exp(logs), covariate


def test_two_configurations_are_the_analysis_of_covariance() -> None:
    values, covariate = simulated(np.random.default_rng(5), 6, 2, 0.7, blocked=False)
    side = np.repeat([1.0, 0.0], 6)
    expected = OLS(np.log(values.ravel()), np.column_stack([np.ones(12), side, covariate.ravel()])).fit()
    slopes = estimate_slopes(values.ravel(), side.tolist(), {"speed": covariate.ravel()})
    assert slopes.slopes[0] == pytest.approx(expected.params[2])
    plain = compare(values[0], values[1])
    found = correct_comparison(plain, ((values[0], covariate[0][:, None]), (values[1], covariate[1][:, None])), slopes)
    assert found.evidence is not None
    # The plain ratio is one of means, not of their logarithms.
    of_logs = float(np.log(values[0]).mean() - np.log(values[1]).mean())
    assert math.log(found.evidence.ratio / plain.ratio.estimate) == pytest.approx(expected.params[1] - of_logs)
    assert found.evidence.error == pytest.approx(expected.bse[1])
    assert found.evidence.df == expected.df_resid
    assert found.covariates == ("speed",)


@pytest.mark.parametrize(("runs", "configurations", "blocked"), [(5, 8, False), (10, 2, False), (5, 8, True)])
def test_corrected_intervals_cover_the_ratio_and_are_narrower(runs: int, configurations: int, blocked: bool) -> None:
    random, covered, widths = np.random.default_rng(11), 0, []
    for _ in range(300):
        values, covariate = simulated(random, runs, configurations, 0.8, blocked=blocked)
        names = np.repeat(np.arange(configurations), runs).tolist()
        slopes = estimate_slopes(values.ravel(), names, {"speed": covariate.ravel()})
        plain = compare(values[0], values[1], blocked=blocked)
        sides = [(values[at], covariate[at][:, None]) for at in (0, 1)]
        found = correct_comparison(plain, (sides[0], sides[1]), slopes)
        if found.evidence is None:
            continue
        interval = found.evidence.interval(0.95)
        covered += interval.low <= RATIO <= interval.high
        widths.append(found.width_ratio)
    # Four standard errors of 95 % of 300.
    assert covered / len(widths) == pytest.approx(0.95, abs=0.05)
    assert len(widths) > 250
    # A source of 80 % of the variance: what is left has 45 % of the spread.
    assert np.median(widths) == pytest.approx(math.sqrt(0.2), abs=0.05)


def test_corrections_are_refused() -> None:
    random = np.random.default_rng(3)
    values, noise = simulated(random, 8, 4, 0.0, blocked=False)
    names = np.repeat(np.arange(4), 8).tolist()

    def refused(a: np.ndarray, b: np.ndarray, of_a: np.ndarray, of_b: np.ndarray) -> str:
        slopes = estimate_slopes(values.ravel(), names, {"speed": noise.ravel()})
        found = correct_comparison(compare(a, b), ((a, of_a[:, None]), (b, of_b[:, None])), slopes)
        assert (found.evidence is None) == bool(found.reason)
        assert math.isnan(found.width_ratio) == bool(found.reason)
        return found.reason

    assert refused(values[0], values[1], noise[0], noise[1]) == "it would not make the interval narrower"
    assert refused(values[0][:1], values[1], noise[0][:1], noise[1]) == "a side has a single run"
    unknown = np.where(np.arange(8) == 3, np.nan, noise[0])
    assert refused(values[0], values[1], unknown, noise[1]) == "not known of all runs: speed"
    # What differs between two configurations, and not within them, must not turn their difference round.
    fast, slow = 100 * np.exp(0.02 * noise[0] + 0.01), 100 * np.exp(0.02 * noise[1])
    slopes = estimate_slopes(np.concatenate([fast, slow]), ["a"] * 8 + ["b"] * 8, {"speed": noise[:2].ravel()})
    sides = ((fast, noise[0][:, None] + 5), (slow, noise[1][:, None]))
    assert correct_comparison(compare(fast, slow), sides, slopes).reason == "it would turn the difference round"


def test_what_has_no_slope_is_refused() -> None:
    with pytest.raises(
        InsufficientDataError, match="4 runs of 2 configurations do not tell the slopes of 1 covariates"
    ):
        estimate_slopes([1.0, 2, 3, 4], ["a", "a", "b", "b"], {"speed": [1.0, 1, 2, 2]})
    with pytest.raises(UsageError, match="not positive"):
        estimate_slopes([1.0, 0], ["a", "a"], {"speed": [1.0, 2]})
    with pytest.raises(UsageError, match="different lengths"):
        estimate_slopes([1.0, 2], ["a", "a"], {"speed": [1.0]})
