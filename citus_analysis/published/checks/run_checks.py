"""Checks of the runs in a dataset, whose findings head every report.

Each check takes :class:`RunTables` and yields a finding per run or configuration; :data:`RUN_CHECKS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import polars as pl

from citus_analysis.operations import INTENDED, is_counted_once
from citus_analysis.published.checks._registry import Severity
from citus_analysis.published.checks._run_tables import Cells, RunTables, Weighted, about
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
    name
    for name in ("resource", "set_up", *CONFIGURATION, "rate_limited", "target_ops_s")
    if name in TABLES["runs"].names()
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
        if run["status"] != "ok":
            unless = " that does not allow it" if run["status"] == "degraded" else ""
            text = f"{run['status']}: not part of any statistic{unless}"
            yield about("amber", "run_status", run, "ok", run["status_reason"] or run["status"] or "unknown", text)
        else:
            text = run["status_reason"] or "every planned operation succeeded"
            yield about("green", "run_status", run, "ok", "ok", text)


def client_totals(tables: RunTables) -> Iterator[Weighted]:
    """The totals that a client prints are the sums of the parts that it prints."""
    expected = "totals that are the sums of their parts"
    for run in tables.runs.iter_rows(named=True):
        if run["notes"]:
            text = "the client's output contradicts itself"
            yield about("amber", "client_totals", run, expected, run["notes"], text)
        else:
            text = "no total contradicts its parts"
            yield about("green", "client_totals", run, expected, "no contradiction", text)


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
        severity: Severity = "green"
        text = "they agree"
        if implied > high and (run["drivers"] or 1) > 1:
            severity = "amber"
            excess = percent(implied / done - 1, 1) if done else "all of it"
            text = f"the load generators did not run at the same time throughout: their sum is too large by {excess}"
        elif not low <= implied <= high:
            severity, text = "red", "throughput × run time is not the number of operations that were done"
        elif implied > done * (1 + _SUMS):
            severity, text = "amber", f"the client's throughput counts {readable(failed)} failed operations"
        yield about(severity, "throughput_identity", run, f"{readable(done)} operations", stated, text, implied - done)


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
            off = abs(total / added - 1) > _SUMS
            severity: Severity = "red" if off else "green"
            generators = counted(run["parts"], "load generator")
            text = f"{name} over {generators} {'does not add' if off else 'adds'} up"
            yield about(severity, "parts_add_up", run, readable(added), readable(total), text)


def littles_law(tables: RunTables) -> Iterator[Weighted]:
    """The time spent in operations over the run time is the number of threads that waited for the system."""
    throttled = set(tables.clients.filter("rate_limited", role="main")["run_id"])
    for run in concurrency(tables.finished(), tables.operation_latencies).iter_rows(named=True):
        if not run["threads"] or not run["in_system"]:
            continue
        share = run["share_in_system"]
        stated = f"{readable(run['in_system'])} of {counted(run['threads'], 'thread')} in the system"
        expected = f"at most {counted(run['threads'], 'thread')}"
        if run["contradicts"]:
            text = "the operations took more time than all threads had"
            yield about("red", "littles_law", run, expected, stated, text)
        elif share < BUSY and run["run_id"] not in throttled:
            text = (
                f"the threads waited for the system {percent(share)} of the run; "
                "the rest is start-up and the client itself"
            )
            yield about("amber", "littles_law", run, f"{percent(BUSY)} or more", stated, text, -share)
        else:
            text = "throttled by the client's target" if share < BUSY else "the threads waited for the system"
            yield about("green", "littles_law", run, expected, stated, text, -share)


def percentiles_ordered(tables: RunTables) -> Iterator[Weighted]:
    """Minimum ≤ percentiles ≤ maximum, and the mean between minimum and maximum."""
    for cells in tables.operation_latencies.filter(role="main").iter_rows(named=True):
        known = [(name, cells[name]) for name in _PERCENTILES if cells[name] is not None]
        wrong = next(((a, b) for a, b in pairwise(known) if a[1] > b[1] + _slack(a[1], b[1])), None)
        ends = dict(known)
        mean = cells["mean_us"]
        outside = mean is not None and not ends.get("min_us", mean) <= mean <= ends.get("max_us", mean)
        stated = ", ".join(f"{name.removesuffix('_us')} {readable(value)}" for name, value in known)
        row = {**cells, "run_id": f"{cells['run_id']} {cells['operation']}"}
        if wrong or outside:
            text = f"{wrong[0][0]} exceeds {wrong[1][0]}" if wrong else "the mean lies outside minimum and maximum"
            yield about("red", "percentiles_ordered", row, "growing percentiles", f"{stated} µs", text)
        elif len(known) > 1:
            yield about("green", "percentiles_ordered", row, "growing percentiles", f"{stated} µs", "they grow")


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
        row = {**cells, "run_id": f"{cells['run_id']} {cells['operation']}"}
        name, least = min(known.items(), key=lambda item: item[1])
        stated, expected = (
            f"{name.removesuffix('_us')} {readable(least / 1e3)} ms",
            f"{readable(_BUCKET_US / _WIDE / 1e3)} ms or more",
        )
        share = _BUCKET_US / max(least, _BUCKET_US)
        if share > _WIDE:
            text = "the buckets of its histogram are 1 ms wide; measure with measurementtype=hdrhistogram"
            yield about("amber", "coarse_percentiles", row, expected, stated, text, share)
        else:
            yield about("green", "coarse_percentiles", row, expected, stated, "1 ms is small beside it", share)


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
            yield _beside_intended({**run, "run_id": f"{run['run_id']} {name}"}, own[name], intended)


def _without_intended(run: Cells, tool: str) -> Weighted:
    """Latencies of one kind only; which it is depends on the tool."""
    name, expected = "coordinated_omission", "intended latencies"
    if tool == "pgbench":
        # pgbench.c, processXactStats(): latency = now - txn_scheduled
        text = "pgbench counts latencies from when transactions were due (--rate)"
        return about("green", name, run, expected, "intended ones", text)
    omission = "operations delayed by a slow one look fast (coordinated omission)"
    if tool == "ycsb":
        text = f"latencies count from when operations were sent: {omission}; run YCSB with measurement.interval=both"
        return about("amber", name, run, expected, "actual ones only", text)
    text = (
        f"{tool} does not say whether they count from when operations were due; if from when they were sent, {omission}"
    )
    return about("amber", name, run, expected, "of unknown kind", text)


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
    if late > _LATE:
        text = "operations began after they were due: users wait for the intended latency, not the actual one"
        return about("amber", "coordinated_omission", row, f"intended {texts[0]}", f"actual {texts[1]}", text, late)
    text = "operations began when they were due"
    return about("green", "coordinated_omission", row, f"intended {texts[0]}", f"actual {texts[1]}", text, late)


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
        if off > _SERIES:
            text = "the interval throughputs do not integrate to the operations counted between the status lines"
            yield about("amber", "series_add_up", cells, expected, stated, text, off)
        else:
            yield about("green", "series_add_up", cells, expected, stated, "the series integrates to the total", off)


def run_length(tables: RunTables) -> Iterator[Weighted]:
    """Run time × sampling rate is the number of samples of iostat and of the status lines."""
    for run in tables.finished().iter_rows(named=True):
        # A client that is to run for 30 s ends a few milliseconds earlier or later.
        samples = round(run["runtime_ms"] / 1e3 * DEFAULT_SAMPLING_HZ)
        stated = f"{readable(run['runtime_ms'] / 1e3)} s"
        expected = f"at least {readable(ENOUGH_SAMPLES / DEFAULT_SAMPLING_HZ)} s"
        if samples < ENOUGH_SAMPLES:
            series = f"about {counted(samples, 'sample')} per second-by-second series"
            text = f"{series}: start-up has a large weight, utilisation is coarse"
            yield about("amber", "run_length", run, expected, stated, text, -samples)
        else:
            yield about("green", "run_length", run, expected, stated, "long enough", -samples)


def iterations(tables: RunTables) -> Iterator[Weighted]:
    """Fewer than three repetitions give no usable interval."""
    for row, values in _repetitions(tables):
        n, expected = len(values), f"{_FEW} or more"
        if n < _FEW:
            text = "too few repetitions for a meaningful interval"
            yield about("amber", "iterations", row, expected, f"n = {n}", text, -n)
        else:
            yield about("green", "iterations", row, expected, f"n = {n}", "repeated", -n)


def interval_resolution(tables: RunTables) -> Iterator[Weighted]:
    """A mean of few scattered runs cannot support a claim of no difference."""
    for row, values in _repetitions(tables):
        if len(values) < _FEW:
            continue
        interval = mean_interval(values)
        half = interval.relative_half_width
        wanted = f"± {percent(_COARSE)} or better"
        stated = f"± {percent(half, 1)} at n = {len(values)}"
        if half > _COARSE:
            text = "smaller differences of the mean, or their absence, cannot be shown (Student's t)"
            yield about("amber", "interval_resolution", row, wanted, stated, text, half)
        else:
            yield about("green", "interval_resolution", row, wanted, stated, "well known", half)


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


#: Checks of runs, in the order in which findings are listed.
RUN_CHECKS: Final[dict[str, Callable[[RunTables], Iterator[Weighted]]]] = {
    "run_status": run_status,
    "client_totals": client_totals,
    "throughput_identity": throughput_identity,
    "parts_add_up": parts_add_up,
    "littles_law": littles_law,
    "percentiles_ordered": percentiles_ordered,
    "coarse_percentiles": coarse_percentiles,
    "percentile_label": percentile_label,
    "measurement_interval": measurement_interval,
    "coordinated_omission": coordinated_omission,
    "series_add_up": series_add_up,
    "possible_values": possible_values,
    "run_length": run_length,
    "iterations": iterations,
    "interval_resolution": interval_resolution,
}
