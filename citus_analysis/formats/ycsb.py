"""Output of the YCSB load generator (standard output and standard error together, or one of them).

Tables: `clients` (one row), `client_metrics` (the final summary), `client_series` (status lines, time series),
`client_histogram` (verbose histograms), `client_latencies` (measurementtype=raw), `client_errors`.

The format covers the text exporter and both JSON exporters, of versions 0.1 to 0.18 and of forks that keep
their line forms, for example::

    Command line: -load -db site.ycsb.db.JdbcDBClient -s -threads 8 -p recordcount=20000 -p db.passwd=***
    2026-11-20 21:32:36:884 2 sec: 100 operations; 37.02 current ops/sec; [READ: Count=100, Max=13287, ...]
    [OVERALL], Throughput(ops/sec), 5217.845030002609
    [INSERT], Return=OK, 20000

Conversion of the lines:

- a status line on both standard output and standard error counts once;
- messages of two threads without a line end between them are split;
- exceptions and error messages are counted by class; their stack traces and details belong to them;
- a last line of the right form is accepted without a line end, although its last number may have been cut.

Text that the client did not print itself is rejected, except :attr:`Ycsb.noise`; so is the output of a second client
after the first, because the numbers of both would be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

import polars as pl

from citus_analysis.core.table_definition import TIME
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    MAX_COUNT,
    MEASURES,
    SEVERITY,
    THROWABLE,
    ReportParser,
    SingleLatencies,
    Total,
    classify_texts,
    describe_contradictions,
    parse_whole_number,
)
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed, Signature, StartMarker
from citus_analysis.formats.parsing.lines import line_frame, make_first_true_expr, read_uniform, reject_runs
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import convert_local_to_utc
from citus_analysis.operations import COMPOUND, FAILED, INTENDED, OVERALL, is_counted_once
from citus_analysis.redaction import redact_series
from citus_analysis.units import US_PER_MS

# Classification of the lines of a YCSB client's output.

#: `READ,1795210352805,15906` of measurementtype=raw: operation, begin (ms since 1970), latency (us).
RAW: Final = r"^(?P<section>[A-Za-z][\w-]*),(?P<began_ms>[0-9]{1,13}),(?P<latency_us>-?[0-9]{1,15})$"
#: A number as Java prints it.
NUMBER: Final = r"[-+]?(?:NaN|Infinity|[0-9]{1,30}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?)"
#: `[SECTION], Metric(unit), value`.
SUMMARY: Final = rf"^\[(?P<section>[^\]]+)\], (?P<name>.+), (?P<value>{NUMBER})$"
_CLOCK: Final = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}:[0-9]{3}"
#: `2026-11-20 21:32:36:884 2 sec: 100 operations; ...`; YCSB before 0.2 prints no time.
STATUS: Final = rf"^ ?(?:({_CLOCK}) )?(-?[0-9]{{1,9}}) sec: (-?[0-9]{{1,15}}) operations; ?(.*)$"

#: `Maximum execution time specified as: 600 secs`.
LIMIT: Final = r"^Maximum execution time specified as: ([0-9]+) secs$"

#: Version 0.1 prints no blank before the name of a value of `OVERALL`.
_WITHOUT_BLANK: Final = re.compile(rb"^\[[^\]\n]+\],[^ \t\r\n]", re.MULTILINE)
_COMMAND: Final = r"^Command line: "
_LAUNCH: Final = r"^[\w/.~-]*java\s.*\s(?:site|com\.yahoo)\.ycsb\.\w*Client\b"
_VERSION: Final = r"^YCSB Client \S+$"
_JSON: Final = (
    r'^\s*"(?:metric|measurement|value)"\s*:|^[\s\[\]{},]*[\[\]{}][\s\[\]{},]*$|^[\s,\[]*\{.*"metric"\s*:.*"value"\s*:'
)

#: Lines without data.
NOISE: Final = "|".join(
    (
        r"^\s*$",
        r"^Loading workload\.\.\.$",
        r"^Starting test\.$",
        r"^Adding shard node URL: ",
        r"^Using shards: ",
        r"^DBWrapper: report latency for each error is ",
        r"^mongo (?:client )?connection created with ",
        r"^Raw data measurement: will output to ",
        r"^\S+ latency raw data: op, timestamp\(ms\), latency\(us\)$",
        r"^\[[^\]]+\], Below is a summary of latency in microseconds:, -1$",
        r"^Maximum time elapsed\. Requesting stop for the workload\.$",
        r"^Stop requested for workload\. Now Joining!$",
        r"^Still waiting for thread .* to complete\.",
        # Messages of the bindings' loggers below warning level: a time, followed somewhere by the level.
        r"^[0-9][0-9:.,/TZ -]*\s.*\b(?:INFO|DEBUG|TRACE)\b",
    )
)
_CONTINUATION: Final = (
    r"^\s+\S|^\.\.\. [0-9]+ more|^(?:Caused by|Suppressed): |^(?:DETAIL|HINT|CONTEXT|Detail|Hint|Where|Position): "
)
_ERROR: Final = "|".join(
    (
        r"(?i)^(?:error|exception|retrying|warn|severe|fatal|unable|could not|couldn't|cannot|can't|failed|invalid)\b",
        r"\((?:No such file or directory|Permission denied|Is a directory)\)$",
        THROWABLE,
        SEVERITY,
    )
)

#: Kind -> pattern; the first that matches decides.
KINDS: Final = {
    "noise": NOISE,
    "status": STATUS,
    "summary": SUMMARY,
    "raw": RAW,
    "json": _JSON,
    "command": _COMMAND,
    "version": _VERSION,
    "limit": LIMIT,
    "launch": _LAUNCH,
    "continuation": _CONTINUATION,
    "error": _ERROR,
}

#: Kinds of lines that only a YCSB client prints.
TELLING: Final = frozenset({"status", "summary", "raw", "json", "command", "launch", "version"})

#: Each occurs once in a client's output; a second occurrence begins the output of another client.
ONCE: Final = ("Command line: ", "YCSB Client ", "[OVERALL], RunTime(ms), ", "Loading workload...", "Starting test.")
#: Lines that tell what was launched, and by which the output of another client is recognised: those of the client's
#: banner, and those that begin with these texts; the last two are whole lines.
STATES_FACTS: Final = pl.col("kind").is_in(["command", "launch", "version", "limit"]) | (
    pl.col("kind").is_in(["noise", "summary"])
    & (pl.col("text").str.starts_with(ONCE[2]) | pl.col("text").is_in(list(ONCE[3:])))
)

# Threads share the stream: the text of one can follow that of another without a line end.
_STATUS_BEGIN: Final = rf"{_CLOCK} -?[0-9]+ sec: "
_TEXTS: Final = (
    *("[OVERALL], RunTime", "Adding shard node URL: ", "Using shards: ", "DBWrapper: report ", "Error in processing "),
    *("Error in database operation", "Error inserting, not retrying", "Retrying insertion, ", "Command line: "),
    *("YCSB Client ", "Loading workload...", "Starting test."),
)
_TEXT_BEGIN: Final = "|".join(map(re.escape, _TEXTS)).replace(r"YCSB\ Client\ ", r"YCSB\ Client\ [0-9]")
_GLUED: Final = (
    rf"^(.+?)(?:{_STATUS_BEGIN})|^({_STATUS_BEGIN}.*?)(?:{_TEXT_BEGIN})|^(.*?\S)(?:{_TEXT_BEGIN})"
    rf"|^([\s\]}}]*[\]}}])[\w/.~-]*java\s"
    # A status line that was cut inside a group: the rest of the group is not data.
    rf"|^((?: ?{_CLOCK})? ?-?[0-9]+ sec: [^\[]*(?:\[[^\[\]]*\][^\[]*)*)\[[^\[\]]*$"
)
#: Limit of parts per line; interleaved threads produce only a few.
_MAX_PIECES: Final = 16
_WHOLE: Final = rf"{_COMMAND}|^[\w/.~-]*java\s"


_TEXT: Final = pl.col("text")
_PLAIN_STATUS: Final = (
    _TEXT.str.contains(STATUS)
    & ~_TEXT.str.starts_with(" ")
    & (_TEXT.str.count_matches(" sec: ", literal=True) == 1)
    & (_TEXT.str.ends_with("]") | ~_TEXT.str.contains("[", literal=True))
)
#: Whether another message may begin inside a line: a test that excludes nearly all lines in far less time.
MAY_BE_GLUED: Final = (
    # The first byte is skipped, so that a message at the beginning of the line does not count.
    _TEXT.str.slice(1).str.contains_any(list(_TEXTS))
    # The end of a JSON document, which the launcher's line may follow.
    | _TEXT.str.strip_chars_start().str.head(1).is_in(["]", "}"])
    | (_TEXT.str.contains(" sec: ", literal=True) & ~_PLAIN_STATUS)
)
#: The text of a line before another message that begins inside it; null if none does.
GLUED_HEAD: Final = pl.when(~_TEXT.str.contains(_WHOLE)).then(
    pl.coalesce(_TEXT.str.extract_groups(_GLUED).struct.field("*"))
)


def classify_ycsb_lines(data: bytes, offset: int) -> pl.DataFrame:
    """Lines of a block: `offset`, `length`, `text`, `glued` (text follows without a line end) and `kind`.

    `kind` is one of noise, status, summary, raw, json, command, launch, version, limit, continuation, error, or null.
    """
    frame = line_frame(data, offset)
    if _WITHOUT_BLANK.search(data):
        frame = frame.with_columns(pl.col("text").str.replace(r"^(\[[^\]]+\]),(\S)", "$1, $2"))
    lines = frame.select("offset", "length", "text", glued=pl.lit(value=False))
    lines = lines.with_columns(classify_texts(lines["text"], KINDS))
    # Large files consist mainly of lines of these two kinds, in which no other message begins.
    plain = lines["kind"].is_in(["raw", "summary"]).fill_null(value=False)
    others = lines.filter(~plain).with_columns(suspect=MAY_BE_GLUED)
    if others["suspect"].any():
        parts = _split_glued(others.drop("kind"))
        parts = parts.with_columns(classify_texts(parts["text"], KINDS))
        lines = pl.concat([lines.filter(plain), parts]).sort("offset")
    return lines


def _split_glued(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines split where another message begins inside them (a `suspect` line); each pass splits off one part."""
    columns = ["offset", "length", "text", "glued"]
    done = [lines.filter(~lines["suspect"]).select(columns)]
    lines = lines.filter(lines["suspect"]).select(columns)
    for _ in range(_MAX_PIECES):
        if lines.is_empty():
            break
        lines = lines.with_columns(head=GLUED_HEAD, head_length=GLUED_HEAD.str.len_bytes().cast(pl.Int64))
        heads = lines.with_columns(
            length=pl.coalesce("head_length", "length"),
            text=pl.coalesce("head", "text"),
            glued=pl.col("head").is_not_null(),
        )
        done.append(heads.select(columns))
        lines = (
            lines.drop_nulls("head")
            .with_columns(
                pl.col("offset") + pl.col("head_length"),
                pl.col("length") - pl.col("head_length"),
                pl.col("text").str.slice(pl.col("head").str.len_chars()),
            )
            .select(columns)
        )
    return pl.concat([*done, lines])


