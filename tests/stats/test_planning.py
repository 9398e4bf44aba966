"""Numbers of runs and the influence of single ones."""

import math

import numpy as np
import pytest
import scipy.stats
from statsmodels.api import OLS

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats.planning import check_enough_runs, compute_run_influence


def sample_with(mean: float, sd: float, n: int) -> list[float]:
    """n values with exactly this mean and standard deviation."""
    base = np.linspace(-1, 1, n)
    values: list[float] = (mean + sd * (base - base.mean()) / base.std(ddof=1)).tolist()
    return values


def test_required_runs_is_jains_example() -> None:
    # Chapter 13, sample size for a mean: mean 20 s, standard deviation 5 s, ±5 % at 95 %: 96.04, so 97 observations.
    values = sample_with(20, 5, 30)
    assert stats.required_runs(values, 0.05, method="normal").runs == 97
    needed = stats.required_runs(values, 0.05)
    assert str(needed) == "122 runs for ±5 % (95 %, assurance 80 %)"


@pytest.mark.parametrize("assurance", [0.5, 0.8, 0.95])
def test_required_runs_bound_the_spread_of_those_to_come_by_f(assurance: float) -> None:
    values, r = sample_with(20, 5, 6), 0.05
    needed = stats.required_runs(values, r, assurance=assurance).runs

    def half_width(n: int) -> float:
        more = n - 6
        variance = 25 * (5 + more * scipy.stats.f.ppf(assurance, more, 5)) / (n - 1)
        return float(scipy.stats.t.ppf(0.975, n - 1) * math.sqrt(variance / n))

    assert half_width(needed) <= r * 20 < half_width(needed - 1)


def reached(pilot: int, spread: float, repeats: int) -> float:
    """Share of plans from so many pilot runs whose interval is as narrow as planned."""
    rng = np.random.default_rng(pilot)
    held = []
    for _ in range(repeats):
        made = rng.normal(100, spread, pilot)
        runs = stats.required_runs(made, 0.05).runs
        values = np.r_[made, rng.normal(100, spread, runs - pilot)]
        held.append(stats.mean_interval(values).relative_half_width <= 0.05)
    return float(np.mean(held))


def test_a_plan_from_five_runs_reaches_its_precision() -> None:
    assert reached(5, 8, 300) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("pilot", [3, 5, 10])
@pytest.mark.parametrize("spread", [5, 8, 15])
def test_plans_reach_their_precision_as_often_as_assured(pilot: int, spread: float) -> None:
    assert reached(pilot, spread, 2_000) > 0.78


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([100], "4 more (assurance 80 %)"),
        ([100, 100.1], "3 more (assurance 80 %)"),
        ([100, 100.1, 99.9, 100], "1 more (assurance 80 %)"),
        ([100, 100.1, 99.9, 100, 100], "enough"),
    ],
)
def test_no_decision_before_the_fewest_runs(values: list[float], words: str) -> None:
    assert str(check_enough_runs(values)) == words


def test_stopping_follows_the_precision_and_the_limit() -> None:
    values = sample_with(100, 12, 6)
    rule = check_enough_runs(values, 0.05)
    assert rule.more == stats.required_runs(values, 0.05).runs - 6
    assert rule.reached == pytest.approx(stats.mean_interval(values).relative_half_width)
    assert check_enough_runs(values, 0.05, most=10).more == 4
    at_limit = check_enough_runs(values, 0.05, most=6)
    assert (at_limit.enough, at_limit.more) == (False, 0)
    assert "stopped at 6 runs with ±" in at_limit.warnings[0]


def test_influence_is_that_of_a_regression_on_a_constant() -> None:
    values = np.array([10.0, 12, 11, 13, 9, 25])
    theirs = OLS(values, np.ones(6)).fit().get_influence()
    ours = compute_run_influence(values)
    np.testing.assert_allclose(ours.deleted_residual, theirs.resid_studentized_external)
    np.testing.assert_allclose(ours.mean_without, values.mean() - theirs.dfbeta.ravel())
    assert ours.outlying.tolist() == [False] * 5 + [True]
    assert ours.warnings[0].startswith("run 6 (25) lies")


def test_influence_of_equal_values_is_none() -> None:
    ours = compute_run_influence([3.0, 3.0, 3.0, 3.0])
    assert not ours.outlying.any()
    assert ours.warnings == ()


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InsufficientDataError):
        stats.required_runs([1.0], 0.05)
    with pytest.raises(UsageError):
        stats.required_runs([1.0, 2.0], 0)
    with pytest.raises(UsageError):
        stats.required_runs([-1.0, 1.0], 0.05)
    assert math.isnan(check_enough_runs([1.0]).reached)
