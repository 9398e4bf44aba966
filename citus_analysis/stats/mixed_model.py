"""Runs whose iterations may share conditions: a linear mixed model with a random effect per iteration.

Iterations are not treated as blocks if the runs have no start times, were made size by size, or if a side lacks a run.
Then their effect is estimated on the log scale: log x = mean + side + iteration + rest, by restricted maximum
likelihood (REML). With one run of each side in every iteration there is a closed form: the differences within
iterations with n - 1 degrees of freedom. All other layouts are fitted by statsmodels' `MixedLM`, which gives no degrees
of freedom; Satterthwaite's are computed here from the expected information of both variances.

The model is used only if an F test shows at 5 % that iterations differ. A variance above 0 is not enough: two unrelated
sets have one in half of all cases, and choosing the smaller of two errors claims a difference too often (6.6 % at a
level of 5 %).

References:
    Pinheiro, J. C. and Bates, D. M. (2000). Mixed-Effects Models in S and S-PLUS, chapter 2.
    Satterthwaite, F. E. (1946). An approximate distribution of estimates of variance components. Biometrics
        Bulletin 2.
    Wald, A. (1947). A note on regression analysis. Annals of Mathematical Statistics 18 (test of a random effect).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.core.type_aliases import Floats
from citus_analysis.stats.distributions import compute_f_tail
from citus_analysis.stats.drift import FEWEST_BLOCKS
from citus_analysis.texts.words import pluralize

#: Level of the test that iterations differ.
_ALPHA: Final = 0.05
_Labels = NDArray[np.int64]
_Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class IterationEffect:
    """A log ratio of two sets of runs whose iterations share conditions.

    Attributes:
        log_ratio: difference of both sides on the log scale.
        error: its standard error.
        df: degrees of freedom of the error.
        variance_between: variance of iterations, on the log scale.
        variance_within: variance of runs of one iteration and side, on the log scale.
        p_iterations: F test that iterations do not differ.
    """

    log_ratio: float
    error: float
    df: float
    variance_between: float
    variance_within: float
    p_iterations: float


@dataclass(frozen=True)
class _IterationLayout:
    """Logs of all runs, with the number of the iteration and the side of each (1 for `a`)."""

    logs: Floats
    side: Floats
    iteration: _Labels

    @property
    def design(self) -> _Matrix:
        return np.column_stack([np.ones_like(self.side), self.side])

    @property
    def members(self) -> _Matrix:
        """One column per iteration: 1 for its runs."""
        return np.asarray(self.iteration[:, None] == np.unique(self.iteration)[None, :], dtype=np.float64)


def estimate_iterations(a: Floats, b: Floats, iterations: tuple[Floats, Floats]) -> IterationEffect | str:
    """The log ratio of two sets with a random effect per iteration, or the reason to treat the sets as independent.

    Args:
        a: positive values, one per run.
        b: positive values of the base.
        iterations: the iteration of each run of `a` and of `b`.

    Example:
        The mixed model of R's data set `sleep` in `nlme`: 1.58 with standard error 0.389 and 9 degrees of freedom.

        >>> first = np.exp([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
        >>> second = np.exp([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
        >>> found = estimate_iterations(first, second, (np.arange(10.0), np.arange(10.0)))
        >>> round(found.log_ratio, 2), round(found.error, 4), found.df
        (1.58, 0.389, 9.0)
        >>> estimate_iterations(first[:3], second[:3], (np.arange(3.0), np.arange(3.0)))
        '3 iterations are shared by both sets: too few for a mixed model (at least 4)'
    """
    shared = np.intersect1d(*iterations).size
    if shared < FEWEST_BLOCKS:
        words = pluralize(shared, "iteration")
        return f"{words} {'is' if shared == 1 else 'are'} shared by both sets: too few for a mixed model (at least 4)"
    if min(a.min(), b.min()) <= 0:
        return "values that are not positive have no logarithm for a mixed model"
    labels = np.unique(np.concatenate(iterations), return_inverse=True)[1]
    layout = _IterationLayout(np.log(np.concatenate([a, b])), np.repeat([1.0, 0.0], [a.size, b.size]), labels)
    p = _test_iteration_effect(layout)
    if not p <= _ALPHA:
        return f"no difference between iterations is shown (F test, p = {p:.2g})"
    cells = np.bincount(2 * layout.iteration + layout.side.astype(np.int64), minlength=2 * layout.members.shape[1])
    balanced = bool((cells == 1).all())  # one run of each set in each iteration
    return _estimate_closed_form(layout, p) if balanced else _estimate_by_reml(layout, p)


def _test_iteration_effect(layout: _IterationLayout) -> float:
    """Wald's exact test that iterations have no effect: an F test of the squares that they explain beyond the sides."""
    sides, both = layout.design, np.column_stack([layout.side, layout.members])
    rank = int(np.linalg.matrix_rank(both))
    between, within = rank - 2, layout.logs.size - rank
    left, rest = _compute_residual_square_sum(sides, layout.logs), _compute_residual_square_sum(both, layout.logs)
    if within <= 0 or between <= 0 or left < 1e-20:
        return math.nan
    return 0.0 if rest < 1e-20 else compute_f_tail((left - rest) / between / (rest / within), between, within)


def _compute_residual_square_sum(columns: _Matrix, logs: Floats) -> float:
    residuals = logs - columns @ np.linalg.lstsq(columns, logs, rcond=None)[0]
    return float(residuals @ residuals)


def _estimate_closed_form(layout: _IterationLayout, p: float) -> IterationEffect:
    """The effect from differences within iterations that have one run of each side."""
    a, b = (layout.logs[layout.side == side][np.argsort(layout.iteration[layout.side == side])] for side in (1, 0))
    differences, means = a - b, (a + b) / 2
    within = float(differences.var(ddof=1)) / 2
    between = float(means.var(ddof=1)) - within / 2
    error = math.sqrt(2 * within / a.size)
    return IterationEffect(float(differences.mean()), error, a.size - 1.0, max(between, 0.0), within, p)


def _estimate_by_reml(layout: _IterationLayout, p: float) -> IterationEffect | str:
    """The effect for any layout: variances by REML, generalised least squares, Satterthwaite's degrees of freedom."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    centre, scale = float(layout.logs.mean()), float(layout.logs.std())
    model = MixedLM((layout.logs - centre) / scale, layout.design, groups=layout.iteration)
    with warnings.catch_warnings():
        # The result is checked below; statsmodels also warns of intermediate steps.
        warnings.simplefilter("ignore")
        fitted = model.fit(reml=True)
    between, within = float(np.asarray(fitted.cov_re)[0, 0]) * scale**2, float(fitted.scale) * scale**2
    if not fitted.converged or not math.isfinite(between + within) or within <= 0:
        return "the mixed model did not converge"
    if between < 1e-6 * within:
        return "the variance between iterations is estimated as 0"
    log_ratio, error, df = _solve_generalised_least_squares(layout, between, within)
    return IterationEffect(log_ratio, error, df, between, within, p)


def _solve_generalised_least_squares(
    layout: _IterationLayout, between: float, within: float
) -> tuple[float, float, float]:
    """Effect of the side, its standard error and Satterthwaite's degrees of freedom, given both variances."""
    shared = layout.members @ layout.members.T
    identity = np.eye(layout.logs.size)
    inverse = np.linalg.inv(between * shared + within * identity)
    x = layout.design
    covariance = np.linalg.inv(x.T @ inverse @ x)
    effects = covariance @ x.T @ inverse @ layout.logs
    projection = inverse - inverse @ x @ covariance @ x.T @ inverse
    parts = [projection @ one for one in (shared, identity)]
    information = np.array([[np.sum(first * second.T) / 2 for second in parts] for first in parts])
    weights = inverse @ x @ covariance[:, 1]
    gradient = np.array([weights @ one @ weights for one in (shared, identity)])
    variance = float(covariance[1, 1])
    df = 2 * variance**2 / float(gradient @ np.linalg.inv(information) @ gradient)
    return float(effects[1]), math.sqrt(variance), df
