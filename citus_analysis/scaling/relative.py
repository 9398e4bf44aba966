"""Speedup, efficiency and scalability relative to a base size, with intervals.

References:
    Jogalekar, P. and Woodside, M. (2000). Evaluating the scalability of distributed systems. IEEE TPDS 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.stats import Interval, mean_interval, ratio_interval


@dataclass(frozen=True, repr=False)
class ScalePoint(DisplayMixin):
    """The throughput of a system of one size, relative to the base size and to the next smaller size.

    Attributes:
        size: k, e.g. number of workers.
        throughput: mean X(k) over the runs.
        speedup: S(k) = X(k) / X(k0).
        efficiency: E(k) = S(k) k0 / k.
        psi: psi(k', k) = E(k) / E(k') against the next smaller size k'; None for the smallest.
        runs: the single values of the mean.
    """

    size: float
    throughput: Interval
    speedup: Interval
    efficiency: Interval
    psi: Interval | None
    runs: tuple[float, ...]

    def record(self) -> dict[str, float | None]:
        """Speedup, efficiency and psi with their ends, as columns of a table."""
        psi = self.psi.record("psi") if self.psi else dict.fromkeys(("psi", "psi_low", "psi_high"))
        return {**self.speedup.record("speedup"), **self.efficiency.record("efficiency"), **psi}


def compute_relative_scaling(
    k: ArrayLike, x: ArrayLike, base: float | None = None, *, level: float = LEVEL
) -> tuple[ScalePoint, ...]:
    """Throughput, speedup, efficiency and psi of each size.

    Args:
        k: size of each run (workers, threads), one entry per run; runs of equal size are repeats.
        x: throughput of each run.
        base: size k0 with which the others are compared; by default the smallest.
        level: confidence level. Ratios use Welch's t on the log scale, which keeps its level for few runs.

    Raises:
        UsageError: arrays of different length, or values that are not positive.
        UnknownNameError: no run has the base size.

    Example:
        >>> points = compute_relative_scaling([1, 1, 1, 4, 4, 4], [99, 100, 101, 299, 300, 301])
        >>> [(p.size, round(p.speedup.estimate, 2), round(p.efficiency.estimate, 2)) for p in points]
        [(1.0, 1.0, 1.0), (4.0, 3.0, 0.75)]
    """
    groups = group_by_size(k, x)
    sizes = list(groups)
    start = sizes[0] if base is None else _check_known_size(base, groups)
    points = []
    for i, size in enumerate(sizes):
        gain = _estimate_size_ratio(groups, size, start, level)
        step = _estimate_size_ratio(groups, size, sizes[i - 1], level).scaled(sizes[i - 1] / size) if i else None
        mean = mean_interval(groups[size], level, "log-t")
        share = gain.scaled(start / size)
        points.append(ScalePoint(size, mean, gain, share, step, tuple(groups[size].tolist())))
    return tuple(points)


def speedup(k: ArrayLike, x: ArrayLike, base: float | None = None, *, level: float = LEVEL) -> dict[float, Interval]:
    """S(k) = X(k) / X(k0) per size; see :func:`compute_relative_scaling`.

    Example:
        >>> round(speedup([1, 1, 2, 2], [10, 11, 20, 22])[2.0].estimate, 3)
        2.0
    """
    return {point.size: point.speedup for point in compute_relative_scaling(k, x, base, level=level)}


def efficiency(k: ArrayLike, x: ArrayLike, base: float | None = None, *, level: float = LEVEL) -> dict[float, Interval]:
    """E(k) = S(k) k0 / k per size; see :func:`compute_relative_scaling`.

    Example:
        >>> round(efficiency([1, 1, 2, 2], [10, 11, 15, 16.5])[2.0].estimate, 3)
        0.75
    """
    return {point.size: point.efficiency for point in compute_relative_scaling(k, x, base, level=level)}


def estimate_psi(k: ArrayLike, x: ArrayLike, k1: float, k2: float, *, level: float = LEVEL) -> Interval:
    """The change of efficiency from size k1 to k2: E(k2) / E(k1).

    Example:
        >>> round(estimate_psi([1, 1, 2, 2, 4, 4], [10, 11, 20, 22, 30, 33], 2, 4).estimate, 3)
        0.75
    """
    groups = group_by_size(k, x)
    first, second = _check_known_size(k1, groups), _check_known_size(k2, groups)
    return _estimate_size_ratio(groups, second, first, level).scaled(first / second)


def group_by_size(k: ArrayLike, x: ArrayLike) -> dict[float, Floats]:
    """The throughputs per size, sizes ascending."""
    sizes, values = np.asarray(k, float), np.asarray(x, float)
    if sizes.ndim != 1 or sizes.shape != values.shape:
        raise UsageError(f"sizes of shape {sizes.shape} and throughputs of shape {values.shape} do not belong together")
    if not sizes.size:
        raise InsufficientDataError("no runs: nothing scales")
    if not (np.isfinite(sizes) & np.isfinite(values) & (sizes > 0) & (values > 0)).all():
        raise UsageError("sizes and throughputs must be positive and finite", hint="leave failed runs out")
    return {float(size): values[sizes == size] for size in np.unique(sizes)}


def _check_known_size(size: float, groups: Mapping[float, Floats]) -> float:
    if float(size) not in groups:
        raise UnknownNameError("size", f"{size:g}", [f"{known:g}" for known in groups])
    return float(size)


def _estimate_size_ratio(groups: Mapping[float, Floats], size: float, base: float, level: float) -> Interval:
    if size == base:
        return Interval(1.0, 1.0, 1.0, level, groups[size].size, "by definition")
    return ratio_interval(groups[size], groups[base], level, "t")


def replace_with_simultaneous_intervals(
    points: Sequence[ScalePoint], ratios: Mapping[float, Interval], base: float
) -> tuple[ScalePoint, ...]:
    """Points whose speedup and efficiency have the intervals of comparisons.

    Args:
        points: points of one curve.
        ratios: size -> throughput over that of the base.
        base: size k0.
    """
    return tuple(
        replace(p, speedup=ratios[p.size], efficiency=ratios[p.size].scaled(base / p.size)) if p.size in ratios else p
        for p in points
    )
