"""Output of go-ycsb, the YCSB client in Go, in its three styles: `outputstyle=plain` (its default), `table`, `json`.

Tables: `clients` (one row), `client_metrics` (the summary), `client_series` (progress while it runs),
`client_errors`. For example::

    ***************** properties *****************
    "threadcount"="8"
    **********************************************
    READ   - Takes(s): 10.0, Count: 125, OPS: 12.5, Avg(us): 2282, Min(us): 544, Max(us): 12510, 99th(us): 5000
    Run finished, takes 11.722575701s
    READ   - Takes(s): 11.7, Count: 150, OPS: 12.8, Avg(us): 2280, Min(us): 544, Max(us): 12510, 99th(us): 5000

Conversion of the lines:

- names are those of YCSB: `READ_MODIFY_WRITE` is READ-MODIFY-WRITE, `READ_ERROR` READ-FAILED, Count Operations,
  99th(us) 99thPercentileLatency; runtime and throughput of `TOTAL` are metrics of OVERALL;
- every line counts from the start: a row of `client_series` has the operations since the previous line, and no
  latencies, because means and percentiles since the start do not determine those of the interval;
- go-ycsb counts the read and the update of a READ_MODIFY_WRITE in its `TOTAL`. Here, as in YCSB, the whole is one
  operation, in `operations_done`, `throughput_ops_s` and the totals of `client_series`; the printed rate remains a
  metric of OVERALL;
- `runtime_ms` is the time in `Run finished`.

With `measurementtype=raw`, the latency of each operation follows that line, or is in the file of
`measurement.output_file`, which is read separately. The latencies become rows of `client_latencies` and counts to the
microsecond (`client_histogram`); their number, mean and extremes become metrics. A file of latencies alone gives no row
of `clients`, because it has no facts about the client.

The output of a second client after the first is rejected, because the numbers of both would be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    JSON,
    MAX_CLIENTS,
    MAX_COUNT,
    MEASURES,
    METRIC,
    NUMBER,
    GoReport,
    LatencyCounts,
    SingleLatencies,
    build_parsed_report,
    describe_contradictions,
    parse_whole_number,
    pivot_to_columns,
    select_succeeded_values,
    sum_failed_values,
)
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, StartMarker
from citus_analysis.formats.parsing.lines import line_frame
from citus_analysis.operations import COMPOUND, FAILED, OVERALL
from citus_analysis.units import SECONDS_PER_UNIT, US_PER_MS, US_PER_S

_TITLE: Final = r"^\*{17} properties \*{17}$"
_VALUE: Final = rf"[A-Za-z0-9.]+\((?:s|us)\): {NUMBER}"
_SECTION: Final = "(?<section>[A-Z][A-Z_]*)"
_PLAIN: Final = rf"^{_SECTION} *- (?<values>Takes\(s\): {NUMBER}, Count: [0-9]{{1,15}}, OPS: {NUMBER}(?:, {_VALUE})+)$"
_TABLE: Final = rf"^\| {_SECTION} +(?<values>(?:\| +{NUMBER} ){{12}})\|$"
_COLUMNS: Final = (
    "Takes(s) Count OPS Avg(us) Min(us) Max(us) 50th(us) 90th(us) 95th(us) 99th(us) 99.9th(us) 99.99th(us)"
)
_HEADER: Final = "operation,timestamp_us,latency_us"
#: A line of an operation, and its repetition; times until the year 2286.
_RAW: Final = r"^(?<section>[A-Z][A-Z_]*),(?<began_us>[0-9]{1,16}),(?<latency_us>[0-9]{1,15})$"
_TOTAL: Final = r"^TOTAL,[0-9]{1,16},[0-9]{1,15}$"
_DURATION: Final = r"((?:[0-9]{1,9}h)?(?:[0-9]{1,9}m)?[0-9]{1,9}(?:\.[0-9]+)?(?:s|ms|µs|ns))"

#: Kind -> pattern; the first that matches decides.
_KINDS: Final = {
    "title": _TITLE,
    "noise": rf"^$|^{_HEADER}$|{_TOTAL}|^\*{{46}}$|^Using request distribution |^[+-]+$|^\| OPERATION +\|",
    "plain": _PLAIN,
    "table": _TABLE,
    "json": JSON,
    "property": r'^"([^"]+)"="(.*)"$',
    "finished": rf"^Run finished, takes {_DURATION}$",
    "latency": _RAW,
    "error": r"^operation err: |^(?:panic|fatal error): |^create db .* failed |^totalOpCount\(",
}
#: YCSB's name of a section.
_SECTION_NAME: Final = (
    pl.col("section")
    .str.replace(r"_ERROR$", FAILED)
    .replace({"TOTAL": OVERALL})
    .str.replace(r"^READ_MODIFY_WRITE", COMPOUND)
)


class GoYcsb(Format):
    """Output of go-ycsb, the YCSB client in Go."""

    name: ClassVar[str] = "go_ycsb"
    version: ClassVar[int] = 5
    tables = ("clients", "client_metrics", "client_series", "client_latencies", "client_histogram", "client_errors")
    noise = (
        "blank lines, the frame around the properties, `Using request distribution ...`, the header of raw latencies, "
        "and their lines of `TOTAL`, which repeat those of the operations"
    )
    dropped = "of intervals: rates and latencies, which count from the start of the run"
    measures: ClassVar[Mapping[str, str]] = MEASURES
    start_markers = (
        StartMarker(b"Using request distribution '"),
        StartMarker(b"***************** properties *****************", stage=1),
        StartMarker(b"Run finished, takes ", stage=2, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has a line that only go-ycsb prints."""
        if head.lstrip(b"\xef\xbb\xbf").startswith(_HEADER.encode()):
            return 0.95
        if b"- Takes(s): " not in head and b" properties *" not in head:
            return 0.0
        text = line_frame(head)["text"]
        return 0.95 if any(text.str.contains(sign).any() for sign in (_TITLE, _PLAIN)) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client, a piece per block; the client itself and its errors come last."""
        return _GoYcsbReport().pieces(content)


@dataclass
class _GoYcsbReport(GoReport):
    """The state of parsing one file."""

    tool = "go-ycsb"
    kinds = _KINDS
    telling = ("title", "plain", "finished", "latency")
    once = ("title", "finished")
    other_run = "output of a second client in the same file; put each client's output into a file of its own"
    unknown = "not a line of go-ycsb"
    exact = None
    plain = _PLAIN
    table = _TABLE
    columns = _COLUMNS.split()
    keep = ("property", "finished")
    _before: pl.DataFrame | None = None
    _raw: SingleLatencies = field(default_factory=SingleLatencies)
    _counts: LatencyCounts = field(default_factory=LatencyCounts)

    def block(self, block: Block) -> Parsed:
        """Tables of one block of the output."""
        ended = self.times_seen("finished") > 0
        lines = self.judged(line_frame(block.data, block.offset)).with_columns(ended=ended)
        printed, lines = self.printed(lines)
        good = self.accepted(lines)
        measured = printed.with_columns(section=_SECTION_NAME)
        measured = measured.join(good.select("offset", "ended"), on="offset", maintain_order="left")
        # Old versions print 0 where the histogram ends before the percentile.
        least = pl.when(pl.col("name") == "Min").then("value").max().over("offset", "section")
        is_impossible = pl.col("name").str.ends_with("th") & (pl.col("value") < least)
        measured = measured.filter(~is_impossible.fill_null(value=False))
        tables = {
            "client_series": self._series(measured.filter(~pl.col("ended"))),
            "client_metrics": self._metrics(measured.filter("ended")),
            "client_latencies": self._latencies(good.filter(kind="latency")["text"]),
        }
        return build_parsed_report(lines, tables, noise=("noise", "title"))

    def finish(self) -> Parsed:
        """The client's own row and its errors."""
        metrics = self._counts.summary(("Operations", "AverageLatency", "MinLatency", "MaxLatency"))
        self.add_summary(metrics.filter(metric="Operations").with_columns(name=pl.lit("Count")))
        tables = {
            "client_metrics": metrics,
            "client_histogram": self._counts.histogram(),
            "client_errors": self.errors,
        }
        alone = not self.seen.total() and metrics.height
        return Parsed(tables if alone else tables | {"clients": self._client()}, 0)

    def _latencies(self, texts: pl.Series) -> pl.DataFrame:
        fields = texts.to_frame("text").select(pl.col("text").str.extract_groups(_RAW)).unnest("text")
        latencies = fields.select(_SECTION_NAME, pl.col("began_us", "latency_us").cast(pl.Int64))
        self._counts.add(latencies)
        return self._raw.rows(latencies)

    def _series(self, measured: pl.DataFrame) -> pl.DataFrame:
        counted = pivot_to_columns(measured, ("Count", "Takes"), ("offset", "section"))
        both = counted if self._before is None else pl.concat([self._before, counted])
        self._before = both.group_by("section", maintain_order=True).last().select(counted.columns)
        # The line of READ_MODIFY_WRITE precedes that of TOTAL, which counts its read and its update.
        whole = pl.when(pl.col("section") == COMPOUND).then("Count").forward_fill().fill_null(0)
        total = pl.col("section") == OVERALL
        since = (
            both.with_columns(Count=pl.col("Count") - pl.when(total).then(whole).otherwise(0))
            .with_columns(
                operations=pl.col("Count") - pl.col("Count").shift(fill_value=0).over("section"),
                seconds=pl.col("Takes") - pl.col("Takes").shift(fill_value=0).over("section"),
            )
            .filter(pl.col("offset").is_in(counted["offset"].implode()))
        )
        grown = pl.col("operations") >= 0
        return since.select(
            section=pl.when(~total).then("section"),
            elapsed_s="Takes",
            operations_total=pl.when(total).then("Count"),
            operations=pl.when(~total & grown).then("operations"),
            throughput_ops_s=pl.when(grown & (pl.col("seconds") > 0)).then(pl.col("operations") / pl.col("seconds")),
        )

    def _metrics(self, measured: pl.DataFrame) -> pl.DataFrame:
        self.add_summary(measured)
        return measured.filter((pl.col("section") != OVERALL) | pl.col("name").is_in(["Takes", "OPS"])).select(
            "section",
            metric=METRIC,
            unit=pl.when(pl.col("name") == "OPS").then(pl.lit("ops/sec")).otherwise("unit"),
            value="value",
        )

    def _client(self) -> pl.DataFrame:
        counts = self.sections("Count")
        printed = sum(select_succeeded_values(counts))
        done = printed - counts.get(COMPOUND, 0.0)
        rate = self.summary.get((OVERALL, "OPS"))
        if rate is not None and printed:
            rate *= done / printed
        lines = pl.concat(self.kept)
        properties = lines.filter(kind="property").select(pl.col("text").str.extract_groups(_KINDS["property"]))
        # The first of a name counts.
        stated = dict(properties.reverse().unnest("text").iter_rows()).get
        loading = stated("dotransactions") == "false"
        planned = ("insertcount", "recordcount") if loading else ("operationcount",)
        finished = lines.filter(kind="finished")["text"].str.extract(_KINDS["finished"])
        runtime_s = _parse_go_duration_s(finished[-1]) if len(finished) else None
        facts = {
            "tool": "go-ycsb",
            "throughput_ops_s": rate if rate is not None else done / runtime_s if runtime_s and counts else None,
            "runtime_ms": None if runtime_s is None else runtime_s * US_PER_S / US_PER_MS,
            "threads": parse_whole_number(stated("threadcount"), MAX_CLIENTS),
            "target_ops_s": parse_whole_number(stated("target"), MAX_COUNT) or None,
            "operations_planned": next(
                (n for name in planned if (n := parse_whole_number(stated(name), MAX_COUNT))), None
            ),
            "operations_done": min(int(done), MAX_COUNT) if counts else None,
            "failed_operations": min(int(sum_failed_values(counts)), MAX_COUNT) if counts else None,
            "notes": describe_contradictions([("TOTAL", counts.get(OVERALL), [printed], 0.5)]),
            "measurement_type": stated("measurementtype"),
            "completed": runtime_s is not None and bool(counts),
        }
        return pl.DataFrame([facts])


def _parse_go_duration_s(duration: str) -> float:
    """A duration as Go prints it (`1h2m3.5s`, `11.7ms`) in seconds."""
    parts = re.findall(r"([0-9.]+)(h|ms|m|µs|ns|s)", duration)
    return sum(float(number) * SECONDS_PER_UNIT["min" if unit == "m" else unit] for number, unit in parts)


FORMAT: Final = GoYcsb()