# The totals of a YCSB summary beside their parts: operations by return code, and by throughput and run time.

OPERATIONS = ("Operations", "Total Operations")
_RETURN = "Return="
#: The run time is printed in whole milliseconds.
_ROUNDED_MS = 0.5


def find_summary_contradictions(
    values: Mapping[tuple[str, str], float], done: int | None = None, failed: int | None = None
) -> str | None:
    """The totals of a summary that are not the sums of their parts, in words.

    Args:
        values: (section, metric) -> value.
        done: operations that succeeded, from the sections.
        failed: operations that failed.

    Example:
        >>> find_summary_contradictions({("READ", "Operations"): 10.0, ("READ", "Return=OK"): 9.0})
        'READ operations: 10 printed, but its parts add up to 9'
    """
    counts = {section: n for (section, metric), n in values.items() if metric in OPERATIONS}
    returns: dict[str, list[float]] = {}
    for (section, metric), n in values.items():
        if metric.startswith(_RETURN):
            returns.setdefault(section, []).append(n)
    return describe_contradictions(
        [*_list_return_code_totals(counts, returns), *_list_rate_totals(values, done, failed or 0)]
    )


def _list_return_code_totals(counts: Mapping[str, float], returns: Mapping[str, list[float]]) -> Iterator[Total]:
    for section, codes in returns.items():
        own, failed = counts.get(section), counts.get(section + FAILED, 0.0)
        # Some versions count failed operations in both sections, others in that of the failed ones only.
        if own is not None and sum(codes) != own:
            yield f"{section} operations", own + failed, codes, 0.5


