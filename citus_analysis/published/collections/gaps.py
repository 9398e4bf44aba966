"""Which gaps between the systems of a collection are decided by the repeats that its files contain.

A repeat is another result of the same system under the same conditions: another file, or another run of the experiment.
The two warm executions of a query in a result of ClickBench are none. They come from one session, seconds apart, and
their agreement says nothing of another session: of 2,775 pairs of results of one system on one machine, at most 14 days
apart (ClickBench at commit faa7e58, without ClickHouse Cloud), a test on the warm executions finds 34 % of the systems
different from themselves, where 5 % are expected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.published.checks._registry import Finding, Severity
from citus_analysis.published.collections.published_results import PublishedResult
from citus_analysis.stats.compare.families import compare_many
from citus_analysis.stats.compare.verdicts import Comparison, compare
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import percent, readable

#: Name of the check.
GAPS: Final = "published_gap"
#: Name of the check of results that nothing can be compared with.
ALONE: Final = "single_system"
#: What is expected of systems without repeats.
NO_REPEAT: Final = "2 results of each, or more"
#: With more systems, only neighbours in their order are compared.
_ALL_PAIRS: Final = 5
#: ClickBench adds it to each time before it takes ratios, so that a time of 0 is no infinite advantage.
SHIFT_S: Final = 0.01
#: What one in ten of the pairs of the module's docstring differs by; the median is 0.017.
_NINTH_RERUN: Final = 0.13
_PHASES: Final = ("hot", "cold")


_Pair = tuple[Sequence[PublishedResult], Sequence[PublishedResult]]


@dataclass(frozen=True)
class _Gap:
    """The gap between two systems: the first is the better one."""

    first: Sequence[PublishedResult]
    second: Sequence[PublishedResult]
    phase: str
    queries: int
    comparison: Comparison


def published_gaps(results: Sequence[PublishedResult]) -> Iterator[Finding]:
    """A finding for each gap: green if repeats decide it, amber if they do not, or if there are none.

    Args:
        results: results of one or several collections, without copies of one another.
    """
    tables: dict[tuple[str, str, str], list[PublishedResult]] = defaultdict(list)
    for one in results:
        if one.is_measured and not one.is_limited:
            tables[one.source, one.table, one.unit].append(one)
    groups = [_short(members) for members in tables.values()]
    several = [len({one.system for one in members}) > 1 for members in groups]
    for members, has_gaps in zip(groups, several, strict=True):
        if not has_gaps:
            yield _alone(members, "green" if any(several) else "amber")
            continue
        phases = ("",) if members[0].times is None else _PHASES
        found = [(pair, phase, _gap(*pair, phase)) for phase in phases for pair in _pairs(members, phase)]
        yield from (_incomparable(*pair, phase) for pair, phase, gap in found if gap is None)
        gaps = [gap for *_, gap in found if gap is not None]
        decided = compare_many([gap.comparison for gap in gaps])
        yield from (_finding(replace(gap, comparison=one)) for gap, one in zip(gaps, decided, strict=True))


def _short(members: Sequence[PublishedResult]) -> list[PublishedResult]:
    """The results, their systems named by what not all of them share."""
    parts = [one.system.split(", ") for one in members]
    shared = set.intersection(*(set(words[1:]) for words in parts))
    names = [", ".join([words[0], *(word for word in words[1:] if word not in shared)]) for words in parts]
    return [replace(one, system=name) for one, name in zip(members, names, strict=True)]


def _alone(members: Sequence[PublishedResult], severity: Severity) -> Finding:
    """What is said of comparable results of one system."""
    one = members[0]
    values = "" if one.times is not None else f": {', '.join(readable(each.value) for each in members)} {one.unit}"
    stated = f"{counted(len(members), 'result')}{values}"
    return Finding(severity, ALONE, one.source, one.table, one.system, "a second system", stated, "no gap to judge")


def hot_times(times: Floats) -> Floats:
    """The time that ClickBench calls hot: the smaller of the two warm ones; nan if one of them failed."""
    return np.minimum(times[:, 1], times[:, 2])


def _seconds(one: PublishedResult, phase: str) -> Floats:
    if one.times is None:
        return np.array([one.value])
    return hot_times(one.times) if phase == "hot" else one.times[:, 0]


def _pairs(members: Sequence[PublishedResult], phase: str) -> Iterator[_Pair]:
    """Pairs of systems to compare, the better one first: all, or neighbours in the order of their values."""
    systems: dict[str, list[PublishedResult]] = defaultdict(list)
    for one in members:
        if np.isfinite(_seconds(one, phase)).any():
            systems[one.system].append(one)
    upwards = not members[0].higher_is_better or members[0].times is not None
    ranked = sorted(systems.values(), key=lambda own: _score(own, phase), reverse=not upwards)
    yield from combinations(ranked, 2) if len(ranked) <= _ALL_PAIRS else pairwise(ranked)


def _score(own: Sequence[PublishedResult], phase: str) -> float:
    logs = [np.log(SHIFT_S + _seconds(one, phase)) for one in own]
    return float(np.median([np.nanmean(values) for values in logs]))


def _gap(first: Sequence[PublishedResult], second: Sequence[PublishedResult], phase: str) -> _Gap | None:
    """The gap over the queries that every result of both completed; None without such a query."""
    values = [_seconds(one, phase) for one in (*first, *second)]
    if len({each.size for each in values}) > 1:
        return None
    table = np.array(values)
    common = np.isfinite(table).all(axis=0)
    if not common.any():
        return None
    queries = table[:, common]
    means = queries[:, 0] if first[0].times is None else np.exp(np.log(SHIFT_S + queries).mean(axis=1))
    a, b = means[: len(first)], means[len(first) :]
    upwards = first[0].times is None and first[0].higher_is_better
    # The order of the systems is that of all queries, these are the common ones.
    if (a.mean() < b.mean()) == upwards and a.mean() != b.mean():
        first, second, a, b = second, first, b, a
    # Of times the slower one over the faster one, as ClickBench shows it.
    ours, others, x, y = (first, second, a, b) if upwards else (second, first, b, a)
    # Phases of one run of an experiment share its conditions.
    runs = tuple([one.iteration for one in own if one.iteration is not None] for own in (ours, others))
    shared = (runs[0], runs[1]) if (len(runs[0]), len(runs[1])) == (len(ours), len(others)) else None
    names = ours[0].system, others[0].system
    one = compare(x, y, higher_is_better=upwards, label_a=names[0], label_b=names[1], iterations=shared)
    family = " ".join((first[0].table, phase))
    return _Gap(first, second, phase, int(common.sum()), replace(one, holm_family=family))


def _incomparable(first: Sequence[PublishedResult], second: Sequence[PublishedResult], phase: str) -> Finding:
    one, other = first[0], second[0]
    stated = "no query in common, or suites of different lengths"
    row = f"{one.system} against {other.system}, {phase}"
    return Finding("amber", GAPS, one.source, one.table, row, "a query that both completed", stated, "no gap to judge")


def _finding(gap: _Gap) -> Finding:
    better, worse = gap.first[0], gap.second[0]
    severity: Severity = "green" if gap.comparison.verdict != "inconclusive" else "amber"
    row = f"{better.system} against {worse.system}" + (f", {gap.phase}" if gap.phase else "")
    expected, text = _judged(gap)
    return Finding(severity, GAPS, better.source, better.table, row, expected, _stated(gap), text)


def _stated(gap: _Gap) -> str:
    ratio, better = readable(gap.comparison.ratio.estimate), gap.first[0]
    worse = gap.second[0].system
    if better.times is None and better.higher_is_better:
        return f"{ratio} times the {better.unit} of {worse}"
    queries = "" if better.times is None else f" (geometric mean of {counted(gap.queries, 'query')})"
    return f"{worse} takes {ratio} times as long{queries}"


def _judged(gap: _Gap) -> tuple[str, str]:
    """What the repeats would have to be, and what they show."""
    one, sizes = gap.comparison, (len(gap.first), len(gap.second))
    if min(sizes) == 1:
        return NO_REPEAT, _without_repeat(gap)
    repeats = f"{sizes[0]} and {counted(sizes[1], 'result')}"
    undecided = one.verdict == "inconclusive"
    return f"more than {repeats}" if undecided else f"repeats: {repeats}", one.sentence().rstrip(".")


def _without_repeat(gap: _Gap) -> str:
    """Why nothing is decided, and how large the gap is beside what is known of sessions."""
    sides = [own for own in (gap.first, gap.second) if len(own) == 1]
    text = f"one result of {' and of '.join(own[0].system for own in sides)}, without a spread"
    if gap.first[0].times is None:
        return text
    if gap.phase == "hot":
        apart = dict.fromkeys(percent(warm_spread(own[0].times), 1) for own in sides if own[0].times is not None)
        text += f": its two warm executions ({' and '.join(apart)} apart) are of one session, and no repeats"
    larger = "larger" if abs(gap.comparison.ratio.estimate - 1) > _NINTH_RERUN else "not larger"
    known = f"{percent(_NINTH_RERUN)}, which one in ten pairs of sessions of one system exceeds"
    return f"{text}; the gap is {larger} than {known}"


def warm_spread(times: Floats) -> float:
    """The median over queries of the relative difference of the two warm executions; nan without any.

    Example:
        >>> round(warm_spread(np.array([[9.0, 1.0, 1.1], [9.0, 2.0, 2.0], [9.0, 3.0, 3.3]])), 3)
        0.099
    """
    warm = SHIFT_S + times[np.isfinite(times[:, 1:]).all(axis=1), 1:]
    if not len(warm):
        return float("nan")
    return float(np.median(warm.max(axis=1) / warm.min(axis=1) - 1))
