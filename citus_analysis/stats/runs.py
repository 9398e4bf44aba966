"""Comparisons over a table of runs: who is compared with whom, and what varies unnoticed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from citus_analysis.errors import UnknownNameError
from citus_analysis.stats._validate import unique
from citus_analysis.stats.comparison import Comparison, compare
from citus_analysis.stats.drift import are_interleaved, detect_drift
from citus_analysis.stats.families import compare_many
from citus_analysis.stats.frames import (
    Frame,
    TableSource,
    dimensions,
    lower_is_better,
    pooled_values,
    runs_with_metric,
    strata_of,
    times_of,
    values_of,
)

__all__ = ["RunComparison", "compare_runs"]


@dataclass(frozen=True)
class RunComparison:
    """The comparisons that a table of runs allows.

    Attributes:
        comparisons: one per stratum and non-base level.
        by: compared column.
        metric: compared metric.
        strata: columns that each comparison holds equal.
        warnings: about the table as a whole: runs left out, columns that differ along with `by`.
    """

    comparisons: tuple[Comparison, ...]
    by: str
    metric: str
    strata: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_polars(self) -> pl.DataFrame:
        """One row per comparison: stratum, both sides, ratio with interval, tests, verdict, warnings."""
        rows = [{**_record(c, self.strata), "warnings": "; ".join(c.warnings)} for c in self.comparisons]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "metric": self.metric,
            "by": self.by,
            "strata": list(self.strata),
            "comparisons": [{**_record(c, self.strata), "warnings": list(c.warnings)} for c in self.comparisons],
            "warnings": list(self.warnings),
        }


def compare_runs(
    source: TableSource | Frame,
    metric: str = "throughput_ops_s",
    by: str = "system",
    base: object = None,
    *,
    within: Sequence[str] | None = None,
    only: Mapping[str, object] | None = None,
    margin: float = 0.05,
    level: float = 0.95,
    statuses: Sequence[str] = ("ok",),
    higher_is_better: bool | None = None,
) -> RunComparison:
    """Compare the levels of one column of a table of runs, like with like.

    Runs are compared only where all other configuration columns agree (same workload, threads, phase ...). A
    configuration column of which the levels share no value (the resource, when systems are compared) cannot be held
    equal: it is reported as differing along with `by`. Several comparisons are adjusted by Holm's procedure.

    Args:
        source: a dataset, or a polars, pandas or Arrow frame of the table `runs`.
        metric: a numeric column of `runs`, or of `operation_latencies` when a dataset is given.
        by: column whose levels are compared.
        base: level the others are compared with; by default the first level of each stratum.
        within: columns to hold equal, instead of all configuration columns that can be.
        only: column -> value; only runs that have it enter.
        margin: relative difference that counts as none.
        level: confidence level.
        statuses: run statuses that enter.
        higher_is_better: by default told from the metric's name: times and failures count downwards.

    Raises:
        UnknownNameError: no such column, metric or base level.
        InsufficientDataError: no run is left.

    Example:
        >>> runs = pl.DataFrame({"system": ["x"] * 3 + ["y"] * 3, "throughput_ops_s": [10.0, 11, 12, 20, 21, 22]})
        >>> [(c.label_a, c.verdict) for c in compare_runs(runs)]
        [('y', 'faster')]
    """
    runs, notes = runs_with_metric(source, metric, statuses, only)
    for name in (by, *(within or ())):
        if name not in runs.columns:
            raise UnknownNameError("column", name, runs.columns)
    levels = runs[by].unique().sort()
    chosen = _base_level(levels, base, by)
    strata, differing = dimensions(runs, by) if within is None else (tuple(within), ())
    runs, unusable = _with_ratio(runs, metric, (*strata, by))
    better = not lower_is_better(metric) if higher_is_better is None else higher_is_better
    plan = _Plan(metric, by, chosen, strata, margin, level, better)
    comparisons = [one for stratum, part in strata_of(runs, strata) for one in plan.compare(part, stratum)]
    if not comparisons:
        notes = (*notes, _nothing_to_compare(levels, by, strata))
    also = tuple(f"{column} differs along with {by}: the comparison is of both" for column in differing if comparisons)
    return RunComparison(compare_many(comparisons, level=level), by, metric, strata, unique((*notes, *unusable, *also)))


def _with_ratio(runs: pl.DataFrame, metric: str, groups: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """Runs of the groups whose mean can stand in a ratio, and words on the others."""
    positive = pl.col(metric).mean().over(groups) > 0
    dropped = runs.filter(~positive).select(groups).unique().height
    note = f"{dropped} group{'s' if dropped > 1 else ''} left out: a mean {metric} that is not positive has no ratio"
    return runs.filter(positive), [note] if dropped else []


def _base_level(levels: pl.Series, base: object, by: str) -> object:
    if base is None:
        return None
    named = {str(value): value for value in levels.to_list()}
    if str(base) not in named:
        raise UnknownNameError(by, str(base), named)
    return named[str(base)]


def _nothing_to_compare(levels: pl.Series, by: str, strata: Sequence[str]) -> str:
    if levels.len() < 2:
        return f"nothing to compare: {by} has one level"
    return f"nothing to compare: no two levels of {by} share {', '.join(strata)}"


@dataclass(frozen=True)
class _Plan:
    """What is asked of each stratum."""

    metric: str
    by: str
    base: object
    strata: tuple[str, ...]
    margin: float
    level: float
    higher_is_better: bool

    def compare(self, part: pl.DataFrame, stratum: dict[str, object]) -> Iterator[Comparison]:
        """Each level of the stratum against its base; nothing where the base is absent."""
        levels = part[self.by].unique().sort().to_list()
        base = levels[0] if self.base is None else self.base
        if base not in levels:
            return
        reference = _of_level(part, self.by, base)
        for name in levels:
            if name == base:
                continue
            tested = _of_level(part, self.by, name)
            comparison = compare(
                values_of(tested, self.metric),
                values_of(reference, self.metric),
                self.margin,
                level=self.level,
                higher_is_better=self.higher_is_better,
                label_a=str(name),
                label_b=str(base),
                metric=self.metric,
            )
            notes = self._design_notes({str(name): tested, str(base): reference})
            yield replace(comparison, stratum=stratum, warnings=unique((*comparison.warnings, *notes)))

    def _design_notes(self, sides: dict[str, pl.DataFrame]) -> list[str]:
        notes: list[str] = []
        for name, runs in sides.items():
            notes += [
                f"{name} pools several values of {words}" for words in pooled_values(runs, {self.by, *self.strata})
            ]
            notes += [f"{name}: {words}" for words in _drift_notes(runs, self.metric)]
        times = [times for times in map(times_of, sides.values()) if times is not None and times.size > 1]
        if len(times) == len(sides) and not are_interleaved(times):
            notes.append("the two sets were made one after the other: a drift of the machine looks like a difference")
        return notes


def _of_level(part: pl.DataFrame, by: str, level: object) -> pl.DataFrame:
    return part.filter(pl.col(by).eq_missing(pl.lit(level, part.schema[by])))


def _drift_notes(runs: pl.DataFrame, metric: str) -> tuple[str, ...]:
    times = times_of(runs)
    if times is None:
        return ()
    drift = detect_drift(values_of(runs, metric), times)
    return drift.warnings if drift.detected else ()


def _record(comparison: Comparison, strata: Sequence[str]) -> dict[str, object]:
    return {
        **{column: comparison.stratum.get(column) for column in strata},
        "a": comparison.label_a,
        "b": comparison.label_b,
        "metric": comparison.metric,
        "n_a": comparison.mean_a.n,
        "n_b": comparison.mean_b.n,
        "mean_a": comparison.mean_a.estimate,
        "mean_b": comparison.mean_b.estimate,
        "ratio": comparison.ratio.estimate,
        **dict(zip(("ratio_low", "ratio_high"), comparison.ratio.ends, strict=True)),
        "verdict": comparison.verdict,
        "p_difference": comparison.p_difference,
        "p_equivalence": comparison.p_equivalence,
        "p_welch": comparison.p_welch,
        "p_mann_whitney": comparison.p_mann_whitney,
        "cliffs_delta": comparison.cliffs_delta,
        "shift": comparison.shift.estimate if comparison.shift else None,
        "runs_missing": comparison.runs_missing,
        "margin": comparison.margin,
        "level": comparison.ratio.level,
        "method": comparison.ratio.method,
    }
