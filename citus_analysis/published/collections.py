"""The findings about documents of collections, together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import REACHED_SHARE
from citus_analysis.errors import CitusAnalysisError, FormatError, PublishedDataError
from citus_analysis.formats.bexhoma import BexhomaRun, names_bexhoma, read_bexhoma
from citus_analysis.formats.clickbench import POSITIONS, read_clickbench
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.hammerdb import JOB_REPORT, read_job_facts
from citus_analysis.published.checks import UNREAD, Finding, Severity
from citus_analysis.redaction import redact
from citus_analysis.schema import TABLES
from citus_analysis.stats.verdicts import Comparison, compare, compare_many
from citus_analysis.texts.numbers import format_number, format_p_value, format_percent
from citus_analysis.texts.words import pluralize

# Files of public collections as results: one value, or the times of a suite of queries, for a system.
#
# Two results are comparable if their `table` is equal, and repeat one another if their `system` is, too.

_LIMIT_BYTES: Final = 64 * 2**20
#: The header of a table may begin with a bracket, too.
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*[\[{])")
_WAY_OUT: Final = (
    "give results of ClickBench, job reports of HammerDB or summaries of bexhoma; `ingest` reads outputs of tools"
)


@dataclass(frozen=True)
class PublishedResult:
    """What one file, or one run of a summary, states.

    Attributes:
        source: the collection.
        table: what results must share to be comparable: the machine, the workload and its size.
        system: what was measured; results with equal `table` and `system` repeat one another.
        name: what distinguishes this result from its repeats, such as its date.
        value: the measured value; nan for a suite of queries.
        unit: its unit.
        higher_is_better: true for a rate, false for a time.
        times: seconds of each query (rows) by position: cold, first and second warm execution; nan where it failed.
        iteration: run of the experiment, whose phases share its conditions; None for results of their own.
        target: rate that the clients were limited to; None without a limit.
        numbers: numbers beside the value that must agree with one another, by their metric.
    """

    source: str
    table: str
    system: str
    name: str
    value: float = float("nan")
    unit: str = ""
    higher_is_better: bool = True
    times: Floats | None = None
    iteration: int | None = None
    target: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, str]:
        """Collection, table and row, as findings name them."""
        return self.source, self.table, f"{self.system}, {self.name}"

    @property
    def is_measured(self) -> bool:
        """Whether it has a value above 0, or the time of an execution."""
        return self.value > 0 if self.times is None else bool(np.isfinite(self.times).any())

    @property
    def is_limited(self) -> bool:
        """Whether it reached the rate that its clients were limited to, so that it says nothing of the system."""
        return self.target is not None and self.value >= REACHED_SHARE * self.target


def is_of_collection(path: Path) -> bool:
    """Whether a file is a document of a collection, not a table of values: JSON, or a summary of bexhoma."""
    try:
        head = Content(path).head
    except CitusAnalysisError:
        return False
    return _JSON.match(head) is not None or names_bexhoma(head)


def read_results(path: Path) -> list[PublishedResult]:
    """The results of a file of a collection.

    Raises:
        PublishedDataError: it is of no collection that is known, or states no result.
    """
    content = Content(path)
    reader = next((read for known, read in _READERS.items() if known(content.head)), _read_clickbench_results)
    try:
        found = reader(content)
    except FormatError as error:
        raise PublishedDataError(error.problem, path=path, place=error.place, hint=_WAY_OUT) from error
    return [replace(one, table=redact(one.table), system=redact(one.system), name=redact(one.name)) for one in found]


def _read_clickbench_results(content: Content) -> list[PublishedResult]:
    found = read_clickbench(content.read(_LIMIT_BYTES), content.path)
    facts = dict(found.set_up)
    machine, size = facts.pop("machine"), facts.pop("cluster_size", "1")
    system = facts.pop("system", "a system that is not named")
    words = [name if value == "yes" else value for name, value in facts.items() if value not in ("no", "cpu")]
    table = machine if size in ("", "1") else f"{machine}, {size} machines"
    times = np.array([[np.nan if second is None else second for second in line] for line in found.times], np.float64)
    label = ", ".join([system, *words])
    return [PublishedResult("ClickBench", table, label, found.date or content.path.stem, times=times)]


def _read_hammerdb_results(content: Content) -> list[PublishedResult]:
    facts = read_job_facts(content)
    return [
        PublishedResult(
            "HammerDB", f"{facts.benchmark}, {facts.settings}, {facts.machine}", facts.system, facts.time,
            value, unit, higher_is_better,
        )
        for value, unit, higher_is_better in ((facts.nopm, "NOPM", True), (facts.geometric_mean_s, "s", False))
        if value is not None
    ]  # fmt: skip


def _read_bexhoma_results(content: Content) -> list[PublishedResult]:
    runs, _ = read_bexhoma(content.read(_LIMIT_BYTES))
    return [result for run in runs for result in _iterate_run_results(run)]


def _iterate_run_results(run: BexhomaRun) -> Iterator[PublishedResult]:
    """The value by which a run of an experiment is judged: comparable within the experiment only.

    What the descriptions of two experiments do not say (limits, storage, neighbours) may differ between them.
    """
    rate = (run.throughput_ops_s, "operations/s", True)
    measured = (run.numbers.get("NOPM"), "NOPM", True), (run.numbers.get("Geo Times [s]"), "s", False), rate
    value, unit, higher = next((one for one in measured if one[0] is not None), rate)
    if value is None:
        return
    facts = dict(run.settings)
    system = facts.pop("configuration", run.system)
    words = [f"{name} {value}" for name, value in facts.items() if name not in ("system", "image", "node")]
    label = ", ".join([system, *words, *([f"{run.threads} threads"] if run.threads is not None else [])])
    table = f"{run.workload}, experiment {run.code}"
    stated = {
        "throughput_ops_s": value if unit == "operations/s" else None,
        "latency_us": run.numbers.get("Latency Distribution.Average Latency (microseconds)"),
        "connections": run.threads,
    }
    numbers = {metric: number for metric, number in stated.items() if number}
    agreeing = numbers if len(numbers) == len(stated) else {}
    place = "bexhoma", table, label, f"run {run.iteration}"
    yield PublishedResult(*place, value, unit, higher, None, run.iteration, run.target_ops_s, agreeing)


_Reader = Callable[[Content], list[PublishedResult]]
#: Whether a beginning is of a collection -> its reader.
_READERS: Final[Mapping[Callable[[bytes], object], _Reader]] = {
    JOB_REPORT.search: _read_hammerdb_results,
    names_bexhoma: _read_bexhoma_results,
}

# What single results of a collection say about themselves: failed queries, times of zero, copies, warm executions.

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


def drop_copied_results(results: Sequence[PublishedResult]) -> tuple[list[PublishedResult], list[Finding]]:
    """The results that were measured, and findings about those that state the times or the value of another one.

    A copy under another date, or the same run in two files, is no repeat; times under the name of another system are
    not its own. Results of both of these systems are left out, because nothing shows whose they are.
    """
    groups: dict[tuple[object, ...], list[PublishedResult]] = defaultdict(list)
    for one in results:
        groups[_get_result_identity(one)].append(one)
    kept: list[PublishedResult] = []
    findings = []
    for same in groups.values():
        findings += [_copy(other, same[0]) for other in same[1:]]
        kept += same[:1] if len({(one.table, one.system) for one in same}) == 1 else []
    return kept, findings


def _get_result_identity(one: PublishedResult) -> tuple[object, ...]:
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
    what = "all times" if one.times is not None else f"{format_number(one.value)} {one.unit}"
    stated = f"{what} of {first.system}, {first.table}, {first.name}"
    return Finding(severity, COPIED, *one.place, "a measurement of its own", stated, text)


def check_executions(results: Sequence[PublishedResult]) -> Iterator[Finding]:
    """Findings about the executions of each result of a suite, and about values that say nothing of the system."""
    for one in results:
        if not one.is_measured and one.times is None:
            yield _make_excluded_finding(one, "a value above 0", "nothing was measured")
        if one.is_limited and one.target is not None:
            expected = f"less than the target of {format_number(one.target)}"
            yield _make_excluded_finding(one, expected, "the clients were limited to this rate")
        if one.times is not None:
            yield _complete(one, one.times)
            yield from _check_warm_executions(one, one.times)


def _make_excluded_finding(one: PublishedResult, expected: str, text: str) -> Finding:
    stated = f"{format_number(one.value)} {one.unit}"
    return Finding("amber", EXECUTIONS, *one.place, expected, stated, f"{text}; gaps leave it out")


def _complete(one: PublishedResult, times: Floats) -> Finding:
    """Whether each execution has a time that the clock could resolve."""
    failed, zero = np.isnan(times), times == 0
    words = []
    if len(times) != QUERIES:
        words.append(f"{pluralize(len(times), 'query')} instead of {QUERIES}: compared with results of as many only")
    if failed.any():
        places = [f"Q{query}" for query in np.flatnonzero(failed.any(axis=1))]
        queries = ", ".join(places) if len(places) <= _LISTED else f"of {pluralize(len(places), 'query')}"
        words.append(f"{pluralize(int(failed.sum()), 'execution')} failed ({queries}), which gaps leave out")
    if zero.any():
        words.append(f"{pluralize(int(zero.sum()), 'time')} of 0 s, below the resolution of the clock")
    severity: Severity = "amber" if words else "green"
    stated = f"{int((~failed).sum())} times, a cold and two warm ones of each query"
    text = "; ".join(words) or f"{', '.join(POSITIONS)}: three states of the system, not three repeats"
    expected = f"{QUERIES * len(POSITIONS)} times above 0"
    return Finding(severity, EXECUTIONS, *one.place, expected, stated, text)


def _check_warm_executions(one: PublishedResult, times: Floats) -> Iterator[Finding]:
    """Whether the second warm execution is as often the faster one as the first: a sign test over the queries."""
    from scipy import stats

    differ = times[:, 2] - times[:, 1]
    faster, slower = int((differ < 0).sum()), int((differ > 0).sum())
    if faster + slower == 0:
        return
    p = float(stats.binomtest(faster, faster + slower).pvalue)
    severity: Severity = "amber" if p < _CERTAIN else "green"
    stated = f"the second is the faster one in {faster} of {faster + slower} queries"
    text = f"sign test, p {format_p_value(p) if format_p_value(p).startswith('<') else '= ' + format_p_value(p)}"
    if severity == "amber":
        text += ": the two warm executions measure different states; the site takes the smaller one"
    yield Finding(severity, WARM, *one.place, "about half", stated, text)


# Which gaps between the systems of a collection are decided by the repeats that its files contain.
#
# A repeat is another result of the same system under the same conditions: another file, or another run of the
# experiment. The two warm executions of a query in a result of ClickBench are none. They come from one session, seconds
# apart, and their agreement says nothing of another session: of 2,775 pairs of results of one system on one machine, at
# most 14 days apart (ClickBench at commit faa7e58, without ClickHouse Cloud), a test on the warm executions finds 34 %
# of the systems different from themselves, where 5 % are expected.

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


def judge_published_gaps(results: Sequence[PublishedResult]) -> Iterator[Finding]:
    """A finding for each gap: green if repeats decide it, amber if they do not, or if there are none.

    Args:
        results: results of one or several collections, without copies of one another.
    """
    tables: dict[tuple[str, str, str], list[PublishedResult]] = defaultdict(list)
    for one in results:
        if one.is_measured and not one.is_limited:
            tables[one.source, one.table, one.unit].append(one)
    groups = [_shorten_system_names(members) for members in tables.values()]
    several = [len({one.system for one in members}) > 1 for members in groups]
    for members, has_gaps in zip(groups, several, strict=True):
        if not has_gaps:
            yield _make_single_system_finding(members, "green" if any(several) else "amber")
            continue
        phases = ("",) if members[0].times is None else _PHASES
        found = [
            (pair, phase, _compute_gap(*pair, phase))
            for phase in phases
            for pair in _iterate_system_pairs(members, phase)
        ]
        yield from (_make_incomparable_finding(*pair, phase) for pair, phase, gap in found if gap is None)
        gaps = [gap for *_, gap in found if gap is not None]
        decided = compare_many([gap.comparison for gap in gaps])
        yield from (_make_gap_finding(replace(gap, comparison=one)) for gap, one in zip(gaps, decided, strict=True))


def _shorten_system_names(members: Sequence[PublishedResult]) -> list[PublishedResult]:
    """The results, their systems named by what not all of them share."""
    parts = [one.system.split(", ") for one in members]
    shared = set.intersection(*(set(words[1:]) for words in parts))
    names = [", ".join([words[0], *(word for word in words[1:] if word not in shared)]) for words in parts]
    return [replace(one, system=name) for one, name in zip(members, names, strict=True)]


def _make_single_system_finding(members: Sequence[PublishedResult], severity: Severity) -> Finding:
    """What is said of comparable results of one system."""
    one = members[0]
    values = "" if one.times is not None else f": {', '.join(format_number(each.value) for each in members)} {one.unit}"
    stated = f"{pluralize(len(members), 'result')}{values}"
    return Finding(severity, ALONE, one.source, one.table, one.system, "a second system", stated, "no gap to judge")


def compute_hot_times(times: Floats) -> Floats:
    """The time that ClickBench calls hot: the smaller of the two warm ones; nan if one of them failed."""
    return np.minimum(times[:, 1], times[:, 2])


def _get_phase_seconds(one: PublishedResult, phase: str) -> Floats:
    if one.times is None:
        return np.array([one.value])
    return compute_hot_times(one.times) if phase == "hot" else one.times[:, 0]


def _iterate_system_pairs(members: Sequence[PublishedResult], phase: str) -> Iterator[_Pair]:
    """Pairs of systems to compare, the better one first: all, or neighbours in the order of their values."""
    systems: dict[str, list[PublishedResult]] = defaultdict(list)
    for one in members:
        if np.isfinite(_get_phase_seconds(one, phase)).any():
            systems[one.system].append(one)
    upwards = not members[0].higher_is_better or members[0].times is not None
    ranked = sorted(systems.values(), key=lambda own: _score(own, phase), reverse=not upwards)
    yield from combinations(ranked, 2) if len(ranked) <= _ALL_PAIRS else pairwise(ranked)


def _score(own: Sequence[PublishedResult], phase: str) -> float:
    logs = [np.log(SHIFT_S + _get_phase_seconds(one, phase)) for one in own]
    return float(np.median([np.nanmean(values) for values in logs]))


def _compute_gap(first: Sequence[PublishedResult], second: Sequence[PublishedResult], phase: str) -> _Gap | None:
    """The gap over the queries that every result of both completed; None without such a query."""
    values = [_get_phase_seconds(one, phase) for one in (*first, *second)]
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


def _make_incomparable_finding(
    first: Sequence[PublishedResult], second: Sequence[PublishedResult], phase: str
) -> Finding:
    one, other = first[0], second[0]
    stated = "no query in common, or suites of different lengths"
    row = f"{one.system} against {other.system}, {phase}"
    return Finding("amber", GAPS, one.source, one.table, row, "a query that both completed", stated, "no gap to judge")


def _make_gap_finding(gap: _Gap) -> Finding:
    better, worse = gap.first[0], gap.second[0]
    severity: Severity = "green" if gap.comparison.verdict != "inconclusive" else "amber"
    row = f"{better.system} against {worse.system}" + (f", {gap.phase}" if gap.phase else "")
    expected, text = _judge_gap(gap)
    return Finding(severity, GAPS, better.source, better.table, row, expected, _format_gap(gap), text)


def _format_gap(gap: _Gap) -> str:
    ratio, better = format_number(gap.comparison.ratio.estimate), gap.first[0]
    worse = gap.second[0].system
    if better.times is None and better.higher_is_better:
        return f"{ratio} times the {better.unit} of {worse}"
    queries = "" if better.times is None else f" (geometric mean of {pluralize(gap.queries, 'query')})"
    return f"{worse} takes {ratio} times as long{queries}"


def _judge_gap(gap: _Gap) -> tuple[str, str]:
    """What the repeats would have to be, and what they show."""
    one, sizes = gap.comparison, (len(gap.first), len(gap.second))
    if min(sizes) == 1:
        return NO_REPEAT, _explain_missing_repeat(gap)
    repeats = f"{sizes[0]} and {pluralize(sizes[1], 'result')}"
    undecided = one.verdict == "inconclusive"
    return f"more than {repeats}" if undecided else f"repeats: {repeats}", one.sentence().rstrip(".")


def _explain_missing_repeat(gap: _Gap) -> str:
    """Why nothing is decided, and how large the gap is beside what is known of sessions."""
    sides = [own for own in (gap.first, gap.second) if len(own) == 1]
    text = f"one result of {' and of '.join(own[0].system for own in sides)}, without a spread"
    if gap.first[0].times is None:
        return text
    if gap.phase == "hot":
        apart = dict.fromkeys(
            format_percent(compute_warm_spread(own[0].times), 1) for own in sides if own[0].times is not None
        )
        text += f": its two warm executions ({' and '.join(apart)} apart) are of one session, and no repeats"
    larger = "larger" if abs(gap.comparison.ratio.estimate - 1) > _NINTH_RERUN else "not larger"
    known = f"{format_percent(_NINTH_RERUN)}, which one in ten pairs of sessions of one system exceeds"
    return f"{text}; the gap is {larger} than {known}"


def compute_warm_spread(times: Floats) -> float:
    """The median over queries of the relative difference of the two warm executions; nan without any.

    Example:
        >>> round(compute_warm_spread(np.array([[9.0, 1.0, 1.1], [9.0, 2.0, 2.0], [9.0, 3.0, 3.3]])), 3)
        0.099
    """
    warm = SHIFT_S + times[np.isfinite(times[:, 1:]).all(axis=1), 1:]
    if not len(warm):
        return float("nan")
    return float(np.median(warm.max(axis=1) / warm.min(axis=1) - 1))


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
    kept, copies = drop_copied_results(results)
    findings = [
        *judge_published_gaps(kept),
        *copies,
        *check_executions(results),
        *(_make_unread_file_finding(*fault) for fault in faults),
    ]
    rows = [
        dict(zip(("source", "table", "row", "metric", "value", "stated"), (*one.place, *number), strict=True))
        for one in kept
        for number in ((metric, value, f"{value:.15g}") for metric, value in one.numbers.items())
    ]
    return findings, pl.DataFrame(rows, schema=TABLES["published"].polars_schema())


def _make_unread_file_finding(path: Path, fault: CitusAnalysisError) -> Finding:
    place = path.stem, path.stem, path.name
    return Finding("amber", UNREAD, *place, "a result of a collection", fault.problem, "it was not judged")
