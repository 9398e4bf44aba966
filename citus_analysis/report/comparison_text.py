"""Set-ups compared with a base, where both ran the same operation at the same size and load.

A *variant* is a set-up apart from its size: system, family of the resource, number of load generators, the client's
protocol, the rate it was limited to, and server settings (:mod:`citus_analysis.runs`). Runs are compared if the rest of
their configuration agrees; nothing is pooled but what a reader names. Differences in the node that clients connect to,
or in the load generator, are stated beside the ratio. The equivalent command is `compare DIR --by variant`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.defaults import LEVEL, MARGIN, METRIC, UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.plots import plot_ratios
from citus_analysis.report.sentence_parts import interval_cells
from citus_analysis.runs import comparability
from citus_analysis.runs.naming import series_names
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.run_status import AS_SELECTED
from citus_analysis.runs.setups import setting_text
from citus_analysis.stats import Comparison, compare_runs, summarise_runs
from citus_analysis.stats.compare.run_tables import RunComparison, usual_level
from citus_analysis.texts.natural_order import natural_key
from citus_analysis.texts.number_text import p_text

_CELL: Final = ("operation", "workers", "threads")
#: Columns of a stratum that are told by the cell, or by the names of set-ups.
_PLACED: Final = (*_CELL, "phase", "workload", "system", "family", "settings", "drivers", "monitored", "cpu_per_node")
#: Columns that may differ within a cell; differences are stated.
_SAID: Final = {
    "records": "records",
    "scale_factor": "scaling factor",
    "operations": "operations",
    "entry": "clients connect to the",
    "tool": "load generator",
}
_RATIOS: Final = {
    "operation": pl.String(),
    "workers": pl.Int32(),
    "threads": pl.Int32(),
    "load": pl.String(),
    "variant": pl.String(),
    **dict.fromkeys(("ratio", "low", "high"), pl.Float64()),
    "n": pl.Int64(),
    "n_base": pl.Int64(),
    "verdict": pl.String(),
    **dict.fromkeys(("p_difference", "p_difference_adjusted"), pl.Float64()),
    "runs_missing": pl.Int64(),
    "order": pl.String(),
    "also_differs": pl.String(),
}


@dataclass(frozen=True)
class ComparisonPanels:
    """A comparison of variants as tables for figures.

    Attributes:
        base: name of the base variant.
        found: the comparisons, cell by cell.
        means: per compared cell and variant, of the runs that were compared: n, mean, sd, low, high; of all runs if
            nothing is compared.
        ratios: per cell and variant other than the base: ratio with the interval that decided, verdict, runs still
            needed, other differences, and how the runs lie in time to those of the base (`order`). `load` names other
            parts of the load in which the cells differ.
        alone: variants with no cell in common with the base.
        margin: relative difference that counts as none.
    """

    base: str
    found: RunComparison
    means: pl.DataFrame
    ratios: pl.DataFrame
    alone: tuple[str, ...] = field(default=())
    margin: float = MARGIN

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons of `ratios`, each with its cell and other differences in `stratum`."""
        return tuple(_placed(self.found.comparisons))

    def plot(self, *, most: int = 25) -> list[go.Figure]:
        """Ratios to the base with their intervals, one figure for each operation.

        Args:
            most: number of variants per figure; the ratios furthest from 1 are kept.
        """
        figures = []
        for operation in self.operations():
            rows = ratio_rows(self, operation)
            clearest = rows.sort(pl.col("ratio").log().abs(), descending=True).head(most)
            cut = f" (the {most} largest differences of {rows.height})" if rows.height > most else ""
            kept = rows.filter(pl.col("name").is_in(clearest["name"].implode()))
            title = f"{operation}: throughput relative to {base_words(self.base)}{cut}"
            figures.append(plot_ratios(kept, base=base_words(self.base), margin=self.margin, title=title))
        return figures

    def table(self) -> pl.DataFrame:
        """The ratios for readers: one row per operation, size and variant, with intervals in the cells."""
        shown = self.ratios.with_columns(
            ratio=interval_cells(self.ratios, "ratio"),
            p_adjusted=pl.Series(map(p_text, self.ratios["p_difference_adjusted"]), dtype=pl.String),
            runs=pl.format("{} and {}", "n", "n_base"),
        )
        load = ["load"] if shown["load"].n_unique() > 1 else []
        found = ("ratio", "verdict", "p_adjusted", "runs", "order", "also_differs")
        return shown.select(*_CELL, *load, "variant", *found)

    def means_table(self) -> pl.DataFrame:
        """The means for readers: n, mean with its interval, and standard deviation of each set-up that is compared."""
        load = ["load"] if self.means["load"].n_unique() > 1 else []
        return self.means.select(*_CELL, *load, "variant", "n", "mean", "low", "high", "sd")

    def operations(self) -> list[str]:
        """Names of the operations in which something is compared."""
        return self.ratios["operation"].unique(maintain_order=True).to_list()


