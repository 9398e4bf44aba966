"""Checks of the runs in a dataset, whose findings head every report.

Each check takes :class:`RunTables` and yields a finding per run or configuration; :data:`RUN_CHECKS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, convert_to_polars, scan_source_table
from citus_analysis.core.table_definition import DOUBTFUL
from citus_analysis.operations import INTENDED, is_counted_once, is_operation
from citus_analysis.published.checks import BUSY, DEFAULT_SAMPLING_HZ, ENOUGH_SAMPLES, Finding, find_worst_severity
from citus_analysis.runs.concurrency import compute_concurrency
from citus_analysis.runs.set_ups import CONFIGURATION, add_operation_column
from citus_analysis.schema import TABLES, Table
from citus_analysis.stats import mean_interval
from citus_analysis.texts.numbers import format_number, format_percent
from citus_analysis.texts.words import pluralize

# Input and findings of the checks of runs.

#: Values by column, `resource` and `run_id` among them.
Cells: TypeAlias = Mapping[str, object]


class WeightedFinding(NamedTuple):
    """A finding with its rank within the check; the worst finding represents the others."""

    finding: Finding
    weight: float


@dataclass(frozen=True)
class RunTables:
    """The tables of a dataset that the checks read; absent ones are empty."""

    runs: pl.DataFrame
    clients: pl.DataFrame
    operation_latencies: pl.DataFrame
    client_series: pl.DataFrame
    client_metrics: pl.DataFrame
    doubtful_samples: pl.DataFrame

    def select_finished(self) -> pl.DataFrame:
        """Runs that have a summary."""
        return self.runs.filter(pl.col("status") != "failed", pl.col("throughput_ops_s") > 0, pl.col("runtime_ms") > 0)


def make_run_finding(
    cells: Cells, expected: str, stated: str, green: str = "", *, red: str = "", amber: str = "", weight: float = 0.0
) -> WeightedFinding:
    """A finding about a run or a configuration: red or amber if a reason for it is given, else green."""
    resource, run = (str(cells[name] or "") for name in ("resource", "run_id"))
    text = red or amber or green
    return WeightedFinding(
        Finding(find_worst_severity(red, amber), "", resource, "runs", run, expected, stated, text), weight
    )


def name_part_of_run(cells: Cells, part: object) -> Cells:
    """The values, named as those of a part of their run."""
    return {**cells, "run_id": f"{cells['run_id']} {part}"}


# Values of samplers that cannot be: findings that lead to the lines in which they were printed.
#
# The values are those that the column `doubtful` of a table of samples names
# (:mod:`citus_analysis.core.table_definition`); they enter no mean.

_SAMPLED: Final = tuple(name for name, table in TABLES.items() if DOUBTFUL in table)
_ORIGIN: Final = ("resource", "run_id", "source_id")
_KIND: Final = (*_ORIGIN, DOUBTFUL)
#: Columns of :func:`doubtful_samples`.
DOUBTFUL_SCHEMA: Final = pl.Schema(
    {
        **dict.fromkeys(("resource", "run_id", "path", "table", DOUBTFUL, "stated", "expected"), pl.String()),
        **dict.fromkeys(("byte_offset", "samples"), pl.Int64()),
    }
)


def find_out_of_range_samples(source: TableSource | Mapping[str, Frame]) -> pl.DataFrame:
    """The doubtful values of all tables of samples, a row for each source, run and combination of columns.

    Args:
        source: a dataset.

    Returns:
        `resource`, `run_id` (null if the source names none), `path` of the source, `table`, `doubtful` (the columns),
        `stated` (the values of the first such sample) and `expected`, its `byte_offset`, and the number of `samples`.
    """
    found = [rows for name in _SAMPLED if (rows := _find_out_of_range_rows(source, name)).height]
    if not found:
        return DOUBTFUL_SCHEMA.to_frame()
    paths = scan_source_table(source, "sources").select("source_id", "resource", "path").collect()
    named = pl.concat(found).join(paths, on=["source_id", "resource"], how="left", maintain_order="left")
    return named.select(pl.col(name).cast(kind) for name, kind in DOUBTFUL_SCHEMA.items())


def collect_audited_tables(source: TableSource) -> dict[str, pl.DataFrame]:
    """The arguments of :func:`citus_analysis.published.audit_runs`, from a dataset."""
    names = [field.name for field in fields(RunTables) if field.name in TABLES]
    tables = {name: convert_to_polars(source.table(name)) for name in names}
    return tables | {"doubtful_samples": find_out_of_range_samples(source)}


def _find_out_of_range_rows(source: TableSource | Mapping[str, Frame], name: str) -> pl.DataFrame:
    samples = scan_source_table(source, name)
    # Datasets of older versions lack the column.
    if DOUBTFUL not in samples.collect_schema():
        return pl.DataFrame()
    flagged = convert_to_polars(samples.filter(pl.col(DOUBTFUL).is_not_null()))
    if "byte_offset" not in flagged.columns:
        # Stacks are sums over many lines.
        flagged = flagged.with_columns(byte_offset=pl.lit(None, pl.Int64))
    kinds = flagged.sort("source_id", "byte_offset").group_by(_KIND, maintain_order=True)
    first = kinds.agg(pl.all().first(), _count=pl.len())
    rows = list(first.iter_rows(named=True))
    return first.select(
        *_KIND,
        "byte_offset",
        pl.col("_count").alias("samples"),
        pl.Series("stated", [_format_out_of_range_values(row) for row in rows], pl.String),
        pl.Series("expected", [_describe_allowed_values(TABLES[name], row) for row in rows], pl.String),
        table=pl.lit(name),
    )


def _get_out_of_range_values(row: Cells) -> dict[str, float]:
    """The doubtful values."""
    return {name: value for name in str(row[DOUBTFUL]).split(", ") if isinstance(value := row[name], int | float)}


def _format_out_of_range_values(row: Cells) -> str:
    return ", ".join(f"{name} {format_number(value)}" for name, value in _get_out_of_range_values(row).items())


def _describe_allowed_values(table: Table, row: Cells) -> str:
    """The bounds of impossible values, and the relations between the others."""
    known = _get_out_of_range_values(row)
    ranges = {name: table[name].range for name in known}
    impossible = {name for name, value in known.items() if not ranges[name].holds(value)}
    bounds = [f"{name} {ranges[name]}" for name in known if name in impossible]
    related = [relation for relation in table.relations if len((known.keys() - impossible) & {*relation.members}) > 1]
    return "; ".join([*bounds, *map(str, related)])


def possible_values(tables: RunTables) -> Iterator[WeightedFinding]:
    """Samples whose values lie within what their units and each other allow."""
    for row in tables.doubtful_samples.iter_rows(named=True):
        line = "" if row["byte_offset"] is None else f"byte {row['byte_offset']} of "
        where = f"{line}{row['path']}"
        others = "" if row["samples"] == 1 else f", and {pluralize(row['samples'] - 1, 'more sample')}"
        cells = {"resource": row["resource"], "run_id": row["run_id"] or row["path"]}
        stated = f"{row['stated']} ({row['table']}; {where}{others})"
        amber = "these values cannot be, and enter no mean"
        yield make_run_finding(cells, row["expected"], stated, amber=amber, weight=row["samples"])


def run_times(tables: RunTables) -> Iterator[WeightedFinding]:
    """No run ends before it begins."""
    if not {"start_time", "end_time"} <= set(tables.runs.columns):
        return
    for run in tables.runs.filter(pl.col("end_time") < pl.col("start_time")).iter_rows(named=True):
        red = "it ends before it begins: a clock was set, or its times are of different zones (--meta timezone=...)"
        yield make_run_finding(run, f"an end after {run['start_time']}", str(run["end_time"]), red=red)


#: So many digits of measured numbers do not agree by chance.
_TELLING_DIGITS: Final = 10
_OF_OUTPUT: Final = ("resource", "run_id", "section", "metric", "value")


def distinct_outputs(tables: RunTables) -> Iterator[WeightedFinding]:
    """Runs that are stated as different were measured, and are no copies of one output."""
    if not set(_OF_OUTPUT) <= set(tables.client_metrics.columns):
        return
    values = tables.client_metrics.select(_OF_OUTPUT).filter(pl.col("run_id").is_not_null()).cast({"value": pl.Float64})
    values = values.with_columns(
        pl.col("section", "metric").cast(pl.String).fill_null(""), text=pl.col("value").cast(pl.String)
    )
    is_measured = pl.col("value").is_finite() & (pl.col("value") != pl.col("value").round())
    digits = pl.when(is_measured).then(pl.col("text").str.replace_all(r"[^0-9]", "").str.len_chars()).otherwise(0)
    outputs = (
        values.with_columns(digits=digits)
        .sort("run_id", "section", "metric", "value")
        .group_by("resource", "run_id", maintain_order=True)
        .agg(
            numbers=pl.concat_str("section", "metric", "text", separator=" ").str.join("\n"),
            count=pl.len(),
            # A number that a summary repeats tells once.
            digits=pl.struct("text", "digits").unique().struct.field("digits").sum(),
        )
        .filter(pl.col("digits") >= _TELLING_DIGITS)
    )
    for _, same in outputs.group_by("numbers", maintain_order=True):
        first, *others = same.iter_rows(named=True)
        for row in others:
            amber = f"its output is that of {first['run_id']}: a copy is no repeat, and narrows every interval"
            stated = f"the same {pluralize(row['count'], 'number')} as {first['run_id']}"
            yield make_run_finding(row, "numbers of its own", stated, amber=amber, weight=row["count"])


# Checks for numbers of YCSB with misleading names.
#
# - YCSB 0.2.0 to 0.3.1 with `measurementtype=hdrhistogram` print the 90th percentile under the name of the 95th (YCSB
#   issues 437 and 440). All releases before 0.8.0 call themselves 0.1; of those with this measurement, only these print
#   the percentile in ms.
# - `measurement.interval=intended` prints latencies from the scheduled start under the operations' plain names; `both`
#   prints them in separate sections (`Intended-READ`), which count the same operations again.

_LABEL: Final = "95thPercentileLatency"
_INTERVAL: Final = r"(?:^|\s)measurement\.interval=(\w+)"


def percentile_label(tables: RunTables) -> Iterator[WeightedFinding]:
    """The 95th percentile has the right name, unlike in old releases, which print the 90th under it."""
    printed = tables.client_metrics.filter(pl.col("metric") == _LABEL, is_operation(), pl.col("role") == "main")
    types = tables.clients.filter(tool="ycsb").select("run_id", "source_id", "measurement_type")
    of_ycsb = printed.join(types, on=["run_id", "source_id"], how="inner", nulls_equal=True)
    # The coarse histogram of those releases prints the real 95th percentile, in whole milliseconds.
    old = (pl.col("unit") == "ms") & (pl.col("measurement_type").fill_null("hdrhistogram") == "hdrhistogram")
    for cells in of_ycsb.with_columns(old=old).iter_rows(named=True):
        text = "YCSB 0.2 and 0.3 print the 90th percentile under this name (YCSB issue 440); read it as p90"
        row = name_part_of_run(cells, cells["section"])
        stated = f"{_LABEL}({cells['unit']}) {format_number(cells['value'])}"
        amber, weight = (text, 1.0) if cells["old"] else ("", 0.0)
        yield make_run_finding(row, "the 95th percentile", stated, "the name is right", amber=amber, weight=weight)


def measurement_interval(tables: RunTables) -> Iterator[WeightedFinding]:
    """Sections of intended latencies count the same operations as the sections of actual ones."""
    main = tables.operation_latencies.filter(role="main")
    for run_id, interval in _extract_measurement_intervals(tables.clients).iter_rows():
        own = {cells["operation"]: cells for cells in main.filter(run_id=run_id).iter_rows(named=True)}
        for name, cells in own.items():
            row = name_part_of_run(cells, name)
            if interval == "intended" and is_counted_once(name):
                text = "latencies begin at the scheduled start (measurement.interval=intended); do not compare them "
                text += "with those of runs that measure from the sending"
                yield make_run_finding(row, f"{INTENDED}{name}", name, amber=text, weight=1.0)
            elif interval == "both" and INTENDED + name in own:
                yield _compare_section_counts(row, cells["operations"], own[INTENDED + name]["operations"])


def _compare_section_counts(row: Cells, counted: int | None, again: int | None) -> WeightedFinding:
    stated, expected = (f"{format_number(count or 0)} operations" for count in (again, counted))
    green = "intended latencies repeat the operations, which are counted once"
    other = "intended latencies are of other operations than the actual ones: the two cannot be compared"
    differ = counted != again
    return make_run_finding(row, expected, stated, green, amber=other if differ else "", weight=float(differ))


def find_plainly_named_intended(clients: pl.DataFrame) -> list[str]:
    """Runs with intended latencies in sections with plain names."""
    return _extract_measurement_intervals(clients).filter(interval="intended")["run_id"].to_list()


def _extract_measurement_intervals(clients: pl.DataFrame) -> pl.DataFrame:
    """`run_id` and the `interval` in the command line of its main clients."""
    main = clients.filter(pl.col("role") == "main", pl.col("run_id").is_not_null())
    stated = main.select("run_id", interval=pl.col("command_line").str.extract(_INTERVAL)).drop_nulls()
    return stated.unique(maintain_order=True)


#: Columns whose combination is one configuration; its runs are repetitions.
_REPEATED: Final = tuple(
    name for name in ("resource", "set_up", *CONFIGURATION, "rate_limited", "target_ops_s") if name in TABLES["runs"]
)
_PERCENTILES: Final = ("min_us", "p50_us", "p90_us", "p95_us", "p99_us", "p999_us", "max_us")
_QUANTILES: Final = tuple(name for name in _PERCENTILES if name not in ("min_us", "max_us"))
#: Latencies in which intended and actual ones are compared.
_COMPARED: Final = ("mean_us", "p99_us")
_BUCKET_US: Final = 1_000.0
#: Buckets wider than this share of a percentile hide typical differences.
_WIDE: Final = 0.10
#: Intended latencies that exceed the actual ones by this share show that operations began late.
_LATE: Final = 0.10
#: Counters are read one after the other, so sums may differ by this share.
_SUMS: Final = 0.01
_SERIES: Final = 0.05
_COARSE: Final = 0.10
_FEW: Final = 3


def run_status(tables: RunTables) -> Iterator[WeightedFinding]:
    """List runs that failed or lost operations, which are left out of the statistics unless they are allowed."""
    for run in tables.runs.iter_rows(named=True):
        status, reason = run["status"], run["status_reason"]
        unless = " that does not allow it" if status in ("doubtful", "degraded") else ""
        amber = "" if status == "ok" else f"{status}: not part of any statistic{unless}"
        stated = reason or status or "unknown" if amber else "ok"
        yield make_run_finding(run, "ok", stated, reason or "every planned operation succeeded", amber=amber)


def client_totals(tables: RunTables) -> Iterator[WeightedFinding]:
    """The totals that a client prints are the sums of the parts that it prints."""
    expected = "totals that are the sums of their parts"
    for run in tables.runs.iter_rows(named=True):
        notes = run["notes"]
        amber = "the client's output contradicts itself" if notes else ""
        yield make_run_finding(
            run, expected, notes or "no contradiction", "no total contradicts its parts", amber=amber
        )


def throughput_identity(tables: RunTables) -> Iterator[WeightedFinding]:
    """Throughput × run time is the number of operations.

    The throughputs of several clients are added as if all of them ran all the time; if one ends earlier, the sum
    exceeds the operations done.
    """
    for run in tables.select_finished().iter_rows(named=True):
        done = run["operations_done"]
        if done is None:
            continue
        implied = run["throughput_ops_s"] * run["runtime_ms"] / 1e3
        failed = run["failed_operations"] or 0
        low, high = done * (1 - _SUMS), (done + failed) * (1 + _SUMS)
        rate, seconds = format_number(run["throughput_ops_s"]), format_number(run["runtime_ms"] / 1e3)
        stated = f"{rate} operations/s × {seconds} s = {format_number(implied)}"
        red, amber = "", ""
        if implied > high and (run["drivers"] or 1) > 1:
            excess = format_percent(implied / done - 1, 1) if done else "all of it"
            amber = f"the load generators did not run at the same time throughout: their sum is too large by {excess}"
        elif not low <= implied <= high:
            red = "throughput × run time is not the number of operations that were done"
        elif implied > done * (1 + _SUMS):
            amber = f"the client's throughput counts {format_number(failed)} failed operations"
        expected = f"{format_number(done)} operations"
        yield make_run_finding(run, expected, stated, "they agree", red=red, amber=amber, weight=implied - done)


def parts_add_up(tables: RunTables) -> Iterator[WeightedFinding]:
    """A run's throughput and operations are the sums over its load generators."""
    main = tables.clients.filter(role="main")
    sums = main.group_by("run_id").agg(pl.col("throughput_ops_s", "operations_done").sum(), parts=pl.len())
    joined = tables.select_finished().join(sums, on="run_id", suffix="_parts", maintain_order="left")
    for run in joined.iter_rows(named=True):
        for name in ("throughput_ops_s", "operations_done"):
            total, added = run[name], run[f"{name}_parts"]
            if total is None or not added:
                continue
            over = f"{name} over {pluralize(run['parts'], 'load generator')}"
            red = f"{over} does not add up" if abs(total / added - 1) > _SUMS else ""
            yield make_run_finding(run, format_number(added), format_number(total), f"{over} adds up", red=red)