def _list_rate_totals(values: Mapping[tuple[str, str], float], done: int | None, failed: int) -> Iterator[Total]:
    rate, runtime_ms = (values.get((OVERALL, name)) for name in ("Throughput", "RunTime"))
    if rate is not None and runtime_ms is not None and done is not None:
        counted = rate * runtime_ms / 1000
        # A failed insert ends its thread before it is counted, other failures are counted.
        yield "Throughput x RunTime", counted, [min(max(counted, done), done + failed)], 0.5 + rate * _ROUNDED_MS / 1000


# Facts of one YCSB client: its launch options, and the totals of its summary.

_OPTION_WITH_VALUE: Final = frozenset({"-threads", "-target", "-db", "-P", "-p", "-l"})
#: Codes of operations that succeeded; clients print an empty code for a status without a name.
_PLAIN_RETURN: Final = ("Return=OK", "Return=BATCHED_OK", "Return=0", "Return=")
#: Limit of values that count operations, so that a malformed summary cannot fill the memory.
_MAX_VALUES: Final = 10_000
#: The rows of `client_metrics` from which a client's totals are computed.
_TOTALS: Final = pl.col("value").is_between(0, MAX_COUNT) & (
    pl.col("metric").str.starts_with("Return=") | pl.col("metric").is_in(OPERATIONS) | (pl.col("section") == "OVERALL")
)
#: Sections of failures of operations; these are no operations of the workload.
_FAILURES: Final = re.compile(rf"(?!Intended-|TOTAL_GC).*{FAILED}")
_MOST_THREADS: Final = 10**9 - 1
_LAUNCHER: Final = re.compile(r"\s(?:site|com\.yahoo)\.ycsb\.\w*Client\b\s*")


