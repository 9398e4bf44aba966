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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, as_polars
from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.run_status import allowed_statuses
from citus_analysis.runs.setting_changes import change_words, setting_changes
from citus_analysis.runs.setups import stratum_text
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.families import compare_many
from citus_analysis.stats.compare.gate_results import Gate, GateCheck, GateVerdict
from citus_analysis.stats.compare.questions import Question, unadjusted
from citus_analysis.stats.compare.run_tables import Asked, ask, is_shown
from citus_analysis.stats.compare.verdicts import Comparison
from citus_analysis.stats.run_means import in_order_of_time, known_direction, runs_of, times_of, values_of
from citus_analysis.stats.series.drift import are_interleaved

Side = Literal["candidate", "baseline"]

_SIDE: Final = "dataset"
_SIDES: Final[tuple[Side, Side]] = ("candidate", "baseline")


def gate(
    candidate: TableSource | Frame,
    baseline: TableSource | Frame,
    metrics: str | Sequence[str] = METRIC,
    *,
    margin: float = MARGIN,
    within: Sequence[str] | None = None,
    pool: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
    level: float = LEVEL,
    allow: str | Collection[str] = (),
) -> Gate:
    """Judge the runs of a dataset by those of another, configuration by configuration.

    Args:
        candidate: dataset (or table `runs`) to judge.
        baseline: dataset (or table `runs`) to judge it by.
        metrics: one or several metrics of `runs`, or of `operation_latencies` if datasets are given.
        margin: relative difference that counts as none (0.05 = 5 %, from 1/1.05 to 1.05).
        within: columns to hold equal, instead of the whole configuration.
        pool: columns of the configuration that need not be equal.
        only: column -> value; selects checks (or runs, for a column that is not held equal).
        level: confidence level; the tests use 1 - level.
        allow: `degraded` to judge degraded runs of both datasets as well; a warning gives their number.

    Raises:
        UnknownNameError: no such column or metric.
        UsageError: another status cannot be allowed, or the name of a metric does not say whether higher is better.
        InsufficientDataError: a side has no run with the metric, or the two have no configuration in common.

    Example:
        >>> runs = lambda *values: pl.DataFrame({"workers": [2] * len(values), "throughput_ops_s": values})
        >>> found = gate(runs(99.0, 100.0, 101.0, 100.0), runs(100.0, 101.0, 99.0, 100.0))
        >>> found.verdict, found.exit_code
        ('passed', 0)
        >>> gate(runs(89.0, 90.0, 91.0), runs(100.0, 101.0, 99.0)).verdict
        'failed'
    """
    names = [metrics] if isinstance(metrics, str) else list(dict.fromkeys(metrics))
    asked, tables = [], []
    for metric in names:
        tables.append(_both_sides(candidate, baseline, metric))
        better = known_direction(metric)
        question = Question(metric, _SIDE, "baseline", (), tuple(pool), margin, level, better)
        asked.append(_asked(tables[-1], question, within, only, allow))
    found = [(one, c) for one in asked for c in unadjusted(one.runs, one.question)]
    # One family over all configurations and metrics: the gate fails if one of them does.
    adjusted = compare_many([replace(c, holm_family="gate") for _, c in found], level=level)
    checks = tuple(_check(c, level) for (one, _), c in zip(found, adjusted, strict=True) if is_shown(c, one.shown))
    if not checks:
        way_out = "pool the columns in which they differ (--pool), or hold only some equal (--within)"
        raise InsufficientDataError("candidate and baseline have no configuration in common", way_out=way_out)
    cells = [_unmatched(table, one) for table, one in zip(tables, asked, strict=True)]
    along = "{} differs between the datasets: the check is of both"
    notes = (note for one in asked for note in (*one.notes, *map(along.format, one.along)))
    return Gate(
        checks=checks,
        metrics=tuple(names),
        margin=margin,
        level=level,
        failed_runs=unique(cell for without, _ in cells for cell in without),
        not_measured=unique(cell for _, absent in cells for cell in absent),
        changes=_changes(candidate, baseline, checks),
        warnings=unique(notes),
    )


def _both_sides(candidate: TableSource | Frame, baseline: TableSource | Frame, metric: str) -> pl.DataFrame:
    """All runs with their side as a column; if one side was made after the other, iterations are renumbered."""
    parts = {
        side: runs_of(source, metric).with_columns(pl.lit(side).alias(_SIDE))
        for side, source in zip(_SIDES, (candidate, baseline), strict=True)
    }
    times = [
        times for part in parts.values() if (times := times_of(part.drop_nulls(metric))) is not None and times.size
    ]
    together = len(times) == len(parts) and are_interleaved(times)
    if not together and all("iteration" in part.columns for part in parts.values()):
        last = parts["baseline"]["iteration"].cast(pl.Int64).max()
        shifted = pl.col("iteration").cast(pl.Int64) + pl.lit(last if isinstance(last, int) else 0)
        parts["candidate"] = parts["candidate"].with_columns(shifted)
    return pl.concat(parts.values(), how="diagonal_relaxed")