def comparison_panels(
    selection: Selection,
    *,
    base: str = "",
    pool: str | Sequence[str] = (),
    level: float = LEVEL,
    margin: float = MARGIN,
) -> ComparisonPanels:
    """Compare every variant with the base, cell by cell; verdicts are adjusted per operation (Holm).

    Args:
        selection: runs with their set-up.
        base: name of a variant, or its first part; empty: the one with the most runs.
        pool: columns of the load that need not be equal, as a list or separated by commas; `experiment` to pool runs of
            several experiments.
        level: confidence level.
        margin: relative difference that counts as none.

    Raises:
        UnknownNameError: no variant has the name of the base, or there is no such column.
    """
    runs, start = selection.runs, base_variant(selection, base)
    pooled = tuple(name.strip() for name in pool.split(",") if name.strip()) if isinstance(pool, str) else tuple(pool)
    found = _compared(runs, start, pooled, level, margin)
    placed = tuple(_placed(found.comparisons))
    ratios = _ratios(placed)
    means = _means_compared(placed, level) if placed else _means_of_all(runs, found.strata, level)
    met = set(ratios["variant"]) | {start}
    return ComparisonPanels(start, found, means, ratios, in_order(set(runs["variant"]) - met), margin)


def _means_compared(comparisons: Sequence[Comparison], level: float) -> pl.DataFrame:
    """The mean of each set of runs that was compared, once."""
    sides: dict[tuple[object, ...], pl.DataFrame] = {}
    for one in comparisons:
        place = {**{name: one.stratum[name] for name in _CELL}, "load": one.stratum["load"]}
        for name, runs in zip((one.label_a, one.label_b), one.sides or (), strict=True):
            key = (*place.values(), name, tuple(runs["run_id"].sort()) if "run_id" in runs.columns else runs.height)
            sides.setdefault(key, runs.with_columns(load=pl.lit(place["load"])))
    rows = pl.concat([runs.with_columns(_side=pl.lit(i)) for i, runs in enumerate(sides.values())])
    means = summarise_runs(rows, METRIC, by=[*_CELL, "load", "variant", "_side"], level=level, allow=AS_SELECTED)
    return means.drop("_side")


