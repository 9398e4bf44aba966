"""Comparisons in the formats of other tools: benchstat, Markdown, JUnit, github-action-benchmark, Bencher, Conbench.

- `benchstat`: the runs, one line each, in Go's benchmark format, for benchstat's own statistics;
- `markdown`: a comment for a pull request;
- `junit`: for servers of continuous integration; slower is a failure, inconclusive is skipped;
- `github-action-benchmark`: its `customBiggerIsBetter` (or `customSmallerIsBetter`) list of means;
- `bencher`: Bencher Metric Format, the means with their intervals, for `bencher run --adapter json`;
- `conbench`: the values of all runs as results for Conbench's API, without the commit, which benchadapt adds.

References:
    https://go.googlesource.com/proposal/+/master/design/14313-benchmark-format.md (Go's benchmark format)
    https://github.com/benchmark-action/github-action-benchmark (custom tools)
    https://bencher.dev/docs/reference/bencher-metric-format/ (BMF and its JSON schema)
    https://github.com/conbench/conbench (conbench/entities/benchmark_result.py: what its API accepts)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import NAMESPACE_URL, uuid4, uuid5
from xml.etree import ElementTree as Xml

import polars as pl

from citus_analysis.defaults import EXCHANGE_FORMATS, LEVEL, METRIC
from citus_analysis.errors import UsageError, require_known
from citus_analysis.runs.set_ups import format_configuration, format_setup_value
from citus_analysis.stats.gates import Gate
from citus_analysis.stats.intervals import choose_mean_method, mean_interval
from citus_analysis.stats.results import Interval
from citus_analysis.stats.run_comparisons import RunComparison, change_text
from citus_analysis.stats.studied_runs import get_metric_values, sort_runs_by_time
from citus_analysis.stats.verdicts import Comparison
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import choose_noun_form, make_printable
from citus_analysis.units import SECONDS_PER_UNIT, better_direction, get_unit, label

_NS_PER_US: Final = 1_000.0
#: Separators of words and keys in Go's format.
_UNNAMED: Final = re.compile(r"[^\w.,:=@%()-]+")
#: Ending that Go's format reads as the number of processors that a benchmark used.
_LIKE_PROCESSORS: Final = re.compile(r"-\d+$")
_WORDS: Final = {
    "faster": "🟢 faster",
    "slower": "🔴 slower",
    "higher": "🔵 higher",
    "lower": "🔵 lower",
    "equivalent": "⚪ equivalent",
    "inconclusive": "❔ inconclusive",
}


def render_comparison(found: RunComparison, kind: str) -> str:
    """A comparison of runs in the format of another tool.

    Args:
        found: result of :func:`citus_analysis.stats.compare_runs`.
        kind: `benchstat`, `markdown`, `junit`, `github-action-benchmark`, `bencher` or `conbench`.

    Raises:
        UnknownNameError: there is no such format.

    Example:
        >>> from citus_analysis.stats import compare_runs
        >>> runs = pl.DataFrame({"system": ["x"] * 2 + ["y"] * 2, "throughput_ops_s": [10.0, 11, 20, 21]})
        >>> print(render_comparison(compare_runs(runs), "benchstat"))
        Unit ops/s better=higher
        BenchmarkRuns/system=x 1 10.0 ops/s
        BenchmarkRuns/system=x 1 11.0 ops/s
        BenchmarkRuns/system=y 1 20.0 ops/s
        BenchmarkRuns/system=y 1 21.0 ops/s
    """
    require_known("format", kind, _RENDERERS)
    return _RENDERERS[kind](found)


def _format_benchstat(found: RunComparison) -> str:
    unit, factor = _convert_to_go_unit(found.metric)
    better = "lower" if _counts_downwards(found) else "higher"
    lines = [f"Unit {unit} better={better}"]
    for key, runs in _iterate_configurations(found):
        name = _format_benchmark_name(key)
        lines += [f"{name} 1 {value * factor!r} {unit}" for value in get_metric_values(runs, found.metric).tolist()]
    return "\n".join(lines)


def _convert_to_go_unit(metric: str) -> tuple[str, float]:
    """The metric as a unit of Go's format, in which times are in seconds, and the factor of its values.

    Example:
        >>> (
        ...     _convert_to_go_unit("throughput_ops_s"),
        ...     _convert_to_go_unit("p99_us"),
        ...     _convert_to_go_unit("failed_operations"),
        ... )
        (('ops/s', 1.0), ('p99-sec', 1e-06), ('failed_operations', 1.0))
    """
    if metric == METRIC:
        return "ops/s", 1.0
    unit = get_unit(metric) or ""
    if unit in SECONDS_PER_UNIT:
        return f"{metric.rpartition('_')[0]}-sec", SECONDS_PER_UNIT[unit]
    return metric, 1.0


def _format_benchmark_name(key: Mapping[str, object]) -> str:
    """The name of a configuration for Go's tools: `BenchmarkRuns/workload=A/workers=2`."""
    parts = [f"{name}={_UNNAMED.sub('_', text)}" for name, text in _format_known_settings(key).items()]
    whole = "/".join(["BenchmarkRuns", *parts])
    # Without this, `w2-t16` would be read as `w2` on 16 processors.
    return f"{whole}-1" if _LIKE_PROCESSORS.search(whole) else whole