@dataclass
class YcsbClient:
    """Facts of a client, gathered block by block.

    Attributes:
        banner: kind of a line of the client's banner, or of its launch line, -> the line.
        measured: the measurement type that the output shows, by its first evidence.
        values: (section, metric) -> value of the summary's metrics, the first of each.
        clock_start: when it began to count seconds, on its own clock.
    """

    banner: dict[str, str] = field(default_factory=dict)
    measured: str | None = None
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    start_time: datetime | None = None
    clock_start: datetime | None = None
    end_time: datetime | None = None
    last_total: int | None = None
    failed_so_far: int = 0

    def add_banner(self, kind: str, text: str) -> None:
        """Keep a line with launch options: the first of its kind, of time limits the last."""
        if kind == "limit" or kind not in self.banner:
            self.banner[kind] = text

    def add_metrics(self, metrics: pl.DataFrame) -> None:
        """Keep the values from which totals are computed, a few per operation."""
        kept = metrics.filter(_TOTALS).head(_MAX_VALUES - len(self.values))
        for section, metric, value in kept.select("section", "metric", "value").iter_rows():
            self.values.setdefault((section, metric), value)
        if (metrics["metric"] == "LatencyVariance").any():
            self.saw("histogram")

    def add_status(self, status: pl.DataFrame) -> None:
        """Keep what status lines tell: the first and last time, and the operations done."""
        first_time, seconds = status.select("log_time", "seconds").row(0)
        if self.clock_start is None and first_time is not None:
            self.start_time = first_time
            self.clock_start = first_time - timedelta(seconds=seconds)
        for time in status["log_time"].drop_nulls().tail(1):
            self.end_time = time
        self.last_total = status["operations_total"][-1]

    def add_series(self, series: pl.DataFrame) -> None:
        """Keep what the rows of status lines tell: operations that failed, and how latencies are measured."""
        self.failed_so_far += int(series.filter(pl.col("section").str.ends_with(FAILED))["operations"].sum())
        if series["max_us"].count():
            self.saw("hdrhistogram")

    def saw(self, measurement_type: str | None) -> None:
        """Record a measurement type found in the output."""
        self.measured = self.measured or measurement_type

    def facts(self) -> dict[str, object]:
        """The columns of the client's row of the table `clients`."""
        options, properties = _parse_arguments(self.command_line or "")
        done, failed = self._totals(loading="-load" in options)
        target = parse_whole_number(options.get("-target", properties.get("target")), MAX_COUNT) or None
        planned = ("insertcount", "recordcount") if "-load" in options else ("operationcount",)
        counts = [parse_whole_number(properties.get(name), MAX_COUNT) for name in planned]
        limit_s = float(self.banner["limit"].split()[-2]) if "limit" in self.banner else None
        return {
            "tool": "ycsb",
            "tool_version": self.banner["version"].removeprefix("YCSB Client ") if "version" in self.banner else None,
            "throughput_ops_s": self.values.get(("OVERALL", "Throughput")),
            "runtime_ms": self.values.get(("OVERALL", "RunTime")),
            "threads": parse_whole_number(options.get("-threads", properties.get("threadcount")), _MOST_THREADS),
            "connected_threads": self._connected_threads,
            "target_ops_s": target,
            "rate_limited": target is not None,
            "operations_planned": counts[0] or counts[-1],
            "time_limit_s": limit_s or parse_whole_number(properties.get("maxexecutiontime"), MAX_COUNT) or None,
            "operations_done": done,
            "failed_operations": failed,
            "notes": find_summary_contradictions(self.values, done, failed) if self._completed else None,
            "measurement_type": properties.get("measurementtype") or self.measured,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "completed": self._completed,
            "command_line": self.command_line,
        }

    @property
    def command_line(self) -> str | None:
        """Arguments of the client, from the line that it prints, or else from the launcher's line."""
        printed, launched = self.banner.get("command"), self.banner.get("launch")
        if printed is None:
            return None if launched is None else _LAUNCHER.split(launched, maxsplit=1)[-1]
        return printed.removeprefix("Command line: ")

    @property
    def label(self) -> str | None:
        """Text that the client prints before the time of each status line (`-l`)."""
        return _parse_arguments(self.command_line or "")[0].get("-l")

    @property
    def _completed(self) -> bool:
        overall = {("OVERALL", "RunTime"), ("OVERALL", "Throughput")} <= self.values.keys()
        return overall and any(section != "OVERALL" for section, _ in self.values)

    @property
    def _connected_threads(self) -> float | None:
        """Threads that closed their connection at the end; threads that could not connect do not."""
        if not self._completed:
            return None
        return next((n for name in OPERATIONS if (n := self.values.get(("CLEANUP", name))) is not None), None)

    def _totals(self, *, loading: bool) -> tuple[int | None, int | None]:
        """Numbers of successful and failed operations; from the last status line if no summary was printed."""
        returns = {key: n for key, n in self.values.items() if key[1].startswith("Return=") and key[0] != "VERIFY"}
        counts = {section: n for (section, metric), n in self.values.items() if metric in OPERATIONS}
        if returns:
            succeeded = sum(n for (_, metric), n in returns.items() if metric in _PLAIN_RETURN)
            failed = sum(returns.values()) - succeeded
        elif counts and self._completed:
            succeeded = sum(n for section, n in counts.items() if is_counted_once(section))
            failed = sum(n for section, n in counts.items() if _FAILURES.fullmatch(section))
        elif self.last_total is None:
            return None, None
        else:
            # A failed insert ends its thread before it is counted; a failed read or update is counted.
            return max(self.last_total - (0 if loading else self.failed_so_far), 0), self.failed_so_far
        twice = sum(n for section, n in counts.items() if section.removesuffix(FAILED) == COMPOUND)
        attempted = max(int(succeeded + failed - twice), 0)
        failures = min(int(failed), attempted)
        return attempted - failures, failures


def _parse_arguments(command_line: str) -> tuple[dict[str, str], dict[str, str]]:
    """Options with their values (`-load` and `-t` have none) and the `-p` properties; the last value wins."""
    options: dict[str, str] = {}
    properties: dict[str, str] = {}
    words = iter(command_line.split())
    for word in words:
        value = next(words, "") if word in _OPTION_WITH_VALUE else ""
        if word == "-p":
            name, _, setting = value.partition("=")
            properties[name] = setting
        else:
            options[word] = value
    return options, properties


# The final summary of a YCSB client: metrics, histogram buckets and time series.
#
# All three are printed as `[SECTION], name, value`. A numeric name is a bucket or a point in time, depending on
# the measurement type that printed the section:
#
# - `histogram`: percentiles are printed, counts are whole numbers; the name is a latency in ms, `>1000` the rest;
# - `hdrhistogram`: percentiles are printed, counts have a decimal point; the name is the largest latency in us
#   that falls into the bucket;
# - `timeseries`: no percentiles; the name is a time in ms since the start, the value a mean latency.

#: Whether a value is of a bucket or a point in time, whose names are numeric, and is no metric.
IS_POINT: Final = pl.col("name").str.contains(r"^>?[0-9]{1,15}$")
_MAX_COUNT: Final = 1e15
#: Part of the name of a percentile, which a time series does not print.
PERCENTILE: Final = "PercentileLatency("

#: HdrHistogram with three significant digits, as YCSB records: exact up to 2^11 us.
_HDR_DIGIT_BITS: Final = 11

