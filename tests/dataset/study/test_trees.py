"""Trees as people name them: the runs, their facts and the throughput are those that their authors meant."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca

from .outputs import write_pgbench, write_ycsb

Rows = list[tuple[object, ...]]


def runs_of(tree: Path, out: Path, *columns: str) -> Rows:
    ca.ingest(tree, out)
    runs = ca.open_dataset(out).runs().select(columns)
    return sorted(runs.with_columns(pl.col(pl.Float64).round()).rows(), key=str)


def versions(tree: Path) -> None:
    for version, clients, repeat in product((15, 16), (4, 16), (1, 2)):
        write_pgbench(tree / f"pg{version}_c{clients}_r{repeat}.log", clients, version * clients)


def numbered_outputs(tree: Path) -> None:
    for workers, repeat in product((4, 8), (1, 2, 3)):
        write_pgbench(tree / f"results_{workers}_workers/64/output.{repeat}", 64, workers * 100)


def two_clients(tree: Path) -> None:
    for run, client in product((1, 2), (1, 2)):
        write_ycsb(tree / f"w2-t32/run{run}/client{client}.log", 16, 1000 * client, f"10:0{run}:00")


def two_clients_one_by_one(tree: Path) -> None:
    for client in (1, 2):
        write_ycsb(tree / f"client{client}.log", 16, 1000, f"10:0{client}:00")


def words_behind_numbers(tree: Path) -> None:
    for nodes, threads, run in product((2, 4), (8, 16), (1, 2)):
        name = f"citus-{nodes}nodes/ycsb_workloadc_{threads}threads_run{run}.txt"
        write_ycsb(tree / name, threads, nodes * 500, f"{nodes + 10}:{threads:02}:{run * 25}")


def equations(tree: Path) -> None:
    for nodes, threads, run in product((2, 4), (8, 16), (1, 2)):
        name = f"nodes={nodes}/threads={threads}/iter={run}/ycsb.log"
        write_ycsb(tree / name, threads, nodes * 500, f"{nodes + 10}:{threads:02}:{run * 25}")


def dated(tree: Path) -> None:
    for day, workers in product((2, 3), (2, 4)):
        write_ycsb(
            tree / f"2026-08-0{day}_12-00-00/w{workers}_t16/ycsb.out", 16, workers * 500, f"1{day}:0{workers}:00"
        )


def systems(tree: Path) -> None:
    for system, repeat in product(("citus", "yugabyte"), (1, 2)):
        write_pgbench(tree / f"{system}_3w_16c_{repeat}.log", 16, 1000 if system == "citus" else 700)


def unexplained_numbers(tree: Path) -> None:
    for number in (1, 2, 4):
        write_pgbench(tree / f"bench_{number}.log", 16, 1000 * number)


def parts_with_their_sum(tree: Path) -> None:
    for number, build in ((1, "base"), (2, "lto"), (3, "lto"), (4, "base")):
        for part in range(1, 5):
            write_pgbench(tree / f"b-{number:02}-{build}-64.p{part}.log", 16, 100 * len(build) + part)
        write_pgbench(tree / f"b-{number:02}-{build}-8.p1.log", 8, 50 * len(build) + number)


def parts_of_which_one_failed(tree: Path) -> None:
    for clients in (16, 32, 64):
        for part in range(1, clients // 16 + 1):
            if (clients, part) != (64, 3):
                write_pgbench(tree / f"b-{clients}.p{part}.log", 16, 100 + part)


def sums_by_chance(tree: Path) -> None:
    for part in range(1, 5):
        write_pgbench(tree / f"tables-64.p{part}.log", 16, 100 * part)


FACTS = ("set_up", "workers", "threads", "iteration", "drivers", "throughput_ops_s")
USUAL = "usual set-up"
TREES: dict[Callable[[Path], None], Rows] = {
    versions: [
        (f"pg{version}", None, clients, repeat, 1, float(version * clients))
        for version, clients, repeat in product((15, 16), (4, 16), (1, 2))
    ],
    numbered_outputs: [
        (USUAL, workers, 64, repeat, 1, workers * 100.0) for workers, repeat in product((4, 8), (1, 2, 3))
    ],
    two_clients: [(USUAL, 2, 32, run, 2, 3000.0) for run in (1, 2)],
    two_clients_one_by_one: [(USUAL, None, 16, run, 1, 1000.0) for run in (1, 2)],
    words_behind_numbers: [
        (USUAL, nodes, threads, run, 1, nodes * 500.0) for nodes, threads, run in product((2, 4), (8, 16), (1, 2))
    ],
    equations: [
        (USUAL, nodes, threads, run, 1, nodes * 500.0) for nodes, threads, run in product((2, 4), (8, 16), (1, 2))
    ],
    dated: [(USUAL, workers, 16, run, 1, workers * 500.0) for workers, run in product((2, 4), (1, 2))],
    systems: [
        (system, 3, 16, repeat, 1, rate)
        for (system, rate), repeat in product((("citus", 1000.0), ("yugabyte", 700.0)), (1, 2))
    ],
    parts_with_their_sum: [
        row
        for number, build in ((1, "base"), (2, "lto"), (3, "lto"), (4, "base"))
        for row in (
            (build, None, 64, number, 4, 400.0 * len(build) + 10),
            (build, None, 8, number, 1, 50.0 * len(build) + number),
        )
    ],
    parts_of_which_one_failed: [
        (USUAL, None, 16, None, 1, 101.0),
        (USUAL, None, 32, None, 2, 203.0),
        *((f"64-p{part}", None, 16, None, 1, 100.0 + part) for part in (1, 2, 4)),
    ],
    sums_by_chance: [(f"p{part}", None, 16, None, 1, 100.0 * part) for part in range(1, 5)],
    unexplained_numbers: [(str(number), None, 16, None, 1, 1000.0 * number) for number in (1, 2, 4)],
}


@pytest.mark.parametrize("write", TREES, ids=lambda write: write.__name__)
def test_runs_are_those_of_the_design(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "results")
    assert runs_of(tmp_path / "results", tmp_path / "out", *FACTS) == sorted(TREES[write], key=str)


@pytest.mark.sharded(3)
@pytest.mark.parametrize("write", TREES, ids=lambda write: write.__name__)
def test_what_inspect_writes_states_the_same_design(write: Callable[[Path], None], tmp_path: Path) -> None:
    tree = tmp_path / "results"
    write(tree)
    found = ca.inspect(tree)
    (tree / "identity.yml").write_text(found.identity_yml())
    assert runs_of(tree, tmp_path / "out", *FACTS) == sorted(TREES[write], key=str)


def test_a_file_is_right_where_its_name_is_not(tmp_path: Path) -> None:
    for threads, repeat in product((4, 8, 16, 32), (1, 2)):
        own = 8 if (threads, repeat) == (16, 2) else threads
        write_pgbench(tmp_path / "tree" / f"t{threads}_r{repeat}.log", own, 1000)
    summary = ca.ingest(tmp_path / "tree", tmp_path / "out")
    assert "t16_r2.log: its name says 16 threads, the file itself 8" in summary.design
    runs = ca.open_dataset(tmp_path / "out").runs()
    assert runs.filter(pl.col("run_id").str.contains("t16_r2"))["threads"].to_list() == [8]


def write_reports(
    tree: Path, reports: dict[str, tuple[int, float]], seconds: int = 30, end: str = "without initial connection time"
) -> None:
    """Reports of pgbench: name -> clients and throughput."""
    for name, (clients, rate) in reports.items():
        write_pgbench(tree / name, clients, rate)
        text = (tree / name).read_text().replace("duration: 30 s", f"duration: {seconds} s")
        (tree / name).write_text(text.replace("without initial connection time", end))


def test_load_generators_without_times_are_added_if_they_ran_equally_long(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for size, rate in (("small", 2000.0), ("large", 500.0)):
        write_reports(tree, {f"{size}.log": (32, rate)}, 900)
        write_reports(tree, {f"{size}-driver-{n}.log": (16 if n else 64, rate / 2) for n in range(3)}, 300)
    summary = ca.ingest(tree, tmp_path / "out")
    found = ca.open_dataset(tmp_path / "out").runs().select("set_up", "threads", "drivers", "throughput_ops_s")
    assert sorted(found.rows()) == [
        ("large", 32, 1, 500.0),
        ("large", 96, 3, 750.0),
        ("small", 32, 1, 2000.0),
        ("small", 96, 3, 3000.0),
    ]
    assert any("their throughput is added" in line for line in summary.design)


def test_load_generators_that_ran_for_different_times_are_kept_apart(tmp_path: Path) -> None:
    for part in (1, 2, 3):
        write_reports(tmp_path / "tree", {f"tuned-par-{part}.log": (16, 1000.0)}, 60 * part)
    summary = ca.ingest(tmp_path / "tree", tmp_path / "out")
    assert sorted(ca.open_dataset(tmp_path / "out").runs()["set_up"]) == ["par1", "par2", "par3"]
    assert any("did they run together?" in line for line in summary.design)


@pytest.mark.parametrize(
    ("names", "rates", "why"),
    [
        ("{side}_config_{n}.txt", (100, 101, 99), "beside the word 'config'"),
        ("{side}-{n}.txt", (100, 200, 400), "results of a cell differ by up to 4"),
        ("{side}_thing_{n}.txt", (100, 120, 140), "results of a cell differ by up to 1.4"),
        ("{side}-{n}.txt", (100, 112, 106), "results differ by this number in the same way in each cell"),
    ],
)
def test_numbers_of_settings_are_no_repeats(names: str, rates: tuple[int, ...], why: str, tmp_path: Path) -> None:
    for side, factor in (("docker", 1.0), ("k8s", 0.8), ("host", 1.1)):
        reports = {names.format(side=side, n=n): (8, rate * factor) for n, rate in enumerate(rates, 1)}
        write_reports(tmp_path / "tree", reports)
    summary = ca.ingest(tmp_path / "tree", tmp_path / "out")
    runs = ca.open_dataset(tmp_path / "out").runs()
    assert runs["set_up"].n_unique() == runs.height == 9
    assert any(why in line and "state `iteration`" in line for line in summary.design)


def test_runs_of_other_conditions_are_no_repeats(tmp_path: Path) -> None:
    for side, rate in (("pd", 45.0), ("pg", 45.5)):
        write_reports(tmp_path / "tree", {f"{side}_run1.txt": (8, rate), f"{side}_run2.txt": (8, rate + 0.1)})
        write_reports(tmp_path / "tree", {f"{side}_run3.txt": (8, rate - 0.1)}, end="including reconnection times")
    found = runs_of(tmp_path / "tree", tmp_path / "out", "set_up", "iteration")
    assert found == [
        (set_up, iteration)
        for side in ("pd", "pg")
        for set_up, iteration in ((side, 1), (side, 2), (f"{side}-reconnecting", 3))
    ]


def test_dates_and_instance_types_are_whole(tmp_path: Path) -> None:
    dates = ("10182021_1208", "18-10-2021", "2021W42-1", "1634558880", "18Oct2021", "2021-10-18T12:08:00")
    for date, kind in product(dates, ("c5.2xlarge", "db.r6g.large", "n2-standard-8")):
        write_pgbench(tmp_path / "tree" / f"{kind}_{date}" / "out.log", 8, 1000)
    runs = runs_of(tmp_path / "tree", tmp_path / "out", "set_up", "iteration", "workers")
    assert runs == [
        (kind, number, None)
        for kind, number in product(("c5.2xlarge", "db.r6g.large", "n2-standard-8"), range(1, len(dates) + 1))
    ]


def test_stated_numbers_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write_reports(tree, {"a.log": (8, 1000.0), "b.log": (8, 1001.0)})
    (tree / "identity.yml").write_text('files:\n  - pattern: "*.log"\n    meta: {iteration: 1, set_up: base}\n')
    summary = ca.ingest(tree, tmp_path / "out")
    assert any("stated `iteration` is not used" in line for line in summary.design)


def test_stated_set_ups_keep_runs_apart(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for set_up, rate in (("base", 1000), ("tuned", 1200)):
        write_pgbench(tree / f"{set_up}.log", 32, rate)
        for part in (1, 2, 3):
            write_pgbench(tree / f"{set_up}-par-{part}.log", 16, rate)
    (tree / "identity.yml").write_text(
        'files:\n  - pattern: "{set_up}-par-{part}.log"\n    meta: {phase: run, workload: tpcb}\n'
        '  - pattern: "{set_up}.log"\n    meta: {phase: run, workload: tpcb}\n'
    )
    found = runs_of(tree, tmp_path / "out", "set_up", "threads", "drivers", "throughput_ops_s")
    assert found == [
        ("base", 32, 1, 1000.0),
        ("base", 48, 3, 3000.0),
        ("tuned", 32, 1, 1200.0),
        ("tuned", 48, 3, 3600.0),
    ]


def test_facts_that_were_read_off_names_are_named(tmp_path: Path) -> None:
    versions(tmp_path / "tree")
    assert runs_of(tmp_path / "tree", tmp_path / "out", "inferred")[0] == ("iteration, set_up",)


def two_sizes(tree: Path) -> None:
    for nodes, workers in product((2, 4), (8, 16)):
        write_pgbench(tree / f"n{nodes}_w{workers}_r1.log", 4, 100 * nodes + workers)


def replicas(tree: Path) -> None:
    for replica in (1, 3):
        write_pgbench(tree / f"r{replica}_c4.log", 4, 1000 * replica)


def transactions(tree: Path) -> None:
    for name, rate in (("select-c4", 1000), ("select-t2000", 900)):
        write_pgbench(tree / f"{name}.log", 4, rate)


def round_numbers(tree: Path) -> None:
    for rows in (20000000, 40000000):
        write_pgbench(tree / f"big-{rows}.log", 4, rows / 1000)


@pytest.mark.parametrize("write", [two_sizes, replicas, transactions, round_numbers], ids=lambda write: write.__name__)
def test_numbers_that_may_mean_something_else_keep_results_apart(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "tree")
    rows = runs_of(tmp_path / "tree", tmp_path / "out", "set_up", "workers", "throughput_ops_s")
    assert len({row[:2] for row in rows}) == len(rows) == len(list((tmp_path / "tree").iterdir()))


def test_folders_that_are_read_one_after_the_other_are_kept_apart(tmp_path: Path) -> None:
    for name, rate in (("pg15", 1000), ("pg16", 1200)):
        for repeat in (1, 2):
            write_pgbench(tmp_path / name / f"c4_r{repeat}.log", 4, rate)
        ca.ingest(tmp_path / name, tmp_path / "out")
    runs = ca.open_dataset(tmp_path / "out").runs()
    assert runs.group_by("set_up").agg(pl.col("throughput_ops_s").n_unique())["throughput_ops_s"].to_list() == [1, 1]
    again = ca.ingest(tmp_path / "pg16", tmp_path / "out")
    assert again.unchanged == again.files


def test_a_summary_beside_its_runs_is_to_be_audited(tmp_path: Path) -> None:
    write_reports(tmp_path / "raw", {f"c{clients}_r1.log": (clients, 100.0 * clients) for clients in (4, 8)})
    summary = tmp_path / "results.csv"
    summary.write_text("system,clients,tps\npostgresql,4,400\npostgresql,8,950\n")
    found = ca.inspect(tmp_path)
    assert [file.path for file in found.summaries] == [summary]
    assert f"citus-analysis audit {summary} --runs {tmp_path}" in str(found)


def test_names_of_archives_have_no_part_in_set_ups(tmp_path: Path) -> None:
    """Two archives of one study: their endings, and the folders that they are unpacked to, distinguish nothing."""
    tree = tmp_path / "study" / "0-raw-logs"
    tree.mkdir(parents=True)
    for host, clients in product(("aws", "own"), (100, 1000)):
        write_pgbench(tmp_path / host / f"bench{clients}.md", 16, clients + len(host))
    for host in ("aws", "own"):
        with tarfile.open(tree / f"{host}.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / host, arcname=host)
    found = runs_of(tmp_path / "study", tmp_path / "out", "set_up")
    assert found == [("aws-bench100",), ("aws-bench1000",), ("own-bench100",), ("own-bench1000",)]
