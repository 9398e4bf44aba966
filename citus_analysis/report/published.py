"""The report on published results: what it states, built from the values it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import TableSource
from citus_analysis.plots.published_figures import model_name, plot_measured_rates
from citus_analysis.published.claims import VERDICTS, JudgedClaims, judge_claims
from citus_analysis.published.study import (
    PublishedFit,
    PublishedStudy,
    compare_monitoring,
    fit_published_series,
    select_measured_rates,
    select_unmeasured_rates,
    study_published,
)
from citus_analysis.report.sentences import replace_model_names
from citus_analysis.runs.selection import Question
from citus_analysis.scaling.fitting import ScalingFit
from citus_analysis.stats import Comparison
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
from citus_analysis.texts.numbers import format_number, format_percent
from citus_analysis.texts.words import join_words, pluralize

#: Names of sources -> their names in sentences.
_SOURCES: Final = {
    "thesis": "the thesis",
    "postgres_xc": "the paper on Postgres-XC",
    "citus_docs": "the documentation of Citus",
    "hammerdb_talk": "the talk on HammerDB",
    "sigmod": "the SIGMOD paper on Citus",
}
_TELLING: Final = ("copied_sigma", "littles_law", "scale_factor")

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "audit": "The audit of {numbers} from {sources} found {contradictions} and {doubtful}.",
    "contradiction": "In {place} of {source}, {stated} is stated for “{row}”, but {expected} follows from the rest.",
    "copied deviations": "In {place} of {source} ({stated}), {explanation}.",
    "intervals": "The intervals of table {table} {known} {repetitions} repetitions and have {low} to {high} of the "
    "width that Student's t gives for so few.",
    "no intervals": "Table {table} states no intervals.",
    "growth": "In {place}, throughput with {last:g} {size} is {speedup:.2f} times that with {first:g} {size} "
    "({low:.2f} to {high:.2f}), an efficiency of {efficiency} ({efficiency_low} to {efficiency_high}). Of the models, "
    "{models}.{peak}",
    "growth: peak": " For the Universal Scalability Law, {peak}.",
    "series": "In {place} of {source}, {rate} with {last:g} {size} is {speedup:.2f} times that with {first}, an "
    "efficiency of {efficiency}.",
    "series beyond proportion": "In {place} of {source}, {rate} with {last:g} {size} is {speedup:.2f} times that with "
    "{first}, an efficiency of {efficiency}: more than in proportion, which no model here can follow; {values} values "
    "without a spread do not prove it.",
    "models": "Of the models, {models}.",
    "monitoring": "With monitoring, throughput is {ratio:.3f} times that without it ({low:.2f} to {high:.2f}): "
    "{verdict} at a margin of ± {margin}, from {runs} each{needed}.",
    "monitoring: needed": "; a decision needs about {runs} each",
    "band": "The band spans the {level} bands of all models that the means do not reject: {models}.",
    "band: decided": "The {level} band is that of {model}, the model that the means select.",
    "band: none": "No band is shown: the means reject every model.",
    "constructed": "The models are fitted to values constructed from the published means and standard deviations, not "
    "to measurements.",
    "n unknown": "The publication does not state n: it follows from the stated interval for {rows} {size}.",
    "fit": "{model}: {note}.",
    "claims": "The publications make {claims} that can be judged. Their printed numbers judge them so: {own}; "
    "{by_runs}.",
    "claims: by runs": "the runs of this dataset judge them so: {verdicts}",
    "claims: by no runs": "the runs of this dataset bear on none of them",
}


def state_published(study: PublishedStudy, table: str) -> list[ReportFinding]:
    """Findings of the audit, and of one table computed again."""
    return [
        _state_audit(study),
        *_state_contradictions(study),
        _state_interval_widths(study, table),
        _state_throughput_growth(study, table),
    ]


def _state_audit(study: PublishedStudy) -> ReportFinding:
    red, amber = (study.findings(severity).height for severity in ("red", "amber"))
    return state(
        TEMPLATES,
        "audit",
        [FindingNumber("contradictions", estimate=red), FindingNumber("doubtful statements", estimate=amber)],
        numbers=pluralize(study.numbers["value"].count(), "number"),
        sources=pluralize(study.numbers["source"].n_unique(), "publication"),
        contradictions=pluralize(red, "contradiction"),
        doubtful=pluralize(amber, "doubtful statement"),
    )


def _state_contradictions(study: PublishedStudy) -> Iterator[ReportFinding]:
    """The contradictions that a reader should know first: one per check."""
    red = study.findings("red").unique("check", keep="first", maintain_order=True)
    for row in red.filter(pl.col("check").is_in(_TELLING)).iter_rows(named=True):
        kind = "copied deviations" if row["check"] == "copied_sigma" else "contradiction"
        place, source = _name_table(row["table"]), _SOURCES.get(row["source"], row["source"])
        words = {name: row[name] for name in ("stated", "row", "expected", "explanation")}
        yield state(TEMPLATES, kind, (), place=place, source=source, **words)


def _name_table(table: str) -> str:
    return f"table {table}" if table[:1].isdigit() else table


def _state_interval_widths(study: PublishedStudy, table: str) -> ReportFinding:
    shown = study.summaries.drop_nulls("stated_low")
    if shown.is_empty():
        return state(TEMPLATES, "no intervals", table=table)
    share = (shown["stated_high"] - shown["stated_low"]) / (shown["high"] - shown["low"])
    low, high = (format_percent(float(share.quantile(q, "nearest") or 0.0)) for q in (0.0, 1.0))
    return state(
        TEMPLATES,
        "intervals",
        table=table,
        known="imply" if "interval" in set(shown["n_from"]) else "accompany",
        repetitions=", ".join(map(str, shown["n"])),
        low=low,
        high=high,
    )


def _state_throughput_growth(study: PublishedStudy, table: str) -> ReportFinding:
    first, last = study.relative.row(0, named=True), study.relative.row(-1, named=True)
    speedup, low, high = (last[name] for name in ("speedup", "speedup_low", "speedup_high"))
    small, large = (f"{row[study.size]:g} {study.size}" for row in (first, last))
    peak = study.fit["usl"].peak if "usl" in study.fit.candidates else None
    efficiency, lowest, highest = (
        format_percent(last[name]) for name in ("efficiency", "efficiency_low", "efficiency_high")
    )
    return state(
        TEMPLATES,
        "growth",
        [FindingNumber(large, small, speedup, low, high)],
        place=_name_table(table),
        size=study.size,
        first=first[study.size],
        last=last[study.size],
        speedup=speedup,
        low=low,
        high=high,
        efficiency=efficiency,
        efficiency_low=lowest,
        efficiency_high=highest,
        models=_describe_model_decision(study.fit),
        peak=TEMPLATES["growth: peak"].format(peak=peak.words.rstrip(".")) if peak else "",
    )


def state_published_fit(one: PublishedFit) -> list[ReportFinding]:
    """How a published series without spread grew, and which models its values do not reject."""
    first, last = one.values.row(0, named=True), one.values.row(-1, named=True)
    is_beyond = last["efficiency"] > 1
    start = pluralize(int(first[one.size]), one.size.removesuffix("s"))
    grown = state(
        TEMPLATES,
        "series beyond proportion" if is_beyond else "series",
        [FindingNumber(f"{last[one.size]:g} {one.size}", start, last["speedup"])],
        place=_name_table(one.table),
        source=_SOURCES.get(one.source, one.source),
        rate={"nopm": "the number of new orders"}.get(one.metric, "throughput"),
        last=last[one.size],
        size=one.size,
        speedup=last["speedup"],
        first=start,
        efficiency=format_percent(last["efficiency"]),
        values=one.values.height,
    )
    return [grown] if is_beyond else [grown, state(TEMPLATES, "models", models=_describe_model_decision(one.fit))]


def _describe_model_decision(fit: ScalingFit) -> str:
    """The decision between models that were fitted to printed values, which are no runs."""
    return replace_model_names(fit.sentence()).replace(" runs", " values")


def state_monitoring(comparison: Comparison) -> ReportFinding:
    """The cost of monitoring according to table 5.3."""
    ratio, runs = comparison.ratio, comparison.runs_needed
    needed = "" if runs is None else TEMPLATES["monitoring: needed"].format(runs=pluralize(runs, "run"))
    return state(
        TEMPLATES,
        "monitoring",
        [comparison],
        ratio=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
        verdict=comparison.verdict,
        margin=format_percent(comparison.margin),
        runs=pluralize(comparison.mean_a.n, "run"),
        needed=needed,
    )


def write_band_sentence(fit: ScalingFit, level: float) -> str:
    """One sentence on the models that the band of a figure of fitted curves covers."""
    kind = "band: none" if not fit.candidates else "band" if fit.decided is None else "band: decided"
    return TEMPLATES[kind].format(
        level=format_percent(level),
        model=model_name(fit.decided) if fit.decided else "",
        models=join_words([model_name(name) for name in fit.candidates]),
    )


def write_published_warnings(study: PublishedStudy) -> list[str]:
    """Caveats for the numbers that were computed again."""
    notes = [TEMPLATES["constructed"]]
    guessed = study.summaries.filter(pl.col("n_from") == "interval")
    if guessed.height:
        rows = join_words([f"{size:g}" for size in guessed[study.size]])
        notes.append(TEMPLATES["n unknown"].format(rows=rows, size=study.size))
    fits = [(model_name(one.model), note) for one in study.fit.fits.values() for note in one.warnings]
    return [*notes, *(TEMPLATES["fit"].format(model=model, note=note) for model, note in fits)]


#: What judges a claim -> the column of its verdict.
_JUDGES: Final = {"printed numbers": "by_printed_numbers", "runs": "by_these_runs"}


def state_claims(judged: JudgedClaims) -> ReportFinding:
    """How many claims of the publications are supported, by their own numbers and by the runs of the dataset."""
    own, runs = (count_claim_verdicts(judged, by) for by in _JUDGES)
    return state(
        TEMPLATES,
        "claims",
        claims=pluralize(judged.claims["claim"].n_unique(), "claim"),
        own=own,
        by_runs=TEMPLATES["claims: by runs" if runs else "claims: by no runs"].format(verdicts=runs),
    )


def count_claim_verdicts(judged: JudgedClaims, by: str) -> str:
    """Claims by verdict in words, those without data left out; one in several set-ups counts with its worst verdict.

    Args:
        judged: the claims.
        by: `runs` or `printed numbers`.
    """
    rows = judged.claims.filter(pl.col("judged_by") == by, pl.col("verdict") != "no data")
    worst = [min(verdicts, key=_BAD_FIRST.index) for verdicts in rows.group_by("claim").agg("verdict")["verdict"]]
    return (
        join_words([f"{worst.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in worst]) if worst else ""
    )


_BAD_FIRST: Final = ("contradicted", "undecided", "supported", "as stated", "no data")


def claim_rows(judged: JudgedClaims) -> pl.DataFrame:
    """A row for each claim: what it allows, and its verdicts by printed numbers and by runs, contradictions first.

    Example:
        >>> from citus_analysis.published import judge_claims
        >>> claim_rows(judge_claims()).columns
        ['claim', 'place', 'allowed', 'by_printed_numbers']
    """
    rank = pl.col("verdict").replace_strict({one: place for place, one in enumerate(_BAD_FIRST)}, return_dtype=pl.Int8)
    rows = judged.claims.with_columns(
        rank=rank,
        place=pl.format("{}, {}", "source", "place"),
        allowed=pl.col("form").str.extract("([^,]+)$").str.strip_chars(),
    ).filter(pl.col("verdict") != "no data")
    judges = {name: judge for judge, name in _JUDGES.items() if judge in rows["judged_by"]}
    shown = [
        {
            "claim": claim,
            "place": place,
            "allowed": part["allowed"][0],
            **{name: _format_verdicts(part.filter(judged_by=judge)) for name, judge in judges.items()},
            "rank": part["rank"].min(),
        }
        for (claim, place), part in rows.group_by("claim", "place", maintain_order=True)
    ]
    texts = dict.fromkeys(("claim", "place", "allowed", *judges), pl.String())
    return pl.DataFrame(shown, schema=texts | {"rank": pl.Int8()}).sort("rank", maintain_order=True).drop("rank")


def _format_verdicts(rows: pl.DataFrame) -> str:
    """The verdicts of one claim: that of its one configuration, or how many have which, with the range of estimates."""
    if rows.height < 2:
        return "".join(map(_format_verdict, rows.iter_rows(named=True)))
    counts = [
        f"{verdict} in {pluralize(found.height, 'set-up')} ({_format_estimate_range(found['estimate'])})"
        for verdict in _BAD_FIRST
        if (found := rows.filter(verdict=verdict)).height
    ]
    return "; ".join(counts)


def _format_estimate_range(estimates: pl.Series) -> str:
    low, high = (format_number(value) for value in (estimates.min(), estimates.max()) if isinstance(value, float))
    return low if low == high else f"{low} to {high}"


def _format_verdict(row: Mapping[str, object]) -> str:
    """The verdict with the estimate, and its interval if there is one."""
    verdict, (value, low, high) = row["verdict"], (row[name] for name in ("estimate", "low", "high"))
    if not isinstance(value, float):
        return str(verdict)
    ends = (
        f" [{format_number(low)}, {format_number(high)}]" if isinstance(low, float) and isinstance(high, float) else ""
    )
    return f"{verdict}: {format_number(value)}{ends}"


@dataclass(frozen=True)
class PublishedReport:
    """What the page of published results shows.

    Attributes:
        study: the audit of all publications, and one table computed again.
        table: that table.
        claims: what the publications claim, judged by their numbers and by runs.
        monitoring: throughput with monitoring compared with that without it, as published.
        series: published series without spread, with the models fitted to them.
        level: confidence level of intervals.
    """

    study: PublishedStudy
    table: str
    claims: JudgedClaims
    monitoring: Comparison
    series: list[PublishedFit]
    level: float

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return state_published(self.study, self.table)

    @property
    def warnings(self) -> list[str]:
        """Caveats for the numbers that were computed again."""
        return write_published_warnings(self.study)

    @property
    def claim_findings(self) -> list[ReportFinding]:
        """How many claims are supported."""
        return [state_claims(self.claims)]

    @property
    def monitoring_findings(self) -> list[ReportFinding]:
        """The cost of monitoring as published."""
        return [state_monitoring(self.monitoring)]

    @property
    def series_findings(self) -> list[tuple[PublishedFit, list[ReportFinding]]]:
        """Each series without spread, with what is stated of it."""
        return [(one, state_published_fit(one)) for one in self.series]

    @property
    def band(self) -> str:
        """The models that the band of the figure of fitted curves covers."""
        return write_band_sentence(self.study.fit, self.level)

    @property
    def rates(self) -> pl.DataFrame:
        """Throughputs that were measured and published."""
        return select_measured_rates(self.study.numbers, self.study.findings("red"))

    def unmeasured_rates_table(self) -> pl.DataFrame:
        """Published throughputs that were not measured."""
        return select_unmeasured_rates(self.study.numbers, self.study.findings("red"))

    def findings_table(self, *severities: str) -> pl.DataFrame:
        """Findings of the audit with these severities: the place in one column, expected beside stated values."""
        findings = self.study.findings(*severities)
        named = pl.when(pl.col("table").str.contains(r"^\d")).then(pl.format("table {}", "table")).otherwise("table")
        place = pl.format("{}, {}", "source", named)
        words = pl.col("check").cast(pl.String).str.replace_all("_", " ").str.replace("littles law", "Little's law")
        shown = ("severity", "place", "row", "stated", "expected", "check", "explanation")
        return findings.with_columns(place=place, check=words).select(shown)

    def claims_table(self) -> pl.DataFrame:
        """A row for each claim."""
        return claim_rows(self.claims)

    def plot_rates(self) -> go.Figure:
        """Published throughputs by system, workload and size."""
        return plot_measured_rates(self.rates, title="Published throughput by system, workload and size")


def study_publications(
    dataset: TableSource, question: Question, source: str, table: str, size: str = "workers"
) -> PublishedReport:
    r"""Audit the publications, and compute one table again, as the page of published results shows it.

    Args:
        dataset: the runs by which claims are judged.
        question: level and margin.
        source: publication whose table is computed again.
        table: that table.
        size: metric of the table that grows from row to row.

    Raises:
        UnknownNameError: there is no such publication or table.
        InsufficientDataError: the table states no spread.

    Example:
        >>> import citus_analysis as ca
        >>> asked = ca.runs.Question()
        >>> found = study_publications(ca.open_dataset("dataset"), asked, "thesis", "5.7")  # doctest: +SKIP
        >>> print(*found.findings, sep="\n")  # doctest: +SKIP
    """
    level = question.level
    return PublishedReport(
        study_published(source, table, size, level),
        table,
        judge_claims(dataset, level=level),
        compare_monitoring(question.margin, level),
        fit_published_series(level),
        level,
    )
