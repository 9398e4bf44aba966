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
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.formats.reading.delimited import read_uniform
from citus_analysis.formats.reading.lines import UNTERMINATED, line_frame, reject_runs
from citus_analysis.formats.reading.signs import LineBegin
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.units import US_PER_MS, US_PER_S

_FAILURES: Final = ("failed", "serialization", "deadlock", "other")
# The digits are limited by the ranges of the columns.
_N: Final = r"[0-9]{1,18}"
_LATENCY: Final = rf"(?:{_N}|skipped|{'|'.join(_FAILURES)})"
_TRANSACTION: Final = rf"^[0-9]{{1,9}} {_N} {_LATENCY} [0-9]{{1,9}} [0-9]{{9,11}} [0-9]{{1,6}}(?: {_N}){{0,2}}$"
_INTERVAL: Final = rf"^[0-9]{{9,11}} {_N} [0-9]+ [0-9]+ {_N} {_N}(?:(?: [0-9]+){{4,5}}|(?: [0-9]+){{9,10}})?$"
_DECIMAL: Final = r"[0-9]{1,15}(?:\.[0-9]+)?"
_EXPORTED: Final = rf"^[0-9]{{9,11}},{_N},{_DECIMAL},{_DECIMAL},{_DECIMAL}$"
_PATTERNS: Final = (_TRANSACTION, _INTERVAL, _EXPORTED)
_BEGINNING: Final = LineBegin(rb"[0-9]+ [0-9]|[0-9]{9,11},[0-9]")
#: A few damaged lines do not change the file's format.
_MOST: Final = 0.5
_EXPORTED_HEADER: Final = "collected,samples,min_latency,avg_latency,max_latency"

_TRANSACTION_COLUMNS: Final = pl.Schema(
    {
        "client_thread": pl.Int32(),
        "number": pl.Int64(),
        "latency": pl.String(),
        "script": pl.String(),
        "seconds": pl.Int64(),
        "micros": pl.Int64(),
    }
)
_INTERVAL_COLUMNS: Final = ("start", "operations", "sum_us", "sum_of_squares", "min_us", "max_us")
#: Places after the columns above: four for the lag, then these; the last ones are failures by kind.
_LAG, _SKIPPED, _RETRIED, _RETRIES, _FAILED = 0, 4, 5, 6, 7
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
        _, share = _kind_of(head)
        return 0.9 if share == 1 else 0.6 if share > _MOST else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One frame per block."""
        pattern, share = _kind_of(content.head)
        if share <= _MOST:
            raise FormatError("its first lines are not of a pgbench log", path=content.path, way_out="pass --format")
        first: int | None = None
        interval: int | None = None
        for block in content.blocks():
            if block.oversized:
                yield Parsed({}, 0, 0, reject_rows([Reject(block.offset, block.length, _LONG, block.data)]))
                continue
            if pattern == _TRANSACTION:
                fields, lines = _transaction_fields(block)
                if not fields.is_empty():
                    first = _first_us(fields) if first is None else first
                tables = {"client_latencies": _latency_rows(fields, first or 0)}
            else:
                lines = _judged(block, pattern)
                good = lines.filter(pl.col("reason").is_null() & (pl.col("text") != _EXPORTED_HEADER))
                fields = _interval_fields(good) if pattern == _INTERVAL else _exported_fields(good)
                if not fields.is_empty():
                    first = int(fields["start"][0]) if first is None else first
                    interval = _smallest_step(fields, interval)
                tables = {"client_series": _series_rows(fields, first or 0, interval)}
            yield _accounted(block, lines, tables)


def _kind_of(head: bytes) -> tuple[str, float]:
    """The pattern that most whole lines of the head match, and the share of these lines."""
    lines = line_frame(head).filter("terminated", pl.col("text") != _EXPORTED_HEADER)["text"]
    shares = {pattern: int(lines.str.contains(pattern).sum()) / max(len(lines), 1) for pattern in _PATTERNS}
    return max(shares.items(), key=lambda pair: pair[1])


def _judged(block: Block, pattern: str) -> pl.DataFrame:
    lines = line_frame(block.data, block.offset)
    fits = pl.col("text").str.contains(pattern) | (pl.col("text") == _EXPORTED_HEADER)
    reason = pl.when(~pl.col("terminated")).then(pl.lit(UNTERMINATED)).when(~fits).then(pl.lit(_ODD))
    return lines.with_columns(reason=reason)


def _transaction_fields(block: Block) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Fields of the block's transactions, and the lines that had to be examined one by one."""
    names = list(_TRANSACTION_COLUMNS)
    columns = block.data.partition(b"\n")[0].count(b" ") + 1
    more = {f"more{number}": pl.Int64() for number in range(columns - len(names))}
    # Words instead of latencies are rare; without them, the column is read as numbers.
    for latency in (pl.Int64(), pl.String()):
        schema = pl.Schema({**_TRANSACTION_COLUMNS, "latency": latency, **more})
        fields = read_uniform(block.data, " ", schema)
        if fields is not None and _plausible(fields):
            return fields.select(names), line_frame(b"").with_columns(reason=pl.lit(None, pl.String))
    lines = _judged(block, _TRANSACTION)
    text = lines.filter(pl.col("reason").is_null())["text"].to_frame()
    split = text.select(pl.col("text").str.splitn(" ", len(names) + 1).struct.rename_fields([*names, "more"]))
    return split.unnest("text").select(names).cast(_TRANSACTION_COLUMNS), lines


