"""Comparisons over a table of runs: the pairs that are compared, and other differences between them.

`compare`, `scale` and the reports all use this module, so that the same runs give the same numbers, p-values and words.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import return_callers_frame_kind
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.runs import comparability
from citus_analysis.runs.selection import (
    Question,
    find_closest_difference,
    find_differing_columns,
    find_pooled_columns,
    split_names,
)
from citus_analysis.runs.set_ups import (
    LOAD,
    USUAL_SET_UP,
    VARIANT,
    describe_operations,
    format_configuration,
    format_setup_value,
    refuse_unknown,
)
from citus_analysis.stats._validate import list_unique_warnings
from citus_analysis.stats.drift import BlockLayout, build_block_layout, detect_drift
from citus_analysis.stats.environment import judge_environment
from citus_analysis.stats.independence import FEWEST_TO_CHECK, Independence, check_independence
from citus_analysis.stats.intervals import Design
from citus_analysis.stats.results import Interval
from citus_analysis.stats.studied_runs import (
    StudiedRuns,
    check_columns,
    filter_runs_by_values,
    get_metric_values,
    get_start_times_ms,
    iterate_groups,
    read_studied_runs,
    select_measured_runs,
)
from citus_analysis.stats.verdicts import (
    MADE_APART,
    NO_VERDICT,
    PLANNED,
    Comparison,
    Order,
    cliffs_delta,
    compare,
    compare_many,
)
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.tables import render_grouped_table, render_text_table
from citus_analysis.texts.words import choose_noun_form, join_words, pluralize
from citus_analysis.units import label

# The comparisons that a table of runs allows: each level of a column against a base, in every stratum.
#
# Runs are compared block by block if their iterations are blocks (:mod:`citus_analysis.stats.drift`), by a mixed model
# if iterations are shared and differ (:mod:`citus_analysis.stats.mixed_model`), otherwise as independent sets. Evidence
# against these designs in the order of the runs becomes a warning of the comparison.

#: Cliff's delta of start times from which on one side was mostly made after the other.
_MOSTLY: Final = 0.6
_IN_TURNS: Final[tuple[Order, ...]] = ("in turns", "mostly after", "mostly before")


@dataclass(frozen=True, kw_only=True)
class ComparisonQuestion(Question):
    """A question about a table of runs: the compared metric and column, and their conditions.

    Attributes:
        metric: measured metric.
        by: compared column.
        base: level that the others are compared with; None: the first of each stratum.
        within: columns to hold equal, instead of the whole configuration; None: the whole configuration.
        strata: columns that are held equal, as :func:`ask` finds them.
        higher_is_better: true for a throughput, false for a latency; None: the metric's name decides.
        experiments_apart: whether runs of several experiments are not pooled, even if nothing else tells them apart.
        factors: columns of the caller's table that vary and are no column of a configuration.
        replaced: columns of a configuration that the factors say in other words.
    """

    metric: str
    by: str
    base: object = None
    within: tuple[str, ...] | None = None
    strata: tuple[str, ...] = ()
    higher_is_better: bool | None = None
    experiments_apart: bool = False
    factors: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    @classmethod
    def from_studied_runs(
        cls,
        studied: StudiedRuns,
        by: str,
        asked: Question,
        *,
        base: object = None,
        within: Sequence[str] | None = None,
        higher_is_better: bool | None = None,
    ) -> ComparisonQuestion:
        """The question about the runs of a caller, whose names of columns it translates.

        Args:
            studied: the runs, with their metric.
            by: compared column, by its name in `studied.runs`.
            asked: what is pooled, chosen and allowed, level and margin; columns by the caller's names.
            base: level that the others are compared with; None: the first of each stratum.
            within: columns to hold equal, by the caller's names; None: the whole configuration.
            higher_is_better: true for a throughput, false for a latency; None: the metric's name decides.

        Example:
            >>> studied = read_studied_runs({"clients": [1, 1, 2, 2], "tps": [10.0, 11, 20, 21]})
            >>> asked = ComparisonQuestion.from_studied_runs(studied, "threads", Question(only={"clients": 2}))
            >>> asked.metric, dict(asked.only)
            ('tps', {'threads': 2})
        """
        find = studied.find_column
        return cls(
            metric=studied.metric,
            by=by,
            base=base,
            within=None if within is None else tuple(map(find, within)),
            pool=tuple(map(find, asked.pool)),
            only={find(name): value for name, value in asked.only.items()},
            margin=asked.margin,
            level=asked.level,
            include_status=asked.include_status,
            higher_is_better=higher_is_better,
            factors=studied.factors,
            replaced=studied.replaced,
        )

    def compare(self, part: pl.DataFrame, stratum: dict[str, object]) -> Iterator[Comparison]:
        """Compare each level of the stratum with its base; no comparison if the base is absent."""
        levels = part[self.by].unique().sort().to_list()
        base = next(iter(levels), None) if self.base is None else self.base
        if base not in levels:
            return
        reference = _select_level(part, self.by, base)
        for name in levels:
            if name == base:
                continue
            tested = _select_level(part, self.by, name)
            labels = format_setup_value(self.by, name), format_setup_value(self.by, base)
            for place, mine, theirs, note in self._compare_experiments(tested, reference, labels[1]):
                found = self._compare_level(mine, theirs, *labels)
                yield replace(
                    found,
                    stratum={**stratum, **place},
                    holm_family=describe_operations(pl.concat([mine, theirs])),
                    warnings=list_unique_warnings((*found.warnings, *note)),
                )

    def _compare_experiments(
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
                (name is not None and other == name, *_measure_nearness(runs, one, self.metric))
                for (other,), one in theirs
            ]
            chosen = theirs[near.index(max(near))][1]
            left = reference.height - chosen.height
            words = f"{pluralize(left, 'run')} of other experiments with the set-up of {base}"
            note = [f"{words} {'does' if left == 1 else 'do'} not enter (pool experiment to pool them)"] if left else []
            yield {"experiment": name} if len(mine) > 1 else {}, runs, chosen, note

    def _compare_level(self, tested: pl.DataFrame, reference: pl.DataFrame, name: str, base: str) -> Comparison:
        """One level against the base, by the design that the runs' iterations and times allow."""
        layout = build_block_layout(tested, reference, self.metric)
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
            effective=(
                _check_metric_independence(tested, self.metric).effective,
                _check_metric_independence(reference, self.metric).effective,
            ),
        )
        reason = "; ".join(list_unique_warnings(filter(None, (layout.reason, comparison.design_reason))))
        notes = self._design_notes({name: tested, base: reference})
        notes += self._layout_notes(layout, comparison.design, {name: tested, base: reference})
        if environment := judge_environment(comparison, (tested, reference), self.level):
            notes.append(environment.sentence())
        return replace(
            comparison,
            design_reason=reason,
            order=_order(tested, reference),
            warnings=list_unique_warnings((*comparison.warnings, *notes)),
            sides=(tested, reference),
        )

    def _layout_notes(self, layout: BlockLayout, design: Design, sides: Mapping[str, pl.DataFrame]) -> list[str]:
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
        notes = [f"differs in {words}" for words in find_differing_columns(tested, reference, self.pool)]
        for name, runs in sides.items():
            notes += [
                f"{name} pools several values of {words}"
                for words in find_pooled_columns(runs, {self.by, *self.strata, *self.replaced}, self.factors)
            ]
        if _order(tested, reference) in ("after the base", "before the base"):
            notes.append(MADE_APART)
        return notes


