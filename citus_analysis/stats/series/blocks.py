"""Runs that were made in blocks: an iteration that holds one run of each configuration.

The runner interleaves: it makes one run of every configuration, in random order, before the next iteration begins. What
then changes from block to block (the machine, its disk, its neighbours) meets all configurations alike, and the ratios
within blocks are free of it. Whether runs were made so is read off their start times, whatever planned them.

References:
    Fisher, R. A. (1935). The Design of Experiments, chapter 4 (randomised blocks).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Floats
from citus_analysis.stats.run_means import times_of, values_of

__all__ = ["FEWEST_BLOCKS", "paired_by_block"]

#: With fewer blocks the quantile of t costs more than blocks of unequal conditions give back.
FEWEST_BLOCKS: Final = 4


def paired_by_block(a: pl.DataFrame, b: pl.DataFrame, metric: str) -> tuple[Floats, Floats] | str:
    """The values of two sets of runs, block by block; or why they cannot be paired (empty: nothing to say).

    Iterations are blocks where each holds exactly one run of either set, and all runs of an iteration began before
    those of the next one.

    Example:
        >>> from datetime import datetime
        >>> def runs(minutes, values):
        ...     times = [datetime(2024, 1, 1, 0, minute) for minute in minutes]
        ...     return pl.DataFrame({"iteration": [1, 2, 3, 4], "start_time": times, "x": values})
        >>> first, second = runs([1, 4, 5, 8], [10.0, 9, 11, 8]), runs([2, 3, 6, 7], [9.0, 8, 10, 7])
        >>> paired_by_block(first, second, "x")[1].tolist()
        [9.0, 8.0, 10.0, 7.0]
        >>> paired_by_block(first, runs([11, 12, 13, 14], [9.0, 8, 10, 7]), "x")
        ''
    """
    if "iteration" not in a.columns or a["iteration"].null_count() or b["iteration"].null_count():
        return ""
    times = [times_of(a), times_of(b)]
    if times[0] is None or times[1] is None or not _are_blocks(a, b, np.concatenate([times[0], times[1]])):
        return ""
    a, b = a.sort("iteration"), b.sort("iteration")
    if a["iteration"].to_list() != b["iteration"].to_list() or a["iteration"].n_unique() < a.height:
        return "iterations are blocks, but not each has one run of either set: compared without pairing"
    if a.height < FEWEST_BLOCKS:
        return f"iterations are blocks, but {a.height} are too few to pair (at least {FEWEST_BLOCKS})"
    found = values_of(a, metric), values_of(b, metric)
    return (
        found if min(found[0].min(), found[1].min()) > 0 else "values that are not positive: compared without pairing"
    )


def _are_blocks(a: pl.DataFrame, b: pl.DataFrame, times: Floats) -> bool:
    """Whether the iterations followed one another, and both sets have runs in more than one of them."""
    shared = set(a["iteration"].to_list()) & set(b["iteration"].to_list())
    blocks = np.array([*a["iteration"].to_list(), *b["iteration"].to_list()])
    spans = sorted((times[blocks == block].min(), times[blocks == block].max()) for block in np.unique(blocks))
    return len(shared) > 1 and all(end < start for (_, end), (start, _) in pairwise(spans))