def _plausible(fields: pl.DataFrame) -> bool:
    """Whether the numbers are within the ranges that the lines' pattern demands."""
    latency = pl.col("latency")
    known = latency >= 0 if fields.schema["latency"] == pl.Int64 else latency.str.contains(f"^{_LATENCY}$")
    checks = (
        known.all(),
        (pl.col("client_thread").min() >= 0),
        pl.col("micros").is_between(0, US_PER_S - 1).all(),
        pl.col("seconds").is_between(10**8, 10**11 - 1).all(),
    )
    return all(fields.select(check.alias(str(n)) for n, check in enumerate(checks)).row(0))


def _first_us(fields: pl.DataFrame) -> int:
    return int(fields["seconds"][0]) * US_PER_S + int(fields["micros"][0])


def _latency_rows(fields: pl.DataFrame, first_us: int) -> pl.DataFrame:
    end_us = pl.col("seconds") * US_PER_S + pl.col("micros")
    verdict = pl.lit(value=False)
    if fields.schema["latency"] == pl.String:
        verdict = pl.when(pl.col("latency") != "skipped").then(pl.col("latency").is_in(_FAILURES))
    return fields.select(
        "client_thread",
        section="script " + pl.col("script"),
        time=pl.from_epoch(end_us, "us").dt.replace_time_zone("UTC"),
        elapsed_s=((end_us - first_us) / US_PER_S).round(6),
        latency_us=pl.col("latency").cast(pl.Float64, strict=False),
        failed=verdict,
    )


def _interval_fields(lines: pl.DataFrame) -> pl.DataFrame:
    parts = (
        pl.col("text").str.splitn(" ", len(_INTERVAL_COLUMNS) + 1).struct.rename_fields([*_INTERVAL_COLUMNS, "more"])
    )
    fields = lines.select(parts).unnest("text")
    more = pl.col("more").str.split(" ")
    failures = more.list.slice(_FAILED).cast(pl.List(pl.Int64), strict=False).list.sum()
    counts = fields.select(
        failed_operations=pl.when(failures > 0).then(failures),
        skipped_operations=more.list.get(_SKIPPED, null_on_oob=True).cast(pl.Int64, strict=False),
        retried_operations=more.list.get(_RETRIED, null_on_oob=True).cast(pl.Int64, strict=False),
        retries=more.list.get(_RETRIES, null_on_oob=True).cast(pl.Int64, strict=False),
    )
    numbers = fields.select(pl.col(_INTERVAL_COLUMNS).cast(pl.Float64))
    mean, lag = pl.col("sum_us") / pl.col("operations"), more.list.get(_LAG, null_on_oob=True).cast(pl.Float64)
    variance = pl.col("sum_of_squares") / pl.col("operations") - mean**2
    numbers = numbers.with_columns(fields.select(lag=lag))
    measured = _measured(
        numbers.with_columns(
            mean_us=mean, stddev_us=variance.clip(lower_bound=0.0).sqrt(), lag_us=pl.col("lag") / pl.col("operations")
        )
    )
    return pl.concat([measured, counts], how="horizontal")


def _exported_fields(lines: pl.DataFrame) -> pl.DataFrame:
    names = ("start", "operations", "min_us", "mean_us", "max_us")
    parts = pl.col("text").str.split_exact(",", len(names) - 1).struct.rename_fields(names)
    numbers = lines.select(parts).unnest("text").cast(pl.Float64)
    return _measured(numbers.with_columns(pl.col("min_us", "mean_us", "max_us") * US_PER_MS))


def _measured(numbers: pl.DataFrame) -> pl.DataFrame:
    """Latencies of intervals with transactions, null for others, which show zeros."""
    latencies = [name for name in _LATENCIES if name in numbers.columns]
    return numbers.select(
        pl.col("start", "operations").cast(pl.Int64),
        pl.when(pl.col("operations") > 0).then(pl.col(latencies)).name.keep(),
    )


def _smallest_step(fields: pl.DataFrame, before: int | None) -> int | None:
    steps = fields["start"].diff().drop_nulls()
    # polars types a minimum as any scalar.
    known = [int(step) for step in (before, steps.filter(steps > 0).min()) if step is not None]  # type: ignore[arg-type] # integers
    return min(known, default=None)


def _series_rows(fields: pl.DataFrame, first: int, interval: int | None) -> pl.DataFrame:
    rows = fields.with_columns(
        elapsed_s=(pl.col("start") - first).cast(pl.Float64),
        log_time=pl.from_epoch(pl.col("start") * 1000, "ms").dt.replace_time_zone("UTC"),
        throughput_ops_s=pl.col("operations") / pl.lit(interval, pl.Float64),
    )
    return rows.drop("start")


def _accounted(block: Block, lines: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> Parsed:
    rejects = reject_runs(lines)
    noise = int(lines.filter(pl.col("text") == _EXPORTED_HEADER)["length"].sum())
    return Parsed(tables, block.length - noise - int(rejects["byte_length"].sum()), noise, rejects)


FORMAT: Final = PgbenchLog()
