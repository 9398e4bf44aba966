"""One number that a column cannot hold costs its line, never the file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints, format_named, formats

VMSTAT = (
    "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    " 1  0      0 1000 20 300    0    0     1     2    3    4  5  6 89  0  0\n"
    " 1  0      0 {} 20 300    0    0     1     2    3    4  5  6 89  0  0\n"
    " 2  0      0 1000 20 300    0    0     1     2    3    4  5  6 89  0  0\n"
)
IOSTAT = (
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           1.00    0.00    2.00    3.00    0.00   94.00\n"
    "\nDevice             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn\n"
    "vda    1.00 2.00 3.00 4 5\nvdb    {} 2.00 3.00 4 5\nvdc    1.00 2.00 3.00 4 5\n\n"
)
NODES = "nodeid,groupid,nodename,nodeport\n1,0,a,5432\n2,{},b,5432\n3,2,c,5432\n"
SHARDS = "logicalrelid,shardid,shardminvalue,shardmaxvalue\nt,1,-5,4\nt,2,{},9\nt,3,10,14\n"
OUTCOMES = "iteration,outcome,reason\n1,verified,\n{},failed,x\n3,verified,\n"
PGBENCH_LOG = "0 1 2241 0 1175850568 995598\n0 2 {} 0 1175850568 995599\n0 3 2241 0 1175850568 995600\n"
YCSB = "[OVERALL], RunTime(ms), 1000\n[READ], Operations, {}\n[READ], AverageLatency(us), 5.0\n"
RAW = "READ,1795210352805,1\nREAD,1795210352805,{}\nREAD,1795210352805,3\n"
PGBENCH = "transaction type: x\nscaling factor: 1\nnumber of clients: {}\nnumber of threads: 1\n"
SCRIPT = "".join(
    f"postgres 42 1.00000{n}: {count} cpu-clock:\n\t34d4d5 work+0xd5 (/usr/bin/postgres)\n\n"
    for n, count in enumerate(("100", "{}", "100"))
)

GO_YCSB = "Run finished, takes 5s\n" + "".join(
    f"READ - Takes(s): {n}.0, Count: {count}, OPS: 1.0, Avg(us): 5\n" for n, count in enumerate(("1", "{}", "3"))
)

#: Format, text with a gap, table, and how many rows it has where the gap holds no number.
FILES = [
    ("vmstat", VMSTAT, "vm_samples", 2),
    ("vmstat", VMSTAT, "cpu_samples", 2),
    ("iostat", IOSTAT, "device_samples", 2),
    ("pg_dist_node", NODES, "nodes", 2),
    ("pg_dist_shard", SHARDS, "shards", 2),
    ("run_outcomes", OUTCOMES, "outcomes", 2),
    ("pgbench_log", PGBENCH_LOG, "client_latencies", 2),
    ("ycsb", YCSB, "client_metrics", 2),
    ("ycsb", RAW, "client_latencies", 2),
    ("pgbench", PGBENCH, "client_metrics", 2),
    ("go_ycsb", GO_YCSB, "client_metrics", 8),
    ("perf_script", SCRIPT, "perf_stacks", 1),
]
NO_NUMBERS = {
    "overflow": "9" * 320,
    "endless": "9" * 400,
    "infinite": "1e999",
    "arabic": "\u0661\u0662",
    "full width": "\uff11\uff12",
    "mathematical": "\U0001d7d8",
}


@pytest.mark.parametrize("number", NO_NUMBERS)
@pytest.mark.parametrize(("name", "text", "table", "rows"), FILES, ids=[f"{f[0]}-{f[2]}" for f in FILES])
def test_the_line_is_rejected_and_the_rest_stays(
    tmp_path: Path, name: str, text: str, table: str, rows: int, number: str
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text.replace("{}", NO_NUMBERS[number]))
    pieces = list(format_named(name).parse(Content(path), Hints(path.name)))
    rejected = [row for piece in pieces for row in piece.frame("rejects").iter_rows(named=True)]
    assert sum(piece.frame(table).height for piece in pieces) == rows
    assert [row["excerpt"].count(NO_NUMBERS[number][:5]) > 0 for row in rejected] == [True]
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size


def test_a_node_whose_numbers_do_not_fit_is_a_setting_only(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text("nodes:\n  1: {node: 'a:99999999999', groupid: 18446744073709551616}\n  99999999999: {node: b}\n")
    [piece] = format_named("config").parse(Content(path), Hints(path.name))
    nodes = piece.frame("nodes")
    assert nodes.select("nodeid", "groupid", "host", "port").rows() == [(1, None, "a", None)]


@pytest.mark.parametrize("unit", ["-", "\n", "\r\n", " ", "9", "x-", "(", "S1-", '"', "1-1", "[A], ", "java ", "Dev "])
@pytest.mark.parametrize("before", ["", "# Samples: 1 of event 'x'\n# Overhead\n", "# Samples: 1 of event '{"])
def test_detection_takes_time_in_proportion_to_the_head(unit: str, before: str) -> None:
    head = (before.encode() + unit.encode() * 65_536)[:65_536]
    begin = time.perf_counter()
    for candidate in formats().values():
        candidate.detect("a.log", head)
    assert time.perf_counter() - begin < 3


CSVLOG = (
    '2026-11-20 21:03:47.877 UTC,"u","d",{pid},"h:1",65a1.62c,{line},"SELECT",2026-11-20 21:00:00 UTC,{vxid},0,LOG,'
    '00000,"duration: 1.500 ms",,,,,,,,,"psql","client backend",,0\n'
)


def test_a_csvlog_record_whose_transaction_has_no_number_does_not_cost_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    records = [(7, "3/4"), ("", "-1/0"), (8, "3/99999999999999999999"), (9, "")]
    path.write_text("".join(CSVLOG.format(pid=p, line=n, vxid=v) for n, (p, v) in enumerate(records, start=1)))
    pieces = list(format_named("pgcsvlog").parse(Content(path), Hints(path.name)))
    rows = [row for piece in pieces for row in piece.frame("log_events").select("pid", "session_line").rows()]
    assert [row for row in rows if row[1] != 3] == [(7, 1), (None, 2), (9, 4)]
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
