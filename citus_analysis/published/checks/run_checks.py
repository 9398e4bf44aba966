"""Checks of the runs in a dataset, whose findings head every report.

Each check takes :class:`RunTables` and yields a finding per run or configuration; :data:`RUN_CHECKS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import polars as pl

from citus_analysis.operations import INTENDED, is_counted_once
from citus_analysis.published.checks._run_tables import Cells, RunTables, Weighted, about, part_of_run
from citus_analysis.published.checks.doubtful_samples import possible_values
from citus_analysis.published.checks.little import BUSY
from citus_analysis.published.checks.plausible import DEFAULT_SAMPLING_HZ, ENOUGH_SAMPLES
from citus_analysis.published.checks.ycsb_traps import (
    intended_under_plain_names,
    measurement_interval,
    percentile_label,
)
from citus_analysis.runs.concurrency import concurrency
from citus_analysis.runs.setups import CONFIGURATION, with_operations
from citus_analysis.schema import TABLES
from citus_analysis.stats import mean_interval
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import percent, readable

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


def run_status(tables: RunTables) -> Iterator[Weighted]:
    """List runs that failed or lost operations, which are left out of the statistics unless they are allowed."""
    for run in tables.runs.iter_rows(named=True):
        status, reason = run["status"], run["status_reason"]
        unless = " that does not allow it" if status in ("doubtful", "degraded") else ""
        amber = "" if status == "ok" else f"{status}: not part of any statistic{unless}"
        stated = reason or status or "unknown" if amber else "ok"
        yield about(run, "ok", stated, reason or "every planned operation succeeded", amber=amber)


def client_totals(tables: RunTables) -> Iterator[Weighted]:
    """The totals that a client prints are the sums of the parts that it prints."""
    expected = "totals that are the sums of their parts"
    for run in tables.runs.iter_rows(named=True):
        notes = run["notes"]
        amber = "the client's output contradicts itself" if notes else ""
        yield about(run, expected, notes or "no contradiction", "no total contradicts its parts", amber=amber)


def throughput_identity(tables: RunTables) -> Iterator[Weighted]:
    """Throughput × run time is the number of operations.

    The throughputs of several clients are added as if all of them ran all the time; if one ends earlier, the sum
    exceeds the operations done.
    """
    for run in tables.finished().iter_rows(named=True):
        done = run["operations_done"]
        if done is None:
            continue
        implied = run["throughput_ops_s"] * run["runtime_ms"] / 1e3
        failed = run["failed_operations"] or 0
        low, high = done * (1 - _SUMS), (done + failed) * (1 + _SUMS)
        rate, seconds = readable(run["throughput_ops_s"]), readable(run["runtime_ms"] / 1e3)
        stated = f"{rate} operations/s × {seconds} s = {readable(implied)}"
        red, amber = "", ""
        if implied > high and (run["drivers"] or 1) > 1:
            excess = percent(implied / done - 1, 1) if done else "all of it"
            amber = f"the load generators did not run at the same time throughout: their sum is too large by {excess}"
        elif not low <= implied <= high:
            red = "throughput × run time is not the number of operations that were done"
        elif implied > done * (1 + _SUMS):
            amber = f"the client's throughput counts {readable(failed)} failed operations"
        expected = f"{readable(done)} operations"
        yield about(run, expected, stated, "they agree", red=red, amber=amber, weight=implied - done)


def parts_add_up(tables: RunTables) -> Iterator[Weighted]:
    """A run's throughput and operations are the sums over its load generators."""
    main = tables.clients.filter(role="main")
    sums = main.group_by("run_id").agg(pl.col("throughput_ops_s", "operations_done").sum(), parts=pl.len())
    joined = tables.finished().join(sums, on="run_id", suffix="_parts", maintain_order="left")
    for run in joined.iter_rows(named=True):
        for name in ("throughput_ops_s", "operations_done"):
            total, added = run[name], run[f"{name}_parts"]
            if total is None or not added:
                continue
            over = f"{name} over {counted(run['parts'], 'load generator')}"
            red = f"{over} does not add up" if abs(total / added - 1) > _SUMS else ""
            yield about(run, readable(added), readable(total), f"{over} adds up", red=red)


def littles_law(tables: RunTables) -> Iterator[Weighted]:
    """The time spent in operations over the run time is the number of threads that waited for the system."""
    throttled = set(tables.clients.filter("rate_limited", role="main")["run_id"])
    for run in concurrency(tables.finished(), tables.operation_latencies).iter_rows(named=True):
        if not run["threads"] or not run["in_system"]:
            continue
        share, threads = run["share_in_system"], counted(run["threads"], "thread")
        expected, red, amber, weight = f"at most {threads}", "", "", -share
        green = "throttled by the client's target" if share < BUSY else "the threads waited for the system"
        if run["contradicts"]:
            red, weight = "the operations took more time than all threads had", 0.0
        elif share < BUSY and run["run_id"] not in throttled:
            expected, waited = f"{percent(BUSY)} or more", f"the threads waited for the system {percent(share)}"
            amber = f"{waited} of the run; the rest is start-up and the client itself"
        stated = f"{readable(run['in_system'])} of {threads} in the system"
        yield about(run, expected, stated, green, red=red, amber=amber, weight=weight)


