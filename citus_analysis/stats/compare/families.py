"""Several comparisons at once: Holm's adjustment of their verdicts, and simultaneous intervals of their ratios.

Holm's adjustment is written here, and a test compares it with statsmodels': `multipletests` runs a garbage collection
at each call, which takes 0.06 s and more, and a report adjusts dozens of families.

The intervals are Bonferroni's: with the stated confidence, all intervals of a family contain their ratios. The
intervals that belong to Holm's procedure are no more informative (they end at 1 wherever it decides). It may decide
although Bonferroni's interval contains 1; a warning then says so.

References:
    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
    Strassburger, K. and Bretz, F. (2008). Compatible simultaneous lower confidence bounds for the Holm procedure and
        other Bonferroni-based closed tests. Statistics in Medicine 27.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.stats._validate import as_sample, check_level, unique
from citus_analysis.stats.compare.verdicts import Comparison, decide

_SHARPER: Final = "Holm's procedure decides, although the simultaneous interval, which is wider, contains 1"


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

    A family consists of all comparisons of one operation (`Comparison.family`), such as all set-ups and levels that a
    command or a section of a report compares for INSERT. The tests for a difference and the tests for equivalence are
    adjusted separately; a verdict with an adjusted p-value above 1 - level becomes `inconclusive`. A comparison that
    cannot be tested (one run on a side) is not counted. The intervals of the ratios become simultaneous (Bonferroni),
    as their method states. Further runs are planned for that level, too (`Comparison.planned_level`), at which Holm's
    procedure decides in any case.

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
        ratio = comparison.evidence.interval(comparison.ratio.level, len(family))
        notes = comparison.warnings
        if verdict != comparison.verdict:
            notes = (*notes, f"{comparison.verdict} on its own, but not after Holm's adjustment")
        if verdict in ("faster", "slower") and 1.0 in ratio:
            notes = (*notes, _SHARPER)
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
