"""Logs and samples beside the outputs of load generators: their iteration, their node, and what is left unknown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from tests.recordings import copy_recordings

from .outputs import write_ycsb

IOSTAT = (
    "Linux 6.1.0 (db1)  03/01/2026  _x86_64_  (2 CPU)\n\n"
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
    "           1.00    0.00    1.00    0.00    0.00   98.00\n\n"
)
LOG = "2026-08-07 17:37:57.001 UTC [652] LOG:  duration: 12.500 ms  statement: SELECT 1\n"
Placed = dict[str, tuple[str, int | None, str | None]]


def placed(tree: Path) -> Placed:
    """Resource, iteration and node of each file that is no output."""
    found = ca.inspect(tree).files
    return {
        file.relative: (file.identity.resource, file.identity.iteration, file.identity.node)
        for file in found
        if file.format and file.format.name in ("pglog", "iostat", "pg_dist_node")
    }


def write(tree: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def results(tree: Path, *names: str) -> None:
    for number, name in enumerate(names):
        write_ycsb(tree / name, 16, 1000, f"10:{number:02}:00")


@pytest.mark.parametrize(
    ("outputs", "others", "expected"),
    [
        pytest.param(
            ("w1_t16/r1/ycsb.log", "w1_t16/r2/ycsb.log", "w2_t16/r1/ycsb.log", "w2_t16/r2/ycsb.log"),
            {f"w2_t16/r{run}/{name}": LOG for run in (1, 2) for name in ("worker1.log", "worker2.log")}
            | {"w2_t16/r1/iostat-coordinator.txt": IOSTAT},
            {
                "w2_t16/r1/worker1.log": ("w2_t16", 1, "1"),
                "w2_t16/r1/worker2.log": ("w2_t16", 1, "2"),
                "w2_t16/r2/worker1.log": ("w2_t16", 2, "1"),
                "w2_t16/r2/worker2.log": ("w2_t16", 2, "2"),
                # The only one of its kind may be of all repeats.
                "w2_t16/r1/iostat-coordinator.txt": ("w2_t16", None, "0"),
            },
            id="beside each run",
        ),
        pytest.param(
            ("out/ycsb_t8_r1.log", "out/ycsb_t8_r2.log"),
            {f"out/iostat{name}.txt": IOSTAT for name in ("_t8_r1", "_t8_r2", "_t8_r3", "")},
            {
                "out/iostat_t8_r1.txt": ("out", 1, None),
                "out/iostat_t8_r2.txt": ("out", 2, None),
                # No run has this number: it is of none that is here.
                "out/iostat_t8_r3.txt": ("out", None, None),
                "out/iostat.txt": ("out", None, None),
            },
            id="named as the run is",
        ),
        pytest.param(
            ("out/ycsb_w2_r1.log", "out/ycsb_w4_r1.log"),
            {"out/iostat_w2_r1.txt": IOSTAT, "out/iostat_w3_r1.txt": IOSTAT},
            {"out/iostat_w2_r1.txt": ("out", 1, None), "out/iostat_w3_r1.txt": ("out", None, None)},
            id="a number of workers is no node",
        ),
        pytest.param(
            ("results/r1/ycsb.log", "results/r2/ycsb.log"),
            {"logs/citus-worker-0.log": LOG, "logs/citus-worker-1.log": LOG, "logs/coordinator.log": LOG},
            {
                "logs/citus-worker-0.log": ("results", None, "1"),
                "logs/citus-worker-1.log": ("results", None, "2"),
                "logs/coordinator.log": ("results", None, "0"),
            },
            id="a folder of logs",
        ),
        pytest.param(
            ("results/r1/ycsb.log",),
            {"node0/postgresql.log": LOG, "node1/postgresql.log": LOG},
            {"node0/postgresql.log": ("results", 1, "0"), "node1/postgresql.log": ("results", 1, "1")},
            id="a folder for each node",
        ),
        pytest.param(
            ("cluster-a/r1/ycsb.log",),
            {"cluster-b/worker1.log": LOG, "postgresql-Mon.log": LOG},
            {"cluster-b/worker1.log": ("cluster-b", None, "1"), "postgresql-Mon.log": ("cluster-a", 1, None)},
            id="another system",
        ),
        pytest.param(
            ("a/r1/ycsb.log", "b/r1/ycsb.log"),
            {"logs/worker1.log": LOG},
            {"logs/worker1.log": ("logs", None, "1")},
            id="of one of two systems",
        ),
    ],
)
def test_where_a_file_belongs(
    tmp_path: Path, outputs: tuple[str, ...], others: dict[str, str], expected: Placed
) -> None:
    results(tmp_path, *outputs)
    write(tmp_path, **others)
    assert placed(tmp_path) == expected


def test_a_written_description_says_the_same(tmp_path: Path) -> None:
    results(tmp_path, "results/r1/ycsb.log", "results/r2/ycsb.log")
    write(tmp_path, **{f"results/r{run}/worker{node}.log": LOG for run in (1, 2) for node in (1, 2)})
    write(tmp_path, **{"logs/coordinator.log": LOG})
    found = placed(tmp_path)
    assert found["results/r2/worker1.log"] == ("results", 2, "1")
    assert found["logs/coordinator.log"] == ("results", None, "0")
    (tmp_path / "identity.yml").write_text(ca.inspect(tmp_path).identity_yml())
    assert placed(tmp_path) == found


def test_statements_of_a_cluster_are_traced_in_a_tree_without_our_names(tmp_path: Path) -> None:
    """As exactly as in the tree of the study, from which the files are."""
    study = copy_recordings(tmp_path / "study", "w2-t16-insert")
    (recorded,) = study.iterdir()
    own = tmp_path / "own" / "my cluster"
    for iteration in (1, 2):
        folder = own / f"rep{iteration}"
        folder.mkdir(parents=True)
        (output,) = recorded.glob(f"YCSB/raw/load_*_{iteration}_2_w2-t16-insert_*")
        output.rename(folder / "ycsb.out.zst")
        (recorded / f"general/worker-0-{iteration}.out.zst").rename(folder / "iostat-coordinator.zst")
        for node in (1, 2):
            (recorded / f"pglogs/PGLOG-{node}-{iteration}.log.zst").rename(folder / f"worker-{node}.log.zst")
    (recorded / "pg_dist_node.csv").rename(own / "pg_dist_node.csv")
    ca.ingest(tmp_path / "own", tmp_path / "out")
    dataset = ca.open_dataset(tmp_path / "out")
    statements = dataset.statements().filter(pl.col("executed") == "remote")
    counts = statements.group_by("run_id", "iteration", "match").len().sort("iteration").rows()
    assert [row[1:3] for row in counts] == [(1, "exact"), (2, "exact")]
    assert sum(row[3] for row in counts) > 100
    assert dataset.cpu_samples().group_by("node", "iteration").len().height == 2
