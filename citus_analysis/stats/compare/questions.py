"""The comparisons that a table of runs allows: each level of a column against a base, in every stratum.

Runs are compared block by block if their iterations are blocks (:mod:`citus_analysis.stats.series.blocks`), by a mixed
model if iterations are shared and differ (:mod:`citus_analysis.stats.compare.mixed`), otherwise as independent sets.
Evidence against these designs in the order of the runs becomes a warning of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.runs.comparable import differing, pooled
from citus_analysis.runs.setups import operation_of, setting_text
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.families import compare_many
from citus_analysis.stats.compare.verdicts import MADE_APART, Comparison, compare
from citus_analysis.stats.estimate.intervals import Design
from citus_analysis.stats.run_means import strata_of, times_of, values_of
from citus_analysis.stats.series.blocks import Layout, layout_of
from citus_analysis.stats.series.drift import are_interleaved, detect_drift
from citus_analysis.stats.series.independence import Independence, check_independence


@dataclass(frozen=True)
class Question:
    """A question about a table of runs: the compared metric and column, and their conditions.

    Attributes:
        metric: measured metric.
        by: compared column.
        base: level that the others are compared with; None: the first of each stratum.
        strata: columns that are held equal.
        pool: columns that need not be equal; differences in them are stated.
        margin: relative difference that counts as none.
        level: confidence level.
        higher_is_better: true for a throughput, false for a latency.
    """

    metric: str
    by: str
    base: object
    strata: tuple[str, ...]
    pool: tuple[str, ...] = ()
    margin: float = MARGIN
    level: float = LEVEL
    higher_is_better: bool = True

    def compare(self, part: pl.DataFrame, stratum: dict[str, object]) -> Iterator[Comparison]:
        """Compare each level of the stratum with its base; no comparison if the base is absent."""
        levels = part[self.by].unique().sort().to_list()
        base = next(iter(levels), None) if self.base is None else self.base
        if base not in levels:
            return
        reference = _of_level(part, self.by, base)
        for name in levels:
            if name == base:
                continue
            tested = _of_level(part, self.by, name)
            yield replace(
                self._compared(tested, reference, setting_text(self.by, name), setting_text(self.by, base)),
                stratum=stratum,
                family=operation_of(pl.concat([tested, reference])),
            )

    def _compared(self, tested: pl.DataFrame, reference: pl.DataFrame, name: str, base: str) -> Comparison:
        """One level against the base, by the design that the runs' iterations and times allow."""
        layout = layout_of(tested, reference, self.metric)
        comparison = compare(
            layout.a,
            layout.b,
            self.margin,
            level=self.level,
            higher_is_better=self.higher_is_better,
            label_a=name,
            label_b=base,
            metric=self.metric,
            blocked=layout.paired,
            iterations=layout.iterations,
            effective=(_checked(tested, self.metric).effective, _checked(reference, self.metric).effective),
        )
        reason = "; ".join(unique(filter(None, (layout.reason, comparison.design_reason))))
        notes = self._design_notes({name: tested, base: reference})
        notes += self._layout_notes(layout, comparison.design, {name: tested, base: reference})
        return replace(comparison, design_reason=reason, warnings=unique((*comparison.warnings, *notes)))

    def _layout_notes(self, layout: Layout, design: Design, sides: Mapping[str, pl.DataFrame]) -> list[str]:
        """Warnings that the order of the runs contradicts the design."""
        if layout.paired:
            # A drift from block to block affects both sets; only a drift of their ratio matters.
            (name, tested), (base, _) = sides.items()
            ratios = tested.sort("iteration").with_columns(pl.Series(self.metric, layout.a / layout.b))
            return [f"{name} over {base}: {words}" for words in _order_notes(ratios, self.metric)]
        notes = [layout.warning] if layout.warning and design == "unpaired" else []
        return notes + [f"{name}: {words}" for name, runs in sides.items() for words in _order_notes(runs, self.metric)]

    def _design_notes(self, sides: Mapping[str, pl.DataFrame]) -> list[str]:
        tested, reference = sides.values()
        notes = [f"differs in {words}" for words in differing(tested, reference, self.pool)]
        for name, runs in sides.items():
            notes += [f"{name} pools several values of {words}" for words in pooled(runs, {self.by, *self.strata})]
        times = [times for times in map(times_of, sides.values()) if times is not None and times.size > 1]
        if len(times) == len(sides) and not are_interleaved(times):
            notes.append(MADE_APART)
        return notes


def compare_levels(runs: pl.DataFrame, question: Question) -> tuple[Comparison, ...]:
    """All comparisons of runs for a question, adjusted family by family.

    Args:
        runs: described runs, all of which have the metric and a level.
        question: the question.
    """
    return compare_many(list(unadjusted(runs, question)), level=question.level)


def unadjusted(runs: pl.DataFrame, question: Question) -> Iterator[Comparison]:
    """All comparisons of runs for a question, not adjusted."""
    for stratum, part in strata_of(runs, question.strata):
        yield from question.compare(part, stratum)


def _of_level(part: pl.DataFrame, by: str, level: object) -> pl.DataFrame:
    return part.filter(pl.col(by).eq_missing(pl.lit(level, part.schema[by])))


def _checked(runs: pl.DataFrame, metric: str) -> Independence:
    times = times_of(runs)
    return check_independence(values_of(runs, metric), times, ordered=times is not None)


def _order_notes(runs: pl.DataFrame, metric: str) -> list[str]:
    """Warnings that runs are not independent draws of one distribution."""
    checked, times = _checked(runs, metric), times_of(runs)
    notes = [*checked.warnings] if checked.checked else []
    if times is None:
        return notes
    drift = detect_drift(values_of(runs, metric), times)
    return [*notes, *(drift.warnings if drift.detected else ())]