def _asked(
    table: pl.DataFrame,
    question: Question,
    within: Sequence[str] | None,
    only: Mapping[str, object] | None,
    allow: str | Collection[str],
) -> Asked:
    statuses = allowed_statuses(allow)
    for side in _SIDES:
        usable = table.filter(pl.col(_SIDE) == side)
        if "status" in table.columns:
            usable = usable.filter(pl.col("status").cast(pl.String).is_in(statuses))
        if usable[question.metric].drop_nulls().is_empty():
            status = " or ".join(statuses)
            raise InsufficientDataError(f"the {side} has no run with status {status} and a {question.metric}")
    return ask(table, question, within, only, allow)


def _check(comparison: Comparison, level: float) -> GateCheck:
    better, margin = comparison.higher_is_better is not False, comparison.margin
    evidence, alpha = comparison.evidence, 1 - level
    p_not_worse = evidence.p_not_worse(margin, higher_is_better=better)
    needed = evidence.runs_to_gate(margin, alpha, comparison.family_size, higher_is_better=better)
    verdict = _verdict(comparison, p_not_worse, alpha)
    sides = (comparison.mean_a, comparison.mean_b)
    short = [None if needed is None else max(0, needed - side.n) for side in sides]
    if verdict == "undecided" and needed is not None and not any(short):
        # There are as many runs as planned, but they do not decide.
        short = [1, 1]
    runs = dict(zip(_SIDES, map(in_order_of_time, comparison.sides or ()), strict=True))
    return GateCheck(
        verdict=verdict,
        comparison=comparison,
        p_not_worse=p_not_worse,
        more_of_candidate=short[0] if verdict == "undecided" else 0,
        more_of_baseline=short[1] if verdict == "undecided" else 0,
        resources=_resources(runs["candidate"]),
        baseline_resources=_resources(runs["baseline"]),
        values=tuple(values_of(runs["candidate"], comparison.metric).tolist()),
        baseline_values=tuple(values_of(runs["baseline"], comparison.metric).tolist()),
    )


def _verdict(comparison: Comparison, p_not_worse: float, alpha: float) -> GateVerdict:
    """The verdict of one check; `undecided` for p-values of nan, which mean that there is no spread."""
    differs = comparison.p_difference_adjusted <= alpha
    gains = (comparison.ratio.estimate > 1) == comparison.higher_is_better
    if comparison.p_equivalence <= alpha:
        return "equivalent"
    if p_not_worse <= alpha:
        return "better" if differs and gains else "not worse"
    return "worse" if differs and not gains else "undecided"


def _resources(runs: pl.DataFrame) -> tuple[str, ...]:
    return tuple(runs["resource"].drop_nulls().unique().sort()) if "resource" in runs.columns else ()


def _unmatched(table: pl.DataFrame, asked: Asked) -> tuple[list[str], list[str]]:
    """Configurations of the baseline for which all runs of the candidate failed, and those for which it has none."""
    strata = asked.question.strata
    compared, tried = (_cells(frame, strata) for frame in (asked.runs, table))
    of_baseline = dict.fromkeys(name for name, side in compared if side == "baseline")
    left = [name for name in of_baseline if (name, "candidate") not in set(compared)]
    failed = [name for name in left if (name, "candidate") in set(tried)]
    return failed, [name for name in left if name not in failed]


def _cells(frame: pl.DataFrame, strata: Sequence[str]) -> list[tuple[str, str]]:
    rows = frame.select(*strata, _SIDE).unique(maintain_order=True).iter_rows(named=True)
    return [(stratum_text({name: row[name] for name in strata}) or "all runs", row[_SIDE]) for row in rows]


def _changes(candidate: object, baseline: object, checks: Sequence[GateCheck]) -> str:
    """Changes between the descriptions of the compared systems, in words; empty if there are none."""
    if not (isinstance(candidate, TableSource) and isinstance(baseline, TableSource)):
        return ""
    sides = (
        (baseline, {name for check in checks for name in check.baseline_resources}),
        (candidate, {name for check in checks for name in check.resources}),
    )
    before, after = (
        as_polars(source.table("settings")).filter(pl.col("resource").is_in(list(names))) for source, names in sides
    )
    return change_words(setting_changes(before, after))
