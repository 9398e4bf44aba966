"""The block at the top of every report: contradictions within the measurements."""

from __future__ import annotations

from html import escape
from typing import Final

import polars as pl

from citus_analysis.published import AuditResult
from citus_analysis.texts.counted_words import counted

__all__ = ["audit_block", "latency_warnings"]

_COLUMNS: Final = ("severity", "check", "source", "row", "expected", "stated", "explanation")
_WORDS: Final = {
    "red": "contradicts itself",
    "amber": "doubtful",
    "green": "consistent",
}


#: Checks whose findings change how every latency of a report is read, and the sentence about their worst finding.
_OF_LATENCIES: Final = {
    "coordinated_omission": "Target rates: latencies of {row} are {stated} (against {expected}); {explanation}.",
    "coarse_percentiles": "Coarse percentiles: {row} has {stated}, known to 1 ms only; {explanation}.",
}
_MOST_RED: Final = 5
_ALL: Final = "Findings of the audit; a row that combines several shows the worst. audit.csv contains all of them."


def audit_block(result: AuditResult) -> str:
    """HTML of an audit: how many runs each severity concerns, the red findings, and, collapsed, all findings."""
    counts = "".join(_badge(result, severity, meaning) for severity, meaning in _WORDS.items())
    red = result.findings.filter(pl.col("severity") == "red")
    shown = _table(red.head(_MOST_RED), "Contradictions.") if red.height else ""
    return (
        f'<section class="audit" aria-label="Audit of the runs"><p>Audit of the runs: {counts}</p>{shown}'
        f"<details><summary>All checks</summary>{_table(result.findings, _ALL)}</details></section>"
    )


def latency_warnings(result: AuditResult) -> list[str]:
    """Caveats for every latency of a report: a sentence per check with findings."""
    doubtful = result.findings.filter(pl.col("severity") == "amber", pl.col("check").is_in(_OF_LATENCIES))
    return [_OF_LATENCIES[row["check"]].format_map(row) for row in doubtful.iter_rows(named=True)]


def _badge(result: AuditResult, severity: str, meaning: str) -> str:
    checks = result.checks(severity)
    by = f", by {counted(checks, 'check')}" if checks else ""
    return (
        f'<span class="badge {severity}"><b>{result.count(severity)}</b> {severity} <small>{meaning}{by}</small></span>'
    )


def _table(findings: pl.DataFrame, caption: str) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    rows = "".join(_row(row) for row in findings.select(_COLUMNS).iter_rows())
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Findings of the audit"><table>'
        f"<caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(row: tuple[object, ...]) -> str:
    severity, *rest = ["" if value is None else str(value) for value in row]
    cells = "".join(f"<td>{escape(value.replace('_', ' ') if i == 0 else value)}</td>" for i, value in enumerate(rest))
    return f'<tr><td class="{escape(severity)}">{escape(severity)}</td>{cells}</tr>'
