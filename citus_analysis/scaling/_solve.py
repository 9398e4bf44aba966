"""Bounded least squares: one fit with scipy, many bootstrap refits at once with numpy.

Reference:
    Moré, J. J. (1978). The Levenberg-Marquardt algorithm: implementation and theory. LNM 630.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import least_squares

from citus_analysis.core.array_types import Floats
from citus_analysis.scaling.models import Model

_TIGHT: Final = 1e-15
_ROUNDS: Final = 100
#: Relative gain below which a fit has converged, and damping at which no step can improve it any more.
_SETTLED: Final = 1e-14
_STIFF: Final = 1e4
#: Keeps the logarithm of a curve that a step brought to 0 finite.
SMALLEST: Final = 1e-300
#: Further starts of alpha and beta, because on the log scale a curve may have more than one minimum.
_STARTS: Final = ((0.01, 1e-5), (0.3, 1e-3), (0.9, 0.1))


def solve(model: Model, n: Floats, x: Floats, *, relative: bool = False) -> Floats:
    """Least-squares parameters of a model within their bounds.

    Args:
        model: the curve.
        n: size of each run.
        x: throughput of each run.
        relative: minimise squares of logarithms, for errors in proportion to the throughput.
    """
    first = np.clip(model.start(n, x), 0.0, model.upper)
    if relative:
        starts = [first, *(np.array([first[0], *others])[: first.size] for others in _STARTS)]
        rows = np.tile(x, (len(starts), 1))
        found = solve_many(model, n, rows, np.array(starts), relative=True)
        misses = np.log(rows) - _logarithm(model.curve(n, found))
        best: Floats = found[int(np.argmin((misses**2).sum(axis=-1)))]
        return best
    scale = float(np.abs(x).max())

    def residuals(p: Floats) -> Floats:
        return (model.curve(n, p) - x) / scale

    def jacobian(p: Floats) -> Floats:
        return model.jacobian(n, p) / scale

    # dogbox moves along the bounds and ends exactly on an active one.
    result = least_squares(
        residuals,
        first,
        jac=jacobian,
        bounds=(0.0, model.upper),
        method="dogbox",
        xtol=_TIGHT,
        ftol=_TIGHT,
        gtol=_TIGHT,
        x_scale="jac",
        max_nfev=2_000,
    )
    polished: Floats = solve_many(model, n, x[None, :], result.x)[0]
    return polished


def _logarithm(curve: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(curve, SMALLEST)), dtype=np.float64)


def solve_many(model: Model, n: Floats, x: Floats, start: Floats, *, relative: bool = False) -> Floats:
    """Parameters, shape (B, p), for each row of throughputs, shape (B, len(n)), from one start or one for each row.

    Levenberg-Marquardt with bounds: a parameter whose step would cross its bound is kept there for the step.
    """

    def value(theta: Floats) -> Floats:
        curve = model.curve(n, theta)
        return _logarithm(curve) if relative else curve

    def slope(theta: Floats) -> Floats:
        jacobian = model.jacobian(n, theta)
        return jacobian / np.maximum(model.curve(n, theta), SMALLEST)[..., None] if relative else jacobian

    upper = model.upper
    wanted = np.log(x) if relative else x
    theta = np.array(np.broadcast_to(start, (x.shape[0], np.shape(start)[-1])))
    residual = wanted - value(theta)
    loss = (residual**2).sum(axis=-1)
    damping = np.full(x.shape[0], 1e-3)
    active = np.arange(x.shape[0])
    for _ in range(_ROUNDS):
        here = theta[active]
        steps = _steps(slope(here), residual[active], damping[active], here, upper)
        candidate = np.clip(here + steps, 0.0, upper)
        new_residual = wanted[active] - value(candidate)
        gain = loss[active] - (new_residual**2).sum(axis=-1)
        better = gain > 0
        moved = active[better]
        theta[moved], residual[moved] = candidate[better], new_residual[better]
        settled = np.where(better, gain <= _SETTLED * loss[active], damping[active] > _STIFF)
        loss[moved] -= gain[better]
        damping[active] = np.where(better, damping[active] / 10, damping[active] * 10)
        active = active[~settled]
        if not active.size:
            break
    return theta


def _steps(jacobian: Floats, residual: Floats, damping: Floats, theta: Floats, upper: Floats) -> Floats:
    across = jacobian.transpose(0, 2, 1)
    gradient = (across @ residual[..., None])[..., 0]
    normal = across @ jacobian
    held = ((theta <= 0) & (gradient < 0)) | ((theta >= upper) & (gradient > 0))
    diagonal = np.einsum("bpp->bp", normal)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    # Scaling to a unit diagonal keeps gamma (1e5) and beta (1e-5) in one well-conditioned system.
    normal = normal / (scale[:, :, None] * scale[:, None, :])
    free = ~held
    normal = normal * (free[:, :, None] & free[:, None, :])
    normal = normal + np.eye(theta.shape[-1]) * (damping[:, None] + 1e-14 + held)[:, None, :]
    step: Floats = np.linalg.solve(normal, (gradient / scale * free)[..., None])[..., 0]
    return step / scale
