"""Output of go-tpc (TPC-C, TPC-H, CH-benCHmark in Go), in its three styles: `--output plain`, `table`, `json`.

Tables: `clients` (one row), `client_metrics` (the summary), `client_series` (`--interval`), `client_errors`. For
example::

    [Current] NEW_ORDER - Takes(s): 1.8, Count: 68, TPM: 2257.0, Sum(ms): 2747.6, Avg(ms): 40.4, 50th(ms): 39.8, ...
    Finished
    [Summary] NEW_ORDER - Takes(s): 6.0, Count: 282, TPM: 2842.7, Sum(ms): 11099.4, Avg(ms): 39.4, 50th(ms): 35.7, ...
    [Summary] NEW_ORDER_ERR - Takes(s): 5.1, Count: 2, TPM: 23.5, Sum(ms): 8.1, ...
    tpmC: 2842.7, tpmTotal: 6091.3, efficiency: 22105.0%

Conversion of the lines:

- names are those of YCSB: Count is Operations, `Avg(ms)` AverageLatency, `99th(ms)` 99thPercentileLatency, and
  `NEW_ORDER_ERR` the section NEW_ORDER-FAILED; `tpmC` (new orders a minute), `tpmTotal` and `efficiency` are metrics of
  `OVERALL` under their own names;
- `throughput_ops_s` is the sum of the transactions' rates (TPM / 60), failures left out; `runtime_ms` the longest
  `Takes`, which has a resolution of 0.1 s;
- failed operations are counted by the sections with `_ERR`, or by the lines `execute run failed` if these are more;
- status lines have no time: `elapsed_s` is null, and rows are in the order of the lines;
- go-tpc does not print its numbers of threads and warehouses: state them (`--meta threads=`).

Percentiles come from a histogram with buckets of growing width: they are upper edges, up to 5 % above the latency.
The output of a second run after the first is rejected, because the numbers of both would be mixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    JSON,
    MEASURES,
    METRIC,
    NUMBER,
    GoReport,
    build_parsed_report,
    convert_to_count,
    describe_contradictions,
    pivot_to_columns,
    select_succeeded_values,
    sum_failed_values,
)
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, StartMarker
from citus_analysis.formats.parsing.lines import line_frame
from citus_analysis.operations import FAILED, OVERALL
from citus_analysis.units import US_PER_MS

_VALUE: Final = rf"[A-Za-z0-9.]+(?:\(m?s\))?: {NUMBER}"
_PREFIX: Final = r"\[(?<prefix>Current|Summary)\]"
_SECTION: Final = "(?<section>[A-Za-z0-9_]+)"
_PLAIN: Final = rf"^{_PREFIX} {_SECTION} - (?<values>{_VALUE}(?:, {_VALUE})*)$"
_TABLE: Final = rf"^\| {_PREFIX} +\| {_SECTION} +(?<values>(?:\| +{NUMBER} ){{11}})\|$"
_COLUMNS: Final = "Takes(s) Count TPM Sum(ms) Avg(ms) 50th(ms) 90th(ms) 95th(ms) 99th(ms) 99.9th(ms) Max(ms)"
#: Releases of 2019 print `tpmC` alone.
_TOTAL_TABLE: Final = rf"^\| +({NUMBER}) +\| +({NUMBER}) +\| +({NUMBER})% +\|$"
#: Kind -> pattern; the first that matches decides.
_KINDS: Final = {
    "total_json": r'^\[?\{"efficiency":".*","tpmC":".*","tpmTotal":".*"\}\]?$',
    "plain": _PLAIN,
    "table": _TABLE,
    "json": JSON,
    "total": rf"^tpmC: {NUMBER}(?:, tpmTotal: {NUMBER})?(?:, efficiency: {NUMBER}%)?$",
    "total_table": _TOTAL_TABLE,
    "finished": r"^Finished$",
    "noise": r"^$|^[0-9/]{10} [0-9:]{8} maxprocs: |^[+-]+$|^\| +(?:PREFIX|TPMC) +\|"
    r"|^(?:creating|load(?:ing)?|begin to)\b",
    "error": r"^\[[0-9-]{10} [0-9:]{8}\] "
    r"|^(?:prepare statement error|panic|fatal error|Failed to|execute \w+ failed)\b",
    "continuation": r"^\s+\S|^VALUES \(",
}
_SIGNS: Final = tuple(_KINDS[kind] for kind in ("total_json", "plain", "table", "json", "total"))
_TOTALS: Final = {"tpmC": "1/min", "tpmTotal": "1/min", "efficiency": "%"}
_SERIES: Final = {
    "Avg": "mean_us",
    "Max": "max_us",
    "50th": "p50_us",
    "90th": "p90_us",
    "95th": "p95_us",
    "99th": "p99_us",
    "99.9th": "p999_us",
}
#: With `--ignore-error`, some failures are printed but not counted.
_FAILURE: Final = r"^\[[0-9-]{10} [0-9:]{8}\] execute run failed, err "
_S_PER_MIN: Final = 60
_NEW_ORDER: Final = "NEW_ORDER"
#: Largest difference of a printed rate from its value, and the share by which rates fall until the totals are computed.
_ROUNDED: Final = 0.0501
_LATER: Final = 0.001


class GoTpc(Format):
    """Output of go-tpc: TPC-C and other benchmarks of databases, in Go."""

    name: ClassVar[str] = "go_tpc"
    version: ClassVar[int] = 2
    tables = ("clients", "client_metrics", "client_series", "client_errors")
    noise = "blank lines, frames and headings of tables, progress of `prepare`"
    dropped = "of intervals: the sum of the latencies, and the interval's length"
    measures: ClassVar[Mapping[str, str]] = MEASURES
    start_markers = (
        StartMarker(b"20", rb"[0-9/]{8} [0-9:]{8} maxprocs: "),
        StartMarker(b"[Current] ", stage=1, repeats=True, continues=True),
        StartMarker(b"Finished", rb"\r?$", stage=2, continues=True),
        StartMarker(b"[Summary] ", stage=3, repeats=True, continues=True),
        StartMarker(b"tpmC: ", stage=4, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has a line that only go-tpc prints."""
        if b"[Current]" not in head and b"[Summary]" not in head and b"tpmTotal" not in head:
            return 0.0
        text = line_frame(head)["text"]
        return 0.95 if any(text.str.contains(sign).any() for sign in _SIGNS) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client, a piece per block; the client itself and its errors come last."""
        return _GoTpcReport().pieces(content)


@dataclass
class _GoTpcReport(GoReport):
    """The state of parsing one file."""

    tool = "go-tpc"
    kinds = _KINDS
    telling = [*_KINDS][:6]
    once = ("finished",)
    other_run = "output of a second run in the same file; put each run's output into a file of its own"
    unknown = "not a line of go-tpc"
    plain = _PLAIN
    table = _TABLE
    columns = _COLUMNS.split()
    _failures: int = 0
    _total: dict[str, float] = field(default_factory=dict)

    def block(self, block: Block) -> Parsed:
        """Tables of one block of the output."""
        printed, lines = self.printed(self.judged(line_frame(block.data, block.offset)))
        printed = printed.with_columns(pl.col("section").str.replace(r"_ERR$", FAILED))
        good = self.accepted(lines)
        self._failures += int(good["text"].str.contains(_FAILURE).sum())
        totals = _build_total_rows(good)
        self._total |= dict(totals.select("metric", "value").iter_rows())
        is_interval = pl.col("prefix") == "Current"
        summary = printed.filter(~is_interval)
        self.add_summary(summary)
        tables = {
            "client_series": _build_go_tpc_series(printed.filter(is_interval)),
            "client_metrics": pl.concat([summary.select("section", "unit", "value", metric=METRIC), totals]),
        }
        return build_parsed_report(lines, tables, noise=("noise", "finished"))

    def finish(self) -> Parsed:
        """The client's own row and its errors."""
        rates, counts, times = (self.sections(name) for name in ("TPM", "Count", "Takes"))
        facts = {
            "tool": "go-tpc",
            "throughput_ops_s": sum(select_succeeded_values(rates)) / _S_PER_MIN if rates else None,
            "runtime_ms": max(times.values()) * 1000 if times else None,
            "operations_done": convert_to_count(sum(select_succeeded_values(counts))) if counts else None,
            "failed_operations": convert_to_count(max(sum_failed_values(counts), self._failures)) if counts else None,
            "measurement_type": "histogram",
            "new_orders_per_min": self._total.get("tpmC", rates.get(_NEW_ORDER)),
            "notes": _describe_tpm_contradictions(rates, self._total),
            "script": "TPC-C" if "tpmC" in self._total or _NEW_ORDER in rates else None,
            # The summary is printed at the end only.
            "completed": bool(rates),
        }
        return Parsed({"clients": pl.DataFrame([facts]), "client_errors": self.errors}, 0)

    def is_of_other_run(self) -> pl.Expr:
        """After the end of a run, also its status lines are of another one."""
        current = pl.col("text").str.contains("[Current]", literal=True)
        return super().is_of_other_run() | ((self.times_seen("finished") > 0) & current)


