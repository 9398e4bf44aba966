"""Sentences of the report on published results, built from the values it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from citus_analysis.plots.published_figures import model_name
from citus_analysis.published.claims import VERDICTS, JudgedClaims
from citus_analysis.published.study import PublishedFit, PublishedStudy
from citus_analysis.report.sentences import replace_model_names
from citus_analysis.scaling.fitting import ScalingFit
from citus_analysis.stats import Comparison
from citus_analysis.texts.numbers import format_number, format_percent
from citus_analysis.texts.words import join_words, pluralize


def write_published_sentences(study: PublishedStudy, table: str) -> list[str]:
    """Findings of the audit, and of one table computed again."""
    grown = f"In {_place(table)}, {_describe_throughput_growth(study)} {_describe_fitted_models(study)}"
    return [_write_audit_sentence(study), *_write_contradictions(study), _narrow(study, table), grown]


def _write_audit_sentence(study: PublishedStudy) -> str:
    numbers = pluralize(study.numbers["value"].count(), "number")
    sources = pluralize(study.numbers["source"].n_unique(), "publication")
    red, amber = (study.findings(severity).height for severity in ("red", "amber"))
    found = f"{pluralize(red, 'contradiction')} and {pluralize(amber, 'doubtful statement')}"
    return f"The audit of {numbers} from {sources} found {found}."


def _write_contradictions(study: PublishedStudy) -> Iterator[str]:
    """The contradictions that a reader should know first: one per check."""
    red = study.findings("red").unique("check", keep="first", maintain_order=True)
    for row in red.filter(pl.col("check").is_in(_TELLING)).iter_rows(named=True):
        where = f"In {_place(row['table'])} of {_SOURCES.get(row['source'], row['source'])}"
        if row["check"] == "copied_sigma":
            yield f"{where} ({row['stated']}), {row['explanation']}."
        else:
            yield f"{where}, {row['stated']} is stated for “{row['row']}”, but {row['expected']} follows from the rest."


#: Names of sources -> their names in sentences.
_SOURCES: Final = {
    "thesis": "the thesis",
    "postgres_xc": "the paper on Postgres-XC",
    "citus_docs": "the documentation of Citus",
    "hammerdb_talk": "the talk on HammerDB",
    "sigmod": "the SIGMOD paper on Citus",
}
_TELLING: Final = ("copied_sigma", "littles_law", "scale_factor")


def _place(table: str) -> str:
    return f"table {table}" if table[:1].isdigit() else table


def _narrow(study: PublishedStudy, table: str) -> str:
    shown = study.summaries.drop_nulls("stated_low")
    if shown.is_empty():
        return f"Table {table} states no intervals."
    share = (shown["stated_high"] - shown["stated_low"]) / (shown["high"] - shown["low"])
    ns = ", ".join(map(str, shown["n"]))
    low, high = (format_percent(float(share.quantile(q, "nearest") or 0.0)) for q in (0.0, 1.0))
    known = "imply" if "interval" in set(shown["n_from"]) else "accompany"
    return (
        f"The intervals of table {table} {known} {ns} repetitions and have {low} to {high} of the width "
        "that Student's t gives for so few."
    )


def _describe_throughput_growth(study: PublishedStudy) -> str:
    first, last = study.relative.row(0, named=True), study.relative.row(-1, named=True)
    ends = f"{last['speedup_low']:.2f} to {last['speedup_high']:.2f}"
    return (
        f"throughput with {last[study.size]:g} {study.size} is {last['speedup']:.2f} times that with "
        f"{first[study.size]:g} {study.size} ({ends}), an efficiency of "
        f"{format_percent(last['efficiency'])} ({format_percent(last['efficiency_low'])} to "
        f"{format_percent(last['efficiency_high'])})."
    )


def _describe_fitted_models(study: PublishedStudy) -> str:
    finding = f"Of the models, {_describe_model_decision(study.fit)}."
    peak = study.fit["usl"].peak if "usl" in study.fit.candidates else None
    return f"{finding} For the Universal Scalability Law, {peak.words.rstrip('.')}." if peak else finding


def fit_sentences(one: PublishedFit) -> list[str]:
    """How a published series without spread grew, and which models its values do not reject."""
    first, last = one.values.row(0, named=True), one.values.row(-1, named=True)
    rate = {"nopm": "the number of new orders"}.get(one.metric, "throughput")
    where = f"{_place(one.table)} of {_SOURCES.get(one.source, one.source)}"
    grown = (
        f"In {where}, {rate} with {last[one.size]:g} {one.size} is {last['speedup']:.2f} times that with "
        f"{pluralize(int(first[one.size]), one.size.removesuffix('s'))}, an efficiency of "
        f"{format_percent(last['efficiency'])}"
    )
    if last["efficiency"] > 1:
        few = f"{one.values.height} values without a spread do not prove it"
        return [f"{grown}: more than in proportion, which no model here can follow; {few}."]
    return [f"{grown}.", f"Of the models, {_describe_model_decision(one.fit)}."]


def _describe_model_decision(fit: ScalingFit) -> str:
    """The decision between models that were fitted to printed values, which are no runs."""
    return replace_model_names(fit.sentence()).replace(" runs", " values")


def write_monitoring_sentence(comparison: Comparison) -> str:
    """The cost of monitoring according to table 5.3."""
    ratio, runs = comparison.ratio, comparison.runs_needed
    needed = "" if runs is None else f"; a decision needs about {pluralize(runs, 'run')} each"
    return (
        f"With monitoring, throughput is {ratio.estimate:.3f} times that without it ({ratio.low:.2f} to "
        f"{ratio.high:.2f}): {comparison.verdict} at a margin of ± {format_percent(comparison.margin)}, from "
        f"{pluralize(comparison.mean_a.n, 'run')} each{needed}."
    )


def tabulate_published_findings(findings: pl.DataFrame) -> pl.DataFrame:
    """Findings of the audit with fewer, wider columns: the place in one, the expected value beside the stated one."""
    named = pl.when(pl.col("table").str.contains(r"^\d")).then(pl.format("table {}", "table")).otherwise("table")
    place = pl.format("{}, {}", "source", named)
    words = pl.col("check").cast(pl.String).str.replace_all("_", " ").str.replace("littles law", "Little's law")
    shown = ("severity", "place", "row", "stated", "expected", "check", "explanation")
    return findings.with_columns(place=place, check=words).select(shown)


def write_band_sentence(fit: ScalingFit, level: float) -> str:
    """One sentence on the models that the band of a figure of fitted curves covers."""
    if not fit.candidates:
        return "No band is shown: the means reject every model."
    if fit.decided is not None:
        return (
            f"The {format_percent(level)} band is that of {model_name(fit.decided)}, the model that the means select."
        )
    names = join_words([model_name(name) for name in fit.candidates])
    return f"The band spans the {format_percent(level)} bands of all models that the means do not reject: {names}."


def write_published_warnings(study: PublishedStudy) -> list[str]:
    """Caveats for the numbers that were computed again."""
    made = "values constructed from the published means and standard deviations"
    notes = [f"The models are fitted to {made}, not to measurements."]
    guessed = study.summaries.filter(pl.col("n_from") == "interval")
    if guessed.height:
        rows = join_words([f"{size:g}" for size in guessed[study.size]])
        notes.append(f"The publication does not state n: it follows from the stated interval for {rows} {study.size}.")
    return [*notes, *(f"{model_name(one.model)}: {note}." for one in study.fit.fits.values() for note in one.warnings)]


#: What judges a claim -> the column of its verdict.
_JUDGES: Final = {"printed numbers": "by_printed_numbers", "runs": "by_these_runs"}


def write_claims_sentence(judged: JudgedClaims) -> str:
    """How many claims of the publications are supported, by their own numbers and by the runs of the dataset."""
    claims = pluralize(judged.claims["claim"].n_unique(), "claim")
    own, runs = (count_claim_verdicts(judged, by) for by in _JUDGES)
    by_runs = (
        f"the runs of this dataset judge them so: {runs}" if runs else "the runs of this dataset bear on none of them"
    )
    return f"The publications make {claims} that can be judged. Their printed numbers judge them so: {own}; {by_runs}."


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
