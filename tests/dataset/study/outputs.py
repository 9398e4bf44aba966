"""Outputs of load generators, as short as they can be read."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

_PGBENCH = """\
pgbench (15.4)
starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: {scale}
query mode: simple
number of clients: {clients}
number of threads: {clients}
maximum number of tries: 1
duration: 30 s
number of transactions actually processed: {count}
number of failed transactions: 0 (0.000%)
latency average = 1.000 ms
initial connection time = 5.123 ms
tps = {rate:.6f} (without initial connection time)
"""
_YCSB = """\
Command line: -t -db site.ycsb.db.JdbcDBClient -P workloads/workload{workload} -threads {clients} -s
{begin:%Y-%m-%d %H:%M:%S}:123 0 sec: 0 operations; est completion in 0 second
{end:%Y-%m-%d %H:%M:%S}:123 20 sec: {count} operations; {rate} current ops/sec;
[OVERALL], RunTime(ms), 20000
[OVERALL], Throughput(ops/sec), {rate}
[READ], Operations, {count}
[READ], AverageLatency(us), 100.0
[READ], MinLatency(us), 10
[READ], MaxLatency(us), 1000
[READ], 95thPercentileLatency(us), 200
[READ], 99thPercentileLatency(us), 300
[READ], Return=OK, {count}
"""


def write_pgbench(path: Path, clients: int, rate: float, scale: int = 10) -> None:
    """The report of pgbench, which has no times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_PGBENCH.format(clients=clients, rate=rate, count=round(rate * 30), scale=scale))


def write_ycsb(path: Path, clients: int, rate: float, begin: str, workload: str = "c") -> None:
    """The output of YCSB, which has times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start = datetime.fromisoformat(f"2026-08-02 {begin}")
    end = start + timedelta(seconds=20)
    text = _YCSB.format(clients=clients, rate=rate, count=round(rate * 20), begin=start, end=end, workload=workload)
    path.write_text(text)