def _format_known_settings(key: Mapping[str, object]) -> dict[str, str]:
    return {name: format_setup_value(name, value) for name, value in key.items() if value not in (None, "")}


def _iterate_configurations(found: RunComparison) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    """The configurations of the shown comparisons, each once, with their runs in the order of time."""
    seen: set[tuple[object, ...]] = set()
    columns = (*found.strata, found.by)
    for one in found:
        for mine in reversed(one.sides or ()):
            if (key := mine.select(columns).row(0)) not in seen:
                seen.add(key)
                yield dict(zip(columns, key, strict=True)), sort_runs_by_time(mine)


def _counts_downwards(found: RunComparison) -> bool:
    first = next(iter(found), None)
    return better_direction(found.metric) == "lower" if first is None else first.higher_is_better is False


def _format_markdown(found: RunComparison) -> str:
    head = ["configuration", f"{found.by}", "base", "runs", "ratio", "verdict"]
    rows = [
        [
            *_format_markdown_cells(one),
            _WORDS[one.verdict] + _describe_missing_runs(one.runs_missing) if one.ratio.exists else one.shown_verdict,
        ]
        for one in found
    ]
    words = [f"### {label(found.metric)} by {found.by}", "", *_render_markdown_table(head, rows)]
    return "\n".join(
        [*words, *([""] if found.warnings else []), *(f"- {_escape_markdown_cell(note)}" for note in found.warnings)]
    )


def _format_markdown_cells(one: Comparison) -> list[str]:
    """A comparison as cells: configuration, both sides with their means, runs, and the ratio with its interval."""
    sides = ((one.label_a, one.mean_a), (one.label_b, one.mean_b))
    means = [f"{name} ({format_number(mean.estimate)})" for name, mean in sides]
    return [
        format_configuration(one.stratum) or "all runs",
        *means,
        f"{one.mean_a.n} and {one.mean_b.n}",
        change_text(one),
    ]


def _describe_missing_runs(runs: int | None) -> str:
    return f": about {runs:,} more {choose_noun_form(runs, 'run')} of each" if runs else ""


