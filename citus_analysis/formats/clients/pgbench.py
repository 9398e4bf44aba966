"""Report of pgbench (standard output and standard error), of versions 8.3 to 18.

Tables: `clients` (one row), `client_metrics` (the report's lines), `client_series` (`--progress`),
`client_errors`. The transaction logs are read by :mod:`citus_analysis.formats.clients.pgbench_log`. For example::

    pgbench (15.20 (Debian 15.20-0+deb12u1))
    starting vacuum...end.
    progress: 1.0 s, 5965.9 tps, lat 1.308 ms stddev 1.637, 0 failed
    transaction type: <builtin: select only>
    number of clients: 8
    number of transactions actually processed: 86921
    latency average = 1.087 ms
    tps = 7220.163528 (without initial connection time)

Conversion of the lines:

- settings, connection times and tps are metrics of the section `OVERALL`; counts and latencies are metrics
  of the section that the transaction type names, and those of a script (`SQL script 1: ...`) of the script's section;
- a percentage in brackets is a separate metric with the unit %; in `19/14954` the first number is the value;
- the client's `script` is the transaction type, for a file without its folders; several scripts are listed with
  their weights in pgbench's notation (`select only@8, simple update@2`); `--rate` is detected by the schedule's
  lag, because the rate itself is not printed;
- `transactions` of a script are the processed ones; version 18 also prints their number with failed and skipped ones,
  which becomes `transactions, failed and skipped ones included`;
- with `-r`, each command has the metrics `latency of command N: ...`, `failures of ...`, `retries of ...`;
- `throughput_ops_s` is the tps without connection times; `runtime_ms` is the number of transactions divided by that tps
  (the duration of `-T` is requested, not measured: it becomes `time_limit_s`);
- standard deviation, lag and number of retried transactions of a progress line have no column;
- with `--progress-timestamp` the line's time is stored unchanged; `elapsed_s` then counts from one interval
  before the first line.

The output of `pgbench -i` becomes metrics of the section `INIT`, without a client.

The report of a second run after the first is rejected, because the numbers of both would be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, Final

import polars as pl

from citus_analysis.core.column_types import TIME
from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.clients._pgbench_lines import (
    KINDS,
    PASSING,
    contradicting_totals,
    metric_rows,
    progress_rows,
    script_name,
    with_sections,
)
from citus_analysis.formats.clients._report_lines import (
    MAX_CLIENTS,
    MAX_COUNT,
    Report,
    accounted,
)
from citus_analysis.formats.reading.lines import line_frame
from citus_analysis.formats.reading.signs import Signs
from citus_analysis.formats.sources.content import Block, Content

_SIGNS: Final = Signs(
    re.compile(
        rb"^pgbench \(\d+[^\n]*\)\r?$"
        rb"|^(?:progress: \d+\.\d+ s, \d+\.\d tps)"
        rb"|^transaction type: [^\n]*\r?\n(?:scaling factor|query mode|number of clients): "
        rb"|^tps = \d+\.\d+ \((?:in|ex)cluding connections establishing\)\r?$"
        rb"|^tps = \d+\.\d+ \((?:without initial connection time|including reconnection times)\)\r?$"
        rb"|^pgbench: (?:error|fatal): "
        rb"|^(?:dropping old|creating) tables\.\.\.\r?\n"
        rb"(?:[^\n]*\n){0,8}?(?:creating tables|generating data|done in \d)"
        rb"|^generating data \((?:client|server)-side\)\.\.\.",
        re.MULTILINE,
    ),
    (b"pgbench", b"progress: ", b"transaction type: ", b"tps = ", b" tables...", b"generating data ("),
)
#: Errors after which pgbench prints nothing more.
_LAST_WORDS: Final = rb"Run was aborted|could not create connection for setup"
#: Longer run times are times since 1970 (`--progress-timestamp`).
_LONGEST_RUN_S: Final = 1e9
#: Limit of pgbench.
_MAX_SCRIPTS: Final = 128
#: Names of the throughput, in ascending order of the share of connection time that it includes.
_THROUGHPUT: Final = (
    *("tps (without initial connection time)", "tps (excluding connections establishing)"),
    *("tps (including reconnection times)", "tps (including connections establishing)", "tps"),
)


class Pgbench(Format):
    """Report of `pgbench`, versions 8.3 to 18."""

    name: ClassVar[str] = "pgbench"
    version: ClassVar[int] = 8
    tables = ("clients", "client_metrics", "client_series", "client_errors")
    noise = "blank lines, `starting vacuum...`, the steps of `pgbench -i` and its notices, headings"
    measures: ClassVar[Mapping[str, str]] = {
        "number of transactions actually processed": "operations",
        "transactions": "operations",
        "latency average": "mean_us",
    }
    openings = (
        # `pgbench -i`.
        Opening(b"dropping old tables..."),
        Opening(b"creating tables...", stage=1),
        Opening(b"generating data", stage=2),
        # In a file, standard output may come after standard error, as a whole.
        Opening(b"pgbench (", rb"[0-9]", stage=3),
        Opening(b"starting vacuum...", stage=3),
        Opening(b"progress: ", rb"[0-9.]+ s, [0-9.]+ tps", stage=3, repeats=True, continues=True),
        Opening(b"pgbench: ", rb"(?:error|fatal): (?!" + _LAST_WORDS + rb")", stage=3, repeats=True, continues=True),
        Opening(b"transaction type: ", stage=4, continues=True),
        Opening(b"pgbench: ", rb"(?:error|fatal): (?:" + _LAST_WORDS + rb")", stage=5, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has a line that only pgbench prints."""
        return 0.95 if _SIGNS.within(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client, a piece per block; the client itself and its errors come last."""
        return _Report().pieces(content)


@dataclass
class _Report(Report):
    """The state of parsing one file."""

    tool = "a pgbench report"
    kinds = KINDS
    telling = ("version", "progress", "type", "init", "tps", "error")
    once = ("version", "type")
    other_run = "report of a second run in the same file; put each run's report into a file of its own"
    unknown = "not a line of a pgbench report"
    exact = ("progress", "init", "lag", "transactions", "processed", "tps")
    cut = True
    keep = tuple(kind for kind in KINDS if kind not in PASSING)
    _kinds: set[str] = field(default_factory=set)
    _aborted: bool = False
    _start: float | None = None
    _end: float | None = None

    def block(self, block: Block) -> Parsed:
        """The series of one block; other lines are kept for the end."""
        lines = self.judged(line_frame(block.data, block.offset))
        good = self.accepted(lines)
        self._kinds |= set(good["kind"])
        self._aborted |= bool(good.filter(kind="error")["text"].str.contains(r"(?i)run was aborted").any())
        progress = good.filter(kind="progress")
        series = pl.DataFrame() if progress.is_empty() else self._series(progress_rows(progress))
        return accounted(lines, {"client_series": series})

    def finish(self) -> Parsed:
        """The values of the report, the client's row, unless pgbench only initialised tables, and its errors."""
        lines = with_sections(pl.concat(self.kept))
        metrics = metric_rows(lines)
        counts = metrics.filter(
            (pl.col("unit") != "%").fill_null(value=True),
            pl.col("section").ne_missing("INIT"),
            pl.col("value").is_between(0, MAX_COUNT),
        )
        # Scripts repeat the names of the totals, which come first.
        values: dict[str, float] = dict(counts.unique("metric", keep="first").select("metric", "value").iter_rows())
        tables = {"client_metrics": metrics, "client_errors": self.errors}
        if "init" not in self._kinds or values:
            tables["clients"] = self._client(lines, metrics, values)
        return Parsed(tables, 0)

    def judged(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Lines that continue an error are rejected where none was printed before."""
        stray = pl.when(self.is_stray()).then(pl.lit(self.unknown))
        return super().judged(lines).with_columns(reason=pl.coalesce("reason", stray))

    def _series(self, progress: pl.DataFrame) -> pl.DataFrame:
        seconds = progress["seconds"]
        stamped, since = seconds[0] > _LONGEST_RUN_S, 0.0
        if stamped:
            first = seconds[0] - (seconds[1] - seconds[0] if len(seconds) > 1 else 0)
            since = self._start = first if self._start is None else self._start
            self._end = seconds[-1]
        time = pl.from_epoch((pl.col("seconds") * 1000).round().cast(pl.Int64), "ms").dt.replace_time_zone("UTC")
        rows = progress.with_columns(
            elapsed_s=(pl.col("seconds") - since).round(3),
            log_time=time if stamped else pl.lit(None, TIME.polars),
        )
        return rows.drop("seconds")

    def _client(self, lines: pl.DataFrame, metrics: pl.DataFrame, values: Mapping[str, float]) -> pl.DataFrame:
        value = values.get
        first = lines.filter(pl.col("kind").is_in(["version", "mode", "type"])).unique("kind", keep="first")
        texts: dict[str, str] = dict(first.select("kind", "text").iter_rows())
        tps = next((value(name) for name in _THROUGHPUT if value(name) is not None), None)
        done, duration = value("number of transactions actually processed"), value("duration")
        clients, each = value("number of clients", 0), value("number of transactions per client", 0)
        threads = clients if 0 < clients <= MAX_CLIENTS else None
        completed = tps is not None and not self._aborted
        facts = {
            "tool": "pgbench",
            "tool_version": texts.get("version", "")[len("pgbench (") :].partition(" ")[0].rstrip(")") or None,
            "throughput_ops_s": tps,
            "runtime_ms": done / tps * 1000 if done and tps else None,
            "time_limit_s": duration,
            "rate_limited": "lag" in self._kinds,
            "script": _script(texts.get("type", ""), metrics),
            "scale_factor": value("scaling factor"),
            "threads": threads,
            # Versions before 14 continue without clients that could not connect, and do not print their number.
            "connected_threads": threads if completed and "error" not in self._kinds else None,
            "operations_planned": clients * each if 0 < clients * each <= MAX_COUNT else None,
            "operations_done": done,
            "failed_operations": value("number of failed transactions"),
            "notes": contradicting_totals(metrics, lines, values),
            "query_mode": texts.get("mode", "").removeprefix("query mode: ") or None,
            "start_time": None if self._start is None else datetime.fromtimestamp(self._start, UTC),
            "end_time": None if self._end is None else datetime.fromtimestamp(self._end, UTC),
            # Standard error alone has no report, and says nothing unless the run was aborted.
            "completed": completed if self._aborted or not self._kinds <= set(PASSING) else None,
        }
        return pl.DataFrame([facts])


def _script(stated: str, metrics: pl.DataFrame) -> str | None:
    """The script, or several scripts with their weights; a single script has no weight."""
    weights = metrics.filter(pl.col("unit").is_null(), metric="weight").head(_MAX_SCRIPTS)
    # A weight before the first script belongs to no script.
    known: dict[str, float] = dict(weights.select("section", "value").drop_nulls("section").iter_rows())
    if len(known) > 1:
        return ", ".join(f"{script_name(name)}@{weight:g}" for name, weight in known.items())
    return script_name(stated.removeprefix("transaction type: ")) or None


FORMAT: Final = Pgbench()
