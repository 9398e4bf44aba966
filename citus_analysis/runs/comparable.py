"""Comparability of runs: compared runs must agree in their whole configuration except the compared column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.errors import some_of
from citus_analysis.runs.setups import CONFIGURATION, SYSTEM, VARIANT

#: Compared column -> columns that it consists of or determines.
_DECIDES: Final = {
    "variant": frozenset({*VARIANT, "arrivals"}),
    "set_up": frozenset({"family"}),
    "resource": frozenset({"family", "settings", "variant"}),
    "limit": frozenset({"arrivals"}),
}
_LEVELS_NAMED: Final = 4


@dataclass(frozen=True)
class Comparability:
    """The columns that are equal within a comparison.

    Attributes:
        strata: columns that vary and are held equal.
        along: columns of the system that change together with the compared one and so cannot be held equal.
    """

    strata: tuple[str, ...]
    along: tuple[str, ...] = ()


def comparability(runs: pl.DataFrame, by: str, pool: Collection[str] = ()) -> Comparability:
    """Columns to hold equal when the levels of `by` are compared.

    A column of the system (such as the family, if each cluster size has its own) in which the levels have no common
    value is not held equal if each level has one value of it: the comparison is then of both columns.

    A variant excludes the size of the system, so variants are compared at equal sizes only.

    Args:
        runs: described runs.
        by: compared column.
        pool: columns that need not be equal.

    Example:
        >>> runs = pl.DataFrame({"system": ["x", "y"] * 2, "threads": [4, 4, 8, 8], "workers": [2, 3, 2, 3]})
        >>> comparability(runs, "system")
        Comparability(strata=('threads',), along=('workers',))
    """
    aside = {by, *pool}.union(*(_DECIDES.get(name, ()) for name in (by, *pool)))
    varying = [name for name in CONFIGURATION if name in runs.columns and name not in aside]
    varying = [name for name in varying if runs[name].n_unique() > 1]
    along = [name for name in varying if name in SYSTEM and by != "variant" and _changes_along(runs, name, by)]
    strata = [name for name in varying if name not in along]
    mixed = {name for name in along if _is_mixed(runs, name, [*strata, by])}
    return Comparability(
        tuple(name for name in varying if name in strata or name in mixed),
        tuple(name for name in along if name not in mixed),
    )


def _changes_along(runs: pl.DataFrame, column: str, by: str) -> bool:
    pairs = runs.select(column, by).unique()
    return pairs.height == pairs[column].n_unique()


def _is_mixed(runs: pl.DataFrame, column: str, groups: Sequence[str]) -> bool:
    most = runs.group_by(groups).agg(pl.col(column).n_unique())[column].max()
    return isinstance(most, int) and most > 1


def pooled(runs: pl.DataFrame, held: AbstractSet[str]) -> list[str]:
    """Columns that vary within a set of runs although they are not held equal, each with its values, in words."""
    columns = [name for name in ("resource", *CONFIGURATION) if name in runs.columns and name not in held]
    return [f"{name}: {_named(runs[name])}" for name in columns if runs[name].n_unique() > 1]


def differing(tested: pl.DataFrame, base: pl.DataFrame, columns: Collection[str]) -> list[str]:
    """Columns in which two sets of runs have different values, with the values of each, in words."""
    known = [name for name in CONFIGURATION if name in columns and name in tested.columns]
    sides = [(name, set(tested[name].to_list()), set(base[name].to_list())) for name in known]
    return [f"{name}: {_named(tested[name])} against {_named(base[name])}" for name, a, b in sides if a != b]


def _named(values: pl.Series) -> str:
    return some_of([str(value) for value in values.unique().sort().to_list()], _LEVELS_NAMED)


def closest_difference(runs: pl.DataFrame, by: str, strata: Sequence[str]) -> tuple[str, ...]:
    """The smallest set of columns in which two runs at different levels of `by` differ, and which must be pooled."""
    found = runs.select(by, *strata).unique(maintain_order=True)
    levels = found[by].rank("dense").fill_null(0).to_numpy()
    codes = np.column_stack([found[name].rank("dense").fill_null(0).to_numpy() for name in strata])
    best = np.full(len(strata), fill_value=True)
    for i in range(found.height):
        others = codes[levels != levels[i]] != codes[i]
        if len(others):
            nearest = others[others.sum(axis=1).argmin()]
            best = nearest if nearest.sum() < best.sum() else best
    return tuple(name for name, differs in zip(strata, best, strict=True) if differs)
