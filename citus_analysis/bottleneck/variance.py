"""The sources of the variance of T, and the properties that separate slow statements from the others.

T is the sum of the parent's own time, the child's time, and the time between (L), so Var(T) is the sum of their three
variances and twice their three covariances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.bottleneck.samples import NODE, RUN, add_configuration_columns
from citus_analysis.bottleneck.waits import count_opened_sessions
from citus_analysis.bottleneck.witnesses import WITNESSES
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.type_aliases import Bools, Floats
from citus_analysis.defaults import ASSURANCE, LEVEL, POWER, SEED
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.selection import USUAL_QUESTION, Question
from citus_analysis.runs.status import list_included_statuses
from citus_analysis.spans.tail import find_autovacuum_intervals
from citus_analysis.stats.distributions import (
    compute_chi2_quantile,
    compute_f_quantile,
    compute_f_tail,
    compute_t_quantile,
    find_smallest_n,
)
from citus_analysis.stats.verdicts import adjust_by_holm, cliffs_delta, compute_mann_whitney_p_value
from citus_analysis.texts.words import join_words, pluralize

#: Fewest statements from which a variance is computed.
LEAST_STATEMENTS: Final = 30
#: Most statements of a group that are compared; of larger groups, a sample of this size is drawn.
MOST_STATEMENTS: Final = 20_000
#: Names of the terms: the variances, then the covariances (each counted twice).
TERMS: Final = ("parent", "child", "between", "parent and child", "parent and between", "child and between")
_PARTS: Final = ("parent_us", "child_us", "between_us")
#: Where a statement was executed -> its column.
_PLACES: Final = {"node": "node", "shard": "shard_id"}


def _decompose_remote_times(statements: pl.DataFrame) -> pl.DataFrame:
    """Remote statements whose child is known, with `parent_us`, `child_us` and `between_us`, which add up to T."""
    known = pl.all_horizontal(pl.col("total_us", "wait_us", "child_us").is_not_null())
    return statements.filter(~pl.col("failed").fill_null(value=False) & known).with_columns(
        parent_us=pl.col("total_us") - pl.col("wait_us"), between_us=pl.col("wait_us") - pl.col("child_us")
    )


@return_callers_frame_kind
def decompose_time_variance(statements: Frame, runs: Frame, configuration: Sequence[str]) -> pl.DataFrame:
    """Var(T) of each configuration and kind of statement, term by term.

    Args:
        statements: the table `statements`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.

    Returns:
        `configuration`, `statement_kind`, `term` (one of :data:`TERMS`), `value_us2` (a covariance counted twice),
        `share` of Var(T), `variance_us2` (Var(T), over n), `n` statements. The terms of a group add up to Var(T).
    """
    apart = add_configuration_columns(
        _decompose_remote_times(convert_to_polars(statements)), convert_to_polars(runs), configuration
    )
    keys = [*configuration, "statement_kind"]
    a, b, c = (pl.col(name) for name in _PARTS)
    pairs = {TERMS[3]: (a, b), TERMS[4]: (a, c), TERMS[5]: (b, c)}
    terms = {name: part.var(ddof=0) for name, part in zip(TERMS[:3], (a, b, c), strict=True)}
    terms |= {name: 2 * pl.cov(*pair, ddof=0) for name, pair in pairs.items()}
    whole = {"variance_us2": pl.col("total_us").var(ddof=0), "n": pl.len()}
    groups = apart.group_by(keys, maintain_order=True).agg(**terms, **whole)
    groups = groups.filter(pl.col("n") >= LEAST_STATEMENTS, pl.col("variance_us2") > 0)
    long = groups.unpivot(TERMS, index=[*keys, *whole], variable_name="term", value_name="value_us2")
    shares = long.with_columns(share=pl.col("value_us2") / pl.col("variance_us2"))
    return shares.sort(*keys, "share", descending=[False] * len(keys) + [True], nulls_last=True)


@return_callers_frame_kind
def find_separating_properties(
    statements: Frame, checkpoints: Frame, runs: Frame, configuration: Sequence[str]
) -> pl.DataFrame:
    """Compare T of statements with a property and without it, to find properties that separate slow statements.

    The properties are the node and the shard of a statement, whether it was executed on another node, whether a
    checkpoint was under way, and whether it was parsed (the first use in its connection). The p-values are from
    Mann-Whitney tests, adjusted within each configuration and kind of statement by Holm's procedure. Statements of one
    run are not independent, so the effect size matters more than a small p-value. From groups of more than
    :data:`MOST_STATEMENTS` statements, a sample of this size is drawn.

    Returns:
        `configuration`, `statement_kind`, `property`, `n_with`, `n_without`, `median_with_us`, `median_without_us`,
        `cliffs_delta` (-1 to 1; above 0: slower with the property), `p_value` (adjusted).
    """
    usable = convert_to_polars(statements).filter(
        pl.col("total_us").is_not_null() & ~pl.col("failed").fill_null(value=False)
    )
    marked = _mark_checkpoint_overlap(usable, convert_to_polars(checkpoints))
    marked = add_configuration_columns(marked, convert_to_polars(runs), configuration)
    marked, names = _add_property_columns(marked), _names(marked)
    keys = [*configuration, "statement_kind"]
    rows: list[dict[str, object]] = []
    for key, group in marked.group_by(keys, maintain_order=True):
        drawn = group.sample(MOST_STATEMENTS, seed=SEED) if group.height > MOST_STATEMENTS else group
        found = [{**dict(zip(keys, key, strict=True)), **row} for row in _compare_by_property(drawn, names)]
        adjusted = adjust_by_holm([float(str(row["p_value"])) for row in found]).tolist() if found else []
        rows += [row | {"p_value": p} for row, p in zip(found, adjusted, strict=True)]
    if not rows:
        return pl.DataFrame()
    frame, size = pl.DataFrame(rows, infer_schema_length=None), pl.col("cliffs_delta").abs()
    return frame.sort(*keys, size, descending=[False] * len(keys) + [True], nulls_last=True)


def _compare_by_property(group: pl.DataFrame, names: Mapping[str, list[str]]) -> Iterator[dict[str, object]]:
    times = group["total_us"].to_numpy()
    for name, has in _iterate_property_flags(group, names):
        with_, without = times[has], times[~has]
        if min(len(with_), len(without)) < LEAST_STATEMENTS:
            continue
        yield {
            "property": name,
            "n_with": len(with_),
            "n_without": len(without),
            "median_with_us": float(np.median(with_)),
            "median_without_us": float(np.median(without)),
            "cliffs_delta": cliffs_delta(with_, without),
            "p_value": compute_mann_whitney_p_value(with_, without),
        }


def _add_property_columns(statements: pl.DataFrame) -> pl.DataFrame:
    """Statements with a column for each property: of all groups at once, because there may be many groups."""
    remote = pl.col("executed").cast(pl.String) == "remote"
    return statements.with_columns(
        pl.col(column).rank("dense").fill_null(0).alias(f"_{noun}") for noun, column in _PLACES.items()
    ).with_columns(_first_use=pl.col("parse_us").fill_null(0) > 0, _remote=remote.fill_null(value=False))


def _names(statements: pl.DataFrame) -> dict[str, list[str]]:
    """The name of each node and shard, in the order of their ranks, from 1."""
    values = {noun: statements[column].drop_nulls().unique().sort() for noun, column in _PLACES.items()}
    return {noun: ["", *(f"{noun} {value}" for value in own)] for noun, own in values.items()}


def _iterate_property_flags(group: pl.DataFrame, names: Mapping[str, list[str]]) -> Iterator[tuple[str, Bools]]:
    """Each property with the flags of the statements that have it, as arrays, because there may be many shards."""
    yield "checkpoint under way", group["_checkpoint"].to_numpy()
    yield "first use in its connection", group["_first_use"].to_numpy()
    yield "executed on another node", group["_remote"].to_numpy()
    for noun in _PLACES:
        ranks = group[f"_{noun}"].to_numpy()
        for rank in np.unique(ranks[ranks > 0]).tolist():
            yield names[noun][rank], ranks == rank


def _mark_checkpoint_overlap(statements: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Statements with `_checkpoint`: whether the last checkpoint of their node that began before them still ran."""
    begun = checkpoints.select(*NODE, begun=pl.coalesce("start_time", "end_time"), ended="end_time").drop_nulls()
    joined = statements.sort("start_time").join_asof(
        begun.sort("begun"), left_on="start_time", right_on="begun", by=[*NODE], check_sortedness=False
    )
    return joined.with_columns(_checkpoint=(pl.col("start_time") <= pl.col("ended")).fill_null(value=False))