def _order(tested: pl.DataFrame, reference: pl.DataFrame) -> Order:
    """How the runs of one side lie in time to those of the base."""
    times = get_start_times_ms(tested), get_start_times_ms(reference)
    if times[0] is None or times[1] is None or not (times[0].size and times[1].size):
        return "unknown"
    later = cliffs_delta(times[0], times[1])
    if abs(later) == 1:
        return "after the base" if later > 0 else "before the base"
    if abs(later) > _MOSTLY:
        return "mostly after" if later > 0 else "mostly before"
    return "in turns"


def keep_one_experiment(runs: pl.DataFrame, strata: Sequence[str], by: str) -> tuple[pl.DataFrame, list[str]]:
    """Runs along an axis, those of each point made by one experiment, and a note on the others.

    Of several experiments that measured the same configuration, the one with the most points of the axis is kept, then
    the one with the most runs.

    Example:
        >>> rows = {"threads": [8, 8, 8, 64], "experiment": [*"abbb"], "throughput_ops_s": [1.0, 2.0, 3.0, 4.0]}
        >>> kept, notes = keep_one_experiment(pl.DataFrame(rows), (), "threads")
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
    left = pluralize(runs.height - kept.height, "run")
    note = f"{left} of other experiments at the same points left out (pool experiment to pool them)"
    return kept, [note] if kept.height < runs.height else []


def _measure_nearness(tested: pl.DataFrame, reference: pl.DataFrame, metric: str) -> tuple[bool, bool, int]:
    """Whether two sets were made in the same blocks, or at the same time, and the size of the second."""
    return (
        build_block_layout(tested, reference, metric).paired,
        _order(tested, reference) in _IN_TURNS,
        reference.height,
    )


def compare_levels(runs: pl.DataFrame, question: ComparisonQuestion) -> tuple[Comparison, ...]:
    """All comparisons of runs for a question, adjusted family by family.

    Args:
        runs: described runs, all of which have the metric and a level.
        question: the question.
    """
    return compare_many(list(iterate_unadjusted_comparisons(runs, question)), level=question.level)


def iterate_unadjusted_comparisons(runs: pl.DataFrame, question: ComparisonQuestion) -> Iterator[Comparison]:
    """All comparisons of runs for a question, not adjusted."""
    for stratum, part in iterate_groups(runs, question.strata):
        yield from question.compare(part, stratum)


def _select_level(part: pl.DataFrame, by: str, level: object) -> pl.DataFrame:
    return part.filter(pl.col(by).eq_missing(pl.lit(level, part.schema[by])))


def _check_metric_independence(runs: pl.DataFrame, metric: str) -> Independence:
    times = get_start_times_ms(runs)
    return check_independence(get_metric_values(runs, metric), times, ordered=times is not None)


def _order_notes(runs: pl.DataFrame, metric: str) -> list[str]:
    """Warnings that runs are not independent draws of one distribution."""
    checked, times = _check_metric_independence(runs, metric), get_start_times_ms(runs)
    notes = [*checked.warnings] if checked.checked else []
    if times is None:
        return notes
    drift = detect_drift(get_metric_values(runs, metric), times)
    return [*notes, *(drift.warnings if drift.detected else ())]


#: Columns of set-ups that can be compared.
CONFIGURATION_NAMES: Final = (
    "system",
    "variant",
    "family",
    "settings",
    "cpu_per_node",
    "query_mode",
    "limit",
    "workload",
)
#: Columns that are axes of curves.
_AXES: Final = frozenset({*LOAD, "workers"}) - {*VARIANT}
#: Column with the place of a run in the table of all that are compared.
_PLACE: Final = "_place"


@dataclass(frozen=True, repr=False)
class RunComparison(DisplayMixin):
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
        """A narrow table: what differs from row to row, both means, ratio, n and verdict; the rest once above."""
        notes = self.all_notes()
        lines = format_narrow_comparison(self, _ROWS_SHOWN)
        room = max(1, _LINES_SHOWN - len(lines))
        if len(notes) > room:
            notes = [
                *notes[: room - 1],
                f"{pluralize(len(notes) - room + 1, 'more note')}: .warnings of it and its rows",
            ]
        return [*lines, *(f"note: {note}" for note in notes)]

    def all_notes(self) -> list[str]:
        """The caveats of the whole table, then those of its rows, each once."""
        merged = merge_notes(self.comparisons)
        return [*self.warnings, *dict.fromkeys(merged.values())]

    def sentence(self) -> str:
        """How many comparisons have which verdict, and the first decided one."""
        if len(self) == 1:
            return self.comparisons[0].sentence()
        counts = Counter(one.shown_verdict for one in self.comparisons)
        said = {NO_VERDICT: "without a verdict (a single run)"}
        words = (
            ", ".join(f"{number} {said.get(verdict, verdict)}" for verdict, number in counts.most_common()) or "none"
        )
        return f"{pluralize(len(self), 'comparison')} of {self.metric} by {self.by}: {words}"

    def summary_table(self) -> pl.DataFrame | None:
        """Both sides with their means and n, ratio, p-values and verdict of each comparison."""
        ratio = (
            "n_a",
            "n_b",
            "mean_a",
            "mean_b",
            "ratio",
            "ratio_low",
            "ratio_high",
            "p_difference",
            "p_difference_adjusted",
            "verdict",
        )
        if not self.comparisons:
            return None
        table = self.to_polars()
        # A single run decides nothing.
        verdict = _choose_free_column_name("verdict", self.strata)
        shown = [one.shown_verdict for one in self.comparisons]
        table = table.with_columns(pl.Series(verdict, shown, dtype=pl.String))
        return table.select(*self.strata, *(_choose_free_column_name(name, self.strata) for name in ("a", "b", *ratio)))

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


@return_callers_frame_kind
def compare_runs(
    source: object,
    metric: str | None = None,
    by: str | None = None,
    base: object = None,
    *,
    within: Sequence[str] | None = None,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    margin: float = MARGIN,
    level: float = LEVEL,
    include_status: str | Collection[str] = (),
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
        source: a dataset; a polars, pandas or Arrow frame of runs; columns by name; a path of raw files, of a dataset
            or of a table of results. In a frame, a column with few levels that is no metric is held equal, and
            synonyms are understood: `clients` are threads, `rep` numbers the repetitions.
        metric: a numeric column of `runs`, or of `operation_latencies` when a dataset is given; by default the
            throughput, or the only measured column.
        by: column whose levels are compared: of `runs`, or `family`, `settings`, `variant` of its set-up, or a column
            of a table of results; by default the system, else the set-ups, else the only factor.
        base: level that the others are compared with; by default the set-up with the most runs, if whole set-ups are
            compared (`variant`, `set_up`), otherwise the first level of each stratum.
        within: columns to hold equal, instead of the whole configuration.
        pool: columns of the configuration that need not be equal; `experiment` to pool runs that experiments made at
            the same configuration.
        only: column -> value; selects comparisons (or runs, for a column that is not held equal).
        margin: relative difference that counts as none.
        level: confidence level.
        include_status: `degraded` to compare degraded runs as well; a warning gives their number.
        higher_is_better: by default derived from the metric's name: lower times and numbers of failures are better.

    Raises:
        UnknownNameError: no such column, metric or base level.
        UsageError: another status cannot be allowed, or the table has two readings, which the message names.
        InsufficientDataError: no run is left, or no two levels have runs that agree in all columns to hold equal.

    Example:
        >>> runs = pl.DataFrame({"system": ["x"] * 3 + ["y"] * 3, "throughput_ops_s": [10.0, 11, 12, 20, 21, 22]})
        >>> [(c.label_a, c.verdict) for c in compare_runs(runs)]
        [('y', 'faster')]
    """
    named = [*([by] if by else []), *(within or ()), *(only or {})]
    studied = read_studied_runs(source, metric, named, pool)
    metric = studied.metric
    chosen_by = None if by else choose_compared_column(studied)
    by = studied.find_column(by or str(chosen_by))
    choice = Question(
        include_status=split_names(include_status), only=only or {}, pool=tuple(pool), level=level, margin=margin
    )
    question = ComparisonQuestion.from_studied_runs(
        studied, by, choice, base=base, within=within, higher_is_better=higher_is_better
    )
    asked = ask(studied.runs, question)
    runs, question = asked.runs, asked.question
    usual = base is None and by in _NAMES_OF_SET_UPS
    alone, unmet = _compare_with_usual_base(runs, question) if usual else ([], [])
    alone = alone or list(iterate_unadjusted_comparisons(runs, question))
    found = _adjust_comparisons(alone, runs, question) if within is None else compare_many(alone, level=level)
    of_set_ups = base is None and "variant" in studied.runs.columns
    if not found and chosen_by == "system" and of_set_ups and studied.runs["variant"].drop_nulls().n_unique() > 1:
        by_set_up = compare_runs(
            studied.runs,
            metric,
            "variant",
            base,
            within=within,
            pool=pool,
            only=only,
            margin=margin,
            level=level,
            include_status=include_status,
            higher_is_better=higher_is_better,
        )
        note = "compared by variant: no two levels of system have runs that are equal otherwise"
        return replace(by_set_up, warnings=(note, *by_set_up.warnings))
    nothing = () if found else (_explain_no_comparison(runs, question),)
    also = tuple(f"{column} differs along with {by}: the comparison is of both" for column in asked.along if found)
    kept = tuple(one for one in found if is_shown(one, asked.shown))
    of_table = studied.design.notes({by, metric}) if studied.design else ()
    # A comparison of systems is what a reader expects.
    is_usual = chosen_by in (None, "system")
    chosen_note = () if is_usual else (f"compared by {studied.callers_name(by)}, as nothing else is asked for",)
    warnings = list_unique_warnings(
        (*asked.notes, *nothing, *also, *unmet, *of_table, *chosen_note, *_write_few_runs_note(kept))
    )
    several = ("experiment",) if any("experiment" in one.stratum for one in kept) else ()
    strata = tuple(dict.fromkeys((*question.strata, *several)))
    return _give_callers_names(RunComparison(kept, by, metric, strata, question.pool, warnings, runs), studied)


