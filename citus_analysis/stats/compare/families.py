"""Several comparisons at once: Holm's adjustment of their verdicts, and simultaneous intervals of their ratios.

Holm's adjustment is written here, and a test compares it with statsmodels': `multipletests` runs a garbage collection
at each call, which takes 0.06 s and more, and a report adjusts dozens of families.

The intervals are Bonferroni's: with the stated confidence, all intervals of a family contain their ratios. Holm's
procedure steps down, so that it may decide although Bonferroni's interval contains 1. The interval is then that of the
step that decided, as its method states, so that no verdict contradicts the interval beside it.

References:
    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
    Strassburger, K. and Bretz, F. (2008). Compatible simultaneous lower confidence bounds for the Holm procedure and
        other Bonferroni-based closed tests. Statistics in Medicine 27.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.stats._validate import as_sample, check_level, unique
from citus_analysis.stats.compare.verdicts import Comparison, decide
from citus_analysis.stats.results import Interval


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment of p-values, which controls the probability of any false claim among them.

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

    A family consists of all comparisons of one operation (`Comparison.holm_family`), such as all set-ups and levels
    that a command or a section of a report compares for INSERT. The tests for a difference and the tests for
    equivalence are adjusted separately; a verdict with an adjusted p-value above 1 - level becomes `inconclusive`. A
    comparison that cannot be tested (one run on a side) is not counted. The intervals of the ratios become simultaneous
    (Bonferroni), or, where only a later step of Holm's procedure decides, those of this step, as their method states.
    Further runs are planned for Bonferroni's level (`Comparison.planned_level`), at which Holm's procedure decides in
    any case.

    Example:
        >>> from citus_analysis.stats import compare
        >>> one = compare([10, 11, 12, 13], [8, 9, 9.5, 10])
        >>> one.verdict, compare_many([one] * 3)[0].verdict
        ('faster', 'inconclusive')
        >>> str(compare_many([one] * 3)[0].ratio)
        '1.26 [0.9884, 1.607] (95 %, Welch t on the log ratio, simultaneous over 3, n = 4)'
    """
    alpha = 1 - check_level(level)
    families: dict[str, list[int]] = {}
    for place, comparison in enumerate(comparisons):
        if math.isfinite(comparison.p_difference):
            families.setdefault(comparison.holm_family, []).append(place)
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
        ratio = comparison.evidence.interval(comparison.ratio.level, len(family))
        if p_difference <= alpha and (1.0 in ratio or not ratio.exists):
            ratio = _of_deciding_step(comparison, float(p_difference), len(family))
        notes = comparison.warnings
        if verdict != comparison.verdict:
            notes = (*notes, f"{comparison.verdict} on its own, but not after Holm's adjustment")
        yield replace(
            comparison,
            verdict=verdict,
            ratio=ratio,
            p_difference_adjusted=float(p_difference),
            p_equivalence_adjusted=float(p_equivalence),
            family_size=len(family),
            planned_level=1 - alpha / len(family),
            runs_needed=comparison.evidence.runs_needed(comparison.margin, alpha / len(family)),
            warnings=unique(notes),
        )


def _of_deciding_step(comparison: Comparison, p_adjusted: float, size: int) -> Interval:
    """The interval at the level at which Holm's procedure tested a comparison; it excludes 1 if that decided."""
    step = p_adjusted / comparison.p_difference
    found = comparison.evidence.interval(1 - (1 - comparison.ratio.level) / step)
    return replace(found, level=comparison.ratio.level, method=f"{found.method}, Holm's step {step:.3g} of {size}")