# Split the variance between repeated runs by source: blocks, order in time, checkpoints, autovacuum, the rest.
#
# Runs are compared with the other runs of their configuration only: the logarithm of throughput and each factor are
# centred at the configuration's mean. The share of a factor is its part of the explained sum of squares, averaged over
# all orders in which factors can enter the model (Lindeman, Merenda and Gold), so that the shares and the residual add
# up to 1 even if the factors are correlated.
#
# Where runs were made in blocks (one run of each configuration before the next of any), the block is a factor with a
# level for each: a machine that is slow for a while makes one block slow, which a trend over blocks would miss. It
# takes the place of the order in time, whose trend within it is tested beside it.
#
# References:
#     Lindeman, R. H., Merenda, P. F. and Gold, R. Z. (1980). Introduction to Bivariate and Multivariate Analysis.
#     Groemping, U. (2007). Estimators of relative importance in linear regression based on variance decomposition.
#         The American Statistician 61.

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
        sources: one row per source: `source`, `share` of the variance (the shares add up to 1), `by_chance` (the
            expected share of a factor that has no effect), `sd_percent` (the source's part of the spread),
            `effect_percent` (change of throughput for one standard deviation of the factor), `p_value` (adjusted),
            `share_beyond_chance` (the share less what the residual's spread alone would give the factor; what is
            explained in sum is the adjusted coefficient of determination),
            `runs_to_decide` (runs of all configurations together that would show an effect of this size; null if the
            effect is shown already, or if more than 10,000 runs were needed); `share_low` and `share_high`
            (around `share_beyond_chance`, with the spread of a bootstrap over runs) if intervals were asked for.
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
        table = convert_to_polars(self.sources)
        shares = dict(table.select("source", "share").iter_rows())
        shown = table.filter((pl.col("p_value") < _ALPHA).fill_null(value=False))["source"].to_list()
        parts = [f"{name} {shares[name] * 100:.0f} %" for name in shares]
        tested = join_words(shown) if shown else "none of the factors"
        effect = "have" if len(shown) > 1 or (tested.endswith("s") and shown) else "has"
        needed = f"±{self.wanted * 100:g} % needs {_format_run_count(self.runs_needed)}"
        if shown:
            needed += f", and {_format_run_count(self.runs_needed_without)} if the factors were held constant"
        verdict = f"{tested} {effect} an effect that chance does not explain"
        from_blocks = "" if self.blocks is None else f" {self.blocks.sentence()}"
        return f"{head}: {', '.join(parts)}; {verdict}.{from_blocks} {needed}."

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
    wanted: float = WANTED,
    level: float = LEVEL,
    resamples: int = 0,
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
    left = within - sum(column.shape[1] for column in known.values())
    if left < _LEAST_FREEDOM or not float(y @ y) > 0:
        raise InsufficientDataError(
            f"{pluralize(y.size, 'repeated run')} of {pluralize(groups, 'configuration')} that differ are too "
            "few to split "
            f"their variance by {pluralize(len(known), 'factor')}",
            hint="repeat configurations more often",
        )
    sd = math.sqrt(float(y @ y) / within)
    table, explained = _tabulate_variance_shares(y, known, within, sd)
    if resamples:
        table = _add_share_intervals(table, y, known, places[repeated], resamples, level)
    rest = sd * math.sqrt((1 - explained) * within / left)
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


def _tabulate_variance_shares(
    y: Floats, known: Mapping[str, Floats], within: int, sd: float
) -> tuple[pl.DataFrame, float]:
    names = list(known)
    sizes = [column.shape[1] for column in known.values()]
    fits = {
        chosen: _fit_linear_effects(y, _stack_factor_columns(known, chosen, y.size))[0]
        for chosen in _list_subsets(names)
    }
    explained, coefficients = _fit_linear_effects(y, _stack_factor_columns(known, names, y.size))
    left, ends = within - sum(sizes), np.cumsum(sizes)
    # A factor of several columns has no single effect.
    effects = [coefficients[end - 1] if size == 1 else None for size, end in zip(sizes, ends, strict=True)]
    shares = [float(_compute_lmg_share(name, names, fits)) for name in names]
    alone = [explained - fits[tuple(one for one in names if one != name)] for name in names]
    # The F test of each factor, given all others.
    p_values = [
        compute_f_tail(max(part, 0.0) / size / ((1 - explained) / left), size, left)
        for part, size in zip(alone, sizes, strict=True)
    ]
    adjusted = adjust_by_holm(p_values).tolist() if names else []
    rows = [
        (
            name,
            share,
            size / within,
            share - (1 - explained) * size / left,
            100 * sd * math.sqrt(max(share, 0.0)),
            None if effect is None else 100 * math.expm1(effect),
            p,
            None if p < _ALPHA else _estimate_runs_to_decide(part / (1 - explained), y.size - within, sum(sizes), size),
        )
        for name, share, effect, p, part, size in zip(names, shares, effects, adjusted, alone, sizes, strict=True)
    ]
    rows.sort(key=lambda row: -row[1])
    beyond = (1 - explained) * within / left
    last = (RESIDUAL, 1 - explained, left / within, beyond, 100 * sd * math.sqrt(1 - explained), None, None, None)
    columns = ("share", "by_chance", "share_beyond_chance", "sd_percent", "effect_percent", "p_value")
    numbers = dict.fromkeys(columns, pl.Float64())
    schema = {"source": pl.String(), **numbers, "runs_to_decide": pl.Int64()}
    return pl.DataFrame([*rows, last], schema=schema, orient="row"), explained


def _list_subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]


