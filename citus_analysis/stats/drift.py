"""Drift over the order of runs, and sets of runs that were not interleaved.

References:
    Sen, P. K. (1968). Estimates of the regression coefficient based on Kendall's tau. JASA 63.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.defaults import LEVEL, POWER, SEED
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import check_level, validate_sample
from citus_analysis.stats.rank_tests import correlate_ranks
from citus_analysis.stats.studied_runs import get_metric_values, get_start_times_ms
from citus_analysis.texts.words import pluralize

#: Below this n even a perfect order has a p-value above 5 %.
_FEWEST: Final = 5
#: Simulated sequences for the detectable drift.
_REPEATS: Final = 1_000


@dataclass(frozen=True, repr=False)
class Drift(DisplayMixin):
    """A trend of a metric over the order in which runs were made.

    Attributes:
        detected: whether the trend is significant; None if there are too few runs.
        tau: Kendall's rank correlation with the order.
        p_value: two-sided p-value.
        change_percent: change from the first to the last run by the median (Theil-Sen) slope, in per cent of the mean.
        n: number of runs.
        detectable_percent: drift from the first to the last run that n runs of this spread show in 80 % of cases; nan
            if there are too few.
        warnings: caveats.
    """

    detected: bool | None
    tau: float
    p_value: float
    change_percent: float
    n: int
    detectable_percent: float = float("nan")
    warnings: tuple[str, ...] = ()


def detect_drift(values: ArrayLike, order: ArrayLike | None = None, *, level: float = LEVEL) -> Drift:
    """Test whether a metric rises or falls over the order of the runs.

    Args:
        values: one value per run.
        order: start time or iteration of each run; by default the values are in order.
        level: confidence level; the test's level is 1 - level.

    Raises:
        UsageError: values and order differ in length.

    Example:
        >>> detect_drift([100, 98, 97, 95, 94, 90]).detected
        True
    """
    sample = validate_sample(values, 1)
    times = np.arange(sample.size, dtype=float) if order is None else validate_sample(order, 1, "the order")
    if times.size != sample.size:
        raise UsageError(f"{pluralize(sample.size, 'value')}, but {pluralize(times.size, 'place')} in their order")
    if sample.size < _FEWEST:
        note = f"too few to see a drift: {pluralize(sample.size, 'run')}; at least {_FEWEST} are needed"
        return Drift(None, float("nan"), 1.0, float("nan"), sample.size, warnings=(note,))
    if np.ptp(sample) == 0 or np.ptp(times) == 0:
        return Drift(False, 0.0, 1.0, 0.0, sample.size)
    test = correlate_ranks(times, sample)
    slope = _compute_median_slope(times, sample)
    change = slope * float(np.ptp(times)) / abs(float(sample.mean())) * 100 if sample.mean() else float("nan")
    detected = bool(test.p_value <= 1 - check_level(level))
    direction = "rises" if change > 0 else "falls"
    note = f"the metric {direction} by {abs(change):.1f} % over the order of the runs"
    residuals = sample - slope * times
    detectable = (
        _compute_detectable_drift(sample.size, 1 - level)
        * float(residuals.std(ddof=2))
        / abs(float(sample.mean()))
        * 100
    )
    if not detected:
        note = f"no drift detected; {pluralize(sample.size, 'run')} show one of {detectable:.1f} % in 80 % of cases"
    return Drift(detected, test.tau, test.p_value, change, sample.size, detectable, (note,))


def _compute_median_slope(times: Floats, values: Floats) -> float:
    """The Theil-Sen slope: the median over all pairs at different times."""
    first, second = np.triu_indices(times.size, 1)
    steps = times[second] - times[first]
    apart = steps != 0
    return float(np.median((values[second] - values[first])[apart] / steps[apart]))


@lru_cache(maxsize=64)
def _compute_detectable_drift(n: int, alpha: float) -> float:
    """Drift over n evenly spaced runs, in standard deviations of one run, that Kendall's test shows in 80 % of cases.

    Simulated with a seed; the power rises with the drift, so bisection finds it.
    """
    rng = np.random.default_rng(SEED)
    noise, line, (first, second) = rng.normal(size=(_REPEATS, n)), np.linspace(0, 1, n), np.triu_indices(n, 1)

    def score(runs: Floats) -> Floats:
        """Concordant minus discordant pairs, the statistic of Kendall's test."""
        return np.asarray(np.abs(np.sign(runs[:, second] - runs[:, first]).sum(axis=1)))

    # Scores are two apart: this is between the largest one that is not significant and the next.
    needed = float(np.quantile(score(noise), 1 - alpha, method="higher")) + 1
    low, high = 0.0, 40.0
    for _ in range(20):
        middle = (low + high) / 2
        shown = (score(noise + middle * line) >= needed).mean() >= POWER
        low, high = (low, middle) if shown else (middle, high)
    return high


def is_interleaved(times: Sequence[ArrayLike]) -> bool:
    """Whether all sets of runs overlap in time, so that none was made wholly after another.

    Example:
        >>> is_interleaved([[1, 3, 5], [2, 4, 6]]), is_interleaved([[1, 2, 3], [4, 5, 6]])
        (True, False)
    """
    spans = sorted((float(np.min(t)), float(np.max(t))) for t in (validate_sample(one, 1, "times") for one in times))
    return all(next_start < end for (_, end), (next_start, _) in pairwise(spans))


