"""Split the variance between repeated runs by source: order in time, checkpoints, autovacuum, balance, the rest.

Runs are compared with the other runs of their configuration only: the logarithm of throughput and each factor are
centred at the configuration's mean. The share of a factor is its part of the explained sum of squares, averaged over
all orders in which factors can enter the model (Lindeman, Merenda and Gold), so that the shares and the residual add up
to 1 even if the factors are correlated.

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
#: Relative half-width of a mean's interval that `runs_needed` is computed for.
WANTED: Final = 0.05
#: Fewest degrees of freedom of the residual.
_LEAST_FREEDOM: Final = 3
#: Largest number of runs that is stated.
_MOST: Final = 10_000
_ALPHA: Final = 0.05


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
        effect = "has" if len(shown) <= 1 else "have"
        needed = f"±{self.wanted * 100:g} % needs {_runs(self.runs_needed)}"
        if shown:
            needed += f", and {_runs(self.runs_needed_without)} if the factors were held constant"
        return f"{head}: {', '.join(parts)}; {tested} {effect} an effect that chance does not explain. {needed}."

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
    known, notes = _usable(factors, places, repeated)
    groups = int((counts > 1).sum())
    within = y.size - groups
    left = within - len(known)
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
    return RunVariance(table, 100 * sd, needed, without, wanted, y.size, groups, warnings=notes)


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
    fits = {chosen: _effects(y, [known[name] for name in chosen])[0] for chosen in _subsets(names)}
    (explained, effects), left = _effects(y, list(known.values())), within - len(names)
    shares = [_lmg(name, names, fits) for name in names]
    alone = [explained - fits[tuple(one for one in names if one != name)] for name in names]
    # The F test of each factor, given all others.
    p_values = [f_tail(max(part, 0.0) / ((1 - explained) / left), 1, left) for part in alone]
    adjusted = holm(p_values).tolist() if names else []
    rows = [
        (
            name,
            share,
            1 / within,
            100 * sd * math.sqrt(max(share, 0.0)),
            100 * math.expm1(effect),
            p,
            None if p < _ALPHA else _to_decide(part / (1 - explained), y.size - within, len(names)),
        )
        for name, share, effect, p, part in zip(names, shares, effects, adjusted, alone, strict=True)
    ]
    rows.sort(key=lambda row: -row[1])
    last = (RESIDUAL, 1 - explained, left / within, 100 * sd * math.sqrt(1 - explained), None, None, None)
    numbers = dict.fromkeys(("share", "by_chance", "sd_percent", "effect_percent", "p_value"), pl.Float64())
    schema = {"source": pl.String(), **numbers, "runs_to_decide": pl.Int64()}
    return pl.DataFrame([*rows, last], schema=schema, orient="row"), explained


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]


def _effects(y: Floats, columns: Sequence[Floats]) -> tuple[float, list[float]]:
    """Share of the sum of squares that a linear model of the columns explains, and the model's coefficients."""
    if not columns:
        return 0.0, []
    x = np.column_stack(columns)
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


def _to_decide(effect: float, groups: int, factors: int) -> int | None:
    """Number of runs of all configurations together that would show an effect of this size (Cohen's f squared)."""
    from scipy import special

    def power(n: int) -> float:
        left = n - groups - factors
        return 1 - float(special.ncfdtr(1, left, max(effect, 1e-12) * (n - groups), f_quantile(1 - _ALPHA, 1, left)))

    return smallest(lambda n: power(n) >= POWER, groups + factors + 2, _MOST)


def _needed(sd: float, freedom: int, wanted: float, level: float) -> int | None:
    """Number of runs for a mean ± `wanted`, for the largest spread that is plausible, with the planned assurance."""
    largest = sd * math.sqrt(freedom / chi2_quantile(1 - ASSURANCE, freedom))
    half = math.log1p(wanted)
    return smallest(lambda n: t_quantile((1 + level) / 2, n - 1) * largest / math.sqrt(n) <= half, 2, _MOST)