def littles_law(tables: RunTables) -> Iterator[WeightedFinding]:
    """The time spent in operations over the run time is the number of threads that waited for the system."""
    throttled = set(tables.clients.filter("rate_limited", role="main")["run_id"])
    for run in compute_concurrency(tables.select_finished(), tables.operation_latencies).iter_rows(named=True):
        if not run["threads"] or not run["in_system"]:
            continue
        share, threads = run["share_in_system"], pluralize(run["threads"], "thread")
        expected, red, amber, weight = f"at most {threads}", "", "", -share
        green = "throttled by the client's target" if share < BUSY else "the threads waited for the system"
        if run["contradicts"]:
            red, weight = "the operations took more time than all threads had", 0.0
        elif share < BUSY and run["run_id"] not in throttled:
            expected, waited = (
                f"{format_percent(BUSY)} or more",
                f"the threads waited for the system {format_percent(share)}",
            )
            amber = f"{waited} of the run; the rest is start-up and the client itself"
        stated = f"{format_number(run['in_system'])} of {threads} in the system"
        yield make_run_finding(run, expected, stated, green, red=red, amber=amber, weight=weight)


def percentiles_ordered(tables: RunTables) -> Iterator[WeightedFinding]:
    """Minimum ≤ percentiles ≤ maximum, and the mean between minimum and maximum."""
    for cells in tables.operation_latencies.filter(role="main").iter_rows(named=True):
        known = [(name, cells[name]) for name in _PERCENTILES if cells[name] is not None]
        wrong = next(((a, b) for a, b in pairwise(known) if a[1] > b[1] + _compute_percentile_slack(a[1], b[1])), None)
        ends = dict(known)
        mean = cells["mean_us"]
        outside = mean is not None and not ends.get("min_us", mean) <= mean <= ends.get("max_us", mean)
        red = "the mean lies outside minimum and maximum" if outside else ""
        red = f"{wrong[0][0]} exceeds {wrong[1][0]}" if wrong else red
        stated = ", ".join(f"{name.removesuffix('_us')} {format_number(value)}" for name, value in known)
        if red or len(known) > 1:
            row = name_part_of_run(cells, cells["operation"])
            yield make_run_finding(row, "growing percentiles", f"{stated} µs", "they grow", red=red)


