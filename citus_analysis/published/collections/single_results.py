"""What single results of a collection say about themselves: failed queries, times of zero, copies, warm executions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.formats.collections.clickbench import POSITIONS
from citus_analysis.published.checks._registry import Finding, Severity
from citus_analysis.published.collections.published_results import PublishedResult
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import p_text, readable

#: Names of the checks.
EXECUTIONS: Final = "executions"
WARM: Final = "warm_executions"
COPIED: Final = "copied_result"
QUERIES: Final = 43
#: More queries are counted, not listed.
_LISTED: Final = 8
_CERTAIN: Final = 0.01
#: Fewer measured values may agree by chance.
_FEWEST_VALUES: Final = 20


def without_copies(results: Sequence[PublishedResult]) -> tuple[list[PublishedResult], list[Finding]]:
    """The results that were measured, and findings about those that state the times or the value of another one.

    A copy under another date, or the same run in two files, is no repeat; times under the name of another system are
    not its own. Results of both of these systems are left out, because nothing shows whose they are.
    """
    groups: dict[tuple[object, ...], list[PublishedResult]] = defaultdict(list)
    for one in results:
        groups[_identity(one)].append(one)
    kept: list[PublishedResult] = []
    findings = []
    for same in groups.values():
        findings += [_copy(other, same[0]) for other in same[1:]]
        kept += same[:1] if len({(one.table, one.system) for one in same}) == 1 else []
    return kept, findings


def _identity(one: PublishedResult) -> tuple[object, ...]:
    """What no two measurements have in common: all times of a suite, or a single value with its place and time."""
    place = one.source, one.table, one.system, one.name, one.unit, one.value
    if one.times is None:
        return place
    known = np.isfinite(one.times).sum() >= _FEWEST_VALUES
    return (one.source, one.times.tobytes()) if known else (*place, one.times.tobytes())


def _copy(one: PublishedResult, first: PublishedResult) -> Finding:
    ours = (one.table, one.system) == (first.table, first.system)
    severity: Severity = "amber" if ours else "red"
    text = "stated again: no repeat" if ours else "one of the two was not measured; both are left out"
    what = "all times" if one.times is not None else f"{readable(one.value)} {one.unit}"
    stated = f"{what} of {first.system}, {first.table}, {first.name}"
    return Finding(severity, COPIED, *one.place, "a measurement of its own", stated, text)


def executions(results: Sequence[PublishedResult]) -> Iterator[Finding]:
    """Findings about the executions of each result of a suite, and about values that say nothing of the system."""
    for one in results:
        if not one.is_measured and one.times is None:
            yield _left_out(one, "a value above 0", "nothing was measured")
        if one.is_limited and one.target is not None:
            expected = f"less than the target of {readable(one.target)}"
            yield _left_out(one, expected, "the clients were limited to this rate")
        if one.times is not None:
            yield _complete(one, one.times)
            yield from _warm(one, one.times)


def _left_out(one: PublishedResult, expected: str, text: str) -> Finding:
    stated = f"{readable(one.value)} {one.unit}"
    return Finding("amber", EXECUTIONS, *one.place, expected, stated, f"{text}; gaps leave it out")


def _complete(one: PublishedResult, times: Floats) -> Finding:
    """Whether each execution has a time that the clock could resolve."""
    failed, zero = np.isnan(times), times == 0
    words = []
    if len(times) != QUERIES:
        words.append(f"{counted(len(times), 'query')} instead of {QUERIES}: compared with results of as many only")
    if failed.any():
        places = [f"Q{query}" for query in np.flatnonzero(failed.any(axis=1))]
        queries = ", ".join(places) if len(places) <= _LISTED else f"of {counted(len(places), 'query')}"
        words.append(f"{counted(int(failed.sum()), 'execution')} failed ({queries}), which gaps leave out")
    if zero.any():
        words.append(f"{counted(int(zero.sum()), 'time')} of 0 s, below the resolution of the clock")
    severity: Severity = "amber" if words else "green"
    stated = f"{int((~failed).sum())} times, a cold and two warm ones of each query"
    text = "; ".join(words) or f"{', '.join(POSITIONS)}: three states of the system, not three repeats"
    expected = f"{QUERIES * len(POSITIONS)} times above 0"
    return Finding(severity, EXECUTIONS, *one.place, expected, stated, text)


def _warm(one: PublishedResult, times: Floats) -> Iterator[Finding]:
    """Whether the second warm execution is as often the faster one as the first: a sign test over the queries."""
    from scipy import stats

    differ = times[:, 2] - times[:, 1]
    faster, slower = int((differ < 0).sum()), int((differ > 0).sum())
    if faster + slower == 0:
        return
    p = float(stats.binomtest(faster, faster + slower).pvalue)
    severity: Severity = "amber" if p < _CERTAIN else "green"
    stated = f"the second is the faster one in {faster} of {faster + slower} queries"
    text = f"sign test, p {p_text(p) if p_text(p).startswith('<') else '= ' + p_text(p)}"
    if severity == "amber":
        text += ": the two warm executions measure different states; the site takes the smaller one"
    yield Finding(severity, WARM, *one.place, "about half", stated, text)