#: Metrics of measurementtype=raw, whose unit is printed in a separate line.
_RAW_SUMMARY: Final = r"^(?:Average|Min|Max|p[0-9.]+)$"
_METRIC: Final = (
    pl.col("section"),
    pl.col("name").str.replace(r"\([^()]*\)$", "").alias("metric"),
    pl.coalesce(
        pl.col("name").str.extract(r"\(([^()]*)\)$"),
        pl.when(pl.col("name").str.contains(_RAW_SUMMARY)).then(pl.lit("us")),
    ).alias("unit"),
    pl.col("value").cast(pl.Float64),
)


def parse_named_values(lines: pl.DataFrame) -> pl.DataFrame:
    """Summary lines as `offset`, `length`, `section`, `name` (with its unit) and `value` (text)."""
    return lines.select("offset", "length", pl.col("text").str.extract_groups(SUMMARY)).unnest("text")


def build_ycsb_metric_rows(values: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_metrics` for values without a numeric name."""
    # Redact before the unit is split off: apparent units may be the end of a secret.
    return values.with_columns(redact_series(values["name"])).select(_METRIC)


def add_point_kinds(points: pl.DataFrame, with_percentiles: set[str]) -> pl.DataFrame:
    """Values with numeric names, with their `kind`: the measurement type that printed them.

    Args:
        points: values of :data:`IS_POINT`.
        with_percentiles: sections that print percentiles.

    Returns:
        The kind of a bucket that no histogram of YCSB has is null.
    """
    count = pl.col("value").cast(pl.Float64)
    is_count = count.is_between(0, _MAX_COUNT) & (count % 1 == 0)
    highest = pl.col("name").cast(pl.Int64, strict=False)
    width = _make_hdr_width_expr(highest)
    percentiles = pl.col("section").is_in(list(with_percentiles))
    overflow = pl.col("name").str.starts_with(">")
    whole = overflow | ~pl.col("value").str.contains(".", literal=True)
    bucket = make_first_true_expr({"histogram": whole, "hdrhistogram": (highest + 1) % width == 0})
    timed = pl.when(~percentiles & ~overflow).then(pl.lit("timeseries"))
    return points.with_columns(kind=timed.when(is_count).then(bucket))


def _make_hdr_width_expr(value: pl.Expr) -> pl.Expr:
    """Width of the bucket a value falls into: 1 us below 2048, doubling with each power of two from there."""
    bits = 64 - value.cast(pl.UInt64, strict=False).bitwise_leading_zeros().cast(pl.Int64)
    return pl.lit(2, pl.Int64).pow((bits - _HDR_DIGIT_BITS).clip(lower_bound=0))


def build_histogram_rows(points: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_histogram` for points of the kinds histogram and hdrhistogram (column `kind`)."""
    number = pl.col("name").str.strip_prefix(">").cast(pl.Float64)
    coarse = pl.col("kind") == "histogram"
    width = (
        pl.when(coarse).then(float(US_PER_MS)).otherwise(_make_hdr_width_expr(number.cast(pl.Int64)).cast(pl.Float64))
    )
    low = pl.when(coarse).then(number * US_PER_MS).otherwise(number + 1 - width)
    overflow = pl.col("name").str.starts_with(">")
    return points.filter(pl.col("kind").is_in(["histogram", "hdrhistogram"])).select(
        "section",
        corrected=pl.col("section").str.starts_with(INTENDED),
        bucket_low_us=low,
        bucket_high_us=pl.when(overflow).then(float("inf")).otherwise(low + width),
        count=pl.col("value").cast(pl.Float64).cast(pl.Int64),
    )


def build_summary_series_rows(points: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_series` for points of the kind timeseries (column `kind`)."""
    return points.filter(pl.col("kind") == "timeseries").select(
        "section",
        corrected=pl.col("section").str.starts_with(INTENDED),
        elapsed_s=(pl.col("name").cast(pl.Float64) / 1000).round(3),
        mean_us=pl.col("value").cast(pl.Float64).fill_nan(None),
    )


# Status lines (`-s`) of a YCSB client as rows of `client_series`.
#
# One row for the line's total over operations, and one for each operation group after it, in any of the three
# forms that the measurement types print::
#
#     [READ: Count=100, Max=13287, Min=476, Avg=1799.44, 90=3309, 99=8131, 99.9=13287, 99.99=13287]
#     [READ AverageLatency(us)=441.48]
#     READ count: 3000, average latency(us): 441.48

#: What a client shows in each status line, and never twice.
SHOWN: Final = ("log_time", "operations_total")


def _number(text: pl.Expr) -> pl.Expr:
    """Parse numbers in the client's locale (`37,02`); Java prints invalid ones as NaN, U+FFFD or infinity signs."""
    return text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).fill_nan(None)


_HDR_GROUP: Final = r"\[[^\[\]]+?: Count=[^\]]*\]"
#: Two forms with the mean only.
_MEAN_GROUP: Final = r"\[[^\[\]:=]+? AverageLatency\((?:us|ms)\)=[^\]]*\]|\S+ count: [0-9]+, average latency\(us\): \S+"
_MEAN_PARTS: Final = (
    r"^\[?(?<section>.+?) (?:count: (?<operations>[0-9]+), average latency\(us\): |AverageLatency\((?<unit>us|ms)\)=)"
    r"(?<mean_us>[^\]]*)\]?$"
)

