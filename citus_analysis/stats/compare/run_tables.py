"""Comparisons over a table of runs: the pairs that are compared, and other differences between them.

`compare`, `scale` and the reports all use this module, so that the same runs give the same numbers, p-values and words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import Frame, TableSource, in_callers_kind
from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.runs import comparability
from citus_analysis.runs.comparable import closest_difference
from citus_analysis.runs.known_facts import refuse_unknown
from citus_analysis.runs.setups import LOAD, USUAL_SET_UP, VARIANT, setting_text
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.families import compare_many
from citus_analysis.stats.compare.questions import Question, of_one_experiment, unadjusted
from citus_analysis.stats.compare.verdicts import Comparison
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_means import check_columns, measured_runs, runs_of, strata_of, with_values
from citus_analysis.stats.series.independence import FEWEST_TO_CHECK
from citus_analysis.texts.counted_words import counted

#: Columns that are axes of curves.
_AXES: Final = frozenset({*LOAD, "workers"}) - {*VARIANT}
#: Column with the place of a run in the table of all that are compared.
_PLACE: Final = "_place"


@dataclass(frozen=True, repr=False)
class RunComparison(Shown):
    """The comparisons that a table of runs allows.

    In tables and JSON, each column of the set-up that is held equal keeps its name and value; a result whose name is
    taken by one of them is called `comparison_NAME`.

    Attributes:
        comparisons: one per stratum and non-base level.
        by: compared column.
        metric: compared metric.
        strata: columns that are equal within each comparison.
        pool: columns that need not be equal, as given by the caller.
        warnings: caveats about the whole table: runs left out, columns that differ along with `by`.
        runs: the compared runs, with their set-up.
    """

    comparisons: tuple[Comparison, ...]
    by: str
    metric: str
    strata: tuple[str, ...]
    pool: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    runs: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def summary_lines(self) -> list[str]:
        """The number of comparisons by verdict, and the decided ones."""
        counts = Counter(one.verdict for one in self.comparisons)
        words = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()) or "none"
        first = f"{len(self)} comparisons of {self.metric} by {self.by}: {words} (format_comparison prints them all)"
        decided = [one for one in self.comparisons if one.verdict != "inconclusive"]
        return [
            first,
            *(f"  {line}" for one in decided for line in one.summary_lines()[: 2 if one.stratum else 1]),
            *(f"  note: {note}" for note in self.warnings),
        ]

    def summary_table(self) -> pl.DataFrame | None:
        """Both sides, ratio, p-values and verdict of each comparison."""
        ratio = ("ratio", "ratio_low", "ratio_high", "p_difference", "p_difference_adjusted", "verdict")
        if not self.comparisons:
            return None
        table = self.to_polars()
        return table.select(*self.strata, *(_free_name(name, self.strata) for name in ("a", "b", *ratio)))

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
            "pool": list(self.pool),
            "comparisons": [{**_record(c, self.strata), "warnings": list(c.warnings)} for c in self.comparisons],
            "warnings": list(self.warnings),
        }


@in_callers_kind
def compare_runs(
    source: TableSource | Frame,
    metric: str = METRIC,
    by: str = "system",
    base: object = None,
    *,
    within: Sequence[str] | None = None,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    margin: float = MARGIN,
    level: float = LEVEL,
    allow: str | Collection[str] = (),
    higher_is_better: bool | None = None,
) -> RunComparison:
    """Compare the levels of one column of a table of runs, like with like.

    Runs are compared only if the rest of their configuration agrees (:mod:`citus_analysis.runs`): same phase, workload,
    threads, records, settings ... A column of the system in which the levels have no common value (the family, if
    systems are compared) cannot be held equal: it is reported as differing along with `by`. All comparisons of one
    operation and base, shown or not, are a family and adjusted by Holm's procedure; by whatever column set-ups are
    told apart, it is that of their variants, so that the same runs have the same verdict. Runs of several experiments
    are not pooled.

    Args:
        source: a dataset, or a polars, pandas or Arrow frame of the table `runs`.
        metric: a numeric column of `runs`, or of `operation_latencies` when a dataset is given.
        by: column whose levels are compared: of `runs`, or `family`, `settings`, `variant` of its set-up.
        base: level that the others are compared with; by default the set-up with the most runs, if whole set-ups are
            compared (`variant`, `set_up`), otherwise the first level of each stratum.
        within: columns to hold equal, instead of the whole configuration.
        pool: columns of the configuration that need not be equal; `experiment` to pool runs that experiments made at
            the same configuration.
        only: column -> value; selects comparisons (or runs, for a column that is not held equal).
        margin: relative difference that counts as none.
        level: confidence level.
        allow: `degraded` to compare degraded runs as well; a warning gives their number.
        higher_is_better: by default derived from the metric's name: lower times and numbers of failures are better.

    Raises:
        UnknownNameError: no such column, metric or base level.
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run is left, or no two levels have runs that agree in all columns to hold equal.

    Example:
        >>> runs = pl.DataFrame({"system": ["x"] * 3 + ["y"] * 3, "throughput_ops_s": [10.0, 11, 12, 20, 21, 22]})
        >>> [(c.label_a, c.verdict) for c in compare_runs(runs)]
        [('y', 'faster')]
    """
    question = Question(metric, by, base, (), tuple(pool), margin, level, higher_is_better)
    asked = ask(runs_of(source, metric), question, within, only, allow)
    runs, question = asked.runs, asked.question
    usual = base is None and by in _NAMES_OF_SET_UPS
    alone, unmet = _with_usual_base(runs, question) if usual else ([], [])
    alone = alone or list(unadjusted(runs, question))
    found = _adjusted(alone, runs, question) if within is None else compare_many(alone, level=level)
    nothing = () if found else (_nothing_to_compare(runs, question),)
    also = tuple(f"{column} differs along with {by}: the comparison is of both" for column in asked.along if found)
    kept = tuple(one for one in found if is_shown(one, asked.shown))
    warnings = unique((*asked.notes, *nothing, *also, *unmet, *_few_runs(kept)))
    named = ("experiment",) if any("experiment" in one.stratum for one in kept) else ()
    strata = tuple(dict.fromkeys((*question.strata, *named)))
    return RunComparison(kept, by, metric, strata, tuple(pool), warnings, runs)


#: Columns that name whole set-ups; the one with the most runs is the base, whatever the order of their names.
_NAMES_OF_SET_UPS: Final = ("variant", "set_up", "family")
#: Columns by which set-ups are told apart, so that a comparison by one of them is also one of variants.
_TELL_SET_UPS: Final = frozenset({*VARIANT, "variant", "set_up", "resource"})


def usual_level(runs: pl.DataFrame, by: str) -> object:
    """The level of a column that has the most runs; of several the usual set-up, or the first in order.

    Example:
        >>> usual_level(pl.DataFrame({"variant": ["b", "a", "b"]}), "variant")
        'b'
    """
    counts = runs.drop_nulls(by).group_by(by).len()
    unusual = ~pl.col(by).cast(pl.String).str.contains(f"^$|{USUAL_SET_UP}")
    return counts.sort(-pl.col("len").cast(pl.Int64), unusual, by)[by][0]


def _with_usual_base(runs: pl.DataFrame, question: Question) -> tuple[list[Comparison], list[str]]:
    """All comparisons with the usual level, and a note on the places that lack it."""
    base = usual_level(runs, question.by)
    found = list(unadjusted(runs, replace(question, base=base)))
    lacking = [
        part
        for _, part in strata_of(runs, question.strata)
        if base not in part[question.by] and part[question.by].n_unique() > 1
    ]
    name = setting_text(question.by, base)
    notes = [f"{counted(len(lacking), 'configuration')} without the base {name} left out: name another base for them"]
    return found, notes if lacking else []


def _adjusted(found: Sequence[Comparison], runs: pl.DataFrame, question: Question) -> tuple[Comparison, ...]:
    """Comparisons with adjusted verdicts, which are those of the same runs however their set-ups are named.

    A comparison by a column that tells set-ups apart is also one of variants. The family is then all comparisons of
    variants with the base's, whichever of them were asked for.
    """
    if question.by not in _TELL_SET_UPS or question.pool or "variant" not in runs.columns:
        return compare_many(found, level=question.level)
    keyed = [(one, _variants(one)[1]) for one in found]
    seen = {_rows(one) for one in found}
    others: list[tuple[Comparison, tuple[str, ...]]] = []
    if question.by != "variant":
        held = replace(question, by="variant", strata=comparability(runs, "variant").strata)
        for base in dict.fromkeys(name for _, names in keyed for name in names):
            asked = (one for one in unadjusted(runs, replace(held, base=base)) if _rows(one) not in seen)
            others += [(one, (base,)) for one in asked]
    families = [replace(one, holm_family=f"{one.holm_family}\0{names}") for one, names in (*keyed, *others)]
    adjusted = compare_many(families, level=question.level)[: len(keyed)]
    return tuple(replace(one, holm_family=asked.holm_family) for one, (asked, _) in zip(adjusted, keyed, strict=True))


def _variants(one: Comparison) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the variants on either side."""
    first, second = one.sides or (pl.DataFrame(), pl.DataFrame())
    return tuple(first["variant"].unique().sort()), tuple(second["variant"].unique().sort())


