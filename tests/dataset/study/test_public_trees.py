"""Names of results in public repositories: what differs is kept apart, repeats are together.

Only the names are theirs, a part of each tree with the same factors; the outputs are ours.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import citus_analysis as ca

from .outputs import write_pgbench, write_ycsb


class Tree(NamedTuple):
    """Names, and the design that their authors meant.

    Attributes:
        repository: where they are.
        names: `{a,b}` stands for either.
        repeats: number of runs of a cell -> number of cells.
        threads: what the outputs say of themselves: the number that this pattern finds in the name, else 10.
        scale: the same of the scale.
        workers: those of all runs.
        ycsb: they are outputs of YCSB, one minute after the other; else of pgbench.
        together: outputs whose names are equal but for the number after the last slash ran at the same time.
    """

    repository: str
    names: tuple[str, ...]
    repeats: dict[int, int]
    threads: str = ""
    scale: str = ""
    workers: int | None = None
    ycsb: bool = False
    together: bool = False


TREES = (
    Tree("tvondra/kernel-bench",
         ("i5-2500k/{2.6.39,4.6-rc3}/{30,1500}/{1,2,3}/{read-only,read-write}-{1,16}.log",),
         {3: 16}, r"(\d+)\.log", r"/(\d+)/\d/"),
    Tree("Percona-Lab-results/THP-POSTGRESQL-2019",
         ("{10m,60m}/{disabled,enabled}-thp/{3000,7000}-{1,2,3}-{64,128}.html",), {3: 16}, r"(\d+)\.html", r"/(\d+)-"),
    Tree("vicovaro/LOG8430e-Big-Data-NoSQL-comparison",
         ("{cassandra,mongodb,redis}/{a,c,e}/outputRun{1,2,3}.txt",), {3: 9}, ycsb=True),
    Tree("NguyenVuAnNhan/YCSB-IVS-DATA",
         tuple(f"run_{run}_metrics/ycsb_postgresql_vacuum_{{full,notfull}}_zipfian_heavy_pure_run{run}.metrics"
               for run in (4, 5, 6)),
         {3: 2}, ycsb=True),
    Tree("greenBene/transactional-ycsb-benchmark",
         ("{foundationdb,mongodb,orientdb}_{load,e1,e2,e3,e4}.dat",), {1: 15}),
    Tree("mjonss/tidb-bench-dyn-vs-static",
         ("go-tpc.{prepare,10m,check}.no-partition.log", "go-tpc.{prepare,10m,check}.partitiontype.{1,2,3,4}.log"),
         {1: 15}),
    Tree("benchANT/aerospike-apache-cassandra-benchmark",
         ("calibration/aerospike_sow2-production_aws-{aerospike-ee-8004,cassandra-503}-200-threads_0_2fuqfOkP/0_run.txt",
          "calibration/aerospike_sow2-production_aws-{aerospike-ee-8004,cassandra-503}-250-threads_0_jIwNmqbx/0_run.txt"),
         {1: 4}, r"-(\d+)-threads", ycsb=True),
    Tree("benchANT/dbms-tracing-overhead",
         ("read-heavy/tracing_ycsb_mysql-8031-{default,native}-read-heavy_0_{ISQOJ3ed,id1vo4SW,qklGYX9W,ZFPYR10W,f9c4a2b,zfpyr10w}/0_run.txt",),
         {1: 12}, ycsb=True),
    Tree("benchANT/mongodb-vs-scylladb",
         ("caching/hotspot-distribution/caching-hotspot_{scylladb-medium_0_a9QhmOsa,mongodb-small_0_kWSyPGfs}/{0,1,2,3}_run.txt",),
         {1: 2}, ycsb=True, together=True),
    Tree("Percona-Lab-results/GR-Feb-2020",
         ("res-tpcc-{GR,no-GR,no-GR-mysql-8.0.18}-1/res_thr{1,16,64}.txt",), {1: 9}, r"thr(\d+)"),
    Tree("Percona-Lab-results/Aurora-May2020",
         ("res-tpcc-{Aurora,RDS}-3nodes-{5,10}tables-db.r5.xlarge-1/res_thr{1,16,100}.txt",),
         {1: 12}, r"thr(\d+)", workers=3),
    Tree("Percona-Lab-results/MyRocks-March-2021",
         ("res-oltp-beast-node1-ubuntu-2021-02-24-10-22/BP{30,60}.threads{150,20}/results.txt",), {1: 4}, r"BP\d(\d)"),
    Tree("Percona-Lab-results/PostgreSQL-Checkpoint-Jul2020", ("res.wal{1,10,100}G.chk{300,900}s.ssd.txt",), {1: 6}),
    Tree("hgxl64/mariadb-benchmarks",
         ("{latin1,utf8mb4}/res{01,04}/sysbench.ro.{long,short}.{1,16,128}.res",), {1: 24}, r"(\d+)\.res"),
    Tree("simonklee/sysbench-tools",
         ("result-{06-block_size,22-flush_log_at_trx_commit=0+sync_binlog=256}.cnf/sysbench.{32,64}.res",),
         {1: 4}, r"(\d+)\.res"),
    Tree("zecarlos94/OLTPBenchABD",
         ("Replication 2 servers test/{2,16} terminais/wal_buffers_{4,16}MB.conf/wal_buffers.conf.summary",),
         {1: 4}, r"(\d+) terminais"),
    Tree("felipebrgs1/pgbench_13x18beta",
         ("pgbench_{13,18}_{standard,readonly,prepared}_20250815_130830.log",), {1: 6}),
    Tree("rohannunu/go-ycsb-cs598-pebble",
         ("pebble{lru,clock}_wl{A,C}_density_zipfian_t{1,2,16}_ASYNC.out",), {1: 12}, r"_t(\d+)_"),
)  # fmt: skip


def expanded(names: str) -> list[str]:
    """All names that braces stand for."""
    parts = re.split(r"\{([^}]*)\}", names)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


def number(pattern: str, name: str, otherwise: int) -> int:
    found = re.search(pattern, name) if pattern else None
    return int(found[1]) if found else otherwise


def written(tree: Tree, folder: Path) -> list[str]:
    names = [name for one in tree.names for name in expanded(one)]
    minutes: dict[str, int] = {}
    for place, name in enumerate(names):
        threads = number(tree.threads, name, 10)
        if tree.ycsb:
            minute = minutes.setdefault(re.sub(r"/\d+(?=[^/]*$)", "/", name) if tree.together else name, len(minutes))
            write_ycsb(folder / name, threads, 1000 + place, f"{10 + minute // 60}:{minute % 60:02}:00")
        else:
            write_pgbench(folder / name, threads, 1000 + place, number(tree.scale, name, 10))
    return names


@pytest.mark.sharded(3)
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.repository.replace("/", " "))
def test_the_design_is_that_of_the_authors(tree: Tree, tmp_path: Path) -> None:
    names = written(tree, tmp_path / "results")
    ca.ingest(tmp_path / "results", tmp_path / "out")
    runs = ca.open_dataset(tmp_path / "out").runs()
    cell = ["system", "set_up", "phase", "workload", "workers", "threads", "records", "operations", "drivers"]
    contents = ca.open_dataset(tmp_path / "out").sql(
        "SELECT run_id, max(path) AS path FROM sources WHERE run_id IS NOT NULL GROUP BY run_id"
    )
    scales = {run: number(tree.scale, path, 10) for run, path in contents.rows()}
    counts = Counter((*row, scales[run]) for run, *row in runs.select("run_id", *cell).rows())
    assert dict(Counter(counts.values())) == tree.repeats
    assert runs["workers"].unique().to_list() == [tree.workers]
    drivers = 4 if tree.together else 1
    assert runs["drivers"].fill_null(1).unique().to_list() == [drivers]
    assert runs.height * drivers == len(names)
    assert runs["throughput_ops_s"].sum() == pytest.approx(sum(range(1000, 1000 + len(names))), rel=1e-3)
