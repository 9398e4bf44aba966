"""Several comparisons at once: Holm's adjustment of their verdicts.

Reference:
    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.arrays import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.stats._validate import as_sample, check_level, unique
from citus_analysis.stats.comparison import Comparison, decide

__all__ = ["compare_many", "holm"]


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment of p-values: controls the chance of any false claim among them.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = as_sample(p_values, 0, "p-values")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def compare_many(comparisons: Sequence[Comparison], *, level: float = LEVEL) -> tuple[Comparison, ...]:
    """Adjust the verdicts of comparisons by Holm's procedure, family by family.

    A family is what one question asks of one operation (`Comparison.family`): all set-ups and levels that a command
    or a section of a report compares for INSERT, say. The tests for a difference are adjusted among themselves,
    those for equivalence likewise; a verdict that rests on an adjusted p-value above 1 - level becomes
    `inconclusive`. A comparison that cannot be tested (one run on a side) does not count. Intervals stay as they are,
    each for its own comparison.

    Example:
        >>> from citus_analysis.stats import compare
        >>> one = compare([10, 11, 12, 13], [8, 9, 9.5, 10])
        >>> one.verdict, compare_many([one] * 3)[0].verdict
        ('faster', 'inconclusive')
    """
    alpha = 1 - check_level(level)
    families: dict[str, list[int]] = {}
    for place, comparison in enumerate(comparisons):
        if math.isfinite(comparison.p_difference):
            families.setdefault(comparison.family, []).append(place)
    adjusted = list(comparisons)
    for places in families.values():
        for place, one in zip(places, _adjusted([comparisons[i] for i in places], alpha), strict=True):
            adjusted[place] = one
    return tuple(adjusted)


def _adjusted(family: Sequence[Comparison], alpha: float) -> Iterator[Comparison]:
    differences = holm([c.p_difference for c in family])
    equivalences = holm([c.p_equivalence for c in family])
    for comparison, p_difference, p_equivalence in zip(family, differences, equivalences, strict=True):
        verdict = decide(comparison.ratio.estimate, p_difference, p_equivalence, alpha, comparison.higher_is_better)
        notes = comparison.warnings
        if verdict != comparison.verdict:
            notes = (*notes, f"{comparison.verdict} on its own, but not after Holm's adjustment")
        yield replace(
            comparison,
            verdict=verdict,
            p_difference_adjusted=float(p_difference),
            p_equivalence_adjusted=float(p_equivalence),
            family_size=len(family),
            warnings=unique(notes),
        )
