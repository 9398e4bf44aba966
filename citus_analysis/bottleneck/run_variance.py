"""The variance between repeated runs, split by source: blocks, order in time, checkpoints, foreign work, the rest.

Runs are compared with the other runs of their configuration only: the logarithm of throughput and each factor are
centred at the configuration's mean.

Factors that occur together would divide what one of them explains, so that factors are *chosen* first: that of the
smallest p-value enters the model, as long as there is one that chance does not explain, given those that are in it; one
that chance explains beside the others leaves it. All p-values are adjusted by Holm for the number of factors. A factor
that lowers the throughput by what it is (foreign work, checkpoints) is tested in this direction alone, because the
opposite one is the run's effect on the factor.

The share of a chosen factor is its part of the explained sum of squares, averaged over all orders in which the chosen
factors can enter the model (Lindeman, Merenda and Gold), so that the shares and the residual add up to 1 even if the
factors are correlated. A factor that would have been chosen if another one had not been stands beside that one.

Where runs were made in blocks (one run of each configuration before the next of any), the block is a factor with a
level for each: a machine that is slow for a while makes one block slow, which a trend over blocks would miss. It
takes the place of the order in time, whose trend within it is tested beside it.

References:
    Lindeman, R. H., Merenda, P. F. and Gold, R. Z. (1980). Introduction to Bivariate and Multivariate Analysis.
    Groemping, U. (2007). Estimators of relative importance in linear regression based on variance decomposition.
        The American Statistician 61.
    Efroymson, M. A. (1960). Multiple regression analysis. Mathematical Methods for Digital Computers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.bottleneck.run_factors import DIRECTIONS, FACTORS, ORDER
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import ASSURANCE, LEVEL, POWER, SEED
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats.distributions import (
    compute_chi2_quantile,
    compute_f_quantile,
    compute_f_tail,
    compute_t_quantile,
    find_smallest_n,
)
from citus_analysis.stats.verdicts import adjust_by_holm
from citus_analysis.texts.words import join_words, pluralize

#: The part that no factor explains.
RESIDUAL: Final = "residual"
#: Blocks as a factor.
BLOCKS: Final = "blocks"
#: Relative half-width of a mean's interval that `runs_needed` is computed for.
WANTED: Final = 0.05
#: Fewest degrees of freedom of the residual.
_LEAST_FREEDOM: Final = 3
#: Sum of squares of a column, scaled to a variance of 1, of which nothing is left.
_NOTHING: Final = 1e-9
#: Largest number of runs that is stated.
_MOST: Final = 10_000
_ALPHA: Final = 0.05


@dataclass(frozen=True)
class BlockEffect:
    """Blocks of runs as a factor of the logarithm of throughput, configurations held constant.

    Attributes:
        f: F statistic of all blocks together.
        df: its degrees of freedom.
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
    df: tuple[int, int]
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
        test = f"F({self.df[0]}, {self.df[1]}) = {self.f:.2f}, p = {self.p_value:.2g}"
        return (
            f"Blocks of runs {verdict}: {test}, {100 * self.share:.0f} % of the variance ({self.n} runs). "
            f"The throughput in block {self.block}, which differs most, is {abs(self.effect_percent):.1f} % {more} "
            f"than in the others ({within}); a linear trend over blocks explains {100 * self.trend_share:.0f} % "
            f"(p = {self.trend_p_value:.2g})."
        )