def _give_callers_names(found: RunComparison, studied: StudiedRuns) -> RunComparison:
    """The result with the caller's names of columns."""
    if studied.design is None or not studied.design.names:
        return found
    name = studied.callers_name
    comparisons = tuple(
        replace(one, stratum={name(column): value for column, value in one.stratum.items()})
        for one in found.comparisons
    )
    strata, pool = tuple(map(name, found.strata)), tuple(map(name, found.pool))
    return replace(found, comparisons=comparisons, by=name(found.by), strata=strata, pool=pool)


def choose_compared_column(studied: StudiedRuns) -> str:
    """The column to compare where none is asked for: the system, else the set-ups, else the only factor.

    Raises:
        UsageError: several columns can be compared.
        InsufficientDataError: nothing differs between the runs.

    Example:
        >>> runs = pl.DataFrame({"version": ["a", "b"] * 2, "clients": [1, 1, 8, 8], "tps": [9.5, 8.1, 40.2, 30.3]})
        >>> choose_compared_column(read_studied_runs(runs))
        'version'
    """
    runs = studied.runs
    varying = [name for name in runs.columns if runs[name].drop_nulls().n_unique() > 1]
    for name in ("system", "variant"):
        if name in varying and name in CONFIGURATION_NAMES:
            return name
    own = [name for name in studied.factors if name in varying]
    texts = [name for name in own if not runs.schema[name].is_numeric()]
    load = [name for name in CONFIGURATION_NAMES if name in varying and name not in _AXES]
    sizes = [name for name in ("workers", "threads", *_AXES) if name in varying]
    for names in (texts, [*own, *(name for name in load if not own)], list(dict.fromkeys(sizes))[:1]):
        if len(names) > 1:
            said = [studied.callers_name(name) for name in names]
            raise UsageError(f"{' and '.join(said[:4])} can be compared: which is not said", hint=f"by={said[0]!r}")
        if names:
            return names[0]
    if "system" in runs.columns:
        return "system"
    raise InsufficientDataError("nothing to compare: the runs differ in nothing that the table says")


