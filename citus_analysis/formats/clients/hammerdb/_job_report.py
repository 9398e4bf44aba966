"""The report of a job in JSON, written by HammerDB 6 (`jobs JOBID save`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from statistics import median
from typing import Final, NamedTuple

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.api.json_documents import document_of, number_of
from citus_analysis.formats.clients.hammerdb._report import Facts, counted
from citus_analysis.formats.clients.hammerdb._timings import Timings, named
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import timezone_of
from citus_analysis.operations import OVERALL

JOB_REPORT: Final = re.compile(rb'\A\s*\{\s*"schema"\s*:\s*"hammerdb-job-report-v1"')
_LIMIT_BYTES: Final = 64 * 2**20
#: Times of a TPROC-H result -> metric.
_ANALYTIC: Final = {"geomean_seconds": "geometric mean", "total_query_time_seconds": "total query time"}


class JobFacts(NamedTuple):
    """What a report states about its job as a whole.

    Attributes:
        system: database and its release.
        benchmark: TPROC-C or TPROC-H.
        settings: its size, users and minutes, as `name value`.
        machine: processor, their number and memory; `machine not stated` without them.
        time: when the job began.
        nopm: new orders a minute; None if the job measured none.
        geometric_mean_s: geometric mean of the times of the queries in seconds; None without queries.
    """

    system: str
    benchmark: str
    settings: str
    machine: str
    time: str
    nopm: float | None
    geometric_mean_s: float | None


def read_job_facts(content: Content) -> JobFacts:
    """The facts of one job.

    Raises:
        FormatError: the content is not such a report.
    """
    report = _document(content, content.read(_LIMIT_BYTES))
    job, config, machine, result = (_child(report, name) for name in ("job", "benchmark_config", "system", "result"))
    settings = [f"{name.replace('_', ' ')} {value:g}" for name, value in _numbers(config).items()]
    return JobFacts(
        system=_words(job, "database_display", "release") or "a database that is not named",
        benchmark=_words(job, "benchmark") or "benchmark not stated",
        settings=", ".join(settings) or "settings not stated",
        machine=_words(machine, "cpumodel", "cpucount", "memory") or "machine not stated",
        time=_words(job, "timestamp") or content.path.stem,
        nopm=_number(result.get("nopm")),
        geometric_mean_s=_number(result.get("geomean_seconds")),
    )


def _words(facts: Mapping[str, object], *names: str) -> str:
    return " ".join(str(facts[name]).strip() for name in names if isinstance(facts.get(name), str | int))


def read_job_report(content: Content, options: Mapping[str, str]) -> Parsed:
    """The run of one job.

    Raises:
        FormatError: the content is not such a report.
    """
    data = content.read(_LIMIT_BYTES)
    report = _document(content, data)
    facts, timings = _facts(report), Timings()
    for row in _rows(_child(report, "response_times"), "rows"):
        if isinstance(name := row.get("name"), str):
            timings.add(name, named(_numbers(row)))
    points = [
        (str(point.get("timestamp")), _number(point.get("value")))
        for series in _rows(_child(report, "transaction_count"), "series")
        for point in _rows(series, "points")
    ]
    tail = _shutdown_points(report, [value for _, value in points])
    if tail:
        facts.others.append((OVERALL, "points of the shutdown", None, float(tail)))
    kept = points[: len(points) - tail]
    frame = pl.DataFrame(kept, schema={"time": pl.String, "per_minute": pl.Float64}, orient="row")
    tables = {
        "clients": facts.client(),
        "client_metrics": facts.metrics(timings),
        "client_series": counted(frame, timezone_of(options)),
    }
    return Parsed(tables, len(data))


def _document(content: Content, data: bytes) -> Mapping[str, object]:
    document = document_of(data, "a job report of HammerDB", content.path)
    if not isinstance(document, dict):
        raise FormatError("is not a job report of HammerDB: not an object", path=content.path)
    return document


def _facts(report: Mapping[str, object]) -> Facts:
    config, result, job = (_child(report, name) for name in ("benchmark_config", "result", "job"))
    size, measured, version = _numbers(config), _numbers(result), job.get("hdb_version")
    stated = {
        "nopm": measured.get("nopm"),
        "tpm": measured.get("tpm"),
        "users": measured.get("active_virtual_users"),
        "warehouses": size.get("warehouses") or size.get("scale_factor"),
    }
    if result.get("type") == "tproc_c_result" or job.get("benchmark") == "TPROC-C":
        stated |= {"ramp_up": size.get("rampup_minutes"), "timed": size.get("duration_minutes")}
    if result.get("type") == "tproc_h_result":
        stated["query_seconds"] = measured.get("total_query_time_seconds")
        if {"queries", "query_sets"} <= measured.keys():
            stated["queries"] = measured["queries"] * measured["query_sets"]
    analytic = [(OVERALL, metric, "s", measured[name]) for name, metric in _ANALYTIC.items() if name in measured]
    of_queries = [
        (OVERALL, f"query {row.get('name')}", "s", value)
        for row in _rows(_child(report, "query_times"), "rows")
        if (value := _number(row.get("seconds"))) is not None
    ]
    return Facts(
        version=version.removeprefix("v") if isinstance(version, str) else None,
        stated={name: value for name, value in stated.items() if value is not None},
        others=[*analytic, *of_queries],
    )


def _shutdown_points(report: Mapping[str, object], values: Sequence[float | None]) -> int:
    """Points at the end of the counter that the report calls its shutdown tail, and the one in which that began.

    They are those below the report's threshold, and before them a point below half of the median: an interval whose
    users ended in it.
    """
    tail = _child(_child(report, "analysis_hints"), "shutdown_tail")
    threshold = _number(tail.get("threshold"))
    if tail.get("present") is not True or threshold is None:
        return 0
    active = [value for value in values if value is not None and value >= threshold]
    low = sum(1 for _ in takewhile(lambda value: (value or 0.0) < threshold, reversed(values)))
    if not low or not active or low == len(values):
        return 0
    return low + ((values[-1 - low] or 0.0) < median(active) / 2)


def _child(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    child = value.get(name)
    return child if isinstance(child, dict) else {}


def _rows(value: Mapping[str, object], name: str) -> Iterable[Mapping[str, object]]:
    found = value.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _numbers(row: Mapping[str, object]) -> dict[str, float]:
    found = {name: _number(value) for name, value in row.items() if name != "name"}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: object) -> float | None:
    """A number: HammerDB writes some in quotes."""
    return number_of(value, quoted=True)
