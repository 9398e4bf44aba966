"""What load generators print of a run, read off their text a second time by plain expressions."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from tests.formats.printed import Printed, Rows, added, metric, only, rounded

_N: Final = r"([0-9]+(?:\.[0-9]+)?(?:E[0-9]+)?)"


def _all(text: str, pattern: str) -> list[str]:
    return re.findall(pattern, text, re.MULTILINE)


def _ycsb(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """Lines of text, or the same as JSON."""
    between = r'(?:\], |"? ?, ?"measurement" ?: ?")'
    value = rf'(?:, |"? ?, ?"value" ?: ?){_N}'
    for name, column in (("RunTime(ms)", "runtime_ms"), ("Throughput(ops/sec)", "throughput_ops_s")):
        for printed in _all(text, rf"OVERALL{between}{re.escape(name)}{value}"):
            yield Printed(name, float(printed), only(rows, "clients", column))
            if column == "throughput_ops_s" and not rows["clients"]["failed_operations"].item():
                took = only(rows, "clients", "runtime_ms") / 1000
                yield Printed("operations", float(printed) * took, only(rows, "clients", "operations_done"))
    counted = rows["client_histogram"].group_by("section").agg(pl.col("count").sum())
    for section, count in counted.iter_rows():
        for printed in _all(text, rf"^\[{re.escape(section)}\], Operations, {_N}"):
            yield Printed(f"{section} histogram", float(printed), count)
    for last in _all(text, rf"sec: {_N} operations; ")[-1:]:
        told = rows["client_series"]["operations_total"].drop_nulls()
        yield Printed("last status", float(last), told[-1] if len(told) else float("nan"))


def _pgbench(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    for tps in _all(text, rf"^tps = {_N} \((?:excluding|without|including reconn)"):
        yield Printed("tps", float(tps), only(rows, "clients", "throughput_ops_s"))
    for done in _all(text, r"^number of transactions actually processed: ([0-9]+)"):
        yield Printed("processed", float(done), only(rows, "clients", "operations_done"))
        scripts = rows["client_metrics"].filter(pl.col("metric") == "transactions", pl.col("unit").is_null())
        if scripts.height:
            yield Printed("of all scripts", float(done), float(scripts["value"].sum()))
    for failed in _all(text, r"^number of failed transactions: ([0-9]+)"):
        yield Printed("failed", float(failed), only(rows, "clients", "failed_operations"))
    progress = _all(text, rf"^progress: [0-9.]+ s?,? ?{_N} tps")
    yield Printed("progress", sum(map(float, progress)), added(rows, "client_series", "throughput_ops_s"))


def _sysbench(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """With checkpoints, a report counts from the one before it."""
    transactions = _all(text, r"^    transactions: +([0-9]+)")
    events = sum(map(int, transactions or _all(text, r"^    total number of events: +([0-9]+)")))
    if not rows["clients"]["completed"].any():
        return
    for tps in _all(text, rf'"threads": 0,\n    "tps": {_N}') + _all(text, rf"^[0-9]+,0,{_N},"):
        yield Printed("rate of the run", float(tps), only(rows, "clients", "throughput_ops_s"))
    if events:
        yield Printed("events", events, only(rows, "clients", "operations_done"))
    if rows["client_histogram"].height:
        yield Printed("histogram", events, added(rows, "client_histogram", "count"))
    for seconds in _all(text, rf"^    (?:total time|time elapsed): +{_N}s")[-1:]:
        yield rounded("time", seconds, only(rows, "clients", "runtime_ms"), 1000.0)
    kinds = rows["client_metrics"].filter(pl.col("metric").str.contains("^queries: (?:read|write|other)$"))
    queries = sum(map(int, _all(text, r"^        total: +([0-9]+)$")))
    yield Printed("queries", queries, float(kinds["value"].sum()))
    lines = _all(text, rf"^\[ *[0-9]+s ?\] (?:th[a-z]+: [0-9]+,? )?(?:tps|eps): {_N}")
    hooks = _all(text, rf'"threads": [1-9][0-9]*,\n    "tps": {_N}') + _all(text, rf"^[0-9]+,[1-9][0-9]*,{_N},")
    rates = map(float, lines + hooks)
    yield Printed("intervals", sum(rates), added(rows, "client_series", "throughput_ops_s"))


def _hammerdb(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """The database is asked for what its console said, the time profile for the calls of each user."""
    if path.suffix == ".DB":
        with sqlite3.connect(path) as database:
            text = "\n".join(str(line) for (line,) in database.execute("SELECT output FROM JOBOUTPUT"))
        database.close()
    for nopm, tpm in re.findall(r"System achieved ([0-9]+) NOPM from ([0-9]+)", text):
        yield Printed("NOPM", float(nopm), metric(rows, "OVERALL", "NOPM"))
        yield Printed("TPM", float(tpm), metric(rows, "OVERALL", "TPM"))
        yield Printed("TPM as throughput", float(tpm) / 60, only(rows, "clients", "throughput_ops_s"))
    users = text.partition(">>>>> SUMMARY")[0]
    for name in set(re.findall(r"PROC: ([A-Z]+)", users)):
        calls = re.findall(rf"PROC: {name}\nCALLS: ([0-9]+)", users)
        yield Printed(f"calls of {name}", sum(map(int, calls)), metric(rows, name, "CALLS"))


def _benchbase(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """The summary; and of the windows and single latencies, that they are as many as it counts."""
    summary = path.with_name(re.sub(r"\.(?:samples|raw)\.csv$", ".summary.json", path.name))
    if not summary.name.endswith(".summary.json") or not summary.is_file():
        return
    told = json.loads(summary.read_text(encoding="utf-8"))
    requests = told["Measured Requests"]
    if path.name.endswith(".samples.csv"):
        yield Printed("requests of all windows", requests, added(rows, "client_series", "operations"))
    elif path.name.endswith(".raw.csv"):
        latencies = rows["client_latencies"]["latency_us"]
        yield Printed("requests", requests, len(latencies))
        largest = told["Latency Distribution"]["Maximum Latency (microseconds)"]
        yield Printed("longest", largest, float(latencies.to_numpy().max()))
    elif path == summary:
        failed = rows["clients"]["failed_operations"].item() or 0
        yield Printed("requests", requests, only(rows, "clients", "operations_done") + failed)
        yield Printed("ns", told["Elapsed Time (nanoseconds)"], only(rows, "clients", "runtime_ms") * 1e6, 1e6)
        rate = told["Throughput (requests/second)"]
        yield Printed("rate", rate, only(rows, "clients", "throughput_ops_s"))


def _go_tpc(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """In each of its three styles."""
    for name, number in (("tpmC", 1), ("tpmTotal", 2)):
        styles = rf"^tpmC: {_N}, tpmTotal: {_N}|^\|  +{_N} \|  +{_N} \|  +[0-9.]+% \|"
        found = [[value for value in groups if value][number - 1] for groups in re.findall(styles, text, re.MULTILINE)]
        for value in found + _all(text, rf'"{name}":"{_N}"'):
            yield Printed(name, float(value), metric(rows, "OVERALL", name))
    if "[Summary]" in text:
        plain = re.findall(r"^\[Summary\] (\w+) - .*?Count: ([0-9]+)", text, re.MULTILINE)
        table = re.findall(r"^\| \[Summary\] +\| (\w+) +\| +[0-9.]+ \| +([0-9]+) ", text, re.MULTILINE)
        objects = [one for line in _all(text, r"^(\[\{.*\[Summary\].*\])$") for one in json.loads(line)]
        counts = [*plain, *table, *((one["Operation"], one["Count"]) for one in objects)]
        done = sum(int(count) for name, count in counts if not name.endswith("_ERR"))
        yield Printed("transactions", done, only(rows, "clients", "operations_done"))


def _go_ycsb(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """`TOTAL` counts the read and the update of a READ_MODIFY_WRITE; YCSB counts the whole once."""
    summary = text.partition("Run finished")[2]
    lines = r"^(?:\| )?([A-Z_]+) +(?:- Takes.*?Count: |\| +[0-9.]+ \| +)([0-9]+)"
    objects = [(name, count) for count, name in re.findall(r'"Count":"([0-9]+)".*?"Operation":"(\w+)"', summary)]
    counts = dict(re.findall(lines, summary, re.MULTILINE) + objects)
    if "TOTAL" in counts:
        total, both = int(counts["TOTAL"]), int(counts.get("READ_MODIFY_WRITE", 0))
        yield Printed("operations", total - both, only(rows, "clients", "operations_done"))
        errors = sum(int(count) for name, count in counts.items() if name.endswith("_ERROR"))
        yield Printed("errors", errors, only(rows, "clients", "failed_operations"))


def _hdrhistogram(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    """The longest latency of each interval stands in front of its histogram, in most logs in millions of its unit."""
    longest = [float(value) for value in _all(text, rf",{_N},HIST")]
    if any(longest):
        last = rows["client_histogram"].sort("bucket_high_us").row(-1, named=True)
        middle = (last["bucket_low_us"] + last["bucket_high_us"]) / 2
        yield Printed("longest", max(longest), middle, middle - last["bucket_low_us"])


def _explain(path: Path, text: str, rows: Rows) -> Iterator[Printed]:
    for name, column in (("Planning", "planning_us"), ("Execution", "execution_us")):
        times = re.findall(rf'^[ "]{{0,6}}{name} Time"?: {_N}', text, re.MULTILINE)
        if rows["plans"].height == len(times) == 1:
            yield rounded(name, times[0], only(rows, "plans", column), 1000.0)


#: Format -> what its files print of the whole.
TOTALS: Final[Mapping[str, Callable[[Path, str, Rows], Iterator[Printed]]]] = {
    "ycsb": _ycsb,
    "pgbench": _pgbench,
    "sysbench": _sysbench,
    "hammerdb": _hammerdb,
    "benchbase": _benchbase,
    "go_tpc": _go_tpc,
    "go_ycsb": _go_ycsb,
    "hdrhistogram": _hdrhistogram,
    "explain": _explain,
}
