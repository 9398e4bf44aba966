"""Results of BenchBase: `.summary.json`, `.raw.csv`, `.samples.csv` and `.results*.csv`.

Tables: `clients` and `client_metrics` (the summary), `client_latencies` and `client_histogram` (the raw file),
`client_series` (samples and results). For example::

    {"Elapsed Time (nanoseconds)": 12003103354, "Benchmark Type": "tpcc", "Measured Requests": 4186, "terminals": "4",
     "Latency Distribution": {"95th Percentile Latency (microseconds)": 36172, ...},
     "Throughput (requests/second)": 348.7, "Goodput (requests/second)": 346.1}

    Transaction Type Index,Transaction Name,Start Time (microseconds),Latency (microseconds),Worker Id ...
    2,Payment,1795376143.952135,50558,0,1

Conversion:

- numbers of the summary are metrics under their own names, without their unit: in the section `OVERALL`, and those of
  the `Latency Distribution` in `all transactions`. `terminals`, `isolation` and so on describe the run;
- `throughput_ops_s` is Throughput, which counts aborted requests too; `failed_operations` is Throughput less Goodput,
  times the elapsed time. Goodput also counts successful requests of the warm-up, which the summary does not mention:
  with a warm-up, more requests may have failed, and if Goodput is larger than Throughput, the number is null. No other
  number includes the warm-up. `Start timestamp` is before it and therefore a metric, not the `start_time`;
- summaries before November 2023 state no number of requests: it is Throughput times the elapsed time. Where this is not
  stated either, `operations_done` and `runtime_ms` are null, and `failed_share` is the share of requests that failed;
- in the raw file, the time (in seconds, contrary to its heading) is the beginning of the request. `client_histogram`
  counts its latencies to the microsecond: percentiles of `operation_latencies` come from all requests of each
  transaction, and files of several BenchBase processes merge exactly;
- in samples and results, `elapsed_s` is the end of the window; the last window may be incomplete, and its throughput
  too low. The section of `NAME.results.NewOrder.csv` is `NewOrder`.

Settings of the server (`.params.json`) and of the run (`.config.xml`) are read by
:mod:`citus_analysis.formats.benchbase_settings`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    MAX_CLIENTS,
    MAX_COUNT,
    NUMBER,
    LatencyCounts,
    build_parsed_report,
    convert_to_count,
    describe_contradictions,
    make_metric_frame,
    parse_each_block,
    parse_whole_number,
    split_fitting_lines,
)
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, StartMarker
from citus_analysis.operations import OVERALL
from citus_analysis.texts.documents import parse_json
from citus_analysis.texts.numbers import format_number
from citus_analysis.units import SECONDS_PER_UNIT, US_PER_S

SUMMARY_LIMIT_BYTES: Final = 2**20
_ALL: Final = "all transactions"
_RAW: Final = b"Transaction Type Index,Transaction Name,Start Time (microseconds),Latency (microseconds)"
_SAMPLES: Final = b"Time (seconds),Requests,Throughput (requests/second),"
_RESULTS: Final = b"Time (seconds),Throughput (requests/second),"
#: Summaries before November 2023 have no "Measured Requests", and those of OLTPBench no "Goodput".
_SUMMARY: Final = re.compile(
    rb'\A\s*\{(?=[\s\S]*"Latency Distribution"\s*:\s*\{)(?=[\s\S]*"Benchmark Type"\s*:)'
    rb'(?=[\s\S]*"Throughput \(requests/second\)"\s*:)'
)
_RAW_LINE: Final = (
    rf"^[0-9]{{1,9}},(?<section>[^,]{{1,100}}),(?<seconds>{NUMBER}),(?<latency_us>[0-9]{{1,15}})"
    r",(?<client_thread>[0-9]{1,9}),[0-9]{1,9}$"
)
_WINDOW: Final = rf"^[0-9]{{1,9}}(?:,{NUMBER}){{9,12}}$"
#: The summary's names, used for number, mean and extremes of each transaction's latencies in the raw file.
_RAW_METRICS: Final = ("Measured Requests", "Average Latency", "Minimum Latency", "Maximum Latency")
_ENDED: Final = "EXIT"
_ROUNDED: Final = 1e-6
#: Factor by which the warm-up's requests per second may exceed those of the measured time.
_WARM_UP_FACTOR: Final = 3.0
_IS_HEADER: Final = pl.col("offset") == 0
_UNKNOWN: Final = "not a line of this file of BenchBase"
_TRANSACTION: Final = re.compile(r"\.results\.([A-Za-z0-9_]+)\.csv")
#: Headings of a window -> column of `client_series`.
_LATENCIES: Final = {
    "Average Latency": "mean_us",
    "Minimum Latency": "min_us",
    "Maximum Latency": "max_us",
    "90th Percentile Latency": "p90_us",
    "95th Percentile Latency": "p95_us",
    "99th Percentile Latency": "p99_us",
    "Median Latency": "p50_us",
}
_COLUMNS: Final = {
    **_LATENCIES,
    "25th Percentile Latency": "p25_us",
    "75th Percentile Latency": "p75_us",
    "Requests": "operations",
    "Throughput": "throughput_ops_s",
}
_UNITS: Final = {"microseconds": "us", "milliseconds": "ms", "millisecond": "ms", "nanoseconds": "ns", "seconds": "s"}
_HEADING: Final = re.compile(r"^(.*?)(?: \(([a-z/]+)\))?$")


class Benchbase(Format):
    """Results of BenchBase: summary, raw latencies, samples and results by window."""

    name: ClassVar[str] = "benchbase"
    version: ClassVar[int] = 3
    tables = ("clients", "client_metrics", "client_series", "client_latencies", "client_histogram")
    noise = "the header of CSV files"
    dropped = "of windows: all columns but requests, throughput and latencies"
    measures: ClassVar[Mapping[str, str]] = {**_LATENCIES, "Measured Requests": "operations"}
    start_markers = (
        StartMarker(
            b"{",
            rb"\s*\"(?:(?:Start|Current) [Tt]imestamp|Elapsed Time|Benchmark Type|DBMS |scalefactor)[^\"]*\"\s*:",
            whole=True,
        ),
        StartMarker(_RAW, whole=True),
        StartMarker(_SAMPLES, whole=True),
        StartMarker(_RESULTS, whole=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """By the header of the CSV files and the keys of the summary."""
        return 0.95 if head.startswith((_RAW, _SAMPLES, _RESULTS)) or _SUMMARY.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece for a summary; for a CSV file a piece per block, and the histogram at its end."""
        if content.head.startswith(_RAW):
            yield from _Raw().pieces(content)
        elif content.head.startswith((_SAMPLES, _RESULTS)):
            yield from _parse_windows(content, hints.name)
        elif _SUMMARY.search(content.head):
            yield _parse_summary(content)
        else:
            raise FormatError("is not a result of BenchBase", path=content.path, hint="choose another --format")


