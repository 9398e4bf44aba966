"""Set-ups side by side: each with the base where both ran the same operation at the same size and load.

A *variant* is a set-up apart from its size: system, family of the resource, number of load generators, the client's
protocol, the rate it was limited to, and server settings (:mod:`citus_analysis.runs`). Runs are compared where the
rest of their configuration agrees, but for the size of the table and the number of operations, which are pooled; what
differs in them, or in the node that clients connect to, is stated beside the ratio. The equivalent command is
`compare DIR --by variant --pool records,scale_factor,operations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from citus_analysis.core.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.report.sentence_parts import decided_text, joint_text
from citus_analysis.runs import comparability
from citus_analysis.runs.run_selection import Selection
from citus_analysis.stats import Comparison, RunComparison, compare_runs, summarise_runs
from citus_analysis.texts.counted_words import counted, listed, size_text

__all__ = [
    "POOLED",
    "ComparisonPanels",
    "base_variant",
    "comparison_panels",
    "comparison_sentences",
    "ratio_rows",
]

#: Columns that are not held equal, because variants were often measured with tables of another size.
POOLED: Final = ("records", "scale_factor", "operations")
_CELL: Final = ("operation", "workers", "threads")
#: Columns that may differ within a cell; differences are stated.
_SAID: Final = {
    "records": "records",
    "scale_factor": "scaling factor",
    "operations": "operations",
    "entry": "clients connect to the",
}
_NUMBERS: Final = {
    "ratio": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "n": pl.Int64(),
    "n_base": pl.Int64(),
}


@dataclass(frozen=True)
class ComparisonPanels:
    """A comparison of variants as tables for figures.

    Attributes:
        base: name of the base variant.
        found: the comparisons, cell by cell.
        means: per cell that is compared and variant: n, mean, sd, low, high; of all cells where none is compared.
        ratios: per cell and variant other than the base: ratio with interval, verdict, runs still needed, and what
            else differs.
        alone: variants with no cell in common with the base.
    """

    base: str
    found: RunComparison
    means: pl.DataFrame
    ratios: pl.DataFrame
    alone: tuple[str, ...] = field(default=())

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons of `ratios`; the stratum names the cell of each, and other differences there."""
        return tuple(_placed(self.found.comparisons, self.found.runs))

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
        InsufficientDataError: of no run all are known: what it did, its workers and its threads.
        UnknownNameError: no variant has the name of the base.
    """
    runs = selection.runs.drop_nulls(_CELL)
    if runs.is_empty():
        raise InsufficientDataError(
            "no run has a known workload, number of workers and number of threads",
            way_out="state them at ingest: citus-analysis ingest --meta workload=... --meta workers=...",
        )
    names = _variants(runs)
    start = _resolved_base(base, names)
    found = _compared(runs, start, level, margin)
    ratios = _ratios(tuple(_placed(found.comparisons, found.runs)))
    met = set(ratios["variant"]) | {start}
    compared = runs.filter(pl.col("variant").is_in(list(met))).join(ratios.select(_CELL).unique(), on=_CELL, how="semi")
    shown = (runs if ratios.is_empty() else compared).sort(*_CELL, "variant")
    groups = list(dict.fromkeys([*_CELL, *found.strata, "variant"]))
    means = summarise_runs(shown, METRIC, by=groups, level=level)
    return ComparisonPanels(start, found, means, ratios, tuple(name for name in sorted(names) if name not in met))


def _compared(runs: pl.DataFrame, base: str, level: float, margin: float) -> RunComparison:
    """As `compare DIR --by variant --base BASE --pool ...` compares; nothing where no cell has two variants."""
    try:
        return compare_runs(runs, METRIC, "variant", base, pool=POOLED, level=level, margin=margin)
    except InsufficientDataError:
        return RunComparison((), "variant", METRIC, comparability(runs, "variant", POOLED).strata, POOLED, (), runs)


def base_variant(selection: Selection, base: str) -> str:
    """The variant that a base names: its whole name, or the first part of it (which figures show) if it is unique.

    Raises:
        UnknownNameError: no variant has that name.
    """
    return _resolved_base(base, _variants(selection.runs.drop_nulls(_CELL)))


def _variants(runs: pl.DataFrame) -> list[str]:
    """Names of the variants, the one with the most runs first."""
    counts = runs.group_by("variant", maintain_order=True).len()
    return counts.sort("len", descending=True, maintain_order=True)["variant"].to_list()


def _resolved_base(base: str, names: Sequence[str]) -> str:
    if not base:
        return names[0]
    short = [name for name in names if name.split(", ")[0] == base]
    if base not in names and len(short) != 1:
        raise UnknownNameError("variant", base, names)
    return base if base in names else short[0]


def _placed(comparisons: Sequence[Comparison], runs: pl.DataFrame) -> Iterator[Comparison]:
    """Comparisons that say by `stratum` to which cell they belong, and what else differs there."""
    for one in comparisons:
        same = [pl.col(name).eq_missing(pl.lit(value)) for name, value in one.stratum.items()]
        cell = runs.filter(same) if same else runs
        mine, reference = (cell.filter(pl.col("variant") == name) for name in (one.label_a, one.label_b))
        place = dict(zip(_CELL, mine.select(_CELL).row(0), strict=True))
        yield replace(one, stratum={**place, "differs": _differs(mine, reference), "n_base": reference.height})


def _differs(mine: pl.DataFrame, reference: pl.DataFrame) -> str:
    found = []
    for column, words in _SAID.items():
        a, b = (frame[column].drop_nulls().unique().sort().to_list() for frame in (mine, reference))
        if a != b and a and b:
            left, right = (" or ".join(f"{v:,}" if isinstance(v, int) else v for v in s) for s in (a, b))
            found.append((f"{left} against {right}", words))
    # A load inserts its records: their number is its number of operations.
    merged = {values: " and ".join(words for other, words in found if other == values) for values, _ in found}
    return "; ".join(f"{words} {values}" for values, words in merged.items())


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
            "p_difference": c.p_difference if c.ratio.exists else None,
            "p_difference_adjusted": c.p_difference_adjusted if c.ratio.exists else None,
            "runs_missing": c.runs_missing,
            "also_differs": c.stratum["differs"],
        }
        for c in comparisons
    ]
    schema = {
        "operation": pl.String(),
        "workers": pl.Int32(),
        "threads": pl.Int32(),
        "variant": pl.String(),
        **_NUMBERS,
    }
    schema |= {"verdict": pl.String(), "p_difference": pl.Float64(), "p_difference_adjusted": pl.Float64()}
    schema |= {"runs_missing": pl.Int64(), "also_differs": pl.String()}
    return pl.DataFrame(rows, schema=schema).sort("operation", "variant", "workers", "threads")


def comparison_sentences(study: ComparisonPanels) -> list[str]:
    """The decisions of the comparisons, in three to six sentences."""
    total = study.ratios.height
    if not (total or study.alone):
        return [f"All runs have the same set-up, {study.base}; there is nothing to compare."]
    if not total:
        return [
            f"No variant shares an operation, number of workers and number of threads with {study.base}: "
            "nothing can be compared."
        ]
    verdicts = dict(study.ratios["verdict"].value_counts().iter_rows())
    counts = [
        f"{verdicts[word]} {word}" for word in ("faster", "slower", "equivalent", "inconclusive") if word in verdicts
    ]
    sentences = [
        f"{counted(study.ratios['variant'].n_unique(), 'variant')} were compared with {study.base} in "
        f"{counted(total, 'cell')}: {listed(counts)}."
    ]
    sentences += _decided(study)
    sentences += _undecided(study)
    if single := study.ratios.filter((pl.col("n") < 2) | (pl.col("n_base") < 2)).height:
        sentences.append(
            f"In {single} of {counted(total, 'cell')} one side has a single run: without a spread, no ratio there "
            "can be distinguished from chance."
        )
    if unequal := study.ratios.filter(pl.col("also_differs") != "").height:
        sentences.append(
            f"In {unequal} of {counted(total, 'cell')} other properties differ besides the variant; "
            "the table lists them."
        )
    return sentences


def _decided(study: ComparisonPanels, most: int = 3) -> list[str]:
    """The clearest decisions."""
    decided = [c for c in study.comparisons if c.verdict != "inconclusive"]
    joint = f"; {words}" if (words := joint_text(decided)) else ""
    shown = sorted(decided, key=lambda c: abs(c.ratio.estimate - 1), reverse=True)[:most]
    return [
        f"{_place(c)}: {c.label_a} is {_word(c)} ({decided_text(c)}{'' if c.verdict == 'equivalent' else joint})."
        for c in shown
    ]


def _undecided(study: ComparisonPanels) -> list[str]:
    """The range of the undecided ratios."""
    rows = study.ratios.filter(pl.col("verdict") == "inconclusive").sort("ratio")
    if rows.height < 2:
        return []
    low, high = rows.row(0, named=True), rows.row(-1, named=True)
    return [
        f"The undecided ratios lie between {low['ratio']:.2f} ({low['variant']}, {low['operation']}) and "
        f"{high['ratio']:.2f} ({high['variant']}, {high['operation']})."
    ]


def _word(c: Comparison) -> str:
    if c.verdict == "equivalent":
        return f"equivalent to {c.label_b} within {c.margin:.0%}"
    return f"{c.verdict} than {c.label_b}"


def _place(c: Comparison) -> str:
    workers, threads = (int(str(c.stratum[name])) for name in ("workers", "threads"))
    return f"{c.stratum['operation']}, {size_text(workers)}, {counted(threads, 'thread')}"


def ratio_rows(study: ComparisonPanels, operation: str) -> pl.DataFrame:
    """The ratios of one operation with a `name` per row, for a figure."""
    rows = study.ratios.filter(pl.col("operation") == operation)
    short = rows["variant"].str.split(", ").list.first()
    unique = short.n_unique() == rows["variant"].n_unique()
    sizes = pl.format(" ({}w, {}t)", "workers", "threads")
    several = rows.select("workers", "threads").unique().height > 1
    return rows.with_columns(name=short if unique else rows["variant"]).with_columns(
        pl.col("name") + (sizes if several else pl.lit(""))
    )
