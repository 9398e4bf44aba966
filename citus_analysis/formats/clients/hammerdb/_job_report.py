"""The report of a job in JSON, written by HammerDB 6 (`jobs JOBID save`)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.clients.hammerdb._report import Facts, counted, metrics_of
from citus_analysis.formats.clients.hammerdb._timings import Timings, named
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import timezone_of
from citus_analysis.operations import OVERALL

__all__ = ["JOB_REPORT", "read_job_report"]

JOB_REPORT: Final = re.compile(rb'\A\s*\{\s*"schema"\s*:\s*"hammerdb-job-report-v1"')
_LIMIT_BYTES: Final = 64 * 2**20
#: Values of a TPROC-H result: metric and unit.
_ANALYTIC: Final = {
    "geomean_seconds": ("geometric mean", "s"),
    "total_query_time_seconds": ("query sets", "s"),
}


def read_job_report(content: Content, options: Mapping[str, str]) -> Parsed:
    """The run of one job.

    Raises:
        FormatError: the content is not such a report.
    """
    data = content.read(_LIMIT_BYTES)
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not a job report of HammerDB: {error}", path=content.path) from error
    report = _mapping(document, content.path)
    facts, timings = _facts(report), Timings()
    for row in _rows(report, "response_times", "rows"):
        if isinstance(name := row.get("name"), str):
            timings.add(name, named(_numbers(row)))
    points = [
        (str(point.get("timestamp")), _number(point.get("value")))
        for series in _rows(report, "transaction_count", "series")
        for point in _rows(series, "points")
    ]
    frame = pl.DataFrame(points, schema={"time": pl.String, "per_minute": pl.Float64}, orient="row")
    tables = {
        "clients": facts.client(),
        "client_metrics": metrics_of(facts, timings),
        "client_series": counted(frame, timezone_of(options)),
    }
    return Parsed(tables, len(data))


def _facts(report: Mapping[str, object]) -> Facts:
    config, result, job = (_child(report, name) for name in ("benchmark_config", "result", "job"))
    analytic = [
        (OVERALL, metric, unit, value)
        for name, (metric, unit) in _ANALYTIC.items()
        if (value := _number(result.get(name))) is not None
    ]
    queries = [
        (OVERALL, f"query {row.get('name')}", "s", value)
        for row in _rows(report, "query_times", "rows")
        if (value := _number(row.get("seconds"))) is not None
    ]
    timed = result.get("type") == "tproc_c_result" or job.get("benchmark") == "TPROC-C"
    version = job.get("hdb_version")
    return Facts(
        version=version.removeprefix("v") if isinstance(version, str) else None,
        nopm=_number(result.get("nopm")),
        tpm=_number(result.get("tpm")),
        users=_number(result.get("active_virtual_users")),
        ramp_up=_number(config.get("rampup_minutes")) if timed else None,
        timed=_number(config.get("duration_minutes")) if timed else None,
        others=[*analytic, *queries],
    )


def _mapping(value: object, path: Path) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise FormatError("is not a job report of HammerDB: not an object", path=path)
    return value


def _child(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    child = value.get(name)
    return child if isinstance(child, dict) else {}


def _rows(value: Mapping[str, object], *names: str) -> Iterable[Mapping[str, object]]:
    for name in names[:-1]:
        value = _child(value, name)
    found = value.get(names[-1])
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _numbers(row: Mapping[str, object]) -> dict[str, float]:
    found = {name: _number(value) for name, value in row.items() if name != "name"}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: object) -> float | None:
    """A number, also if it is written as a text: HammerDB writes some numbers in quotes."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