@dataclass(frozen=True, eq=False, repr=False)
class RunVariance(DisplayMixin):
    """Run-to-run variance by source.

    Attributes:
        sources: one row per source: `source`, `share` of the variance (0 for factors that were not chosen; the shares
            add up to 1), `sd_percent` (the source's part of the spread), `effect_percent` (change of throughput for one
            standard deviation of the factor, given the chosen ones), `p_value` (given the chosen ones, adjusted; null
            for the residual), `share_beyond_chance` (the share less what the residual's spread alone would give the
            factor; what is explained in sum is the adjusted coefficient of determination), `runs_to_decide` (runs of
            all configurations together that would show an effect of this size; null if it is shown already, is not in
            the factor's direction, or needs more than 10,000 runs), `goes_with` (the chosen factor without which this
            one would have been chosen; the runs cannot say which of the two it is); `share_low` and `share_high`
            (of `share_beyond_chance`, percentiles of a bootstrap over runs, in which factors are chosen anew) if
            intervals were asked for.
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
    method: str = "factors chosen stepwise (F tests adjusted by Holm), shares averaged over their orders (LMG)"
    warnings: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Factors with an effect that chance does not explain, the largest share first."""
        known = convert_to_polars(self.sources).filter(pl.col("source") != RESIDUAL, pl.col("share") > 0)
        return tuple(known["source"])

    def sentence(self) -> str:
        """The spread, its known sources, those that go with them, and the runs needed."""
        head = f"Runs of one configuration differ by {self.sd_percent:.1f} % (standard deviation, {self.n} runs)"
        shares = dict(convert_to_polars(self.sources).select("source", "share").iter_rows())
        needed = f"±{self.wanted * 100:g} % needs {_format_run_count(self.runs_needed)}"
        if self.named:
            parts = [f"{name} {shares[name] * 100:.0f} %" for name in (*self.named, RESIDUAL)]
            said = f": {', '.join(parts)}. {self.describe_companions()}".rstrip()
            needed += f", and {_format_run_count(self.runs_needed_without)} if the factors were held constant"
        else:
            said = "; none of the factors has an effect that chance does not explain."
        from_blocks = "" if self.blocks is None else f" {self.blocks.sentence()}"
        return f"{head}{said}{from_blocks} {needed}."

    def describe_companions(self) -> str:
        """Which factors occur together with a named one, so that these runs cannot say which it is; empty if none."""
        rows = convert_to_polars(self.sources).drop_nulls("goes_with")
        found = [
            (join_words(own["source"].to_list()), name, own.height)
            for (name,), own in rows.group_by("goes_with", maintain_order=True)
        ]
        return " ".join(
            f"In these runs {names} {'go' if n > 1 else 'goes'} with {name}: they cannot say which of them it is."
            for names, name, n in found
        )

    def summary_lines(self) -> list[str]:
        """The finding and the warnings."""
        return [self.sentence(), f"  {self.method}", *(f"  {note}" for note in self.warnings)]

    def summary_table(self) -> pl.DataFrame:
        """One row per source."""
        return convert_to_polars(self.sources)


def _format_run_count(number: int | None) -> str:
    return f"more than {_MOST:,} runs" if number is None else pluralize(number, "run")