@dataclass
class _Raw:
    """The state of parsing a raw file."""

    _first: float | None = None
    _counts: LatencyCounts = field(default_factory=LatencyCounts)

    def pieces(self, content: Content) -> Iterator[Parsed]:
        """Latencies of each block, then their histogram."""
        yield from parse_each_block(content, self._block)
        summary = self._counts.summary(_RAW_METRICS)
        yield Parsed({"client_histogram": self._counts.histogram(), "client_metrics": summary}, 0)

    def _block(self, block: Block) -> Parsed:
        lines, good = split_fitting_lines(block, pl.col("text").str.contains(_RAW_LINE), _IS_HEADER, _UNKNOWN)
        fields = good.select(part=pl.col("text").str.extract_groups(_RAW_LINE)).unnest("part")
        rows = fields.with_columns(pl.col("seconds", "latency_us").cast(pl.Float64))
        if self._first is None and rows.height:
            self._first = rows["seconds"][0]
        began = (pl.col("seconds") * US_PER_S).round().cast(pl.Int64)
        absolute = pl.col("seconds").is_between(1e9, 1e11)
        self._counts.add(rows)
        latencies = rows.select(
            pl.exclude("seconds"),
            time=pl.when(absolute).then(pl.from_epoch(began, "us").dt.replace_time_zone("UTC")),
            elapsed_s=pl.col("seconds") - (self._first or 0.0),
        )
        return build_parsed_report(lines, {"client_latencies": latencies})


def _parse_windows(content: Content, name: str) -> Iterator[Parsed]:
    headings = content.head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(",")
    found = _TRANSACTION.search(name)
    times = [int(line.split(b",", 1)[0]) for line in content.head.splitlines()[1:3] if re.match(rb"[0-9]{1,9},", line)]
    step = times[1] - times[0] if len(times) > 1 else 0
    complete = pl.col("text").str.count_matches(",", literal=True) == len(headings) - 1
    fits = complete & pl.col("text").str.contains(_WINDOW)
    values = dict(_make_window_value_exprs(headings))

    def rows(block: Block) -> Parsed:
        lines, good = split_fitting_lines(block, fits, _IS_HEADER, _UNKNOWN)
        series = good.select(cell=pl.col("text").str.split(",")).select(
            section=pl.lit(found.group(1) if found else None, pl.String),
            elapsed_s=pl.col("cell").list.get(0).cast(pl.Float64) + step,
            **values,
        )
        return build_parsed_report(lines, {"client_series": series})

    return parse_each_block(content, rows)


