"""Set-ups compared with a base, where both ran the same operation at the same size and load.

A *variant* is a set-up apart from its size: system, family of the resource, number of load generators, the client's
protocol, the rate it was limited to, and server settings (:mod:`citus_analysis.runs`). Runs are compared if the rest of
their configuration agrees. Table sizes and numbers of operations are pooled; differences in them, or in the node that
clients connect to, are stated beside the ratio. The equivalent command is
`compare DIR --by variant --pool records,scale_factor,operations`.
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
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.run_status import AS_SELECTED
from citus_analysis.runs.setups import setting_text
from citus_analysis.stats import Comparison, compare_runs, summarise_runs
from citus_analysis.stats.compare.run_tables import RunComparison
from citus_analysis.stats.run_means import in_stratum
from citus_analysis.texts.natural_order import natural_key
from citus_analysis.texts.number_text import p_text

#: Columns that are not held equal, because variants were often measured with tables of another size.
POOLED: Final = ("records", "scale_factor", "operations")
_CELL: Final = ("operation", "workers", "threads")
#: Columns that may differ within a cell; differences are stated.
_SAID: Final = {
    "records": "records",
    "scale_factor": "scaling factor",
    "operations": "operations",
    "entry": "clients connect to the",
    "tool": "load generator",
}
#: Order in time of the runs of both sides.
APART: Final = "one after the other"
_IN_TURNS: Final = "in turns or unknown"
_RATIOS: Final = {
    "operation": pl.String(),
    "workers": pl.Int32(),
    "threads": pl.Int32(),
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
        means: per compared cell and variant: n, mean, sd, low, high; of all cells if none is compared.
        ratios: per cell and variant other than the base: ratio with interval, verdict, runs still needed, other
            differences, and whether the runs alternated with those of the base (`order`).
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
        return tuple(_placed(self.found.comparisons, self.found.runs))

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
        return shown.select(*_CELL, "variant", "ratio", "verdict", "p_adjusted", "runs", "order", "also_differs")

    def means_table(self) -> pl.DataFrame:
        """The means for readers: n, mean with its interval, and standard deviation of each set-up that is compared."""
        return self.means.select(*_CELL, "variant", "n", "mean", "low", "high", "sd")

    def operations(self) -> list[str]:
        """Names of the operations in which something is compared."""
        return self.ratios["operation"].unique(maintain_order=True).to_list()


def comparison_panels(
    selection: Selection, *, base: str = "", level: float = LEVEL, margin: float = MARGIN
) -> ComparisonPanels:
    """Compare every variant with the base, cell by cell; verdicts are adjusted per operation (Holm).

    Args:
        selection: runs with their set-up.
        base: name of a variant, or its first part; empty: the one with the most runs.
        level: confidence level.
        margin: relative difference that counts as none.

    Raises:
        UnknownNameError: no variant has the name of the base.
    """
    runs, start = selection.runs, base_variant(selection, base)
    found = _compared(runs, start, level, margin)
    ratios = _ratios(tuple(_placed(found.comparisons, found.runs)))
    met = set(ratios["variant"]) | {start}
    cells = ratios.select(_CELL).unique()
    compared = runs.filter(pl.col("variant").is_in(list(met))).join(cells, on=_CELL, how="semi", nulls_equal=True)
    shown = (runs if ratios.is_empty() else compared).sort(*_CELL, "variant")
    groups = list(dict.fromkeys([*_CELL, *found.strata, "variant"]))
    means = summarise_runs(shown, METRIC, by=groups, level=level, allow=AS_SELECTED)
    return ComparisonPanels(start, found, means, ratios, in_order(set(runs["variant"]) - met), margin)


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Names in natural order: w2 before w10."""
    return tuple(sorted(names, key=natural_key))


def _compared(runs: pl.DataFrame, base: str, level: float, margin: float) -> RunComparison:
    """The result of `compare DIR --by variant --base BASE --pool ...`; empty if no cell has two variants."""
    try:
        return compare_runs(runs, METRIC, "variant", base, pool=POOLED, level=level, margin=margin, allow=AS_SELECTED)
    except InsufficientDataError:
        return RunComparison((), "variant", METRIC, comparability(runs, "variant", POOLED).strata, POOLED, (), runs)


def base_variant(selection: Selection, base: str) -> str:
    """The variant named by `base`: its whole name, or its first part (which figures show) if that is unique.

    Args:
        selection: runs with their set-up.
        base: the name; empty: the variant with the most runs.

    Raises:
        UnknownNameError: no variant has that name.
    """
    counts = selection.runs.group_by("variant", maintain_order=True).len()
    names = counts.sort("len", descending=True, maintain_order=True)["variant"].to_list()
    if base in ("", *names):
        return base or str(names[0])
    short = [str(name) for name in names if name.split(", ")[0] == base]
    if len(short) != 1:
        raise UnknownNameError("variant", base, names)
    return short[0]


def _placed(comparisons: Sequence[Comparison], runs: pl.DataFrame) -> Iterator[Comparison]:
    """Comparisons with their cell and other differences in `stratum`."""
    for one in comparisons:
        cell = in_stratum(runs, one.stratum)
        mine, reference = (cell.filter(pl.col("variant") == name) for name in (one.label_a, one.label_b))
        place = dict(zip(_CELL, mine.select(_CELL).row(0), strict=True))
        yield replace(one, stratum={**place, "differs": _differs(mine, reference), "n_base": reference.height})


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
            **{name: c.stratum[name] for name in _CELL},
            "variant": c.label_a,
            "ratio": c.ratio.estimate,
            **dict(zip(("low", "high"), c.ratio.ends, strict=True)),
            "n": c.mean_a.n,
            "n_base": c.mean_b.n,
            "verdict": c.verdict,
            **c.known_p_values(),
            "runs_missing": c.runs_missing,
            "order": APART if c.made_apart else _IN_TURNS,
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
