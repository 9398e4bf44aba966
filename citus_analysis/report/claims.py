"""The page of judged claims."""

from __future__ import annotations

import polars as pl

from citus_analysis.published.claims import VERDICTS, JudgedClaims
from citus_analysis.report.html import render_html_table, render_table_page

_COLUMNS = ("claim", "place", "estimate", "low", "high", "n", "runs_needed", "explanation", "method")


def render_claims(judged: JudgedClaims) -> str:
    """The claims as one HTML page, a table for each judge and verdict.

    Example:
        >>> from citus_analysis.published import judge_claims
        >>> "contradicted, by printed numbers" in render_claims(judge_claims())
        True
    """
    place = pl.format("{}, {}", "source", "place").alias("place")
    tables = []
    for (by,), rows in judged.claims.group_by("judged_by", maintain_order=True):
        for verdict in VERDICTS:
            found = rows.filter(verdict=verdict).with_columns(place).select(_COLUMNS)
            if found.height:
                caption = "Claims without data" if verdict == "no data" else f"Claims {verdict}"
                tables.append(render_html_table(found, f"{caption}, by {by}", found.height))
    sentences = [
        *judged.summary_lines(),
        f"All intervals of a kind hold together at {judged.level * 100:g} %. A claim is supported if its "
        "whole interval fulfils it, contradicted if the whole interval lies outside, and undecided otherwise. It is as "
        "stated if it is fulfilled by a number that only its own sentence states.",
    ]
    return render_table_page("Claims", sentences, tables)
