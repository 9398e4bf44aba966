"""The findings about documents of collections, together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.published.checks._registry import Finding
from citus_analysis.published.checks.unread import UNREAD
from citus_analysis.published.collections.gaps import ALONE, GAPS, published_gaps
from citus_analysis.published.collections.published_results import PublishedResult, read_results
from citus_analysis.published.collections.single_results import COPIED, EXECUTIONS, WARM, executions, without_copies
from citus_analysis.schema import TABLES

#: The checks of collections, in the order in which findings are listed.
COLLECTION_CHECKS: Final = (GAPS, COPIED, WARM, EXECUTIONS, ALONE)


def judge_collections(paths: Sequence[Path]) -> tuple[list[Finding], pl.DataFrame]:
    """Judge documents of collections.

    Returns:
        Gaps, copies, executions, and documents without results; and numbers that must agree with one another, as a
        frame of ``schema.TABLES["published"]``.

    Raises:
        CitusAnalysisError: no document could be read; the error of the first.
    """
    results: list[PublishedResult] = []
    faults: list[tuple[Path, CitusAnalysisError]] = []
    for path in paths:
        try:
            results += read_results(path)
        except CitusAnalysisError as fault:
            faults.append((path, fault))
    if faults and not results:
        raise faults[0][1]
    kept, copies = without_copies(results)
    findings = [*published_gaps(kept), *copies, *executions(results), *(_unread(*fault) for fault in faults)]
    rows = [
        dict(zip(("source", "table", "row", "metric", "value", "stated"), (*one.place, *number), strict=True))
        for one in kept
        for number in ((metric, value, f"{value:.15g}") for metric, value in one.numbers.items())
    ]
    return findings, pl.DataFrame(rows, schema=TABLES["published"].polars_schema())


def _unread(path: Path, fault: CitusAnalysisError) -> Finding:
    place = path.stem, path.stem, path.name
    return Finding("amber", UNREAD, *place, "a result of a collection", fault.problem, "it was not judged")
