"""Decomposition of the difference of two means into terms that add up to it exactly.

A mean time per operation is a sum over kinds of statements k, and over the places c where they ran::

    R = sum_k p_k * sum_c q_c|k * sum_s m_cs

with the statements of a kind per operation (p), the share of each place among them (q), and the mean time of each
segment there (m). The difference of two such means is divided by the rule of Das Gupta, Standardization and
Decomposition of Rates (1993), for three factors: each factor's effect is its own change, weighted by the other two
averaged over the orders in which they could have changed. This is the Shapley value of the factors, and for two factors
the decomposition of Kitagawa (1955) and of Oaxaca and Blinder without a reference side. It does not depend on any
order, and swapping the sides changes the signs only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from citus_analysis.core.array_types import Bools, Floats, Integers


@dataclass(frozen=True)
class Effects:
    """The terms of a difference; all of them together are the difference of the two means.

    Attributes:
        mix: effect of each kind's number of statements per operation (p); one value per kind.
        place: effect of the places within each kind (q); one value per kind.
        times: effect of each segment's mean time (m); one row per cell, one column per segment.
    """

    mix: Floats
    place: Floats
    times: Floats

    @property
    def total(self) -> float:
        """The difference."""
        return float(self.mix.sum() + self.place.sum() + self.times.sum())


def decompose(kinds: Integers, base: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Effects:
    """Divide the difference `other` - `base` of the mean time per operation.

    A cell or kind that one side lacks has no mean time there: that of the other side stands in, so that its appearance
    is an effect of the place or of the mix.

    Args:
        kinds: for each cell, the number of its kind, from 0.
        base: statements per operation of each cell, and time per operation of each cell and segment (µs).
        other: the same of the other side.

    Example:
        Reads take 1 ms more, and nothing else changes:

        >>> kinds = np.array([0, 1])
        >>> shares = np.array([0.9, 0.1])
        >>> before, after = np.array([[1.0], [5.0]]), np.array([[2.0], [5.0]])
        >>> effects = decompose(kinds, (shares, shares[:, None] * before), (shares, shares[:, None] * after))
        >>> effects.times.ravel().round(9).tolist(), float(abs(effects.mix).sum())
        ([0.9, 0.0], 0.0)
    """
    number = int(kinds.max(initial=-1)) + 1
    counts = (base[0], other[0])
    p = [_by_kind(kinds, side, number) for side in counts]
    q = [_divided(side, per_kind[kinds]) for side, per_kind in zip(counts, p, strict=True)]
    m = [_divided(sums, side[:, None]) for (side, sums) in (base, other)]
    # A side without a kind has no places of it; a side without a cell has no times of it.
    q = _standing_in(q, [per_kind[kinds] > 0 for per_kind in p])
    m = _standing_in(m, [np.broadcast_to((side > 0)[:, None], m[0].shape) for side in counts])
    whole = [times.sum(axis=1) for times in m]
    of_kind = [[_by_kind(kinds, q[i] * whole[j], number) for j in (0, 1)] for i in (0, 1)]
    mix = (p[1] - p[0]) * _average(of_kind[0][0], of_kind[1][1], of_kind[0][1], of_kind[1][0])
    at = [per_kind[kinds] for per_kind in p]
    place = (q[1] - q[0]) * _average(at[0] * whole[0], at[1] * whole[1], at[0] * whole[1], at[1] * whole[0])
    weights = _average(at[0] * q[0], at[1] * q[1], at[0] * q[1], at[1] * q[0])
    return Effects(mix, _by_kind(kinds, place, number), (m[1] - m[0]) * weights[:, None])


def _by_kind(kinds: Integers, values: Floats, number: int) -> Floats:
    return np.bincount(kinds, weights=values, minlength=number).astype(np.float64)


def _average(base: Floats, other: Floats, first: Floats, second: Floats) -> Floats:
    """The product of the two other factors, averaged over the orders of change: Das Gupta's weights for three."""
    return (base + other) / 3 + (first + second) / 6


def _divided(values: Floats, by: Floats) -> Floats:
    return np.divide(values, by, out=np.zeros(np.broadcast_shapes(values.shape, by.shape)), where=by > 0)


def _standing_in(values: list[Floats], known: list[Bools]) -> list[Floats]:
    return [np.where(known[i], values[i], values[1 - i]) for i in (0, 1)]