#: Columns that name whole set-ups; the one with the most runs is the base, whatever the order of their names.
_NAMES_OF_SET_UPS: Final = ("variant", "set_up", "family")
#: Columns by which set-ups are told apart, so that a comparison by one of them is also one of variants.
_TELL_SET_UPS: Final = frozenset({*VARIANT, "variant", "set_up", "resource"})


def choose_usual_level(runs: pl.DataFrame, by: str) -> object:
    """The level of a column that has the most runs; of several the usual set-up, or the first in order.

    Example:
        >>> choose_usual_level(pl.DataFrame({"variant": ["b", "a", "b"]}), "variant")
        'b'
    """
    counts = runs.drop_nulls(by).group_by(by).len()
    unusual = ~pl.col(by).cast(pl.String).str.contains(f"^$|{USUAL_SET_UP}")
    return counts.sort(-pl.col("len").cast(pl.Int64), unusual, by)[by][0]


def _compare_with_usual_base(runs: pl.DataFrame, question: ComparisonQuestion) -> tuple[list[Comparison], list[str]]:
    """All comparisons with the usual level, and a note on the places that lack it."""
    base = choose_usual_level(runs, question.by)
    found = list(iterate_unadjusted_comparisons(runs, replace(question, base=base)))
    lacking = [
        part
        for _, part in iterate_groups(runs, question.strata)
        if base not in part[question.by] and part[question.by].n_unique() > 1
    ]
    name = format_setup_value(question.by, base)
    notes = [f"{pluralize(len(lacking), 'configuration')} without the base {name} left out: name another base for them"]
    return found, notes if lacking else []