def split_run_variance(
    throughput: ArrayLike,
    configuration: Sequence[object],
    factors: Mapping[str, ArrayLike],
    *,
    blocks: ArrayLike | None = None,
    directions: Mapping[str, int] | None = None,
    wanted: float = WANTED,
    level: float = LEVEL,
    resamples: int = 0,
) -> RunVariance:
    """Split the variance between repeated runs by those of its sources that chance does not explain.

    A factor that is equal in all runs of each configuration is left out. A factor that is unknown for some run of a
    configuration is treated as constant there. Warnings name both. Configurations with a single run are left out.

    Args:
        throughput: one positive value per run.
        configuration: configuration of each run.
        factors: name -> one number per run; nan if it is not known.
        blocks: number of the block of each run, nan if it is in none; None if runs were not made in blocks.
        directions: factor -> 1 or -1, the sign of the only effect on throughput that it can have; others have any.
        wanted: relative half-width of a mean's interval, for `runs_needed`.
        level: confidence level of this interval, and of those of the shares.
        resamples: bootstrap samples of runs (within configurations) for the intervals of the shares; 0: no intervals.

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
    y = _centre_within_groups(np.log(rates), places)[repeated]
    labels = np.full(rates.size, np.nan) if blocks is None else np.asarray(blocks, dtype=np.float64)
    dummies = _make_block_columns(labels, places, repeated)
    from_blocks = None if dummies is None else _test_block_effect(np.log(rates), labels, places, repeated, level)
    columns, notes = _select_usable_factors(factors, places, repeated)
    known = {name: column[:, None] for name, column in columns.items()}
    if dummies is not None:
        known = {BLOCKS: dummies, **{name: column for name, column in known.items() if name != ORDER}}
    groups = int((counts > 1).sum())
    within = y.size - groups
    # The model of blocks alone, or of one factor alone, must leave degrees of freedom.
    largest = max((column.shape[1] for column in known.values()), default=0)
    if within - largest < _LEAST_FREEDOM or not float(y @ y) > 0:
        raise InsufficientDataError(
            f"{pluralize(y.size, 'repeated run')} of {pluralize(groups, 'configuration')} that differ are too "
            f"few to split their variance by {pluralize(len(known), 'factor')}",
            hint="repeat configurations more often",
        )
    sd = math.sqrt(float(y @ y) / within)
    matrix, columns_of = _stack_factor_columns(y, known)
    products = _FactorProducts(matrix.T @ matrix, columns_of, within)
    choice = _choose_factors(products, directions or {})
    table = _tabulate_sources(products, choice, sd, y.size - within)
    if resamples:
        drawn = _draw_again(matrix, places[repeated], resamples)
        samples = [_FactorProducts(one, columns_of, within) for one in drawn if one[0, 0] > 0]
        table = _add_share_intervals(table, [_choose_factors(one, directions or {}) for one in samples], level)
    left = within - sum(len(columns_of[name]) for name in choice.chosen)
    rest = sd * math.sqrt((1 - choice.explained) * within / left)
    needed, without = _estimate_runs_needed(sd, within, wanted, level), _estimate_runs_needed(rest, left, wanted, level)
    return RunVariance(table, 100 * sd, needed, without, wanted, y.size, groups, from_blocks, warnings=notes)


def _make_block_columns(
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
    columns = [
        _centre_within_groups(np.where(usable, labels == level, 0.0).astype(np.float64), places) for level in levels[1:]
    ]
    found = np.column_stack(columns)[repeated]
    return found if np.linalg.matrix_rank(found) == found.shape[1] else None


def _test_block_effect(
    logs: Floats,
    labels: Floats,
    places: np.ndarray[tuple[int], np.dtype[np.intp]],
    repeated: np.ndarray[tuple[int], np.dtype[np.bool_]],
    level: float,
) -> BlockEffect | None:
    """The F test of blocks alone, over the configurations whose runs are all in blocks."""
    usable = repeated & ~np.isin(places, places[repeated & ~np.isfinite(labels)])
    x = _make_block_columns(labels, places, usable)
    y = _centre_within_groups(logs, places)[usable]
    groups = np.unique(places[usable]).size
    whole = float(y @ y)
    if x is None or not whole > 0 or y.size - groups - x.shape[1] < _LEAST_FREEDOM:
        return None
    between, within = x.shape[1], y.size - groups - x.shape[1]
    share, effects = _fit_linear_effects(y, x)
    rest = whole * (1 - share) / within
    f = share * whole / between / rest
    # Effects as differences of each block from the mean of the others.
    number = between + 1
    differences = (np.eye(number) - 1 / number)[:, 1:] * number / between
    estimates = differences @ np.asarray(effects)
    errors = np.sqrt(np.einsum("ij,jk,ik->i", differences, np.linalg.inv(x.T @ x) * rest, differences))
    at = int(np.argmax(np.abs(estimates)))
    half = compute_t_quantile((1 + level) / 2, within) * errors[at]
    trend = _centre_within_groups(np.where(usable, labels, 0.0), places)[usable]
    of_trend, _ = _fit_linear_effects(y, trend[:, None])
    trend_f = of_trend / ((1 - of_trend) / (y.size - groups - 1))
    return BlockEffect(
        f=f, df=(between, within), p_value=compute_f_tail(f, between, within), share=share,
        block=f"{np.unique(labels[usable])[at]:g}",
        effect_percent=100 * math.expm1(estimates[at]),
        interval=(100 * math.expm1(estimates[at] - half), 100 * math.expm1(estimates[at] + half)),
        trend_share=of_trend, trend_p_value=compute_f_tail(trend_f, 1, y.size - groups - 1), n=y.size,
    )  # fmt: skip


def _check(rates: Floats, configuration: Sequence[object], factors: Mapping[str, ArrayLike]) -> None:
    lengths = {len(configuration), rates.size, *(np.asarray(values).size for values in factors.values())}
    if len(lengths) > 1:
        raise UsageError("throughput, configuration and factors have different lengths")
    if rates.size and not (np.isfinite(rates) & (rates > 0)).all():
        raise UsageError("a throughput is not positive", hint="leave out runs that failed")


def _centre_within_groups(values: Floats, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """Distances from the means of groups."""
    return np.asarray(values - (np.bincount(places, values) / np.bincount(places))[places], dtype=np.float64)


def _select_usable_factors(
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
        centred = _centre_within_groups(np.where(repeated & ~unknown, values, 0.0), places)[repeated]
        size = math.sqrt(float(centred @ centred) / max(centred.size, 1))
        if size <= 1e-9 * max(1.0, float(np.abs(values[repeated & ~unknown]).max(initial=0.0))):
            notes.append(f"{name} does not differ between repeated runs")
            continue
        if missing:
            notes.append(f"{name} is not known of {pluralize(missing, 'configuration')}, where it counts as constant")
        known[name] = centred / size
    return known, tuple(notes)


def _fit_linear_effects(y: Floats, x: Floats) -> tuple[float, list[float]]:
    """Share of the sum of squares that a linear model of the columns explains, and the model's coefficients."""
    if not x.shape[1]:
        return 0.0, []
    effects = np.linalg.lstsq(x, y, rcond=None)[0]
    rest = y - x @ effects
    return min(1.0 - float(rest @ rest) / float(y @ y), 1 - 1e-12), effects.tolist()


