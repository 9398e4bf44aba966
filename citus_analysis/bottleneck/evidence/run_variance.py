"""Split the variance between repeated runs by source: blocks, order in time, checkpoints, autovacuum, the rest.

Runs are compared with the other runs of their configuration only: the logarithm of throughput and each factor are
centred at the configuration's mean. The share of a factor is its part of the explained sum of squares, averaged over
all orders in which factors can enter the model (Lindeman, Merenda and Gold), so that the shares and the residual add up
to 1 even if the factors are correlated.

Where runs were made in blocks (one run of each configuration before the next of any), the block is a factor with a
level for each: a machine that is slow for a while makes one block slow, which a trend over blocks would miss. It takes
the place of the order in time, whose trend within it is tested beside it.

References:
    Lindeman, R. H., Merenda, P. F. and Gold, R. Z. (1980). Introduction to Bivariate and Multivariate Analysis.
    Groemping, U. (2007). Estimators of relative importance in linear regression based on variance decomposition.
        The American Statistician 61.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import as_polars
from citus_analysis.defaults import ASSURANCE, LEVEL, POWER
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats.compare.families import holm
from citus_analysis.stats.estimate._student import chi2_quantile, f_quantile, f_tail, smallest, t_quantile
from citus_analysis.texts.counted_words import counted, listed

#: The part that no factor explains.
RESIDUAL: Final = "residual"
#: Blocks as a factor, and the factor that they take the place of.
BLOCKS: Final = "blocks"
ORDER: Final = "order in time"
#: Relative half-width of a mean's interval that `runs_needed` is computed for.
WANTED: Final = 0.05
#: Fewest degrees of freedom of the residual.
_LEAST_FREEDOM: Final = 3
#: Largest number of runs that is stated.
_MOST: Final = 10_000
_ALPHA: Final = 0.05


@dataclass(frozen=True)
class BlockEffect:
    """Blocks of runs as a factor of the logarithm of throughput, configurations held constant.

    Attributes:
        f: F statistic of all blocks together.
        freedom: its degrees of freedom.
        p_value: its p-value.
        share: share of the variance between runs of a configuration.
        block: the block that differs most from the others.
        effect_percent: its difference from the mean of the others.
        interval: of this difference, at the level of the study; not adjusted for the choice of the block.
        trend_share: share of the linear trend over blocks.
        trend_p_value: p-value of this trend.
        n: number of runs.
    """

    f: float
    freedom: tuple[int, int]
    p_value: float
    share: float
    block: str
    effect_percent: float
    interval: tuple[float, float]
    trend_share: float
    trend_p_value: float
    n: int

    def sentence(self) -> str:
        """The test, the block that differs most, and the trend."""
        verdict = "differ" if self.p_value < _ALPHA else "do not differ by more than chance explains"
        low, high = sorted(abs(end) for end in self.interval)
        within = f"{low:.1f} % to {high:.1f} %" if self.interval[0] * self.interval[1] > 0 else "an interval with 0"
        more = "higher" if self.effect_percent > 0 else "lower"
        test = f"F({self.freedom[0]}, {self.freedom[1]}) = {self.f:.2f}, p = {self.p_value:.2g}"
        return (
            f"Blocks of runs {verdict}: {test}, {100 * self.share:.0f} % of the variance ({self.n} runs). "
            f"The throughput in block {self.block}, which differs most, is {abs(self.effect_percent):.1f} % {more} "
            f"than in the others ({within}); a linear trend over blocks explains {100 * self.trend_share:.0f} % "
            f"(p = {self.trend_p_value:.2g})."
        )


@dataclass(frozen=True, eq=False, repr=False)
class RunVariance(Shown):
    """Run-to-run variance by source.

    Attributes:
        sources: one row per source: `source`, `share` of the variance (the shares add up to 1), `by_chance` (the
            expected share of a factor that has no effect), `sd_percent` (the source's part of the spread),
            `effect_percent` (change of throughput for one standard deviation of the factor), `p_value` (adjusted),
            `runs_to_decide` (runs of all configurations together that would show an effect of this size; null if the
            effect is shown already, or if more than 10,000 runs were needed).
        sd_percent: standard deviation between runs of one configuration.
        runs_needed: runs of a configuration for an interval of ± `wanted`.
        runs_needed_without: the same if all factors were held constant.
        wanted: relative half-width.
        blocks: blocks as a factor; None where runs were not made in blocks.
        n: number of runs that were used.
        configurations: number of configurations with at least two runs.
        method: method of the shares.
        warnings: limitations that a reader must know.
    """

    sources: pl.DataFrame
    sd_percent: float
    runs_needed: int | None
    runs_needed_without: int | None
    wanted: float
    n: int
    configurations: int
    blocks: BlockEffect | None = None
    method: str = "shares averaged over the orders of factors (LMG), within configurations, F tests adjusted by Holm"
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The spread, its largest known source, and the runs needed."""
        head = f"Runs of one configuration differ by {self.sd_percent:.1f} % (standard deviation, {self.n} runs)"
        table = as_polars(self.sources)
        shares = dict(table.select("source", "share").iter_rows())
        shown = table.filter((pl.col("p_value") < _ALPHA).fill_null(value=False))["source"].to_list()
        parts = [f"{name} {shares[name] * 100:.0f} %" for name in shares]
        tested = listed(shown) if shown else "none of the factors"
        effect = "have" if len(shown) > 1 or (tested.endswith("s") and shown) else "has"
        needed = f"±{self.wanted * 100:g} % needs {_runs(self.runs_needed)}"
        if shown:
            needed += f", and {_runs(self.runs_needed_without)} if the factors were held constant"
        verdict = f"{tested} {effect} an effect that chance does not explain"
        of_blocks = "" if self.blocks is None else f" {self.blocks.sentence()}"
        return f"{head}: {', '.join(parts)}; {verdict}.{of_blocks} {needed}."

    def summary_lines(self) -> list[str]:
        """The finding and the warnings."""
        return [self.sentence(), f"  {self.method}", *(f"  {note}" for note in self.warnings)]

    def summary_table(self) -> pl.DataFrame:
        """One row per source."""
        return as_polars(self.sources)


def _runs(number: int | None) -> str:
    return f"more than {_MOST:,} runs" if number is None else counted(number, "run")


def split_run_variance(
    throughput: ArrayLike,
    configuration: Sequence[object],
    factors: Mapping[str, ArrayLike],
    *,
    blocks: ArrayLike | None = None,
    wanted: float = WANTED,
    level: float = LEVEL,
) -> RunVariance:
    """Split the variance between repeated runs by its sources.

    A factor that is equal in all runs of each configuration is left out. A factor that is unknown for some run of a
    configuration is treated as constant there. Warnings name both. Configurations with a single run are left out.

    Args:
        throughput: one positive value per run.
        configuration: configuration of each run.
        factors: name -> one number per run; nan if it is not known.
        blocks: number of the block of each run, nan if it is in none; None if runs were not made in blocks.
        wanted: relative half-width of a mean's interval, for `runs_needed`.
        level: confidence level of this interval.

    Raises:
        UsageError: arrays of different length, or a throughput that is not positive.
        InsufficientDataError: too few repeated runs for the number of factors.

    Example:
        Throughput falls from run to run, and nothing else happens:

        >>> falling = split_run_variance([100.0, 96.2, 92.1, 88.0, 84.4, 80.9], ["w2"] * 6, {"order in time": range(6)})
        >>> falling.sources["source"].to_list(), round(falling.sources["share"][0], 2)
        (['order in time', 'residual'], 1.0)
    """
    rates = np.asarray(throughput, dtype=np.float64)
    _check(rates, configuration, factors)
    _, places, counts = np.unique([repr(one) for one in configuration], return_inverse=True, return_counts=True)
    repeated = counts[places] > 1
    y = _centred(np.log(rates), places)[repeated]
    labels = np.full(rates.size, np.nan) if blocks is None else np.asarray(blocks, dtype=np.float64)
    dummies = _block_columns(labels, places, repeated)
    of_blocks = None if dummies is None else _block_effect(np.log(rates), labels, places, repeated, level)
    columns, notes = _usable(factors, places, repeated)
    known = {name: column[:, None] for name, column in columns.items()}
    if dummies is not None:
        known = {BLOCKS: dummies, **{name: column for name, column in known.items() if name != ORDER}}
    groups = int((counts > 1).sum())
    within = y.size - groups
    left = within - sum(column.shape[1] for column in known.values())
    if left < _LEAST_FREEDOM or not float(y @ y) > 0:
        raise InsufficientDataError(
            f"{counted(y.size, 'repeated run')} of {counted(groups, 'configuration')} that differ are too few to split "
            f"their variance by {counted(len(known), 'factor')}",
            way_out="repeat configurations more often",
        )
    sd = math.sqrt(float(y @ y) / within)
    table, explained = _table(y, known, within, sd)
    rest = sd * math.sqrt((1 - explained) * within / left)
    needed, without = _needed(sd, within, wanted, level), _needed(rest, left, wanted, level)
    return RunVariance(table, 100 * sd, needed, without, wanted, y.size, groups, of_blocks, warnings=notes)


def _block_columns(
    labels: Floats,
    places: np.ndarray[tuple[int], np.dtype[np.intp]],
    repeated: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Floats | None:
    """One column for each block but the first, centred within configurations; None if there are fewer than two.

    Configurations of which a run is in no block count as constant.
    """
    unknown = np.isin(places, places[repeated & ~np.isfinite(labels)])
    usable = repeated & ~unknown
    levels = np.unique(labels[usable])
    if levels.size < 2:
        return None
    columns = [_centred(np.where(usable, labels == level, 0.0).astype(np.float64), places) for level in levels[1:]]
    found = np.column_stack(columns)[repeated]
    return found if np.linalg.matrix_rank(found) == found.shape[1] else None


def _block_effect(
    logs: Floats,
    labels: Floats,
    places: np.ndarray[tuple[int], np.dtype[np.intp]],
    repeated: np.ndarray[tuple[int], np.dtype[np.bool_]],
    level: float,
) -> BlockEffect | None:
    """The F test of blocks alone, over the configurations whose runs are all in blocks."""
    usable = repeated & ~np.isin(places, places[repeated & ~np.isfinite(labels)])
    x = _block_columns(labels, places, usable)
    y = _centred(logs, places)[usable]
    groups = np.unique(places[usable]).size
    whole = float(y @ y)
    if x is None or not whole > 0 or y.size - groups - x.shape[1] < _LEAST_FREEDOM:
        return None
    between, within = x.shape[1], y.size - groups - x.shape[1]
    share, effects = _effects(y, x)
    rest = whole * (1 - share) / within
    f = share * whole / between / rest
    # Effects as differences of each block from the mean of the others.
    number = between + 1
    differences = (np.eye(number) - 1 / number)[:, 1:] * number / between
    estimates = differences @ np.asarray(effects)
    errors = np.sqrt(np.einsum("ij,jk,ik->i", differences, np.linalg.inv(x.T @ x) * rest, differences))
    at = int(np.argmax(np.abs(estimates)))
    half = t_quantile((1 + level) / 2, within) * errors[at]
    trend = _centred(np.where(usable, labels, 0.0), places)[usable]
    of_trend, _ = _effects(y, trend[:, None])
    trend_f = of_trend / ((1 - of_trend) / (y.size - groups - 1))
    return BlockEffect(
        f=f, freedom=(between, within), p_value=f_tail(f, between, within), share=share,
        block=f"{np.unique(labels[usable])[at]:g}",
        effect_percent=100 * math.expm1(estimates[at]),
        interval=(100 * math.expm1(estimates[at] - half), 100 * math.expm1(estimates[at] + half)),
        trend_share=of_trend, trend_p_value=f_tail(trend_f, 1, y.size - groups - 1), n=y.size,
    )  # fmt: skip


def _check(rates: Floats, configuration: Sequence[object], factors: Mapping[str, ArrayLike]) -> None:
    lengths = {len(configuration), rates.size, *(np.asarray(values).size for values in factors.values())}
    if len(lengths) > 1:
        raise UsageError("throughput, configuration and factors have different lengths")
    if rates.size and not (np.isfinite(rates) & (rates > 0)).all():
        raise UsageError("a throughput is not positive", way_out="leave out runs that failed")


def _centred(values: Floats, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """Distances from the means of groups."""
    return np.asarray(values - (np.bincount(places, values) / np.bincount(places))[places], dtype=np.float64)


def _usable(
    factors: Mapping[str, ArrayLike],
    places: np.ndarray[tuple[int], np.dtype[np.intp]],
    repeated: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Factors centred at the groups' means and scaled to a variance of 1, and notes on factors that are left out."""
    known: dict[str, Floats] = {}
    notes = []
    for name, given in factors.items():
        values = np.asarray(given, dtype=np.float64)
        unknown = np.isin(places, places[repeated & ~np.isfinite(values)])
        missing = np.unique(places[repeated & unknown]).size
        if (repeated & ~unknown).sum() == 0:
            notes.append(f"{name} is not known of every run of any configuration")
            continue
        centred = _centred(np.where(repeated & ~unknown, values, 0.0), places)[repeated]
        size = math.sqrt(float(centred @ centred) / max(centred.size, 1))
        if size <= 1e-9 * max(1.0, float(np.abs(values[repeated & ~unknown]).max(initial=0.0))):
            notes.append(f"{name} does not differ between repeated runs")
            continue
        if missing:
            notes.append(f"{name} is not known of {counted(missing, 'configuration')}, where it counts as constant")
        known[name] = centred / size
    return known, tuple(notes)


def _table(y: Floats, known: Mapping[str, Floats], within: int, sd: float) -> tuple[pl.DataFrame, float]:
    names = list(known)
    sizes = [column.shape[1] for column in known.values()]
    fits = {chosen: _effects(y, _beside_each_other(known, chosen, y.size))[0] for chosen in _subsets(names)}
    explained, coefficients = _effects(y, _beside_each_other(known, names, y.size))
    left, ends = within - sum(sizes), np.cumsum(sizes)
    # A factor of several columns has no single effect.
    effects = [coefficients[end - 1] if size == 1 else None for size, end in zip(sizes, ends, strict=True)]
    shares = [_lmg(name, names, fits) for name in names]
    alone = [explained - fits[tuple(one for one in names if one != name)] for name in names]
    # The F test of each factor, given all others.
    p_values = [
        f_tail(max(part, 0.0) / size / ((1 - explained) / left), size, left)
        for part, size in zip(alone, sizes, strict=True)
    ]
    adjusted = holm(p_values).tolist() if names else []
    rows = [
        (
            name,
            share,
            size / within,
            100 * sd * math.sqrt(max(share, 0.0)),
            None if effect is None else 100 * math.expm1(effect),
            p,
            None if p < _ALPHA else _to_decide(part / (1 - explained), y.size - within, sum(sizes), size),
        )
        for name, share, effect, p, part, size in zip(names, shares, effects, adjusted, alone, sizes, strict=True)
    ]
    rows.sort(key=lambda row: -row[1])
    last = (RESIDUAL, 1 - explained, left / within, 100 * sd * math.sqrt(1 - explained), None, None, None)
    numbers = dict.fromkeys(("share", "by_chance", "sd_percent", "effect_percent", "p_value"), pl.Float64())
    schema = {"source": pl.String(), **numbers, "runs_to_decide": pl.Int64()}
    return pl.DataFrame([*rows, last], schema=schema, orient="row"), explained


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]


def _beside_each_other(known: Mapping[str, Floats], names: Sequence[str], n: int) -> Floats:
    return np.column_stack([known[name] for name in names]) if names else np.empty((n, 0))


def _effects(y: Floats, x: Floats) -> tuple[float, list[float]]:
    """Share of the sum of squares that a linear model of the columns explains, and the model's coefficients."""
    if not x.shape[1]:
        return 0.0, []
    effects = np.linalg.lstsq(x, y, rcond=None)[0]
    rest = y - x @ effects
    return min(1.0 - float(rest @ rest) / float(y @ y), 1 - 1e-12), effects.tolist()


def _lmg(name: str, names: Sequence[str], fits: Mapping[tuple[str, ...], float]) -> float:
    """The part that a factor adds to the factors before it, averaged over all orders."""
    others = [one for one in names if one != name]
    total = 0.0
    for before in _subsets(others):
        with_it = tuple(one for one in names if one in before or one == name)
        weight = math.factorial(len(before)) * math.factorial(len(others) - len(before)) / math.factorial(len(names))
        total += weight * (fits[with_it] - fits[before])
    return total


def _to_decide(effect: float, groups: int, factors: int, size: int) -> int | None:
    """Number of runs of all configurations together that would show an effect of this size (Cohen's f squared)."""
    from scipy import special

    def power(n: int) -> float:
        left = n - groups - factors
        return 1 - float(
            special.ncfdtr(size, left, max(effect, 1e-12) * (n - groups), f_quantile(1 - _ALPHA, size, left))
        )

    return smallest(lambda n: power(n) >= POWER, groups + factors + 2, _MOST)


def _needed(sd: float, freedom: int, wanted: float, level: float) -> int | None:
    """Number of runs for a mean ± `wanted`, for the largest spread that is plausible, with the planned assurance."""
    largest = sd * math.sqrt(freedom / chi2_quantile(1 - ASSURANCE, freedom))
    half = math.log1p(wanted)
    return smallest(lambda n: t_quantile((1 + level) / 2, n - 1) * largest / math.sqrt(n) <= half, 2, _MOST)
