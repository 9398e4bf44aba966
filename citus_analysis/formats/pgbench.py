"""Report of pgbench (standard output and standard error), of versions 8.3 to 18.

Tables: `clients` (one row), `client_metrics` (the report's lines), `client_series` (`--progress`),
`client_errors`. The transaction logs are read by :mod:`citus_analysis.formats.pgbench_log`. For example::

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

The report of a second run after the first is rejected, because the numbers of both would be mixed; so is one that lacks
its first lines, from the line on that comes a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import ClassVar, Final

import polars as pl

from citus_analysis.core.table_definition import TIME
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    MAX_CLIENTS,
    MAX_COUNT,
    ReportParser,
    build_parsed_report,
    describe_contradictions,
)
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, Signature, StartMarker
from citus_analysis.formats.parsing.lines import line_frame
from citus_analysis.units import US_PER_MS

# Classification of the lines of a pgbench report, and the resulting rows.

OVERALL: Final = "OVERALL"
_INIT: Final = "INIT"
#: Metric of the transactions of a script, in reports whose number includes failed and skipped ones.
ATTEMPTED: Final = "transactions, failed and skipped ones included"

_NUMBER: Final = r"-?(?:[0-9]{1,15}(?:\.[0-9]+)?|nan|NaN)"

#: Names of values; of numbers of transactions, later versions print further ones.
_NAMES: Final = (
    r"scaling factor|partitions|duration|weight|(?:maximum |total )?number of [^=:]{1,60}"
    r"|latency (?:average|stddev|minimum|maximum)|(?:initial|average) connection time"
)
#: Kind -> pattern; the first that matches decides.
KINDS: Final = {
    "noise": r"^\s*$|^starting vacuum|^vacuuming|^dropping old tables\.|^NOTICE:  |^[0-9]+ (?:of [0-9]+ )?tuples"
    r"|^(?:creating|set) (?:tables|\w+ keys?|partitions)|^generating data|^partition method: |^script statistics:"
    r"|^(?: - )?statement latencies in milliseconds",
    "version": r"^pgbench \([0-9].*\)$",
    "progress": rf"^progress: ([0-9]{{1,10}}(?:\.[0-9]+)?) s, ({_NUMBER}) tps(?:, lat ({_NUMBER}) ms)?"
    rf"((?: stddev {_NUMBER})?(?:, (?:lag {_NUMBER} ms|[0-9]{{1,15}} (?:failed|skipped|retried|retries)))*)$",
    "type": r"^transaction type: (.+)$",
    "script": r"^SQL script [0-9]+: (.+)$",
    "mode": r"^query mode: (\w+)$",
    "init": rf"^done in ({_NUMBER}) s(?: \((.*)\))?\.$",
    "lag": rf"^rate limit schedule lag: avg ({_NUMBER}) \(max ({_NUMBER})\) ms$",
    # Neon's pgbench with `--percentile`.
    "percentile": rf"^(?: - )?latency percentile p?([0-9]{{1,3}}(?:\.[0-9]{{1,6}})?)(?:th|%)? = ({_NUMBER}) ms$",
    "transactions": rf"^ - ({_NUMBER}) transactions \(({_NUMBER})% of total(?:, tps = ({_NUMBER}))?\)$",
    "processed": rf"^ - number of transactions actually processed: ({_NUMBER}) \(tps = ({_NUMBER})\)$",
    "tps": rf"^tps = ({_NUMBER})(?: (\([a-z ]{{1,60}}\)))?$",
    "error": r"^(?:pgbench: |(?i:client [0-9]+ |connection to |run was aborted)|(?:PANIC|FATAL|ERROR|WARNING):)",
    "value": rf"^(?: - )?({_NAMES})(?: =|:) ({_NUMBER})(?:/([0-9]{{1,15}}))?(?: (ms|s)\b)?"
    rf"(?: \((?:targets )?({_NUMBER}) ?%[^()]*\)| \([a-z ]{{1,60}}\))?$",
    # `%11.3f`, and in version 9 `%f` between tabs: other numbers are those of other tools (perf stat, time).
    "command": r"^\s+(-?[0-9]{1,15}\.[0-9]{3}|-?nan|NaN)\s+(?:([0-9]{1,15})\s+)?(?:([0-9]{1,15})\s+)?([^0-9\s].*)$",
    "old_command": r"^\t(-?[0-9]{1,15}\.[0-9]{6})\t()()\s*(\S.*)$",
    "continuation": r"^\s+\S|^(?:DETAIL|HINT|CONTEXT|LINE [0-9]+|STATEMENT|QUERY):",
}
#: The name of a script with the line after it, which lost the line end between them.
_JOINED: Final = r"^(?:transaction type|SQL script [0-9]+): .*(?:scaling factor: [0-9]+| - weight: [0-9]+.*)$"
#: Kinds of lines about a command of a script.
COMMANDS: Final = ("command", "old_command")
#: Kinds of lines that say nothing of the run as a whole, of which there may be many.
PASSING: Final = ("noise", "progress", "error", "continuation")

#: Values that describe the run, not the transactions of a script.
_SETTINGS: Final = (
    r"^(?:scaling factor|partitions|number of (?:clients|threads)|maximum number of tries|duration|"
    r"number of transactions per client|(?:initial|average) connection time)$"
)
#: Beginnings of the lines of a report, by the part of it that they stand in.
_SETTING_LINES: Final = (
    *("scaling factor: ", "partition method: ", "partitions: ", "query mode: ", "number of clients: "),
    *("number of threads: ", "maximum number of tries: ", "duration: ", "number of transactions per client: "),
)
_COUNT_LINES: Final = (
    *("number of transactions actually processed: ", "number of failed transactions: "),
    *("number of transactions retried: ", "total number of retries: ", "number of transactions skipped: "),
)
_LATENCY_LINES: Final = (
    *("latency average", "latency stddev", "latency minimum", "latency maximum", "rate limit schedule lag: "),
    *("initial connection time = ", "average connection time = "),
)
#: With the last of them, a report is whole but for its commands and scripts.
_TPS_LINES: Final = ("tps = ",)


_OWN: Final = pl.col("section")
_NONE: Final = pl.lit(None, pl.String)


def shorten_script_name(text: str) -> str:
    """Short name of a script: the name of a built-in script, or a file name without folders.

    Example:
        >>> (
        ...     shorten_script_name("<builtin: select only>"),
        ...     shorten_script_name("/home/me/read.sql"),
        ...     shorten_script_name("TPC-B (sort of)"),
        ... )
        ('select only', 'read.sql', 'TPC-B (sort of)')
    """
    return PurePosixPath(text.removeprefix("<builtin: ").removesuffix(">")).name


def assign_sections(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines of a report, in order, with their `section` and, for commands, their `number` within it."""
    heading = pl.col("kind").is_in(["type", "script"])
    name = pl.coalesce(pl.col("text").str.extract(KINDS[kind]) for kind in ("type", "script"))
    parts = lines.with_columns(section=pl.when(heading).then(name).forward_fill(), part=heading.cum_sum())
    return parts.with_columns(number=pl.col("kind").is_in(COMMANDS).cum_sum().over("part"))