def percentiles_ordered(tables: RunTables) -> Iterator[Weighted]:
    """Minimum ≤ percentiles ≤ maximum, and the mean between minimum and maximum."""
    for cells in tables.operation_latencies.filter(role="main").iter_rows(named=True):
        known = [(name, cells[name]) for name in _PERCENTILES if cells[name] is not None]
        wrong = next(((a, b) for a, b in pairwise(known) if a[1] > b[1] + _slack(a[1], b[1])), None)
        ends = dict(known)
        mean = cells["mean_us"]
        outside = mean is not None and not ends.get("min_us", mean) <= mean <= ends.get("max_us", mean)
        red = "the mean lies outside minimum and maximum" if outside else ""
        red = f"{wrong[0][0]} exceeds {wrong[1][0]}" if wrong else red
        stated = ", ".join(f"{name.removesuffix('_us')} {readable(value)}" for name, value in known)
        if red or len(known) > 1:
            row = part_of_run(cells, cells["operation"])
            yield about(row, "growing percentiles", f"{stated} µs", "they grow", red=red)


def _slack(a: float, b: float) -> float:
    """The width of a bucket for percentiles from histograms of whole milliseconds, whose extremes are exact; else 0."""
    return 0.0 if a % (_BUCKET_US / 2) and b % (_BUCKET_US / 2) else _BUCKET_US


def coarse_percentiles(tables: RunTables) -> Iterator[Weighted]:
    """A histogram of whole milliseconds, as YCSB's, cannot distinguish percentiles of a few milliseconds."""
    of_ycsb = pl.col("tool").fill_null("ycsb") == "ycsb"
    kinds = tables.clients.filter(of_ycsb, role="main").group_by("run_id").agg(pl.col("measurement_type").unique())
    wide = set(kinds.filter(pl.col("measurement_type").list.contains("histogram"))["run_id"])
    own = tables.operation_latencies.filter(pl.col("role") == "main", pl.col("run_id").is_in(wide))
    for cells in own.iter_rows(named=True):
        known = {name: cells[name] for name in _QUANTILES if cells[name] is not None}
        if not known:
            continue
        row = part_of_run(cells, cells["operation"])
        name, least = min(known.items(), key=lambda item: item[1])
        stated = f"{name.removesuffix('_us')} {readable(least / 1e3)} ms"
        expected = f"{readable(_BUCKET_US / _WIDE / 1e3)} ms or more"
        share = _BUCKET_US / max(least, _BUCKET_US)
        text = "the buckets of its histogram are 1 ms wide; measure with measurementtype=hdrhistogram"
        amber = text if share > _WIDE else ""
        yield about(row, expected, stated, "1 ms is small beside it", amber=amber, weight=share)


def coordinated_omission(tables: RunTables) -> Iterator[Weighted]:
    """Under a target rate, the latency of an operation begins when it was due, not when it was sent."""
    renamed = intended_under_plain_names(tables.clients)
    limited = tables.finished().filter("rate_limited", ~pl.col("run_id").is_in(renamed)).select("run_id", "resource")
    main = tables.operation_latencies.filter(role="main")
    tools = dict(tables.clients.filter(role="main").select("run_id", "tool").iter_rows())
    for run in limited.iter_rows(named=True):
        own = _latencies_us(main.filter(run_id=run["run_id"]))
        pairs = {name: own[INTENDED + name] for name in own if INTENDED + name in own and is_counted_once(name)}
        if own and not pairs:
            yield _without_intended(run, str(tools.get(run["run_id"], "ycsb")))
        for name, intended in pairs.items():
            yield _beside_intended(part_of_run(run, name), own[name], intended)


def _without_intended(run: Cells, tool: str) -> Weighted:
    """Latencies of one kind only; which it is depends on the tool."""
    expected, omission = "intended latencies", "operations delayed by a slow one look fast (coordinated omission)"
    if tool == "pgbench":
        # pgbench.c, processXactStats(): latency = now - txn_scheduled
        text = "pgbench counts latencies from when transactions were due (--rate)"
        return about(run, expected, "intended ones", text)
    if tool == "ycsb":
        text = f"latencies count from when operations were sent: {omission}; run YCSB with measurement.interval=both"
        return about(run, expected, "actual ones only", amber=text)
    unsaid = f"{tool} does not say whether they count from when operations were due"
    return about(run, expected, "of unknown kind", amber=f"{unsaid}; if from when they were sent, {omission}")