# Choosing factors.


@dataclass(frozen=True)
class _TestedFactor:
    """What a factor adds to others.

    Attributes:
        part: share of the sum of squares that it adds.
        rest: share that is left with it.
        effect: its coefficient; None for a factor of several columns.
        p_value: of its F test, one-sided for a factor with a direction.
        is_possible: whether the effect is in the factor's direction.
    """

    part: float
    rest: float
    effect: float | None
    p_value: float
    is_possible: bool


@dataclass(frozen=True)
class _FactorProducts:
    """Sums of squares and products of the centred logarithms of throughput and of the factors.

    Attributes:
        products: of all columns with one another; the first column is the throughput.
        columns: factor -> its columns.
        within: degrees of freedom within configurations.
    """

    products: Floats
    columns: Mapping[str, tuple[int, ...]]
    within: int

    def explain(self, names: Sequence[str]) -> tuple[float, Floats]:
        """Share of the sum of squares that a linear model of factors explains, and the model's coefficients."""
        rows = [column for name in names for column in self.columns[name]]
        # A factor may be constant in a sample: the generalised inverse leaves it out.
        effects: Floats = np.linalg.pinv(self.products[np.ix_(rows, rows)], hermitian=True) @ self.products[rows, 0]
        return min(max(float(self.products[0, rows] @ effects / self.products[0, 0]), 0.0), 1 - 1e-12), effects

    def hold_constant(self, names: Sequence[str]) -> _FactorProducts:
        """The products of what factors leave of the columns, with fewer degrees of freedom."""
        rows = [column for name in names for column in self.columns[name]]
        if not rows:
            return self
        effects = np.linalg.pinv(self.products[np.ix_(rows, rows)], hermitian=True) @ self.products[rows]
        return replace(self, products=self.products - self.products[:, rows] @ effects, within=self.within - len(rows))

    def test(self, name: str, whole: float, direction: int | None) -> _TestedFactor:
        """Test what a factor explains of a sum of squares; of what others leave of it, where they are held constant."""
        rows = list(self.columns[name])
        own, with_throughput, left = self.products[np.ix_(rows, rows)], self.products[rows, 0], self.within - len(rows)
        if len(rows) == 1:
            # Nothing is left of a factor that is a sum of others.
            constant = own[0, 0] <= _NOTHING * self.products.shape[0]
            effects = np.zeros(1) if constant else with_throughput / own[0, 0]
        else:
            effects = np.linalg.pinv(own, hermitian=True) @ with_throughput
        part = max(float(with_throughput @ effects) / whole, 0.0)
        rest = max(float(self.products[0, 0]) / whole - part, 1e-12)
        effect = float(effects[0]) if len(rows) == 1 else None
        is_possible = direction is None or effect is None or effect * direction > 0
        if left < _LEAST_FREEDOM:
            return _TestedFactor(part, rest, effect, 1.0, is_possible)
        p_value = compute_f_tail(part / len(rows) / (rest / left), len(rows), left)
        if direction is not None and effect is not None:
            p_value = p_value / 2 if is_possible else 1 - p_value / 2
        return _TestedFactor(part, rest, effect, p_value, is_possible)


