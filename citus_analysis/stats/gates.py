"""A gate: whether the runs of one dataset are as good as those of another, within a margin.

Each common configuration is one check. It passes if the ratio is significantly above the lower end of the margin
(equivalent, better, or not worse), fails if a difference for the worse is significant, and is undecided otherwise. The
gate passes only if all checks pass, so these tests need no adjustment (an intersection-union test passes wrongly no
more often than one of its tests). It fails if one check fails, so tests for a difference are adjusted by Holm's
procedure over all checks and metrics of the gate.

References:
    Berger, R. L. (1982). Multiparameter hypothesis testing and acceptance sampling. Technometrics 24.
    Piaggio, G. et al. (2012). Reporting of noninferiority and equivalence randomized trials. JAMA 308.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import TableSource, convert_to_polars, resolve_source
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.runs.design import find_synonym
from citus_analysis.runs.selection import split_names
from citus_analysis.runs.set_ups import CONFIGURATION, format_configuration
from citus_analysis.runs.setting_changes import change_words, find_setting_changes
from citus_analysis.runs.status import list_included_statuses
from citus_analysis.stats._validate import list_unique_warnings
from citus_analysis.stats.drift import is_interleaved
from citus_analysis.stats.run_comparisons import (
    ComparisonQuestion,
    QuestionRuns,
    ask,
    change_text,
    format_p_value,
    is_shown,
    iterate_unadjusted_comparisons,
)
from citus_analysis.stats.studied_runs import (
    StudiedRuns,
    get_metric_values,
    get_start_times_ms,
    read_studied_runs,
    read_values_as_runs,
    require_metric_direction,
    sort_runs_by_time,
)
from citus_analysis.stats.verdicts import PLANNED, Comparison, compare_many
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.tables import render_text_table
from citus_analysis.texts.words import pluralize

# The result of a gate: its checks, its verdict and exit code, and the runs that would decide.

GateVerdict = Literal["better", "equivalent", "not worse", "worse", "undecided"]
GateOutcome = Literal["passed", "failed", "undecided"]

_ALONG: Final = "{} differs between the datasets: the check is of both"
#: Exit code of the command for each outcome.
EXIT_CODES: Final[dict[GateOutcome, int]] = {"passed": 0, "failed": 1, "undecided": 4}


@dataclass(frozen=True, repr=False)
class GateCheck(DisplayMixin):
    """One configuration and metric of a gate.

    Attributes:
        verdict: ``equivalent`` (the ratio lies within the margin), ``better``, ``not worse`` (above the lower end of
            the margin; the runs do not show whether it is within it or better), ``worse`` or ``undecided``.
        comparison: candidate against baseline, adjusted over the whole gate.
        p_not_worse: one-sided test against the end of the margin on which the candidate is worse.
        more_of_candidate: further runs of the candidate that would decide; None if their number cannot be estimated.
        more_of_baseline: further runs of the baseline that would decide.
        resources: names of the candidate's configurations, for `run EXPERIMENT.yml NAME --more N`.
        baseline_resources: names of the baseline's configurations.
        values: the metric of the candidate's runs in the order of time.
        baseline_values: the metric of the baseline's runs in the order of time.
    """

    verdict: GateVerdict
    comparison: Comparison
    p_not_worse: float
    more_of_candidate: int | None
    more_of_baseline: int | None
    resources: tuple[str, ...] = ()
    baseline_resources: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    baseline_values: tuple[float, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the runs show that the candidate is not worse."""
        return self.verdict in ("better", "equivalent", "not worse")

    @property
    def name(self) -> str:
        """Metric and configuration."""
        return ", ".join(
            part for part in (self.comparison.metric, format_configuration(self.comparison.stratum)) if part
        )

    def summary_lines(self) -> list[str]:
        """The finding, and the runs that would decide."""
        one = self.comparison
        means = f"{format_number(one.mean_a.estimate)} against {format_number(one.mean_b.estimate)}"
        return [f"{self.name}: {self.verdict}, {means}, {change_text(one)}{self.advice()}"]

    def advice(self) -> str:
        """The further runs that would decide, in words; empty if the check is decided."""
        if self.verdict != "undecided":
            return ""
        if self.more_of_candidate is None or self.more_of_baseline is None:
            return "; runs of both sides are needed to know the spread"
        more = {"the candidate": self.more_of_candidate, "the baseline": self.more_of_baseline}
        words = " and ".join(f"{pluralize(n, 'run')} of {side}" for side, n in more.items() if n)
        return f"; about {words} more would decide ({PLANNED})"

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        one = self.comparison
        return {
            "metric": one.metric,
            "configuration": dict(one.stratum),
            "verdict": self.verdict,
            "n": one.mean_a.n,
            "n_baseline": one.mean_b.n,
            "mean": one.mean_a.estimate,
            "mean_baseline": one.mean_b.estimate,
            **one.ratio.record("ratio"),
            "p_not_worse": self.p_not_worse,
            **{name: getattr(one, name) for name in ("p_equivalence", "p_difference", "p_difference_adjusted")},
            "more_of_candidate": self.more_of_candidate,
            "more_of_baseline": self.more_of_baseline,
            "resources": list(self.resources),
            "baseline_resources": list(self.baseline_resources),
            "method": one.ratio.method,
            "warnings": list(one.warnings),
        }