def _compute_percentile_slack(a: float, b: float) -> float:
    """The width of a bucket for percentiles from histograms of whole milliseconds, whose extremes are exact; else 0."""
    return 0.0 if a % (_BUCKET_US / 2) and b % (_BUCKET_US / 2) else _BUCKET_US


def coarse_percentiles(tables: RunTables) -> Iterator[WeightedFinding]:
    """A histogram of whole milliseconds, as YCSB's, cannot distinguish percentiles of a few milliseconds."""
    of_ycsb = pl.col("tool").fill_null("ycsb") == "ycsb"
    kinds = tables.clients.filter(of_ycsb, role="main").group_by("run_id").agg(pl.col("measurement_type").unique())
    wide = set(kinds.filter(pl.col("measurement_type").list.contains("histogram"))["run_id"])
    own = tables.operation_latencies.filter(pl.col("role") == "main", pl.col("run_id").is_in(wide))
    for cells in own.iter_rows(named=True):
        known = {name: cells[name] for name in _QUANTILES if cells[name] is not None}
        if not known:
            continue
        row = name_part_of_run(cells, cells["operation"])
        name, least = min(known.items(), key=lambda item: item[1])
        stated = f"{name.removesuffix('_us')} {format_number(least / 1e3)} ms"
        expected = f"{format_number(_BUCKET_US / _WIDE / 1e3)} ms or more"
        share = _BUCKET_US / max(least, _BUCKET_US)
        text = "the buckets of its histogram are 1 ms wide; measure with measurementtype=hdrhistogram"
        amber = text if share > _WIDE else ""
        yield make_run_finding(row, expected, stated, "1 ms is small beside it", amber=amber, weight=share)


