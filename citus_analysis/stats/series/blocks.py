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
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Floats, Integers
from citus_analysis.stats.run_means import times_of, values_of
from citus_analysis.texts.counted_words import counted

#: With fewer blocks, the larger quantile of t costs more than pairing gains.
FEWEST_BLOCKS: Final = 4
#: Number of the pass in that of a block; no study has as many iterations.
_PASS: Final = 1_000_000_000


@dataclass(frozen=True)
class Layout:
    """Two sets of runs with their iterations.

    Attributes:
        a: values of the first set; if the runs are paired, those of the common blocks in their order.
        b: values of the second set, likewise.
        paired: whether the n-th runs of both sets were made in the same block.
        reason: the reason why the runs are paired or not.
        iterations: the iteration of each run of `a` and of `b`; None if a run has none.
        warning: a caveat if iterations are blocks, but cannot be paired, or if runs outside of them do not enter.
        rows: positions in either table of the runs that enter, in the order of `a` and `b`.
    """

    a: Floats
    b: Floats
    paired: bool
    reason: str
    iterations: tuple[Floats, Floats] | None = None
    warning: str = ""
    rows: tuple[Integers, Integers] | None = None


def layout_of(a: pl.DataFrame, b: pl.DataFrame, metric: str) -> Layout:
    """The values of two sets of runs, in the order of blocks if they were made in blocks.

    The runs of both sets, in the order of time, make passes: within a pass, iterations do not go back. An iteration of
    a pass is a block. If at least four blocks have exactly one run of either set, and these are all runs of one of the
    sets or all blocks but those that lack a run, the sets are paired by these blocks alone. Runs of other passes, such
    as those that were made afterwards, do not enter.

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

        The second set was measured twice more, after the blocks:

        >>> later = runs([21, 22, 23, 24], [5.0, 5, 5, 5]).head(2)
        >>> found = layout_of(first, pl.concat([second, later]), "x")
        >>> found.paired, found.b.tolist(), found.warning
        (True, [9.0, 8.0, 10.0, 7.0], '2 runs outside of the common blocks do not enter')
    """
    values = values_of(a, metric), values_of(b, metric)
    if "iteration" not in a.columns or a["iteration"].null_count() or b["iteration"].null_count():
        return Layout(*values, False, "not all runs have an iteration")
    iterations = values_of(a, "iteration"), values_of(b, "iteration")
    times = [times_of(a), times_of(b)]
    if times[0] is None or times[1] is None:
        return Layout(*values, False, "not all runs have a start time", iterations)
    blocks = _blocks(iterations, (times[0], times[1]))
    common = np.intersect1d(blocks[0], blocks[1])
    if common.size < 2:
        return Layout(*values, False, "the iterations did not follow one another", iterations)
    pairs = np.intersect1d(_met_once(blocks[0]), _met_once(blocks[1]))
    left = values[0].size + values[1].size - 2 * pairs.size
    whole = pairs.size == min(one.size for one in blocks)
    one_pass = np.unique(np.concatenate(blocks)[:, None] // _PASS).size == 1
    if not (whole or (one_pass and 2 * pairs.size > left)):
        if not one_pass:
            return Layout(*values, False, "the iterations did not follow one another", iterations)
        reason = "not each has one run of either set"
        return Layout(*values, False, reason, iterations, _unpaired(reason))
    if pairs.size < FEWEST_BLOCKS:
        reason = f"{pairs.size} are too few to pair (at least {FEWEST_BLOCKS})"
        return Layout(*values, False, reason, iterations, _unpaired(reason))
    rows = _rows_of(blocks[0], pairs), _rows_of(blocks[1], pairs)
    paired = values[0][rows[0]], values[1][rows[1]]
    if min(paired[0].min(), paired[1].min()) <= 0:
        reason = "not all values are positive"
        return Layout(*values, False, reason, iterations, _unpaired(reason))
    numbers = iterations[0][rows[0]], iterations[1][rows[1]]
    warning = f"{counted(left, 'run')} outside of the common blocks {'does' if left == 1 else 'do'} not enter"
    reason = "all runs of an iteration began before those of the next"
    return Layout(*paired, True, reason, numbers, warning if left else "", rows)


def _unpaired(reason: str) -> str:
    return f"iterations are blocks, but {reason}: compared without pairing"


def _blocks(iterations: tuple[Floats, Floats], times: tuple[Floats, Floats]) -> tuple[Integers, Integers]:
    """The block of each run of both sets: its iteration within its pass; a pass ends where the iterations go back."""
    every = np.concatenate(iterations)
    numbers = np.unique(every, return_inverse=True)[1].astype(np.int64)
    order = np.lexsort((numbers, np.concatenate(times)))
    in_order = np.concatenate([[0], np.cumsum(np.diff(numbers[order]) < 0)])
    blocks = np.empty_like(numbers)
    blocks[order] = in_order * _PASS + numbers[order]
    return blocks[: iterations[0].size], blocks[iterations[0].size :]


def _rows_of(blocks: Integers, wanted: Integers) -> Integers:
    """The positions of the runs in these blocks, in the order of the blocks."""
    kept = np.flatnonzero(np.isin(blocks, wanted))
    return kept[np.argsort(blocks[kept])]


def _met_once(blocks: Integers) -> Integers:
    """The blocks that have exactly one run of a set."""
    found, numbers = np.unique(blocks, return_counts=True)
    return np.asarray(found[numbers == 1])