def _means_of_all(runs: pl.DataFrame, strata: Sequence[str], level: float) -> pl.DataFrame:
    """The means of all configurations, where nothing is compared."""
    groups = list(dict.fromkeys([*_CELL, *strata, "variant"]))
    means = summarise_runs(runs.sort(*_CELL, "variant"), METRIC, by=groups, level=level, allow=AS_SELECTED)
    others = [name for name in strata if name not in (*_CELL, "phase", "workload")]
    load = series_names(means.select(others)) if others else pl.Series([""] * means.height, dtype=pl.String)
    return means.with_columns(load=load)


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Names in natural order: w2 before w10."""
    return tuple(sorted(names, key=natural_key))


def _compared(runs: pl.DataFrame, base: str, pool: tuple[str, ...], level: float, margin: float) -> RunComparison:
    """The result of `compare DIR --by variant --base BASE`; empty if no cell has two variants."""
    try:
        return compare_runs(runs, METRIC, "variant", base, pool=pool, level=level, margin=margin, allow=AS_SELECTED)
    except InsufficientDataError:
        return RunComparison((), "variant", METRIC, comparability(runs, "variant", pool).strata, pool, (), runs)


def base_variant(selection: Selection, base: str) -> str:
    """The variant named by `base`: its whole name, or its first part (which figures show) if that is unique.

    Args:
        selection: runs with their set-up.
        base: the name; empty: the variant with the most runs.

    Raises:
        UnknownNameError: no variant has that name.
    """
    names = selection.runs["variant"].unique().sort().to_list()
    if base in ("", *names):
        return base or str(usual_level(selection.runs, "variant"))
    short = [str(name) for name in names if name.split(", ")[0] == base]
    if len(short) != 1:
        raise UnknownNameError("variant", base, names)
    return short[0]


def _placed(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """Comparisons with their cell, other parts of the load and other differences in `stratum`."""
    strata = [one.stratum for one in comparisons]
    names = [name for name in dict.fromkeys(name for one in strata for name in one) if name not in _PLACED]
    varying = [name for name in names if len({one.get(name) for one in strata}) > 1]
    for one in comparisons:
        mine, reference = one.sides or (pl.DataFrame(), pl.DataFrame())
        place = {name: mine[name][0] if name in mine.columns else None for name in _CELL}
        load = ", ".join(filter(None, (_load_words(name, one.stratum.get(name)) for name in varying)))
        words = {"load": load, "differs": _differs(mine, reference), "n_base": reference.height}
        yield replace(one, stratum={**place, **words})


def _load_words(name: str, value: object) -> str:
    """A part of the load in words; empty if it is not known."""
    if value is None or value == "":
        return ""
    if name in _SAID and isinstance(value, int):
        return f"{_value_text(value)} {_SAID[name]}"
    return f"{name.replace('_', ' ')} {setting_text(name, value)}"


def _differs(mine: pl.DataFrame, reference: pl.DataFrame) -> str:
    found = []
    for column, words in _SAID.items():
        a, b = (frame[column].drop_nulls().unique().sort().to_list() for frame in (mine, reference))
        if a != b and a and b:
            left, right = (" or ".join(map(_value_text, values)) for values in (a, b))
            found.append((f"{left} against {right}", words))
    # A load inserts each record once: its records and operations have the same number.
    merged = {values: " and ".join(words for other, words in found if other == values) for values, _ in found}
    return "; ".join(f"{words} {values}" for values, words in merged.items())


def _value_text(value: int | str) -> str:
    if isinstance(value, str):
        return value
    return "as many as time allows" if value >= UNTIL_TIME_IS_UP else f"{value:,}"


def _ratios(comparisons: Sequence[Comparison]) -> pl.DataFrame:
    rows = [
        {
            **{name: c.stratum[name] for name in (*_CELL, "load")},
            "variant": c.label_a,
            "ratio": c.ratio.estimate,
            **dict(zip(("low", "high"), c.deciding.ends, strict=True)),
            "n": c.mean_a.n,
            "n_base": c.mean_b.n,
            "verdict": c.verdict,
            **c.known_p_values(),
            "runs_missing": c.runs_missing,
            "order": c.order,
            "also_differs": c.stratum["differs"],
        }
        for c in comparisons
    ]
    names = in_order({c.label_a for c in comparisons})
    frame = pl.DataFrame(rows, schema=_RATIOS)
    return frame.sort("operation", pl.col("variant").cast(pl.Enum(names)), "workers", "threads")


def base_words(base: str) -> str:
    """The base in a sentence.

    Example:
        >>> base_words("usual set-up"), base_words("citus, binary")
        ('the usual set-up', 'citus, binary')
    """
    return f"the {base}" if base == setting_text("family", "") else base


def apart_words(name: str, base: str) -> tuple[str, str]:
    """The names of two variants without the parts that both begin with, such as the system.

    Example:
        >>> apart_words("citus, binary", "citus, usual set-up")
        ('binary', 'the usual set-up')
        >>> apart_words("postgresql, single", "citus, usual set-up")
        ('postgresql, single', 'citus, usual set-up')
    """
    mine, other = name.split(", "), base.split(", ")
    while min(len(mine), len(other)) > 1 and mine[0] == other[0]:
        mine, other = mine[1:], other[1:]
    return ", ".join(mine), base_words(", ".join(other))


def ratio_rows(study: ComparisonPanels, operation: str) -> pl.DataFrame:
    """The ratios of one operation with a `name` per row, for a figure."""
    rows = study.ratios.filter(pl.col("operation") == operation)
    short = rows["variant"].str.split(", ").list.first()
    unique = short.n_unique() == rows["variant"].n_unique()
    size = pl.when(pl.col("workers") == 0).then(pl.lit("one server")).otherwise(pl.format("{} w", "workers"))
    known = pl.concat_str(size, pl.format("{} t", "threads"), separator=", ", ignore_nulls=True)
    several = rows.select("workers", "threads").unique().height > 1
    sizes = pl.format(" ({})", pl.when(known != "").then(known).otherwise(pl.lit("unknown"))) if several else pl.lit("")
    return rows.with_columns(name=short if unique else rows["variant"]).with_columns(pl.col("name") + sizes)