def _stack_factor_columns(known: Mapping[str, Floats], names: Sequence[str], n: int) -> Floats:
    return np.column_stack([known[name] for name in names]) if names else np.empty((n, 0))


def _fit_linear_effects(y: Floats, x: Floats) -> tuple[float, list[float]]:
    """Share of the sum of squares that a linear model of the columns explains, and the model's coefficients."""
    if not x.shape[1]:
        return 0.0, []
    effects = np.linalg.lstsq(x, y, rcond=None)[0]
    rest = y - x @ effects
    return min(1.0 - float(rest @ rest) / float(y @ y), 1 - 1e-12), effects.tolist()


_Explained = TypeVar("_Explained", float, Floats)


def _compute_lmg_share(name: str, names: Sequence[str], fits: Mapping[tuple[str, ...], _Explained]) -> _Explained:
    """The part that a factor adds to the factors before it, averaged over all orders: a number, or one per sample."""
    others = [one for one in names if one != name]
    total = 0.0 * fits[()]
    for before in _list_subsets(others):
        with_it = tuple(one for one in names if one in before or one == name)
        weight = math.factorial(len(before)) * math.factorial(len(others) - len(before)) / math.factorial(len(names))
        total += weight * (fits[with_it] - fits[before])
    return total


def _add_share_intervals(
    table: pl.DataFrame,
    y: Floats,
    known: Mapping[str, Floats],
    places: np.ndarray[tuple[int], np.dtype[np.intp]],
    resamples: int,
    level: float,
) -> pl.DataFrame:
    """The shares with `share_low` and `share_high`: percentiles over runs drawn again within their configurations.

    All subsets of factors are fitted by their sums of squares and products, of all samples at once.
    """
    rng = np.random.default_rng(SEED)
    members = [np.flatnonzero(places == place) for place in np.unique(places)]
    columns = np.column_stack([y, *known.values()])
    products = np.empty((resamples, columns.shape[1], columns.shape[1]))
    for at in range(resamples):
        drawn = [rng.choice(rows, rows.size) for rows in members]
        parts = [columns[rows] - columns[rows].mean(axis=0) for rows in drawn]
        sample = np.concatenate(parts)
        products[at] = sample.T @ sample
    products = products[products[:, 0, 0] > 0]
    ends = np.cumsum([column.shape[1] for column in known.values()])
    places_of = {
        name: list(range(end - column.shape[1] + 1, end + 1))
        for (name, column), end in zip(known.items(), ends, strict=True)
    }
    whole = products[:, 0, 0]
    fits: dict[tuple[str, ...], Floats] = {}
    for chosen in _list_subsets(list(known)):
        rows_of = [place for name in chosen for place in places_of[name]]
        own = products[:, rows_of][:, :, rows_of]
        # A factor may be constant in a sample: the generalised inverse leaves it out.
        effects = (
            np.linalg.pinv(own, hermitian=True) @ products[:, rows_of, 0][:, :, None]
            if rows_of
            else np.zeros((whole.size, 0, 1))
        )
        explained = (products[:, 0, rows_of][:, None, :] @ effects)[:, 0, 0] if rows_of else np.zeros(whole.size)
        fits[chosen] = np.asarray(explained / whole, dtype=np.float64)
    shares = {name: _compute_lmg_share(name, list(known), fits) for name in known}
    shares[RESIDUAL] = 1 - fits[tuple(known)]
    # A sample with each run several times explains more of itself than runs do: only the spread is taken from it.
    ends_of = [(1 - level) / 2, (1 + level) / 2]
    distances = {name: np.quantile(values, ends_of) - np.median(values) for name, values in shares.items()}
    of_source = dict(table.select("source", "share_beyond_chance").iter_rows())
    return table.with_columns(
        pl.Series(
            f"share_{side}",
            [min(max(of_source[name] + float(distances[name][at]), 0.0), 1.0) for name in table["source"]],
            dtype=pl.Float64,
        )
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


# Factors that may have differed between the runs of a configuration: one number per run and factor.

#: Column -> the factor in words.
FACTORS: Final = {
    "order": ORDER,
    "checkpoint": "checkpoints",
    "autovacuum": "autovacuum",
    "balance": "balance of nodes",
    **WITNESSES,
}
#: Fewest iterations, and configurations with all of them, that are blocks.
_LEAST_BLOCKS: Final = 3
_LEAST_CONFIGURATIONS: Final = 2
_UNDER_WAY: Final = "time with a checkpoint under way"
_LOGS_AUTOVACUUM: Final = "settings.log_autovacuum_min_duration"


def run_factors(
    runs: pl.DataFrame,
    measured: pl.DataFrame,
    sessions: pl.DataFrame,
    autovacuum: pl.DataFrame,
    settings: pl.DataFrame,
    configuration: Sequence[str],
    question: Question = USUAL_QUESTION,
    witnesses: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The runs that are ok or allowed, with a number for each factor; null if it is not known.

    Args:
        runs: the runs, with the columns of `configuration`.
        measured: columns of :data:`citus_analysis.bottleneck.measurements.COLUMNS`.
        sessions: result of :func:`citus_analysis.bottleneck.select_client_sessions`.
        autovacuum: records of kind `autovacuum`, rows of `log_events`.
        settings: the table `settings`.
        configuration: columns that identify a configuration.
        question: the statuses of runs that are included.
        witnesses: result of :func:`citus_analysis.bottleneck.witnesses.measure_witnesses`; None: none of them is known.

    Returns:
        `configuration`, `run_id`, `throughput_ops_s`, `order` (rank of the begin within the configuration),
        `checkpoint` (per cent of the run with a checkpoint under way, mean of the nodes), `autovacuum` (its seconds
        during the run, sum of the nodes), `balance` (Jain's index of the clients' sessions over nodes), the columns of
        the witnesses, `block` (the iteration, where iterations are blocks; null elsewhere).
    """
    done = runs.filter(
        pl.col("status").is_in(list_included_statuses(question.include_status)) & (pl.col("throughput_ops_s") > 0)
    )
    ordered = done.with_columns(order=pl.col("start_time").rank("ordinal").over(configuration).cast(pl.Float64))
    under_way = measured.filter(pl.col("metric") == _UNDER_WAY).group_by(RUN, maintain_order=True)
    shares = under_way.agg(checkpoint=pl.col("value").mean())
    for facts in (
        shares,
        _measure_autovacuum_seconds(done, autovacuum, settings),
        _compute_session_jain_index(sessions),
        *([] if witnesses is None else [witnesses]),
    ):
        # The runs have the speed of their machines, which is not its logarithm.
        ordered = ordered.drop(set(facts.columns) - set(RUN), strict=False).join(facts, on=RUN, how="left")
    names = [name for name in FACTORS if witnesses is not None or name not in WITNESSES]
    placed = _add_blocks(ordered, configuration)
    return placed.select(*configuration, "run_id", "throughput_ops_s", *names, "block").sort(*configuration, "order")


def _add_blocks(runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    """Runs with `block`: their iteration, if most configurations were run once in each, one iteration after the other.

    Blocks are known from the configurations that share the most frequent set of at least three iterations, if all runs
    of an iteration began before those of the next; another run is in a block if it has the same iteration and began
    while this went on.
    """
    unknown = runs.with_columns(block=pl.lit(None, pl.Float64))
    if runs.is_empty() or "iteration" not in runs.columns:
        return unknown
    timed = runs.drop_nulls(["iteration", "start_time"])
    sets = timed.group_by(configuration, maintain_order=True).agg(
        iterations=pl.col("iteration").sort(), once=pl.col("iteration").is_unique().all()
    )
    usual = sets.filter(pl.col("once") & (pl.col("iterations").list.len() >= _LEAST_BLOCKS))
    most = usual.group_by("iterations").len().sort("len", pl.col("iterations").list.len()).tail(1)
    if most.is_empty() or most["len"].item() < _LEAST_CONFIGURATIONS:
        return unknown
    alike = usual.join(most, on="iterations", how="semi").select(configuration)
    own = timed.join(alike, on=list(configuration), how="semi", nulls_equal=True)
    spans = own.group_by("iteration").agg(first=pl.col("start_time").min(), last=pl.col("start_time").max())
    spans = spans.sort("first")
    if not (spans["first"].slice(1) > spans["last"].slice(0, spans.height - 1)).all():
        return unknown
    joined = runs.join(spans, on="iteration", how="left", maintain_order="left")
    inside = pl.col("start_time").is_between("first", "last")
    return joined.with_columns(block=pl.when(inside).then(pl.col("iteration").cast(pl.Float64))).drop("first", "last")


def _measure_autovacuum_seconds(runs: pl.DataFrame, events: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Seconds of autovacuum within each run; null instead of 0 if the servers would not have logged it."""
    window = runs.select(*RUN, begin="start_time", until="end_time").drop_nulls()
    placed = window.join(find_autovacuum_intervals(events).select("resource", "start_time", "end_time"), on="resource")
    overlap = pl.min_horizontal("end_time", "until") - pl.max_horizontal("start_time", "begin")
    inside = placed.with_columns(overlap=overlap.dt.total_milliseconds() / 1000).filter(pl.col("overlap") >= 0)
    sums = inside.group_by(RUN, maintain_order=True).agg(autovacuum=pl.col("overlap").sum())
    asked = settings.filter((pl.col("name") == _LOGS_AUTOVACUUM) & ~pl.col("value").str.starts_with("-"))
    logged = pl.concat([asked.select("resource"), events.select(pl.col("resource").cast(pl.String))]).unique()
    known = window.join(logged, on="resource", how="semi").select(RUN)
    return known.join(sums, on=RUN, how="left").with_columns(pl.col("autovacuum").fill_null(0.0))


def _compute_session_jain_index(sessions: pl.DataFrame) -> pl.DataFrame:
    """Jain's index of the clients' sessions over all nodes on which sessions of the resource were seen."""
    nodes = sessions.group_by("resource", maintain_order=True).agg(nodes=pl.col("node").n_unique())
    opened = count_opened_sessions(sessions).group_by(RUN, maintain_order=True)
    count = pl.col("opened").cast(pl.Float64)
    sums = opened.agg(total=count.sum(), squares=(count**2).sum())
    index = pl.col("total") ** 2 / (pl.col("nodes") * pl.col("squares"))
    return sums.join(nodes.filter(pl.col("nodes") > 1), on="resource").select(*RUN, balance=index)


@return_callers_frame_kind
def run_variance(
    factors: Frame, configuration: Sequence[str], *, level: float = LEVEL, resamples: int = 0
) -> RunVariance:
    """Run-to-run variance by blocks or order in time, checkpoints, autovacuum, balance of nodes and the rest.

    Args:
        factors: result of :func:`run_factors`.
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
        return split_run_variance(rates, names, values, blocks=blocks, level=level, resamples=resamples)
    except InsufficientDataError:
        if blocks is None or not np.isfinite(blocks).any():
            raise
        # Each block but one takes a degree of freedom; the order in time takes one.
        found = split_run_variance(rates, names, values, level=level, resamples=resamples)
        return replace(
            found, warnings=(*found.warnings, "too few runs to tell blocks: the order in time stands for them")
        )
