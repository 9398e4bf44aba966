"""The block at the top of every report: contradictions within the measurements, and their remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

import polars as pl

from citus_analysis.published._audit import AuditResult
from citus_analysis.texts.counted_words import counted, noun_for

_COLUMNS: Final = ("severity", "check", "source", "row", "expected", "stated", "explanation")
#: Severity of the worst finding -> the words about one run, and about several.
_WORDS: Final = {
    "red": ("contradicts itself", "contradict themselves"),
    "amber": ("is doubtful", "are doubtful"),
    "green": ("is consistent", "are consistent"),
}
#: Check of runs -> the remedy for a finding that is not green.
ADVICE: Final = {
    "run_status": "Left out of all numbers, or taken in by allow=degraded. The table client_errors has the errors.",
    "client_totals": "Read the client's output: some of its numbers are wrong, and which ones is not known.",
    "throughput_identity": "Use the throughput that follows from operations and time; start load generators together.",
    "parts_add_up": "Look for a load generator whose log is missing or is read twice.",
    "littles_law": "Measure longer, so that start-up weighs less, or look for a client that waits for itself.",
    "percentiles_ordered": "Do not use these latencies; the client's log is damaged.",
    "coarse_percentiles": "Measure with measurementtype=hdrhistogram.",
    "percentile_label": "Read it as the 90th percentile, or measure with YCSB 0.4 or later.",
    "measurement_interval": "Compare latencies with runs of the same measurement.interval only.",
    "coordinated_omission": "Use the intended latencies: they contain the time that operations waited to be sent.",
    "series_add_up": "Look for lines that are missing from the client's log.",
    "possible_values": "Look at these lines: a counter went back, or this release of the tool prints wrong values.",
    "run_length": "Measure for 30 s or longer.",
    "iterations": "Repeat each configuration at least three times.",
    "interval_resolution": "Repeat these configurations until the interval is as narrow as the difference looked for.",
}

#: Checks whose findings change how every latency of a report is read, and the sentence about their worst finding.
_OF_LATENCIES: Final = {
    "coordinated_omission": "Target rates: latencies of {row} are {stated} (against {expected}); {explanation}.",
    "coarse_percentiles": "Coarse percentiles: {row} has {stated}, known to 1 ms only; {explanation}.",
}
_MOST_RED: Final = 5
#: With fewer runs, a doubt about all of them is listed for each run.
_SEVERAL: Final = 3
#: A doubt about this share of the runs, or more, concerns the experiment and not single runs.
_SHARED: Final = 0.9
_ALL: Final = "Findings of the audit; a row that combines several shows the worst. audit.csv contains all of them."


def runs_by_severity(result: AuditResult, *, without: Sequence[str] = ()) -> dict[str, int]:
    """The number of runs by their worst finding (red, amber, green); findings about configurations are not counted.

    Every run has a finding of the check `run_status`, whose row is the run; rows of latencies also name the operation.

    Args:
        result: the findings of the audit.
        without: checks whose doubts are not counted; contradictions always are.
    """
    found = _of_runs(result).filter((pl.col("severity") == "red") | ~pl.col("check").is_in(list(without)))
    worst = found.group_by("run").agg(pl.col("severity").cast(pl.String).cast(pl.Enum(list(_WORDS))).min())
    return {word: worst.filter(severity=word).height for word in _WORDS}


def shared_doubts(result: AuditResult) -> list[str]:
    """Checks that find (nearly) every run doubtful; stated once, they do not hide the faults of single runs."""
    found = _of_runs(result)
    runs = found["run"].n_unique()
    doubtful = found.filter(severity="amber").group_by("check", maintain_order=True).agg(pl.col("run").n_unique())
    return doubtful.filter(pl.col("run") >= max(_SEVERAL, _SHARED * runs))["check"].to_list()


def _of_runs(result: AuditResult) -> pl.DataFrame:
    """The findings about runs, with the run of each."""
    runs = result.details.filter(check="run_status")["row"].unique()
    row = pl.col("row")
    named = pl.when(row.is_in(runs.implode())).then(row).otherwise(row.str.replace(r" \S+$", ""))
    return result.details.with_columns(run=named).filter(pl.col("run").is_in(runs.implode()))


def audit_block(result: AuditResult) -> str:
    """HTML of an audit: runs by severity, the red findings, and, folded, the remedies and all checks."""
    shared = shared_doubts(result)
    counts = runs_by_severity(result, without=shared)
    badges = "".join(_badge(severity, count, besides=bool(shared)) for severity, count in counts.items())
    said_once = "".join(f"<p>{escape(_shared_sentence(check, result))}</p>" for check in shared)
    red = result.findings.filter(pl.col("severity") == "red")
    shown = _table(red.head(_MOST_RED), "Contradictions.") if red.height else ""
    return (
        f'<section class="audit" aria-label="Audit of the runs">'
        f'<p class="badges">Audit of {counted(sum(counts.values()), "run")}: {badges}</p>'
        f"{said_once}{shown}{_to_do(result)}"
        f"<details><summary>All checks</summary>{_table(result.findings, _ALL)}</details></section>"
    )


def latency_warnings(result: AuditResult) -> list[str]:
    """Caveats for every latency of a report: a sentence per check with findings."""
    doubtful = result.findings.filter(pl.col("severity") == "amber", pl.col("check").is_in(_OF_LATENCIES))
    return [_OF_LATENCIES[row["check"]].format_map(row) for row in doubtful.iter_rows(named=True)]


def _badge(severity: str, count: int, *, besides: bool) -> str:
    shown = severity if count else "none"
    words = _WORDS[severity][count != 1]
    if besides and severity != "red":
        words += " for other reasons" if severity == "amber" else " otherwise"
    return f'<span class="badge {shown}"><b>{count}</b> {noun_for(count, "run")} {words}</span>'


def _shared_sentence(check: str, result: AuditResult) -> str:
    """Doubts that (nearly) all runs share, and the remedies."""
    found = _of_runs(result)
    doubtful = found.filter(check=check, severity="amber")["run"].n_unique()
    runs = found["run"].n_unique()
    many = f"all {runs}" if doubtful == runs else f"{doubtful} of {runs}"
    worst = result.findings.filter(check=check, severity="amber").row(0, named=True)
    return (
        f"The check {check.replace('_', ' ')} finds {many} runs doubtful: {worst['stated']} against "
        f"{worst['expected']} in the worst case, {worst['explanation']}. {ADVICE.get(check, '')}".rstrip()
    )


def _to_do(result: AuditResult) -> str:
    """A line per check with findings: their number, the worst of them, and the remedy."""
    found = result.findings.filter(pl.col("severity") != "green").unique("check", keep="first", maintain_order=True)
    if found.is_empty():
        return ""
    lines = "".join(_advised(row, result) for row in found.iter_rows(named=True))
    return f"<details><summary>Doubts and their remedies</summary><ul>{lines}</ul></details>"


def _advised(row: Mapping[str, str], result: AuditResult) -> str:
    count = result.details.filter(check=row["check"], severity=row["severity"]).height
    worst = f"{row['stated']} against {row['expected']}; {row['explanation']}"
    return (
        f'<li><b class="{row["severity"]}">{escape(row["check"].replace("_", " "))}</b>, {counted(count, "finding")}, '
        f"the worst: {escape(worst)}. <i>{escape(ADVICE.get(row['check'], ''))}</i></li>"
    )


def _table(findings: pl.DataFrame, caption: str) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    rows = "".join(map(_row, findings.select(_COLUMNS).iter_rows()))
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Findings of the audit"><table>'
        f"<caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(row: tuple[object, ...]) -> str:
    severity, check, *rest = ["" if value is None else str(value) for value in row]
    cells = "".join(f"<td>{escape(value)}</td>" for value in (check.replace("_", " "), *rest))
    return f'<tr><td class="{escape(severity)}">{escape(severity)}</td>{cells}</tr>'
