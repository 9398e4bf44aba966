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
    if design == "mixed" or min(x.size, y.size) < 2:
        return []
    paired = design == "paired"
    fewest = 2.0 ** (1 - x.size) if paired else 2 / math.comb(x.size + y.size, x.size)
    if fewest > alpha:
        runs = counted(x.size, "block") if paired else f"{x.size} against {counted(y.size, 'run')}"
        test = "signed-rank" if paired else "rank"
        return [f"{runs}: too few for a {test} test at {alpha:.2g} (smallest p {fewest:.2g})"]
    p_ranks = _signed_rank_p(x, y) if paired else mann_whitney_p(x, y)
    if (p_ranks <= alpha) == (p_beside <= alpha):
        return []
    names = ("the paired t test", "the signed-rank test", "blocks") if paired else ("Welch", "Mann-Whitney", "runs")
    tests = f"{names[0]} (p = {p_beside:.2g}) and {names[1]} (p = {p_ranks:.2g})"
    return [f"{tests} disagree: look at the single {names[2]} for outliers or two modes"]


def _signed_rank_p(x: Floats, y: Floats) -> float:
    """The p-value of the signed-rank test of the blocks' ratios."""
    from scipy import stats

    ratios = np.log(x / y)
    return float(stats.wilcoxon(ratios).pvalue) if ratios.any() else 1.0
