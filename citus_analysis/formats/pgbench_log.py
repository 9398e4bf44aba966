"""Transaction logs of pgbench (`--log`): one line per transaction, or per interval (`--aggregate-interval`).

pgbench writes one such file per thread (`PREFIX.PID`, `PREFIX.PID.1`, ...), without a header, so a file is
recognised by the form of its lines, not by its name.

Per transaction, table `client_latencies`: client, number, latency in us or `skipped`, `failed`,
`serialization`, `deadlock`, `other`; script; end time in s and us; schedule lag (`--rate`), retries::

    0 199 2241 0 1175850568 995598
    0 82 skipped 0 1412881037 918023 6210

A skipped transaction (behind schedule, `--latency-limit`) was not executed: it has neither a latency nor a
verdict. Lag and retries of single transactions have no column.

Per interval, table `client_series`: start of the interval (s), transactions, sum, sum of squares, minimum
and maximum of the latency (us); lag, skipped, retries and failures by version::

    1177879493 8224 75762696 888034446752 2896 191292 0 0 0 0 0 0 0 0 0

Skipped transactions, retries, retried transactions and failures (from version 15 on: serialization, deadlock, in later
ones others) have columns; `stddev_us` follows from the sum of squares and `lag_us` from the sum of the lag, whose
squares and extremes are dropped. pgbench counts failures only with `--failures-detailed` and otherwise writes 0; 0 is
therefore stored as null. `throughput_ops_s` takes the smallest distance between two intervals of the file as their
length. The first interval of a thread is shorter, so its throughput is too low; the last, incomplete interval is not
written (up to 4 % of the transactions in the recordings of pgbench 15). The per-second summary that pgbench-tools
exports (`collected,samples,min_latency,avg_latency,max_latency`, latencies in ms) is read as well.

A last line without a line end is rejected: the output of a killed pgbench may end with a line that was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import build_parsed_report, parse_each_block, split_fitting_lines
from citus_analysis.formats.parsing.format import Format, Hints, LineBegin, Parsed
from citus_analysis.formats.parsing.lines import line_frame, read_uniform
from citus_analysis.units import US_PER_MS, US_PER_S

_FAILURES: Final = ("failed", "serialization", "deadlock", "other")
# The digits are limited by the ranges of the columns.
_N: Final = r"[0-9]{1,18}"
_LATENCY: Final = rf"(?:{_N}|skipped|{'|'.join(_FAILURES)})"
_TRANSACTION: Final = (
    rf"^(?<client_thread>[0-9]{{1,9}}) {_N} (?<latency>{_LATENCY}) (?<script>[0-9]{{1,9}}) (?<seconds>[0-9]{{9,11}})"
    rf" (?<micros>[0-9]{{1,6}})(?: {_N}){{0,2}}$"
)
#: After the latencies: sum, squares and extremes of the lag, skipped and retried transactions, failures by kind.
_INTERVAL: Final = (
    rf"^(?<start>[0-9]{{9,11}}) (?<operations>{_N}) (?<sum_us>[0-9]+) (?<sum_of_squares>[0-9]+) (?<min_us>{_N})"
    rf" (?<max_us>{_N})(?: (?<lag_us>[0-9]+)(?: [0-9]+){{3}}(?: (?<skipped_operations>[0-9]+)"
    r"(?: (?<retried_operations>[0-9]+) (?<retries>[0-9]+)(?<failures>(?: [0-9]+){2,3}))?)?)?$"
)
_DECIMAL: Final = r"[0-9]{1,15}(?:\.[0-9]+)?"
_EXPORTED: Final = (
    rf"^(?<start>[0-9]{{9,11}}),(?<operations>{_N}),(?<min_us>{_DECIMAL}),(?<mean_us>{_DECIMAL}),(?<max_us>{_DECIMAL})$"
)
_PATTERNS: Final = (_TRANSACTION, _INTERVAL, _EXPORTED)
_BEGINNING: Final = LineBegin(rb"[0-9]+ [0-9]|[0-9]{9,11},[0-9]")
#: A few damaged lines do not change the file's format.
_MOST: Final = 0.5
_EXPORTED_HEADER: Final = "collected,samples,min_latency,avg_latency,max_latency"
_IS_HEADER: Final = pl.col("text") == _EXPORTED_HEADER

#: Columns of a transaction; without words in place of latencies, which are rare, the latency is a number.
_TRANSACTION_COLUMNS: Final = {
    "client_thread": pl.Int32(),
    "number": pl.Int64(),
    "latency": pl.String(),
    "script": pl.String(),
    "seconds": pl.Int64(),
    "micros": pl.Int64(),
}
_COUNTS: Final = ("failed_operations", "skipped_operations", "retried_operations", "retries")
_LATENCIES: Final = ("mean_us", "min_us", "max_us", "stddev_us", "lag_us")
_LONG: Final = "too long for a line of a pgbench log"
_ODD: Final = "not a line of a pgbench log"


class PgbenchLog(Format):
    """Transaction logs of `pgbench --log`."""

    name: ClassVar[str] = "pgbench_log"
    version: ClassVar[int] = 4
    tables = ("client_latencies", "client_series")
    noise = "the header of the exported summary"
    dropped = "of transactions: lag and retries; of intervals: squares and extremes of the lag"

    def detect(self, name: str, head: bytes) -> float:
        """High if every whole line of the head has the form of one of the logs, lower if only most have."""
        # A fast test that excludes most other files: every form begins with two numbers.
        if _BEGINNING.count(head) <= _MOST * (head.count(b"\n") - head.count(_EXPORTED_HEADER.encode())):
            return 0.0
        _, share = _detect_log_kind(head)
        return 0.9 if share == 1 else 0.6 if share > _MOST else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One frame per block."""
        pattern, share = _detect_log_kind(content.head)
        if share <= _MOST:
            raise FormatError("its first lines are not of a pgbench log", path=content.path, hint="pass --format")
        yield from parse_each_block(content, _PgbenchBlockParser(pattern).block, _LONG)