@dataclass(frozen=True)
class _ChosenFactors:
    """The factors of which chance is no explanation, and the tests of all factors given them.

    Attributes:
        chosen: the factors, in the order in which they were chosen.
        explained: share of the sum of squares that they explain.
        tests: of each factor, given the chosen ones (but for itself).
        adjusted: the tests' p-values, adjusted for the number of factors.
        alone: factors that would be chosen first, if each were the only one.
        shares: of the chosen factors and of the residual.
        beyond_chance: the same, less what the spread of the residual gives.
    """

    chosen: tuple[str, ...]
    explained: float
    tests: Mapping[str, _TestedFactor]
    adjusted: Mapping[str, float]
    alone: frozenset[str]
    shares: Mapping[str, float]
    beyond_chance: Mapping[str, float]


def _choose_factors(products: _FactorProducts, directions: Mapping[str, int]) -> _ChosenFactors:
    """Choose factors step by step: the most certain one enters, one that chance explains given the others leaves."""
    chosen: tuple[str, ...] = ()
    seen: set[frozenset[str]] = {frozenset()}
    alone: frozenset[str] | None = None
    while True:
        tests, adjusted = _test_factors(products, chosen, directions)
        certain = frozenset(name for name, p in adjusted.items() if p < _ALPHA)
        alone = certain if alone is None else alone
        leaving = [name for name in chosen if name not in certain]
        entering = [name for name in tests if name in certain and name not in chosen]
        if leaving:
            least = max(leaving, key=lambda name: tests[name].p_value)
            following = tuple(name for name in chosen if name != least)
        elif entering:
            following = (*chosen, min(entering, key=lambda name: (tests[name].p_value, -tests[name].part)))
        else:
            break
        if frozenset(following) in seen:
            break
        seen.add(frozenset(following))
        chosen = following
    explained, _ = products.explain(chosen)
    shares = _compute_lmg_shares(products, chosen) | {RESIDUAL: 1 - explained}
    left = products.within - sum(len(products.columns[name]) for name in chosen)
    by_chance = {name: (1 - explained) * len(products.columns[name]) / left for name in chosen}
    beyond = {name: share - by_chance.get(name, 0.0) for name, share in shares.items()}
    beyond[RESIDUAL] = (1 - explained) * products.within / left
    return _ChosenFactors(chosen, explained, tests, adjusted, alone, shares, beyond)


def _test_factors(
    products: _FactorProducts, chosen: Sequence[str], directions: Mapping[str, int]
) -> tuple[dict[str, _TestedFactor], dict[str, float]]:
    """Test each factor given the chosen ones but for itself; with p-values adjusted for the number of factors."""
    whole, beside = float(products.products[0, 0]), products.hold_constant(chosen)
    tests = {}
    for name in products.columns:
        others = products.hold_constant([one for one in chosen if one != name]) if name in chosen else beside
        tests[name] = others.test(name, whole, directions.get(name))
    adjusted = adjust_by_holm([test.p_value for test in tests.values()]).tolist() if tests else []
    return tests, dict(zip(tests, adjusted, strict=True))


