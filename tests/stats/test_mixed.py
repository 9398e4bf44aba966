"""Iterations with a random effect: the closed form, statsmodels, another maximisation, and simulated error rates."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from citus_analysis import stats
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import UsageError
from citus_analysis.stats import mixed_model as mixed
from citus_analysis.stats.mixed_model import IterationEffect, estimate_iterations

#: R's data set `sleep`: extra hours of sleep of ten patients under two drugs. R's `nlme` on it,
#: `lme(extra ~ group, random = ~ 1 | ID)`: 1.58, standard error 0.3889587, 9 degrees of freedom, t 4.062128, p 0.0028;
#: standard deviations 1.6877 (ID) and 0.8697 (residual).
FIRST = np.exp([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SECOND = np.exp([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
PATIENTS = np.arange(10.0)


def effect_of(a: Floats, b: Floats, iterations: tuple[Floats, Floats]) -> IterationEffect:
    found = estimate_iterations(a, b, iterations)
    assert isinstance(found, IterationEffect), found
    return found


def drawn(rng: np.random.Generator, blocks: int, between: float, within: float) -> tuple[Floats, Floats]:
    """One run of each side in every iteration; standard deviations on the log scale."""
    common = between * rng.normal(size=blocks)
    return (np.exp(common + within * rng.normal(size=blocks)), np.exp(common + within * rng.normal(size=blocks)))


def test_sleep_as_nlme_has_it() -> None:
    found = effect_of(SECOND, FIRST, (PATIENTS, PATIENTS))
    assert found.log_ratio == pytest.approx(1.58)
    assert found.error == pytest.approx(0.3889587, abs=5e-8)
    assert found.df == 9
    assert math.sqrt(found.variance_between) == pytest.approx(1.6877, abs=5e-5)
    assert math.sqrt(found.variance_within) == pytest.approx(0.8697, abs=5e-5)
    one = stats.compare(SECOND, FIRST, iterations=(PATIENTS, PATIENTS))
    assert (one.design, one.evidence.df) == ("mixed", 9)
    assert one.p_difference == pytest.approx(0.0028, abs=5e-5)


def test_statsmodels_gives_the_closed_form_where_there_is_one() -> None:
    rng = np.random.default_rng(2)
    for blocks in (4, 6, 15):
        a, b = drawn(rng, blocks, 0.2, 0.03)
        labels = np.tile(np.arange(blocks), 2)
        layout = mixed._IterationLayout(np.log(np.concatenate([a, b])), np.repeat([1.0, 0.0], blocks), labels)
        closed, fitted = mixed._estimate_closed_form(layout, 0.01), mixed._estimate_by_reml(layout, 0.01)
        assert isinstance(fitted, IterationEffect)
        assert fitted.log_ratio == pytest.approx(closed.log_ratio)
        assert fitted.error == pytest.approx(closed.error, rel=1e-3)
        assert fitted.df == pytest.approx(closed.df, rel=1e-3)
        assert fitted.variance_between == pytest.approx(closed.variance_between, rel=1e-2)


def test_incomplete_iterations_are_those_of_another_maximisation() -> None:
    rng = np.random.default_rng(4)
    a, b = drawn(rng, 9, 0.15, 0.03)
    iterations = np.arange(9.0)
    # Iteration 2 lacks a run of `a`, 5 and 6 one of `b`; of iteration 0, `a` has two.
    a, in_a = np.append(np.delete(a, 2), a[0] * 1.02), np.append(np.delete(iterations, 2), 0.0)
    b, in_b = np.delete(b, [5, 6]), np.delete(iterations, [5, 6])
    found = effect_of(a, b, (in_a, in_b))
    logs, groups = np.log(np.concatenate([a, b])), np.concatenate([in_a, in_b])
    x = np.column_stack([np.ones(logs.size), np.repeat([1.0, 0.0], [a.size, b.size])])

    def solved(theta: Floats) -> tuple[float, Floats, Floats]:
        """Twice the negative restricted log likelihood, and generalised least squares."""
        between, within = np.exp(theta)
        v = between * (groups[:, None] == groups[None, :]) + within * np.eye(logs.size)
        covariance = np.linalg.inv(x.T @ np.linalg.solve(v, x))
        beta = covariance @ x.T @ np.linalg.solve(v, logs)
        rest = logs - x @ beta
        value = np.linalg.slogdet(v)[1] - np.linalg.slogdet(covariance)[1] + rest @ np.linalg.solve(v, rest)
        return float(value), beta, covariance

    def value_of(theta: Floats) -> float:
        return solved(theta)[0]

    best = scipy.optimize.minimize(value_of, np.array([-4.0, -7.0]), method="Nelder-Mead", tol=1e-11)
    _, beta, covariance = solved(best.x)
    assert found.log_ratio == pytest.approx(beta[1], rel=1e-4)
    assert found.error == pytest.approx(math.sqrt(covariance[1, 1]), rel=1e-3)
    assert (found.variance_between, found.variance_within) == pytest.approx(tuple(np.exp(best.x)), rel=5e-3)
    # 17 - 2 of the runs, less those that the iterations take: as many as the residuals within iterations have, or more.
    assert 6 < found.df < 10


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([10.0, 11, 12], [9.0, 10, 11], "3 iterations are shared by both sets: too few for a mixed model (at least 4)"),
        ([10.0, 11, 12, 0], [9.0, 10, 11, 12], "values that are not positive have no logarithm for a mixed model"),
        ([10.0, 12, 10, 12], [12.0, 10, 12, 10], "no difference between iterations is shown (F test, p = 1)"),
    ],
)
def test_sets_are_independent_where_a_mixed_model_says_nothing(a: list[float], b: list[float], reason: str) -> None:
    order = list(range(len(a)))
    one = stats.compare(a, b, iterations=(order, order))
    assert (one.design, one.design_reason) == ("unpaired", reason)
    assert one.ratio == stats.compare(a, b).ratio


def test_a_model_that_does_not_converge_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    fit = MixedLM.fit

    def stopped(self: MixedLM, **options: object) -> object:
        found = fit(self, **options)
        found.converged = False
        return found

    monkeypatch.setattr(MixedLM, "fit", stopped)
    a, b = drawn(np.random.default_rng(1), 6, 0.2, 0.02)
    one = stats.compare(a[1:], b, iterations=([1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]))
    assert (one.design, one.design_reason) == ("unpaired", "the mixed model did not converge")


def test_each_run_has_an_iteration() -> None:
    with pytest.raises(UsageError, match="3 and 3 runs, but 2 and 3 iterations"):
        stats.compare([1, 2, 3], [1, 2, 3], iterations=([1, 2], [1, 2, 3]))


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("blocks", [5, 10])
def test_differences_are_claimed_as_often_as_stated(blocks: int, share: float, lost: int) -> None:
    rng = np.random.default_rng(20)
    iterations, claims, repeats = np.arange(float(blocks)), 0, 2_000 if lost == 0 else 400
    for _ in range(repeats):
        a, b = drawn(rng, blocks, 0.05 * math.sqrt(share), 0.05 * math.sqrt(1 - share))
        one = stats.compare(a[lost:], b, iterations=(iterations[lost:], iterations))
        claims += one.p_difference <= 0.05
    # 5.7 % at most in 100,000 repeats of the balanced case; three standard errors above.
    assert claims / repeats < 0.057 + 3 * math.sqrt(0.057 * 0.943 / repeats)


@pytest.mark.slow
def test_a_difference_under_differing_iterations_is_decided() -> None:
    rng = np.random.default_rng(21)
    iterations = np.arange(5.0)
    verdicts: dict[str, list[str]] = {"mixed": [], "unpaired": []}
    for _ in range(500):
        a, b = drawn(rng, 5, 0.1, 0.015)
        verdicts["mixed"].append(stats.compare(1.06 * a, b, iterations=(iterations, iterations)).verdict)
        verdicts["unpaired"].append(stats.compare(1.06 * a, b).verdict)
    assert verdicts["mixed"].count("faster") / 500 > 0.85
    assert verdicts["unpaired"].count("faster") / 500 < 0.10