def _rows(one: Comparison) -> tuple[frozenset[int], frozenset[int]]:
    """The runs of either side, by their place in the table of all."""
    first, second = one.sides or (pl.DataFrame(), pl.DataFrame())
    return frozenset(first[_PLACE]), frozenset(second[_PLACE])


@dataclass(frozen=True)
class Asked:
    """A question with the runs that it is about.

    Attributes:
        runs: the runs to compare.
        question: the question with its base as a value of the column, and with the columns that are held equal.
        along: columns of the system that change along with the compared one.
        shown: column that is held equal -> value that selects comparisons.
        notes: notes on runs that were left out.
    """

    runs: pl.DataFrame
    question: Question
    along: tuple[str, ...]
    shown: Mapping[str, object]
    notes: tuple[str, ...]


def ask(
    frame: pl.DataFrame,
    question: Question,
    within: Sequence[str] | None = None,
    only: Mapping[str, object] | None = None,
    allow: str | Collection[str] = (),
) -> Asked:
    """Select the runs to compare, and the columns to hold equal; see :func:`compare_runs`.

    Args:
        frame: described runs with the metric.
        question: the question without its strata; its base is a value as displayed.
        within: columns to hold equal, instead of the whole configuration.
        only: column -> value.
        allow: `degraded` to compare degraded runs as well; a warning gives their number.

    Raises:
        UnknownNameError: no such column or base level.
        InsufficientDataError: no run is left, or none has a value of the compared column.
    """
    metric, by = question.metric, question.by
    check_columns(frame, (by, *(within or ()), *question.pool))
    usable, notes = measured_runs(frame, metric, allow, only)
    refuse_unknown(usable, by, "by")
    runs, _ = measured_runs(frame.filter(pl.col(by).is_not_null()), metric, allow)
    if unknown := usable[by].null_count():
        notes = (*notes, f"{counted(unknown, 'run')} left out: no {by}")
    held = comparability(runs, by, question.pool)
    strata, along = (held.strata, held.along) if within is None else (tuple(within), ())
    shown, chosen = split_selection(only, strata)
    runs = with_values(runs, chosen)
    base_level = _base_level(runs[by].unique().sort(), question.base, by)
    runs, unusable = _with_ratio(runs, metric, (*strata, by))
    apart = by != "experiment" and "experiment" not in question.pool
    if apart and by in _AXES:
        runs, left_out = of_one_experiment(runs, strata, by)
        unusable = [*unusable, *left_out]
    asked = replace(question, base=base_level, strata=strata, experiments_apart=apart)
    return Asked(runs.with_row_index(_PLACE), asked, along, shown, (*notes, *unusable))