def _compute_lmg_shares(products: _FactorProducts, names: Sequence[str]) -> dict[str, float]:
    """The part that each factor adds to those before it, averaged over all orders."""
    fits = {
        subset: products.explain(subset)[0] for size in range(len(names) + 1) for subset in combinations(names, size)
    }
    shares = {}
    for name in names:
        total = 0.0
        for before in (subset for subset in fits if name not in subset):
            with_it = tuple(one for one in names if one in before or one == name)
            orders = math.factorial(len(before)) * math.factorial(len(names) - 1 - len(before))
            total += orders / math.factorial(len(names)) * (fits[with_it] - fits[before])
        shares[name] = total
    return shares


def _stack_factor_columns(y: Floats, known: Mapping[str, Floats]) -> tuple[Floats, dict[str, tuple[int, ...]]]:
    """Throughput and factors as columns of a matrix, and the columns of each factor."""
    ends = np.cumsum([1, *(column.shape[1] for column in known.values())]).tolist()
    columns = {name: tuple(range(*span)) for name, span in zip(known, pairwise(ends), strict=True)}
    return np.column_stack([y, *known.values()]), columns


def _tabulate_sources(products: _FactorProducts, choice: _ChosenFactors, sd: float, groups: int) -> pl.DataFrame:
    """The table of sources, the largest share first, and the most certain first among those without a share."""
    sizes = {name: len(products.columns[name]) for name in products.columns}
    in_model = sum(sizes[name] for name in choice.chosen)
    rows = []
    for name, test in choice.tests.items():
        share, p_value = choice.shares.get(name, 0.0), choice.adjusted[name]
        needed = None
        if name not in choice.chosen and test.is_possible:
            size = sizes[name]
            needed = _estimate_runs_to_decide(test.part / test.rest, groups, in_model + size, size)
        rows.append(
            {
                "source": name,
                "share": share,
                "share_beyond_chance": choice.beyond_chance.get(name, 0.0),
                "sd_percent": 100 * sd * math.sqrt(max(share, 0.0)),
                "effect_percent": None if test.effect is None else 100 * math.expm1(test.effect),
                "p_value": p_value,
                "runs_to_decide": needed,
                "goes_with": _find_companion(products, choice, name),
            }
        )
    rest = choice.shares[RESIDUAL]
    last = {
        "source": RESIDUAL,
        "share": rest,
        "share_beyond_chance": choice.beyond_chance[RESIDUAL],
        "sd_percent": 100 * sd * math.sqrt(rest),
    }
    columns = ("share", "share_beyond_chance", "sd_percent", "effect_percent", "p_value")
    numbers = dict.fromkeys(columns, pl.Float64())
    schema = {"source": pl.String(), **numbers, "runs_to_decide": pl.Int64(), "goes_with": pl.String()}
    found = pl.DataFrame(rows, schema=schema).sort("share", "p_value", descending=[True, False], maintain_order=True)
    return pl.concat([found, pl.DataFrame([last], schema=schema)])


def _find_companion(products: _FactorProducts, choice: _ChosenFactors, name: str) -> str | None:
    """The chosen factor without which a factor would have been chosen: that which explains most of it."""
    if name in choice.chosen or name not in choice.alone:
        return None
    explained = {}
    for other in choice.chosen:
        # A factor of several columns by the one that the other explains best.
        rows = [[column, *products.columns[other]] for column in products.columns[name]]
        parts = [products.products[np.ix_(one, one)] for one in rows]
        models = [_FactorProducts(part, {other: tuple(range(1, part.shape[0]))}, products.within) for part in parts]
        explained[other] = max(model.explain([other])[0] for model in models)
    return max(explained, key=explained.__getitem__, default=None)