@dataclass(frozen=True, repr=False)
class Gate(DisplayMixin):
    """The result of a gate: whether a dataset passes.

    Attributes:
        checks: one per metric and configuration that both sides have.
        metrics: the compared metrics.
        margin: relative difference that counts as none.
        level: confidence level.
        failed_runs: configurations of the baseline for which all runs of the candidate failed.
        not_measured: configurations of the baseline for which the candidate has no runs; they do not count.
        changes: settings and versions that differ between the two, in words.
        warnings: caveats.
    """

    checks: tuple[GateCheck, ...]
    metrics: tuple[str, ...]
    margin: float
    level: float
    failed_runs: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    changes: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> GateOutcome:
        """``failed`` if a check is worse, ``passed`` if all pass, otherwise ``undecided``."""
        if any(check.verdict == "worse" for check in self.checks):
            return "failed"
        return "passed" if not self.failed_runs and all(check.passes for check in self.checks) else "undecided"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 4 undecided."""
        return EXIT_CODES[self.verdict]

    def summary_lines(self) -> list[str]:
        """The verdict, the checks that did not pass, and the notes."""
        counts = Counter(check.verdict for check in self.checks)
        words = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
        first = f"{self.verdict}: {words} (margin {self.margin * 100:g} %, level {self.level * 100:g} %)"
        return [
            first,
            *(f"  {check.summary_lines()[0]}" for check in self.checks if not check.passes),
            *(f"  note: {note}" for note in self.notes()),
        ]

    def notes(self) -> tuple[str, ...]:
        """Differences between the datasets, configurations that could not be checked, and warnings."""
        return list_unique_warnings(
            [
                *([f"also differs between the datasets: {self.changes}"] if self.changes else []),
                *(f"no run of the candidate is ok: {cell}" for cell in self.failed_runs),
                *(f"not measured by the candidate, not checked: {cell}" for cell in self.not_measured),
                *self.warnings,
                *(note for check in self.checks for note in check.comparison.warnings),
            ]
        )

    def commands(self) -> list[str]:
        """The commands that make exactly the missing runs; empty if all checks are decided."""
        wanted: dict[tuple[str, str], int] = {}
        for check in self.checks:
            for side, names, more in (
                ("CANDIDATE", check.resources, check.more_of_candidate),
                ("BASELINE", check.baseline_resources, check.more_of_baseline),
            ):
                for name in names if more else ():
                    wanted[side, name] = max(more or 0, wanted.get((side, name), 0))
        return [
            f"citus-analysis run EXPERIMENT.yml {name} --more {more} --out {side}_TREE"
            for (side, name), more in wanted.items()
        ]

    def summary_table(self) -> pl.DataFrame:
        """One row per check."""
        return pl.DataFrame(
            [{"check": c.name, "verdict": c.verdict, "ratio": c.comparison.ratio.estimate} for c in self.checks]
        )

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in ("verdict", "exit_code", "margin", "level")},
            "metrics": list(self.metrics),
            "checks": [check.to_dict() for check in self.checks],
            "failed_runs": list(self.failed_runs),
            "not_measured": list(self.not_measured),
            "changes": self.changes,
            "warnings": list(self.warnings),
            "commands": self.commands(),
        }


def format_gate(found: Gate) -> str:
    """A gate as text: the verdict, a table of the checks, the runs that would decide, and notes.

    Example:
        >>> import polars as pl
        >>> from citus_analysis.stats import gate
        >>> runs = pl.DataFrame({"throughput_ops_s": [99.0, 100.0, 101.0]})
        >>> for line in format_gate(gate(runs, runs)).splitlines()[:4]:
        ...     print(line)
        passed: 1 equivalent (margin 5 %, level 95 %)
        <BLANKLINE>
                  metric            candidate  baseline  runs     change              p not worse  verdict
        all runs  throughput_ops_s  100        100       3 and 3  ~ [-1.7 %, +1.8 %]  0.002        equivalent
    """
    head = ("", "metric", "candidate", "baseline", "runs", "change", "p not worse", "verdict")
    rows = []
    for check in found.checks:
        one = check.comparison
        where = format_configuration(one.stratum) or "all runs"
        means = (
            format_number(one.mean_a.estimate),
            format_number(one.mean_b.estimate),
            f"{one.mean_a.n} and {one.mean_b.n}",
        )
        rows.append([where, one.metric, *means, change_text(one), format_p_value(check.p_not_worse), check.verdict])
    advice = [f"{check.name}{check.advice()}" for check in found.checks if check.advice()]
    parts = [
        found.summary_lines()[0],
        "\n".join(render_text_table(head, rows)),
        "\n".join([*advice, *found.commands()]),
        "\n".join(f"note: {note}" for note in found.notes()),
    ]
    return "\n\n".join(part for part in parts if part)


Side = Literal["candidate", "baseline"]

_SIDE: Final = "dataset"
_SIDES: Final[tuple[Side, Side]] = ("candidate", "baseline")


def gate(
    candidate: object,
    baseline: object,
    metrics: str | Sequence[str] | None = None,
    *,
    margin: float = MARGIN,
    within: Sequence[str] | None = None,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    level: float = LEVEL,
    include_status: str | Collection[str] = (),
) -> Gate:
    """Judge the runs of a dataset by those of another, configuration by configuration.

    Args:
        candidate: what is judged: what :func:`citus_analysis.study` takes, or a list of values of one metric.
        baseline: what it is judged by, likewise.
        metrics: one or several measured columns, or metrics of `operation_latencies` if datasets are given; by default
            the only measured column, or the throughput.
        margin: relative difference that counts as none (0.05 = 5 %, from 1/1.05 to 1.05).
        within: columns to hold equal, instead of the whole configuration.
        pool: columns of the configuration that need not be equal.
        only: column -> value; selects checks (or runs, for a column that is not held equal).
        level: confidence level; the tests use 1 - level.
        include_status: `degraded` to judge degraded runs of both datasets as well; a warning gives their number.

    Raises:
        UnknownNameError: no such column or metric.
        UsageError: another status cannot be allowed, the name of a metric does not say whether higher is better, or
            a side has two readings or is none that is understood.
        InsufficientDataError: a side has no run with the metric, or the two have no configuration in common.

    Example:
        >>> runs = lambda *values: pl.DataFrame({"workers": [2] * len(values), "throughput_ops_s": values})
        >>> found = gate(runs(99.0, 100.0, 101.0, 100.0), runs(100.0, 101.0, 99.0, 100.0))
        >>> found.verdict, found.exit_code
        ('passed', 0)
        >>> gate(runs(89.0, 90.0, 91.0), runs(100.0, 101.0, 99.0)).verdict
        'failed'
        >>> gate([89.0, 90.0, 91.0], [100.0, 101.0, 99.0], "p99_ms").verdict
        'passed'
    """
    names = [metrics] if metrics is None or isinstance(metrics, str) else list(dict.fromkeys(metrics))
    # Paths are read once.
    candidate, baseline = (_resolve_side(one, names[0]) for one in (candidate, baseline))
    question = ComparisonQuestion(
        metric="",
        by=_SIDE,
        base="baseline",
        within=None if within is None else tuple(within),
        pool=tuple(pool),
        only=dict(only or {}),
        margin=margin,
        level=level,
        include_status=split_names(include_status),
    )
    asked, tables = [], []
    notes: list[str] = []
    for name in names:
        named = (*(within or ()), *(only or {}))
        both = read_studied_runs(candidate, name, named, pool), read_studied_runs(baseline, name, named, pool)
        metric, translated = _translate_question(question, both, name)
        tables.append(_combine_both_sides(*both, metric))
        asked.append(_ask_gate_question(tables[-1], translated))
        notes += _note_own_differences(both)
    found = [(one, c) for one in asked for c in iterate_unadjusted_comparisons(one.runs, one.question)]
    # One family over all configurations and metrics: the gate fails if one of them does.
    adjusted = compare_many([replace(c, holm_family="gate") for _, c in found], level=level)
    checks = tuple(
        _check(_give_callers_names(c, both[1]), level)
        for (one, _), c in zip(found, adjusted, strict=True)
        if is_shown(c, one.shown)
    )
    if not checks:
        hint = "pool the columns in which they differ (--pool), or hold only some equal (--within)"
        raise InsufficientDataError("candidate and baseline have no configuration in common", hint=hint)
    cells = [_find_unmatched_configurations(table, one) for table, one in zip(tables, asked, strict=True)]
    notes += [note for one in asked for note in (*one.notes, *map(_ALONG.format, one.along))]
    return Gate(
        checks=checks,
        metrics=tuple(dict.fromkeys(one.question.metric for one in asked)),
        margin=margin,
        level=level,
        failed_runs=list_unique_warnings(cell for without, _ in cells for cell in without),
        not_measured=list_unique_warnings(cell for _, absent in cells for cell in absent),
        changes=_changes(candidate, baseline, checks),
        warnings=list_unique_warnings(notes),
    )


def _give_callers_names(comparison: Comparison, studied: StudiedRuns) -> Comparison:
    named = {studied.callers_name(column): value for column, value in comparison.stratum.items()}
    return replace(comparison, stratum=named)


def _resolve_side(source: object, metric: str | None) -> object:
    """A side as something from which runs are read; a study keeps the design that its caller stated."""
    runs = read_values_as_runs(source, metric)
    return runs if isinstance(runs, DisplayMixin) else resolve_source(runs)


def _translate_question(
    question: ComparisonQuestion, both: Sequence[StudiedRuns], name: str | None
) -> tuple[str, ComparisonQuestion]:
    """The metric of both sides, and the question with the names of columns that the runs have.

    Raises:
        UsageError: the two are measured in different columns.
    """
    of_candidate, of_baseline = (one.metric for one in both)
    metric = name or of_baseline
    for found in (of_candidate, of_baseline):
        if found != metric and find_synonym(metric, [found]) is None:
            if name is not None:
                raise UnknownNameError("metric", name, list(dict.fromkeys((of_candidate, of_baseline))))
            raise UsageError(
                f"the candidate is measured by {of_candidate}, the baseline by {of_baseline}", hint="name the metric"
            )
    find = both[0].find_column
    translated = replace(
        question,
        metric=metric,
        higher_is_better=require_metric_direction(metric),
        within=None if question.within is None else tuple(map(find, question.within)),
        pool=tuple(map(find, question.pool)),
        only={find(column): value for column, value in question.only.items()},
        # A system has another name on each side.
        factors=tuple(dict.fromkeys(name for one in both for name in one.factors if name != "resource")),
        replaced=tuple(dict.fromkeys(column for one in both for column in one.replaced)),
    )
    return metric, translated


def _note_own_differences(both: Sequence[StudiedRuns]) -> Iterator[str]:
    """Columns of callers' tables that have one value on each side, and not the same: nothing holds them equal."""
    candidate, baseline = both
    if candidate.design is None or baseline.design is None:
        return
    for name in baseline.design.constant:
        if name in candidate.design.constant and name not in CONFIGURATION:
            values = [one.runs[name].drop_nulls().unique().to_list() for one in both]
            if values[0] != values[1]:
                yield _ALONG.format(baseline.callers_name(name))


