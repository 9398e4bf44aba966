"""Intervals for terms of a difference: from the runs of both sides, each left out in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from citus_analysis.core.array_types import Floats, Integers
from citus_analysis.stats.estimate._student import t_quantile, t_tail


@dataclass(frozen=True)
class Spread:
    """What a term would have been without each run.

    Attributes:
        sides: for each independent set of runs, one row per run left out, one column per term. Paired sides are one
            set: a pair is left out as a whole.
    """

    sides: tuple[Floats, ...]

    def summed(self, groups: Integers, number: int) -> Spread:
        """The spread of sums of terms; `groups` is the group of each term."""
        return Spread(tuple(side @ np.eye(number)[groups] for side in self.sides))

    def intervals(self, estimates: Floats, level: float, together: int = 1) -> tuple[Floats, Floats, Floats]:
        """Half widths, p-values and degrees of freedom.

        The variance is the jackknife's (Efron and Stein 1981), the quantile Student's t with Welch's and
        Satterthwaite's degrees of freedom.

        Args:
            estimates: the terms.
            level: confidence level.
            together: number of intervals that hold at the same time with this level (Bonferroni).
        """
        freedoms = [len(side) - 1 for side in self.sides]
        parts = [(len(one) - 1) / len(one) * ((one - one.mean(axis=0)) ** 2).sum(axis=0) for one in self.sides]
        variance = np.sum(parts, axis=0)
        below = np.sum([part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True)], axis=0)
        freedom = np.divide(variance**2, below, out=np.full_like(variance, float(min(freedoms))), where=below > 0)
        error = np.sqrt(variance)
        probability = 1 - (1 - level) / (2 * together)
        half = error * np.array([t_quantile(probability, one) for one in freedom])
        t = np.divide(np.abs(estimates), error, out=np.where(estimates == 0, 0.0, np.inf), where=error > 0)
        p = np.array([2 * t_tail(value, one) for value, one in zip(t, freedom, strict=True)])
        return half, np.minimum(p * together, 1.0), freedom


def spread_of(terms: Callable[[Floats, Floats], Floats], sizes: tuple[int, int], *, paired: bool) -> Spread:
    """Compute the terms without each run, or without each pair of runs.

    Args:
        terms: from the weights of the runs of both sides (sum 1 each) to the terms.
        sizes: numbers of runs.
        paired: whether the n-th runs of both sides belong together.
    """
    whole = tuple(np.full(size, 1 / size) for size in sizes)
    if paired:
        return Spread((np.array([terms(_without(sizes[0], i), _without(sizes[1], i)) for i in range(sizes[0])]),))
    first = np.array([terms(_without(sizes[0], i), whole[1]) for i in range(sizes[0])])
    second = np.array([terms(whole[0], _without(sizes[1], i)) for i in range(sizes[1])])
    return Spread((first, second))


def _without(size: int, place: int) -> Floats:
    weights = np.full(size, 1 / (size - 1))
    weights[place] = 0.0
    return weights