def _render_markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Lines of a table in GitHub's Markdown; markup in cells is escaped.

    Example:
        >>> _render_markdown_table(["a", "b"], [["x|y", "1"]])
        ['| a | b |', '|---|---|', '| x\\|y | 1 |']
    """
    lines = [f"| {' | '.join(map(_escape_markdown_cell, row))} |" for row in (head, *rows)]
    return [lines[0], f"|{'---|' * len(head)}", *lines[1:]]


def _escape_markdown_cell(text: str) -> str:
    return re.sub(r"([\\|`*_<>\[\]@#])", r"\\\1", make_printable(text).replace("\n", " "))


def _format_junit(found: RunComparison) -> str:
    cases = []
    for one in found:
        name = f"{one.label_a} against {one.label_b}" + (
            f", {where}" if (where := format_configuration(one.stratum)) else ""
        )
        outcome = {"slower": "failure", "inconclusive": "skipped"}.get(one.verdict, "")
        cases.append((name, outcome, "\n".join([one.sentence(), *one.warnings])))
    return _render_junit_document(f"{found.metric} by {found.by}", cases)


def _render_junit_document(suite: str, cases: Sequence[tuple[str, str, str]]) -> str:
    """A JUnit file of one suite.

    Args:
        suite: name of the suite.
        cases: for each test its name, `failure`, `skipped` or an empty text, and its message.

    Example:
        >>> print(_render_junit_document("s", [("a < b", "failure", "slower")]).splitlines()[2].strip())
        <testcase classname="s" name="a &lt; b">
    """
    counts = {name: str(sum(kind == word for _, kind, _ in cases)) for name, word in _COUNTED.items()}
    root = Xml.Element("testsuite", {"name": make_printable(suite), "tests": str(len(cases)), "errors": "0", **counts})
    for name, kind, words in cases:
        case = Xml.SubElement(root, "testcase", {"classname": make_printable(suite), "name": make_printable(name)})
        first, said = words.partition("\n")[0], "\n".join(map(make_printable, words.splitlines()))
        if kind:
            Xml.SubElement(case, kind, {"message": make_printable(first)}).text = said
        else:
            Xml.SubElement(case, "system-out").text = said
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode")


_COUNTED: Final = {"failures": "failure", "skipped": "skipped"}


def render_gate(found: Gate, kind: str) -> str:
    """A gate as a comment for a pull request (`markdown`), or for a server of continuous integration (`junit`).

    Raises:
        UnknownNameError: there is no such format.

    Example:
        >>> from citus_analysis.stats import gate
        >>> runs = pl.DataFrame({"throughput_ops_s": [99.0, 100.0, 101.0]})
        >>> print(render_gate(gate(runs, runs), "markdown").splitlines()[0])
        ### 🟢 passed: 1 equivalent (margin 5 %, level 95 %)
    """
    require_known("format", kind, ("markdown", "junit"))
    if kind == "junit":
        outcome = {"worse": "failure", "undecided": "skipped"}
        said = ["\n".join([c.summary_lines()[0], *c.comparison.warnings]) for c in found.checks]
        cases = [(c.name, outcome.get(c.verdict, ""), words) for c, words in zip(found.checks, said, strict=True)]
        cases += [(cell, "failure", "no run of the candidate is ok") for cell in found.failed_runs]
        return _render_junit_document("gate", cases)
    head = ["configuration", "candidate", "baseline", "runs", "change", "baseline, then candidate", "verdict"]
    rows = [
        [
            check.name,
            *_format_markdown_cells(check.comparison)[1:],
            _render_sparkline(check.baseline_values, check.values),
            f"{check.verdict}{check.advice()}",
        ]
        for check in found.checks
    ]
    lines = [f"### {_GATE_WORDS[found.verdict]} {found.summary_lines()[0]}", "", *_render_markdown_table(head, rows)]
    commands = ["", "```bash", *found.commands(), "```"] if found.commands() else []
    return "\n".join([*lines, *commands, "", *(f"- {_escape_markdown_cell(note)}" for note in found.notes())]).rstrip()


_BARS: Final = "▁▂▃▄▅▆▇█"
#: Runs of a side that a sparkline shows.
_NEWEST: Final = 12


def _render_sparkline(before: Sequence[float], after: Sequence[float]) -> str:
    """The newest runs of both sides as bars from the smallest to the largest value of all.

    Example:
        >>> _render_sparkline([100, 101, 99], [90, 92])
        '▇█▇ ▁▂'
    """
    sides = (before[-_NEWEST:], after[-_NEWEST:])
    values = [value for side in sides for value in side]
    span = max(values) - min(values) if values else 0.0
    if not span:
        return " ".join(_BARS[3] * len(side) for side in sides)
    step = (len(_BARS) - 1) / span
    return " ".join("".join(_BARS[round((value - min(values)) * step)] for value in side) for side in sides)


_GATE_WORDS: Final = {"passed": "🟢", "failed": "🔴", "undecided": "❔"}


def _format_github_action_benchmark(found: RunComparison) -> str:
    entries = [
        {
            "name": f"{found.metric} {format_configuration(key)}",
            "unit": get_unit(found.metric) or found.metric,
            "value": mean.estimate,
            **({"range": f"{format_number(mean.low)} to {format_number(mean.high)}"} if mean.exists else {}),
            "extra": str(mean),
        }
        for key, mean in _means(found)
    ]
    return json.dumps(entries, ensure_ascii=False, indent=2)


def _means(found: RunComparison) -> Iterator[tuple[dict[str, object], Interval]]:
    """The configurations of the shown comparisons, each with its mean at the level of the comparisons."""
    level = next((one.ratio.level for one in found), LEVEL)
    for key, runs in _iterate_configurations(found):
        values = get_metric_values(runs, found.metric)
        yield key, mean_interval(values, level, choose_mean_method(values))


def _format_bencher(found: RunComparison) -> str:
    measure, factor = _choose_bencher_measure(found.metric)
    results = {}
    for key, mean in _means(found):
        ends = {"lower_value": mean.low * factor, "upper_value": mean.high * factor} if mean.exists else {}
        results[format_configuration(key) or "all runs"] = {measure: {"value": mean.estimate * factor, **ends}}
    return json.dumps(results, ensure_ascii=False, indent=2)


def _choose_bencher_measure(metric: str) -> tuple[str, float]:
    """The slug of a measure, and the factor of its values; every project has two measures with units of their own.

    Example:
        >>> (
        ...     _choose_bencher_measure("throughput_ops_s"),
        ...     _choose_bencher_measure("mean_us"),
        ...     _choose_bencher_measure("p99_us"),
        ... )
        (('throughput', 1.0), ('latency', 1000.0), ('p99-us', 1.0))
    """
    if metric == METRIC:
        return "throughput", 1.0
    return ("latency", _NS_PER_US) if metric == "mean_us" else (metric.replace("_", "-"), 1.0)


def _format_conbench(found: RunComparison) -> str:
    unit, factor = _choose_conbench_unit(found.metric)
    batch = uuid5(NAMESPACE_URL, "\n".join(found.runs["run_id"].sort())) if "run_id" in found.runs.columns else uuid4()
    results = []
    for key, runs in _iterate_configurations(found):
        began = runs["start_time"].min() if "start_time" in runs.columns else None
        results.append(
            {
                "run_id": batch.hex,
                "batch_id": batch.hex,
                **({"timestamp": began.isoformat()} if isinstance(began, datetime) else {}),
                "tags": {"name": found.metric, **_format_known_settings(key)},
                "stats": {
                    "data": [value * factor for value in get_metric_values(runs, found.metric).tolist()],
                    "unit": unit,
                },
                "context": {},
                "info": {"tool": "citus-analysis"},
                "cluster_info": {"name": _format_system_names(runs), "info": {}, "optional_info": {}},
            }
        )
    return json.dumps(results, ensure_ascii=False, indent=2)


def _format_system_names(runs: pl.DataFrame) -> str:
    if "system" not in runs.columns:
        return "unknown"
    known = runs["system"].drop_nulls().cast(pl.String).unique().sort().to_list()
    return ", ".join(known) or "unknown"


def _choose_conbench_unit(metric: str) -> tuple[str, float]:
    """The metric in one of the units that Conbench knows, and the factor of its values.

    Example:
        >>> _choose_conbench_unit("throughput_ops_s"), _choose_conbench_unit("p99_us")
        (('i/s', 1.0), ('s', 1e-06))
    """
    seconds = SECONDS_PER_UNIT.get(get_unit(metric) or "")
    if metric != METRIC and seconds is None:
        hint = "it takes throughput_ops_s and times, such as mean_us or p99_us"
        raise UsageError(f"Conbench has no unit for {metric}", hint=hint)
    return ("i/s", 1.0) if seconds is None else ("s", seconds)


_RENDERERS: Final[dict[str, Callable[[RunComparison], str]]] = dict(
    zip(
        EXCHANGE_FORMATS,
        (
            _format_benchstat,
            _format_markdown,
            _format_junit,
            _format_github_action_benchmark,
            _format_bencher,
            _format_conbench,
        ),
        strict=True,
    )
)
