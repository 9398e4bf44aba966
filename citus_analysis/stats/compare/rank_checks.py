"""Warnings about small sets, and about rank tests that disagree with the t tests."""

from __future__ import annotations

import math

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.stats.compare.ranks import mann_whitney_p
from citus_analysis.stats.estimate.intervals import Design
from citus_analysis.texts.counted_words import counted


def size_notes(*sides: tuple[float, str]) -> list[str]:
    """A warning for each side of two runs, given as number and label.

    Example:
        >>> size_notes((2, "new"), (5, "old"))
        ['new: 2 runs; at least 3 are advised']
    """
    return [f"{label}: 2 runs; at least 3 are advised" for runs, label in sides if runs == 2]


def rank_notes(design: Design, x: Floats, y: Floats, p_beside: float, alpha: float) -> list[str]:
    """Warnings that the rank test of the design disagrees with the t test; a mixed model has no rank test.

    Args:
        design: relation between the runs of both sets; paired ones are in the same order.
        x: values of one set.
        y: values of the other.
        p_beside: p-value of the t test.
        alpha: level of both tests.

    Example:
        >>> rank_notes("unpaired", np.array([3.0, 3.1, 3.2]), np.array([1.0, 1.1, 1.2]), 0.001, 0.05)
        ['3 against 3 runs: too few for a rank test at 0.05 (smallest p 0.1)']
    """
    if design == "mixed":
        return []
    return (_of_blocks if design == "paired" else _of_sets)(x, y, p_beside, alpha)


def _of_sets(x: Floats, y: Floats, p_welch: float, alpha: float) -> list[str]:
    if min(x.size, y.size) < 2:
        return []
    fewest = 2 / math.comb(x.size + y.size, x.size)
    if fewest > alpha:
        least = f"smallest p {fewest:.2g}"
        return [f"{x.size} against {counted(y.size, 'run')}: too few for a rank test at {alpha:.2g} ({least})"]
    p_ranks = mann_whitney_p(x, y)
    if (p_ranks <= alpha) == (p_welch <= alpha):
        return []
    return [
        f"Welch (p = {p_welch:.2g}) and Mann-Whitney (p = {p_ranks:.2g}) disagree: "
        "look at the single runs for outliers or two modes"
    ]


def _of_blocks(x: Floats, y: Floats, p_paired: float, alpha: float) -> list[str]:
    """The signed-rank test of the blocks' ratios."""
    from scipy import stats

    fewest = 2.0 ** (1 - x.size)
    if fewest > alpha:
        return [f"{counted(x.size, 'block')}: too few for a signed-rank test at {alpha:.2g} (smallest p {fewest:.2g})"]
    ratios = np.log(x / y)
    p_ranks = float(stats.wilcoxon(ratios).pvalue) if ratios.any() else 1.0
    if (p_ranks <= alpha) == (p_paired <= alpha):
        return []
    return [
        f"the paired t test (p = {p_paired:.2g}) and the signed-rank test (p = {p_ranks:.2g}) "
        "disagree: look at the single blocks for outliers or two modes"
    ]