def build_pgbench_metric_rows(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_metrics`, in the order of the lines.

    Args:
        lines: a frame of :func:`assign_sections`.
    """
    value = _group("value", 1)
    of_value = pl.when(value.str.contains(_SETTINGS)).then(pl.lit(OVERALL)).otherwise("section")
    tps = pl.concat_str(pl.lit("tps"), _group("tps", 2), separator=" ", ignore_nulls=True)
    frames = [
        _extract_metric_rows(lines, "value", value, 2, unit=_group("value", 4), section=of_value),
        _extract_metric_rows(lines, "value", value, 5, unit=pl.lit("%"), section=of_value),
        _extract_metric_rows(lines, "tps", tps, 1, section=pl.lit(OVERALL)),
        _extract_metric_rows(lines, "lag", pl.lit("rate limit schedule lag average"), 1, unit=pl.lit("ms")),
        _extract_metric_rows(lines, "lag", pl.lit("rate limit schedule lag maximum"), 2, unit=pl.lit("ms")),
        _extract_metric_rows(lines, "percentile", _make_percentile_expr(), 2, unit=pl.lit("ms")),
        _extract_metric_rows(lines, "transactions", _make_transactions_expr(), 1),
        _extract_metric_rows(lines, "transactions", _make_transactions_expr(), 2, unit=pl.lit("%")),
        _extract_metric_rows(lines, "transactions", pl.lit("tps"), 3),
        _extract_metric_rows(lines, "processed", pl.lit("transactions"), 1),
        _extract_metric_rows(lines, "processed", pl.lit("tps"), 2),
        *(
            _extract_metric_rows(
                lines, kind, pl.format(f"{what} of command {{}}: {{}}", "number", _group(kind, 4)), n, unit
            )
            for kind in COMMANDS
            for n, (what, unit) in enumerate((("latency", pl.lit("ms")), ("failures", _NONE), ("retries", _NONE)), 1)
        ),
        _extract_metric_rows(lines, "init", pl.lit("done"), 1, unit=pl.lit("s"), section=pl.lit(_INIT)),
        _parse_init_steps(lines),
    ]
    return pl.concat(frames).sort("offset", maintain_order=True).drop("offset")


def _group(kind: str, number: int) -> pl.Expr:
    return pl.col("text").str.extract(KINDS[kind], number)


def _make_percentile_expr() -> pl.Expr:
    """`latency percentile 99.9`, without the zeros at the end of `99.900000`."""
    number = _group("percentile", 1).cast(pl.Float64).cast(pl.String).str.strip_suffix(".0")
    return pl.format("latency percentile {}", number)


def _make_transactions_expr() -> pl.Expr:
    """Version 18 counts failed and skipped transactions of a script here too, and prints its throughput elsewhere."""
    processed = _group("transactions", 3).is_not_null()
    return pl.when(processed).then(pl.lit("transactions")).otherwise(pl.lit(ATTEMPTED))


def _extract_metric_rows(
    lines: pl.DataFrame, kind: str, metric: pl.Expr, value: int, unit: pl.Expr = _NONE, section: pl.Expr = _OWN
) -> pl.DataFrame:
    """One row per line of the kind that has the `value`-th group of its pattern."""
    number = _group(kind, value).cast(pl.Float64, strict=False)
    rows = lines.filter(kind=kind).select("offset", section=section, metric=metric, unit=unit, value=number)
    return rows.drop_nulls("value")


def _parse_init_steps(lines: pl.DataFrame) -> pl.DataFrame:
    """`server-side generate 1.05 s, vacuum 0.15 s`: the steps of `pgbench -i`."""
    printed = _group("init", 2).str.extract_all(rf"[a-z][a-z -]*? {_NUMBER} s")
    steps = lines.filter(pl.col("kind") == "init").select("offset", step=printed).explode("step").drop_nulls("step")
    return steps.select(
        "offset",
        section=pl.lit(_INIT),
        metric=pl.col("step").str.extract(rf"^(.*) {_NUMBER} s$"),
        unit=pl.lit("s"),
        value=pl.col("step").str.extract(rf"({_NUMBER}) s$").cast(pl.Float64),
    )


#: Columns of `client_series` by the word after their number.
_COUNTED: Final = {
    "failed_operations": "failed",
    "skipped_operations": "skipped",
    "retried_operations": "retried",
    "retries": "retries",
}


def parse_progress_rows(lines: pl.DataFrame) -> pl.DataFrame:
    """Progress lines as `seconds` (since the start, or since 1970), throughput, mean latency and counts of the rest."""
    group = pl.col("text").str.extract_groups(KINDS["progress"]).struct
    return lines.select(
        seconds=group.field("1").cast(pl.Float64),
        throughput_ops_s=group.field("2").cast(pl.Float64).fill_nan(None),
        mean_us=group.field("3").cast(pl.Float64, strict=False).fill_nan(None) * US_PER_MS,
        stddev_us=group.field("4").str.extract(rf" stddev ({_NUMBER})").cast(pl.Float64).fill_nan(None) * US_PER_MS,
        lag_us=group.field("4").str.extract(rf", lag ({_NUMBER}) ms").cast(pl.Float64).fill_nan(None) * US_PER_MS,
        **{
            column: group.field("4").str.extract(rf"\b([0-9]{{1,15}}) {word}\b").cast(pl.Int64)
            for column, word in _COUNTED.items()
        },
    )


_PROCESSED = "number of transactions actually processed"
_LIMIT = "number of transactions above "


def find_contradicting_totals(metrics: pl.DataFrame, lines: pl.DataFrame, values: Mapping[str, float]) -> str | None:
    """The totals of a report that are not the sums of their parts, in words.

    Args:
        metrics: its rows of `client_metrics`.
        lines: its lines with their `kind`.
        values: metric -> its value of the whole run.
    """
    own = metrics.filter(pl.col("unit").is_null(), pl.col("section").ne_missing(OVERALL))
    # Of the scripts: processed transactions, and in version 18 all transactions, failed and skipped ones included.
    counts = (own.filter(metric=name)["value"] for name in ("transactions", ATTEMPTED))
    scripts, attempted = (float(count.sum()) if len(count) else None for count in counts)
    limited = lines.filter(pl.col("text").str.starts_with(_LIMIT), kind="value")["text"].head(1)
    # The transactions of which those above the latency limit are a part.
    measured = next(iter(limited.str.extract(KINDS["value"], 3).cast(pl.Float64)), None)
    done = values.get(_PROCESSED)
    lost = sum(values.get(f"number of {which}", 0.0) for which in ("failed transactions", "transactions skipped"))
    if done is None:
        return None
    # Some versions count skipped transactions among those that could have been late.
    late = done if measured is None else min(max(measured, done), done + lost)
    return describe_contradictions(
        [
            (_PROCESSED, done, [scripts], 0.5),
            ("transactions of all scripts", attempted, [done, lost], 0.5),
            ("transactions with a latency", measured, [late], 0.5),
        ]
    )


_SIGNS: Final = Signature(
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


#: Percentiles that have a column.
_PERCENTILES: Final = ("50", "90", "95", "99", "99.9")


class Pgbench(Format):
    """Report of `pgbench`, versions 8.3 to 18."""

    name: ClassVar[str] = "pgbench"
    version: ClassVar[int] = 10
    tables = ("clients", "client_metrics", "client_series", "client_errors")
    noise = "blank lines, `starting vacuum...`, the steps of `pgbench -i` and its notices, headings"
    measures: ClassVar[Mapping[str, str]] = {
        "number of transactions actually processed": "operations",
        "transactions": "operations",
        "latency average": "mean_us",
        "rate limit schedule lag average": "lag_us",
        **{f"latency percentile {number}": f"p{number.replace('.', '')}_us" for number in _PERCENTILES},
    }
    start_markers = (
        # `pgbench -i`.
        StartMarker(b"dropping old tables..."),
        StartMarker(b"creating tables...", stage=1),
        StartMarker(b"generating data", stage=2),
        # In a file, standard output may come after standard error, as a whole.
        StartMarker(b"pgbench (", rb"[0-9]", stage=3),
        StartMarker(b"starting vacuum...", stage=3),
        StartMarker(b"progress: ", rb"[0-9.]+ s, [0-9.]+ tps", stage=3, repeats=True, continues=True),
        StartMarker(
            b"pgbench: ", rb"(?:error|fatal): (?!" + _LAST_WORDS + rb")", stage=3, repeats=True, continues=True
        ),
        StartMarker(b"transaction type: ", stage=4, continues=True),
        *(
            StartMarker(line.encode(), then, stage=stage, continues=True, ends=line in _TPS_LINES)
            for stage, (lines, then) in enumerate(
                (
                    (_SETTING_LINES, rb"\w+(?: s)?\r?$"),
                    (_COUNT_LINES, rb"[0-9]"),
                    (_LATENCY_LINES, rb"(?:: | = |avg )?-?[0-9n]"),
                    (_TPS_LINES, rb"-?[0-9n][^\n(]*(?:\(including connections|\((?:without|including rec)|\r?$)"),
                    (_TPS_LINES, rb"-?[0-9n][^\n(]*\(excluding"),
                ),
                5,
            )
            for line in lines
        ),
        StartMarker(b"pgbench: ", rb"(?:error|fatal): (?:" + _LAST_WORDS + rb")", stage=10, continues=True, ends=True),
    )
    elapsed = re.compile(rb"(?:^|\r)progress: ([0-9]+(?:\.[0-9]+)?) s, ", re.MULTILINE)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has a line that only pgbench prints."""
        return 0.95 if _SIGNS.within(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client, a piece per block; the client itself and its errors come last."""
        return _PgbenchReport().pieces(content)


@dataclass
class _PgbenchReport(ReportParser):
    """The state of parsing one file."""

    tool = "a pgbench report"
    kinds = KINDS
    telling = ("version", "progress", "type", "init", "tps", "error")
    once = ("version", "type")
    in_order = tuple(
        "^(?:" + "|".join(lines) + ")"
        for lines in (("transaction type: ",), _SETTING_LINES, _COUNT_LINES, _LATENCY_LINES, _TPS_LINES)
    )
    other_run = "report of a second run in the same file; put each run's report into a file of its own"
    unknown = "not a line of a pgbench report"
    exact = ("progress", "init", "lag", "percentile", "transactions", "processed", "tps")
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
        series = pl.DataFrame() if progress.is_empty() else self._series(parse_progress_rows(progress))
        return build_parsed_report(lines, {"client_series": series})

    def finish(self) -> Parsed:
        """The values of the report, the client's row, unless pgbench only initialised tables, and its errors."""
        lines = assign_sections(pl.concat(self.kept))
        metrics = build_pgbench_metric_rows(lines)
        counts = metrics.filter(
            (pl.col("unit") != "%").fill_null(value=True),
            pl.col("section").ne_missing("INIT"),
            # Of a report that lost its last line, the throughput of a script is not that of the run.
            (pl.col("metric") != "tps") | (pl.col("section") == OVERALL),
            pl.col("value").is_between(0, MAX_COUNT),
        )
        # Scripts repeat the names of the totals, which come first.
        values: dict[str, float] = dict(counts.unique("metric", keep="first").select("metric", "value").iter_rows())
        tables = {"client_metrics": metrics, "client_errors": self.errors}
        if "init" not in self._kinds or values:
            tables["clients"] = self._client(lines, metrics, values)
        return Parsed(tables, 0)

    def judged(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Lines that continue an error are rejected where none was printed before, and two lines in one."""
        stray = pl.when(self.is_stray() | pl.col("text").str.contains(_JOINED)).then(pl.lit(self.unknown))
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
            "script": _choose_script(texts.get("type", ""), metrics),
            "scale_factor": value("scaling factor"),
            "threads": threads,
            # Versions before 14 continue without clients that could not connect, and do not print their number.
            "connected_threads": threads if completed and "error" not in self._kinds else None,
            "operations_planned": clients * each if 0 < clients * each <= MAX_COUNT else None,
            "operations_done": done,
            "failed_operations": value("number of failed transactions"),
            "notes": find_contradicting_totals(metrics, lines, values),
            "query_mode": texts.get("mode", "").removeprefix("query mode: ") or None,
            "start_time": None if self._start is None else datetime.fromtimestamp(self._start, UTC),
            "end_time": None if self._end is None else datetime.fromtimestamp(self._end, UTC),
            # Standard error alone has no report, and says nothing unless the run was aborted.
            "completed": completed if self._aborted or not self._kinds <= set(PASSING) else None,
        }
        return pl.DataFrame([facts])


def _choose_script(stated: str, metrics: pl.DataFrame) -> str | None:
    """The script, or several scripts with their weights; a single script has no weight."""
    weights = metrics.filter(pl.col("unit").is_null(), metric="weight").head(_MAX_SCRIPTS)
    # A weight before the first script belongs to no script.
    known: dict[str, float] = dict(weights.select("section", "value").drop_nulls("section").iter_rows())
    if len(known) > 1:
        return ", ".join(f"{shorten_script_name(name)}@{weight:g}" for name, weight in known.items())
    return shorten_script_name(stated.removeprefix("transaction type: ")) or None


FORMAT: Final = Pgbench()
