"""Report of sysbench, versions 0.5 to 1.1: SQL tests of any script, CPU and other tests.

Tables: `clients` (one row), `client_metrics` (the report's values), `client_series` (`--report-interval`),
`client_histogram` (`--histogram`), `client_errors`. For example::

    sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
    Number of threads: 4
    [ 1s ] thds: 4 tps: 830.34 qps: 16703.27 (r/w/o: 11704.32/3321.36/1677.59) lat (ms,99%): 15.55 err/s: 2.98 ...
    SQL statistics:
        transactions:                        2062   (457.51 per sec.)
        ignored errors:                      10     (2.22 per sec.)
    General statistics:
        total time:                          4.5066s
    Latency (ms):
             avg:                                    8.71
             99th percentile:                       13.95

Conversion of the lines:

- latencies and the number of transactions are metrics of the section `transactions` (in tests without SQL, `events`),
  all others of `OVERALL`; counts of queries by kind are `queries: read` and so on;
- the one percentile of the report is named as printed (`--percentile`). sysbench's histogram ends at 100 s: a
  percentile of 100000 ms is a lower bound, named `... percentile or more`, and not stored in `operation_latencies`. In
  a status line, one other than the 50th, 90th, 95th and 99th is in `other_percentile`;
- of a status line, all rates are kept; the number of threads is that of the client;
- the file does not name the script. For SQL tests the client's `script` is the rounded mix of queries per transaction
  (`SQL 14/4/2`: 14 reads, 4 writes, 2 others), so that runs of different scripts are not taken for repetitions;
- `--report-checkpoints` resets all counters: operations and failures are sums over the checkpoints and the final
  report, and the latencies of each part have a section of their own (`transactions until 2 s`);
- failures are `ignored errors`: transactions that the server rejected and sysbench tried again;
- a value of the histogram is the middle of a bucket, whose edges are half a step (0.9 %) below and above;
- a script may print its reports as JSON or CSV (`sysbench.hooks`): intervals have their rate, and a report of the whole
  run in place of the text above gives throughput and time, in whole seconds, but no number of operations;
- a line with a number of more than 15 digits, such as a counter that went back gives, is rejected;
- tests of a machine's memory and files are not read: their results are bytes.

The report of a second run after the first is rejected, because the numbers of both would be mixed; so is one that lacks
its first lines, from the line on that comes a second time. A summary alone is read, without threads and version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    MAX_CLIENTS,
    NUMBER,
    ReportParser,
    build_parsed_report,
    convert_to_count,
    pivot_to_columns,
)
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, Signature, StartMarker
from citus_analysis.formats.parsing.lines import line_frame, make_first_true_expr
from citus_analysis.operations import OVERALL
from citus_analysis.units import US_PER_MS

# Output of sysbench with a script that sets its hooks to `sysbench.report_json` or `sysbench.report_csv`.
#
# Each report is an object of JSON over several lines, or a line of ten numbers: time, threads, transactions a second,
# ... The report of the whole run (`report_cumulative`) has the same form, with 0 threads. Neither form names the
# percentile of its latency.

#: Lines of JSON without a value.
FRAME: Final = r'^[\[\]]$|^  (?:\{|\},?)$|^    (?:"qps": \{|\},)$'
#: The numbers of a report, in their order in CSV; `total` to `other` are queries a second.
_COLUMNS: Final = ("time", "threads", "tps", "total", "reads", "writes", "other", "latency", "errors", "reconnects")
#: Kind of a line with values -> pattern.
KINDS: Final = {
    "json": rf'^ {{4,6}}"(?<name>{"|".join(_COLUMNS)})": +(?<value>{NUMBER}),?$',
    "csv": r"^([0-9]{1,9}),([0-9]{1,9})" + rf",({NUMBER})" * 8 + "$",
}
#: Column of `client_series` -> value of a report.
HOOK_SERIES: Final[Mapping[str, str | pl.Expr]] = {
    "elapsed_s": "time",
    "throughput_ops_s": "tps",
    "queries_per_s": "total",
    "read_queries_per_s": "reads",
    "write_queries_per_s": "writes",
    "other_queries_per_s": "other",
    "errors_per_s": "errors",
    "reconnects_per_s": "reconnects",
    # Without a transaction in the interval sysbench prints 0.
    "other_percentile_us": pl.when(pl.col("latency") > 0).then(pl.col("latency") * US_PER_MS),
}


def parse_hook_values(lines: pl.DataFrame) -> pl.DataFrame:
    """The values of reports, in the order of the lines: `offset`, `name`, `value`.

    Args:
        lines: lines with `offset`, `text` and `kind`.
    """
    named = lines.filter(kind="json").select("offset", part=pl.col("text").str.extract_groups(KINDS["json"]))
    parts = pl.col("text").str.extract_groups(KINDS["csv"]).struct.rename_fields(list(_COLUMNS))
    wide = lines.filter(kind="csv").select("offset", part=parts).unnest("part")
    rows = wide.unpivot(index="offset", variable_name="name").sort("offset", maintain_order=True)
    return pl.concat([named.unnest("part"), rows]).with_columns(pl.col("value").cast(pl.Float64))


def pivot_hook_reports(values: pl.DataFrame) -> pl.DataFrame:
    """One row for each report, its values as columns; a report that was cut before its rate is left out.

    Example:
        >>> lines = pl.DataFrame({"offset": [0, 30], "text": ["1,2,8.5,1,1,1,1,1,0,0", "x"], "kind": ["csv", None]})
        >>> pivot_hook_reports(parse_hook_values(lines)).select("time", "threads", "tps", "errors").rows()
        [(1.0, 2.0, 8.5, 0.0)]
    """
    numbered = values.with_columns(report=(pl.col("name") == "time").cum_sum())
    return pivot_to_columns(numbered, _COLUMNS, ["report"]).drop("report").drop_nulls(_COLUMNS[:3])


_N: Final = f"({NUMBER})"
#: A rate, which may also not be a number.
_R: Final = rf"(?:{NUMBER}|-?nan|inf)"
#: The line of the version, or a summary without what stands before it.
_SIGN: Final = Signature(
    re.compile(
        rb"^sysbench [0-9]+\.[0-9]+(?:\.[0-9]+)?(?:[-:( ]|\r?$)"
        rb"|^(?:SQL|OLTP test) statistics:\r?\n +queries performed:\r?$",
        re.MULTILINE,
    ),
    (b"sysbench ", b"queries performed:"),
)
#: Lines of tests of a machine's memory and files, whose results are bytes.
_OF_MACHINE: Final = re.compile(rb"^(?:Running memory speed test |Extra file open flags: )", re.MULTILINE)
#: Kind -> pattern; the first that matches decides.
_KINDS: Final = {
    "version": r"^sysbench ([0-9]+\.[0-9]+[^ :]*)(?:[: ].*)?$",
    "checkpoint": rf"^\[ *{_N}s ?\] Checkpoint report:$",
    "status": rf"^\[ *{_N}s ?\] (?:thds|threads): [0-9]+,? (?:tps|eps): {_N}(?:,? (?:(?:qps|reads|writes): +{_R}"
    rf"|\(r/w/o: {_R}/{_R}/{_R}\)|lat \(ms,[0-9]+%\): {_R}|response time: {_R}ms \([0-9]+%\)"
    rf"|(?:err/s|errors|reconn/s|reconnects):? +{_R}))*$",
    "bucket": rf"^ *(?<bucket_ms>{NUMBER}) \|\** +(?<value>[0-9]{{1,15}})$",
    "setting": rf"^(Number of threads|Target transaction rate|Prime numbers limit): {_N}(?:/sec)?$",
    "percentile": rf"^ +(?:approx\. +)?(?<percent>[0-9]{{1,3}})(?:th)? percentile: +(?<value>{NUMBER})(?:ms)?$",
    "fairness": rf"^ +(?<of_thread>events|execution time) \(avg/stddev\): +(?<avg>{NUMBER})/(?<stddev>{NUMBER})$",
    # Other values at the beginning of a line (`Run: 2`) are not sysbench's.
    "value": r"^(?<name> +[A-Za-z][A-Za-z /]*?(?: \(eps\))?|Warmup time|Total operations): "
    rf"+(?<value>{NUMBER})(?<unit>s|ms)?(?: +\({NUMBER} per sec\.?\))?$",
    "summary": r"^(?:SQL|OLTP test) statistics:$",
    **KINDS,
    "noise": FRAME + r"|^ *$|^Running the test(?: with following options:)?$|^Report (?:intermediate|checkpoint)"
    r"|^Initializing |^Random number"
    r"|^Threads started!|^Warming up for "
    r"|^(?:SQL|General|Throughput|Latency|CPU|Threads|Test execution|OLTP test)[a-z ]*(?:\(ms\))?:?$|^Done\.$"
    r"|^ +(?:queries performed|response time|percentile stats): *(?:disabled)?$"
    r"|^Latency histogram|^ +value +-+ distribution|^ *-+$"
    r"|^\[ *[0-9.]+s ?\] queue length:|^Time limit exceeded|^\(last message repeated|^Debug mode|^DEBUG: "
    r"|^(?:Creating|Inserting|Dropping) |^[A-Za-z]+ tests? with the following|^Doing |^  [a-z]+ ?[a-z]*: ",
    "error": r"^(?:FATAL|ALERT|CRITICAL|ERROR|WARNING): |^PANIC: ",
    "continuation": r"^\t",
}
#: Column of a status line -> pattern of the text before its number, in versions from 0.5 on.
_RATES: Final = {
    "queries_per_s": r" qps: ",
    "read_queries_per_s": r"(?:r/w/o: |, reads: )",
    "write_queries_per_s": r"(?:r/w/o: [0-9.]+/|, writes: )",
    "other_queries_per_s": r"r/w/o: [0-9.]+/[0-9.]+/",
    "errors_per_s": r"(?:err/s:?|errors:) +",
    "reconnects_per_s": r"(?:reconn/s:?|reconnects:) +",
}
_PERCENTILES: Final = {"50": "p50_us", "90": "p90_us", "95": "p95_us", "99": "p99_us"}
_OF_THREADS: Final = ("avg", "stddev")
_LATENCIES: Final = ("min", "avg", "max", "sum")
#: Name of the time since the start (in version 1.1, since the end of the warm-up), which every report prints.
_ELAPSED: Final = ("total time", "time elapsed")
_QUERIES: Final = ("read", "write", "other", "total")
#: sysbench's histogram: 1024 buckets of equal ratio from 1 us to 100 s (sb_histogram.c, sysbench.c).
_LOWEST_MS: Final = 1e-3
_HIGHEST_MS: Final = 1e5
_BUCKETS: Final = 1024
_STEP: Final = math.log(_HIGHEST_MS / _LOWEST_MS) / (_BUCKETS - 1)


class Sysbench(Format):
    """Report of `sysbench`, with or without `--report-interval`, `--histogram` and `--report-checkpoints`."""

    name: ClassVar[str] = "sysbench"
    version: ClassVar[int] = 5
    tables = ("clients", "client_metrics", "client_series", "client_histogram", "client_errors")
    noise = "blank lines, headings, announcements, lengths of the queue, messages of `--verbosity=5`"
    dropped = "of intervals: the number of threads, which is that of the client"
    measures: ClassVar[Mapping[str, str]] = {
        "transactions": "operations",
        "total number of events": "operations",
        "avg": "mean_us",
        "min": "min_us",
        "max": "max_us",
        "50th percentile": "p50_us",
        "90th percentile": "p90_us",
        "95th percentile": "p95_us",
        "99th percentile": "p99_us",
    }
    start_markers = (
        StartMarker(b"WARNING: ", rb"(?:the )?--[a-z-]+ (?:option )?is deprecated", repeats=True),
        StartMarker(b"sysbench ", rb"[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:[-:( ]|\r?$)", stage=1),
        StartMarker(b"Threads started!", stage=2, continues=True),
        StartMarker(b"[ ", rb"*[0-9.]+s ?\] Checkpoint report:", stage=3, continues=True, rewinds=True),
        StartMarker(b"SQL statistics:", stage=4, continues=True),
        StartMarker(b"OLTP test statistics:", stage=4, continues=True),
        StartMarker(b"CPU speed:", stage=4, continues=True),
        StartMarker(b"General statistics:", stage=5, continues=True),
        StartMarker(b"Throughput:", rb"\r?$", stage=5, continues=True),
        StartMarker(b"Latency (ms):", stage=6, continues=True),
        StartMarker(b"Threads fairness:", stage=7, continues=True, ends=True),
    )
    elapsed = re.compile(rb"(?:^|\r)\[ *([0-9]+(?:\.[0-9]+)?)s ?\] (?:thds|threads): ", re.MULTILINE)

    def detect(self, name: str, head: bytes) -> float:
        """By the line that names sysbench's version."""
        return 0.95 if _SIGN.within(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Series in a piece per block; the client, its values and its errors come last.

        Raises:
            FormatError: the output is of a test of a machine's memory or files, or not from sysbench.
        """
        if _OF_MACHINE.search(content.head):
            message = "sysbench's test of a machine's memory or files, which runs no statements, is not read"
            raise FormatError(message, path=content.path, hint="leave the file out")
        return _SysbenchReport().pieces(content)


@dataclass
class _SysbenchReport(ReportParser):
    """The state of parsing one file."""

    tool = "sysbench"
    kinds = _KINDS
    telling = ("version", "summary")
    once = ("version",)
    in_order = (
        rf"^(?:Number of threads|Target transaction rate|Prime numbers limit): {NUMBER}",
        r"^(?:(?:SQL|OLTP test) statistics|CPU speed):",
        r"^(?:General statistics|Throughput):",
        r"^(?:Latency \(ms\)| +response time):",
        r"^Threads fairness:",
    )
    in_any_order = r"^ +[A-Za-z0-9][A-Za-z0-9 /.()]*: +[0-9]"
    interim = _KINDS["checkpoint"]
    other_run = "report of a second run in the same file; put each run's report into a file of its own"
    unknown = "not a line of sysbench's report"
    #: Kinds of lines of which every number is read.
    exact = ("status", "checkpoint", "setting", "json", "csv")
    keep = ("version", "setting", "checkpoint", "value", "percentile", "fairness", "bucket", *KINDS)

    def block(self, block: Block) -> Parsed:
        """Status lines of one block; the values of the report are kept for the end."""
        lines = self.judged(line_frame(block.data, block.offset))
        good = self.accepted(lines)
        tables = {"client_series": _build_sysbench_series(good.filter(kind="status"))}
        return build_parsed_report(lines, tables, noise=("noise", "summary"))

    def finish(self) -> Parsed:
        """The client, the values of its report, its histogram and its errors."""
        lines = pl.concat(self.kept)
        values = _parse_report_values(lines)
        metrics = values.drop_nulls("metric").drop("bucket_ms")
        section = _make_section_expr(metrics, _extract_kind_groups(lines, "checkpoint")["1"].cast(pl.Float64).to_list())
        reports = pivot_hook_reports(parse_hook_values(lines))
        settings: dict[str, str] = dict(_extract_kind_groups(lines, "setting").select("1", "2").iter_rows())
        intervals = reports.filter(pl.col("threads") > 0).select(**HOOK_SERIES)
        tables = {
            "client_series": intervals,
            "client_metrics": _build_sysbench_metrics(metrics, section),
            "client_histogram": _build_sysbench_histogram(values, section),
            "client_errors": self.errors,
        }
        # Output without a number of threads is from `prepare` or `cleanup`, not from a run.
        if settings or metrics.height:
            # A summary alone names no version.
            version = next(iter(_extract_kind_groups(lines, "version")["1"]), None)
            whole = reports.filter(threads=0).tail(1)
            tables["clients"] = _build_sysbench_client(metrics, whole, settings, version)
        return Parsed(tables, 0)


def _build_sysbench_client(
    metrics: pl.DataFrame, whole: pl.DataFrame, settings: Mapping[str, str], version: str | None
) -> pl.DataFrame:
    """The client's row, from the printed report or else from a hook's report of the whole run (`whole`)."""
    sums: dict[str, float] = dict(metrics.group_by("metric").agg(pl.col("value").sum()).iter_rows())
    last: dict[str, float] = dict(metrics.group_by("metric").agg(pl.col("value").last()).iter_rows())
    done = sums.get("transactions", sums.get("total number of events"))
    seconds = next((last[name] for name in _ELAPSED if name in last), None)
    tps = done / seconds if done is not None and seconds else None
    if done is None and whole.height:
        seconds, tps = whole.select("time", "tps").row(0)
    threads, rate = (settings.get(name) for name in ("Number of threads", "Target transaction rate"))
    facts = {
        "tool": "sysbench",
        "tool_version": version,
        "threads": None if threads is None else convert_to_count(float(threads), MAX_CLIENTS),
        "target_ops_s": None if rate is None else float(rate),
        "rate_limited": rate is not None,
        "throughput_ops_s": tps,
        "runtime_ms": None if seconds is None else seconds * 1000,
        "operations_done": convert_to_count(done),
        "failed_operations": convert_to_count(sums.get("ignored errors", 0.0 if done is not None else None)),
        "measurement_type": "histogram",
        "script": _describe_sql_mix(sums),
        "completed": seconds is not None and (done is not None or tps is not None),
    }
    return pl.DataFrame([facts])


def _extract_kind_groups(good: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The groups of the kind's pattern as columns `1`, `2` ... of its lines, and the lines' `offset`."""
    return good.filter(kind=kind).select("offset", part=pl.col("text").str.extract_groups(_KINDS[kind])).unnest("part")


def _parse_report_values(lines: pl.DataFrame) -> pl.DataFrame:
    """Values of the report in its order: `metric` (null for a bucket), `unit`, `value`, `bucket_ms`."""
    values = (_extract_kind_groups(lines, kind) for kind in ("value", "percentile", "bucket"))
    of_threads = (
        _extract_kind_groups(lines, "fairness").select("offset", "of_thread", value=part, part=pl.lit(part))
        for part in _OF_THREADS
    )
    rows = pl.concat([*values, *of_threads], how="diagonal").sort("offset", maintain_order=True)
    value, name = pl.col("value").cast(pl.Float64), pl.col("name").str.strip_chars_start()
    capped = pl.when(value >= _HIGHEST_MS).then(pl.lit(" or more")).otherwise(pl.lit(""))
    units = {
        "ms": name.is_in(_LATENCIES) | pl.col("percent").is_not_null(),
        "s": pl.col("of_thread") == "execution time",
    }
    return rows.select(
        metric=pl.coalesce(
            name.replace({query: f"queries: {query}" for query in _QUERIES}),
            pl.format("{}th percentile{}", "percent", capped),
            pl.format("{} of a thread: {}", "of_thread", "part"),
        ),
        unit=pl.coalesce("unit", make_first_true_expr(units)),
        value=value,
        bucket_ms=pl.col("bucket_ms").cast(pl.Float64),
    )


def _make_section_expr(metrics: pl.DataFrame, checkpoints: list[float]) -> pl.Expr:
    """Section of the values that measure transactions, by the number of their `report`."""
    what = "transactions" if "transactions" in metrics["metric"] else "events"
    if not checkpoints:
        return pl.lit(what)
    ends = {number: f"{what} until {end:g} s" for number, end in enumerate(checkpoints)}
    return pl.col("report").replace_strict(ends, default=f"{what} to the end", return_dtype=pl.String)


def _build_sysbench_metrics(metrics: pl.DataFrame, section: pl.Expr) -> pl.DataFrame:
    name = pl.col("metric")
    # In SQL tests, the number of events is that of the transactions.
    counted = "transactions" if "transactions" in metrics["metric"] else "total number of events"
    measured = name.is_in([*_LATENCIES, counted]) | name.str.contains("percentile", literal=True)
    # Every report prints every value, so the n-th of a name belongs to the n-th report.
    rows = metrics.with_columns(report=pl.int_range(pl.len()).over("metric"))
    return rows.select("metric", "unit", "value", section=pl.when(measured).then(section).otherwise(pl.lit(OVERALL)))


def _build_sysbench_histogram(values: pl.DataFrame, section: pl.Expr) -> pl.DataFrame:
    # A report prints its histogram first.
    report = pl.col("metric").is_in(_ELAPSED).fill_null(value=False).cast(pl.Int64).cum_sum()
    buckets = values.with_columns(report=report).filter(pl.col("metric").is_null())
    index = ((pl.col("bucket_ms") / _LOWEST_MS).log() / _STEP).round().clip(0, _BUCKETS - 1)
    edge = _LOWEST_MS * US_PER_MS
    # The middles of the lowest buckets are the same when printed with three digits.
    counted = buckets.with_columns(section=section, index=index).group_by("section", "index", maintain_order=True)
    low, high = (edge * ((pl.col("index") + half) * _STEP).exp() for half in (-0.5, 0.5))
    return counted.agg(count=pl.col("value").sum().cast(pl.Int64)).select(
        "section",
        "count",
        bucket_low_us=pl.when(pl.col("index") > 0).then(low).otherwise(0.0),
        bucket_high_us=pl.when(pl.col("index") < _BUCKETS - 1).then(high).otherwise(float("inf")),
    )


def _build_sysbench_series(status: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("text")
    percent = pl.coalesce(text.str.extract(r"lat \(ms,([0-9]+)%\)"), text.str.extract(r"ms \(([0-9]+)%\)"))
    latency = pl.coalesce(text.str.extract(rf"lat \(ms,[0-9]+%\): {_N}"), text.str.extract(rf"time: {_N}ms "))
    # Without a transaction in the interval sysbench prints 0.
    latency_us = pl.when(latency.cast(pl.Float64) > 0).then(latency.cast(pl.Float64) * US_PER_MS)
    other = pl.when(~percent.is_in(list(_PERCENTILES)))
    return status.select(
        elapsed_s=text.str.extract(_KINDS["status"], 1).cast(pl.Float64),
        throughput_ops_s=text.str.extract(_KINDS["status"], 2).cast(pl.Float64),
        **{name: text.str.extract(before + _N).cast(pl.Float64) for name, before in _RATES.items()},
        **{name: pl.when(percent == number).then(latency_us) for number, name in _PERCENTILES.items()},
        other_percentile=other.then(percent).cast(pl.Float64),
        other_percentile_us=other.then(latency_us),
    )


def _describe_sql_mix(sums: Mapping[str, float]) -> str | None:
    done = sums.get("transactions")
    if not done:
        return None
    mix = "/".join(str(round(sums.get(f"queries: {query}", 0.0) / done)) for query in _QUERIES[:3])
    return f"SQL {mix}"


FORMAT: Final = Sysbench()