def coordinated_omission(tables: RunTables) -> Iterator[WeightedFinding]:
    """Under a target rate, the latency of an operation begins when it was due, not when it was sent."""
    renamed = find_plainly_named_intended(tables.clients)
    limited = (
        tables.select_finished().filter("rate_limited", ~pl.col("run_id").is_in(renamed)).select("run_id", "resource")
    )
    main = tables.operation_latencies.filter(role="main")
    tools = dict(tables.clients.filter(role="main").select("run_id", "tool").iter_rows())
    for run in limited.iter_rows(named=True):
        own = _collect_latencies_us(main.filter(run_id=run["run_id"]))
        pairs = {name: own[INTENDED + name] for name in own if INTENDED + name in own and is_counted_once(name)}
        if own and not pairs:
            yield _make_missing_intended_finding(run, str(tools.get(run["run_id"], "ycsb")))
        for name, intended in pairs.items():
            yield _compare_with_intended(name_part_of_run(run, name), own[name], intended)


def _make_missing_intended_finding(run: Cells, tool: str) -> WeightedFinding:
    """Latencies of one kind only; which it is depends on the tool."""
    expected, omission = "intended latencies", "operations delayed by a slow one look fast (coordinated omission)"
    if tool == "pgbench":
        # pgbench.c, processXactStats(): latency = now - txn_scheduled
        text = "pgbench counts latencies from when transactions were due (--rate)"
        return make_run_finding(run, expected, "intended ones", text)
    if tool == "ycsb":
        text = f"latencies count from when operations were sent: {omission}; run YCSB with measurement.interval=both"
        return make_run_finding(run, expected, "actual ones only", amber=text)
    unsaid = f"{tool} does not say whether they count from when operations were due"
    return make_run_finding(
        run, expected, "of unknown kind", amber=f"{unsaid}; if from when they were sent, {omission}"
    )