def _combine_both_sides(candidate: StudiedRuns, baseline: StudiedRuns, metric: str) -> pl.DataFrame:
    """All runs with their side as a column; if one side was made after the other, iterations are renumbered.

    Raises:
        UsageError: a column holds texts on one side and numbers on the other.
    """
    parts = {
        side: one.runs.with_columns(
            pl.col(one.metric).alias(metric),
            pl.lit(side).alias(_SIDE),
            # The runs of a table without a status are those that its owner uses.
            *([] if "status" in one.runs.columns else [pl.lit("ok").alias("status")]),
        )
        for side, one in zip(_SIDES, (candidate, baseline), strict=True)
    }
    times = [
        times
        for part in parts.values()
        if (times := get_start_times_ms(part.drop_nulls(metric))) is not None and times.size
    ]
    together = len(times) == len(parts) and is_interleaved(times)
    if not together and all("iteration" in part.columns for part in parts.values()):
        last = parts["baseline"]["iteration"].cast(pl.Int64).max()
        shifted = pl.col("iteration").cast(pl.Int64) + pl.lit(last if isinstance(last, int) else 0)
        parts["candidate"] = parts["candidate"].with_columns(shifted)
    try:
        return pl.concat(parts.values(), how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        problem = f"a column has values of two kinds in candidate and baseline: {str(error).splitlines()[0]}"
        raise UsageError(problem, hint="give both the same types") from error


def _ask_gate_question(table: pl.DataFrame, question: ComparisonQuestion) -> QuestionRuns:
    statuses = list_included_statuses(question.include_status)
    for side in _SIDES:
        usable = table.filter(pl.col(_SIDE) == side)
        if "status" in table.columns:
            usable = usable.filter(pl.col("status").cast(pl.String).is_in(statuses))
        if usable[question.metric].drop_nulls().is_empty():
            status = " or ".join(statuses)
            raise InsufficientDataError(f"the {side} has no run with status {status} and a {question.metric}")
    return ask(table, question)


def _check(comparison: Comparison, level: float) -> GateCheck:
    better, margin = comparison.higher_is_better is not False, comparison.margin
    evidence, alpha = comparison.evidence, 1 - level
    p_not_worse = evidence.p_not_worse(margin, higher_is_better=better)
    needed = evidence.runs_to_gate(margin, alpha, comparison.family_size, higher_is_better=better)
    verdict = _decide_gate_verdict(comparison, p_not_worse, alpha)
    sides = (comparison.mean_a, comparison.mean_b)
    short = [None if needed is None else max(0, needed - side.n) for side in sides]
    if verdict == "undecided" and needed is not None and not any(short):
        # There are as many runs as planned, but they do not decide.
        short = [1, 1]
    runs = dict(zip(_SIDES, map(sort_runs_by_time, comparison.sides or ()), strict=True))
    return GateCheck(
        verdict=verdict,
        comparison=comparison,
        p_not_worse=p_not_worse,
        more_of_candidate=short[0] if verdict == "undecided" else 0,
        more_of_baseline=short[1] if verdict == "undecided" else 0,
        resources=_list_resource_names(runs["candidate"]),
        baseline_resources=_list_resource_names(runs["baseline"]),
        values=tuple(get_metric_values(runs["candidate"], comparison.metric).tolist()),
        baseline_values=tuple(get_metric_values(runs["baseline"], comparison.metric).tolist()),
    )


def _decide_gate_verdict(comparison: Comparison, p_not_worse: float, alpha: float) -> GateVerdict:
    """The verdict of one check; `undecided` for p-values of nan, which mean that there is no spread."""
    differs = comparison.p_difference_adjusted <= alpha
    gains = (comparison.ratio.estimate > 1) == comparison.higher_is_better
    if comparison.p_equivalence <= alpha:
        return "equivalent"
    if p_not_worse <= alpha:
        return "better" if differs and gains else "not worse"
    return "worse" if differs and not gains else "undecided"


def _list_resource_names(runs: pl.DataFrame) -> tuple[str, ...]:
    return tuple(runs["resource"].drop_nulls().unique().sort()) if "resource" in runs.columns else ()


def _find_unmatched_configurations(table: pl.DataFrame, asked: QuestionRuns) -> tuple[list[str], list[str]]:
    """Configurations of the baseline for which all runs of the candidate failed, and those for which it has none."""
    strata = asked.question.strata
    compared, tried = (_list_configuration_sides(frame, strata) for frame in (asked.runs, table))
    of_baseline = dict.fromkeys(name for name, side in compared if side == "baseline")
    left = [name for name in of_baseline if (name, "candidate") not in set(compared)]
    failed = [name for name in left if (name, "candidate") in set(tried)]
    return failed, [name for name in left if name not in failed]


def _list_configuration_sides(frame: pl.DataFrame, strata: Sequence[str]) -> list[tuple[str, str]]:
    rows = frame.select(*strata, _SIDE).unique(maintain_order=True).iter_rows(named=True)
    return [(format_configuration({name: row[name] for name in strata}) or "all runs", row[_SIDE]) for row in rows]


def _changes(candidate: object, baseline: object, checks: Sequence[GateCheck]) -> str:
    """Changes between the descriptions of the compared systems, in words; empty if there are none."""
    candidate, baseline = resolve_source(candidate), resolve_source(baseline)
    if not (isinstance(candidate, TableSource) and isinstance(baseline, TableSource)):
        return ""
    sides = (
        (baseline, {name for check in checks for name in check.baseline_resources}),
        (candidate, {name for check in checks for name in check.resources}),
    )
    before, after = (
        convert_to_polars(source.table("settings")).filter(pl.col("resource").is_in(list(names)))
        for source, names in sides
    )
    return change_words(find_setting_changes(before, after))