def _adjust_comparisons(
    found: Sequence[Comparison], runs: pl.DataFrame, question: ComparisonQuestion
) -> tuple[Comparison, ...]:
    """Comparisons with adjusted verdicts, which are those of the same runs however their set-ups are named.

    A comparison by a column that tells set-ups apart is also one of variants. The family is then all comparisons of
    variants with the base's, whichever of them were asked for.
    """
    if question.by not in _TELL_SET_UPS or question.pool or "variant" not in runs.columns:
        return compare_many(found, level=question.level)
    keyed = [(one, _list_variant_names(one)[1]) for one in found]
    seen = {_list_run_rows(one) for one in found}
    others: list[tuple[Comparison, tuple[str, ...]]] = []
    if question.by != "variant":
        held = replace(question, by="variant", strata=comparability(runs, "variant").strata)
        for base in dict.fromkeys(name for _, names in keyed for name in names):
            asked = (
                one
                for one in iterate_unadjusted_comparisons(runs, replace(held, base=base))
                if _list_run_rows(one) not in seen
            )
            others += [(one, (base,)) for one in asked]
    families = [replace(one, holm_family=f"{one.holm_family}\0{names}") for one, names in (*keyed, *others)]
    adjusted = compare_many(families, level=question.level)[: len(keyed)]
    return tuple(replace(one, holm_family=asked.holm_family) for one, (asked, _) in zip(adjusted, keyed, strict=True))