def split_selection(
    only: Mapping[str, object] | None, strata: Sequence[str]
) -> tuple[dict[str, object], dict[str, object]]:
    """The part of `only` that selects comparisons, and the part that selects runs before they are compared.

    Columns that are held equal only select the comparisons to show, so that a family of comparisons, and with it each
    p-value, does not depend on the selection.
    """
    asked = dict(only or {})
    shown = {name: value for name, value in asked.items() if name in strata}
    return shown, {name: value for name, value in asked.items() if name not in strata}


def is_shown(comparison: Comparison, shown: Mapping[str, object]) -> bool:
    """Whether the stratum of a comparison has these values, as they are or as displayed."""
    return all(
        str(value) in (setting_text(name, comparison.stratum[name]), str(comparison.stratum[name]))
        for name, value in shown.items()
    )


def _with_ratio(runs: pl.DataFrame, metric: str, groups: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """Runs of the groups with a positive mean, which a ratio needs, and a note on the others."""
    positive = pl.col(metric).mean().over(groups) > 0
    dropped = runs.filter(~positive).select(groups).unique().height
    note = f"{dropped} group{'s' if dropped > 1 else ''} left out: a mean {metric} that is not positive has no ratio"
    return runs.filter(positive), [note] if dropped else []


def _base_level(levels: pl.Series, base: object, by: str) -> object:
    if base is None:
        return None
    named = {setting_text(by, value): value for value in levels.to_list()}
    if setting_text(by, base) not in named:
        raise UnknownNameError(by, str(base), named)
    return named[setting_text(by, base)]


def _nothing_to_compare(runs: pl.DataFrame, question: Question) -> str:
    """The reason why nothing can be compared; an error with the way out if other columns could be pooled."""
    by, strata = question.by, question.strata
    if runs[by].n_unique() < 2:
        return f"nothing to compare: {by} has one level"
    closest = closest_difference(runs, by, strata)
    if not closest:
        return f"nothing to compare: no run at {by} {question.base} agrees with any other in {', '.join(strata)}"
    raise InsufficientDataError(
        f"nothing to compare: no two levels of {by} have runs with equal {', '.join(strata)}; "
        f"the closest differ in {', '.join(closest)}",
        way_out=f"pool these to compare them all the same (--pool {','.join(closest)}; pool={list(closest)} in Python)",
    )


def _few_runs(comparisons: Sequence[Comparison]) -> list[str]:
    """One note for the whole table on problems that few runs cannot exclude."""
    sizes = [side.n for one in comparisons for side in (one.mean_a, one.mean_b) if one.ratio.exists]
    if not sizes or min(sizes) >= FEWEST_TO_CHECK:
        return []
    return [
        f"sets of fewer than {FEWEST_TO_CHECK} runs cannot show two modes, or that successive runs depend on each "
        "other: neither is excluded"
    ]


#: Columns of a comparison that have the names of its attributes.
_NAMED: Final = (
    *("p_difference", "p_difference_adjusted", "p_equivalence", "p_equivalence_adjusted"),
    *("holm_family", "family_size"),
    *("p_welch", "p_mann_whitney", "cliffs_delta", "shift", "runs_missing", "planned_level", "margin"),
)


def _record(comparison: Comparison, strata: Sequence[str]) -> dict[str, object]:
    named = {name: getattr(comparison, name) for name in _NAMED}
    found = {
        "a": comparison.label_a,
        "b": comparison.label_b,
        "metric": comparison.metric,
        "n_a": comparison.mean_a.n,
        "n_b": comparison.mean_b.n,
        "mean_a": comparison.mean_a.estimate,
        "mean_b": comparison.mean_b.estimate,
        **comparison.ratio.record("ratio"),
        "verdict": comparison.verdict,
        **dict(zip(("deciding_low", "deciding_high"), comparison.deciding.ends, strict=True)),
        "deciding_level": comparison.deciding.level,
        **{name: _known(value) for name, value in named.items()},
        "level": comparison.ratio.level,
        "method": comparison.ratio.method,
        "design": comparison.design,
        "design_reason": comparison.design_reason,
        "order": comparison.order,
    }
    place = {column: comparison.stratum.get(column) for column in strata}
    return place | {_free_name(name, strata): value for name, value in found.items()}


def _free_name(name: str, strata: Sequence[str]) -> str:
    """The column of a result, which does not overwrite a column of the set-up."""
    return f"comparison_{name}" if name in strata else name


def _known(value: object) -> object:
    """A value for a table: null instead of nan, and the estimate of an interval."""
    if isinstance(value, Interval):
        return value.estimate
    return None if isinstance(value, float) and math.isnan(value) else value
