"""Several comparisons at once: Holm's adjustment of their verdicts.

Reference:
    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.stats._validate import Floats, as_sample, check_level, unique
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


def compare_many(comparisons: Sequence[Comparison], *, level: float = 0.95) -> tuple[Comparison, ...]:
    """Adjust the verdicts of a family of comparisons by Holm's procedure.

    The tests for a difference form one family, those for equivalence another; a verdict that rests on an adjusted
    p-value above 1 - level becomes `inconclusive`. Intervals stay as they are, each for its own comparison.

    Example:
        >>> from citus_analysis.stats import compare
        >>> one = compare([10, 11, 12, 13], [8, 9, 9.5, 10])
        >>> one.verdict, compare_many([one] * 3)[0].verdict
        ('faster', 'inconclusive')
    """
    if len(comparisons) < 2:
        return tuple(comparisons)
    alpha = 1 - check_level(level)
    differences = holm([c.p_difference for c in comparisons])
    equivalences = holm([c.p_equivalence for c in comparisons])
    adjusted = []
    for comparison, p_difference, p_equivalence in zip(comparisons, differences, equivalences, strict=True):
        verdict = decide(comparison.ratio.estimate, p_difference, p_equivalence, alpha, comparison.higher_is_better)
        notes = comparison.warnings
        if verdict != comparison.verdict:
            notes = (*notes, f"{comparison.verdict} on its own, but not after Holm's adjustment")
        adjusted.append(
            replace(
                comparison,
                verdict=verdict,
                p_difference=float(p_difference),
                p_equivalence=float(p_equivalence),
                warnings=unique(notes),
            )
        )
    return tuple(adjusted)