def _describe_tpm_contradictions(rates: Mapping[str, float], total: Mapping[str, float]) -> str | None:
    own, tpmc = select_succeeded_values(rates), total.get("tpmC")
    return describe_contradictions(
        [
            ("tpmC", tpmc, [rates.get(_NEW_ORDER)], 2 * _ROUNDED + _LATER * (tpmc or 0.0)),
            ("tpmTotal", total.get("tpmTotal"), own, (len(own) + 1) * _ROUNDED + _LATER * sum(own)),
        ]
    )


def _build_total_rows(good: pl.DataFrame) -> pl.DataFrame:
    """`tpmC`, `tpmTotal` and `efficiency` as rows of `client_metrics`."""
    lines = good.filter(pl.col("kind").str.starts_with("total"))
    text = pl.col("text")
    parts = []
    for number, (name, unit) in enumerate(_TOTALS.items(), start=1):
        named = text.str.extract(rf'\b{name}"?: ?"?({NUMBER})%?(?:[",]|$)')
        value = pl.coalesce(named, text.str.extract(_TOTAL_TABLE, number)).cast(pl.Float64)
        parts.append(lines.select(section=pl.lit(OVERALL), unit=pl.lit(unit), value=value, metric=pl.lit(name)))
    return pl.concat(parts).drop_nulls("value")


def _build_go_tpc_series(printed: pl.DataFrame) -> pl.DataFrame:
    wide = pivot_to_columns(printed, ("Count", "TPM", *_SERIES), ("offset", "section"))
    return wide.select(
        "section",
        operations=pl.col("Count").cast(pl.Int64, strict=False),
        throughput_ops_s=pl.col("TPM") / _S_PER_MIN,
        **{column: pl.col(name) * US_PER_MS for name, column in _SERIES.items()},
    )


FORMAT: Final = GoTpc()