def _latencies_us(cells: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Mean and 99th percentile of each operation, if they are known and not 0."""
    columns = cells.select("operation", *_COMPARED).iter_rows()
    return {name: {of: us for of, us in zip(_COMPARED, values, strict=True) if us} for name, *values in columns}


def _beside_intended(row: Cells, actual: dict[str, float], intended: dict[str, float]) -> Weighted:
    shown = [name for name in _COMPARED if name in actual and name in intended]
    texts = [
        ", ".join(f"{name.removesuffix('_us')} {readable(latencies[name] / 1e3)} ms" for name in shown)
        for latencies in (intended, actual)
    ]
    late = max((intended[name] / actual[name] - 1 for name in shown), default=0.0)
    text = "operations began after they were due: users wait for the intended latency, not the actual one"
    amber, green = text if late > _LATE else "", "operations began when they were due"
    return about(row, f"intended {texts[0]}", f"actual {texts[1]}", green, amber=amber, weight=late)


def series_add_up(tables: RunTables) -> Iterator[Weighted]:
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
        expected, stated = f"{readable(cells['counted'])} operations", f"{readable(cells['integral'])} operations"
        off = abs(cells["integral"] / cells["counted"] - 1)
        text = "the interval throughputs do not integrate to the operations counted between the status lines"
        amber = text if off > _SERIES else ""
        yield about(cells, expected, stated, "the series integrates to the total", amber=amber, weight=off)


def run_length(tables: RunTables) -> Iterator[Weighted]:
    """Run time × sampling rate is the number of samples of iostat and of the status lines."""
    for run in tables.finished().iter_rows(named=True):
        # A client that is to run for 30 s ends a few milliseconds earlier or later.
        samples = round(run["runtime_ms"] / 1e3 * DEFAULT_SAMPLING_HZ)
        stated = f"{readable(run['runtime_ms'] / 1e3)} s"
        expected = f"at least {readable(ENOUGH_SAMPLES / DEFAULT_SAMPLING_HZ)} s"
        series = f"about {counted(samples, 'sample')} per second-by-second series"
        text = f"{series}: start-up has a large weight, utilisation is coarse"
        amber = text if samples < ENOUGH_SAMPLES else ""
        yield about(run, expected, stated, "long enough", amber=amber, weight=-samples)


def iterations(tables: RunTables) -> Iterator[Weighted]:
    """Fewer than three repetitions give no usable interval."""
    for row, values in _repetitions(tables):
        n = len(values)
        amber = "too few repetitions for a meaningful interval" if n < _FEW else ""
        yield about(row, f"{_FEW} or more", f"n = {n}", "repeated", amber=amber, weight=-n)


def interval_resolution(tables: RunTables) -> Iterator[Weighted]:
    """A mean of few scattered runs cannot support a claim of no difference."""
    for row, values in _repetitions(tables):
        if len(values) < _FEW:
            continue
        half = mean_interval(values).relative_half_width
        stated = f"± {percent(half, 1)} at n = {len(values)}"
        text = "smaller differences of the mean, or their absence, cannot be shown (Student's t)"
        amber = text if half > _COARSE else ""
        yield about(row, f"± {percent(_COARSE)} or better", stated, "well known", amber=amber, weight=half)


def _repetitions(tables: RunTables) -> Iterator[tuple[Cells, list[float]]]:
    """Each configuration with the throughputs of its successful runs; runs of unknown work have none."""
    usable = with_operations(tables.finished().filter(pl.col("status") == "ok")).drop_nulls("operation")
    usable = usable.with_columns(_several=pl.col("set_up").n_unique().over("resource") > 1)
    groups = usable.group_by(*_REPEATED, "_several", maintain_order=True).agg(pl.col("throughput_ops_s"))
    for cells in groups.iter_rows(named=True):
        yield {"resource": cells["resource"], "run_id": _configuration(cells)}, cells["throughput_ops_s"]


def _configuration(cells: Cells) -> str:
    sizes = [(cells[name], name) for name in ("threads", "workers", "drivers") if cells[name] is not None]
    counted = [f"{size} {name.removesuffix('s') if size == 1 else name}" for size, name in sizes]
    work = " ".join(str(cells[name]) for name in ("phase", "workload") if cells[name])
    return ", ".join([*([str(cells["set_up"])] if cells["_several"] else []), work, *counted])


#: Checks of runs by their names, in the order in which findings are listed.
RUN_CHECKS: Final[dict[str, Callable[[RunTables], Iterator[Weighted]]]] = {
    one.__name__: one
    for one in (
        *(run_status, client_totals, throughput_identity, parts_add_up, littles_law, percentiles_ordered),
        *(coarse_percentiles, percentile_label, measurement_interval, coordinated_omission, series_add_up),
        *(possible_values, run_length, iterations, interval_resolution),
    )
}