# Runs that were made in blocks: iterations with one run of each configuration.
#
# The runner interleaves: it makes one run of every configuration, in random order, before the next iteration begins.
# Changes from block to block (of the machine, its disk, its neighbours) then affect all configurations equally, and not
# the ratios within blocks. Start times show whether runs were made in blocks. If they do not, iterations that both sets
# share may still have conditions in common, which :mod:`citus_analysis.stats.mixed_model` estimates.
#
# References:
#     Fisher, R. A. (1935). The Design of Experiments, chapter 4 (randomised blocks).

#: With fewer blocks, the larger quantile of t costs more than pairing gains.
FEWEST_BLOCKS: Final = 4
#: Number of the pass in that of a block; no study has as many iterations.
_PASS: Final = 1_000_000_000


@dataclass(frozen=True)
class BlockLayout:
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


def build_block_layout(a: pl.DataFrame, b: pl.DataFrame, metric: str) -> BlockLayout:
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
        >>> found = build_block_layout(first, second, "x")
        >>> found.paired, found.b.tolist()
        (True, [9.0, 8.0, 10.0, 7.0])
        >>> apart = build_block_layout(first, runs([11, 12, 13, 14], [9.0, 8, 10, 7]), "x")
        >>> apart.paired, apart.reason
        (False, 'the iterations did not follow one another')

        The second set was measured twice more, after the blocks:

        >>> later = runs([21, 22, 23, 24], [5.0, 5, 5, 5]).head(2)
        >>> found = build_block_layout(first, pl.concat([second, later]), "x")
        >>> found.paired, found.b.tolist(), found.warning
        (True, [9.0, 8.0, 10.0, 7.0], '2 runs outside of the common blocks do not enter')
    """
    values = get_metric_values(a, metric), get_metric_values(b, metric)
    if "iteration" not in a.columns or a["iteration"].null_count() or b["iteration"].null_count():
        return BlockLayout(*values, False, "not all runs have an iteration")
    iterations = get_metric_values(a, "iteration"), get_metric_values(b, "iteration")
    times = [get_start_times_ms(a), get_start_times_ms(b)]
    if times[0] is None or times[1] is None:
        return BlockLayout(*values, False, "not all runs have a start time", iterations)
    blocks = _assign_blocks(iterations, (times[0], times[1]))
    common = np.intersect1d(blocks[0], blocks[1])
    if common.size < 2:
        return BlockLayout(*values, False, "the iterations did not follow one another", iterations)
    pairs = np.intersect1d(_find_single_run_blocks(blocks[0]), _find_single_run_blocks(blocks[1]))
    left = values[0].size + values[1].size - 2 * pairs.size
    whole = pairs.size == min(one.size for one in blocks)
    one_pass = np.unique(np.concatenate(blocks)[:, None] // _PASS).size == 1
    if not (whole or (one_pass and 2 * pairs.size > left)):
        if not one_pass:
            return BlockLayout(*values, False, "the iterations did not follow one another", iterations)
        reason = "not each has one run of either set"
        return BlockLayout(*values, False, reason, iterations, _describe_unpaired(reason))
    if pairs.size < FEWEST_BLOCKS:
        reason = f"{pairs.size} are too few to pair (at least {FEWEST_BLOCKS})"
        return BlockLayout(*values, False, reason, iterations, _describe_unpaired(reason))
    rows = _find_block_rows(blocks[0], pairs), _find_block_rows(blocks[1], pairs)
    paired = values[0][rows[0]], values[1][rows[1]]
    if min(paired[0].min(), paired[1].min()) <= 0:
        reason = "not all values are positive"
        return BlockLayout(*values, False, reason, iterations, _describe_unpaired(reason))
    numbers = iterations[0][rows[0]], iterations[1][rows[1]]
    warning = f"{pluralize(left, 'run')} outside of the common blocks {'does' if left == 1 else 'do'} not enter"
    reason = "all runs of an iteration began before those of the next"
    return BlockLayout(*paired, True, reason, numbers, warning if left else "", rows)


def _describe_unpaired(reason: str) -> str:
    return f"iterations are blocks, but {reason}: compared without pairing"


def _assign_blocks(iterations: tuple[Floats, Floats], times: tuple[Floats, Floats]) -> tuple[Integers, Integers]:
    """The block of each run of both sets: its iteration within its pass; a pass ends where the iterations go back."""
    every = np.concatenate(iterations)
    numbers = np.unique(every, return_inverse=True)[1].astype(np.int64)
    order = np.lexsort((numbers, np.concatenate(times)))
    in_order = np.concatenate([[0], np.cumsum(np.diff(numbers[order]) < 0)])
    blocks = np.empty_like(numbers)
    blocks[order] = in_order * _PASS + numbers[order]
    return blocks[: iterations[0].size], blocks[iterations[0].size :]


def _find_block_rows(blocks: Integers, wanted: Integers) -> Integers:
    """The positions of the runs in these blocks, in the order of the blocks."""
    kept = np.flatnonzero(np.isin(blocks, wanted))
    return kept[np.argsort(blocks[kept])]


def _find_single_run_blocks(blocks: Integers) -> Integers:
    """The blocks that have exactly one run of a set."""
    found, numbers = np.unique(blocks, return_counts=True)
    return np.asarray(found[numbers == 1])