#: Column -> pattern of its value within a group of each form.
_HDR_FIELDS: Final = {
    "operations": "Count",
    "max_us": "Max",
    "min_us": "Min",
    "mean_us": "Avg",
    "p90_us": "90",
    "p99_us": "99",
    "p999_us": "99\\.9",
    "p9999_us": "99\\.99",
}
#: The section and the fields of a group as texts, whichever it has.
_HDR_PARTS: Final = (
    pl.col("group").str.extract(r"^\[(.+?): Count=").alias("section"),
    *(pl.col("group").str.extract(rf"[ ]{key}=(.+?)(?:, |\])").alias(name) for name, key in _HDR_FIELDS.items()),
)
_HDR_NUMBERS: Final = _number(pl.col(list(_HDR_FIELDS)))
#: Without operations YCSB prints 0, NaN and the largest integer.
_HDR_MEASURED: Final = (
    pl.col("operations").cast(pl.Int64, strict=False),
    pl.when(pl.col("operations") > 0).then(pl.col([name for name in _HDR_FIELDS if name != "operations"])).name.keep(),
)
#: The printed clock has milliseconds, `sec` only whole seconds; a larger difference means that the clock was set.
_CLOCK_JUMP_S: Final = 1.5


def parse_status_fields(lines: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """Status lines with their fixed fields: `offset`, `log_time` (UTC), `seconds`, `operations_total`, `rest`.

    Repetitions (on the other stream) are left out; lines without a time are never taken for one.
    """
    local = pl.col("1").str.to_datetime("%Y-%m-%d %H:%M:%S:%3f", time_unit="us", strict=False)
    # Separated first, because each expression that names a group would match the pattern again.
    parts = lines.select("offset", pl.col("text").str.extract_groups(STATUS)).unnest("text")
    status = parts.select(
        "offset",
        log_time=convert_local_to_utc(local, timezone),
        seconds=pl.col("2").cast(pl.Int64, strict=False),
        operations_total=pl.col("3").cast(pl.Int64, strict=False),
        rest=pl.col("4"),
    )
    return status.filter(pl.struct(SHOWN).is_first_distinct() | pl.col("log_time").is_null())


def build_status_series_rows(status: pl.DataFrame, start: pl.Expr) -> pl.DataFrame:
    """Rows of `client_series`: per status line its total, then its operations in the order printed.

    The column `offset` is that of the line.

    Args:
        status: a frame of :func:`parse_status_fields`.
        start: the client's start on its own clock, if known.
    """
    by_clock = ((pl.col("log_time") - start).dt.total_milliseconds() / 1000).round(3)
    plausible = (by_clock - pl.col("seconds")).abs() <= _CLOCK_JUMP_S
    timed = status.select(
        "offset",
        "log_time",
        "operations_total",
        "rest",
        elapsed_s=pl.when(plausible).then(by_clock).otherwise(pl.col("seconds").cast(pl.Float64)),
        throughput_ops_s=_number(pl.col("rest").str.extract(r"(\S+) current ops/sec")),
    )
    rows = [timed.drop("rest"), _parse_hdr_rows(timed), _parse_mean_rows(timed)]
    return pl.concat(rows, how="diagonal").sort("offset", maintain_order=True)


def _extract_operation_groups(timed: pl.DataFrame, pattern: str) -> pl.DataFrame:
    groups = pl.col("rest").str.extract_all(pattern).alias("group")
    return timed.select("offset", "elapsed_s", "log_time", groups).explode("group").drop_nulls("group")


def _parse_hdr_rows(timed: pl.DataFrame) -> pl.DataFrame:
    rows = _extract_operation_groups(timed, _HDR_GROUP).select("offset", "elapsed_s", "log_time", *_HDR_PARTS)
    return rows.with_columns(_HDR_NUMBERS).with_columns(_HDR_MEASURED)


def _parse_mean_rows(timed: pl.DataFrame) -> pl.DataFrame:
    parts = (
        _extract_operation_groups(timed, _MEAN_GROUP)
        .with_columns(pl.col("group").str.extract_groups(_MEAN_PARTS))
        .unnest("group")
    )
    factor = pl.when(pl.col("unit") == "ms").then(1000.0).otherwise(1.0)
    return parts.select(
        *("offset", "elapsed_s", "log_time", "section"),
        pl.col("operations").cast(pl.Int64, strict=False),
        _number(pl.col("mean_us")) * factor,
    )


# The summary of the JSON exporters: an object per value.
#
# `JSONMeasurementsExporter` writes objects without a separator, and `JSONArrayMeasurementsExporter` an array of
# objects. Both print each field on a separate line; tools that rewrite JSON put an object on one line. Either way a
# value is recognised by its three fields, so the punctuation between objects does not matter.

_OBJECT: Final = r'\{[^{}]*"metric"[^{}]*\}'
_FIELDS: Final = {
    "section": r'"metric"\s*:\s*"([^"]*)"',
    "name": r'"measurement"\s*:\s*"([^"]*)"',
    "value": rf'"value"\s*:\s*"?({NUMBER})',
}


def parse_json_values(lines: pl.DataFrame, before: tuple[str | None, str | None]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Values of JSON lines, and the fields of the lines; the last fields are needed by the next block.

    Args:
        lines: lines of kind json, in order.
        before: section and name of the object at the end of the previous block.

    Returns:
        A frame like that of `named_values` for the text summary (`offset`, `length`, `section`, `name`, `value`),
        and the lines with the last `section` and `name` up to each line.
    """
    section, name = before
    objects = pl.coalesce(
        pl.when(pl.col("text").str.contains(_OBJECT)).then(pl.col("text").str.extract_all(_OBJECT)),
        pl.concat_list("text"),
    )
    pieces = lines.with_columns(piece=objects).explode("piece")
    fields = pieces.select(
        "offset", "length", *(pl.col("piece").str.extract(pattern).alias(field) for field, pattern in _FIELDS.items())
    )
    known = fields.with_columns(
        pl.col("section").forward_fill().fill_null(pl.lit(section, pl.String)),
        pl.col("name").forward_fill().fill_null(pl.lit(name, pl.String)),
    )
    return known.filter(pl.all_horizontal(pl.col("section", "name", "value").is_not_null())), known


# Single latencies of measurementtype=raw: `READ,1795210352805,15906`.

_COLUMNS: Final = pl.Schema({"section": pl.String(), "began_ms": pl.Int64(), "latency_us": pl.Int64()})
_LAST_MS: Final = 10**13 - 1


def parse_raw_fields(lines: pl.Series) -> pl.DataFrame:
    """Fields of lines of kind raw."""
    fields = lines.to_frame("text").select(pl.col("text").str.extract_groups(RAW)).unnest("text")
    return _convert_begin_to_us(fields.cast(_COLUMNS))


def parse_uniform_fields(data: bytes) -> pl.DataFrame | None:
    """The fields of a block that consists of raw lines only, as most of a raw log does; else None."""
    first, last = data.partition(b"\n")[0], data[data.rfind(b"\n", 0, -1) + 1 : -1]
    if not all(re.match(RAW.encode(), line) for line in (first, last)):
        return None
    fields = read_uniform(data, ",", _COLUMNS)
    if fields is None or not fields["began_ms"].is_between(0, _LAST_MS).all():
        return None
    sections = fields["section"].unique().to_list()
    return _convert_begin_to_us(fields) if all(re.match(RAW, f"{section},0,0") for section in sections) else None


def _convert_begin_to_us(fields: pl.DataFrame) -> pl.DataFrame:
    return fields.select("section", "latency_us", began_us=pl.col("began_ms") * US_PER_MS)


# Conversion of blocks of lines to tables, with state carried from block to block.

#: Number of status lines kept to find repetitions: a day at one per second.
_REMEMBERED: Final = 100_000
_SHOWN: Final = pl.Schema({"log_time": TIME.polars, "operations_total": pl.Int64()})
_NO_BUCKET: Final = "not a bucket of a histogram that YCSB records"


@dataclass
class YcsbParser(ReportParser):
    """The state of parsing one file.

    Attributes:
        timezone: IANA zone of the client's clock.
    """

    tool = "a YCSB client"
    kinds = KINDS
    telling = TELLING
    other_run = "output of a second client in the same file; put each client's output into a file of its own"
    unknown = "not a line of a YCSB client"
    too_long = "too long for a line of a YCSB client"
    timezone: str = "UTC"
    client: YcsbClient = field(default_factory=YcsbClient)
    _ended: bool = False
    _once: set[str] = field(default_factory=set)
    _with_percentiles: set[str] = field(default_factory=set)
    _json: tuple[str | None, str | None] = (None, None)
    _shown: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_SHOWN))
    _raw: SingleLatencies = field(default_factory=SingleLatencies)

    def block(self, block: Block) -> Parsed:
        """Tables of one block of the client's output."""
        if not self._ended and (fields := parse_uniform_fields(block.data)) is not None:
            self.recognised = True
            return Parsed({"client_latencies": self._latencies(fields)}, block.length)
        lines = self.judged(classify_ycsb_lines(block.data, block.offset))
        good = self.accepted(lines)
        of_kind = {kind: good.filter(kind=kind) for kind in ("summary", "json", "status", "raw")}
        values = self._values(of_kind["summary"], of_kind["json"])
        points = add_point_kinds(values.filter(IS_POINT), self._with_percentiles)
        tables = {
            "client_metrics": self._metrics(values.filter(~IS_POINT)),
            "client_series": pl.concat(
                [self._series(of_kind["status"]), build_summary_series_rows(points)], how="diagonal_relaxed"
            ),
            "client_histogram": build_histogram_rows(points),
            "client_latencies": self._latencies(parse_raw_fields(of_kind["raw"]["text"])),
        }
        for kind in points["kind"].drop_nulls().head(1):
            self.client.saw(kind)
        return _build_parsed_block(block, lines, points, tables)

    def finish(self) -> Parsed:
        """The client's own row and its errors, which are complete at the end."""
        client = pl.DataFrame([self.client.facts()], infer_schema_length=None, strict=False)
        return Parsed({"clients": client, "client_errors": self.errors}, 0)

    def judged(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Lines with the `reason` of their rejection, null if they are not rejected."""
        foreign = self._from_second_client(lines)
        # The label (-l) directly precedes the time of each status line.
        label = pl.col("glued") & (pl.col("text") == pl.lit(self.client.label, pl.String))
        unknown = pl.col("kind").is_null() & ~label.fill_null(value=False)
        again = pl.lit(value=False) if foreign is None else pl.col("offset") >= foreign
        return lines.with_columns(
            reason=make_first_true_expr({self.other_run: again, self.unknown: unknown | self.is_stray()})
        )

    def _from_second_client(self, lines: pl.DataFrame) -> int | None:
        """Offset from which lines are those of a second client; the banner before it is read."""
        if self._ended:
            return 0
        for offset, kind, line in lines.filter(STATES_FACTS).select("offset", "kind", "text").iter_rows():
            text = next((text for text in ONCE if line.startswith(text)), None)
            if text in self._once:
                self._ended = True
                return int(offset)
            if text is not None:
                self._once.add(text)
            self.client.add_banner(kind, line)
        return None

    def _values(self, summary: pl.DataFrame, json: pl.DataFrame) -> pl.DataFrame:
        """Named values of the summary, for every exporter."""
        values = parse_named_values(summary)
        if not json.is_empty():
            more, fields = parse_json_values(json, self._json)
            self._json = fields.select("section", "name").row(-1)
            values = pl.concat([values, more])
        percentiles = values.filter(pl.col("name").str.contains(PERCENTILE, literal=True))
        self._with_percentiles |= set(percentiles["section"])
        return values

    def _metrics(self, values: pl.DataFrame) -> pl.DataFrame:
        metrics = build_ycsb_metric_rows(values)
        self.client.add_metrics(metrics)
        return metrics

    def _series(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Rows of status lines; repetitions (on the other stream) are left out."""
        status = parse_status_fields(lines, self.timezone)
        status = status.join(self._shown, on=SHOWN, how="anti", maintain_order="left")
        dated = status.filter(pl.col("log_time").is_not_null()).select(SHOWN)
        self._shown = pl.concat([self._shown, dated]).tail(_REMEMBERED)
        if status.is_empty():
            return pl.DataFrame()
        self.client.add_status(status)
        series = build_status_series_rows(status, pl.lit(self.client.clock_start, TIME.polars))
        self.client.add_series(series)
        return series.drop("offset")

    def _latencies(self, fields: pl.DataFrame) -> pl.DataFrame:
        if fields.is_empty():
            return pl.DataFrame()
        self.client.saw("raw")
        return self._raw.rows(fields)


def _add_unbucketed_values(lines: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """The rejected lines, and those whose values are in no bucket of a histogram."""
    no_bucket = points.filter(pl.col("kind").is_null()).select(
        "offset", "length", text=pl.format("[{}], {}, {}", "section", "name", "value"), reason=pl.lit(_NO_BUCKET)
    )
    bad = lines.filter(pl.col("reason").is_not_null()).select(no_bucket.columns)
    return pl.concat([bad, no_bucket]).sort("offset")


def _build_parsed_block(
    block: Block, lines: pl.DataFrame, points: pl.DataFrame, tables: dict[str, pl.DataFrame]
) -> Parsed:
    """The block's tables with an account of its bytes."""
    rejects = reject_runs(_add_unbucketed_values(lines, points) if points["kind"].null_count() else lines)
    noise = int(lines.filter(pl.col("reason").is_null(), kind="noise")["length"].sum())
    rejected = int(rejects["byte_length"].sum())
    return Parsed(tables, block.length - noise - rejected, noise, rejects)


__all__ = ["FORMAT", "Ycsb"]

_SIGNS: Final = Signature(
    re.compile(
        rb"^YCSB Client \d"
        rb"|^\[OVERALL\], ?(?:RunTime|Throughput)\("
        rb"|^\[[A-Za-z_-]+\], (?:Operations|AverageLatency\(us\)|Return=\w+), "
        rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3} -?\d+ sec: \d+ operations; "
        rb"|^ ?\d+ sec: \d+ operations; \d[\d.,]* current ops/sec"
        rb"|^[A-Z-]+ latency raw data: op, timestamp\(ms\), latency\(us\)"
        rb'|"metric"\s*:\s*"OVERALL",\s*"measurement"\s*:'
        rb"|^Command line: .*-db (?:site|com\.yahoo)\.ycsb\."
        rb"|^[\w/.~-]*java\s[^\n]*\s(?:site|com\.yahoo)\.ycsb\.\w*Client\s",
        re.MULTILINE,
    ),
    (
        *(b"YCSB Client ", b"[OVERALL],", b"], Operations, ", b"], AverageLatency(us), ", b"], Return="),
        *(b" operations; ", b" latency raw data: op, timestamp(ms), latency(us)", b'"metric"', b".ycsb."),
    ),
)
#: The launcher's line before the client's own; it may also come late, on standard error.
_LAUNCHED: Final = (
    rb"[^\n]*(?:site|com\.yahoo)\.ycsb\.\w*Client\s[^\n]*\n(?:[^\n]*\n){0,5}?"
    rb"(?:Command line: |YCSB Client |Loading workload|Starting test\.)"
)
#: Printed instead of a run when the arguments are wrong.
_USAGE: Final = Signature(re.compile(rb"^Usage: java \S*ycsb\.\w*Client \[options\]", re.MULTILINE), (b"Usage: java ",))


class Ycsb(Format):
    """Output of YCSB clients, versions 0.1 to 0.18."""

    name: ClassVar[str] = "ycsb"
    version: ClassVar[int] = 7
    tables = ("clients", "client_metrics", "client_series", "client_histogram", "client_latencies", "client_errors")
    noise = (
        "blank lines, `Loading workload...`, `Starting test.`, `Adding shard node URL`, `Using shards`, "
        "`DBWrapper: report latency ...`, announcements of stops, headings of raw data, and messages of the bindings' "
        "loggers below warning level"
    )
    options = (TIMEZONE,)
    measures: ClassVar[Mapping[str, str]] = MEASURES
    start_markers = (
        StartMarker(b"/", rb"\S*java\s" + _LAUNCHED),
        StartMarker(b"java ", _LAUNCHED),
        StartMarker(b"Command line: ", rb"[^\n]*-db (?:site|com\.yahoo)\.ycsb\."),
        StartMarker(b"YCSB Client ", rb"[0-9]"),
        StartMarker(b"Loading workload...", rb"\r?$"),
        StartMarker(b"Starting test.", rb"\r?$", stage=1),
        StartMarker(b"[OVERALL], RunTime(ms), ", stage=2, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has a line that only YCSB prints."""
        return 0.95 if _SIGNS.within(head) and not _USAGE.within(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client, a piece per block; the client itself and its errors come last."""
        return YcsbParser(timezone=get_timezone(hints.options)).pieces(content)


FORMAT: Final = Ycsb()