def _make_window_value_exprs(headings: list[str]) -> Iterator[tuple[str, pl.Expr]]:
    for place, heading in enumerate(headings):
        name, unit = _parse_heading(heading)
        if (column := _COLUMNS.get(name)) is not None:
            value = pl.col("cell").list.get(place).cast(pl.Float64)
            if column.endswith("_us") and unit != "us":
                if unit not in SECONDS_PER_UNIT:
                    raise FormatError(f"has the column {heading!r}, whose unit is not known")
                value = value * (SECONDS_PER_UNIT[unit] * US_PER_S)
            yield column, value


def _parse_heading(heading: str) -> tuple[str, str | None]:
    """Name and unit of a value.

    Example:
        >>> _parse_heading("Median Latency (microseconds)"), _parse_heading("Measured Requests")
        (('Median Latency', 'us'), ('Measured Requests', None))
    """
    found = _HEADING.match(heading)
    name, unit = found.groups() if found else (heading, None)
    return name, _UNITS.get(unit, unit) if unit else None


def _parse_summary(content: Content) -> Parsed:
    data = content.read(SUMMARY_LIMIT_BYTES)
    try:
        summary = parse_json(data)
        latencies = summary.pop("Latency Distribution")
        numbers = {name: float(value) for name, value in summary.items() if isinstance(value, int | float)}
        measured = {name: float(value) for name, value in latencies.items()}
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, FormatError) as error:
        raise FormatError(f"is not a summary of BenchBase: {error}", path=content.path) from error
    requests = numbers.pop("Measured Requests", None)
    rows = [
        *((OVERALL, *_parse_heading(name), value) for name, value in numbers.items()),
        *((_ALL, *_parse_heading(name), value) for name, value in measured.items()),
        *([(_ALL, "Measured Requests", None, requests)] if requests is not None else []),
    ]
    finite = [row for row in rows if math.isfinite(row[3])]
    return Parsed(
        {"clients": _build_benchbase_client(summary, numbers, requests), "client_metrics": make_metric_frame(finite)},
        len(data),
    )


def _build_benchbase_client(
    summary: Mapping[str, object], numbers: Mapping[str, float], requests: float | None
) -> pl.DataFrame:
    nanoseconds = numbers.get("Elapsed Time (nanoseconds)")
    rate, good = (numbers.get(f"{name} (requests/second)") for name in ("Throughput", "Goodput"))
    seconds = None if nanoseconds is None else nanoseconds * SECONDS_PER_UNIT["ns"]
    counted = requests
    if counted is None and rate is not None and seconds is not None and rate * seconds <= MAX_COUNT:
        counted = round(rate * seconds)
    # The rates of all requests and of successful ones determine how many failed.
    failed_share = 1 - good / rate if rate and good is not None and good <= rate else None
    failed = None if failed_share is None or counted is None else convert_to_count(round(counted * failed_share))
    facts = {
        "tool": "BenchBase",
        "throughput_ops_s": rate,
        "runtime_ms": None if seconds is None else seconds * 1000,
        "threads": parse_whole_number(summary.get("terminals"), MAX_CLIENTS),
        "scale_factor": parse_whole_number(summary.get("scalefactor"), MAX_COUNT),
        "operations_done": convert_to_count(None if counted is None else counted - (failed or 0)),
        "failed_operations": failed,
        "failed_share": failed_share if failed is None else None,
        "notes": _describe_summary_contradictions(numbers, requests, rate or 0.0, good or 0.0, seconds or 0.0),
        "measurement_type": "raw",
        "script": str(summary["Benchmark Type"]) if isinstance(summary.get("Benchmark Type"), str) else None,
        "completed": summary.get("Final State", _ENDED) == _ENDED and rate is not None,
    }
    return pl.DataFrame([facts])


def _describe_summary_contradictions(
    numbers: Mapping[str, float], requests: float | None, rate: float, good: float, seconds: float
) -> str | None:
    """Contradictions of the summary, in words."""
    begin, end = (
        numbers.get(f"{name} (milliseconds)", 0.0) / 1000 for name in ("Start timestamp", "Current Timestamp")
    )
    if not rate or not seconds:
        return None
    rounding = 1 + _ROUNDED * (requests or 0)
    found = describe_contradictions([("Measured Requests", requests, [rate * seconds], rounding)])
    # Requests of the warm-up are good, too, but there cannot be many more of them than its time allows.
    more = (good - rate) * seconds
    if not begin or more <= rounding + _WARM_UP_FACTOR * rate * max(end - begin - seconds, 0.0):
        return found
    words = (
        f"Goodput: {format_number(good)}/s printed, but Throughput is {format_number(rate)}/s, and there was "
        "no time to warm up"
    )
    return f"{found}; {words}" if found else words


FORMAT: Final = Benchbase()