@dataclass
class _PgbenchBlockParser:
    """The state of parsing one file: the time of its first line, and the length of its intervals."""

    pattern: str
    first: int | None = None
    interval: int | None = None

    def block(self, block: Block) -> Parsed:
        """The transactions or intervals of one block."""
        if self.pattern == _TRANSACTION and (fields := _parse_uniform_transactions(block.data)) is not None:
            return Parsed({"client_latencies": self._latencies(fields)}, block.length)
        lines, good = split_fitting_lines(block, pl.col("text").str.contains(self.pattern), _IS_HEADER, _ODD)
        fields = good.select(part=pl.col("text").str.extract_groups(self.pattern)).unnest("part")
        if self.pattern == _TRANSACTION:
            return build_parsed_report(lines, {"client_latencies": self._latencies(fields)})
        return build_parsed_report(lines, {"client_series": self._series(fields)})

    def _latencies(self, fields: pl.DataFrame) -> pl.DataFrame:
        rows = fields.with_columns(end_us=pl.col("seconds").cast(pl.Int64) * US_PER_S + pl.col("micros").cast(pl.Int64))
        if self.first is None and rows.height:
            self.first = rows["end_us"][0]
        verdict = pl.lit(value=False)
        if fields.schema["latency"] == pl.String:
            verdict = pl.when(pl.col("latency") != "skipped").then(pl.col("latency").is_in(_FAILURES))
        return rows.select(
            "client_thread",
            section="script " + pl.col("script"),
            time=pl.from_epoch("end_us", "us").dt.replace_time_zone("UTC"),
            elapsed_s=((pl.col("end_us") - (self.first or 0)) / US_PER_S).round(6),
            latency_us=pl.col("latency").cast(pl.Float64, strict=False),
            failed=verdict,
        )

    def _series(self, fields: pl.DataFrame) -> pl.DataFrame:
        if self.pattern == _INTERVAL:
            known = _compute_interval_values(fields)
        else:
            known = fields.cast(pl.Float64).with_columns(pl.col("^.*_us$") * US_PER_MS)
        known = known.with_columns(pl.col("start", "operations").cast(pl.Int64))
        start = known["start"]
        if self.first is None and known.height:
            self.first = start[0]
        steps = [step for step in (*start.diff().drop_nulls(), self.interval) if step is not None and step > 0]
        self.interval = min(steps, default=None)
        return known.select(
            "operations",
            # Intervals without transactions show zeros.
            pl.when(pl.col("operations") > 0).then(pl.col(name for name in _LATENCIES if name in known)).name.keep(),
            *(name for name in _COUNTS if name in known),
            elapsed_s=(pl.col("start") - (self.first or 0)).cast(pl.Float64),
            log_time=pl.from_epoch(pl.col("start") * 1000, "ms").dt.replace_time_zone("UTC"),
            throughput_ops_s=pl.col("operations") / pl.lit(self.interval, pl.Float64),
        )


def _detect_log_kind(head: bytes) -> tuple[str, float]:
    """The pattern that most whole lines of the head match, and the share of these lines."""
    lines = line_frame(head).filter("terminated", pl.col("text") != _EXPORTED_HEADER)["text"]
    shares = {pattern: int(lines.str.contains(pattern).sum()) / max(len(lines), 1) for pattern in _PATTERNS}
    return max(shares.items(), key=lambda pair: pair[1])


def _parse_uniform_transactions(data: bytes) -> pl.DataFrame | None:
    """The fields of a block of transactions of one form; else None."""
    more = data.partition(b"\n")[0].count(b" ") + 1 - len(_TRANSACTION_COLUMNS)
    columns = {**_TRANSACTION_COLUMNS, **{f"more{number}": pl.Int64() for number in range(more)}}
    tried = (read_uniform(data, " ", pl.Schema({**columns, "latency": kind})) for kind in (pl.Int64(), pl.String()))
    return next((fields for fields in tried if fields is not None and _is_plausible(fields)), None)


def _is_plausible(fields: pl.DataFrame) -> bool:
    """Whether the numbers are within the ranges that the lines' pattern demands."""
    latency = pl.col("latency")
    known = latency >= 0 if fields.schema["latency"] == pl.Int64 else latency.str.contains(f"^{_LATENCY}$")
    times = pl.col("micros").is_between(0, US_PER_S - 1) & pl.col("seconds").is_between(10**8, 10**11 - 1)
    return bool(fields.select((known & times & (pl.col("client_thread") >= 0)).all()).item())


def _compute_interval_values(fields: pl.DataFrame) -> pl.DataFrame:
    numbers = fields.with_columns(
        pl.exclude("failures", *_COUNTS).cast(pl.Float64), pl.col(_COUNTS[1:]).cast(pl.Int64, strict=False)
    )
    operations = pl.col("operations")
    mean = pl.col("sum_us") / operations
    failures = pl.col("failures").str.extract_all("[0-9]+").cast(pl.List(pl.Int64), strict=False).list.sum()
    return numbers.with_columns(
        mean_us=mean,
        stddev_us=(pl.col("sum_of_squares") / operations - mean**2).clip(lower_bound=0.0).sqrt(),
        lag_us=pl.col("lag_us") / operations,
        failed_operations=pl.when(failures > 0).then(failures),
    )


FORMAT: Final = PgbenchLog()