def _draw_again(matrix: Floats, places: np.ndarray[tuple[int], np.dtype[np.intp]], resamples: int) -> Iterator[Floats]:
    """Sums of products of samples of the runs, drawn with replacement within their configurations."""
    rng = np.random.default_rng(SEED)
    members = [np.flatnonzero(places == place) for place in np.unique(places)]
    for _ in range(resamples):
        drawn = [matrix[rng.choice(rows, rows.size)] for rows in members]
        sample = np.concatenate([rows - rows.mean(axis=0) for rows in drawn])
        yield sample.T @ sample


def _add_share_intervals(table: pl.DataFrame, samples: Collection[_ChosenFactors], level: float) -> pl.DataFrame:
    """The table with `share_low` and `share_high`: percentiles of the shares beyond chance, with the estimate."""
    ends = [(1 - level) / 2, (1 + level) / 2]
    limits = []
    for name, estimate in table.select("source", "share_beyond_chance").iter_rows():
        shares = [one.beyond_chance.get(name, 0.0) for one in samples]
        low, high = np.quantile(shares, ends).tolist() if shares else (estimate, estimate)
        limits.append((min(low, estimate), max(high, estimate)))
    return table.with_columns(
        pl.Series(f"share_{side}", [min(max(one[at], 0.0), 1.0) for one in limits], dtype=pl.Float64)
        for at, side in enumerate(("low", "high"))
    )


def _estimate_runs_to_decide(effect: float, groups: int, factors: int, size: int) -> int | None:
    """Number of runs of all configurations together that would show an effect of this size (Cohen's f squared)."""
    from scipy import special

    def power(n: int) -> float:
        left = n - groups - factors
        return 1 - float(
            special.ncfdtr(size, left, max(effect, 1e-12) * (n - groups), compute_f_quantile(1 - _ALPHA, size, left))
        )

    return find_smallest_n(lambda n: power(n) >= POWER, groups + factors + 2, _MOST)


def _estimate_runs_needed(sd: float, df: int, wanted: float, level: float) -> int | None:
    """Number of runs for a mean ± `wanted`, for the largest spread that is plausible, with the planned assurance."""
    largest = sd * math.sqrt(df / compute_chi2_quantile(1 - ASSURANCE, df))
    half = math.log1p(wanted)
    return find_smallest_n(
        lambda n: compute_t_quantile((1 + level) / 2, n - 1) * largest / math.sqrt(n) <= half, 2, _MOST
    )


@return_callers_frame_kind
def run_variance(
    factors: Frame, configuration: Sequence[str], *, level: float = LEVEL, resamples: int = 0
) -> RunVariance:
    """Run-to-run variance by blocks or order in time, checkpoints, autovacuum, balance of nodes and the rest.

    Args:
        factors: result of :func:`measure_run_factors`.
        configuration: columns that identify a configuration.
        level: confidence level of the mean, for the number of runs needed.
        resamples: bootstrap samples of runs for the intervals of the shares; 0: no intervals.

    Raises:
        InsufficientDataError: too few repeated runs.
    """
    frame = convert_to_polars(factors)
    names = frame.select(pl.struct(configuration).struct.json_encode()).to_series().to_list()
    measured = {name: words for name, words in FACTORS.items() if name in frame.columns}
    values = {
        words: frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name, words in measured.items()
    }
    blocks = frame["block"].fill_null(float("nan")).to_numpy() if "block" in frame.columns else None
    rates = frame["throughput_ops_s"].to_numpy()
    try:
        return split_run_variance(
            rates, names, values, blocks=blocks, directions=DIRECTIONS, level=level, resamples=resamples
        )
    except InsufficientDataError:
        if blocks is None or not np.isfinite(blocks).any():
            raise
        # Each block but one takes a degree of freedom; the order in time takes one.
        found = split_run_variance(rates, names, values, directions=DIRECTIONS, level=level, resamples=resamples)
        return replace(
            found, warnings=(*found.warnings, "too few runs to tell blocks: the order in time stands for them")
        )