def _collect_latencies_us(cells: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Mean and 99th percentile of each operation, if they are known and not 0."""
    columns = cells.select("operation", *_COMPARED).iter_rows()
    return {name: {of: us for of, us in zip(_COMPARED, values, strict=True) if us} for name, *values in columns}


def _compare_with_intended(row: Cells, actual: dict[str, float], intended: dict[str, float]) -> WeightedFinding:
    shown = [name for name in _COMPARED if name in actual and name in intended]
    texts = [
        ", ".join(f"{name.removesuffix('_us')} {format_number(latencies[name] / 1e3)} ms" for name in shown)
        for latencies in (intended, actual)
    ]
    late = max((intended[name] / actual[name] - 1 for name in shown), default=0.0)
    text = "operations began after they were due: users wait for the intended latency, not the actual one"
    amber, green = text if late > _LATE else "", "operations began when they were due"
    return make_run_finding(row, f"intended {texts[0]}", f"actual {texts[1]}", green, amber=amber, weight=late)


def series_add_up(tables: RunTables) -> Iterator[WeightedFinding]:
    """The interval throughputs of a client's status lines integrate to the operations between them."""
    totals = tables.client_series.filter(
        pl.col("role") == "main", pl.col("section").is_null(), pl.col("log_time").is_not_null()
    ).sort("source_id", "elapsed_s", "log_time", maintain_order=True)
    interval_s = pl.col("log_time").diff().dt.total_milliseconds() / 1e3
    per_client = (
        totals.with_columns(integral=(pl.col("throughput_ops_s") * interval_s.over("source_id")))
        .group_by("source_id", "run_id", "resource", maintain_order=True)
        .agg(
            pl.col("integral").sum(),
            counted=pl.col("operations_total").last() - pl.col("operations_total").first(),
            lines=pl.len(),
        )
        .filter(pl.col("lines") > 2, pl.col("counted") > 0)
    )
    for cells in per_client.iter_rows(named=True):
        expected, stated = (
            f"{format_number(cells['counted'])} operations",
            f"{format_number(cells['integral'])} operations",
        )
        off = abs(cells["integral"] / cells["counted"] - 1)
        text = "the interval throughputs do not integrate to the operations counted between the status lines"
        amber = text if off > _SERIES else ""
        yield make_run_finding(cells, expected, stated, "the series integrates to the total", amber=amber, weight=off)


def run_length(tables: RunTables) -> Iterator[WeightedFinding]:
    """Run time × sampling rate is the number of samples of iostat and of the status lines."""
    for run in tables.select_finished().iter_rows(named=True):
        # A client that is to run for 30 s ends a few milliseconds earlier or later.
        samples = round(run["runtime_ms"] / 1e3 * DEFAULT_SAMPLING_HZ)
        stated = f"{format_number(run['runtime_ms'] / 1e3)} s"
        expected = f"at least {format_number(ENOUGH_SAMPLES / DEFAULT_SAMPLING_HZ)} s"
        series = f"about {pluralize(samples, 'sample')} per second-by-second series"
        text = f"{series}: start-up has a large weight, utilisation is coarse"
        amber = text if samples < ENOUGH_SAMPLES else ""
        yield make_run_finding(run, expected, stated, "long enough", amber=amber, weight=-samples)


def iterations(tables: RunTables) -> Iterator[WeightedFinding]:
    """Fewer than three repetitions give no usable interval."""
    for row, values in _iterate_repetitions(tables):
        n = len(values)
        amber = "too few repetitions for a meaningful interval" if n < _FEW else ""
        yield make_run_finding(row, f"{_FEW} or more", f"n = {n}", "repeated", amber=amber, weight=-n)


def interval_resolution(tables: RunTables) -> Iterator[WeightedFinding]:
    """A mean of few scattered runs cannot support a claim of no difference."""
    for row, values in _iterate_repetitions(tables):
        if len(values) < _FEW:
            continue
        half = mean_interval(values).relative_half_width
        stated = f"± {format_percent(half, 1)} at n = {len(values)}"
        text = "smaller differences of the mean, or their absence, cannot be shown (Student's t)"
        amber = text if half > _COARSE else ""
        yield make_run_finding(
            row, f"± {format_percent(_COARSE)} or better", stated, "well known", amber=amber, weight=half
        )


def _iterate_repetitions(tables: RunTables) -> Iterator[tuple[Cells, list[float]]]:
    """Each configuration with the throughputs of its successful runs; runs of unknown work have none."""
    usable = add_operation_column(tables.select_finished().filter(pl.col("status") == "ok")).drop_nulls("operation")
    usable = usable.with_columns(_several=pl.col("set_up").n_unique().over("resource") > 1)
    groups = usable.group_by(*_REPEATED, "_several", maintain_order=True).agg(pl.col("throughput_ops_s"))
    for cells in groups.iter_rows(named=True):
        yield {"resource": cells["resource"], "run_id": _format_configuration(cells)}, cells["throughput_ops_s"]


def _format_configuration(cells: Cells) -> str:
    sizes = [(cells[name], name) for name in ("threads", "workers", "drivers") if cells[name] is not None]
    counted = [f"{size} {name.removesuffix('s') if size == 1 else name}" for size, name in sizes]
    work = " ".join(str(cells[name]) for name in ("phase", "workload") if cells[name])
    return ", ".join([*([str(cells["set_up"])] if cells["_several"] else []), work, *counted])


#: Checks of runs by their names, in the order in which findings are listed.
RUN_CHECKS: Final[dict[str, Callable[[RunTables], Iterator[WeightedFinding]]]] = {
    one.__name__: one
    for one in (
        *(run_status, client_totals, throughput_identity, parts_add_up, littles_law, percentiles_ordered),
        *(coarse_percentiles, percentile_label, measurement_interval, coordinated_omission, series_add_up),
        *(possible_values, run_times, distinct_outputs, run_length, iterations, interval_resolution),
    )
}
