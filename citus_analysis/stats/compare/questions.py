"""The comparisons that a table of runs allows: each level of a column against a base, in every stratum.

Runs are compared block by block if their iterations are blocks (:mod:`citus_analysis.stats.series.blocks`), by a mixed
model if iterations are shared and differ (:mod:`citus_analysis.stats.compare.mixed`), otherwise as independent sets.
Evidence against these designs in the order of the runs becomes a warning of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.runs.comparable import differing, pooled
from citus_analysis.runs.setups import operation_of, setting_text
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.families import compare_many
from citus_analysis.stats.compare.ranks import cliffs_delta
from citus_analysis.stats.compare.verdicts import MADE_APART, Comparison, Order, compare
from citus_analysis.stats.estimate.intervals import Design
from citus_analysis.stats.run_means import strata_of, times_of, values_of
from citus_analysis.stats.series.blocks import Layout, layout_of
from citus_analysis.stats.series.drift import detect_drift
from citus_analysis.stats.series.independence import Independence, check_independence
from citus_analysis.texts.counted_words import counted

#: Cliff's delta of start times from which on one side was mostly made after the other.
_MOSTLY: Final = 0.6
_IN_TURNS: Final[tuple[Order, ...]] = ("in turns", "mostly after", "mostly before")


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
        higher_is_better: true for a throughput, false for a latency; None: the metric's name decides.
        experiments_apart: whether runs of several experiments are not pooled, even if nothing else tells them apart.
    """

    metric: str
    by: str
    base: object
    strata: tuple[str, ...]
    pool: tuple[str, ...] = ()
    margin: float = MARGIN
    level: float = LEVEL
    higher_is_better: bool | None = None
    experiments_apart: bool = False

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
            labels = setting_text(self.by, name), setting_text(self.by, base)
            for place, mine, theirs, note in self._of_experiments(tested, reference, labels[1]):
                found = self._compared(mine, theirs, *labels)
                yield replace(
                    found,
                    stratum={**stratum, **place},
                    holm_family=operation_of(pl.concat([mine, theirs])),
                    warnings=unique((*found.warnings, *note)),
                )

    def _of_experiments(
        self, tested: pl.DataFrame, reference: pl.DataFrame, base: str
    ) -> Iterator[tuple[dict[str, object], pl.DataFrame, pl.DataFrame, list[str]]]:
        """Both sides with the runs of one experiment each, where they have it; a note on runs of the base left out.

        Each experiment of the tested side is compared with one of the base: the same experiment if possible, otherwise
        one whose runs were made in the same blocks, at the same time, or most often.
        """
        if not self.experiments_apart or "experiment" not in tested.columns:
            yield {}, tested, reference, []
            return
        mine, theirs = (list(side.group_by("experiment", maintain_order=True)) for side in (tested, reference))
        for (name,), runs in mine:
            near = [
                (name is not None and other == name, *_nearness(runs, one, self.metric)) for (other,), one in theirs
            ]
            chosen = theirs[near.index(max(near))][1]
            left = reference.height - chosen.height
            words = f"{counted(left, 'run')} of other experiments with the set-up of {base}"
            note = [f"{words} {'does' if left == 1 else 'do'} not enter (pool experiment to pool them)"] if left else []
            yield {"experiment": name} if len(mine) > 1 else {}, runs, chosen, note

    def _compared(self, tested: pl.DataFrame, reference: pl.DataFrame, name: str, base: str) -> Comparison:
        """One level against the base, by the design that the runs' iterations and times allow."""
        layout = layout_of(tested, reference, self.metric)
        if layout.rows is not None:
            tested, reference = (side[rows] for side, rows in zip((tested, reference), layout.rows, strict=True))
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
        return replace(
            comparison,
            design_reason=reason,
            order=_order(tested, reference),
            warnings=unique((*comparison.warnings, *notes)),
            sides=(tested, reference),
        )

    def _layout_notes(self, layout: Layout, design: Design, sides: Mapping[str, pl.DataFrame]) -> list[str]:
        """Warnings that the order of the runs contradicts the design."""
        if layout.paired:
            # A drift from block to block affects both sets; only a drift of their ratio matters.
            (name, tested), (base, _) = sides.items()
            ratios = tested.sort("iteration").with_columns(pl.Series(self.metric, layout.a / layout.b))
            notes = [f"{name} over {base}: {words}" for words in _order_notes(ratios, self.metric)]
            return [*([layout.warning] if layout.warning else []), *notes]
        notes = [layout.warning] if layout.warning and design == "unpaired" else []
        return notes + [f"{name}: {words}" for name, runs in sides.items() for words in _order_notes(runs, self.metric)]

    def _design_notes(self, sides: Mapping[str, pl.DataFrame]) -> list[str]:
        tested, reference = sides.values()
        notes = [f"differs in {words}" for words in differing(tested, reference, self.pool)]
        for name, runs in sides.items():
            notes += [f"{name} pools several values of {words}" for words in pooled(runs, {self.by, *self.strata})]
        if _order(tested, reference) in ("after the base", "before the base"):
            notes.append(MADE_APART)
        return notes


def _order(tested: pl.DataFrame, reference: pl.DataFrame) -> Order:
    """How the runs of one side lie in time to those of the base."""
    times = times_of(tested), times_of(reference)
    if times[0] is None or times[1] is None or not (times[0].size and times[1].size):
        return "unknown"
    later = cliffs_delta(times[0], times[1])
    if abs(later) == 1:
        return "after the base" if later > 0 else "before the base"
    if abs(later) > _MOSTLY:
        return "mostly after" if later > 0 else "mostly before"
    return "in turns"


def of_one_experiment(runs: pl.DataFrame, strata: Sequence[str], by: str) -> tuple[pl.DataFrame, list[str]]:
    """Runs along an axis, those of each point made by one experiment, and a note on the others.

    Of several experiments that measured the same configuration, the one with the most points of the axis is kept, then
    the one with the most runs.

    Example:
        >>> rows = {"threads": [8, 8, 8, 64], "experiment": [*"abbb"], "throughput_ops_s": [1.0, 2.0, 3.0, 4.0]}
        >>> kept, notes = of_one_experiment(pl.DataFrame(rows), (), "threads")
        >>> kept["throughput_ops_s"].to_list(), notes
        ([2.0, 3.0, 4.0], ['1 run of other experiments at the same points left out (pool experiment to pool them)'])
    """
    if "experiment" not in runs.columns:
        return runs, []
    made = [*strata, "experiment"]
    ranked = runs.with_columns(_points=pl.col(by).n_unique().over(made), _runs=pl.len().over(made))
    ranked = ranked.sort("_points", "_runs", "experiment", descending=[True, True, False], maintain_order=True)
    point = [*strata, by]
    best = ranked.unique(point, keep="first", maintain_order=True).select(*point, "experiment")
    kept = runs.join(best, on=[*point, "experiment"], how="semi", nulls_equal=True, maintain_order="left")
    left = counted(runs.height - kept.height, "run")
    note = f"{left} of other experiments at the same points left out (pool experiment to pool them)"
    return kept, [note] if kept.height < runs.height else []


def _nearness(tested: pl.DataFrame, reference: pl.DataFrame, metric: str) -> tuple[bool, bool, int]:
    """Whether two sets were made in the same blocks, or at the same time, and the size of the second."""
    return layout_of(tested, reference, metric).paired, _order(tested, reference) in _IN_TURNS, reference.height


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