def _list_variant_names(one: Comparison) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the variants on either side."""
    first, second = one.sides or (pl.DataFrame(), pl.DataFrame())
    return tuple(first["variant"].unique().sort()), tuple(second["variant"].unique().sort())


def _list_run_rows(one: Comparison) -> tuple[frozenset[int], frozenset[int]]:
    """The runs of either side, by their place in the table of all."""
    first, second = one.sides or (pl.DataFrame(), pl.DataFrame())
    return frozenset(first[_PLACE]), frozenset(second[_PLACE])


@dataclass(frozen=True)
class QuestionRuns:
    """A question with the runs that it is about.

    Attributes:
        runs: the runs to compare.
        question: the question with its base as a value of the column, and with the columns that are held equal.
        along: columns of the system that change along with the compared one.
        shown: column that is held equal -> value that selects comparisons.
        notes: notes on runs that were left out.
    """

    runs: pl.DataFrame
    question: ComparisonQuestion
    along: tuple[str, ...]
    shown: Mapping[str, object]
    notes: tuple[str, ...]


def ask(frame: pl.DataFrame, question: ComparisonQuestion) -> QuestionRuns:
    """Select the runs to compare, and the columns to hold equal; see :func:`compare_runs`.

    Args:
        frame: described runs with the metric.
        question: the question without its strata; its base is a value as displayed.

    Raises:
        UnknownNameError: no such column or base level.
        InsufficientDataError: no run is left, or none has a value of the compared column.
    """
    metric, by = question.metric, question.by
    within, statuses = question.within, question.include_status
    check_columns(frame, (by, *(within or ()), *question.pool))
    usable, notes = select_measured_runs(frame, metric, statuses, question.only)
    refuse_unknown(usable, by, "by")
    runs, _ = select_measured_runs(frame.filter(pl.col(by).is_not_null()), metric, statuses)
    if unknown := usable[by].null_count():
        notes = (*notes, f"{pluralize(unknown, 'run')} left out: no {by}")
    held = comparability(runs, by, question.pool, question.factors, question.replaced)
    strata, along = (held.strata, held.along) if within is None else (within, ())
    shown, chosen = split_selection(question.only, strata)
    runs = filter_runs_by_values(runs, chosen)
    base_level = _find_base_level(runs[by].unique().sort(), question.base, by)
    runs, unusable = _select_positive_groups(runs, metric, (*strata, by))
    apart = by != "experiment" and "experiment" not in question.pool
    if apart and by in _AXES:
        runs, left_out = keep_one_experiment(runs, strata, by)
        unusable = [*unusable, *left_out]
    asked = replace(question, base=base_level, strata=strata, experiments_apart=apart)
    return QuestionRuns(runs.with_row_index(_PLACE), asked, along, shown, (*notes, *unusable))


def split_selection(only: Mapping[str, object], strata: Sequence[str]) -> tuple[dict[str, object], dict[str, object]]:
    """The part of `only` that selects comparisons, and the part that selects runs before they are compared.

    Columns that are held equal only select the comparisons to show, so that a family of comparisons, and with it each
    p-value, does not depend on the selection.
    """
    shown = {name: value for name, value in only.items() if name in strata}
    return shown, {name: value for name, value in only.items() if name not in strata}


def is_shown(comparison: Comparison, shown: Mapping[str, object]) -> bool:
    """Whether the stratum of a comparison has these values, as they are or as displayed."""
    return all(
        str(value) in (format_setup_value(name, comparison.stratum[name]), str(comparison.stratum[name]))
        for name, value in shown.items()
    )


def _select_positive_groups(runs: pl.DataFrame, metric: str, groups: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """Runs of the groups with a positive mean, which a ratio needs, and a note on the others."""
    positive = pl.col(metric).mean().over(groups) > 0
    dropped = runs.filter(~positive).select(groups).unique().height
    note = f"{dropped} group{'s' if dropped > 1 else ''} left out: a mean {metric} that is not positive has no ratio"
    return runs.filter(positive), [note] if dropped else []


def _find_base_level(levels: pl.Series, base: object, by: str) -> object:
    if base is None:
        return None
    named = {format_setup_value(by, value): value for value in levels.to_list()}
    if format_setup_value(by, base) not in named:
        raise UnknownNameError(by, str(base), named)
    return named[format_setup_value(by, base)]


def _explain_no_comparison(runs: pl.DataFrame, question: ComparisonQuestion) -> str:
    """The reason why nothing can be compared; an error with the way out if other columns could be pooled."""
    by, strata = question.by, question.strata
    if runs[by].n_unique() < 2:
        return f"nothing to compare: {by} has one level"
    closest = find_closest_difference(runs, by, strata)
    if not closest:
        return f"nothing to compare: no run at {by} {question.base} agrees with any other in {', '.join(strata)}"
    raise InsufficientDataError(
        f"nothing to compare: no two levels of {by} have runs with equal {', '.join(strata)}; "
        f"the closest differ in {', '.join(closest)}",
        hint=f"pool these to compare them all the same (--pool {','.join(closest)}; pool={list(closest)} in Python)",
    )


def _write_few_runs_note(comparisons: Sequence[Comparison]) -> list[str]:
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
        **{name: _convert_table_value(value) for name, value in named.items()},
        "level": comparison.ratio.level,
        "method": comparison.ratio.method,
        "design": comparison.design,
        "design_reason": comparison.design_reason,
        "order": comparison.order,
    }
    place = {column: comparison.stratum.get(column) for column in strata}
    return place | {_choose_free_column_name(name, strata): value for name, value in found.items()}


def _choose_free_column_name(name: str, strata: Sequence[str]) -> str:
    """The column of a result, which does not overwrite a column of the set-up."""
    return f"comparison_{name}" if name in strata else name


def _convert_table_value(value: object) -> object:
    """A value for a table: null instead of nan, and the estimate of an interval."""
    if isinstance(value, Interval):
        return value.estimate
    return None if isinstance(value, float) and math.isnan(value) else value


#: Rows of comparisons in the short text, and its lines.
_ROWS_SHOWN: Final = 8
_LINES_SHOWN: Final = 12


def format_narrow_comparison(found: RunComparison, most: int | None = None, width: int | None = None) -> list[str]:
    """Comparisons as a table for a screen: what the rows have in common is said above.

    Args:
        found: the comparisons.
        most: rows to show; None: all.
        width: characters of a line; columns of the set-ups that do not fit stand above the rows that share them.

    Example:
        >>> runs = {"version": [*"ababab"], "tps": [10.1, 20.2, 10.3, 20.1, 10.2, 20.4]}
        >>> for line in format_narrow_comparison(compare_runs(runs)):
        ...     print(line)
        tps by version, b against a (95 %, Welch t on the log ratio)
        before  after  ratio  interval        n  verdict
          10.2  20.23  1.984  [1.944, 2.024]  3  faster
    """
    items = found.comparisons
    if not items:
        return [f"no comparison of {found.metric} by {found.by}"]
    columns: dict[str, list[str]] = {
        name: [format_setup_value(name, one.stratum.get(name)) for one in items] for name in found.strata
    }
    columns |= {found.by: [one.label_a for one in items], "against": [one.label_b for one in items]}
    shared = {name: cells[0] for name, cells in columns.items() if len(set(cells)) == 1}
    ratios = [one.deciding for one in items]
    methods = list_unique_warnings(f"{one.level * 100:g} %, {one.method}" for one in ratios)
    sides = [f"{shared[name]}" for name in (found.by, "against") if name in shared]
    subject = (
        f", {' against '.join(sides)}" if len(sides) == 2 else f", against {sides[0]}" if "against" in shared else ""
    )
    head = f"{found.metric} by {found.by}{subject} ({methods[0]}{', or as stated' if len(methods) > 1 else ''})"
    same = [f"{name} {value}" for name, value in shared.items() if name in found.strata and value not in ("", "None")]
    cells = {name: values for name, values in columns.items() if name not in shared or name == found.by == ""}
    movable = len(cells)
    cells |= {
        "before": [format_number(one.mean_b.estimate) for one in items],
        "after": [format_number(one.mean_a.estimate) for one in items],
        "ratio": [format_number(one.estimate) for one in ratios],
        "interval": [one.ends_text() or "-" for one in ratios],
        "n": [
            str(one.mean_a.n) if one.mean_a.n == one.mean_b.n else f"{one.mean_a.n} and {one.mean_b.n}" for one in items
        ],
        "verdict": [one.shown_verdict for one in items],
    }
    right = {place for place, name in enumerate(cells) if name in ("before", "after", "ratio", "n")}
    rows = [list(row) for row in zip(*cells.values(), strict=True)]
    table = render_grouped_table(list(cells), rows[:most], movable=movable, width=width, right=right)
    more = [f"... and {len(rows) - most} more: .table()"] if most is not None and len(rows) > most else []
    return [head, *([f"in all: {', '.join(same)}"] if same else []), *table, *more]


# Comparisons as a text table in the style of benchstat.

#: Explanation of adjusted p-values and intervals, for a legend.
ADJUSTED: Final = (
    "verdicts use p adjusted by Holm over all comparisons of one operation with one base; intervals of their "
    "ratios are simultaneous (Bonferroni), or of the step of Holm's procedure that decided"
)
_HEAD = ("", "n", "mean", "interval", "vs base", "p", "p adjusted", "verdict")


#: A note on one side: its name, and what is true of it.
_POOLS: Final = re.compile(r" pools several values of (?P<column>[^:]+)(?:: (?P<values>.*))?", re.DOTALL)


def merge_notes(comparisons: Iterable[Comparison]) -> dict[str, str]:
    """Each warning of comparisons, and the note that says it once of all sides of which it is true.

    Example:
        >>> from citus_analysis.stats import compare
        >>> two = compare([20.0, 21], [10.0, 11], label_a="y", label_b="x")
        >>> list(dict.fromkeys(merge_notes([two]).values()))[0]
        'y and x: 2 runs; at least 3 are advised'
    """
    items = list(comparisons)
    labels = sorted({label for one in items for label in (one.label_a, one.label_b)}, key=len, reverse=True)
    facts: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    keys: dict[str, tuple[str, str]] = {}
    for note in list_unique_warnings(note for one in items for note in one.warnings):
        label = next((one for one in labels if note.startswith((f"{one}: ", f"{one} pools "))), None)
        rest = "" if label is None else note[len(label) :]
        pools = _POOLS.fullmatch(rest)
        key = ("pools", pools["column"]) if pools else ("is", rest) if label is not None else ("", note)
        facts[key].setdefault(label or "", (pools["values"] or "") if pools else "")
        keys[note] = key
    said = {key: _write_merged_note(*key, of_sides) for key, of_sides in facts.items()}
    return {note: said[key] for note, key in keys.items()}


def _write_merged_note(kind: str, fact: str, of_sides: Mapping[str, str]) -> str:
    """A note on several sides.

    Args:
        kind: `pools`, `is`, or empty for a note on the whole.
        fact: the column, or what is true.
        of_sides: name of each side, and its values.
    """
    if not kind:
        return fact
    sides = join_words(list(of_sides), most=_SIDES_NAMED)
    if kind == "is":
        return f"{sides}{fact}"
    values = "; ".join(value for value in of_sides.values() if value)
    return (
        f"{sides} {'pools' if len(of_sides) == 1 else 'pool'} several values of {fact}{f': {values}' if values else ''}"
    )


#: Sides that a note names.
_SIDES_NAMED: Final = 4


def format_comparison(comparisons: RunComparison | Iterable[Comparison]) -> str:
    """A table per stratum: mean with its interval, change against the base, p-value and verdict.

    `~` means that no difference was detected, `-` that there is no interval, and with it no verdict. Warnings follow as
    numbered notes, one for each fact.

    Example:
        >>> from citus_analysis.stats import compare
        >>> text = format_comparison([compare([20.0, 21, 22], [10.0, 11, 12], label_a="y", label_b="x")])
        >>> for line in text.splitlines()[:3]:
        ...     print(line)
                  n  mean  interval        vs base                    p      p adjusted  verdict
        x (base)  3  11    [8.776, 13.79]
        y         3  21    [18.66, 23.64]  +91 % [+58 %, +130 %] [1]  0.002  0.002       faster
    """
    whole = comparisons.warnings if isinstance(comparisons, RunComparison) else ()
    items = list(comparisons)
    merged = merge_notes(items)
    places = {note: number for number, note in enumerate(dict.fromkeys(merged.values()), 1)}
    numbers = {note: places[said] for note, said in merged.items()}
    blocks = []
    for key, group in groupby(items, key=lambda item: (item.metric, item.stratum)):
        blocks.append("\n".join([*_format_title(*key), *_format_comparison_table(list(group), numbers)]))
    remarks = [f"[{number}] {note}" for note, number in places.items()] + [f"note: {note}" for note in whole]
    return "\n\n".join([*blocks, "\n".join([*remarks, *_write_legend(items)])]).strip("\n")


def _write_legend(items: list[Comparison]) -> list[str]:
    if not items:
        return []
    mean, ratio = items[0].mean_a, items[0].ratio
    level = f"{ratio.level * 100:g} %"
    method = ", or ".join(
        list_unique_warnings(
            item.ratio.method.partition(", simultaneous")[0].partition(", Holm's")[0] for item in items
        )
    )
    equivalent = next((item.deciding for item in items if item.verdict == "equivalent"), None)
    tost = f"; of equivalent ones {equivalent.level * 100:g} %, two one-sided tests" if equivalent else ""
    planned = f"; more runs: {_describe_planned_runs(items)}" if any(item.runs_missing for item in items) else ""
    adjusted = f"; {ADJUSTED}" if any(item.family_size > 1 for item in items) else ""
    return [
        f"interval: {level}, of the mean ({mean.method}); vs base: ratio with {level} interval "
        f"({method}){tost}{adjusted}{planned}"
    ]


def _describe_planned_runs(items: list[Comparison]) -> str:
    """The plan of further runs, with the level of one comparison of a family."""
    sizes = {item.family_size for item in items if item.runs_missing}
    return f"{PLANNED}, each at its share of the level (Bonferroni)" if max(sizes) > 1 else PLANNED


def _format_title(metric: str, stratum: dict[str, object]) -> list[str]:
    line = "  ".join(part for part in (label(metric) if metric else "", format_configuration(stratum, "  ")) if part)
    return [line] if line else []


def _format_comparison_table(group: list[Comparison], numbers: dict[str, int]) -> list[str]:
    rows: list[list[str]] = []
    shown: set[str] = set()
    for item in group:
        if item.label_b not in shown:
            shown.add(item.label_b)
            rows.append([f"{item.label_b} (base)", *_format_mean_cells(item.mean_b), "", "", "", ""])
        marks = " ".join(f"[{number}]" for number in dict.fromkeys(numbers[note] for note in item.warnings))
        change = f"{change_text(item)} {marks}".strip()
        p_values = (format_p_value(item.p_difference), format_p_value(item.p_difference_adjusted))
        rows.append([item.label_a, *_format_mean_cells(item.mean_a), change, *p_values, _format_verdict(item)])
    return render_text_table(_HEAD, rows)


def _format_mean_cells(interval: Interval) -> tuple[str, str, str]:
    return str(interval.n), format_number(interval.estimate), interval.ends_text() or "-"


def change_text(item: Comparison) -> str:
    """The change against the base in per cent, with the interval that decided; `~` if none was detected.

    Without an interval it is the change alone, which decides nothing.

    Example:
        >>> from citus_analysis.stats import compare
        >>> change_text(compare([20.0, 21, 22], [10.0, 11, 12])), change_text(compare([20.0], [10.0]))
        ('+91 % [+58 %, +130 %]', '+100 %')
    """
    sign = _format_ratio_percent(item.ratio.estimate) if item.differs or not item.ratio.exists else "~"
    ends = (_format_ratio_percent(end) for end in (item.deciding.low, item.deciding.high))
    return f"{sign} [{', '.join(ends)}]" if item.ratio.exists else sign


def _format_ratio_percent(ratio: float) -> str:
    change = (ratio - 1) * 100
    return f"{change:+.0f} %" if abs(change) >= 10 else f"{change:+.1f} %"


def format_p_value(p: float) -> str:
    """A p-value as text.

    Example:
        >>> format_p_value(0.01423), format_p_value(0.00001), format_p_value(float("nan"))
        ('0.014', '<0.001', '-')
    """
    if math.isnan(p):
        return "-"
    return "<0.001" if p < 0.0005 else f"{p:.3f}"


def describe_p_values(comparison: Comparison) -> str:
    """The p-value of a difference and the adjusted one, for a sentence; empty if the comparison cannot be tested.

    Example:
        >>> from citus_analysis.stats import compare
        >>> describe_p_values(compare([20.0, 21, 22], [10.0, 11, 12]))
        'p = 0.002'
    """
    if math.isnan(comparison.p_difference):
        return ""
    raw = format_p_value(comparison.p_difference)
    adjusted = f", adjusted {format_p_value(comparison.p_difference_adjusted)}" if comparison.family_size > 1 else ""
    return f"p {'' if raw.startswith('<') else '= '}{raw}{adjusted}"


def _format_verdict(item: Comparison) -> str:
    if item.verdict == "equivalent":
        return f"equivalent (±{item.margin * 100:g} %)"
    if item.verdict != "inconclusive" or item.runs_missing is None or not item.ratio.exists:
        return item.shown_verdict
    return f"inconclusive (about {item.runs_missing:,} more {choose_noun_form(item.runs_missing, 'run')} each)"
