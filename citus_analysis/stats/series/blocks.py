"""Runs that were made in blocks: iterations with one run of each configuration.

The runner interleaves: it makes one run of every configuration, in random order, before the next iteration begins.
Changes from block to block (of the machine, its disk, its neighbours) then affect all configurations equally, and not
the ratios within blocks. Start times show whether runs were made in blocks. If they do not, iterations that both sets
share may still have conditions in common, which :mod:`citus_analysis.stats.compare.mixed` estimates.

References:
    Fisher, R. A. (1935). The Design of Experiments, chapter 4 (randomised blocks).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Floats
from citus_analysis.stats.run_means import times_of, values_of

#: With fewer blocks, the larger quantile of t costs more than pairing gains.
FEWEST_BLOCKS: Final = 4


@dataclass(frozen=True)
class Layout:
    """Two sets of runs with their iterations.

    Attributes:
        a: values of the first set, in the order of blocks if the runs are paired.
        b: values of the second set.
        paired: whether the n-th runs of both sets were made in the same block.
        reason: the reason why the runs are paired or not.
        iterations: the iteration of each run of `a` and of `b`; None if a run has none.
        warning: a caveat if iterations are blocks, but cannot be paired.
    """

    a: Floats
    b: Floats
    paired: bool
    reason: str
    iterations: tuple[Floats, Floats] | None = None
    warning: str = ""


def layout_of(a: pl.DataFrame, b: pl.DataFrame, metric: str) -> Layout:
    """The values of two sets of runs, in the order of blocks if their iterations are blocks.

    Iterations are blocks if each has exactly one run of either set, and all runs of an iteration began before those of
    the next one.

    Example:
        >>> from datetime import datetime
        >>> def runs(minutes, values):
        ...     times = [datetime(2024, 1, 1, 0, minute) for minute in minutes]
        ...     return pl.DataFrame({"iteration": [1, 2, 3, 4], "start_time": times, "x": values})
        >>> first, second = runs([1, 4, 5, 8], [10.0, 9, 11, 8]), runs([2, 3, 6, 7], [9.0, 8, 10, 7])
        >>> found = layout_of(first, second, "x")
        >>> found.paired, found.b.tolist()
        (True, [9.0, 8.0, 10.0, 7.0])
        >>> apart = layout_of(first, runs([11, 12, 13, 14], [9.0, 8, 10, 7]), "x")
        >>> apart.paired, apart.reason
        (False, 'the iterations did not follow one another')
    """
    values = values_of(a, metric), values_of(b, metric)
    if "iteration" not in a.columns or a["iteration"].null_count() or b["iteration"].null_count():
        return Layout(*values, False, "not all runs have an iteration")
    iterations = values_of(a, "iteration"), values_of(b, "iteration")
    times = [times_of(a), times_of(b)]
    if times[0] is None or times[1] is None:
        return Layout(*values, False, "not all runs have a start time", iterations)
    if not _are_blocks(*iterations, np.concatenate([times[0], times[1]])):
        return Layout(*values, False, "the iterations did not follow one another", iterations)
    if reason := _unusable(values, iterations):
        warning = f"iterations are blocks, but {reason}: compared without pairing"
        return Layout(*values, False, reason, iterations, warning)
    in_order = [value[np.argsort(one)] for value, one in zip(values, iterations, strict=True)]
    return Layout(in_order[0], in_order[1], True, "all runs of an iteration began before those of the next", iterations)


def _unusable(values: tuple[Floats, Floats], iterations: tuple[Floats, Floats]) -> str:
    """The reason why blocks cannot be paired; empty if they can."""
    first, second = (np.sort(one) for one in iterations)
    if not np.array_equal(first, second) or np.unique(first).size < first.size:
        return "not each has one run of either set"
    if first.size < FEWEST_BLOCKS:
        return f"{first.size} are too few to pair (at least {FEWEST_BLOCKS})"
    return "" if min(values[0].min(), values[1].min()) > 0 else "not all values are positive"


def _are_blocks(first: Floats, second: Floats, times: Floats) -> bool:
    """Whether the iterations followed one another, and both sets have runs in more than one of them."""
    blocks = np.concatenate([first, second])
    spans = sorted((times[blocks == block].min(), times[blocks == block].max()) for block in np.unique(blocks))
    return np.intersect1d(first, second).size > 1 and all(end < start for (_, end), (start, _) in pairwise(spans))
