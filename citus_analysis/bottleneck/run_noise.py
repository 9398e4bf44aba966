"""Why runs of one configuration differ, and what is left of a difference between configurations without that.

- the variance between repeated runs is divided by its sources (:mod:`citus_analysis.bottleneck.run_variance`):
  blocks or order in time, checkpoints, autovacuum, placement of sessions, and what was measured beside the runs
  (:mod:`citus_analysis.bottleneck.witnesses`);
- comparisons are corrected by those sources of which chance is not an explanation
  (:mod:`citus_analysis.stats.covariates`); the verdict without correction stands beside the corrected one;
- a difference that a slower machine may explain is said to be undecided for the change;
- runs that are doubtful are listed with seconds and amounts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.bottleneck.machine_work import describe_foreign_work
from citus_analysis.bottleneck.measurements import AUTOVACUUM, measure_checkpoints
from citus_analysis.bottleneck.run_factors import FACTORS, ORDER, measure_run_factors
from citus_analysis.bottleneck.run_variance import RESIDUAL, RunVariance, run_variance
from citus_analysis.bottleneck.study import (
    ACTIVITY_COLUMNS,
    AUTOVACUUM_COLUMNS,
    CONFIGURATION,
    read_configured_runs,
)
from citus_analysis.bottleneck.waits import select_client_sessions
from citus_analysis.bottleneck.witnesses import RUN_WITNESSES, read_rows_of_witnesses, read_witness_tables
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import TableSource, convert_to_polars, resolve_source, scan_source_table
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import CitusAnalysisError, InsufficientDataError, UsageError
from citus_analysis.runs.selection import Question, split_names
from citus_analysis.stats.covariates import CorrectedComparison, CovariateSlopes, correct_comparison, estimate_slopes
from citus_analysis.stats.environment import Environment, judge_environment
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_comparisons import compare_runs
from citus_analysis.stats.verdicts import Comparison
from citus_analysis.texts.tables import render_grouped_table, render_text_table
from citus_analysis.texts.words import join_words, pluralize

#: Bootstrap samples of runs for the intervals of shares.
_RESAMPLES: Final = 400
#: Fewest runs of a configuration of which one can be unlike the others, and by how many robust standard deviations.
_LEAST_LIKE: Final = 4
_DEVIATIONS: Final = 5.0
_MAD: Final = 1.4826
#: Source -> least difference from the median of the configuration that is unlike it: of a logarithm, of Jain's index.
_UNLIKE: Final = {"machine_speed": math.log(1.05), "balance": 0.1}


@dataclass(frozen=True)
class NoiseComparison:
    """One comparison with and without correction, and the machines beside it."""

    corrected: CorrectedComparison
    environment: Environment | None

    def record(self) -> dict[str, object]:
        """As a row of a table."""
        plain, evidence = self.corrected.plain, self.corrected.evidence
        interval, alpha = self.corrected.interval, (1 - plain.ratio.level) / plain.family_size
        needed = None if evidence is None else evidence.runs_needed(plain.margin, alpha)
        return {
            **plain.stratum,
            "a": plain.label_a,
            "b": plain.label_b,
            **plain.ratio.record("ratio"),
            "verdict": plain.shown_verdict,
            "runs_needed": plain.runs_needed,
            "corrected_ratio": None if interval is None else interval.estimate,
            "corrected_ratio_low": None if interval is None else interval.low,
            "corrected_ratio_high": None if interval is None else interval.high,
            "corrected_verdict": None if evidence is None else self.corrected.verdict,
            "corrected_runs_needed": needed,
            "width_ratio": None if evidence is None else self.corrected.width_ratio,
            "not_corrected": self.corrected.reason,
            "machine_speed_ratio": None if self.environment is None else self.environment.speed.ratio.estimate,
        }


@dataclass(frozen=True, repr=False)
class NoiseStudy(DisplayMixin):
    """Where the variance between runs comes from, and comparisons corrected by it.

    Attributes:
        variance: the variance between repeated runs by source; None if there are too few.
        factors: one row per run: its configuration, throughput and a number for each source.
        doubtful: one row per run and machine on which foreign work went on: `resource`, `run_id`, `machine`,
            `foreign_s`, `share_percent`, `is_doubtful`, `what`.
        unlike: one row per run whose machines were unlike those of the other runs of its configuration in speed, or
            whose sessions were spread over nodes unlike theirs: `resource`, `run_id`, `source`, `value`, `median`
            (speeds in units of the canary's work per second), `what`.
        corrected_by: the sources that comparisons are corrected by.
        comparisons: each comparison with and without correction.
        level: confidence level.
        warnings: limitations that a reader must know.
    """

    variance: RunVariance | None
    factors: pl.DataFrame
    doubtful: pl.DataFrame
    unlike: pl.DataFrame
    corrected_by: tuple[str, ...]
    comparisons: tuple[NoiseComparison, ...]
    level: float
    warnings: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Sources with an effect that chance does not explain, the largest first."""
        return () if self.variance is None else self.variance.named

    def sentence(self) -> str:
        """The spread between runs and the sources that chance does not explain."""
        if self.variance is None:
            return "Too few repeated runs to divide their variance by source."
        found = self.variance
        head = f"Runs of one configuration differ by {found.sd_percent:.1f} % (standard deviation, {found.n} runs"
        head += f" of {pluralize(found.configurations, 'configuration')})"
        shares = {row["source"]: row for row in found.sources.to_dicts()}
        if not self.named:
            return f"{head}; no measured source has an effect that chance does not explain."
        parts = [f"{_format_share(shares[name])} to {name}" for name in self.named]
        rest = _format_share(shares[RESIDUAL])
        said = f"{head}. Of their variance, {join_words(parts)} can be ascribed; {rest} has no known source."
        return f"{said} {found.describe_companions()}".rstrip()

    def summary_lines(self) -> list[str]:
        """The finding, the corrected comparisons, doubtful runs and warnings."""
        return [self.sentence(), *self.list_remarks()]

    def list_remarks(self) -> list[str]:
        """How many comparisons are decided, the machines beside them, doubtful runs, and warnings."""
        lines = []
        plain = [one.corrected.plain for one in self.comparisons]
        if plain:
            decided = sum(one.ratio.exists and one.verdict != "inconclusive" for one in plain)
            lines.append(f"Without correction, {_count_decided(decided, len(plain))}.")
        if plain and self.corrected_by:
            lines.append(self._state_correction())
        for one in self.comparisons:
            if one.environment is not None:
                of = f"{one.corrected.plain.label_a} against {one.corrected.plain.label_b}"
                lines.append(f"{of}: {one.environment.sentence()}")
        for row in self.doubtful.to_dicts():
            doubt = "doubtful" if row["is_doubtful"] else "too little to make it doubtful"
            lines.append(f"Foreign work ({doubt}), {row['run_id']}, {row['machine']}: {row['what']}.")
        lines += [f"Unlike other runs, {row['run_id']}: {row['what']}." for row in self.unlike.to_dicts()]
        if self.doubtful["is_doubtful"].any():
            lines.append("Repeat doubtful runs of an experiment: citus-analysis run FILE --out DIR --retry-doubtful")
        return [*lines, *(f"note: {note}" for note in self.warnings)]

    def _state_correction(self) -> str:
        by = join_words(self.corrected_by)
        corrected = [one for one in self.comparisons if one.corrected.evidence is not None]
        if not corrected:
            reasons = join_words(sorted({one.corrected.reason for one in self.comparisons}))
            return f"No comparison is corrected by {by}: {reasons}."
        widths = float(np.median([one.corrected.width_ratio for one in corrected]))
        decided = sum(one.corrected.verdict != "inconclusive" for one in corrected)
        return (
            f"Corrected by {by}, {_count_decided(decided, len(corrected))}, with intervals {100 * (1 - widths):.0f} % "
            "narrower (median)."
        )

    def summary_table(self) -> pl.DataFrame | None:
        """The variance by source."""
        return None if self.variance is None else convert_to_polars(self.variance.sources)

    def tabulate_comparisons(self) -> pl.DataFrame:
        """One row per comparison: ratio, interval and verdict, without and with correction."""
        return pl.DataFrame([one.record() for one in self.comparisons], infer_schema_length=None)

    def to_dict(self) -> dict[str, object]:
        """As plain values, for JSON."""
        found = self.variance
        return {
            "sentence": self.sentence(),
            "n": 0 if found is None else found.n,
            "configurations": 0 if found is None else found.configurations,
            "sd_percent": None if found is None else found.sd_percent,
            "method": None if found is None else found.method,
            "sources": [] if found is None else found.sources.to_dicts(),
            "named": list(self.named),
            "corrected_by": list(self.corrected_by),
            "comparisons": self.tabulate_comparisons().to_dicts() if self.comparisons else [],
            "environment": [one.environment.sentence() for one in self.comparisons if one.environment is not None],
            "doubtful": self.doubtful.to_dicts(),
            "unlike": self.unlike.to_dicts(),
            "warnings": list(self.warnings),
        }


def _count_decided(decided: int, comparisons: int) -> str:
    verb = "is" if 1 in (decided, comparisons) else "are"
    return f"{decided} of {pluralize(comparisons, 'comparison')} {verb} decided"


def _format_share(row: Mapping[str, object]) -> str:
    share = 100 * max(0.0, float(str(row["share_beyond_chance"])))
    if row.get("share_low") is None:
        return f"{share:.0f} %"
    low, high = (100 * float(str(row[name])) for name in ("share_low", "share_high"))
    return f"{share:.0f} % ({low:.0f} to {high:.0f})"


def noise(
    source: object,
    by: str | None = None,
    *,
    metric: str | None = None,
    level: float = LEVEL,
    margin: float = MARGIN,
    include_status: str | Collection[str] = (),
) -> NoiseStudy:
    """Divide the variance between runs of one configuration by its sources, and correct comparisons by them.

    Args:
        source: a dataset, or a path of one or of raw files.
        by: column whose levels are compared; by default as `compare` chooses it, and no comparison where it cannot.
        metric: compared metric; by default the throughput. The variance is that of the throughput.
        level: confidence level of all intervals.
        margin: relative difference that counts as none.
        include_status: statuses of runs that are compared besides `ok`. The variance is also that of doubtful runs,
            because foreign work is one of its sources.

    Raises:
        InsufficientDataError: there is no run.
        UsageError: the source has no logs, samples or times, such as a table of results.

    Example:
        >>> import citus_analysis as ca
        >>> found = ca.noise(ca.open_dataset("results"), "system")  # doctest: +SKIP
        >>> found.sentence(), found.tabulate_comparisons()  # doctest: +SKIP
        >>> noise(pl.DataFrame({"version": ["a", "b"], "tps": [1.0, 2.0]}))
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: noise needs a dataset or raw files (a table of results has no samples beside \
its runs)
    """
    dataset = resolve_source(source)
    if not isinstance(dataset, TableSource):
        raise UsageError("noise needs a dataset or raw files", hint="a table of results has no samples beside its runs")
    statuses = split_names(include_status)
    question = Question(include_status=tuple(dict.fromkeys(("doubtful", *statuses))), level=level)
    runs = read_configured_runs(dataset)
    if runs.is_empty():
        raise InsufficientDataError("there is no run", hint="ingest the files of a load generator")
    tables = read_rows_of_witnesses(dataset) | {"checkpoints": convert_to_polars(dataset.table("checkpoints"))}
    witnesses, foreign = read_witness_tables(tables)
    factors = _measure_factors(dataset, tables, runs.drop_nulls("operation"), witnesses, question)
    warnings: list[str] = []
    variance = None
    try:
        variance = run_variance(factors, CONFIGURATION, level=level, resamples=_RESAMPLES)
        warnings += variance.warnings
    except InsufficientDataError as error:
        warnings.append(str(error))
    worked = foreign.runs.filter(pl.col("foreign_s") > 0).sort("begin_time", "run_id", "machine")
    doubtful = worked.select(
        "resource", "run_id", "machine", "foreign_s", "share_percent", "is_doubtful",
        what=pl.Series([describe_foreign_work(row) for row in worked.to_dicts()], dtype=pl.String),  # type: ignore[arg-type] # rows of ForeignWork.runs
    )  # fmt: skip
    plain: tuple[Comparison, ...] = ()
    try:
        found = compare_runs(dataset, metric, by, margin=margin, level=level, include_status=statuses)
        plain = tuple(one for one in found if one.sides is not None)
    except CitusAnalysisError as error:
        if by is not None:
            raise
        warnings.append(f"No comparison: {error}")
    columns = _list_covariates(variance, factors)
    slopes = _estimate_slopes(factors, columns) if columns else None
    compared = tuple(
        NoiseComparison(
            _correct(one, factors, slopes, columns),
            None if one.sides is None else judge_environment(one, one.sides, level),
        )
        for one in plain
    )
    corrected_by = tuple(FACTORS[name] for name in columns) if slopes is not None else ()
    return NoiseStudy(
        variance,
        factors,
        doubtful,
        list_unlike_runs(factors),
        corrected_by,
        compared,
        level,
        tuple(dict.fromkeys(warnings)),
    )


def list_unlike_runs(factors: pl.DataFrame) -> pl.DataFrame:
    """Runs whose machines or placement are unlike those of the other runs of their configuration.

    A run is unlike them from five robust standard deviations from their median on, but at least 5 % in speed, and 0.1
    in Jain's index. Configurations with fewer than four runs are not judged.

    Args:
        factors: result of :func:`citus_analysis.bottleneck.run_factors.measure_run_factors`.

    Returns:
        The rows of `NoiseStudy.unlike`.

    Example:
        >>> speeds = {"machine_speed": [0.0, 0.01, -0.01, 0.0, -0.25], "balance": [1.0] * 5, "run_id": list("abcde")}
        >>> factors = pl.DataFrame(speeds).with_columns(*(pl.lit("x").alias(name) for name in CONFIGURATION))
        >>> list_unlike_runs(factors)["what"].to_list()
        ['its machines were 22 % slower than in the median run of its configuration']
    """
    found = []
    for source, least in _UNLIKE.items():
        value = pl.col(source).cast(pl.Float64)
        seen = factors.drop_nulls(source).with_columns(value=value, source=pl.lit(source))
        middle = seen.with_columns(median=value.median().over(CONFIGURATION), runs=pl.len().over(CONFIGURATION))
        away = (value - pl.col("median")).abs()
        limit = pl.max_horizontal(_DEVIATIONS * _MAD * away.median().over(CONFIGURATION), pl.lit(least))
        found.append(middle.filter(pl.col("runs") >= _LEAST_LIKE, away > limit))
    rows = pl.concat([one.select("resource", "run_id", "source", "value", "median") for one in found])
    words = [_describe_unlike_run(row["source"], row["value"], row["median"]) for row in rows.to_dicts()]
    speeds = pl.when(pl.col("source") == "machine_speed")
    return rows.with_columns(
        *(speeds.then(pl.col(name).exp()).otherwise(name).alias(name) for name in ("value", "median")),
        what=pl.Series(words, dtype=pl.String),
    ).sort("resource", "run_id", "source")


def _describe_unlike_run(source: str, value: float, median: float) -> str:
    if source == "machine_speed":
        change = 100 * math.expm1(value - median)
        word = "slower" if change < 0 else "faster"
        return f"its machines were {abs(change):.0f} % {word} than in the median run of its configuration"
    return (
        f"the index of the sessions' balance over nodes is {value:.2f} (Jain; 1: all have equally many), and "
        f"{median:.2f} in the median run of its configuration"
    )


def _measure_factors(
    dataset: TableSource,
    tables: Mapping[str, pl.DataFrame],
    runs: pl.DataFrame,
    witnesses: pl.DataFrame,
    question: Question,
) -> pl.DataFrame:
    events = scan_source_table(dataset, "log_events")
    vacuums = events.filter(pl.col("kind").cast(pl.String) == AUTOVACUUM).select(AUTOVACUUM_COLUMNS)
    logs = events.select("resource", "run_id", pl.col("node").cast(pl.String), "source_id").unique(
        ["resource", "run_id", "node"], keep="any"
    )
    # The log of a run in which a server had nothing to log is empty.
    text = pl.col("node", "format").cast(pl.String)
    files = scan_source_table(dataset, "sources").with_columns(text)
    empty = files.filter(pl.col("format") == "pglog", pl.col("bytes") == 0).select(
        "resource", "run_id", "node", "source_id"
    )
    logged = pl.concat([logs, empty]).drop_nulls(["run_id", "node"])
    autovacuum, known = pl.collect_all([vacuums, logged], engine="streaming")
    activity = scan_source_table(dataset, "activity_samples").select(ACTIVITY_COLUMNS).collect()
    measured = pl.concat(measure_checkpoints(tables["checkpoints"], runs, known, tables["settings"]))
    sessions = select_client_sessions(activity, runs)
    return measure_run_factors(
        runs, measured, sessions, autovacuum, tables["settings"], CONFIGURATION, question, witnesses
    )


def _list_covariates(variance: RunVariance | None, factors: pl.DataFrame) -> list[str]:
    """Columns of the sources that comparisons are corrected by: named ones that the change itself cannot cause.

    Blocks and the order in time belong to the design of a comparison, which knows them already. Start-up and a cold
    cache may be what a change is about.
    """
    if variance is None:
        return []
    others = [name for name in FACTORS if FACTORS[name] != ORDER and name not in RUN_WITNESSES]
    words = {name: FACTORS[name] for name in others if name in factors.columns}
    return [name for name, words in words.items() if words in variance.named]


def _estimate_slopes(factors: pl.DataFrame, columns: list[str]) -> CovariateSlopes | None:
    configuration = factors.select(pl.struct(CONFIGURATION).struct.json_encode()).to_series().to_list()
    values = {name: _read_numbers(factors[name]) for name in columns}
    try:
        return estimate_slopes(factors["throughput_ops_s"].to_numpy(), configuration, values)
    except InsufficientDataError:
        return None


def _read_numbers(column: pl.Series) -> Floats:
    return np.asarray(column.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _join_factors(side: pl.DataFrame, factors: pl.DataFrame, columns: list[str]) -> Floats:
    joined = side.select("resource", "run_id").join(
        factors.select("resource", "run_id", *columns), on=["resource", "run_id"], how="left", maintain_order="left"
    )
    return np.column_stack([_read_numbers(joined[name]) for name in columns])


def _correct(
    plain: Comparison, factors: pl.DataFrame, slopes: CovariateSlopes | None, columns: list[str]
) -> CorrectedComparison:
    if slopes is None or plain.sides is None:
        reason = "no source has an effect that chance does not explain"
        return CorrectedComparison(plain, None, "inconclusive", reason, ())
    metric = plain.metric
    if metric != "throughput_ops_s":
        return CorrectedComparison(plain, None, "inconclusive", "the sources are those of the throughput", ())
    a, b = ((_read_numbers(side[metric]), _join_factors(side, factors, columns)) for side in plain.sides)
    return correct_comparison(plain, (a, b), slopes)


__all__ = ["NoiseComparison", "NoiseStudy", "noise"]


def format_noise(found: NoiseStudy, width: int | None = None) -> str:
    """The result as text: sources, comparisons without and with correction, the machines, and doubtful runs.

    Args:
        found: the result.
        width: characters of the longest line of a table; None: any.
    """
    lines = [found.sentence()]
    if found.variance is not None:
        lines += ["", *_render_sources(found.variance), ""]
    if found.comparisons:
        lines += [*_render_comparisons(found, width), ""]
    return "\n".join([*lines, *found.list_remarks()]).rstrip()


def _render_sources(variance: RunVariance) -> list[str]:
    head = ("source", "share", "low", "high", "effect", "p", "goes with")
    rows = []
    for row in variance.sources.to_dicts():
        shares = [row[name] for name in ("share_beyond_chance", "share_low", "share_high")]
        effect, p = row["effect_percent"], row["p_value"]
        rows.append(
            [
                row["source"],
                *(f"{100 * max(share, 0.0):.0f} %" for share in shares),
                "" if effect is None else f"{effect:+.1f} %",
                "" if p is None else f"{p:.2g}",
                row["goes_with"] or "",
            ]
        )
    return render_text_table(head, rows, right=range(1, len(head) - 1))


def _render_comparisons(found: NoiseStudy, width: int | None) -> list[str]:
    strata = list(dict.fromkeys(name for one in found.comparisons for name in one.corrected.plain.stratum))
    head = [*strata, "a", "b", "ratio", "verdict", "corrected", "verdict"]
    rows = []
    for one in found.comparisons:
        plain, interval = one.corrected.plain, one.corrected.interval
        rows.append(
            [
                *("" if (value := plain.stratum.get(name)) is None else str(value) for name in strata),
                plain.label_a,
                plain.label_b,
                _format_ratio(plain.ratio),
                plain.shown_verdict,
                one.corrected.reason if interval is None else _format_ratio(interval),
                "" if interval is None else one.corrected.verdict,
            ]
        )
    # What is equal in all comparisons, or unknown, need not be repeated.
    kept = [at for at, _ in enumerate(head) if at >= len(strata) or len({row[at] for row in rows}) > 1]
    shown = [[row[at] for at in kept] for row in rows]
    return render_grouped_table([head[at] for at in kept], shown, movable=len(kept) - 4, width=width)


def _format_ratio(ratio: Interval) -> str:
    return f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio.exists else f"{ratio.estimate:.3f}"
