"""Bounded least squares: one fit with scipy, many bootstrap refits at once with numpy.

Reference:
    Moré, J. J. (1978). The Levenberg-Marquardt algorithm: implementation and theory. LNM 630.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from citus_analysis.scaling.models import Model

__all__ = ["solve", "solve_many"]

Floats = NDArray[np.float64]
_TIGHT: Final = 1e-15
_ROUNDS: Final = 60


def solve(model: Model, n: Floats, x: Floats) -> Floats:
    """Least-squares parameters of a model within their bounds."""
    scale = float(np.abs(x).max())
    lower, upper = np.array(model.lower), np.array(model.upper)
    start = np.clip(model.start(n, x), lower, upper)

    def residuals(p: Floats) -> Floats:
        return (model.curve(n, p) - x) / scale

    def jacobian(p: Floats) -> Floats:
        return model.jacobian(n, p) / scale

    options: dict[str, Any] = {"xtol": _TIGHT, "ftol": _TIGHT, "gtol": _TIGHT, "x_scale": "jac", "max_nfev": 2_000}
    # dogbox walks along the bounds and ends exactly on one that binds.
    result = least_squares(residuals, start, jac=jacobian, bounds=(lower, upper), method="dogbox", **options)
    found: Floats = result.x
    polished: Floats = solve_many(model, n, x[None, :], found)[0]
    return polished


def solve_many(model: Model, n: Floats, x: Floats, start: Floats) -> Floats:
    """Parameters, shape (B, p), for each row of throughputs, shape (B, len(n)), from one start.

    Levenberg-Marquardt with bounds: a parameter that presses against its bound is held there for the step.
    """
    lower, upper = np.array(model.lower), np.array(model.upper)
    theta = np.tile(start, (x.shape[0], 1))
    damping = np.full(x.shape[0], 1e-3)
    residual = x - model.curve(n, theta)
    loss = (residual**2).sum(axis=-1)
    for _ in range(_ROUNDS):
        jacobian = model.jacobian(n, theta)
        candidate = np.clip(theta + _steps(jacobian, residual, damping, theta, lower, upper), lower, upper)
        new_residual = x - model.curve(n, candidate)
        new_loss = (new_residual**2).sum(axis=-1)
        better = new_loss < loss
        gain = np.where(better, loss - new_loss, 0.0)
        theta = np.where(better[:, None], candidate, theta)
        residual = np.where(better[:, None], new_residual, residual)
        settled = (gain <= 1e-14 * loss) & (better | (damping > 1e6))
        loss = np.where(better, new_loss, loss)
        damping = np.where(better, damping / 10, damping * 10)
        if settled.all() or (damping > 1e10).all():
            break
    return theta


def _steps(jacobian: Floats, residual: Floats, damping: Floats, theta: Floats, lower: Floats, upper: Floats) -> Floats:
    gradient = np.einsum("bnp,bn->bp", jacobian, residual)
    normal = np.einsum("bnp,bnq->bpq", jacobian, jacobian)
    held = ((theta <= lower) & (gradient < 0)) | ((theta >= upper) & (gradient > 0))
    diagonal = np.einsum("bpp->bp", normal)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    # Scaling to a unit diagonal keeps gamma (1e5) and beta (1e-5) in one well-conditioned system.
    normal = normal / (scale[:, :, None] * scale[:, None, :])
    free = ~held
    normal = normal * (free[:, :, None] & free[:, None, :])
    eye = np.eye(theta.shape[-1])
    normal = normal + eye * (damping[:, None] + 1e-14 + held)[:, None, :]
    step: Floats = np.linalg.solve(normal, (gradient / scale * free)[..., None])[..., 0]
    return step / scale
