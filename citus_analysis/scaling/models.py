"""Models of throughput against size (workers, threads, vCPUs), all with gamma = throughput at size 1.

References:
    Amdahl, G. M. (1967). Validity of the single processor approach ... AFIPS 30.
    Gustafson, J. L. (1988). Reevaluating Amdahl's law. Communications of the ACM 31.
    Gunther, N. J. (2007). Guerrilla Capacity Planning, chapters 4 to 6 (Universal Scalability Law).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import nnls

from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import require_known


@dataclass(frozen=True)
class Model:
    """A curve X(n) whose parameters are at least 0; alpha, which is a share, is at most 1.

    Attributes:
        name: name of the model, as in `MODELS`.
        parameters: names, in the order of the arguments of `curve`.
        curve: X(n, parameters); parameters have the shape (..., p), n broadcasts against (..., 1).
        jacobian: derivatives by each parameter, shape (..., len(n), p).
        start: first guess from sizes and throughputs.
    """

    name: str
    parameters: tuple[str, ...]
    curve: Callable[[Floats, Floats], Floats]
    jacobian: Callable[[Floats, Floats], Floats]
    start: Callable[[Floats, Floats], Floats]

    @property
    def upper(self) -> Floats:
        """The upper bounds of the parameters."""
        return np.array([1.0 if name == "alpha" else math.inf for name in self.parameters])


def _split(p: Floats, count: int) -> tuple[Floats, ...]:
    """Parameters along the last axis, 0 for those that a model lacks; their last axis broadcasts over sizes."""
    whole = np.concatenate([p, np.zeros((*p.shape[:-1], count - p.shape[-1]))], axis=-1)
    return tuple(np.moveaxis(whole, -1, 0)[..., None])


def _evaluate_gustafson(n: Floats, p: Floats) -> Floats:
    gamma, alpha = _split(p, 2)
    return gamma * (n - alpha * (n - 1))


def _compute_gustafson_jacobian(n: Floats, p: Floats) -> Floats:
    gamma, alpha = _split(p, 2)
    return np.stack([n - alpha * (n - 1), -gamma * (n - 1)], axis=-1)


def _guess_gustafson_start(n: Floats, x: Floats) -> Floats:
    slope, intercept = np.polyfit(n, x, 1) if np.ptp(n) else (0.0, float(x.mean()))
    gamma = max(float(intercept + slope), 1e-9 * float(x.mean()))
    return np.array([gamma, np.clip(1 - slope / gamma, 0, 1)])


def _evaluate_usl(n: Floats, p: Floats) -> Floats:
    """The law; without beta Amdahl's, and without alpha the linear one."""
    gamma, alpha, beta = _split(p, 3)
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def _compute_usl_jacobian(n: Floats, p: Floats) -> Floats:
    gamma, alpha, beta = _split(p, 3)
    shared = 1 + alpha * (n - 1) + beta * n * (n - 1)
    bend = -gamma * n * (n - 1) / shared**2
    return np.stack([n / shared, bend, bend * n][: p.shape[-1]], axis=-1)


def _guess_usl_start(n: Floats, x: Floats) -> Floats:
    """Start from a linear fit: n/X is linear in (n-1) and n(n-1); weights X²/n correct for the transformed errors."""
    columns = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    weight = (x**2 / n)[:, None]
    (inverse, alpha, beta), _ = nnls(columns * weight, x * weight[:, 0] * n / x)
    gamma = 1 / inverse if inverse > 0 else float(x[np.argmin(n)] / n.min())
    return np.array([gamma, min(alpha * gamma, 1.0), beta * gamma])


LINEAR: Final = Model(
    "linear", ("gamma",), _evaluate_usl, _compute_usl_jacobian, lambda n, x: np.array([(n @ x) / (n @ n)])
)
AMDAHL: Final = Model(
    "amdahl", ("gamma", "alpha"), _evaluate_usl, _compute_usl_jacobian, lambda n, x: _guess_usl_start(n, x)[:2]
)
GUSTAFSON: Final = Model(
    "gustafson", ("gamma", "alpha"), _evaluate_gustafson, _compute_gustafson_jacobian, _guess_gustafson_start
)
USL: Final = Model("usl", ("gamma", "alpha", "beta"), _evaluate_usl, _compute_usl_jacobian, _guess_usl_start)

MODELS: Final[dict[str, Model]] = {model.name: model for model in (LINEAR, AMDAHL, GUSTAFSON, USL)}


def model_named(name: str) -> Model:
    """The model of that name.

    Raises:
        UnknownNameError: there is none.

    Example:
        >>> model_named("usl").parameters
        ('gamma', 'alpha', 'beta')
    """
    require_known("model", name, MODELS)
    return MODELS[name]
