"""The findings about documents of collections, together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.published.checks._registry import Finding
from citus_analysis.published.checks.unread import UNREAD
from citus_analysis.published.collections.single_results import COPIED, EXECUTIONS, WARM, executions, without_copies
from citus_analysis.published.collections.gaps import GAPS, published_gaps
from citus_analysis.published.collections.published_results import PublishedResult, read_results

#: The checks of collections, in the order in which findings are listed.
COLLECTION_CHECKS: Final = (GAPS, COPIED, WARM, EXECUTIONS)


def judge_collections(paths: Sequence[Path]) -> Iterator[Finding]:
    """Findings about documents of collections: gaps, copies, executions, and documents without results.

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
    yield from published_gaps(kept)
    yield from copies
    yield from executions(results)
    for path, error in faults:
        text = "it was not judged"
        yield Finding("amber", UNREAD, path.stem, path.stem, path.name, "a result of a collection", error.problem, text)
